/* op_runs_prune.c - runs prune and rm: removing runs that have ended. */
#include "ops/ops.h"
#include "ops/run_args.h"
#include "run/prune.h"

/* ---- prune ---------------------------------------------------------------------------------------------- */

static int run_prune(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct prune prune;
    json_t *gone = NULL;
    if (prune_config(call->ws, &prune, err) < 0)
        return -1;
    prune.runs = json_get_int(call->args, "keep", prune.runs);
    prune.age_ms = json_get_int(call->args, "older", prune.age_ms);
    prune.is_dry = json_get_bool(call->args, "dry_run", false);
    if (prune_runs(call->ws, &prune, &gone, err) < 0)
        return -1;
    size_t count = json_array_size(gone);
    *ret = json_pack("{s:o, s:I, s:b}", "removed", gone, "count", (json_int_t)count, "dry_run", (int)prune.is_dry);
    call->says = !count ? "runs_prune_none" : prune.is_dry ? "runs_prune_dry" : "runs_pruned";
    return 0;
}

const struct op op_runs_prune = {
    NAMES("runs.prune", "runs", "prune"),
    .summary = "Remove runs that have ended, are old and are not among the newest.",
    .detail =
        "The latest run of a request stays, as does every run that is executed, waits for an answer or was "
        "interrupted. The end of a run and doctor --fix remove up to 20 runs each in the same way. keep: {runs: 200, "
        "days: 30} in config.yaml changes what is kept.",
    .examples = "tasuki runs prune --dry-run\n"
                "tasuki runs prune --keep 50 --older 7d",
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT,
    .params =
        PARAMS(PARAM("keep", OP_INT, OP_OPTIONAL, "N", "Keep the newest N runs.",
                     .fallback = "keep.runs of config.yaml, or 200", .min = 0, .max = INT32_MAX),
               PARAM("older", OP_DURATION, OP_OPTIONAL, "D", "Remove only runs that ended at least this long ago.",
                     .fallback = "keep.days of config.yaml, or 30d", .min = 0),
               FLAG("dry_run", OP_OPTIONAL, "Only list the runs that would be removed.")),
    .result = FIELDS({"removed", "array", "ids"}, {"count", "integer", ""}, {"dry_run", "boolean", ""}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/runs/prune"),
    .mcp.absent = "the end of each run does it; how much is kept is a person's decision",
    .run = run_prune,
};

/* ---- rm ------------------------------------------------------------------------------------------------- */

static int run_rm(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    if (run_must_be_named(call, err) < 0)
        return -1;
    if (prune_remove(call->ws, json_get_string(call->args, "run", ""), id, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:b}", "run_id", id, "removed", true);
    call->says = "run_removed";
    return 0;
}

const struct op op_runs_rm = {
    NAMES("runs.rm", "runs", "rm"),
    .summary = "Remove a run that has ended, with its logs.",
    .detail = "A run that is executed, waits for an answer or can be resumed is refused. So is the latest run of a "
              "request, because the state of the request depends on it.",
    .examples = "tasuki runs rm RUN-20260207T223000-1a2b3c",
    .flags = OP_DESTRUCTIVE,
    .params = PARAMS(RUN_ID_PARAM),
    .result = FIELDS({"run_id", "string", ""}, {"removed", "boolean", ""}),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_NEEDS_INPUT, TSK_CONFLICT, TSK_INVALID_INPUT,
                     TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE, TSK_NOT_FOUND),
    .http = ROUTE("DELETE", "/api/runs/:run"),
    .mcp.absent = "the logs are a person's",
    .run = run_rm,
};
