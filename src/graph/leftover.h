/* leftover.h - the processes of a run: how they are found, and how they are ended.
 *
 *  K1  Every process that a task starts carries the task's mark, even if it leaves the process group or the session, is forked
 *      twice, clears its environment or closes its descriptors. The mark is a number in a limit that is inherited and that no
 *      program reaches: the soft limit of RLIMIT_RTTIME, µs of real-time CPU, at 2^62 and above (150,000 years).
 *  K2  If the limit could not be set or was changed, a process is also found by TASUKI_RUN_ID in its environment (for one task
 *      also TASUKI_SESSION_ID and TASUKI_TASK_ID), and for the whole run by its life file at RUN_LIFE_FD.
 *  K3  The descendants of such a process belong to it, and so do all processes of a run that one of them executes.
 *  K4  This process and its ancestors are never ended.
 *  K5  A process that a task has started with `tasuki proc start`, and its holder, are not ended: they are meant to outlive the
 *      task.
 *
 * When a task ends by itself, nothing is searched: a process that it leaves running is left on purpose. */
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
/* The same for one task: its start with that fence, and the processes that have its name from earlier starts, unless `is_exact`. */
int leftovers_end_task(const struct rundir *run, const struct claim *claim, bool is_exact, struct tsk_error *err);
/* A signal for those of a task that are not in that process group; number 0: none. How many live, group included. */
size_t leftovers_signal_task(const struct rundir *run, const struct claim *claim, bool is_exact, int number,
                             pid_t except_group);

#endif
