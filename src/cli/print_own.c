/* print_own.c - owners of workflows for people. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of_alive(const struct cli_options *options, const json_t *wf)
{
    const json_t *alive = json_object_get(wf, "ownerAlive");
    return text_get(json_is_true(alive)    ? "owner_alive"
                    : json_is_false(alive) ? "owner_dead"
                                           : "owner_unknown",
                    options->lang);
}

static void print_line(const struct cli_options *options, enum style style, const char *key, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    char fence[24];
    snprintf(fence, sizeof fence, "%lld", (long long)json_get_int(result, "fence", 0));
    text_put(&line, options->lang, key, "workflow", json_get_string(result, "ulTaskId", ""), "owner",
             json_get_string(result, "ownerInstanceId", "-"), "fence", fence, "state", text_of_alive(options, result),
             "before", json_get_string(result, "before", "-"), NULL);
    cli_put(&b, options, stdout, style, buf_str(&line));
    printf("%s\n", buf_str(&b));
}

void cli_print_own_check(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    bool is_mine = json_get_bool(result, "owned", false), is_free = !json_get_string(result, "ownerInstanceId", NULL);
    (void)call;
    if (options->quiet)
        return;
    const char *key = is_mine ? "own_yours" : is_free ? "own_free" : "own_others";
    print_line(options, is_mine ? STYLE_GOOD : is_free ? STYLE_PLAIN : STYLE_WARN, key, result);
}

void cli_print_own_claimed(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    (void)call;
    if (options->quiet)
        return;
    const char *key = "own_claimed";
    if (!json_get_bool(result, "claimed", false))
        key = "own_yours";
    else if (json_get_string(result, "before", NULL))
        key = "own_taken_over";
    print_line(options, STYLE_GOOD, key, result);
}

void cli_print_own_released(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    (void)call;
    if (options->quiet)
        return;
    const char *key = "own_released_none";
    if (json_get_bool(result, "existed", false))
        key = "own_released";
    print_line(options, STYLE_GOOD, key, result);
}

void cli_print_own_left(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    char locks[24], claims[24];
    (void)call;
    if (options->quiet)
        return;
    snprintf(locks, sizeof locks, "%lld", (long long)json_get_int(result, "locks", 0));
    snprintf(claims, sizeof claims, "%lld", (long long)json_get_int(result, "workflows", 0));
    text_put(&line, options->lang, "own_left", "instance", json_get_string(result, "instance", ""), "locks", locks,
             "claims", claims, NULL);
    printf("%s\n", buf_str(&line));
}

void cli_print_own_list(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const json_t *list = json_object_get(result, "workflows");
    size_t i;
    json_t *wf;
    (void)call;
    if (json_array_size(list) == 0) {
        printf("%s\n", text_get("no_workflows", options->lang));
        return;
    }
    struct cli_table table = {.columns = 4};
    static const char *const heads[] = {"head_workflow", "head_state", "head_since", "head_owner"};
    for (i = 0; i < 4; i++)
        cli_table_add(&table, STYLE_DIM, text_get(heads[i], options->lang));
    json_array_foreach (list, i, wf) {
        const char *owner = json_get_string(wf, "ownerInstanceId", NULL);
        bool is_alive = json_is_true(json_object_get(wf, "ownerAlive"));
        cli_table_add(&table, STYLE_BOLD, json_get_string(wf, "ulTaskId", ""));
        cli_table_add(&table, is_alive ? STYLE_GOOD : STYLE_WARN,
                      owner ? text_of_alive(options, wf) : text_get("owner_nobody", options->lang));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(wf, "claimed_at", ""));
        cli_table_add(&table, STYLE_PLAIN, owner ? owner : "");
    }
    cli_table_print(&table, options, stdout);
}
