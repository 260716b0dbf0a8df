/* run_tasks.h - the states of a run's tasks, up to date. The stage of an active run may be a second old. `journal_size` in
 * stage.json says which records of the journal it includes; the later ones are read here. */
#ifndef GRAPH_RUN_TASKS_H
#define GRAPH_RUN_TASKS_H

#include "graph/rundir.h"

#define RUN_JOURNAL_SIZE "journal_size"

/* What a record (start, end, ask) says of its task; the task's last record decides. False: it is another record. */
bool run_task_take(json_t *task, const json_t *record);
/* Brings the tasks, counts and questions of a stage up to date: with the records behind the first `size` bytes of the journal. */
void run_tasks_catch_up(const struct rundir *run, json_t *stage, int64_t size);
/* The run has no runner: a task that runs was interrupted. */
void run_task_interrupt(json_t *task);
/* How far a run came that could not say so itself any more: the tasks whose last record is an end. */
void run_tasks_count(json_t *stage, const json_t *records);
/* A stage that says how the run ended, of a run that was resumed since: as the first stage after that would have been. */
void run_tasks_reopen(json_t *stage);
/* The open questions of a stage from now on (taken), and what its counts say of them. */
void run_tasks_set_questions(json_t *stage, json_t *questions);
/* The states of the tasks that a stage lists, of a run that has ended. */
void run_tasks_end(json_t *tasks, const json_t *records);

#endif
