/* db.h - the workspace's SQLite database `.aiflow/state.db` (WAL).
 *
 * Only SQLite opens state.db, its -wal and -shm: closing any other descriptor of them would drop its locks. Every write is one
 * short BEGIN IMMEDIATE … COMMIT with synchronous=FULL and a 5 s busy timeout; SIGTSTP, SIGINT and SIGTERM are blocked inside,
 * so that no lock is held by a stopped process. No handle crosses a fork. Reading writes nothing and syncs nothing (db_conn.h,
 * N1 and N2).
 *
 * Events of database changes are inserted into the table `outbox` in the same transaction (db_event) and moved to the
 * trail by the next command (db_flush_outbox): an event is in the trail if and only if its change was committed. */
#ifndef STORE_DB_H
#define STORE_DB_H

#include "store/events.h"

#include <signal.h>

struct sqlite3_stmt;
struct db_conn;

struct db {
    struct db_conn *conn; /* NULL: not open */
    int state_dir;
    sigset_t saved_signals; /* while a transaction is open */
    bool in_transaction;
    bool is_read_only; /* the file system is */
};

/* What a process does with its connections; set once, before it has threads.
 *   ONCE  opened to write and closed again, each time
 *   LOOK  a command, in one thread: opened to read, exchanged at the first change, and kept until the process ends
 *   KEEP  a server, in many threads: opened to write, and kept for the next caller */
enum db_use { DB_USE_ONCE, DB_USE_LOOK, DB_USE_KEEP };
void db_use(enum db_use use);

/* Opens (creates, 0600) and migrates `.aiflow/state.db` below the directory `state_dir`. A database written by a newer
 * tasuki is refused: ENVIRONMENT, text "db_newer". A damaged one: ENVIRONMENT, text "db_damaged". */
int db_open(struct db *db, int state_dir, struct tsk_error *err); /* state_dir: borrowed until db_close */
/* The same, but makes none: 1 opened, 0 there is none, -1. */
int db_open_existing(struct db *db, int state_dir, struct tsk_error *err);
void db_close(struct db *db); /* also one that is not open */
bool db_is_open(const struct db *db);
/* True if there is a database below `state_dir`; false also if that cannot be determined. */
bool db_exists(int state_dir);

int db_begin(struct db *db, struct tsk_error *err);
int db_commit(struct db *db, struct tsk_error *err);
void db_rollback(struct db *db); /* no-op outside a transaction */

/* The parameters ?1, ?2, … of a statement. DB_TEXT(NULL) is NULL. */
struct db_value {
    const char *text;
    int64_t number;
    bool is_number;
};
#define DB_TEXT(value) ((struct db_value){.text = (value)})
#define DB_INT(value)  ((struct db_value){.number = (value), .is_number = true})
#define DB_VALUES(...) ((const struct db_value[]){__VA_ARGS__})
#define DB_COUNT(...)  (sizeof DB_VALUES(__VA_ARGS__) / sizeof(struct db_value))

/* Runs a statement that returns no rows: db_exec(db, err, "DELETE FROM process WHERE id = ?1", DB_TEXT(id)) */
#define db_exec(db, err, sql, ...) db_exec_values(db, err, sql, DB_COUNT(__VA_ARGS__), DB_VALUES(__VA_ARGS__))
int db_exec_values(struct db *db, struct tsk_error *err, const char *sql, size_t count, const struct db_value *values);
/* Rows of a SELECT:
 *
 *     struct db_rows rows CLEANUP(db_rows_free);
 *     if (db_query(db, &rows, err, "SELECT id FROM process WHERE id > ?1", DB_TEXT(after)) < 0) return -1;
 *     while ((more = db_next(&rows, err)) == 1)
 *         puts(db_column_text(&rows, 0));   // borrowed until the next db_next; NULL for NULL
 *
 * db_next: 1 a row, 0 no more, -1. With the last two the statement is no longer in use. */
struct db_rows {
    struct db *db;
    struct sqlite3_stmt *statement;
    bool is_at_first, is_at_end;
};
#define db_query(db, ret, err, sql, ...)                                                                               \
    db_query_values(db, ret, err, sql, DB_COUNT(__VA_ARGS__), DB_VALUES(__VA_ARGS__))
int db_query_values(struct db *db, struct db_rows *ret, struct tsk_error *err, const char *sql, size_t count,
                    const struct db_value *values);
int db_next(struct db_rows *rows, struct tsk_error *err);
const char *db_column_text(const struct db_rows *rows, int column);
int64_t db_column_int(const struct db_rows *rows, int column);
void db_rows_free(struct db_rows *rows); /* for CLEANUP, also after a failed db_query; before db_close */
/* Rows that the last INSERT, UPDATE or DELETE changed. */
int64_t db_changes(const struct db *db);
/* The first column of the first row as an integer; `fallback` if there is no row. */
int db_int(struct db *db, struct tsk_error *err, int64_t *ret, int64_t fallback, const char *sql);

int db_event(struct db *db, const struct now *now, const struct event *event, struct tsk_error *err);
/* Moves the rows of `outbox` to the trail in one write transaction: append the rows in order, sync the trail, delete the
 * rows, commit. Two processes that flush at once take turns. If a process is killed before its commit, the next one appends
 * the rows again with the same `outbox_id` in their data, and event_read drops the repetition (E6). A reader that begins
 * between the two copies sees only the second one, under the second one's event id. */
int db_flush_outbox(struct db *db, struct event_trail *trail, struct tsk_error *err);
int db_schema_version(void); /* the version this program writes */

#endif
