/* op_proc_wait.c - waiting for a process instead of asking for it again and again. */
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "ops/waits.h"
#include "proc/depend.h"

#include <string.h>

#define SLICE_MS 500 /* how soon a cancelled call ends */

const char *const wait_for_choices[] = {"exit", "ready", NULL};

int64_t wait_timeout(const struct op_call *call)
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
    error_set(err, TSK_CONFLICT, slice.text, "id", tsk_error_context(&slice, "id"), "for",
              tsk_error_context(&slice, "for"), "span", DURATION(timeout_ms), "state",
              tsk_error_context(&slice, "state"), "phase", tsk_error_context(&slice, "phase"), NULL);
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
    int64_t timeout_ms = wait_timeout(call), deadline_ms = clock_now().boot_ms + timeout_ms;
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

int wait_process(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_registry reg;
    struct proc p;
    bool is_ready = strcmp(json_get_string(call->args, "for", "exit"), "ready") == 0;
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    int result = wait_sliced(call, &reg, is_ready ? PROC_WAIT_READY : PROC_WAIT_EXIT, &p, err);
    if (result == 0) {
        *ret = proc_to_json(&reg, &p);
        /* So that a script does not continue after a failure: `tasuki proc wait build && …`. */
        call->has_exit_code = call->is_cli && p.view.state == PROC_FAILED;
        call->exit_code = code_info(TSK_TASK_FAILED)->exit_code;
        proc_clear(&p);
    }
    proc_registry_close(&reg);
    return result;
}

static int run_wait(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    op_wait_begin(&waiting, call, call->ws, "process", json_get_string(call->args, "id", NULL));
    return wait_process(call, ret, err);
}

const struct op op_process_wait = {
    NAMES("process.wait", "proc", "wait"),
    .summary = "Wait until a process has ended, or until it is ready.",
    .detail = "Fails at once, with the reason, if the condition can no longer come true. If the time is up, the error "
              "is CONFLICT (exit 4): repeat the call. A wait for ready also ends if the process was ready and is "
              "unhealthy now; the phase says so. Exit code on the command line: 0, or 7 if the process failed.",
    .examples = "tasuki proc wait build && echo built  # until it has ended\n"
                "tasuki proc wait web --for ready --timeout 30s  # until it answers",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(PROC_ID_PARAM, WAIT_FOR_PARAM, WAIT_TIMEOUT_PARAM),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_PROCESS_START_FAILED, TSK_CONFLICT,
                     TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http.absent = "GET /api/wait does it",
    .mcp.absent = "wait_for does it",
    .run = run_wait,
};
