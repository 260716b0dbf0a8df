/* dispatch.c - a complete request: to a row, or to one of the few paths that are no operation. */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static void answer_error(struct http_conn *conn, const struct tsk_error *err, int status, const char *headers)
{
    struct buf body CLEANUP(buf_clear) = BUF_INIT;
    json_t *document CLEANUP_JSON = json_of_error(err, lang_name(conn->lang));
    json_write(&body, document, false);
    buf_puts(&body, "\n");
    conn_answer(conn, status ? status : code_info(err->code)->http_status, "application/json", headers, body.data,
                body.len);
}

static void no_method(struct http_conn *conn, const char *allow)
{
    struct tsk_error err = {0};
    char header[96];
    error_set(&err, TSK_INVALID_INPUT, "http_no_method", "want", allow, NULL);
    snprintf(header, sizeof header, "Allow: %s\r\n", allow);
    answer_error(conn, &err, 405, header);
}

static void no_path(struct http_conn *conn)
{
    struct tsk_error err = {0};
    error_set(&err, TSK_NOT_FOUND, "http_no_path", NULL);
    error_add_next(&err, "tasuki help --json");
    answer_error(conn, &err, 0, NULL);
}

/* ---- operations ---- */

enum lang http_lang(const struct http_head *head, enum lang otherwise)
{
    const struct http_text *header = http_header(head, "Accept-Language");
    enum lang lang = otherwise;
    if (header && header->len >= 2)
        lang_parse((char[]){header->at[0], header->at[1], '\0'}, &lang);
    return lang;
}

/* The body as an object; *ret stays NULL without one. */
static int dispatch_take_body(const struct http_conn *conn, json_t **ret, struct tsk_error *err)
{
    if (conn->body.len == 0)
        return 0;
    if (json_parse(buf_str(&conn->body), conn->body.len, "body", ret, err) < 0) {
        err->code = TSK_INVALID_INPUT;
        return -1;
    }
    return json_is_object(*ret) ? 0 : error_set(err, TSK_INVALID_INPUT, "http_body_not_object", NULL);
}

/* Live is what /api/events is for: only who asks for JSON, or for a page, gets a list. */
static bool is_live_by_itself(const struct http_conn *conn, const json_t *args)
{
    if (!http_text_is(&conn->head->path, "/api/events"))
        return false;
    if (http_header(conn->head, "Last-Event-ID"))
        return true;
    return !http_text_has(http_header(conn->head, "Accept"), "application/json") && !json_object_get(args, "limit") &&
           !json_object_get(args, "after") && !json_object_get(args, "before");
}

static bool wants_stream(const struct http_conn *conn, const struct http_route *route, const json_t *args)
{
    bool is_get = http_text_is(&conn->head->method, "GET") || conn->is_head_only; /* what does something does it once */
    bool is_asked = is_get && (http_text_has(http_header(conn->head, "Accept"), "text/event-stream") ||
                               is_live_by_itself(conn, args));
    return (route->op->flags & OP_STREAMS) &&
           (is_asked || (route->preset && strcmp(route->preset, "follow=true") == 0));
}

static void begin_feed(struct http_conn *conn, const json_t *args, const char *instance)
{
    static const char *const filters[] = {"type", "thing", "actor", "since", "until"};
    bool has_after = json_object_get(args, "after"), has_filter = false;
    struct event_filter filter;
    struct tsk_error err = {0};
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++)
        has_filter |= json_object_get(args, filters[i]) != NULL;
    if (event_filter_take(args, &filter, &err) < 0) {
        answer_error(conn, &err, code_info(err.code)->http_status, NULL);
        return;
    }
    struct feed_wish wish = {.after = has_after ? (uint64_t)json_get_int(args, "after", 0) : EVENT_FROM_END,
                             .filter = has_filter ? args : NULL,
                             .instance = instance,
                             .has_time = json_get_bool(args, "beat", false),
                             .has_usage = json_get_bool(args, "usage", false)};
    feed_stream(&conn->server->feed, conn, &wish);
}

static void listener_verified(struct http_job *job)
{
    struct http_conn *conn = job->conn;
    if (conn && job->status == 200 && job->server->is_ending)
        conn_refuse(conn, 503, TSK_ENVIRONMENT, "http_ending");
    else if (conn && job->status == 200)
        begin_feed(conn, job->args, job->caller.instance);
    else if (conn)
        conn_answer(conn, job->status, job->type, NULL, job->body.data, job->body.len);
}

/* The trail is one for all (feed.c); other streams have a thread each. */
static void begin_stream(struct http_conn *conn, const struct http_route *route, json_t *args_take,
                         struct http_caller caller_take_it)
{
    const struct http_text *last = http_header(conn->head, "Last-Event-ID");
    char id[64] = "";
    if (last && last->len < sizeof id)
        snprintf(id, sizeof id, "%.*s", (int)last->len, last->at);
    if (!http_text_is(&conn->head->path, "/api/events")) {
        if (*id && op_param_find(route->op, "cursor"))
            json_object_set_new(args_take, "cursor", json_string(id));
        stream_begin(conn, route->op, args_take, conn->lang, caller_take_it);
        return;
    }
    char *end;
    uint64_t after = strtoull(id, &end, 10);
    if (*id >= '0' && *id <= '9' && !*end)
        json_object_set_new(args_take, "after", json_integer((json_int_t)after));
    if (!caller_take_it.instance) {
        begin_feed(conn, args_take, NULL);
        json_decref(args_take);
        caller_clear(&caller_take_it);
        return;
    }
    struct http_job *job = job_new(conn->server, conn, caller_verify);
    job->args = args_take; /* whole: references are not for two threads */
    job->lang = conn->lang;
    job->caller = caller_take_it;
    job->done = listener_verified;
    job_start(job);
}

/* Takes `confirm` out of the arguments: it is the caller's yes, not a parameter. */
static bool take_yes(const struct op *op, json_t *args)
{
    bool says_yes = op_asks(op) && json_get_bool(args, "confirm", false);
    if (op_asks(op))
        json_object_del(args, "confirm");
    return says_yes;
}

static void begin_op(struct http_conn *conn, const struct http_route *route, json_t *args_take, struct tsk_error *err)
{
    bool says_yes = take_yes(route->op, args_take), streams = wants_stream(conn, route, args_take);
    int checked = caller_check(conn, route->op, args_take, err);
    struct http_caller caller = caller_take(conn, route->op, args_take, streams);
    if (streams)
        json_object_del(args_take, "follow");
    if (conn->is_head_only) /* nobody would hear of it */
        json_object_del(args_take, "register");
    conn->op = route->op;
    if (checked < 0 || op_check_remote(route->op, args_take, err) < 0 || op_check_args(route->op, args_take, err) < 0) {
        json_decref(args_take);
        caller_clear(&caller);
        answer_error(conn, err, 0, NULL);
        return;
    }
    if (streams) {
        begin_stream(conn, route, args_take, caller);
        return;
    }
    struct http_job *job = job_new(conn->server, conn, job_run_op);
    job->op = route->op;
    job->args = args_take;
    job->lang = conn->lang;
    job->says_yes = says_yes;
    job->caller = caller;
    job_start(job);
}

static void dispatch_row(struct http_conn *conn)
{
    struct tsk_error err = {0};
    json_t *body CLEANUP_JSON = NULL, *args = NULL;
    struct http_route route = {0};
    char allow[64];
    if (dispatch_take_body(conn, &body, &err) < 0) {
        answer_error(conn, &err, 0, NULL);
        return;
    }
    switch (route_find(conn->head, body, &route, &args, allow, &err)) {
    case ROUTE_NO_PATH:
        no_path(conn);
        return;
    case ROUTE_NO_METHOD:
        no_method(conn, allow);
        return;
    case ROUTE_FOUND:
        break;
    }
    if (err.code == TSK_OK) {
        begin_op(conn, &route, args, &err);
        return;
    }
    json_decref(args);
    answer_error(conn, &err, 0, NULL);
}

/* ---- other paths ---- */

static void get_health(struct http_conn *conn)
{
    static const char body[] = "{\"status\":\"ok\"}\n";
    conn_answer(conn, 200, "application/json", NULL, body, sizeof body - 1);
}

static void get_openapi(struct http_conn *conn)
{
    struct buf *document = &conn->server->openapi;
    if (!document->len)
        openapi_write(document);
    conn_answer(conn, 200, "application/json", NULL, document->data, document->len);
}

static void get_metrics(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    stats_open(server->stats, server->conn_count, server->stream_count);
    job_start(job_new(server, conn, stats_job));
}

typedef void get_fn(struct http_conn *conn);

/* The few paths that are no operation and no file of the page; NULL: it is not one of them. */
static get_fn *fixed_at(const struct http_text *path)
{
    static const struct {
        const char *path;
        get_fn *get;
    } fixed[] = {
        {"/healthz", get_health},
        {"/metrics", get_metrics},
        {"/api/openapi.json", get_openapi},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (http_text_is(path, fixed[i].path))
            return fixed[i].get;
    return NULL;
}

void http_dispatch(struct http_conn *conn)
{
    const struct http_head *head = conn->head;
    if (conn->server->is_ending) {
        conn_refuse(conn, 503, TSK_ENVIRONMENT, "http_ending");
        return;
    }
    if (http_text_is(&head->path, "/mcp")) {
        agents_request(conn);
        return;
    }
    get_fn *get = page_has(&head->path) ? page_get : fixed_at(&head->path);
    if (!get)
        dispatch_row(conn);
    else if (http_text_is(&head->method, "GET") || conn->is_head_only)
        get(conn);
    else
        no_method(conn, "GET");
}
