/* op_proc_logs.c - what a process wrote: the end of it, a part of it, or as it is written. */
#include "base/word.h"
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "ops/proc_lines.h"
#include "proc/log.h"
#include "proc/log_text.h"
#include "proc/log_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINES_DEFAULT 100

enum {
    TEXT_CHUNK = 64 << 10,
    DOCUMENT_MAX = 256 << 10, /* bytes of text in an answer to a program */
    DOCUMENT_MAX_BRIEF = 32 << 10,
    DOCUMENT_MAX_CLI = 4 << 20, /* … that can only be on the command line */
    LINGER_MS = 1000,
};

/* ---- from arguments to a query ---- */

/* A time of the clock on the wall, local: "14:30", "2026-02-07 14:30:15", "2026-02-07". */
static int parse_local_time(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    static const char *const formats[] = {
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"};
    time_t today = (time_t)(now_ms / 1000);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm tm;
        localtime_r(&today, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_isdst = -1;
        const char *end = strptime(text, formats[i], &tm);
        int day = tm.tm_mday;
        time_t found = end && !*end ? mktime(&tm) : -1;
        if (found >= 0 && tm.tm_mday == day) { /* else there is no such day */
            *ret_ms = (int64_t)found * 1000;
            return 0;
        }
    }
    return -1;
}

/* A time, or how long ago ("10m"). -1 stays when it is not given. */
int log_args_time(const json_t *args, const char *param, int64_t now_ms, int64_t *ret_ms, struct tsk_error *err)
{
    const char *text = json_get_string(args, param, NULL);
    int64_t ago;
    if (!text)
        return 0;
    if (duration_parse(text, &ago) == 0 && ago <= now_ms)
        *ret_ms = now_ms - ago;
    else if ((time_parse(text, ret_ms) < 0 && parse_local_time(text, now_ms, ret_ms) < 0) || *ret_ms < 0)
        return error_set(err, TSK_INVALID_INPUT, "log_time", "param", param, "value", text, NULL);
    return 0;
}

bool log_args_take_cursor(const char **text, int64_t ret[2])
{
    char *middle, *end;
    errno = 0;
    ret[0] = strtoll(*text, &middle, 10);
    ret[1] = *middle == ':' ? strtoll(middle + 1, &end, 10) : -1;
    if (*middle != ':' || middle == *text || end == middle + 1 || ret[0] < 0 || ret[1] < 0 || errno)
        return false;
    *text = end;
    return true;
}

/* A place in one output is a number: the byte. Where both are asked for it takes one of each, as a cursor always does. */
static bool take_offset(const json_t *args, const char *text, int64_t ret[2])
{
    char *end;
    if (*text < '0' || *text > '9' || strcmp(json_get_string(args, "stream", "stdout"), "both") == 0)
        return false;
    errno = 0;
    ret[0] = ret[1] = strtoll(text, &end, 10);
    return !*end && errno == 0;
}

int log_args_cursor(const json_t *args, const char *param, int64_t ret[2], struct tsk_error *err)
{
    const char *text = json_get_string(args, param, NULL), *end = text;
    if (text && strcmp(param, "cursor") != 0 && take_offset(args, text, ret))
        return 0;
    if (text && (!log_args_take_cursor(&end, ret) || *end))
        return error_set(err, TSK_INVALID_INPUT, "log_cursor", "param", param, "value", text, NULL);
    return 0;
}

/* Both on a command line, where a person reads; stdout elsewhere, as Vantage has it. */
static enum log_stream take_stream(const struct op_call *call)
{
    bool is_out = json_get_bool(call->args, "stdout", false), is_err = json_get_bool(call->args, "stderr", false);
    const char *name = json_get_string(call->args, "stream", call->is_cli ? "both" : "stdout");
    if (json_get_bool(call->args, "both", false) || (is_out && is_err))
        return LOG_BOTH;
    if (is_out || is_err)
        return is_err ? LOG_STDERR : LOG_STDOUT;
    return strcmp(name, "both") == 0 ? LOG_BOTH : strcmp(name, "stderr") == 0 ? LOG_STDERR : LOG_STDOUT;
}

static int take_log_query(const struct op_call *call, struct log_query *ret, struct tsk_error *err)
{
    const json_t *args = call->args;
    int64_t now_ms = clock_now().wall_ms;
    bool is_list = proc_logs_has_cursors(call);
    *ret = (struct log_query){.stream = take_stream(call),
                              .cursor = {-1, -1},
                              .since_ms = -1,
                              .until_ms = -1,
                              .run = json_get_int(args, "run", 0),
                              .grep = json_get_string(args, "grep", NULL),
                              .strip_ansi = json_get_bool(args, "strip_ansi", false)};
    if (log_args_time(args, "since", now_ms, &ret->since_ms, err) < 0 ||
        log_args_time(args, "until", now_ms, &ret->until_ms, err) < 0 ||
        (!is_list &&
         log_args_cursor(args, json_object_get(args, "offset") ? "offset" : "cursor", ret->cursor, err) < 0))
        return -1;
    if (json_get_bool(args, "follow", false) && ret->until_ms >= 0)
        return error_set(err, TSK_INVALID_INPUT, "log_follow_until", NULL);
    bool is_part = ret->since_ms >= 0 || ret->until_ms >= 0 || ret->run != 0 || ret->cursor[0] >= 0;
    ret->lines = json_get_int(args, "lines", is_part ? -1 : LINES_DEFAULT);
    if (!call->emit_text)
        ret->max_bytes = call->is_brief ? DOCUMENT_MAX_BRIEF : call->is_cli ? DOCUMENT_MAX_CLI : DOCUMENT_MAX;
    return 0;
}

/* ---- lines out ---- */

struct output {
    struct op_call *call;
    json_t *lines;   /* the answer's, or NULL: emit each line */
    struct buf text; /* call->emit_text: what is not delivered yet */
    bool is_open;    /* the line before has no end yet */
    enum log_stream stream;
    int64_t left;    /* lines that may still come; -1: any number */
    bool is_stopped; /* nobody takes them any more */
    json_t *held;    /* the newest document, until its cursor is known */
    int64_t next[2]; /* the cursors behind what was emitted */
    struct log_seen seen[2];
};

static bool output_flush(struct output *out)
{
    if (out->text.len && !out->is_stopped)
        out->is_stopped = !out->call->emit_text(out->call, out->text.data, out->text.len);
    buf_reset(&out->text);
    return !out->is_stopped;
}

static int64_t take_missed(struct output *out)
{
    int64_t missed = out->seen[0].missed + out->seen[1].missed;
    out->seen[0].missed = out->seen[1].missed = 0;
    return missed;
}

/* A document of a stream: the line, and what was dropped before it. */
static json_t *stream_json(struct output *out, const struct log_line *line)
{
    json_t *document = proc_line_json(out->call, NULL, line);
    int64_t missed = take_missed(out);
    if (missed)
        json_object_set_new(document, "missed_bytes", json_integer(missed));
    return document;
}

/* A stream can be continued after each document: the next line begins where this one ends. (If the other stream's line follows,
 * that position is not known, and the document has no cursor.) */
static void emit_held(struct output *out, bool has_cursor)
{
    if (out->held && has_cursor)
        json_object_set_new(out->held, "cursor",
                            json_sprintf("%lld:%lld", (long long)out->next[0], (long long)out->next[1]));
    if (out->held && !out->is_stopped)
        out->is_stopped = !out->call->emit(out->call, out->held);
    json_free(&out->held);
}

static void hold_line(struct output *out, const struct log_line *line)
{
    bool is_same = line->stream == out->stream;
    out->next[line->stream] = line->offset;
    emit_held(out, is_same);
    out->held = stream_json(out, line);
    out->stream = line->stream;
}

/* Lines were dropped before this reader came to them: a line of ours says so in their place. */
static void put_missed(struct output *out)
{
    int64_t missed = take_missed(out);
    if (missed == 0)
        return;
    if (out->is_open)
        buf_puts(&out->text, "\n");
    out->is_open = false;
    text_put(&out->text, out->call->lang, "log_missed", "bytes", DIGITS(missed), NULL);
    buf_puts(&out->text, "\n");
}

static void put_log_text(struct output *out, const struct log_line *line)
{
    put_missed(out);
    if (out->is_open && line->stream != out->stream)
        buf_puts(&out->text, "\n");
    buf_put(&out->text, line->text, line->len);
    if (!line->is_partial)
        buf_puts(&out->text, "\n");
    out->is_open = line->is_partial;
    out->stream = line->stream;
    if (out->text.len >= TEXT_CHUNK)
        output_flush(out);
}

static bool take_log_line(void *data, const struct log_line *line)
{
    struct output *out = data;
    if (out->left == 0)
        return false;
    if (out->call->emit_text) {
        put_log_text(out, line);
    } else if (out->lines) {
        json_array_append_new(out->lines, proc_line_json(out->call, NULL, line));
    } else if (!out->call->is_cli) {
        hold_line(out, line);
    } else {
        json_t *document CLEANUP_JSON = stream_json(out, line);
        out->is_stopped = !out->call->emit(out->call, document);
    }
    if (out->left > 0 && !line->is_partial)
        out->left--;
    return !out->is_stopped && out->left != 0;
}

/* ---- following ---- */

struct following {
    struct tsk_workspace *ws;
    struct proc *p;
    struct log_watch watch;
    int64_t run; /* only this start; 0: all */
    struct tsk_error *err;
    bool has_failed; /* looking failed, and err says why */
};

static bool is_live(const struct following *f)
{
    const struct proc_view *view = &f->p->view;
    if (f->run && view->n != f->run)
        return false;
    return view->state == PROC_RUNNING || strcmp(view->phase, "backoff") == 0 || strcmp(view->phase, "starting") == 0;
}

/* Looks again; false when nothing can come any more. The registry is open only for that moment, because many followers
 * may run at once. */
static bool follow_look(struct following *f)
{
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    char id[sizeof f->p->id];
    memcpy(id, f->p->id, sizeof id);
    proc_clear(f->p);
    *f->p = (struct proc){.dir = -1, .view.phase = ""};
    memcpy(f->p->id, id, sizeof id);
    bool is_there = proc_registry_open(&reg, f->ws, f->err) == 0 && proc_load(&reg, id, f->p, f->err) == 0;
    f->has_failed = !is_there && f->err->code != TSK_PROCESS_NOT_FOUND;
    if (!is_there)
        f->p->view.phase = "";
    log_watch_child(&f->watch, f->p);
    return is_there && is_live(f);
}

/* Between the two halves of `proc restart`, or of a start that cuts a backoff short, the process is not running. */
static bool follow_linger(struct following *f)
{
    int64_t now, end = clock_now().boot_ms + LINGER_MS;
    while ((now = clock_now().boot_ms) < end && f->p->dir >= 0)
        if ((log_watch_wait(&f->watch, (int)(end - now)) & LOG_WATCH_STATE) && follow_look(f))
            return true;
    return false;
}

/* Waits until there may be more to read; false when there will be none. */
static bool follow_wait(struct following *f, struct op_call *call)
{
    bool was_waiting = strcmp(f->p->view.phase, "backoff") == 0;
    int wait_ms = call->is_cancelled ? CANCEL_LOOK_MS : -1;
    if (!(log_watch_wait(&f->watch, wait_ms) & LOG_WATCH_STATE) || follow_look(f))
        return true;
    bool may_return = !f->run && (was_waiting || strcmp(f->p->view.by, "stop") == 0);
    return may_return && follow_linger(f);
}

/* Whether it lives is asked before reading: what a process wrote before its end is there when its end is known. */
static int logs_follow(struct following *f, struct log_query *query, struct output *out)
{
    bool can_grow = follow_look(f); /* it may have ended before we watched */
    while (f->p->dir >= 0 && !out->is_stopped) {
        /* A line is shown as it grows only where the rest can be added to it. */
        query->whole_lines = can_grow && (!out->call->emit_text || query->grep);
        if (log_read(f->p, query, take_log_line, out, query->cursor, f->err) < 0)
            return -1;
        if (out->call->emit_text)
            output_flush(out);
        memcpy(out->next, query->cursor, sizeof out->next);
        emit_held(out, true);
        if (out->is_stopped || !can_grow)
            return 0;
        query->lines = out->left = -1;
        can_grow = follow_wait(f, out->call);
        out->is_stopped = out->call->is_cancelled && out->call->is_cancelled(out->call);
    }
    return f->has_failed ? -1 : 0; /* removed: what it wrote went with it */
}

static int follow_process(struct tsk_workspace *ws, struct proc *p, struct log_query *query, struct output *out,
                          struct tsk_error *err)
{
    if (query->run < 0)
        query->run = p->view.n;
    query->max_bytes = 0; /* what does not go into one document goes into the next */
    struct following f = {.ws = ws, .p = p, .run = query->run, .err = err};
    log_watch_open(&f.watch, p);
    int result = logs_follow(&f, query, out);
    log_watch_clear(&f.watch);
    return result;
}

/* ---- the operation ---- */

static json_t *cursor_json(const int64_t next[2])
{
    return json_sprintf("%lld:%lld", (long long)next[0], (long long)next[1]);
}

static int read_once(struct proc *p, const struct log_query *query, struct output *out, json_t **ret,
                     struct tsk_error *err)
{
    int64_t next[2];
    json_t *lines CLEANUP_JSON = json_array();
    if (!out->call->emit_text)
        out->lines = lines;
    if (log_read(p, query, take_log_line, out, next, err) < 0)
        return -1;
    if (out->call->emit_text) {
        put_missed(out);
        output_flush(out);
        return 0;
    }
    *ret = json_pack("{s:s, s:O, s:o}", "id", p->id, "lines", lines, "cursor", cursor_json(next));
    int64_t missed = take_missed(out);
    if (missed)
        json_object_set_new(*ret, "missed_bytes", json_integer(missed));
    return 0;
}

static int logs_of_one(struct op_call *call, struct proc *p, struct log_query *query, json_t **ret,
                       struct tsk_error *err)
{
    struct output out = {.call = call, .text = BUF_INIT, .left = -1};
    if (proc_logs_is_part(call))
        return proc_logs_part(call, p, query, ret, err);
    query->seen = out.seen;
    if (query->cursor[0] >= 0)
        out.left = query->lines;
    int result = json_get_bool(call->args, "follow", false) && call->emit
                     ? follow_process(call->ws, p, query, &out, err)
                     : read_once(p, query, &out, ret, err);
    query->seen = NULL;
    buf_clear(&out.text);
    json_decref(out.held);
    return result;
}

/* One that is named is shown as it is; several, or all, with their names. */
static int run_logs(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct log_query query;
    json_t *ids CLEANUP_JSON = NULL;
    bool is_all = !json_object_get(call->args, "id");
    if (take_log_query(call, &query, err) < 0 || proc_registry_open(&reg, call->ws, err) < 0 ||
        (is_all ? proc_ids(&reg, &ids, err) : proc_args_ids(call, &reg, &ids, err)) < 0)
        return -1;
    bool is_one = !is_all && json_array_size(ids) == 1;
    if (is_one && proc_load(&reg, json_string_value(json_array_get(ids, 0)), &p, err) < 0)
        return -1;
    proc_registry_close(&reg);
    return is_one ? logs_of_one(call, &p, &query, ret, err) : proc_logs_many(call, ids, &query, ret, err);
}

static const char *const stream_choices[] = {"stdout", "stderr", "both", NULL};

static const struct op_route stream_routes[] = {{"GET", "/api/processes/:id/logs/stream", "follow=true"},
                                                {"GET", "/api/processes/logs/stream", "follow=true"},
                                                {0}};

const struct op op_process_logs = {
    NAMES("process.logs", "proc", "logs"),
    .summary = "Show what processes wrote, all of them unless some are named; -f follows them live.",
    .detail =
        "Of several, each line has the name of its process: `web | text`, and `web ! text` for stderr. Existing lines "
        "are sorted by time, followed lines come in the order in which they are read; a remark says which. Of one "
        "process, bytes are written as they are; on a terminal, colours stay and everything else that could harm it is "
        "made visible or left out. The time of a line is the latest time at which it can have been written: to the "
        "second in the modes direct and pipe, exact in the mode stamped. Old output is dropped when the log exceeds "
        "log_max; a cursor stays valid.",
    .examples = "tasuki proc logs web  # the last 100 lines of both outputs\n"
                "tasuki proc logs -f  # all processes, as they write\n"
                "tasuki proc logs web --since 10m --grep 'error|warn'  # what went wrong lately\n"
                "tasuki proc logs web --run -1 --stderr  # the errors of the newest start",
    .flags = OP_READ_ONLY | OP_STREAMS,
    .params = PARAMS(
        PARAM("id", OP_ID, OP_POSITIONAL | OP_MANY, "ID…", "One process or several; none: all.",
              .completes = "process-id", .agent_help = "One or several; none: all."),
        FLAG("follow", OP_CLI_ONLY, "Follow the output, also after a restart, until all have ended.", .letter = 'f'),
        PARAM(
            "lines", OP_INT, OP_OPTIONAL, "N",
            "The last N lines; with a cursor, at most N. All, where --since, --until, --run or --cursor choose a part.",
            .fallback = "100", .min = 0, .max = INT32_MAX, .letter = 'n',
            .agent_help = "The last N; with a cursor, at most N."),
        FLAG("stdout", OP_CLI_ONLY, "Only standard output."), FLAG("stderr", OP_CLI_ONLY, "Only standard error."),
        FLAG("both", OP_CLI_ONLY, "Both, merged by time: the default of the command line."),
        PARAM("stream", OP_ENUM, OP_REMOTE_ONLY, "NAME", "Which output: stdout, stderr, or both merged by time.",
              .fallback = "stdout", .choices = stream_choices, .agent_help = "both: merged by time."),
        PARAM("grep", OP_STRING, OP_OPTIONAL, "RE", "Only lines that match this POSIX extended regular expression.",
              .max = 1024, .agent_help = "POSIX ERE."),
        PARAM("since", OP_STRING, OP_OPTIONAL, "T",
              "Only what was written since then: 10m (ago), 14:30, 2026-02-07T14:30:00Z.", .max = 64,
              .agent_help = "Since then: 10m (ago), 14:30, 2026-02-07T14:30:00Z."),
        PARAM("until", OP_STRING, OP_OPTIONAL, "T", "Only what was written until then.", .max = 64,
              .agent_help = "Until then."),
        PARAM("run", OP_INT, OP_OPTIONAL, "N", "Only the output of start number N; -1 is the newest.", .min = -1,
              .max = INT64_MAX),
        PARAM("cursor", OP_STRING, OP_OPTIONAL, "C", "Continue where an earlier answer ended.", .max = 4096),
        PARAM("offset", OP_STRING, OP_REMOTE_ONLY | OP_PAGE_ONLY, "C",
              "Of one process: a part from this place on: a byte of the one output, or a cursor.", .max = 64),
        PARAM("before", OP_STRING, OP_REMOTE_ONLY | OP_PAGE_ONLY, "C",
              "Of one process: the newest lines before this place: a byte of the one output, a cursor or the `from` of "
              "an earlier answer.",
              .max = 64),
        PARAM("bytes", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N", "Of one process: a part of N bytes; alone: the end.",
              .min = 1, .max = LOG_PART_MAX),
        FLAG("hits", OP_REMOTE_ONLY | OP_PAGE_ONLY, "Of one process, with grep: where the lines are, from cursor on."),

        FLAG("strip_ansi", OP_OPTIONAL, "Without escape sequences (colours).")),
    .result = FIELDS(
        {"id", "string?", "the process; of several, each line has its own"},
        {"lines", "array", "stream, time, text; partial where a line has no end yet, or is a piece of a long one"},
        {"cursor", "string?", "where to continue, for stdout and stderr"},
        {"order", "string?", "of several: how exactly the lines are sorted by time: second or exact"},
        {"from", "string?", "a part: the place of its first line"},
        {"hits", "array?", "a search: lines, each with its cursor; at most 1,000"},
        {"next", "string?", "a search: where to continue; null at the end"},
        {"missed_bytes", "integer?", "bytes after the given cursor that were dropped before they could be read"}),
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/processes/:id/logs", .also = stream_routes),
    .mcp = TOOL("get_process_output", "processes", .is_core = true,
                .text = "Read what a process wrote, also after its end: the last 100 lines, or a part. It changes "
                        "nothing; to continue, pass the answer's cursor."),
    .run = run_logs,
};
