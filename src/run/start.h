/* start.h - executing the run of a request: under its lock, from the first task to the release.
 *
 *  S1  The order is: queue lock (if a queue runs it), request lock, the run's own byte. They are always taken in that order
 *      and released in the opposite one.
 *  S2  The request's lock is taken before the run exists and names it; it is released last, and always: by us after the run's
 *      final stage is written, or by our death.
 *  S3  Tasks inherit the lock's life. If we are killed, the request stays locked until the last of them is gone; the next run of the
 *      request ends them first and does not have to wait.
 *  S4  A lock that was lost (somebody has forced it away) cancels the run within a second or two: two must not work on one
 *      request. A run that has nothing left to do is DONE all the same.
 *  S5  What a caller has decided by what it saw without the lock, it decides again under it (`decide`): nobody else begins, resumes
 *      or answers-and-resumes a run of this request then. Cancelling a run that nobody executes needs only the run's byte; so
 *      that is looked at once more under the byte (runner_options.refuses_cancelled).
 *  S6  Taking the lock is the intention to begin: refusals that need no lock come before it.
 *  S7  A run that goes on because of an answer was not asked for by name: it is refused if it was cancelled, if another runner
 *      has continued it already, or if it is not its request's latest run any more.
 *  S8  A queue leaves no request behind that is as ready as before although it cannot begin: what is wrong with its flow, or with
 *      the run that was to go on, is recorded as a run that has FAILED (unbegun.c).
 *  S9  A run that can go on and that nobody executes (its question was answered: `answered` in its stage; or it was interrupted) is
 *      not overtaken: the next run of its request continues it, unless --new gives it up. So nothing is done twice, and the first
 *      runner that comes uses the answer. If the request or its flow was changed since the interruption, a person
 *      decides: by hand that is a refusal; the queue goes on. */
#ifndef RUN_START_H
#define RUN_START_H

#include "graph/runner.h"
#include "lock/lock.h"
#include "run/request.h"

#define START_ANSWER_USED "answer_used" /* the text of a CONFLICT */

struct run_start {
    const char *request_id;
    const char *resume;                  /* go on with this run instead of beginning one; NULL: a new one */
    const char *flow_source, *flow_text; /* with another flow, as in runner_options */
    size_t flow_len;
    bool is_new;      /* a run that waits for an answer, or could go on, is cancelled (S9) */
    bool is_by_hand;  /* max_runs counts */
    bool is_answered; /* it goes on because of an answer (S7) */
    bool is_instead;  /* it goes on because its request was to be run (S9) */
    int64_t wait_ms;  /* for the lock */
    enum lang lang;
    int64_t parallel;
    runner_tell *tell;
    void *tell_data;
    bool wants_ticks; /* as in runner_options */
    /* Before the lock is taken; -1: it does not begin. NULL: none. */
    int (*examine)(struct tsk_workspace *ws, const char *request_id, enum lang lang, struct tsk_error *err);
    /* Under the lock, before anything is made (S5); -1: it does not begin. May be NULL. */
    int (*decide)(void *data, struct tsk_error *err);
    void *decide_data;
    /* The run has begun, its stage is written; false: it is cancelled at once. May be NULL. */
    bool (*begun)(void *data, const json_t *stage);
    void *begun_data;
    /* As in runner_options, for a run of no request. */
    bool (*beat)(void *data, bool has_progress, struct tsk_error *why);
    void *beat_data;
    int64_t beat_ms;
    struct tsk_lock *queue; /* renewed with the request's; NULL: none */
};

/* Executes a run of the request until it has ended or asks something; its stage in *ret (owned). RUN_IN_PROGRESS with
 * `latest_run`, NEEDS_INPUT (its latest run waits for an answer), FLOW_INVALID, CONFLICT (max_runs; changed since it was interrupted), what
 * `examine` says. */
int start_request(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err);
/* Goes on with any run; of a request's, under its lock. `start->resume` names it, start->request_id is found. */
int start_again(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err);

/* The run that a RUN_IN_PROGRESS names; false: none, the lock is held without one. */
bool start_refused_by(const struct tsk_error *err, char run_id[LOCK_ID_MAX]);

/* True if the error says that another runner has continued the run in the meantime. */
bool start_was_answer_used(const struct tsk_error *err);
/* Whether the process that took the lock has ended; then who keeps it alive are leftovers. In doubt: not. */
bool start_is_holder_gone(const struct lock_record *record);

/* ---- latest.c ---- */

/* A request that is to be run, and the text of its flow as it is now. */
struct wanted {
    struct tsk_workspace *ws;
    const struct run_start *start;
    const struct request *request;
    const struct buf *flow;
};

/* With the lock, nobody executes a run of the request. But who was killed closes its files one after the other, and who cancels a
 * run or ends its leftovers has its byte for a moment: until then it is RUNNING, and would be overtaken (S9). */
void latest_wait(struct tsk_workspace *ws, const char *request_id);
/* What is to be done about the latest run of a request that waits for an answer, or that can go on. 0: nothing, or with is_new it
 * is cancelled now. -1: a refusal; or goes_on is set, and that run is the one to be executed (S9). The lock must be ours. */
int latest_settle(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err);
/* S6: the same before the lock is taken, and nothing is changed: nobody meets the lock of a run that never comes to be. */
int latest_settle_early(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err);
/* Under the lock: whether a run that was not asked for by name is still the one to go on with (S7, S9). */
int latest_need(struct tsk_workspace *ws, const struct run_start *start, const char *request_id, const char *run_id,
                struct tsk_error *err);

/* ---- unbegun.c ---- */

/* S8: a run of the request that has FAILED before its first task, under the request's lock. Always -1: *err is `why`, with `run_id`, or
 * why it could not be recorded. */
int unbegun_record(struct tsk_workspace *ws, const struct request *request, const char *run_id, enum lang lang,
                   const struct tsk_error *why, struct tsk_error *err);
/* The same for a run that was to go on and cannot, as *err says; with the run's byte taken. A problem that a later attempt may not
 * have (a full disk, a runner that is just ending) is not recorded. */
void unbegun_mark(const struct rundir *run, enum lang lang, struct tsk_error *err);

/* ---- stop.c ---- */

/* Cancels a run in any status: the runner of an executed run is signalled; a run without a runner is recorded as cancelled. *ret_status:
 * CANCELLING, CANCELLED, or what it was already. */
int stop_run(struct tsk_workspace *ws, const char *run_id, bool is_now, char run[RUN_ID_MAX], const char **ret_status,
             struct tsk_error *err);

#endif
