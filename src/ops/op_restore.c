/* op_restore.c - starts the processes that should run and do not. */
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "proc/depend.h"

#include <stdlib.h>

/* Those with the flag: to be started, running already, or stopped on purpose. */
static void sort_out(const struct proc *list, size_t count, bool ignores_stop, json_t *start, json_t *running,
                     json_t *skipped)
{
    for (size_t i = 0; i < count; i++) {
        const struct proc_view *view = &list[i].view;
        if (!json_get_bool(list[i].spec, "auto_start_on_restore", false))
            continue;
        if (view->state == PROC_RUNNING || *view->phase)
            json_array_append_new(running, json_string(list[i].id));
        else if (view->want_down && !view->is_shutdown && !ignores_stop)
            json_array_append_new(skipped, json_pack("{s:s, s:s}", "id", list[i].id, "reason", "stopped_on_purpose"));
        else
            json_array_append_new(start, json_string(list[i].id));
    }
}

static int start_all(struct op_call *call, struct proc_registry *reg, json_t *ids, json_t *running, json_t *started,
                     json_t *errors, struct tsk_error *err)
{
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(ids);
    if (proc_start_ordered(reg, names, count, true, results, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (results[i].code == TSK_OK)
            json_array_append(started, json_array_get(ids, i));
        else if (results[i].code == TSK_PROCESS_ALREADY_RUNNING) /* somebody else was faster: just as good */
            json_array_append(running, json_array_get(ids, i));
        else
            proc_args_add_error(call, names[i], &results[i], errors);
    return 0;
}

static int run_restore(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc *list;
    size_t count;
    json_t *ids CLEANUP_JSON = json_array(), *running = json_array(), *skipped = json_array(), *started = json_array(),
                *errors = json_array();
    *ret =
        json_pack("{s:o, s:o, s:o, s:o}", "started", started, "running", running, "skipped", skipped, "errors", errors);
    if (proc_args_open(call, &reg, err) < 0 || proc_list(&reg, &list, &count, err) < 0)
        return -1;
    sort_out(list, count, json_get_bool(call->args, "all_auto", false), ids, running, skipped);
    proc_list_free(list, count);
    return start_all(call, &reg, ids, running, started, errors, err);
}

const struct op op_restore = {
    NAMES("process.restore", NULL, "restore"),
    .summary = "After a reboot or a crash: start the processes that should run and do not.",
    .detail =
        "Processes with --auto-start that do not run are started, in the order of their dependencies, unless they were "
        "stopped on purpose since their last start. Running processes are adopted; a second copy is never started.",
    .examples = "tasuki restore  # from a login script or @reboot\n"
                "tasuki restore --all-auto  # also what was stopped by hand",
    .flags = OP_IDEMPOTENT | OP_VERDICTS,
    .params = PARAMS(FLAG("all_auto", OP_OPTIONAL, "Also those that were stopped on purpose.")),
    .result = FIELDS({"started", "array", "ids that were started"},
                     {"running", "array", "ids that run already; adopted if necessary"},
                     {"skipped", "array", "id and reason"}, {"errors", "array", "id and error"}),
    .errors = ERRORS(TSK_PROCESS_START_FAILED, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/restore"),
    .mcp.absent = "a person or a boot script restores a machine; an agent starts the process it needs",
    .run = run_restore,
};
