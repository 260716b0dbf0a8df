/* queue.h - the auto-run queue: one request after the other, one queue at a time.
 *
 *  U1  The queue lock is taken first and held until the end; its file names the request and run that is being run, nothing
 *      between two. It is renewed with each of them.
 *  U2  What is next is decided anew before each run, by the book. A request is run at most once by one queue.
 *  U3  Why it ended is in `.aiflow/queue.json` and in the trail (`queue.stopped`) before the lock is released. A queue whose
 *      runner was killed has no such line: queue.json says RUNNING and the lock is free.
 *  U4  A stop is asked for by writing the lock's fence into `.aiflow/queue.stop` (`now` behind it: at once), so that it is not meant
 *      for a later queue. The queue looks at it between two requests, under the request's lock just before it begins a run, and
 *      when its own lock names that run. A stop with `now` is written first, and then the run that the lock names is cancelled: one
 *      of the two sees the other.
 *  U5  What the book says is looked at once more under the request's lock (S5): if the file or the latest run of the request, or of
 *      one that it depends on, is not the one that it was decided by, nothing begins and the book is opened anew.
 *  U6  A request whose lock somebody has lets the others pass; it is tried again, with pauses, when there is no other, and for about a
 *      second without any success the queue says so and ends. */
#ifndef RUN_QUEUE_H
#define RUN_QUEUE_H

#include "run/start.h"

/* Why a queue ended. */
#define QUEUE_REASONS                                                                                                  \
    X(EMPTY, "nothing is left that may run")                                                                           \
    X(STOPPED, "queue stop")                                                                                           \
    X(NEEDS_INPUT, "a run asks something")                                                                             \
    X(FAILED, "a run has failed, or could not begin")                                                                  \
    X(CANCELLED, "its run was cancelled")                                                                              \
    X(DOCTOR_FAILED, "the examination before a run found something")                                                   \
    X(MAX, "as many as asked for were run")                                                                            \
    X(TIME, "its time is up")                                                                                          \
    X(LOCK_LOST, "somebody took the queue lock by force")
enum queue_reason {
    QUEUE_GOES_ON,
#define X(name, help) QUEUE_##name,
    QUEUE_REASONS
#undef X
};
extern const char *const queue_reason_names[];

enum queue_stopping { QUEUE_RUNS_ON, QUEUE_STOPS, QUEUE_STOPS_NOW };

struct queue_run {
    int64_t max;            /* requests; 0: no limit */
    int64_t for_ms;         /* no further one is begun after that; 0: no limit */
    bool retries;           /* also those whose latest run has failed */
    struct run_start start; /* lang, tell, examine, begun: for each run */
};

/* Runs until there is a reason to stop. *ret (owned): {status, reason, ran: [{request_id, run_id, status}], error?}. QUEUE_IN_PROGRESS
 * when there is a queue. *ret_verdict: NEEDS_INPUT, RUN_FAILED, DOCTOR_FAILED or OK. */
int queue_run(struct tsk_workspace *ws, const struct queue_run *options, json_t **ret, enum tsk_code *ret_verdict,
              struct tsk_error *err);
/* What a reason amounts to. */
enum tsk_code queue_verdict(const char *reason);
/* Lets the request that is run finish; `is_now`: cancels it. {status: "stopping" or "not_running", request_id, run_id}. */
int queue_stop(struct tsk_workspace *ws, bool is_now, json_t **ret, struct tsk_error *err);
/* The stop that was requested of the queue with that fence (U4). */
enum queue_stopping queue_stop_read(struct tsk_workspace *ws, uint64_t fence);
/* {next: request or null, others: [{request_id, title, status, priority, reason, detail, position}]}. */
int queue_next(struct tsk_workspace *ws, bool retries, enum lang lang, json_t **ret, struct tsk_error *err);
/* {status: "running", "idle" or "interrupted", request_id, run_id, holder, since, stopping, last, next, ready}. */
int queue_status(struct tsk_workspace *ws, enum lang lang, json_t **ret, struct tsk_error *err);

#endif
