#include "redis/conn.h"
#include "base/clock.h"
#include "base/fs.h"
#include "redis/cluster.h"
#include "redis/resolve.h"
#include "redis/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_SIZE 65536

/* ---- commands ------------------------------------------------------------------------------------------- */

void command_put(struct redis_command *command, const void *data, size_t len)
{
    buf_printf(&command->body, "$%zu\r\n", len);
    if (len)
        buf_put(&command->body, data, len);
    buf_puts(&command->body, "\r\n");
    command->count++;
}

void command_puts(struct redis_command *command, const char *text)
{
    command_put(command, text, strlen(text));
}

void command_put_int(struct redis_command *command, int64_t number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    command_puts(command, digits);
}

void command_begin(struct redis_command *command, const char *name)
{
    command->body.max = 512u << 20;
    buf_reset(&command->body);
    command->count = 0;
    if (name)
        command_puts(command, name);
}

void command_clear(struct redis_command *command)
{
    buf_clear(&command->body);
}

/* ---- the transport -------------------------------------------------------------------------------------- */

void redis_close(struct redis_conn *conn)
{
    cluster_close(conn);
    tls_close(&conn->tls, &conn->tls_context);
    fs_close(&conn->fd);
    conn->fd = -1;
    if (conn->reader)
        redisReaderFree(conn->reader);
    conn->reader = NULL;
}

/* `why` may be a text of the connection's own. */
static int conn_lost(struct redis_conn *conn, const char *why, struct tsk_error *err)
{
    error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", why, NULL);
    redis_close(conn);
    return -1;
}

static int64_t due_ms = INT64_MAX;

void redis_due(int64_t at_ms)
{
    due_ms = at_ms;
}

bool redis_wait(int fd, short events, int64_t until_ms)
{
    if (due_ms < until_ms)
        until_ms = due_ms;
    for (;;) {
        int64_t left = until_ms - clock_now().boot_ms;
        struct pollfd one = {.fd = fd, .events = events};
        if (left < 0)
            left = 0;
        int count = poll(&one, 1, left > 60000 ? 60000 : (int)left);
        if (count > 0)
            return true;
        if (count == 0 && left == 0)
            return false;
    }
}

/* As read(2) and write(2); EAGAIN with what to wait for in *ret_events. */
static ssize_t conn_read(struct redis_conn *conn, void *data, size_t size, short *ret_events)
{
    *ret_events = POLLIN;
    return conn->tls ? tls_read(conn->tls, data, size, ret_events) : recv(conn->fd, data, size, MSG_DONTWAIT);
}

static ssize_t conn_write(struct redis_conn *conn, const void *data, size_t len, short *ret_events)
{
    *ret_events = POLLOUT;
    return conn->tls ? tls_write(conn->tls, data, len, ret_events)
                     : send(conn->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int conn_write_all(struct redis_conn *conn, const char *data, size_t len, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + REDIS_CALL_MS;
    short events;
    while (len) {
        ssize_t done = conn_write(conn, data, len, &events);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN && redis_wait(conn->fd, events, until))
            continue;
        if (done <= 0)
            return conn_lost(conn, done < 0 && errno != EAGAIN ? strerrordesc_np(errno) : "time", err);
        data += done;
        len -= (size_t)done;
    }
    return 0;
}

int redis_send(struct redis_conn *conn, const struct redis_command *command, const struct redis_command *front,
               struct tsk_error *err)
{
    char head[32];
    if (conn->fd < 0)
        return error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "closed", NULL);
    BUG(command->body.failed);
    struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
    snprintf(head, sizeof head, "*%u\r\n", command->count + (front ? front->count : 0));
    buf_puts(&text, head);
    if (front)
        buf_put(&text, front->body.data, front->body.len);
    buf_put(&text, command->body.data, command->body.len);
    BUG(text.failed);
    return conn_write_all(conn, text.data, text.len, err);
}

int redis_receive(struct redis_conn *conn, int timeout_ms, redisReply **ret, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + timeout_ms;
    char data[READ_SIZE];
    short events;
    *ret = NULL;
    if (conn->fd < 0)
        return error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "closed", NULL);
    for (;;) {
        if (redisReaderGetReply(conn->reader, (void **)ret) != REDIS_OK)
            return conn_lost(conn, conn->reader->errstr, err);
        if (*ret)
            return 1;
        ssize_t len = conn_read(conn, data, sizeof data, &events);
        if (len > 0)
            redisReaderFeed(conn->reader, data, (size_t)len);
        else if (len == 0)
            return conn_lost(conn, "end of file", err);
        else if (errno == EAGAIN && (timeout_ms == 0 || !redis_wait(conn->fd, events, until)))
            return 0;
        else if (errno != EAGAIN && errno != EINTR)
            return conn_lost(conn, strerrordesc_np(errno), err);
    }
}

void redis_refused(struct redis_conn *conn, redisReply **reply, struct tsk_error *err)
{
    bool is_replica = strncmp((*reply)->str, "READONLY", 8) == 0;
    error_set(err, TSK_ENVIRONMENT, "redis_refused", "reason", (*reply)->str, NULL);
    reply_free(reply);
    if (is_replica)
        redis_close(conn);
}

/* The answer to the command that was sent first of those that are under way. */
static int take_answer(struct redis_conn *conn, redisReply **ret, struct tsk_error *err)
{
    int result = redis_receive(conn, REDIS_CALL_MS, ret, err);
    if (result == 0)
        return conn_lost(conn, "no answer in time", err);
    if (result < 0 || (*ret)->type != REDIS_REPLY_ERROR)
        return result < 0 ? -1 : 0;
    redis_refused(conn, ret, err);
    return -1;
}

int redis_ask(struct redis_conn *conn, const struct redis_command *command, redisReply **ret, struct tsk_error *err)
{
    *ret = NULL;
    return redis_send(conn, command, NULL, err) < 0 ? -1 : take_answer(conn, ret, err);
}

int redis_ask_two(struct redis_conn *conn, const struct redis_command *first, const struct redis_command *second,
                  redisReply **ret, struct tsk_error *err)
{
    struct tsk_error ignored;
    redisReply *other CLEANUP_REPLY = NULL;
    *ret = NULL;
    if (redis_send(conn, first, NULL, err) < 0 || redis_send(conn, second, NULL, err) < 0)
        return -1;
    int result = take_answer(conn, ret, err);
    if (conn->fd >= 0)
        take_answer(conn, &other, &ignored);
    return result;
}

int redis_say(struct redis_conn *conn, redisReply **ret, struct tsk_error *err, ...)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *own CLEANUP_REPLY = NULL;
    const char *key = NULL;
    va_list words;
    command_begin(&command, NULL);
    va_start(words, err);
    for (const char *word; (word = va_arg(words, const char *));) {
        key = command.count == 1 ? word : key;
        command_puts(&command, word);
    }
    va_end(words);
    ret = ret ? ret : &own;
    return key ? cluster_ask(conn, key, &command, ret, err) : redis_ask(conn, &command, ret, err);
}

void reply_free(redisReply **reply)
{
    if (*reply)
        freeReplyObject(*reply);
    *reply = NULL;
}

const char *reply_text(const redisReply *reply, size_t index)
{
    bool is_there = reply && reply->type == REDIS_REPLY_ARRAY && index < reply->elements;
    const char *text = is_there ? reply->element[index]->str : NULL;
    return text ? text : "";
}

/* ---- connecting ----------------------------------------------------------------------------------------- */

static int unreachable(const struct redis_settings *settings, const char *why, struct tsk_error *err)
{
    char shown[REDIS_SHOWN_MAX];
    redis_show(settings, shown);
    return error_set(err, TSK_REDIS_UNAVAILABLE, "redis_unreachable", "server", shown, "reason", why, NULL);
}

static bool connect_address(struct redis_conn *conn, const struct sockaddr *address, socklen_t len)
{
    int one = 1, problem = 0;
    socklen_t size = sizeof problem;
    conn->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0)
        return false;
    if (connect(conn->fd, address, len) < 0 && errno != EINPROGRESS)
        problem = errno;
    else if (!redis_wait(conn->fd, POLLOUT, clock_now().boot_ms + REDIS_CONNECT_MS))
        problem = ETIMEDOUT;
    else
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem) {
        fs_close(&conn->fd);
        conn->fd = -1;
        errno = problem;
        return false;
    }
    setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (address->sa_family != AF_UNIX)
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return true;
}

static int connect_socket(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err)
{
    struct resolved list[RESOLVED_MAX];
    const char *why = NULL;
    if (settings->path[0]) {
        struct sockaddr_un local = {.sun_family = AF_UNIX};
        snprintf(local.sun_path, sizeof local.sun_path, "%s", settings->path);
        return connect_address(conn, (struct sockaddr *)&local, sizeof local)
                   ? 0
                   : unreachable(settings, strerrordesc_np(errno), err);
    }
    size_t count = resolve_host(settings->host, settings->port, list, &why);
    for (size_t i = 0; i < count; i++) {
        if (connect_address(conn, (struct sockaddr *)&list[i].address, list[i].len))
            return 0;
        why = strerrordesc_np(errno);
    }
    return unreachable(settings, why, err);
}

static void copy_line(const char *text, const char *key, char *to, size_t size)
{
    const char *at = strstr(text, key);
    if (at)
        snprintf(to, size, "%.*s", (int)strcspn(at + strlen(key), "\r\n"), at + strlen(key));
}

/* A refusal of what was said first: of the login, or for want of one. */
static int hello_refused(const struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err)
{
    char shown[REDIS_SHOWN_MAX], reason[256];
    const char *given = conn->fd >= 0 ? tsk_error_context(err, "reason") : NULL;
    snprintf(reason, sizeof reason, "%s", given ? given : "");
    size_t len = strlen(reason);
    if (len && reason[len - 1] == '.') /* it stands in a sentence of ours */
        reason[len - 1] = '\0';
    redis_show(settings, shown);
    if (strncmp(reason, "NOAUTH", 6) == 0 || strncmp(reason, "WRONGPASS", 9) == 0)
        error_set(err, TSK_ENVIRONMENT, "redis_login", "server", shown, "reason", reason, NULL);
    return -1;
}

static int say_hello(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err)
{
    redisReply *info CLEANUP_REPLY = NULL;
    char mode[16] = "";
    if (settings->password[0] &&
        (settings->user[0] ? redis_say(conn, NULL, err, "AUTH", settings->user, settings->password, NULL)
                           : redis_say(conn, NULL, err, "AUTH", settings->password, NULL)) < 0)
        return hello_refused(conn, settings, err);
    if (strcmp(settings->db, "0") != 0 && redis_say(conn, NULL, err, "SELECT", settings->db, NULL) < 0)
        return hello_refused(conn, settings, err);
    if (redis_say(conn, &info, err, "INFO", "server", NULL) < 0)
        return hello_refused(conn, settings, err);
    copy_line(info->str ? info->str : "", "run_id:", conn->server_id, sizeof conn->server_id);
    copy_line(info->str ? info->str : "", "redis_version:", conn->version, sizeof conn->version);
    copy_line(info->str ? info->str : "", "redis_mode:", mode, sizeof mode);
    conn->has_functions = strtol(conn->version, NULL, 10) >= 7;
    conn->is_cluster = strcmp(mode, "cluster") == 0;
    conn->settings = settings;
    return conn->server_id[0] ? 0 : unreachable(settings, "no run_id in INFO", err);
}

int redis_connect(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err)
{
    *conn = (struct redis_conn){.fd = -1};
    if (connect_socket(conn, settings, err) < 0)
        return -1;
    conn->reader = redisReaderCreate();
    BUG(!conn->reader);
    if ((settings->is_tls && tls_open(conn->fd, settings, &conn->tls, &conn->tls_context, err) < 0) ||
        say_hello(conn, settings, err) < 0) {
        redis_close(conn);
        return -1;
    }
    return 0;
}
