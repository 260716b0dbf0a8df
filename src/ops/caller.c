/* caller.c - clients of the server have no process that we could look at: what proves who they are is a secret, and what keeps
 * them alive is a lease.
 *
 *  C1  Through the server only a registered instance acts: an id of a process, or any other text, proves nothing there.
 *  C2  Every call of a client renews its lease, and the TTL of its locks, which is all that other tools see.
 *  C3  A client that ends cleanly leaves nothing: first the locks and claims go, then the row that they are judged by, then what a call
 *      that was on its way has locked meanwhile. One that comes later finds that it has ended (read_back in lock/lock.c). */
#include "lock/lock.h"
#include "ops/lock_args.h"
#include "own/workflow.h"

#include <errno.h>
#include <string.h>

bool op_takes_caller(const struct op *op)
{
    return op_param_find(op, "instance") || !(op->flags & OP_READ_ONLY);
}

static char *take_text(const struct op *op, json_t *args, const char *name)
{
    const char *text = op_takes_caller(op) && !op_param_find(op, name) ? json_get_string(args, name, NULL) : NULL;
    char *copy = text ? strdup(text) : NULL;
    if (copy)
        json_object_del(args, name);
    return copy;
}

char *op_take_secret(const struct op *op, json_t *args)
{
    return take_text(op, args, OP_SECRET);
}

char *op_take_caller(const struct op *op, json_t *args)
{
    return take_text(op, args, "instance");
}

void op_hint_register(struct tsk_error *err)
{
    error_add_next(err, "curl --unix-socket .aiflow/server.sock 'http://localhost/api/status?register=true'");
}

void op_hint_proof(const struct op_call *call, const struct lock_proof *proof, struct tsk_error *err)
{
    if (!call->is_remote || proof->token || proof->instance || err->code != TSK_LOCK_LOST)
        return;
    error_set(err, TSK_INVALID_INPUT, "lock_proof_needed", NULL);
    op_hint_register(err);
}

/* ---- its locks ---- */

/* 1: the target of a lock in a list, which the instance holds and which stays when a command returns (`lock run` holds its lock
 * itself, and is let finish). 0: it is no such lock. */
static int find_target(struct tsk_workspace *ws, const char *root, const json_t *lock, const char *instance,
                       struct lock_target *ret, struct tsk_error *err)
{
    char project[PATH_MAX];
    const json_t *holder = json_object_get(lock, "holder");
    const char *hold = json_get_string(holder, "hold", "");
    const struct lock_kind *kind = lock_kind_by_name(json_get_string(lock, "kind", ""));
    if (!kind || !instance_is_same_id(json_get_string(holder, "instance", ""), instance) ||
        strcmp(hold, hold_name(HOLD_LIFE)) == 0 || strcmp(hold, hold_name(HOLD_FOREIGN)) == 0)
        return 0;
    if (kind->is_sprint && workspace_project_root(root, project, err) < 0)
        return -1;
    const char *id = kind->has_id || kind->is_sprint ? json_get_string(lock, "id", NULL) : NULL;
    return lock_target_init(ret, ws, kind, id, kind->is_sprint ? project : NULL, err) < 0 ? -1 : 1;
}

typedef int act_fn(struct lock_target *target, const struct lock_proof *proof, struct tsk_error *err);

/* What was done with the locks of an instance. */
struct acts {
    int count;
    bool has_failed;
    bool spares_others;     /* a lock of another agent below the same program stays */
    struct tsk_error first; /* the first failure: the others are tried all the same */
    json_t *unreadable;     /* the paths of locks that may be its; NULL: nobody asks */
};

static void acts_note_failure(struct acts *acts, const struct tsk_error *err)
{
    if (!acts->has_failed)
        acts->first = *err;
    acts->has_failed = true;
}

/* Does something with it, by the token that it has now: what somebody else takes meanwhile stays. */
static void act_on(struct lock_target *target, const char *instance, act_fn *act, struct acts *acts)
{
    struct tsk_error err;
    struct judgement found;
    if (lock_inspect(target, &found, &err) < 0) {
        acts_note_failure(acts, &err);
        return;
    }
    if (found.verdict == VERDICT_FREE || !instance_is_same_id(found.record.instance, instance) ||
        (acts->spares_others && !who_current_is(&found.record.who)))
        return;
    if (act(target, &(struct lock_proof){.token = found.record.token, .is_remote = true}, &err) == 0)
        acts->count++;
    else if (err.code != TSK_LOCK_LOST && err.code != TSK_LOCK_NOT_FOUND)
        acts_note_failure(acts, &err);
}

/* The same with each lock in the list. */
static void each_lock(struct tsk_workspace *ws, const char *root, const char *instance, act_fn *act, struct acts *acts)
{
    struct tsk_error err;
    json_t *locks CLEANUP_JSON = NULL;
    if (locks_list(ws, NULL, root, &locks, &err) < 0) {
        acts_note_failure(acts, &err);
        return;
    }
    json_each (locks, i, lock) {
        struct lock_target target;
        const char *state = json_get_string(lock, "state", NULL);
        if (acts->unreadable && state && strcmp(state, "unreadable") == 0)
            json_array_append(acts->unreadable, json_object_get(lock, "path"));
        int found = find_target(ws, root, lock, instance, &target, &err);
        if (found < 0)
            acts_note_failure(acts, &err);
        if (found <= 0)
            continue;
        act_on(&target, instance, act, acts);
        lock_target_clear(&target);
    }
}

static int release_one(struct lock_target *target, const struct lock_proof *proof, struct tsk_error *err)
{
    struct lock_outcome outcome;
    return lock_release_by(target, proof, &outcome, err);
}

/* Releases sprint locks with a file name or project root of their own; `lock list` does not show them. */
static void release_sprints(struct tsk_workspace *ws, const char *instance, const json_t *places, struct acts *acts)
{
    struct tsk_error err = {0};
    json_each (places, i, place) {
        struct lock_target target;
        const char *root = json_string_value(json_array_get(place, 0));
        if (lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_SPRINT), json_string_value(json_array_get(place, 1)),
                             root, &err) < 0) {
            if (err.sys_errno != ENOENT &&
                err.sys_errno != ENOTDIR) /* a place that is not there any more has no lock */
                acts_note_failure(acts, &err);
            continue;
        }
        act_on(&target, instance, release_one, acts);
        lock_target_clear(&target);
    }
}

static int renew_one(struct lock_target *target, const struct lock_proof *proof, struct tsk_error *err)
{
    struct lock_outcome outcome;
    return lock_renew_by(target, proof, 0, &outcome, err);
}

/* ---- its life ---- */

int op_renew_caller(struct tsk_workspace *ws, const char *instance, struct tsk_error *err)
{
    struct acts acts = {0}; /* the lease decides for tasuki: a TTL that could not be extended is for other tools */
    int renewed = instance_renew(ws, instance, err);
    if (renewed == 1) /* C2; only when the lease was written */
        each_lock(ws, NULL, instance, renew_one, &acts);
    return renewed < 0 ? -1 : 0;
}

int op_verify_caller(struct tsk_workspace *ws, const char *instance, const char *secret, struct tsk_error *err)
{
    if (!instance || !*instance)
        return 0;
    if (!instance_is_http(instance)) {
        error_set(err, TSK_UNAUTHORIZED, "instance_not_registered", "instance", instance, NULL);
        op_hint_register(err);
        return -1;
    }
    if (!ws)
        return error_set(err, TSK_NOT_FOUND, "instance_gone", "instance", instance, NULL);
    if (instance_verify_http(ws, instance, secret ? secret : "", err) < 0) {
        op_hint_register(err);
        return -1;
    }
    return op_renew_caller(ws, instance, err);
}

int op_end_instance(struct tsk_workspace *ws, const char *root, const char *instance, struct instance_end *ret,
                    struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    int claims = 0;
    json_t *sprints CLEANUP_JSON = NULL;
    json_t *unreadable CLEANUP_JSON = json_array();
    struct acts acts = {.unreadable = unreadable, .spares_others = !instance_is_http(instance)};
    each_lock(ws, root, instance, release_one, &acts); /* C3 */
    acts.unreadable = NULL;
    if (instance_list_sprints(ws, instance, &sprints, err) < 0)
        return -1;
    release_sprints(ws, instance, sprints, &acts);
    if (acts.has_failed) { /* the row stays: what is left is judged by it, and the call can be repeated */
        *err = acts.first;
        return -1;
    }
    if (owners_open(&owners, ws, err) < 0 ||
        workflow_release_all(&owners, instance, acts.spares_others, &claims, err) < 0)
        return -1;
    if (instance_is_http(instance)) {
        each_lock(ws, root, instance, release_one, &acts);
        release_sprints(ws, instance, sprints, &acts);
    }
    if (ret)
        *ret = (struct instance_end){acts.count, claims, json_incref(unreadable)};
    return 0;
}
