/* lock_args.h - what the lock operations share: from arguments to a target, a holder, a confirmation. */
#ifndef OPS_LOCK_ARGS_H
#define OPS_LOCK_ARGS_H

#include "lock/lock.h"
#include "ops/ops.h"

/* Parameters that several lock operations take, once. */
#define LOCK_WAIT_PARAM                                                                                                \
    PARAM("wait", OP_DURATION, OP_FOREVER, "D", "Wait for it this long, in arrival order.", .fallback = "0")
#define LOCK_PID_PARAM                                                                                                 \
    PARAM("pid", OP_INT, OP_CALLER, "N",                                                                               \
          "The process that holds it (default: the caller's nearest lasting ancestor).", .min = 1, .max = INT32_MAX,   \
          .agent_help = "A process that holds it instead of you.")
#define LOCK_SESSION_PARAM                                                                                             \
    PARAM("session", OP_STRING, OP_OPTIONAL, "S", "Session id to record.", .max = 256, .agent_help = "")
#define LOCK_KILL_PARAM                                                                                                \
    FLAG("kill", OP_OPTIONAL, "With force: end the old holder first (else it is only fenced off).",                    \
         .agent_help = "With force: end the old holder first.")

/* The target named by the arguments `kind` and `id`. */
int lock_args_target(struct op_call *call, struct lock_target *ret, struct tsk_error *err);
/* The same by one word: "kind/id", "queue", "sprint", a request's id ("RQ-…"), else the name of a lock of kind name. */
int lock_args_named(struct op_call *call, const char *name, struct lock_target *ret, struct tsk_error *err);
/* The holder of a lock that outlives the command: --pid, else the caller's registered instance (that of a client of the server by
 * its lease), else the guessed ancestor, which a client of the server does not have: INVALID_INPUT "instance_needed". */
int lock_args_holder(struct op_call *call, struct lock_request *request, struct tsk_error *err);
/* Whether the living holder that was met is the one that the request names. */
bool lock_args_is_own(const struct lock_request *request, const struct judgement *found);
/* The refusal that says so; -1. Its next command neither waits for the caller itself nor forces it. */
int lock_refuse_own(struct lock_target *target, const struct judgement *found, struct tsk_error *err);
/* -1, with the refusal, if the caller is executed by a `lock run` that holds this lock: waiting for it would never end. */
int lock_refuse_around(struct lock_target *target, struct tsk_error *err);
/* `--instance`, else TASUKI_INSTANCE_ID, else NULL. */
int lock_args_instance(struct op_call *call, const char **ret, struct tsk_error *err);

/* The time to wait, in ms. "forever" is a hundred years: a wait without any deadline would block in the kernel and
 * would not look again. */
int64_t lock_args_wait(struct op_call *call);

/* Acquires; where the rules want a person's yes, asks (call->confirm), or takes `yes` for it. */
int lock_acquire_confirmed(struct op_call *call, struct lock_target *target, struct lock_request *request,
                           struct lock_outcome *outcome, struct tsk_error *err);
/* Releases; where the rules want a person's yes (a living sprint that is not the caller's), asks or takes `yes` for it. */
int lock_release_confirmed(struct op_call *call, struct lock_target *target, struct lock_proof *proof,
                           struct lock_outcome *outcome, struct tsk_error *err);

/* All locks of the workspace and the sprint lock of the project (found from `root`, NULL: here), as report_lock gives them; `kind` NULL: of every kind. */
int locks_list(struct tsk_workspace *ws, const char *kind, const char *root, json_t **ret, struct tsk_error *err);

/* caller.c: LOCK_LOST means that somebody else has the lock. For a client that has not said who it is, nobody knows that. */
void op_hint_proof(const struct op_call *call, const struct lock_proof *proof, struct tsk_error *err);

#endif
