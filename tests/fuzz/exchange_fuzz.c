/* Any bytes as a file of processes: refused with a reason, or specs that survive being written and read again. The first byte
 * chooses the format. */
#include "proc/exchange.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *minimal_of(const json_t *specs)
{
    json_t *list = json_object(), *spec;
    const char *name;
    json_object_foreach ((json_t *)specs, name, spec)
        json_object_set_new(list, name, proc_spec_minimal(spec));
    return list;
}

static void write_and_read(const struct exchange *first)
{
    json_t *document CLEANUP_JSON = json_pack("{s:i, s:b, s:o, s:o}", "version", 1, "secrets", 1, "processes",
                                              minimal_of(first->processes), "templates", minimal_of(first->templates));
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct exchange again CLEANUP(exchange_clear) = {0};
    struct exchange_source from = {.name = "again", .format = EXCHANGE_YAML, .lang = LANG_EN};
    struct tsk_error err;
    exchange_write_yaml(&text, document);
    BUG(exchange_read(&from, buf_str(&text), text.len, &again, &err) < 0);
    BUG(!json_equal(first->processes, again.processes) || !json_equal(first->templates, again.templates));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum exchange_format formats[] = {EXCHANGE_AUTO, EXCHANGE_YAML, EXCHANGE_JSON, EXCHANGE_PROCFILE,
                                                   EXCHANGE_COMPOSE};
    if (!size)
        return 0;
    struct exchange_source from = {
        .name = "input", .format = formats[data[0] % 5], .cwd_base = "/base", .lang = LANG_EN};
    struct exchange found CLEANUP(exchange_clear) = {0};
    struct tsk_error err;
    char *text = calloc(1, size);
    BUG(!text);
    memcpy(text, data + 1, size - 1);
    if (exchange_read(&from, text, size - 1, &found, &err) == 0)
        write_and_read(&found);
    else
        BUG(err.code != TSK_INVALID_INPUT || !tsk_error_context(&err, "source"));
    free(text);
    return 0;
}
