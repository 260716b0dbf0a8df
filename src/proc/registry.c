/* registry.c - the table `process`: what is registered. */
#include "proc/registry.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/text.h"
#include "base/word.h"
#include "hold/protocol.h"
#include "proc/actor.h"
#include "proc/memo.h"
#include "proc/reconcile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                                        \
    "id, command, args, env, cwd, auto_start_on_restore, settings, state, history_offset, created_at, updated_at,"     \
    " exit_run, started_by, EXISTS (SELECT 1 FROM outbox)"

int proc_registry_open(struct proc_registry *reg, struct tsk_workspace *ws, struct tsk_error *err)
{
    *reg = (struct proc_registry){.ws = ws, .dir = -1};
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    reg->dir = fs->openat(ws->state_dir, "processes", flags, 0);
    if (reg->dir < 0 && errno == ENOENT) {
        if (fs->mkdirat(ws->state_dir, "processes", 0700) < 0 && errno != EEXIST)
            return fs_error(err, "create", ws->state_dir, "processes");
        reg->dir = fs->openat(ws->state_dir, "processes", flags, 0);
    }
    if (reg->dir < 0)
        return fs_error(err, "open", ws->state_dir, "processes");
    if (db_open(&reg->db, ws->state_dir, err) == 0)
        return 0;
    fs_close(&reg->dir);
    reg->dir = -1;
    return -1;
}

void proc_registry_close(struct proc_registry *reg)
{
    if (reg->dir < 0)
        return;
    db_close(&reg->db);
    fs_close(&reg->dir);
    json_free(&reg->removed);
    free(reg->home);
    free(reg->worktree);
    reg->home = reg->worktree = NULL;
    free(reg->place.dir);
    free(reg->place.top);
    reg->place.dir = reg->place.top = NULL;
    reg->dir = -1;
}

void proc_clear(struct proc *p)
{
    json_decref(p->spec);
    proc_known_drop(p->known);
    buf_clear(&p->row);
    free(p->state_text);
    free(p->started_by);
    fs_close(&p->dir);
    *p = (struct proc){.dir = -1};
}

void proc_list_free(struct proc *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        proc_clear(&list[i]);
    free(list);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* The text of a column that is JSON. */
static const char *json_column(const struct db_rows *rows, int column)
{
    const char *text = db_column_text(rows, column);
    return text ? text : "null";
}

const char *cwd_to_keep(const char *root, const char *cwd)
{
    size_t len = strlen(root);
    if (!cwd || strncmp(cwd, root, len) != 0 || (cwd[len] && cwd[len] != '/'))
        return cwd;
    cwd += len + strspn(cwd + len, "/");
    return *cwd ? cwd : ".";
}

static const char *cwd_kept(const char *root, const char *kept, struct buf *path)
{
    if (!kept || kept[0] == '/')
        return kept;
    buf_puts(path, root);
    if (strcmp(kept, ".") != 0)
        buf_printf(path, "/%s", kept);
    return buf_str(path);
}

/* Settings, and the columns that have one of their own, as one text: it is the same as long as the process is. */
static int read_spec(const struct proc_registry *reg, const struct db_rows *rows, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, path CLEANUP(buf_clear) = BUF_INIT;
    const char *settings = json_column(rows, 6), *end = strrchr(settings, '}');
    buf_put(&text, settings, end ? (size_t)(end - settings) : strlen(settings));
    buf_json_pair(&text, "command", db_column_text(rows, 1));
    buf_json_key(&text, "args");
    buf_puts(&text, json_column(rows, 2));
    buf_json_key(&text, "env");
    buf_puts(&text, json_column(rows, 3));
    buf_json_pair(&text, "cwd", cwd_kept(reg->ws->root, db_column_text(rows, 4), &path));
    buf_json_key(&text, "auto_start_on_restore");
    buf_puts(&text, db_column_int(rows, 5) != 0 ? "true}" : "false}");
    return json_parse(buf_str(&text), text.len, "state.db", ret, err);
}

static int proc_read_row(const struct proc_registry *reg, const struct db_rows *rows, struct proc *ret,
                         struct tsk_error *err)
{
    const char *state = db_column_text(rows, 7);
    *ret = (struct proc){.dir = -1, .history_offset = db_column_int(rows, 8), .view.phase = ""};
    snprintf(ret->id, sizeof ret->id, "%s", db_column_text(rows, 0));
    ret->created_at_ms = db_column_int(rows, 9);
    ret->updated_at_ms = db_column_int(rows, 10);
    ret->exit_run = db_column_int(rows, 11);
    if (read_spec(reg, rows, &ret->spec, err) < 0)
        return -1;
    const char *starter = db_column_text(rows, 12);
    ret->state_text = strdup(state ? state : "");
    ret->started_by = strdup(starter ? starter : "");
    BUG(!ret->state_text || !ret->started_by);
    return 0;
}

/* The columns as bytes, to be compared with those of another time. */
static void registry_put_row(struct buf *b, const struct db_rows *rows)
{
    static const bool is_number[] = {[5] = true, [8] = true, [9] = true, [10] = true, [11] = true, [12] = false};
    for (int i = 0; i < (int)(sizeof is_number / sizeof *is_number); i++) {
        int64_t number = is_number[i] ? db_column_int(rows, i) : 0;
        const char *text = is_number[i] ? NULL : db_column_text(rows, i);
        buf_put(b, text ? "t" : "n", 1);
        buf_put(b, text ? text : (const char *)&number, text ? strlen(text) + 1 : sizeof number);
    }
}

/* A row, and what a memo knows of its process (`to_show`): then nothing else is read. */
static int take_row(struct proc_registry *reg, const struct db_rows *rows, bool to_show, struct proc *ret,
                    struct tsk_error *err)
{
    reg->outbox_is_empty = !db_column_int(rows, 13);
    if (!to_show || !reg->ws->memo)
        return proc_read_row(reg, rows, ret, err);
    struct proc p = {.dir = -1, .row = BUF_INIT, .history_offset = db_column_int(rows, 8)};
    snprintf(p.id, sizeof p.id, "%s", db_column_text(rows, 0));
    registry_put_row(&p.row, rows);
    bool is_known = memo_recall(reg->ws->memo, reg->dir, &p);
    int result = is_known ? 0 : proc_read_row(reg, rows, ret, err);
    if (is_known)
        *ret = p;
    else
        ret->row = p.row;
    return result;
}

static struct proc_stamp stamp_of(int dir, const char *name)
{
    struct stat st;
    if (dir < 0 || fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return (struct proc_stamp){.inode = 0};
    return (struct proc_stamp){.inode = st.st_ino, .time_ns = st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec};
}

void proc_stamps(int dir, struct proc_stamp ret[2])
{
    ret[0] = stamp_of(dir, HOLD_STATUS_NAME);
    ret[1] = stamp_of(dir, HOLD_PHASE_NAME);
}

static int open_dir(struct proc_registry *reg, struct proc *p, struct tsk_error *err)
{
    p->dir = proc_dir_open(reg->dir, p->id, false);
    if (p->dir < 0 && errno != ENOENT)
        return fs_error(err, "open", reg->dir, p->id);
    return 0;
}

static int find_row(struct proc_registry *reg, const char *id, bool to_show, struct proc *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(&reg->db, &rows, err, "SELECT " COLUMNS " FROM process WHERE id = ?1", DB_TEXT(id)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found < 0)
        return -1;
    if (!found && to_show && reg->ws->memo)
        memo_forget(reg->ws->memo, id);
    if (!found)
        return proc_not_found(reg, id, err);
    if (take_row(reg, &rows, to_show, ret, err) == 0)
        return 0;
    proc_clear(ret);
    return -1;
}

int proc_find(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err)
{
    if (find_row(reg, id, false, ret, err) < 0)
        return -1;
    if (open_dir(reg, ret, err) == 0) {
        proc_stamps(ret->dir, ret->seen);
        return 0;
    }
    proc_clear(ret);
    return -1;
}

/* The files are right, whatever the row says: on a full disk, say, one can still look. */
static void sync_or_say(struct proc_registry *reg, struct proc *list, size_t count)
{
    struct tsk_error problem = {0};
    if (proc_sync(reg, list, count, &problem) < 0)
        log_problem(&problem);
}

int proc_load(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err)
{
    if (proc_find(reg, id, ret, err) < 0)
        return -1;
    if (proc_reconcile(reg, ret, false, err) == 0) {
        sync_or_say(reg, ret, 1);
        return 0;
    }
    proc_clear(ret);
    return -1;
}

/* What is still so at the next look need not be read by it. A record whose paths are not UTF-8 has no `log` to put a size into. */
static void registry_remember(struct proc_registry *reg, const struct memo_stamps *stamps, const struct proc *p)
{
    json_t *record CLEANUP_JSON = stamps->is_usable && p->is_synced ? record_to_keep(reg, p) : NULL;
    if (json_is_object(json_object_get(record, "log")))
        memo_keep(reg->ws->memo, stamps, p, record);
}

int proc_load_to_show(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err)
{
    struct memo_stamps stamps;
    if (reg->ws->memo)
        memo_begin_look(reg->ws->memo);
    if (find_row(reg, id, true, ret, err) < 0)
        return -1;
    bool is_known = ret->known;
    if (!is_known)
        memo_stamp(reg->ws->memo, reg->dir, id, &stamps);
    bool needs_dir = !is_known || ret->view.n > 1; /* for what was before this start */
    if ((needs_dir && open_dir(reg, ret, err) < 0) || (!is_known && proc_reconcile(reg, ret, false, err) < 0)) {
        proc_clear(ret);
        return -1;
    }
    if (!is_known || !reg->outbox_is_empty)
        sync_or_say(reg, ret, 1);
    if (!is_known)
        registry_remember(reg, &stamps, ret);
    return 0;
}

static int list_rows(struct proc_registry *reg, bool to_show, struct proc **ret, size_t *ret_count,
                     struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    size_t room = 0;
    if (db_query(&reg->db, &rows, err, "SELECT " COLUMNS " FROM process ORDER BY id") < 0)
        return -1;
    for (;;) {
        int more = db_next(&rows, err);
        if (more <= 0)
            return more;
        if (*ret_count == room) {
            room = room ? room * 2 : 64;
            struct proc *grown = realloc(*ret, room * sizeof **ret);
            BUG(!grown);
            *ret = grown;
        }
        if (take_row(reg, &rows, to_show, &(*ret)[*ret_count], err) < 0) {
            proc_clear(&(*ret)[*ret_count]);
            return -1;
        }
        ++*ret_count;
    }
}

/* Whether the error is about the files of this process alone, so that the list can continue with the others. */
static bool is_error_of_one_process(const struct tsk_error *err)
{
    switch (err->sys_errno) {
    case EACCES:
    case EPERM:
    case EIO:
    case ENOTDIR:
    case ELOOP:
        return true;
    default:
        return false;
    }
}

/* Its row says how it was when somebody could look at it last. */
static void view_unreadable(struct proc *p, const struct tsk_error *problem)
{
    struct tsk_error ignored;
    json_t *state CLEANUP_JSON = NULL;
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&reason, LANG_EN, problem);
    p->view = (struct proc_view){.state = PROC_NOT_STARTED, .phase = PROC_UNREADABLE, .raw_status = -1};
    snprintf(p->view.detail, sizeof p->view.detail, "%s", buf_str(&reason));
    if (json_parse(p->state_text, strlen(p->state_text), "state.db", &state, &ignored) < 0 || !json_is_object(state))
        return;
    for (enum proc_state s = PROC_RUNNING; s < PROC_STATE_COUNT; s++) {
        const json_t *inner = json_object_get(state, proc_state_names[s]);
        if (!inner)
            continue;
        p->view.state = s;
        p->view.child.pid = (pid_t)json_get_int(inner, "pid", 0);
        p->view.exit_code = (int)json_get_int(inner, "exit_code", -1);
        snprintf(p->view.error, sizeof p->view.error, "%s", json_get_string(inner, "error", ""));
    }
}

static int look_at_row(struct proc_registry *reg, struct proc *p, struct tsk_error *err)
{
    if (open_dir(reg, p, err) == 0 && proc_reconcile(reg, p, false, err) == 0)
        return 0;
    if (!is_error_of_one_process(err))
        return -1;
    view_unreadable(p, err);
    *err = (struct tsk_error){.code = TSK_OK};
    return 0;
}

/* `stamps` has room for all, or is NULL. */
static int look_at_rows(struct proc_registry *reg, struct proc *list, size_t count, struct memo_stamps *stamps,
                        struct tsk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].known)
            continue;
        if (stamps)
            memo_stamp(reg->ws->memo, reg->dir, list[i].id, &stamps[i]);
        if (look_at_row(reg, &list[i], err) < 0)
            return -1;
    }
    sync_or_say(reg, list, count);
    for (size_t i = 0; stamps && i < count; i++)
        if (!list[i].known)
            registry_remember(reg, &stamps[i], &list[i]);
    return 0;
}

static int registry_read_list(struct proc_registry *reg, bool to_show, struct proc **ret, size_t *ret_count,
                              struct tsk_error *err)
{
    struct proc *list = NULL;
    size_t count = 0;
    struct memo *memo = to_show ? reg->ws->memo : NULL;
    uint64_t number = memo ? memo_begin_look(memo) : 0;
    int result = list_rows(reg, to_show, &list, &count, err);
    struct memo_stamps *stamps CLEANUP_FREE = memo ? memory_zeroed(count + 1, sizeof *stamps) : NULL;
    if (result == 0)
        result = look_at_rows(reg, list, count, stamps, err);
    if (result < 0) {
        proc_list_free(list, count);
        return -1;
    }
    if (memo)
        memo_end_list(memo, number);
    *ret = list;
    *ret_count = count;
    return 0;
}

int proc_list(struct proc_registry *reg, struct proc **ret, size_t *ret_count, struct tsk_error *err)
{
    return registry_read_list(reg, false, ret, ret_count, err);
}

int proc_list_to_show(struct proc_registry *reg, struct proc **ret, size_t *ret_count, struct tsk_error *err)
{
    return registry_read_list(reg, true, ret, ret_count, err);
}

int proc_ids(struct proc_registry *reg, json_t **ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    json_t *ids CLEANUP_JSON = json_array();
    if (db_query(&reg->db, &rows, err, "SELECT id FROM process ORDER BY id") < 0)
        return -1;
    int more;
    while ((more = db_next(&rows, err)) == 1)
        json_array_append_new(ids, json_string(db_column_text(&rows, 0)));
    if (more < 0)
        return -1;
    *ret = ids;
    ids = NULL;
    return 0;
}

int proc_not_found(struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *ids CLEANUP_JSON = NULL;
    error_set(err, TSK_PROCESS_NOT_FOUND, NULL, "id", id, NULL);
    if (proc_ids(reg, &ids, &ignored) == 0) {
        size_t count = json_array_size(ids);
        const char **names = calloc(count + 1, sizeof *names);
        for (size_t i = 0; names && i < count; i++)
            names[i] = json_string_value(json_array_get(ids, i));
        const char *near = names ? nearest_word(id, names, count) : NULL;
        if (near) {
            error_add(err, "near", near);
            error_add_next(err, "tasuki proc status %s", near);
        }
        free(names);
    }
    return error_add_next(err, "tasuki proc list");
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

static void put_event_value(struct buf *b, const json_t *value)
{
    json_write(b, value, false);
}

/* Everything that has no column of its own. */
static void put_settings(struct buf *b, const json_t *spec)
{
    static const char *const columns[] = {"command", "args", "env", "cwd", "auto_start_on_restore"};
    json_t *settings CLEANUP_JSON = json_copy((json_t *)spec);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        json_object_del(settings, columns[i]);
    put_event_value(b, settings);
}

int proc_event(struct proc_registry *reg, const char *type, const char *id, struct tsk_error *err)
{
    struct now now = clock_now();
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "process_id", id);
    buf_puts(&data, "}");
    return db_event(&reg->db, &now, &(struct event){.type = type, .data = buf_str(&data)}, err);
}

/* Inside a transaction. An UPDATE keeps created_at and history_offset. */
static int write_row(struct proc_registry *reg, const char *id, const json_t *spec, const char *sql,
                     struct tsk_error *err)
{
    struct buf args CLEANUP(buf_clear) = BUF_INIT, env CLEANUP(buf_clear) = BUF_INIT,
                    rest CLEANUP(buf_clear) = BUF_INIT;
    put_event_value(&args, json_object_get(spec, "args"));
    put_event_value(&env, json_object_get(spec, "env"));
    put_settings(&rest, spec);
    return db_exec(&reg->db, err, sql, DB_TEXT(id), DB_TEXT(json_get_string(spec, "command", "")),
                   DB_TEXT(buf_str(&args)), DB_TEXT(buf_str(&env)),
                   DB_TEXT(cwd_to_keep(reg->ws->root, json_get_string(spec, "cwd", NULL))),
                   DB_INT(json_get_bool(spec, "auto_start_on_restore", false)), DB_TEXT(buf_str(&rest)),
                   DB_INT(clock_now().wall_ms));
}

int proc_insert_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err)
{
    if (write_row(reg, id, spec,
                  "INSERT INTO process (id, command, args, env, cwd, auto_start_on_restore, settings, state,"
                  "  created_at, updated_at)"
                  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '\"NotStarted\"', ?8, ?8) ON CONFLICT (id) DO NOTHING",
                  err) < 0)
        return -1;
    if (db_changes(&reg->db) == 0) {
        error_set(err, TSK_PROCESS_ALREADY_EXISTS, NULL, "id", id, NULL);
        error_add_next(err, "tasuki proc status %s", id);
        return error_add_next(err, "tasuki proc update %s …", id);
    }
    if (db_exec(&reg->db, err, "UPDATE process SET created_by = ?2 WHERE id = ?1", DB_TEXT(id),
                DB_TEXT(who_current_text())) < 0)
        return -1;
    return proc_event(reg, "process.created", id, err);
}

int proc_update_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err)
{
    /* updated_at grows even within a millisecond: it is what CONFLICT is judged by. */
    if (write_row(reg, id, spec,
                  "UPDATE process SET command = ?2, args = ?3, env = ?4, cwd = ?5,"
                  "  auto_start_on_restore = ?6, settings = ?7,"
                  "  updated_at = max(?8, updated_at + 1) WHERE id = ?1",
                  err) < 0)
        return -1;
    if (db_changes(&reg->db) == 0)
        return proc_not_found(reg, id, err);
    return proc_event(reg, "process.updated", id, err);
}

int proc_commit(struct proc_registry *reg, int result, struct tsk_error *err)
{
    if (result < 0) {
        db_rollback(&reg->db);
        return -1;
    }
    if (db_commit(&reg->db, err) < 0)
        return -1;
    struct tsk_error problem = {0};
    if (workspace_flush_outbox(reg->ws, &reg->db, &problem) < 0)
        log_problem(&problem); /* the change has happened; its events go out with the next one */
    return 0;
}

json_t *proc_creator(struct proc_registry *reg, const char *id)
{
    struct db_rows rows CLEANUP(db_rows_free);
    struct tsk_error ignored;
    bool is_known =
        db_query(&reg->db, &rows, &ignored, "SELECT created_by FROM process WHERE id = ?1", DB_TEXT(id)) == 0 &&
        db_next(&rows, &ignored) == 1 && db_column_text(&rows, 0);
    return is_known ? json_loads(db_column_text(&rows, 0), 0, NULL) : NULL;
}

/* It was never started. */
static void add_creator(struct tsk_error *err, struct proc_registry *reg, const char *id)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *who CLEANUP_JSON = proc_creator(reg, id);
    if (!who)
        return;
    json_write(&text, who, false);
    error_add_json(err, "created_by", buf_str(&text));
}

void error_add_registrant(struct tsk_error *err, struct proc_registry *reg, const char *id)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct tsk_error ignored; /* the refusal does without it */
    struct who who;
    int64_t n;
    if (proc_find(reg, id, &p, &ignored) < 0)
        return;
    if (p.dir >= 0 && proc_actor_read(p.dir, PROC_STARTED_BY, &who, &n))
        error_add_starter(err, &who);
    else
        add_creator(err, reg, id);
}

int proc_create(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err)
{
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (proc_guard_take(reg, id, false, &guard, err) < 0)
        return -1;
    if (proc_forget_orphan(reg, id, err) < 0 || db_begin(&reg->db, err) < 0)
        return -1;
    int result = proc_commit(reg, proc_insert_row(reg, id, spec, err), err);
    if (result < 0 && err->code == TSK_PROCESS_ALREADY_EXISTS)
        error_add_registrant(err, reg, id);
    return result;
}

static int process_check_expected(struct proc_registry *reg, const char *id, int64_t expected, struct tsk_error *err)
{
    struct proc current CLEANUP(proc_clear) = {.dir = -1};
    if (proc_find(reg, id, &current, err) < 0)
        return -1;
    if (expected < 0 || expected == current.updated_at_ms)
        return 0;
    error_set(err, TSK_CONFLICT, PROC_CHANGED, "id", id, "updated_at", TIME_EXACT(current.updated_at_ms), NULL);
    return error_add_next(err, "tasuki proc status %s", id);
}

int proc_update(struct proc_registry *reg, const char *id, const json_t *spec, int64_t expected_updated_at_ms,
                struct tsk_error *err)
{
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (proc_guard_take(reg, id, false, &guard, err) < 0 || db_begin(&reg->db, err) < 0)
        return -1;
    int result = process_check_expected(reg, id, expected_updated_at_ms, err);
    if (result == 0)
        result = proc_update_row(reg, id, spec, err);
    return proc_commit(reg, result, err);
}
