/* mcp.h - the interface for agents: the Model Context Protocol as a skin over the operation table.
 *
 * One protocol core for every transport and both eras of the protocol:
 *   legacy   2025-03-26, 2025-06-18, 2025-11-25: `initialize`, then requests; the server may ask the client something
 *   modern   2026-07-28: every request names its client and the client's capabilities in `_meta`; nothing is remembered between two
 *
 * A transport makes a link per connection, hands it the frames it reads and sends the frames it gets:
 *
 *     struct mcp_link *link = mcp_link_new(server, send_line, &connection);
 *     while (...) mcp_link_take(link, 0, text, len);     // answers now, or later from another thread
 *     wait at most mcp_link_tick(link) ms, less when mcp_link_watch_fd(link) is readable
 *     mcp_link_end(link, 2000); mcp_link_free(link);
 *
 *  M1  Tools, their schemas and results come from the rows; no code here knows a tool by its name.
 *  M2  State is in the workspace: questions (ops/confirm.h), tasks (mcp/task.h), locks, events. A link has only what the legacy
 *      handshake negotiated, what runs, and what is subscribed to.
 *  M3  A refusal of an operation is a result with isError, which a model reads; a refusal of the protocol is a JSON-RPC error.
 *  M4  A request has at most one answer: from its worker, or from the clock (it became a task, or continues without its call).
 *  M5  Operations run in worker threads, so that one that waits does not block others. They are threads, not processes: an
 *      answer costs some microseconds instead of a fork, and cancelling is a signal that ends a wait (OP_INTERRUPTIBLE), never
 *      a kill in the middle of a change. */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "ops/ops.h"

#define MCP_FOLDER "mcp" /* of .aiflow/: sessions, tasks and servers */

struct mcp_server;
struct mcp_link;

/* The error codes of JSON-RPC, then those of MCP. */
enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_RESOURCE_NOT_FOUND = -32002, /* legacy only */
    MCP_MISMATCH = -32020,           /* of the transport over HTTP */
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

struct mcp_options {
    const char *root;
    enum lang lang;
    const char *tools; /* "core", "all", or groups with commas; NULL: core */
    /* Says whose tools these are, once, when the client stays: one that only asks what there is (the official client tries a
     * server out like that) should not be in the way of the one that follows. Returns whether it is the name of who gave work to
     * our agent. NULL: each operation finds its caller itself. */
    bool (*identify)(void *data, char *ret_instance, size_t size);
    void *identify_data;
    size_t memo_most; /* processes that are remembered (proc/memo.h) */
    bool is_shared;   /* many callers on one server: each says who it is (`instance`, `secret`) where it matters */
    bool is_told;     /* the transport calls mcp_link_tick when the event trail has grown; else each link watches it */
};

/* INVALID_INPUT for unknown groups. A missing workspace is no error here: each call says it. */
int mcp_server_new(const struct mcp_options *options, struct mcp_server **ret, struct tsk_error *err);
void mcp_server_free(struct mcp_server *server); /* after its links */
/* Its worker threads, for a transport that has work of its own. Borrowed. */
struct mcp_pool *mcp_server_pool(struct mcp_server *server);

/* A frame for the other side: one JSON document, without a newline. */
struct mcp_frame {
    const char *text;
    size_t len;
    uint64_t about; /* the number that came with the request it is about; 0: about none */
    bool is_answer; /* to that request: nothing more will come about it */
    int error;      /* of an answer: its JSON-RPC error code, or 0 */
};
/* Gets frames from any thread, never two at once for one link. */
typedef void mcp_send(void *data, const struct mcp_frame *frame);

struct mcp_link *mcp_link_new(struct mcp_server *server, mcp_send *send, void *data);
/* Whether a message must have an answer: a request, or what is no message at all; not a notification nor an answer. */
bool mcp_wants_answer(const json_t *message);
/* One frame from the other side. `about`: a number for whatever is said about it, for a transport that has more than one way
 * back. */
void mcp_link_take(struct mcp_link *link, uint64_t about, const char *text, size_t len);
void mcp_link_take_json(struct mcp_link *link, uint64_t about, json_t *message_take);
/* What the clock asks for: progress, tasks, news for subscribers. Returns after how many ms to call it again, -1: only after the
 * next frame. */
int mcp_link_tick(struct mcp_link *link);
/* Readable when there may be news for subscribers; -1: nobody subscribed. */
int mcp_link_watch_fd(struct mcp_link *link);
/* The end of a link has two steps. First one of these two:
 *   leave  the client is gone: its requests are cancelled (its tasks are not), its subscriptions are dropped without a word
 *   end    the server ends, or no more frames come: waits and subscriptions end with an answer, and running requests have
 *          `drain_ms` to answer; 0 does not wait, and their answers still come
 * Then mcp_link_free, once mcp_link_is_idle, because the thread of a running request uses the link. A process that cannot wait for
 * that ends without it (stdio.c). */
void mcp_link_leave(struct mcp_link *link);
void mcp_link_end(struct mcp_link *link, int64_t drain_ms);
/* Nothing runs, and nothing more will be sent by itself. */
bool mcp_link_is_idle(struct mcp_link *link);
void mcp_link_free(struct mcp_link *link);
/* What the handshake has negotiated and what is subscribed to, to be put into another link later: an object, owned. NULL: no
 * handshake yet. */
json_t *mcp_link_state(struct mcp_link *link);
void mcp_link_restore(struct mcp_link *link, const json_t *state);
/* The instances that were registered through this link, an owned array of ids: they live as long as their client is there, and
 * end when it ends cleanly. Part of the state above. */
json_t *mcp_link_instances(struct mcp_link *link);
/* The same, and who else has proved through this link who it is: they live as long as somebody listens on it. */
json_t *mcp_link_callers(struct mcp_link *link);
/* The number (mcp_frame.about) of frames that are about no request. */
void mcp_link_number(struct mcp_link *link, uint64_t number);
/* The definitions of the tools, as tools/list has them. Borrowed. */
const json_t *mcp_server_tools(const struct mcp_server *server);
/* What a tool does; NULL: no operation, or there is no such tool. */
const struct op *mcp_server_op(const struct mcp_server *server, const char *tool);

/* ---- stdio.c ---- */

/* `tasuki mcp`: serves standard input and output until one of them, or the parent, ends. */
int mcp_stdio(struct op_call *call, struct tsk_error *err);

#endif
