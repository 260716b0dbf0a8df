/* op_queue.c - queue run, run-next, stop, next, status. */
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "ops/short_id.h"
#include "run/book.h"
#include "run/queue.h"
#include "run/run_log.h"

#include <string.h>

#define QUEUE_RUNS_EXPLAINED 10 /* failed runs in one answer: a queue that stays may have many */
#define QUEUE_RUN_ERRORS                                                                                               \
    ERRORS(TSK_QUEUE_IN_PROGRESS, TSK_NEEDS_INPUT, TSK_RUN_FAILED, TSK_DOCTOR_FAILED, TSK_LOCK_LOST,                   \
           TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE, TSK_UNSUPPORTED_FS, TSK_STORAGE_FULL,            \
           TSK_NOT_FOUND)

/* ---- run ------------------------------------------------------------------------------------------------ */

/* Answers a caller that does not wait for the end with the run that has begun. */
static bool queue_run_begun(void *data, const json_t *stage)
{
    json_t *answer CLEANUP_JSON = json_pack(
        "{s:s, s:s, s:s, s:[{s:s, s:s, s:s}]}", "status", "RUNNING", "request_id",
        json_get_string(stage, "request_id", ""), "run_id", json_get_string(stage, "run_id", ""), "ran", "request_id",
        json_get_string(stage, "request_id", ""), "run_id", json_get_string(stage, "run_id", ""), "status", "RUNNING");
    op_decided(data, answer);
    return true;
}

/* The same for a queue that stays and has nothing to do yet. */
static void queue_run_waits(void *data, const json_t *ran)
{
    json_t *answer CLEANUP_JSON = json_pack("{s:s, s:O}", "status", "RUNNING", "ran", ran);
    op_decided(data, answer);
}

static void queue_run_idles(void *data, bool is_idle)
{
    struct op_call *call = data;
    call->waits(call, is_idle ? "requests" : NULL, NULL, 0);
}

/* What the end of a run shows, for its line. One that is gone by now keeps its status. */
static void explain_run(struct op_call *call, json_t *line)
{
    static const char *const keys[] = {"counts", "duration_ms", "reason",    "reason_code",
                                       "source", "failures",    "questions", NULL};
    struct rundir run;
    struct tsk_error ignored; /* `runs show` reports it */
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, json_get_string(line, "run_id", ""), &run, &ignored) < 0)
        return;
    int looked = rundir_look(&run, &stage, &ignored);
    rundir_clear(&run);
    if (looked < 0)
        return;
    run_read_reasons(stage, call->lang);
    run_log_add_failures(call->ws, stage, call->is_brief);
    json_copy_keys(line, stage, keys);
}

/* A run begins, or has ended, while others are still to come. */
static void queue_run_tells(void *data, const json_t *line, const char *title)
{
    struct op_call *call = data;
    bool is_begin = json_text_is(line, "status", "RUNNING");
    json_t *about = json_copy((json_t *)line);
    json_object_set_new(about, "title", json_string(title));
    if (!is_begin)
        explain_run(call, about);
    json_t *document CLEANUP_JSON =
        json_pack("{s:s, s:s, s:O, s:o}", "time", TIME_EXACT(clock_now().wall_ms), "type",
                  is_begin ? "queue.next" : "queue.ran", "run_id", json_object_get(line, "run_id"), "data", about);
    call->emit(call, document);
}

/* Of the last of them that failed, with their last lines. */
static void explain_failed(struct op_call *call, json_t *ran)
{
    int left = QUEUE_RUNS_EXPLAINED;
    for (size_t i = json_array_size(ran); i-- > 0 && left > 0;) {
        json_t *line = json_array_get(ran, i);
        if (!json_text_is(line, "status", "FAILED"))
            continue;
        explain_run(call, line);
        left--;
    }
}

static int run_queue(struct op_call *call, int64_t max, json_t **ret, struct tsk_error *err)
{
    struct queue_run options = {.max = max,
                                .for_ms = json_get_int(call->args, "for", 0),
                                .retries = json_get_bool(call->args, "retry", false),
                                .stays = json_get_bool(call->args, "stay", false),
                                .keeps_going = json_get_bool(call->args, "keep_going", false),
                                .waits_data = call,
                                .start = run_start_of(call)};
    if (call->decided) {
        options.start.begun = queue_run_begun;
        options.waits = queue_run_waits;
    }
    if (call->waits)
        options.idles = queue_run_idles;
    if (options.start.tell)
        options.tells = queue_run_tells;
    if (queue_run(call->ws, &options, ret, &call->verdict, err) < 0)
        return -1;
    explain_failed(call, json_object_get(*ret, "ran"));
    short_ids_put_named(call, json_object_get(*ret, "ran"), NULL);
    return 0;
}

/* Without following: the answer comes as soon as the locks are decided. */
static int run_apart(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *args CLEANUP_JSON = json_deep_copy(call->args);
    if (op_run_apart_as(call, call->op->name, args, false, ret, err) < 0)
        return -1;
    call->verdict = queue_verdict(json_get_string(*ret, "reason", ""));
    short_ids_put_named(call, json_object_get(*ret, "ran"), NULL);
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

#define RETRY_PARAM FLAG("retry", OP_OPTIONAL, "Also run requests again whose latest run has failed.")
static const struct op_field run_fields[] = {
    {"status", "string", "STOPPED; RUNNING if it continues in the background"},
    {"reason", "string?", "EMPTY STOPPED NEEDS_INPUT FAILED CANCELLED DOCTOR_FAILED MAX TIME LOCK_LOST"},
    {"ran", "array", "request_id run_id status; for the last that failed also counts duration_ms reason failures"},
    {"error", "object?", "why a request could not begin"},
    {0},
};

const struct op op_queue_run = {
    NAMES("queue.run", "queue", "run"),
    .summary = "Run the ready requests one after the other, by priority and dependencies, one queue at a time.",
    .detail =
        "It stops when a run asks something or fails, when the examination before a run finds a problem, at queue "
        "stop, and when no request is left; the reason is in its answer, in queue status and in the events. A run that "
        "was interrupted is continued. With --stay it waits for more requests until queue stop or Ctrl-C. Exit codes: "
        "0, "
        "4 another queue runs, 7 failed, 8 a run asks, 3 examination.",
    .examples = "tasuki queue run\n"
                "tasuki queue run --stay --keep-going  # runs whatever queue add adds\n"
                "tasuki queue run --for 60m --max 10\n"
                "tasuki queue run --detach",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params = PARAMS(FLAG("once", OP_OPTIONAL, "Only one request."),
                     PARAM("max", OP_INT, OP_OPTIONAL, "N", "At most N requests.", .min = 1, .max = 1000000),
                     PARAM("for", OP_DURATION, OP_OPTIONAL, "D", "Begin no more requests after this time.", .min = 1),
                     RETRY_PARAM, FLAG("stay", OP_PAGE_ONLY, "Wait for more requests when none is left."),
                     FLAG("keep_going", OP_PAGE_ONLY,
                          "Continue after a run that has failed or asks; exit 7 or 8 at the end, 0 with --stay."),
                     RUN_OUTPUT_PARAM, NOTE_PARAM, OP_DETACH_PARAM),
    .result = run_fields,
    .errors = QUEUE_RUN_ERRORS,
    .http = ROUTE("POST", "/api/queue/start"),
    .mcp = TOOL("queue_run", "requests", .is_core = true, .refusal = "NOT STARTED",
                .text = "Run the ready requests one after the other, until one asks, fails, or none is left. NOT "
                        "STARTED: another queue runs; leave it alone. It outlives this connection."),
    .run = run_run,
};

const struct op op_queue_run_next = {
    NAMES("queue.run-next", "queue", "run-next"),
    .summary = "Run the next request, and only that: queue run --once.",
    .examples = "tasuki queue run-next",
    .flags = OP_STREAMS | OP_GOES_ON,
    .params = PARAMS(RETRY_PARAM, RUN_OUTPUT_PARAM, NOTE_PARAM, OP_DETACH_PARAM),
    .result = run_fields,
    .errors = QUEUE_RUN_ERRORS,
    .http = ROUTE("POST", "/api/queue/run-next"),
    .mcp.absent = "queue_run with once does it",
    .run = run_run_next,
};

/* ---- stop ----------------------------------------------------------------------------------------------- */

static int run_stop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    bool is_now = json_get_bool(call->args, "now", false);
    if (queue_stop(call->ws, is_now, ret, err) < 0)
        return -1;
    bool is_stopping = json_text_is(*ret, "status", "stopping");
    call->says = !is_stopping ? "queue_idle" : is_now ? "queue_stopping_now" : "queue_stopping";
    return 0;
}

const struct op op_queue_stop = {
    NAMES("queue.stop", "queue", "stop"),
    .summary = "Stop the queue after the request that it runs.",
    .examples = "tasuki queue stop\ntasuki queue stop --now  # that request is cancelled, too",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(FLAG("now", OP_OPTIONAL, "Cancel the request that is being run, instead of letting it finish.")),
    .result = FIELDS({"status", "string", "stopping, or not_running"},
                     {"request_id", "string?", "the one that is being run"}, {"run_id", "string?", ""}),
    .errors = ERRORS(TSK_QUEUE_IN_PROGRESS, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/queue/stop"),
    .mcp = TOOL("queue_stop", "requests",
                .text = "Stop the queue after the request that it runs; with now, cancel that one, too. Requests that "
                        "were not run stay ready. Nothing is lost."),
    .run = run_stop,
};

/* ---- next and status ------------------------------------------------------------------------------------ */

static int run_next(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (queue_next(call->ws, json_get_bool(call->args, "retry", false), call->lang, ret, err) < 0)
        return -1;
    short_ids_put_named(call, *ret, NULL);
    return 0;
}

const struct op op_queue_next = {
    NAMES("queue.next", "queue", "next"),
    .summary = "Show the request that the queue takes next, and the reasons why the others wait.",
    .detail =
        "Reasons: NOT_READY DEPENDS_NOT_DONE DEPENDS_NOT_FOUND DEPENDS_CYCLE REQUEST_LOCKED LATEST_RUN_NEEDS_INPUT "
        "LATEST_RUN_FAILED ALREADY_DONE. Those that may run, but later, have their position.",
    .examples = "tasuki queue next",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(RETRY_PARAM),
    .result = FIELDS({"next", "object?", "the request; resumes: the interrupted run that would be continued"},
                     {"others", "array", "request_id title priority status; reason and detail, or position"}),
    .errors = ERRORS(TSK_QUEUE_IN_PROGRESS, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/queue/next"),
    .mcp = TOOL("queue_next", "requests",
                .text = "Say which request the queue takes next, and for each other one why not. It changes nothing."),
    .run = run_next,
};

static int run_status(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    if (book_open(call->ws, false, call->lang, &book, err) < 0)
        return -1;
    if (queue_status(call->ws, &book, ret, err) < 0)
        return -1;
    short_ids_put_named(call, *ret, NULL);
    return 0;
}

const struct op op_queue_status = {
    NAMES("queue.status", "queue", "status"),
    .summary = "Show whether a queue runs, what it runs, and why the last one ended.",
    .examples = "tasuki queue status",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(),
    .result = FIELDS({"status", "string", "running idle interrupted"},
                     {"request_id", "string?", "the one that is being run"}, {"run_id", "string?", ""},
                     {"holder", "object?", "who runs it"}, {"stopping", "boolean?", "a stop was requested"},
                     {"ready", "integer", "how many may run"}, {"next", "string?", "the first of them"},
                     {"last", "object?", "the last queue: started_at ended_at reason ran"}),
    .errors = ERRORS(TSK_QUEUE_IN_PROGRESS, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/queue"),
    .mcp.absent = "get_status and queue_next say it",
    .run = run_status,
};
