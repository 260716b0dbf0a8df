/* flow_args.h - what operations on flows have in common: finding and loading the file that an argument names. */
#ifndef OPS_FLOW_ARGS_H
#define OPS_FLOW_ARGS_H

#include "base/fs.h"
#include "graph/flow.h"
#include "ops/ops.h"

#define FLOW_PARAM                                                                                                     \
    PARAM("flow", OP_PATH, OP_REQUIRED | OP_POSITIONAL, "FLOW",                                                        \
          "A flow file, the name of one in .aiflow/flows/ (without .yaml), or - for standard input.", .max = 4096,     \
          .agent_help = "A file, or a name in .aiflow/flows/.")

struct flow_file {
    struct flow flow;
    struct buf text;
    char path[FS_PATH_MAX];
    char real_path[FS_PATH_MAX]; /* links resolved; "": it came through a pipe */
};

/* Whether the flow is to come from standard input (`-`), a pipe or a device: only this process can read it. */
bool flow_args_is_stream(const struct op_call *call);
/* FLOW_INVALID with all problems, NOT_FOUND with where it was looked for. `file` is to be cleared after success only. */
int flow_args_load(struct op_call *call, struct flow_file *file, struct tsk_error *err);
/* The same for a file that tasuki wrote, in an open directory. */
int flow_args_load_at(struct op_call *call, int dir, const char *name, struct flow_file *file, struct tsk_error *err);
void flow_file_clear(struct flow_file *file);

#endif
