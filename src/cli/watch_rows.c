/* watch_rows.c - the documents of the feed as rows: what failed and what asks first, then what runs. */
#include "base/clock.h"
#include "base/utf8.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/watch.h"
#include "ops/proc_args.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_BAR_WIDTH = 8, RUN_SHORT = 6, CELLS_MAX = 6 };
#define CELL_END "\x1f"

const char *watch_section_name(enum watch_section section, enum lang lang)
{
    static const char *const keys[] = {[SECTION_NEEDS] = "watch_needs",         [SECTION_RUNS] = "watch_runs",
                                       [SECTION_PROCESSES] = "watch_processes", [SECTION_LOCKS] = "watch_locks",
                                       [SECTION_WORKFLOWS] = "watch_workflows", [SECTION_WAITING] = "watch_waiting",
                                       [SECTION_QUEUE] = "watch_queue",         [SECTION_EVENTS] = "watch_events"};
    return text_get(keys[section], lang);
}

static void row_clear(struct watch_row *row)
{
    free(row->key);
    free(row->name);
    free(row->state);
    free(row->text);
}

void watch_rows_clear(struct watch_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        row_clear(&rows->list[i]);
    free(rows->list);
    *rows = (struct watch_rows){0};
}

/* ---- making one ------------------------------------------------------------------------------------------- */

/* What is being made: sections one after the other. */
struct maker {
    struct watch_rows *rows;
    const struct cli_options *options;
    const char *filter;
    const json_t *status;
    enum watch_section section;
    bool has_head; /* the section has a row */
    bool queue_runs;
};

static bool row_matches(const struct watch_row *row, const char *filter)
{
    return !*filter || strcasestr(row->name, filter) || strcasestr(row->state, filter) || strcasestr(row->text, filter);
}

static void rows_append(struct watch_rows *rows, const struct watch_row *row)
{
    LIST_GROW(rows->list, rows->count, rows->room, 64);
    rows->list[rows->count++] = *row;
}

static char *own_text(const char *text)
{
    char *copy = strdup(text ? text : "");
    BUG(!copy);
    return copy;
}

static void add_head(struct maker *m)
{
    bool is_running = m->section == SECTION_QUEUE && m->queue_runs;
    struct watch_row head = {.kind = ROW_HEAD,
                             .section = m->section,
                             .key = own_text(""),
                             .name = own_text(watch_section_name(m->section, m->options->lang)),
                             .state = own_text(is_running ? text_get("watch_queue_runs", m->options->lang) : ""),
                             .text = own_text("")};
    if (!m->has_head)
        rows_append(m->rows, &head);
    else
        row_clear(&head);
    m->has_head = true;
}

static void begin_section(struct maker *m, enum watch_section section)
{
    m->section = section;
    m->has_head = false;
}

/* Ends a cell of a row's text, made harmless. rows_align puts the cells of a section below each other. */
static void end_cell(struct buf *b, const char *text)
{
    utf8_put_line(b, text);
    buf_puts(b, CELL_END);
}

/* Takes the text. */
static void add_watched(struct maker *m, enum watch_kind kind, const json_t *item, const char *id, const char *name,
                        const char *state, enum style style, struct buf *text)
{
    struct buf key CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&key, "%d:%s", (int)kind, id);
    struct watch_row row = {.kind = kind,
                            .section = m->section,
                            .style = style,
                            .key = own_text(buf_str(&key)),
                            .name = own_text(name),
                            .state = own_text(state),
                            .text = own_text(buf_str(text)),
                            .item = item};
    buf_clear(text);
    if (!row_matches(&row, m->filter)) {
        row_clear(&row);
        return;
    }
    add_head(m);
    rows_append(m->rows, &row);
}

/* An id as tables show it; that of a run that is in none of them by its end. */
static const char *id_shown(const struct maker *m, const char *id)
{
    size_t len = strlen(id);
    bool is_run = strncmp(id, "RUN-", 4) == 0 && len > RUN_SHORT;
    return json_get_string(json_object_get(m->status, "short"), id, is_run ? id + len - RUN_SHORT : id);
}

/* The file of the flow of a run that has no name; "": the run is not listed. */
static const char *source_of(const struct maker *m, const char *id)
{
    json_each (json_object_get(m->status, "runs"), i, run)
        if (json_text_is(run, "run_id", id))
            return json_get_string(run, "source", "");
    return "";
}

/* ---- what waits for a person ------------------------------------------------------------------------------ */

static void rows_add_confirmations(struct maker *m, const json_t *status)
{
    json_each (json_object_get(status, "confirmations"), i, one) {
        struct buf text = BUF_INIT;
        const char *by = json_get_string(json_object_get(one, "asked_by"), "label", "?");
        buf_puts(&text, json_get_string(one, "question", ""));
        add_watched(m, ROW_CONFIRM, one, json_get_string(one, "id", ""), by,
                    text_get("watch_wants_yes", m->options->lang), STYLE_WARN, &text);
        m->rows->asking++;
    }
}

static void add_open_questions(struct maker *m, const json_t *status)
{
    json_each (json_object_get(status, "questions"), i, open) {
        struct buf text = BUF_INIT, id CLEANUP(buf_clear) = BUF_INIT, name CLEANUP(buf_clear) = BUF_INIT;
        struct buf file CLEANUP(buf_clear) = BUF_INIT;
        const char *run = json_get_string(open, "run_id", ""), *flow = json_get_string(open, "flow", NULL);
        buf_printf(&id, "%s/%s", run, json_get_string(open, "id", ""));
        buf_printf(&text, "%s: %s", json_get_string(open, "task", ""),
                   json_get_string(json_object_get(open, "question"), "question", ""));
        flow = flow ? id_shown(m, flow) : cli_flow(m->options, source_of(m, run), &file);
        buf_printf(&name, "%s%s%s", flow, *flow ? " " : "", id_shown(m, run)); /* a flow may have several runs */
        add_watched(m, ROW_QUESTION, open, buf_str(&id), buf_str(&name), text_get("watch_asks", m->options->lang),
                    STYLE_WARN, &text);
        m->rows->asking++;
    }
}

/* ---- processes -------------------------------------------------------------------------------------------- */

static bool process_runs(const json_t *process)
{
    return json_text_is(process, "state_name", "Running");
}

static void put_running(struct buf *b, const struct cli_options *options, const json_t *process)
{
    const json_t *usage = json_object_get(process, "usage");
    char memory[32];
    const char *phase = json_get_string(process, "phase", "");
    const char *by = json_get_string(json_object_get(process, "started_by"), "label", NULL);
    if (usage)
        cli_bytes(json_get_int(usage, "rss_bytes", 0), memory);
    end_cell(b, *phase && strcmp(phase, "ready") != 0 ? cli_word(options, "phase_", phase) : "");
    end_cell(b, usage ? CLI_WHOLE_SPAN(options->lang, json_get_int(usage, "uptime_ms", 0)) : "");
    end_cell(b, usage ? memory : "");
    end_cell(b, by ? by : "");
    cli_put_command(b, process);
}

static void rows_add_process(struct maker *m, const json_t *process)
{
    struct buf text = BUF_INIT;
    const char *id = json_get_string(process, "id", "");
    if (cli_process_failed(process))
        proc_reason_put(&text, m->options->lang, process);
    else
        put_running(&text, m->options, process);
    add_watched(m, ROW_PROCESS, process, id, id, json_get_string(process, "state_name", ""), cli_process_style(process),
                &text);
}

/* Those that have failed, or that run, or the others. */
static void rows_add_processes(struct maker *m, const json_t *status, bool failed, bool running)
{
    json_each (json_object_get(status, "processes"), i, process) {
        bool has_failed = cli_process_failed(process);
        if (has_failed != failed || (!failed && process_runs(process) != running))
            continue;
        rows_add_process(m, process);
        m->rows->failed += failed;
        m->rows->running += running;
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------- */

static void put_run_bar(struct buf *b, const json_t *counts)
{
    int64_t done = cli_run_settled(counts), total = json_get_int(counts, "total", 0);
    if (total <= 0)
        return;
    buf_printf(b, "%lld/%lld [", (long long)done, (long long)total);
    for (int64_t i = 0; i < ROW_BAR_WIDTH; i++)
        buf_puts(b, i < done * ROW_BAR_WIDTH / total ? "#" : ".");
    buf_puts(b, "]");
}

static void add_run(struct maker *m, const json_t *run)
{
    struct buf text = BUF_INIT, name CLEANUP(buf_clear) = BUF_INIT;
    char span[TIME_TEXT_MAX];
    const char *id = json_get_string(run, "run_id", ""), *status = json_get_string(run, "status", "");
    const char *flow = json_get_string(run, "flow", NULL), *line = json_get_string(run, "last_line", NULL);
    put_run_bar(&text, json_object_get(run, "counts"));
    end_cell(&text, "");
    cli_run_span(m->options, run, span);
    end_cell(&text, span);
    if (line)
        buf_printf(&text, "%s", line);
    else
        buf_printf(&text, "%s  %s", id_shown(m, id), json_get_string(json_object_get(run, "started_by"), "label", ""));
    add_watched(m, ROW_RUN, run, id,
                flow ? id_shown(m, flow) : cli_flow(m->options, json_get_string(run, "source", ""), &name), status,
                cli_run_style(status), &text);
}

/* A run that asks has a row for each question; it is not shown twice. */
static enum { RUN_BAD, RUN_GOES_ON, RUN_OVER, RUN_ASKS } run_class(const json_t *run)
{
    const char *status = json_get_string(run, "status", "");
    if (strcmp(status, "FAILED") == 0 || strcmp(status, "INTERRUPTED") == 0)
        return RUN_BAD;
    return strcmp(status, "RUNNING") == 0 ? RUN_GOES_ON : strcmp(status, "NEEDS_INPUT") == 0 ? RUN_ASKS : RUN_OVER;
}

static void add_runs_of(struct maker *m, const json_t *status, int class)
{
    json_each (json_object_get(status, "runs"), i, run) {
        if ((int)run_class(run) != class)
            continue;
        add_run(m, run);
        m->rows->failed += class == RUN_BAD;
        m->rows->running += class == RUN_GOES_ON;
    }
}

/* ---- locks, queue, events --------------------------------------------------------------------------------- */

static void rows_add_lock(struct maker *m, const json_t *lock)
{
    struct buf text = BUF_INIT, name CLEANUP(buf_clear) = BUF_INIT;
    char span[TIME_TEXT_MAX] = "";
    const char *kind = json_get_string(lock, "kind", ""), *id = json_get_string(lock, "id", NULL);
    const char *state = cli_lock_state(lock, json_at(lock, "holder.alive"));
    if (json_get_int(lock, "age_ms", -1) >= 0)
        cli_whole_span(m->options->lang, json_get_int(lock, "age_ms", 0), span);
    buf_printf(&name, "%s%s%s", kind, id ? " " : "", id ? id : "");
    end_cell(&text, span);
    if (json_object_get(lock, "holder"))
        cli_put_holder(&text, m->options, json_object_get(lock, "holder"));
    add_watched(m, ROW_LOCK, lock, buf_str(&name), id && strcmp(kind, "name") == 0 ? id : buf_str(&name),
                cli_word(m->options, "state_", state), cli_lock_style(state), &text);
}

static void add_workflow(struct maker *m, const json_t *workflow)
{
    struct buf text = BUF_INIT;
    const char *id = json_get_string(workflow, "ulTaskId", "");
    bool is_alive = json_is_true(json_object_get(workflow, "ownerAlive"));
    const char *when = CLI_WHEN(m->options, json_get_string(workflow, "claimed_at", ""));
    end_cell(&text, when);
    cli_put_owner(&text, workflow);
    add_watched(m, ROW_WORKFLOW, workflow, id, id, cli_owner_state(m->options, workflow),
                is_alive ? STYLE_GOOD : STYLE_WARN, &text);
}

static void rows_add_waiter(struct maker *m, const json_t *waiter)
{
    struct buf text = BUF_INIT, key CLEANUP(buf_clear) = BUF_INIT;
    const json_t *who = json_object_get(waiter, "who");
    cli_put_awaited(&text, m->options, json_object_get(m->status, "short"), waiter);
    buf_printf(&key, "%s %s %s", json_get_string(who, "instance", ""), json_get_string(waiter, "since", ""),
               json_get_string(waiter, "id", ""));
    add_watched(m, ROW_WAITER, waiter, buf_str(&key), json_get_string(who, "label", "?"),
                text_get("watch_waits", m->options->lang), STYLE_PLAIN, &text);
}

static void add_request(struct maker *m, const json_t *request)
{
    struct buf text = BUF_INIT;
    const char *id = json_get_string(request, "id", ""), *status = json_get_string(request, "status", "");
    end_cell(&text, json_get_string(request, "priority", ""));
    buf_puts(&text, json_get_string(request, "title", ""));
    add_watched(m, ROW_REQUEST, request, id, id_shown(m, id), status, cli_request_style(status), &text);
}

/* Who, where, and the data. */
static void put_event(struct buf *b, const struct maker *m, const json_t *event)
{
    static const char *const known[] = {"session_id", "run_id", "task_id"};
    const char *run = json_get_string(event, "run_id", ""), *said;
    const json_t *data = json_object_get(event, "data");
    who_put_label(b, cli_event_who(event, &said));
    if (*run)
        buf_printf(b, "  %s %s", id_shown(m, run), json_get_string(event, "task_id", ""));
    json_each_pair (data, key, value) {
        bool is_known = json_is_null(value) || !cli_event_shows(data, key) || (said && strcmp(key, said) == 0);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        if (is_known)
            continue;
        buf_printf(b, "%s%s=", b->len ? "  " : "", key);
        cli_put_event_value(b, value);
    }
}

/* The newest first. */
static void add_events(struct maker *m, const json_t *events)
{
    for (size_t i = json_array_size(events); i-- > 0;) {
        const json_t *event = json_array_get(events, i);
        struct buf text = BUF_INIT;
        const char *id = DIGITS(json_get_int(event, "id", 0));
        put_event(&text, m, event);
        add_watched(m, ROW_EVENT, event, id, json_get_string(event, "type", ""),
                    CLI_CLOCK_SECONDS(m->options, json_get_string(event, "time", "")), STYLE_DIM, &text);
    }
}

/* ---- columns ------------------------------------------------------------------------------------------------ */

/* The next cell of a text, cut off; NULL: none is left. *at moves past it, and is NULL after the last one. */
static char *next_cell(char **at)
{
    char *cell = *at, *end = cell ? strstr(cell, CELL_END) : NULL;
    *at = end ? end + strlen(CELL_END) : NULL;
    if (end)
        *end = '\0';
    return cell;
}

static void cells_measure(const struct watch_row *row, size_t widths[CELLS_MAX])
{
    char *copy = own_text(row->text), *at = copy, *cell;
    for (size_t i = 0; i < CELLS_MAX && (cell = next_cell(&at)) && at; i++) {
        size_t width = utf8_width(cell);
        widths[i] = width > widths[i] ? width : widths[i];
    }
    free(copy);
}

/* Each cell but the last one as wide as the widest; one that is empty in all rows takes no room. */
static void cells_pad(struct watch_row *row, const size_t widths[CELLS_MAX])
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char *at = row->text, *cell;
    for (size_t i = 0; (cell = next_cell(&at)); i++) {
        buf_puts(&b, cell);
        size_t width = at && i < CELLS_MAX && widths[i] ? widths[i] + 2 : 0;
        for (size_t used = utf8_width(cell); used < width; used++)
            buf_puts(&b, " ");
    }
    free(row->text);
    row->text = own_text(buf_str(&b));
}

/* Rows of one kind in one section have their cells below each other. */
static void rows_align(struct watch_rows *rows)
{
    for (size_t i = 0, end; i < rows->count; i = end) {
        size_t widths[CELLS_MAX] = {0};
        const struct watch_row *first = &rows->list[i];
        for (end = i;
             end < rows->count && rows->list[end].kind == first->kind && rows->list[end].section == first->section;
             end++)
            cells_measure(&rows->list[end], widths);
        for (size_t k = i; k < end; k++)
            cells_pad(&rows->list[k], widths);
    }
}

void watch_rows_make(struct watch_rows *rows, const struct cli_options *options, const json_t *status,
                     const json_t *events, const char *filter)
{
    struct maker m = {.rows = rows,
                      .options = options,
                      .filter = filter,
                      .status = status,
                      .queue_runs = cli_queue_runs(json_object_get(status, "locks"))};
    watch_rows_clear(rows);
    begin_section(&m, SECTION_NEEDS);
    rows_add_confirmations(&m, status);
    add_open_questions(&m, status);
    rows_add_processes(&m, status, true, false);
    add_runs_of(&m, status, RUN_BAD);
    begin_section(&m, SECTION_PROCESSES);
    rows_add_processes(&m, status, false, true);
    rows_add_processes(&m, status, false, false);
    begin_section(&m, SECTION_RUNS);
    add_runs_of(&m, status, RUN_GOES_ON);
    add_runs_of(&m, status, RUN_OVER);
    begin_section(&m, SECTION_LOCKS);
    json_each (json_object_get(status, "locks"), i, one)
        rows_add_lock(&m, one);
    begin_section(&m, SECTION_WORKFLOWS);
    json_each (json_object_get(status, "workflows"), i, one)
        add_workflow(&m, one);
    begin_section(&m, SECTION_WAITING);
    json_each (json_object_get(status, "waiting"), i, one)
        rows_add_waiter(&m, one);
    begin_section(&m, SECTION_QUEUE);
    json_each (json_object_get(status, "requests"), i, one)
        add_request(&m, one);
    begin_section(&m, SECTION_EVENTS);
    add_events(&m, events);
    rows_align(rows);
}
