#include "http/listen.h"
#include "base/fs.h"
#include "base/ident.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCK_FILE   "server.lock"
#define TOKEN_FILE  "server.token"
#define SOCKET_FILE "server.sock"

enum { BACKLOG = 512, PORTS = 100, ACCEPT_BATCH = 64 };
enum {
    TELL_MS = 1000,   /* a server that has just begun writes its address within this time */
    DYING_MS = 10000, /* a server that does not answer is waited for this long: it may be ending */
    ASK_MS = 50,
};

/* ---- the lock ---- */

static json_t *read_lock(struct http_server *server)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored; /* the byte lock decides; the record only says where the other server is */
    json_t *record = NULL;
    if (fs_read_file(server->ws->state_dir, LOCK_FILE, 4096, &text) < 0 ||
        json_parse(buf_str(&text), text.len, LOCK_FILE, &record, &ignored) < 0)
        return NULL;
    return record;
}

/* The path of a socket may have 107 bytes only: it is reached through a descriptor of .aiflow/. */
static struct sockaddr_un socket_address(const struct http_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", server->ws->state_dir, SOCKET_FILE);
    return address;
}

/* -1: nobody listens on server.sock. */
static int socket_call(const struct http_server *server)
{
    struct sockaddr_un address = socket_address(server);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fs_close(&fd);
    return fd;
}

/* The pid of the process that listens on server.sock; 0 if there is none. */
static pid_t socket_owner(const struct http_server *server)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    int fd CLEANUP_FD = socket_call(server);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

/* Whether a server answers within ASK_MS. The question in `fd` stays: a busy server answers it in a later round. */
static bool is_answering(const struct http_server *server, int *fd)
{
    static const char question[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer;
    if (*fd < 0 && (*fd = socket_call(server)) >= 0 &&
        send(*fd, question, sizeof question - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        fs_close(fd);
    struct pollfd asked = {.fd = *fd, .events = POLLIN};
    if (poll(&asked, 1, ASK_MS) <= 0) /* also without a question, which poll ignores */
        return false;
    if (recv(*fd, &answer, 1, MSG_DONTWAIT) == 1)
        return true;
    fs_close(fd);
    poll(NULL, 0, ASK_MS);
    return false;
}

/* The owner of the lock writes its address a moment later. */
static int say_where(struct http_server *server, struct tsk_error *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct buf socket CLEANUP(buf_clear) = BUF_INIT;
    for (int waited = 0; waited < TELL_MS && !(record = read_lock(server)); waited += 10)
        poll(NULL, 0, 10);
    buf_printf(&socket, "%s/%s", server->ws->state_path, SOCKET_FILE);
    error_set(err, TSK_CONFLICT, "serve_running", "url", json_get_string(record, "url", buf_str(&socket)), NULL);
    error_add_int(err, "pid", json_get_int(record, "pid", record ? 0 : socket_owner(server)));
    error_add(err, "socket", json_get_string(record, "socket", buf_str(&socket)));
    if (json_object_get(record, "url")) {
        snprintf(server->url, sizeof server->url, "%s", json_get_string(record, "url", ""));
        server->other_pid = (pid_t)json_get_int(record, "pid", 0);
    }
    return -1;
}

/* The owner of this lock is the server, also after server.lock was removed. Not every file system supports it (NFS does not);
 * there the file alone decides. */
static bool is_dir_taken(const struct http_server *server)
{
    return server->dir_fd >= 0 && flock(server->dir_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* 1: it is ours; 0: another process has it; -1: an error. */
static int lock_try(struct http_server *server, struct tsk_error *err)
{
    if (is_dir_taken(server))
        return 0;
    fs_close(&server->lock_fd); /* it may have been replaced meanwhile */
    server->lock_fd = fs->openat(server->ws->state_dir, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (server->lock_fd < 0)
        return fs_error(err, "open", server->ws->state_dir, LOCK_FILE);
    if (fs_lock_try(server->lock_fd, F_WRLCK, 0, 1) == 0)
        return 1;
    return errno == EAGAIN || errno == EACCES ? 0 : fs_error(err, "lock", server->ws->state_dir, LOCK_FILE);
}

/* A server that was killed keeps its locks until the kernel has closed its descriptors, on a busy machine for a second or more. So
 * the lock alone does not say that a server runs: it does if it answers, or if it keeps the lock. */
int listen_lock(struct http_server *server, struct tsk_error *err)
{
    struct stat st;
    int asked CLEANUP_FD = -1, result;
    server->dir_fd = fs->openat(server->ws->state_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    for (int waited = 0; (result = lock_try(server, err)) == 0; waited += ASK_MS)
        if (is_answering(server, &asked) || waited >= DYING_MS)
            return say_where(server, err);
    if (result > 0 && fs->fstat(server->lock_fd, &st) == 0 && st.st_size > 0)
        server->seen_ms = st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return result < 0 ? -1 : 0;
}

void listen_beat(struct http_server *server)
{
    if (server->lock_fd >= 0)
        futimens(server->lock_fd, NULL); /* the lock's time is also right when it cannot be written, only older */
}

int listen_tell(struct http_server *server, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, "{");
    buf_json_pair_int(&text, "pid", getpid());
    buf_json_pair(&text, "url", server->url);
    buf_json_key(&text, "socket");
    struct buf path CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&path, "%s/%s", server->ws->state_path, SOCKET_FILE);
    buf_json_string(&text, buf_str(&path));
    buf_puts(&text, "}\n");
    /* In place: the lock is on this file. */
    if (fs->ftruncate(server->lock_fd, 0) < 0 ||
        fs->pwrite(server->lock_fd, text.data, text.len, 0) != (ssize_t)text.len)
        return fs_error(err, "write", server->ws->state_dir, LOCK_FILE);
    return 0;
}

/* ---- the token ---- */

/* One that others could read may have been read. */
static bool is_private(int dir)
{
    struct stat st;
    return fs->fstatat(dir, TOKEN_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

bool listen_has_token(struct http_server *server)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    int dir = server->ws->state_dir;
    bool is_good = is_private(dir) && fs_read_file(dir, TOKEN_FILE, 256, &text) == 0 &&
                   strspn(buf_str(&text), "0123456789abcdef") == HTTP_TOKEN_DIGITS;
    if (is_good)
        memcpy(server->token, text.data, HTTP_TOKEN_DIGITS);
    return is_good;
}

int listen_token(struct http_server *server, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    int dir = server->ws->state_dir;
    if (listen_has_token(server))
        return 0;
    random_hex(server->token, HTTP_TOKEN_DIGITS);
    buf_printf(&text, "%s\n", server->token);
    return fs_replace_file(dir, TOKEN_FILE, 0600 | FS_KEEP, text.data, text.len) < 0
               ? fs_error(err, "write", dir, TOKEN_FILE)
               : 0;
}

/* ---- accepting ---- */

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void send_away(int fd)
{
    static const char busy[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
    (void)!send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static void let_in(struct http_listener *listener, int fd)
{
    struct http_server *server = listener->server;
    int one = 1;
    if (listener->is_unix && !is_same_user(fd)) {
        close(fd);
    } else if (!room_for(server, listener->is_unix)) {
        send_away(fd);
    } else {
        if (!listener->is_unix)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        conn_open(server, fd, listener->is_unix);
    }
}

/* R5: connections that wait in the accept queue would wake the loop again and again. */
static void listen_rest(struct http_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++)
        loop_want(&server->loop, &server->listeners[i].source, 0);
    server->is_resting = true;
}

void listen_again(struct http_server *server)
{
    for (unsigned i = 0; server->is_resting && i < server->listener_count; i++)
        loop_want(&server->loop, &server->listeners[i].source, EPOLLIN);
    server->is_resting = false;
}

static bool has_queue(int fd)
{
    struct pollfd queue = {.fd = fd, .events = POLLIN};
    return poll(&queue, 1, 0) == 1;
}

/* At most a part of the places at a time, so that each accepted connection is read before it may have to be closed. */
static void accept_some(struct loop_source *source, uint32_t events)
{
    struct http_listener *listener = (struct http_listener *)source;
    struct http_server *server = listener->server;
    unsigned batch = server->places / 4 + 1 < ACCEPT_BATCH ? server->places / 4 + 1 : ACCEPT_BATCH;
    (void)events;
    for (unsigned i = 0; i < batch; i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            let_in(listener, fd);
            continue;
        }
        bool is_full = errno == EMFILE || errno == ENFILE;
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EAGAIN || !has_queue(source->fd)) /* a missing descriptor is said first, also when nobody came */
            return;
        if (is_full && room_take(server))
            continue;
        listen_rest(server);
        return;
    }
}

static int add_listener(struct http_server *server, int fd, bool is_unix)
{
    struct http_listener *listener = &server->listeners[server->listener_count];
    *listener =
        (struct http_listener){.source = {.fd = fd, .ready = accept_some}, .server = server, .is_unix = is_unix};
    if (listen(fd, BACKLOG) < 0 || loop_add(&server->loop, &listener->source, EPOLLIN) < 0)
        return -1;
    server->listener_count++;
    return 0;
}

/* It may have been removed, and somebody else have made his. */
static bool is_socket_ours(const struct http_server *server)
{
    struct stat st;
    return fs->fstatat(server->ws->state_dir, SOCKET_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == server->socket_dev && st.st_ino == server->socket_ino;
}

void listen_close(struct http_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++) {
        struct http_listener *listener = &server->listeners[i];
        loop_remove(&server->loop, &listener->source);
        fs_close(&listener->source.fd);
        if (listener->is_unix && is_socket_ours(server))
            fs->unlinkat(server->ws->state_dir, SOCKET_FILE, 0);
    }
    server->listener_count = 0;
}

/* ---- sockets ---- */

struct address {
    struct sockaddr_storage storage;
    socklen_t len;
};

static bool address_parse(const char *text, struct address *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->storage;
    *ret = (struct address){0};
    if (strcmp(text, "localhost") == 0)
        text = "127.0.0.1";
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        ret->len = sizeof *v4;
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        ret->len = sizeof *v6;
    }
    return ret->len > 0;
}

bool listen_is_loopback(const char *address)
{
    struct address parsed;
    if (!address_parse(address, &parsed))
        return false;
    if (parsed.storage.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&parsed.storage)->sin6_addr);
    return ntohl(((struct sockaddr_in *)&parsed.storage)->sin_addr.s_addr) >> 24 == 127;
}

static int bind_port(struct address *address, int port)
{
    /* Over loopback a segment is 64 KiB, as long as the whole send buffer of a stream: each would wait for the other side's
     * delayed acknowledgement. */
    int segment = 8192, one = 1, fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    ((struct sockaddr_in *)&address->storage)->sin_port = htons((uint16_t)port); /* at the same place in both */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    if (bind(fd, (struct sockaddr *)&address->storage, address->len) < 0)
        fs_close(&fd);
    return fd;
}

/* The port of the last time, so that clients find us again; else the first free one. */
static int bind_any(struct http_server *server, struct address *address)
{
    json_t *record CLEANUP_JSON = read_lock(server);
    const char *colon = strrchr(json_get_string(record, "url", ""), ':');
    long last = colon ? strtol(colon + 1, NULL, 10) : 0;
    int fd = last > 0 && last < 65536 ? bind_port(address, (int)last) : -1;
    for (int port = SERVE_PORT; fd < 0 && port < SERVE_PORT + PORTS; port++)
        fd = bind_port(address, port);
    return fd;
}

static int listen_refuse(const char *address, int port, struct tsk_error *err)
{
    char text[128];
    const char *reason = strerrordesc_np(errno);
    bool is_port = port > 0 && (errno == EADDRINUSE || errno == EACCES); /* else another one would not help */
    snprintf(text, sizeof text, "%s:%d", address, port < 0 ? SERVE_PORT : port);
    error_set(err, TSK_ENVIRONMENT, "serve_address", "address", text, "reason", reason ? reason : "?", NULL);
    if (is_port)
        error_add_next(err, "tasuki serve --port 0");
    return -1;
}

int listen_tcp(struct http_server *server, const char *address, int port, struct tsk_error *err)
{
    struct address bound;
    const char *text = address ? address : "127.0.0.1";
    if (!address_parse(text, &bound))
        return error_set(err, TSK_INVALID_INPUT, "serve_address", "address", text, "reason", "not an IP address", NULL);
    int fd = port < 0 ? bind_any(server, &bound) : bind_port(&bound, port);
    if (fd < 0)
        return listen_refuse(text, port, err);
    if (getsockname(fd, (struct sockaddr *)&bound.storage, &bound.len) < 0 || add_listener(server, fd, false) < 0) {
        listen_refuse(text, port, err);
        fs_close(&fd);
        return -1;
    }
    bool is_v6 = bound.storage.ss_family == AF_INET6;
    snprintf(server->url, sizeof server->url, "http://%s%s%s:%d", is_v6 ? "[" : "", text, is_v6 ? "]" : "",
             ntohs(((struct sockaddr_in *)&bound.storage)->sin_port));
    return 0;
}

int listen_unix(struct http_server *server, struct tsk_error *err)
{
    struct sockaddr_un address = socket_address(server);
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fs_error(err, "make", server->ws->state_dir, SOCKET_FILE);
    fs->unlinkat(server->ws->state_dir, SOCKET_FILE, 0); /* of one that was killed: we have its lock */
    mode_t mask = umask(0177);
    int result = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (result == 0 && fs->fstatat(server->ws->state_dir, SOCKET_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        server->socket_dev = st.st_dev;
        server->socket_ino = st.st_ino;
    }
    if (result < 0 || add_listener(server, fd, true) < 0) {
        fs_error(err, "make", server->ws->state_dir, SOCKET_FILE);
        fs_close(&fd);
        return -1;
    }
    return 0;
}
