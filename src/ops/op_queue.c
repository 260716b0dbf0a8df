/* op_queue.c - queue run, run-next, stop, next, status. */
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "run/queue.h"

#include <string.h>

/* ---- run ------------------------------------------------------------------------------------------------ */

/* What has begun, for who does not wait for the end. */
static bool begun(void *data, const json_t *stage)
{
    json_t *answer CLEANUP_JSON = json_pack(
        "{s:s, s:s, s:s, s:[{s:s, s:s, s:s}]}", "status", "RUNNING", "request_id",
        json_get_string(stage, "request_id", ""), "run_id", json_get_string(stage, "run_id", ""), "ran", "request_id",
        json_get_string(stage, "request_id", ""), "run_id", json_get_string(stage, "run_id", ""), "status", "RUNNING");
    op_decided(data, answer);
    return true;
}

static int run_queue(struct op_call *call, int64_t max, json_t **ret, struct tsk_error *err)
{
    struct queue_run options = {.max = max,
                                .for_ms = json_get_int(call->args, "for", 0),
                                .retries = json_get_bool(call->args, "retry", false),
                                .start = run_start_of(call)};
    if (call->decided)
        options.start.begun = begun;
    return queue_run(call->ws, &options, ret, &call->verdict, err);
}

/* Without following: the answer comes as soon as the locks are decided. */
static int run_apart(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *args CLEANUP_JSON = json_deep_copy(call->args);
    if (op_run_apart_as(call, call->op->name, args, false, ret, err) < 0)
        return -1;
    call->verdict = queue_verdict(json_get_string(*ret, "reason", ""));
    return 0;
}

static int run_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (op_is_apart(call))
        return run_apart(call, ret, err);
    bool is_once = json_get_bool(call->args, "once", false);
    return run_queue(call, is_once ? 1 : json_get_int(call->args, "max", 0), ret, err);
}

static int run_run_next(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return op_is_apart(call) ? run_apart(call, ret, err) : run_queue(call, 1, ret, err);
}

#define RETRY_PARAM                                                                                                    \
    {                                                                                                                  \
        .name = "retry", .type = OP_BOOL, .help = "Also requests whose latest run has failed, anew."                   \
    }
static const struct op_param run_params[] = {
    {.name = "once", .type = OP_BOOL, .help = "Only one request."},
    {.name = "max", .type = OP_INT, .value = "N", .help = "At most so many requests.", .min = 1, .max = 1000000},
    {.name = "for", .type = OP_DURATION, .min = 1, .value = "D", .help = "Begin no further one after this time."},
    RETRY_PARAM,
    OP_DETACH_PARAM,
    {0},
};
static const struct op_param run_next_params[] = {RETRY_PARAM, OP_DETACH_PARAM, {0}};
static const struct op_field run_fields[] = {
    {"status", "string", "STOPPED; RUNNING when it goes on by itself"},
    {"reason", "string?", "EMPTY STOPPED NEEDS_INPUT FAILED CANCELLED DOCTOR_FAILED MAX TIME LOCK_LOST"},
    {"ran", "array", "request_id run_id status"},
    {"error", "object?", "why a request could not begin"},
    {0}};
static const enum tsk_code run_errors[] = {
    TSK_QUEUE_IN_PROGRESS, TSK_NEEDS_INPUT,    TSK_RUN_FAILED,   TSK_DOCTOR_FAILED, TSK_LOCK_LOST, TSK_INVALID_INPUT,
    TSK_ENVIRONMENT,       TSK_UNSUPPORTED_FS, TSK_STORAGE_FULL, TSK_NOT_FOUND,     TSK_OK};

const struct op op_queue_run = {
    .name = "queue.run",
    .noun = "queue",
    .verb = "run",
    .summary = "Run the ready requests one after the other, by priority and dependencies, one queue at a time.",
    .detail =
        "It stops when a run asks something or fails, when the examination before a run finds something, at queue "
        "stop, "
        "and when nothing is left; the reason is in its answer, in queue status and in the events. A run that was "
        "interrupted is continued. Exit codes: 0, 4 another queue runs, 7 failed, 8 a run asks, 3 examination.",
    .examples = "tasuki queue run\n"
                "tasuki queue run --for 60m --max 10\n"
                "tasuki queue run --detach",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params = run_params,
    .result = run_fields,
    .errors = run_errors,
    .http = {.method = "POST", .path = "/api/queue/start"},
    .mcp = {.tool = "queue_run",
            .group = "requests",
            .is_core = true,
            .refusal = "NOT STARTED",
            .text = "Run the ready requests one after the other, until one asks, fails, or none is left. NOT STARTED: "
                    "another queue runs; leave it alone. It goes on without this connection."},
    .run = run_run,
};

const struct op op_queue_run_next = {
    .name = "queue.run-next",
    .noun = "queue",
    .verb = "run-next",
    .summary = "Run the next request, and only that: queue run --once.",
    .examples = "tasuki queue run-next",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params = run_next_params,
    .result = run_fields,
    .errors = run_errors,
    .http = {.method = "POST", .path = "/api/queue/run-next"},
    .mcp.absent = "queue_run with once does it",
    .run = run_run_next,
};

/* ---- stop ----------------------------------------------------------------------------------------------- */

static int run_stop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return queue_stop(call->ws, json_get_bool(call->args, "now", false), ret, err);
}

static const struct op_param stop_params[] = {
    {.name = "now", .type = OP_BOOL, .help = "Cancel the request that is being run, instead of letting it finish."},
    {0}};
static const struct op_field stop_fields[] = {{"status", "string", "stopping, or not_running"},
                                              {"request_id", "string?", "the one that is being run"},
                                              {"run_id", "string?", ""},
                                              {0}};
static const enum tsk_code look_errors[] = {TSK_QUEUE_IN_PROGRESS, TSK_INVALID_INPUT, TSK_ENVIRONMENT,
                                            TSK_STORAGE_FULL,      TSK_NOT_FOUND,     TSK_OK};

const struct op op_queue_stop = {
    .name = "queue.stop",
    .noun = "queue",
    .verb = "stop",
    .summary = "Stop the queue after the request that it runs.",
    .examples = "tasuki queue stop\ntasuki queue stop --now  # that request is cancelled, too",
    .flags = OP_IDEMPOTENT,
    .params = stop_params,
    .result = stop_fields,
    .errors = look_errors,
    .http = {.method = "POST", .path = "/api/queue/stop"},
    .mcp = {.tool = "queue_stop",
            .group = "requests",
            .text = "Stop the queue after the request that it runs; with now, cancel that one, too. Requests that were "
                    "not run stay ready. Nothing is lost."},
    .run = run_stop,
};

/* ---- next and status ------------------------------------------------------------------------------------ */

static int run_next(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return queue_next(call->ws, json_get_bool(call->args, "retry", false), call->lang, ret, err);
}

static const struct op_param next_params[] = {RETRY_PARAM, {0}};
static const struct op_field next_fields[] = {
    {"next", "object?", "the request; resumes: the interrupted run that would be continued"},
    {"others", "array", "request_id title priority status; reason and detail, or position"},
    {0}};

const struct op op_queue_next = {
    .name = "queue.next",
    .noun = "queue",
    .verb = "next",
    .summary = "Say which request the queue would take next, and why none of the others.",
    .detail =
        "Reasons: NOT_READY DEPENDS_NOT_DONE DEPENDS_NOT_FOUND DEPENDS_CYCLE REQUEST_LOCKED LATEST_RUN_NEEDS_INPUT "
        "LATEST_RUN_FAILED ALREADY_DONE. Those that may run, but later, have their position.",
    .examples = "tasuki queue next",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = next_params,
    .result = next_fields,
    .errors = look_errors,
    .http = {.method = "GET", .path = "/api/queue/next"},
    .mcp = {.tool = "queue_next",
            .group = "requests",
            .text = "Say which request the queue would take next, and for each other one why not. It changes nothing."},
    .run = run_next,
};

static int run_status(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return queue_status(call->ws, call->lang, ret, err);
}

static const struct op_param no_params[] = {{0}};
static const struct op_field status_fields[] = {{"status", "string", "running idle interrupted"},
                                                {"request_id", "string?", "the one that is being run"},
                                                {"run_id", "string?", ""},
                                                {"holder", "object?", "who runs it"},
                                                {"stopping", "boolean?", "a stop was requested"},
                                                {"ready", "integer", "how many may run"},
                                                {"next", "string?", "the first of them"},
                                                {"last", "object?", "the last queue: started_at ended_at reason ran"},
                                                {0}};

const struct op op_queue_status = {
    .name = "queue.status",
    .noun = "queue",
    .verb = "status",
    .summary = "Show whether a queue runs, what it runs, and why the last one ended.",
    .examples = "tasuki queue status",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = no_params,
    .result = status_fields,
    .errors = look_errors,
    .http = {.method = "GET", .path = "/api/queue"},
    .mcp.absent = "get_status and queue_next say it",
    .run = run_status,
};
