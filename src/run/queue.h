/* queue.h - the auto-run queue: one request after the other, one queue at a time.
 *
 *  U1  The queue lock is taken first and held until the end. Its file names the current request and run, and none between two.
 *      It is renewed with each run.
 *  U2  The next request is decided again before each run, by the book. One queue runs a request at most once.
 *  U3  The reason of its end is in `.aiflow/queue.json` and in the trail (`queue.stopped`) before the lock is released. A queue
 *      that was killed has no such event: queue.json says RUNNING and the lock is free.
 *  U4  A stop is requested by writing the lock's fence into `.aiflow/queue.stop` (followed by `now`: at once), so that it does
 *      not apply to a later queue. The queue checks it between two requests, under the request's lock just before it begins a
 *      run, and when its own lock names that run. A stop with `now` first writes the file, and then cancels the run that the
 *      lock names. So one of the two always sees the other.
 *  U5  The decision is checked again under the request's lock (S5): if the file or the latest run of the request, or of one
 *      that it depends on, has changed since, nothing begins and the book is opened again.
 *  U6  If another process holds a request's lock, the other requests go first. When no other is left, the request is tried
 *      again, with pauses. After about a second without success the queue says so and ends.
 *  U7  A queue that stays waits until the kernel announces a change of the requests' files, of the locks or of queue.stop. It
 *      keeps its lock meanwhile. It runs a request again only if the file has changed or the request was put back since.
 *  U8  With keeps_going, a run that has failed or asks does not stop the queue. A request that could not begin, and of which
 *      there is no record, still stops it: otherwise it would be tried again forever.
 *  U9  A queue that stays has SIGINT, SIGTERM and SIGHUP blocked from before it takes its lock until its process ends. A signal
 *      during a run cancels the run; at any other time it ends the queue in good order, as a stop does. */
#ifndef RUN_QUEUE_H
#define RUN_QUEUE_H

#include "run/start.h"

#define QUEUE_RECORD_NAME "queue.json"
#define QUEUE_STOP_NAME   "queue.stop"

/* Why a queue ended, and what the command's answer amounts to. */
#define QUEUE_REASONS                                                                                                  \
    X(EMPTY, TSK_OK, "nothing is left that may run")                                                                   \
    X(STOPPED, TSK_OK, "queue stop")                                                                                   \
    X(NEEDS_INPUT, TSK_NEEDS_INPUT, "a run asks something")                                                            \
    X(FAILED, TSK_RUN_FAILED, "a run has failed, or could not begin")                                                  \
    X(CANCELLED, TSK_RUN_FAILED, "its run was cancelled")                                                              \
    X(DOCTOR_FAILED, TSK_DOCTOR_FAILED, "the examination before a run found something")                                \
    X(MAX, TSK_OK, "as many as asked for were run")                                                                    \
    X(TIME, TSK_OK, "its time is up")                                                                                  \
    X(LOCK_LOST, TSK_LOCK_LOST, "somebody took the queue lock by force")
enum queue_reason {
    QUEUE_GOES_ON,
#define X(name, code, why) QUEUE_##name,
    QUEUE_REASONS
#undef X
};
extern const char *const queue_reason_names[];

enum queue_stopping { QUEUE_RUNS_ON, QUEUE_STOPS, QUEUE_STOPS_NOW };

struct queue_run {
    int64_t max;                                  /* requests; 0: no limit */
    int64_t for_ms;                               /* no further one is begun after that; 0: no limit */
    bool retries;                                 /* also those whose latest run has failed */
    bool stays;                                   /* waits for more when nothing is left (U7) */
    bool keeps_going;                             /* U8 */
    void (*waits)(void *data, const json_t *ran); /* U7: nothing is left, for the first time; may be NULL */
    void (*idles)(void *data, bool is_idle);      /* U7: each time, and when it is over; may be NULL */
    void (*tells)(void *data, const json_t *line, const char *title); /* a run has begun, or ended; may be NULL */
    void *waits_data;                                                 /* of all three */
    struct run_start start;                                           /* lang, tell, examine, begun: for each run */
};

/* Runs until there is a reason to stop. *ret (owned): {status, reason, ran: [{request_id, run_id, status}], error?}. QUEUE_IN_PROGRESS
 * when there is a queue. *ret_verdict: NEEDS_INPUT, RUN_FAILED, DOCTOR_FAILED or OK. */
int queue_run(struct tsk_workspace *ws, const struct queue_run *options, json_t **ret, enum tsk_code *ret_verdict,
              struct tsk_error *err);
/* What a reason amounts to. */
enum tsk_code queue_verdict(const char *reason);
/* Lets the request that is run finish; `is_now`: cancels it. {status: "stopping" or "not_running", request_id, run_id}. */
int queue_stop(struct tsk_workspace *ws, bool is_now, json_t **ret, struct tsk_error *err);
/* Whether a queue, or somebody, has the queue lock. */
bool queue_is_running(struct tsk_workspace *ws);
/* The stop that was requested of the queue with that fence (U4). */
enum queue_stopping queue_stop_read(struct tsk_workspace *ws, uint64_t fence);
/* {next: request or null, others: [{request_id, title, status, priority, reason, detail, position}]}. */
int queue_next(struct tsk_workspace *ws, bool retries, enum lang lang, json_t **ret, struct tsk_error *err);
/* {status: "running", "idle" or "interrupted", request_id, run_id, holder, since, stopping, last, next, ready}. */
struct book;
int queue_status(struct tsk_workspace *ws, const struct book *book, json_t **ret, struct tsk_error *err);

/* ---- queue_stay.c ---- */

/* What a staying queue waits with (U7). */
struct queue_stay {
    int inotify, requests, locks, state; /* -1: not open; the watches */
    int signals;                         /* U9; -1 */
    bool is_signalled;
};
enum queue_woken { QUEUE_WOKEN, QUEUE_TIME_UP, QUEUE_SIGNALLED };

int queue_stay_open(struct queue_stay *stay, struct tsk_error *err);
void queue_stay_close(struct queue_stay *stay);
/* Whether SIGINT, SIGTERM or SIGHUP has come. */
bool queue_stay_is_signalled(struct queue_stay *stay);
/* From now on a change is known to queue_stay_wait: before a look. */
void queue_stay_watch(struct queue_stay *stay, struct tsk_workspace *ws);
/* Until something changes that a queue looks at, such a signal comes, or the time (CLOCK_BOOTTIME, ms) is there. */
enum queue_woken queue_stay_wait(struct queue_stay *stay, int64_t until_ms);

#endif
