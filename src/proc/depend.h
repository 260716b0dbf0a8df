/* depend.h - dependencies between processes: the order of starts and stops, conditions, and failing at once if a
 * condition cannot come true.
 *
 *  D1  A dependant is started only after every condition of its depends_on holds: `started` the other runs (or has ended with
 *      0), `ready` its phase is ready (no `ready:` configured: running is ready), `completed` it has ended with exit code 0.
 *  D2  A condition that can no longer come true (the other process failed and no restart follows, was stopped, was removed,
 *      ended without ever being ready, ready timed out) fails the dependant at once: ProcessStartFailed, the reason names the
 *      other process and what happened to it. A process that depends on the dependant fails with the same chain.
 *  D3  A cycle is refused before anything starts; the message shows the path a -> b -> a.
 *  D4  When several processes are stopped together, a process that others need is signalled only after those have ended. */
#ifndef PROC_DEPEND_H
#define PROC_DEPEND_H

#include "proc/process.h"

/* Starts the ids and, before them, what they depend on and does not run yet (`with_dependencies`; completed ones that ended
 * with 0 are not run again). Independent ones start together. results[i] belongs to ids[i]. Waits as long as the
 * conditions need (the ready timeout of each). Without dependencies the conditions are not looked at: the ids are started
 * at once. -1 with a cycle (D3), or when nothing could be tried: then nothing was started and results are not filled. */
int proc_start_ordered(struct proc_registry *reg, const char *const *ids, size_t count, bool with_dependencies,
                       struct tsk_error *results, struct tsk_error *err);

/* D4: in which step each of the ids is stopped, from 0 on; those with the same rank are stopped together. */
int proc_depend_ranks(struct proc_registry *reg, const char *const *ids, size_t count, size_t *ret_ranks,
                      struct tsk_error *err);

/* A cycle that `spec` would close if `id` had it: INVALID_INPUT with the path; 0 if there is none. Unknown ids are no error. */
int proc_depend_check(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);

/* Waits until the process is ready / has ended (no restart to come). TSK_PROCESS_START_FAILED with the reason when ready can
 * not happen; TSK_PROCESS_NOT_RUNNING when it was never started; TSK_CONFLICT text "wait_timeout" after timeout_ms (-1: none).
 * On success *ret is the loaded process. */
enum proc_wait_for { PROC_WAIT_EXIT, PROC_WAIT_READY };
int proc_wait(struct proc_registry *reg, const char *id, enum proc_wait_for what, int64_t timeout_ms, struct proc *ret,
              struct tsk_error *err);

#endif
