/* run_args.h - what operations on runs have in common. */
#ifndef OPS_RUN_ARGS_H
#define OPS_RUN_ARGS_H

#include "graph/output.h"
#include "graph/runner.h"
#include "ops/ops.h"
#include "run/start.h"

#define RUN_ID_PARAM                                                                                                   \
    {                                                                                                                  \
        .name = "run", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .value = "RUN",                            \
        .help = "The run's id, or as much of it as is unique.", .completes = "run-id"                                  \
    }
#define RUN_PARALLEL_PARAM                                                                                             \
    {                                                                                                                  \
        .name = "parallel", .type = OP_INT, .letter = 'j', .value = "N", .help = "At most so many tasks at a time.",   \
        .agent_help = "At most so many tasks at a time.", .min = 1, .max = 100000,                                     \
        .fallback = "the flow's limit, or one per processor"                                                           \
    }

void run_tell(void *data, const json_t *document);
struct runner_options run_options(struct op_call *call);
/* Values of `--set`, as output_value reads them. Owned. */
json_t *run_values(const json_t *pairs);
enum tsk_code run_verdict(const json_t *stage);
/* What a run takes from the call, whether it begins or goes on. */
struct run_start run_start_of(struct op_call *call);

#endif
