/* feed.h - the event trail as a stream for many: read and formatted once, sent to everybody from the same bytes.
 *
 *  F1  A stream that keeps up has no buffer: only a position in the feed's window (the newest FEED_MAX bytes).
 *  F2  Who falls out of the window goes on reading the trail by itself, HTTP_STREAM_MAX bytes at a time, until it has caught up. So a
 *      stalled reader costs its send buffer, and nobody else anything.
 *  F3  An event is sent with its id; `Last-Event-ID: N` goes on behind N. Every stream begins with an id, so that also one who saw
 *      nothing yet can go on where it was.
 *  F4  What is new is sent once per turn of the loop, however many events that are.
 *  F5  In one turn of the loop the feed reads at most FEED_TURN_MAX bytes of the trail, and all who read it themselves share
 *      HTTP_STREAM_MAX, whatever they find there (but each finds one event at least): the rest comes in later turns, and
 *      everybody else's requests between them.
 *
 * The feed also notices every change in the workspace's state (`changes`), for answers that may be used twice. */
#ifndef HTTP_FEED_H
#define HTTP_FEED_H

#include "http/conn.h"
#include "store/events.h"

#define FEED_MAX      (256u << 10)
#define FEED_TURN_MAX (256u << 10)
#define FEED_LOOK_MS  1000 /* what processes did becomes events when somebody looks */
#define FEED_BEAT_MS  15000

struct http_feed {
    struct loop_source source; /* first; inotify */
    struct http_server *server;
    struct event_reader reader;
    struct buf window; /* "id: N\ndata: {...}\n\n", whole ones */
    uint64_t begin;    /* the position of window's first byte; positions only grow */
    struct http_conn **streams;
    unsigned count, room;
    unsigned readers; /* F2: who read the trail themselves */
    uint64_t changes; /* of files in the workspace's state */
    int64_t looked_ms;
    bool is_looking, has_news; /* somebody looks at the processes; the trail may have grown */
    bool is_unreadable;        /* the last look at the trail failed */
};

int feed_init(struct http_feed *feed, struct http_server *server, struct tsk_error *err);
void feed_clear(struct http_feed *feed);
/* Counts the changes that the kernel has noticed until now. */
void feed_notice(struct http_feed *feed);
/* Reads what is there now; has_news stays when that was not all (F5). */
void feed_look(struct http_feed *feed);
/* The same, if anything was noticed since. Once per turn. */
void feed_turn(struct http_feed *feed);
/* Once a second, as long as somebody listens: asks the processes. */
void feed_tick(struct http_feed *feed, int64_t now_ms);
/* Answers with a stream: from behind `after`, or from now on (EVENT_FROM_END). `type`: only those, or NULL. */
/* `instance` (NULL: nobody) has been verified; its lease is renewed as long as the stream is open. */
void feed_stream(struct http_feed *feed, struct http_conn *conn, uint64_t after, const char *type,
                 const char *instance);
void feed_end(struct http_feed *feed); /* ends all streams */

#endif
