/* The connection to Redis, the steps and the pool, against a server that has a script. */
#include "redis_scene.h"

#include "redis/pool.h"
#include "redis/steps.h"

#include <errno.h>
#include <sys/un.h>

/* ---- a connection --------------------------------------------------------------------------------------- */

TEST(a_connection_logs_in_chooses_the_database_and_learns_what_the_server_is)
{
    static const struct {
        const char *version, *mode;
        bool has_functions, is_cluster;
    } rows[] = {
        {"6.2.14", "standalone", false, false}, {"7.0.0", "cluster", true, true}, {"10.1", "standalone", true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct server s;
        struct redis_settings settings;
        struct redis_conn conn;
        struct tsk_error err;
        server_open(&s);
        settings_for(&settings, &s, 0);
        snprintf(settings.user, sizeof settings.user, "%s", i ? "" : "me");
        snprintf(settings.password, sizeof settings.password, "pw");
        snprintf(settings.db, sizeof settings.db, "3");
        struct line lines[] = {{0, i ? "AUTH pw" : "AUTH me pw", "+OK\r\n"},
                               {0, "SELECT 3", "+OK\r\n"},
                               {0, "INFO server", hello(rows[i].version, rows[i].mode)}};
        START(&s, lines);
        ASSERT_OK(redis_connect(&conn, &settings, &err));
        ASSERT_STR(conn.server_id, "0123456789abcdef0123456789abcdef01234567");
        ASSERT_STR(conn.version, rows[i].version);
        ASSERT_INT(conn.has_functions, rows[i].has_functions);
        ASSERT_INT(conn.is_cluster, rows[i].is_cluster);
        redis_close(&conn);
        ASSERT_INT(conn.fd, -1);
        server_close(&s);
    }
}

/* How the connection to a server fails that answers so to what it hears first. */
static void connect_refused(const char *password, const char *heard, const char *said, struct tsk_error *err)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    server_open(&s);
    settings_for(&settings, &s, 0);
    snprintf(settings.password, sizeof settings.password, "%s", password);
    struct line lines[] = {{0, heard, said}};
    START(&s, lines);
    ASSERT_INT(redis_connect(&conn, &settings, err), -1);
    ASSERT_INT(conn.fd, -1);
    server_close(&s);
}

TEST(a_login_that_is_refused_is_no_server_that_is_away)
{
    static const struct {
        const char *password, *heard, *said, *reason;
        enum tsk_code code;
        bool is_login;
    } rows[] = {
        {"pw", "AUTH pw", "-WRONGPASS invalid username-password pair.\r\n", "WRONGPASS invalid username-password pair",
         TSK_ENVIRONMENT, true},
        {"", "INFO server", "-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required", TSK_ENVIRONMENT,
         true},
        {"", "INFO server", "-LOADING it loads.\r\n", "LOADING it loads.", TSK_ENVIRONMENT, false},
        {"", "INFO server", NULL, "end of file", TSK_REDIS_UNAVAILABLE, false},
        {"", "INFO server", "$6\r\nrun_id\r\n", "no run_id in INFO", TSK_REDIS_UNAVAILABLE, true},
        {"", "INFO server", "!what\r\n", "Protocol error, got \"!\" as reply type byte", TSK_REDIS_UNAVAILABLE, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tsk_error err;
        connect_refused(rows[i].password, rows[i].heard, rows[i].said, &err);
        ASSERT_INT(err.code, rows[i].code);
        ASSERT_STR(reason(&err), rows[i].reason);
        ASSERT_INT(tsk_error_context(&err, "server") != NULL, rows[i].is_login);
    }
}

TEST(where_nobody_listens_the_server_is_away_and_its_address_is_named)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    char shown[REDIS_SHOWN_MAX];
    server_open(&s);
    settings_for(&settings, &s, 0);
    for (int i = 0; i < PORTS; i++)
        close(s.listeners[i]);
    redis_show(&settings, shown);
    ASSERT_INT(redis_connect(&conn, &settings, &err), -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(tsk_error_context(&err, "server"), shown);
    ASSERT_STR(reason(&err), "Connection refused");
    snprintf(settings.path, sizeof settings.path, "no-such-socket");
    ASSERT_INT(redis_connect(&conn, &settings, &err), -1);
    ASSERT_STR(tsk_error_context(&err, "server"), "unix://no-such-socket");
    ASSERT_STR(reason(&err), "No such file or directory");
}

TEST(what_is_asked_on_a_closed_connection_fails_at_once)
{
    struct redis_conn conn = {.fd = -1};
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    struct tsk_error err;
    redisReply *reply;
    command_begin(&command, "PING");
    ASSERT_INT(redis_send(&conn, &command, NULL, &err), -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "closed");
    ASSERT_INT(redis_receive(&conn, 0, &reply, &err), -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "closed");
}

TEST(a_refusal_leaves_the_connection_open_but_not_that_of_a_replica)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0),
                           {0, "GET k", "-ERR no.\r\n"},
                           {0, "GET k", "$2\r\nhi\r\n"},
                           {0, "SET k v", "-READONLY You can't\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "k", NULL), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_STR(reason(&err), "ERR no.");
    ASSERT_OK(redis_say(&conn, &reply, &err, "GET", "k", NULL));
    ASSERT_STR(reply->str, "hi");
    ASSERT_INT(redis_say(&conn, NULL, &err, "SET", "k", "v", NULL), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_INT(conn.fd, -1);
    redis_close(&conn);
    server_close(&s);
}

TEST(of_two_that_are_under_way_each_has_its_own_answer)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct redis_command one CLEANUP(command_clear) = {.count = 0}, two CLEANUP(command_clear) = {.count = 0};
    redisReply *reply = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0),
                           {0, "A k", ":1\r\n"},
                           {0, "B k", ":2\r\n"},
                           {0, "A k", "-ERR x\r\n"},
                           {0, "B k", ":4\r\n"},
                           {0, "C k", ":5\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    put_words(&one, "A", "k");
    put_words(&two, "B", "k");
    ASSERT_OK(redis_ask_two(&conn, &one, &two, &reply, &err));
    ASSERT_INT(reply->integer, 1);
    reply_free(&reply);
    ASSERT_INT(redis_ask_two(&conn, &one, &two, &reply, &err), -1);
    ASSERT(!reply);
    ASSERT_STR(reason(&err), "ERR x");
    ASSERT_OK(redis_say(&conn, &reply, &err, "C", "k", NULL));
    ASSERT_INT(reply->integer, 5);
    reply_free(&reply);
    redis_close(&conn);
    ASSERT_INT(redis_ask_two(&conn, &one, &two, &reply, &err), -1);
    ASSERT_STR(reason(&err), "closed");
    server_close(&s);
}

TEST(a_call_that_is_not_answered_when_something_else_is_due_closes_the_connection)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    redisReply *reply = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0), {0, "GET k", ""}, {0, "", ""}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(redis_receive(&conn, 0, &reply, &err), 0); /* nothing was asked */
    ASSERT(conn.fd >= 0);
    redis_due(1);
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "k", NULL), -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "no answer in time");
    ASSERT_INT(conn.fd, -1);
    server_close(&s);
}

TEST(a_socket_of_this_machine_is_connected_whatever_failed_before)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    server_open(&s);
    settings_for(&settings, &s, 0);
    snprintf(settings.path, sizeof settings.path, "socket");
    close(s.listeners[0]);
    s.listeners[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_OK(bind(s.listeners[0], (struct sockaddr *)&address, sizeof address));
    ASSERT_OK(listen(s.listeners[0], 4));
    struct line lines[] = {HELLO(0)};
    START(&s, lines);
    errno = EPERM;
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    redis_close(&conn);
    server_close(&s);
}

TEST(the_text_of_an_element_that_is_not_there_is_empty)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL, *plain CLEANUP_REPLY = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0), {0, "L k", "*3\r\n$1\r\na\r\n$-1\r\n$1\r\nc\r\n"}, {0, "S k", "$1\r\ns\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_OK(redis_say(&conn, &reply, &err, "L", "k", NULL));
    ASSERT_OK(redis_say(&conn, &plain, &err, "S", "k", NULL));
    ASSERT_STR(reply_text(reply, 0), "a");
    ASSERT_STR(reply_text(reply, 1), "");
    ASSERT_STR(reply_text(reply, 2), "c");
    ASSERT_STR(reply_text(reply, 3), "");
    ASSERT_STR(reply_text(plain, 0), "");
    ASSERT_STR(reply_text(NULL, 0), "");
    redis_close(&conn);
    server_close(&s);
}

/* ---- the steps ------------------------------------------------------------------------------------------ */

static enum steps_answer ask_step(struct redis_conn *conn, struct steps *steps, struct tsk_error *err)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    steps_begin(&command, conn, steps, "renew");
    return steps_ask(conn, steps, &command, &reply, err);
}

TEST(what_the_answer_to_a_step_says_is_what_its_caller_learns)
{
    static const struct {
        const char *said;
        enum steps_answer answer;
        int64_t seen;
        const char *reason;
    } rows[] = {
        {"*2\r\n$2\r\nOK\r\n$1\r\n7\r\n", STEPS_OK, 7, NULL},
        {"*2\r\n$2\r\nOK\r\n$1\r\n6\r\n", STEPS_OK, 7, NULL},
        {"*2\r\n$2\r\nOK\r\n$16\r\n9007199254740992\r\n", STEPS_OK, 7, NULL},
        {"*2\r\n$2\r\nOK\r\n$16\r\n9007199254740991\r\n", STEPS_OK, 9007199254740991, NULL},
        {"*1\r\n$5\r\nENDED\r\n", STEPS_ENDED, 9007199254740991, "ENDED"},
        {"*1\r\n$5\r\nOWNER\r\n", STEPS_FOREIGN, 9007199254740991, "OWNER"},
        {"*1\r\n$6\r\nLAYOUT\r\n", STEPS_STALE, 9007199254740991, "LAYOUT"},
        {"*0\r\n", STEPS_STALE, 9007199254740991, ""},
    };
    enum { COUNT = sizeof rows / sizeof *rows };
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct steps steps = {.seen = 0};
    struct line lines[COUNT + 1] = {HELLO(0)};
    for (size_t i = 0; i < COUNT; i++)
        lines[i + 1] = (struct line){0, "FCALL tasuki_v3_*", rows[i].said};
    server_open(&s);
    settings_for(&settings, &s, 0);
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    key_of_run(&settings, "R", "meta", steps.meta);
    ASSERT_STR(steps.meta, "p:{R}:meta");
    for (size_t i = 0; i < COUNT; i++) {
        ASSERT_INT(ask_step(&conn, &steps, &err), rows[i].answer);
        ASSERT_INT(steps.seen, rows[i].seen);
        if (rows[i].reason) {
            ASSERT_INT(err.code, TSK_ENVIRONMENT);
            ASSERT_STR(reason(&err), rows[i].reason);
        }
    }
    redis_close(&conn);
    server_close(&s);
}

TEST(the_steps_are_loaded_where_they_are_missing_and_asked_once_more)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct steps steps = {.seen = 0, .meta = "k"};
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {
        HELLO(0),
        {0, "FCALL tasuki_v3_*", "-ERR Function not found\r\n"},
        {0, "FUNCTION LOAD REPLACE #!lua name=tasuki_v3_*", "$1\r\nx\r\n"},
        {0, "FCALL tasuki_v3_*", "*2\r\n$2\r\nOK\r\n$1\r\n1\r\n"},
        {0, "FCALL tasuki_v3_*", "-ERR Function not found\r\n"}, /* and it cannot be loaded */
        {0, "FUNCTION LOAD REPLACE #!lua name=tasuki_v3_*", "-OOM x\r\n"},
        {0, "FCALL tasuki_v3_*", "-BUSY x\r\n"},                      /* another refusal: nothing is loaded */
        {0, "FCALL tasuki_v3_*", "-ERR unknown command 'FCALL'\r\n"}, /* a server that has no functions after all */
        {0, "FUNCTION LOAD REPLACE #!lua name=tasuki_v3_*", "-ERR unknown command 'FUNCTION'\r\n"},
        {0, "SCRIPT LOAD *", "$4\r\nabcd\r\n"},
        {0, "EVALSHA abcd 1 k renew 0123456789abcdef0123456789abcdef01234567 1", "*2\r\n$2\r\nOK\r\n$1\r\n2\r\n"},
        {0, "EVALSHA abcd 1 k renew 0123456789abcdef0123456789abcdef01234567 2", "-NOSCRIPT x\r\n"},
        {0, "SCRIPT LOAD *", "$4\r\nabcd\r\n"},
        {0, "EVALSHA abcd 1 k renew *", "-NOSCRIPT x\r\n"}, /* once more only */
        {0, "EVALSHA abcd 1 k renew *", NULL},
    };
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_OK);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT_STR(reason(&err), "OOM x");
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT_STR(reason(&err), "BUSY x");
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_OK);
    ASSERT_INT(steps.seen, 2);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT(conn.fd >= 0);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT_INT(conn.fd, -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY); /* closed */
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    server_close(&s);
}

TEST(a_step_that_is_not_answered_when_something_else_is_due_closes_the_connection)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct steps steps = {.seen = 0, .meta = "k"};
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0), {0, "FCALL tasuki_v3_*", ""}, {0, "", ""}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    redis_due(1);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT_INT(conn.fd, -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "no answer in time");
    server_close(&s);
}

TEST(a_step_that_was_begun_for_another_server_is_not_sent)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct steps steps = {.seen = 0, .meta = "k"};
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO(0)};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    steps_begin(&command, &conn, &steps, "renew");
    steps.server[0] = 'x';
    ASSERT_INT(steps_ask(&conn, &steps, &command, &reply, &err), STEPS_AWAY);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "MOVED");
    redis_close(&conn);
    server_close(&s);
}

TEST(in_a_cluster_a_step_names_a_key_that_never_exists_and_moves_with_its_run)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct steps steps = {.seen = 5, .meta = "foo"};
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),
                           {0, "EXISTS foo", ":1\r\n"},
                           {0, "FCALL tasuki_v3_*", elsewhere("MOVED", 12182, "127.0.0.1", s.ports[1])},
                           HELLO_CLUSTER(1),
                           {1, "FCALL tasuki_v3_*", "*2\r\n$2\r\nOK\r\n$1\r\n6\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_AWAY);
    ASSERT_INT(ask_step(&conn, &steps, &err), STEPS_OK);
    ASSERT_INT(steps.seen, 6);
    redis_close(&conn);
    server_close(&s);
}

/* ---- the pool ------------------------------------------------------------------------------------------- */

TEST(the_workers_of_a_pool_are_read_field_by_field_and_who_is_gone_leaves_the_list)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    json_t *list CLEANUP_JSON = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {
        HELLO(0),
        {0, "ZRANGE p:{pool q}:w 0 9999 WITHSCORES", "*4\r\n$1\r\na\r\n$2\r\n17\r\n$1\r\nb\r\n$2\r\n18\r\n"},
        {0, "MGET p:{pool q}:w:a p:{pool q}:w:b",
         "*2\r\n$44\r\na\tname\thost\t,x,yz,\t4\t3\tbusy\t0.1.0\tR\tabc\tkk\t3\r\n$-1\r\n"},
        {0, "ZREM p:{pool q}:w b", ":1\r\n"},
        {0, "RPUSH p:{pool q}:o:a drain", ":1\r\n"},
        {0, "EXPIRE p:{pool q}:o:a 120", ":1\r\n"},
        {0, "RPUSH p:{pool q}:o:a end", "-ERR x\r\n"},
        {0, "ZRANGE p:{pool q}:w 0 9999 WITHSCORES", "-ERR x\r\n"},
        {0, "ZRANGE p:{pool q}:w 0 9999 WITHSCORES", "*2\r\n$1\r\na\r\n$2\r\n17\r\n"},
        {0, "MGET p:{pool q}:w:a", "-ERR x\r\n"},
    };
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_OK(pool_workers(&conn, &settings, &list, &err));
    json_t *wanted CLEANUP_JSON =
        json_pack("[{s:s, s:s, s:s, s:[s,s], s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i}]", "id", "a", "name", "name",
                  "host", "host", "tags", "x", "yz", "places", 4, "tasks", 3, "state", "busy", "version", "0.1.0",
                  "run", "R", "commit", "abc", "key", "kk", "layout", "3", "seen_ms", 17);
    ASSERT(json_equal(list, wanted));
    ASSERT_OK(pool_order(&conn, &settings, "a", "drain", &err));
    ASSERT_INT(pool_order(&conn, &settings, "a", "end", &err), -1);
    json_decref(list);
    list = NULL;
    ASSERT_INT(pool_workers(&conn, &settings, &list, &err), -1);
    ASSERT_INT(pool_workers(&conn, &settings, &list, &err), -1);
    ASSERT(!list);
    redis_close(&conn);
    server_close(&s);
}

TEST(other_pools_are_named_and_our_own_is_not)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct buf others CLEANUP(buf_clear) = BUF_INIT;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {
        HELLO(0),
        {0, "ZRANGEBYSCORE tasuki:{pools} *", "*3\r\n$3\r\na/b\r\n$3\r\np/q\r\n$3\r\np/r\r\n"},
        {0, "ZADD tasuki:{pools} *", "-ERR x\r\n"},
        {0, "ZADD tasuki:{pools} *", ":1\r\n"},
        {0, "EXPIRE tasuki:{pools} 86400", ":1\r\n"},
    };
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    pool_others(&conn, &settings, &others);
    ASSERT_STR(buf_str(&others), "a/b, p/r");
    ASSERT_INT(pool_register(&conn, &settings, &err), -1);
    ASSERT_OK(pool_register(&conn, &settings, &err));
    redis_close(&conn);
    server_close(&s);
}
