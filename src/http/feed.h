/* feed.h - the event trail as a stream for many clients: read and formatted once, sent to all of them from the same bytes.
 *
 *  F1  A stream that keeps up has no buffer: only a position in the feed's window (the newest FEED_MAX bytes).
 *  F2  A stream that falls out of the window is served from the trail on disk, HTTP_STREAM_MAX bytes at a time, until it has
 *      caught up. So a stalled client costs only its send buffer, and does not slow down others.
 *  F3  An event is sent with its id; `Last-Event-ID: N` continues after N. Every stream begins with an id, so that a client
 *      that has seen no event yet can reconnect without a gap, too.
 *  F4  New events are sent once per turn of the loop, however many there are.
 *  F5  In one turn of the loop the feed reads at most FEED_TURN_MAX bytes of the trail. All streams of F2 together read at most
 *      HTTP_STREAM_MAX, but each gets at least one event. The rest comes in later turns, so that other requests are served in
 *      between. */
#ifndef HTTP_FEED_H
#define HTTP_FEED_H

#include "http/conn.h"
#include "ops/event_filter.h"
#include "ops/lookout.h"
#include "store/events.h"

#define FEED_MAX      (256u << 10)
#define FEED_TURN_MAX (256u << 10)
#define FEED_BEAT_MS  15000
#define FEED_TIME_MS  5000 /* of a stream that asks for the time: silence means that it is not live */

#define USAGE_MS 2000

/* usage.c */
struct feed_usage {
    unsigned streams; /* that ask */
    bool is_sampling;
    int64_t sampled_ms, before_ms;
    json_t *before; /* the last sample: id -> {run cpu_ms rss_bytes}; NULL: none */
};

struct http_feed {
    struct loop_source
        source; /* first; inotify. Its fd is -1 where none is left: then the trail is looked at once a second */
    struct http_server *server;
    struct event_reader reader;
    struct buf window; /* "id: N\ndata: {...}\n\n", whole ones */
    uint64_t begin;    /* the position of window's first byte; positions only grow */
    struct http_conn **streams;
    unsigned count, room;
    unsigned readers;          /* F2: clients that are served from the trail on disk */
    struct lookout lookout;    /* of the worker while is_looking */
    struct loop_source causes; /* the lookout's descriptor */
    int64_t looked_ms;
    bool is_looking, has_looked; /* a worker looks; the lookout may hold watch.lock */
    bool has_news;               /* the trail may have grown */
    bool is_unreadable;          /* the last look at the trail failed */
    struct feed_usage usage;
};

int feed_init(struct http_feed *feed, struct http_server *server, struct tsk_error *err);
void feed_clear(struct http_feed *feed);
/* Reads what is there now; has_news stays when that was not all (F5). */
void feed_look(struct http_feed *feed);
/* The same, if anything was noticed since. Once per turn. */
void feed_turn(struct http_feed *feed);
/* In each turn. While somebody listens, a worker looks once a second, and when there is a cause. Else nobody does. */
void feed_tick(struct http_feed *feed, bool has_listeners, int64_t now_ms);
struct feed_wish {
    uint64_t after;       /* from behind it, or from now on (EVENT_FROM_END) */
    const json_t *filter; /* arguments of event_filter_take, checked; NULL: all events */
    const char *instance; /* has been verified, NULL: nobody; its lease is renewed as long as the stream is open */
    bool has_time;        /* `event: beat` with the server's time, every FEED_TIME_MS */
    bool has_usage;       /* `event: usage` every USAGE_MS */
};
/* Answers with a stream. */
void feed_stream(struct http_feed *feed, struct http_conn *conn, const struct feed_wish *wish);
void feed_end(struct http_feed *feed); /* ends all streams */

/* ---- usage.c ---- */

/* In each turn. */
void usage_tick(struct http_feed *feed, int64_t now_ms);
/* A whole message to the streams that ask for usage and have nothing else to send. */
void feed_send_usage(struct http_feed *feed, const char *message, size_t len);

#endif
