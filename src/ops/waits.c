#include "ops/waits.h"
#include "run/book.h"

#include <string.h>

void op_wait_begin(struct op_wait *wait, struct op_call *call, struct tsk_workspace *ws, const char *kind,
                   const char *id)
{
    wait->call = call;
    waiting_begin(&wait->file, ws, kind, id);
    if (call->waits)
        call->waits(call, kind, id, wait->file.since_ms);
}

void op_wait_end(struct op_wait *wait)
{
    if (wait->call && wait->call->waits)
        wait->call->waits(wait->call, NULL, NULL, 0);
    wait->call = NULL;
    waiting_end(&wait->file);
}

/* ---- those who wait ---- */

/* What can be waited for, as the lists have it. */
struct waits_scene {
    const json_t *locks, *workflows, *processes;
};

/* The party that started a run; owned, NULL: the run is not there, or does not say it. */
static json_t *run_starter(struct tsk_workspace *ws, const char *id)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, id, &run, &ignored) < 0 || book_run_stage(&run, &stage, &ignored) < 0)
        return NULL;
    return json_incref(json_object_get(stage, "started_by"));
}

/* For whom somebody waits; owned, NULL: nobody is known. */
static json_t *awaited(struct tsk_workspace *ws, const struct waits_scene *scene, const char *kind, const json_t *id)
{
    const char *name = json_is_string(id) ? json_string_value(id) : "";
    bool is_lock = strcmp(kind, "lock") == 0;
    const char *bare = is_lock && strchr(name, '/') ? strchr(name, '/') + 1 : name;
    json_each (scene->locks, i, one) {
        const char *lock = json_get_string(one, "id", "");
        if ((is_lock && (strcmp(lock, name) == 0 || strcmp(lock, bare) == 0)) ||
            (json_text_is(one, "kind", kind) && strcmp(lock, name) == 0))
            return json_incref(json_object_get(json_object_get(one, "holder"), "who"));
    }
    json_each (scene->workflows, i, one)
        if (strcmp(kind, "workflow") == 0 && json_text_is(one, "ulTaskId", name))
            return json_incref(json_object_get(one, "who"));
    size_t first = strcspn(name, ","); /* of several processes: "db, cache" */
    json_each (scene->processes, i, one) {
        if (strcmp(kind, "process") != 0)
            break;
        json_t *whole CLEANUP_JSON = json_unfinished(one);
        const char *process = json_get_string(whole, "id", "");
        if (strlen(process) == first && strncmp(process, name, first) == 0)
            return json_incref(json_object_get(whole, "started_by"));
    }
    return strcmp(kind, "run") == 0 ? run_starter(ws, name) : NULL;
}

json_t *waits_list(struct tsk_workspace *ws, const json_t *locks, const json_t *workflows, const json_t *processes)
{
    struct waits_scene scene = {locks, workflows, processes};
    json_t *list = waiting_list(ws);
    json_each (list, i, one) {
        json_t *whom = awaited(ws, &scene, json_get_string(one, "kind", ""), json_object_get(one, "id"));
        json_object_set_new(one, "for", whom ? whom : json_null());
    }
    return list;
}
