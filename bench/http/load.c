/* load.c - many clients of an HTTP server.
 *
 *     bench-http requests PORT CONNECTIONS REQUESTS HEAD-FILE     one request after the other on each connection, kept alive
 *     bench-http streams PORT CLIENTS EVENTS HEAD-FILE            opens streams; says "ready", then counts `data: ` lines
 *
 * HEAD-FILE has the whole request. Prints one JSON document. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, CHUNKED = -2 };

struct client {
    int fd;
    char head[4096]; /* of the answer, until its end */
    size_t head_len;
    int64_t body_left; /* -1: the head is not complete */
    long events;
    char tail[8]; /* the last bytes, for words across two reads */
    size_t tail_len;
};

static char request[65536], chunk[CHUNK + 8];
static size_t request_len;
static int errors;

static void fail(const char *what)
{
    fprintf(stderr, "bench-http: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void client_open(struct client *client, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    client->body_left = -1;
}

static void client_ask(struct client *client)
{
    if (write(client->fd, request, request_len) != (ssize_t)request_len)
        fail("write");
}

static void client_head(struct client *client, const char *end)
{
    const char *length = strcasestr(client->head, "content-length:");
    bool has_length = length && length < end;
    client->body_left = has_length ? strtoll(length + 15, NULL, 10) : CHUNKED;
    errors += strncmp(client->head, "HTTP/1.1 200", 12) != 0;
}

/* Takes what was read; true when an answer is complete. */
static bool client_take(struct client *client, const char *data, size_t len)
{
    while (len > 0 && client->body_left != 0) {
        if (client->body_left == CHUNKED) { /* one answer at a time: its end is the end of what was read */
            bool is_end = len >= 5 && memcmp(data + len - 5, "0\r\n\r\n", 5) == 0;
            client->body_left = is_end ? 0 : CHUNKED;
            break;
        }
        if (client->body_left > 0) {
            size_t some = (size_t)client->body_left < len ? (size_t)client->body_left : len;
            client->body_left -= (int64_t)some;
            len -= some;
            continue;
        }
        size_t room = sizeof client->head - 1 - client->head_len, some = len < room ? len : room;
        memcpy(client->head + client->head_len, data, some);
        client->head[client->head_len + some] = '\0';
        const char *end = strstr(client->head, "\r\n\r\n");
        if (!end) {
            client->head_len += some;
            return false;
        }
        size_t used = (size_t)(end + 4 - client->head) - client->head_len;
        client_head(client, end);
        data += used;
        len -= used;
    }
    if (client->body_left != 0)
        return false;
    client->body_left = -1;
    client->head_len = 0;
    return true;
}

static void run_requests(struct client *clients, int count, long requests, int poll_fd)
{
    struct epoll_event ready[64];
    long asked = 0, done = 0;
    for (int i = 0; i < count && asked < requests; i++, asked++)
        client_ask(&clients[i]);
    while (done < requests) {
        int n = epoll_wait(poll_fd, ready, 64, 10000);
        if (n <= 0)
            fail("no answer");
        for (int i = 0; i < n; i++) {
            struct client *client = ready[i].data.ptr;
            ssize_t len = read(client->fd, chunk, CHUNK);
            if (len <= 0)
                fail("read");
            if (!client_take(client, chunk, (size_t)len))
                continue;
            done++;
            if (asked < requests) {
                asked++;
                client_ask(client);
            }
        }
    }
}

/* Counts "\ndata: ", also across two reads. */
static void client_count(struct client *client, size_t len)
{
    memmove(chunk + client->tail_len, chunk, len);
    memcpy(chunk, client->tail, client->tail_len);
    len += client->tail_len;
    const char *at = chunk, *end = chunk + len;
    for (; (at = memmem(at, (size_t)(end - at), "\ndata: ", 7)); at += 7)
        client->events++;
    client->tail_len = len < 6 ? len : 6;
    memcpy(client->tail, end - client->tail_len, client->tail_len);
}

static void run_streams(struct client *clients, int count, long events, int poll_fd)
{
    struct epoll_event ready[64];
    long complete = 0;
    for (int i = 0; i < count; i++)
        client_ask(&clients[i]);
    for (int i = 0; i < count; i++) /* the head: everybody is served */
        if (read(clients[i].fd, chunk, 4096) <= 0)
            fail("read");
    puts("ready");
    fflush(stdout);
    while (complete < count) {
        int n = epoll_wait(poll_fd, ready, 64, 60000);
        if (n <= 0)
            fail("no events");
        for (int i = 0; i < n; i++) {
            struct client *client = ready[i].data.ptr;
            bool had_all = client->events >= events;
            ssize_t len = read(client->fd, chunk, CHUNK);
            if (len <= 0)
                fail("read");
            client_count(client, (size_t)len);
            complete += !had_all && client->events >= events;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    bool streams = strcmp(argv[1], "streams") == 0;
    int port = (int)strtol(argv[2], NULL, 10), count = (int)strtol(argv[3], NULL, 10);
    long amount = strtol(argv[4], NULL, 10);
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    FILE *file = fopen(argv[5], "re");
    struct client *clients = calloc((size_t)count, sizeof *clients);
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!file || !clients || poll_fd < 0)
        fail(argv[5]);
    request_len = fread(request, 1, sizeof request, file);
    fclose(file);
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        client_open(&clients[i], port);
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    double begun = now_s();
    if (streams)
        run_streams(clients, count, amount, poll_fd);
    else
        run_requests(clients, count, amount, poll_fd);
    printf("{\"seconds\": %.6f, \"errors\": %d}\n", now_s() - begun, errors);
    return 0;
}
