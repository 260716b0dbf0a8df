/* print_own.c - owners of workflows for people. */
#include "base/who.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

const char *cli_owner_state(const struct cli_options *options, const json_t *wf)
{
    const json_t *alive = json_object_get(wf, "ownerAlive");
    return text_get(!json_get_string(wf, "ownerInstanceId", NULL) ? "owner_nobody"
                    : json_is_true(alive)                         ? "owner_alive"
                    : json_is_false(alive)                        ? "owner_dead"
                                                                  : "owner_unknown",
                    options->lang);
}

void cli_put_owner(struct buf *b, const json_t *wf)
{
    const char *owner = json_get_string(wf, "ownerInstanceId", "-");
    size_t before = b->len;
    who_put_label(b, json_object_get(wf, "who"));
    buf_printf(b, b->len > before ? " (%s)" : "%s", owner);
}

PRINTER(own_list, "own.list")
{
    const json_t *list = json_object_get(result, "workflows");
    if (json_array_size(list) == 0) {
        cli_print_none(call, options, "no_workflows");
        return;
    }
    struct cli_table table = {.columns = 4};
    static const char *const heads[] = {"head_workflow", "head_state", "head_since", "head_owner"};
    cli_table_add_heads(&table, options, heads);
    json_each (list, i, wf) {
        const char *owner = json_get_string(wf, "ownerInstanceId", NULL);
        bool is_alive = json_is_true(json_object_get(wf, "ownerAlive"));
        cli_table_add(&table, STYLE_BOLD, json_get_string(wf, "ulTaskId", ""));
        cli_table_add(&table, is_alive ? STYLE_GOOD : STYLE_WARN, cli_owner_state(options, wf));
        char when[TIME_TEXT_MAX];
        cli_when(options, json_get_string(wf, "claimed_at", ""), when);
        cli_table_add(&table, STYLE_PLAIN, when);
        struct buf who CLEANUP(buf_clear) = BUF_INIT;
        if (owner)
            cli_put_owner(&who, wf);
        cli_table_add(&table, STYLE_PLAIN, buf_str(&who));
    }
    cli_table_print(&table, options, stdout);
}

PRINTER(own_show, "own.show")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *how = json_get_string(result, "how", NULL);
    const json_t *alive = json_object_get(result, "ownerAlive");
    bool is_alive = json_is_true(alive);
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "ulTaskId", ""));
    buf_puts(&b, ": ");
    cli_put(&b, options, stdout, is_alive ? STYLE_GOOD : STYLE_WARN, cli_owner_state(options, result));
    buf_puts(&b, "\n");
    if (json_get_string(result, "ownerInstanceId", NULL)) {
        cli_put_owner(&line, result);
        cli_put_said(&b, options, stdout, "label_owner", buf_str(&line));
    }
    cli_put_time(&b, options, "label_since", json_get_string(result, "claimed_at", NULL));
    buf_reset(&line);
    text_put(&line, options->lang,
             is_alive               ? "alive_yes"
             : json_is_false(alive) ? "alive_no"
                                    : "alive_unknown",
             "how", how ? cli_word(options, "how_", how) : "?", NULL);
    if (how)
        cli_put_line(&b, options, stdout, "label_alive", buf_str(&line));
    fputs(buf_str(&b), stdout);
}
