/* lookout_scene.c - what is dead, and which processes live. */
#include "base/listing.h"
#include "base/word.h"
#include "graph/rundir.h"
#include "ops/confirm.h"
#include "ops/lock_args.h"
#include "ops/lookout.h"
#include "ops/overview.h"
#include "own/workflow.h"
#include "proc/process.h"
#include "run/request.h"

#include <stdio.h>
#include <string.h>

struct dead {
    struct lookout *lookout;
    json_t *list;   /* of events */
    json_t *living; /* pids */
};

/* `data` is taken. */
static void add_death(struct dead *dead, const char *type, const char *session_id, const char *run_id, json_t *data)
{
    json_array_append_new(dead->list, json_pack("{s:s, s:s?, s:s?, s:o}", "type", type, "session_id", session_id,
                                                "run_id", run_id, "data", data));
}

static void add_living(struct dead *dead, int64_t pid)
{
    if (pid <= 0)
        return;
    const char *text = DIGITS(pid);
    json_object_set_new(dead->living, text, json_true());
}

static json_t *or_none(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return value ? value : json_null();
}

/* ---- locks ---- */

static void look_at_lock(struct dead *dead, const json_t *lock)
{
    const json_t *holder = json_object_get(lock, "holder"), *alive = json_object_get(holder, "alive");
    const char *kind = json_get_string(lock, "kind", ""), *run_id = json_get_string(holder, "run_id", NULL);
    const char *session_id = json_get_string(holder, "session_id", NULL);
    if (json_is_true(alive) && json_text_is(holder, "hostname", host_name()))
        add_living(dead, json_get_int(holder, "pid", 0));
    if (!json_is_false(alive))
        return;
    add_death(dead, "lock.holder_died", session_id, run_id,
              json_pack("{s:s, s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "kind", kind, "id", or_none(lock, "id"),
                        "fence", or_none(lock, "fence"), "created_at", or_none(lock, "created_at"), "pid",
                        or_none(holder, "pid"), "instance", or_none(holder, "instance"), "hold",
                        or_none(holder, "hold"), "how", or_none(holder, "how"), "who", or_none(holder, "who")));
    if (strcmp(kind, "queue") == 0)
        add_death(dead, "queue.interrupted", session_id, run_id,
                  json_pack("{s:O, s:O, s:O, s:O}", "fence", or_none(lock, "fence"), "pid", or_none(holder, "pid"),
                            "request_id", or_none(lock, "request_id"), "who", or_none(holder, "who")));
}

static int look_at_locks(struct dead *dead, struct tsk_error *err)
{
    json_t *locks CLEANUP_JSON = NULL;
    if (locks_list(dead->lookout->ws, NULL, dead->lookout->root, &locks, err) < 0)
        return -1;
    json_each (locks, i, lock)
        look_at_lock(dead, lock);
    return 0;
}

/* ---- runs ---- */

static int look_at_runs(struct dead *dead, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL;
    if (rundir_list_open(dead->lookout->ws, &ids, err) < 0)
        return -1;
    json_each (ids, i, id) {
        const char *name = json_string_value(id);
        json_t *stage CLEANUP_JSON = overview_stage(dead->lookout->ws, name);
        const char *status = json_get_string(stage, "status", "");
        struct proc_id runner;
        bool has_runner = stage && rundir_runner(stage, &runner);
        if (has_runner && strcmp(status, "RUNNING") == 0)
            add_living(dead, runner.pid);
        if (strcmp(status, "INTERRUPTED") != 0)
            continue;
        add_death(dead, "run.interrupted", name, name,
                  json_pack("{s:s, s:I, s:I, s:O, s:O}", "run_id", name, "pid",
                            (json_int_t)(has_runner ? runner.pid : 0), "start_ticks",
                            (json_int_t)(has_runner ? runner.start_ticks : 0), "request_id",
                            or_none(stage, "request_id"), "flow", or_none(stage, "flow")));
    }
    return 0;
}

/* ---- owners and instances ---- */

static int look_at_workflows(struct dead *dead, struct owners *owners, struct tsk_error *err)
{
    json_t *list CLEANUP_JSON = NULL;
    if (workflow_list(owners, NULL, true, &list, err) < 0)
        return -1;
    json_each (list, i, one) {
        const json_t *alive = json_object_get(one, "ownerAlive");
        if (json_is_true(alive))
            add_living(dead, json_get_int(one, "ownerPid", 0));
        if (json_is_false(alive))
            add_death(dead, "workflow.owner_died", NULL, NULL,
                      json_pack("{s:O, s:O, s:O, s:O, s:O}", "workflow", or_none(one, "ulTaskId"), "owner",
                                or_none(one, "ownerInstanceId"), "fence", or_none(one, "fence"), "how",
                                or_none(one, "how"), "who", or_none(one, "who")));
    }
    return 0;
}

static void add_ended(struct dead *dead, const char *id, const char *label, const char *how)
{
    add_death(dead, "instance.ended", NULL, NULL,
              json_pack("{s:s, s:s, s:s}", "instance", id, "label", label, "how", how));
}

/* V5 */
static int look_at_instances(struct dead *dead, struct db *db, struct tsk_error *err)
{
    json_t *seen = dead->lookout->instances, *label;
    json_t *alive CLEANUP_JSON = json_object(), *over CLEANUP_JSON = json_object();
    struct now now = clock_now();
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    const char *id;
    int more;
    if (db_query(db, &rows, err, "SELECT id FROM instance ORDER BY id") < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        struct instance_state state;
        struct who who;
        id = db_column_text(&rows, 0);
        if (instance_judge(db, id, &now, &state, err) < 0 || who_load(db, id, &who, err) < 0)
            return -1;
        if (state.alive == LIVE_DEAD)
            json_object_set_new(over, id, json_string(state.how));
        else
            json_object_set_new(alive, id, json_string(who.label[0] ? who.label : id));
        if (state.alive == LIVE_ALIVE)
            add_living(dead, state.process.pid);
    }
    if (more < 0)
        return -1;
    json_object_foreach (seen, id, label)
        if (!json_object_get(alive, id))
            add_ended(dead, id, json_string_value(label), json_get_string(over, id, "it is not registered any more"));
    json_object_foreach (alive, id, label)
        if (!json_object_get(seen, id)) {
            json_object_set(seen, id, label);
            dead->lookout->is_stale = true;
        }
    return 0;
}

static int look_at_owners(struct dead *dead, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_workspace *ws = dead->lookout->ws;
    if (!db_exists(ws->state_dir))
        return 0;
    return owners_open(&owners, ws, err) < 0 || look_at_workflows(dead, &owners, err) < 0 ||
                   look_at_instances(dead, &owners.db, err) < 0
               ? -1
               : 0;
}

/* ---- questions ---- */

static void look_at_questions(struct dead *dead)
{
    json_t *list CLEANUP_JSON = confirm_list(dead->lookout->ws, true);
    json_each (list, i, one)
        add_death(dead, "confirm.expired", NULL, NULL,
                  json_pack("{s:O, s:O, s:O}", "confirmation", or_none(one, "id"), "operation",
                            or_none(one, "operation"), "instance", or_none(one, "instance")));
}

/* ---- all of it ---- */

int lookout_scene(struct lookout *lookout, json_t **ret_dead, json_t **ret_living, struct tsk_error *err)
{
    json_t *list CLEANUP_JSON = json_array(), *living CLEANUP_JSON = json_object();
    struct dead dead = {.lookout = lookout, .list = list, .living = living};
    if (look_at_locks(&dead, err) < 0 || look_at_runs(&dead, err) < 0 || look_at_owners(&dead, err) < 0)
        return -1;
    look_at_questions(&dead);
    *ret_dead = json_incref(list);
    *ret_living = json_incref(living);
    return 0;
}

json_t *lookout_requests(const struct tsk_workspace *ws)
{
    json_t *found = json_object();
    struct listing files CLEANUP(listing_close);
    listing_open(&files, ws->state_dir, REQUEST_FOLDER, 0);
    for (const char *name; (name = listing_next(&files));) {
        struct stat st;
        char id[NAME_MAX + 1], looks[80];
        size_t len = strlen(name), suffix = strlen(REQUEST_SUFFIX);
        if (name[0] == '.' || len <= suffix || strcmp(name + len - suffix, REQUEST_SUFFIX) != 0 ||
            fs->fstatat(files.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        snprintf(id, sizeof id, "%.*s", (int)(len - suffix), name);
        snprintf(looks, sizeof looks, "%lld %ld %llu %lld",
                 (long long)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000, st.st_mtim.tv_nsec,
                 (unsigned long long)st.st_ino, (long long)st.st_size);
        json_object_set_new(found, id, json_string(looks)); /* a name that is not UTF-8 is left out */
    }
    return found;
}
