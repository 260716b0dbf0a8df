/* link.c - one connection: frames in, frames out, what runs in between. */
#include "base/clock.h"
#include "base/utf8.h"
#include "mcp/internal.h"
#include "mcp/pool.h"
#include "mcp/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LINK_CANCEL_MS = 50, /* a signal may come just before the wait that it should end */
    LINK_TICK_MS = 1000,
};

/* ---- frames out ---- */

static void send_frame(struct mcp_link *link, const struct buf *b, struct mcp_frame frame)
{
    if (b->failed)
        return;
    frame.text = b->data;
    frame.about = frame.about ? frame.about : link->number;
    frame.len = b->len;
    pthread_mutex_lock(&link->send_mutex);
    link->send(link->data, &frame);
    pthread_mutex_unlock(&link->send_mutex);
}

void mcp_link_send(struct mcp_link *link, uint64_t about, const struct buf *b)
{
    send_frame(link, b, (struct mcp_frame){.about = about});
}

void mcp_link_answer(struct mcp_link *link, uint64_t about, const struct buf *b, int error)
{
    send_frame(link, b, (struct mcp_frame){.about = about, .is_answer = true, .error = error});
}

static void put_frame_head(struct buf *b, const json_t *id)
{
    buf_puts(b, "{\"jsonrpc\":\"2.0\"");
    if (id) {
        buf_puts(b, ",\"id\":");
        json_write(b, id, false);
    }
}

void mcp_put_frame(struct buf *b, const json_t *id, const char *key, const json_t *value)
{
    put_frame_head(b, id);
    buf_printf(b, ",\"%s\":", key);
    json_write(b, value, false);
    buf_puts(b, "}");
}

void mcp_link_message(struct mcp_link *link, uint64_t about, const json_t *id, const char *method, const json_t *params)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    put_frame_head(&b, id);
    buf_puts(&b, ",\"method\":");
    buf_json_string(&b, method);
    if (params) {
        buf_puts(&b, ",\"params\":");
        json_write(&b, params, false);
    }
    buf_puts(&b, "}");
    mcp_link_send(link, about, &b);
}

void mcp_link_notify(struct mcp_link *link, uint64_t about, const char *method, json_t *params_take)
{
    mcp_link_message(link, about, NULL, method, params_take);
    json_decref(params_take);
}

json_t *mcp_fault(struct mcp_fault *fault, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->message, sizeof fault->message, format, args);
    va_end(args);
    size_t len = strlen(fault->message);
    bool is_cut = len == sizeof fault->message - 1;
    for (int i = 0; is_cut && i < 3 && !utf8_is_valid(fault->message, len); i++)
        fault->message[--len] = '\0';
    fault->code = code;
    return NULL;
}

json_t *mcp_missing_capability(struct mcp_fault *fault, const char *capability)
{
    bool is_extension = strchr(capability, '/') != NULL;
    fault->data = is_extension ? json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", capability)
                               : json_pack("{s:{s:{}}}", "requiredCapabilities", capability);
    return mcp_fault(fault, MCP_MISSING_CAPABILITY, "The client must declare the capability %s", capability);
}

void mcp_link_fault(struct mcp_link *link, uint64_t about, const json_t *id, struct mcp_fault *fault)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_t *error CLEANUP_JSON = json_pack("{s:i}", "code", fault->code);
    json_t *message = json_string(fault->message);
    json_object_set_new(error, "message", message ? message : json_string("Invalid")); /* a cut character */
    if (fault->data)
        json_object_set_new(error, "data", fault->data);
    fault->data = NULL;
    mcp_put_frame(&b, id, "error", error);
    mcp_link_answer(link, about, &b, fault->code);
}

static void take_response(struct mcp_link *link, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    pthread_mutex_lock(&link->mutex);
    for (struct mcp_question *question = link->questions; question; question = question->next)
        if (json_is_integer(id) && json_integer_value(id) == question->id && !question->answer)
            question->answer = json_deep_copy(message); /* jansson's references are not for two threads */
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
}

/* ---- frames in ---- */

static const json_t *meta_of(const json_t *params, const char *key)
{
    return json_object_get(json_object_get(params, "_meta"), key);
}

/* Which era a request belongs to, and what it must say for that. */
static json_t *enter_modern(struct mcp_request *request, struct mcp_fault *fault)
{
    const json_t *version = meta_of(request->params, MCP_META "protocolVersion");
    const json_t *capabilities = meta_of(request->params, MCP_META "clientCapabilities");
    request->is_modern = true;
    if (!json_is_string(version))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "_meta must have %sprotocolVersion", MCP_META);
    if (strcmp(json_string_value(version), MCP_MODERN) != 0) {
        fault->data = json_pack("{s:[s], s:O}", "supported", MCP_MODERN, "requested", version);
        return mcp_fault(fault, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version");
    }
    if (!json_is_object(capabilities))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "_meta must have %sclientCapabilities", MCP_META);
    request->capabilities = capabilities;
    return NULL;
}

static void enter_era(struct mcp_request *request, const char *method, struct mcp_fault *fault)
{
    struct mcp_link *link = request->link;
    bool has_meta =
        meta_of(request->params, MCP_META "protocolVersion") || meta_of(request->params, MCP_META "clientCapabilities");
    bool is_handshake = strcmp(method, "initialize") == 0 || strcmp(method, "ping") == 0;
    if (has_meta || (!mcp_method_find(method, false) && mcp_method_find(method, true))) {
        enter_modern(request, fault);
        return;
    }
    pthread_mutex_lock(&link->mutex);
    request->capabilities = link->capabilities;
    bool is_ready = link->version != NULL;
    pthread_mutex_unlock(&link->mutex);
    if (!is_ready && !is_handshake && mcp_method_find(method, false))
        mcp_fault(fault, MCP_INVALID_PARAMS, "Send initialize first, or say in _meta which protocol you speak (%s)",
                  MCP_MODERN);
}

/* The message goes to the request, and with it to another thread. */
static void take_request(struct mcp_link *link, uint64_t about, json_t *message_take, const json_t *id,
                         const char *method)
{
    struct mcp_fault fault = {0};
    struct mcp_request *request = memory_zeroed(1, sizeof *request);
    if (!json_object_get(message_take, "params"))
        json_object_set_new(message_take, "params", json_object());
    const json_t *params = json_object_get(message_take, "params");
    *request = (struct mcp_request){
        .link = link, .about = about, .message = message_take, .id = id, .params = params, .progress = -1};
    if (!json_is_object(params))
        mcp_fault(&fault, MCP_INVALID_PARAMS, "params must be an object");
    else
        enter_era(request, method, &fault);
    request->method = mcp_method_find(method, request->is_modern);
    if (!fault.code && !request->method)
        mcp_fault(&fault, MCP_METHOD_NOT_FOUND, "Method not found: %.100s", method);
    else if (!fault.code && (request->method->flags & MCP_NEEDS_TASKS) && !mcp_client_has_tasks(request))
        mcp_missing_capability(&fault, MCP_TASKS);
    if (!fault.code && request->method) {
        if (!(request->method->flags & MCP_BEFORE))
            mcp_server_instance(link->server);
        mcp_request_start(request);
        return;
    }
    mcp_link_fault(link, about, id, &fault);
    mcp_request_free(request);
}

/* `id` NULL: all requests. A task is cancelled only by its own method. */
static void cancel_requests(struct mcp_link *link, const json_t *id)
{
    pthread_mutex_lock(&link->mutex);
    for (struct mcp_request *request = link->running; request; request = request->next)
        if (!request->task && (!id || json_equal(request->id, id))) {
            request->is_cancelled = true;
            mcp_request_signal(request);
        }
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
}

static void take_notification(struct mcp_link *link, const json_t *message, const char *method)
{
    const json_t *id = json_object_get(json_object_get(message, "params"), "requestId");
    if (strcmp(method, "notifications/cancelled") == 0 && id) {
        cancel_requests(link, id);
        mcp_listen_cancel(link, id);
    } else if (strcmp(method, "notifications/initialized") == 0) {
        mcp_server_instance(link->server); /* from now on the agent is connected */
    }
}

static bool is_id(const json_t *id)
{
    return json_is_string(id) || json_is_integer(id);
}

/* An error without an id is about something of ours that the other side could not read: answering it with another one could go back and forth
 * for ever. */
static bool is_response(const json_t *message)
{
    const json_t *id = json_object_get(message, "id"), *error = json_object_get(message, "error");
    if (json_object_get(message, "method"))
        return false;
    return is_id(id) ? error || json_object_get(message, "result") : error && (!id || json_is_null(id));
}

bool mcp_wants_answer(const json_t *message)
{
    bool is_notification = json_get_string(message, "method", NULL) && !json_object_get(message, "id");
    return !json_text_is(message, "jsonrpc", "2.0") || !(is_notification || is_response(message));
}

void mcp_link_take(struct mcp_link *link, uint64_t about, const char *text, size_t len)
{
    struct mcp_fault fault = {0};
    struct tsk_error err = {0};
    json_t *message = NULL;
    size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* some write one at the start */
    if (json_parse(text + mark, len - mark, "frame", &message, &err) == 0) {
        mcp_link_take_json(link, about, message);
        return;
    }
    mcp_fault(&fault, MCP_PARSE_ERROR, "Parse error: %s", tsk_error_context(&err, "reason"));
    mcp_link_fault(link, about, NULL, &fault);
}

void mcp_link_take_json(struct mcp_link *link, uint64_t about, json_t *message_take)
{
    struct mcp_fault fault = {0};
    json_t *message CLEANUP_JSON = message_take;
    const json_t *id = json_object_get(message, "id");
    const char *method = json_get_string(message, "method", NULL);
    bool is_ours = json_text_is(message, "jsonrpc", "2.0");
    if (!mcp_wants_answer(message)) {
        if (method)
            take_notification(link, message, method);
        else
            take_response(link, message);
    } else if (is_ours && method && is_id(id)) {
        take_request(link, about, message, id, method);
        message = NULL;
    } else {
        mcp_fault(&fault, MCP_INVALID_REQUEST,
                  json_is_array(message) ? "Batches are not taken: one message per frame"
                                         : "Not a JSON-RPC 2.0 message with a string or integer id");
        mcp_link_fault(link, about, is_id(id) ? id : NULL, &fault);
    }
}

/* ---- the clock ---- */

/* The worker frees its request when it has taken it off the list; so one that is due is kept on it meanwhile. */
static bool tick_one(struct mcp_link *link, int64_t now_ms)
{
    pthread_mutex_lock(&link->mutex);
    for (struct mcp_request *request = link->running; request; request = request->next) {
        enum mcp_due due = mcp_request_due(request, now_ms);
        if (due == DUE_NOTHING)
            continue;
        request->is_held = true;
        pthread_mutex_unlock(&link->mutex);
        mcp_request_tick(request, due, now_ms);
        pthread_mutex_lock(&link->mutex);
        request->is_held = false;
        pthread_cond_broadcast(&link->changed);
        pthread_mutex_unlock(&link->mutex);
        return true;
    }
    pthread_mutex_unlock(&link->mutex);
    return false;
}

int mcp_link_tick(struct mcp_link *link)
{
    int64_t now_ms = clock_now().boot_ms;
    while (tick_one(link, now_ms))
        ;
    mcp_listen_tell(link);
    pthread_mutex_lock(&link->mutex);
    int next = link->listens ? LINK_TICK_MS : -1;
    for (struct mcp_request *request = link->running; request; request = request->next)
        next = request->is_cancelled ? LINK_CANCEL_MS : next == LINK_CANCEL_MS ? next : LINK_TICK_MS;
    pthread_mutex_unlock(&link->mutex);
    return pool_nudge(link->server->pool) ? POOL_STALL_MS : next;
}

int mcp_link_watch_fd(struct mcp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    int fd = link->watch_fd;
    pthread_mutex_unlock(&link->mutex);
    return fd;
}

/* ---- life ---- */

struct mcp_link *mcp_link_new(struct mcp_server *server, mcp_send *send, void *data)
{
    struct mcp_link *link = calloc(1, sizeof *link);
    pthread_condattr_t attr;
    BUG(!link);
    *link = (struct mcp_link){.server = server, .send = send, .data = data, .watch_fd = -1};
    pthread_mutex_init(&link->mutex, NULL);
    pthread_mutex_init(&link->send_mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_lock(&server->mutex);
    link->next = server->links;
    server->links = link;
    pthread_mutex_unlock(&server->mutex);
    return link;
}

/* Ends requests that only wait; the others finish. True if nothing runs. */
static bool end_waits(struct mcp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    link->is_ended = true;
    for (struct mcp_request *request = link->running; request; request = request->next)
        mcp_request_signal(request);
    bool is_idle = !link->running && !link->is_looking;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
    return is_idle;
}

void mcp_link_end(struct mcp_link *link, int64_t drain_ms)
{
    int64_t end = clock_now().boot_ms + drain_ms;
    while (!end_waits(link) && clock_now().boot_ms < end) {
        struct timespec soon = clock_deadline(CLOCK_MONOTONIC, LINK_CANCEL_MS);
        pool_nudge(link->server->pool);
        pthread_mutex_lock(&link->mutex);
        if (link->running || link->is_looking)
            pthread_cond_timedwait(&link->changed, &link->mutex, &soon);
        pthread_mutex_unlock(&link->mutex);
    }
    mcp_listen_clear(link, true);
}

void mcp_link_leave(struct mcp_link *link)
{
    cancel_requests(link, NULL);
    mcp_listen_clear(link, false);
}

void mcp_link_number(struct mcp_link *link, uint64_t number)
{
    link->number = number;
}

bool mcp_link_is_idle(struct mcp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool is_idle = !link->running && !link->is_looking && !link->listens;
    pthread_mutex_unlock(&link->mutex);
    return is_idle;
}

json_t *mcp_link_state(struct mcp_link *link)
{
    json_t *state = NULL;
    pthread_mutex_lock(&link->mutex);
    if (link->version)
        state = json_pack("{s:s, s:o, s:i, s:o}", "version", link->version, "capabilities",
                          link->capabilities ? json_deep_copy(link->capabilities) : json_object(), "log_level",
                          link->log_level, "subscriptions", mcp_listen_uris(link));
    if (state)
        json_object_set_new(state, "client", json_string(link->client));
    if (state && link->instances)
        json_object_set_new(state, "instances", json_deep_copy(link->instances));
    pthread_mutex_unlock(&link->mutex);
    return state;
}

void mcp_link_restore(struct mcp_link *link, const json_t *state)
{
    pthread_mutex_lock(&link->mutex);
    link->version = mcp_legacy_version(json_get_string(state, "version", ""));
    link->capabilities = json_deep_copy(json_object_get(state, "capabilities"));
    link->log_level = (int)json_get_int(state, "log_level", 0);
    who_copy(link->client, sizeof link->client, json_get_string(state, "client", NULL));
    mcp_listen_restore(link, json_object_get(state, "subscriptions"));
    link->instances = json_deep_copy(json_object_get(state, "instances"));
    pthread_mutex_unlock(&link->mutex);
}

json_t *mcp_link_instances(struct mcp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    json_t *instances = link->instances ? json_deep_copy(link->instances) : json_array();
    pthread_mutex_unlock(&link->mutex);
    return instances;
}

json_t *mcp_link_callers(struct mcp_link *link)
{
    json_t *callers = mcp_link_instances(link), *others;
    pthread_mutex_lock(&link->mutex);
    others = json_deep_copy(link->callers);
    pthread_mutex_unlock(&link->mutex);
    json_array_extend(callers, others);
    json_decref(others);
    return callers;
}

/* Where it is in the list; its size if it is not. */
static size_t link_index_of(const json_t *ids, const char *instance)
{
    size_t i;
    json_t *one;
    json_array_foreach ((json_t *)ids, i, one)
        if (strcmp(json_string_value(one), instance) == 0)
            break;
    return i;
}

static void add_link_instance(json_t **ids, const char *instance)
{
    if (!*ids)
        *ids = json_array();
    if (json_array_size(*ids) >= MCP_INSTANCES_MAX)
        json_array_remove(*ids, 0); /* has most likely ended; else it ends by its lease */
    json_array_append_new(*ids, json_string(instance));
}

static void forget_link_instance(struct mcp_link *link, const char *instance)
{
    pthread_mutex_lock(&link->mutex);
    json_array_remove(link->instances, link_index_of(link->instances, instance));
    json_array_remove(link->callers, link_index_of(link->callers, instance));
    pthread_mutex_unlock(&link->mutex);
}

void mcp_link_hear(struct mcp_link *link, const char *instance)
{
    pthread_mutex_lock(&link->mutex);
    if (link->version && link_index_of(link->instances, instance) == json_array_size(link->instances) &&
        link_index_of(link->callers, instance) == json_array_size(link->callers))
        add_link_instance(&link->callers, instance);
    pthread_mutex_unlock(&link->mutex);
}

void mcp_link_remember(struct mcp_link *link, const struct op *op, const json_t *answer)
{
    const char *instance = json_get_string(answer, "instance", NULL);
    if (!instance)
        return;
    if (strcmp(op->name, "own.leave") == 0)
        forget_link_instance(link, instance);
    if (!op_param_find(op, "register") || !json_object_get(answer, OP_SECRET))
        return;
    pthread_mutex_lock(&link->mutex);
    add_link_instance(&link->instances, instance);
    pthread_mutex_unlock(&link->mutex);
}

void mcp_link_free(struct mcp_link *link)
{
    struct mcp_link **at;
    pthread_mutex_lock(&link->server->mutex);
    for (at = &link->server->links; *at != link; at = &(*at)->next)
        ;
    *at = link->next;
    pthread_mutex_unlock(&link->server->mutex);
    json_decref(link->capabilities);
    json_decref(link->instances);
    json_decref(link->callers);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->mutex);
    pthread_mutex_destroy(&link->send_mutex);
    free(link);
}
