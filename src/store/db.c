#include "store/db.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/lockers.h"
#include "base/word.h"
#include "store/db_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

/* The bytes that SQLite locks to write: with a write-ahead log in the file of the shared memory, otherwise in the database. */
#define WAL_WRITE_BYTE 120
#define RESERVED_BYTE  0x40000001

static enum tsk_code code_of_sqlite(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return TSK_STORAGE_FULL;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISUSE:
    case SQLITE_ERROR:
        return TSK_INTERNAL;
    default:
        return TSK_ENVIRONMENT;
    }
}

/* The command that shows who may open it, the room that is left for the workspace, or how its file system is mounted. */
static void add_look(struct tsk_error *err, bool is_denied, bool is_read_only, const char *path)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT, root CLEANUP(buf_clear) = BUF_INIT;
    const char *state = strstr(path, "/.aiflow");
    if (is_denied)
        error_add_next(err, "namei -l %s", shell_word(&word, path));
    else if ((is_read_only || err->code == TSK_STORAGE_FULL) && state > path) {
        buf_put(&root, path, (size_t)(state - path));
        error_add_next(err, "%s %s", is_read_only ? "findmnt -T" : "df -h", shell_word(&word, buf_str(&root)));
    }
}

static int db_busy(const struct db *db, const char *path, struct tsk_error *err)
{
    pid_t pid = lockers_find_posix(db->state_dir, "state.db-shm", WAL_WRITE_BYTE);
    pid = pid ? pid : lockers_find_posix(db->state_dir, "state.db", RESERVED_BYTE);
    if (pid)
        return lockers_refuse(pid, TSK_ENVIRONMENT, "db_busy_by", "db_busy", err);
    error_set(err, TSK_ENVIRONMENT, "db_busy", "path", path, NULL);
    return error_add_next(err, "tasuki status");
}

int db_fail(struct db *db, int rc, struct tsk_error *err)
{
    char path[FS_PATH_MAX];
    fs_path(db->state_dir, "state.db", path);
    struct sqlite3 *handle = db->conn->handle;
    int number = handle ? sqlite3_system_errno(handle) : 0;
    if ((rc & 0xff) == SQLITE_IOERR && (number == ENOSPC || number == EDQUOT))
        rc = SQLITE_FULL; /* where it had no room for its shared memory */
    const char *reason = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(rc);
    if ((rc & 0xff) == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT) {
        error_set(err, TSK_ENVIRONMENT, "db_damaged", "path", path, "reason", reason, NULL);
        error_add_next(err, "tasuki doctor"); /* which has the command that begins a new one */
        return -1;
    }
    if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED)
        return db_busy(db, path, err);
    if ((rc & 0xff) == SQLITE_READONLY && faccessat(db->state_dir, "state.db", W_OK, AT_EACCESS) < 0)
        number = errno;
    bool is_shut = (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY;
    bool is_denied = is_shut && (number == EACCES || number == EPERM), is_read_only = is_shut && number == EROFS;
    error_set(err, code_of_sqlite(rc), "system_call", "what", "use the database", "path", path, "reason",
              is_denied || is_read_only ? strerrordesc_np(number) : reason, NULL);
    add_look(err, is_denied, is_read_only, path);
    return -1;
}

/* ---- opening ------------------------------------------------------------------------------------------ */

int db_open(struct db *db, int state_dir, struct tsk_error *err)
{
    *db = (struct db){.state_dir = state_dir};
    return db_conn_take(db, err);
}

int db_open_existing(struct db *db, int state_dir, struct tsk_error *err)
{
    *db = (struct db){.state_dir = state_dir, .conn = db_conn_kept(state_dir)};
    if (db->conn)
        db->is_read_only = db->conn->is_read_only;
    else if (!db_exists(state_dir))
        return 0;
    return db->conn || db_open(db, state_dir, err) == 0 ? 1 : -1;
}

bool db_exists(int state_dir)
{
    return fs_may_exist(state_dir, "state.db");
}

bool db_is_open(const struct db *db)
{
    return db->conn;
}

void db_close(struct db *db)
{
    db_rollback(db);
    if (db->conn)
        db_conn_give_back(db->conn);
    db->conn = NULL;
}

/* ---- transactions ------------------------------------------------------------------------------------- */

/* Threads of one program take turns before they ask SQLite, whose waiting is not fair: of a hundred that wait, one can be
 * passed over until its time is up. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void end_turn(struct db *db)
{
    db->in_transaction = false;
    pthread_mutex_unlock(&turn);
    db_conn_unlock(db->conn);
    pthread_sigmask(SIG_SETMASK, &db->saved_signals, NULL);
}

int db_begin(struct db *db, struct tsk_error *err)
{
    BUG(db->in_transaction);
    db_conn_lock(db->conn);
    if (db_conn_exchange(db, err) < 0) {
        db_conn_unlock(db->conn);
        return -1;
    }
    signals_hold(&db->saved_signals);
    pthread_mutex_lock(&turn);
    if (db_exec(db, err, "BEGIN IMMEDIATE") < 0) {
        end_turn(db);
        return -1;
    }
    db->in_transaction = true;
    return 0;
}

int db_commit(struct db *db, struct tsk_error *err)
{
    BUG(!db->in_transaction);
    if (db_exec(db, err, "COMMIT") < 0) {
        db_rollback(db);
        return -1;
    }
    end_turn(db);
    return 0;
}

void db_rollback(struct db *db)
{
    if (!db->in_transaction)
        return;
    struct tsk_error ignored;
    db_exec(db, &ignored, "ROLLBACK"); /* fails only if SQLite did it already */
    end_turn(db);
}

/* ---- statements --------------------------------------------------------------------------------------- */

static int bind_value(struct sqlite3_stmt *statement, int place, const struct db_value *value)
{
    return value->is_number ? sqlite3_bind_int64(statement, place, value->number)
                            : sqlite3_bind_text(statement, place, value->text, -1, SQLITE_TRANSIENT);
}

/* Prepares, binds and makes the first step; *ret_rc is its outcome. The thread has the connection to itself until the statement
 * is finished (N4). A connection that only looks, and finds that it cannot, is exchanged: in the time between two statements
 * others may have opened the database or changed its files. */
static int statement_start(struct db *db, struct sqlite3_stmt **ret, int *ret_rc, struct tsk_error *err,
                           const char *sql, size_t count, const struct db_value *values)
{
    struct sqlite3_stmt *statement = NULL;
    int result = -1;
    db_conn_lock(db->conn);
    int rc = db_conn_prepare(db->conn, sql, &statement);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++)
        rc = bind_value(statement, (int)i + 1, &values[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        *ret = statement;
        *ret_rc = rc;
        return 0;
    }
    if (db_conn_needs_exchange(db->conn, rc)) {
        sqlite3_finalize(statement);
        if (db_conn_exchange(db, err) == 0)
            result = statement_start(db, ret, ret_rc, err, sql, count, values);
    } else {
        db_fail(db, rc, err);
        sqlite3_finalize(statement);
    }
    db_conn_unlock(db->conn);
    return result;
}

static void statement_finish(struct db *db, struct sqlite3_stmt *statement)
{
    db_conn_finish(db->conn, statement);
    db_conn_unlock(db->conn);
}

int db_exec_values(struct db *db, struct tsk_error *err, const char *sql, size_t count, const struct db_value *values)
{
    struct sqlite3_stmt *statement;
    int rc = SQLITE_ERROR;
    if (statement_start(db, &statement, &rc, err, sql, count, values) < 0)
        return -1;
    BUG(rc == SQLITE_ROW);
    statement_finish(db, statement);
    return 0;
}

int db_query_values(struct db *db, struct db_rows *ret, struct tsk_error *err, const char *sql, size_t count,
                    const struct db_value *values)
{
    int rc = SQLITE_ERROR;
    *ret = (struct db_rows){.db = db};
    int result = statement_start(db, &ret->statement, &rc, err, sql, count, values);
    ret->is_at_first = result == 0 && rc == SQLITE_ROW;
    ret->is_at_end = result == 0 && rc == SQLITE_DONE;
    if (ret->is_at_end)
        db_rows_free(ret);
    return result;
}

int db_next(struct db_rows *rows, struct tsk_error *err)
{
    if (rows->is_at_first || rows->is_at_end) {
        rows->is_at_first = false;
        return !rows->is_at_end;
    }
    int rc = sqlite3_step(rows->statement);
    if (rc == SQLITE_ROW)
        return 1;
    rows->is_at_end = true;
    int result = rc == SQLITE_DONE ? 0 : db_fail(rows->db, rc, err);
    db_rows_free(rows);
    return result;
}

const char *db_column_text(const struct db_rows *rows, int column)
{
    return (const char *)sqlite3_column_text(rows->statement, column);
}

int64_t db_column_int(const struct db_rows *rows, int column)
{
    return sqlite3_column_int64(rows->statement, column);
}

void db_rows_free(struct db_rows *rows)
{
    if (rows->statement)
        statement_finish(rows->db, rows->statement);
    rows->statement = NULL;
}

int64_t db_changes(const struct db *db)
{
    return sqlite3_changes64(db->conn->handle);
}

int db_int(struct db *db, struct tsk_error *err, int64_t *ret, int64_t fallback, const char *sql)
{
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    int more = db_query(db, &rows, err, sql) < 0 ? -1 : db_next(&rows, err);
    if (more >= 0)
        *ret = more ? db_column_int(&rows, 0) : fallback;
    return more < 0 ? -1 : 0;
}

/* ---- the outbox --------------------------------------------------------------------------------------- */

int db_event(struct db *db, const struct now *now, const struct event *event, struct tsk_error *err)
{
    BUG(!db->in_transaction);
    struct buf line CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX - 64}; /* leaves room for the outbox_id */
    event_put_line(&line, now, event);
    if (line.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, "event", event->type, NULL);
    return db_exec(db, err, "INSERT INTO outbox (line) VALUES (?1)", DB_TEXT(buf_str(&line)));
}

/* The stored line ends with the end of `data`, of the object and a newline: `}}\n`. */
static void put_line_with_id(struct buf *b, const char *line, size_t len, int64_t id)
{
    buf_put(b, line, len - strlen("}}\n"));
    buf_json_pair_int(b, "outbox_id", id);
    buf_puts(b, "}}\n");
}

/* *ret_last is the greatest id that was appended, 0 if there was none. */
static int append_rows(struct db *db, struct event_trail *trail, int64_t *ret_last, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    struct buf line CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX};
    int more;
    *ret_last = 0;
    if (db_query(db, &rows, err, "SELECT id, line FROM outbox ORDER BY id") < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        const char *stored = db_column_text(&rows, 1);
        *ret_last = db_column_int(&rows, 0);
        buf_reset(&line);
        put_line_with_id(&line, stored, strlen(stored), *ret_last);
        if (event_append_line(trail, buf_str(&line), line.len, err) < 0)
            return -1;
    }
    return more;
}

static int flush_in_transaction(struct db *db, struct event_trail *trail, struct tsk_error *err)
{
    int64_t last;
    if (append_rows(db, trail, &last, err) < 0 || event_trail_sync(trail, err) < 0)
        return -1;
    return db_exec(db, err, "DELETE FROM outbox WHERE id <= ?1", DB_INT(last));
}

int db_flush_outbox(struct db *db, struct event_trail *trail, struct tsk_error *err)
{
    int64_t has_rows;
    if (db_int(db, err, &has_rows, 0, "SELECT 1 FROM outbox LIMIT 1") < 0)
        return -1;
    if (!has_rows)
        return 0;
    if (db_begin(db, err) < 0)
        return -1;
    if (flush_in_transaction(db, trail, err) < 0) {
        db_rollback(db);
        return -1;
    }
    return db_commit(db, err);
}
