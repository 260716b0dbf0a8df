/* call.c - from a tool's arguments to an operation, and from its outcome to what a model reads. */
#include "mcp/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- results ---- */

json_t *mcp_text_result(const char *text, bool is_error)
{
    json_t *result = json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text);
    if (is_error)
        json_object_set_new(result, "isError", json_true());
    return result;
}

/* The same JSON as text and as structure: clients show one or the other. */
static json_t *structured_result(const char *prefix, json_t *structure_take, bool is_error)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, prefix);
    json_write(&text, structure_take, false);
    json_t *result = mcp_text_result(buf_str(&text), is_error);
    json_object_set_new(result, "structuredContent", structure_take);
    return result;
}

/* The first words, so that who only skims stops here. */
static const char *verdict_of(const struct op *op, enum tsk_code code)
{
    const char *category = code_info(code)->category;
    if (code == TSK_NEEDS_CONFIRMATION)
        return "NEEDS CONFIRMATION";
    if (code == TSK_INVALID_INPUT)
        return "INVALID INPUT";
    if (strcmp(category, "OWNERSHIP") == 0)
        return "error"; /* the seed's words, which its clients look for */
    if (op->mcp.refusal)
        return op->mcp.refusal;
    return strcmp(category, "NOT_FOUND") == 0 ? "NOT FOUND" : "FAILED";
}

static json_t *error_result(const struct mcp_server *server, const struct op *op, const struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *document = json_of_error(err, lang_name(server->options.lang));
    const json_t *error = json_object_get(document, "error"), *next = json_object_get(error, "next");
    size_t i;
    json_t *command;
    buf_printf(&text, "%s: %s (%s)", verdict_of(op, err->code), json_get_string(error, "message", ""),
               code_info(err->code)->name);
    json_array_foreach (next, i, command)
        buf_printf(&text, "%s%s", i ? "; " : "\nNext: ", json_string_value(command));
    json_t *result = mcp_text_result(buf_str(&text), true);
    json_object_set_new(result, "structuredContent", document);
    return result;
}

/* An answer that is no success: a refusal of what was asked for, but not of a question how things are. */
static json_t *answer_result(const struct op_call *call, json_t *answer_take)
{
    struct buf prefix CLEANUP(buf_clear) = BUF_INIT;
    bool is_error = code_info(call->verdict)->http_status >= 400 && !(call->op->flags & (OP_READ_ONLY | OP_QUESTION));
    if (is_error) {
        const char *message = json_get_string(answer_take, "message", NULL);
        buf_printf(&prefix, "%s: ", verdict_of(call->op, call->verdict));
        if (message)
            buf_printf(&prefix, "%s (%s)\n", message, code_info(call->verdict)->name);
    }
    json_t *result = structured_result(buf_str(&prefix), answer_take, is_error);
    if (call->verdict != TSK_OK)
        json_object_set_new(result, "_meta", json_pack("{s:s}", "tasuki/reasonCode", code_info(call->verdict)->name));
    return result;
}

/* ---- arguments ---- */

/* Who calls is known here; an agent does not have to say it. */
static void add_caller(struct mcp_server *server, const struct op *op, json_t *args)
{
    const struct op_param *param = op_param_find(op, "instance");
    if (!param || !(param->flags & OP_CALLER) || json_object_get(args, "instance"))
        return;
    const char *instance = mcp_server_instance(server);
    if (instance[0])
        json_object_set_new(args, "instance", json_string(instance));
}

/* ---- the call ---- */

static bool is_cancelled(struct op_call *call)
{
    return mcp_request_is_over(call->skin);
}

static int perform(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct mcp_request *request = call->skin;
    mcp_request_may_signal(request, call->op->flags & OP_INTERRUPTIBLE);
    int result = op_run(call, ret, err);
    mcp_request_may_signal(request, false);
    return result;
}

static json_t *run_tool(struct mcp_request *request, const struct op *op, json_t *args, json_t *given,
                        struct tsk_error *err)
{
    struct mcp_server *server = request->link->server;
    json_t *answer = NULL;
    struct op_call call = {.op = op,
                           .args = args,
                           .ws = mcp_server_workspace(server),
                           .root = server->options.root,
                           .lang = server->options.lang,
                           .confirm = mcp_asking_confirm,
                           .is_cancelled = is_cancelled,
                           .skin = request};
    if (op->flags & OP_NO_WORKSPACE)
        call.ws = NULL;
    int result = perform(&call, &answer, err);
    json_decref(call.aside);
    bool is_refusal = result < 0 || call.verdict != TSK_OK;
    if (is_refusal && (request->asking.is_open || request->asking.is_refused)) {
        json_decref(answer);
        json_t *round_trip = mcp_asking_end(request, op, given, err);
        return round_trip ? round_trip : error_result(server, op, err);
    }
    return result < 0 ? error_result(server, op, err) : answer_result(&call, answer ? answer : json_object());
}

json_t *mcp_call(struct mcp_request *request, struct mcp_fault *fault)
{
    const struct op *op = request->tool->op;
    struct mcp_server *server = request->link->server;
    struct tsk_error err = {0};
    json_t *given CLEANUP_JSON = json_deep_copy(json_object_get(request->params, "arguments"));
    if (!given)
        given = json_object();
    if (mcp_asking_begin(request, op, given, &err, fault) < 0)
        return fault->code ? NULL : error_result(server, op, &err);
    json_t *args CLEANUP_JSON = json_deep_copy(given);
    if (op_check_remote(op, args, &err) < 0)
        return error_result(server, op, &err);
    add_caller(server, op, args);
    if (op_check_args(op, args, &err) < 0)
        return error_result(server, op, &err);
    return run_tool(request, op, args, given, &err);
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
    return answer;
}
