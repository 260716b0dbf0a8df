/* print_request.c - requests and the queue for people. */
#include "base/utf8.h"
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

static const char *request_text(const json_t *json, const char *key)
{
    return json_get_string(json, key, "");
}

static enum style request_style(const char *status)
{
    if (strcmp(status, "done") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "failed") == 0 || strcmp(status, "broken") == 0)
        return STYLE_BAD;
    return strcmp(status, "needs_input") == 0 || strcmp(status, "running") == 0 ? STYLE_WARN : STYLE_PLAIN;
}

/* Why the queue does not take it. */
static void put_request_reason(struct buf *b, const struct op_call *call, const struct cli_options *options,
                               const json_t *json)
{
    const char *key = cli_key("why_", request_text(json, "reason"));
    if (key)
        text_put(b, options->lang, key, "detail", cli_short_id(call, options, request_text(json, "detail")), NULL);
}

static void put_problems(struct buf *b, const struct op_call *call, const struct cli_options *options,
                         const json_t *request)
{
    struct buf place CLEANUP(buf_clear) = BUF_INIT;
    json_each (json_object_get(request, "problems"), i, problem) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s:%lld:%lld: %s", cli_place(call, request_text(request, "path"), &place),
                   (long long)json_get_int(problem, "line", 0), (long long)json_get_int(problem, "column", 0),
                   request_text(problem, "reason"));
        buf_puts(b, "  ");
        cli_put(b, options, stdout, STYLE_BAD, buf_str(&line));
        buf_puts(b, "\n");
    }
}

/* ---- requests ------------------------------------------------------------------------------------------- */

static void request_add_row(struct cli_table *table, const struct op_call *call, const struct cli_options *options,
                            const json_t *request)
{
    const char *status = request_text(request, "status");
    const json_t *run = json_object_get(request, "latest_run");
    struct buf state CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&state, cli_word(options, "request_status_", status));
    if (json_is_object(json_object_get(request, "lock")))
        buf_puts(&state, " LOCKED");
    cli_table_add(table, STYLE_BOLD, cli_short_id(call, options, request_text(request, "id")));
    cli_table_add(table, request_style(status), buf_str(&state));
    cli_table_add(table, STYLE_PLAIN, request_text(request, "priority"));
    cli_table_add(table, STYLE_PLAIN, request_text(request, "title"));
    cli_table_add(table, STYLE_DIM, cli_short_id(call, options, request_text(run, "run_id")));
}

PRINTER(requests, "request.list")
{
    static const char *const heads[] = {"head_request", "head_status", "head_priority", "head_title",
                                        "head_latest_run"};
    const json_t *requests = json_object_get(result, "requests");
    struct cli_table table = {.columns = 5, .gives_way = 3};
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (json_array_size(requests) == 0) {
        cli_print_none(call, options, "no_requests");
        return;
    }
    cli_table_add_heads(&table, options, heads);
    json_each (requests, i, request) {
        request_add_row(&table, call, options, request);
        put_problems(&b, call, options, request);
    }
    cli_table_print(&table, options, stdout);
    fputs(buf_str(&b), stdout);
}

static void put_work(struct buf *b, const struct op_call *call, const struct cli_options *options,
                     const json_t *request)
{
    const json_t *run = json_object_get(request, "run");
    struct buf line CLEANUP(buf_clear) = BUF_INIT, quoted CLEANUP(buf_clear) = BUF_INIT;
    if (json_object_get(request, "flow"))
        cli_put_line(b, options, stdout, "label_flow", request_text(request, "flow"));
    if (json_is_string(run))
        buf_puts(&line, json_string_value(run));
    json_each (run, i, word)
        buf_printf(&line, "%s%s", i ? " " : "", shell_word(&quoted, json_string_value(word)));
    if (run)
        cli_put_line(b, options, stdout, "label_command", buf_str(&line));
    buf_reset(&line);
    json_each (json_object_get(request, "depends_on"), i, word)
        buf_printf(&line, "%s%s", i ? ", " : "", cli_short_id(call, options, json_string_value(word)));
    if (line.len)
        cli_put_line(b, options, stdout, "label_depends", buf_str(&line));
}

static void put_runs(struct buf *b, const struct op_call *call, const struct cli_options *options,
                     const json_t *request)
{
    json_each (json_object_get(request, "runs"), i, run) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        char when[TIME_TEXT_MAX];
        cli_when(options, request_text(run, "started_at"), when);
        buf_printf(&line, "%s  %s  %s", cli_short_id(call, options, request_text(run, "run_id")),
                   request_text(run, "status"), when);
        if (i)
            buf_printf(b, "%12s%s\n", "", buf_str(&line));
        else
            cli_put_line(b, options, stdout, "label_runs", buf_str(&line));
    }
}

/* "RQ-1  ready  P2  paint the door" */
static void put_request_head(struct buf *b, const struct cli_options *options, const json_t *request)
{
    const char *id = request_text(request, "id"), *status = request_text(request, "status");
    const char *word = cli_word(options, "request_status_", status), *priority = request_text(request, "priority");
    cli_put(b, options, stdout, STYLE_BOLD, id);
    buf_puts(b, "  ");
    cli_put(b, options, stdout, request_style(status), word);
    buf_printf(b, "  %s  ", priority);
    cli_put_prose(b, options, stdout, STYLE_PLAIN, request_text(request, "title"),
                  utf8_width(id) + utf8_width(word) + utf8_width(priority) + 6, 12);
}

PRINTER(request, "request.add", "request.show", "request.edit", "queue.add")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT, place CLEANUP(buf_clear) = BUF_INIT;
    if (options->quiet && strcmp(call->op->name, "request.show") != 0) {
        printf("%s\n", request_text(result, "id"));
        return;
    }
    put_request_head(&b, options, result);
    put_request_reason(&line, call, options, result);
    if (line.len && strcmp(request_text(result, "reason"), "NOT_READY") != 0)
        cli_put_line(&b, options, stdout, "label_why", buf_str(&line));
    put_work(&b, call, options, result);
    cli_put_line(&b, options, stdout, "label_file", cli_place(call, request_text(result, "path"), &place));
    put_problems(&b, call, options, result);
    cli_put_warnings(&b, options, result);
    cli_put_lock(&b, options, stdout, json_object_get(result, "lock"));
    put_runs(&b, call, options, result);
    if (json_is_false(json_object_get(result, "queue_runs"))) {
        json_t *next CLEANUP_JSON = json_pack("[s]", "tasuki queue run");
        cli_put_next(&b, options, stdout, next);
    }
    if (json_object_get(result, "body"))
        buf_printf(&b, "\n%s\n", request_text(result, "body"));
    fputs(buf_str(&b), stdout);
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

static void print_ran(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct cli_table table = {.columns = 4};
    json_each (json_object_get(result, "ran"), i, line) {
        const char *status = request_text(line, "status");
        cli_table_add(&table, STYLE_PLAIN, "");
        cli_table_add(&table, STYLE_BOLD, cli_short_id(call, options, request_text(line, "request_id")));
        cli_table_add(&table,
                      strcmp(status, "DONE") == 0     ? STYLE_GOOD
                      : strcmp(status, "FAILED") == 0 ? STYLE_BAD
                                                      : STYLE_WARN,
                      status);
        cli_table_add(&table, STYLE_DIM, cli_short_id(call, options, request_text(line, "run_id")));
    }
    cli_table_print(&table, options, stdout);
}

/* Each run that has failed, as `run` shows it at its end, unless that was shown when it ended. Whether it is known by now. */
static bool print_failed(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    bool is_shown = cli_progress_told_queue();
    json_each (is_shown ? NULL : json_object_get(result, "ran"), i, line)
        if (json_object_get(line, "counts")) {
            printf("\n");
            cli_print_run(call, options, line);
            is_shown = true;
        }
    return is_shown;
}

static void put_next_of(struct buf *b, const struct cli_options *options, const json_t *result, bool is_shown)
{
    size_t count = json_array_size(json_object_get(result, "ran"));
    const json_t *last = count ? json_array_get(json_object_get(result, "ran"), count - 1) : NULL;
    const char *reason = request_text(result, "reason"), *run = request_text(last, "run_id");
    json_t *next CLEANUP_JSON = json_array();
    bool has_failed = strcmp(reason, "FAILED") == 0, asks = strcmp(reason, "NEEDS_INPUT") == 0;
    bool is_explained = cli_progress_told_queue() || (is_shown && has_failed);
    if (run[0] && !is_explained && (has_failed || asks))
        json_array_append_new(next, json_sprintf("tasuki runs show %s", run));
    else if (strcmp(reason, "DOCTOR_FAILED") == 0)
        json_array_append_new(next, json_string("tasuki doctor"));
    else if (strcmp(reason, "EMPTY") == 0 && count == 0)
        json_array_append_new(next, json_string("tasuki queue next"));
    cli_put_next(b, options, stdout, next);
}

PRINTER(queue_run, "queue.run", "queue.run-next")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *reason = json_get_string(result, "reason", NULL);
    const json_t *error = json_object_get(result, "error");
    if (options->quiet && call->verdict == TSK_OK)
        return;
    cli_end_progress();
    cli_put(&b, options, stdout, call->verdict == TSK_OK ? STYLE_GOOD : STYLE_WARN,
            reason ? cli_word(options, "queue_end_", reason) : text_get("queue_goes_on", options->lang));
    printf("%s\n", buf_str(&b));
    buf_clear(&b);
    print_ran(call, options, result);
    if (json_is_object(error)) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_BAD, request_text(error, "message"));
        buf_puts(&b, "\n");
    }
    fputs(buf_str(&b), stdout);
    buf_clear(&b);
    bool is_shown = print_failed(call, options, result);
    if (reason)
        put_next_of(&b, options, result, is_shown);
    fputs(buf_str(&b), stdout);
}

/* Why the queue takes it now, later or not. */
static void put_next_why(struct buf *b, const struct op_call *call, const struct cli_options *options,
                         const json_t *request)
{
    if (json_is_string(json_object_get(request, "id")))
        buf_puts(b, text_get(json_is_string(json_object_get(request, "resumes")) ? "queue_resumes" : "queue_is_next",
                             options->lang));
    else if (json_object_get(request, "position"))
        text_put(b, options->lang, "queue_later", "position", DIGITS(json_get_int(request, "position", 0)), NULL);
    else
        put_request_reason(b, call, options, request);
}

static const char *next_id(const struct op_call *call, const struct cli_options *options, const json_t *request)
{
    const char *id = json_get_string(request, "id", NULL);
    return cli_short_id(call, options, id ? id : request_text(request, "request_id"));
}

/* Whether the reasons leave too little room for the titles: then they stand below them. */
static bool has_reasons_below(const struct op_call *call, const struct cli_options *options, const json_t *requests)
{
    enum { TITLE_MIN = 24, BETWEEN = 8 }; /* BETWEEN: a priority, and two spaces thrice */
    size_t ids = 0, reasons = 0, width = (size_t)cli_terminal_width(stdout);
    json_each (requests, i, request) {
        struct buf why CLEANUP(buf_clear) = BUF_INIT;
        size_t id = utf8_width(next_id(call, options, request));
        put_next_why(&why, call, options, request);
        ids = id > ids ? id : ids;
        reasons = utf8_width(buf_str(&why)) > reasons ? utf8_width(buf_str(&why)) : reasons;
    }
    return width && ids + reasons + BETWEEN + TITLE_MIN > width;
}

PRINTER(queue_next, "queue.next")
{
    json_t *next = json_object_get(result, "next"), *requests CLEANUP_JSON = json_array();
    if (json_is_object(next))
        json_array_append(requests, next);
    else
        printf("%s\n", text_get("queue_end_empty", options->lang));
    json_array_extend(requests, json_object_get(result, "others"));
    bool is_below = has_reasons_below(call, options, requests);
    struct cli_table table = {.columns = is_below ? 3 : 4, .gives_way = is_below ? 0 : 2};
    json_each (requests, i, request) {
        struct buf why CLEANUP(buf_clear) = BUF_INIT;
        put_next_why(&why, call, options, request);
        cli_table_add(&table, request == next ? STYLE_GOOD : STYLE_BOLD, next_id(call, options, request));
        cli_table_add(&table, STYLE_PLAIN, request_text(request, "priority"));
        cli_table_add(&table, STYLE_PLAIN, request_text(request, "title"));
        for (int skipped = 0; is_below && skipped < 2; skipped++)
            cli_table_add(&table, STYLE_PLAIN, "");
        cli_table_add(&table, request == next ? STYLE_GOOD : STYLE_DIM, buf_str(&why));
    }
    cli_table_print(&table, options, stdout);
}

PRINTER(queue_status, "queue.status")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *status = request_text(result, "status");
    const json_t *last = json_object_get(result, "last");
    const char *key = strcmp(status, "running") == 0       ? "queue_runs"
                      : strcmp(status, "interrupted") == 0 ? "queue_was_killed"
                                                           : "queue_idle";
    cli_put(&b, options, stdout, strcmp(status, "idle") == 0 ? STYLE_PLAIN : STYLE_WARN, text_get(key, options->lang));
    buf_puts(&b, "\n");
    if (json_is_string(json_object_get(result, "request_id"))) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s  %s", cli_short_id(call, options, request_text(result, "request_id")),
                   cli_short_id(call, options, request_text(result, "run_id")));
        cli_put_line(&b, options, stdout, "label_request", buf_str(&line));
    }
    cli_put_lock(&b, options, stdout, result);
    if (json_get_bool(result, "stopping", false))
        buf_printf(&b, "  %s\n", text_get("queue_stopping", options->lang));
    cli_put_line(&b, options, stdout, "label_ready_count", DIGITS(json_get_int(result, "ready", 0)));
    if (json_is_string(json_object_get(result, "next")))
        cli_put_line(&b, options, stdout, "label_next_request",
                     cli_short_id(call, options, request_text(result, "next")));
    if (json_is_string(json_object_get(last, "reason"))) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s  %s", CLI_WHEN(options, request_text(last, "ended_at")),
                   cli_word(options, "queue_end_", request_text(last, "reason")));
        cli_put_line(&b, options, stdout, "label_last", buf_str(&line));
    }
    fputs(buf_str(&b), stdout);
}
