/* request_args.h - what operations on requests have in common. */
#ifndef OPS_REQUEST_ARGS_H
#define OPS_REQUEST_ARGS_H

#include "ops/ops.h"
#include "run/book.h"

#define REQUEST_PARAM(requirement)                                                                                     \
    PARAM("request", OP_STRING, OP_POSITIONAL | (requirement), "RQ",                                                   \
          "The request: its id or a part that no other has; @1 the latest, @2 the one before.", .max = 128,            \
          .agent_help = "The request's id.", .completes = "request-id")
#define REQUEST_ID_PARAM      REQUEST_PARAM(OP_REQUIRED)
#define REQUEST_OR_NONE_PARAM REQUEST_PARAM(OP_OPTIONAL) /* none: the row's detail says which one that is */

/* The file's keys from the arguments; "" and [] mean: without it. Owned. */
int request_values(const struct op_call *call, json_t **ret, struct tsk_error *err);
/* request_one.c: the argument `request` becomes the id that it means. */
int request_named(struct op_call *call, struct tsk_error *err);
/* The same; without that argument it is the only request that may run (`runs`), or else the only one that has run to its end. None
 * and several are refused. */
int request_named_or_only(struct op_call *call, bool runs, struct tsk_error *err);
/* A request as all operations show it; owned. */
int request_show(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err);
/* The same after a change. If only the look fails, what the request's file says. */
struct request;
void request_show_written(struct op_call *call, const struct request *request, json_t **ret);
/* request_editor.c: the request in the user's editor, until it is right or he gives up. */
int request_edit_in_editor(struct op_call *call, const char *id, struct request *ret, struct tsk_error *err);

#endif
