/* A connection and the time: what a client may take, without waiting for it. */
#include "base/clock.h"
#include "base/fs.h"
#include "harness/test.h"
#include "http/internal.h"

#include <errno.h>
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
