#include "own/instance.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCE_COLUMNS "id, pid, boot_id, pid_ns, start_ticks, secret_hash, lease_boot_ms, lease_wall_ms"

bool instance_is_http(const char *id)
{
    size_t prefix = strlen(INSTANCE_HTTP_PREFIX);
    return strncmp(id, INSTANCE_HTTP_PREFIX, prefix) == 0 && strlen(id) == prefix + 16 &&
           strspn(id + prefix, "0123456789abcdef") == 16;
}

/* ---- judging by the form ---- */

/* {hostname}-{pid}-{time}, split from the right: the hostname may have dashes. */
static pid_t split_id(const char *id, size_t *ret_host_len, int64_t *ret_time)
{
    pid_t pid = instance_pid(id);
    if (!pid)
        return 0;
    const char *stamp = strrchr(id, '-'), *dash = stamp - 1;
    while (*dash != '-')
        dash--;
    *ret_host_len = (size_t)(dash - id);
    *ret_time = strtoll(stamp + 1, NULL, 10);
    return *ret_host_len ? pid : 0;
}

static struct instance_state state_with(enum liveness alive, pid_t pid, const char *how)
{
    return (struct instance_state){.alive = alive, .pid = pid, .how = how};
}

void instance_judge_form(const char *id, const struct now *now, struct instance_state *ret)
{
    size_t host_len;
    int64_t claimed;
    struct proc_id process;
    pid_t pid = split_id(id, &host_len, &claimed);
    if (!pid) {
        *ret = state_with(LIVE_UNKNOWN, 0, "id has a form of its own");
        return;
    }
    if (strlen(host_name()) != host_len || strncmp(id, host_name(), host_len) != 0) {
        *ret = state_with(LIVE_UNKNOWN, pid, "on another host");
        return;
    }
    *ret = state_with(LIVE_ALIVE, pid, "process exists");
    if (proc_id_of(pid, &process) < 0)
        *ret = errno == ESRCH ? state_with(LIVE_DEAD, pid, "process is gone")
                              : state_with(LIVE_UNKNOWN, pid, "process cannot be examined");
    else if (proc_id_start_wall(&process, now) - claimed > INSTANCE_SLACK_MS)
        *ret = state_with(LIVE_DEAD, pid, "pid was reused");
    else
        ret->process = process;
}

/* ---- judging by the row ---- */

struct row {
    char id[INSTANCE_ID_MAX];
    struct proc_id process;
    bool has_lease;
    int64_t lease_boot_ms, lease_wall_ms;
    char secret_hash[72];
};

static void instance_read_row(const struct db_rows *rows, struct row *ret)
{
    const char *boot = db_column_text(rows, 2), *hash = db_column_text(rows, 5);
    *ret = (struct row){.process = {.pid = (pid_t)db_column_int(rows, 1),
                                    .pid_ns = (uint64_t)db_column_int(rows, 3),
                                    .start_ticks = (uint64_t)db_column_int(rows, 4)},
                        .has_lease = hash != NULL,
                        .lease_boot_ms = db_column_int(rows, 6),
                        .lease_wall_ms = db_column_int(rows, 7)};
    snprintf(ret->id, sizeof ret->id, "%s", db_column_text(rows, 0));
    snprintf(ret->process.boot_id, sizeof ret->process.boot_id, "%s", boot ? boot : "");
    snprintf(ret->secret_hash, sizeof ret->secret_hash, "%s", hash ? hash : "");
}

/* 1, 0: there is none, -1. */
static int instance_find_row(struct db *db, const char *id, struct row *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(db, &rows, err, "SELECT " INSTANCE_COLUMNS " FROM instance WHERE id = ?1", DB_TEXT(id)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found == 1)
        instance_read_row(&rows, ret);
    return found;
}

static int find_process(struct db *db, const struct proc_id *process, struct row *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(db, &rows, err,
                 "SELECT " INSTANCE_COLUMNS
                 " FROM instance WHERE boot_id = ?1 AND pid_ns = ?2 AND pid = ?3 AND start_ticks = ?4"
                 " ORDER BY rowid LIMIT 1",
                 DB_TEXT(process->boot_id), DB_INT((int64_t)process->pid_ns), DB_INT(process->pid),
                 DB_INT((int64_t)process->start_ticks)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found == 1)
        instance_read_row(&rows, ret);
    return found;
}

/* I5. */
static int64_t lease_left(const struct row *row, const struct now *now)
{
    return strcmp(row->process.boot_id, boot_id()) == 0 ? row->lease_boot_ms - now->boot_ms
                                                        : row->lease_wall_ms - now->wall_ms;
}

static struct instance_state judge_row(const struct row *row, const struct now *now)
{
    if (row->has_lease) {
        int64_t left = lease_left(row, now);
        struct instance_state leased =
            left > 0 ? state_with(LIVE_ALIVE, 0, "lease runs") : state_with(LIVE_DEAD, 0, "lease is over");
        leased.lease_ms = left > 0 ? left : 0;
        return leased;
    }
    enum liveness alive = proc_id_liveness(&row->process);
    struct instance_state state = state_with(alive, row->process.pid,
                                             alive == LIVE_ALIVE  ? "process exists"
                                             : alive == LIVE_DEAD ? "process is gone"
                                                                  : "in another pid namespace");
    if (alive == LIVE_ALIVE)
        state.process = row->process;
    return state;
}

int instance_judge(struct db *db, const char *id, const struct now *now, struct instance_state *ret,
                   struct tsk_error *err)
{
    struct row row;
    int found = instance_find_row(db, id, &row, err);
    if (found < 0)
        return -1;
    if (found)
        *ret = judge_row(&row, now);
    else if (instance_is_http(id))
        *ret = state_with(LIVE_DEAD, 0, "not registered any more");
    else
        instance_judge_form(id, now, ret);
    return 0;
}

int instance_judge_at(int state_dir, const char *id, const struct now *now, struct instance_state *ret,
                      struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    int found = db_open_existing(&db, state_dir, err);
    if (found == 0)
        return error_set(err, TSK_NOT_FOUND, NULL, NULL);
    return found < 0 ? -1 : instance_judge(&db, id, now, ret, err);
}

static bool is_same_process(const struct proc_id *a, const struct proc_id *b)
{
    return a->pid && a->pid == b->pid && a->start_ticks == b->start_ticks && a->pid_ns == b->pid_ns &&
           strcmp(a->boot_id, b->boot_id) == 0;
}

bool instance_is(const struct instance *caller, const char *id, const struct instance_state *state)
{
    return strcmp(caller->id, id) == 0 || is_same_process(&caller->process, &state->process);
}

bool instance_is_same_id(const char *a, const char *b)
{
    size_t host_a, host_b;
    int64_t time_a, time_b;
    if (strcmp(a, b) == 0)
        return true;
    pid_t pid = split_id(a, &host_a, &time_a);
    if (!pid || split_id(b, &host_b, &time_b) != pid || host_a != host_b || strncmp(a, b, host_a) != 0)
        return false;
    return time_a - time_b <= INSTANCE_SLACK_MS && time_b - time_a <= INSTANCE_SLACK_MS;
}

/* ---- the caller ---- */

static int find_named(struct db *db, const char *id, struct instance *ret, struct tsk_error *err)
{
    struct now now = clock_now();
    struct instance_state state;
    if (instance_judge(db, id, &now, &state, err) < 0)
        return -1;
    snprintf(ret->id, sizeof ret->id, "%s", id);
    ret->process = state.process;
    return 0;
}

int instance_of_process(struct db *db, const struct proc_id *process, struct instance *ret, struct tsk_error *err)
{
    struct proc_id seen;
    struct row row;
    *ret = (struct instance){.process = *process};
    int found = db ? find_process(db, process, &row, err) : 0;
    if (found < 0)
        return -1;
    if (found) {
        snprintf(ret->id, sizeof ret->id, "%s", row.id);
        return 0;
    }
    if (proc_id_of(process->pid, &seen) < 0)
        return error_errno(err, "examine", "process");
    ret->is_new = true;
    proc_instance_id(&seen, ret->id, sizeof ret->id);
    return 0;
}

int instance_find(struct db *db, const char *given, bool is_here, struct instance *ret, struct tsk_error *err)
{
    const char *named = given && *given ? given : is_here ? getenv("TASUKI_INSTANCE_ID") : NULL;
    struct proc_id process = {0};
    *ret = (struct instance){.process = {0}};
    if (named && *named) {
        if (strlen(named) >= sizeof ret->id || !utf8_is_valid(named, strlen(named)))
            return error_set(err, TSK_INVALID_INPUT, "text_not_utf8", "param",
                             named == given ? "instance" : "TASUKI_INSTANCE_ID", NULL);
        return find_named(db, named, ret, err);
    }
    if (!is_here || (proc_guess_holder(&process) < 0 && errno == ESRCH))
        return error_set(err, TSK_INVALID_INPUT, "instance_needed", NULL);
    if (!process.pid)
        return error_errno(err, "examine", "calling process");
    int found = instance_of_process(db, &process, ret, err);
    ret->is_above = true;
    return found;
}

/* ---- keeping ---- */

int instance_sweep(struct db *db, const struct now *now, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    int more;
    if (db_query(db, &rows, err,
                 "SELECT " INSTANCE_COLUMNS
                 " FROM instance WHERE NOT EXISTS (SELECT 1 FROM workflow WHERE owner = instance.id)") < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        struct row row;
        instance_read_row(&rows, &row);
        bool is_over =
            row.has_lease ? lease_left(&row, now) < -24 * 3600 * 1000LL : judge_row(&row, now).alive == LIVE_DEAD;
        if (is_over && db_exec(db, err, "DELETE FROM instance WHERE id = ?1", DB_TEXT(row.id)) < 0)
            return -1;
    }
    return more;
}

static int instance_insert(struct db *db, const struct now *now, const char *id, const struct proc_id *process,
                           struct tsk_error *err)
{
    const char *time = TIME_EXACT(now->wall_ms);
    return db_exec(db, err,
                   "INSERT OR IGNORE INTO instance (id, hostname, pid, boot_id, pid_ns, start_ticks, created_at)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   DB_TEXT(id), DB_TEXT(host_name()), DB_INT(process->pid), DB_TEXT(process->boot_id),
                   DB_INT((int64_t)process->pid_ns), DB_INT((int64_t)process->start_ticks), DB_TEXT(time));
}

/* An id made by somebody else in the same millisecond with the same pid (another pid namespace) is not ours: the next one is. */
static void instance_next_id(char id[INSTANCE_ID_MAX])
{
    char *stamp = strrchr(id, '-') + 1;
    int64_t time = strtoll(stamp, NULL, 10);
    snprintf(stamp, INSTANCE_ID_MAX - (size_t)(stamp - id), "%lld", (long long)time + 1);
}

int instance_keep(struct db *db, const struct now *now, struct instance *instance, struct tsk_error *err)
{
    struct row row;
    if (!instance->process.pid)
        return 0;
    /* Somebody may have been first since instance_find. */
    int found = instance->is_new ? find_process(db, &instance->process, &row, err)
                                 : instance_find_row(db, instance->id, &row, err);
    if (found < 0)
        return -1;
    if (found)
        snprintf(instance->id, sizeof instance->id, "%s", row.id);
    instance->is_new = instance->is_new && !found;
    if (found)
        return 0;
    while (instance->is_new && (found = instance_find_row(db, instance->id, &row, err)) == 1)
        instance_next_id(instance->id);
    if (found < 0 || instance_sweep(db, now, err) < 0)
        return -1;
    instance->is_new = false;
    return instance_insert(db, now, instance->id, &instance->process, err);
}

int instance_register(struct tsk_workspace *ws, const struct proc_id *process, struct instance *ret,
                      struct tsk_error *err)
{
    struct now now = clock_now();
    struct db db CLEANUP(db_close) = {0};
    if (db_open(&db, ws->state_dir, err) < 0 || instance_of_process(&db, process, ret, err) < 0)
        return -1;
    if (!ret->is_new)
        return 0;
    if (db_begin(&db, err) < 0)
        return -1;
    return instance_keep(&db, &now, ret, err) < 0 ? -1 : db_commit(&db, err);
}
