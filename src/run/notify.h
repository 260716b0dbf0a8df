/* notify.h - notifies a person (store/notify.h) about runs and the queue.
 *
 *  N2  The mark of a run is in its directory and has the size of the journal in its name: it belongs to this end of the run.
 *  N3  Three processes notify: the one that ends a run, a queue that stops although requests are left, and the live view that
 *      reports a death. Reading notifies nobody. A run inside a task does not notify, either: the outer run does. */
#ifndef RUN_NOTIFY_H
#define RUN_NOTIFY_H

#include "base/json.h"
#include "store/workspace.h"

/* Notifies of a run that its stage calls DONE, FAILED, NEEDS_INPUT or INTERRUPTED; ignores the others. A problem is logged. */
void notify_run(struct tsk_workspace *ws, const json_t *stage);
/* NOTIFY_STUCK for the queue with that fence. */
void notify_queue(struct tsk_workspace *ws, uint64_t fence, const char *reason);

#endif
