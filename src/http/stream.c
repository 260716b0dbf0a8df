/* stream.c - an operation that keeps delivering (OP_STREAMS), as an event stream. It blocks where it likes, so it has a thread of its own;
 * what it says waits in a buffer of at most HTTP_STREAM_MAX, and the thread waits with it. */
#include "base/clock.h"
#include "http/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS_MAX = 64, STREAM_STACK_SIZE = 512 << 10 };

struct http_stream {
    struct http_server *server;
    struct http_conn *conn; /* the loop's; NULL: the client is gone */
    const struct op *op;
    json_t *args;
    enum lang lang;
    struct http_caller caller;
    struct http_stream *next;
    int64_t beat_ms;
    pthread_t thread;
    bool is_answered; /* the head was sent; the loop's */
    atomic_bool is_cancelled;
    /* Of the server's mutex: */
    pthread_cond_t room;
    struct buf pending;
    bool is_begun, is_done; /* the operation has nothing against its arguments; it has ended */
    int status;             /* when it never began: of the answer in `pending` */
};

/* ---- in its thread ---- */

static bool stream_is_cancelled(struct op_call *call)
{
    struct http_stream *stream = call->skin;
    return atomic_load(&stream->is_cancelled);
}

static void put_frame(struct buf *b, const json_t *document)
{
    const char *cursor = json_get_string(document, "cursor", NULL), *event = json_get_string(document, "event", NULL);
    if (event)
        buf_printf(b, "event: %s\n", event);
    if (cursor)
        buf_printf(b, "id: %s\n", cursor);
    buf_puts(b, "data: ");
    json_write(b, document, false);
    buf_puts(b, "\n\n");
}

static bool stream_emit(struct op_call *call, const json_t *document)
{
    struct http_stream *stream = call->skin;
    struct http_server *server = stream->server;
    pthread_mutex_lock(&server->mutex);
    while (stream->pending.len > HTTP_STREAM_MAX && !atomic_load(&stream->is_cancelled))
        pthread_cond_wait(&stream->room, &server->mutex);
    put_frame(&stream->pending, document);
    pthread_mutex_unlock(&server->mutex);
    http_wake(server);
    return !atomic_load(&stream->is_cancelled);
}

static int stream_run(struct http_stream *stream, bool follows, struct tsk_error *err)
{
    json_t *answer CLEANUP_JSON = NULL, *args CLEANUP_JSON = json_deep_copy(stream->args);
    if (follows)
        json_object_set_new(args, "follow", json_true());
    else if (op_param_find(stream->op, "lines"))
        json_object_set_new(args, "lines", json_integer(0));
    struct op_call call = {.op = stream->op,
                           .args = args,
                           .ws = stream->op->flags & OP_NO_WORKSPACE ? NULL : stream->server->ws,
                           .root = stream->server->root,
                           .lang = stream->lang,
                           .is_remote = true,
                           .home = stream->server->ws,
                           .is_cancelled = stream_is_cancelled,
                           .emit = follows ? stream_emit : NULL,
                           .skin = stream};
    int result = op_run(&call, &answer, err);
    json_decref(call.aside);
    return result;
}

/* First without following: what is wrong with the request is an answer with a status, not a stream. */
static void *stream_work(void *arg)
{
    struct http_stream *stream = arg;
    struct http_server *server = stream->server;
    struct tsk_error err = {0};
    int result = op_verify_caller(server->ws, stream->caller.instance, stream->caller.secret, &err);
    if (result == 0)
        result = stream_run(stream, false, &err);
    pthread_mutex_lock(&server->mutex);
    stream->is_begun = result == 0;
    pthread_mutex_unlock(&server->mutex);
    http_wake(server);
    if (result == 0)
        result = stream_run(stream, true, &err);
    pthread_mutex_lock(&server->mutex);
    if (stream->is_begun)
        buf_puts(&stream->pending, result < 0 ? "event: error\ndata: " : "event: end\ndata: {}\n\n");
    if (result < 0) {
        json_t *document CLEANUP_JSON = json_of_error(&err, lang_name(stream->lang));
        json_write(&stream->pending, document, false);
        buf_puts(&stream->pending, "\n\n");
        stream->status = code_info(err.code)->http_status;
    }
    stream->is_done = true;
    pthread_mutex_unlock(&server->mutex);
    http_wake(server);
    return NULL;
}

/* ---- in the loop ---- */

static void stream_cancel(struct http_stream *stream)
{
    atomic_store(&stream->is_cancelled, true);
    pthread_mutex_lock(&stream->server->mutex);
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->server->mutex);
}

static void stream_gone(struct http_conn *conn)
{
    struct http_stream *stream = conn->work_data;
    stream->conn = NULL;
    stream_cancel(stream);
}

static void hung_up(struct http_conn *conn)
{
    conn_close(conn);
}

/* Gives the connection what is pending, if it has taken what it had. */
static void stream_take(struct http_conn *conn)
{
    struct http_stream *stream = conn->work_data;
    if (conn->out.len > conn->out_at)
        return;
    pthread_mutex_lock(&stream->server->mutex);
    struct buf some = stream->pending;
    stream->pending = (struct buf)BUF_INIT;
    bool is_last = stream->is_done;
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->server->mutex);
    conn_stream_put(conn, some.data, some.len);
    if (is_last) {
        stream->conn = NULL;
        conn_stream_end(conn);
    } else if (some.len) {
        conn_stream_push(conn);
    }
    buf_clear(&some);
}

static void stream_beat(struct http_conn *conn, int64_t now_ms)
{
    struct http_stream *stream = conn->work_data;
    if (!stream->is_answered || now_ms - stream->beat_ms < FEED_BEAT_MS)
        return;
    stream->beat_ms = now_ms;
    caller_renew(stream->server, stream->caller.instance);
    if (conn->out.len > conn->out_at) /* a slow reader is still connected */
        return;
    conn_stream_put(conn, ": alive\n\n", 9);
    conn_stream_push(conn);
}

static const struct http_work streaming = {
    .gone = stream_gone, .hung_up = hung_up, .room = stream_take, .tick = stream_beat};

static void begin_answer(struct http_stream *stream, bool is_begun)
{
    struct http_conn *conn = stream->conn;
    stream->is_answered = true;
    if (is_begun && conn->is_head_only) { /* there would be a stream */
        stream->conn = NULL;
        stream_cancel(stream);
        conn_answer(conn, 200, "text/event-stream", NULL, NULL, CONN_NO_LENGTH);
        return;
    }
    if (is_begun) {
        conn_stream(conn, "X-Accel-Buffering: no\r\n", &streaming, stream);
        if (!conn->is_closed)
            conn_stream_push(conn);
        return;
    }
    stream->conn = NULL; /* its thread has ended: nobody writes `pending` any more */
    conn_answer(conn, stream->status, "application/json", NULL, stream->pending.data, stream->pending.len);
}

static void stream_free(struct http_stream *stream)
{
    pthread_join(stream->thread, NULL);
    stream->server->output_count--;
    pthread_cond_destroy(&stream->room);
    buf_clear(&stream->pending);
    json_decref(stream->args);
    caller_clear(&stream->caller);
    free(stream);
}

void stream_take_all(struct http_server *server)
{
    for (struct http_stream **at = &server->streams, *stream; (stream = *at);) {
        pthread_mutex_lock(&server->mutex);
        bool is_begun = stream->is_begun, is_done = stream->is_done;
        pthread_mutex_unlock(&server->mutex);
        if (stream->conn && !stream->is_answered && (is_begun || is_done))
            begin_answer(stream, is_begun);
        else if (stream->conn && stream->is_answered)
            stream_take(stream->conn);
        if (is_done && !stream->conn) {
            *at = stream->next;
            stream_free(stream);
        } else {
            at = &stream->next;
        }
    }
}

void stream_begin(struct http_conn *conn, const struct op *op, json_t *args_take, enum lang lang,
                  struct http_caller caller_take_it)
{
    struct http_server *server = conn->server;
    struct http_stream *stream = calloc(1, sizeof *stream);
    pthread_attr_t attr;
    BUG(!stream);
    *stream = (struct http_stream){.server = server,
                                   .conn = conn,
                                   .op = op,
                                   .args = args_take,
                                   .lang = lang,
                                   .caller = caller_take_it,
                                   .pending = BUF_INIT,
                                   .beat_ms = clock_now().boot_ms};
    pthread_cond_init(&stream->room, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STREAM_STACK_SIZE);
    if (server->output_count >= STREAMS_MAX || !room_for_output(conn) ||
        pthread_create(&stream->thread, &attr, stream_work, stream) != 0) {
        pthread_cond_destroy(&stream->room);
        json_decref(args_take);
        caller_clear(&stream->caller);
        free(stream);
        conn_refuse(conn, 503, TSK_ENVIRONMENT, "http_too_many_streams");
    } else {
        struct http_stream **last = &server->streams; /* at the end: stream_take_all may be on its way through them */
        while (*last)
            last = &(*last)->next;
        *last = stream;
        server->output_count++;
        conn_wait(conn, &streaming, stream);
    }
    pthread_attr_destroy(&attr);
}

void stream_end_all(struct http_server *server)
{
    for (struct http_stream *stream = server->streams; stream; stream = stream->next) {
        stream_cancel(stream);
        if (stream->is_answered && stream->conn) {
            struct http_conn *conn = stream->conn;
            stream->conn = NULL;
            conn_stream_end(conn);
        }
    }
}
