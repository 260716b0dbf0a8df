/* failure.h - notifies a person (store/notify.h) when a process has failed for good: it ended with a code other than 0, by a
 * signal or unseen, it was not stopped on request, and no restart follows.
 *
 * Its holder starts the notification if config.yaml had a command when the process was started. A live view does so for a
 * process that was lost together with its holder.
 *
 *  F1  The mark is `notified.failure.<n>` in the process's directory: once for each start.
 *  F2  A mark is removed only when a later start has one, and only the latest mark counts. So no failure is reported twice, and
 *      the directory does not grow. */
#ifndef PROC_FAILURE_H
#define PROC_FAILURE_H

#include "proc/process.h"

/* Whether a holder that starts now must report failures (`notify: failure` is configured). An unreadable config.yaml
 * counts as no; other commands report it. */
bool proc_failure_is_told(struct tsk_workspace *ws);
/* Reports the failure of start n. `is_last`: the holder knows that no restart follows; otherwise this function checks.
 * Errors are logged. */
void proc_failure_tell(struct tsk_workspace *ws, const char *id, int64_t n, bool is_last);

#endif
