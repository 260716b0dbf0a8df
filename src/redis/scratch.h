/* scratch.h - the directory of a worker: values, outputs, logs and unpacked files of its attempts.
 *
 *  S1  `life` in it is locked as long as the worker lives. It gets its name after it was locked.
 *  S2  The file `attempts` has a record for each place: the fence and the run of its attempt. It is there before the attempt's process.
 *      The version before had no such file, but names of logs: log.PLACE.FENCE.RUN.
 *  S3  The directory of a dead worker is removed by the worker's guard, or by the next worker that starts on this machine. The
 *      processes that its attempts left are ended first, because the guard may have been killed, too. */
#ifndef REDIS_SCRATCH_H
#define REDIS_SCRATCH_H

#include "base/error.h"

#include <limits.h>
#include <stdint.h>

/* Makes one, after S3 for those beside it. The descriptor of its life, or -1. *ret_attempts: of `attempts`, which has room for so
 * many places, so that a disk that is full later does not matter. */
int scratch_make(char path[PATH_MAX], size_t places, int *ret_attempts, struct tsk_error *err);
/* S2. `fence` 0: none is at that place any more. -1 with errno. */
int scratch_note(int attempts, size_t place, uint64_t fence, const char *root);
/* S3, for one. Does nothing while its worker lives. */
void scratch_end(int parent, const char *name);

#endif
