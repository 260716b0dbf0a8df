/* caller.c - who speaks through a connection: named in the request, proved in a worker, kept alive while a stream is open.
 *
 * Every request can name its caller in the headers Tasuki-Instance and Tasuki-Secret, so that a secret does not become part of a
 * URL. A request that changes something can name it in its arguments (`instance`, `secret`) instead. The arguments win over the
 * headers: a client may send the same headers with all its requests, also with those that it makes for another caller. */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 256

static char *header_of(const struct http_conn *conn, const char *name)
{
    const struct http_text *text = http_header(conn->head, name);
    return text && text->len > 0 && text->len <= HEADER_MAX ? strndup(text->at, text->len) : NULL;
}

static int check_header(const struct http_conn *conn, const char *name, struct tsk_error *err)
{
    unsigned count = 0;
    for (unsigned i = 0; i < conn->head->count; i++)
        count += http_text_is_caseless(&conn->head->headers[i].name, name);
    if (count <= 1 && (count == 0 || http_header(conn->head, name)->len <= HEADER_MAX))
        return 0;
    return error_set(err, TSK_INVALID_INPUT, "http_caller_header", "name", name, NULL);
}

int caller_check_headers(const struct http_conn *conn, struct tsk_error *err)
{
    return check_header(conn, CALLER_HEADER, err) < 0 ? -1 : check_header(conn, SECRET_HEADER, err);
}

int caller_check(const struct http_conn *conn, const struct op *op, const json_t *args, struct tsk_error *err)
{
    const json_t *secret = json_object_get(args, OP_SECRET);
    if (secret && !json_is_string(secret) && op_takes_caller(op))
        return error_set(err, TSK_INVALID_INPUT, "param_type", "param", OP_SECRET, "want", "string", NULL);
    return caller_check_headers(conn, err);
}

struct http_caller caller_of_headers(const struct http_conn *conn)
{
    return (struct http_caller){header_of(conn, CALLER_HEADER), header_of(conn, SECRET_HEADER)};
}

static char *take_argument(json_t *args, const char *name)
{
    const char *value = json_get_string(args, name, NULL);
    char *copy = value ? strdup(value) : NULL;
    if (value)
        json_object_del(args, name);
    return copy;
}

struct http_caller caller_take(const struct http_conn *conn, const struct op *op, json_t *args, bool streams)
{
    struct http_caller caller = {op_take_caller(op, args), op_take_secret(op, args)};
    bool has_param = op_param_find(op, "instance");
    if (streams && !op_takes_caller(op)) {
        caller.instance = take_argument(args, "instance");
        caller.secret = take_argument(args, OP_SECRET);
    }
    const struct http_text *header = http_header(conn->head, CALLER_HEADER);
    const char *said = json_get_string(args, "instance", caller.instance);
    const json_t *given = json_object_get(args, "instance");
    bool is_odd = given && !json_is_string(given) && !json_is_null(given); /* is refused with the other arguments */
    if (caller.secret || is_odd || (said && !http_text_is(header, said)))
        return caller; /* said in full, or the headers are another's */
    free(caller.instance);
    caller = caller_of_headers(conn);
    json_t *name = caller.instance && has_param ? json_string(caller.instance) : NULL;
    if (name)
        json_object_set_new(args, "instance", name);
    return caller;
}

void caller_clear(struct http_caller *caller)
{
    free(caller->instance);
    free(caller->secret);
    *caller = (struct http_caller){0};
}

static void lease_fail(struct http_job *job, const struct tsk_error *err)
{
    json_t *document CLEANUP_JSON = json_of_error(err, lang_name(job->lang));
    job->status = code_info(err->code)->http_status;
    json_write(&job->body, document, false);
    buf_puts(&job->body, "\n");
}

void caller_verify(struct http_job *job)
{
    struct tsk_error err = {0};
    job->status = 200;
    if (op_verify_caller(job->server->ws, job->caller.instance, job->caller.secret, &err) < 0)
        lease_fail(job, &err);
}

/* ---- an open stream ---- */

static void lease_renew(struct http_job *job)
{
    json_each_key (job->args, instance) {
        struct tsk_error gone; /* it may have ended meanwhile */
        op_renew_caller(job->server->ws, instance, &gone);
    }
}

static void begin_renewal(struct http_server *server);

static void lease_renewed(struct http_job *job)
{
    job->server->is_renewing = false;
    begin_renewal(job->server);
}

/* One job at a time for all who are due, each once however many streams it has. */
static void begin_renewal(struct http_server *server)
{
    if (server->is_renewing || !server->to_renew)
        return;
    struct http_job *job = job_new(server, NULL, lease_renew);
    job->args = server->to_renew;
    job->done = lease_renewed;
    server->to_renew = NULL;
    server->is_renewing = true;
    job_start(job);
}

void caller_renew(struct http_server *server, const char *instance)
{
    if (!instance || !*instance)
        return;
    if (!server->to_renew)
        server->to_renew = json_object();
    json_object_set_new(server->to_renew, instance, json_true());
    begin_renewal(server);
}

void caller_renew_all(struct http_server *server, const json_t *instances)
{
    json_each (instances, i, instance)
        caller_renew(server, json_string_value(instance));
}

/* ---- the end ---- */

static void callers_end(struct http_job *job)
{
    job->status = 200;
    json_each (job->args, i, instance) {
        struct tsk_error err = {0};
        if (op_end_instance(job->server->ws, job->server->root, json_string_value(instance), NULL, &err) < 0 &&
            job->status == 200)
            lease_fail(job, &err);
    }
    if (job->status == 200)
        job->type = NULL;
}

void caller_end_all(struct http_conn *conn, json_t *instances_take)
{
    struct http_job *job = job_new(conn->server, conn, callers_end);
    job->args = instances_take;
    job_start(job);
}
