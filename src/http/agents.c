#include "http/agents.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    AGENTS_TICK_MS = 1000,
    AGENTS_KEEP_MS = 10000, /* how often the leases of a session's instances are looked at */
    BACKLOG_MAX = 4 << 20,  /* of frames that a client does not take */
};

#define BAD_VERSION "MCP-Protocol-Version is not one that is spoken here"

/* ---- exchanges ---- */

static struct exchange *exchange_new(struct http_agents *agents, struct http_conn *conn)
{
    struct exchange *exchange = memory_zeroed(1, sizeof *exchange);
    do
        agents->last_number++;
    while (agents->slots[agents->last_number % AGENTS_SLOTS]);
    *exchange = (struct exchange){.agents = agents, .conn = conn, .number = agents->last_number};
    exchange->beat_ms = clock_now().boot_ms;
    agents->slots[exchange->number % AGENTS_SLOTS] = exchange;
    return exchange;
}

struct exchange *exchange_find(const struct http_agents *agents, uint64_t number)
{
    struct exchange *exchange = agents->slots[number % AGENTS_SLOTS];
    return exchange && exchange->number == number ? exchange : NULL;
}

/* The client has its answer, or is gone. */
void exchange_free(struct exchange *exchange)
{
    struct http_agents *agents = exchange->agents;
    agents->slots[exchange->number % AGENTS_SLOTS] = NULL;
    if (exchange->is_streaming)
        agents->streaming--;
    if (exchange->session && exchange->session->stream == exchange->number)
        exchange->session->stream = 0;
    if (exchange->link)
        agents_leave(agents, exchange->link);
    json_decref(exchange->message);
    free(exchange->instance);
    free(exchange);
}

void exchange_drop(struct exchange *exchange)
{
    struct http_agents *agents = exchange->agents;
    struct agent_session *session = exchange->is_first ? exchange->session : NULL;
    exchange_free(exchange);
    if (session)
        agent_session_end(agents, session);
}

static void agent_stream_gone(struct http_conn *conn)
{
    struct exchange *exchange = conn->work_data;
    if (exchange->link) /* modern: going away is cancelling */
        mcp_link_leave(exchange->link);
    exchange_free(exchange);
}

static void exchange_hung_up(struct http_conn *conn)
{
    struct exchange *exchange = conn->work_data;
    if (exchange->link)
        conn_close(conn);
}

static void agent_stream_room(struct http_conn *conn)
{
    (void)conn;
}

/* Every use of a session renews its caller's lease, also a call that does not name the caller. */
static void keep_alive(struct http_agents *agents, struct agent_session *session)
{
    int64_t now_ms = clock_now().boot_ms;
    json_t *instances CLEANUP_JSON = mcp_link_instances(session->link);
    if (json_array_size(instances) == 0 || now_ms - session->kept_ms < AGENTS_KEEP_MS)
        return;
    session->kept_ms = now_ms;
    caller_renew_all(agents->server, instances);
}

/* An open stream keeps instances alive: those registered or proved through its session, and the one that opened it. */
static void keep_listeners(const struct exchange *exchange)
{
    json_t *callers CLEANUP_JSON = exchange->session ? mcp_link_callers(exchange->session->link) : NULL;
    caller_renew_all(exchange->agents->server, callers);
    caller_renew(exchange->agents->server, exchange->instance);
}

static void agent_stream_beat(struct http_conn *conn, int64_t now_ms)
{
    struct exchange *exchange = conn->work_data;
    if (!exchange->is_streaming || now_ms - exchange->beat_ms < FEED_BEAT_MS)
        return;
    exchange->beat_ms = now_ms;
    keep_listeners(exchange);
    if (conn->out.len > conn->out_at) /* a slow reader is still connected */
        return;
    conn_stream_put(conn, ": alive\n\n", 9);
    conn_stream_push(conn);
}

static const struct http_work work = {
    .gone = agent_stream_gone, .hung_up = exchange_hung_up, .room = agent_stream_room, .tick = agent_stream_beat};

static void agent_session_header(const struct agent_session *session, char text[80])
{
    snprintf(text, 80, "%s%s%s", session ? "Mcp-Session-Id: " : "", session ? session->id : "", session ? "\r\n" : "");
}

static void exchange_begin_stream(struct exchange *exchange)
{
    char headers[128], session[80];
    agent_session_header(exchange->session, session);
    snprintf(headers, sizeof headers, "X-Accel-Buffering: no\r\n%s", session);
    exchange->is_streaming = true;
    exchange->agents->streaming++;
    conn_stream(exchange->conn, headers, &work, exchange);
}

/* ---- frames ---- */

/* A3: from any thread. */
void agents_send(void *data, const struct mcp_frame *frame)
{
    struct http_agents *agents = data;
    struct frame *copy = malloc(sizeof *copy + frame->len);
    BUG(!copy);
    *copy = (struct frame){.frame = *frame};
    memcpy(copy + 1, frame->text, frame->len);
    copy->frame.text = (const char *)(copy + 1);
    pthread_mutex_lock(&agents->mutex);
    bool wakes = !agents->first && !pthread_equal(pthread_self(), agents->loop_thread);
    *agents->last = copy;
    agents->last = &copy->next;
    pthread_mutex_unlock(&agents->mutex);
    if (wakes)
        http_wake(agents->server);
}

/* The modern era has statuses for the protocol's errors; the legacy one answers 200 and says it in the body. */
static int status_of(const struct exchange *exchange, int error)
{
    if (!exchange->is_modern || !error)
        return error == MCP_PARSE_ERROR || error == MCP_INVALID_REQUEST ? 400 : 200;
    if (error == MCP_METHOD_NOT_FOUND)
        return 404;
    bool is_bad = error == MCP_INVALID_PARAMS || error == MCP_INVALID_REQUEST || error == MCP_PARSE_ERROR ||
                  error == MCP_MISMATCH || error == MCP_MISSING_CAPABILITY || error == MCP_UNSUPPORTED_VERSION;
    return is_bad ? 400 : 200;
}

/* A2 */
static void exchange_give(struct exchange *exchange, const struct mcp_frame *frame)
{
    struct http_conn *conn = exchange->conn;
    if (frame->is_answer && exchange->saves)
        agent_session_save(exchange->agents, exchange->session);
    if (frame->is_answer && !exchange->is_streaming) {
        char headers[80];
        int status = status_of(exchange, frame->error);
        bool is_session = !frame->error || !exchange->is_first;
        agent_session_header(is_session ? exchange->session : NULL, headers);
        (is_session ? exchange_free : exchange_drop)(exchange);
        conn_answer(conn, status, "application/json", headers, frame->text, frame->len);
        return;
    }
    if (!exchange->is_streaming)
        exchange_begin_stream(exchange);
    if (conn->is_closed) /* and the exchange is gone */
        return;
    conn_stream_put(conn, "event: message\ndata: ", 21);
    conn_stream_put(conn, frame->text, frame->len);
    conn_stream_put(conn, "\n\n", 2);
    if (frame->is_answer) {
        exchange_free(exchange);
        conn_stream_end(conn);
    } else if (conn->out.len - conn->out_at > BACKLOG_MAX) {
        conn_close(conn);
    } else {
        conn_stream_push(conn);
    }
}

static struct exchange *stream_of(const struct http_agents *agents, const struct agent_session *session)
{
    return session->stream ? exchange_find(agents, session->stream) : NULL;
}

/* What nobody asked for goes to the session's own stream; without one it is lost, as the protocol has it. */
static struct exchange *receiver_of(const struct http_agents *agents, uint64_t about)
{
    if (!(about & AGENTS_OF_SESSION))
        return exchange_find(agents, about);
    for (const struct agent_session *session = agents->sessions; session; session = session->next)
        if (session->number == about)
            return stream_of(agents, session);
    return NULL;
}

static void agents_drain(struct http_agents *agents)
{
    pthread_mutex_lock(&agents->mutex);
    struct frame *frame = agents->first, *next;
    agents->first = NULL;
    agents->last = &agents->first;
    pthread_mutex_unlock(&agents->mutex);
    for (; frame; frame = next) {
        next = frame->next;
        struct exchange *exchange = receiver_of(agents, frame->frame.about);
        if (exchange)
            exchange_give(exchange, &frame->frame);
        free(frame);
    }
}

/* ---- links that end ---- */

void agents_leave(struct http_agents *agents, struct mcp_link *link)
{
    struct leaving *leaving = malloc(sizeof *leaving);
    BUG(!leaving);
    *leaving = (struct leaving){link, agents->leaving};
    agents->leaving = leaving;
}

/* A5 */
static void agents_bury(struct http_agents *agents)
{
    for (struct leaving **at = &agents->leaving, *leaving; (leaving = *at);) {
        if (!mcp_link_is_idle(leaving->link)) {
            at = &leaving->next;
            continue;
        }
        *at = leaving->next;
        mcp_link_free(leaving->link);
        free(leaving);
    }
}

/* ---- requests ---- */

void agents_refuse(struct http_conn *conn, int status, const json_t *id, int code, const char *text)
{
    struct buf body CLEANUP(buf_clear) = BUF_INIT;
    json_t *document CLEANUP_JSON =
        json_pack("{s:s, s:{s:i, s:s}}", "jsonrpc", "2.0", "error", "code", code, "message", text);
    if (json_is_string(id) || json_is_integer(id))
        json_object_set(document, "id", (json_t *)id);
    json_write(&body, document, false);
    conn_answer(conn, status, "application/json", NULL, body.data, body.len);
}

/* A message goes to another thread as a whole: jansson's references are not for two. */
static json_t *give_away(json_t **message)
{
    json_t *given = *message;
    *message = NULL;
    return given;
}

/* Something runs: the clock must be looked at. */
static void agents_expect(struct http_agents *agents)
{
    int64_t due_ms = clock_now().boot_ms + AGENTS_TICK_MS;
    if (!agents->due_ms || agents->due_ms > due_ms)
        agents->due_ms = due_ms;
}

static void post_modern(struct http_agents *agents, struct http_conn *conn, json_t *message_take)
{
    json_t *message CLEANUP_JSON = message_take;
    const json_t *id = json_object_get(message, "id");
    const char *wrong = agents_mismatch(conn->head, message, mcp_server_tools(agents->mcp));
    if (!mcp_wants_answer(message)) { /* nothing is remembered that it could be about */
        conn_answer(conn, 202, NULL, NULL, NULL, 0);
        return;
    }
    if (wrong) {
        char text[128];
        snprintf(text, sizeof text, "The header %s does not say what the body says", wrong);
        agents_refuse(conn, 400, id, MCP_MISMATCH, text);
        return;
    }
    struct exchange *exchange = exchange_new(agents, conn);
    exchange->is_modern = true;
    exchange->link = mcp_link_new(agents->mcp, agents_send, agents);
    conn_wait(conn, &work, exchange);
    agents_admit(exchange, give_away(&message));
}

static bool changes_session(const char *method)
{
    static const char *const methods[] = {"initialize", "logging/setLevel", "resources/subscribe",
                                          "resources/unsubscribe"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(method, methods[i]) == 0)
            return true;
    return false;
}

/* An instance that registers belongs to the session from then on: it lives and ends with it. */
static bool registers_instance(const json_t *message)
{
    const json_t *arguments = json_object_get(json_object_get(message, "params"), "arguments");
    return json_is_true(json_object_get(arguments, "register"));
}

static void post_to_session(struct http_agents *agents, struct http_conn *conn, struct agent_session *session,
                            bool is_first, json_t *message_take)
{
    if (!mcp_wants_answer(message_take)) {
        mcp_link_take_json(session->link, 0, message_take);
        conn_answer(conn, 202, NULL, NULL, NULL, 0);
        return;
    }
    struct exchange *exchange = exchange_new(agents, conn);
    exchange->session = session;
    exchange->is_first = is_first;
    exchange->saves = registers_instance(message_take);
    keep_alive(agents, session);
    conn_wait(conn, &work, exchange);
    agents_admit(exchange, message_take);
}

/* The stream for what nobody asked for; a second one takes the place of the first. */
static void begin_news(struct exchange *exchange)
{
    struct http_conn *conn = exchange->conn;
    struct exchange *old = stream_of(exchange->agents, exchange->session);
    if (old)
        conn_close(old->conn);
    exchange->session->stream = exchange->number;
    exchange_begin_stream(exchange);
    if (!conn->is_closed)
        conn_stream_push(conn);
}

void agents_begin(struct exchange *exchange, json_t *message_take)
{
    struct http_agents *agents = exchange->agents;
    struct agent_session *session = exchange->session;
    agents_expect(agents);
    if (!message_take) {
        begin_news(exchange);
        return;
    }
    bool saves = session && changes_session(json_get_string(message_take, "method", ""));
    mcp_link_take_json(session ? session->link : exchange->link, exchange->number, message_take);
    if (saves) /* before the client hears of it */
        agent_session_save(agents, session);
    agents_drain(agents);
}

/* A version that we do not speak, in the header of a later request. */
static bool is_version_bad(const struct http_head *head)
{
    const struct http_text *version = http_header(head, "MCP-Protocol-Version");
    static const char *const known[] = {"2025-03-26", "2025-06-18", "2025-11-25", AGENTS_VERSION};
    for (size_t i = 0; version && i < sizeof known / sizeof known[0]; i++)
        if (http_text_is(version, known[i]))
            return false;
    return version != NULL;
}

static void post_legacy(struct http_agents *agents, struct http_conn *conn, json_t *message_take)
{
    json_t *message CLEANUP_JSON = message_take;
    const json_t *id = json_object_get(message, "id");
    bool is_first = json_text_is(message, "method", "initialize") && id, has_id = false;
    struct agent_session *session =
        is_first ? agent_session_new(agents) : agent_session_find(agents, conn->head, &has_id);
    if (!session && has_id)
        agents_refuse(conn, 404, id, MCP_INVALID_REQUEST, "There is no such session (any more): send initialize");
    else if (!session)
        agents_refuse(conn, 400, id, MCP_INVALID_REQUEST,
                      "Send initialize first, or say in _meta which protocol you speak (" AGENTS_VERSION ")");
    else if (!is_first && is_version_bad(conn->head))
        agents_refuse(conn, 400, id, MCP_INVALID_REQUEST, BAD_VERSION);
    else
        post_to_session(agents, conn, session, is_first, give_away(&message));
}

static bool is_modern(const struct http_head *head, const json_t *message)
{
    const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");
    return http_text_is(http_header(head, "MCP-Protocol-Version"), AGENTS_VERSION) ||
           json_object_get(meta, AGENTS_META "protocolVersion");
}

static void agents_post(struct http_agents *agents, struct http_conn *conn)
{
    struct tsk_error err = {0};
    json_t *message = NULL;
    if (json_parse(buf_str(&conn->body), conn->body.len, "body", &message, &err) < 0) {
        agents_refuse(conn, 400, NULL, MCP_PARSE_ERROR, "Parse error");
        return;
    }
    if (!json_is_object(message)) {
        json_decref(message);
        agents_refuse(conn, 400, NULL, MCP_INVALID_REQUEST, "A request is one JSON-RPC message");
    } else if (is_modern(conn->head, message)) {
        post_modern(agents, conn, message);
    } else {
        post_legacy(agents, conn, message);
    }
}

static void agents_get(struct http_agents *agents, struct http_conn *conn, struct agent_session *session)
{
    struct exchange *exchange = exchange_new(agents, conn);
    exchange->session = session;
    conn_wait(conn, &work, exchange);
    agents_admit(exchange, NULL);
}

void agents_request(struct http_conn *conn)
{
    struct http_agents *agents = conn->server->agents;
    const struct http_text *method = &conn->head->method;
    bool has_id, is_get = http_text_is(method, "GET"), is_delete = http_text_is(method, "DELETE");
    if (http_text_is(method, "POST")) {
        agents_post(agents, conn);
        return;
    }
    struct agent_session *session = is_get || is_delete ? agent_session_find(agents, conn->head, &has_id) : NULL;
    bool wants_stream = http_text_has(http_header(conn->head, "Accept"), "text/event-stream");
    if ((!is_get && !is_delete) || !has_id || (is_get && !wants_stream))
        conn_answer(conn, 405, NULL, "Allow: POST, GET, DELETE\r\n", NULL, 0);
    else if (!session)
        conn_answer(conn, 404, NULL, NULL, NULL, 0);
    else if (is_version_bad(conn->head))
        agents_refuse(conn, 400, NULL, MCP_INVALID_REQUEST, BAD_VERSION);
    else if (is_get)
        agents_get(agents, conn, session);
    else {
        json_t *instances = mcp_link_instances(session->link);
        agent_session_end(agents, session);
        caller_end_all(conn, instances);
    }
}

/* ---- the clock ---- */

static void tick_link(struct http_agents *agents, struct mcp_link *link, int64_t now_ms)
{
    int next = mcp_link_tick(link);
    if (next >= 0 && (!agents->due_ms || now_ms + next < agents->due_ms))
        agents->due_ms = now_ms + next;
}

static void tick_all(struct http_agents *agents, int64_t now_ms)
{
    agents->due_ms = 0;
    for (unsigned i = 0; i < AGENTS_SLOTS; i++)
        if (agents->slots[i] && agents->slots[i]->link)
            tick_link(agents, agents->slots[i]->link, now_ms);
    for (struct agent_session *session = agents->sessions; session; session = session->next)
        tick_link(agents, session->link, now_ms);
    for (struct leaving *leaving = agents->leaving; leaving; leaving = leaving->next)
        tick_link(agents, leaving->link, now_ms);
    if (agents->leaving && (!agents->due_ms || agents->due_ms > now_ms + 50))
        agents->due_ms = now_ms + 50;
}

int agents_tick(struct http_server *server, int64_t now_ms)
{
    struct http_agents *agents = server->agents;
    agents_drain(agents);
    agents_bury(agents);
    agent_session_sweep(agents, now_ms);
    if (agents->leaving)
        agents_expect(agents);
    if (agents->due_ms && now_ms >= agents->due_ms) {
        tick_all(agents, now_ms);
        agents_drain(agents);
    }
    return !agents->due_ms ? -1 : agents->due_ms > now_ms ? (int)(agents->due_ms - now_ms) : 0;
}

void agents_news(struct http_server *server)
{
    struct http_agents *agents = server->agents;
    if (agents->streaming)
        agents->due_ms = 1; /* now */
}

bool agents_listen(const struct http_server *server)
{
    return server->agents->streaming > 0;
}

/* ---- life ---- */

void agents_init(struct http_server *server, struct mcp_server *mcp)
{
    struct http_agents *agents = memory_zeroed(1, sizeof *agents);
    agents->server = server;
    agents->mcp = mcp;
    agents->loop_thread = pthread_self();
    agents->last = &agents->first;
    pthread_mutex_init(&agents->mutex, NULL);
    server->agents = agents;
}

void agents_end(struct http_server *server)
{
    struct http_agents *agents = server->agents;
    for (unsigned i = 0; i < AGENTS_SLOTS; i++)
        if (agents->slots[i] && agents->slots[i]->link)
            mcp_link_end(agents->slots[i]->link, 0);
    for (struct agent_session *session = agents->sessions; session; session = session->next) {
        struct exchange *stream = stream_of(agents, session);
        mcp_link_end(session->link, 0);
        if (stream) {
            struct http_conn *conn = stream->conn;
            exchange_free(stream);
            conn_stream_end(conn);
        }
    }
    agents_drain(agents);
}

bool agents_are_idle(struct http_server *server)
{
    struct http_agents *agents = server->agents;
    for (unsigned i = 0; i < AGENTS_SLOTS; i++)
        if (agents->slots[i])
            return false;
    return !agents->leaving;
}

void agents_clear(struct http_server *server)
{
    struct http_agents *agents = server->agents;
    agent_session_drop_all(agents);
    agents_drain(agents);
    agents_bury(agents);
    BUG(agents->leaving); /* the workers have been waited for */
    pthread_mutex_destroy(&agents->mutex);
    free(agents);
}
