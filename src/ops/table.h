/* table.h - the rows, by the file they are defined in. Only table.c includes all of them. */
#ifndef OPS_TABLE_H
#define OPS_TABLE_H

#include "ops/ops.h"

/* op_workspace.c */
extern const struct op op_init, op_status, op_version;
/* op_events.c */
extern const struct op op_events;
/* op_help.c: shown by the CLI skin, which has the words for it */
extern const struct op op_help, op_completion;
/* op_flow.c, op_graph.c */
extern const struct op op_flow_validate, op_graph;
/* op_lock.c */
extern const struct op op_lock_acquire, op_lock_release, op_lock_renew, op_lock_check, op_lock_list;
/* op_lock_run.c */
extern const struct op op_lock_run;
/* op_sprint.c */
extern const struct op op_sprint_acquire, op_sprint_release, op_sprint_check;

#endif
