/* stdio.c - newline-delimited JSON on standard input and output. Nothing else may write to standard output.
 *
 * It ends at once when its input ends, its output breaks, its parent is gone, or it is told to (SIGTERM, SIGINT): a server whose
 * agent is gone helps nobody. */
#include "base/fs.h"
#include "mcp/identity.h"
#include "mcp/mcp.h"
#include "mcp/pool.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    CHUNK = 64 << 10,
    DRAIN_MS = 2000,
    KEEP_MS = 20000, /* how often the agent's locks are looked at, while it has any */
};
#define GRACE_DEFAULT_MS 60000

struct stdio {
    struct mcp_server *server;
    struct mcp_link *link;
    struct mcp_identity identity;
    const char *given, *root; /* what it is found by */
    atomic_bool is_identified;
    int parent_fd, wake_fd;
    struct buf in;
    bool is_skipping; /* a line that is too long */
    int64_t kept_ms;
    atomic_bool is_broken, is_keeping;
};

/* ---- signals ---- */

static int wake_on_signal = -1;

/* A signal to one thread ends its wait (mcp.h, M5); one to the program ends the program. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    uint64_t one = 1;
    int saved = errno;
    if (info->si_code != SI_TKILL && write(wake_on_signal, &one, sizeof one) < 0)
        errno = 0;
    errno = saved;
}

static void take_signals(int wake_fd)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    wake_on_signal = wake_fd;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- out ---- */

static void send_line(void *data, const struct mcp_frame *frame)
{
    struct stdio *io = data;
    struct iovec parts[] = {{(void *)frame->text, frame->len}, {(void *)"\n", 1}};
    int first = 0;
    while (first < 2 && !atomic_load(&io->is_broken)) {
        ssize_t n = writev(STDOUT_FILENO, parts + first, 2 - first);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            uint64_t one = 1;
            atomic_store(&io->is_broken, true);
            (void)!write(io->wake_fd, &one, sizeof one);
            return;
        }
        for (; first < 2 && (size_t)n >= parts[first].iov_len; first++)
            n -= (ssize_t)parts[first].iov_len;
        if (first < 2) {
            parts[first].iov_base = (char *)parts[first].iov_base + n;
            parts[first].iov_len -= (size_t)n;
        }
    }
}

/* ---- in ---- */

static void take_line(struct stdio *io, const char *line, size_t len)
{
    if (len && line[len - 1] == '\r')
        len--;
    if (io->is_skipping || len == 0) {
        io->is_skipping = false;
        return;
    }
    mcp_link_take(io->link, 0, line, len);
}

static void take_lines(struct stdio *io)
{
    char *at = io->in.data, *end = at + io->in.len, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        take_line(io, at, (size_t)(newline - at));
        at = newline + 1;
    }
    size_t rest = (size_t)(end - at);
    if (rest > JSON_SIZE_MAX && !io->is_skipping) { /* said once; the rest of the line is not kept */
        mcp_link_take(io->link, 0, at, rest);
        io->is_skipping = true;
    }
    if (io->is_skipping)
        rest = 0;
    memmove(io->in.data, at, rest);
    io->in.len = rest;
}

/* False at the end of the input. */
static bool read_some(struct stdio *io)
{
    char *room = buf_reserve(&io->in, CHUNK);
    ssize_t n = room ? read(STDIN_FILENO, room, CHUNK) : -1;
    if (n < 0)
        return room && (errno == EINTR || errno == EAGAIN);
    io->in.len += (size_t)n;
    if (n > 0)
        take_lines(io);
    return n > 0;
}

/* ---- the loop ---- */

/* Keeps the agent's locks from expiring for tools that only look at the time. */
static void keep_locks(void *arg)
{
    struct stdio *io = arg;
    identity_count_locks(io->server, io->identity.instance);
    atomic_store(&io->is_keeping, false);
}

static void keep_when_due(struct stdio *io)
{
    int64_t now_ms = clock_now().boot_ms;
    if (now_ms - io->kept_ms < KEEP_MS || !atomic_load(&io->is_identified) || atomic_exchange(&io->is_keeping, true))
        return;
    io->kept_ms = now_ms;
    pool_submit(io->server->pool, keep_locks, io);
}

static void serve(struct stdio *io)
{
    enum { IN, PARENT, WAKE, WATCH, COUNT };
    for (;;) {
        struct pollfd fds[COUNT] = {[IN] = {.fd = STDIN_FILENO, .events = POLLIN},
                                    [PARENT] = {.fd = io->parent_fd, .events = POLLIN},
                                    [WAKE] = {.fd = io->wake_fd, .events = POLLIN}};
        int timeout = mcp_link_tick(io->link);
        fds[WATCH] = (struct pollfd){.fd = mcp_link_watch_fd(io->link), .events = POLLIN};
        if (poll(fds, COUNT, timeout < 0 || timeout > KEEP_MS ? KEEP_MS : timeout) < 0 && errno != EINTR)
            return;
        if (fds[PARENT].revents || fds[WAKE].revents)
            return;
        if (fds[IN].revents && !read_some(io))
            return;
        keep_when_due(io);
    }
}

/* What cannot be ended in time must not use what would be freed. */
static void finish(struct stdio *io, int64_t grace_ms)
{
    mcp_link_end(io->link, DRAIN_MS);
    bool is_idle = pool_drain(io->server->pool, DRAIN_MS);
    if (atomic_load(&io->is_identified))
        identity_end(&io->identity, io->server, grace_ms);
    if (!is_idle)
        _exit(0);
    mcp_link_free(io->link);
    mcp_server_free(io->server);
    buf_clear(&io->in);
    fs_close(&io->parent_fd);
    fs_close(&io->wake_fd);
}

static void identify(void *data, char *ret_instance, size_t size)
{
    struct stdio *io = data;
    identity_find(&io->identity, io->given, io->root);
    snprintf(ret_instance, size, "%s", io->identity.instance);
    atomic_store(&io->is_identified, true);
}

static int make_server(struct op_call *call, struct stdio *io, struct tsk_error *err)
{
    struct mcp_options options = {.root = call->root,
                                  .lang = call->lang,
                                  .tools = json_get_string(call->args, "tools", NULL),
                                  .identify = identify,
                                  .identify_data = io,
                                  .is_conformance = json_get_bool(call->args, "conformance", false)};
    return mcp_server_new(&options, &io->server, err);
}

int mcp_stdio(struct op_call *call, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "instance", NULL);
    int64_t grace_ms = json_get_int(call->args, "grace", GRACE_DEFAULT_MS);
    struct stdio io = {.parent_fd = -1, .in = BUF_INIT, .given = given, .root = call->root, .identity.serve_fd = -1};
    pid_t parent = getppid();
    if (make_server(call, &io, err) < 0)
        return -1;
    if (json_get_bool(call->args, "let_go", false)) {
        identity_let_go(io.server, given ? given : "", grace_ms);
        mcp_server_free(io.server);
        return 0;
    }
    io.kept_ms = clock_now().boot_ms;
    io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (parent > 1)
        io.parent_fd = (int)syscall(SYS_pidfd_open, parent, 0);
    take_signals(io.wake_fd);
    mallopt(M_ARENA_MAX,
            2); /* not one for each of many short-lived threads: they would keep the memory of all of them */
    io.link = mcp_link_new(io.server, send_line, &io);
    if (parent == getppid()) /* else it ended before we could watch it */
        serve(&io);
    finish(&io, grace_ms);
    return 0;
}
