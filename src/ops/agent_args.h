/* agent_args.h - delegation: from a call to work for agents, and from a run to the result for the caller.
 *
 * The six operations differ only in the shape of the work. Each reads the configuration, builds the work, checks that the
 * caller owns the workflow, and runs the work as a flow: in the foreground of a command, else in a runner of its own. */
#ifndef OPS_AGENT_ARGS_H
#define OPS_AGENT_ARGS_H

#include "ops/ops.h"
#include "own/agent.h"

/* Puts the work of a call together. */
typedef int agent_shape(struct op_call *call, struct agent_work *work, struct tsk_error *err);

int agent_delegate(struct op_call *call, agent_shape *shape, json_t **ret, struct tsk_error *err);

/* The objects of the parameter `name`: as they are, or on the command line out of the YAML or JSON file that it names. */
int agent_args_objects(struct op_call *call, const char *name, json_t **ret, struct tsk_error *err);

#endif
