/* overview.h - the whole workspace as one document, for `status`, `watch`, the page and agents. */
#ifndef OPS_OVERVIEW_H
#define OPS_OVERVIEW_H

#include "ops/ops.h"

/* {version root state time event_id locks processes runs questions confirmations requests queue workflows}; owned. Runs: those that run, wait or were interrupted, and the
 * newest of the others; requests: those that are not done, in the queue's order. */
#define OVERVIEW_BRIEF 50  /* processes, for a caller that pays for every byte */
#define OVERVIEW_RUNS  200 /* that continue or wait, the newest */

/* In the state directory: the last full report of doctor that a client of the server asked for. `examined_at` is its time. */
#define DOCTOR_REPORT_FILE "doctor.json"

int overview_make(struct op_call *call, json_t **ret, struct tsk_error *err);

/* The stage of a run (owned), or NULL: it is being made or removed, or cannot be read (doctor reports that). */
json_t *overview_stage(struct tsk_workspace *ws, const char *id);
/* Adds `last_line` to a run of the overview that runs: what one of its running tasks printed last. Nothing where none has printed. */
void overview_add_last_line(struct tsk_workspace *ws, json_t *run);

#endif
