#include "base/fs.h"
#include "harness/test.h"
#include "store/db.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct now some_time = {.wall_ms = 1770471000250, .boot_ms = 1};
static struct tsk_error err;

static int state_dir(void)
{
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT(dir >= 0);
    return dir;
}

static void open_db(struct db *db, int dir)
{
    if (db_open(db, dir, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s", tsk_error_context(&err, "reason"));
}

static int64_t integer(struct db *db, const char *sql)
{
    int64_t value = -1;
    ASSERT_INT(db_int(db, &err, &value, -1, sql), 0);
    return value;
}

static void add_event(struct db *db, int number)
{
    char data[64];
    snprintf(data, sizeof data, "{\"number\":%d}", number);
    ASSERT_INT(db_begin(db, &err), 0);
    ASSERT_INT(db_event(db, &some_time, &(struct event){.type = "t", .data = data}, &err), 0);
    ASSERT_INT(db_commit(db, &err), 0);
}

/* Asserts that a reader sees the numbers 0..count-1, each once. */
static void assert_trail(int dir, int count)
{
    struct event_reader reader;
    json_t *event;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    for (int i = 0; i < count; i++) {
        ASSERT_INT(event_read(&reader, &event, &err), 1);
        ASSERT_INT(json_integer_value(json_at(event, "data.number")), i);
        json_decref(event);
    }
    ASSERT_INT(event_read(&reader, &event, &err), 0);
    event_reader_clear(&reader);
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    int count = 0;
    ASSERT(file);
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

static void wait_all(int count)
{
    for (int i = 0; i < count; i++) {
        int status;
        ASSERT(waitpid(-1, &status, 0) > 0);
        ASSERT_INT(status, 0);
    }
}

TEST(a_new_database_has_the_schema_and_the_settings)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    umask(0);
    open_db(&db, dir);
    ASSERT_INT(integer(&db, "PRAGMA user_version"), db_schema_version());
    ASSERT_INT(integer(&db, "SELECT count(*) FROM outbox"), 0);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM instance"), 0);
    ASSERT_INT(integer(&db, "PRAGMA synchronous"), 2);
    ASSERT_INT(integer(&db, "PRAGMA foreign_keys"), 1);
    ASSERT_INT(integer(&db, "PRAGMA busy_timeout"), 5000);
    ASSERT_INT(integer(&db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    static const char *const files[] = {"state.db", "state.db-wal", "state.db-shm"};
    for (int i = 0; i < 3; i++) {
        struct stat st;
        ASSERT_INT(stat(files[i], &st), 0);
        ASSERT_INT(st.st_mode & 0777, 0600);
    }
    db_close(&db);
}

TEST(a_restrictive_umask_changes_nothing)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    struct stat st;
    umask(0777);
    open_db(&db, dir);
    db_close(&db);
    ASSERT_INT(stat("state.db", &st), 0);
    ASSERT_INT(st.st_mode & 0777, 0600);
}

TEST(what_was_committed_is_there_and_what_was_rolled_back_is_not)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    open_db(&db, dir);
    ASSERT_INT(db_begin(&db, &err), 0);
    ASSERT_INT(db_exec(&db, &err, "INSERT INTO outbox (line) VALUES (?1)", DB_TEXT("kept")), 0);
    ASSERT_INT(db_commit(&db, &err), 0);
    ASSERT_INT(db_begin(&db, &err), 0);
    ASSERT_INT(db_exec(&db, &err, "INSERT INTO outbox (line) VALUES (?1)", DB_TEXT("dropped")), 0);
    db_rollback(&db);
    db_close(&db);
    open_db(&db, dir);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM outbox"), 1);
    ASSERT_INT(db_exec(&db, &err, "INSERT INTO outbox (line) VALUES (?1)", DB_TEXT(NULL)), -1);
    ASSERT_INT(err.code, TSK_INTERNAL);
    db_close(&db);
}

TEST(signals_that_stop_are_held_back_inside_a_transaction_only)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    sigset_t mask;
    open_db(&db, dir);
    ASSERT_INT(db_begin(&db, &err), 0);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    ASSERT(sigismember(&mask, SIGTSTP) && sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM));
    ASSERT_INT(db_commit(&db, &err), 0);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    ASSERT(!sigismember(&mask, SIGTSTP) && !sigismember(&mask, SIGINT) && !sigismember(&mask, SIGTERM));
    db_close(&db);
}

TEST(many_processes_may_create_and_migrate_at_once)
{
    int dir CLEANUP_FD = state_dir();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) {
            if (fork())
                continue;
            struct db db;
            open_db(&db, dir);
            ASSERT_INT(integer(&db, "SELECT count(*) FROM outbox"), 0);
            db_close(&db);
            _exit(0);
        }
        wait_all(4);
        ASSERT_INT(unlink("state.db"), 0);
        unlink("state.db-wal");
        unlink("state.db-shm");
    }
}

TEST(a_database_of_a_newer_tasuki_is_refused_and_left_alone)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    open_db(&db, dir);
    ASSERT_INT(db_exec(&db, &err, "PRAGMA user_version = 999"), 0);
    db_close(&db);
    ASSERT_INT(db_open(&db, dir, &err), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_STR(err.text, "db_newer");
    ASSERT_STR(tsk_error_context(&err, "found"), "999");
}

TEST(a_damaged_database_is_refused_and_left_alone)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    char text[4096], back[4096];
    memset(text, 'x', sizeof text);
    FILE *file = fopen("state.db", "we");
    ASSERT(file && fwrite(text, sizeof text, 1, file) == 1);
    fclose(file);
    ASSERT_INT(db_open(&db, dir, &err), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_STR(err.text, "db_damaged");
    file = fopen("state.db", "re");
    ASSERT(file && fread(back, sizeof back, 1, file) == 1);
    fclose(file);
    ASSERT_INT(memcmp(text, back, sizeof text), 0);
}

TEST(a_symbolic_link_is_not_followed)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    ASSERT_INT(symlink("elsewhere", "state.db"), 0);
    ASSERT_INT(db_open(&db, dir, &err), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_INT(access("elsewhere", F_OK), -1);
}

TEST(a_path_longer_than_sqlite_allows_works)
{
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    for (int i = 0; i < 5; i++)
        ASSERT(mkdir(name, 0700) == 0 && chdir(name) == 0);
    int dir CLEANUP_FD = state_dir();
    struct db db;
    open_db(&db, dir);
    add_event(&db, 0);
    db_close(&db);
}

/* ---- for how long a connection is kept ---- */

static void make(int dir)
{
    struct db db;
    open_db(&db, dir);
    ASSERT_INT(db_begin(&db, &err), 0);
    ASSERT_INT(db_exec(&db, &err, "CREATE TABLE kept (n INTEGER)"), 0);
    ASSERT_INT(db_commit(&db, &err), 0);
    db_close(&db);
}

static void insert(struct db *db)
{
    ASSERT_INT(db_begin(db, &err), 0);
    ASSERT_INT(db_exec(db, &err, "INSERT INTO kept VALUES (1)"), 0);
    ASSERT_INT(db_commit(db, &err), 0);
}

TEST(a_look_becomes_a_change_in_all_places_that_have_it_open)
{
    int dir CLEANUP_FD = state_dir();
    struct db one, two;
    make(dir);
    db_use(DB_USE_LOOK);
    open_db(&one, dir);
    open_db(&two, dir);
    ASSERT_INT(integer(&one, "SELECT count(*) FROM kept"), 0);
    insert(&two);
    ASSERT_INT(integer(&one, "SELECT count(*) FROM kept"), 1);
    insert(&one);
    ASSERT_INT(integer(&two, "SELECT count(*) FROM kept"), 2);
    db_close(&one);
    db_close(&two);
    db_use(DB_USE_ONCE);
}

/* A look that finds that it cannot is exchanged, and no statement may be in use then. */
TEST(rows_that_were_read_to_their_end_are_no_longer_in_use)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    struct db_rows none, one;
    make(dir);
    db_use(DB_USE_ONCE);
    open_db(&db, dir);
    insert(&db);
    db_close(&db);
    db_use(DB_USE_LOOK);
    open_db(&db, dir);
    ASSERT_INT(db_query(&db, &none, &err, "SELECT * FROM kept WHERE 0"), 0);
    ASSERT_INT(db_next(&none, &err), 0);
    ASSERT_INT(db_query(&db, &one, &err, "SELECT * FROM kept"), 0);
    ASSERT_INT(db_next(&one, &err), 1);
    ASSERT_INT(db_next(&one, &err), 0);
    insert(&db);
    ASSERT_INT(db_next(&one, &err), 0);
    db_rows_free(&none);
    db_rows_free(&one);
    db_close(&db);
    db_use(DB_USE_ONCE);
}

/* Another process that inserts a row for each byte that it is sent; a third of the time it keeps the database open. */
static void write_when_told(int dir, int orders, int answers)
{
    struct db db = {0};
    for (char order; read(orders, &order, 1) == 1;) {
        if (!db_is_open(&db))
            open_db(&db, dir);
        insert(&db);
        if (order != 'k')
            db_close(&db);
        ASSERT(write(answers, &order, 1) == 1);
    }
    db_close(&db);
    _exit(0);
}

/* The look has a wal-index of its own at first. A writer makes the shared one valid, changes it, and leaves it invalid. */
TEST(a_look_sees_writers_that_come_and_go)
{
    int dir CLEANUP_FD = state_dir(), orders[2], answers[2];
    struct db looks;
    char answer;
    make(dir);
    ASSERT_INT(pipe2(orders, O_CLOEXEC), 0);
    ASSERT_INT(pipe2(answers, O_CLOEXEC), 0);
    if (fork() == 0) {
        close(orders[1]);
        write_when_told(dir, orders[0], answers[1]);
    }
    db_use(DB_USE_LOOK);
    open_db(&looks, dir);
    for (int count = 0; count < 300; count++) {
        ASSERT_INT(integer(&looks, "SELECT count(*) FROM kept"), count);
        ASSERT(write(orders[1], count % 3 ? "c" : "k", 1) == 1 && read(answers[0], &answer, 1) == 1);
    }
    ASSERT_INT(integer(&looks, "SELECT count(*) FROM kept"), 300);
    db_close(&looks);
    for (int i = 0; i < 2; i++)
        close(orders[i]);
    wait_all(1);
    for (int i = 0; i < 2; i++)
        close(answers[i]);
    db_use(DB_USE_ONCE);
}

TEST(a_kept_connection_is_not_used_by_a_forked_child)
{
    int dir CLEANUP_FD = state_dir(), status;
    struct db db;
    db_use(DB_USE_KEEP);
    open_db(&db, dir);
    db_close(&db);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, 2);
        db_open(&db, dir, &err);
        _exit(0);
    }
    ASSERT_INT(waitpid(child, &status, 0), child);
    ASSERT(WIFSIGNALED(status));
    db_use(DB_USE_ONCE);
}

TEST(a_kept_connection_is_used_again_until_the_file_is_another)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    make(dir);
    db_use(DB_USE_KEEP);
    open_db(&db, dir);
    const struct db_conn *first = db.conn;
    db_close(&db);
    open_db(&db, dir);
    ASSERT(db.conn == first);
    insert(&db);
    db_close(&db);
    ASSERT_INT(rename("state.db", "old"), 0);
    unlink("state.db-wal");
    unlink("state.db-shm");
    open_db(&db, dir);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM sqlite_master WHERE name = 'kept'"), 0);
    db_close(&db);
    db_use(DB_USE_ONCE);
}

TEST(the_wal_begins_anew_also_when_every_connection_is_another)
{
    int dir CLEANUP_FD = state_dir();
    struct stat st;
    make(dir);
    for (int i = 0; i < 300; i++) {
        struct db db;
        open_db(&db, dir);
        insert(&db);
        db_close(&db);
    }
    ASSERT_INT(stat("state.db-wal", &st), 0);
    ASSERT(st.st_size < 100 * 4120);
    struct db db;
    open_db(&db, dir);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM kept"), 300);
    db_close(&db);
}

TEST(events_of_the_outbox_reach_the_trail_once)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    struct db db;
    open_db(&db, dir);
    event_trail_init(&trail, dir);
    for (int i = 0; i < 3; i++)
        add_event(&db, i);
    ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
    ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM outbox"), 0);
    ASSERT_INT(count_lines("events.ndjson"), 4);
    assert_trail(dir, 3);
    event_trail_clear(&trail);
    db_close(&db);
}

TEST(an_event_that_no_line_of_the_trail_can_hold_is_refused_as_too_large)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    open_db(&db, dir);
    size_t len = EVENT_LINE_MAX;
    char *data = malloc(len + 1);
    ASSERT(data);
    memset(data, 'x', len);
    memcpy(data, "{\"a\":\"", 6);
    memcpy(data + len - 2, "\"}", 3);
    ASSERT_INT(db_begin(&db, &err), 0);
    ASSERT_INT(db_event(&db, &some_time, &(struct event){.type = "t", .data = data}, &err), -1);
    ASSERT_INT(err.code, TSK_PAYLOAD_TOO_LARGE);
    ASSERT_STR(tsk_error_context(&err, "event"), "t");
    ASSERT_INT(db_commit(&db, &err), 0);
    ASSERT_INT(integer(&db, "SELECT count(*) FROM outbox"), 0);
    free(data);
    db_close(&db);
}

TEST(an_event_whose_change_was_not_committed_never_reaches_the_trail)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    struct db db;
    open_db(&db, dir);
    event_trail_init(&trail, dir);
    ASSERT_INT(db_begin(&db, &err), 0);
    ASSERT_INT(db_event(&db, &some_time, &(struct event){.type = "t", .data = "{\"number\":7}"}, &err), 0);
    db_rollback(&db);
    add_event(&db, 0);
    ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
    assert_trail(dir, 1);
    event_trail_clear(&trail);
    db_close(&db);
}

static int die(int fd)
{
    (void)fd;
    raise(SIGKILL);
    return -1;
}

/* The sync of the trail is between the appends and the commit. */
static void flush_and_die(int dir)
{
    static struct fs_calls calls;
    pid_t pid = fork();
    if (pid == 0) {
        struct event_trail trail;
        struct db db;
        open_db(&db, dir);
        event_trail_init(&trail, dir);
        calls = fs_system_calls;
        calls.fdatasync = die;
        fs = &calls;
        db_flush_outbox(&db, &trail, &err);
        _exit(0);
    }
    int status;
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    ASSERT(WIFSIGNALED(status));
}

TEST(a_kill_between_the_trail_and_the_commit_repeats_nothing_for_a_reader)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    struct db db;
    open_db(&db, dir);
    add_event(&db, 0);
    event_trail_init(&trail, dir);
    ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0); /* the trail exists; its making has a sync of its own */
    add_event(&db, 1);
    add_event(&db, 2);
    db_close(&db);
    flush_and_die(dir);
    flush_and_die(dir);
    ASSERT_INT(count_lines("events.ndjson"), 6);
    open_db(&db, dir);
    add_event(&db, 3);
    ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
    ASSERT_INT(count_lines("events.ndjson"), 9);
    assert_trail(dir, 4);
    event_trail_clear(&trail);
    db_close(&db);
}

TEST(ids_of_the_outbox_go_on_after_the_database_was_removed)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    int64_t before = 0;
    for (int i = 0; i < 2; i++) {
        struct db db;
        int64_t first;
        do { /* the first id comes from the clock, in milliseconds */
            unlink("state.db");
            open_db(&db, dir);
            first = integer(&db, "SELECT seq FROM sqlite_sequence");
            if (first <= before)
                db_close(&db);
        } while (first <= before);
        before = first;
        add_event(&db, i);
        ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
        db_close(&db);
    }
    assert_trail(dir, 2);
    event_trail_clear(&trail);
}

TEST(many_processes_may_flush_at_once)
{
    int dir CLEANUP_FD = state_dir();
    struct db db;
    open_db(&db, dir);
    for (int i = 0; i < 30; i++)
        add_event(&db, i);
    db_close(&db);
    for (int i = 0; i < 4; i++) {
        if (fork())
            continue;
        struct event_trail trail;
        open_db(&db, dir);
        event_trail_init(&trail, dir);
        ASSERT_INT(db_flush_outbox(&db, &trail, &err), 0);
        _exit(0);
    }
    wait_all(4);
    ASSERT_INT(count_lines("events.ndjson"), 31);
    assert_trail(dir, 30);
}
