#include "proc/reconcile.h"

#include "base/fs.h"
#include "base/log.h"
#include "hold/protocol.h"
#include "proc/actor.h"
#include "proc/kin.h"
#include "proc/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- repairs --------------------------------------------------------------------------------------------------- */

static int proc_adopt(struct proc_registry *reg, struct proc *p, const struct look *look, int *lock,
                      struct tsk_error *err)
{
    struct launch launch;
    int result = launch_adopt(reg, p, &look->status, lock, &launch, err);
    if (result == 0)
        result = launch_result(&launch, err);
    launch_clear(&launch);
    return result;
}

/* Nobody saw the end: say so, and when it was at the latest. */
static int declare_lost(struct proc *p, const struct look *look, struct tsk_error *err)
{
    struct now now = clock_now();
    char rest[256];
    struct proc_status status = look->status;
    bool was_stopped = look->has_want && look->want.is_down;
    status.has_ended = true;
    status.raw_status = -1;
    status.stopped_at_ms = look->was_rebooted ? now.wall_ms - now.boot_ms : now.wall_ms;
    if (status.stopped_at_ms < status.started_at_ms)
        status.stopped_at_ms = status.started_at_ms; /* the clock was set */
    snprintf(status.phase, sizeof status.phase, "ended");
    snprintf(status.by, sizeof status.by, was_stopped ? "stop" : "unknown");
    snprintf(status.reason, sizeof status.reason, "%s",
             look->was_rebooted ? "the machine was restarted while it ran"
                                : "it ended together with its holder process");
    snprintf(rest, sizeof rest, ",\"reason\":\"%s\"", status.reason);
    now.wall_ms = status.stopped_at_ms;
    /* The record first: if we are killed now, the next look adds the end to the history (proc_tell_exit). */
    if (proc_status_write(p->dir, &status, err) < 0)
        return -1;
    if (proc_history_put(p->dir, &now, "lost", status.n, rest, err) < 0)
        return -1;
    /* What was still in its pipes went with the last of the two. */
    bool had_pipes = strcmp(status.log, "direct") != 0;
    if (had_pipes && proc_history_put(p->dir, &now, "gap", status.n, ",\"stream\":\"both\"", err) < 0)
        return -1;
    return 0;
}

/* The restart that a dead holder owes. The end of the last start goes into the history before the next one. */
static int proc_revive(struct proc_registry *reg, struct proc *p, const struct look *look, int *lock,
                       struct tsk_error *err)
{
    struct launch launch = {.report = -1, .holder_fd = -1};
    struct launch_options options = {
        .n = look->status.n + 1, .restarts = look->status.restarts + 1, .log_mode = look->status.log};
    int result = proc_tell_exit(p, &look->status, err);
    if (result == 0)
        result = launch_start(reg, p, &options, lock, &launch, err);
    if (result == 0)
        result = launch_result(&launch, err);
    launch_clear(&launch);
    return result;
}

static bool policy_wants_up(const struct proc *p, const struct look *look)
{
    const json_t *max = json_object_get(p->spec, "max_retries");
    if (look->was_rebooted || look->is_foreign || !look->has_want || look->want.is_down)
        return false;
    if (json_is_integer(max) && look->status.retries >= json_integer_value(max))
        return false;
    return proc_spec_restart(p->spec) != PROC_RESTART_NO;
}

/* A child that closed its life lock may still run in its namespace. Where we can see it, its environment tells. */
static int is_seen_alive(const struct look *look, struct tsk_error *err)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    struct kin_list found CLEANUP(kin_list_clear) = {.count = 0};
    kin_key_word(&keys, 0, HOLD_ENV_START, look->status.start_id);
    if (kin_scan(&keys, &found, err) < 0)
        return -1;
    return found.count > 0;
}

/* With the guard and, in *lock, holder.lock: no other process is in charge, and the files do not change. (The look found a holder:
 * this process.) */
static int act_on_look(struct proc_registry *reg, struct proc *p, const struct look *look, int *lock,
                       struct tsk_error *err)
{
    bool is_running = !look->status.has_ended;
    if (look->status.n == 0 || look->is_starting)
        return 0;
    if (is_running && look->child_lives)
        return look->is_foreign ? 0 : proc_adopt(reg, p, look, lock, err);
    int seen = is_running && look->is_foreign ? is_seen_alive(look, err) : 0;
    if (seen)
        return seen < 0 ? -1 : 0;
    if (is_running && declare_lost(p, look, err) < 0)
        return -1;
    bool is_due =
        is_running || (strcmp(look->status.phase, "backoff") == 0 && clock_now().wall_ms >= look->status.next_start_ms);
    return is_due && policy_wants_up(p, look) ? proc_revive(reg, p, look, lock, err) : 0;
}

/* The guard first, then holder.lock, as a start takes them; then a look, because only now do the files stay as they are. */
static int reconcile_files(struct proc_registry *reg, struct proc *p, bool is_guarded, struct tsk_error *err)
{
    struct look look;
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (!is_guarded && proc_guard_take(reg, p->id, false, &guard, err) < 0)
        return -1;
    int lock CLEANUP_FD = proc_holder_lock(p->dir, 0);
    if (lock < 0)
        return errno == EAGAIN ? 0 : fs_error(err, "lock", p->dir, "holder.lock");
    return look_at(p->dir, &look, err) < 0 ? -1 : act_on_look(reg, p, &look, &lock, err);
}

int proc_take_up(struct proc_registry *reg, struct proc *p, struct tsk_error *err)
{
    return reconcile_files(reg, p, true, err) < 0 ? -1 : proc_reconcile(reg, p, true, err);
}

/* A command that only looks does not run another user's command; this matters above all for root. */
static bool is_own_folder(int dir)
{
    struct stat st;
    return fs->fstat(dir, &st) == 0 && st.st_uid == geteuid();
}

int proc_reconcile(struct proc_registry *reg, struct proc *p, bool is_guarded, struct tsk_error *err)
{
    struct look look;
    struct proc_probe ready, health;
    if (look_settled(p->dir, &look, err) < 0)
        return -1;
    if (look.need >= LOOK_ADOPT && is_own_folder(p->dir)) {
        struct tsk_error problem = {0};
        if (reconcile_files(reg, p, is_guarded, &problem) < 0)
            log_problem(&problem); /* a workspace that may only be read can still be looked at */
        if (look_settled(p->dir, &look, err) < 0)
            return -1;
    }
    proc_spec_probe(p->spec, "ready", &ready);
    proc_spec_probe(p->spec, "health", &health);
    look_to_view(&look, p->dir, ready.kind != PROBE_NONE, health.kind != PROBE_NONE, &p->view);
    return 0;
}

/* ---- the database ---------------------------------------------------------------------------------------------- */

static json_t *time_json(int64_t wall_ms)
{
    return json_string(TIME_EXACT(wall_ms));
}

json_t *proc_state_json(const struct proc_view *view)
{
    json_t *inner = json_object();
    if (view->state == PROC_NOT_STARTED) {
        json_decref(inner);
        return json_string(proc_state_names[view->state]);
    }
    if (view->state == PROC_RUNNING)
        json_object_set_new(inner, "pid", json_integer(view->child.pid));
    else
        json_object_set_new(inner, "exit_code", json_integer(view->exit_code));
    if (view->state == PROC_FAILED)
        json_object_set_new(inner, "error", json_string(view->error));
    json_object_set_new(inner, "started_at", time_json(view->started_at_ms));
    if (view->state != PROC_RUNNING)
        json_object_set_new(inner, "stopped_at", time_json(view->stopped_at_ms));
    return json_pack("{s:o}", proc_state_names[view->state], inner);
}

static const char *event_type(const char *what)
{
    static const char *const types[][2] = {
        {"started", "process.started"},
        {"adopted", "process.adopted"},
        {"exited", "process.exited"},
        {"restarting", "process.restarting"},
        {"gave_up", "process.gave_up"},
        {"start_failed", "process.start_failed"},
        {"lost", "process.lost"},
        {"truncated", "LOG_TRUNCATED"},
        {"gap", "LOG_GAP"},
        {"log_full", "LOG_DISK_FULL"},
        {"log_resumed", "LOG_RESUMED"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i][0], what) == 0)
            return types[i][1];
    return NULL;
}

/* Beside the raw wait status, what people and programs ask for. */
static void put_exit_event(json_t *object)
{
    const json_t *status = json_object_get(object, "status");
    if (!json_is_integer(status))
        return;
    int raw = (int)json_integer_value(status);
    const char *name = raw != -1 && WIFSIGNALED(raw) ? sigabbrev_np(WTERMSIG(raw)) : NULL;
    json_object_set_new(object, "exit_code",
                        json_integer(raw == -1          ? -1
                                     : WIFSIGNALED(raw) ? 128 + WTERMSIG(raw)
                                                        : WEXITSTATUS(raw)));
    if (name)
        json_object_set_new(object, "signal", json_sprintf("SIG%s", name));
}

/* A start and a stop have a party behind them. What a process, its policy or its end does has none. */
static void put_actor(struct buf *b, const struct proc *p, const json_t *fact)
{
    struct who who;
    int64_t n;
    bool is_start = json_text_is(fact, "what", "started");
    bool is_stop = json_text_is(fact, "by", "stop");
    if ((is_start || is_stop) && proc_actor_read(p->dir, is_start ? PROC_STARTED_BY : PROC_STOPPED_BY, &who, &n) &&
        n == json_get_int(fact, "n", 0))
        who_put(b, &who);
    else
        buf_puts(b, "null");
}

static int put_fact(struct proc_registry *reg, const struct proc *p, json_t *fact, struct tsk_error *err)
{
    const char *type = event_type(json_get_string(fact, "what", "")), *id = p->id;
    struct now at = {.wall_ms = json_get_int(fact, "time", 0)};
    if (!type)
        return 0;
    struct buf data CLEANUP(buf_clear) = BUF_INIT, actor CLEANUP(buf_clear) = BUF_INIT;
    put_actor(&actor, p, fact);
    json_t *object CLEANUP_JSON =
        json_pack("{s:s, s:I}", "process_id", id, "run", (json_int_t)json_get_int(fact, "n", 0));
    json_object_del(fact, "time");
    json_object_del(fact, "what");
    json_object_del(fact, "n");
    json_object_update(object, fact);
    put_exit_event(object);
    json_write(&data, object, false);
    return db_event(&reg->db, &at, &(struct event){.type = type, .data = buf_str(&data), .actor = buf_str(&actor)},
                    err);
}

static bool is_end_of(const json_t *fact, int64_t n)
{
    const char *what = json_get_string(fact, "what", "");
    return json_get_int(fact, "n", 0) == n && (strcmp(what, "exited") == 0 || strcmp(what, "lost") == 0);
}

static int put_facts(struct proc_registry *reg, struct proc *p, int64_t *ret_next, struct tsk_error *err)
{
    json_t *facts CLEANUP_JSON = NULL;
    if (proc_history_read(p->dir, p->history_offset, &facts, ret_next, err) < 0)
        return -1;
    json_each (facts, i, fact) {
        int64_t n = json_get_int(fact, "n", 0);
        if (n > p->exit_run && is_end_of(fact, n))
            p->exit_run = n;
        if (put_fact(reg, p, fact, err) < 0)
            return -1;
    }
    return 0;
}

static bool misses_exit(const struct proc *p)
{
    bool has_ended = p->view.state == PROC_STOPPED || p->view.state == PROC_FAILED;
    return has_ended && !p->view.has_holder && p->view.n > p->exit_run;
}

int proc_tell_exit(struct proc *p, const struct proc_status *status, struct tsk_error *err)
{
    char rest[256];
    int64_t next;
    json_t *facts CLEANUP_JSON = NULL;
    if (!status->has_ended || status->n <= p->exit_run)
        return 0;
    if (proc_history_read(p->dir, p->history_offset, &facts, &next, err) < 0)
        return -1;
    json_each (facts, i, fact)
        if (is_end_of(fact, status->n))
            return 0;
    struct now then = {.wall_ms = status->stopped_at_ms};
    snprintf(rest, sizeof rest, ",\"status\":%d,\"by\":\"%s\"", status->raw_status, status->by);
    return proc_history_put(p->dir, &then, "exited", status->n, rest, err);
}

static int tell_exit(struct proc *p, struct tsk_error *err)
{
    struct proc_status status;
    int lock CLEANUP_FD = proc_holder_lock(p->dir, 0);
    if (lock < 0)
        return 0; /* somebody is in charge again */
    int found = proc_status_read(p->dir, &status, err);
    return found == 1 ? proc_tell_exit(p, &status, err) : found;
}

/* Inside the transaction: the row may have been brought up to date by somebody else meanwhile. 1: it is still there. */
static int read_offset(struct proc_registry *reg, struct proc *p, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(&reg->db, &rows, err, "SELECT history_offset, exit_run FROM process WHERE id = ?1", DB_TEXT(p->id)) <
        0)
        return -1;
    int found = db_next(&rows, err);
    if (found == 1) {
        p->history_offset = db_column_int(&rows, 0);
        p->exit_run = db_column_int(&rows, 1);
    }
    return found;
}

/* A list reads it from the row: it changes with a start, which is a fact of the history. */
static int read_starter(struct proc *p)
{
    struct who who;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (proc_starter(p->dir, p->view.n, &who))
        who_put(&text, &who);
    free(p->started_by);
    p->started_by = strdup(buf_str(&text));
    return p->started_by ? 0 : -1;
}

/* The facts of the history become events, then an end that the history misses is added to it and becomes one, too; the row, which
 * says up to where this was done, is last and in the same transaction. */
static int sync_one(struct proc_registry *reg, struct proc *p, const char *state, struct tsk_error *err)
{
    int64_t next;
    int found = read_offset(reg, p, err);
    if (found <= 0)
        return found;
    if (p->dir < 0) /* somebody removed it */
        next = 0;
    else if (put_facts(reg, p, &next, err) < 0)
        return -1;
    p->history_offset = next;
    if (misses_exit(p) && (tell_exit(p, err) < 0 || put_facts(reg, p, &next, err) < 0))
        return -1;
    p->history_offset = next;
    if (read_starter(p) < 0)
        return error_errno(err, "read", p->id);
    return db_exec(&reg->db, err,
                   "UPDATE process SET state = ?2, history_offset = ?3, exit_run = ?4, started_by = ?5 WHERE id = ?1",
                   DB_TEXT(p->id), DB_TEXT(state), DB_INT(next), DB_INT(p->exit_run), DB_TEXT(p->started_by));
}

/* What the row should say, or "" when it says so already. */
static void state_text(const struct proc *p, struct buf *b)
{
    json_t *state CLEANUP_JSON = proc_state_json(&p->view);
    json_write(b, state, false);
    if (strcmp(buf_str(b), p->state_text) == 0 && !misses_exit(p) &&
        (p->dir < 0 || proc_history_ends_at(p->dir, p->history_offset)))
        buf_reset(b);
}

static int sync_all(struct proc_registry *reg, struct proc *list, size_t count, bool *ret_changed,
                    struct tsk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct buf state CLEANUP(buf_clear) = BUF_INIT;
        if (list[i].known || strcmp(list[i].view.phase, PROC_UNREADABLE) == 0)
            continue;
        state_text(&list[i], &state);
        list[i].is_synced = !state.len;
        if (!state.len)
            continue;
        if (!*ret_changed && db_begin(&reg->db, err) < 0)
            return -1;
        *ret_changed = true;
        if (sync_one(reg, &list[i], buf_str(&state), err) < 0)
            return -1;
    }
    return 0;
}

int proc_sync(struct proc_registry *reg, struct proc *list, size_t count, struct tsk_error *err)
{
    bool has_changed = false;
    if (reg->db.is_read_only)
        return 0;
    if (sync_all(reg, list, count, &has_changed, err) < 0) {
        db_rollback(&reg->db);
        return -1;
    }
    if (has_changed && db_commit(&reg->db, err) < 0)
        return -1;
    struct tsk_error problem = {0};
    if ((has_changed || !reg->outbox_is_empty) && workspace_flush_outbox(reg->ws, &reg->db, &problem) < 0)
        log_problem(&problem);
    return 0;
}
