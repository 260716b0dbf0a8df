#include "base/word.h"
#include "ops/ops.h"

#include <string.h>

/* operations.gen.c: all rows, made by tools/list_operations.py. */
extern const struct op *const op_rows[];
extern const size_t op_row_count;

const struct op *const *op_table(size_t *ret_count)
{
    *ret_count = op_row_count;
    return op_rows;
}

const struct op *op_find(const char *noun, const char *verb)
{
    for (size_t i = 0; i < op_row_count; i++) {
        bool same_noun = noun ? op_rows[i]->noun && strcmp(op_rows[i]->noun, noun) == 0 : !op_rows[i]->noun;
        if (same_noun && strcmp(op_rows[i]->verb, verb) == 0)
            return op_rows[i];
    }
    return NULL;
}

const struct op *op_by_name(const char *name)
{
    for (size_t i = 0; i < op_row_count; i++)
        if (strcmp(op_rows[i]->name, name) == 0)
            return op_rows[i];
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
