#include "http/agents.h"

#include <string.h>

/* ---- a tool's arguments ---- */

/* The operation of a tool call whose arguments may name the caller (op_takes_caller), or NULL for any other message. */
static const struct op *acting_op(const struct http_agents *agents, const json_t *message)
{
    const json_t *params = json_object_get(message, "params");
    if (!json_text_is(message, "method", "tools/call"))
        return NULL;
    const struct op *op = mcp_server_op(agents->mcp, json_get_string(params, "name", ""));
    return op && op_takes_caller(op) ? op : NULL;
}

/* What they lack is taken from the headers; they are proved with the call, whose refusal a model can read. false: the headers name
 * somebody whom no argument can, because it is not UTF-8. */
static bool complete_call(const struct http_conn *conn, const struct op *op, json_t *message)
{
    json_t *params = json_object_get(message, "params");
    if (!json_object_get(params, "arguments"))
        json_object_set_new(params, "arguments", json_object());
    json_t *args = json_object_get(params, "arguments"), *secret = json_object_get(args, OP_SECRET);
    if (!json_is_object(args) || (secret && !json_is_string(secret)))
        return true; /* is refused with the other arguments */
    struct http_caller caller = caller_take(conn, op, args, false);
    if (caller.instance && !json_object_get(args, "instance"))
        json_object_set_new(args, "instance", json_string(caller.instance));
    bool is_said = !caller.instance || json_is_string(json_object_get(args, "instance"));
    if (caller.secret)
        json_object_set_new(args, OP_SECRET, json_string(caller.secret));
    caller_clear(&caller);
    return is_said;
}

/* ---- all else ---- */

static void caller_admitted(struct http_job *job)
{
    struct exchange *exchange = exchange_find(job->server->agents, job->exchange);
    if (!exchange) /* the client is gone */
        return;
    json_t *message = exchange->message;
    exchange->message = NULL;
    if (job->status == 200 && !job->server->is_ending) {
        exchange->instance = job->caller.instance;
        job->caller.instance = NULL;
        agents_begin(exchange, message);
        return;
    }
    struct http_conn *conn = exchange->conn;
    json_decref(message);
    exchange_drop(exchange);
    if (job->status == 200)
        conn_refuse(conn, 503, TSK_ENVIRONMENT, "http_ending");
    else
        conn_answer(conn, job->status, job->type, NULL, job->body.data, job->body.len);
}

static void caller_prove(struct exchange *exchange, struct http_caller caller_take_it, json_t *message_take)
{
    struct http_job *job = job_new(exchange->agents->server, NULL, caller_verify);
    job->lang = exchange->conn->lang;
    job->caller = caller_take_it;
    job->exchange = exchange->number;
    job->done = caller_admitted;
    exchange->message = message_take;
    job_start(job);
}

void agents_admit(struct exchange *exchange, json_t *message_take)
{
    struct http_conn *conn = exchange->conn;
    const struct op *op = message_take ? acting_op(exchange->agents, message_take) : NULL;
    struct tsk_error err = {0};
    if (caller_check_headers(conn, &err) < 0) {
        struct buf body CLEANUP(buf_clear) = BUF_INIT;
        json_t *document CLEANUP_JSON = json_of_error(&err, lang_name(conn->lang));
        json_write(&body, document, false);
        json_decref(message_take);
        exchange_drop(exchange);
        conn_answer(conn, code_info(err.code)->http_status, "application/json", NULL, body.data, body.len);
        return;
    }
    bool is_said = op && complete_call(conn, op, message_take);
    struct http_caller caller = is_said ? (struct http_caller){0} : caller_of_headers(conn);
    if (caller.instance) {
        caller_prove(exchange, caller, message_take);
        return;
    }
    caller_clear(&caller);
    agents_begin(exchange, message_take);
}
