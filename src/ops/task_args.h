/* task_args.h - inside a task: the files through which it talks to its run. No server, no socket. */
#ifndef OPS_TASK_ARGS_H
#define OPS_TASK_ARGS_H

#include "graph/output.h"
#include "ops/ops.h"

/* In a row: its errors, and the reason why other skins do not have it. */
#define IN_TASK      "it works only inside a task of a run"
#define ONLY_IN_TASK .errors = task_errors, .http.absent = IN_TASK, .mcp.absent = IN_TASK

/* INVALID_INPUT when we are not in a task. */
int task_args_check(struct tsk_error *err);
/* Adds one line to TASUKI_OUTPUT; `line` is taken. */
int task_args_tell_take(json_t *line, struct tsk_error *err);
/* The values that the task sees: those of TASUKI_CHANNEL, and what it wrote itself. */
int task_args_values(json_t **ret, struct tsk_error *err);

extern const struct op_field task_no_result[];
extern const enum tsk_code task_errors[];

#endif
