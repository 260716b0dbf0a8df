#include "ops/proc_lines.h"

#include "base/utf8.h"
#include "base/word.h"
#include "proc/log_text.h"

#include <stdio.h>
#include <string.h>

void proc_lines_init(struct proc_lines *lines, struct op_call *call, const char *const *ids, size_t count)
{
    *lines = (struct proc_lines){.call = call, .ids = ids, .count = count};
    for (size_t i = 0; i < count; i++) {
        size_t width = utf8_width(ids[i]);
        lines->width = width > lines->width ? width : lines->width;
    }
}

/* ---- for programs ---- */

static bool lines_emit(struct proc_lines *lines, json_t *document_take)
{
    bool goes_on = true;
    if (lines->list)
        json_array_append(lines->list, document_take);
    else
        goes_on = lines->call->emit(lines->call, document_take);
    json_decref(document_take);
    return goes_on;
}

json_t *proc_line_json(const struct op_call *call, const char *id, const struct log_line *line)
{
    json_t *document = json_object();
    if (id)
        json_object_set_new(document, "id", json_string(id));
    json_object_set_new(document, "stream", json_string(line->stream == LOG_STDERR ? "stderr" : "stdout"));
    json_object_set_new(document, "time", line->time_ms < 0 ? json_null() : json_string(TIME_EXACT(line->time_ms)));
    json_object_set_new(document, "text", log_text_json(line->text, line->len));
    if (line->is_partial)
        json_object_set_new(document, "partial", json_true());
    if (call->is_remote && !call->is_brief) {
        json_object_set_new(document, "from", json_integer(line->offset));
        json_object_set_new(document, "to", json_integer(line->next));
    }
    return document;
}

/* ---- lines ---- */

static bool emit_words(struct proc_lines *lines, size_t which, int kind, const char *text, bool is_bad)
{
    struct op_line line = {.kind = kind,
                           .id = kind == OP_LINE_REMARK || kind == OP_LINE_AWAITED ? "" : lines->ids[which],
                           .which = which,
                           .width = lines->width,
                           .text = text,
                           .len = strlen(text),
                           .is_bad = is_bad,
                           .rings = is_bad && lines->rings};
    return lines->call->emit_line(lines->call, &line);
}

bool proc_lines_put(struct proc_lines *lines, size_t which, const struct log_line *line)
{
    if (!lines->call->emit_line)
        return lines_emit(lines, proc_line_json(lines->call, lines->ids[which], line));
    struct op_line shown = {.kind = line->stream == LOG_STDERR ? OP_LINE_STDERR : OP_LINE_STDOUT,
                            .id = lines->ids[which],
                            .which = which,
                            .width = lines->width,
                            .text = line->text,
                            .len = line->len,
                            .is_partial = line->is_partial};
    return lines->call->emit_line(lines->call, &shown);
}

bool proc_lines_remark(struct proc_lines *lines, const char *text)
{
    return !lines->call->emit_line || emit_words(lines, 0, OP_LINE_REMARK, text, false);
}

bool proc_lines_complain(struct proc_lines *lines, const char *text)
{
    return !lines->call->emit_line || emit_words(lines, 0, OP_LINE_REMARK, text, true);
}

bool proc_lines_await(struct proc_lines *lines, const char *text)
{
    return !lines->call->emit_line || emit_words(lines, 0, OP_LINE_AWAITED, text, false);
}

bool proc_lines_flush(struct proc_lines *lines)
{
    return !lines->call->emit_line || lines->call->emit_line(lines->call, NULL);
}

void proc_lines_end(struct proc_lines *lines)
{
    proc_lines_await(lines, "");
    proc_lines_remark(lines, ""); /* a line that has no end gets one */
    proc_lines_flush(lines);
}

/* ---- states ---- */

static const char *const what_names[] = {
    [TAIL_STARTED] = "started",     [TAIL_ENDED] = "ended",     [TAIL_READY] = "ready",
    [TAIL_UNHEALTHY] = "unhealthy", [TAIL_REMOVED] = "removed", [TAIL_STOPPED] = "stopped"};

static bool was_stopped(const struct tail_change *change)
{
    return json_text_is(change->exit, "by", "stop");
}

/* "exited 1, again in 2 s" */
static void put_end_text(struct buf *b, enum lang lang, const struct tail_change *change)
{
    struct buf what CLEANUP(buf_clear) = BUF_INIT;
    const json_t *raw = json_object_get(change->exit, "raw_status");
    const char *signal = json_get_string(raw, "signal", NULL);
    text_put(&what, lang,
             was_stopped(change)   ? "state_stopped"
             : signal              ? "process_killed"
             : json_is_object(raw) ? "state_exited"
                                   : "process_end_unknown",
             "code", DIGITS(json_get_int(raw, "code", 0)), "signal", signal ? signal : "", NULL);
    int64_t left = change->again_ms - clock_now().wall_ms;
    if (change->again_ms && left > 0)
        text_put(b, lang, "process_again", "reason", buf_str(&what), "span", DURATION_LEFT(left), NULL);
    else
        buf_puts(b, buf_str(&what));
}

static void put_change_text(struct buf *b, enum lang lang, const struct tail_change *change)
{
    const char *detail = change->p->view.detail;
    switch (change->what) {
    case TAIL_STARTED:
        text_put(b, lang, change->pid ? "state_started" : "state_started_ended", "pid", DIGITS(change->pid), NULL);
        return;
    case TAIL_ENDED:
        put_end_text(b, lang, change);
        return;
    case TAIL_READY:
        buf_puts(b, text_get("state_ready", lang));
        return;
    case TAIL_UNHEALTHY:
        text_put(b, lang, "process_said", "reason", text_get("phase_unhealthy", lang), "line", detail, NULL);
        return;
    case TAIL_REMOVED:
        buf_puts(b, text_get("state_removed", lang));
        return;
    case TAIL_STOPPED:
        buf_puts(b, text_get("state_stopped", lang));
        return;
    }
}

static json_t *change_document(const char *id, const struct tail_change *change)
{
    json_t *document =
        json_pack("{s:s, s:s, s:I}", "id", id, "state", what_names[change->what], "run", (json_int_t)change->run);
    if (change->pid)
        json_object_set_new(document, "pid", json_integer((json_int_t)change->pid));
    if (change->what == TAIL_ENDED) {
        json_t *code = json_object_get(change->exit, "exit_code");
        json_object_set(document, "exit_code", code ? code : json_integer(-1));
        if (json_object_get(change->exit, "signal"))
            json_object_set(document, "signal", json_object_get(change->exit, "signal"));
    }
    if (change->again_ms) {
        json_object_set_new(document, "next_start_at", json_string(TIME_EXACT(change->again_ms)));
    }
    return document;
}

static bool is_bad_change(const struct tail_change *change)
{
    if (change->what == TAIL_ENDED)
        return json_get_int(change->exit, "exit_code", -1) != 0 && !was_stopped(change);
    return change->what == TAIL_UNHEALTHY;
}

/* ---- hooks ---- */

static bool hook_line(void *data, size_t which, const struct log_line *line)
{
    return proc_lines_put(data, which, line);
}

static bool hook_missed(void *data, size_t which, int64_t bytes)
{
    struct proc_lines *lines = data;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!lines->call->emit_line)
        return lines_emit(lines, json_pack("{s:s, s:I}", "id", lines->ids[which], "missed_bytes", (json_int_t)bytes));
    text_put(&text, lines->call->lang, "log_missed", "bytes", DIGITS(bytes), NULL);
    return emit_words(lines, which, OP_LINE_STATE, buf_str(&text), true);
}

static bool hook_changed(void *data, size_t which, const struct tail_change *change)
{
    struct proc_lines *lines = data;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!lines->has_states)
        return true;
    if (!lines->call->emit_line)
        return lines_emit(lines, change_document(lines->ids[which], change));
    put_change_text(&text, lines->call->lang, change);
    return emit_words(lines, which, OP_LINE_STATE, buf_str(&text), is_bad_change(change));
}

struct tail_hooks proc_lines_hooks(struct proc_lines *lines)
{
    return (struct tail_hooks){.line = hook_line, .missed = hook_missed, .changed = hook_changed, .data = lines};
}
