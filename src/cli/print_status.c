/* print_status.c - the whole workspace for people: once (`status`), or after every change (`watch` into a pipe). */
#include "base/clock.h"
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

#define STATUS_RUNS_SHOWN 10

enum style cli_request_style(const char *status)
{
    if (strcmp(status, "running") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "failed") == 0 || strcmp(status, "broken") == 0)
        return STYLE_BAD;
    return strcmp(status, "needs_input") == 0 ? STYLE_WARN : STYLE_PLAIN;
}

static void print_requests(const struct op_call *call, const struct cli_options *options, const json_t *requests)
{
    static const char *const heads[] = {"head_request", "head_priority", "head_status", "head_run", "head_title"};
    struct cli_table table = {.columns = 5, .drops = {3, 1}};
    cli_table_add_heads(&table, options, heads);
    json_each (requests, i, request) {
        const char *status = json_get_string(request, "status", "");
        cli_table_add(&table, STYLE_BOLD, cli_short_id(call, options, json_get_string(request, "id", "")));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(request, "priority", ""));
        cli_table_add(&table, cli_request_style(status), cli_word(options, "request_status_", status));
        cli_table_add(&table, STYLE_PLAIN, cli_short_id(call, options, json_get_string(request, "run_id", "")));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(request, "title", ""));
    }
    cli_table_print(&table, options, stdout);
}

bool cli_queue_runs(const json_t *locks)
{
    json_each (locks, i, lock)
        if (json_text_is(lock, "kind", "queue") && json_text_is(lock, "state", "held"))
            return true;
    return false;
}

static void print_heading(const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "root", ""));
    cli_put(&b, options, stdout, STYLE_DIM, "  tasuki ");
    cli_put(&b, options, stdout, STYLE_DIM, json_get_string(result, "version", ""));
    if (cli_queue_runs(json_object_get(result, "locks"))) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_GOOD, text_get("status_queue_running", options->lang));
    }
    printf("%s\n\n", buf_str(&b));
}

void cli_print_more(const struct cli_options *options, int64_t number)
{
    struct buf more CLEANUP(buf_clear) = BUF_INIT;
    if (number <= 0)
        return;
    text_put(&more, options->lang, "doctor_and_more", "count", DIGITS(number), NULL);
    printf("%s\n", buf_str(&more));
}

static void print_workflows(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    printf("\n");
    cli_print_own_list(call, options, result);
    cli_print_more(options, json_get_int(result, "more_workflows", 0));
}

/* The first of them, which are those that continue or wait (overview.c); `runs list` has them all. */
static void print_runs(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    json_t *runs = json_object_get(result, "runs"), *first = json_array();
    json_t *shown CLEANUP_JSON = json_pack("{s:o}", "runs", first);
    json_each (runs, i, run)
        if (i < STATUS_RUNS_SHOWN)
            json_array_append(first, run);
    cli_print_runs(call, options, shown);
    cli_print_more(options, (int64_t)json_array_size(runs) - STATUS_RUNS_SHOWN);
}

/* What watch cannot see at the moment (a config.yaml that somebody is editing). */
static bool print_trouble(const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *message = json_get_string(json_object_get(result, "error"), "message", NULL);
    if (message)
        cli_put(&b, options, stdout, STYLE_BAD, message);
    if (message)
        printf("%s\n", buf_str(&b));
    return message;
}

PRINTER(status, "status")
{
    print_heading(options, result);
    if (print_trouble(options, result))
        return;
    cli_print_questions(options, json_object_get(result, "questions"), json_object_get(result, "confirmations"));
    if (json_array_size(json_object_get(result, "processes"))) {
        cli_print_processes(call, options, result);
        printf("\n");
    }
    if (json_array_size(json_object_get(result, "requests"))) {
        print_requests(call, options, json_object_get(result, "requests"));
        printf("\n");
    }
    if (json_array_size(json_object_get(result, "runs"))) {
        print_runs(call, options, result);
        printf("\n");
    }
    cli_print_locks(options, json_object_get(result, "locks"));
    if (json_array_size(json_object_get(result, "workflows")))
        print_workflows(call, options, result);
}

/* ---- live ------------------------------------------------------------------------------------------------- */

bool cli_print_snapshot(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    if (strcmp(call->op->name, "watch") != 0)
        return false;
    const char *time = CLI_CLOCK_SECONDS(options, json_get_string(document, "time", ""));
    printf("== %s\n", time);
    cli_print_status(call, options, document);
    printf("\n");
    return true;
}
