/* detached.h - operations that take as long as a run, for callers that cannot wait that long.
 *
 * An operation that executes a run begins with
 *
 *     if (op_is_apart(call))
 *         return op_run_apart(call, ret, err);
 *
 * and continues as if its caller could wait: in the foreground of a command, or in a runner of its own (run/detach.h), which
 * performs the same operation again with the same arguments. As soon as its locks are taken and the run has an id, it calls
 * op_decided. */
#ifndef OPS_DETACHED_H
#define OPS_DETACHED_H

#include "ops/ops.h"

#define OP_DETACH_PARAM                                                                                                \
    FLAG("detach", OP_CLI_ONLY, "Return as soon as the run has begun; it continues in the background.")

/* Called by HTTP or MCP, or with --detach. */
bool op_is_apart(const struct op_call *call);
/* Starts the runner. A command with --detach gets the stage at once, others wait for the end up to REMOTE_WAIT_MAX_MS; then the
 * stage says RUNNING. */
int op_run_apart(struct op_call *call, json_t **ret, struct tsk_error *err);
/* The same with another operation's name and arguments (borrowed), for one that only ends in a run. */
int op_run_apart_as(struct op_call *call, const char *op, const json_t *args, bool waits, json_t **ret,
                    struct tsk_error *err);
void op_decided(struct op_call *call, const json_t *stage);
/* Follows a run that somebody else executes: for as long as it takes on the command line, else up to REMOTE_WAIT_MAX_MS. */
int op_follow(struct op_call *call, const char *run_id, json_t **ret, struct tsk_error *err);

#endif
