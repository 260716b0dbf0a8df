/* start.h - executing the run of a request: under its lock, from the first task to the release.
 *
 *  S1  The order is: queue lock (if a queue runs it), request lock, the run's own byte. Whoever takes two of them takes them in
 *      that order, and lets them go in the opposite one.
 *  S2  The request's lock is taken before the run exists and names it; it is released last, and always: by us after the run's
 *      final stage is written, or by our death.
 *  S3  Tasks inherit the lock's life. If we are killed, the request stays locked until the last of them is gone; whoever runs the
 *      request next ends them first, and does not have to wait for anything.
 *  S4  A lock that was lost (somebody has forced it away) cancels the run: two must not work on one request. */
#ifndef RUN_START_H
#define RUN_START_H

#include "graph/runner.h"
#include "lock/lock.h"
#include "run/request.h"

struct run_start {
    const char *request_id;
    const char *resume; /* go on with this run instead of beginning one; NULL: a new one */
    bool is_new;        /* a run that waits for an answer is cancelled; without it, that is a refusal */
    bool is_by_hand;    /* max_runs counts */
    int64_t wait_ms;    /* for the lock */
    enum lang lang;
    int64_t parallel;
    runner_tell *tell;
    void *tell_data;
    /* Before the lock is taken; -1: it does not begin. NULL: none. */
    int (*examine)(struct tsk_workspace *ws, const char *request_id, enum lang lang, struct tsk_error *err);
    /* The run has begun, its stage is written. May be NULL. */
    void (*begun)(void *data, const json_t *stage);
    void *begun_data;
    /* As in runner_options, for a run of no request. */
    bool (*beat)(void *data, struct tsk_error *why);
    void *beat_data;
    int64_t beat_ms;
    struct tsk_lock *queue; /* renewed with the request's; NULL: none */
};

/* Executes a run of the request until it has ended or asks something; its stage in *ret (owned). RUN_IN_PROGRESS with
 * `latest_run`, NEEDS_INPUT (its latest run waits for an answer), FLOW_INVALID, CONFLICT (max_runs), what `examine` says. */
int start_request(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err);
/* Goes on with any run; of a request's, under its lock. `start->resume` names it, start->request_id is found. */
int start_again(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err);

/* ---- stop.c ---- */

/* Whatever its status: a run that somebody executes is told to end, one that nobody executes is recorded as cancelled. *ret_status:
 * CANCELLING, CANCELLED, or what it was already. */
int stop_run(struct tsk_workspace *ws, const char *run_id, bool is_now, char run[RUN_ID_MAX], const char **ret_status,
             struct tsk_error *err);

#endif
