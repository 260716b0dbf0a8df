/* conn.h - one client: bytes in, requests out to the dispatcher, answers back. Everything here runs in the loop's thread.
 *
 *     HEAD --> BODY --> WORKING --> FLUSH --> HEAD (kept alive) or LINGER --> closed
 *                          \------> STREAM ----------------------------------> closed
 *
 *  C1  A connection has one request at a time; further requests of the client wait in its socket.
 *  C2  A head must be complete HTTP_HEAD_MS after its first byte, a body HTTP_BODY_MS after its head. The client must read an
 *      answer with pauses of at most HTTP_STALL_MS (a stream: HTTP_PATIENCE_MS). Otherwise the connection is closed. This is
 *      checked once a second.
 *  C3  The cost of a client is bounded: 16 KiB of head, 1 MiB of body, one answer; for a stream HTTP_STREAM_MAX bytes that are
 *      not sent yet, and a send buffer of that size in the kernel.
 *  C4  After a refusal the rest of the request is read and dropped for a moment, because closing at once could discard the
 *      answer before the client has read it. */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "http/loop.h"
#include "http/parse.h"

#include "base/text.h"

#define HTTP_HEAD_MS     10000
#define HTTP_BODY_MS     20000
#define HTTP_IDLE_MS     60000
#define HTTP_STALL_MS    20000
#define HTTP_PATIENCE_MS 300000 /* for a stream: a page that is being debugged may stop reading for a while */
#define HTTP_LINGER_MS   2000
#define HTTP_STREAM_MAX  (64u << 10)

struct http_server;
struct http_conn;

enum conn_phase { CONN_HEAD, CONN_BODY, CONN_WORKING, CONN_STREAM, CONN_FLUSH, CONN_LINGER };

/* What is done about a request that is not answered at once. */
struct http_work {
    void (*gone)(struct http_conn *conn); /* the client is; conn->work_data must not point to it any more */
    /* WORKING: the client sends nothing more, and may be gone; what only waits need not wait for it. May be NULL. */
    void (*hung_up)(struct http_conn *conn);
    void (*room)(struct http_conn *conn);                 /* STREAM: everything was taken, more may be put */
    void (*tick)(struct http_conn *conn, int64_t now_ms); /* about once a second; may be NULL */
};

struct http_conn {
    struct loop_source source; /* first */
    struct http_server *server;
    struct http_conn *prev, *next; /* all of them, the oldest first */
    enum conn_phase phase;
    bool is_known;  /* the kernel or the token has said who it is (R3) */
    enum lang lang; /* of the request */
    bool is_unix, is_head_only, keeps_alive, is_half_closed, is_closed, is_busy;
    bool has_more;       /* the request was not read to its end (C4) */
    int64_t deadline_ms; /* 0: none (C2) */
    int64_t began_ms;    /* since when it is in this phase, as far as it could leave (R3) */
    int64_t began_us;    /* of the dispatch, for the statistics */
    struct buf in;
    size_t scanned, head_len;
    struct http_head *head; /* only while the request is read and dispatched */
    struct http_chunks chunks;
    struct buf body;
    struct buf out;
    size_t out_at;
    const struct http_work *work;
    void *work_data;
    const void *op; /* struct op: what was asked for, for the statistics */
};

void conn_open(struct http_server *server, int fd, bool is_unix);
void conn_close(struct http_conn *conn);
/* At the end of a turn: frees what was closed in it. */
void conn_bury(struct http_server *server);
/* C2, and the work's tick. */
void conn_tick(struct http_conn *conn, int64_t now_ms);
/* R6: what is not worked for ends now. */
void conn_end(struct http_conn *conn);

/* ---- answers ---- */

#define CONN_NO_LENGTH SIZE_MAX
/* The only answer to the current request. `headers`: more lines, each with its CR LF; or NULL. `len` may be CONN_NO_LENGTH when
 * the head is all that was asked for. */
void conn_answer(struct http_conn *conn, int status, const char *type, const char *headers, const void *body,
                 size_t len);
/* An error document, with `text` as its sentence, in the request's language; the HTTP status may be another one than the code's. */
void conn_refuse(struct http_conn *conn, int status, enum tsk_code code, const char *text);
/* The answer will come later: from `work`. */
void conn_wait(struct http_conn *conn, const struct http_work *work, void *data);
/* An answer without an end; conn_stream_put adds to it. */
void conn_stream(struct http_conn *conn, const char *headers, const struct http_work *work, void *data);
void conn_stream_put(struct http_conn *conn, const void *data, size_t len);
/* Sends what is there; the work's `room` is called in a later turn, when all of it was taken. */
void conn_stream_push(struct http_conn *conn);
/* Sends bytes of somebody else's buffer without keeping them: how many were taken. Only when nothing is waiting. */
size_t conn_stream_try(struct http_conn *conn, const char *data, size_t len);
/* Ends the stream when everything was taken. */
void conn_stream_end(struct http_conn *conn);

#endif
