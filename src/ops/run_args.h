/* run_args.h - what operations on runs have in common. */
#ifndef OPS_RUN_ARGS_H
#define OPS_RUN_ARGS_H

#include "graph/output.h"
#include "graph/runner.h"
#include "ops/ops.h"
#include "run/start.h"

#define RUN_PARAM(requirement) RUN_PARAM_MAX(requirement, 64)
#define RUN_PARAM_MAX(requirement, longest)                                                                            \
    PARAM("run", OP_STRING, OP_POSITIONAL | (requirement), "RUN",                                                      \
          "The run: its id or a part that no other has; @1 the latest, @2 the one before.", .max = (longest),          \
          .agent_help = "The run's id, or as much of it as is unique.", .completes = "run-id")
#define RUN_ID_PARAM        RUN_PARAM(OP_SHOWN_REQUIRED) /* run_must_be_named */
#define RUN_OR_LATEST_PARAM RUN_PARAM(OP_OPTIONAL)       /* none: the latest run */
#define RUN_PARALLEL_PARAM                                                                                             \
    PARAM("parallel", OP_INT, OP_OPTIONAL, "N", "At most N tasks at a time.",                                          \
          .fallback = "the flow's limit, or one per processor", .min = 1, .max = 100000, .letter = 'j',                \
          .agent_help = "Tasks at a time.")

extern const char *const run_output_choices[]; /* cli/progress.c knows what they mean */
#define RUN_OUTPUT_PARAM                                                                                               \
    PARAM("output", OP_ENUM, OP_CLI_ONLY, "HOW",                                                                       \
          "What tasks print: live; grouped, when a task has ended; or only the last lines of tasks that fail.",        \
          .fallback = "fail; live for a flow of one task on a terminal; grouped on GitHub",                            \
          .choices = run_output_choices)

#define RUN_REDIS_PARAM                                                                                                \
    PARAM("redis", OP_STRING, OP_CLI_ONLY, "URL",                                                                      \
          "Workers execute the tasks (tasuki worker), over this Redis: redis://, rediss:// or unix://.",               \
          .fallback = "TASUKI_REDIS, or redis: in config.yaml", .max = 1024),                                          \
        FLAG("local", OP_CLI_ONLY, "Beside the workers, execute tasks here, too.")

/* ---- run_one.c ---- */

/* `tasuki answer TEXT`: a lone word in the place of RUN that can name no run becomes the argument `text`. One that looks like the id
 * of a run, or is a part of several, is refused with the command that is right. */
int run_take_word(struct op_call *call, struct tsk_error *err);
/* Without the argument `run` it is the only run that asks, on the command line. None and several are refused. */
int run_named_or_asking(struct op_call *call, struct tsk_error *err);
/* Without that argument the operation is refused; `runs cancel` with the only run that is running, if there is one. */
int run_must_be_named(struct op_call *call, struct tsk_error *err);

/* ---- run_log_since.c ---- */

/* Keeps the lines that were printed since then. `is_since`: of the lines before the first that has a time, and then
 * of the last line. Whether a line has a time. */
bool run_log_keep_since(int64_t since_ms, bool *is_since, struct buf *text);

/* ---- run_stream.c ---- */

/* Emits the stage, then every record of the journal from the argument `cursor` on, until the run has no runner. */
int run_stream(struct op_call *call, const struct rundir *run, const json_t *stage, struct tsk_error *err);
/* A record of the journal: t e node task session_id attempt outcome exit_code ms next_try_in_ms question status. Owned. */
json_t *run_record_json(const json_t *record);

/* ---- op_runs.c ---- */

/* A run whose stage cannot be read is there all the same: what lists show of it. Owned. */
json_t *run_broken(const char *run_id, enum lang lang, const struct tsk_error *err);

/* ---- op_run.c ---- */

void run_tell(void *data, const json_t *document);
struct runner_options run_options(struct op_call *call);
/* Values of `--set`, as output_value reads them. Owned. */
json_t *run_values(const json_t *pairs);
/* The verdict of a call that shows how a run stands, and the last lines of the tasks that failed. */
void run_judge(struct op_call *call, json_t *stage);
/* What a run takes from the call, whether it begins or continues. */
struct run_start run_start_of(struct op_call *call);

#endif
