/* db_conn.h - a connection of SQLite, for the files of this folder: how it is opened, and for how long it is kept.
 *
 *  N1  A connection that only reads is opened read-only, with the wal-index in private memory if no other process has the
 *      database open (SQLite's readonly_shm): it writes nothing. The first change replaces it by one that can write. One
 *      process has one such connection, because SQLite shares the wal-index between all connections of a process.
 *  N2  The WAL stays when a connection is closed: only a commit moves it into the database, when it has WAL_FRAMES pages. The
 *      WAL then starts again, so that a command that opens the database has few pages to read.
 *  N3  A kept connection is used again only while `state.db` is the file that it has opened.
 *  N4  A connection is used by one thread at a time, and never by a forked child. The threads of a command share the read-only
 *      one (a thread draws the line of a wait, for instance): each has exclusive use of it from a statement's start to its end,
 *      and for a whole transaction. */
#ifndef STORE_DB_CONN_H
#define STORE_DB_CONN_H

#include "store/db.h"

#include <pthread.h>
#include <sys/stat.h>

#define DB_CACHED 24

struct db_conn {
    struct sqlite3 *handle;
    int dir; /* our own descriptor of the state directory: SQLite opens its files through it */
    dev_t device;
    ino_t inode; /* of state.db */
    pid_t pid;
    unsigned users;
    bool is_look;         /* N1 */
    bool is_read_only;    /* the file system is: nothing can exchange it */
    pthread_mutex_t turn; /* N4; recursive, because a statement may be started while another's rows are read */
    struct sqlite3_stmt *cached[DB_CACHED];
    struct db_conn *next;
};

/* A connection of db->state_dir in db->conn. */
int db_conn_take(struct db *db, struct tsk_error *err);
/* One that this process has open already, or NULL. */
struct db_conn *db_conn_kept(int state_dir);
void db_conn_give_back(struct db_conn *conn);
/* Makes a connection that only looks one that can write. No statement of it may be in use. */
int db_conn_exchange(struct db *db, struct tsk_error *err);
/* Whether a statement failed with `rc` only because its connection looks. */
bool db_conn_needs_exchange(const struct db_conn *conn, int rc);

/* N4. */
void db_conn_lock(struct db_conn *conn);
void db_conn_unlock(struct db_conn *conn);

/* A statement from the cache, or a new one; an SQLite code. */
int db_conn_prepare(struct db_conn *conn, const char *sql, struct sqlite3_stmt **ret);
/* Resets a statement and keeps it for the next time. NULL is none. */
void db_conn_finish(struct db_conn *conn, struct sqlite3_stmt *statement);

int db_fail(struct db *db, int rc, struct tsk_error *err);

#endif
