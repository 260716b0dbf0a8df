/* proc_others.h - processes that another living agent has started.
 *
 * An agent (an MCP client, or a program with TASUKI_AGENT) that would stop, restart, update or remove such a process needs a
 * person's yes, unless config.yaml says otherwise (`processes: {guard: ask|warn|off}`). Scripts and people are not asked; the
 * output says whose process it was. The yes counts only for the processes and starters that were shown. */
#ifndef OPS_PROC_OTHERS_H
#define OPS_PROC_OTHERS_H

#include "ops/ops.h"
#include "proc/process.h"

/* Before any of `ids` (strings) is touched. 0: it may be; -1 with NEEDS_CONFIRMATION. `only_running`: what does not run is
 * nobody's. *ret_warning (owned, or NULL): whose processes they are, in the caller's language. */
int proc_others_ask(struct op_call *call, struct proc_registry *reg, const json_t *ids, bool only_running,
                    json_t **ret_warning, struct tsk_error *err);
/* Where nobody can be asked any more. Those of `ids` that run and that the caller leaves alone: an agent those of other agents. Owned;
 * *ret_warning as above. */
json_t *proc_others_spare(const struct op_call *call, struct proc_registry *reg, const json_t *ids,
                          json_t **ret_warning);
/* Adds it to an answer as `warning`, if there is one. */
void proc_others_warn(json_t *answer, const json_t *warning);

#endif
