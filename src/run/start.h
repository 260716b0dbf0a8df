/* start.h - executing a run: under the lock of its request or of its flow, from the first task to the release.
 *
 *  S1  The order is: queue lock (if a queue runs it), the lock of the request or flow, the run's own byte. They are always taken in that order
 *      and released in the opposite one.
 *  S2  The lock is taken before the run exists and names it; it is released last, and always: by us after the run's
 *      final stage is written, or by our death.
 *  S3  Tasks inherit the lock's life byte. If we are killed, the request or flow stays locked until the last of them is gone;
 *      the next run of it ends them first and need not wait.
 *  S4  If the lock is lost (taken by force), the run is cancelled within a second or two, because two must not work on one
 *      request. A run that has nothing left to do is still DONE.
 *  S5  A decision that a caller made without the lock is made again under it (`decide`), when no other process can begin or
 *      resume a run of this request. Cancelling a run that nobody executes needs only the run's byte, so this case is checked
 *      again under the byte (runner_options.refuses_cancelled).
 *  S6  Taking the lock is the intention to begin: refusals that need no lock come before it.
 *  S7  A run that continues because of an answer was not requested by name: it is refused if it was cancelled, if another
 *      runner has already continued it, or if it is no longer its request's latest run.
 *  S8  If a request cannot begin, a queue does not leave it ready: the problem with its flow, or with the run that should
 *      continue, is recorded as a run that has FAILED (unbegun.c).
 *  S9  A run that can continue and that nobody executes (its question was answered: `answered` in its stage; or it was
 *      interrupted) is continued by the next run of its request, unless --new abandons it. So nothing is done twice, and the
 *      next runner uses the answer. If the request or its flow has changed since the interruption, a person decides: a run by
 *      hand is refused; the queue continues the run. */
#ifndef RUN_START_H
#define RUN_START_H

#include "graph/runner.h"
#include "lock/lock.h"
#include "run/request.h"
#include "run/run_lock.h"

#define START_ANSWER_USED "answer_used" /* the text of a CONFLICT */

struct run_start {
    const char *request_id;
    const char *resume;                  /* continue with this run instead of beginning one; NULL: a new one */
    const char *flow_source, *flow_text; /* with another flow, as in runner_options */
    size_t flow_len;
    const char *redis; /* where its attempts go (elsewhere.h); NULL: as it is configured */
    bool is_local;     /* with workers elsewhere: one here as well */
    bool is_new;       /* a run that waits for an answer, or could continue, is cancelled (S9) */
    bool is_by_hand;   /* max_runs counts */
    bool is_answered;  /* it continues because of an answer (S7) */
    bool is_instead;   /* it continues because its request was to be run (S9) */
    const char *after; /* it was pending, with this id (after.h); NULL: it was not */
    int64_t wait_ms;   /* for the lock */
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
/* A flow that is run directly, not by a request. */
struct run_flow {
    struct flow *flow;
    const char *text;
    size_t len;
    const json_t *values, *params; /* flow_params_settle */
    const char *start;             /* the task to begin with, or NULL */
    const json_t *only;            /* as in runner_options */
    struct run_lock lock;          /* run_lock_of_flow; without an id it may run several times at a time */
    const char *again;             /* the command that asked for it, for hints */
};
/* Executes a new run of the flow, as start_request does. RUN_IN_PROGRESS if it is exclusive and runs already. */
int start_flow(struct tsk_workspace *ws, const struct run_start *start, const struct run_flow *what, json_t **ret,
               struct tsk_error *err);
/* Whether the request's flow, if it has one, can be opened. */
int request_flow_find(struct tsk_workspace *ws, const struct request *request, struct tsk_error *err);
/* Continues with any run; of a request's or an exclusive flow's, under its lock. `start->resume` names it, start->request_id is found. */
int start_again(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err);

/* The run that a RUN_IN_PROGRESS names; false: none, the lock is held without one. */
bool start_refused_by(const struct tsk_error *err, char run_id[LOCK_ID_MAX]);

/* True if the error says that another runner has continued the run in the meantime. */
bool start_was_answer_used(const struct tsk_error *err);
/* Whether the process that took the lock has ended; then only leftovers keep it alive. In doubt: not. */
bool start_is_holder_gone(const struct lock_record *record);

/* ---- latest.c ---- */

/* A request that is to be run, and the text of its flow as it is now. */
struct wanted {
    struct tsk_workspace *ws;
    const struct run_start *start;
    const struct request *request;
    const struct buf *flow;
};

/* Waits until the latest run no longer looks RUNNING. While the caller has the request's lock, no other process
 * executes a run of the request; but a killed runner closes its files one by one, and a process that cancels the run or
 * ends its leftovers holds the run's byte for a moment. Without this wait the run would be overtaken (S9). */
void latest_wait(struct tsk_workspace *ws, const char *request_id);
/* What is to be done about the latest run of a request that waits for an answer, or that can continue. 0: nothing, or with is_new it
 * is cancelled now. -1: a refusal; or goes_on is set, and that run is the one to be executed (S9). The lock must be ours. */
int latest_settle(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err);
/* S6: the same before the lock is taken, and nothing is changed: nobody meets the lock of a run that never comes to be. */
int latest_settle_early(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err);
/* Under the lock: whether a run that was not asked for by name is still the one to continue with (S7, S9). */
int latest_need(struct tsk_workspace *ws, const struct run_start *start, const char *request_id, const char *run_id,
                struct tsk_error *err);

/* ---- unbegun.c ---- */

/* S8: a run of the request that has FAILED before its first task, under the request's lock. Always -1: *err is `why`, with `run_id`, or
 * why it could not be recorded. */
int unbegun_record(struct tsk_workspace *ws, const struct request *request, const char *run_id, enum lang lang,
                   const struct tsk_error *why, struct tsk_error *err);
/* The same for a run that was to continue and cannot, as *err says; with the run's byte taken. A problem that a later attempt may not
 * have (a full disk, a runner that is just ending) is not recorded. */
void unbegun_mark(const struct rundir *run, enum lang lang, struct tsk_error *err);

/* ---- stop.c ---- */

/* Cancels a run in any status: the runner of an executed run is signalled; a run without a runner is recorded as cancelled. *ret_status:
 * CANCELLING, CANCELLED, or what it was already. */
int stop_run(struct tsk_workspace *ws, const char *run_id, bool is_now, char run[RUN_ID_MAX], const char **ret_status,
             struct tsk_error *err);

#endif
