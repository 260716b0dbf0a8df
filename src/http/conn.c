#include "http/conn.h"
#include "base/clock.h"
#include "base/fs.h"
#include "http/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SCRATCH_SIZE (64u << 10)
#define KEEP_SIZE    (4u << 10) /* of a buffer that an idle connection keeps */

static void conn_ready(struct loop_source *source, uint32_t events);
static void conn_process(struct http_conn *conn);

/* ---- life ---- */

void conn_open(struct http_server *server, int fd, bool is_unix)
{
    struct http_conn *conn = memory_zeroed(1, sizeof *conn);
    int64_t now_ms = clock_now().boot_ms;
    *conn = (struct http_conn){.source = {.fd = fd, .ready = conn_ready},
                               .server = server,
                               .prev = server->last,
                               .is_unix = is_unix,
                               .is_known = is_unix,
                               .lang = server->lang,
                               .began_ms = now_ms,
                               .deadline_ms = now_ms + HTTP_HEAD_MS,
                               .in = BUF_INIT,
                               .body = BUF_INIT,
                               .out = BUF_INIT};
    if (loop_add(&server->loop, &conn->source, EPOLLIN | EPOLLRDHUP) < 0) {
        close(fd);
        free(conn);
        return;
    }
    *(server->last ? &server->last->next : &server->first) = conn;
    server->last = conn;
    server->conn_count++;
}

static void let_go(struct http_conn *conn)
{
    const struct http_work *work = conn->work;
    conn->work = NULL;
    if (conn->phase == CONN_STREAM)
        conn->server->stream_count--;
    if (work)
        work->gone(conn);
    conn->work_data = NULL;
}

void conn_close(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    if (conn->is_closed)
        return;
    conn->is_closed = true;
    let_go(conn);
    loop_remove(&server->loop, &conn->source);
    close(conn->source.fd);
    *(conn->prev ? &conn->prev->next : &server->first) = conn->next;
    *(conn->next ? &conn->next->prev : &server->last) = conn->prev;
    server->conn_count--;
    conn->next = server->dead;
    server->dead = conn;
}

void conn_bury(struct http_server *server)
{
    for (struct http_conn *conn = server->dead, *next; conn; conn = next) {
        next = conn->next;
        buf_clear(&conn->in);
        buf_clear(&conn->body);
        buf_clear(&conn->out);
        free(conn->head);
        free(conn);
    }
    server->dead = NULL;
}

/* ---- out ---- */

static void shrink_buf(struct buf *b)
{
    if (b->cap > KEEP_SIZE)
        buf_clear(b);
    else
        buf_reset(b);
}

static void conn_linger(struct http_conn *conn)
{
    shutdown(conn->source.fd, SHUT_WR);
    conn->phase = CONN_LINGER;
    conn->deadline_ms = clock_now().boot_ms + HTTP_LINGER_MS;
    loop_want(&conn->server->loop, &conn->source, EPOLLIN);
}

/* The answer was taken; what next? */
static void end_of_answer(struct http_conn *conn)
{
    shrink_buf(&conn->out);
    conn->out_at = 0;
    if (!conn->keeps_alive || conn->server->is_ending) {
        if (conn->is_half_closed || !conn->has_more)
            conn_close(conn);
        else
            conn_linger(conn);
        return;
    }
    conn->phase = CONN_HEAD;
    conn->scanned = 0;
    conn->began_ms = clock_now().boot_ms;
    conn->deadline_ms = conn->began_ms + (conn->in.len > conn->head_len ? HTTP_HEAD_MS : HTTP_IDLE_MS);
    loop_want(&conn->server->loop, &conn->source, conn->is_half_closed ? EPOLLIN : EPOLLIN | EPOLLRDHUP);
}

/* How many bytes went out; 0: none can now. -1: it is broken. */
static ssize_t send_some(struct http_conn *conn, const char *data, size_t len)
{
    ssize_t n = send(conn->source.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    return n;
}

static int64_t stall_deadline(const struct http_conn *conn)
{
    return clock_now().boot_ms + (conn->phase == CONN_STREAM ? HTTP_PATIENCE_MS : HTTP_STALL_MS);
}

/* Sends what is there. False when the connection is gone. */
static bool conn_flush(struct http_conn *conn)
{
    while (conn->out_at < conn->out.len) {
        ssize_t n = send_some(conn, conn->out.data + conn->out_at, conn->out.len - conn->out_at);
        if (n < 0) {
            conn_close(conn);
            return false;
        }
        if (n == 0) {
            if (!conn->deadline_ms) /* C2: counted from now */
                conn->deadline_ms = stall_deadline(conn);
            loop_want(&conn->server->loop, &conn->source, EPOLLOUT | (conn->is_half_closed ? 0 : EPOLLRDHUP));
            return true;
        }
        conn->out_at += (size_t)n;
        conn->deadline_ms = stall_deadline(conn);
    }
    return true;
}

static bool is_flushed(const struct http_conn *conn)
{
    return conn->out_at == conn->out.len;
}

static const char *reason_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {{200, "OK"},
                   {202, "Accepted"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {422, "Unprocessable Content"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Status";
}

static const char *date_of(struct http_server *server)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != server->date_s) {
        server->date_s = now.tv_sec;
        gmtime_r(&now.tv_sec, &parts);
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return server->date;
}

static void put_head(struct http_conn *conn, int status, const char *type, const char *headers, int64_t len)
{
    struct buf *out = &conn->out;
    buf_puts(out, "HTTP/1.1 ");
    buf_put_int(out, status);
    buf_puts(out, " ");
    buf_puts(out, reason_phrase(status));
    buf_puts(out, "\r\nDate: ");
    buf_puts(out, date_of(conn->server));
    if (type) {
        buf_puts(out, "\r\nContent-Type: ");
        buf_puts(out, type);
    }
    if (len >= 0 && status != 304) {
        buf_puts(out, "\r\nContent-Length: ");
        buf_put_int(out, len);
    }
    buf_puts(out, "\r\nX-Content-Type-Options: nosniff\r\n");
    if (!headers || !strstr(headers, "Cache-Control:"))
        buf_puts(out, "Cache-Control: no-store\r\n");
    if (headers)
        buf_puts(out, headers);
    buf_puts(out, conn->keeps_alive ? "\r\n" : "Connection: close\r\n\r\n");
}

void conn_answer(struct http_conn *conn, int status, const char *type, const char *headers, const void *body,
                 size_t len)
{
    if (conn->is_closed)
        return;
    BUG(conn->phase == CONN_STREAM || conn->phase == CONN_LINGER || (len == CONN_NO_LENGTH && !conn->is_head_only));
    conn->work = NULL;
    conn->work_data = NULL;
    stats_request(conn->server->stats, conn->op, status, conn->began_us);
    conn->keeps_alive = conn->keeps_alive && !conn->server->is_ending;
    put_head(conn, status, type, headers, (int64_t)len);
    if (!conn->is_head_only && len)
        buf_put(&conn->out, body, len);
    if (conn->out.failed) {
        conn_close(conn);
        return;
    }
    conn->phase = CONN_FLUSH;
    conn->deadline_ms = clock_now().boot_ms + HTTP_STALL_MS;
    if (!conn_flush(conn) || !is_flushed(conn))
        return;
    end_of_answer(conn);
    if (!conn->is_busy && !conn->is_closed && conn->phase == CONN_HEAD)
        conn_process(conn); /* what was sent ahead */
}

void conn_refuse(struct http_conn *conn, int status, enum tsk_code code, const char *text)
{
    struct tsk_error err = {0};
    struct buf body CLEANUP(buf_clear) = BUF_INIT;
    error_set(&err, code, text, NULL);
    json_t *document CLEANUP_JSON = json_of_error(&err, lang_name(conn->lang));
    json_write(&body, document, false);
    const char *headers = status == 401 ? "WWW-Authenticate: Bearer\r\n" : status == 503 ? "Retry-After: 1\r\n" : NULL;
    conn_answer(conn, status, "application/json", headers, body.data, body.len);
}

/* The rest of the request cannot be understood, or is not wanted (C4). */
static void refuse_and_close(struct http_conn *conn, const struct http_refusal *refusal)
{
    conn->keeps_alive = false;
    conn_refuse(conn, refusal->status, refusal->status == 413 ? TSK_PAYLOAD_TOO_LARGE : TSK_INVALID_INPUT,
                refusal->text);
}

void conn_wait(struct http_conn *conn, const struct http_work *work, void *data)
{
    conn->phase = CONN_WORKING;
    conn->deadline_ms = 0;
    conn->work = work;
    conn->work_data = data;
}

/* ---- streams ---- */

void conn_stream(struct http_conn *conn, const char *headers, const struct http_work *work, void *data)
{
    int size = HTTP_STREAM_MAX / 2; /* the kernel doubles it */
    setsockopt(conn->source.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    stats_request(conn->server->stats, conn->op, 200, conn->began_us);
    conn->keeps_alive = false;
    put_head(conn, 200, "text/event-stream", headers, -1);
    conn->phase = CONN_STREAM;
    conn->server->stream_count++;
    conn->deadline_ms = 0;
    conn->work = work;
    conn->work_data = data;
    if (conn->is_half_closed) /* nobody who wants a stream closes his side first */
        conn_close(conn);
}

void conn_stream_put(struct http_conn *conn, const void *data, size_t len)
{
    if (len)
        buf_put(&conn->out, data, len);
}

static void conn_drained(struct http_conn *conn)
{
    conn->deadline_ms = 0;
    shrink_buf(&conn->out);
    conn->out_at = 0;
    loop_want(&conn->server->loop, &conn->source, EPOLLIN | EPOLLRDHUP);
}

void conn_stream_push(struct http_conn *conn)
{
    if (conn->is_closed || !conn_flush(conn) || !is_flushed(conn))
        return;
    conn->deadline_ms = 0;
    loop_want(&conn->server->loop, &conn->source,
              EPOLLOUT | EPOLLRDHUP); /* `room` in the next turn: others come first */
}

size_t conn_stream_try(struct http_conn *conn, const char *data, size_t len)
{
    size_t sent = 0;
    while (sent < len && !conn->is_closed && is_flushed(conn)) {
        ssize_t n = send_some(conn, data + sent, len - sent);
        if (n < 0) {
            conn_close(conn);
            break;
        }
        if (n == 0) {
            loop_want(&conn->server->loop, &conn->source, EPOLLOUT | EPOLLRDHUP);
            if (!conn->deadline_ms)
                conn->deadline_ms = stall_deadline(conn);
            break;
        }
        sent += (size_t)n;
        conn->deadline_ms = 0;
    }
    return sent;
}

void conn_stream_end(struct http_conn *conn)
{
    if (conn->is_closed)
        return;
    conn->work = NULL;
    conn->work_data = NULL;
    if (conn->phase == CONN_STREAM)
        conn->server->stream_count--;
    conn->phase = CONN_FLUSH;
    conn->deadline_ms = clock_now().boot_ms + HTTP_STALL_MS;
    if (conn_flush(conn) && is_flushed(conn))
        end_of_answer(conn);
}

/* ---- in ---- */

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* The request is complete. What the dispatcher needs later it has copied. */
static void conn_dispatch(struct http_conn *conn)
{
    conn->began_us = now_us();
    conn->has_more = false;
    http_dispatch(conn);
    buf_clear(&conn->body);
}

/* Returns true if the request head was complete and the connection can continue. */
static bool take_head(struct http_conn *conn)
{
    struct http_refusal refusal = {0};
    conn->head_len = http_head_end(buf_str(&conn->in), conn->in.len, &conn->scanned);
    if (!conn->head_len && conn->in.len <= HTTP_HEAD_MAX)
        return false;
    conn->keeps_alive = conn->is_head_only = false;
    conn->has_more = true;
    conn->op = NULL;
    conn->lang = conn->server->lang;
    conn->began_us = now_us();
    if (!conn->head)
        conn->head = malloc(sizeof *conn->head);
    BUG(!conn->head);
    if (!conn->head_len) {
        refusal = (struct http_refusal){431, "http_head_too_large"};
    } else if (http_parse_head(conn->in.data, conn->head_len, conn->head, &refusal) == 0) {
        conn->is_head_only = http_text_is(&conn->head->method, "HEAD");
        conn->lang = http_lang(conn->head, conn->server->lang);
        if (!http_may_enter(conn))
            return false;
        conn->keeps_alive = conn->head->keeps_alive;
        conn->chunks = (struct http_chunks){0};
        conn->phase = CONN_BODY;
        conn->began_ms = clock_now().boot_ms;
        conn->deadline_ms = conn->began_ms + HTTP_BODY_MS;
        return true;
    }
    refuse_and_close(conn, &refusal);
    return false;
}

/* Takes what belongs to the body; how many bytes that were, -1 after a refusal. */
static ssize_t take_body(struct http_conn *conn, const char *data, size_t len)
{
    struct http_refusal refusal = {0};
    if (conn->head->is_chunked) {
        ssize_t taken = http_chunks_take(&conn->chunks, data, len, &conn->body, &refusal);
        if (taken < 0)
            refuse_and_close(conn, &refusal);
        return taken;
    }
    size_t want = conn->head->content_length > 0 ? (size_t)conn->head->content_length - conn->body.len : 0;
    buf_put(&conn->body, data, len < want ? len : want);
    return (ssize_t)(len < want ? len : want);
}

static bool has_body(const struct http_conn *conn)
{
    return conn->head->is_chunked ? conn->chunks.is_done : (int64_t)conn->body.len >= conn->head->content_length;
}

/* What follows the request that was dispatched moves to the front. */
static void conn_drop(struct http_conn *conn, size_t len)
{
    if (conn->in.len <= len)
        shrink_buf(&conn->in);
    else
        memmove(conn->in.data, conn->in.data + len, conn->in.len -= len);
    conn->scanned = conn->head_len = 0;
}

/* Goes through what was read, until more is needed or somebody works on a request. */
static void conn_process(struct http_conn *conn)
{
    conn->is_busy = true;
    while (!conn->is_closed && conn->phase == CONN_HEAD && conn->in.len && take_head(conn)) {
        size_t used = conn->head_len;
        ssize_t taken = take_body(conn, conn->in.data + used, conn->in.len - used);
        if (taken < 0)
            break;
        used += (size_t)taken;
        if (!has_body(conn)) {
            if (conn->head->expects_continue && conn->in.len == used)
                send_some(conn, "HTTP/1.1 100 Continue\r\n\r\n", 25);
            conn->in.len = conn->head_len; /* the rest is in the body */
            break;
        }
        conn_dispatch(conn);
        conn_drop(conn, used);
    }
    conn->is_busy = false;
}

/* In the middle of a body: the head stays where it is, the bytes come from the scratch buffer. */
static void process_body(struct http_conn *conn, const char *data, size_t len)
{
    ssize_t taken = take_body(conn, data, len);
    if (taken < 0 || !has_body(conn))
        return;
    conn->is_busy = true;
    conn_dispatch(conn);
    conn_drop(conn, conn->head_len);
    if (!conn->is_closed)
        buf_put(&conn->in, data + taken, len - (size_t)taken);
    conn->is_busy = false;
    if (!conn->is_closed && conn->phase == CONN_HEAD)
        conn_process(conn);
}

/* The client sends nothing more. */
static void half_close(struct http_conn *conn)
{
    conn->is_half_closed = true;
    if (conn->phase == CONN_HEAD || conn->phase == CONN_BODY || conn->phase == CONN_STREAM ||
        conn->phase == CONN_LINGER) {
        conn_close(conn);
        return;
    }
    if (conn->phase == CONN_WORKING && conn->work->hung_up)
        conn->work->hung_up(conn);
    if (!conn->is_closed) /* else its descriptor may be another's by now */
        loop_want(&conn->server->loop, &conn->source, is_flushed(conn) ? 0 : EPOLLOUT);
}

static void conn_readable(struct http_conn *conn)
{
    char *scratch = conn->server->scratch;
    ssize_t n = recv(conn->source.fd, scratch, SCRATCH_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        conn_close(conn);
        return;
    }
    if (n == 0) {
        half_close(conn);
        return;
    }
    if (conn->phase == CONN_BODY) {
        process_body(conn, scratch, (size_t)n);
    } else if (conn->phase == CONN_HEAD) {
        if (conn->in.len == 0)
            conn->deadline_ms = clock_now().boot_ms + HTTP_HEAD_MS;
        buf_put(&conn->in, scratch, (size_t)n);
        conn_process(conn);
    } /* LINGER and STREAM: dropped */
}

static void conn_writable(struct http_conn *conn)
{
    if (!conn_flush(conn) || !is_flushed(conn))
        return;
    if (conn->phase == CONN_STREAM) {
        conn_drained(conn);
        conn->work->room(conn);
        return;
    }
    if (conn->phase != CONN_FLUSH)
        return;
    end_of_answer(conn);
    if (conn->phase == CONN_HEAD && !conn->is_closed)
        conn_process(conn);
}

static void conn_ready(struct loop_source *source, uint32_t events)
{
    struct http_conn *conn = (struct http_conn *)source;
    bool reads = conn->phase == CONN_HEAD || conn->phase == CONN_BODY || conn->phase == CONN_LINGER ||
                 conn->phase == CONN_STREAM;
    if (events & (EPOLLERR | EPOLLHUP)) {
        conn_close(conn);
        return;
    }
    if (events & EPOLLOUT)
        conn_writable(conn);
    if (conn->is_closed)
        return;
    if ((events & EPOLLIN) && reads)
        conn_readable(conn);
    else if (events & EPOLLIN) /* C1 */
        loop_want(&conn->server->loop, source, source->events & ~(uint32_t)EPOLLIN);
    if (!conn->is_closed && (events & EPOLLRDHUP) && !(events & EPOLLIN && reads))
        half_close(conn);
}

/* ---- time ---- */

/* A part of a request is there. */
static bool conn_has_begun(const struct http_conn *conn)
{
    return (conn->phase == CONN_HEAD && conn->in.len) || conn->phase == CONN_BODY;
}

static void give_up(struct http_conn *conn, int status, enum tsk_code code, const char *text)
{
    conn->op = NULL;
    conn->is_head_only = conn->is_head_only && conn->phase == CONN_BODY; /* else it was the request before */
    conn->keeps_alive = false;
    conn->has_more = true;
    conn->began_us = now_us(); /* it was the client that took so long */
    conn_refuse(conn, status, code, text);
}

void conn_tick(struct http_conn *conn, int64_t now_ms)
{
    if (conn->work && conn->work->tick)
        conn->work->tick(conn, now_ms);
    if (conn->is_closed || !conn->deadline_ms || now_ms < conn->deadline_ms)
        return;
    if (conn_has_begun(conn))
        give_up(conn, 408, TSK_INVALID_INPUT, "http_too_slow");
    else
        conn_close(conn);
}

void conn_end(struct http_conn *conn)
{
    if (conn->phase == CONN_WORKING || conn->phase == CONN_STREAM || conn->phase == CONN_LINGER)
        return;
    if (conn->is_known && conn_has_begun(conn))
        give_up(conn, 503, TSK_ENVIRONMENT, "http_ending");
    else if (!conn->is_known || conn->phase == CONN_HEAD)
        conn_close(conn);
}
