/* print_workers.c - the workers of a pool, for people. */
#include "base/word.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static void add_number(struct cli_table *table, const json_t *worker, const char *key)
{
    cli_table_add(table, STYLE_PLAIN, DIGITS(json_get_int(worker, key, 0)));
}

static void add_worker(struct cli_table *table, const struct cli_options *options, const json_t *worker)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, tags CLEANUP(buf_clear) = BUF_INIT;
    const char *state = json_get_string(worker, "state", "");
    const char *seen = TIME_IN_UTC(json_get_int(worker, "seen_ms", 0));
    cli_table_add(table, STYLE_BOLD, json_get_string(worker, "name", ""));
    cli_table_add(table, STYLE_PLAIN, json_get_string(worker, "host", ""));
    json_put_texts(&tags, json_object_get(worker, "tags"), ",");
    cli_table_add(table, STYLE_PLAIN, tags.len ? buf_str(&tags) : "-");
    add_number(table, worker, "places");
    add_number(table, worker, "tasks");
    buf_puts(&b, CLI_WHEN(options, seen));
    if (strcmp(state, "up") != 0)
        buf_printf(&b, ", %s", state);
    cli_table_add(table, STYLE_PLAIN, buf_str(&b));
    cli_table_add(table, STYLE_DIM, json_get_string(worker, "version", ""));
    cli_table_add_commit(table, worker);
}

PRINTER(workers_list, "workers.list")
{
    static const char *const heads[] = {"head_name",  "head_host", "head_tags",    "head_places",
                                        "head_tasks", "head_seen", "head_version", "head_commit"};
    struct cli_table table = {.columns = sizeof heads / sizeof heads[0]};
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const json_t *list = json_object_get(result, "workers");
    if (json_array_size(list) == 0) {
        text_put(&b, options->lang, "workers_none", "server", json_get_string(result, "server", ""), NULL);
        printf("%s\n", buf_str(&b));
        return;
    }
    cli_table_add_heads(&table, options, heads);
    json_each (list, i, worker)
        add_worker(&table, options, worker);
    cli_table_print(&table, options, stdout);
}
