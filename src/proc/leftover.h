/* leftover.h - the processes that a start left behind: found by the lock they inherited, or by their environment. */
#ifndef PROC_LEFTOVER_H
#define PROC_LEFTOVER_H

#include "proc/files.h"

#define KILL_WAIT_MS 5000 /* between SIGKILL and the report that a process does not end */

#define LEFTOVER_MAX 256

struct leftovers {
    size_t count;
    struct proc_id ids[LEFTOVER_MAX];
};

/* Whether a lock of an ended start is still held: quick, but misses processes that closed it. */
bool leftovers_hold_a_lock(const struct proc *p);
/* All of them. While the process runs, only those of earlier starts that still have their lock. */
int leftovers_find(const struct proc *p, struct leftovers *ret, struct tsk_error *err);
/* Those of several processes, in one look; results[i] is the error of list[i], which must be TSK_OK: others are skipped. */
void leftovers_end_many(const struct proc *list, size_t count, int64_t grace_ms, struct tsk_error *results);
/* SIGTERM, SIGKILL after grace_ms, until none is left. ProcessStopFailed if some cannot be ended within 5 s more. */
int leftovers_end(const struct proc *p, int64_t grace_ms, struct tsk_error *err);

#endif
