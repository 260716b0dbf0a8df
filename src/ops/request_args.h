/* request_args.h - what operations on requests have in common. */
#ifndef OPS_REQUEST_ARGS_H
#define OPS_REQUEST_ARGS_H

#include "ops/ops.h"
#include "run/book.h"

#define REQUEST_ID_PARAM                                                                                               \
    {                                                                                                                  \
        .name = "request", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .value = "RQ",                         \
        .help = "The request's id.", .completes = "request-id"                                                         \
    }

/* The file's keys from the arguments; "" and [] mean: without it. Owned. */
int request_values(const struct op_call *call, json_t **ret, struct tsk_error *err);
/* A request as all operations show it; owned. */
int request_show(struct op_call *call, const char *id, json_t **ret, struct tsk_error *err);
/* request_editor.c: the request in the user's editor, until it is right or he gives up. */
int request_edit_in_editor(struct op_call *call, const char *id, struct request *ret, struct tsk_error *err);

#endif
