/* events.h - the audit trail `.aiflow/events.ndjson`: one JSON object per event and line, only ever appended.
 *
 * Invariants
 *  E1  A line on disk is `{"time":…,"type":…[,"session_id":…][,"run_id":…][,"task_id":…],"actor":…,"data":{…}}`; `actor` is
 *      the who of base/who.h, null for a death. The first line of a segment is `{"segment":{"base":N,"stream":"<32 hex>"}}`.
 *  E2  An event's id is base + byte offset of its line in its segment. It follows from the position alone, grows along the
 *      trail, and stays valid when a rotation renames the segment (the next base is this base plus this segment's length).
 *  E3  An append is one write(2) with O_APPEND under a shared lock of events.lock; rotation takes the lock exclusively.
 *      Without it, lines could be split, and a process could append to a closed segment.
 *  E4  A tail without a newline (a writer died, the disk was full) is closed with a newline by the next append and
 *      skipped by readers. A writer that finds its own line glued to such a tail writes the line again.
 *  E5  Under its lock, a writer compares the inode behind the name events.ndjson with that of its descriptor and opens
 *      the trail again when they differ. (The old inode cannot be reused while the descriptor is open.)
 *  E6  An event that came through the database's outbox has `"outbox_id":N` in its data. N grows along the trail; a
 *      line whose N is not greater than one before it is a repetition (see db_flush_outbox) and is skipped by readers. A
 *      reader that starts at an id first reads a little before it, to find the preceding N.
 *
 * A rotation writes the new segment without a name, renames events.ndjson to events.<base>.ndjson, and gives the new segment
 * its name. A crash between the last two steps leaves no events.ndjson; the next append creates one whose base follows from
 * the newest closed segment. No process waits for a rotation: a writer that does not get the exclusive lock at once appends to
 * the long segment, and a later append rotates. A stopped writer therefore blocks no other.
 *
 * Files: events.ndjson, closed segments events.<base, 20 digits>.ndjson, events.lock (always empty). All 0600. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "base/clock.h"
#include "base/json.h"

#define EVENT_SEGMENT_MAX_DEFAULT (64u << 20) /* a segment is closed at the first append after this size */
#define EVENT_LINE_MAX            (256u << 10)

/* An event as its writer defines it. Strings may be NULL; `data` is a serialised JSON object on one line ("{}" if NULL). */
struct event {
    const char *type;
    const char *session_id, *run_id, *task_id;
    const char *data;
    const char *actor; /* serialised, "null" for a death; NULL: the party that acts now (base/who.h) */
};

/* The writing end. The first append opens it. Only one thread at a time may use it, and only one side of a fork: the lock
 * belongs to the open file description, which both sides would share. */
struct event_trail {
    int state_dir;        /* borrowed: descriptor of `.aiflow/` */
    int fd, lock_fd;      /* -1 until the first append */
    uint64_t dev, ino;    /* of fd, for E5 */
    uint64_t base;        /* of the open segment */
    uint64_t clean_end;   /* the length at which we know that the segment ended with a newline; 0: not known */
    uint64_t segment_max; /* EVENT_SEGMENT_MAX_DEFAULT unless a test lowers it */
    bool is_kept;         /* another process held the lock for too long: the next events do not wait for it again */
};

void event_trail_init(struct event_trail *trail, int state_dir);
void event_trail_clear(struct event_trail *trail);
/* Appends one event; its id in *ret_id (may be NULL). Does not fsync. A line over EVENT_LINE_MAX is refused with
 * PAYLOAD_TOO_LARGE. */
int event_append(struct event_trail *trail, const struct now *now, const struct event *event, uint64_t *ret_id,
                 struct tsk_error *err);
/* The line of an event as event_append writes it, with its newline; and appending such a line later. */
void event_put_line(struct buf *b, const struct now *now, const struct event *event);
int event_append_line(struct event_trail *trail, const char *line, size_t len, struct tsk_error *err);
/* Syncs the events that this process appended to the disk. */
int event_trail_sync(struct event_trail *trail, struct tsk_error *err);

/* The reading end; takes no lock and writes nothing. Start at id 0 (the oldest that is kept), at an id, or at the
 * end. */
struct event_reader {
    int state_dir;
    int fd;                 /* -1 as long as there is no trail */
    uint64_t base;          /* of the open segment */
    uint64_t next_id;       /* where the next read begins */
    struct buf pending;     /* bytes of the trail from next_id - taken on */
    size_t taken;           /* bytes of pending that were consumed */
    bool is_inside_line;    /* skip up to the next newline */
    int64_t last_outbox_id; /* for E6 */
};

#define EVENT_FROM_END UINT64_MAX
/* `from` is the id of the first event wanted. An id inside a line means the next line, an id older than the trail its oldest
 * event, and an id beyond the end the end. */
int event_reader_init(struct event_reader *reader, int state_dir, uint64_t from, struct tsk_error *err);
void event_reader_clear(struct event_reader *reader);
/* Returns 1 with the next event in *ret (owned; a line as in E1 with its `id` first), 0 if there is none yet, -1 on error.
 * Torn or unparsable lines are skipped. Reads across rotations. */
int event_read(struct event_reader *reader, json_t **ret, struct tsk_error *err);

#endif
