/* call.c - from a tool's arguments to an operation, and from its outcome to what a model reads. */
#include "base/word.h"
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- results ---- */

static json_t *text_result(json_t *text_take, bool is_error)
{
    json_t *result = json_pack("{s:[{s:s, s:o}]}", "content", "type", "text", "text", text_take);
    if (is_error)
        json_object_set_new(result, "isError", json_true());
    return result;
}

json_t *mcp_text_result(const char *text, bool is_error)
{
    return text_result(json_string(text), is_error);
}

/* The same JSON as text and as structure: clients show one or the other. */
static json_t *structured_result(const char *prefix, json_t *structure_take, bool is_error)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, prefix);
    json_write(&text, structure_take, false);
    size_t before = strlen(prefix);
    struct buf structure = {.data = text.data + before, .len = text.len - before};
    json_t *result =
        text_result(json_stringn_nocheck(buf_str(&text), text.len), is_error); /* written by us: it is UTF-8 */
    json_object_set_new(result, "structuredContent", json_finished(&structure));
    json_decref(structure_take);
    return result;
}

/* The first words, so that who only skims stops here. */
static const char *call_verdict_of(const struct op *op, enum tsk_code code)
{
    const char *category = code_info(code)->category;
    /* A read-only operation uses its refusal word only when its wait has timed out: the reader should call again. */
    bool has_word = op->mcp.refusal && (!(op->flags & OP_READ_ONLY) || code == TSK_CONFLICT);
    if (code == TSK_NEEDS_CONFIRMATION)
        return "NEEDS CONFIRMATION";
    if (code == TSK_INVALID_INPUT)
        return "INVALID INPUT";
    if (strcmp(category, "OWNERSHIP") == 0)
        return "error"; /* existing clients look for this word */
    if (has_word)
        return op->mcp.refusal;
    return strcmp(category, "NOT_FOUND") == 0 ? "NOT FOUND" : "FAILED";
}

/* The tool that does what a command does, for agents without a shell; NULL: it is not offered. */
static const char *tool_of_command(const struct mcp_server *server, const char *command)
{
    static const char root[] = "tasuki --root ";
    char start[128], *word[3] = {NULL, NULL, ""};
    if (strstr(command, "/api/status?register=true"))
        return mcp_tool_find(server, "get_status") ? "get_status with register: true" : NULL;
    bool has_root = strncmp(command, root, strlen(root)) == 0;
    const char *verb = has_root ? strchr(command + strlen(root), ' ') : NULL;
    snprintf(start, sizeof start, "%s%s", verb ? "tasuki" : "", verb ? verb : command);
    if (words_split(start, word, 3) < 2 || strcmp(word[0], "tasuki") != 0)
        return NULL;
    const struct op *op = op_find(word[1], word[2]);
    op = op ? op : op_find(NULL, word[1]);
    return op && op->mcp.tool && mcp_tool_find(server, op->mcp.tool) ? op->mcp.tool : NULL;
}

/* The help of a command is left out: for a tool, that is its schema. */
static void call_put_next(struct buf *text, const struct mcp_server *server, const json_t *commands)
{
    size_t count = 0;
    json_each (commands, i, command) {
        const char *line = json_string_value(command), *tool = tool_of_command(server, line);
        size_t len = strlen(line), end = strlen(" --help");
        if (tool && len > end && strcmp(line + len - end, " --help") == 0)
            continue;
        buf_printf(text, "%s%s", count++ ? "; " : "\nNext: ", line);
        if (tool)
            buf_printf(text, " (%s%s)", tool, strstr(line, " --force") ? " with force: true" : "");
    }
}

static bool is_held_by_other(const struct tsk_error *err)
{
    bool is_held = err->code == TSK_LOCK_HELD || err->code == TSK_RUN_IN_PROGRESS ||
                   err->code == TSK_QUEUE_IN_PROGRESS || err->code == TSK_SPRINT_BLOCKED;
    return is_held && tsk_error_context(err, "holder") && !(err->text && strcmp(err->text, "lock_held_by_you") == 0);
}

/* Adds "held by …". The titles of most codes do not name the holder, and not every client shows the structure to its model. */
static void call_put_holder(struct buf *text, const json_t *context)
{
    const json_t *holder = json_object_get(context, "holder"), *alive = json_object_get(holder, "alive");
    static const char *const keys[][2] = {{"session_id", "session"}, {"run_id", "run"}, {"instance", "instance"}};
    const char *since = json_get_string(context, "created_at", NULL), *separator = " ", *state = "alive or dead";
    buf_puts(text, "held by");
    if (json_get_string(context, "by", NULL)) {
        buf_printf(text, " %s", json_get_string(context, "by", ""));
        separator = ", ";
    }
    if (json_is_integer(json_object_get(holder, "pid"))) {
        buf_printf(text, "%spid %lld", separator, (long long)json_get_int(holder, "pid", 0));
        separator = ", ";
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_get_string(holder, keys[i][0], NULL)) {
            buf_printf(text, "%s%s %s", separator, keys[i][1], json_get_string(holder, keys[i][0], ""));
            separator = ", ";
        }
    if (separator[0] == ' ')
        buf_puts(text, " somebody");
    if (json_is_boolean(alive))
        state = json_is_true(alive) ? "alive" : "dead";
    buf_printf(text, " (%s: %s)", state, json_get_string(holder, "how", "?"));
    if (since)
        buf_printf(text, " since %s", since);
    buf_puts(text, ". ");
}

/* Adds who has started or registered the process that the call met: the sentence of the code does not name it. */
static void call_put_starter(struct buf *text, enum lang lang, const struct tsk_error *err, const json_t *context)
{
    const json_t *starter = json_object_get(context, "started_by"),
                 *who = starter ? starter : json_object_get(context, "created_by");
    struct buf by CLEANUP(buf_clear) = BUF_INIT;
    if (!who || (err->code != TSK_PROCESS_ALREADY_RUNNING && err->code != TSK_PROCESS_ALREADY_EXISTS))
        return;
    who_put_label(&by, who);
    if (json_get_int(who, "pid", 0))
        buf_printf(&by, " (pid %lld)", (long long)json_get_int(who, "pid", 0));
    buf_puts(text, ". ");
    text_put(text, lang, starter ? "process_starter" : "process_registrant", "by", buf_str(&by), NULL);
}

/* `verdict` NULL: by the error. */
static json_t *error_result(const struct mcp_server *server, const struct op *op, const struct tsk_error *err,
                            const char *verdict)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *document = json_of_error(err, lang_name(server->options.lang));
    const json_t *error = json_object_get(document, "error");
    buf_printf(&text, "%s: ", verdict ? verdict : call_verdict_of(op, err->code));
    if (!verdict && is_held_by_other(err))
        call_put_holder(&text, json_object_get(error, "context"));
    buf_printf(&text, "%s (%s)", json_get_string(error, "message", ""), code_info(err->code)->name);
    call_put_starter(&text, server->options.lang, err, json_object_get(error, "context"));
    call_put_next(&text, server, json_object_get(error, "next"));
    json_t *result = mcp_text_result(buf_str(&text), true);
    json_object_set_new(result, "structuredContent", document);
    return result;
}

/* Why an answer is no success: its message, or of a run that failed the first task, or its status. */
static void put_error_reason(struct buf *b, const struct mcp_server *server, const struct op_call *call,
                             const json_t *answer)
{
    const char *message = json_get_string(answer, "message", NULL), *run = json_get_string(answer, "run_id", NULL);
    const json_t *failure = json_array_get(json_object_get(answer, "failures"), 0);
    buf_printf(b, "%s: ", call_verdict_of(call->op, call->verdict));
    if (message)
        buf_puts(b, message);
    else if (failure)
        buf_printf(b, "%s: %s", json_get_string(failure, "task", "?"), json_get_string(failure, "reason", "?"));
    else
        buf_puts(b, json_get_string(answer, "status", "no success"));
    buf_printf(b, " (%s)", code_info(call->verdict)->name);
    if (run) {
        json_t *next CLEANUP_JSON = json_array();
        json_array_append_new(next, json_sprintf("tasuki runs logs %s", run));
        json_array_append_new(next, json_sprintf("tasuki resume %s", run));
        call_put_next(b, server, next);
    }
    buf_puts(b, "\n");
}

/* An answer that is no success: a refusal of what was asked for, but not of a question how things are; unless the question was
 * wrong, or could not be looked into. */
static json_t *answer_result(const struct mcp_server *server, const struct op_call *call, json_t *answer_take)
{
    struct buf prefix CLEANUP(buf_clear) = BUF_INIT;
    bool is_question = call->op->flags & (OP_READ_ONLY | OP_QUESTION);
    bool is_failure = call->verdict == TSK_INVALID_INPUT || call->verdict == TSK_ENVIRONMENT;
    bool is_error = code_info(call->verdict)->http_status >= 400 && (!is_question || is_failure);
    if (is_error)
        put_error_reason(&prefix, server, call, answer_take);
    json_t *result = structured_result(buf_str(&prefix), answer_take, is_error);
    if (call->verdict != TSK_OK)
        json_object_set_new(result, "_meta", json_pack("{s:s}", "tasuki/reasonCode", code_info(call->verdict)->name));
    return result;
}

/* ---- arguments ---- */

/* The caller is known here: no agent may act as another one. */
static int refuse_caller(const struct mcp_server *server, const struct op *op, const json_t *args,
                         struct tsk_error *err)
{
    for (const struct op_param *param = op->params; param->name && !server->options.is_shared; param++)
        if ((param->flags & OP_CALLER) && json_object_get(args, param->name))
            return error_set(err, TSK_INVALID_INPUT, "param_unknown", "param", param->name, "operation", op->name,
                             NULL);
    return 0;
}

/* An agent does not have to say it, either. */
static void add_caller_args(struct mcp_server *server, const struct op *op, json_t *args)
{
    const struct op_param *param = op_param_find(op, "instance");
    if (!param || !(param->flags & OP_CALLER) || json_object_get(args, "instance"))
        return;
    const char *instance = mcp_server_instance(server);
    if (instance[0])
        json_object_set_new(args, "instance", json_string(instance));
}

static int prove_caller(struct mcp_request *request, const json_t *args, const char *secret, struct tsk_error *err)
{
    struct mcp_server *server = request->link->server;
    const char *instance = json_get_string(args, "instance", request->caller);
    if (!server->options.is_shared || !instance || !*instance)
        return 0;
    if (op_verify_caller(mcp_server_workspace(server), instance, secret, err) < 0)
        return -1;
    mcp_link_hear(request->link, instance);
    return 0;
}

/* ---- the call ---- */

static bool call_is_cancelled(struct op_call *call)
{
    return mcp_request_is_over(call->skin);
}

static void note_process(struct mcp_server *server, const json_t *process)
{
    const char *id = json_get_string(process, "id", NULL);
    if (!id || !json_text_is(process, "state_name", "Running"))
        return;
    pthread_mutex_lock(&server->mutex);
    if (!server->started)
        server->started = json_object();
    json_object_set_new(server->started, id, json_true());
    pthread_mutex_unlock(&server->mutex);
}

/* What a call has started: one process, or `processes`. */
static void note_started(struct mcp_server *server, const struct op *op, const json_t *answer)
{
    static const char *const starts[] = {"process.create", "process.start", "process.restart", "template.use"};
    bool is_start = false;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        is_start |= strcmp(op->name, starts[i]) == 0;
    if (!is_start)
        return;
    note_process(server, answer);
    json_each (json_object_get(answer, "processes"), i, process)
        note_process(server, process);
}

void mcp_stop_started(struct mcp_server *server)
{
    const char *value = getenv("TASUKI_STOP_ON_SHUTDOWN");
    if (!value)
        value = getenv("VANTAGE_STOP_ON_SHUTDOWN");
    if (!value || (strcmp(value, "true") != 0 && strcmp(value, "1") != 0))
        return;
    json_each_key (server->started, id) {
        struct tsk_error err;
        json_decref(mcp_run_op(server, "process.stop", json_pack("{s:[s]}", "id", id), &err)); /* it may have ended */
    }
}

static int call_perform(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct mcp_request *request = call->skin;
    mcp_request_may_signal(request, call->op->flags & OP_INTERRUPTIBLE);
    int result = op_run(call, ret, err);
    mcp_request_may_signal(request, false);
    if (result == 0)
        note_started(request->link->server, call->op, *ret);
    return result;
}

/* Not its time was up: we end before it. */
static bool was_cut_short(struct mcp_request *request, const struct op *op, enum tsk_code code)
{
    return code == TSK_CONFLICT && (op->flags & OP_WAITS) && mcp_request_is_over(request);
}

static json_t *run_tool(struct mcp_request *request, const struct op *op, json_t *args, json_t *given,
                        struct tsk_error *err)
{
    struct mcp_server *server = request->link->server;
    json_t *answer = NULL;
    struct op_call call = {.op = op,
                           .args = args,
                           .ws = request->ws,
                           .root = server->options.root,
                           .lang = server->options.lang,
                           .is_remote = server->options.is_shared,
                           .is_borrowed = atomic_load(&server->is_borrowed),
                           .is_brief = true,
                           .is_written = true,
                           .confirm = mcp_asking_confirm,
                           .is_cancelled = call_is_cancelled,
                           .skin = request};
    call.home = call.is_remote ? call.ws : NULL;
    if (op->flags & OP_NO_WORKSPACE)
        call.ws = NULL;
    int result = call_perform(&call, &answer, err);
    json_decref(call.aside);
    if (was_cut_short(request, op, result < 0 ? err->code : call.verdict)) {
        *err = (struct tsk_error){0};
        result = error_set(err, TSK_ENVIRONMENT, "mcp_ending", NULL);
    }
    if (result == 0 && call.is_remote)
        mcp_link_remember(request->link, op, answer);
    if (result == 0 && !answer) /* something in it is not UTF-8 */
        result = error_set(err, TSK_INTERNAL, "mcp_no_answer", "tool", op->mcp.tool, NULL);
    bool is_refusal = result < 0 || call.verdict != TSK_OK;
    if (is_refusal && (request->asking.is_open || request->asking.is_refused)) {
        json_decref(answer);
        json_t *round_trip = mcp_asking_end(request, op, given, err);
        return round_trip ? round_trip : error_result(server, op, err, request->asking.is_refused ? "REFUSED" : NULL);
    }
    if (result == 0)
        return answer_result(server, &call, answer);
    json_decref(answer);
    return error_result(server, op, err, NULL);
}

json_t *mcp_call(struct mcp_request *request, struct mcp_fault *fault)
{
    const struct op *op = request->tool->op;
    struct mcp_server *server = request->link->server;
    struct tsk_error err = {0};
    json_t *given CLEANUP_JSON = json_deep_copy(json_object_get(request->params, "arguments"));
    if (!given)
        given = json_object();
    bool takes_caller = server->options.is_shared || op_param_find(op, "instance");
    char *secret CLEANUP_FREE = takes_caller ? op_take_secret(op, given) : NULL;
    char *caller CLEANUP_FREE = takes_caller ? op_take_caller(op, given) : NULL;
    request->caller = caller;
    if (mcp_asking_begin(request, op, given, &err, fault) < 0)
        return fault->code ? NULL : error_result(server, op, &err, NULL);
    json_t *args CLEANUP_JSON = json_deep_copy(given);
    if (op_check_remote(op, args, &err) < 0 || refuse_caller(server, op, args, &err) < 0)
        return error_result(server, op, &err, NULL);
    add_caller_args(server, op, args);
    if (op_check_args(op, args, &err) < 0 || prove_caller(request, args, secret, &err) < 0)
        return error_result(server, op, &err, NULL);
    int64_t ttl_ms = json_get_int(args, "ttl", INT64_MAX);
    if (ttl_ms < atomic_load(&server->ttl_ms))
        atomic_store(&server->ttl_ms, ttl_ms); /* stdio.c keeps what was locked with it */
    request->ws = mcp_server_workspace(server);
    request->args = args;
    mcp_who_enter(request); /* also who asks */
    json_t *result = run_tool(request, op, args, given, &err);
    mcp_who_leave();
    request->caller = NULL;
    request->args = NULL;
    return result;
}

json_t *mcp_run_op(struct mcp_server *server, const char *op_name, json_t *args_take, struct tsk_error *err)
{
    json_t *answer = NULL, *args CLEANUP_JSON = args_take;
    const struct op *op = op_by_name(op_name);
    BUG(!op);
    struct op_call call = {.op = op,
                           .args = args,
                           .ws = op->flags & OP_NO_WORKSPACE ? NULL : mcp_server_workspace(server),
                           .root = server->options.root,
                           .lang = server->options.lang};
    if (op_check_args(op, args, err) < 0 || op_run(&call, &answer, err) < 0)
        return NULL;
    json_decref(call.aside);
    if (!answer)
        error_set(err, TSK_INTERNAL, "mcp_no_answer", "tool", op_name, NULL);
    return answer;
}
