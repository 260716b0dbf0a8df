#include "store/db.h"
#include "base/fs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DB_NAME         "state.db"
#define BUSY_TIMEOUT_MS 5000
#define TIGHT_BYTES     (1u << 20)
#define SHM_CUT         3
#define SHM_REGION      (32 << 10) /* what SQLite maps at a time */
#define STATEMENT(name) struct sqlite3_stmt *name __attribute__((cleanup(statement_free))) = NULL

/* Migration i makes version i+1 out of version i. A released entry is never changed; new ones go to the end.
 */
static const char *const migrations[] = {
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL);"
    /* Ids go on growing along the trail (E6) also after somebody removed the database. */
    "INSERT INTO sqlite_sequence (name, seq)"
    "  VALUES ('outbox', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000);"
    "CREATE TABLE instance ("
    "  id TEXT PRIMARY KEY,"
    "  hostname TEXT NOT NULL,"
    "  pid INTEGER NOT NULL,"
    "  boot_id TEXT NOT NULL,"
    "  pid_ns INTEGER NOT NULL,"
    "  start_ticks INTEGER NOT NULL,"
    "  created_at TEXT NOT NULL);",

    /* args, env, state and settings are JSON. `state` repeats what the files of the process say (where they differ, the
     * files are right); `history_offset` is how far its history has become events,
     * `exit_run` the newest start whose end is among them. Times are Unix milliseconds. */
    "CREATE TABLE process ("
    "  id TEXT PRIMARY KEY,"
    "  command TEXT NOT NULL,"
    "  args TEXT NOT NULL,"
    "  env TEXT NOT NULL,"
    "  cwd TEXT,"
    "  state TEXT NOT NULL,"
    "  auto_start_on_restore INTEGER NOT NULL,"
    "  settings TEXT NOT NULL,"
    "  history_offset INTEGER NOT NULL DEFAULT 0,"
    "  exit_run INTEGER NOT NULL DEFAULT 0,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL);"
    "CREATE TABLE template ("
    "  name TEXT PRIMARY KEY,"
    "  spec TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL);",

    /* Instances without a process (pid 0) have a secret and a lease: until when, on the clock of the boot `boot_id` and on the
     * wall clock. A workflow keeps its row when nobody owns it, because its fence must go on growing. Times are Unix
     * milliseconds. */
    "ALTER TABLE instance ADD COLUMN label TEXT;"
    "ALTER TABLE instance ADD COLUMN secret_hash TEXT;"
    "ALTER TABLE instance ADD COLUMN lease_boot_ms INTEGER;"
    "ALTER TABLE instance ADD COLUMN lease_wall_ms INTEGER;"
    "CREATE INDEX instance_process ON instance (pid, start_ticks);"
    "CREATE TABLE workflow ("
    "  id TEXT PRIMARY KEY,"
    "  owner TEXT,"
    "  fence INTEGER NOT NULL,"
    "  claimed_at INTEGER,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL);"
    "CREATE INDEX workflow_owner ON workflow (owner) WHERE owner IS NOT NULL;",

    /* Where a client of the server has taken sprint locks that no list would find: they go with it. */
    "CREATE TABLE instance_sprint ("
    "  instance TEXT NOT NULL,"
    "  root TEXT NOT NULL,"
    "  file TEXT NOT NULL,"
    "  PRIMARY KEY (instance, root, file)) WITHOUT ROWID;"
    "CREATE TRIGGER instance_gone AFTER DELETE ON instance BEGIN"
    "  DELETE FROM instance_sprint WHERE instance = OLD.id; END;",
};

enum { VERSION = sizeof migrations / sizeof migrations[0] };

int db_schema_version(void)
{
    return VERSION;
}

static void statement_free(struct sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

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

static int fail_sqlite(struct db *db, int rc, struct tsk_error *err)
{
    char path[FS_PATH_MAX];
    fs_path(db->state_dir, DB_NAME, path);
    int number = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if ((rc & 0xff) == SQLITE_IOERR && (number == ENOSPC || number == EDQUOT))
        rc = SQLITE_FULL; /* where it had no room for its shared memory */
    const char *reason = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    if ((rc & 0xff) == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT) {
        error_set(err, TSK_ENVIRONMENT, "db_damaged", "path", path, "reason", reason, NULL);
        error_add_next(err, "tasuki doctor"); /* which has the command that begins a new one */
        return -1;
    }
    return error_set(err, code_of_sqlite(rc), "system_call", "what", "use the database", "path", path, "reason", reason,
                     NULL);
}

/* ---- opening ------------------------------------------------------------------------------------------ */

/* SQLite would resolve /proc/self/fd/N/state.db to a path of at most 512 bytes that a renamed directory makes
 * wrong. This copy of its file system layer leaves the name as it is. */
static int keep_pathname(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    (void)vfs;
    return snprintf(ret, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* Whoever opens the database first resets the -shm file, which SQLite does by cutting it to 3 bytes. On a full disk it would
 * then not get them back. As many zeros mean the same, and keep their blocks. */
static int shm_reset(int fd, off_t size)
{
    static char zeros[SHM_REGION]; /* not const: it would be 32 KiB of the program file */
    struct stat st;
    if (size != SHM_CUT || fstat(fd, &st) < 0 || st.st_size < SHM_REGION)
        return ftruncate(fd, size);
    if (pwrite(fd, zeros, sizeof zeros, 0) != (ssize_t)sizeof zeros)
        return errno = ENOSPC, -1;
    return ftruncate(fd, SHM_REGION);
}

/* SQLite makes sure of one block per 4 KiB before it maps the -shm file. Where blocks are smaller the others would be missing
 * on a full disk, and using the memory would be the end of us (SIGBUS). */
static void *shm_map(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    bool is_file = fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE);
    if (is_file && fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, (off_t)len) < 0 && (errno == ENOSPC || errno == EDQUOT))
        return MAP_FAILED;
    return mmap(at, len, protection, flags, fd, offset);
}

/* SQLite's table of system calls is one for the whole program. */
static void register_vfs(void)
{
    static sqlite3_vfs vfs;
    vfs = *sqlite3_vfs_find(NULL);
    vfs.xSetSystemCall(&vfs, "ftruncate", (sqlite3_syscall_ptr)shm_reset);
    vfs.xSetSystemCall(&vfs, "mmap", (sqlite3_syscall_ptr)shm_map);
    vfs.zName = "tasuki";
    vfs.xFullPathname = keep_pathname;
    sqlite3_vfs_register(&vfs, 0);
}

/* The file is made 0600 whatever the umask is, and without a descriptor of ours: `modeof` takes the mode of
 * another file, and the memory of a process is 0600 everywhere. */
static int read_version(struct db *db, int64_t *ret, struct tsk_error *err);

static int open_handle(struct db *db, int state_dir, const char *mode, int how)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char uri[128];
    pthread_once(&once, register_vfs);
    snprintf(uri, sizeof uri, "file:/proc/self/fd/%d/" DB_NAME "?%s", state_dir, mode);
    int flags = how | SQLITE_OPEN_URI | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    return sqlite3_open_v2(uri, &db->handle, flags, "tasuki");
}

/* On a file system that is mounted read-only nobody writes, so the file is all there is to read. */
static int open_read_only(struct db *db, int state_dir, struct tsk_error *err)
{
    int64_t version;
    db_close(db);
    db->is_read_only = true;
    int rc = open_handle(db, state_dir, "immutable=1", SQLITE_OPEN_READONLY);
    if (rc != SQLITE_OK)
        return fail_sqlite(db, rc, err);
    if (read_version(db, &version, err) < 0)
        return -1;
    return version == VERSION ? 0
                              : error_set(err, TSK_ENVIRONMENT, "db_damaged", "path", DB_NAME, "reason", "old", NULL);
}

static int run_sql(struct db *db, const char *sql, struct tsk_error *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail_sqlite(db, rc, err);
}

static int read_version(struct db *db, int64_t *ret, struct tsk_error *err)
{
    if (db_int(db, err, ret, 0, "PRAGMA user_version") < 0)
        return -1;
    if (*ret <= VERSION)
        return 0;
    error_set(err, TSK_ENVIRONMENT, "db_newer", "path", DB_NAME, NULL);
    error_add_int(err, "found", *ret);
    error_add_int(err, "known", VERSION);
    return -1;
}

static int migrate_once(struct db *db, int64_t version, struct tsk_error *err)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", (int)version + 1);
    if (run_sql(db, migrations[version], err) < 0)
        return -1;
    return run_sql(db, pragma, err);
}

/* The version is read again inside the transaction: another process may have been first. */
static int migrate(struct db *db, struct tsk_error *err)
{
    int64_t version = 0;
    if (read_version(db, &version, err) < 0)
        return -1;
    while (version < VERSION) {
        if (db_begin(db, err) < 0)
            return -1;
        if (read_version(db, &version, err) < 0 || (version < VERSION && migrate_once(db, version, err) < 0)) {
            db_rollback(db);
            return -1;
        }
        if (db_commit(db, err) < 0 || read_version(db, &version, err) < 0)
            return -1;
    }
    return 0;
}

/* Switching a new file to WAL takes locks that the busy handler does not wait for when two do it at once (one
 * of them would have to give up a read lock); whoever loses only needs to look again. */
static int enter_wal(struct db *db, struct tsk_error *err)
{
    int rc = SQLITE_BUSY;
    for (int waited_ms = 0; (rc & 0xff) == SQLITE_BUSY && waited_ms < BUSY_TIMEOUT_MS; waited_ms++) {
        rc = sqlite3_exec(db->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) == SQLITE_BUSY)
            sqlite3_sleep(1);
    }
    return rc == SQLITE_OK ? 0 : fail_sqlite(db, rc, err);
}

/* The -wal and -shm files stay when the last one closes the database: on a full disk it could not be opened otherwise. */
static void keep_wal(struct db *db)
{
    int yes = 1;
    sqlite3_file_control(db->handle, NULL, SQLITE_FCNTL_PERSIST_WAL, &yes);
}

/* What is in the -wal file is in the database, too, since the last one closed it; but who opens it next does not know that and
 * would write behind it. On a disk that is about full it begins anew, so that what is written finds the room that is there. */
static void make_room(struct db *db, int state_dir)
{
    struct statfs st;
    if (fs->fstatfs(state_dir, &st) == 0 && (uint64_t)st.f_bavail * (uint64_t)st.f_bsize < TIGHT_BYTES)
        sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static int set_up(struct db *db, int state_dir, struct tsk_error *err)
{
    keep_wal(db);
    sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
    if (enter_wal(db, err) < 0)
        return -1;
    make_room(db, state_dir);
    if (run_sql(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err) < 0)
        return -1;
    return migrate(db, err);
}

/* SQLite would make root's file in a user's workspace. Its companions it gives to the owner of the database by itself. */
static void make_for_owner(int state_dir)
{
    if (geteuid() != 0 || db_exists(state_dir))
        return;
    int fd = fs->openat(state_dir, "state.db", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    fs_close(&fd);
}

int db_open(struct db *db, int state_dir, struct tsk_error *err)
{
    *db = (struct db){.handle = NULL, .state_dir = state_dir};
    if (faccessat(state_dir, ".", W_OK, 0) < 0 && errno == EROFS) {
        if (open_read_only(db, state_dir, err) == 0)
            return 0;
        db_close(db);
        return -1;
    }
    make_for_owner(state_dir);
    int rc = open_handle(db, state_dir, "modeof=/proc/self/mem", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    rc = rc == SQLITE_OK ? set_up(db, state_dir, err) : fail_sqlite(db, rc, err);
    if (rc < 0)
        db_close(db);
    return rc;
}

bool db_exists(int state_dir)
{
    struct stat st;
    return fs->fstatat(state_dir, DB_NAME, &st, 0) == 0;
}

void db_close(struct db *db)
{
    db_rollback(db);
    sqlite3_close_v2(db->handle);
    db->handle = NULL;
}

/* ---- transactions ------------------------------------------------------------------------------------- */

static void block_stopping(struct db *db)
{
    sigset_t stopping;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTSTP);
    sigaddset(&stopping, SIGINT);
    sigaddset(&stopping, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stopping, &db->saved_signals);
}

/* Threads of one program take turns before they ask SQLite, whose waiting is not fair: of a hundred that wait, one can be
 * passed over until its time is up. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

int db_begin(struct db *db, struct tsk_error *err)
{
    BUG(db->in_transaction);
    block_stopping(db);
    pthread_mutex_lock(&turn);
    if (run_sql(db, "BEGIN IMMEDIATE", err) < 0) {
        pthread_mutex_unlock(&turn);
        pthread_sigmask(SIG_SETMASK, &db->saved_signals, NULL);
        return -1;
    }
    db->in_transaction = true;
    return 0;
}

int db_commit(struct db *db, struct tsk_error *err)
{
    BUG(!db->in_transaction);
    if (run_sql(db, "COMMIT", err) < 0) {
        db_rollback(db);
        return -1;
    }
    db->in_transaction = false;
    pthread_mutex_unlock(&turn);
    pthread_sigmask(SIG_SETMASK, &db->saved_signals, NULL);
    return 0;
}

void db_rollback(struct db *db)
{
    if (!db->in_transaction)
        return;
    sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL); /* fails only if SQLite did it already */
    db->in_transaction = false;
    pthread_mutex_unlock(&turn);
    pthread_sigmask(SIG_SETMASK, &db->saved_signals, NULL);
}

/* ---- statements --------------------------------------------------------------------------------------- */

int db_prepare(struct db *db, const char *sql, struct sqlite3_stmt **ret, struct tsk_error *err)
{
    struct sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (rc != SQLITE_OK)
        return fail_sqlite(db, rc, err);
    *ret = statement;
    return 0;
}

int db_exec(struct db *db, struct tsk_error *err, const char *sql, unsigned count, ...)
{
    STATEMENT(statement);
    if (db_prepare(db, sql, &statement, err) < 0)
        return -1;
    va_list values;
    va_start(values, count);
    for (unsigned i = 1; i <= count; i++)
        sqlite3_bind_text(statement, (int)i, va_arg(values, const char *), -1, SQLITE_STATIC);
    va_end(values);
    int rc = sqlite3_step(statement);
    BUG(rc == SQLITE_ROW);
    return rc == SQLITE_DONE ? 0 : fail_sqlite(db, rc, err);
}

int db_query(struct db *db, struct db_rows *ret, struct tsk_error *err, const char *sql, unsigned count, ...)
{
    *ret = (struct db_rows){.db = db};
    if (db_prepare(db, sql, &ret->statement, err) < 0)
        return -1;
    va_list values;
    va_start(values, count);
    for (unsigned i = 1; i <= count; i++)
        sqlite3_bind_text(ret->statement, (int)i, va_arg(values, const char *), -1, SQLITE_TRANSIENT);
    va_end(values);
    return 0;
}

int db_next(struct db_rows *rows, struct tsk_error *err)
{
    int rc = sqlite3_step(rows->statement);
    if (rc == SQLITE_ROW)
        return 1;
    return rc == SQLITE_DONE ? 0 : fail_sqlite(rows->db, rc, err);
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
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
}

int64_t db_changes(const struct db *db)
{
    return sqlite3_changes64(db->handle);
}

int db_int(struct db *db, struct tsk_error *err, int64_t *ret, int64_t fallback, const char *sql)
{
    STATEMENT(statement);
    if (db_prepare(db, sql, &statement, err) < 0)
        return -1;
    int rc = sqlite3_step(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return fail_sqlite(db, rc, err);
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : fallback;
    return 0;
}

/* ---- the outbox --------------------------------------------------------------------------------------- */

int db_event(struct db *db, const struct now *now, const struct event *event, struct tsk_error *err)
{
    BUG(!db->in_transaction);
    struct buf line CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX - 64}; /* leaves room for the outbox_id */
    event_put_line(&line, now, event);
    if (line.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, "event", event->type, NULL);
    return db_exec(db, err, "INSERT INTO outbox (line) VALUES (?1)", 1, buf_str(&line));
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
    STATEMENT(rows);
    struct buf line CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX};
    *ret_last = 0;
    if (db_prepare(db, "SELECT id, line FROM outbox ORDER BY id", &rows, err) < 0)
        return -1;
    int rc;
    while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
        *ret_last = sqlite3_column_int64(rows, 0);
        buf_reset(&line);
        put_line_with_id(&line, (const char *)sqlite3_column_text(rows, 1), (size_t)sqlite3_column_bytes(rows, 1),
                         *ret_last);
        if (event_append_line(trail, buf_str(&line), line.len, NULL, err) < 0)
            return -1;
    }
    return rc == SQLITE_DONE ? 0 : fail_sqlite(db, rc, err);
}

static int flush_in_transaction(struct db *db, struct event_trail *trail, struct tsk_error *err)
{
    int64_t last;
    if (append_rows(db, trail, &last, err) < 0 || event_trail_sync(trail, err) < 0)
        return -1;
    char sql[64];
    snprintf(sql, sizeof sql, "DELETE FROM outbox WHERE id <= %lld", (long long)last);
    return db_exec(db, err, sql, 0);
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
