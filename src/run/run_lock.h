/* run_lock.h - the lock that a run is executed under: its request's, or its flow's if the flow runs once at a time.
 *
 *  R1  A flow is exclusive if it says so (`exclusive: true`), or if its file is in .aiflow/flows/ and it does not say
 *      `exclusive: false`. Its lock is of kind `name`, `flow:<path relative to the workspace's root>`, links resolved: one file has
 *      one lock, however it is named.
 *  R2  The run records its lock in its first record, so that resume takes the same one. A run that was allowed beside others
 *      (--concurrent) records none.
 *  R3  The processes of a task inherit the lock's life byte. When the runner is dead, the next process that wants the lock ends
 *      them and need not wait. */
#ifndef RUN_RUN_LOCK_H
#define RUN_RUN_LOCK_H

#include "base/json.h"
#include "graph/flow.h"
#include "lock/lock.h"

#define FLOW_LOCK_PREFIX "flow:"

struct run_lock {
    enum tsk_lock_kind kind;
    char id[LOCK_NAME_SIZE]; /* "": none */
};

struct run_lock run_lock_of_request(const char *request_id);
/* The lock of the run with this stage. */
struct run_lock run_lock_of_stage(const json_t *stage);
/* The lock that a refusal names. */
struct run_lock run_lock_of_refusal(const struct tsk_error *err);
/* R1. `path`: the real path of the flow's file, "" for a pipe. Without a lock the id is "". */
int run_lock_of_flow(struct tsk_workspace *ws, const struct flow *flow, const char *path, struct run_lock *ret,
                     struct tsk_error *err);

/* Takes it for the run. RUN_IN_PROGRESS names the run that has it; `again` is the command that asked (NULL: none is to be repeated). */
int run_lock_take(struct tsk_workspace *ws, const struct run_lock *which, const char *run_id, int64_t wait_ms,
                  const char *again, struct tsk_lock **ret, struct tsk_error *err);
/* Whether a living runner has the lock for this run; NULL: for any. */
bool run_lock_is_taken_by(struct tsk_workspace *ws, const struct run_lock *which, const char *run_id);
/* What the stage shows of it: the lock file without the proof that it is ours. Owned. */
json_t *run_lock_json(const struct tsk_lock *lock);
/* Whether it is still ours; extended if that is due. */
bool run_lock_keep(struct tsk_lock *lock, bool is_due);

#endif
