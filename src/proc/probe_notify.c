/* probe_notify.c - PROBE_NOTIFY: the process says itself that it is ready (sd_notify, see sd_notify(3)). */
#include "proc/probe_try.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define DATAGRAM_MAX 8192
#define FDS_MAX      253 /* the kernel's own maximum */
#define CONTROL_SIZE                                                                                                   \
    (CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(struct timeval)) + CMSG_SPACE(FDS_MAX * sizeof(int)))

static void take_notify_line(const char *line, size_t len, struct notify_words *words)
{
    static const char status[] = "STATUS=";
    static const struct {
        const char *text;
        size_t place;
    } flags[] = {{"READY=1", offsetof(struct notify_words, ready)},
                 {"STOPPING=1", offsetof(struct notify_words, stopping)},
                 {"RELOADING=1", offsetof(struct notify_words, reloading)},
                 {"WATCHDOG=1", offsetof(struct notify_words, watchdog)}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (len == strlen(flags[i].text) && memcmp(line, flags[i].text, len) == 0)
            *(bool *)((char *)words + flags[i].place) = true;
    if (len >= sizeof status - 1 && memcmp(line, status, sizeof status - 1) == 0) {
        words->has_status = true;
        snprintf(words->status, sizeof words->status, "%.*s", (int)(len - sizeof status + 1), line + sizeof status - 1);
    }
}

void notify_parse(const char *data, size_t len, struct notify_words *ret)
{
    *ret = (struct notify_words){0};
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t line = end ? (size_t)(end - data) : len;
        take_notify_line(data, line, ret);
        size_t taken = end ? line + 1 : line;
        data += taken;
        len -= taken;
    }
}

int notify_init(int fd)
{
    int type = 0, domain = 0, on = 1;
    socklen_t len = sizeof type, domain_len = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_DGRAM ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) < 0 || domain != AF_UNIX)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) < 0)
        return -1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

/* What came with a message beside its text. */
struct envelope {
    struct ucred sender; /* pid 0: not known */
    int64_t sent_ms;     /* wall; -1: not known */
};

/* Nobody here stores descriptors, and a sender that waits for their end (BARRIER=1) continues. */
static void close_descriptors(struct cmsghdr *c)
{
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        close(fd);
    }
}

static struct envelope open_envelope(struct msghdr *message)
{
    struct envelope envelope = {.sent_ms = -1};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timeval time;
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_RIGHTS)
            close_descriptors(c);
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof envelope.sender))
            memcpy(&envelope.sender, CMSG_DATA(c), sizeof envelope.sender);
        if (c->cmsg_type == SCM_TIMESTAMP && c->cmsg_len == CMSG_LEN(sizeof time)) {
            memcpy(&time, CMSG_DATA(c), sizeof time);
            envelope.sent_ms = (int64_t)time.tv_sec * 1000 + time.tv_usec / 1000;
        }
    }
    return envelope;
}

static bool is_meant(const struct envelope *envelope, int64_t started_ms)
{
    const struct ucred *sender = &envelope->sender;
    if (sender->pid <= 0 || (sender->uid != geteuid() && sender->uid != 0))
        return false;
    /* The clock may have been set back meanwhile: that alone does not make a message old. */
    bool is_old = envelope->sent_ms >= 0 && envelope->sent_ms < started_ms;
    return !is_old || kill(sender->pid, 0) == 0 || errno != ESRCH;
}

int notify_receive(int fd, int64_t started_ms, struct notify_words *ret)
{
    for (;;) {
        char data[DATAGRAM_MAX];
        _Alignas(struct cmsghdr) char control[CONTROL_SIZE];
        struct iovec place = {.iov_base = data, .iov_len = sizeof data};
        struct msghdr message = {
            .msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return 0;
        struct envelope envelope = open_envelope(&message);
        if (n == 0 || (message.msg_flags & MSG_TRUNC) || !is_meant(&envelope, started_ms))
            continue;
        notify_parse(data, (size_t)n, ret);
        return 1;
    }
}

int try_notify(struct probe_try *t, int64_t deadline_ms)
{
    (void)deadline_ms;
    bool result = t->was_notified;
    t->was_notified = false;
    return result;
}
