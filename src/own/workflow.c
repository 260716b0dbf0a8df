#include "own/workflow.h"
#include "base/log.h"
#include "base/word.h"

#include <stdio.h>
#include <string.h>

#define WORKFLOW_COLUMNS "id, owner, fence, claimed_at, who"

int owners_open(struct owners *owners, struct tsk_workspace *ws, struct tsk_error *err)
{
    *owners = (struct owners){.ws = ws};
    return db_open(&owners->db, ws->state_dir, err);
}

void owners_close(struct owners *owners)
{
    db_close(&owners->db);
}

/* ---- reading ---- */

static void workflow_read_row(const struct db_rows *rows, struct workflow *ret)
{
    const char *owner = db_column_text(rows, 1);
    *ret = (struct workflow){.fence = db_column_int(rows, 2), .claimed_at_ms = db_column_int(rows, 3)};
    snprintf(ret->id, sizeof ret->id, "%s", db_column_text(rows, 0));
    snprintf(ret->owner, sizeof ret->owner, "%s", owner ? owner : "");
    const char *who = db_column_text(rows, 4);
    json_t *json CLEANUP_JSON = owner && who ? json_loads(who, 0, NULL) : NULL;
    if (json)
        who_of_json(json, &ret->who);
}

static int workflow_find_row(struct db *db, const char *id, struct workflow *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    *ret = (struct workflow){.state = {.alive = LIVE_DEAD}};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    if (db_query(db, &rows, err, "SELECT " WORKFLOW_COLUMNS " FROM workflow WHERE id = ?1", DB_TEXT(id)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found == 1)
        workflow_read_row(&rows, ret);
    return found;
}

/* With its owner's state; also inside a transaction. */
static int workflow_look_in(struct db *db, const char *id, const struct instance *caller, const struct now *now,
                            struct workflow *ret, struct tsk_error *err)
{
    int found = workflow_find_row(db, id, ret, err);
    if (found < 0 || !ret->owner[0])
        return found;
    if (instance_judge(db, ret->owner, now, &ret->state, err) < 0)
        return -1;
    ret->is_callers = caller && instance_is(caller, ret->owner, &ret->state) &&
                      (!caller->is_above || who_current_is(&ret->who)); /* W5 */
    return found;
}

int workflow_look(struct owners *owners, const char *id, const struct instance *caller, struct workflow *ret,
                  struct tsk_error *err)
{
    struct now now = clock_now();
    int found = workflow_look_in(&owners->db, id, caller, &now, ret, err);
    if (found == 1 && ret->owner[0])
        who_add_note(owners->ws, &ret->who);
    return found;
}

/* ---- changing ---- */

static int add_event(struct db *db, const struct now *now, const char *type, const struct workflow *wf, const char *how,
                     struct tsk_error *err)
{
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "workflow", wf->id);
    buf_json_pair(&data, "owner", wf->owner[0] ? wf->owner : NULL);
    buf_json_pair(&data, "before", wf->before[0] ? wf->before : NULL);
    buf_json_pair(&data, "how", how);
    buf_json_pair_int(&data, "fence", wf->fence);
    buf_puts(&data, "}");
    return db_event(db, now, &(struct event){.type = type, .data = buf_str(&data)}, err);
}

/* Inside the transaction in which *wf was read: `owner` ("": nobody) follows wf->owner. */
static int workflow_move(struct db *db, const struct now *now, const char *owner, const char *how, struct workflow *wf,
                         struct tsk_error *err)
{
    snprintf(wf->before, sizeof wf->before, "%s", wf->owner);
    snprintf(wf->owner, sizeof wf->owner, "%s", owner);
    wf->fence += owner[0] ? 1 : 0; /* W2 */
    wf->claimed_at_ms = now->wall_ms;
    wf->was_taken = true;
    wf->who = owner[0] ? *who_current() : (struct who){.pid = 0};
    if (strcmp(wf->who.instance, owner) != 0) /* an id of another form, or of another process */
        who_copy(wf->who.instance, sizeof wf->who.instance, owner);
    struct buf who CLEANUP(buf_clear) = BUF_INIT;
    who_put(&who, &wf->who);
    if (db_exec(db, err,
                "INSERT INTO workflow (id, owner, fence, claimed_at, created_at, updated_at, who)"
                " VALUES (?1, ?2, ?3, ?4, ?4, ?4, ?5) ON CONFLICT (id) DO"
                " UPDATE SET owner = ?2, fence = ?3, claimed_at = ?4, updated_at = ?4, who = ?5",
                DB_TEXT(wf->id), DB_TEXT(text_or_null(owner)), DB_INT(wf->fence), DB_INT(now->wall_ms),
                DB_TEXT(owner[0] ? buf_str(&who) : NULL)) < 0)
        return -1;
    return add_event(db, now, owner[0] ? "workflow.claimed" : "workflow.released", wf, how, err);
}

/* The change is committed; its event may go out with the next one's. */
static int owners_finish(struct owners *owners, struct tsk_error *err)
{
    struct tsk_error problem = {0};
    if (db_commit(&owners->db, err) < 0)
        return -1;
    if (workspace_flush_outbox(owners->ws, &owners->db, &problem) < 0)
        log_problem(&problem);
    return 0;
}

static int workflow_take(struct db *db, const struct now *now, struct instance *caller, const char *how,
                         struct workflow *wf, struct tsk_error *err)
{
    if (instance_keep(db, now, caller, err) < 0 || workflow_move(db, now, caller->id, how, wf, err) < 0)
        return -1;
    wf->is_callers = true;
    return instance_judge(db, caller->id, now, &wf->state, err);
}

/* What a claim finds and may do. */
enum step { STEP_NOTHING, STEP_TAKE, STEP_REFUSE };

static enum step workflow_step_of(const struct workflow *wf, unsigned flags)
{
    if (wf->is_callers)
        return STEP_NOTHING;
    if (!wf->owner[0])
        return flags & WORKFLOW_ONLY_LOOK ? STEP_NOTHING : STEP_TAKE;
    if (wf->state.alive == LIVE_DEAD && !(flags & WORKFLOW_NO_AUTO_CLAIM))
        return STEP_TAKE;
    return flags & WORKFLOW_ONLY_LOOK ? STEP_NOTHING : STEP_REFUSE;
}

/* Inside a transaction (W1). */
static int workflow_claim_in(struct owners *owners, const char *id, struct instance *caller, unsigned flags,
                             struct workflow *ret, struct tsk_error *err)
{
    struct now now = clock_now();
    if (workflow_look_in(&owners->db, id, caller, &now, ret, err) < 0)
        return -1;
    switch (workflow_step_of(ret, flags)) {
    case STEP_NOTHING:
        db_rollback(&owners->db);
        return 0;
    case STEP_REFUSE:
        return workflow_refuse(ret, TSK_WORKFLOW_OWNED_BY_OTHER, err);
    case STEP_TAKE:
        break;
    }
    if (workflow_take(&owners->db, &now, caller, ret->owner[0] ? "dead owner" : "free", ret, err) < 0)
        return -1;
    return owners_finish(owners, err);
}

int workflow_claim(struct owners *owners, const char *id, struct instance *caller, unsigned flags, struct workflow *ret,
                   struct tsk_error *err)
{
    /* Who only has to look does not wait for those who write. */
    if (workflow_look(owners, id, caller, ret, err) < 0)
        return -1;
    enum step step = workflow_step_of(ret, flags);
    if (step == STEP_NOTHING)
        return 0;
    if (step == STEP_REFUSE)
        return workflow_refuse(ret, TSK_WORKFLOW_OWNED_BY_OTHER, err);
    if (db_begin(&owners->db, err) < 0)
        return -1;
    int result = workflow_claim_in(owners, id, caller, flags, ret, err);
    db_rollback(&owners->db);
    return result;
}

/* W4. */
static bool is_as_confirmed(const struct workflow *found, const struct workflow *confirmed)
{
    return confirmed && confirmed->fence == found->fence && strcmp(confirmed->owner, found->owner) == 0;
}

static int workflow_force_in(struct owners *owners, const char *id, struct instance *caller,
                             const struct workflow *confirmed, struct workflow *ret, struct tsk_error *err)
{
    struct now now = clock_now();
    if (workflow_look_in(&owners->db, id, caller, &now, ret, err) < 0)
        return -1;
    if (ret->is_callers)
        return 0;
    bool is_dead = !ret->owner[0] || ret->state.alive == LIVE_DEAD;
    if (!is_dead && !is_as_confirmed(ret, confirmed))
        return workflow_refuse_as(ret, TSK_NEEDS_CONFIRMATION, "workflow_force_needs_yes", err);
    const char *how = !ret->owner[0] ? "free" : is_dead ? "dead owner" : "force";
    if (workflow_take(&owners->db, &now, caller, how, ret, err) < 0)
        return -1;
    return owners_finish(owners, err);
}

int workflow_force(struct owners *owners, const char *id, struct instance *caller, const struct workflow *confirmed,
                   struct workflow *ret, struct tsk_error *err)
{
    if (db_begin(&owners->db, err) < 0)
        return -1;
    int result = workflow_force_in(owners, id, caller, confirmed, ret, err);
    db_rollback(&owners->db);
    return result;
}

static int workflow_release_in(struct owners *owners, const char *id, const struct instance *caller,
                               struct workflow *ret, struct tsk_error *err)
{
    struct now now = clock_now();
    if (workflow_look_in(&owners->db, id, caller, &now, ret, err) < 0)
        return -1;
    if (!ret->owner[0])
        return 0;
    if (!ret->is_callers) /* W3 */
        return workflow_refuse(ret, TSK_WORKFLOW_OWNED_BY_OTHER, err);
    ret->is_callers = false;
    if (workflow_move(&owners->db, &now, "", "released", ret, err) < 0)
        return -1;
    return owners_finish(owners, err);
}

int workflow_release(struct owners *owners, const char *id, const struct instance *caller, struct workflow *ret,
                     struct tsk_error *err)
{
    if (db_begin(&owners->db, err) < 0)
        return -1;
    int result = workflow_release_in(owners, id, caller, ret, err);
    db_rollback(&owners->db);
    return result;
}

/* ---- all of an instance ---- */

/* The ids of its workflows: owned array of strings. */
static int ids_of(struct db *db, const char *instance, json_t **ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    json_t *ids CLEANUP_JSON = json_array();
    int more;
    if (db_query(db, &rows, err, "SELECT id FROM workflow WHERE owner = ?1", DB_TEXT(instance)) < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1)
        json_array_append_new(ids, json_string(db_column_text(&rows, 0)));
    if (more == 0)
        *ret = json_incref(ids);
    return more;
}

static int release_all(struct owners *owners, const char *instance, bool spares_others, int *ret_count,
                       struct tsk_error *err)
{
    struct now now = clock_now();
    json_t *ids CLEANUP_JSON = NULL;
    if (ids_of(&owners->db, instance, &ids, err) < 0)
        return -1;
    json_each (ids, i, id) {
        struct workflow wf;
        if (workflow_find_row(&owners->db, json_string_value(id), &wf, err) < 0)
            return -1;
        if (spares_others && !who_current_is(&wf.who))
            continue;
        if (workflow_move(&owners->db, &now, "", "owner ended", &wf, err) < 0)
            return -1;
        ++*ret_count;
    }
    if (instance_is_http(instance) &&
        db_exec(&owners->db, err, "DELETE FROM instance WHERE id = ?1", DB_TEXT(instance)) < 0)
        return -1;
    return owners_finish(owners, err);
}

int workflow_release_all(struct owners *owners, const char *instance, bool spares_others, int *ret_count,
                         struct tsk_error *err)
{
    int count = 0;
    if (db_begin(&owners->db, err) < 0)
        return -1;
    int result = release_all(owners, instance, spares_others, &count, err);
    db_rollback(&owners->db);
    if (ret_count)
        *ret_count = count;
    return result;
}

/* ---- for readers ---- */

static json_t *alive_json(const struct workflow *wf)
{
    if (!wf->owner[0] || wf->state.alive == LIVE_UNKNOWN)
        return json_null();
    return json_boolean(wf->state.alive == LIVE_ALIVE);
}

static json_t *pid_json(const struct workflow *wf)
{
    return wf->owner[0] && wf->state.pid ? json_integer(wf->state.pid) : json_null();
}

json_t *workflow_json(const struct workflow *wf, bool has_caller)
{
    json_t *json = json_object();
    if (has_caller)
        json_object_set_new(json, "owned", json_boolean(wf->is_callers));
    json_object_set_new(json, "ulTaskId", json_string(wf->id));
    json_set_text(json, "ownerInstanceId", wf->owner);
    json_object_set_new(json, "ownerPid", pid_json(wf));
    json_object_set_new(json, "ownerAlive", alive_json(wf));
    json_object_set_new(json, "fence", json_integer(wf->fence));
    json_object_set_new(json, "who", wf->who.label[0] ? who_json(&wf->who) : json_null());
    return json;
}

int workflow_list(struct owners *owners, const char *owner, bool owned, json_t **ret, struct tsk_error *err)
{
    struct now now = clock_now();
    struct db_rows rows CLEANUP(db_rows_free);
    json_t *list CLEANUP_JSON = json_array();
    int more;
    if (db_query(&owners->db, &rows, err,
                 "SELECT " WORKFLOW_COLUMNS
                 " FROM workflow WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR owner IS NOT NULL)"
                 " ORDER BY claimed_at DESC, id",
                 DB_TEXT(owner), DB_TEXT(owned ? "" : NULL)) < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        struct workflow wf;
        workflow_read_row(&rows, &wf);
        if (wf.owner[0] && instance_judge(&owners->db, wf.owner, &now, &wf.state, err) < 0)
            return -1;
        who_add_note(owners->ws, &wf.who);
        json_t *one = workflow_json(&wf, false);
        json_object_set_new(one, "claimed_at", json_string(TIME_EXACT(wf.claimed_at_ms)));
        if (wf.owner[0])
            json_object_set_new(one, "how", json_string(wf.state.how));
        json_array_append_new(list, one);
    }
    if (more == 0)
        *ret = json_incref(list);
    return more;
}

/* ---- refusals ---- */

static void add_details(const struct workflow *wf, enum tsk_code code, struct tsk_error *err)
{
    json_t *details CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s?, s:o, s:s, s:b}", "error", tsk_code_name(code), "ulTaskId", wf->id,
                  "ownerInstanceId", wf->owner[0] ? wf->owner : NULL, "ownerPid", pid_json(wf), "outcomeCode",
                  "NONRETRYABLE_FAILURE", "retryRecommended", false);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, details, false);
    error_add_beside(err, "details", buf_str(&text));
}

int workflow_refuse_as(const struct workflow *wf, enum tsk_code code, const char *text, struct tsk_error *err)
{
    enum liveness alive = wf->owner[0] ? wf->state.alive : LIVE_DEAD;
    if (!text)
        text = alive == LIVE_ALIVE  ? "workflow_owned_alive"
               : alive == LIVE_DEAD ? "workflow_owned_dead"
                                    : "workflow_owned_unknown";
    struct buf label CLEANUP(buf_clear) = BUF_INIT;
    json_t *who CLEANUP_JSON = wf->who.label[0] ? who_json(&wf->who) : NULL;
    who_put_label(&label, who);
    error_set(err, code, text, "workflow", wf->id, "owner", wf->owner[0] ? wf->owner : "-", NULL);
    error_add(err, "by", label.len ? buf_str(&label) : wf->owner[0] ? wf->owner : "-");
    if (who) {
        buf_reset(&label);
        json_write(&label, who, false);
        error_add_json(err, "who", buf_str(&label));
    }
    error_add(err, "how", wf->owner[0] ? wf->state.how : NULL);
    error_add_int(err, "fence", wf->fence);
    add_details(wf, code == TSK_NEEDS_CONFIRMATION ? TSK_WORKFLOW_OWNED_BY_OTHER : code, err);
    if (alive == LIVE_DEAD)
        return error_add_next(err, "tasuki own claim %s", wf->id);
    /* Look, wait, and force last. After a refused force only a person can say yes, so the hint does not. A pid of another
     * host, or of another pid namespace, means nothing here. */
    if (alive == LIVE_ALIVE && wf->state.pid)
        error_add_next(err, "ps -p %d", (int)wf->state.pid);
    error_add_next(err, "tasuki own claim %s --wait 10m", wf->id);
    if (code != TSK_NEEDS_CONFIRMATION)
        error_add_next(err, "tasuki own force-claim %s", wf->id);
    return -1;
}

int workflow_refuse(const struct workflow *wf, enum tsk_code code, struct tsk_error *err)
{
    return workflow_refuse_as(wf, code, NULL, err);
}
