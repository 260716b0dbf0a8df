/* op_proc_wait.c - waiting for a process instead of asking for it again and again. */
#include "ops/proc_args.h"
#include "ops/table.h"
#include "proc/depend.h"

#include <string.h>

#define REMOTE_WAIT_MAX_MS 45000 /* clients of HTTP and MCP give up after a minute; they can repeat the call */

static const char *const for_choices[] = {"exit", "ready", NULL};
static const char *const kind_choices[] = {"process", NULL};

static int64_t timeout_of(const struct op_call *call)
{
    int64_t timeout_ms = json_get_int(call->args, "timeout", -1);
    if (!call->is_cli && (timeout_ms < 0 || timeout_ms > REMOTE_WAIT_MAX_MS))
        return REMOTE_WAIT_MAX_MS;
    return timeout_ms;
}

static int run_wait(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct proc_registry reg;
    struct proc p;
    const char *id = json_get_string(call->args, "id", "");
    bool is_ready = strcmp(json_get_string(call->args, "for", "exit"), "ready") == 0;
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    int result = proc_wait(&reg, id, is_ready ? PROC_WAIT_READY : PROC_WAIT_EXIT, timeout_of(call), &p, err);
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

#define FOR_PARAM                                                                                                      \
    {                                                                                                                  \
        .name = "for", .type = OP_ENUM, .value = "WHAT",                                                               \
        .help = "exit: it has ended and no restart is to come; ready: its ready probe has succeeded.",                 \
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
     .help = "What to wait for: process.",
     .choices = kind_choices},
    PROC_ID_PARAM,
    FOR_PARAM,
    TIMEOUT_PARAM,
    {0},
};
static const enum tsk_code errors[] = {TSK_PROCESS_NOT_FOUND,
                                       TSK_PROCESS_NOT_RUNNING,
                                       TSK_PROCESS_START_FAILED,
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
    .run = run_wait,
};

const struct op op_wait = {
    .name = "wait",
    .verb = "wait",
    .summary = "Wait for something instead of polling it: until a process has ended, or until it is ready.",
    .detail =
        "Fails at once, with the reason, when what is waited for cannot happen any more. A time that is up is CONFLICT "
        "(exit 4): repeat the call to go on waiting.",
    .examples = "tasuki wait process web --for ready --timeout 30s  # until it answers",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = wait_params,
    .result = proc_fields,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/wait"},
    .mcp = {.tool = "wait_for", .group = "workspace"},
    .run = run_wait,
};
