#include "cli/progress.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "hold/protocol.h"
#include "proc/log_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAW_PERIOD_MS 80
#define FENCE_DIGITS   32
#define STOP_MOMENT_MS 500 /* most tasks have ended by then, and nothing is said */

/* The run that is shown; it lives as long as the program, as the terminal does. */
static struct {
    struct shown_run run;
    enum { OUTPUT_FAIL, OUTPUT_GROUPED, OUTPUT_LIVE } output;
    bool is_terminal, has_block; /* has_block: the terminal can move its cursor */
    int64_t drawn_ms;
    int64_t stopping_ms; /* since when the tasks have to end, on the boot clock; 0: they need not, or it was said */
    const char *head;    /* the line above the output that follows, or NULL */
    bool is_open;        /* lines of a task have been printed, the fence is to be closed */
    size_t names_width;  /* columns of the longest task's name so far */
    bool has_told_queue; /* how each of its runs ended */
    char last[512];      /* SESSION/TASK whose output was printed last, and nothing since */
} shown;

static bool is_switched_on(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] && strcmp(value, "false") != 0;
}

/* Also on a terminal, which some of its jobs have. */
static bool is_on_github(void)
{
    return is_switched_on("GITHUB_ACTIONS");
}

/* Nobody looks on; what is printed becomes a log. */
static bool is_in_ci(void)
{
    return is_switched_on("CI") || is_on_github();
}

/* ---- what tasks have printed ------------------------------------------------------------------------------------ */

void cli_put_fence(struct buf *b, const void *what, bool is_begin)
{
    static char token[FENCE_DIGITS + 1]; /* of the fence that is open; no task can know it beforehand */
    if (!what || !is_on_github())
        return;
    if (is_begin)
        random_hex(token, FENCE_DIGITS);
    buf_printf(b, is_begin ? "::stop-commands::%s\n" : "::%s::\n", token);
}

static void print_fence(bool is_begin)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put_fence(&b, &b, is_begin);
    fputs(buf_str(&b), stdout);
}

static void output_begin(const struct shown_task *task)
{
    cli_end_progress();
    if (shown.head)
        fputs(shown.head, stdout);
    if (shown.output == OUTPUT_GROUPED && is_on_github())
        printf("::group::%s\n", task->task);
    print_fence(true);
    shown.is_open = true;
    snprintf(shown.last, sizeof shown.last, "%s/%s", task->session, task->task);
}

static void output_end(void)
{
    if (!shown.is_open)
        return;
    print_fence(false);
    if (shown.output == OUTPUT_GROUPED && is_on_github())
        printf("::endgroup::\n");
    shown.is_open = false;
}

/* Prints "name | text" if lines are live and several tasks may run. All names are padded to the longest one so far. */
static void print_named(const struct op_call *call, const struct shown_run *run, const char *task, const char *line,
                        size_t len)
{
    for (size_t i = 0; i < run->count; i++)
        if (utf8_width(run->tasks[i].task) > shown.names_width)
            shown.names_width = utf8_width(run->tasks[i].task);
    struct op_line one = {.kind = OP_LINE_STDOUT, .id = task, .width = shown.names_width, .text = line, .len = len};
    for (const char *c = task; *c; c++)
        one.which = one.which * 31 + (unsigned char)*c; /* the same colour each time */
    cli_emit_line((struct op_call *)call, &one);
}

static void print_task_line(const struct op_call *call, const struct shown_run *run, const struct shown_task *task,
                            const char *line, size_t len)
{
    struct buf b CLEANUP(buf_clear) = {.max = 1u << 20};
    if (!shown.is_open)
        output_begin(task);
    if (shown.output == OUTPUT_LIVE && !run->is_of_one) {
        print_named(call, run, task->task, line, len);
        return;
    }
    if (shown.output == OUTPUT_GROUPED && !is_on_github())
        buf_puts(&b, "    ");
    if (shown.is_terminal) {
        line = log_text_last_part(line, &len);
        log_text_for_terminal(&b, line, len, cli_has_colour(call->skin, stdout));
    } else {
        buf_put(&b, line, len);
    }
    buf_puts(&b, "\n");
    fwrite(b.data, 1, b.len, stdout);
}

/* Prints what is new; `head` is a line above it. Returns whether there was something. */
static bool print_output(const struct op_call *call, struct shown_task *task, bool is_over, const char *head)
{
    shown.head = head;
    bool has_lines = shown_lines(call, &shown.run, task, is_over, print_task_line);
    output_end();
    return has_lines;
}

static bool is_last(const char *session, const char *task)
{
    char name[sizeof shown.last];
    snprintf(name, sizeof name, "%s/%s", session, task);
    return strcmp(shown.last, name) == 0;
}

bool cli_progress_has_shown(const json_t *failure)
{
    return !is_on_github() && is_last(json_get_string(failure, "session_id", ""), json_get_string(failure, "task", ""));
}

/* ---- lines about tasks ------------------------------------------------------------------------------------------ */

static enum style outcome_style(const char *outcome)
{
    bool is_good = strcmp(outcome, "ok") == 0, is_bad = strcmp(outcome, "failed") == 0;
    return is_good ? STYLE_GOOD : is_bad ? STYLE_BAD : strcmp(outcome, "started") == 0 ? STYLE_PLAIN : STYLE_WARN;
}

/* "test: failed after 1.2 s" */
static void put_outcome(struct buf *b, const struct cli_options *options, const json_t *document, const char *outcome,
                        int64_t ms)
{
    struct buf words CLEANUP(buf_clear) = BUF_INIT;
    const char *key = cli_key("task_line_", outcome);
    text_put(&words, options->lang, key ? key : "task_line_stopped", "span", CLI_SPAN(options->lang, ms), NULL);
    cli_put(b, options, stdout, STYLE_BOLD, json_get_string(document, "task_id", ""));
    buf_puts(b, ": ");
    cli_put(b, options, stdout, outcome_style(outcome), buf_str(&words));
    buf_puts(b, "\n");
}

static void print_outcome(const json_t *document, const char *line)
{
    cli_end_progress();
    fputs(line, stdout);
    if (!is_last(json_get_string(document, "session_id", ""), json_get_string(document, "task_id", "")))
        shown.last[0] = '\0';
}

/* What GitHub shows beside the workflow; % and ends of lines have a meaning there. */
static void print_annotation(const json_t *document)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *reason = json_get_string(json_object_get(document, "data"), "reason", "");
    buf_printf(&b, "::error title=%s::", json_get_string(document, "task_id", ""));
    for (; *reason; reason++)
        if (strchr("%\r\n", *reason))
            buf_printf(&b, "%%%02X", (unsigned char)*reason);
        else
            buf_put(&b, reason, 1);
    printf("%s\n", buf_str(&b));
}

/* ---- facts ------------------------------------------------------------------------------------------------------ */

static struct shown_task *shown_task_find(const json_t *document)
{
    const char *name = json_get_string(document, "task_id", ""), *session = json_get_string(document, "session_id", "");
    for (size_t i = 0; i < shown.run.count; i++)
        if (strcmp(shown.run.tasks[i].task, name) == 0 && strcmp(shown.run.tasks[i].session, session) == 0)
            return &shown.run.tasks[i];
    return NULL;
}

static void task_drop(struct shown_task *task)
{
    size_t index = (size_t)(task - shown.run.tasks);
    free(task->task);
    free(task->session);
    memmove(task, task + 1, (--shown.run.count - index) * sizeof *task);
}

static void fact_started(const struct cli_options *options, const json_t *document)
{
    struct shown_run *run = &shown.run;
    const json_t *data = json_object_get(document, "data");
    LIST_GROW(run->tasks, run->count, run->max, 16);
    struct shown_task task = {.task = strdup(json_get_string(document, "task_id", "")),
                              .session = strdup(json_get_string(document, "session_id", "")),
                              .attempt = json_get_int(data, "attempt", 1),
                              .at = json_get_int(data, "log_from", 0),
                              .since_ms = clock_now().boot_ms};
    BUG(!task.task || !task.session);
    run->tasks[run->count++] = task;
    if (!shown.has_block) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        put_outcome(&line, options, document, "started", 0);
        print_outcome(document, buf_str(&line));
    }
}

/* On a terminal what went well is not worth a line. Where output is grouped, the line stands above it. */
static void fact_ended(const struct op_call *call, const struct cli_options *options, const json_t *document,
                       const char *outcome)
{
    struct shown_task *task = shown_task_find(document);
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    const json_t *ms = json_object_get(json_object_get(document, "data"), "ms");
    bool has_failed = strcmp(outcome, "failed") == 0, is_alone = shown.run.is_of_one && shown.run.has_lines_above;
    bool has_line = !shown.has_block || (has_failed && !is_alone);
    bool is_head = shown.output == OUTPUT_GROUPED && !is_on_github();
    put_outcome(&line, options, document, outcome,
                ms     ? json_integer_value(ms)
                : task ? clock_now().boot_ms - task->since_ms
                       : 0);
    if (task && shown.output != OUTPUT_FAIL && print_output(call, task, true, is_head ? buf_str(&line) : NULL))
        has_line = has_line && !is_head;
    if (has_line)
        print_outcome(document, buf_str(&line));
    if (has_failed && is_on_github())
        print_annotation(document);
    if (task)
        task_drop(task);
}

static void choose_output(const struct op_call *call)
{
    static const char *const names[] = {[OUTPUT_FAIL] = "fail", [OUTPUT_GROUPED] = "grouped", [OUTPUT_LIVE] = "live"};
    const char *want = json_get_string(call->args, "output", NULL);
    bool has_choice = op_param_find(call->op, "output");
    shown.is_terminal = isatty(STDOUT_FILENO);
    bool is_watched = shown.is_terminal && !is_in_ci();
    shown.has_block = is_watched && isatty(STDERR_FILENO) && !cli_is_plain_terminal();
    shown.run.is_of_one = shown.run.total == 1;
    shown.output = !has_choice                         ? OUTPUT_FAIL
                   : is_on_github()                    ? OUTPUT_GROUPED
                   : is_watched && shown.run.is_of_one ? OUTPUT_LIVE
                                                       : OUTPUT_FAIL;
    for (size_t i = 0; has_choice && want && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], want) == 0)
            shown.output = i;
    shown.run.has_lines_above = shown.output == OUTPUT_LIVE;
}

/* "== RQ-1  Paint the door", on one line of a terminal. */
static void print_run_line(const struct cli_options *options, const json_t *about)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, title = BUF_INIT;
    const char *id = json_get_string(about, "request_id", "");
    size_t width = (size_t)cli_terminal_width(stdout), used = strlen("==   ") + strlen(id);
    utf8_put_visible(&title, json_get_string(about, "title", ""), false);
    char *shown_title = buf_take(&title);
    if (width)
        shown_title = cli_cut(shown_title, width > used + 1 ? width - used : 1);
    cli_put(&b, options, stdout, STYLE_DIM, "== ");
    cli_put(&b, options, stdout, STYLE_BOLD, id);
    buf_printf(&b, "  %s\n", shown_title);
    free(shown_title);
    fputs(buf_str(&b), stdout);
}

/* A queue has many runs: each has a line with its request at its begin, and at its end what `run` shows at the end. */
static bool print_queue_fact(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    const char *type = json_get_string(document, "type", "");
    const json_t *about = json_object_get(document, "data");
    bool is_end = strcmp(type, "queue.ran") == 0;
    if (!op_has_noun(call->op, "queue") || !(is_end || strcmp(type, "queue.next") == 0))
        return false;
    cli_end_progress();
    if (is_end)
        cli_print_run(call, options, about);
    else
        print_run_line(options, about);
    shown.has_told_queue = true;
    return true;
}

bool cli_progress_told_queue(void)
{
    return shown.has_told_queue;
}

/* The numbers of the run. Another run is shown from its beginning: a queue has many. */
static void note_run(const struct op_call *call, const json_t *document)
{
    const json_t *progress = json_object_get(document, "progress");
    const char *id = json_get_string(document, "run_id", "");
    shown.run.done = json_get_int(progress, "done", 0);
    shown.run.total = json_get_int(progress, "total", 0);
    if (strcmp(id, shown.run.id) == 0)
        return;
    snprintf(shown.run.id, sizeof shown.run.id, "%s", id);
    shown.run.began_ms = clock_now().boot_ms;
    while (shown.run.count)
        task_drop(&shown.run.tasks[shown.run.count - 1]);
    shown.last[0] = '\0';
    shown.stopping_ms = 0;
    choose_output(call);
}

/* The run is being cancelled, and these tasks go on: once, with what ends them. */
static void say_who_goes_on(const struct cli_options *options)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT, b CLEANUP(buf_clear) = BUF_INIT;
    if (!shown.stopping_ms || !shown.run.count || clock_now().boot_ms - shown.stopping_ms < STOP_MOMENT_MS)
        return;
    shown.stopping_ms = 0;
    for (size_t i = 0; i < shown.run.count; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", shown.run.tasks[i].task);
    text_put(&text, options->lang, "run_goes_on", "names", buf_str(&names), "span",
             CLI_WHOLE_SPAN(options->lang, HOLD_GRACE_MS), NULL);
    cli_end_progress();
    fflush(stdout);
    cli_put_prose(&b, options, stderr, STYLE_WARN, buf_str(&text), 0, 2);
    fputs(buf_str(&b), stderr);
}

static void draw_progress(const struct op_call *call, const struct cli_options *options, bool is_tick)
{
    int64_t now = clock_now().boot_ms;
    if (!shown.has_block || (!is_tick && now - shown.drawn_ms < DRAW_PERIOD_MS))
        return;
    fflush(stdout);
    shown.drawn_ms = now;
    block_draw(call, options, &shown.run);
}

bool cli_print_progress(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    const char *type = json_get_string(document, "type", "");
    bool is_tick = strcmp(type, "run.progress") == 0;
    if (print_queue_fact(call, options, document))
        return true;
    if (!json_object_get(document, "progress"))
        return false;
    note_run(call, document);
    if (strcmp(type, "task.started") == 0)
        fact_started(options, document);
    else if (strcmp(type, "task.ended") == 0)
        fact_ended(call, options, document, json_get_string(json_object_get(document, "data"), "outcome", ""));
    else if (strcmp(type, "task.failed") == 0)
        fact_ended(call, options, document, "failed");
    else if (strcmp(type, "task.asked") == 0)
        fact_ended(call, options, document, "asks");
    else if (strcmp(type, "run.cancelling") == 0)
        shown.stopping_ms = clock_now().boot_ms;
    if (is_tick)
        say_who_goes_on(options);
    for (size_t i = 0; is_tick && shown.output == OUTPUT_LIVE && i < shown.run.count; i++)
        print_output(call, &shown.run.tasks[i], false, NULL);
    if (strcmp(type, "run.ended") == 0)
        cli_end_progress();
    else
        draw_progress(call, options, is_tick);
    return true;
}

void cli_end_progress(void)
{
    shown.drawn_ms = 0;
    block_clear();
}

bool cli_wants_ticks(const struct cli_options *options, const json_t *args)
{
    return !options->json && (isatty(STDOUT_FILENO) || json_text_is(args, "output", "live"));
}
