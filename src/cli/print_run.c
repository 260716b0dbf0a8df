/* print_run.c - runs for people: how they ended, what they did. */
#include "base/utf8.h"
#include "base/word.h"
#include "cli/cli.h"
#include "proc/log_text.h"

#include <string.h>
#include <unistd.h>

enum style cli_run_style(const char *status)
{
    if (strcmp(status, "DONE") == 0 || strcmp(status, "ok") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "FAILED") == 0 || strcmp(status, "failed") == 0)
        return STYLE_BAD;
    return strcmp(status, "RUNNING") == 0 || strcmp(status, "waiting") == 0 ? STYLE_PLAIN : STYLE_WARN;
}

/* What the task printed last, below its reason, unless it stands right above. */
static void put_last_lines(struct buf *b, const struct cli_options *options, const json_t *failure)
{
    const json_t *lines = cli_progress_has_shown(failure) ? NULL : json_object_get(failure, "lines");
    json_each (lines, i, line) {
        buf_puts(b, "    ");
        log_text_for_terminal(b, json_string_value(line), json_string_length(line), cli_has_colour(options, stdout));
        buf_puts(b, "\n");
    }
}

static void run_put_sentence(struct buf *b, const struct cli_options *options, enum style style, const char *text)
{
    buf_puts(b, "  ");
    cli_put_prose(b, options, stdout, style, text, 2, 4);
}

static void put_failures(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    json_each (json_object_get(stage, "failures"), i, failure) {
        run_put_sentence(b, options, STYLE_BAD, json_get_string(failure, "reason", ""));
        cli_put_fence(b, json_object_get(failure, "lines"), true);
        put_last_lines(b, options, failure);
        cli_put_fence(b, json_object_get(failure, "lines"), false);
    }
}

static void put_questions(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    const json_t *questions = json_object_get(stage, "questions");
    json_each (questions, i, open)
        cli_put_question(b, options, questions, json_get_string(stage, "run_id", ""), open);
}

/* One command per open question. */
static void add_answers(const json_t *stage, json_t *next)
{
    const json_t *questions = json_object_get(stage, "questions");
    json_each (questions, i, open)
        cli_add_answers(next, questions, json_get_string(stage, "run_id", ""), open);
}

/* The key of the limit that ended the run; NULL: none did. */
static const char *limit_of(const json_t *stage)
{
    const char *code = json_get_string(stage, "reason_code", "");
    return strcmp(code, "MAX_STEPS_EXCEEDED") == 0     ? "max_steps"
           : strcmp(code, "CYCLE_LIMIT_EXCEEDED") == 0 ? "max_cycles"
                                                       : NULL;
}

/* Whether resume would end as the run did: it repeats the merge that failed, or the task that cancelled the run. */
static bool is_decided(const json_t *stage)
{
    const char *code = json_get_string(stage, "reason_code", "");
    return strcmp(code, "RUN_FAILED") == 0 ||
           (strcmp(code, "GROUP_FAILED") == 0 && json_array_size(json_object_get(stage, "failures")) == 0);
}

/* The path of the flow that the user would edit or run again. A flow that was read from a pipe exists only as the run's
 * copy. */
static const char *flow_file(const json_t *stage, struct buf *b)
{
    const char *source = json_get_string(stage, "source", "");
    bool is_stream =
        strcmp(source, "stdin") == 0 || strncmp(source, "/dev/", 5) == 0 || strncmp(source, "/proc/", 6) == 0;
    if (!is_stream)
        return source;
    buf_printf(b, ".aiflow/runs/%s/flow.yaml", json_get_string(stage, "run_id", ""));
    return buf_str(b);
}

static void add_anew(const json_t *stage, json_t *next)
{
    const char *request = json_get_string(stage, "request_id", NULL);
    struct buf file CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    json_array_append_new(next, request ? json_sprintf("tasuki request run %s", request)
                                        : json_sprintf("tasuki run %s", shell_word(&word, flow_file(stage, &file))));
}

static void put_limit(struct buf *b, const struct cli_options *options, const json_t *stage, json_t *next)
{
    struct buf file CLEANUP(buf_clear) = BUF_INIT, hint CLEANUP(buf_clear) = BUF_INIT;
    text_put(&hint, options->lang, "run_limit_hint", "limit", limit_of(stage), "source", flow_file(stage, &file), NULL);
    run_put_sentence(b, options, STYLE_PLAIN, buf_str(&hint));
    add_anew(stage, next);
}

/* The whole log of the first that failed and printed something. */
static void add_logs(const json_t *stage, json_t *next)
{
    json_each (json_object_get(stage, "failures"), i, failure)
        if (json_array_size(json_object_get(failure, "lines"))) {
            json_array_insert_new(next, 0,
                                  json_sprintf("tasuki runs logs %s %s", json_get_string(stage, "run_id", ""),
                                               json_get_string(failure, "task", "")));
            return;
        }
}

static void run_put_next(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    const char *status = json_get_string(stage, "status", ""), *id = json_get_string(stage, "run_id", "");
    const char *request = json_get_string(stage, "request_id", NULL);
    const json_t *total = json_at(stage, "counts.total");
    json_t *next CLEANUP_JSON = json_array();
    bool has_failed = strcmp(status, "FAILED") == 0,
         never_began = json_is_integer(total) && json_integer_value(total) == 0;
    if (has_failed && limit_of(stage))
        put_limit(b, options, stage, next);
    else if (has_failed && ((request && never_began) || is_decided(stage)))
        add_anew(stage, next);
    else if (strcmp(status, "NEEDS_INPUT") == 0)
        add_answers(stage, next);
    else if (strcmp(status, "DONE") != 0 && strcmp(status, "RUNNING") != 0)
        json_array_append_new(next, json_sprintf("tasuki resume %s", id));
    add_logs(stage, next);
    cli_put_next(b, options, stdout, next);
}

int64_t cli_run_settled(const json_t *counts)
{
    return json_get_int(counts, "ok", json_get_int(counts, "done", 0)) + json_get_int(counts, "skipped", 0);
}

/* "3 of 5 tasks, 1 failed, 1 not reached". A run that has not ended says only how far it is. */
static void put_counts(struct buf *b, enum lang lang, const json_t *stage)
{
    static const char *const others[][2] = {{"skipped", "run_count_skipped"},
                                            {"failed", "run_count_failed"},
                                            {"stopped", "run_count_stopped"},
                                            {"asking", "run_count_asking"},
                                            {"not_reached", "run_count_not_reached"}};
    const json_t *counts = json_object_get(stage, "counts");
    bool is_over = !json_text_is(stage, "status", "RUNNING");
    text_put(b, lang, "run_counts", "ok", DIGITS(cli_run_settled(counts)), "total",
             DIGITS(json_get_int(counts, "total", 0)), NULL);
    for (size_t i = 0; is_over && i < sizeof others / sizeof others[0]; i++) {
        int64_t count = json_get_int(counts, others[i][0], 0);
        if (count > 0) {
            buf_puts(b, ", ");
            text_put(b, lang, others[i][1], "count", DIGITS(count), NULL);
        }
    }
}

/* The run, its status, its counts, its duration; on a narrow terminal the last two stand below. */
static void put_headline(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    struct buf rest CLEANUP(buf_clear) = BUF_INIT;
    const char *status = json_get_string(stage, "status", ""), *id = json_get_string(stage, "run_id", "");
    size_t width = (size_t)cli_terminal_width(stdout);
    cli_put(b, options, stdout, STYLE_BOLD, id);
    buf_puts(b, " ");
    cli_put(b, options, stdout, cli_run_style(status), status);
    if (json_object_get(stage, "counts")) {
        buf_puts(&rest, "  ");
        put_counts(&rest, options->lang, stage);
    }
    if (json_object_get(stage, "duration_ms")) {
        buf_printf(&rest, "  %s", CLI_SPAN(options->lang, json_get_int(stage, "duration_ms", 0)));
    }
    if (width && strlen(id) + 1 + strlen(status) + utf8_width(buf_str(&rest)) > width)
        buf_puts(b, "\n");
    buf_printf(b, "%s\n", buf_str(&rest));
}

/* --on-conflict after: it is recorded, and begins when the run that is there has ended. */
static void print_pending(const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *run = json_get_string(result, "run_id", ""), *request = json_get_string(result, "request_id", NULL);
    bool has_replaced = json_get_bool(result, "replaced", false);
    json_t *next CLEANUP_JSON = json_pack("[o, o]", json_sprintf("tasuki runs show %s", run),
                                          json_sprintf("tasuki runs cancel %s --pending", run));
    text_put(&line, options->lang, has_replaced ? "run_pending_instead" : "run_pending", "what",
             request ? request : json_get_string(result, "flow", ""), "run", run, NULL);
    cli_put_prose(&b, options, stdout, STYLE_PLAIN, buf_str(&line), 0, 2);
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}

PRINTER(run, "run", "resume", "answer", "request.run")
{
    if (json_text_is(result, "status", "PENDING")) {
        if (!options->quiet)
            print_pending(options, result);
        return;
    }
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_end_progress();
    json_each (json_object_get(result, "order"), i, step)
        printf("%zu. %s\n", i + 1, json_get_string(step, "task", ""));
    if (json_object_get(result, "order") || (options->quiet && call->verdict == TSK_OK))
        return;
    put_headline(&b, options, result);
    const char *reason = json_get_string(result, "reason", NULL);
    if (reason && json_array_size(json_object_get(result, "failures")) == 0)
        run_put_sentence(&b, options, STYLE_BAD, reason);
    if (json_get_bool(result, "nothing_to_do", false))
        run_put_sentence(&b, options, STYLE_PLAIN, text_get("run_nothing_to_do", options->lang));
    put_failures(&b, options, result);
    put_questions(&b, options, result);
    run_put_next(&b, options, result);
    fputs(buf_str(&b), stdout);
}

/* A sentence; of a dry run also which ones. */
PRINTER(prune, "runs.prune")
{
    enum { SHOWN = 10 };
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_t *id;
    if (options->quiet)
        return;
    text_put_json(&b, options->lang, call->says, result, NULL);
    printf("%s\n", buf_str(&b));
    if (!json_get_bool(result, "dry_run", false))
        return;
    json_array_foreach (json_object_get(result, "removed"), i, id)
        if (i < SHOWN)
            printf("  %s\n", json_string_value(id));
    cli_print_more(options, (int64_t)i - SHOWN);
}

PRINTER(tasks, "runs.tasks")
{
    static const char *const heads[] = {"head_task", "head_state", "head_attempt", "head_started"};
    struct cli_table table = {.columns = 4, .drops = {2}, .keeps_last = true};
    if (json_array_size(json_object_get(result, "tasks")) == 0) {
        cli_say(options, stdout, json_object_get(call->args, "state") ? "none_matches" : "no_tasks");
        return;
    }
    cli_table_add_heads(&table, options, heads);
    json_each (json_object_get(result, "tasks"), i, task) {
        const char *state = json_get_string(task, "state", "");
        char when[TIME_TEXT_MAX];
        cli_table_add(&table, STYLE_BOLD, json_get_string(task, "task", ""));
        cli_table_add(&table, cli_run_style(state), cli_word(options, "view_", state));
        cli_table_add(&table, STYLE_DIM, DIGITS(json_get_int(task, "attempt", 1)));
        cli_when(options, json_get_string(task, "started_at", ""), when);
        cli_table_add(&table, STYLE_PLAIN, when);
    }
    cli_table_print(&table, options, stdout);
}

/* How long it took, or has been running; "-" of one that was interrupted. */
void cli_run_span(const struct cli_options *options, const json_t *run, char text[TIME_TEXT_MAX])
{
    int64_t began, ended = clock_now().wall_ms;
    const char *end = json_get_string(run, "ended_at", NULL);
    const json_t *duration = json_object_get(run, "duration_ms");
    bool is_known = time_parse(json_get_string(run, "started_at", ""), &began) == 0;
    if (end)
        is_known &= time_parse(end, &ended) == 0;
    else
        is_known &= json_text_is(run, "status", "RUNNING");
    snprintf(text, TIME_TEXT_MAX, "-");
    if (is_known) /* these times have whole seconds, and a pause between two runners is in them */
        cli_whole_span(options->lang, duration ? json_integer_value(duration) : ended - began, text);
}

PRINTER(runs, "runs.list")
{
    static const char *const heads[] = {"head_run", "head_status", "head_flow",   "head_done",
                                        "head_for", "head_by",     "head_started"};
    struct cli_table table = {.columns = 7, .gives_way = 2, .drops = {5, 4, 3}};
    if (json_array_size(json_object_get(result, "runs")) == 0) {
        cli_print_none(call, options, "no_runs");
        return;
    }
    cli_table_add_heads(&table, options, heads);
    json_each (json_object_get(result, "runs"), i, run) {
        char count[64], span[TIME_TEXT_MAX], when[TIME_TEXT_MAX];
        struct buf name CLEANUP(buf_clear) = BUF_INIT;
        const json_t *counts = json_object_get(run, "counts");
        const char *flow = json_get_string(run, "flow", NULL), *status = json_get_string(run, "status", "");
        snprintf(count, sizeof count, "%lld/%lld", (long long)cli_run_settled(counts),
                 (long long)json_get_int(counts, "total", 0));
        if (json_get_int(counts, "total", 0) == 0) /* it ended before it could say what it had to do */
            snprintf(count, sizeof count, "-");
        cli_table_add(&table, STYLE_BOLD, cli_short_id(call, options, json_get_string(run, "run_id", "")));
        cli_table_add(&table, cli_run_style(status), status);
        cli_table_add(&table, STYLE_PLAIN,
                      flow ? cli_short_id(call, options, flow)
                           : cli_flow(options, json_get_string(run, "source", ""), &name));
        cli_table_add(&table, STYLE_PLAIN, count);
        cli_run_span(options, run, span);
        cli_table_add(&table, STYLE_PLAIN, span);
        cli_table_add_by(&table, options, json_object_get(run, "started_by"));
        cli_when(options, json_get_string(run, "started_at", ""), when);
        cli_table_add(&table, STYLE_PLAIN, when);
    }
    cli_table_print(&table, options, stdout);
}

/* The run that is pending after this one. */
static void put_follower(struct buf *b, const struct cli_options *options, const json_t *pending)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    if (!pending)
        return;
    buf_printf(&line, "%s  %s", json_get_string(json_object_get(pending, "who"), "label", ""),
               CLI_WHEN(options, json_get_string(pending, "created_at", "")));
    cli_put_line(b, options, stdout, "label_pending", buf_str(&line));
}

/* Whether one of them ran on a worker; on one with another commit. */
static bool has_any(const json_t *tasks, const char *key)
{
    json_each (tasks, i, task)
        if (json_object_get(task, key))
            return true;
    return false;
}

/* A task that was stopped before it started is shown as not reached, as in the counts above the table. */
static const char *task_state(const json_t *task)
{
    const char *state = json_get_string(task, "state", "");
    bool has_started = json_get_string(task, "started_at", NULL);
    return strcmp(state, "stopped") == 0 && !has_started ? "blocked" : state;
}

/* Of a large run, the stage has only the tasks that did not end well. */
static void put_left_out(const struct cli_options *options, const json_t *stage)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    int64_t left_out = json_get_int(stage, "tasks_left_out", 0);
    if (left_out <= 0)
        return;
    text_put(&b, options->lang, "tasks_left_out", "count", DIGITS(left_out), "run",
             json_get_string(stage, "run_id", ""), NULL);
    printf("\n%s\n", buf_str(&b));
}

PRINTER(stage, "runs.show")
{
    struct buf by CLEANUP(buf_clear) = BUF_INIT;
    static const char *const heads[] = {"head_task",    "head_state",  "head_attempt",
                                        "head_started", "head_worker", "head_commit"};
    const json_t *tasks = json_object_get(result, "tasks");
    struct cli_table table = {.columns = has_any(tasks, "commit")   ? 6
                                         : has_any(tasks, "worker") ? 5
                                                                    : 4,
                              .drops = {2},
                              .keeps_last = true};
    struct op_call shown = *call;
    shown.verdict = TSK_RUN_FAILED; /* also with --quiet: it was asked for */
    cli_print_run(&shown, options, result);
    cli_put_starter(&by, options, stdout, result);
    put_follower(&by, options, json_object_get(result, "pending"));
    fputs(buf_str(&by), stdout);
    if (json_array_size(json_object_get(result, "tasks")) == 0) {
        put_left_out(options, result);
        return;
    }
    printf("\n");
    cli_table_add_heads(&table, options, heads);
    json_each (json_object_get(result, "tasks"), i, task) {
        char when[TIME_TEXT_MAX];
        const char *state = task_state(task), *attempt = DIGITS(json_get_int(task, "attempt", 0));
        struct buf place CLEANUP(buf_clear) = BUF_INIT;
        cli_put_task_place(&place, result, task);
        cli_table_add(&table, STYLE_BOLD, buf_str(&place));
        cli_table_add(&table, cli_run_style(state), cli_word(options, "view_", state));
        cli_table_add(&table, STYLE_PLAIN, strcmp(attempt, "0") == 0 ? "" : attempt);
        cli_when(options, json_get_string(task, "started_at", ""), when);
        cli_table_add(&table, STYLE_PLAIN, when);
        if (table.columns > 4)
            cli_table_add(&table, STYLE_PLAIN, json_get_string(task, "worker", ""));
        if (table.columns > 5)
            cli_table_add_commit(&table, task);
    }
    cli_table_print(&table, options, stdout);
    put_left_out(options, result);
}

/* Each line as a terminal shows it in the end. */
static void run_put_log_text(struct buf *b, const struct cli_options *options, const char *text)
{
    while (*text) {
        size_t line = strcspn(text, "\n"), len = line;
        const char *part = log_text_last_part(text, &len);
        log_text_for_terminal(b, part, len, cli_has_colour(options, stdout));
        text += line;
        if (*text == '\n')
            buf_put(b, text++, 1);
    }
}

PRINTER(logs, "runs.logs")
{
    json_each (json_object_get(result, "logs"), i, log) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        const char *text = json_get_string(log, "text", "");
        cli_put(&b, options, stdout, STYLE_DIM, "== ");
        cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(log, "task", ""));
        buf_printf(&b, " (%lld) ", (long long)json_get_int(log, "attempt", 1));
        cli_put(&b, options, stdout, STYLE_DIM, json_get_string(log, "session_id", ""));
        if (json_get_bool(log, "untimed", false))
            buf_printf(&b, "  (%s)", text_get("run_log_untimed", options->lang));
        buf_puts(&b, "\n");
        cli_put_fence(&b, text, true);
        if (isatty(STDOUT_FILENO))
            run_put_log_text(&b, options, text);
        else
            buf_puts(&b, text);
        if (*text && text[strlen(text) - 1] != '\n')
            buf_puts(&b, "\n");
        cli_put_fence(&b, text, false);
        fputs(buf_str(&b), stdout);
    }
}

/* A text as it is, everything else as JSON: for `x=$(…)`. */
PRINTER(value, "channel.get", "task.ask")
{
    const json_t *value = json_object_get(result, "value");
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    value = value ? value : json_object_get(result, "answer");
    if (json_is_string(value))
        buf_puts(&b, json_string_value(value));
    else
        json_write(&b, value, false);
    printf("%s\n", buf_str(&b));
}

PRINTER(waited, "wait")
{
    const char *kind = json_get_string(call->args, "kind", "");
    if (strcmp(kind, "run") == 0)
        cli_print_run(call, options, result);
    else if (strcmp(kind, "lock") == 0)
        cli_print_lock_check(call, options, result);
    else
        (strcmp(kind, "workflow") == 0 ? cli_print_own_show : cli_print_process)(call, options, result);
}
