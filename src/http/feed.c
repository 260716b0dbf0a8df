#include "http/feed.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "http/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* One client's stream. */
struct reader {
    struct http_feed *feed;
    unsigned index; /* in feed->streams */
    bool is_live;   /* reads the window, from `at` on (F1); else the trail (F2) */
    uint64_t at;
    struct event_reader own;
    bool has_own;
    json_t *wish; /* owned, or NULL; a stream with a filter reads the trail itself */
    struct event_filter filter;
    char *instance; /* owned: who listens, or NULL */
    int64_t beat_ms;
    bool has_time; /* beats are events with the time */
    bool has_usage;
};

/* ---- frames ---- */

static void put_sse_event(struct buf *b, const json_t *event)
{
    buf_puts(b, "id: ");
    buf_put_int(b, json_get_int(event, "id", 0));
    buf_puts(b, "\ndata: ");
    json_write(b, event, false);
    buf_puts(b, "\n\n");
}

/* ---- a stream ---- */

/* Without has_own the stream ends in send_more. */
static void use_own(struct reader *reader, uint64_t from)
{
    struct tsk_error problem;
    reader->is_live = false;
    reader->has_own = event_reader_init(&reader->own, reader->feed->server->ws->state_dir, from, &problem) == 0;
    if (!reader->has_own)
        log_problem(&problem);
    reader->feed->readers += reader->has_own;
}

static void drop_own(struct reader *reader)
{
    if (!reader->has_own)
        return;
    event_reader_clear(&reader->own);
    reader->has_own = false;
    reader->feed->readers--;
}

static bool reader_wants(const struct reader *reader, const json_t *event)
{
    return !reader->wish || event_filter_wants(&reader->filter, event);
}

/* F5: how much of the trail one of them reads at a time. LOOP_BATCH of them may have their turn in one of the loop's. */
static size_t reader_share(const struct http_feed *feed)
{
    size_t share = HTTP_STREAM_MAX / feed->readers, least = HTTP_STREAM_MAX / LOOP_BATCH;
    return share > least ? share : least;
}

/* A stream that would be silent from now on ends, so that its client notices, and comes again with its last id. */
static void end_unreadable(struct http_conn *conn, const struct tsk_error *problem)
{
    log_problem(problem);
    conn_close(conn);
}

/* F2, F5: some of the trail. False when there is nothing more for now, or the stream has ended. */
static bool read_own(struct http_conn *conn, struct reader *reader)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error problem;
    json_t *event;
    int result = 1;
    uint64_t end = reader->wish ? UINT64_MAX : reader->feed->reader.next_id, from = reader->own.next_id;
    size_t share = reader_share(reader->feed);
    bool has_more = true;
    while (b.len < HTTP_STREAM_MAX && reader->own.next_id - from < share &&
           (has_more = reader->own.next_id < end && (result = event_read(&reader->own, &event, &problem)) == 1)) {
        if (reader_wants(reader, event))
            put_sse_event(&b, event);
        json_decref(event);
    }
    if (result < 0) {
        end_unreadable(conn, &problem);
        return false;
    }
    conn_stream_put(conn, b.data, b.len);
    if (reader->own.next_id == end) { /* else the feed will come to where this one is */
        drop_own(reader);
        reader->is_live = true;
        reader->at = reader->feed->begin + reader->feed->window.len;
    }
    return has_more || b.len;
}

/* Everything that was put has been taken. */
static void send_more(struct http_conn *conn)
{
    struct reader *reader = conn->work_data;
    struct http_feed *feed = reader->feed;
    if (!reader->is_live && !reader->has_own) { /* the trail cannot be read: the client may try again */
        conn_close(conn);
        return;
    }
    if (!reader->is_live) {
        if (read_own(conn, reader))
            conn_stream_push(conn); /* also with nothing: then `room` comes in the next turn */
        return;
    }
    uint64_t end = feed->begin + feed->window.len;
    if (reader->at < end) {
        size_t len = (size_t)(end - reader->at);
        size_t sent = conn_stream_try(conn, feed->window.data + (reader->at - feed->begin), len);
        if (!conn->is_closed)
            reader->at += sent;
    }
}

static void reader_gone(struct http_conn *conn)
{
    struct reader *reader = conn->work_data;
    struct http_feed *feed = reader->feed;
    struct http_conn *last = feed->streams[--feed->count];
    feed->streams[reader->index] = last;
    if (last != conn)
        ((struct reader *)last->work_data)->index = reader->index;
    drop_own(reader);
    feed->usage.streams -= reader->has_usage;
    json_decref(reader->wish);
    free(reader->instance);
    free(reader);
}

static void put_beat(struct http_conn *conn, const struct reader *reader)
{
    char time[TIME_TEXT_MAX], text[96] = ": alive\n\n";
    time_format_exact(clock_now().wall_ms, time);
    if (reader->has_time)
        snprintf(text, sizeof text, "event: beat\ndata: {\"time\":\"%s\"}\n\n", time);
    conn_stream_put(conn, text, strlen(text));
}

/* Whether something that is no event can be sent: not while the client reads slowly, and only between two events, because a half
 * sent one is still in the window. */
static bool is_between(const struct http_conn *conn, const struct reader *reader)
{
    bool is_waiting = conn->out.len > conn->out_at || conn->deadline_ms;
    return !is_waiting && (!reader->is_live || reader->at == reader->feed->begin + reader->feed->window.len);
}

static void feed_beat(struct http_conn *conn, int64_t now_ms)
{
    struct reader *reader = conn->work_data;
    if (now_ms - reader->beat_ms < (reader->has_time ? FEED_TIME_MS : FEED_BEAT_MS))
        return;
    reader->beat_ms = now_ms;
    caller_renew(reader->feed->server, reader->instance); /* who reads slowly is there all the same */
    if (is_between(conn, reader)) {
        put_beat(conn, reader);
        conn_stream_push(conn);
    }
}

void feed_send_usage(struct http_feed *feed, const char *message, size_t len)
{
    for (unsigned i = feed->count; i-- > 0;) {
        struct http_conn *conn = feed->streams[i];
        const struct reader *reader = conn->work_data;
        if (!reader->has_usage || !is_between(conn, reader))
            continue;
        conn_stream_put(conn, message, len);
        conn_stream_push(conn);
    }
}

static const struct http_work work = {.gone = reader_gone, .room = send_more, .tick = feed_beat};

/* Positions the reader after event `after` and returns that id. An id beyond the end, from a trail that was replaced
 * since, means the end. */
static uint64_t begin_at(struct reader *reader, uint64_t after)
{
    struct http_feed *feed = reader->feed;
    uint64_t next = feed->reader.next_id;
    bool is_new = after == EVENT_FROM_END;
    if (is_new && !reader->wish && !feed->has_news && !feed->is_unreadable) {
        reader->is_live = true;
        reader->at = feed->begin + feed->window.len;
        return next ? next - 1 : 0;
    }
    use_own(reader, is_new ? after : after + 1);
    if (reader->has_own && reader->own.fd < 0) /* no trail yet: all of it will be new */
        reader->own.next_id = 0;
    next = reader->own.next_id;
    return is_new || next <= after ? (next ? next - 1 : 0) : after;
}

void feed_stream(struct http_feed *feed, struct http_conn *conn, const struct feed_wish *wish)
{
    struct reader *reader = calloc(1, sizeof *reader);
    char hello[96];
    BUG(!reader);
    if (conn->is_head_only) {
        free(reader);
        conn_answer(conn, 200, "text/event-stream", NULL, NULL, CONN_NO_LENGTH);
        return;
    }
    feed_look(feed); /* from now on means: after this */
    *reader = (struct reader){.feed = feed, .index = feed->count};
    if (wish->filter) {
        struct tsk_error ignored; /* the arguments were checked */
        reader->wish = json_deep_copy(wish->filter);
        event_filter_take(reader->wish, &reader->filter, &ignored);
    }
    reader->beat_ms = clock_now().boot_ms;
    reader->instance = wish->instance ? strdup(wish->instance) : NULL;
    reader->has_time = wish->has_time;
    reader->has_usage = wish->has_usage;
    feed->usage.streams += reader->has_usage;
    LIST_GROW(feed->streams, feed->count, feed->room, 16);
    feed->streams[feed->count++] = conn;
    uint64_t id = begin_at(reader, wish->after);
    snprintf(hello, sizeof hello, "retry: 1000\nid: %" PRIu64 "\n\n", id);
    conn_stream(conn, "X-Accel-Buffering: no\r\n", &work, reader);
    if (conn->is_closed)
        return;
    conn_stream_put(conn, hello, strlen(hello));
    if (reader->has_time)
        put_beat(conn, reader);
    conn_stream_push(conn);
}

void feed_end(struct http_feed *feed)
{
    while (feed->count) {
        struct http_conn *conn = feed->streams[feed->count - 1];
        struct reader *reader = conn->work_data;
        bool is_whole = !reader->is_live || reader->at == feed->begin + feed->window.len;
        reader_gone(conn);
        if (is_whole)
            conn_stream_end(conn);
        else { /* half an event was sent: its reader notices the missing end */
            conn->work = NULL;
            conn_close(conn);
        }
    }
}

/* ---- the window ---- */

/* Somebody at `at` will not find it in the window any more: the rest of the event that is half sent goes with the stream, then
 * it reads the trail. */
static void fall_back(struct http_feed *feed, struct http_conn *conn, struct reader *reader)
{
    size_t offset = (size_t)(reader->at - feed->begin);
    const char *at = feed->window.data + offset, *end = feed->window.data + feed->window.len, *rest = at;
    bool is_whole = offset == 0 || (offset >= 2 && memcmp(at - 2, "\n\n", 2) == 0);
    if (!is_whole) {
        const char *stop = memmem(at, (size_t)(end - at), "\n\n", 2);
        at = stop ? stop + 2 : end;
    }
    uint64_t from = at < end ? strtoull(at + 4, NULL, 10) : feed->reader.next_id; /* behind "id: " */
    conn_stream_put(conn, rest, (size_t)(at - rest));
    use_own(reader, from);
    conn_stream_push(conn);
}

/* Makes room: the newest half stays. */
static void feed_trim(struct http_feed *feed)
{
    if (feed->window.len <= FEED_MAX)
        return;
    size_t cut = feed->window.len - FEED_MAX / 2;
    const char *stop = memmem(feed->window.data + cut, feed->window.len - cut, "\n\n", 2);
    cut = stop ? (size_t)(stop + 2 - feed->window.data) : feed->window.len;
    for (unsigned i = feed->count; i-- > 0;) {
        struct http_conn *conn = feed->streams[i];
        struct reader *reader = conn->work_data;
        if (reader->is_live && reader->at < feed->begin + cut)
            fall_back(feed, conn, reader);
    }
    feed->window.len -= cut;
    memmove(feed->window.data, feed->window.data + cut, feed->window.len);
    feed->begin += cut;
}

/* Whether there was something; has_news says whether there is more (F5). */
static bool read_trail(struct http_feed *feed)
{
    struct tsk_error problem;
    json_t *event;
    uint64_t from = feed->reader.next_id;
    bool has_some = false;
    int result = 0;
    while (feed->reader.next_id - from < FEED_TURN_MAX &&
           (feed->has_news = (result = event_read(&feed->reader, &event, &problem)) == 1)) {
        stats_event(feed->server->stats, json_get_string(event, "type", "?"));
        if (feed->count)
            put_sse_event(&feed->window, event);
        json_decref(event);
        has_some = true;
    }
    feed->is_unreadable = result < 0;
    for (unsigned i = feed->count; result < 0 && i-- > 0;) {
        const struct reader *reader = feed->streams[i]->work_data;
        if (reader->is_live)
            end_unreadable(feed->streams[i], &problem);
        else
            conn_stream_push(feed->streams[i]); /* it finds out in its turn */
    }
    return has_some;
}

static void send_all(struct http_feed *feed)
{
    for (unsigned i = feed->count; i-- > 0;) {
        struct http_conn *conn = feed->streams[i];
        const struct reader *reader = conn->work_data;
        if (conn->out.len > conn->out_at || conn->deadline_ms)
            continue;
        if (reader->is_live)
            send_more(conn);
        else
            conn_stream_push(conn); /* F5: when it is its turn */
    }
}

void feed_look(struct http_feed *feed)
{
    bool has_some = read_trail(feed);
    if (has_some) {
        send_all(feed); /* F4: before what fell behind is cut off */
        feed_trim(feed);
    }
    if (!feed->count && feed->window.len) { /* nobody listens: nothing need be kept */
        feed->begin += feed->window.len;
        buf_clear(&feed->window);
    }
    if (has_some)
        agents_news(feed->server);
}

/* ---- changes ---- */

static void trail_changed(struct loop_source *source, uint32_t events)
{
    struct http_feed *feed = (struct http_feed *)source;
    char notes[4096];
    (void)events;
    while (read(feed->source.fd, notes, sizeof notes) > 0)
        feed->has_news = true; /* feed_turn comes at the end of the turn */
}

void feed_turn(struct http_feed *feed)
{
    if (feed->has_news)
        feed_look(feed);
}

/* A process has ended, or a request has changed: feed_tick starts a look, and the descriptor has to wait for its end. */
static void cause_found(struct loop_source *source, uint32_t events)
{
    struct http_feed *feed = (struct http_feed *)((char *)source - offsetof(struct http_feed, causes));
    (void)events;
    feed->looked_ms = 0;
    loop_want(&feed->server->loop, source, 0);
}

static void feed_looked(struct http_job *job)
{
    struct http_feed *feed = &job->server->feed;
    feed->is_looking = false;
    if (feed->causes.fd >= 0)
        loop_want(&feed->server->loop, &feed->causes, EPOLLIN);
}

static void feed_do_look(struct http_job *job)
{
    lookout_look(&job->server->feed.lookout);
}

void feed_tick(struct http_feed *feed, bool has_listeners, int64_t now_ms)
{
    if (feed->is_looking)
        return;
    if (!has_listeners) {
        if (feed->has_looked)
            lookout_rest(&feed->lookout);
        if (feed->has_looked && feed->causes.fd >= 0)
            loop_want(&feed->server->loop, &feed->causes, 0);
        feed->has_looked = false;
        feed->looked_ms = 0;
        return;
    }
    if (feed->looked_ms && now_ms - feed->looked_ms < LOOKOUT_MS)
        return;
    feed->looked_ms = now_ms;
    feed->is_looking = feed->has_looked = true;
    struct http_job *job = job_new(feed->server, NULL, feed_do_look);
    job->done = feed_looked;
    job_start(job);
}

/* -1 where it is not available (a user's inotify instances may be used up). That is reported once, here. */
static int watch_state(const struct tsk_workspace *ws)
{
    const uint32_t what = IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE;
    struct tsk_error problem;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, ws->state_path, what) >= 0)
        return fd;
    error_set(&problem, TSK_ENVIRONMENT, "serve_not_notified", "path", ws->state_path, "reason", strerrordesc_np(errno),
              NULL);
    log_problem(&problem);
    fs_close(&fd);
    return -1;
}

int feed_init(struct http_feed *feed, struct http_server *server, struct tsk_error *err)
{
    struct tsk_workspace *ws = server->ws;
    *feed = (struct http_feed){
        .source = {.fd = -1, .ready = trail_changed}, .server = server, .window = BUF_INIT, .begin = 1};
    if (event_reader_init(&feed->reader, ws->state_dir, EVENT_FROM_END, err) < 0)
        return -1;
    feed->source.fd = watch_state(ws);
    lookout_init(&feed->lookout, ws, server->root);
    feed->causes = (struct loop_source){.fd = feed->lookout.fd, .ready = cause_found};
    if (feed->causes.fd >= 0 && loop_add(&server->loop, &feed->causes, 0) < 0)
        return error_errno(err, "watch", ws->state_path);
    if (feed->source.fd >= 0 && loop_add(&server->loop, &feed->source, EPOLLIN) < 0)
        return error_errno(err, "watch", ws->state_path);
    return 0;
}

void feed_clear(struct http_feed *feed)
{
    event_reader_clear(&feed->reader);
    lookout_clear(&feed->lookout);
    json_decref(feed->usage.before);
    buf_clear(&feed->window);
    fs_close(&feed->source.fd);
    free(feed->streams);
}
