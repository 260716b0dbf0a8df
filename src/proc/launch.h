/* launch.h - starting a holder: for a new start, or to adopt a process whose holder died. Both are called with the process's
 * guard and holder.lock held; both pass holder.lock on to the holder (H3). */
#ifndef PROC_LAUNCH_H
#define PROC_LAUNCH_H

#include "proc/files.h"

struct launch {
    char id[129];
    const char *command; /* borrowed from the spec */
    const char *cwd;
    int report; /* read end of the holder's report; -1 */
    pid_t holder;
    int holder_fd; /* pidfd */
};
void launch_clear(struct launch *launch);

/* The new start is n. *holder_lock is taken over (closed, -1) whatever comes out. `restarts`: those before this start.
 * log_mode: what was found to be possible here. */
struct launch_options {
    int64_t n, restarts;
    const char *log_mode;
};
int launch_start(struct proc_registry *reg, const struct proc *p, const struct launch_options *options,
                 int *holder_lock, struct launch *ret, struct tsk_error *err);
/* `status` is of the living start. */
int launch_adopt(struct proc_registry *reg, const struct proc *p, const struct proc_status *status, int *holder_lock,
                 struct launch *ret, struct tsk_error *err);
/* Starts this program under its own holder, outside the registry, so that it outlives its starter. When a signal ends it, the
 * holder ends the processes that it started; it is not started again. */
struct launch_self {
    int dir; /* laid out as a process's; empty */
    const char *name, *cwd;
    const char *const *words; /* after the program's name; ends with NULL */
    int pass;                 /* becomes its descriptor HOLD_FD_PASS */
};
int launch_self(const struct launch_self *what, struct launch *ret, struct tsk_error *err);
/* A program of tasuki beside this one (build directory), in libexec of its prefix, or where it was configured to be. */
int launch_find_program(const char *name, char path[PATH_MAX], struct tsk_error *err);
/* Waits for the report: 0 the command runs; ProcessStartFailed with the reason. */
int launch_result(struct launch *launch, struct tsk_error *err);

#endif
