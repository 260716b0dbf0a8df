/* op_proc_wait.c - waiting for a process, a run or a lock instead of asking for it again and again. */
#include "graph/rundir.h"
#include "lock/report.h"
#include "ops/lock_args.h"
#include "ops/proc_args.h"
#include "ops/run_args.h"
#include "ops/table.h"
#include "ops/tool_texts.h"
#include "proc/depend.h"
#include "run/detach.h"

#include <string.h>

#define SLICE_MS 500 /* how soon a cancelled call ends */

static const char *const for_choices[] = {"exit", "ready", NULL};
static const char *const kind_choices[] = {"process", "run", "lock", NULL};

static int64_t timeout_of(const struct op_call *call)
{
    int64_t timeout_ms = json_get_int(call->args, "timeout", -1);
    if (!call->is_cli && (timeout_ms < 0 || timeout_ms > REMOTE_WAIT_MAX_MS))
        return REMOTE_WAIT_MAX_MS;
    return timeout_ms;
}

/* The error of the last slice, with the whole time. */
static int timed_out(int64_t timeout_ms, struct tsk_error *err)
{
    struct tsk_error slice = *err;
    char span[TIME_TEXT_MAX];
    duration_format(timeout_ms, span);
    error_set(err, TSK_CONFLICT, slice.text, "id", tsk_error_context(&slice, "id"), "for",
              tsk_error_context(&slice, "for"), "span", span, "state", tsk_error_context(&slice, "state"), "phase",
              tsk_error_context(&slice, "phase"), NULL);
    const char *command;
    for (unsigned i = 0; (command = tsk_error_next(&slice, i)); i++)
        error_add_next(err, "%s", command);
    return -1;
}

/* Looks up now and then whether the caller still wants to know. */
static int wait_sliced(struct op_call *call, struct proc_registry *reg, enum proc_wait_for what, struct proc *ret,
                       struct tsk_error *err)
{
    const char *id = json_get_string(call->args, "id", "");
    int64_t timeout_ms = timeout_of(call), deadline_ms = clock_now().boot_ms + timeout_ms;
    if (!call->is_cancelled)
        return proc_wait(reg, id, what, timeout_ms, ret, err);
    for (;;) {
        int64_t left = deadline_ms - clock_now().boot_ms;
        bool is_last = left <= SLICE_MS || call->is_cancelled(call);
        *err = (struct tsk_error){.code = TSK_OK};
        int result = proc_wait(reg, id, what, left < SLICE_MS ? (left > 0 ? left : 0) : SLICE_MS, ret, err);
        if (result == 0 || err->code != TSK_CONFLICT)
            return result;
        if (is_last)
            return timed_out(timeout_ms, err);
    }
}

static int wait_for_process(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_registry reg;
    struct proc p;
    bool is_ready = strcmp(json_get_string(call->args, "for", "exit"), "ready") == 0;
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    int result = wait_sliced(call, &reg, is_ready ? PROC_WAIT_READY : PROC_WAIT_EXIT, &p, err);
    if (result == 0) {
        *ret = proc_to_json(&reg, &p);
        /* So that a script does not go on after a failure: `tasuki proc wait build && …`. */
        call->has_exit_code = call->is_cli && p.view.state == PROC_FAILED;
        call->exit_code = code_info(TSK_TASK_FAILED)->exit_code;
        proc_clear(&p);
    }
    proc_registry_close(&reg);
    return result;
}

static bool is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

/* The time is up. */
static int not_yet(const struct op_call *call, const char *text, const char *state, struct tsk_error *err)
{
    char span[TIME_TEXT_MAX];
    duration_format(timeout_of(call), span);
    return error_set(err, TSK_CONFLICT, text, "id", json_get_string(call->args, "id", ""), "span", span, "state", state,
                     NULL);
}

static int wait_for_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *id = json_get_string(call->args, "id", "");
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, id, &run, err) < 0) /* run_follow would wait for it to appear */
        return -1;
    rundir_clear(&run);
    if (run_follow(call->ws, id, NULL, timeout_of(call), is_cancelled, call, &stage, err) < 0)
        return -1;
    if (strcmp(json_get_string(stage, "status", ""), "RUNNING") == 0) {
        not_yet(call, "wait_run_timeout", "RUNNING", err);
        error_add_next(err, "tasuki runs show %s", id);
        return -1;
    }
    call->has_exit_code = call->is_cli;
    call->exit_code = code_info(run_verdict(stage))->exit_code;
    *ret = json_incref(stage);
    return 0;
}

static int wait_for_lock(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    if (lock_args_named(call, json_get_string(call->args, "id", ""), &target, err) < 0)
        return -1;
    int result = lock_await(&target, timeout_of(call), is_cancelled, call, &found, err);
    struct now now = clock_now();
    if (result == 0)
        *ret = report_lock(&target, &now, &found);
    if (result == 1) {
        not_yet(call, "wait_lock_timeout", "held", err);
        report_add_holder(&target, &now, &found, err);
    }
    lock_target_clear(&target);
    return result == 0 ? 0 : -1;
}

static int run_wait(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *kind = json_get_string(call->args, "kind", ""), *what = json_get_string(call->args, "for", "exit");
    if (strcmp(kind, "process") == 0)
        return wait_for_process(call, ret, err);
    if (strcmp(what, "exit") != 0)
        return error_set(err, TSK_INVALID_INPUT, "wait_only_process", "value", what, "kind", kind, NULL);
    return strcmp(kind, "run") == 0 ? wait_for_run(call, ret, err) : wait_for_lock(call, ret, err);
}

#define FOR_PARAM                                                                                                      \
    {                                                                                                                  \
        .name = "for", .type = OP_ENUM, .value = "WHAT",                                                               \
        .help = "exit: it has ended and no restart is to come; ready: a process's probe has succeeded.",               \
        .choices = for_choices, .fallback = "exit"                                                                     \
    }
#define TIMEOUT_PARAM                                                                                                  \
    {                                                                                                                  \
        .name = "timeout", .type = OP_DURATION, .flags = OP_FOREVER, .value = "D",                                     \
        .help = "How long at most; over HTTP and MCP never longer than 45s.", .fallback = "forever"                    \
    }

static const struct op_param proc_wait_params[] = {PROC_ID_PARAM, FOR_PARAM, TIMEOUT_PARAM, {0}};
static const struct op_param wait_params[] = {
    {.name = "kind",
     .type = OP_ENUM,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "KIND",
     .help = "What to wait for: process (until its end, or ready), run (until its end), lock (until it is free).",
     .choices = kind_choices},
    {.name = "id",
     .type = OP_STRING,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "ID",
     .help = "The process, the run, or the lock: its name, a request's id, queue or sprint (any kind: KIND/ID).",
     .max = 512,
     .completes = "process-id"},
    FOR_PARAM,
    TIMEOUT_PARAM,
    {0},
};
static const struct op_field wait_fields[] = {{"state_name", "string?", "of a process: its record"},
                                              {"status", "string?", "of a run: its stage"},
                                              {"state", "any", "of a lock: free, stale or zombie; of a process"},
                                              {0}};
static const enum tsk_code errors[] = {TSK_PROCESS_NOT_FOUND,
                                       TSK_PROCESS_NOT_RUNNING,
                                       TSK_PROCESS_START_FAILED,
                                       TSK_RUN_NOT_FOUND,
                                       TSK_CONFLICT,
                                       TSK_INVALID_INPUT,
                                       TSK_ENVIRONMENT,
                                       TSK_NOT_FOUND,
                                       TSK_OK};

const struct op op_process_wait = {
    .name = "process.wait",
    .noun = "proc",
    .verb = "wait",
    .summary = "Wait until a process has ended, or until it is ready.",
    .detail =
        "Fails at once, with the reason, when what is waited for cannot happen any more. A time that is up is CONFLICT "
        "(exit 4); so it can be repeated. Exit code on the command line: 0, or 7 if the process failed.",
    .examples = "tasuki proc wait build && echo built  # until it has ended\n"
                "tasuki proc wait web --for ready --timeout 30s  # until it answers",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = proc_wait_params,
    .result = proc_fields,
    .errors = errors,
    .http.absent = "GET /api/wait does it",
    .mcp.absent = "wait_for does it",
    .run = wait_for_process,
};

const struct op op_wait = {
    .name = "wait",
    .verb = "wait",
    .summary = "Wait for something instead of polling it: for a process's end or readiness, a run's end, a free lock.",
    .detail =
        "Fails at once, with the reason, when what is waited for cannot happen any more. A time that is up is CONFLICT "
        "(exit 4): repeat the call to go on waiting. The exit code of a run is that of `tasuki run`. A lock that is "
        "free is not taken by this: `lock acquire --wait` does both.",
    .examples = "tasuki wait process web --for ready --timeout 30s  # until it answers\n"
                "tasuki wait run RUN-20260207T223000-1a2b3c && echo done  # until it has ended\n"
                "tasuki wait lock deploy --timeout 5m  # until nobody holds it",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WAITS,
    .params = wait_params,
    .result = wait_fields,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/wait"},
    .mcp = {.tool = "wait_for", .group = "workspace", .is_core = true, TOOL_WAIT_FOR},
    .run = run_wait,
};
