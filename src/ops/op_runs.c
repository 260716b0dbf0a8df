/* op_runs.c - runs list, show, logs, cancel. */
#include "base/fs.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/run_args.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 20
#define LOG_MAX      (16 << 20) /* of one log in one answer */
#define LOG_PIECE    65536
#define TAIL_DEFAULT 40

static void rundir_cleanup(struct rundir *run)
{
    rundir_clear(run);
}

/* ---- list ----------------------------------------------------------------------------------------------- */

static json_t *summary(const json_t *stage)
{
    static const char *const keys[] = {"run_id",     "request_id", "flow",   "source",      "status",
                                       "started_at", "ended_at",   "counts", "reason_code", "reason"};
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(stage, keys[i]))
            json_object_set(json, keys[i], json_object_get(stage, keys[i]));
    return json;
}

/* A run whose stage cannot be read is there all the same. */
static json_t *broken(const struct rundir *run, enum lang lang, const struct tsk_error *err)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&reason, lang, err);
    return json_pack("{s:s, s:s, s:s, s:{}}", "run_id", run->id, "status", "BROKEN", "reason", buf_str(&reason),
                     "counts");
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *id;
    size_t i;
    const char *wanted = json_get_string(call->args, "status", NULL);
    const char *request = json_get_string(call->args, "request", NULL);
    if (rundir_list(call->ws, &ids, err) < 0)
        return -1;
    struct page page = page_begin(call, LIST_DEFAULT);
    page.is_descending = page.is_partial = true; /* they sort by their time, and there may be very many */
    json_array_foreach (ids, i, id) {
        struct rundir run CLEANUP(rundir_cleanup) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
        json_t *stage CLEANUP_JSON = NULL;
        if (!page_is_due(&page, json_string_value(id)))
            continue;
        page.has_more = page_is_full(&page);
        if (page.has_more)
            break;
        if (rundir_open(call->ws, json_string_value(id), &run, err) < 0)
            continue; /* it is being removed */
        if (rundir_look(&run, &stage, err) < 0)
            stage = broken(&run, call->lang, err);
        bool is_of_request = !request || strcmp(json_get_string(stage, "request_id", ""), request) == 0;
        if (is_of_request && (!wanted || strcmp(json_get_string(stage, "status", ""), wanted) == 0) &&
            page_takes(&page, json_string_value(id)))
            page_put(&page, summary(stage));
    }
    *ret = page_end(&page, "runs");
    return 0;
}

static const char *const statuses[] = {"RUNNING",   "DONE",        "NEEDS_INPUT", "FAILED",
                                       "CANCELLED", "INTERRUPTED", "BROKEN",      NULL};
static const struct op_param list_params[] = {
    PAGE_LIMIT("How many of the newest.", NULL, "20"),
    {.name = "status", .type = OP_ENUM, .value = "S", .help = "Only runs with this status.", .choices = statuses},
    {.name = "request", .type = OP_ID, .value = "RQ", .help = "Only runs of this request.", .completes = "request-id"},
    PAGE_CURSOR,
    {0},
};
static const struct op_field list_result[] = {
    {"runs", "array", "run_id request_id flow source status started_at ended_at counts"}, PAGE_CURSOR_FIELD, {0}};
static const enum tsk_code look_errors[] = {TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND,
                                            TSK_OK};

const struct op op_runs_list = {
    .name = "runs.list",
    .noun = "runs",
    .verb = "list",
    .summary = "List runs, the newest first, with their status.",
    .examples = "tasuki runs list --status FAILED",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = list_params,
    .result = list_result,
    .errors = look_errors,
    .http = {.method = "GET", .path = "/api/runs"},
    .mcp = {.tool = "run_list",
            .group = "requests",
            .text = "List runs, the newest first, with their status. It changes nothing."},
    .run = run_list,
};

/* ---- show ----------------------------------------------------------------------------------------------- */

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_cleanup) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    return rundir_look(&run, ret, err);
}

static const struct op_param show_params[] = {RUN_ID_PARAM, {0}};
static const struct op_field show_result[] = {
    {"run_id", "string", ""},
    {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED"},
    {"counts", "object", "total done ok skipped failed stopped not_reached steps"},
    {"failures", "array", "task session_id exit_code reason log"},
    {"questions", "array", "open ones"},
    {"tasks", "array", "task state attempt started_at ended_at exit_code"},
    {0}};

static const struct op_route stage_route[] = {{"GET", "/api/runs/:run/stage", NULL}, {0}};

const struct op op_runs_show = {
    .name = "runs.show",
    .noun = "runs",
    .verb = "show",
    .summary = "Show a run: its status, its tasks, what failed and what it asks.",
    .examples = "tasuki runs show RUN-20260207T223000-1a2b3c",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = show_params,
    .result = show_result,
    .errors = look_errors,
    .http = {.method = "GET", .path = "/api/runs/:run", .also = stage_route},
    .mcp = {.tool = "run_show",
            .group = "requests",
            .is_core = true,
            .text = "Show a run: its status, its tasks, what failed and what it asks. It changes nothing."},
    .run = run_show,
};

/* ---- logs ----------------------------------------------------------------------------------------------- */

/* Where the last `lines` lines of a file begin, at most LOG_MAX bytes before its end; -1: it cannot be read. It is read backwards, piece by piece: the
 * cost depends on what is shown, not on the size of the log. */
static off_t tail_start(int fd, off_t size, int64_t lines)
{
    char piece[LOG_PIECE];
    off_t at = size, least = size > LOG_MAX ? size - LOG_MAX : 0;
    while (at > least) {
        size_t want = at - least < LOG_PIECE ? (size_t)(at - least) : LOG_PIECE;
        ssize_t got = fs->pread(fd, piece, want, at - (off_t)want);
        if (got != (ssize_t)want)
            return got < 0 ? -1 : at; /* it was cut off meanwhile */
        for (size_t i = want; i-- > 0;)
            if (piece[i] == '\n' && at - (off_t)want + (off_t)i + 1 != size && --lines == 0)
                return at - (off_t)want + (off_t)i + 1;
        at -= (off_t)want;
    }
    return least;
}

/* Bytes that JSON cannot have become U+FFFD, also a byte 0, which would end the text. */
static json_t *text_of_bytes(const char *data, size_t len)
{
    struct buf whole CLEANUP(buf_clear) = {.max = LOG_MAX * 4}, clean CLEANUP(buf_clear) = {.max = LOG_MAX * 8};
    for (size_t at = 0; at < len;) {
        size_t part = strnlen(data + at, len - at);
        buf_put(&whole, data + at, part);
        at += part;
        if (at < len)
            buf_puts(&whole, "\xef\xbf\xbd");
        at++;
    }
    buf_json_string(&clean, buf_str(&whole));
    json_t *value = json_loads(buf_str(&clean), JSON_DECODE_ANY, NULL);
    return value ? value : json_string("");
}

/* 1: the last lines are in *text, which begins at *ret_offset; 0: the task printed nothing; -1. */
static int read_tail(int dir, const char *path, int64_t lines, struct buf *text, off_t *ret_offset,
                     struct tsk_error *err)
{
    struct stat st;
    int fd CLEANUP_FD = fs->openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return fs_error(err, "read", dir, path);
    off_t at = *ret_offset = tail_start(fd, st.st_size, lines);
    if (at < 0)
        return fs_error(err, "read", dir, path);
    while (at < st.st_size) {
        size_t want = st.st_size - at < LOG_PIECE ? (size_t)(st.st_size - at) : LOG_PIECE;
        char *room = buf_reserve(text, want);
        ssize_t got = room ? fs->pread(fd, room, want, at) : -1;
        if (got < 0)
            return fs_error(err, "read", dir, path);
        if (got == 0)
            break;
        text->len += (size_t)got;
        at += got;
    }
    return 1;
}

static int add_log(struct op_call *call, const struct rundir *run, const json_t *record, json_t *list,
                   struct tsk_error *err)
{
    char path[512];
    off_t offset = 0;
    struct buf text CLEANUP(buf_clear) = {.max = LOG_MAX + LOG_PIECE};
    snprintf(path, sizeof path, "tasks/%.200s/%s.%lld.log", json_get_string(record, "s", ""),
             json_get_string(record, "k", ""), (long long)json_get_int(record, "a", 1));
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one)
        if (strcmp(json_get_string(one, "path", ""), path) == 0)
            return 0; /* it asked, and was started again as the same attempt */
    int found = read_tail(run->dir, path, json_get_int(call->args, "lines", TAIL_DEFAULT), &text, &offset, err);
    if (found <= 0)
        return found;
    json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:s, s:I, s:o}", "task", json_get_string(record, "k", ""),
                                          "session_id", json_get_string(record, "s", ""), "attempt",
                                          (json_int_t)json_get_int(record, "a", 1), "path", path, "offset",
                                          (json_int_t)offset, "text", text_of_bytes(text.data, text.len)));
    return 0;
}

static int run_logs(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_cleanup) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    json_t *records CLEANUP_JSON = NULL, *record;
    const char *task = json_get_string(call->args, "task", NULL);
    size_t i;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0 ||
        journal_read(run.dir, &records, err) < 0)
        return -1;
    json_t *logs CLEANUP_JSON = json_array();
    bool is_known = !task;
    json_array_foreach (records, i, record) {
        if (strcmp(json_get_string(record, "e", ""), "start") != 0)
            continue;
        if (task && strcmp(json_get_string(record, "k", ""), task) != 0)
            continue;
        is_known = true;
        if (add_log(call, &run, record, logs, err) < 0)
            return -1;
    }
    if (!is_known)
        return error_set(err, TSK_NOT_FOUND, "no_log", "task", task, "run", run.id, NULL);
    *ret = json_pack("{s:s, s:O}", "run_id", run.id, "logs", logs);
    return 0;
}

static const struct op_param logs_params[] = {
    RUN_ID_PARAM,
    {.name = "task", .type = OP_ID, .flags = OP_POSITIONAL, .value = "TASK", .help = "Only of this task."},
    {.name = "lines",
     .type = OP_INT,
     .letter = 'n',
     .value = "N",
     .help = "The last lines of each log.",
     .min = 1,
     .max = 1000000,
     .fallback = "40"},
    {0},
};
static const struct op_field logs_result[] = {
    {"run_id", "string", ""}, {"logs", "array", "task session_id attempt path offset text"}, {0}};

const struct op op_runs_logs = {
    .name = "runs.logs",
    .noun = "runs",
    .verb = "logs",
    .summary = "Show what the tasks of a run have printed.",
    .examples = "tasuki runs logs RUN-20260207T223000-1a2b3c test -n 100",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = logs_params,
    .result = logs_result,
    .errors = look_errors,
    .http = {.method = "GET", .path = "/api/runs/:run/logs"},
    .mcp = {.tool = "run_logs",
            .group = "requests",
            .is_core = true,
            .text = "Read what the tasks of a run have printed, also while it runs. It changes nothing."},
    .run = run_logs,
};

/* ---- cancel --------------------------------------------------------------------------------------------- */

static int run_cancel(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    const char *status;
    if (stop_run(call->ws, json_get_string(call->args, "run", ""), json_get_bool(call->args, "now", false), id, &status,
                 err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s}", "run_id", id, "status", status);
    return 0;
}

static const struct op_param cancel_params[] = {
    RUN_ID_PARAM,
    {.name = "now", .type = OP_BOOL, .help = "Do not give the tasks time to end by themselves."},
    {0},
};
static const struct op_field cancel_result[] = {
    {"run_id", "string", ""}, {"status", "string", "CANCELLING, CANCELLED, or what it was already"}, {0}};
static const enum tsk_code cancel_errors[] = {TSK_RUN_NOT_FOUND,   TSK_INVALID_INPUT,       TSK_ENVIRONMENT,
                                              TSK_RUN_IN_PROGRESS, TSK_PROCESS_STOP_FAILED, TSK_OK};

const struct op op_runs_cancel = {
    .name = "runs.cancel",
    .noun = "runs",
    .verb = "cancel",
    .summary = "Cancel a run: its tasks get SIGTERM, after 3 s SIGKILL, with everything they started.",
    .examples = "tasuki runs cancel RUN-20260207T223000-1a2b3c",
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT,
    .params = cancel_params,
    .result = cancel_result,
    .errors = cancel_errors,
    .http = {.method = "POST", .path = "/api/runs/:run/cancel"},
    .mcp = {.tool = "run_cancel",
            .group = "requests",
            .refusal = "NOT CANCELLED",
            .text = "Cancel a run: its tasks get SIGTERM, after 3 s SIGKILL, with everything they started. "
                    "run_resume can go on with it later."},
    .run = run_cancel,
};
