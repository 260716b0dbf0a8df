/* detach.h - work that outlives its caller: a runner under its own holder.
 *
 * The caller (a command with --detach, a server's thread, an agent's tool call) starts this program once more, sends it a job
 * through a socket, and receives the decision as soon as there is one: whether the locks were taken, and the run's id. After
 * that the two are independent; the runner does not need its starter, not even before the decision.
 *
 *     starter --- run_detach() ---> tasuki-hold ---> tasuki __detached
 *        |                                              | job_take(): what to do
 *        |                                              | takes its locks, makes the run
 *        | <------------- the stage, or the error ------| job_answer() / job_fail()
 *        v                                              v executes it, output in runs/RUN-…/runner.log
 *
 *  T1  The runner takes the locks, not the starter: their life is the runner's life.
 *  T2  The holder is parent and subreaper. If a signal ends the runner, the holder ends its whole tree, so that nothing of a
 *      killed run continues. If the holder is killed, the runner continues. A killed runner is not started again.
 *  T3  The runner inherits only the starter's environment, without the variables that mark the starter's own processes
 *      (TASUKI_RUN_ID, …).
 *  T4  A later run_detach removes the holder's directory, `.aiflow/runners/<name>/`, when no process holds its locks.
 *
 * Safe from any thread: nothing is forked, the directory is not changed. */
#ifndef RUN_DETACH_H
#define RUN_DETACH_H

#include "base/json.h"
#include "store/workspace.h"

#define DETACH_WORD       "__detached" /* the hidden way in: not an operation */
#define DETACH_ANSWER_MS  40000
#define DETACH_RUNNER_LOG "runner.log" /* in the run's directory */

/* Starts the runner, waits for its decision: the answer (owned), or its error as our own. `job` is an object with `name` (for
 * people who look at processes), `cwd` (absent: ours) and whatever job_take's caller understands. */
int run_detach(struct tsk_workspace *ws, const json_t *job, json_t **ret_answer, struct tsk_error *err);

/* Waits until nobody executes the run any more, at most `timeout_ms` (< 0: for ever) or until is_cancelled says so; then its stage
 * as it is, also when the time is up. It returns when the run's locks are released, so that the next run is not refused.
 * `lock`: of a run whose lock was seen and which may not be there yet; NULL: whatever the run says. RUN_NOT_FOUND when it never
 * came to be. */
struct run_lock;
int run_follow(struct tsk_workspace *ws, const char *run_id, const struct run_lock *lock, int64_t timeout_ms,
               bool (*is_cancelled)(void *data), void *data, json_t **ret_stage, struct tsk_error *err);

/* ---- the other side ---- */

/* The job, in a process that run_detach has started. */
int job_take(json_t **ret, struct tsk_error *err);
/* The decision; the first one counts. From now on our own words go to the run's directory (run_id NULL: they stay). */
void job_answer(struct tsk_workspace *ws, const char *run_id, const json_t *answer);
void job_fail(const struct tsk_error *err);

#endif
