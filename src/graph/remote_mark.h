/* remote_mark.h - `runs/.elsewhere/<id>`: attempts of the run may be out on workers.
 *
 *  M1  The mark is made before the first attempt is sent. It is removed when the run's end is in the journal, or when all
 *      attempts that were out are known to have ended (run/settle.h). A crash may leave a mark that is not needed, but none is
 *      ever missing; it is synced, so that it survives a power cut.
 *  M2  It has everything that is needed to end these attempts without the run's other files: server, epoch, lease, and the lock
 *      under which the run was executed (`request_id`, `exclusive`, as in the stage). */
#ifndef GRAPH_REMOTE_MARK_H
#define GRAPH_REMOTE_MARK_H

#include "graph/runner.h"

#define REMOTE_MARKS "runs/.elsewhere"

int remote_mark_make(const struct runner *runner, int64_t epoch, int64_t lease_ms, struct tsk_error *err);
void remote_mark_drop(struct tsk_workspace *ws, const char *run_id);

#endif
