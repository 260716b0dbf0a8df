/* op_request_run.c - request run: a request alone, here or apart; and what is done when somebody runs it already. */
#include "ops/conflict.h"
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/request_args.h"
#include "ops/run_args.h"

static int run_attempt(struct op_call *call, void *data, json_t **ret, struct tsk_error *err)
{
    (void)data;
    if (op_is_apart(call)) {
        json_t *args CLEANUP_JSON = json_deep_copy(call->args);
        conflict_strip(args);
        return op_run_apart_as(call, call->op->name, args, false, ret, err);
    }
    struct run_start start = run_start_of(call);
    start.request_id = json_get_string(call->args, "request", "");
    start.is_new = json_get_bool(call->args, "new", false);
    start.is_by_hand = true;
    start.after = json_get_string(call->args, "after", NULL);
    if (start_request(call->ws, &start, ret, err) < 0)
        return -1;
    run_judge(call, *ret);
    return 0;
}

static int run_request(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    /* Only a command in the foreground follows the run that is there already. */
    bool waits = call->is_cli && !op_is_apart(call);
    if (request_named_or_only(call, true, err) < 0)
        return -1;
    return conflict_run(call, run_attempt, NULL, NULL, waits ? -1 : 0, ret, err);
}

const struct op op_request_run = {
    NAMES("request.run", "request", "run"),
    .summary = "Run a request now, under its lock, so that nobody else runs it at the same time.",
    .detail = "The tasks run in the workspace's root. Exit codes: 0 done, 7 failed, 8 a task asks something (answer), "
              "4 it runs already. The lock is released last; if this command is killed, the next one takes it at once. "
              "The run is shown as INTERRUPTED, and the next run of the request continues it: completed tasks do not "
              "run again (--new starts a new run). Without RQ, the only request that may run is taken (queue next).",
    .examples = "tasuki request run RQ-20260207T223000-1a2b3\n"
                "tasuki request run RQ-20260207T223000-1a2b3 --on-conflict attach  # start it, or follow it\n"
                "tasuki request run RQ-20260207T223000-1a2b3 --detach",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params =
        PARAMS(REQUEST_OR_NONE_PARAM, CONFLICT_PARAM,
               FLAG("new", OP_OPTIONAL, "Start a new run; a latest run that waits or was interrupted is cancelled.",
                    .agent_help = "Start a new run; cancel one that waits."),
               PARAM("parallel", OP_INT, OP_CLI_ONLY, "N", "At most N tasks at a time.",
                     .fallback = "the flow's limit, or one per processor", .min = 1, .max = 100000, .letter = 'j'),
               RUN_OUTPUT_PARAM, FLAG("yes", OP_CLI_ONLY, "Answer the question of replace with yes."), NOTE_PARAM,
               OP_DETACH_PARAM),
    .result = FIELDS({"run_id", "string", ""}, {"request_id", "string", ""},
                     {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED; more in runs.show"},
                     {"attached", "boolean?", "it is a run that was there already"},
                     {"pending", "string?", "on_conflict after: status is PENDING, run_id the run that it follows"},
                     {"replaced", "boolean?", "with pending: an older one was pending"}),
    .errors = ERRORS(TSK_REQUEST_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_NEEDS_INPUT, TSK_NEEDS_CONFIRMATION,
                     TSK_FLOW_INVALID, TSK_INVALID_INPUT, TSK_DOCTOR_FAILED, TSK_CONFLICT, TSK_TASK_FAILED,
                     TSK_GROUP_FAILED, TSK_TASK_TIMEOUT, TSK_MAX_STEPS_EXCEEDED, TSK_RUN_FAILED, TSK_STORAGE_FULL,
                     TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE, TSK_UNSUPPORTED_FS, TSK_NOT_FOUND, TSK_LOCK_LOST),
    .http = ROUTE("POST", "/api/requests/:request/run"),
    .mcp = TOOL("request_run", "requests", .is_core = true, .refusal = "NOT STARTED",
                .text = "Run a request now, or continue its interrupted run; the answer is that run (wait_for, "
                        "run_show). NOT STARTED: RUN_IN_PROGRESS names the run that is there, NEEDS_INPUT one "
                        "for run_answer. It outlives this connection."),
    .run = run_request,
};
