#include "ops/table.h"
#include "base/word.h"

#include <string.h>

/* clang-format off: one line per noun, so that what is added stands out */
static const struct op *const rows[] = {
    &op_init,
    &op_status,
    &op_watch,
    &op_doctor,
    &op_events,
    &op_version,
    &op_help,
    &op_completion,
    &op_serve,
    &op_mcp,
    &op_confirm,
    &op_run_flow,
    &op_resume,
    &op_answer,
    &op_graph,
    &op_flow_list,
    &op_flow_validate,
    &op_runs_list,
    &op_runs_show,
    &op_runs_logs,
    &op_runs_tasks,
    &op_runs_graph,
    &op_runs_cancel,
    &op_request_add,
    &op_request_list,
    &op_request_show,
    &op_request_edit,
    &op_request_rm,
    &op_request_run,
    &op_queue_run,
    &op_queue_run_next,
    &op_queue_stop,
    &op_queue_next,
    &op_queue_status,
    &op_channel_get,
    &op_channel_set,
    &op_channel_append,
    &op_channel_add,
    &op_task_next,
    &op_task_spawn,
    &op_task_again,
    &op_task_finish,
    &op_task_cancel,
    &op_task_ask,
    &op_lock_acquire,
    &op_lock_release,
    &op_lock_renew,
    &op_lock_check,
    &op_lock_list,
    &op_lock_run,
    &op_own_check,
    &op_own_claim,
    &op_own_release,
    &op_own_force_claim,
    &op_own_leave,
    &op_own_show,
    &op_own_list,
    &op_agent_run,
    &op_agent_parallel,
    &op_agent_dag,
    &op_agent_team,
    &op_agent_teams,
    &op_agent_loop,
    &op_sprint_acquire,
    &op_sprint_release,
    &op_sprint_check,
    &op_restore,
    &op_wait,
    &op_probe,
    &op_process_create,
    &op_process_start,
    &op_process_stop,
    &op_process_restart,
    &op_process_status,
    &op_process_list,
    &op_process_remove,
    &op_process_update,
    &op_process_logs,
    &op_process_wait,
    &op_process_export,
    &op_process_import,
    &op_template_create,
    &op_template_list,
    &op_template_show,
    &op_template_update,
    &op_template_delete,
    &op_template_use,
};
/* clang-format on */

const struct op *const *op_table(size_t *ret_count)
{
    *ret_count = sizeof rows / sizeof rows[0];
    return rows;
}

const struct op *op_find(const char *noun, const char *verb)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool same_noun = noun ? rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 : !rows[i]->noun;
        if (same_noun && strcmp(rows[i]->verb, verb) == 0)
            return rows[i];
    }
    return NULL;
}

const struct op *op_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

/* A command that is suggested means the workspace, and the caller, that this one meant. */
static void complete_next(const struct op_call *call, struct tsk_error *err)
{
    json_t *commands CLEANUP_JSON = json_array(), *command;
    struct buf root CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    const char *next, *instance = json_get_string(call->args, "instance", NULL);
    size_t i;
    for (unsigned n = 0; (next = tsk_error_next(err, n)); n++)
        json_array_append_new(commands, json_string(next));
    if (call->root)
        buf_printf(&root, " --root %s", shell_word(&word, call->root));
    error_clear_next(err);
    json_array_foreach (commands, i, command) {
        const char *text = json_string_value(command);
        bool is_ours = strncmp(text, "tasuki ", 7) == 0 && strncmp(text, "tasuki --", 9) != 0;
        bool is_callers = instance && strncmp(text, "tasuki own ", 11) == 0;
        error_add_next(err, "%.*s%s%s%s%s", is_ours ? 6 : 0, text, is_ours ? buf_str(&root) : "",
                       text + (is_ours ? 6 : 0), is_callers ? " --instance " : "",
                       is_callers ? shell_word(&word, instance) : "");
    }
}

int op_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct tsk_workspace *ws CLEANUP(workspace_cleanup) = NULL;
    if (call->is_remote && op_check_paths(call, err) < 0)
        return -1;
    if (!call->ws && !(call->op->flags & OP_NO_WORKSPACE)) {
        if (tsk_workspace_open(call->root, &ws, err) < 0 &&
            !((call->op->flags & OP_WANTS_WORKSPACE) && err->code == TSK_NOT_FOUND))
            return -1;
        call->ws = ws;
    }
    int result = call->op->run(call, ret, err);
    if (result < 0 && call->is_cli && !call->decided && (call->root || json_object_get(call->args, "instance")))
        complete_next(call, err);
    if (ws)
        call->ws = NULL;
    return result;
}
