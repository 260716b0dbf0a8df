/* op_run_logs.c - what the tasks of a run have printed: the end of each log, a part of one by its offset, a search, or as it is
 * written. */
#include "base/fs.h"
#include "base/word.h"
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "ops/run_args.h"
#include "proc/log_pattern.h"
#include "run/run_log.h"
#include "run/run_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAIL_DEFAULT 40
#define PART_DEFAULT (256 << 10) /* bytes of a part */
#define SEARCH_PIECE (256 << 10)

/* The names of the run's tasks; none where they cannot be read: then no name is near. Owned. */
static json_t *run_task_names(const struct rundir *run)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL, *names = json_array();
    if (rundir_look_exactly(run, &stage, &ignored) < 0)
        return names;
    json_each (json_object_get(stage, "tasks"), i, task)
        json_array_append_new(names, json_string(json_get_string(task, "task", "")));
    return names;
}

static bool run_has_task(const struct rundir *run, const char *name)
{
    json_t *names CLEANUP_JSON = run_task_names(run);
    json_each (names, i, one)
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    return false;
}

/* `runs logs TASK` is a task of the latest run; a name that is none of its tasks may be a short part of a run's id. */
static int open_for_logs(struct op_call *call, struct rundir *run, const char **task, struct tsk_error *err)
{
    const char *name = json_get_string(call->args, "run", "");
    struct rundir named = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct tsk_error unknown;
    if (!call->is_cli || *task || !name[0] || name[0] == '@' || strncmp(name, "RUN-", 4) == 0)
        return rundir_open_to_look(call->ws, name, run, err);
    if (rundir_open(call->ws, name, run, err) == 0)
        return 0;
    unknown = *err;
    if (err->code != TSK_RUN_NOT_FOUND || rundir_open(call->ws, "", run, err) < 0) {
        *err = unknown;
        return -1;
    }
    if (run_has_task(run, name) || rundir_open_to_look(call->ws, name, &named, err) < 0) {
        *task = name;
        return 0;
    }
    rundir_clear(run);
    *run = named;
    return 0;
}

static int logs_refuse_task(const struct rundir *run, const char *task, struct tsk_error *err)
{
    json_t *names CLEANUP_JSON = run_task_names(run);
    size_t count = json_array_size(names);
    const char **words CLEANUP_FREE = calloc(count + 1, sizeof *words);
    for (size_t i = 0; words && i < count; i++)
        words[i] = json_string_value(json_array_get(names, i));
    const char *near = words && task ? nearest_word(task, words, count) : NULL;
    bool is_slip = near && strcmp(near, task) != 0;
    struct buf quoted CLEANUP(buf_clear) = BUF_INIT;
    error_set(err, TSK_NOT_FOUND, is_slip ? "no_log_near" : "no_log", "task", task ? task : "?", "run", run->id,
              is_slip ? "near" : NULL, near, NULL);
    if (is_slip)
        error_add_next(err, "tasuki runs logs %s %s", run->id, shell_word(&quoted, near));
    else
        error_add_next(err, "tasuki runs show %s", run->id);
    return -1;
}

/* ---- the end of each log ---- */

static void log_name(const json_t *record, char path[RUN_LOG_NAME])
{
    rundir_log_name(json_get_string(record, "s", ""), json_get_string(record, "k", ""), json_get_int(record, "a", 1),
                    path);
}

static json_t *log_json(const json_t *record)
{
    return json_pack("{s:s, s:s, s:I}", "task", json_get_string(record, "k", ""), "session_id",
                     json_get_string(record, "s", ""), "attempt", (json_int_t)json_get_int(record, "a", 1));
}

/* What is wanted of the logs on the command line. */
struct log_filter {
    struct log_pattern pattern; /* of lines */
    int64_t since_ms;           /* what was printed since then; -1: all */
};

static int filter_init(struct op_call *call, struct log_filter *ret, struct tsk_error *err)
{
    ret->since_ms = -1;
    if (log_args_time(call->args, "since", clock_now().wall_ms, &ret->since_ms, err) < 0)
        return -1;
    return log_pattern_init(&ret->pattern, call->is_cli ? json_get_string(call->args, "grep", NULL) : NULL, err);
}

static bool is_written_since(const struct rundir *run, const char *path, int64_t since_ms)
{
    struct stat st;
    return since_ms < 0 || fs->fstatat(run->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
           (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 >= since_ms;
}

static void keep_last(struct buf *text, int64_t lines)
{
    size_t from = 0;
    for (size_t i = text->len; i-- > 0 && lines >= 0;)
        if (text->data[i] == '\n' && i + 1 < text->len && --lines == 0) {
            from = i + 1;
            break;
        }
    text->len -= from;
    if (from)
        memmove(text->data, text->data + from, text->len);
}

/* Keeps the lines that match. */
static void keep_matching(struct log_filter *filter, struct buf *text)
{
    size_t kept = 0;
    if (!filter->pattern.is_given)
        return;
    buf_puts(text, ""); /* ends with NUL, for those who look for it all the same */
    for (size_t at = 0; at < text->len;) {
        const char *newline = memchr(text->data + at, '\n', text->len - at);
        size_t len = newline ? (size_t)(newline - text->data) - at : text->len - at, whole = len + (newline ? 1 : 0);
        if (log_pattern_match_text(&filter->pattern, text->data + at, len) == 1) {
            memmove(text->data + kept, text->data + at, whole);
            kept += whole;
        }
        at += whole;
    }
    text->len = kept;
}

/* Whether an attempt began before the time that was asked for: then its lines are older, or newer, or nobody knows. */
static bool is_begun_before(const json_t *record, const struct log_filter *filter)
{
    return filter->since_ms >= 0 && json_get_int(record, "t", 0) < filter->since_ms;
}

/* Keeps what was asked for of a log's text. `untimed`: none of its lines says when it was printed, and some may be older. */
static void keep_wanted(const struct op_call *call, const json_t *record, struct log_filter *filter, struct buf *text,
                        bool *ret_untimed)
{
    bool is_since = true, is_before = is_begun_before(record, filter);
    *ret_untimed = is_before && !run_log_keep_since(filter->since_ms, &is_since, text);
    keep_matching(filter, text);
    bool has_limit = filter->since_ms < 0 || *ret_untimed || json_object_get(call->args, "lines");
    if (has_limit)
        keep_last(text, json_get_int(call->args, "lines", TAIL_DEFAULT));
}

static int add_log(struct op_call *call, const struct rundir *run, const json_t *record, struct log_filter *filter,
                   json_t *list, struct tsk_error *err)
{
    char path[RUN_LOG_NAME];
    off_t offset = 0;
    struct buf text CLEANUP(buf_clear) = {.max = RUN_LOG_MAX + RUN_LOG_PIECE};
    log_name(record, path);
    json_each (list, i, one)
        if (json_text_is(one, "path", path))
            return 0; /* it asked, and was started again as the same attempt */
    bool is_part = filter->pattern.is_given || filter->since_ms >= 0, is_untimed;
    int64_t lines = is_part ? INT64_MAX : json_get_int(call->args, "lines", TAIL_DEFAULT);
    if (!is_written_since(run, path, filter->since_ms))
        return 0;
    int found = run_log_tail(run->dir, path, lines, &text, &offset, err);
    if (found <= 0)
        return found;
    keep_wanted(call, record, filter, &text, &is_untimed);
    if (is_part && !text.len)
        return 0;
    json_t *log = log_json(record),
           *facts CLEANUP_JSON = json_pack("{s:s, s:I, s:o}", "path", path, "offset", (json_int_t)offset, "text",
                                           run_log_text(text.data, text.len));
    json_object_update(log, facts);
    if (is_untimed)
        json_object_set_new(log, "untimed", json_true());
    json_array_append_new(list, log);
    return 0;
}

/* Whether a record begins an attempt that was asked for. */
static bool is_wanted(const struct op_call *call, const char *task, const json_t *record)
{
    const char *session = json_get_string(call->args, "session", NULL);
    int64_t attempt = json_get_int(call->args, "attempt", 0);
    return json_text_is(record, "e", "start") && (!task || json_text_is(record, "k", task)) &&
           (!session || json_text_is(record, "s", session)) && (!attempt || json_get_int(record, "a", 1) == attempt);
}

static int read_tails(struct op_call *call, const struct rundir *run, const char *task, struct log_filter *filter,
                      json_t **ret, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL, *logs CLEANUP_JSON = json_array();
    bool is_known = !task;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    json_each (records, i, record)
        if (is_wanted(call, task, record)) {
            is_known = true;
            if (add_log(call, run, record, filter, logs, err) < 0)
                return -1;
        }
    if (!is_known)
        return logs_refuse_task(run, task, err);
    *ret = json_pack("{s:s, s:O}", "run_id", run->id, "logs", logs);
    return 0;
}

/* ---- a part of one log ---- */

/* The newest attempt that was asked for; its log, or -1 where it has printed nothing. 0; -1 with err. */
static int open_one(struct op_call *call, const struct rundir *run, const char *task, int *ret_fd, json_t **ret,
                    struct tsk_error *err)
{
    char path[RUN_LOG_NAME];
    json_t *records CLEANUP_JSON = NULL, *found = NULL;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    json_each (records, i, record)
        if (is_wanted(call, task, record))
            found = record;
    if (!found)
        return logs_refuse_task(run, task, err);
    log_name(found, path);
    *ret_fd = fs->openat(run->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (*ret_fd < 0 && errno != ENOENT)
        return fs_error(err, "read", run->dir, path);
    *ret = log_json(found);
    json_object_set_new(*ret, "run_id", json_string(run->id));
    return 0;
}

/* Whole lines of what was read; a line that is longer than a part comes in pieces. */
static void cut_to_lines(struct buf *text, int64_t *from, int64_t end, bool is_before)
{
    const char *newline;
    if (is_before && *from > 0 && (newline = memchr(text->data, '\n', text->len)) &&
        newline + 1 < text->data + text->len) {
        size_t cut = (size_t)(newline + 1 - text->data);
        memmove(text->data, newline + 1, text->len - cut);
        text->len -= cut;
        *from += (int64_t)cut;
    }
    if (!is_before && *from + (int64_t)text->len < end && (newline = memrchr(text->data, '\n', text->len)))
        text->len = (size_t)(newline + 1 - text->data);
}

static int read_part(struct op_call *call, int fd, json_t *answer, struct tsk_error *err)
{
    struct stat st = {0};
    struct buf text CLEANUP(buf_clear) = {.max = LOG_PART_MAX + 1};
    if (fd >= 0 && fs->fstat(fd, &st) < 0)
        return error_errno(err, "read", "log");
    int64_t bytes = json_get_int(call->args, "bytes", PART_DEFAULT), end = st.st_size;
    bool is_before = !json_object_get(call->args, "offset");
    int64_t before = json_get_int(call->args, "before", end), from = json_get_int(call->args, "offset", 0);
    before = before < end ? before : end;
    from = is_before ? (before > bytes ? before - bytes : 0) : (from < end ? from : end);
    int64_t want = is_before ? before - from : bytes;
    char *room = want > 0 ? buf_reserve(&text, (size_t)want) : NULL;
    ssize_t got = room && fd >= 0 ? fs->pread(fd, room, (size_t)want, from) : 0;
    if (got < 0)
        return error_errno(err, "read", "log");
    text.len += (size_t)got;
    if (text.len)
        cut_to_lines(&text, &from, end, is_before);
    json_object_set_new(answer, "from", json_integer(from));
    json_object_set_new(answer, "to", json_integer(from + (int64_t)text.len));
    json_object_set_new(answer, "begin", json_integer(0));
    json_object_set_new(answer, "end", json_integer(end));
    json_object_set_new(answer, "text", text.len ? run_log_text(text.data, text.len) : json_string(""));
    return 0;
}

/* ---- a search in one log ---- */

/* Adds the hits in the lines of a piece; returns how many bytes of it were looked at. */
static size_t search_piece(struct log_pattern *pattern, const struct buf *piece, int64_t at, bool is_last, json_t *hits)
{
    size_t from = 0;
    while (from < piece->len && json_array_size(hits) < LOG_HITS_MAX) {
        const char *line = piece->data + from, *newline = memchr(line, '\n', piece->len - from);
        size_t len = newline ? (size_t)(newline - line) : piece->len - from;
        if (!newline && !is_last && from > 0)
            break; /* the rest of the line is in the next piece */
        if (log_pattern_match_text(pattern, line, len) == 1)
            json_array_append_new(hits, json_pack("{s:I, s:o}", "at", (json_int_t)at + (json_int_t)from, "line",
                                                  run_log_text(line, len < LOG_HIT_LINE_MAX ? len : LOG_HIT_LINE_MAX)));
        from += len + (newline ? 1 : 0);
    }
    return from;
}

static int search_log(struct op_call *call, int fd, json_t *answer, struct tsk_error *err)
{
    struct log_pattern pattern;
    struct stat st = {0};
    json_t *hits = json_array();
    int64_t at = json_get_int(call->args, "offset", 0), begin = at;
    int result = log_pattern_init(&pattern, json_get_string(call->args, "grep", NULL), err);
    json_object_set_new(answer, "hits", hits);
    if (result == 0 && fd >= 0 && fs->fstat(fd, &st) < 0)
        result = error_errno(err, "read", "log");
    while (result == 0 && at < st.st_size && at - begin < LOG_SEARCH_MAX && json_array_size(hits) < LOG_HITS_MAX) {
        struct buf piece CLEANUP(buf_clear) = {.max = 2 * SEARCH_PIECE};
        char *room = buf_reserve(&piece, SEARCH_PIECE);
        ssize_t got = room ? fs->pread(fd, room, SEARCH_PIECE, at) : -1;
        if (got <= 0) {
            result = got < 0 ? error_errno(err, "read", "log") : 0;
            break;
        }
        piece.len = (size_t)got;
        buf_puts(&piece, ""); /* ends with NUL, as above */
        at += (int64_t)search_piece(&pattern, &piece, at, at + got >= st.st_size, hits);
    }
    log_pattern_clear(&pattern);
    json_object_set_new(answer, "next", at < st.st_size ? json_integer(at) : json_null());
    json_object_set_new(answer, "end", json_integer(st.st_size));
    return result;
}

/* ---- as it is written ---- */

struct follow {
    struct op_call *call;
    const struct rundir *run;
    struct log_filter *filter;
    const char *task, *session;
    int64_t attempt;
    json_t *since; /* of each log that was begun before `--since`: whether its last line was printed since then */
    bool is_stopped;
};

/* Which logs have lines that may be older; those that begin later have none. */
static int follow_since(struct follow *f, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    if (f->filter->since_ms < 0)
        return 0;
    if (journal_read(f->run->dir, &records, err) < 0)
        return -1;
    json_each (records, i, record) {
        char path[RUN_LOG_NAME];
        log_name(record, path);
        if (json_text_is(record, "e", "start") && is_begun_before(record, f->filter))
            json_object_set_new(f->since, path, json_true());
    }
    return 0;
}

/* On a terminal or in a pipe each line has its task before it, unless only one was asked for. */
static bool emit_lines(struct follow *f, const struct run_piece *piece, const struct buf *text)
{
    struct buf out CLEANUP(buf_clear) = BUF_INIT;
    const char *at = text->data, *end = at + text->len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = newline ? (size_t)(newline - at) : (size_t)(end - at);
        if (!f->task)
            buf_printf(&out, "%s | ", piece->task);
        buf_put(&out, at, len);
        buf_puts(&out, "\n");
        at += len + (newline ? 1 : 0);
    }
    return f->call->emit_text(f->call, buf_str(&out), out.len);
}

/* What is wanted of a piece; its end is that of a line. */
static void piece_keep(const struct follow *f, const struct run_piece *piece, struct buf *text)
{
    char path[RUN_LOG_NAME];
    rundir_log_name(piece->session, piece->task, piece->attempt, path);
    if (!is_written_since(f->run, path, f->filter->since_ms))
        return;
    buf_put(text, piece->text, piece->len);
    const json_t *known = json_object_get(f->since, path);
    bool is_since = json_is_true(known);
    if (known) {
        run_log_keep_since(f->filter->since_ms, &is_since, text);
        json_object_set_new(f->since, path, json_boolean(is_since));
    }
    keep_matching(f->filter, text);
}

static bool take_piece(void *data, const struct run_piece *piece)
{
    struct follow *f = data;
    if ((f->task && strcmp(f->task, piece->task) != 0) || (f->session && strcmp(f->session, piece->session) != 0) ||
        (f->attempt && f->attempt != piece->attempt))
        return true;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    piece_keep(f, piece, &text);
    if (!text.len)
        return true;
    if (f->call->emit_text) {
        f->is_stopped = !emit_lines(f, piece, &text);
    } else {
        json_t *document CLEANUP_JSON =
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "task", piece->task, "session_id", piece->session,
                      "attempt", (json_int_t)piece->attempt, "from", (json_int_t)piece->from, "to",
                      (json_int_t)piece->from + (json_int_t)piece->len, "text", run_log_text(text.data, text.len),
                      "cursor", json_sprintf("%lld", (long long)piece->from + (long long)piece->len));
        f->is_stopped = !f->call->emit(f->call, document);
    }
    return !f->is_stopped;
}

static bool is_left(void *data)
{
    const struct follow *f = data;
    return f->is_stopped || (f->call->is_cancelled && f->call->is_cancelled(f->call));
}

/* Over HTTP: bytes of one log, or a search in it. */
static int read_one(struct op_call *call, const struct rundir *run, const char *task, json_t **ret,
                    struct tsk_error *err)
{
    int fd CLEANUP_FD = -1;
    json_t *answer CLEANUP_JSON = NULL;
    if (open_one(call, run, task, &fd, &answer, err) < 0)
        return -1;
    int result =
        json_object_get(call->args, "grep") ? search_log(call, fd, answer, err) : read_part(call, fd, answer, err);
    *ret = result == 0 ? json_incref(answer) : NULL;
    return result;
}

/* A task that has not run until the end of the run is a wrong name, or was not reached: both are no success of -f. */
static int check_has_run(struct op_call *call, const struct rundir *run, const char *task, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    if (!task || !call->is_cli)
        return 0;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    json_each (records, i, record)
        if (is_wanted(call, task, record))
            return 0;
    return logs_refuse_task(run, task, err);
}

static bool is_of_one_log(const struct op_call *call)
{
    static const char *const parts[] = {"offset", "before", "bytes", "grep"};
    bool is_part = false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        is_part = is_part || (!call->is_cli && json_object_get(call->args, parts[i]));
    return is_part;
}

static int run_logs(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct log_filter filter;
    json_t *since CLEANUP_JSON = json_object();
    const char *task = json_get_string(call->args, "task", NULL);
    int result;
    if (open_for_logs(call, &run, &task, err) < 0 || filter_init(call, &filter, err) < 0)
        return -1;
    if (json_get_bool(call->args, "follow", false) && call->emit) {
        struct follow f = {.call = call,
                           .run = &run,
                           .filter = &filter,
                           .task = task,
                           .session = json_get_string(call->args, "session", NULL),
                           .attempt = json_get_int(call->args, "attempt", 0),
                           .since = since};
        result = follow_since(&f, err);
        if (result == 0)
            result = run_watch_logs(&run, json_get_int(call->args, "offset", 0), take_piece, is_left, &f, err);
        if (result == 0 && !is_left(&f))
            result = check_has_run(call, &run, task, err);
    } else {
        result = is_of_one_log(call) ? read_one(call, &run, task, ret, err)
                                     : read_tails(call, &run, task, &filter, ret, err);
    }
    log_pattern_clear(&filter.pattern);
    return result;
}

static const struct op_route stream_route[] = {{"GET", "/api/runs/:run/logs/stream", "follow=true"}, {0}};

const struct op op_runs_logs = {
    NAMES("runs.logs", "runs", "logs"),
    .summary = "Show what the tasks of a run have printed, and follow it live with -f.",
    .detail =
        "With --since, everything that was printed since then: the whole log of a task that began later, and lines "
        "that begin with a later time, with the lines after them. The last lines of a log without times are "
        "shown if something was printed since then; a remark says so.",
    .examples = "tasuki runs logs  # of the latest run\n"
                "tasuki runs logs @2 test -n 100  # one task of the run before\n"
                "tasuki runs logs --grep 'error|warn'  # of all tasks\n"
                "tasuki runs logs -f  # as it is printed, until the run has ended",
    .flags = OP_READ_ONLY | OP_STREAMS,
    .params = PARAMS(
        RUN_OR_LATEST_PARAM, PARAM("task", OP_ID, OP_POSITIONAL, "TASK", "Only the log of this task."),
        PARAM("lines", OP_INT, OP_OPTIONAL, "N", "The last lines of each log.", .fallback = "40", .min = 1,
              .max = 1000000, .letter = 'n'),
        FLAG("follow", OP_CLI_ONLY, "Follow the output until the run has ended.", .letter = 'f'),
        PARAM("session", OP_STRING, OP_REMOTE_ONLY | OP_PAGE_ONLY, "S", "Only logs of this branch.", .max = 256),
        PARAM("attempt", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N", "Only this attempt.", .min = 1, .max = INT32_MAX),
        PARAM("offset", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N", "Of one log: whole lines from this byte on.",
              .min = 0, .max = INT64_MAX),
        PARAM("before", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N",
              "Of one log: whole lines that end before this byte.", .min = 0, .max = INT64_MAX),
        PARAM("bytes", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N",
              "The number of bytes; without offset and before: the end of the log.", .min = 1, .max = LOG_PART_MAX,
              .fallback = "262144"),
        PARAM("grep", OP_STRING, OP_PAGE_ONLY, "RE",
              "Only lines that match this POSIX extended regular expression; over HTTP: in one log, from offset on.",
              .max = 1024),
        PARAM("since", OP_STRING, OP_PAGE_ONLY, "T",
              "Only what was printed since then: 10m (ago), 14:30, 2026-02-07T14:30:00Z.", .max = 64)),
    .result =
        FIELDS({"run_id", "string", ""},
               {"logs", "array?", "task session_id attempt path offset text; untimed: lines may be older than since"},
               {"task", "string?", "of a part or a search: whose log; with session_id attempt end"},
               {"text", "string?", "a part: the bytes from `from` to `to`"},
               {"hits", "array?", "a search: at line; at most 1,000"},
               {"next", "integer?", "a search: where to continue; null at the end"}),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/runs/:run/logs", .also = stream_route),
    .mcp = TOOL("run_logs", "requests", .is_core = true,
                .text = "Read what the tasks of a run have printed, also while it runs. It changes nothing."),
    .run = run_logs,
};
