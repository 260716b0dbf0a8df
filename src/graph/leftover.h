/* leftover.h - the processes of a run: by what they are known, and how they are ended.
 *
 *  K1  Whatever a task starts carries the task's mark, whether it stays in the group, leaves the session, is forked twice,
 *      clears its environment or closes its descriptors. The mark is a number in a limit that is inherited and that nobody
 *      comes near: the soft limit of RLIMIT_RTTIME, µs of real-time CPU, at 2^62 and above (150,000 years).
 *  K2  Beside it, TASUKI_RUN_ID (of one task: TASUKI_SESSION_ID and TASUKI_TASK_ID, too) in the environment, and for the whole
 *      run its life file at RUN_LIFE_FD: for processes whose limit could not be set or was changed.
 *  K3  What is below such a process belongs to it. So does all of a run that one of its descendants executes.
 *  K4  Ourselves and our ancestors are never ended.
 *  K5  Nor is what a task has given to a holder (`tasuki proc start`), with its holder: that is meant to outlive the task.
 *
 * Nothing is looked for when a task ends by itself: what it leaves running then is left on purpose. */
#ifndef GRAPH_LEFTOVER_H
#define GRAPH_LEFTOVER_H

#include "graph/memory.h"
#include "graph/rundir.h"

/* The part of the marks that all tasks of the run share; 0: none, this process has a limit of its own there. */
uint64_t leftover_run_mark(const struct rundir *run);
/* The mark of the start with that fence. */
uint64_t leftover_start_mark(uint64_t run_mark, uint64_t fence);

/* SIGKILL for every process of the run, until none is left; PROCESS_STOP_FAILED after 5 s. */
int leftovers_end_run(const struct rundir *run, struct tsk_error *err);
/* The same for one task: its start with that fence, and whatever has its name from earlier ones. */
int leftovers_end_task(const struct rundir *run, const struct claim *claim, struct tsk_error *err);
/* A signal for those of a task that are not in that process group; number 0: none. How many live, group included. */
size_t leftovers_signal_task(const struct rundir *run, const struct claim *claim, int number, pid_t except_group);

#endif
