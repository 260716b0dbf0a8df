/* events.h - the audit trail `.aiflow/events.ndjson`: what happened, one JSON object per line, for ever appended.
 *
 * Invariants
 *  E1  A line on disk is `{"time":…,"type":…[,"session_id":…][,"run_id":…][,"task_id":…],"data":{…}}`. The first line
 *      of a segment is `{"segment":{"base":N,"stream":"<32 hex>"}}`.
 *  E2  An event's id is base + byte offset of its line in its segment, so it is known from the place alone, grows
 *      along the trail, and stays valid when the segment is renamed by a rotation (the next base is this base plus
 *      this segment's length).
 *  E3  An append is one write(2) with O_APPEND under a shared lock of events.lock; rotation takes it exclusively. So
 *      no line is split, and nobody appends to a segment that was closed.
 *  E4  A tail without a newline (a writer died, the disk was full) is closed with a newline by the next append and
 *      skipped by readers. A writer that finds its own line glued to such a tail writes the line again.
 *  E5  Under its lock, a writer compares the inode behind the name events.ndjson with that of its descriptor and opens
 *      the trail anew when they differ. (The old inode cannot be reused while the descriptor is open.)
 *  E6  An event that came through the database's outbox has `"outbox_id":N` in its data. N grows along the trail; a
 *      line whose N is not greater than one before it is a repetition (see db_flush_outbox) and is skipped by readers;
 *      one who goes on behind an id looks a little back for the N before it.
 *
 * Rotation is: write the new segment without a name, rename events.ndjson to events.<base>.ndjson, give the new one the
 * name. A crash between the last two leaves no events.ndjson; whoever appends next makes one whose base follows from
 * the newest closed segment. Nobody waits for a rotation: who cannot have the exclusive lock at once appends to the long
 * segment and leaves it to the next one, so that a stopped writer stops nobody else.
 *
 * Files: events.ndjson, closed segments events.<base, 20 digits>.ndjson, events.lock (always empty). All 0600. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "base/clock.h"
#include "base/json.h"

#define EVENT_SEGMENT_MAX_DEFAULT (64u << 20) /* a segment is closed at the first append after this size */
#define EVENT_LINE_MAX            (256u << 10)

/* What the caller says of an event. Strings may be NULL; `data` is a serialised JSON object on one line ("{}" if
 * NULL). */
struct event {
    const char *type;
    const char *session_id, *run_id, *task_id;
    const char *data;
};

/* The writing end. Opened lazily by the first append, then kept. One thread at a time. Not to be used on both sides of
 * a fork: the lock belongs to the open file description, which the two would share. */
struct event_trail {
    int state_dir;        /* borrowed: descriptor of `.aiflow/` */
    int fd, lock_fd;      /* -1 until the first append */
    uint64_t dev, ino;    /* of fd, for E5 */
    uint64_t base;        /* of the open segment */
    uint64_t clean_end;   /* the length at which we know that the segment ended with a newline; 0: not known */
    uint64_t segment_max; /* EVENT_SEGMENT_MAX_DEFAULT unless a test lowers it */
};

void event_trail_init(struct event_trail *trail, int state_dir);
void event_trail_clear(struct event_trail *trail);
/* Appends one event; its id in *ret_id (may be NULL). Does not fsync. A line over EVENT_LINE_MAX is refused with
 * PAYLOAD_TOO_LARGE. */
int event_append(struct event_trail *trail, const struct now *now, const struct event *event, uint64_t *ret_id,
                 struct tsk_error *err);
/* The line of an event as event_append writes it, with its newline; and appending such a line later. */
void event_put_line(struct buf *b, const struct now *now, const struct event *event);
int event_append_line(struct event_trail *trail, const char *line, size_t len, uint64_t *ret_id, struct tsk_error *err);
/* What was appended by this trail's process reaches the disk. */
int event_trail_sync(struct event_trail *trail, struct tsk_error *err);

/* The reading end; takes no lock and writes nothing. Start at id 0 (the oldest that is kept), at an id, or at the
 * end. */
struct event_reader {
    int state_dir;
    int fd;                 /* -1 as long as there is no trail */
    uint64_t base;          /* of the open segment */
    uint64_t next_id;       /* where the next read begins */
    struct buf pending;     /* what was read from next_id - taken on */
    size_t taken;           /* bytes of pending that are done with */
    bool is_inside_line;    /* skip up to the next newline */
    int64_t last_outbox_id; /* for E6 */
};

#define EVENT_FROM_END UINT64_MAX
/* `from` is the id of the first event wanted; an id inside a line goes on at the next line, an id older than what is
 * kept at the oldest, one beyond the end at the end. */
int event_reader_init(struct event_reader *reader, int state_dir, uint64_t from, struct tsk_error *err);
void event_reader_clear(struct event_reader *reader);
/* 1: the next event in *ret (owned; spec 2's shape with its `id` first), 0: nothing more for now, -1: error. Torn or
 * unparsable lines are skipped. Crosses rotations. */
int event_read(struct event_reader *reader, json_t **ret, struct tsk_error *err);

#endif
