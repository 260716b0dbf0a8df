/* Any bytes as a JSON document: refused, or a value that survives being written and read again. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Q1 of json_read.c. */
static void check_quick_reader(const char *text, size_t len)
{
    json_t *quick CLEANUP_JSON = json_read_plain(text, len);
    json_t *value CLEANUP_JSON = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    BUG(quick && !json_equal(quick, value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_quick_reader((const char *)data, size);
    struct tsk_error err;
    json_t *value CLEANUP_JSON = NULL;
    json_t *again CLEANUP_JSON = NULL;
    if (json_parse((const char *)data, size, "input", &value, &err) < 0) {
        json_t *document CLEANUP_JSON = json_of_error(&err, "en");
        BUG(!json_at(document, "error.context.line"));
        return 0;
    }
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, value, false);
    BUG(text.failed || json_parse(buf_str(&text), text.len, "again", &again, &err) < 0);
    json_at(value, "error.context.pid");
    return 0;
}
