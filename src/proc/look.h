/* look.h - what the files say about a process, and what has to be done about it. Reading only; reconcile.c acts.
 *
 * The files are read in this order, because each answer is valid only if it was read after the one before (H5):
 *   is somebody in charge (holder.lock)?  ->  the status record  ->  a start under way (run.<n+1>.lock)  ->  does the child live?
 *
 * child lives | in charge | exit recorded || state                       | what is to be done
 * yes         | yes       | no            || Running                     |
 * yes         | no        | no            || Running                     | LOOK_ADOPT
 * no          | yes       | no            || (the exit is being written) | LOOK_AGAIN
 * no          | no        | no            || Failed, unknown             | LOOK_LOST
 * -           | yes       | yes, backoff  || Stopped/Failed, backoff     |
 * -           | no        | yes, backoff  || Stopped/Failed              | LOOK_REVIVE once the delay is over
 * -           | -         | yes           || Stopped/Failed              |
 * A process that was started in another pid namespace is never adopted from here. With nobody in charge and its life lock free it
 * is lost (LOOK_LOST): its namespace was ended, as with a container. Its command is not started again on this side.
 * An end "by stop" that nobody saw while the child still lives is none: the stop gave up (is_stuck), and it runs.
 * A start n+1 that is locked but not recorded yet: starting. One that is neither locked nor recorded came to nothing. */
#ifndef PROC_LOOK_H
#define PROC_LOOK_H

#include "proc/files.h"

enum look_need { LOOK_NOTHING, LOOK_AGAIN, LOOK_ADOPT, LOOK_LOST, LOOK_REVIVE };

struct look {
    struct proc_status status; /* of the newest start that is recorded anywhere; n 0: none */
    bool is_behind;            /* status.json has not heard of that start */
    bool is_starting;          /* a start is under way that has no identity yet */
    bool has_holder, child_lives, was_rebooted;
    bool is_foreign; /* it counts its pids in another namespace (a container): only its locks can be judged from here */
    bool is_stuck;   /* a stop gave up: SIGKILL did not end it. It still runs; only another stop tries again */
    struct proc_want want;
    bool has_want;
    bool has_usage; /* of the child that lives */
    struct proc_usage usage;
    enum look_need need;
};

/* `dir` -1: a process that was never started. */
int look_at(int dir, struct look *ret, struct tsk_error *err);
/* look_at until nothing is in between any more (LOOK_AGAIN), at most a quarter of a second. */
int look_settled(int dir, struct look *ret, struct tsk_error *err);
/* What everybody sees. `dir` for the probe's phase; `has_probe`: the spec asks for one. */
void look_to_view(const struct look *look, int dir, bool has_ready, bool has_health, struct proc_view *ret);

#endif
