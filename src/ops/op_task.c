/* op_task.c - task next, spawn, again, finish, cancel, ask: what a task asks of its run. */
#include "base/fs.h"
#include "base/ident.h"
#include "graph/output.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "ops/task_args.h"

#include <stdlib.h>
#include <string.h>

#define NAME_PARAM PARAM("name", OP_ID, OP_REQUIRED | OP_POSITIONAL, "NAME", "The task.")
#define MESSAGE_PARAM                                                                                                  \
    PARAM("message", OP_STRING, OP_POSITIONAL, "MSG", "The reason, for readers of the run.", .max = 4096)

/* ---- next ----------------------------------------------------------------------------------------------- */

static int run_next(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    bool is_goto = json_get_bool(call->args, "goto", false);
    *ret = NULL;
    return task_args_tell_take(
        json_pack("{s:s, s:s}", "do", is_goto ? "goto" : "next", "task", json_get_string(call->args, "name", "")), err);
}

const struct op op_task_next = {
    NAMES("task.next", "task", "next"),
    .summary = "Inside a task: run another task of this branch after this one, even one that has run before.",
    .examples = "tasuki task next report\n"
                "tasuki task next fetch --goto  # back, instead of continuing",
    .flags = OP_NO_WORKSPACE,
    .params = PARAMS(NAME_PARAM, FLAG("goto", OP_OPTIONAL, "Instead of this task's successors.")),
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_next,
};

/* ---- spawn ---------------------------------------------------------------------------------------------- */

static int run_spawn(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *command = json_object_get(call->args, "command");
    *ret = NULL;
    if (json_array_size(command) == 0)
        return error_set(err, TSK_INVALID_INPUT, "command_missing", NULL);
    return task_args_tell_take(json_pack("{s:s, s:s, s:{s:O}}", "do", "spawn", "task",
                                         json_get_string(call->args, "name", ""), "payload", "run", command),
                               err);
}

const struct op op_task_spawn = {
    NAMES("task.spawn", "task", "spawn"),
    .summary = "Inside a task: add a new task to this branch; the branch is not joined before the task has ended.",
    .examples = "tasuki task spawn resize-1 -- ./resize 1.png",
    .flags = OP_NO_WORKSPACE,
    .params = PARAMS(NAME_PARAM,
                     PARAM("command", OP_ARGV, OP_REQUIRED | OP_POSITIONAL, "CMD…", "The command and its arguments.")),
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_spawn,
};

/* ---- again ---------------------------------------------------------------------------------------------- */

static int run_again(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = run_values(json_object_get(call->args, "set"));
    *ret = NULL;
    json_each_pair (values, key, value)
        if (task_args_tell_take(json_pack("{s:s, s:s, s:O}", "do", "set", "key", key, "value", value), err) < 0)
            return -1;
    return task_args_tell_take(json_pack("{s:s}", "do", "again"), err);
}

const struct op op_task_again = {
    NAMES("task.again", "task", "again"),
    .summary = "Inside a task: run this task once more before its successors.",
    .examples = "tasuki task again --set page=2",
    .flags = OP_NO_WORKSPACE,
    .params = PARAMS(PARAM("set", OP_MAP, OP_OPTIONAL, "K=V", "A value for the channel; repeat for more.")),
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_again,
};

/* ---- finish, cancel ------------------------------------------------------------------------------------- */

static int task_tell_end(struct op_call *call, const char *what, struct tsk_error *err)
{
    return task_args_tell_take(
        json_pack("{s:s, s:s}", "do", what, "message", json_get_string(call->args, "message", "")), err);
}

static int run_finish(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    return task_tell_end(call, "finish", err);
}

static int run_cancel(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    return task_tell_end(call, "cancel", err);
}

static const struct op_param end_params[] = {MESSAGE_PARAM, {0}};

const struct op op_task_finish = {
    NAMES("task.finish", "task", "finish"),
    .summary = "Inside a task: end the whole run early, as a success.",
    .examples = "tasuki task finish 'nothing to do'",
    .flags = OP_NO_WORKSPACE,
    .params = end_params,
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_finish,
};

const struct op op_task_cancel = {
    NAMES("task.cancel", "task", "cancel"),
    .summary = "Inside a task: end the whole run, as a failure.",
    .examples = "tasuki task cancel 'the licence has expired'",
    .flags = OP_NO_WORKSPACE,
    .params = end_params,
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_cancel,
};

/* ---- ask ------------------------------------------------------------------------------------------------ */

/* The answer to exactly that question; owned, NULL: there is none yet. */
static json_t *answer_to(const char *question)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const char *path = getenv("TASUKI_ANSWER");
    json_t *answer = NULL;
    if (!path || fs_read_file(AT_FDCWD, path, BUF_MAX_DEFAULT - 1, &text) < 0)
        return NULL;
    json_t *document CLEANUP_JSON = json_loadb(buf_str(&text), text.len, 0, NULL);
    json_each (json_object_get(document, "all"), i, entry)
        if (json_text_is(entry, "question", question))
            answer = json_object_get(entry, "answer");
    return json_incref(answer);
}

static int run_ask(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *question = json_get_string(call->args, "question", ""),
               *type = json_get_string(call->args, "type", NULL);
    json_t *options = json_object_get(call->args, "option"), *answer = answer_to(question);
    if (answer) {
        *ret = json_pack("{s:s, s:o}", "question", question, "answer", answer);
        return 0;
    }
    json_t *list = json_is_array(options) ? json_incref(options) : options ? json_pack("[O]", options) : json_array();
    if (!type)
        type = json_array_size(list) ? "selection" : "text";
    *ret = NULL;
    json_t *asked CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:o}", "do", "ask", "question", question, "type", type, "options", list);
    return output_check_question(asked, err) < 0 ? -1 : task_args_tell_take(json_incref(asked), err);
}

static const char *const types[] = {"approval", "text", "selection", "multi_selection", NULL};

const struct op op_task_ask = {
    NAMES("task.ask", "task", "ask"),
    .summary = "Inside a task: ask a person. Prints the answer if there is one. Otherwise end the task; it starts "
               "again when the answer is there.",
    .detail = "Without an answer nothing is printed and the question is recorded: the task should end now, with any "
              "exit code. The run becomes NEEDS_INPUT; after `tasuki answer` the same task is started again, "
              "and this command prints the answer.",
    .examples = "answer=$(tasuki task ask 'Deploy?' --type approval)",
    .flags = OP_NO_WORKSPACE,
    .params =
        PARAMS(PARAM("question", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "QUESTION", "The question.", .max = 4096),
               PARAM("type", OP_ENUM, OP_OPTIONAL, "T", "approval, text, selection or multi_selection.",
                     .fallback = "selection with options, else text", .choices = types),
               PARAM("option", OP_STRING, OP_MANY, "O", "An option that can be chosen; repeat for more.", .max = 1024)),
    .result = FIELDS({"question", "string?", ""}, {"answer", "string?", "as soon as there is one"}),
    ONLY_IN_TASK,
    .run = run_ask,
};
