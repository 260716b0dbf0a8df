/* op_proc.c - registering, starting and stopping processes. */
#include "base/fs.h"
#include "base/word.h"
#include "hold/protocol.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/proc_args.h"
#include "ops/proc_others.h"
#include "proc/depend.h"
#include "proc/registry.h"
#include "proc/worktree.h"

#include <stdlib.h>
#include <string.h>

#define UPDATE_TRIES 50

/* ---- create ---- */

static int run_create(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *spec CLEANUP_JSON = NULL;
    const char *id = json_get_string(call->args, "id", "");
    if (proc_args_spec(call, NULL, &spec, err) < 0 || proc_args_open(call, &reg, err) < 0)
        return -1;
    if (proc_depend_check(&reg, id, spec, err) < 0 || proc_create(&reg, id, spec, err) < 0)
        return -1;
    return proc_args_created(call, &reg, id, ret, err);
}

const struct op op_process_create = {
    NAMES("process.create", "proc", "create"),
    .summary = "Register a process, so that it can be started, stopped and watched by its name.",
    .detail = "Nothing is started yet, unless --start is given. A process that then cannot be started is not "
              "registered, and one that ends at once is reported as Failed (exit 7). The process outlives the "
              "terminal, the agent and tasuki itself; `proc stop` ends it.",
    .examples =
        "tasuki proc create web --restart on-failure -- npm run dev  # a dev server that is restarted\n"
        "tasuki proc create api --ready port:8080 --env PORT=8080 --start -- ./api  # ready when the port answers\n"
        "tasuki proc create worker --depends-on db=ready -- ./worker  # started after db",
    .flags = OP_VERDICTS,
    .params = PARAMS(PARAM("id", OP_ID, OP_REQUIRED | OP_POSITIONAL, "ID",
                           "Its name: letters, digits, dots, dashes and underscores."),
                     PARAM("command", OP_STRING, OP_REQUIRED | OP_PROGRAM, "CMD", "The program, found by PATH."),
                     PROC_SPEC_PARAMS, FLAG("start", OP_OPTIONAL, "Start it at once."),
                     FLAG("no_wait", OP_CLI_ONLY, "With --start: return as soon as it is executed."), NOTE_PARAM,
                     PARAM("args", OP_ARGV, OP_POSITIONAL, "ARGS…", "Its arguments. No shell is involved.")),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_ALREADY_EXISTS, TSK_INVALID_INPUT, TSK_PROCESS_START_FAILED, TSK_ENVIRONMENT,
                     TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/processes"),
    .mcp = TOOL(
        "create_process", "processes", .is_core = true, .refusal = "NOT CREATED",
        .text = "Register a command as a process with an id. start: true starts it at once; an id that "
                "exists is refused (ProcessAlreadyExists). It outlives this connection; only stop_process ends it."),
    .run = run_create,
};

enum which { ALL_ENDED, ALL_RUNNING, ALL_TO_END };

static bool is_wanted_proc(const struct proc *p, bool has_leftovers, enum which which)
{
    bool is_running = p->view.state == PROC_RUNNING || *p->view.phase;
    return is_running == (which != ALL_ENDED) || has_leftovers;
}

/* The ids that were named; with --all, those that it makes sense for. */
static int ids_by_state(struct op_call *call, struct proc_registry *reg, enum which which, json_t **ret,
                        struct tsk_error *err)
{
    struct proc *list;
    size_t count;
    if (!proc_args_is_all(call))
        return proc_args_ids(call, reg, ret, err);
    if (proc_list(reg, &list, &count, err) < 0)
        return -1;
    *ret = json_array();
    bool *has_leftovers = memory_zeroed(count + 1, sizeof *has_leftovers);
    if (which == ALL_TO_END)
        proc_have_leftovers(list, count, has_leftovers);
    for (size_t i = 0; i < count; i++)
        if (is_wanted_proc(&list[i], has_leftovers[i], which))
            json_array_append_new(*ret, json_string(list[i].id));
    free(has_leftovers);
    proc_list_free(list, count);
    return 0;
}

/* ---- start ---- */

static int run_start(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || ids_by_state(call, &reg, ALL_ENDED, &ids, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(ids);
    if (proc_start_ordered(&reg, names, count, !json_get_bool(call->args, "no_deps", false), results, err) < 0)
        return -1;
    proc_args_forgive(call, &reg, names, results, count, TSK_PROCESS_ALREADY_RUNNING);
    proc_args_settle(call, &reg, names, count, results);
    if (proc_args_answer(call, &reg, ids, results, false, ret, err) < 0)
        return -1;
    proc_args_say_failure(call, *ret);
    return 0;
}

const struct op op_process_start = {
    NAMES("process.start", "proc", "start"),
    .summary = "Start processes; returns when they are ready, or says why they are not.",
    .detail =
        "The processes that it depends on are started first. All are waited for together: until each is ready (with a "
        "ready probe), has lived 300 ms (without one), or has ended. A process that failed meanwhile is reported as "
        "Failed with its last line of stderr (exit 7); if the time is up before a probe succeeds, the phase is "
        "starting. A second copy is never started. The process keeps running when the terminal is closed.",
    .examples = "tasuki proc start web  # start one\n"
                "tasuki proc start web --no-wait  # do not wait until it is ready\n"
                "tasuki proc start --all  # all that are registered, in the order of their dependencies",
    .flags = OP_VERDICTS | OP_WAITS,
    .params = PARAMS(PROC_IDS_PARAM, PROC_ALL_PARAM,
                     FLAG("no_deps", OP_OPTIONAL, "Do not start, or wait for, what it depends on."), PROC_NO_WAIT_PARAM,
                     PROC_START_TIMEOUT_PARAM, NOTE_PARAM),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_ALREADY_RUNNING, TSK_PROCESS_START_FAILED, TSK_INVALID_INPUT,
                     TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/processes/:id/start"),
    .mcp = TOOL("start_process", "processes", .is_core = true, .refusal = "NOT STARTED",
                .text =
                    "Start registered processes, after what they depend on; returns when they are ready (no probe: "
                    "alive), or with the reason of a failure. ProcessAlreadyRunning: it runs, there is no second copy. "
                    "They keep running when you disconnect."),
    .run = run_start,
};

/* ---- stop ---- */

static int run_stop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL, *warning CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || ids_by_state(call, &reg, ALL_TO_END, &ids, err) < 0 ||
        proc_others_ask(call, &reg, ids, true, &warning, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(ids);
    int64_t grace = json_get_int(call->args, "grace_period_ms", HOLD_GRACE_MS);
    if (proc_stop_many(&reg, names, count, grace, results, err) < 0)
        return -1;
    proc_args_forgive(call, &reg, names, results, count, TSK_PROCESS_NOT_RUNNING);
    if (proc_args_answer(call, &reg, ids, results, true, ret, err) < 0)
        return -1;
    proc_others_warn(*ret, warning);
    return 0;
}

const struct op op_process_stop = {
    NAMES("process.stop", "proc", "stop"),
    .summary = "Stop processes with everything that they started; returns when all of it is gone.",
    .detail = "SIGTERM to all of them, SIGKILL after the grace period; of several, in reverse order of dependencies. "
              "No restart policy revives a stopped process. The leftovers of a process that has ended are ended, too.",
    .examples = "tasuki proc stop web  # SIGTERM, after 3 s SIGKILL\n"
                "tasuki proc stop web --grace 10000  # give it ten seconds\n"
                "tasuki proc stop --all  # everything that runs",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = PARAMS(PROC_IDS_PARAM, PROC_ALL_PARAM, PROC_GRACE_PARAM, NOTE_PARAM, YES_PARAM),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_PROCESS_STOP_FAILED, TSK_NEEDS_CONFIRMATION,
                     TSK_INVALID_INPUT, TSK_CONFLICT, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/processes/:id/stop"),
    .mcp = TOOL(
        "stop_process", "processes", .is_core = true, .refusal = "NOT STOPPED",
        .text = "Stop processes with everything they started; returns when all of it is gone. SIGTERM, and SIGKILL "
                "after grace_period_ms. No restart policy revives them; ProcessNotRunning: there was nothing to stop."),
    .run = run_stop,
};

/* ---- restart ---- */

/* A restart stops nothing that it could not start again: it checks first that all dependencies exist. */
static int dependencies_exist(struct proc_registry *reg, const char *const *ids, size_t count, struct tsk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        if (proc_load(reg, ids[i], &p, err) < 0)
            return -1;
        json_each_key (json_object_get(p.spec, "depends_on"), other) {
            struct proc needed CLEANUP(proc_clear) = {.dir = -1};
            if (proc_load(reg, other, &needed, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int run_restart(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL, *warning CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || ids_by_state(call, &reg, ALL_RUNNING, &ids, err) < 0 ||
        proc_others_ask(call, &reg, ids, true, &warning, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *stopped CLEANUP_FREE = proc_args_results(ids), *started CLEANUP_FREE = proc_args_results(ids);
    int64_t grace = json_get_int(call->args, "grace_period_ms", HOLD_GRACE_MS);
    if (dependencies_exist(&reg, names, count, err) < 0 ||
        proc_stop_many(&reg, names, count, grace, stopped, err) < 0 ||
        proc_start_ordered(&reg, names, count, true, started, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) /* one that did not run is simply started */
        if (stopped[i].code != TSK_OK && stopped[i].code != TSK_PROCESS_NOT_RUNNING)
            started[i] = stopped[i];
    proc_args_forgive(call, &reg, names, started, count, TSK_PROCESS_ALREADY_RUNNING);
    proc_args_settle(call, &reg, names, count, started);
    if (proc_args_answer(call, &reg, ids, started, false, ret, err) < 0)
        return -1;
    proc_others_warn(*ret, warning);
    proc_args_say_failure(call, *ret);
    return 0;
}

const struct op op_process_restart = {
    NAMES("process.restart", "proc", "restart"),
    .summary = "Stop processes and start them again with their present settings; waits as `proc start` does.",
    .examples = "tasuki proc restart web  # after an update, say",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS | OP_WAITS,
    .params = PARAMS(PROC_IDS_PARAM, PROC_ALL_PARAM, PROC_GRACE_PARAM, PROC_NO_WAIT_PARAM, PROC_START_TIMEOUT_PARAM,
                     NOTE_PARAM, YES_PARAM),
    .result = proc_fields,
    .errors =
        ERRORS(TSK_PROCESS_NOT_FOUND, TSK_PROCESS_START_FAILED, TSK_PROCESS_STOP_FAILED, TSK_PROCESS_ALREADY_RUNNING,
               TSK_NEEDS_CONFIRMATION, TSK_INVALID_INPUT, TSK_CONFLICT, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/processes/:id/restart"),
    .mcp = TOOL("restart_process", "processes", .is_core = true, .refusal = "NOT RESTARTED",
                .text = "Stop processes and start them again with their present settings, after update_process for "
                        "example. One that does not run is simply started."),
    .run = run_restart,
};

/* ---- status ---- */

/* Facts that cost a look each, and are not in lists. */
static void add_place(const struct proc_registry *reg, const struct proc *p, json_t *more)
{
    char top[PATH_MAX], branch[256];
    int port = proc_port(p);
    bool is_git = worktree_of(proc_directory(reg, p), top) && worktree_branch(top, branch, sizeof branch);
    json_object_set_new(more, "port", port > 0 ? json_integer(port) : json_null());
    json_object_set_new(more, "branch", is_git ? json_string(branch) : json_null());
}

static int run_status(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    json_t *more CLEANUP_JSON = json_object(), *leftovers = NULL;
    if (proc_args_open(call, &reg, err) < 0 ||
        proc_load_to_show(&reg, json_get_string(call->args, "id", ""), &p, err) < 0 ||
        proc_leftovers(&p, &leftovers, err) < 0)
        return -1;
    json_object_set_new(more, "leftovers", leftovers);
    json_object_set_new(more, "last_exits", proc_last_exits(&p));
    add_place(&reg, &p, more);
    json_t *creator = p.view.n ? NULL : proc_creator(&reg, p.id);
    if (creator)
        json_object_set_new(more, "created_by", creator);
    reg.is_written = call->is_written;
    *ret = proc_to_json_with(&reg, &p, more);
    return 0;
}

const struct op op_process_status = {
    NAMES("process.status", "proc", "status"),
    .summary = "Show one process: its state, exit code, restarts, what it uses, where its log is.",
    .examples = "tasuki proc status web  # for people\n"
                "tasuki proc status web --json  # for programs",
    .flags = OP_READ_ONLY,
    .params = PARAMS(PROC_ID_PARAM),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_INVALID_INPUT, TSK_CONFLICT, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("GET", "/api/processes/:id"),
    .mcp = TOOL("get_process_status", "processes", .is_core = true,
                .text = "Show one process: state, pid, exit code, restarts, log files. It changes nothing; to wait for "
                        "a change use wait_for."),
    .run = run_status,
};

/* ---- list ---- */

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc *list;
    size_t count;
    const char *state = json_get_string(call->args, "state", NULL);
    if (proc_args_open(call, &reg, err) < 0 || proc_list_to_show(&reg, &list, &count, err) < 0)
        return -1;
    reg.is_written = call->is_written;
    struct page page = page_begin(call, PAGE_ALL);
    for (size_t i = 0; i < count; i++)
        if ((!state || strcmp(state, proc_state_names[list[i].view.state]) == 0) && page_takes(&page, list[i].id))
            page_put(&page, proc_to_json(&reg, &list[i]));
    proc_list_free(list, count);
    *ret = page_end(&page, "processes");
    return 0;
}

const struct op op_process_list = {
    NAMES("process.list", "proc", "list"),
    .summary = "List all processes with their true states.",
    .examples = "tasuki proc list  # all\n"
                "tasuki proc list --state Failed  # what needs a look",
    .flags = OP_READ_ONLY,
    .params = PARAMS(PARAM("state", OP_ENUM, OP_OPTIONAL, "S",
                           "Only those in this state: NotStarted, Running, Stopped or Failed.",
                           .choices = proc_state_names, .agent_help = "Only those."),
                     PAGE_PARAMS),
    .result = FIELDS({"processes", "array", "records, by id"}, PAGE_FIELDS),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/processes"),
    .mcp = TOOL(
        "list_processes", "processes", .is_core = true,
        .text =
            "List all processes with their true states; look here before you create or start one. It changes nothing."),
    .run = run_list,
};

/* ---- remove ---- */

/* Asks a person, if there is one at hand; otherwise the error is the warning, and `force` is the yes, on every skin. `err`: of the
 * first attempt. */
static int remove_asked(struct op_call *call, struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    if (err->code == TSK_OK)
        return 0;
    if (err->code != TSK_NEEDS_CONFIRMATION || !call->confirm)
        return -1;
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    text_put(&question, call->lang, "process_remove_question", "id", id, NULL);
    call->has_force = true;
    return call->confirm(call, buf_str(&question)) ? proc_remove(reg, id, true, err) : -1;
}

/* Asks once before `--all` on a terminal, because the output of all processes is deleted, too. */
static int may_remove_all(struct op_call *call, const json_t *ids, struct tsk_error *err)
{
    const json_t *args = call->args;
    if (!call->is_cli || !call->confirm || json_array_size(ids) == 0 || !json_get_bool(args, "all", false) ||
        json_get_bool(args, "force", false))
        return 0;
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    const char *count = DIGITS(json_array_size(ids));
    text_put(&question, call->lang, "process_remove_all_question", "count", count, NULL);
    if (call->confirm(call, buf_str(&question)))
        return 0;
    error_set(err, TSK_NEEDS_CONFIRMATION, "process_remove_all_kept", "count", count, NULL);
    return error_add_next(err, "tasuki proc list");
}

static json_t *remove_listed(struct op_call *call, struct proc_registry *reg, const json_t *ids)
{
    json_t *removed = json_array(), *errors = json_array();
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(ids);
    proc_remove_many(reg, names, count, json_get_bool(call->args, "force", false), results);
    json_each (ids, i, id)
        if (remove_asked(call, reg, names[i], &results[i]) == 0)
            json_array_append(removed, id);
        else if (!(proc_args_is_all(call) && results[i].code == TSK_PROCESS_NOT_FOUND))
            proc_args_add_error(call, names[i], &results[i], errors);
    return json_pack("{s:o, s:o}", "removed", removed, "errors", errors);
}

static int run_remove(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL, *warning CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || proc_args_ids(call, &reg, &ids, err) < 0 ||
        proc_others_ask(call, &reg, ids, false, &warning, err) < 0)
        return -1;
    if (json_is_string(json_object_get(call->args, "id"))) {
        const char *id = json_get_string(call->args, "id", "");
        *err = (struct tsk_error){.code = TSK_OK};
        if (proc_remove(&reg, id, json_get_bool(call->args, "force", false), err) < 0 &&
            remove_asked(call, &reg, id, err) < 0)
            return -1;
        *ret = json_pack("{s:s, s:b}", "id", id, "removed", true);
        proc_others_warn(*ret, warning);
        return 0;
    }
    if (may_remove_all(call, ids, err) < 0)
        return -1;
    *ret = remove_listed(call, &reg, ids);
    proc_others_warn(*ret, warning);
    return 0;
}

const struct op op_process_remove = {
    NAMES("process.remove", "proc", "remove"),
    .summary = "Remove processes with their logs; a running one only with --force, which stops it first.",
    .examples = "tasuki proc remove web  # its record and its output\n"
                "tasuki proc remove web --force  # although it runs",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = PARAMS(PROC_IDS_PARAM, PROC_ALL_PARAM, FLAG("force", OP_OPTIONAL, "Stop it first if it runs."),
                     NOTE_PARAM, YES_PARAM),
    .result = FIELDS({"id", "string?", "the process that was removed"}, {"removed", "any", "true, or the ids"}),
    .errors =
        ERRORS(TSK_PROCESS_NOT_FOUND, TSK_NEEDS_CONFIRMATION, TSK_PROCESS_STOP_FAILED, TSK_CONFLICT, TSK_ENVIRONMENT),
    .http = ROUTE("DELETE", "/api/processes/:id"),
    .mcp = TOOL("remove_process", "processes", .is_core = true, .refusal = "NOT REMOVED",
                .text = "Remove processes with their logs, for good. A running one is refused (NEEDS_CONFIRMATION) "
                        "unless force: true, which stops it first."),
    .run = run_remove,
};

/* ---- update ---- */

static int update_once(struct op_call *call, struct proc_registry *reg, const char *id, int64_t expected_ms,
                       struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    json_t *spec CLEANUP_JSON = NULL;
    if (proc_load(reg, id, &p, err) < 0)
        return -1;
    if (proc_args_spec(call, p.spec, &spec, err) < 0 || proc_depend_check(reg, id, spec, err) < 0)
        return -1;
    /* What we have read must not have changed meanwhile, whether or not the caller asks. */
    return proc_update(reg, id, spec, expected_ms >= 0 ? expected_ms : p.updated_at_ms, err);
}

static bool was_changed(const struct tsk_error *err)
{
    return err->code == TSK_CONFLICT && err->text && strcmp(err->text, PROC_CHANGED) == 0;
}

static int run_update(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    const char *id = json_get_string(call->args, "id", ""),
               *expected = json_get_string(call->args, "expected_updated_at", NULL);
    int64_t expected_ms = -1;
    json_t *ids CLEANUP_JSON = json_pack("[s]", id), *warning CLEANUP_JSON = NULL;
    if (expected && time_parse(expected, &expected_ms) < 0)
        return error_set(err, TSK_INVALID_INPUT, "param_not_a_time", "param", "expected_updated_at", "value", expected,
                         NULL);
    if (proc_args_open(call, &reg, err) < 0 || proc_others_ask(call, &reg, ids, false, &warning, err) < 0)
        return -1;
    int result = update_once(call, &reg, id, expected_ms, err);
    /* Somebody else changed it between our reading and writing; the caller did not ask for a check. */
    for (int tries = 0; result < 0 && was_changed(err) && !expected && tries < UPDATE_TRIES; tries++) {
        *err = (struct tsk_error){.code = TSK_OK};
        result = update_once(call, &reg, id, -1, err);
    }
    if (result < 0)
        return -1;
    *ret = proc_args_record_or_say(&reg, id, false);
    proc_others_warn(*ret, warning);
    return 0;
}

const struct op op_process_update = {
    NAMES("process.update", "proc", "update"),
    .summary = "Change a process's command or settings; a running process keeps the old ones until it is restarted.",
    .detail = "Settings that are not named stay. --env changes the variables that it names; --env-clear drops the "
              "others. To return to a default: --no-depends-on, --no-auto-start, --ready none and --health none.",
    .flags = OP_KEEPS_REST,
    .examples = "tasuki proc update web --restart always  # takes effect with the next start\n"
                "tasuki proc update web -- npm run preview  # another command",
    .params = PARAMS(PROC_ID_PARAM, PARAM("command", OP_STRING, OP_PROGRAM, "CMD", "Another program."),
                     PROC_SPEC_PARAMS, FLAG("env_clear", OP_OPTIONAL, "Drop all variables first."),
                     PARAM("expected_updated_at", OP_STRING, OP_OPTIONAL, "T",
                           "Only if it has not changed since (updated_at of its record).", .max = 64),
                     NOTE_PARAM, YES_PARAM, PARAM("args", OP_ARGV, OP_POSITIONAL, "ARGS…", "Its arguments.")),
    .result = proc_fields,
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_NEEDS_CONFIRMATION, TSK_INVALID_INPUT, TSK_CONFLICT, TSK_ENVIRONMENT,
                     TSK_STORAGE_FULL),
    .http = ROUTE("PUT", "/api/processes/:id"),
    .mcp =
        TOOL("update_process", "processes", .is_core = true, .refusal = "NOT UPDATED",
             .text = "Change a process's command or settings. Settings and variables that are not named stay. A "
                     "running process keeps "
                     "the old ones until restart_process. CONFLICT (expected_updated_at): somebody else changed it."),
    .run = run_update,
};
