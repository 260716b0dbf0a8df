/* op_wait.c - waiting for a process, a run or a lock instead of asking for it again and again. */
#include "lock/report.h"
#include "ops/lock_args.h"
#include "ops/ops.h"
#include "ops/own_args.h"
#include "ops/proc_args.h"
#include "ops/run_args.h"
#include "ops/waits.h"
#include "run/detach.h"

#include <string.h>

static bool wait_is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

/* The time is up: the call can be repeated. */
static int not_yet(const char *text, const char *id, int64_t timeout_ms, struct tsk_error *err)
{
    return error_set(err, TSK_CONFLICT, text, "id", id, "span", DURATION(timeout_ms), NULL);
}

/* ---- a run ---------------------------------------------------------------------------------------------- */

static int wait_run(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    json_t *stage CLEANUP_JSON = NULL;
    int64_t timeout_ms = wait_timeout(call);
    struct rundir run;
    if (rundir_open_to_look(call->ws, id, &run, err) < 0) /* waiting for a run that does not exist fails at once */
        return -1;
    rundir_clear(&run);
    if (run_follow(call->ws, run.id, NULL, timeout_ms, wait_is_cancelled, call, &stage, err) < 0)
        return -1;
    if (json_text_is(stage, "status", "RUNNING")) {
        not_yet("wait_run_late", run.id, timeout_ms, err);
        rundir_add_starter(stage, err);
        return error_add_next(err, "tasuki runs show %s", run.id);
    }
    run_judge(call, stage);
    *ret = json_incref(stage);
    return 0;
}

/* ---- a lock --------------------------------------------------------------------------------------------- */

static int wait_lock(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    if (lock_args_named(call, id, &target, err) < 0)
        return -1;
    int result = lock_await(&target, wait_timeout(call), wait_is_cancelled, call, &found, err);
    struct now now = clock_now();
    if (result == 0) {
        *ret = report_lock(&target, &now, &found);
    } else if (result == 1) {
        result = not_yet("wait_lock_late", id, wait_timeout(call), err);
        report_add_holder(&target, &now, &found, err);
    }
    lock_target_clear(&target);
    return result;
}

/* ---- a workflow ------------------------------------------------------------------------------------------ */

/* A living owner, or one of which nobody can tell, is waited for. */
static bool has_owner(const struct workflow *wf)
{
    return wf->owner[0] && wf->state.alive != LIVE_DEAD;
}

static int look_at_workflow(struct op_call *call, const char *id, struct workflow *ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    return owners_open(&owners, call->ws, err) < 0 ? -1 : workflow_look(&owners, id, NULL, ret, err);
}

static int wait_workflow(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err)
{
    struct workflow wf;
    int64_t timeout_ms = wait_timeout(call), now_ms = clock_now().boot_ms;
    int64_t until_ms = timeout_ms < 0 ? INT64_MAX : now_ms + timeout_ms;
    if (!id_is_valid(id))
        return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "id", "value", id, NULL);
    for (;;) {
        if (look_at_workflow(call, id, &wf, err) < 0)
            return -1;
        if (!has_owner(&wf))
            break;
        if (own_wait_more(call, until_ms))
            continue;
        workflow_refuse_as(&wf, TSK_CONFLICT, "wait_workflow_late", err);
        return -1;
    }
    *ret = workflow_json(&wf, false);
    json_object_set_new(*ret, "state", json_string(wf.owner[0] ? "stale" : "free"));
    return 0;
}

/* ---- the row -------------------------------------------------------------------------------------------- */

/* Without an id: the latest run. */
static int name_awaited(struct op_call *call, const char *kind, const char **ret_id, struct tsk_error *err)
{
    struct rundir run;
    if (strcmp(kind, "run") != 0)
        return op_param_missing(call->op, "id", err);
    if (rundir_open(call->ws, "", &run, err) < 0)
        return -1;
    json_object_set_new(call->args, "id", json_string(run.id));
    rundir_clear(&run);
    *ret_id = json_get_string(call->args, "id", "");
    return 0;
}

static int run_wait(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *kind = json_get_string(call->args, "kind", ""), *id = json_get_string(call->args, "id", "");
    const char *what = json_get_string(call->args, "for", "exit");
    if (strcmp(kind, "process") != 0 && strcmp(what, "exit") != 0)
        return error_set(err, TSK_INVALID_INPUT, "wait_only_process", "value", what, "kind", kind, NULL);
    if (!*id && name_awaited(call, kind, &id, err) < 0)
        return -1;
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    op_wait_begin(&waiting, call, call->ws, kind, id);
    if (strcmp(kind, "run") == 0)
        return wait_run(call, id, ret, err);
    if (strcmp(kind, "workflow") == 0)
        return wait_workflow(call, id, ret, err);
    return strcmp(kind, "lock") == 0 ? wait_lock(call, id, ret, err) : wait_process(call, ret, err);
}

static const char *const kinds[] = {"process", "run", "lock", "workflow", NULL};

/* With a body, as the tool has it. */
static const struct op_route post_route[] = {{"POST", "/api/wait", NULL}, {0}};

const struct op op_wait = {
    NAMES("wait", NULL, "wait"),
    .summary = "Wait for something instead of polling it: a process, a run, or a lock or a workflow that becomes free.",
    .detail = "A process: until it has ended, or is ready. A run: until it has ended or asks something; the exit code "
              "is the run's. A lock: until nobody holds it any more (this does not take it; lock acquire --wait does). "
              "A workflow: until it has no living owner (own claim --wait also takes it). If the time is up, the error "
              "is CONFLICT (exit 4): repeat the call to continue waiting.",
    .examples = "tasuki wait process web --for ready --timeout 30s  # until it answers\n"
                "tasuki wait run  # the latest\n"
                "tasuki wait lock deploy --timeout 10m\n"
                "tasuki wait workflow nightly",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WAITS | OP_VERDICTS,
    .params = PARAMS(PARAM("kind", OP_ENUM, OP_REQUIRED | OP_POSITIONAL, "KIND", "What to wait for.", .choices = kinds),
                     PARAM("id", OP_STRING, OP_POSITIONAL, "ID",
                           "Of the process, the run (none: the latest) or the workflow; for a lock: its name, a "
                           "request's id, queue, sprint, or KIND/ID.",
                           .max = 512, .completes = "awaited-id"),
                     WAIT_FOR_PARAM, WAIT_TIMEOUT_PARAM),
    .result = FIELDS({"status", "string?", "of a run"},
                     {"state", "any", "of a process; of a lock or a workflow: free, stale"}),
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_PROCESS_START_FAILED, TSK_RUN_NOT_FOUND,
                     TSK_RUN_FAILED, TSK_NEEDS_INPUT, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/wait", .also = post_route),
    .mcp = TOOL("wait_for", "workspace", .is_core = true, .refusal = "NOT YET",
                .text = "Wait until a process has ended or is ready, a run has ended, or a lock or workflow is free. "
                        "It takes nothing; NOT YET: the time (45 s at most) is up, repeat the call."),
    .run = run_wait,
};
