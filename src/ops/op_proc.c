/* op_proc.c - registering, starting and stopping processes. */
#include "hold/protocol.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/proc_args.h"
#include "proc/depend.h"

#include <stdlib.h>
#include <string.h>

#define UPDATE_TRIES 50

static const enum tsk_code change_errors[] = {TSK_PROCESS_NOT_FOUND, TSK_INVALID_INPUT, TSK_CONFLICT,
                                              TSK_ENVIRONMENT,       TSK_STORAGE_FULL,  TSK_OK};

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
    if (json_get_bool(call->args, "start", false) && proc_args_start_created(&reg, id, err) < 0)
        return -1;
    return proc_args_record_or_say(&reg, id, false, ret);
}

static const struct op_param create_params[] = {
    {.name = "id",
     .type = OP_ID,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "ID",
     .help = "Its name: letters, digits, dots, dashes and underscores."},
    {.name = "command",
     .type = OP_STRING,
     .flags = OP_REQUIRED | OP_PROGRAM,
     .value = "CMD",
     .help = "The program, found by PATH."},
    PROC_SPEC_PARAMS,
    {.name = "start", .type = OP_BOOL, .help = "Start it at once."},
    {.name = "args",
     .type = OP_ARGV,
     .flags = OP_POSITIONAL,
     .value = "ARGS…",
     .help = "Its arguments. No shell is involved."},
    {0},
};
static const enum tsk_code create_errors[] = {
    TSK_PROCESS_ALREADY_EXISTS, TSK_INVALID_INPUT, TSK_PROCESS_START_FAILED, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_OK};

const struct op op_process_create = {
    .name = "process.create",
    .noun = "proc",
    .verb = "create",
    .summary = "Register a process, so that it can be started, stopped and watched by its name.",
    .detail = "Nothing is started yet, unless --start is given; a process that then cannot be started is not "
              "registered. The process will outlive the terminal, the agent and "
              "tasuki itself; `proc stop` ends it.",
    .examples =
        "tasuki proc create web --restart on-failure -- npm run dev  # a dev server that is restarted\n"
        "tasuki proc create api --ready port:8080 --env PORT=8080 --start -- ./api  # ready when the port answers\n"
        "tasuki proc create worker --depends-on db=ready -- ./worker  # started after db",
    .params = create_params,
    .result = proc_fields,
    .errors = create_errors,
    .http = {.method = "POST", .path = "/api/processes"},
    .mcp = {.tool = "create_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT CREATED",
            .text =
                "Register a command as a process that is started, stopped and watched by its id. start: true starts "
                "it at once; an id that exists is refused (ProcessAlreadyExists). It outlives this connection; only "
                "stop_process ends it."},
    .run = run_create,
};

enum which { ALL_ENDED, ALL_RUNNING, ALL_TO_END };

/* Also when that cannot be told: then the stop tries, and reports the reason. */
static bool may_have_leftovers(const struct proc *p)
{
    struct tsk_error problem;
    json_t *found CLEANUP_JSON = NULL;
    return proc_leftovers(p, &found, &problem) < 0 || json_array_size(found) > 0;
}

static bool is_one_of(const struct proc *p, enum which which)
{
    bool is_running = p->view.state == PROC_RUNNING || *p->view.phase;
    return is_running == (which != ALL_ENDED) || (which == ALL_TO_END && may_have_leftovers(p));
}

/* The ids that were named; with --all, those that it makes sense for. */
static int ids_by_state(struct op_call *call, struct proc_registry *reg, enum which which, json_t **ret,
                        struct tsk_error *err)
{
    struct proc *list;
    size_t count;
    if (!json_get_bool(call->args, "all", false))
        return proc_args_ids(call, reg, ret, err);
    if (proc_list(reg, &list, &count, err) < 0)
        return -1;
    *ret = json_array();
    for (size_t i = 0; i < count; i++)
        if (is_one_of(&list[i], which))
            json_array_append_new(*ret, json_string(list[i].id));
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
    const char **names = proc_args_strings(ids);
    struct tsk_error *results = calloc(count + 1, sizeof *results);
    BUG(!results);
    int result = proc_start_ordered(&reg, names, count, !json_get_bool(call->args, "no_deps", false), results, err);
    if (result == 0)
        result = proc_args_answer(call, &reg, ids, results, false, ret, err);
    free(results);
    free(names);
    return result;
}

static const struct op_param start_params[] = {
    PROC_IDS_PARAM,
    PROC_ALL_PARAM,
    {.name = "no_deps", .type = OP_BOOL, .help = "Do not start, or wait for, what it depends on."},
    {0},
};
static const enum tsk_code start_errors[] = {TSK_PROCESS_NOT_FOUND,
                                             TSK_PROCESS_ALREADY_RUNNING,
                                             TSK_PROCESS_START_FAILED,
                                             TSK_INVALID_INPUT,
                                             TSK_ENVIRONMENT,
                                             TSK_STORAGE_FULL,
                                             TSK_OK};

const struct op op_process_start = {
    .name = "process.start",
    .noun = "proc",
    .verb = "start",
    .summary = "Start processes; returns when they run, or says why they cannot.",
    .detail =
        "What it depends on is started first and waited for. A second copy is never started. The process lives on "
        "when the terminal is closed.",
    .examples = "tasuki proc start web  # start one\n"
                "tasuki proc start --all  # all that are registered, in the order of their dependencies",
    .flags = OP_VERDICTS,
    .params = start_params,
    .result = proc_fields,
    .errors = start_errors,
    .http = {.method = "POST", .path = "/api/processes/:id/start"},
    .mcp = {.tool = "start_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT STARTED",
            .text =
                "Start registered processes, and first what they depend on; returns when they run. A second copy is "
                "never started: ProcessAlreadyRunning means it runs. They live on when you disconnect."},
    .run = run_start,
};

/* ---- stop ---- */

static int run_stop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || ids_by_state(call, &reg, ALL_TO_END, &ids, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names = proc_args_strings(ids);
    struct tsk_error *results = calloc(count + 1, sizeof *results);
    BUG(!results);
    int64_t grace = json_get_int(call->args, "grace_period_ms", HOLD_GRACE_MS);
    int result = proc_stop_many(&reg, names, count, grace, results, err);
    if (result == 0)
        result = proc_args_answer(call, &reg, ids, results, true, ret, err);
    free(results);
    free(names);
    return result;
}

static const struct op_param stop_params[] = {PROC_IDS_PARAM, PROC_ALL_PARAM, PROC_GRACE_PARAM, {0}};
static const enum tsk_code stop_errors[] = {
    TSK_PROCESS_NOT_FOUND, TSK_PROCESS_NOT_RUNNING, TSK_PROCESS_STOP_FAILED, TSK_INVALID_INPUT,
    TSK_CONFLICT,          TSK_ENVIRONMENT,         TSK_STORAGE_FULL,        TSK_OK};

const struct op op_process_stop = {
    .name = "process.stop",
    .noun = "proc",
    .verb = "stop",
    .summary = "Stop processes with everything that they started; returns when all of it is gone.",
    .detail =
        "SIGTERM to all of them, SIGKILL after the grace period. No restart policy revives what was stopped. What a "
        "process that has ended left behind is ended, too.",
    .examples = "tasuki proc stop web  # SIGTERM, after 3 s SIGKILL\n"
                "tasuki proc stop web --grace 10000  # give it ten seconds\n"
                "tasuki proc stop --all  # everything that runs",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = stop_params,
    .result = proc_fields,
    .errors = stop_errors,
    .http = {.method = "POST", .path = "/api/processes/:id/stop"},
    .mcp = {.tool = "stop_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT STOPPED",
            .text =
                "Stop processes with everything they started; returns when all of it is gone. SIGTERM, and SIGKILL "
                "after grace_period_ms. No restart policy revives them; ProcessNotRunning: there was nothing to stop."},
    .run = run_stop,
};

/* ---- restart ---- */

/* What could not be started again is not stopped. */
static int dependencies_exist(struct proc_registry *reg, const char *const *ids, size_t count, struct tsk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        const char *other;
        json_t *condition;
        if (proc_load(reg, ids[i], &p, err) < 0)
            return -1;
        json_object_foreach (json_object_get(p.spec, "depends_on"), other, condition) {
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
    json_t *ids CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || ids_by_state(call, &reg, ALL_RUNNING, &ids, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names = proc_args_strings(ids);
    struct tsk_error *stopped = calloc(count + 1, sizeof *stopped), *started = calloc(count + 1, sizeof *started);
    BUG(!stopped || !started);
    int64_t grace = json_get_int(call->args, "grace_period_ms", HOLD_GRACE_MS);
    int result = dependencies_exist(&reg, names, count, err);
    if (result == 0)
        result = proc_stop_many(&reg, names, count, grace, stopped, err);
    if (result == 0)
        result = proc_start_ordered(&reg, names, count, true, started, err);
    for (size_t i = 0; i < count; i++) /* one that did not run is simply started */
        if (stopped[i].code != TSK_OK && stopped[i].code != TSK_PROCESS_NOT_RUNNING)
            started[i] = stopped[i];
    if (result == 0)
        result = proc_args_answer(call, &reg, ids, started, false, ret, err);
    free(stopped);
    free(started);
    free(names);
    return result;
}

static const enum tsk_code restart_errors[] = {TSK_PROCESS_NOT_FOUND,
                                               TSK_PROCESS_START_FAILED,
                                               TSK_PROCESS_STOP_FAILED,
                                               TSK_PROCESS_ALREADY_RUNNING,
                                               TSK_INVALID_INPUT,
                                               TSK_CONFLICT,
                                               TSK_ENVIRONMENT,
                                               TSK_STORAGE_FULL,
                                               TSK_OK};

const struct op op_process_restart = {
    .name = "process.restart",
    .noun = "proc",
    .verb = "restart",
    .summary = "Stop processes and start them again with their present settings.",
    .examples = "tasuki proc restart web  # after an update, say",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = stop_params,
    .result = proc_fields,
    .errors = restart_errors,
    .http = {.method = "POST", .path = "/api/processes/:id/restart"},
    .mcp = {.tool = "restart_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT RESTARTED",
            .text =
                "Stop processes and start them again with their present settings, after update_process for example. "
                "One that does not run is simply started."},
    .run = run_restart,
};

/* ---- status ---- */

static int run_status(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    if (proc_args_open(call, &reg, err) < 0)
        return -1;
    return proc_args_record(&reg, json_get_string(call->args, "id", ""), true, ret, err);
}

static const struct op_param status_params[] = {PROC_ID_PARAM, {0}};

const struct op op_process_status = {
    .name = "process.status",
    .noun = "proc",
    .verb = "status",
    .summary = "Show one process: its state, exit code, restarts, what it uses, where its log is.",
    .examples = "tasuki proc status web  # for people\n"
                "tasuki proc status web --json  # for programs",
    .flags = OP_READ_ONLY,
    .params = status_params,
    .result = proc_fields,
    .errors = change_errors,
    .http = {.method = "GET", .path = "/api/processes/:id"},
    .mcp = {.tool = "get_process_status",
            .group = "processes",
            .is_core = true,
            .text = "Show one process: state, pid, exit code, restarts, log files. It changes nothing; to wait for a "
                    "change use wait_for."},
    .run = run_status,
};

/* ---- list ---- */

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc *list;
    size_t count;
    const char *state = json_get_string(call->args, "state", NULL);
    if (proc_args_open(call, &reg, err) < 0 || proc_list(&reg, &list, &count, err) < 0)
        return -1;
    struct page page = page_begin(call, PAGE_ALL);
    for (size_t i = 0; i < count; i++)
        if ((!state || strcmp(state, proc_state_names[list[i].view.state]) == 0) && page_takes(&page, list[i].id))
            page_put(&page, proc_to_json(&reg, &list[i]));
    proc_list_free(list, count);
    *ret = page_end(&page, "processes");
    return 0;
}

static const struct op_param list_params[] = {
    {.name = "state",
     .type = OP_ENUM,
     .value = "S",
     .choices = proc_state_names,
     .help = "Only those in this state: NotStarted, Running, Stopped or Failed.",
     .agent_help = "Only those."},
    PAGE_PARAMS,
    {0},
};
static const struct op_field list_result[] = {{"processes", "array", "records, by id"}, PAGE_FIELDS, {0}};
static const enum tsk_code list_errors[] = {TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_OK};

const struct op op_process_list = {
    .name = "process.list",
    .noun = "proc",
    .verb = "list",
    .summary = "List all processes with their true states.",
    .examples = "tasuki proc list  # all\n"
                "tasuki proc list --state Failed  # what needs a look",
    .flags = OP_READ_ONLY,
    .params = list_params,
    .result = list_result,
    .errors = list_errors,
    .http = {.method = "GET", .path = "/api/processes"},
    .mcp = {.tool = "list_processes",
            .group = "processes",
            .is_core = true,
            .text = "List all processes with their true states; look here before you create or start one. It changes "
                    "nothing."},
    .run = run_list,
};

/* ---- remove ---- */

/* Asks a person, if there is one; otherwise the error says what to do. */
static int remove_one(struct op_call *call, struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    bool is_forced = json_get_bool(call->args, "force", false);
    if (proc_remove(reg, id, is_forced, err) == 0)
        return 0;
    if (err->code != TSK_NEEDS_CONFIRMATION || !call->confirm)
        return -1;
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    text_put(&question, call->lang, "process_remove_question", "id", id, NULL);
    return call->confirm(call, buf_str(&question)) ? proc_remove(reg, id, true, err) : -1;
}

static int run_remove(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL;
    if (proc_args_open(call, &reg, err) < 0 || proc_args_ids(call, &reg, &ids, err) < 0)
        return -1;
    if (json_is_string(json_object_get(call->args, "id"))) {
        const char *id = json_get_string(call->args, "id", "");
        if (remove_one(call, &reg, id, err) < 0)
            return -1;
        *ret = json_pack("{s:s, s:b}", "id", id, "removed", true);
        return 0;
    }
    json_t *removed = json_array(), *errors = json_array(), *id;
    size_t i;
    json_array_foreach (ids, i, id) {
        struct tsk_error problem = {0};
        if (remove_one(call, &reg, json_string_value(id), &problem) == 0)
            json_array_append(removed, id);
        else
            proc_args_add_error(call, json_string_value(id), &problem, errors);
    }
    *ret = json_pack("{s:o, s:o}", "removed", removed, "errors", errors);
    return 0;
}

static const struct op_param remove_params[] = {
    PROC_IDS_PARAM,
    PROC_ALL_PARAM,
    {.name = "force", .type = OP_BOOL, .help = "Stop it first if it runs."},
    {0},
};
static const struct op_field remove_result[] = {
    {"id", "string?", "what was removed"}, {"removed", "any", "true, or the ids"}, {0}};
static const enum tsk_code remove_errors[] = {TSK_PROCESS_NOT_FOUND, TSK_NEEDS_CONFIRMATION, TSK_PROCESS_STOP_FAILED,
                                              TSK_CONFLICT,          TSK_ENVIRONMENT,        TSK_OK};

const struct op op_process_remove = {
    .name = "process.remove",
    .noun = "proc",
    .verb = "remove",
    .summary = "Remove processes with their logs; a running one only with --force, which stops it first.",
    .examples = "tasuki proc remove web  # its record and its output\n"
                "tasuki proc remove web --force  # although it runs",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = remove_params,
    .result = remove_result,
    .errors = remove_errors,
    .http = {.method = "DELETE", .path = "/api/processes/:id"},
    .mcp = {.tool = "remove_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT REMOVED",
            .text = "Remove processes with their logs, for good. A running one is refused (NEEDS_CONFIRMATION) unless "
                    "force: true, which stops it first."},
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

static int run_update(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    const char *id = json_get_string(call->args, "id", ""),
               *expected = json_get_string(call->args, "expected_updated_at", NULL);
    int64_t expected_ms = -1;
    if (expected && time_parse(expected, &expected_ms) < 0)
        return error_set(err, TSK_INVALID_INPUT, "param_not_a_time", "param", "expected_updated_at", "value", expected,
                         NULL);
    if (proc_args_open(call, &reg, err) < 0)
        return -1;
    int result = update_once(call, &reg, id, expected_ms, err);
    /* Somebody else changed it between our reading and writing; nobody asked to be told. */
    for (int tries = 0; result < 0 && err->code == TSK_CONFLICT && !expected && tries < UPDATE_TRIES; tries++) {
        *err = (struct tsk_error){.code = TSK_OK};
        result = update_once(call, &reg, id, -1, err);
    }
    return result < 0 ? -1 : proc_args_record_or_say(&reg, id, false, ret);
}

static const struct op_param update_params[] = {
    PROC_ID_PARAM,
    {.name = "command", .type = OP_STRING, .flags = OP_PROGRAM, .value = "CMD", .help = "Another program."},
    PROC_SPEC_PARAMS,
    {.name = "env_clear", .type = OP_BOOL, .help = "Drop all variables first; env then sets the new ones."},
    {.name = "expected_updated_at",
     .type = OP_STRING,
     .value = "T",
     .max = 64,
     .help = "Only if it has not changed since (updated_at of its record)."},
    {.name = "args", .type = OP_ARGV, .flags = OP_POSITIONAL, .value = "ARGS…", .help = "Its arguments."},
    {0},
};

const struct op op_process_update = {
    .name = "process.update",
    .noun = "proc",
    .verb = "update",
    .summary = "Change a process's command or settings; what runs keeps the old ones until it is restarted.",
    .detail = "What is not mentioned stays. --env changes the variables that it names; --env-clear drops the others. "
              "Back to the "
              "default: --no-depends-on, --no-auto-start, --ready none and --health none.",
    .flags = OP_KEEPS_REST,
    .examples = "tasuki proc update web --restart always  # takes effect with the next start\n"
                "tasuki proc update web -- npm run preview  # another command",
    .params = update_params,
    .result = proc_fields,
    .errors = change_errors,
    .http = {.method = "PUT", .path = "/api/processes/:id"},
    .mcp = {.tool = "update_process",
            .group = "processes",
            .is_core = true,
            .refusal = "NOT UPDATED",
            .text = "Change a process's command or settings; what is not named stays, env replaces all variables. What "
                    "runs keeps the old ones until restart_process. With expected_updated_at, CONFLICT means that "
                    "somebody else changed it."},
    .run = run_update,
};
