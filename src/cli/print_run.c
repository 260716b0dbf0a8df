/* print_run.c - runs for people: progress while they run, and how they ended. */
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, BAR_WIDTH_NARROW = 8, NARROW = 60, BAR_PERIOD_MS = 80, NAMES_MAX = 3, NAME_MIN = 4 };

/* ---- progress ------------------------------------------------------------------------------------------- */

/* What the bar shows; it lives as long as the program, as the terminal does. */
static struct {
    int64_t began_ms, drawn_ms;
    char running[NAMES_MAX][64]; /* the last that were started and have not ended */
    bool is_drawn;
} bar;

void cli_end_progress(void)
{
    if (bar.is_drawn)
        fputs("\r\033[K", stderr);
    bar.is_drawn = false;
}

static void note_running(const json_t *document)
{
    const char *type = json_get_string(document, "type", ""), *task = json_get_string(document, "task_id", "");
    size_t free_place = NAMES_MAX;
    for (size_t i = 0; i < NAMES_MAX; i++) {
        if (strcmp(bar.running[i], task) == 0)
            bar.running[i][0] = '\0';
        if (!bar.running[i][0])
            free_place = i;
    }
    if (strcmp(type, "task.started") == 0 && free_place < NAMES_MAX)
        utf8_copy(bar.running[free_place], sizeof bar.running[0], task);
}

/* What runs, as far as it fits: the last name is cut, and those that are not named are counted. */
static void put_running(struct buf *names, int64_t running, int room)
{
    int64_t named = 0;
    char more[24];
    snprintf(more, sizeof more, " +%lld", (long long)running); /* the longest that may follow */
    room -= running > 1 ? (int)strlen(more) : 0;
    for (size_t i = 0; i < NAMES_MAX && room > NAME_MIN; i++) {
        int len = (int)strlen(bar.running[i]); /* names have no wide characters */
        if (!len)
            continue;
        if (len + 1 > room)
            buf_printf(names, " %.*s…", room - 2, bar.running[i]);
        else
            buf_printf(names, " %s", bar.running[i]);
        room -= len + 1;
        named++;
    }
    if (named && running > named)
        buf_printf(names, " +%lld", (long long)(running - named));
}

static void draw_bar(const struct cli_options *options, const json_t *document)
{
    const json_t *progress = json_object_get(document, "progress");
    int64_t done = json_get_int(progress, "done", 0), total = json_get_int(progress, "total", 1),
            now = clock_now().boot_ms;
    bool is_tick = strcmp(json_get_string(document, "type", ""), "run.progress") == 0;
    char span[TIME_TEXT_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT, names CLEANUP(buf_clear) = BUF_INIT;
    if (now - bar.drawn_ms < BAR_PERIOD_MS && done < total && !is_tick)
        return;
    bar.drawn_ms = now;
    total = total < done ? done : total;
    int columns = cli_terminal_width(stderr), width = columns < NARROW ? BAR_WIDTH_NARROW : BAR_WIDTH;
    int64_t filled = total ? done * width / total : 0;
    buf_puts(&b, "[");
    for (int64_t i = 0; i < width; i++)
        buf_puts(&b, i < filled ? "#" : ".");
    duration_format(now - bar.began_ms, span);
    buf_printf(&b, "] %lld/%lld  %s ", (long long)done, (long long)total, span);
    put_running(&names, json_get_int(progress, "running", 0), columns - (int)utf8_width(buf_str(&b)) - 1);
    if (names.len)
        cli_put(&b, options, stderr, STYLE_DIM, buf_str(&names));
    fprintf(stderr, "\r\033[K%s", buf_str(&b));
    fflush(stderr);
    bar.is_drawn = true;
}

/* The word for a task's state. */
static const char *state_text(const struct cli_options *options, const char *state)
{
    static const struct {
        const char *state, *text;
    } words[] = {{"waiting", "view_waiting"}, {"running", "view_running"}, {"retry", "view_retry"},
                 {"ok", "view_ok"},           {"failed", "view_failed"},   {"skipped", "view_skipped"},
                 {"blocked", "view_blocked"}, {"stopped", "view_stopped"}, {"asks", "view_asks"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].state, state) == 0)
            return text_get(words[i].text, options->lang);
    return state;
}

static void print_line(const struct cli_options *options, const json_t *document)
{
    const char *type = json_get_string(document, "type", "");
    const json_t *progress = json_object_get(document, "progress"), *data = json_object_get(document, "data");
    char span[TIME_TEXT_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    bool is_end = strcmp(type, "task.ended") == 0, is_failure = strcmp(type, "task.failed") == 0;
    if (!is_end && !is_failure)
        return;
    const char *outcome = is_failure ? "failed" : json_get_string(data, "outcome", "");
    buf_printf(&b, "[%lld/%lld] ", (long long)json_get_int(progress, "done", 0),
               (long long)json_get_int(progress, "total", 0));
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(document, "task_id", ""));
    buf_puts(&b, " ");
    cli_put(&b, options, stdout,
            strcmp(outcome, "ok") == 0 ? STYLE_GOOD
            : is_failure               ? STYLE_BAD
                                       : STYLE_WARN,
            state_text(options, outcome));
    if (is_end) {
        duration_format(json_get_int(data, "ms", 0), span);
        buf_printf(&b, "  %s", span);
    }
    printf("%s\n", buf_str(&b));
}

bool cli_print_progress(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    if (!json_object_get(document, "progress"))
        return false;
    (void)call;
    if (!bar.began_ms)
        bar.began_ms = clock_now().boot_ms;
    if (!isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO)) {
        print_line(options, document);
        return true;
    }
    note_running(document);
    draw_bar(options, document);
    return true;
}

/* ---- results -------------------------------------------------------------------------------------------- */

static enum style style_of(const char *status)
{
    if (strcmp(status, "DONE") == 0 || strcmp(status, "ok") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "FAILED") == 0 || strcmp(status, "failed") == 0)
        return STYLE_BAD;
    return strcmp(status, "RUNNING") == 0 || strcmp(status, "waiting") == 0 ? STYLE_PLAIN : STYLE_WARN;
}

static void put_failures(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    size_t i;
    json_t *failure;
    json_array_foreach (json_object_get(stage, "failures"), i, failure) {
        const char *log = json_get_string(failure, "log", NULL);
        buf_puts(b, "  ");
        cli_put(b, options, stdout, STYLE_BAD, json_get_string(failure, "reason", ""));
        if (log) {
            buf_puts(b, "\n    ");
            cli_put(b, options, stdout, STYLE_PLAIN, log);
        }
        buf_puts(b, "\n");
    }
}

/* A task, and where it has a session of its own, the branch: BRANCH/TASK. */
static void put_place(struct buf *b, const json_t *stage, const json_t *of)
{
    const char *session = json_get_string(of, "session_id", ""), *run = json_get_string(stage, "run_id", "");
    if (strncmp(session, run, strlen(run)) == 0 && session[strlen(run)] == '_')
        buf_printf(b, "%s/", session + strlen(run) + 1);
    buf_puts(b, json_get_string(of, "task", ""));
}

/* The task that asks, with its branch if the name alone is ambiguous. */
static void put_asker(struct buf *b, const json_t *stage, const json_t *asks)
{
    const char *name = json_get_string(asks, "task", "");
    size_t i, same = 0;
    json_t *open;
    json_array_foreach (json_object_get(stage, "questions"), i, open)
        same += strcmp(json_get_string(open, "task", ""), name) == 0;
    if (same > 1)
        put_place(b, stage, asks);
    else
        buf_puts(b, name);
}

static void put_questions(struct buf *b, const struct cli_options *options, const json_t *stage)
{
    size_t i, k;
    json_t *open, *option;
    json_array_foreach (json_object_get(stage, "questions"), i, open) {
        const json_t *question = json_object_get(open, "question");
        struct buf asker CLEANUP(buf_clear) = BUF_INIT;
        put_asker(&asker, stage, open);
        buf_puts(b, "  ");
        cli_put(b, options, stdout, STYLE_BOLD, buf_str(&asker));
        buf_puts(b, ": ");
        cli_put(b, options, stdout, STYLE_PLAIN, json_get_string(question, "question", ""));
        buf_puts(b, "\n");
        json_array_foreach (json_object_get(question, "options"), k, option) {
            buf_printf(b, "    %zu. ", k + 1);
            cli_put(b, options, stdout, STYLE_PLAIN, json_is_string(option) ? json_string_value(option) : "?");
            buf_puts(b, "\n");
        }
    }
}

/* One line per open question; which task is meant must be said as soon as there are several. */
static void add_answers(const json_t *stage, json_t *next)
{
    const json_t *questions = json_object_get(stage, "questions");
    const char *id = json_get_string(stage, "run_id", "");
    size_t i;
    json_t *open;
    json_array_foreach (questions, i, open) {
        const char *type = json_get_string(json_object_get(open, "question"), "type", "text");
        const char *form = strcmp(type, "approval") == 0 ? "--yes" : strcmp(type, "text") == 0 ? "TEXT" : "--choose N";
        struct buf asker CLEANUP(buf_clear) = BUF_INIT;
        put_asker(&asker, stage, open);
        if (json_array_size(questions) == 1)
            json_array_append_new(next, json_sprintf("tasuki answer %s %s", id, form));
        else
            json_array_append_new(next, json_sprintf("tasuki answer %s --task %s %s", id, buf_str(&asker), form));
    }
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

/* The flow, for who changes it or runs it anew. What came through a pipe is in the run's copy only. */
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
    struct buf file CLEANUP(buf_clear) = BUF_INIT;
    json_array_append_new(next, request ? json_sprintf("tasuki request run %s", request)
                                        : json_sprintf("tasuki run %s", flow_file(stage, &file)));
}

static void put_limit(struct buf *b, const struct cli_options *options, const json_t *stage, json_t *next)
{
    struct buf file CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(b, "  ");
    text_put(b, options->lang, "run_limit_hint", "limit", limit_of(stage), "source", flow_file(stage, &file), NULL);
    buf_puts(b, "\n");
    add_anew(stage, next);
}

static void put_next_of(struct buf *b, const struct cli_options *options, const json_t *stage)
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
    cli_put_next(b, options, stdout, next);
}

/* "3 of 5 tasks, 1 failed, 1 not reached". A run that has not ended says only how far it is. */
static void put_counts(struct buf *b, enum lang lang, const json_t *stage)
{
    static const char *const others[][2] = {{"skipped", "run_count_skipped"},
                                            {"failed", "run_count_failed"},
                                            {"stopped", "run_count_stopped"},
                                            {"not_reached", "run_count_not_reached"}};
    const json_t *counts = json_object_get(stage, "counts");
    bool is_over = strcmp(json_get_string(stage, "status", ""), "RUNNING") != 0;
    char ok[24], total[24], number[24];
    snprintf(ok, sizeof ok, "%lld", (long long)json_get_int(counts, "ok", json_get_int(counts, "done", 0)));
    snprintf(total, sizeof total, "%lld", (long long)json_get_int(counts, "total", 0));
    text_put(b, lang, "run_counts", "ok", ok, "total", total, NULL);
    for (size_t i = 0; is_over && i < sizeof others / sizeof others[0]; i++) {
        int64_t count = json_get_int(counts, others[i][0], 0);
        snprintf(number, sizeof number, "%lld", (long long)count);
        if (count > 0) {
            buf_puts(b, ", ");
            text_put(b, lang, others[i][1], "count", number, NULL);
        }
    }
}

void cli_print_run(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_t *step;
    (void)call;
    cli_end_progress();
    json_array_foreach (json_object_get(result, "order"), i, step)
        printf("%zu. %s\n", i + 1, json_get_string(step, "task", ""));
    if (json_object_get(result, "order") || (options->quiet && call->verdict == TSK_OK))
        return;
    const json_t *counts = json_object_get(result, "counts");
    const char *status = json_get_string(result, "status", "");
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "run_id", ""));
    buf_puts(&b, " ");
    cli_put(&b, options, stdout, style_of(status), status);
    if (counts) {
        put_counts(&line, options->lang, result);
        buf_printf(&b, "  %s", buf_str(&line));
    }
    buf_puts(&b, "\n");
    const char *reason = json_get_string(result, "reason", NULL);
    if (reason && json_array_size(json_object_get(result, "failures")) == 0) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_BAD, reason);
        buf_puts(&b, "\n");
    }
    if (json_get_bool(result, "nothing_to_do", false))
        buf_printf(&b, "  %s\n", text_get("run_nothing_to_do", options->lang));
    put_failures(&b, options, result);
    put_questions(&b, options, result);
    put_next_of(&b, options, result);
    fputs(buf_str(&b), stdout);
}

void cli_print_tasks(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct cli_table table = {.columns = 4};
    size_t i;
    json_t *task;
    (void)call;
    json_array_foreach (json_object_get(result, "tasks"), i, task) {
        const char *state = json_get_string(task, "state", "");
        char attempt[24];
        snprintf(attempt, sizeof attempt, "%lld", (long long)json_get_int(task, "attempt", 1));
        cli_table_add(&table, STYLE_BOLD, json_get_string(task, "task", ""));
        cli_table_add(&table, style_of(state), state);
        cli_table_add(&table, STYLE_DIM, attempt);
        cli_table_add(&table, STYLE_PLAIN, json_get_string(task, "started_at", ""));
    }
    cli_table_print(&table, options, stdout);
}

void cli_print_runs(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    static const char *const heads[] = {"head_run", "head_status", "head_flow", "head_done", "head_started"};
    struct cli_table table = {.columns = 5};
    size_t i;
    json_t *run;
    (void)call;
    if (json_array_size(json_object_get(result, "runs")) == 0) {
        printf("%s\n", text_get("no_runs", options->lang));
        return;
    }
    for (i = 0; i < 5; i++)
        cli_table_add(&table, STYLE_DIM, text_get(heads[i], options->lang));
    json_array_foreach (json_object_get(result, "runs"), i, run) {
        char count[64];
        const json_t *counts = json_object_get(run, "counts");
        const char *flow = json_get_string(run, "flow", NULL), *status = json_get_string(run, "status", "");
        snprintf(count, sizeof count, "%lld/%lld", (long long)json_get_int(counts, "done", 0),
                 (long long)json_get_int(counts, "total", 0));
        if (json_get_int(counts, "total", 0) == 0) /* it ended before it could say what it had to do */
            snprintf(count, sizeof count, "-");
        cli_table_add(&table, STYLE_BOLD, json_get_string(run, "run_id", ""));
        cli_table_add(&table, style_of(status), status);
        cli_table_add(&table, STYLE_PLAIN, flow ? flow : json_get_string(run, "source", ""));
        cli_table_add(&table, STYLE_PLAIN, count);
        cli_table_add(&table, STYLE_PLAIN, json_get_string(run, "started_at", ""));
    }
    cli_table_print(&table, options, stdout);
}

void cli_print_stage(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    static const char *const heads[] = {"head_task", "head_state", "head_attempt", "head_started"};
    struct cli_table table = {.columns = 4};
    size_t i;
    json_t *task;
    struct op_call shown = *call;
    shown.verdict = TSK_RUN_FAILED; /* also with --quiet: it was asked for */
    cli_print_run(&shown, options, result);
    if (json_array_size(json_object_get(result, "tasks")) == 0)
        return;
    printf("\n");
    for (i = 0; i < 4; i++)
        cli_table_add(&table, STYLE_DIM, text_get(heads[i], options->lang));
    json_array_foreach (json_object_get(result, "tasks"), i, task) {
        char attempt[24];
        const char *state = json_get_string(task, "state", "");
        snprintf(attempt, sizeof attempt, "%lld", (long long)json_get_int(task, "attempt", 0));
        struct buf place CLEANUP(buf_clear) = BUF_INIT;
        put_place(&place, result, task);
        cli_table_add(&table, STYLE_BOLD, buf_str(&place));
        cli_table_add(&table, style_of(state), state_text(options, state));
        cli_table_add(&table, STYLE_PLAIN, strcmp(attempt, "0") == 0 ? "" : attempt);
        cli_table_add(&table, STYLE_PLAIN, json_get_string(task, "started_at", ""));
    }
    cli_table_print(&table, options, stdout);
}

void cli_print_logs(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    size_t i;
    json_t *log;
    (void)call;
    json_array_foreach (json_object_get(result, "logs"), i, log) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        const char *text = json_get_string(log, "text", "");
        cli_put(&b, options, stdout, STYLE_DIM, "== ");
        cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(log, "task", ""));
        buf_printf(&b, " (%lld) ", (long long)json_get_int(log, "attempt", 1));
        cli_put(&b, options, stdout, STYLE_DIM, json_get_string(log, "session_id", ""));
        buf_puts(&b, "\n");
        if (isatty(STDOUT_FILENO))
            utf8_put_visible(&b, text, true);
        else
            buf_puts(&b, text);
        if (*text && text[strlen(text) - 1] != '\n')
            buf_puts(&b, "\n");
        fputs(buf_str(&b), stdout);
    }
}

/* A text as it is, everything else as JSON: for `x=$(…)`. */
void cli_print_value(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const json_t *value = json_object_get(result, "value");
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    (void)options;
    value = value ? value : json_object_get(result, "answer");
    if (json_is_string(value))
        buf_puts(&b, json_string_value(value));
    else
        json_write(&b, value, false);
    printf("%s\n", buf_str(&b));
}
