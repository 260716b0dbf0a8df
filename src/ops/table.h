/* table.h - the rows, by the file they are defined in. Only table.c includes all of them. */
#ifndef OPS_TABLE_H
#define OPS_TABLE_H

#include "ops/ops.h"

/* op_workspace.c */
extern const struct op op_init, op_status, op_version;
/* op_doctor.c */
extern const struct op op_doctor;
/* op_request.c, op_request_run.c */
extern const struct op op_request_add, op_request_list, op_request_show, op_request_edit, op_request_rm, op_request_run;
/* op_wait.c */
extern const struct op op_wait;
/* op_queue.c */
extern const struct op op_queue_run, op_queue_run_next, op_queue_stop, op_queue_next, op_queue_status;
/* op_watch.c */
extern const struct op op_watch;
/* op_events.c */
extern const struct op op_events;
/* op_help.c: shown by the CLI skin, which has the words for it */
extern const struct op op_help, op_completion;
/* op_serve.c */
extern const struct op op_serve;
/* The HTTP skin, set by main: it is no part of the table's layer. NULL in programs that have none. */
extern int (*op_serve_run)(struct op_call *call, struct tsk_error *err);
/* op_mcp.c */
extern const struct op op_mcp, op_confirm;
/* What `tasuki mcp` does: set by main, because the skin is above the table. */
extern int (*op_mcp_serve)(struct op_call *call, struct tsk_error *err);
/* op_flow.c, op_graph.c */
extern const struct op op_flow_list, op_flow_validate, op_graph, op_runs_graph;
/* op_run.c, op_run_answer.c, op_runs.c */
extern const struct op op_run_flow, op_resume, op_answer, op_runs_list, op_runs_show, op_runs_logs, op_runs_cancel;
extern const struct op op_runs_tasks;
/* op_channel.c, op_task.c */
extern const struct op op_channel_get, op_channel_set, op_channel_append, op_channel_add;
extern const struct op op_task_next, op_task_spawn, op_task_again, op_task_finish, op_task_cancel, op_task_ask;
/* op_lock.c */
extern const struct op op_lock_acquire, op_lock_release, op_lock_renew, op_lock_check, op_lock_list;
/* op_lock_run.c */
extern const struct op op_lock_run;
/* op_own.c */
extern const struct op op_own_check, op_own_claim, op_own_release, op_own_force_claim, op_own_leave, op_own_show,
    op_own_list;
/* op_agent.c */
extern const struct op op_agent_run, op_agent_parallel, op_agent_dag, op_agent_team, op_agent_teams, op_agent_loop;
/* op_sprint.c */
extern const struct op op_sprint_acquire, op_sprint_release, op_sprint_check;

/* op_proc.c */
extern const struct op op_process_create, op_process_start, op_process_stop, op_process_restart, op_process_status,
    op_process_list, op_process_remove, op_process_update, op_restore;
/* op_proc_wait.c */
extern const struct op op_process_wait;
/* op_proc_exchange.c */
extern const struct op op_process_export, op_process_import;
/* op_template.c */
extern const struct op op_template_create, op_template_list, op_template_show, op_template_update, op_template_delete,
    op_template_use;
/* op_probe.c */
extern const struct op op_probe;
/* op_proc_logs.c */
extern const struct op op_process_logs;

#endif
