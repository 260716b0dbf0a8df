/* reflow.h - another flow for a run that is resumed (`resume --flow`).
 *
 *  R1  A task that both flows define alike keeps its records. The records of any other task are dropped: they stay in the
 *      journal for readers (`dropped`, with `was`), and the replay skips them.
 *  R2  The numbers of the tasks in the journal are those of the new flow. The new journal, with its record `flow`, replaces the
 *      old one at once; flow.next.yaml exists before that and becomes flow.yaml after it (reflow_finish).
 *  R3  A refusal changes nothing. Open questions, tasks that were added while the run was executed, and a completed task in other groups than
 *      before are refused. */
#ifndef GRAPH_REFLOW_H
#define GRAPH_REFLOW_H

#include "graph/runner.h"

/* With the run's bytes taken. `records` become those of the new journal; *ret_changes (owned) is what changes: {changed, new, removed,
 * kept} with names of tasks, `kept` as the keys of an object. NULL: the flow is the one that the run has. */
int reflow_change(struct runner *runner, json_t *records, enum lang lang, json_t **ret_changes, struct tsk_error *err);
/* A change that was recorded and whose copy has not got its name yet. */
int reflow_finish(const struct rundir *run, const json_t *records, struct tsk_error *err);
/* After the replay: what changes, and which completed tasks run again because of it, for the caller. */
void reflow_report(struct runner *runner, json_t *changes);
/* Reports that the file is another one than the run's copy, `text`. */
void reflow_hint(const struct runner *runner, const struct buf *text);

#endif
