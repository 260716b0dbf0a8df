/* probe_net.c - PROBE_PORT and PROBE_HTTP: the process accepts connections, the process answers. Only a listener of its own tree
 * counts: where another program has the port, the process is not ready. */
#include "base/address.h"
#include "base/fs.h"
#include "proc/listener.h"
#include "proc/probe_try.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define ANSWER_MAX      (16u << 10) /* of an answer's head */
#define PROBE_DRAIN_MAX (256u << 10)
#define PROBE_DRAIN_MS  200
#define URL_PORT_MAX    65535

/* Where nobody listens, a connection to a port of the ephemeral range can meet itself: the kernel happens to choose the same
 * port for our side. That is nobody's answer. */
static bool is_own_echo(int fd)
{
    union address here = {0}, there = {0};
    socklen_t here_len = sizeof here, there_len = sizeof there;
    if (getsockname(fd, &here.any, &here_len) < 0 || getpeername(fd, &there.any, &there_len) < 0)
        return true;
    return here_len == there_len && memcmp(&here, &there, here_len) == 0;
}

/* Finishes a connection that is under way: 0, or an errno. */
static int connect_finish(const struct probe_try *t, int fd, int64_t deadline_ms)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    int number = 0;
    socklen_t len = sizeof number;
    int ready = try_wait(t, &writable, deadline_ms);
    if (ready <= 0)
        return ready < 0 ? ECANCELED : ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0)
        return errno;
    return number ? number : is_own_echo(fd) ? ECONNREFUSED : 0;
}

/* A connected descriptor, or -1 and errno. */
static int connect_to(const struct probe_try *t, const union address *address, int64_t deadline_ms)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int number = connect(fd, &address->any, address_len(address)) == 0 ? 0 : errno;
    if (number == EINPROGRESS || number == EINTR || number == 0)
        number = connect_finish(t, fd, deadline_ms);
    if (number == 0)
        return fd;
    fs_close(&fd);
    errno = number;
    return -1;
}

/* ---- hosts ---- */

/* Whether a process of the start accepted the connection; else the detail says what was found at `place`. */
static bool is_own_listener(struct probe_try *t, int fd, const char *place)
{
    static const char *const texts[] = {
        [LISTENER_OTHER] = "another program listens there, not this process",
        [LISTENER_UNSEEN] = "whether this process listens there cannot be seen: it runs as another user",
        [LISTENER_NONE] = "no program of this machine listens there",
    };
    union address peer = {0};
    socklen_t len = sizeof peer;
    if (getpeername(fd, &peer.any, &len) < 0) {
        try_say(t, "%s: %s", place, strerrordesc_np(errno));
        return false;
    }
    enum listener listener = listener_of(t->p, &peer);
    if (listener != LISTENER_OWN)
        try_say(t, "%s: %s", place, texts[listener]);
    return listener == LISTENER_OWN;
}

/* Its addresses in turn, each with its share of the time. The first one's errno is the most telling one: a machine without
 * IPv6 says something odd for the second. Where another program answers, the detail says so and errno is 0. */
static int connect_host(struct probe_try *t, const char *host, int port, const char *place, int64_t deadline_ms)
{
    union address list[ADDRESSES_MAX];
    size_t count = host_addresses(host, port, list);
    int first = ENXIO;
    for (size_t i = 0; i < count; i++) {
        int64_t now_ms = clock_now().boot_ms;
        int fd = connect_to(t, &list[i], now_ms + (deadline_ms - now_ms) / (int64_t)(count - i));
        if (fd >= 0 && is_own_listener(t, fd, place))
            return fd;
        bool is_others = fd >= 0;
        first = is_others ? 0 : i ? first : errno;
        fs_close(&fd);
    }
    errno = first;
    return -1;
}

int try_port(struct probe_try *t, int64_t deadline_ms)
{
    char place[24];
    snprintf(place, sizeof place, "port %d", t->probe.port);
    int fd CLEANUP_FD = connect_host(t, "localhost", t->probe.port, place, deadline_ms);
    if (fd < 0 && errno)
        try_say(t, "%s: %s", place, strerrordesc_np(errno));
    if (fd < 0)
        return 0;
    try_say(t, "%s accepts connections", place);
    return 1;
}

/* ---- URL ---- */

/* HOST[:PORT] of `len` bytes. */
static int authority_parse(const char *text, size_t len, struct http_url *ret)
{
    char copy[sizeof ret->host + 16];
    if (len == 0 || len >= sizeof copy || memchr(text, '@', len))
        return -1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    bool is_v6 = copy[0] == '[';
    char *host = is_v6 ? copy + 1 : copy;
    char *end = is_v6 ? strchr(host, ']') : host + strcspn(host, ":");
    if (!end || end == host || (size_t)(end - host) >= sizeof ret->host)
        return -1;
    const char *rest = is_v6 ? end + 1 : end;
    ret->port = 80;
    if (*rest) {
        char *after;
        if (*rest != ':' || !isdigit((unsigned char)rest[1]))
            return -1;
        long port = strtol(rest + 1, &after, 10);
        if (*after || port < 1 || port > URL_PORT_MAX)
            return -1;
        ret->port = (int)port;
    }
    snprintf(ret->host_header, sizeof ret->host_header, "%.*s", (int)len, text);
    memcpy(ret->host, host, (size_t)(end - host));
    ret->host[end - host] = '\0';
    union address address;
    bool is_address = address_parse(ret->host, ret->port, &address);
    if (is_v6 || is_address)
        return is_address && is_v6 == (address.any.sa_family == AF_INET6) ? 0 : -1;
    return ret->host[strspn(ret->host, NAME_CHARACTERS)] ? -1 : 0;
}

int http_url_parse(const char *url, struct http_url *ret)
{
    if (strncasecmp(url, "http://", 7) != 0)
        return -1;
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c > '~') /* nothing of it may end our line or header; a signed char is fine */
            return -1;
    const char *authority = url + 7;
    size_t len = strcspn(authority, "/?#");
    *ret = (struct http_url){.path = authority + len};
    ret->path_len = strcspn(ret->path, "#");
    return authority_parse(authority, len, ret);
}

/* ---- HTTP ---- */

/* The end of the head that begins at `data`, or NULL. */
static const char *head_end(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    return end ? end + 4 : NULL;
}

int http_status(const char *data, size_t len, int *ret_status)
{
    static const char start[] = "HTTP/1.";
    for (;;) {
        if (memcmp(data, start, len < sizeof start - 1 ? len : sizeof start - 1) != 0)
            return -1;
        if (len < 12)
            return 0;
        const char *digits = data + 9;
        if (!isdigit((unsigned char)data[7]) || data[8] != ' ' || !isdigit((unsigned char)digits[0]) ||
            !isdigit((unsigned char)digits[1]) || !isdigit((unsigned char)digits[2]))
            return -1;
        int status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
        if (status >= 200 || status < 100) {
            *ret_status = status;
            return 1;
        }
        /* "100 Continue", "103 Early Hints": the answer itself follows. */
        const char *end = head_end(data, len);
        if (!end)
            return 0;
        len -= (size_t)(end - data);
        data = end;
    }
}

static bool send_request(const struct probe_try *t, int fd, const struct http_url *url, int64_t deadline_ms)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    bool is_rooted = url->path_len && url->path[0] == '/';
    buf_printf(
        &b, "GET %s%.*s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tasuki-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        is_rooted ? "" : "/", (int)url->path_len, url->path, url->host_header);
    for (size_t done = 0; !b.failed && done < b.len;) {
        ssize_t n = send(fd, b.data + done, b.len - done, MSG_NOSIGNAL);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        if (errno != EAGAIN && errno != EINTR)
            return false;
        if (try_wait(t, &writable, deadline_ms) <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return !b.failed;
}

/* > 0 bytes, 0 the end, -1 and errno. */
static ssize_t net_receive(const struct probe_try *t, int fd, char *data, size_t size, int64_t deadline_ms)
{
    for (;;) {
        ssize_t n = recv(fd, data, size, 0);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (try_wait(t, &readable, deadline_ms) <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

/* Takes the rest of a short answer, because a server whose client goes away in the middle complains in its log. */
static void net_drain(const struct probe_try *t, int fd, int64_t deadline_ms)
{
    char data[4096];
    int64_t until_ms = clock_now().boot_ms + PROBE_DRAIN_MS;
    if (until_ms > deadline_ms)
        until_ms = deadline_ms;
    ssize_t n;
    for (size_t total = 0; total < PROBE_DRAIN_MAX; total += (size_t)n)
        if ((n = net_receive(t, fd, data, sizeof data, until_ms)) <= 0 || clock_now().boot_ms >= until_ms)
            return;
}

/* 1 and the status, or 0 with the detail. */
static int receive_status(struct probe_try *t, int fd, int64_t deadline_ms, int *ret_status)
{
    char data[ANSWER_MAX];
    size_t len = 0;
    while (len < sizeof data) {
        ssize_t n = net_receive(t, fd, data + len, sizeof data - len, deadline_ms);
        if (n <= 0) {
            try_say(t, "%s: %s", t->probe.text, n < 0 ? strerrordesc_np(errno) : "closed without an answer");
            return 0;
        }
        len += (size_t)n;
        int known = http_status(data, len, ret_status);
        if (known > 0)
            return 1;
        if (known < 0)
            break;
    }
    try_say(t, "%s: the answer is not HTTP", t->probe.text);
    return 0;
}

int try_http(struct probe_try *t, int64_t deadline_ms)
{
    struct http_url url;
    if (http_url_parse(t->probe.text, &url) < 0) {
        try_say(t, "%s: not http://HOST[:PORT]/PATH", t->probe.text);
        return 0;
    }
    int status = 0, fd CLEANUP_FD = connect_host(t, url.host, url.port, t->probe.text, deadline_ms);
    if (fd < 0 && !errno)
        return 0;
    if (fd < 0 || !send_request(t, fd, &url, deadline_ms)) {
        const char *reason = errno == ENXIO ? "the host is not in /etc/hosts" : strerrordesc_np(errno);
        try_say(t, "%s: %s", t->probe.text, reason);
        return 0;
    }
    if (!receive_status(t, fd, deadline_ms, &status))
        return 0;
    net_drain(t, fd, deadline_ms);
    try_say(t, "%s: HTTP %d", t->probe.text, status);
    return status >= 200 && status < 400;
}
