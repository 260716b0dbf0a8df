/* A cluster of servers that have a script: which node is asked. */
#include "redis_scene.h"

#define SLOT_FOO 12182 /* of the key foo, as CLUSTER KEYSLOT says */

TEST(the_keys_of_a_slot_are_asked_at_the_node_that_has_it_and_all_others_where_they_were)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {
        HELLO_CLUSTER(0),
        {0, "GET foo", elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[1])},
        HELLO_CLUSTER(1),
        {1, "GET foo", "+OK\r\n"},
        {1, "GET {foo}.a", "+OK\r\n"},
        {1, "GET b{foo}c{bar}", "+OK\r\n"},
        {0, "GET bar", "+OK\r\n"},
        {0, "GET {foo", "+OK\r\n"},
        {0, "GET foo{}", "+OK\r\n"},
        {0, "GET {}foo", "+OK\r\n"},
        {0, "GET {{foo}}", "+OK\r\n"},
        {1, "GET foo", "+OK\r\n"},
    };
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    static const char *const keys[] = {"foo",   "{foo}.a", "b{foo}c{bar}", "bar", "{foo",
                                       "foo{}", "{}foo",   "{{foo}}",      "foo"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ASSERT_OK(redis_say(&conn, NULL, &err, "GET", keys[i], NULL));
    redis_close(&conn);
    server_close(&s);
}

TEST(the_place_of_a_slot_is_believed_only_of_a_cluster_and_only_if_it_is_one)
{
    static const struct {
        const char *refusal;
        bool is_place;
    } rows[] = {
        {"MOVED 12182 127.0.0.1:1", true},
        {"MOVED 0 127.0.0.1:1", true},
        {"MOVED 16383 127.0.0.1:1", true},
        {"MOVED 16384 127.0.0.1:1", false},
        {"MOVED 1 127.0.0.1", false},
        {"MOVED 1", false},
        {"MOVED", false},
        {"MOVEDX 1 127.0.0.1:1", false},
        {"ASK 1 127.0.0.1:1", false},
        {"", false},
    };
    struct redis_settings settings = {.host = "127.0.0.1", .port = "1"};
    struct redis_conn conn = {.fd = -1, .is_cluster = true, .settings = &settings};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_INT(cluster_moved(&conn, rows[i].refusal), rows[i].is_place);
    conn.is_cluster = false;
    ASSERT(!cluster_moved(&conn, "MOVED 1 127.0.0.1:1"));
    redis_close(&conn);
}

TEST(a_cluster_has_at_most_64_other_nodes_and_one_that_is_known_stays_so)
{
    struct redis_settings settings = {.host = "127.0.0.1", .port = "1"};
    struct redis_conn conn = {.fd = -1, .is_cluster = true, .settings = &settings};
    char text[64];
    for (int i = 1; i <= 66; i++) {
        snprintf(text, sizeof text, "MOVED %d 127.0.0.1:%d", i, i);
        ASSERT_INT(cluster_moved(&conn, text), i <= 64);
    }
    ASSERT(cluster_moved(&conn, "MOVED 9 127.0.0.1:64"));
    ASSERT(!cluster_moved(&conn, "MOVED 9 127.0.0.2:64"));
    redis_close(&conn);
}

TEST(a_place_without_a_host_is_another_port_of_the_same)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),
                           {0, "GET foo", elsewhere("MOVED", SLOT_FOO, "", s.ports[1])},
                           HELLO_CLUSTER(1),
                           {1, "GET foo", "+OK\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_OK(redis_say(&conn, NULL, &err, "GET", "foo", NULL));
    redis_close(&conn);
    server_close(&s);
}

TEST(ask_counts_for_one_command_and_moved_from_now_on)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),
                           {0, "GET foo", elsewhere("ASK", SLOT_FOO, "127.0.0.1", s.ports[1])},
                           HELLO_CLUSTER(1),
                           {1, "ASKING", "+OK\r\n"},
                           {1, "GET foo", "+OK\r\n"},
                           {0, "GET foo", "-ERR no\r\n"},
                           {0, "GET foo", "-ASK 99999 127.0.0.1:1\r\n"},
                           {0, "GET foo", "+OK\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_OK(redis_say(&conn, NULL, &err, "GET", "foo", NULL));
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "foo", NULL), -1);
    ASSERT_STR(reason(&err), "ERR no");
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "foo", NULL), -1);
    ASSERT_OK(redis_say(&conn, NULL, &err, "GET", "foo", NULL));
    redis_close(&conn);
    server_close(&s);
}

TEST(a_node_that_refuses_to_be_asked_is_the_end_of_that_command)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),
                           {0, "GET foo", elsewhere("ASK", SLOT_FOO, "127.0.0.1", s.ports[1])},
                           HELLO_CLUSTER(1),
                           {1, "ASKING", "-ERR x\r\n"},
                           {0, "GET foo", "+OK\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "foo", NULL), -1);
    ASSERT_STR(reason(&err), "ERR x");
    ASSERT_OK(redis_say(&conn, NULL, &err, "GET", "foo", NULL));
    redis_close(&conn);
    server_close(&s);
}

TEST(a_command_that_is_sent_round_in_a_circle_ends_after_five)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    const char *to_1 = elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[1]),
               *to_2 = elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[2]);
    struct line lines[] = {HELLO_CLUSTER(0),     {0, "GET foo", to_1}, HELLO_CLUSTER(1),
                           {1, "GET foo", to_2}, HELLO_CLUSTER(2),     {2, "GET foo", to_1},
                           {1, "GET foo", to_2}, {2, "GET foo", to_1}, {0, "GET bar", "+OK\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "foo", NULL), -1);
    ASSERT_OK(redis_say(&conn, NULL, &err, "GET", "bar", NULL));
    redis_close(&conn);
    server_close(&s);
}

TEST(a_connection_for_one_key_is_made_to_the_node_that_has_it)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    const char *to_0 = elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[0]),
               *to_1 = elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[1]);
    struct line lines[] = {
        HELLO_CLUSTER(0),        {0, "EXISTS foo", to_1},
        HELLO_CLUSTER(1),        {1, "EXISTS foo", ":0\r\n"},             /* found */
        HELLO_CLUSTER(0),        {0, "EXISTS foo", "-CLUSTERDOWN x\r\n"}, /* refused */
        HELLO_CLUSTER(0),        {0, "EXISTS foo", to_1},
        HELLO_CLUSTER(1),        {1, "EXISTS foo", to_0},
        HELLO_CLUSTER(0), /* a circle */
        {0, "EXISTS foo", to_1}, HELLO_CLUSTER(1),
        {1, "EXISTS foo", to_0}, HELLO_CLUSTER(0),
        {0, "EXISTS foo", to_1}, HELLO(2), /* no cluster: no question */
    };
    START(&s, lines);
    ASSERT_OK(cluster_connect(&conn, &settings, "foo", &err));
    ASSERT(!conn.is_cluster);
    redis_close(&conn);
    ASSERT_INT(cluster_connect(&conn, &settings, "foo", &err), -1);
    ASSERT_STR(reason(&err), "CLUSTERDOWN x");
    ASSERT_INT(conn.fd, -1);
    ASSERT_INT(cluster_connect(&conn, &settings, "foo", &err), -1);
    ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
    ASSERT_STR(reason(&err), "MOVED");
    ASSERT_INT(conn.fd, -1);
    settings_for(&settings, &s, 2);
    ASSERT_OK(cluster_connect(&conn, &settings, "foo", &err));
    redis_close(&conn);
    server_close(&s);
}

TEST(in_a_cluster_the_second_of_two_is_said_after_the_first_was_answered)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    struct redis_command one CLEANUP(command_clear) = {.count = 0}, two CLEANUP(command_clear) = {.count = 0};
    redisReply *reply = NULL;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),       {0, "A foo", elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[1])},
                           HELLO_CLUSTER(1),       {1, "A foo", ":1\r\n"},
                           {1, "B foo", ":2\r\n"}, {1, "A foo", "-ERR x\r\n"},
                           {1, "A foo", ":1\r\n"}, {1, "B foo", "-ERR y\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    put_words(&one, "A", "foo");
    put_words(&two, "B", "foo");
    ASSERT_OK(cluster_ask_two(&conn, "foo", &one, &two, &reply, &err));
    ASSERT_INT(reply->integer, 1);
    reply_free(&reply);
    ASSERT_INT(cluster_ask_two(&conn, "foo", &one, &two, &reply, &err), -1);
    ASSERT_INT(cluster_ask_two(&conn, "foo", &one, &two, &reply, &err), -1);
    reply_free(&reply);
    ASSERT_STR(reason(&err), "ERR y");
    redis_close(&conn);
    server_close(&s);
}

TEST(the_node_of_a_key_is_asked_for_once)
{
    struct server s;
    struct redis_settings settings;
    struct redis_conn conn;
    struct tsk_error err;
    server_open(&s);
    settings_for(&settings, &s, 0);
    struct line lines[] = {HELLO_CLUSTER(0),
                           {0, "EXISTS foo", elsewhere("MOVED", SLOT_FOO, "127.0.0.1", s.ports[1])},
                           HELLO_CLUSTER(1),
                           {1, "EXISTS foo", ":0\r\n"},
                           {0, "EXISTS bar", ":0\r\n"},
                           {0, "EXISTS {a}", "-ERR x\r\n"}};
    START(&s, lines);
    ASSERT_OK(redis_connect(&conn, &settings, &err));
    struct redis_conn *node = cluster_at(&conn, "foo", &err);
    ASSERT(node && node != &conn && node->fd >= 0 && !node->is_cluster);
    ASSERT(cluster_at(&conn, "foo", &err) == node);
    ASSERT(cluster_at(&conn, "bar", &err) == &conn);
    ASSERT(cluster_at(&conn, "bar", &err) == &conn);
    ASSERT(!cluster_at(&conn, "{a}", &err));
    redis_close(&conn);
    server_close(&s);
}

TEST(a_node_that_cannot_be_reached_is_not_tried_again_at_once)
{
    struct redis_settings settings = {.host = "127.0.0.1", .port = "1"};
    struct redis_conn conn = {.fd = -1, .is_cluster = true, .settings = &settings};
    struct tsk_error err;
    bool is_spared = false;
    for (int i = 0; i < 100 && !is_spared; i++) { /* the two may be far from each other on a busy machine */
        for (int k = 0; k < 2; k++) {
            ASSERT(cluster_moved(&conn, "MOVED 12182 127.0.0.1:1"));
            ASSERT_INT(redis_say(&conn, NULL, &err, "GET", "foo", NULL), -1);
            ASSERT_INT(err.code, TSK_REDIS_UNAVAILABLE);
        }
        is_spared = strcmp(reason(&err), "closed") == 0;
    }
    ASSERT(is_spared);
    redis_close(&conn);
}
