/* lookout.h - deaths as events. A process that was killed reports nothing. So each live view (`serve` with a stream, `watch`,
 * `events -f`) has a lookout, and one of them reports for all.
 *
 *  V1  Only the lookout that holds the lock on `.aiflow/watch.lock` reports. The kernel unlocks the file when its process ends;
 *      the others try at each look, and one of them takes over.
 *  V2  A death is known by its key: the thing with its fence (the runner of a run, the id of an instance). The event is appended
 *      first; then the key is known, in memory and in `watch.json`.
 *  V3  A lookout that takes over first reads watch.json, and the trail from the position that watch.json names. So a death that
 *      is in the trail is not reported again, wherever the last lookout was killed, and a death that is not in the trail is
 *      reported.
 *  V4  A takeover that finds the dead holder first reports the death itself (LOCK_STALE_RECOVERED with old_holder); the lock has
 *      another fence from then on.
 *  V5  An instance is reported when it was seen alive and is not alive any more; watch.json lists the living instances.
 *  V6  A file of requests/ that differs from the last look is reported, unless the trail has a later event of that request:
 *      then the operation that changed it has reported it.
 *  V7  `fd` is readable when there is a reason to look: a process that was seen alive has ended, or requests/ has changed. A
 *      lookout starts no thread and sets no timer; changes without a descriptor (a lease, a question that expires, a foreign
 *      lock) are found by the look that a live view makes once a second. */
#ifndef OPS_LOOKOUT_H
#define OPS_LOOKOUT_H

#include "base/json.h"
#include "store/events.h"
#include "store/workspace.h"

#define LOOKOUT_MS 1000 /* at the latest after this time a live view looks again */

struct lookout {
    struct tsk_workspace *ws; /* borrowed, with root */
    const char *root;         /* where the project is found from; NULL: here */
    int fd;                   /* V7; an epoll instance, -1: none, the looks have to do */
    int notes_fd;             /* inotify of requests/; -1: none */
    int lock_fd;              /* watch.lock; -1: not open */
    bool is_first;            /* V1: it reports */
    bool is_stale;            /* watch.json is to be written */
    uint64_t event_id;        /* the trail has been read up to here */
    json_t *reported;         /* V2: key -> true */
    json_t *instances;        /* V5: id -> label */
    json_t *requests;         /* V6: id -> what its file looked like */
    json_t *ends;             /* pid -> descriptor of the process; -1: it has ended */
};

void lookout_init(struct lookout *lookout, struct tsk_workspace *ws, const char *root);
void lookout_clear(struct lookout *lookout);
/* Looks, and reports if this lookout is the one that reports. A problem does not end a view: the next look may succeed. */
void lookout_look(struct lookout *lookout);
/* Nobody looks on for now: another lookout may report. */
void lookout_rest(struct lookout *lookout);

/* ---- lookout_scene.c ---- */

/* What is dead now: an array of {"type", "session_id"?, "run_id"?, "data"} as the events would be; and the pids of those that live,
 * as keys of an object. Both owned. */
int lookout_scene(struct lookout *lookout, json_t **ret_dead, json_t **ret_living, struct tsk_error *err);
/* Every file of requests/: id -> what it looks like, a text that begins with the time of the change in ms. Owned. */
json_t *lookout_requests(const struct tsk_workspace *ws);

#endif
