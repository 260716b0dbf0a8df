/* op_request_run.c - request run: a request alone, here or apart; and what is done when somebody runs it already. */
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/request_args.h"
#include "ops/run_args.h"
#include "run/detach.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define REPLACE_WAIT_MS 30000
#define ATTEMPTS_MAX    20 /* the run that is in the way may end, or never come to be, before it is followed */
#define AGAIN_MS        5

/* One attempt. The runner apart knows nothing of conflicts: who asks decides. */
static int attempt(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (op_is_apart(call)) {
        json_t *args CLEANUP_JSON = json_deep_copy(call->args);
        json_object_del(args, "on_conflict");
        json_object_del(args, "yes");
        return op_run_apart_as(call, call->op->name, args, false, ret, err);
    }
    struct run_start start = run_start_of(call);
    start.request_id = json_get_string(call->args, "request", "");
    start.is_new = json_get_bool(call->args, "new", false);
    start.is_by_hand = true;
    if (start_request(call->ws, &start, ret, err) < 0)
        return -1;
    call->verdict = run_verdict(*ret);
    return 0;
}

/* True if the followed run was executed at all. It was not if its lock was taken and the runner was refused after that. */
static bool has_begun(const json_t *stage)
{
    return *json_get_string(stage, "started_at", "");
}

/* The run that is there already: on the command line until its end, else as it is now. 1: there is none after all. */
static int attach(struct op_call *call, const char *request, const char *run, json_t **ret, struct tsk_error *err)
{
    bool waits = call->is_cli && !op_is_apart(call);
    json_t *stage CLEANUP_JSON = NULL;
    if (run_follow(call->ws, run, request, waits ? -1 : 0, NULL, NULL, &stage, err) < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 1 : -1;
    if (!has_begun(stage))
        return 1;
    json_object_set_new(stage, "attached", json_true());
    call->verdict = run_verdict(stage);
    *ret = json_incref(stage);
    return 0;
}

static int confirm_replace(struct op_call *call, const char *run, struct tsk_error *err)
{
    const char *request = tsk_error_context(err, "request_id");
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    if (json_get_bool(call->args, "yes", false))
        return 0;
    text_put(&question, call->lang, "request_replace_question", "request", request ? request : "", "run", run, NULL);
    if (call->confirm && call->confirm(call, buf_str(&question)))
        return 0;
    err->code = TSK_NEEDS_CONFIRMATION;
    err->text = "request_replace_needs";
    error_clear_next(err);
    error_add_next(err, "tasuki runs show %s", run);
    error_add_next(err, "tasuki request run %s --on-conflict attach", request ? request : "RQ");
    return -1;
}

/* Cancels the run; 0: the request is free now, or 1: there was no such run. */
static int replace(struct op_call *call, const char *request, const char *run, struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    const char *status;
    json_t *stage CLEANUP_JSON = NULL;
    if (confirm_replace(call, run, err) < 0)
        return -1;
    bool is_stopped = stop_run(call->ws, run, false, id, &status, err) == 0;
    if (!is_stopped && err->code != TSK_RUN_NOT_FOUND && err->sys_errno == 0)
        return -1; /* a runner that has ended since needs no signal */
    if (run_follow(call->ws, run, request, REPLACE_WAIT_MS, NULL, NULL, &stage, err) < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 1 : -1;
    /* Its runner was killed before it could record the end: the run must not be continued (S9). */
    bool is_left = strcmp(json_get_string(stage, "status", ""), "INTERRUPTED") == 0;
    return is_left ? stop_run(call->ws, run, false, id, &status, err) : 0;
}

/* *err is the refusal, and what is left if the lock names no run of ours: then there is nothing to follow or to cancel. */
static int settle(struct op_call *call, const char *rule, json_t **ret, bool *ret_is_gone, struct tsk_error *err)
{
    char run[LOCK_ID_MAX];
    struct tsk_error refusal = *err;
    const char *request = tsk_error_context(&refusal, "request_id");
    *ret_is_gone = false;
    if (!start_refused_by(&refusal, run) || strcmp(rule, "fail") == 0)
        return -1;
    bool attaches = strcmp(rule, "attach") == 0;
    int result = attaches ? attach(call, request, run, ret, err) : replace(call, request, run, err);
    if (result == 1)
        *err = refusal;
    *ret_is_gone = result == 1;
    return result == 0 ? (attaches ? 1 : 0) : -1;
}

static int run_request(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *rule = json_get_string(call->args, "on_conflict", "fail");
    bool is_gone = false;
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
        if (attempt(call, ret, err) == 0)
            return 0;
        int settled = settle(call, rule, ret, &is_gone, err);
        if (settled == 1)
            return 0;
        if (settled < 0 && !is_gone)
            return -1;
        if (is_gone) /* a moment later it is free, or held by somebody else, or by the same who is no runner of ours */
            nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000}, NULL);
    }
    return -1;
}

static const char *const rules[] = {"fail", "attach", "replace", NULL};
static const struct op_param params[] = {
    REQUEST_ID_PARAM,
    {.name = "on_conflict",
     .type = OP_ENUM,
     .value = "RULE",
     .help = "If it runs already: refuse, follow that run, or cancel it and run anew.",
     .choices = rules,
     .fallback = "fail"},
    {.name = "new", .type = OP_BOOL, .help = "Begin anew; a latest run that waits or was interrupted is cancelled."},
    {.name = "parallel",
     .type = OP_INT,
     .flags = OP_CLI_ONLY,
     .letter = 'j',
     .value = "N",
     .help = "At most so many tasks at a time.",
     .min = 1,
     .max = 100000,
     .fallback = "the flow's limit, or one per processor"},
    {.name = "yes", .type = OP_BOOL, .flags = OP_CLI_ONLY, .help = "Answer the question of replace with yes."},
    OP_DETACH_PARAM,
    {0},
};
static const struct op_field fields[] = {
    {"run_id", "string", ""},
    {"request_id", "string", ""},
    {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED; more in runs.show"},
    {"attached", "boolean?", "it is a run that was there already"},
    {0}};
static const enum tsk_code errors[] = {TSK_REQUEST_NOT_FOUND,
                                       TSK_RUN_IN_PROGRESS,
                                       TSK_NEEDS_INPUT,
                                       TSK_NEEDS_CONFIRMATION,
                                       TSK_FLOW_INVALID,
                                       TSK_INVALID_INPUT,
                                       TSK_DOCTOR_FAILED,
                                       TSK_CONFLICT,
                                       TSK_TASK_FAILED,
                                       TSK_GROUP_FAILED,
                                       TSK_TASK_TIMEOUT,
                                       TSK_MAX_STEPS_EXCEEDED,
                                       TSK_RUN_FAILED,
                                       TSK_STORAGE_FULL,
                                       TSK_ENVIRONMENT,
                                       TSK_UNSUPPORTED_FS,
                                       TSK_NOT_FOUND,
                                       TSK_LOCK_LOST,
                                       TSK_OK};

const struct op op_request_run = {
    .name = "request.run",
    .noun = "request",
    .verb = "run",
    .summary = "Run a request now, under its lock: nobody else runs it at the same time.",
    .detail = "The tasks run in the workspace's root. Exit codes: 0 done, 7 failed, 8 a task asks something (answer), "
              "4 it runs "
              "already. The lock is released last; if this command is killed, the next one takes it at once. The "
              "run is shown as INTERRUPTED, and the next run of the request continues it: what is done is not "
              "done twice (--new begins anew).",
    .examples = "tasuki request run RQ-20260207T223000-1a2b3\n"
                "tasuki request run RQ-20260207T223000-1a2b3 --on-conflict attach  # start it, or follow it\n"
                "tasuki request run RQ-20260207T223000-1a2b3 --detach",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params = params,
    .result = fields,
    .errors = errors,
    .http = {.method = "POST", .path = "/api/requests/:request/run"},
    .mcp = {.tool = "request_run",
            .group = "requests",
            .is_core = true,
            .refusal = "NOT STARTED",
            .text = "Run a request now, or go on with its interrupted run; the answer is that run (wait_for, "
                    "run_show). NOT STARTED: RUN_IN_PROGRESS names the run that is there already, NEEDS_INPUT one for "
                    "run_answer. It goes on without this connection."},
    .run = run_request,
};
