/* db_conn.c - connections to state.db: opening one, keeping it for the next use, and the schema. See db_conn.h. */
#include "store/db_conn.h"
#include "base/fs.h"
#include "base/word.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DB_NAME         "state.db"
#define BUSY_TIMEOUT_MS 5000
#define DB_TIGHT_BYTES  (64u << 20)
#define SHM_CUT         3
#define SHM_REGION      (32 << 10) /* what SQLite maps at a time */
#define WAL_HEADER      32
#define WAL_FRAMES      64 /* pages */
#define CONN_KEPT_MAX   8  /* connections that nobody uses */

/* Migration i makes version i+1 out of version i. A released entry is never changed; new ones go to the end.
 */
static const char *const migrations[] = {
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL);"
    /* Ids keep growing along the trail (E6) also after somebody removed the database. */
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
     * wall clock. A workflow keeps its row when nobody owns it, because its fence must keep growing. Times are Unix
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

    /* The who of an instance (own/who.h). `label` is name#number, or the name alone for number 1; numbers are given among the
     * living. `directory` is where it works. */
    "ALTER TABLE instance ADD COLUMN name TEXT;"
    "ALTER TABLE instance ADD COLUMN number INTEGER;"
    "ALTER TABLE instance ADD COLUMN user TEXT;"
    "ALTER TABLE instance ADD COLUMN program TEXT;"
    "ALTER TABLE instance ADD COLUMN session TEXT;"
    "ALTER TABLE instance ADD COLUMN subagent TEXT;"
    "ALTER TABLE instance ADD COLUMN note TEXT;"
    "ALTER TABLE instance ADD COLUMN directory TEXT;"
    "ALTER TABLE instance ADD COLUMN is_agent INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX instance_name ON instance (name) WHERE name IS NOT NULL;"
    /* As JSON: the owner's at its claim, and the starter's of the newest start. */
    "ALTER TABLE workflow ADD COLUMN who TEXT;"
    "ALTER TABLE process ADD COLUMN started_by TEXT;",

    /* The who, as JSON, of the party that has registered it. */
    "ALTER TABLE process ADD COLUMN created_by TEXT;",
};

enum { VERSION = sizeof migrations / sizeof migrations[0] };

int db_schema_version(void)
{
    return VERSION;
}

/* ---- SQLite's system calls ---- */

/* SQLite would resolve /proc/self/fd/N/state.db to a path of at most 512 bytes that a renamed directory makes
 * wrong. This copy of its file system layer leaves the name as it is. */
static int keep_pathname(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    (void)vfs;
    return snprintf(ret, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* The process that opens the database first resets the -shm file: SQLite cuts it to 3 bytes. A checkpoint that empties the WAL
 * cuts it to 0 bytes. On a full disk neither file would get its blocks back. As many zeros, or a header of zeros, mean the same
 * and keep the blocks. */
static int cut_file(int fd, off_t size)
{
    static char zeros[SHM_REGION]; /* not const: it would be 32 KiB of the program file */
    struct stat st;
    off_t least = size == 0 ? WAL_HEADER : SHM_REGION;
    if ((size != SHM_CUT && size != 0) || fstat(fd, &st) < 0 || st.st_size < least)
        return ftruncate(fd, size);
    if (pwrite(fd, zeros, (size_t)least, 0) != (ssize_t)least)
        return errno = ENOSPC, -1;
    return size == 0 ? 0 : ftruncate(fd, SHM_REGION);
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

/* Root gives the -wal and -shm files to the owner of the database at each opening; a file that is his already stays as it is. */
static int db_give_to_owner(int fd, uid_t user, gid_t group)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_uid == user && st.st_gid == group)
        return 0;
    return fchown(fd, user, group);
}

/* SQLite's table of system calls is one for the whole program. */
static void register_vfs(void)
{
    static sqlite3_vfs vfs;
    vfs = *sqlite3_vfs_find(NULL);
    vfs.xSetSystemCall(&vfs, "ftruncate", (sqlite3_syscall_ptr)cut_file);
    vfs.xSetSystemCall(&vfs, "mmap", (sqlite3_syscall_ptr)shm_map);
    vfs.xSetSystemCall(&vfs, "fchown", (sqlite3_syscall_ptr)db_give_to_owner);
    vfs.zName = "tasuki";
    vfs.xFullPathname = keep_pathname;
    sqlite3_vfs_register(&vfs, 0);
}

/* ---- opening ---- */

static int open_handle(struct db_conn *conn, const char *mode, int how)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char uri[128];
    pthread_once(&once, register_vfs);
    snprintf(uri, sizeof uri, "file:/proc/self/fd/%d/" DB_NAME "?%s", conn->dir, mode);
    int flags = how | SQLITE_OPEN_URI | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(uri, &conn->handle, flags, "tasuki");
    if (rc == SQLITE_OK)
        sqlite3_busy_timeout(conn->handle, BUSY_TIMEOUT_MS);
    return rc;
}

static void drop_cached(struct db_conn *conn)
{
    for (size_t i = 0; i < DB_CACHED; i++) {
        sqlite3_finalize(conn->cached[i]);
        conn->cached[i] = NULL;
    }
}

static void close_handle(struct db_conn *conn)
{
    drop_cached(conn);
    sqlite3_close_v2(conn->handle);
    conn->handle = NULL;
}

static int run_sql(struct db *db, const char *sql, struct tsk_error *err)
{
    int rc = sqlite3_exec(db->conn->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err);
}

static int read_version(struct db *db, int64_t *ret, struct tsk_error *err)
{
    if (db_int(db, err, ret, 0, "PRAGMA user_version") < 0)
        return -1;
    if (*ret <= VERSION)
        return 0;
    error_set(err, TSK_ENVIRONMENT, "db_newer", "path", DB_NAME, NULL);
    error_add_int(err, "found", *ret);
    return error_add_int(err, "known", VERSION);
}

/* N1. False: there is no database of our version that can be read this way, or it is damaged. Another way of opening it finds
 * out. */
static bool open_look(struct db *db)
{
    struct tsk_error ignored;
    int64_t version;
    if (open_handle(db->conn, "readonly_shm=1", SQLITE_OPEN_READONLY) == SQLITE_OK &&
        read_version(db, &version, &ignored) == 0 && version == VERSION)
        return true;
    close_handle(db->conn);
    return false;
}

/* Nobody writes to a file system that is mounted read-only. Without a -wal and a -shm file the database is all there is to
 * read. */
static int open_read_only(struct db *db, struct tsk_error *err)
{
    int64_t version;
    db->conn->is_read_only = db->is_read_only = true;
    if (open_look(db))
        return 0;
    int rc = open_handle(db->conn, "immutable=1", SQLITE_OPEN_READONLY);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, err);
    if (read_version(db, &version, err) < 0)
        return -1;
    if (version == VERSION)
        return 0;
    return error_set(err, TSK_ENVIRONMENT, "db_older", "path", DB_NAME, "found", DIGITS(version), "known",
                     DIGITS(VERSION), NULL);
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
static int conn_migrate(struct db *db, struct tsk_error *err)
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
 * of them would have to give up a read lock). The loser only needs to try again. */
static int enter_wal(struct db *db, struct tsk_error *err)
{
    int rc = SQLITE_BUSY;
    for (int waited_ms = 0; (rc & 0xff) == SQLITE_BUSY && waited_ms < BUSY_TIMEOUT_MS; waited_ms++) {
        rc = sqlite3_exec(db->conn->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) == SQLITE_BUSY)
            sqlite3_sleep(1);
    }
    return rc == SQLITE_OK ? 0 : db_fail(db, rc, err);
}

/* N2. The -wal and -shm files stay when the last one closes the database: on a full disk it could not be opened otherwise. */
static void keep_wal(struct db_conn *conn)
{
    int yes = 1;
    sqlite3_file_control(conn->handle, NULL, SQLITE_FCNTL_PERSIST_WAL, &yes);
    sqlite3_db_config(conn->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* N2. Readers of the WAL are not waited for: a later commit tries again. */
static int after_commit(void *data, sqlite3 *handle, const char *name, int pages)
{
    (void)data;
    if (pages < WAL_FRAMES)
        return SQLITE_OK;
    sqlite3_busy_timeout(handle, 0);
    sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(handle, BUSY_TIMEOUT_MS);
    return SQLITE_OK;
}

/* On a disk that is about full the WAL begins again when the database is opened, and is moved into the database when it is
 * closed, so that what is written finds the room that both files have. */
static void db_make_room(struct db_conn *conn)
{
    struct statfs st;
    if (fs->fstatfs(conn->dir, &st) < 0 || (uint64_t)st.f_bavail * (uint64_t)st.f_bsize >= DB_TIGHT_BYTES)
        return;
    sqlite3_db_config(conn->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    sqlite3_wal_checkpoint_v2(conn->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* SQLite would make root's file in a user's workspace. Its companions it gives to the owner of the database by itself. */
static void make_for_owner(int state_dir)
{
    if (geteuid() != 0 || db_exists(state_dir))
        return;
    int fd = fs->openat(state_dir, "state.db", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    fs_close(&fd);
}

/* The file is made 0600 whatever the umask is, and without a descriptor of ours: `modeof` takes the mode of another file, and
 * the memory of a process is 0600 everywhere. */
static int open_to_write(struct db *db, struct tsk_error *err)
{
    make_for_owner(db->state_dir);
    int rc = open_handle(db->conn, "modeof=/proc/self/mem", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (rc != SQLITE_OK)
        return db_fail(db, rc, err);
    keep_wal(db->conn);
    if (enter_wal(db, err) < 0)
        return -1;
    db_make_room(db->conn);
    sqlite3_wal_hook(db->conn->handle, after_commit, NULL);
    if (run_sql(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err) < 0)
        return -1;
    return conn_migrate(db, err);
}

/* ---- keeping ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static enum db_use use;
static struct db_conn *conns; /* all that are open, unless `use` is DB_USE_ONCE */

static bool is_file(const struct stat *st, const struct db_conn *conn)
{
    return st->st_ino == conn->inode && st->st_dev == conn->device;
}

static struct db_conn *conn_new(int state_dir)
{
    struct db_conn *conn = calloc(1, sizeof *conn);
    pthread_mutexattr_t attr;
    BUG(!conn);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&conn->turn, &attr);
    pthread_mutexattr_destroy(&attr);
    conn->users = 1;
    conn->dir = fcntl(state_dir, F_DUPFD_CLOEXEC, 3);
    return conn;
}

static void conn_free(struct db_conn *conn)
{
    close_handle(conn);
    fs_close(&conn->dir);
    pthread_mutex_destroy(&conn->turn);
    free(conn);
}

void db_conn_lock(struct db_conn *conn)
{
    pthread_mutex_lock(&conn->turn);
}

void db_conn_unlock(struct db_conn *conn)
{
    pthread_mutex_unlock(&conn->turn);
}

/* With the mutex: takes out of the list those that nobody uses and that `is_unwanted` names (NULL: all). */
static struct db_conn *take_out(bool (*is_unwanted)(const struct db_conn *))
{
    struct db_conn *out = NULL;
    for (struct db_conn **at = &conns; *at;) {
        struct db_conn *conn = *at;
        if (conn->users || (is_unwanted && !is_unwanted(conn))) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        conn->next = out;
        out = conn;
    }
    return out;
}

static void free_list(struct db_conn *list)
{
    for (struct db_conn *next; list; list = next) {
        next = list->next;
        conn_free(list);
    }
}

/* N3. */
static bool is_moved(const struct db_conn *conn)
{
    struct stat st;
    return fs->fstatat(conn->dir, DB_NAME, &st, 0) < 0 || !is_file(&st, conn);
}

void db_use(enum db_use wanted)
{
    pthread_mutex_lock(&mutex);
    struct db_conn *list = take_out(NULL);
    BUG(conns); /* somebody is using one */
    use = wanted;
    pthread_mutex_unlock(&mutex);
    free_list(list);
}

/* With the mutex. A connection that looks is shared by all of a process (N1). */
static struct db_conn *conn_find(const struct stat *st)
{
    for (struct db_conn *conn = conns; conn; conn = conn->next) {
        BUG(conn->pid != getpid()); /* N4 */
        if (is_file(st, conn) && (conn->users == 0 || use == DB_USE_LOOK))
            return conn;
    }
    return NULL;
}

struct db_conn *db_conn_kept(int state_dir)
{
    struct stat st;
    struct db_conn *moved = NULL;
    pthread_mutex_lock(&mutex);
    bool has_any = conns;
    pthread_mutex_unlock(&mutex);
    if (!has_any || fs->fstatat(state_dir, DB_NAME, &st, 0) < 0)
        return NULL;
    pthread_mutex_lock(&mutex);
    struct db_conn *conn = conn_find(&st);
    if (conn)
        conn->users++;
    else
        moved = take_out(is_moved);
    pthread_mutex_unlock(&mutex);
    free_list(moved);
    return conn;
}

/* From now on in the list. The file may have been made by opening it. */
static void conn_enter(struct db_conn *conn)
{
    struct stat st;
    if (fs->fstatat(conn->dir, DB_NAME, &st, 0) == 0) {
        conn->device = st.st_dev;
        conn->inode = st.st_ino;
    }
    conn->pid = getpid();
    pthread_mutex_lock(&mutex);
    conn->next = conns;
    conns = conn;
    pthread_mutex_unlock(&mutex);
}

static int open_new(struct db *db, struct tsk_error *err)
{
    struct db_conn *conn = db->conn;
    if (faccessat(conn->dir, ".", W_OK, 0) < 0 && errno == EROFS)
        return open_read_only(db, err);
    conn->is_look = use == DB_USE_LOOK && open_look(db);
    return conn->is_look ? 0 : open_to_write(db, err);
}

static int take_or_open(struct db *db, struct tsk_error *err)
{
    db->conn = db_conn_kept(db->state_dir);
    if (db->conn) {
        db->is_read_only = db->conn->is_read_only;
        return 0;
    }
    db->conn = conn_new(db->state_dir);
    int result = db->conn->dir < 0 ? error_errno(err, "open", DB_NAME) : open_new(db, err);
    if (result < 0) {
        conn_free(db->conn);
        db->conn = NULL;
    } else if (use != DB_USE_ONCE) {
        conn_enter(db->conn);
    }
    return result;
}

/* Of two threads that look, the second finds the connection of the first (N1). */
int db_conn_take(struct db *db, struct tsk_error *err)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    if (use != DB_USE_LOOK)
        return take_or_open(db, err);
    pthread_mutex_lock(&opening);
    int result = take_or_open(db, err);
    pthread_mutex_unlock(&opening);
    return result;
}

void db_conn_give_back(struct db_conn *conn)
{
    bool is_surplus = false;
    unsigned idle = 0;
    if (use == DB_USE_ONCE) {
        conn_free(conn);
        return;
    }
    pthread_mutex_lock(&mutex);
    conn->users--;
    for (struct db_conn *each = conns; each; each = each->next)
        idle += each->users == 0;
    if (idle > CONN_KEPT_MAX) {
        is_surplus = true;
        struct db_conn **at = &conns;
        while (*at != conn)
            at = &(*at)->next;
        *at = conn->next;
    }
    pthread_mutex_unlock(&mutex);
    if (is_surplus)
        conn_free(conn);
}

int db_conn_exchange(struct db *db, struct tsk_error *err)
{
    struct db_conn *conn = db->conn;
    if (!conn->is_look)
        return 0;
    drop_cached(conn);
    BUG(sqlite3_next_stmt(conn->handle, NULL)); /* rows that somebody still reads */
    close_handle(conn);
    conn->is_look = false;
    if (open_to_write(db, err) == 0)
        return 0;
    /* What could be read before still can. */
    close_handle(conn);
    conn->is_look = open_look(db);
    return -1;
}

bool db_conn_needs_exchange(const struct db_conn *conn, int rc)
{
    int primary = rc & 0xff;
    return conn->is_look && (primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN);
}

/* ---- statements ---- */

int db_conn_prepare(struct db_conn *conn, const char *sql, struct sqlite3_stmt **ret)
{
    for (size_t i = 0; i < DB_CACHED; i++) {
        if (!conn->cached[i] || strcmp(sqlite3_sql(conn->cached[i]), sql) != 0)
            continue;
        *ret = conn->cached[i];
        conn->cached[i] = NULL;
        return SQLITE_OK;
    }
    return sqlite3_prepare_v3(conn->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
}

void db_conn_finish(struct db_conn *conn, struct sqlite3_stmt *statement)
{
    size_t i = 0;
    if (!statement)
        return;
    while (i < DB_CACHED && conn->cached[i])
        i++;
    if (i == DB_CACHED) {
        sqlite3_finalize(statement);
        return;
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    conn->cached[i] = statement;
}
