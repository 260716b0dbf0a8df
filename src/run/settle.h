/* settle.h - attempts of a dead runner that may still run on workers: the lock of a request or a flow ends with its runner, but
 * these attempts do not.
 *
 *  T1  A process that begins a run under a lock, or cancels or removes a run without a runner, first ends the attempts that an
 *      earlier run with that lock, or that run, has out: it revokes them and waits for their end, or for one lease
 *      (redis/link.h). Then it removes the mark (graph/remote_mark.h). If the server is lost before the run's keys are removed,
 *      the mark stays, and the next of these commands removes them.
 *  T2  Without the server nothing is known about these attempts, and workers may still renew them. The result is
 *      RUN_IN_PROGRESS, which says when they end if their workers cannot reach the server either. Nothing is changed.
 *  T3  The caller holds the lock, or the run's byte, so that the run has no runner. A file lock on the mark makes two callers
 *      take turns. */
#ifndef RUN_SETTLE_H
#define RUN_SETTLE_H

#include "run/run_lock.h"

/* Of all runs that were executed under the lock, but not of `except`, which continues and does it itself. */
int settle_lock(struct tsk_workspace *ws, const struct run_lock *which, const char *except, struct tsk_error *err);
int settle_run(struct tsk_workspace *ws, const char *run_id, struct tsk_error *err);
/* Whether something of the run may be out. */
bool settle_is_due(struct tsk_workspace *ws, const char *run_id);

#endif
