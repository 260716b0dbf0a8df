/* own_args.h - shared by the operations that need an owner: the caller, and the parameters that name it. */
#ifndef OPS_OWN_ARGS_H
#define OPS_OWN_ARGS_H

#include "ops/ops.h"
#include "own/workflow.h"

/* Opens the tables and finds the caller. The tables are to be closed in any case. */
int own_args_open(struct op_call *call, struct owners *owners, struct instance *ret_caller, struct tsk_error *err);
/* Pauses before the next look at a workflow; false: the time is over, or the caller has gone. */
bool own_wait_more(struct op_call *call, int64_t until_ms);

#endif
