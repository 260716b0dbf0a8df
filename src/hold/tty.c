/* tty.c - mode tty: the child has a terminal, a pseudo-terminal whose master we read into the log, and those who attach
 * (`tasuki proc attach`) see what it prints and type into it.
 *
 *  T1  The child has a copy of the master (HOLD_FD_TTY): our death does not hang up its terminal. The holder that adopts it takes the
 *      copy. Where the kernel refuses that, what the child prints is thrown away, so that it never waits for a reader.
 *  T2  What was read from a master is nowhere else. Killed before it is in the file, we lose it: an adoption always reports a gap.
 *  T3  Nobody is waited for: what one who attached does not take is counted and reported to him, and what the terminal does not take of
 *      his keys, too.
 *  T4  The log has lines as everywhere: the carriage return that a terminal puts before a newline is left out. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#define TTY_ROWS     24
#define TTY_COLS     80
#define TTY_FLUSH_MS 200
#define REPLAY_MAX   4096
#define OWN_FD       "/proc/self/fd/" /* a path that is short enough for a socket, wherever the workspace is */

/* ---- the terminal ---- */

static void size_apply(struct holder *h)
{
    if (h->inputs[0].pipe >= 0)
        ioctl(h->inputs[0].pipe, TIOCSWINSZ, &h->tty.size);
}

static int socket_open(struct holder *h)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, OWN_FD "%d/" HOLD_TTY_NAME, HOLD_FD_DIR);
    if (h->tty.listener >= 0)
        return 0;
    unlinkat(HOLD_FD_DIR, HOLD_TTY_NAME, 0);
    h->tty.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->tty.listener >= 0 && bind(h->tty.listener, (struct sockaddr *)&address, sizeof address) == 0 &&
        listen(h->tty.listener, HOLD_TTY_CLIENTS) == 0)
        return 0;
    int number = errno;
    close(h->tty.listener);
    h->tty.listener = -1;
    errno = number;
    return -1;
}

/* A new terminal for a new start. */
static int master_open(struct holder *h)
{
    int *master = &h->inputs[0].pipe, unlocked = 0;
    if (*master >= 0)
        close(*master);
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (*master < 0 || ioctl(*master, TIOCSPTLCK, &unlocked) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        h->child_fd[i] = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (h->child_fd[i] < 0)
            return -1;
    }
    size_apply(h);
    return 0;
}

/* The terminal's other side, by the child's controlling terminal; -1: it has none. */
static int slave_open(const struct holder *h)
{
    char line[STAT_SIZE], path[32];
    if (stat_read(h->run.pid, line, sizeof line) < 0)
        return -1;
    uint64_t device = stat_field(line, STAT_TTY);
    if (device == 0)
        return -1;
    snprintf(path, sizeof path, "/dev/pts/%u", (unsigned)((device & 0xff) | ((device >> 12) & 0xfff00)));
    return open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* T1 */
static void master_adopt(struct holder *h)
{
    struct log_input *in = &h->inputs[0];
    unsigned number;
    int fd = h->pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, h->pidfd, HOLD_FD_TTY, 0);
    if (fd >= 0 && ioctl(fd, TIOCGPTN, &number) < 0) {
        close(fd);
        fd = -1;
    }
    in->pipe = fd;
    in->is_mute = fd < 0;
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        ioctl(fd, TIOCGWINSZ, &h->tty.size);
        socket_open(h); /* without it nobody can attach, and `attach` says so */
    } else if (h->is_alive) {
        h->tty.slave = slave_open(h);
        tty_flush(h);
    }
}

int tty_open(struct holder *h)
{
    h->inputs[0].file = &h->files[0];
    h->inputs[1].file = &h->files[1];
    h->inputs[0].is_mute = false;
    h->tty.has_cr = false;
    if (h->tty.slave >= 0)
        close(h->tty.slave);
    h->tty.slave = -1;
    holder_timer(h, TIMER_FLUSH, -1);
    if (h->opt.adopt) {
        master_adopt(h);
        return 0;
    }
    return master_open(h) < 0 || socket_open(h) < 0 ? -1 : 0;
}

/* The kernel wakes a writer that waits for room when a stopped output continues, but not when the output is thrown away. */
void tty_flush(struct holder *h)
{
    if (h->tty.slave < 0 || ioctl(h->tty.slave, TCFLSH, TCOFLUSH) < 0)
        return;
    ioctl(h->tty.slave, TCXONC, TCOOFF);
    ioctl(h->tty.slave, TCXONC, TCOON);
    holder_timer(h, TIMER_FLUSH, TTY_FLUSH_MS);
}

int tty_child(struct holder *h)
{
    if (ioctl(h->child_fd[0], TIOCSCTTY, 0) < 0 || dup2(h->child_fd[0], 0) < 0)
        return -1;
    if (fcntl(h->inputs[0].pipe, F_DUPFD, HOLD_FD_TTY) >= 0)
        return 0;
    return fcntl(h->inputs[0].pipe, F_DUPFD, 3); /* RLIMIT_NOFILE is lower than that */
}

void tty_clear(struct holder *h)
{
    h->tty.listener = h->tty.slave = -1;
    for (int i = 0; i < HOLD_TTY_CLIENTS; i++)
        h->tty.clients[i].fd = -1;
    h->tty.size = (struct winsize){.ws_row = TTY_ROWS, .ws_col = TTY_COLS};
}

void tty_end(struct holder *h)
{
    if (h->tty.listener >= 0)
        unlinkat(HOLD_FD_DIR, HOLD_TTY_NAME, 0);
}

/* ---- those who attached ---- */

static void client_close(struct tty_client *client)
{
    close(client->fd);
    client->fd = -1;
    client->unseen = 0;
}

/* Whether it was taken. T3. */
static bool packet_send(struct tty_client *client, char type, const void *data, size_t len)
{
    struct iovec parts[] = {{&type, 1}, {(void *)data, len}};
    const struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(client->fd, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return true;
    if (errno != EAGAIN && errno != ENOBUFS && errno != EMSGSIZE)
        client_close(client);
    return false;
}

static void client_tell_unseen(struct tty_client *client)
{
    if (client->unseen && packet_send(client, HOLD_TTY_UNSEEN, &client->unseen, sizeof client->unseen))
        client->unseen = 0;
}

static void client_show(struct tty_client *client, char type, const void *data, size_t len)
{
    client_tell_unseen(client);
    if (client->fd >= 0 && (client->unseen || !packet_send(client, type, data, len)))
        client->unseen += (int64_t)len;
}

void tty_show(struct holder *h, char type, const void *data, size_t len)
{
    for (int i = 0; i < HOLD_TTY_CLIENTS; i++) {
        if (h->tty.clients[i].fd >= 0)
            client_show(&h->tty.clients[i], type, data, len);
    }
}

/* T4. Into h->stamped; returns how much of it. */
size_t tty_plain(struct holder *h, size_t len)
{
    char *out = h->stamped;
    for (size_t i = 0; i < len; i++) {
        const char c = h->data[i];
        if (h->tty.has_cr && c != '\n')
            *out++ = '\r';
        h->tty.has_cr = c == '\r';
        if (c != '\r')
            *out++ = c;
    }
    return (size_t)(out - h->stamped);
}

/* Sends the newest lines of this start to a terminal that has just attached. */
static void client_replay(struct holder *h, struct tty_client *client)
{
    const struct log_file *f = &h->files[0];
    int64_t begin = h->run.offset[0] - f->base, from = f->size - REPLAY_MAX;
    bool is_cut = from > begin;
    from = is_cut ? from : begin > 0 ? begin : 0;
    ssize_t len = f->size > from ? pread(f->fd, h->text, (size_t)(f->size - from), from) : 0;
    const char *text = h->text, *newline = len > 0 && is_cut ? memchr(text, '\n', (size_t)len) : NULL;
    if (newline) {
        len -= newline + 1 - text;
        text = newline + 1;
    }
    if (len > 0)
        client_show(client, HOLD_TTY_REPLAY, text, (size_t)len);
}

static void client_accept(struct holder *h)
{
    struct tty_client extra = {.fd = -1}, *client = NULL;
    for (int i = 0; i < HOLD_TTY_CLIENTS && !client; i++)
        client = h->tty.clients[i].fd < 0 ? &h->tty.clients[i] : NULL;
    bool has_room = client;
    client = client ? client : &extra;
    client->fd = accept4(h->tty.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client->fd < 0)
        return;
    client->unseen = 0;
    if (has_room) {
        client_replay(h, client);
    } else if (packet_send(client, HOLD_TTY_FULL, "", 0) || client->fd >= 0) {
        client_close(client);
    }
}

static void keys_type(struct holder *h, struct tty_client *client, const char *keys, size_t len)
{
    ssize_t done = h->inputs[0].pipe < 0 || !h->is_alive ? 0 : write(h->inputs[0].pipe, keys, len);
    const int64_t left = (int64_t)len - (done > 0 ? done : 0);
    if (left > 0)
        packet_send(client, HOLD_TTY_UNTYPED, &left, sizeof left);
}

static void size_take(struct holder *h, const char *text)
{
    uint16_t size[2];
    memcpy(size, text, sizeof size);
    if (size[0] == 0 || size[1] == 0)
        return;
    h->tty.size = (struct winsize){.ws_row = size[0], .ws_col = size[1]};
    size_apply(h);
}

static void client_hear(struct holder *h, struct tty_client *client)
{
    ssize_t len = recv(client->fd, h->text, sizeof h->text, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len <= 0)
        client_close(client);
    else if (h->text[0] == HOLD_TTY_KEYS)
        keys_type(h, client, h->text + 1, (size_t)len - 1);
    else if (h->text[0] == HOLD_TTY_SIZE && len == 1 + 2 * (ssize_t)sizeof(uint16_t))
        size_take(h, h->text + 1);
}

void tty_poll(const struct holder *h, struct pollfd fds[HOLD_TTY_CLIENTS + 1])
{
    fds[0] = (struct pollfd){.fd = h->tty.listener, .events = POLLIN};
    for (int i = 0; i < HOLD_TTY_CLIENTS; i++) {
        const struct tty_client *client = &h->tty.clients[i];
        fds[1 + i] = (struct pollfd){.fd = client->fd, .events = POLLIN | (client->unseen ? POLLOUT : 0)};
    }
}

void tty_wake(struct holder *h, const struct pollfd fds[HOLD_TTY_CLIENTS + 1])
{
    for (int i = 0; i < HOLD_TTY_CLIENTS; i++) {
        struct tty_client *client = &h->tty.clients[i];
        if ((fds[1 + i].revents & ~POLLOUT) && client->fd >= 0)
            client_hear(h, client);
        if ((fds[1 + i].revents & POLLOUT) && client->fd >= 0)
            client_tell_unseen(client);
    }
    if (fds[0].revents)
        client_accept(h);
}
