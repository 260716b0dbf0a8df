/* print_request.c - requests and the queue for people. */
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

static const char *text_of(const json_t *json, const char *key)
{
    return json_get_string(json, key, "");
}

static enum style style_of(const char *status)
{
    if (strcmp(status, "done") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "failed") == 0 || strcmp(status, "broken") == 0)
        return STYLE_BAD;
    return strcmp(status, "needs_input") == 0 || strcmp(status, "running") == 0 ? STYLE_WARN : STYLE_PLAIN;
}

/* The word for a status; the JSON has the same for programs. */
static const char *status_text(const struct cli_options *options, const char *status)
{
    static const struct {
        const char *status, *text;
    } words[] = {
        {"draft", "request_draft"},     {"ready", "request_ready"},          {"running", "request_running"},
        {"blocked", "request_blocked"}, {"failed", "request_failed"},        {"needs_input", "request_needs_input"},
        {"done", "request_done"},       {"archived", "request_is_archived"}, {"broken", "request_broken"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].status, status) == 0)
            return text_get(words[i].text, options->lang);
    return status;
}

/* Why the queue does not take it. */
static void put_reason(struct buf *b, const struct cli_options *options, const json_t *json)
{
    static const struct {
        const char *reason, *text;
    } words[] = {{"NOT_READY", "why_not_ready"},
                 {"REQUEST_LOCKED", "why_locked"},
                 {"LATEST_RUN_NEEDS_INPUT", "why_needs_input"},
                 {"LATEST_RUN_FAILED", "why_failed"},
                 {"ALREADY_DONE", "why_done"},
                 {"DEPENDS_NOT_FOUND", "why_depends_not_found"},
                 {"DEPENDS_CYCLE", "why_depends_cycle"},
                 {"DEPENDS_NOT_DONE", "why_depends_not_done"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].reason, text_of(json, "reason")) == 0)
            text_put(b, options->lang, words[i].text, "detail", text_of(json, "detail"), NULL);
}

static void put_problems(struct buf *b, const struct cli_options *options, const json_t *request)
{
    size_t i;
    json_t *problem;
    json_array_foreach (json_object_get(request, "problems"), i, problem) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s:%lld:%lld: %s", text_of(request, "path"), (long long)json_get_int(problem, "line", 0),
                   (long long)json_get_int(problem, "column", 0), text_of(problem, "reason"));
        buf_puts(b, "  ");
        cli_put(b, options, stdout, STYLE_BAD, buf_str(&line));
        buf_puts(b, "\n");
    }
}

/* ---- requests ------------------------------------------------------------------------------------------- */

static void add_row(struct cli_table *table, const struct cli_options *options, const json_t *request)
{
    const char *status = text_of(request, "status");
    const json_t *run = json_object_get(request, "latest_run");
    struct buf state CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&state, status_text(options, status));
    if (json_is_object(json_object_get(request, "lock")))
        buf_puts(&state, " LOCKED");
    cli_table_add(table, STYLE_BOLD, text_of(request, "id"));
    cli_table_add(table, style_of(status), buf_str(&state));
    cli_table_add(table, STYLE_PLAIN, text_of(request, "priority"));
    cli_table_add(table, STYLE_PLAIN, text_of(request, "title"));
    cli_table_add(table, STYLE_DIM, text_of(run, "run_id"));
}

void cli_print_requests(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    static const char *const heads[] = {"head_request", "head_status", "head_priority", "head_title",
                                        "head_latest_run"};
    const json_t *requests = json_object_get(result, "requests");
    struct cli_table table = {.columns = 5, .gives_way = 3};
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_t *request;
    (void)call;
    if (json_array_size(requests) == 0) {
        printf("%s\n", text_get("no_requests", options->lang));
        return;
    }
    for (i = 0; i < 5; i++)
        cli_table_add(&table, STYLE_DIM, text_get(heads[i], options->lang));
    json_array_foreach (requests, i, request) {
        add_row(&table, options, request);
        put_problems(&b, options, request);
    }
    cli_table_print(&table, options, stdout);
    fputs(buf_str(&b), stdout);
}

static void put_work(struct buf *b, const struct cli_options *options, const json_t *request)
{
    const json_t *run = json_object_get(request, "run");
    struct buf line CLEANUP(buf_clear) = BUF_INIT, quoted CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_t *word;
    if (json_object_get(request, "flow"))
        cli_put_line(b, options, stdout, "label_flow", text_of(request, "flow"));
    if (json_is_string(run))
        buf_puts(&line, json_string_value(run));
    json_array_foreach (run, i, word)
        buf_printf(&line, "%s%s", i ? " " : "", shell_word(&quoted, json_string_value(word)));
    if (run)
        cli_put_line(b, options, stdout, "label_command", buf_str(&line));
    buf_reset(&line);
    json_array_foreach (json_object_get(request, "depends_on"), i, word)
        buf_printf(&line, "%s%s", i ? ", " : "", json_string_value(word));
    if (line.len)
        cli_put_line(b, options, stdout, "label_depends", buf_str(&line));
}

static void put_runs(struct buf *b, const struct cli_options *options, const json_t *request)
{
    size_t i;
    json_t *run;
    json_array_foreach (json_object_get(request, "runs"), i, run) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s  %s  %s", text_of(run, "run_id"), text_of(run, "status"), text_of(run, "started_at"));
        if (i)
            buf_printf(b, "%12s%s\n", "", buf_str(&line));
        else
            cli_put_line(b, options, stdout, "label_runs", buf_str(&line));
    }
}

void cli_print_request(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *status = text_of(result, "status");
    (void)call;
    if (options->quiet && strcmp(call->op->name, "request.show") != 0) {
        printf("%s\n", text_of(result, "id"));
        return;
    }
    cli_put(&b, options, stdout, STYLE_BOLD, text_of(result, "id"));
    buf_puts(&b, "  ");
    cli_put(&b, options, stdout, style_of(status), status_text(options, status));
    buf_printf(&b, "  %s  ", text_of(result, "priority"));
    cli_put(&b, options, stdout, STYLE_PLAIN, text_of(result, "title"));
    buf_puts(&b, "\n");
    put_reason(&line, options, result);
    if (line.len && strcmp(text_of(result, "reason"), "NOT_READY") != 0)
        cli_put_line(&b, options, stdout, "label_why", buf_str(&line));
    put_work(&b, options, result);
    cli_put_line(&b, options, stdout, "label_file", text_of(result, "path"));
    put_problems(&b, options, result);
    cli_put_lock(&b, options, stdout, json_object_get(result, "lock"));
    put_runs(&b, options, result);
    if (json_object_get(result, "body"))
        buf_printf(&b, "\n%s\n", text_of(result, "body"));
    fputs(buf_str(&b), stdout);
}

void cli_print_request_removed(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    if (options->quiet)
        return;
    text_put(&b, options->lang, "request_removed", "request", text_of(result, "id"), "path", text_of(result, "kept"),
             NULL);
    printf("%s\n", buf_str(&b));
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

static const char *stop_text(const struct cli_options *options, const char *reason)
{
    static const struct {
        const char *reason, *text;
    } words[] = {{"EMPTY", "queue_empty"},   {"STOPPED", "queue_stopped"},     {"NEEDS_INPUT", "queue_asks"},
                 {"FAILED", "queue_failed"}, {"CANCELLED", "queue_cancelled"}, {"DOCTOR_FAILED", "queue_doctor"},
                 {"MAX", "queue_max"},       {"TIME", "queue_time"},           {"LOCK_LOST", "queue_lock_lost"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].reason, reason) == 0)
            return text_get(words[i].text, options->lang);
    return reason;
}

static void print_ran(const struct cli_options *options, const json_t *result)
{
    size_t i;
    json_t *line;
    struct cli_table table = {.columns = 4};
    json_array_foreach (json_object_get(result, "ran"), i, line) {
        const char *status = text_of(line, "status");
        cli_table_add(&table, STYLE_PLAIN, "");
        cli_table_add(&table, STYLE_BOLD, text_of(line, "request_id"));
        cli_table_add(&table,
                      strcmp(status, "DONE") == 0     ? STYLE_GOOD
                      : strcmp(status, "FAILED") == 0 ? STYLE_BAD
                                                      : STYLE_WARN,
                      status);
        cli_table_add(&table, STYLE_DIM, text_of(line, "run_id"));
    }
    cli_table_print(&table, options, stdout);
}

static void put_next_of(struct buf *b, const struct cli_options *options, const json_t *result)
{
    size_t count = json_array_size(json_object_get(result, "ran"));
    const json_t *last = count ? json_array_get(json_object_get(result, "ran"), count - 1) : NULL;
    const char *reason = text_of(result, "reason"), *run = text_of(last, "run_id");
    json_t *next CLEANUP_JSON = json_array();
    if (run[0] && (strcmp(reason, "NEEDS_INPUT") == 0 || strcmp(reason, "FAILED") == 0))
        json_array_append_new(next, json_sprintf("tasuki runs show %s", run));
    else if (strcmp(reason, "DOCTOR_FAILED") == 0)
        json_array_append_new(next, json_string("tasuki doctor"));
    else if (strcmp(reason, "EMPTY") == 0 && count == 0)
        json_array_append_new(next, json_string("tasuki queue next"));
    cli_put_next(b, options, stdout, next);
}

void cli_print_queue_run(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *reason = json_get_string(result, "reason", NULL);
    const json_t *error = json_object_get(result, "error");
    if (options->quiet && call->verdict == TSK_OK)
        return;
    cli_end_progress();
    cli_put(&b, options, stdout, call->verdict == TSK_OK ? STYLE_GOOD : STYLE_WARN,
            reason ? stop_text(options, reason) : text_get("queue_goes_on", options->lang));
    printf("%s\n", buf_str(&b));
    buf_clear(&b);
    print_ran(options, result);
    if (json_is_object(error)) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_BAD, text_of(error, "message"));
        buf_puts(&b, "\n");
    }
    if (reason)
        put_next_of(&b, options, result);
    fputs(buf_str(&b), stdout);
}

void cli_print_queue_next(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const json_t *next = json_object_get(result, "next");
    struct cli_table table = {.columns = 4, .gives_way = 2};
    size_t i;
    json_t *other;
    (void)call;
    if (json_is_object(next)) {
        cli_table_add(&table, STYLE_GOOD, text_of(next, "id"));
        cli_table_add(&table, STYLE_PLAIN, text_of(next, "priority"));
        cli_table_add(&table, STYLE_PLAIN, text_of(next, "title"));
        cli_table_add(&table, STYLE_GOOD,
                      text_get(json_is_string(json_object_get(next, "resumes")) ? "queue_resumes" : "queue_is_next",
                               options->lang));
    } else {
        printf("%s\n", text_get("queue_empty", options->lang));
    }
    json_array_foreach (json_object_get(result, "others"), i, other) {
        struct buf why CLEANUP(buf_clear) = BUF_INIT;
        char position[24];
        snprintf(position, sizeof position, "%lld", (long long)json_get_int(other, "position", 0));
        if (json_object_get(other, "position"))
            text_put(&why, options->lang, "queue_later", "position", position, NULL);
        else
            put_reason(&why, options, other);
        cli_table_add(&table, STYLE_BOLD, text_of(other, "request_id"));
        cli_table_add(&table, STYLE_PLAIN, text_of(other, "priority"));
        cli_table_add(&table, STYLE_PLAIN, text_of(other, "title"));
        cli_table_add(&table, STYLE_DIM, buf_str(&why));
    }
    cli_table_print(&table, options, stdout);
}

void cli_print_queue_status(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *status = text_of(result, "status");
    const json_t *last = json_object_get(result, "last");
    char ready[24];
    (void)call;
    snprintf(ready, sizeof ready, "%lld", (long long)json_get_int(result, "ready", 0));
    const char *key = strcmp(status, "running") == 0       ? "queue_runs"
                      : strcmp(status, "interrupted") == 0 ? "queue_was_killed"
                                                           : "queue_idle";
    cli_put(&b, options, stdout, strcmp(status, "idle") == 0 ? STYLE_PLAIN : STYLE_WARN, text_get(key, options->lang));
    buf_puts(&b, "\n");
    if (json_is_string(json_object_get(result, "request_id"))) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s  %s", text_of(result, "request_id"), text_of(result, "run_id"));
        cli_put_line(&b, options, stdout, "label_request", buf_str(&line));
    }
    cli_put_lock(&b, options, stdout, result);
    if (json_get_bool(result, "stopping", false))
        buf_printf(&b, "  %s\n", text_get("queue_stopping", options->lang));
    cli_put_line(&b, options, stdout, "label_ready_count", ready);
    if (json_is_string(json_object_get(result, "next")))
        cli_put_line(&b, options, stdout, "label_next_request", text_of(result, "next"));
    if (json_is_string(json_object_get(last, "reason"))) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s  %s", text_of(last, "ended_at"), stop_text(options, text_of(last, "reason")));
        cli_put_line(&b, options, stdout, "label_last", buf_str(&line));
    }
    fputs(buf_str(&b), stdout);
}

void cli_print_queue_stop(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    bool is_stopping = strcmp(text_of(result, "status"), "stopping") == 0;
    bool is_now = json_get_bool(call->args, "now", false);
    if (!options->quiet)
        printf("%s\n", text_get(!is_stopping ? "queue_idle"
                                : is_now     ? "queue_stopping_now"
                                             : "queue_stopping",
                                options->lang));
}
