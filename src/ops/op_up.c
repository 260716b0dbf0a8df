/* op_up.c - what a file names, all at once: registered, started, and on one screen. */
#include "hold/protocol.h"
#include "ops/ops.h"
#include "ops/proc_args.h"
#include "ops/proc_lines.h"
#include "ops/proc_others.h"
#include "ops/up.h"
#include "proc/condition.h"
#include "proc/depend.h"
#include "proc/registry.h"

#include <stdlib.h>
#include <string.h>

#define UP_FILE_PARAM                                                                                                  \
    PARAM("file", OP_PATH, OP_ANYWHERE, "FILE",                                                                        \
          "The file; otherwise tasuki.yaml, process-compose.yaml or Procfile, here or above.", .letter = 'f')

/* Its relative directories begin where the file is, and so does the question which worktree this is. */
static int up_open(struct op_call *call, const struct up_file *file, struct proc_registry *reg, struct tsk_error *err)
{
    if (proc_args_open(call, reg, err) < 0)
        return -1;
    free(reg->home);
    reg->home = strdup(file->dir);
    return 0;
}

static int refuse_other_worktree(struct proc_registry *reg, const struct proc *p, const struct up_file *file,
                                 struct tsk_error *err)
{
    if (!proc_other_worktree(reg, p))
        return 0;
    error_set(err, TSK_CONFLICT, "up_other_worktree", "id", p->id, "theirs",
              json_get_string(p->spec, "cwd", reg->ws->root), "ours", file->dir, NULL);
    return error_add_next(err, "tasuki proc status %s", p->id);
}

/* The file itself may name a directory of another worktree. */
static int refuse_entry(struct proc_registry *reg, const struct up_file *file, const char *id, struct tsk_error *err)
{
    struct proc entry = {.spec = json_object_get(file->found.processes, id), .dir = -1};
    if (!proc_other_worktree(reg, &entry))
        return 0;
    const char *theirs = json_get_string(entry.spec, "cwd", "");
    error_set(err, TSK_CONFLICT, "up_entry_elsewhere", "id", id, "theirs", theirs, "ours", file->dir, "file",
              file->path, NULL);
    return error_add_next(err, "${EDITOR:-vi} %s", file->path);
}

/* ---- up: what is to be done ---- */

static void up_plan_clear(struct up_plan *plan)
{
    json_free(&plan->start);
    json_free(&plan->restart);
    json_free(&plan->running);
    json_free(&plan->done);
    json_free(&plan->left);
    json_free(&plan->warning);
}

/* Whether it runs with what the file says. */
static bool has_definition(const struct proc *p, const struct up_file *file)
{
    bool was_updated = p->view.started_at_ms && p->updated_at_ms > p->view.started_at_ms;
    return exchange_says(&file->found, p->id, p->spec) && !was_updated;
}

/* A migration, say: it has ended well, for good, with what the file says. */
static bool has_done_its_work(const struct proc *p, const struct up_file *file)
{
    return proc_ended_well(&p->view) && !proc_is_coming(&p->view) && has_definition(p, file) &&
           strcmp(json_get_string(p->spec, "restart", "no"), "no") == 0;
}

static int plan_one(struct proc_registry *reg, const struct up_file *file, const char *id, struct up_plan *plan,
                    struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (refuse_entry(reg, file, id, err) < 0)
        return -1;
    if (proc_load(reg, id, &p, err) < 0) {
        if (err->code != TSK_PROCESS_NOT_FOUND)
            return -1;
        *err = (struct tsk_error){.code = TSK_OK};
        json_array_append_new(plan->start, json_string(id));
        return 0;
    }
    if (refuse_other_worktree(reg, &p, file, err) < 0)
        return -1;
    bool is_running = p.view.state == PROC_RUNNING || proc_is_coming(&p.view);
    if (is_running && has_definition(&p, file)) {
        json_array_append_new(plan->running, json_string(id));
        return 0;
    }
    json_array_append_new(has_done_its_work(&p, file) ? plan->done : plan->start, json_string(id));
    if (is_running)
        json_array_append_new(plan->restart, json_string(id));
    return 0;
}

bool up_is_listed(const json_t *ids, const char *id)
{
    json_each (ids, i, one)
        if (strcmp(json_string_value(one), id) == 0)
            return true;
    return false;
}

/* Whether others wait for its completion, and each of them runs or is done itself. */
static bool is_for_running(const struct up_file *file, const struct up_plan *plan, const char *id)
{
    bool is_needed = false;
    json_each_pair (file->found.processes, other, spec) {
        const char *condition = json_get_string(json_object_get(spec, "depends_on"), id, NULL);
        if (!condition)
            continue;
        if (strcmp(condition, "completed") != 0 ||
            !(up_is_listed(plan->running, other) || up_is_listed(plan->done, other)))
            return false;
        is_needed = true;
    }
    return is_needed;
}

/* What has done its work is run again, unless that was for those that run. One that is run again may be what another was done for. */
static void plan_done(const struct up_file *file, struct up_plan *plan)
{
    json_t *in_order = json_array();
    for (size_t i = 0; i < json_array_size(plan->done); i++) {
        json_t *id = json_array_get(plan->done, i);
        if (is_for_running(file, plan, json_string_value(id)))
            continue;
        json_array_append(plan->start, id);
        json_array_remove(plan->done, i);
        i = (size_t)-1; /* from the beginning */
    }
    json_each (file->ids, at, one)
        if (up_is_listed(plan->start, json_string_value(one)))
            json_array_append(in_order, one);
    json_decref(plan->start);
    plan->start = in_order;
}

/* What is registered in this worktree and not in the file. */
static int plan_left(struct proc_registry *reg, const struct up_file *file, struct up_plan *plan, struct tsk_error *err)
{
    struct proc *list;
    size_t count;
    if (proc_list(reg, &list, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(file->names, list[i].id) && !proc_other_worktree(reg, &list[i]))
            json_array_append_new(plan->left, json_string(list[i].id));
    proc_list_free(list, count);
    return 0;
}

static int plan_make(struct op_call *call, struct proc_registry *reg, const struct up_file *file, struct up_plan *plan,
                     struct tsk_error *err)
{
    *plan = (struct up_plan){json_array(), json_array(), json_array(), json_array(), json_array(), NULL};
    json_each (file->ids, i, id)
        if (plan_one(reg, file, json_string_value(id), plan, err) < 0)
            return -1;
    plan_done(file, plan);
    return json_object_get(call->args, "id") ? 0 : plan_left(reg, file, plan, err);
}

/* ---- up ---- */

/* `up --detach`: as `proc start`, and the answer has the same form. */
static int up_detached(struct op_call *call, struct proc_registry *reg, const struct up_file *file,
                       const struct up_plan *plan, json_t **ret, struct tsk_error *err)
{
    const char **start CLEANUP_FREE = proc_args_strings(plan->start);
    const char **stop CLEANUP_FREE = proc_args_strings(plan->restart);
    size_t count = json_array_size(plan->start), stops = json_array_size(plan->restart);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(file->ids);
    struct tsk_error *stopped CLEANUP_FREE = proc_args_results(plan->restart);
    if ((stops && proc_stop_many(reg, stop, stops, HOLD_GRACE_MS, stopped, err) < 0) ||
        (count && proc_start_ordered(reg, start, count, true, results, err) < 0))
        return -1;
    proc_args_settle(call, reg, start, count, results);
    json_t *all CLEANUP_JSON = json_copy(plan->start);
    json_array_extend(all, plan->running);
    if (proc_args_answer(call, reg, all, results, false, ret, err) < 0)
        return -1;
    proc_args_say_failure(call, *ret);
    json_object_set_new(*ret, "file", json_string(file->path));
    json_object_set(*ret, "restarted", plan->restart);
    json_object_set(*ret, "completed", plan->done);
    json_object_set(*ret, "left_alone", plan->left);
    json_object_set(*ret, "ignored", file->found.ignored);
    proc_others_warn(*ret, plan->warning);
    return 0;
}

static int run_up(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct up_file file CLEANUP(up_file_clear) = {.path = ""};
    struct up_plan plan CLEANUP(up_plan_clear) = {0};
    json_t *applied CLEANUP_JSON = NULL;
    db_use(DB_USE_KEEP); /* one thread starts and stops, another one shows */
    if (up_file_read(call, &file, err) < 0 || up_open(call, &file, &reg, err) < 0 ||
        plan_make(call, &reg, &file, &plan, err) < 0)
        return -1;
    if (proc_others_ask(call, &reg, plan.restart, true, &plan.warning, err) < 0 ||
        exchange_apply(&reg, &file.from, &file.found, true, &applied, err) < 0)
        return -1;
    if (json_get_bool(call->args, "detach", false))
        return up_detached(call, &reg, &file, &plan, ret, err);
    proc_registry_close(&reg);
    return up_follow(call, &file, &plan, ret, err);
}

const struct op op_up = {
    NAMES("up", NULL, "up"),
    .summary = "Start the processes of a file and show all output on one screen; new processes are registered.",
    .detail = "The file is what `proc export` writes, a process-compose file or a Procfile (both with .env). A process "
              "that runs with another definition is restarted, one that is no longer in the file is named and left "
              "alone, and an id that belongs to another worktree is refused. Ctrl-C stops what this call has started; "
              "d, --detach or the end of the "
              "terminal leaves all of it running. Called again, it attaches, and Ctrl-C only detaches.",
    .examples = "tasuki up  # tasuki.yaml, process-compose.yaml or Procfile, here or above\n"
                "tasuki up web  # web, and what it depends on\n"
                "tasuki up -f services.yaml --detach  # start, and return when they are ready",
    .flags = OP_STREAMS | OP_DESTRUCTIVE | OP_VERDICTS,
    .params = PARAMS(PARAM("id", OP_ID, OP_POSITIONAL | OP_MANY, "ID…", "Only these, and what they depend on.",
                           .completes = "process-id"),
                     UP_FILE_PARAM, FLAG("detach", OP_OPTIONAL, "Return when they are ready; nothing is shown."),
                     FLAG("no_wait", OP_OPTIONAL, "With --detach: return as soon as they are executed."), NOTE_PARAM,
                     YES_PARAM),
    .result = FIELDS({"file", "string", "the file"}, {"processes", "array?", "with --detach: the records"},
                     {"errors", "array?", "id and error of processes that could not be started"},
                     {"restarted", "array?", "processes that ran with another definition"},
                     {"completed", "array?", "processes that were completed already, and not run again"},
                     {"left_alone", "array?", "registered here and not in the file"},
                     {"ignored", "array?", "keys of the file that mean nothing to tasuki"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_PROCESS_NOT_FOUND, TSK_CONFLICT, TSK_NEEDS_CONFIRMATION,
                     TSK_PROCESS_START_FAILED, TSK_PROCESS_STOP_FAILED, TSK_PROCESS_ALREADY_RUNNING,
                     TSK_PAYLOAD_TOO_LARGE, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http.absent = "it is a screen; POST /api/processes/import and …/start do the work",
    .mcp.absent = "it is a screen; import_processes and start_process do the work",
    .run = run_up,
};

/* ---- down ---- */

/* Those of the file that run. */
static int down_ids(struct proc_registry *reg, const struct up_file *file, json_t *ret, struct tsk_error *err)
{
    json_each (file->ids, i, id) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        if (proc_load(reg, json_string_value(id), &p, err) < 0) {
            if (err->code != TSK_PROCESS_NOT_FOUND)
                return -1;
            *err = (struct tsk_error){.code = TSK_OK};
            continue;
        }
        if (refuse_other_worktree(reg, &p, file, err) < 0)
            return -1;
        if (p.view.state == PROC_RUNNING || *p.view.phase)
            json_array_append(ret, id);
    }
    return 0;
}

static int run_down(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct up_file file CLEANUP(up_file_clear) = {.path = ""};
    json_t *ids CLEANUP_JSON = json_array(), *warning CLEANUP_JSON = NULL;
    if (up_file_read(call, &file, err) < 0 || up_open(call, &file, &reg, err) < 0 ||
        down_ids(&reg, &file, ids, err) < 0 || proc_others_ask(call, &reg, ids, true, &warning, err) < 0)
        return -1;
    size_t count = json_array_size(ids);
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(ids);
    int64_t grace = json_get_int(call->args, "grace_period_ms", HOLD_GRACE_MS);
    if (count && proc_stop_many(&reg, names, count, grace, results, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (results[i].code == TSK_PROCESS_NOT_RUNNING) /* it has ended meanwhile: that was wanted */
            results[i] = (struct tsk_error){.code = TSK_OK};
    json_object_del(call->args, "id"); /* the answer is about several */
    if (proc_args_answer(call, &reg, ids, results, true, ret, err) < 0)
        return -1;
    proc_others_warn(*ret, warning);
    json_object_set_new(*ret, "file", json_string(file.path));
    return 0;
}

const struct op op_down = {
    NAMES("down", NULL, "down"),
    .summary = "Stop the processes of a file, in reverse order of dependencies; nothing is unregistered.",
    .examples = "tasuki down  # the servers of the file, also those that others started\n"
                "tasuki down web  # only web: others may need what it depends on",
    .flags = OP_DESTRUCTIVE | OP_VERDICTS,
    .params = PARAMS(PARAM("id", OP_ID, OP_POSITIONAL | OP_MANY, "ID…", "Only these.", .completes = "process-id"),
                     UP_FILE_PARAM, PROC_GRACE_PARAM, NOTE_PARAM, YES_PARAM),
    .result = FIELDS({"file", "string", "the file"}, {"processes", "array", "the records of the stopped processes"},
                     {"errors", "array", "id and error of processes that could not be stopped"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_PROCESS_NOT_FOUND, TSK_CONFLICT, TSK_NEEDS_CONFIRMATION,
                     TSK_PROCESS_STOP_FAILED, TSK_PAYLOAD_TOO_LARGE, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http.absent = "POST /api/processes/:id/stop stops each of them",
    .mcp.absent = "stop_process stops them",
    .run = run_down,
};
