/* agents.h - MCP over HTTP (`/mcp`, Streamable HTTP): a transport of src/mcp, both eras on one path.
 *
 *   modern   POST only. Each request has a link of its own; a client that goes away has cancelled. Headers repeat what the body
 *            says, for proxies; where they differ the request is refused (agents_headers.c).
 *   legacy   `initialize` makes a session (Mcp-Session-Id), which is a link; POST, GET (a stream for what nobody asked for), DELETE.
 *            What was negotiated is in `.aiflow/mcp/session.<id>` (agents_session.c), so that a session outlives the server.
 *
 *  A1  An exchange is a POST that waits for its answer, or a stream. A frame has the number of its exchange (mcp_frame.about).
 *      Numbers are not reused, so a frame for a client that is gone is dropped.
 *  A2  If the answer is the first message, the response is a document; if another message comes before it, the response is a
 *      stream.
 *  A3  Frames come from any thread and wait in `frames` for the loop.
 *  A4  Headers may name the caller (caller.c). A tool that acts for an instance gets them as arguments; any other
 *      request begins after the secret was checked, and an open stream keeps the lease.
 *  A5  A link is freed only when nothing runs on it any more; until then it is in `leaving`. */
#ifndef HTTP_AGENTS_H
#define HTTP_AGENTS_H

#include "http/internal.h"

#define AGENTS_SLOTS        1024 /* more than there are connections */
#define AGENTS_SESSIONS_MAX 1000
#define AGENTS_VERSION      "2026-07-28"
#define AGENTS_META         "io.modelcontextprotocol/"

#define AGENTS_OF_SESSION (UINT64_C(1) << 63) /* in the numbers of frames that are about no request */

struct agent_session {
    char id[33];
    uint64_t number;
    struct mcp_link *link;
    uint64_t stream; /* the exchange of its GET, or 0 */
    int64_t used_ms, saved_ms;
    int64_t kept_ms; /* when the leases of its instances were last renewed */
    struct agent_session *next;
};

struct exchange {
    struct http_agents *agents;
    struct http_conn *conn;
    uint64_t number;
    struct mcp_link *link;         /* modern: its own; NULL: of a session */
    struct agent_session *session; /* legacy */
    bool is_modern, is_streaming;
    bool is_first;   /* an initialize: without it there is no session */
    bool saves;      /* its answer changes what the session must remember */
    json_t *message; /* waits until the caller is known (A4); owned */
    char *instance;  /* who that is; owned, NULL: it was not said, or is the tool's to prove */
    int64_t beat_ms;
};

struct leaving {
    struct mcp_link *link;
    struct leaving *next;
};

struct frame {
    struct mcp_frame frame; /* with its own text */
    struct frame *next;
};

struct http_agents {
    struct http_server *server;
    struct mcp_server *mcp;
    struct exchange *slots[AGENTS_SLOTS];
    uint64_t last_number;
    unsigned streaming; /* exchanges that are streams */
    struct agent_session *sessions;
    struct leaving *leaving;
    int64_t due_ms;   /* when the clock is asked again; 0: not at all */
    int64_t swept_ms; /* when the sessions' files were last looked through; 0: not yet */
    bool is_sweeping;
    atomic_size_t files; /* the approximate number of session files; the sweep counts, too */
    pthread_t loop_thread;
    pthread_mutex_t mutex; /* of what follows */
    struct frame *first, **last;
};

/* ---- agents.c ---- */

mcp_send agents_send;
/* Begins what the exchange is for: its message, or (NULL) the session's stream. */
void agents_begin(struct exchange *exchange, json_t *message_take);
/* A1 */
struct exchange *exchange_find(const struct http_agents *agents, uint64_t number);
void exchange_free(struct exchange *exchange);
/* The same when nothing was done for it; an initialize has made no session. */
void exchange_drop(struct exchange *exchange);
/* An error of the protocol as the answer. */
void agents_refuse(struct http_conn *conn, int status, const json_t *id, int code, const char *text);

/* ---- agents_caller.c ---- */

/* agents_begin, when the caller is known (A4). */
void agents_admit(struct exchange *exchange, json_t *message_take);

/* ---- agents_headers.c ---- */

/* The name of the header that does not say what the body says; NULL: all do. */
const char *agents_mismatch(const struct http_head *head, const json_t *message, const json_t *tools);

/* ---- agents_session.c ---- */

struct agent_session *agent_session_new(struct http_agents *agents);
/* By the request's header, also one of an earlier server. *ret_given: there was one. */
struct agent_session *agent_session_find(struct http_agents *agents, const struct http_head *head, bool *ret_given);
/* What was negotiated or subscribed to may have changed. */
void agent_session_save(struct http_agents *agents, struct agent_session *session);
/* The client has ended it: also its file goes. */
void agent_session_end(struct http_agents *agents, struct agent_session *session);
/* Removes files of sessions that nobody will ask for, in a worker, when it is time to. */
void agent_session_sweep(struct http_agents *agents, int64_t now_ms);
void agent_session_drop_all(struct http_agents *agents);
/* Hands a link over, to be freed when it is idle (A5). */
void agents_leave(struct http_agents *agents, struct mcp_link *link);

#endif
