/* scratch.h - the directory of a worker: values, outputs, logs and unpacked files of its attempts.
 *
 *  S1  `life` in it is locked as long as the worker lives. It gets its name after it was locked.
 *  S2  The name of an attempt's log has its fence and its run, and is there before its process.
 *  S3  The directory of a dead worker is removed by the worker's guard, or by the next worker that starts on this machine. The
 *      processes that its attempts left are ended first, because the guard may have been killed, too. */
#ifndef REDIS_SCRATCH_H
#define REDIS_SCRATCH_H

#include "base/error.h"

#include <limits.h>
#include <stdint.h>

/* Makes one, after S3 for those beside it. The descriptor of its life, or -1. */
int scratch_make(char path[PATH_MAX], struct tsk_error *err);
/* S2. */
void scratch_log_name(const char *path, int place, uint64_t fence, const char *root, char name[PATH_MAX]);
/* S3, for one. Does nothing while its worker lives. */
void scratch_end(int parent, const char *name);

#endif
