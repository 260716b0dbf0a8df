#include "base/word.h"
#include "ops/ops.h"
#include "ops/place.h"
#include "own/who.h"

#include <stdio.h>
#include <string.h>

bool op_has_noun(const struct op *op, const char *noun)
{
    return noun ? op->noun && strcmp(op->noun, noun) == 0 : !op->noun;
}

const struct op *op_find(const char *noun, const char *verb)
{
    op_foreach (op)
        if (op_has_noun(op, noun) && strcmp(op->verb, verb) == 0)
            return op;
    return NULL;
}

const struct op *op_by_name(const char *name)
{
    op_foreach (op)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

void op_put_command(struct buf *b, const char *root, const char *command)
{
    bool is_ours = root && strncmp(command, "tasuki ", 7) == 0 && strncmp(command, "tasuki --", 9) != 0;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (is_ours)
        buf_printf(b, "tasuki --root %s", shell_word(&word, root));
    buf_puts(b, command + (is_ours ? 6 : 0));
}

static void put_option(struct buf *line, const struct op_param *param, const char *key, const char *value)
{
    struct buf pair CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    if (!(param->flags & OP_POSITIONAL)) {
        buf_printf(line, " --");
        for (const char *c = param->option ? param->option : param->name; *c; c++)
            buf_printf(line, "%c", *c == '_' ? '-' : *c);
    }
    buf_printf(&pair, "%s%s%s", key ? key : "", key ? "=" : "", value ? value : "");
    if (value)
        buf_printf(line, " %s", shell_word(&word, buf_str(&pair)));
}

/* An argument as it is typed. */
static void put_arg(struct buf *line, const struct op_param *param, json_t *value)
{
    const char *number = DIGITS(json_integer_value(value));
    if (json_is_integer(value) && param->type == OP_INT)
        put_option(line, param, NULL, number);
    else if (json_is_string(value))
        put_option(line, param, NULL, json_string_value(value));
    else if (json_is_true(value))
        put_option(line, param, NULL, NULL);
    json_each (value, i, one)
        put_option(line, param, NULL, json_string_value(one));
    json_each_pair (value, key, one)
        put_option(line, param, key, json_string_value(one));
}

const char *op_words(const struct op *op, char words[64])
{
    snprintf(words, 64, "%s%s%s", op->noun ? op->noun : "", op->noun ? " " : "", op->verb);
    return words;
}

void op_put_typed(struct buf *line, const struct op_call *call, const char *name, json_t *value)
{
    buf_printf(line, "tasuki %s", OP_WORDS(call->op));
    for (const struct op_param *param = call->op->params; param->name; param++)
        if (!(param->flags & (OP_REMOTE_ONLY | OP_CALLER)))
            put_arg(line, param, strcmp(param->name, name) == 0 ? value : json_object_get(call->args, param->name));
}

/* A command that is suggested means the workspace, and the caller, that this one meant. */
static void complete_next(const struct op_call *call, struct tsk_error *err)
{
    json_t *commands CLEANUP_JSON = json_array();
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *next, *instance = json_get_string(call->args, "instance", NULL);
    for (unsigned n = 0; (next = tsk_error_next(err, n)); n++)
        json_array_append_new(commands, json_string(next));
    error_clear_next(err);
    json_each (commands, i, command) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        const char *text = json_string_value(command);
        bool is_callers = instance && strncmp(text, "tasuki own ", 11) == 0;
        op_put_command(&line, call->root, text);
        error_add_next(err, "%s%s%s", buf_str(&line), is_callers ? " --instance " : "",
                       is_callers ? shell_word(&word, instance) : "");
    }
}

/* A process whose id is misspelled: the same command for the one that is near, where only the id follows the verb. */
static void propose_same_verb(const struct op_call *call, struct tsk_error *err)
{
    const char *near = tsk_error_context(err, "near"), *id = tsk_error_context(err, "id");
    const json_t *given = json_object_get(call->args, "id");
    given = json_is_array(given) && json_array_size(given) == 1 ? json_array_get(given, 0) : given;
    if (!near || !id || !op_has_noun(call->op, "proc") || !json_is_string(given) ||
        strcmp(json_string_value(given), id) != 0)
        return;
    struct buf next CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&next, "tasuki proc %s %s", call->op->verb, near);
    error_clear_next(err);
    error_add_next(err, "%s", buf_str(&next));
    error_add_next(err, "tasuki proc list");
}

/* From here on the acting party is known: a command finds out who it acts for, a server has said so. A `note` is for this call. */
static int begin_who(struct op_call *call, struct tsk_error *err)
{
    const char *note = json_get_string(call->args, "note", NULL);
    bool is_note = note && op_param_find(call->op, "note");
    if (is_note && who_check_note(note, err) < 0)
        return -1;
    bool acts = !(call->op->flags & OP_READ_ONLY) || (call->op->flags & OP_WAITS); /* others see who waits */
    if (call->ws && call->is_cli && !call->decided && acts)
        who_begin(call->ws, json_get_string(call->args, "instance", NULL), call->op->name);
    if (is_note)
        who_set_note(note);
    return 0;
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
    int result = begin_who(call, err) < 0 ? -1 : call->op->run(call, ret, err);
    if (result < 0 && call->is_cli && !call->decided && call->ws)
        place_errors_from_here(call, err);
    if (result < 0 && call->is_cli && !call->decided)
        place_propose(err);
    if (result < 0 && !call->decided && !call->has_exit_code) /* `lock run` of a wrong command: not ours */
        op_propose_help(call->op, err);
    if (result < 0 && call->is_cli && err->code == TSK_PROCESS_NOT_FOUND)
        propose_same_verb(call, err);
    if (result < 0 && call->is_cli && !call->decided && (call->root || json_object_get(call->args, "instance")))
        complete_next(call, err);
    if (ws)
        call->ws = NULL;
    return result;
}
