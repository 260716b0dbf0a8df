#include "ops/overview.h"
#include "base/fs.h"
#include "graph/rundir.h"
#include "ops/lock_args.h"
#include "own/workflow.h"
#include "proc/process.h"
#include "run/book.h"

#include <stdio.h>
#include <string.h>

enum { RUNS_OPEN_SHOWN = 200, RUNS_OVER_SHOWN = 5, REQUESTS_SHOWN = 30, WORKFLOWS_SHOWN = 30 };

/* ---- runs ----------------------------------------------------------------------------------------------- */

static json_t *pick(const json_t *from, const char *const *keys)
{
    json_t *json = json_object();
    for (; *keys; keys++)
        if (json_object_get(from, *keys))
            json_object_set(json, *keys, json_object_get(from, *keys));
    return json;
}

/* The stage of a run, or NULL: it is being made or removed, or cannot be read (doctor says so). */
static json_t *stage_of(struct tsk_workspace *ws, const char *id)
{
    char name[RUN_ID_MAX + 8];
    struct tsk_error err;
    json_t *stage = NULL;
    struct rundir run = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    snprintf(name, sizeof name, "runs/%s", id);
    snprintf(run.id, sizeof run.id, "%s", id);
    snprintf(run.path, sizeof run.path, "%s", name);
    run.dir = fs->openat(ws->state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (run.dir >= 0 && rundir_look(&run, &stage, &err) < 0)
        stage = NULL;
    rundir_clear(&run);
    return stage;
}

static bool is_open(const json_t *stage)
{
    const char *status = json_get_string(stage, "status", "");
    return strcmp(status, "RUNNING") == 0 || strcmp(status, "NEEDS_INPUT") == 0 || strcmp(status, "INTERRUPTED") == 0;
}

/* What goes on or waits comes first, then what is over, each the newest first: a reader that shows only some of them cuts at the
 * end. No more runs are looked at than are shown, however many there are. */
static int add_runs(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    static const char *const keys[] = {"run_id",     "request_id", "flow",   "source",      "status",
                                       "started_at", "ended_at",   "counts", "reason_code", NULL};
    json_t *ids CLEANUP_JSON = NULL, *marked CLEANUP_JSON = NULL, *id;
    json_t *runs CLEANUP_JSON = json_array(), *over CLEANUP_JSON = json_array(), *seen CLEANUP_JSON = json_object();
    size_t i;
    if (rundir_list_open(call->ws, &marked, err) < 0 || rundir_list(call->ws, &ids, err) < 0)
        return -1;
    json_array_foreach (marked, i, id) {
        json_t *stage CLEANUP_JSON =
            json_array_size(runs) < RUNS_OPEN_SHOWN ? stage_of(call->ws, json_string_value(id)) : NULL;
        if (stage && is_open(stage)) {
            json_array_append_new(runs, pick(stage, keys));
            json_object_set_new(seen, json_string_value(id), json_true());
        }
    }
    for (i = 0; i < json_array_size(ids) && i < RUNS_OPEN_SHOWN && json_array_size(over) < RUNS_OVER_SHOWN; i++) {
        const char *name = json_string_value(json_array_get(ids, i));
        json_t *stage CLEANUP_JSON = json_object_get(seen, name) ? NULL : stage_of(call->ws, name);
        if (stage)
            json_array_append_new(is_open(stage) ? runs : over, pick(stage, keys));
    }
    json_array_extend(runs, over);
    json_object_set(answer, "runs", runs);
    return 0;
}

/* ---- requests and workflows ------------------------------------------------------------------------------- */

static int add_requests(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    static const char *const keys[] = {"id", "title", "status", "priority", "depends_on", NULL};
    struct book book CLEANUP(book_clear) = {0};
    if (book_open(call->ws, false, call->lang, &book, err) < 0)
        return -1;
    json_t *requests = json_array();
    for (size_t i = 0; i < book.count && json_array_size(requests) < REQUESTS_SHOWN; i++) {
        const char *status = book_status(&book.entries[i]);
        if (strcmp(status, "done") == 0 || strcmp(status, "archived") == 0)
            continue;
        json_t *whole CLEANUP_JSON = book_json(&book.entries[i]);
        json_t *shown = pick(whole, keys);
        json_object_set_new(shown, "status", json_string(status));
        json_object_set_new(shown, "run_id", json_string(json_get_string(book.entries[i].run, "run_id", "")));
        json_array_append_new(requests, shown);
    }
    json_object_set_new(answer, "requests", requests);
    return 0;
}

static int add_workflows(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    struct stat st;
    json_t *list = NULL;
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    bool has_any = fs->fstatat(call->ws->state_dir, "state.db", &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (has_any && (owners_open(&owners, call->ws, err) < 0 || workflow_list(&owners, NULL, true, &list, err) < 0))
        return -1;
    size_t count = json_array_size(list);
    while (json_array_size(list) > WORKFLOWS_SHOWN)
        json_array_remove(list, json_array_size(list) - 1);
    json_object_set_new(answer, "workflows", list ? list : json_array());
    if (count > WORKFLOWS_SHOWN)
        json_object_set_new(answer, "more_workflows", json_integer((json_int_t)(count - WORKFLOWS_SHOWN)));
    return 0;
}

/* Of many processes those that run, and as many others as there is room for; how many there are is said. */
static void shorten(json_t *answer)
{
    json_t *all = json_object_get(answer, "processes"), *some = json_array(), *process;
    size_t total = json_array_size(all), i;
    for (int runs = 1; runs >= 0 && total > OVERVIEW_BRIEF; runs--)
        json_array_foreach (all, i, process)
            if ((strcmp(json_get_string(process, "state_name", ""), "Running") == 0) == runs &&
                json_array_size(some) < OVERVIEW_BRIEF)
                json_array_append(some, process);
    if (total > OVERVIEW_BRIEF) {
        json_object_set(answer, "processes", some);
        json_object_set_new(answer, "processes_total", json_integer((json_int_t)total));
    }
    json_decref(some);
}

int overview_make(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *locks CLEANUP_JSON = NULL, *processes CLEANUP_JSON = NULL;
    bool trusted; /* a broken config.yaml is said here, not only where it is needed */
    if (workspace_config_bool(call->ws, "trust_fs", false, &trusted, err) < 0 ||
        locks_list(call->ws, NULL, call->root, &locks, err) < 0 || proc_overview(call->ws, &processes, err) < 0)
        return -1;
    struct now now = clock_now();
    char time[TIME_TEXT_MAX];
    time_format_local(now.wall_ms, time);
    json_t *answer CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s, s:O, s:O}", "version", TASUKI_VERSION, "root", call->ws->root, "state",
                  call->ws->state_path, "time", time, "locks", locks, "processes", processes);
    if (add_runs(call, answer, err) < 0 || add_requests(call, answer, err) < 0 || add_workflows(call, answer, err) < 0)
        return -1;
    if (call->is_brief)
        shorten(answer);
    *ret = json_incref(answer);
    return 0;
}
