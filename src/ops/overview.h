/* overview.h - the whole workspace as one document: what `status`, `watch`, the page and agents look at first. */
#ifndef OPS_OVERVIEW_H
#define OPS_OVERVIEW_H

#include "ops/ops.h"

/* {version root state time locks processes runs requests workflows}; owned. Runs: those that run, wait or were interrupted, and the
 * newest of the others; requests: those that are not done, in the queue's order. */
#define OVERVIEW_BRIEF 50 /* processes, for a caller that pays for every byte */

int overview_make(struct op_call *call, json_t **ret, struct tsk_error *err);

#endif
