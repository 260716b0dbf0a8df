/* run_watch.h - the output of a run's tasks as it is written.
 *
 *  V1  Each log is watched before it is read, so nothing is missed in between. A change names its log, so the cost depends on
 *      the output, not on the number of tasks.
 *  V2  The run's end is checked before the last pass over all logs, so that all output before the end is delivered.
 *  V3  If no inotify instance is available, all logs are checked four times a second. */
#ifndef RUN_RUN_WATCH_H
#define RUN_RUN_WATCH_H

#include "graph/rundir.h"

struct run_piece {
    const char *task, *session;
    int64_t attempt, from; /* where in its log the text begins */
    const char *text;
    size_t len;
};

/* Passes each piece to `take` (false: stop) until the run has no runner and all output was passed, or is_left says that the reader
 * has gone. `offset`: where the first log begins that is delivered (a reader that continues). */
int run_watch_logs(const struct rundir *run, int64_t offset, bool (*take)(void *data, const struct run_piece *piece),
                   bool (*is_left)(void *data), void *data, struct tsk_error *err);

#endif
