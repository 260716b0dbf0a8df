/* conflict.h - an operation that meets an active run of the same request or flow: refuse, follow that run, replace it, or run
 * once after it. */
#ifndef OPS_CONFLICT_H
#define OPS_CONFLICT_H

#include "ops/ops.h"

extern const char *const conflict_rules[];
#define CONFLICT_PARAM                                                                                                 \
    PARAM("on_conflict", OP_ENUM, OP_OPTIONAL, "RULE",                                                                 \
          "If it is already running: fail, attach (follow that run), replace (cancel it, start a new one), or after "  \
          "(run once more).",                                                                                          \
          .fallback = "fail", .choices = conflict_rules, .agent_help = "If it runs already.")

/* One attempt to run it. It is repeated when the conflicting run is gone. */
typedef int conflict_attempt(struct op_call *call, void *data, json_t **ret, struct tsk_error *err);
/* Whether the run that is there does what the call asks for; in doubt it does. NULL: it always does. */
typedef bool conflict_is_same(struct op_call *call, void *data, const char *run_id);
/* The outcome of an attempt, or what `on_conflict` makes of a RUN_IN_PROGRESS. follow_ms: how long `attach` follows the run; < 0:
 * until its end. */
int conflict_run(struct op_call *call, conflict_attempt *attempt, conflict_is_same *is_same, void *data,
                 int64_t follow_ms, json_t **ret, struct tsk_error *err);
/* The runner apart knows nothing of conflicts: the caller decides. Takes the arguments about them away. */
void conflict_strip(json_t *args);

#endif
