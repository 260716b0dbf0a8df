/* op_wait.c - waiting for a process, a run or a lock instead of asking for it again and again. */
#include "base/fs.h"
#include "lock/report.h"
#include "lock/wait.h"
#include "ops/proc_args.h"
#include "ops/run_args.h"
#include "ops/table.h"
#include "ops/tool_texts.h"
#include "run/detach.h"

#include <errno.h>
#include <string.h>

#define SLICE_MS 500 /* how soon a cancelled call ends */

static bool is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

/* The time is up: the call can be repeated. */
static int not_yet(const char *text, const char *id, int64_t timeout_ms, struct tsk_error *err)
{
    char span[TIME_TEXT_MAX];
    duration_format(timeout_ms, span);
    return error_set(err, TSK_CONFLICT, text, "id", id, "span", span, NULL);
}

/* ---- a run ---------------------------------------------------------------------------------------------- */

static int wait_run(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    json_t *stage CLEANUP_JSON = NULL;
    int64_t timeout_ms = wait_timeout(call);
    struct rundir run;
    if (rundir_open(call->ws, id, &run, err) < 0) /* who waits for a run that is not there is told at once */
        return -1;
    rundir_clear(&run);
    if (run_follow(call->ws, run.id, timeout_ms, is_cancelled, call, &stage, err) < 0)
        return -1;
    if (strcmp(json_get_string(stage, "status", ""), "RUNNING") == 0) {
        not_yet("wait_run_late", run.id, timeout_ms, err);
        error_add_next(err, "tasuki runs show %s", run.id);
        return -1;
    }
    call->verdict = run_verdict(stage);
    *ret = json_incref(stage);
    return 0;
}

/* ---- a lock --------------------------------------------------------------------------------------------- */

/* `queue`, `sprint`, a request's id, else a name. */
static int lock_of(struct op_call *call, const char *id, struct lock_target *ret, struct tsk_error *err)
{
    bool is_queue = strcmp(id, "queue") == 0, is_sprint = strcmp(id, "sprint") == 0;
    enum tsk_lock_kind kind = is_queue                     ? TSK_LOCK_QUEUE
                              : is_sprint                  ? TSK_LOCK_SPRINT
                              : strncmp(id, "RQ-", 3) == 0 ? TSK_LOCK_REQUEST
                                                           : TSK_LOCK_NAME;
    return lock_target_init(ret, call->ws, lock_kind_get(kind), is_queue || is_sprint ? NULL : id, NULL, err);
}

/* One look, and if it is held a wait for something to happen to it. 1: it is free. */
static int look_or_wait(struct lock_target *target, struct guard *guard, struct lock_watch *watch, int64_t wait_ms,
                        struct judgement *found, struct tsk_error *err)
{
    struct now now = clock_now();
    int fd CLEANUP_FD = -1;
    if (lock_judge(target, guard, &now, found, &fd, err) < 0)
        return -1;
    if (found->verdict != VERDICT_HELD)
        return 1;
    if (wait_for_change(guard, target, found, fd, watch, wait_ms) < 0 && errno != ETIMEDOUT && errno != EINTR)
        return error_errno(err, "wait for", target->file);
    return 0;
}

static int wait_free(struct op_call *call, struct lock_target *target, struct guard *guard, struct judgement *found,
                     struct tsk_error *err)
{
    int64_t timeout_ms = wait_timeout(call), deadline = clock_now().boot_ms + timeout_ms;
    struct lock_watch watch = {.fd = -1};
    int result;
    for (;;) {
        int64_t left = timeout_ms < 0 ? SLICE_MS : deadline - clock_now().boot_ms;
        result = look_or_wait(target, guard, &watch, left < 0 ? 0 : left < SLICE_MS ? left : SLICE_MS, found, err);
        if (result != 0 || left <= 0 || is_cancelled(call))
            break;
    }
    lock_watch_close(&watch);
    return result;
}

static int wait_lock(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct guard guard = GUARD_INIT;
    struct judgement found = {.verdict = VERDICT_FREE};
    if (lock_of(call, id, &target, err) < 0)
        return -1;
    int result = guard_open(&guard, target.guard_dir, target.guard_name, err);
    if (result == 0)
        result = wait_free(call, &target, &guard, &found, err);
    struct now now = clock_now();
    if (result == 0) {
        result = not_yet("wait_lock_late", id, wait_timeout(call), err);
        report_add_holder(&target, &now, &found, err);
    } else if (result == 1) {
        *ret = report_lock(&target, &now, &found);
        result = 0;
    }
    guard_close(&guard);
    lock_target_clear(&target);
    return result;
}

/* ---- the row -------------------------------------------------------------------------------------------- */

static int run_wait(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *kind = json_get_string(call->args, "kind", ""), *id = json_get_string(call->args, "id", "");
    if (strcmp(kind, "run") == 0)
        return wait_run(call, id, ret, err);
    return strcmp(kind, "lock") == 0 ? wait_lock(call, id, ret, err) : wait_process(call, ret, err);
}

static const char *const kinds[] = {"process", "run", "lock", NULL};
static const struct op_param params[] = {
    {.name = "kind",
     .type = OP_ENUM,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "KIND",
     .help = "What to wait for.",
     .choices = kinds},
    {.name = "id",
     .type = OP_ID,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "ID",
     .help = "Of the process or the run; of a lock its name, a request's id, queue or sprint.",
     .completes = "process-id"},
    WAIT_FOR_PARAM,
    WAIT_TIMEOUT_PARAM,
    {0},
};
static const struct op_field fields[] = {
    {"status", "string?", "of a run"}, {"state", "any", "of a process or a lock: free, stale"}, {0}};
static const enum tsk_code errors[] = {TSK_PROCESS_NOT_FOUND,
                                       TSK_PROCESS_NOT_RUNNING,
                                       TSK_PROCESS_START_FAILED,
                                       TSK_RUN_NOT_FOUND,
                                       TSK_RUN_FAILED,
                                       TSK_NEEDS_INPUT,
                                       TSK_CONFLICT,
                                       TSK_INVALID_INPUT,
                                       TSK_ENVIRONMENT,
                                       TSK_NOT_FOUND,
                                       TSK_OK};

const struct op op_wait = {
    .name = "wait",
    .verb = "wait",
    .summary = "Wait for something instead of polling it: a process, a run, or a lock that becomes free.",
    .detail =
        "A process: until it has ended, or is ready. A run: until it has ended or asks something; the exit code is the "
        "run's. A lock: until nobody holds it any more (that does not take it: lock acquire --wait does). A time that "
        "is "
        "up is CONFLICT (exit 4): repeat the call to go on waiting.",
    .examples = "tasuki wait process web --for ready --timeout 30s  # until it answers\n"
                "tasuki wait run RUN-20260207T223000-1a2b3c\n"
                "tasuki wait lock deploy --timeout 10m",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = params,
    .result = fields,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/wait"},
    .mcp = {.tool = "wait_for", .group = "workspace", .is_core = true, TOOL_WAIT_FOR},
    .run = run_wait,
};
