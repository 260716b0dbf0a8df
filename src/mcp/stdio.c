/* stdio.c - newline-delimited JSON on standard input and output. Nothing else may write to standard output.
 *
 * It ends at once when its input ends, its output breaks, its parent is gone, or at SIGTERM, SIGINT or SIGHUP: a server
 * whose agent is gone is useless. So nothing here may block for ever, least of all writing: what an agent does not read is
 * kept, and while there is much of it no more requests are read. */
#include "base/fs.h"
#include "mcp/identity.h"
#include "mcp/mcp.h"
#include "mcp/pool.h"
#include "mcp/signals.h"
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    STDIO_CHUNK = 64 << 10,
    STDIO_DRAIN_MS = 2000,
    STDIO_KEEP_MS = 20000, /* how often the agent's locks are looked at, while it has any with a long TTL */
    KEEP_LEAST_MS = 500,   /* and with a short one */
    MEMO_FDS = 64 << 10,   /* no more descriptors are counted on */
    OUT_MUCH = 1 << 20,
    OUT_MAX = 256 << 20, /* answers to what was read before: more than that, and the agent is as good as gone */
};
#define GRACE_DEFAULT_MS 60000

struct stdio {
    struct mcp_server *server;
    struct mcp_link *link;
    struct mcp_identity identity;
    const char *given, *root; /* what it is found by */
    size_t memo_most;
    atomic_bool is_identified;
    int parent_fd, wake_fd;
    struct buf in;
    bool is_skipping; /* a line that is too long */
    int out_fd;       /* does not block */
    pthread_mutex_t out_mutex;
    struct buf out; /* of out_mutex: what could not be written yet, from out_at on */
    size_t out_at;
    int64_t kept_ms;
    atomic_bool is_broken, is_keeping;
};

/* ---- out ---- */

/* Standard output may belong to others, too: whether we block is our own business. A socket cannot be opened once more. */
static int open_output(void)
{
    int fd = fs->openat(AT_FDCWD, "/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_APPEND, 0);
    if (fd >= 0)
        return fd;
    fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static void stdio_wake(struct stdio *io)
{
    uint64_t one = 1;
    (void)!write(io->wake_fd, &one, sizeof one);
}

static void output_broke(struct stdio *io)
{
    atomic_store(&io->is_broken, true);
    stdio_wake(io);
}

/* How much was written; with out_mutex held. */
static size_t write_some(struct stdio *io, const char *data, size_t len)
{
    size_t done = 0;
    while (done < len && !atomic_load(&io->is_broken)) {
        ssize_t n = write(io->out_fd, data + done, len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            output_broke(io);
    }
    return done;
}

static size_t out_left(struct stdio *io)
{
    pthread_mutex_lock(&io->out_mutex);
    size_t left = io->out.len - io->out_at;
    pthread_mutex_unlock(&io->out_mutex);
    return left;
}

static void stdio_flush(struct stdio *io)
{
    pthread_mutex_lock(&io->out_mutex);
    io->out_at += write_some(io, io->out.data + io->out_at, io->out.len - io->out_at);
    if (io->out_at == io->out.len) {
        buf_clear(&io->out);
        io->out_at = 0;
    } else if (io->out_at > OUT_MUCH) {
        io->out.len -= io->out_at;
        memmove(io->out.data, io->out.data + io->out_at, io->out.len);
        io->out_at = 0;
    }
    pthread_mutex_unlock(&io->out_mutex);
}

/* Most frames go out at once, from whichever thread. */
static void send_line(void *data, const struct mcp_frame *frame)
{
    struct stdio *io = data;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    buf_put(&line, frame->text, frame->len);
    buf_puts(&line, "\n");
    pthread_mutex_lock(&io->out_mutex);
    bool is_first = io->out.len == 0;
    size_t done = is_first ? write_some(io, line.data, line.len) : 0;
    if (done < line.len && !atomic_load(&io->is_broken)) {
        buf_put(&io->out, line.data + done, line.len - done);
        if (io->out.failed || io->out.len > OUT_MAX)
            output_broke(io);
        else if (is_first)
            stdio_wake(io); /* so that somebody waits for room */
    }
    pthread_mutex_unlock(&io->out_mutex);
}

/* Gives the agent a moment to read the last answers. */
static void flush_last(struct stdio *io, int64_t timeout_ms)
{
    int64_t end_ms = clock_now().boot_ms + timeout_ms;
    while (out_left(io) && !atomic_load(&io->is_broken) && clock_now().boot_ms < end_ms) {
        struct pollfd out = {.fd = io->out_fd, .events = POLLOUT};
        poll(&out, 1, (int)(end_ms - clock_now().boot_ms));
        stdio_flush(io);
    }
}

/* ---- in ---- */

static void stdio_take_line(struct stdio *io, const char *line, size_t len)
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
        stdio_take_line(io, at, (size_t)(newline - at));
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
    char *room = buf_reserve(&io->in, STDIO_CHUNK);
    ssize_t n = room ? read(STDIN_FILENO, room, STDIO_CHUNK) : -1;
    if (n < 0)
        return room && (errno == EINTR || errno == EAGAIN);
    if (n == 0 && io->in.len && !io->is_skipping) { /* the last line has no end */
        stdio_take_line(io, io->in.data, io->in.len);
        io->in.len = 0;
    }
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
    if (identity_count_locks(io->server, mcp_server_instance(io->server)) == 0)
        atomic_store(&io->server->ttl_ms, INT64_MAX);
    atomic_store(&io->is_keeping, false);
}

/* A command that meets a lock past half of its TTL renews it, so this must happen in time. */
static int64_t keep_every(struct stdio *io)
{
    int64_t third = atomic_load(&io->server->ttl_ms) / 3;
    return third > STDIO_KEEP_MS ? STDIO_KEEP_MS : third < KEEP_LEAST_MS ? KEEP_LEAST_MS : third;
}

static void keep_when_due(struct stdio *io)
{
    int64_t now_ms = clock_now().boot_ms;
    if (now_ms - io->kept_ms < keep_every(io) || !atomic_load(&io->is_identified) ||
        atomic_exchange(&io->is_keeping, true))
        return;
    io->kept_ms = now_ms;
    pool_submit(io->server->pool, keep_locks, io);
}

/* False when it is over. */
static bool take_wake(struct stdio *io, bool is_awake)
{
    uint64_t count;
    if (is_awake && read(io->wake_fd, &count, sizeof count) < 0)
        return true;
    return !atomic_load(&io->is_broken) && signals_seen() == 0;
}

static void stdio_serve(struct stdio *io)
{
    enum { IN, PARENT, WAKE, WATCH, OUT, COUNT };
    for (;;) {
        size_t left = out_left(io);
        struct pollfd fds[COUNT] = {[IN] = {.fd = STDIN_FILENO, .events = left < OUT_MUCH ? POLLIN : 0},
                                    [PARENT] = {.fd = io->parent_fd, .events = POLLIN},
                                    [WAKE] = {.fd = io->wake_fd, .events = POLLIN},
                                    [OUT] = {.fd = left ? io->out_fd : -1, .events = POLLOUT}};
        int timeout = mcp_link_tick(io->link), keep = (int)keep_every(io);
        fds[WATCH] = (struct pollfd){.fd = mcp_link_watch_fd(io->link), .events = POLLIN};
        if (poll(fds, COUNT, timeout < 0 || timeout > keep ? keep : timeout) < 0 && errno != EINTR)
            return;
        if (fds[PARENT].revents || !take_wake(io, fds[WAKE].revents))
            return;
        if (fds[OUT].revents)
            stdio_flush(io);
        /* With nothing wanted from it, a word from the input means its end. */
        if (fds[IN].revents && (!fds[IN].events || !read_some(io)))
            return;
        keep_when_due(io);
    }
}

/* What cannot be ended in time must not use what would be freed. */
static void stdio_finish(struct stdio *io, int64_t grace_ms)
{
    mcp_link_end(io->link, STDIO_DRAIN_MS);
    bool is_idle = pool_drain(io->server->pool, STDIO_DRAIN_MS);
    flush_last(io, STDIO_DRAIN_MS / 4);
    mcp_stop_started(io->server);
    if (atomic_load(&io->is_identified))
        identity_end(&io->identity, io->server, grace_ms);
    if (!is_idle)
        _exit(0);
    mcp_link_free(io->link);
    mcp_server_free(io->server);
    proc_keep_looks(0);
    buf_clear(&io->in);
    buf_clear(&io->out);
    fs_close(&io->out_fd);
    pthread_mutex_destroy(&io->out_mutex);
    fs_close(&io->parent_fd);
    fs_close(&io->wake_fd);
}

static bool stdio_identify(void *data, char *ret_instance, size_t size)
{
    struct stdio *io = data;
    identity_clear(&io->identity); /* of a workspace that was replaced */
    identity_find(&io->identity, io->given, io->root);
    snprintf(ret_instance, size, "%s", io->identity.instance);
    atomic_store(&io->is_identified, true);
    return io->identity.is_borrowed && !io->given; /* who says it in full means it */
}

static int make_server(struct op_call *call, struct stdio *io, struct tsk_error *err)
{
    struct mcp_options options = {.root = call->root,
                                  .lang = call->lang,
                                  .tools = json_get_string(call->args, "tools", NULL),
                                  .memo_most = io->memo_most,
                                  .identify = stdio_identify,
                                  .identify_data = io};
    return mcp_server_new(&options, &io->server, err);
}

int mcp_stdio(struct op_call *call, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "instance", NULL);
    int64_t grace_ms = json_get_int(call->args, "grace", GRACE_DEFAULT_MS);
    struct stdio io = {.parent_fd = -1,
                       .in = BUF_INIT,
                       .out = BUF_INIT,
                       .out_mutex = PTHREAD_MUTEX_INITIALIZER,
                       .given = given,
                       .root = call->root,
                       .identity.serve_fd = -1};
    pid_t parent = getppid();
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* with the looks, a quarter of all descriptors */
        io.memo_most = limit.rlim_cur < MEMO_FDS ? limit.rlim_cur / 8 : MEMO_FDS / 8;
        proc_keep_looks(io.memo_most);
    }
    db_use(DB_USE_KEEP);
    if (make_server(call, &io, err) < 0)
        return -1;
    if (json_get_bool(call->args, "let_go", false)) {
        identity_let_go(io.server, given ? given : "", grace_ms);
        mcp_server_free(io.server);
        return 0;
    }
    io.kept_ms = clock_now().boot_ms;
    io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io.out_fd = open_output();
    if (parent > 1)
        io.parent_fd = (int)syscall(SYS_pidfd_open, parent, 0);
    signals_take(io.wake_fd, true);
    mallopt(M_ARENA_MAX,
            2); /* not one for each of many short-lived threads: they would keep the memory of all of them */
    io.link = mcp_link_new(io.server, send_line, &io);
    if (parent == getppid()) /* else it ended before we could watch it */
        stdio_serve(&io);
    stdio_finish(&io, grace_ms);
    return 0;
}
