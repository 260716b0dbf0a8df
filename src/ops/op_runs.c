/* op_runs.c - runs list, show, cancel. */
#include "base/fs.h"
#include "graph/run_names.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/request_args.h"
#include "ops/run_args.h"
#include "ops/short_id.h"
#include "run/after.h"
#include "run/run_log.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 20

/* ---- list ----------------------------------------------------------------------------------------------- */

static json_t *stage_summary(enum lang lang, json_t *stage)
{
    static const char *const keys[] = {"run_id",     "request_id", "flow",        "source", "status",
                                       "started_at", "ended_at",   "duration_ms", "counts", "reason_code",
                                       "reason",     "started_by", NULL};
    json_t *json = json_object();
    run_read_reasons(stage, lang);
    json_copy_keys(json, stage, keys);
    return json;
}

json_t *run_broken(const char *run_id, enum lang lang, const struct tsk_error *err)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&reason, lang, err);
    return json_pack("{s:s, s:s, s:s, s:{}}", "run_id", run_id, "status", "BROKEN", "reason", buf_str(&reason),
                     "counts");
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct run_names names CLEANUP(run_names_clear) = {0};
    const char *wanted = json_get_string(call->args, "status", NULL);
    if (request_named(call, err) < 0)
        return -1;
    const char *request = json_get_string(call->args, "request", NULL);
    if (run_names_open(call->ws, RUNS_FOLDER, &names, err) < 0)
        return -1;
    struct page page = page_begin(call, LIST_DEFAULT);
    page.is_descending = page.is_partial = true; /* they sort by their time, and there may be very many */
    for (const char *id; (id = run_names_next(&names));) {
        struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
        json_t *stage CLEANUP_JSON = NULL;
        if (!page_is_due(&page, id))
            continue;
        page.has_more = page_is_full(&page);
        if (page.has_more)
            break;
        bool is_open = rundir_open(call->ws, id, &run, err) == 0;
        if (!is_open && err->code == TSK_RUN_NOT_FOUND)
            continue; /* it is being removed */
        if (!is_open || rundir_look(&run, &stage, err) < 0)
            stage = run_broken(id, call->lang, err);
        bool is_of_request = !request || json_text_is(stage, "request_id", request);
        if (is_of_request && (!wanted || json_text_is(stage, "status", wanted)) && page_takes(&page, id))
            page_put(&page, stage_summary(call->lang, stage));
    }
    *ret = page_end(&page, "runs");
    short_ids_put_named(call, *ret, &names);
    return 0;
}

static const char *const statuses[] = {"RUNNING",   "DONE",        "NEEDS_INPUT", "FAILED",
                                       "CANCELLED", "INTERRUPTED", "BROKEN",      NULL};

const struct op op_runs_list = {
    NAMES("runs.list", "runs", "list"),
    .summary = "List runs, the newest first, with their status.",
    .examples = "tasuki runs list --status FAILED",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(PAGE_LIMIT("How many of the newest runs to show.", NULL, "20"),
                     PARAM("status", OP_ENUM, OP_OPTIONAL, "S", "Only runs with this status.", .choices = statuses),
                     PARAM("request", OP_STRING, OP_OPTIONAL, "RQ", "Only runs of this request.", .max = 128,
                           .completes = "request-id"),
                     PAGE_CURSOR),
    .result =
        FIELDS({"runs", "array", "run_id request_id flow source status started_at ended_at counts"}, PAGE_CURSOR_FIELD),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/runs"),
    .mcp = TOOL("run_list", "requests", .text = "List runs, the newest first, with their status. It changes nothing."),
    .run = run_list,
};

/* ---- show ----------------------------------------------------------------------------------------------- */

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    if (rundir_open_to_look(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    if (rundir_look_exactly(&run, ret, err) < 0)
        return -1;
    run_read_reasons(*ret, call->lang);
    run_log_add_failures(call->ws, *ret, call->is_brief);
    const struct run_lock lock = run_lock_of_stage(*ret);
    json_t *pending = after_look(call->ws, &lock);
    if (pending)
        json_object_set_new(*ret, "pending", pending);
    return json_get_bool(call->args, "follow", false) && call->emit ? run_stream(call, &run, *ret, err) : 0;
}

static const struct op_route stage_route[] = {
    {"GET", "/api/runs/:run/stage", NULL}, {"GET", "/api/runs/:run/stream", "follow=true"}, {0}};

const struct op op_runs_show = {
    NAMES("runs.show", "runs", "show"),
    .summary = "Show a run: its status, its tasks, what failed and what it asks.",
    .examples = "tasuki runs show  # the latest run\ntasuki runs show 1a2b3c  # by a part of its id",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_STREAMS,
    .params = PARAMS(RUN_OR_LATEST_PARAM,
                     FLAG("follow", OP_REMOTE_ONLY | OP_PAGE_ONLY,
                          "Continue with each record of its journal until the run is not executed any more."),
                     PARAM("cursor", OP_STRING, OP_REMOTE_ONLY | OP_PAGE_ONLY, "C",
                           "For a stream: only records after this place.", .max = 20)),
    .result = FIELDS(
        {"run_id", "string", ""}, {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED"},
        {"counts", "object", "total done ok skipped failed stopped asking not_reached steps"},
        {"failures", "array", "task session_id exit_code reason log log_from lines"},
        {"questions", "array", "open ones"},
        {"tasks", "array", "task state attempt started_at ended_at exit_code; worker takeovers, if it ran on one"},
        {"pending", "object?", "the run that follows: id after created_at who"}),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/runs/:run", .also = stage_route),
    .mcp = TOOL("run_show", "requests", .is_core = true,
                .text = "Show a run: its status, its tasks, what failed and what it asks. It changes nothing."),
    .run = run_show,
};

/* ---- cancel --------------------------------------------------------------------------------------------- */

/* --pending: only the run that was to follow. */
static int cancel_pending(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    json_t *stage CLEANUP_JSON = NULL;
    bool existed = false;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0 ||
        rundir_look(&run, &stage, err) < 0)
        return -1;
    const struct run_lock lock = run_lock_of_stage(stage);
    if (lock.id[0] && after_drop(call->ws, &lock, NULL, "cancelled", &existed, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s, s:b}", "run_id", run.id, "status", json_get_string(stage, "status", ""), "dropped",
                     (int)existed);
    call->says = existed ? "run_pending_dropped" : "run_pending_none";
    return 0;
}

static int run_cancel(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    const char *status;
    if (run_must_be_named(call, err) < 0)
        return -1;
    if (json_get_bool(call->args, "pending", false))
        return cancel_pending(call, ret, err);
    if (stop_run(call->ws, json_get_string(call->args, "run", ""), json_get_bool(call->args, "now", false), id, &status,
                 err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s}", "run_id", id, "status", status);
    bool is_over = strcmp(status, "CANCELLED") == 0, goes_on = strcmp(status, "CANCELLING") == 0;
    call->says = goes_on ? "runs_cancelling" : is_over ? "runs_cancelled" : "runs_cancel_late";
    return 0;
}

const struct op op_runs_cancel = {
    NAMES("runs.cancel", "runs", "cancel"),
    .summary = "Cancel a run: its tasks get SIGTERM, after 3 s SIGKILL, with everything they started.",
    .examples = "tasuki runs cancel RUN-20260207T223000-1a2b3c",
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT,
    .params = PARAMS(RUN_ID_PARAM, FLAG("now", OP_OPTIONAL, "Kill the tasks at once, without SIGTERM and the 3 s."),
                     FLAG("pending", OP_OPTIONAL, "Drop only the run that is pending after it; this run continues.")),
    .result = FIELDS({"run_id", "string", ""}, {"status", "string", "CANCELLING, CANCELLED, or what it was already"},
                     {"dropped", "boolean?", "with pending: there was one"}),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE, TSK_RUN_IN_PROGRESS,
                     TSK_PROCESS_STOP_FAILED),
    .http = ROUTE("POST", "/api/runs/:run/cancel"),
    .mcp = TOOL("run_cancel", "requests", .refusal = "NOT CANCELLED",
                .text = "Cancel a run: its tasks get SIGTERM, after 3 s SIGKILL, with everything they started. "
                        "run_resume can continue it later."),
    .run = run_cancel,
};
