/* A connection and the time: what a client may take, without waiting for it. */
#include "base/clock.h"
#include "base/fs.h"
#include "harness/test.h"
#include "http/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static int gone_count;

static void gone(struct http_conn *conn)
{
    (void)conn;
    gone_count++;
}

static void room(struct http_conn *conn)
{
    (void)conn;
}

static const struct http_work work = {.gone = gone, .room = room};

/* A server with one connection; ret_client is its other end. */
static struct http_conn *connect_one(struct http_server *server, int *ret_client)
{
    struct tsk_error err = {0};
    int ends[2];
    ASSERT(loop_init(&server->loop, &err) == 0);
    server->stats = stats_new();
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    conn_open(server, ends[0], true);
    *ret_client = ends[1];
    return server->first;
}

static void end(struct http_server *server, int client)
{
    close(client);
    conn_bury(server);
    stats_free(server->stats);
    loop_clear(&server->loop);
}

/* Until nothing more goes in: as if the client had sent requests ahead and taken none of the answers. */
static void fill(int fd)
{
    static const char answers[4096];
    int size = 1;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    while (send(fd, answers, sizeof answers, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    ASSERT(errno == EAGAIN);
}

TEST(a_reader_that_takes_nothing_is_ended_also_where_the_first_push_met_a_full_socket)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = connect_one(&server, &client);
    conn_stream(conn, NULL, &work, NULL);
    fill(conn->source.fd);
    conn_stream_push(conn);
    ASSERT(!conn->is_closed && conn->phase == CONN_STREAM);
    int64_t now_ms = clock_now().boot_ms;
    conn_tick(conn, now_ms + HTTP_PATIENCE_MS - 60000);
    ASSERT(!conn->is_closed);
    conn_tick(conn, now_ms + HTTP_PATIENCE_MS + 1);
    ASSERT(conn->is_closed);
    ASSERT_INT(gone_count, 1);
    ASSERT_INT(server.conn_count, 0);
    end(&server, client);
}

TEST(a_reader_that_takes_what_there_is_may_wait_for_ever)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = connect_one(&server, &client);
    conn_stream(conn, NULL, &work, NULL);
    conn_stream_push(conn);
    conn_tick(conn, clock_now().boot_ms + 10 * (int64_t)HTTP_PATIENCE_MS);
    ASSERT(!conn->is_closed);
    conn_close(conn);
    end(&server, client);
}

/* ---- a client that hangs up ---- */

static struct loop_source next; /* who gets the number of the descriptor that was closed */
static int next_count;

static void next_ready(struct loop_source *source, uint32_t events)
{
    (void)source;
    next_count += (events & EPOLLIN) != 0;
}

static void leave(struct http_conn *conn)
{
    int fd = conn->source.fd;
    conn_close(conn);
    next = (struct loop_source){.fd = eventfd(1, EFD_CLOEXEC), .ready = next_ready};
    ASSERT_INT(next.fd, fd);
    ASSERT(loop_add(&conn->server->loop, &next, EPOLLIN) == 0);
}

static const struct http_work leaves = {.gone = gone, .hung_up = leave, .room = room};

TEST(who_leaves_when_its_client_hangs_up_does_not_touch_who_has_its_descriptor_next)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = connect_one(&server, &client);
    conn_wait(conn, &leaves, NULL);
    shutdown(client, SHUT_WR);
    loop_turn(&server.loop, 1000);
    ASSERT(conn->is_closed);
    loop_turn(&server.loop, 1000);
    ASSERT_INT(next_count, 1);
    loop_remove(&server.loop, &next);
    close(next.fd);
    end(&server, client);
}

/* ---- answers ---- */

static char heard[70000]; /* what the client got since the last time, without the date */

static const char *hear(int client)
{
    ssize_t n = recv(client, heard, sizeof heard - 1, MSG_DONTWAIT);
    heard[n > 0 ? n : 0] = '\0';
    for (char *at; (at = strstr(heard, "Date: "));) {
        const char *end = strstr(at, "\r\n");
        ASSERT_INT(end - at, strlen("Date: Thu, 19 Nov 2026 19:14:00 GMT"));
        memmove(at, end + 2, strlen(end + 2) + 1);
    }
    return heard;
}

/* Sends the text in pieces of `size`, each in a turn of its own. */
static const char *say(struct http_server *server, int client, const char *text, size_t size)
{
    for (size_t at = 0, len = strlen(text); at < len; at += size) {
        size_t some = len - at < size ? len - at : size;
        ASSERT_INT(send(client, text + at, some, MSG_NOSIGNAL), some);
        loop_turn(&server->loop, 0);
    }
    return hear(client);
}

static struct http_conn *talk(struct http_server *server, int *ret_client)
{
    server->scratch = malloc(64u << 10);
    server->lang = LANG_EN;
    return connect_one(server, ret_client);
}

static void hang_up(struct http_server *server, int client)
{
    while (server->first)
        conn_close(server->first);
    end(server, client);
    free(server->scratch);
}

#define COMMON     "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
#define WELL_HEAD  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n" COMMON
#define WELL       WELL_HEAD "\r\n{\"status\":\"ok\"}\n"
#define WELL_LAST  WELL_HEAD "Connection: close\r\n\r\n{\"status\":\"ok\"}\n"
#define ASK(lines) "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" lines "\r\n"

TEST(requests_are_answered_in_their_order_however_they_are_cut)
{
    static const char *const talks[][2] = {
        {ASK(""), WELL},
        {ASK("") ASK("") ASK(""), WELL WELL WELL},
        {"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" ASK(""), WELL_HEAD "\r\n" WELL},
        {"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", WELL_LAST},
        {ASK("Connection: close\r\n"), WELL_LAST},
        {ASK("Content-Length: 3\r\n") "abc" ASK("Content-Length: 0\r\n") ASK(""), WELL WELL WELL},
        {ASK("Transfer-Encoding: chunked\r\n") "3\r\nabc\r\n0\r\n\r\n" ASK(""), WELL WELL},
    };
    for (size_t i = 0; i < sizeof talks / sizeof talks[0]; i++)
        for (size_t size = 1; size <= 1000; size = size == 1 ? 7 : size == 7 ? 1000 : 1001) {
            struct http_server server = {0};
            int client;
            struct http_conn *conn = talk(&server, &client);
            char all[4000] = "";
            for (size_t at = 0, len = strlen(talks[i][0]); at < len; at += size) {
                char piece[1001];
                snprintf(piece, sizeof piece, "%.*s", (int)size, talks[i][0] + at);
                snprintf(all + strlen(all), sizeof all - strlen(all), "%s", say(&server, client, piece, size));
            }
            ASSERT_STR(all, talks[i][1]);
            ASSERT(conn->is_closed == (strstr(talks[i][1], "close") != NULL));
            hang_up(&server, client);
        }
}

TEST(a_large_body_leaves_no_large_buffer_behind)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = talk(&server, &client);
    char text[20000];
    snprintf(text, sizeof text,
             "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: %08000d\r\nContent-Length: 9000\r\n\r\n%09000d", 0, 0);
    ASSERT_STR(say(&server, client, text, sizeof text), WELL);
    ASSERT(conn->in.cap <= 4096 && conn->out.cap <= 4096 && conn->body.cap == 0);
    ASSERT_STR(say(&server, client, ASK(""), 1000), WELL);
    hang_up(&server, client);
}

TEST(who_asks_whether_to_go_on_is_told_so_unless_the_body_is_there)
{
    struct http_server server = {0};
    int client;
    talk(&server, &client);
    ASSERT_STR(say(&server, client, ASK("Expect: 100-continue\r\nContent-Length: 2\r\n"), 1000),
               "HTTP/1.1 100 Continue\r\n\r\n");
    ASSERT_STR(say(&server, client, "{}", 2), WELL);
    ASSERT_STR(say(&server, client, ASK("Expect: 100-continue\r\nContent-Length: 2\r\n") "{}", 1000), WELL);
    ASSERT_STR(say(&server, client, ASK("Content-Length: 2\r\n"), 1000), "");
    ASSERT_STR(say(&server, client, "{}", 2), WELL);
    hang_up(&server, client);
}

TEST(each_status_has_its_phrase_and_each_refusal_its_header)
{
    static const struct {
        int status;
        const char *line;
    } answers[] = {{200, "200 OK"},
                   {202, "202 Accepted"},
                   {304, "304 Not Modified"},
                   {400, "400 Bad Request"},
                   {401, "401 Unauthorized"},
                   {403, "403 Forbidden"},
                   {404, "404 Not Found"},
                   {405, "405 Method Not Allowed"},
                   {408, "408 Request Timeout"},
                   {409, "409 Conflict"},
                   {413, "413 Content Too Large"},
                   {415, "415 Unsupported Media Type"},
                   {417, "417 Expectation Failed"},
                   {422, "422 Unprocessable Content"},
                   {431, "431 Request Header Fields Too Large"},
                   {500, "500 Internal Server Error"},
                   {501, "501 Not Implemented"},
                   {503, "503 Service Unavailable"},
                   {505, "505 HTTP Version Not Supported"},
                   {299, "299 Status"}};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct http_server server = {0};
        char line[100];
        int client;
        struct http_conn *conn = talk(&server, &client);
        snprintf(line, sizeof line, "HTTP/1.1 %s\r\n", answers[i].line);
        conn_wait(conn, &work, NULL);
        ASSERT(conn->phase == CONN_WORKING && conn->deadline_ms == 0);
        conn_refuse(conn, answers[i].status, TSK_NOT_FOUND, "http_no_path");
        hear(client);
        ASSERT(strncmp(heard, line, strlen(line)) == 0);
        ASSERT(!strstr(heard, "WWW-Authenticate: Bearer\r\n") == (answers[i].status != 401));
        ASSERT(!strstr(heard, "Retry-After: 1\r\n") == (answers[i].status != 503));
        ASSERT(!strstr(heard, "Content-Length: ") == (answers[i].status == 304));
        ASSERT(strstr(heard, "Content-Type: application/json\r\n") && strstr(heard, "\"reason_code\":\"NOT_FOUND\""));
        hang_up(&server, client);
    }
}

TEST(an_answer_has_the_headers_that_it_is_given_and_keeps_its_own_cache)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = talk(&server, &client);
    conn->keeps_alive = true;
    conn_answer(conn, 202, NULL, "Cache-Control: no-cache\r\nETag: x\r\n", NULL, 0);
    ASSERT_STR(hear(client), "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nX-Content-Type-Options: "
                             "nosniff\r\nCache-Control: no-cache\r\nETag: x\r\n\r\n");
    ASSERT(!conn->is_closed && conn->phase == CONN_HEAD);
    server.is_ending = true;
    conn_answer(conn, 202, "text/plain", NULL, "a", 1);
    ASSERT_STR(hear(client), "HTTP/1.1 202 Accepted\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n" COMMON
                             "Connection: close\r\n\r\na");
    ASSERT(conn->is_closed);
    conn_answer(conn, 200, NULL, NULL, NULL, 0); /* the client has gone */
    hang_up(&server, client);
}

TEST(a_stream_has_a_head_without_a_length_and_ends_with_its_connection)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = talk(&server, &client);
    gone_count = 0;
    conn_stream(conn, "X-Accel-Buffering: no\r\n", &work, NULL);
    ASSERT_INT(server.stream_count, 1);
    conn_stream_put(conn, "abc", 3);
    conn_stream_put(conn, NULL, 0);
    ASSERT_STR(hear(client), "");
    conn_stream_push(conn);
    ASSERT_STR(hear(client), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" COMMON
                             "X-Accel-Buffering: no\r\nConnection: close\r\n\r\nabc");
    loop_turn(&server.loop, 0);
    ASSERT_INT(conn_stream_try(conn, "def", 3), 3);
    conn_stream_put(conn, "ghi", 3);
    ASSERT_INT(conn_stream_try(conn, "jkl", 3), 0); /* something is waiting */
    conn_stream_end(conn);
    ASSERT_STR(hear(client), "defghi");
    ASSERT(conn->is_closed && server.stream_count == 0 && server.conn_count == 0);
    ASSERT_INT(gone_count, 0); /* it has ended by itself */
    hang_up(&server, client);
}

TEST(who_leaves_a_stream_is_gone_once)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = talk(&server, &client);
    gone_count = 0;
    conn_stream(conn, NULL, &work, NULL);
    shutdown(client, SHUT_WR);
    loop_turn(&server.loop, 0);
    ASSERT(conn->is_closed && server.stream_count == 0 && !server.first);
    conn_close(conn);
    ASSERT_INT(gone_count, 1);
    hang_up(&server, client);
}

/* ---- how long a client may take ---- */

/* The deadline is that many ms after a time between the two. */
static void assert_due(const struct http_conn *conn, int64_t from_ms, int64_t ms)
{
    ASSERT(conn->deadline_ms >= from_ms + ms && conn->deadline_ms <= clock_now().boot_ms + ms);
}

TEST(each_part_of_a_request_has_its_time)
{
    struct http_server server = {0};
    int client;
    int64_t from_ms = clock_now().boot_ms;
    struct http_conn *conn = talk(&server, &client);
    assert_due(conn, from_ms, HTTP_HEAD_MS);
    say(&server, client, "GET /healthz HTTP/1.1\r\n", 100);
    assert_due(conn, from_ms, HTTP_HEAD_MS);
    from_ms = clock_now().boot_ms;
    say(&server, client, "Host: localhost\r\nContent-Length: 2\r\n\r\n", 100);
    ASSERT(conn->phase == CONN_BODY);
    assert_due(conn, from_ms, HTTP_BODY_MS);
    from_ms = clock_now().boot_ms;
    ASSERT_STR(say(&server, client, "{}", 100), WELL);
    assert_due(conn, from_ms, HTTP_IDLE_MS);
    from_ms = clock_now().boot_ms;
    ASSERT_STR(say(&server, client, ASK("") "G", 1000), WELL);
    assert_due(conn, from_ms, HTTP_HEAD_MS); /* the next one has begun */
    from_ms = clock_now().boot_ms;
    say(&server, client, "ET nonsense\r\n\r\n", 100);
    ASSERT(conn->phase == CONN_LINGER && !conn->is_closed); /* so that the client reads why */
    assert_due(conn, from_ms, HTTP_LINGER_MS);
    conn_tick(conn, conn->deadline_ms - 1);
    ASSERT(!conn->is_closed);
    conn_tick(conn, conn->deadline_ms);
    ASSERT(conn->is_closed);
    hang_up(&server, client);
}

TEST(who_is_too_slow_hears_it_if_he_has_begun)
{
    static const struct {
        const char *text;
        bool is_told;
    } some[] = {{"", false},
                {"G", true},
                {ASK("Content-Length: 1\r\n"), true},
                {"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n", true}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct http_server server = {0};
        int client;
        struct http_conn *conn = talk(&server, &client);
        ASSERT_STR(say(&server, client, some[i].text, 1000), "");
        conn_tick(conn, conn->deadline_ms - 1);
        ASSERT_STR(hear(client), "");
        conn_tick(conn, conn->deadline_ms);
        ASSERT(conn->is_closed == !some[i].is_told);
        hear(client);
        ASSERT(!strstr(heard, "HTTP/1.1 408 Request Timeout\r\n") == !some[i].is_told);
        ASSERT(!strstr(heard, "\"reason_code\":\"INVALID_INPUT\"") == (!some[i].is_told || some[i].text[0] == 'H'));
        ASSERT(!strstr(heard, "Connection: close\r\n") == !some[i].is_told);
        ASSERT(!strstr(heard, "\r\n\r\n{") == (!some[i].is_told || some[i].text[0] == 'H'));
        hang_up(&server, client);
    }
}

/* ---- the end of the server ---- */

TEST(at_the_end_who_has_begun_is_told_and_who_is_worked_for_stays)
{
    struct http_server server = {0};
    int client;
    struct http_conn *conn = talk(&server, &client);
    conn_wait(conn, &work, NULL);
    conn_end(conn);
    ASSERT(!conn->is_closed);
    conn_close(conn);
    hang_up(&server, client);
    for (int i = 0; i < 3; i++) { /* nothing, a part of a request, a part of a stranger's */
        server = (struct http_server){0};
        conn = talk(&server, &client);
        say(&server, client, i ? "GET /" : "", 100);
        conn->is_known = i != 2;
        conn_end(conn);
        ASSERT(conn->is_closed == (i != 1));
        hear(client);
        ASSERT(!strstr(heard, "HTTP/1.1 503 Service Unavailable\r\n") == (i != 1));
        ASSERT(!strstr(heard, "\"reason_code\":\"ENVIRONMENT\"") == (i != 1));
        hang_up(&server, client);
    }
}

/* ---- places ---- */

TEST(there_is_a_place_while_connections_and_descriptors_are_left_beside_the_ones_that_are_kept)
{
    static const struct {
        unsigned conns, outputs;
        bool is_unix, has_room;
    } some[] = {{0, 0, false, true}, {15, 0, false, true}, {16, 0, false, false}, {16, 0, true, true},
                {19, 0, true, true}, {20, 0, true, false}, {0, 6, false, false},  {0, 5, false, true},
                {5, 5, false, true}, {6, 5, false, false}, {6, 5, true, true},    {9, 5, true, true},
                {10, 5, true, false}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct http_server server = {.places = 20,
                                     .fd_places = 40,
                                     .unix_places = 4,
                                     .conn_count = some[i].conns,
                                     .output_count = some[i].outputs};
        if (room_for(&server, some[i].is_unix) != some[i].has_room)
            test_fail(__FILE__, __LINE__, "%u connections, %u streams of output, %d", some[i].conns, some[i].outputs,
                      some[i].is_unix);
    }
}

/* A connection in a phase, with its other end in `clients`. */
static struct http_conn *place_one(struct http_server *server, int clients[], enum conn_phase phase, bool is_known,
                                   int64_t began_ms)
{
    int ends[2];
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    clients[server->conn_count] = ends[1];
    conn_open(server, ends[0], true);
    struct http_conn *conn = server->last;
    if (phase == CONN_WORKING)
        conn_wait(conn, &work, NULL);
    conn->phase = phase;
    conn->is_known = is_known;
    conn->began_ms = began_ms;
    return conn;
}

TEST(strangers_leave_first_then_who_is_idle_then_who_sends_and_of_each_the_one_that_is_so_for_longest)
{
    struct http_server server = {0};
    struct tsk_error err = {0};
    int clients[8];
    ASSERT(loop_init(&server.loop, &err) == 0);
    server.stats = stats_new();
    struct http_conn *stays = place_one(&server, clients, CONN_WORKING, true, 1);
    struct http_conn *sends = place_one(&server, clients, CONN_BODY, true, 4),
                     *sent = place_one(&server, clients, CONN_BODY, true, 3);
    struct http_conn *idle = place_one(&server, clients, CONN_HEAD, true, 6),
                     *lingers = place_one(&server, clients, CONN_LINGER, true, 5);
    struct http_conn *new = place_one(&server, clients, CONN_HEAD, false, 9),
                     *old = place_one(&server, clients, CONN_BODY, false, 8);
    struct http_conn *const order[] = {old, new, lingers, idle, sent, sends};
    for (size_t i = 0; i < 6; i++) {
        ASSERT(room_take(&server));
        for (size_t k = 0; k < 6; k++)
            ASSERT(order[k]->is_closed == (k <= i));
    }
    ASSERT(!room_take(&server) && !stays->is_closed);
    server.places = server.fd_places = 1;
    ASSERT(!room_for(&server, true));
    conn_close(stays);
    for (int i = 0; i < 7; i++)
        close(clients[i]);
    conn_bury(&server);
    stats_free(server.stats);
    loop_clear(&server.loop);
}

TEST(streams_of_output_take_half_of_the_descriptors_at_most_and_others_make_room_for_them)
{
    struct http_server server = {0};
    struct tsk_error err = {0};
    int clients[4];
    ASSERT(loop_init(&server.loop, &err) == 0);
    server.stats = stats_new();
    struct http_conn *conn = place_one(&server, clients, CONN_BODY, true, 1),
                     *other = place_one(&server, clients, CONN_HEAD, true, 2);
    static const struct {
        unsigned fds, outputs;
        bool has_room;
    } some[] = {{14, 0, true}, {13, 0, false}, {28, 1, true}, {27, 1, false}, {1000, 70, true}, {1000, 71, false}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        server.fd_places = some[i].fds;
        server.output_count = some[i].outputs;
        if (room_for_output(conn) != some[i].has_room)
            test_fail(__FILE__, __LINE__, "%u descriptors, %u streams", some[i].fds, some[i].outputs);
    }
    ASSERT(!other->is_closed);
    server.fd_places = 14;
    server.output_count = 0;
    server.unix_places = 6; /* two connections, six descriptors and these */
    ASSERT(room_for_output(conn) && !other->is_closed);
    server.unix_places = 7;
    ASSERT(room_for_output(conn) && other->is_closed && !conn->is_closed);
    server.unix_places = 8;
    ASSERT(!room_for_output(conn) && !conn->is_closed);
    conn_close(conn);
    close(clients[0]);
    close(clients[1]);
    conn_bury(&server);
    stats_free(server.stats);
    loop_clear(&server.loop);
}
