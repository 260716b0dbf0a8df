/* waits.h - a call that waits: others see it (own/waiting.h), and so does the person who called (call->waits). */
#ifndef OPS_WAITS_H
#define OPS_WAITS_H

#include "ops/ops.h"
#include "own/waiting.h"

struct op_wait {
    struct op_call *call;
    struct waiting file;
};
#define OP_WAIT_NONE                                                                                                   \
    {                                                                                                                  \
        .file = WAITING_NONE                                                                                           \
    }

/* Records that the call waits for `kind` `id` (may be NULL) until op_wait_end. `ws` is the workspace of the thing; for a sprint it
 * may be another one than the call's. */
void op_wait_begin(struct op_wait *wait, struct op_call *call, struct tsk_workspace *ws, const char *kind,
                   const char *id);
void op_wait_end(struct op_wait *wait); /* for CLEANUP */

/* All parties that wait: array of {kind id since who for}, owned. The lists (may be NULL) name the holders that they wait for. */
json_t *waits_list(struct tsk_workspace *ws, const json_t *locks, const json_t *workflows, const json_t *processes);

#endif
