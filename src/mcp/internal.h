/* internal.h - what the files of src/mcp share. */
#ifndef MCP_INTERNAL_H
#define MCP_INTERNAL_H

#include "base/who.h"
#include "mcp/mcp.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define MCP_NEWEST_LEGACY "2025-11-25"
#define MCP_MODERN        "2026-07-28"
#define MCP_META          "io.modelcontextprotocol/"
#define MCP_TASKS         "io.modelcontextprotocol/tasks"
#define MCP_INSTANCES_MAX 64 /* that one link remembers; of more, the oldest end by their lease */

/* A JSON-RPC error. code 0 with no result: the answer comes later. */
struct mcp_fault {
    int code;
    char message[1024]; /* is cut, but never in a character */
    json_t *data;
};
/* Returns NULL, so that `return mcp_fault(...)` reads as what it is. */
json_t *mcp_fault(struct mcp_fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
json_t *mcp_missing_capability(struct mcp_fault *fault, const char *capability);

struct mcp_tool {
    const char *name;
    const struct op *op;    /* NULL: one of mcp_extra */
    const void *extra_data; /* its data then */
};

/* A workspace, and whose tools these are in it. There may be a new one at any time (init, or it was removed and made again);
 * Callers may still use the old one, so it is kept until the server ends. */
struct mcp_place {
    struct tsk_workspace *ws;
    dev_t device;
    ino_t inode;            /* of its state directory, which is open: nothing else can get them */
    struct mcp_place *next; /* older */
};
struct mcp_name {
    char text[512]; /* "": not known, or not yet */
    struct mcp_name *next;
};

struct mcp_server {
    struct mcp_options options;
    pthread_mutex_t place_mutex; /* of `places`; the last one that is taken */
    struct mcp_place *places;    /* the newest first; NULL: there was none yet */
    atomic_bool is_identified;   /* false again in a new place */
    atomic_bool is_borrowed;     /* its name is that of who gave work to our agent */
    atomic_int waits;            /* calls that may wait and are not answered yet */
    _Atomic int64_t ttl_ms;      /* the shortest TTL that was asked for lately */
    struct mcp_tool *tools;
    size_t tool_count;
    json_t *tool_list;     /* the definitions, in order */
    struct mcp_pool *pool; /* pool.h */
    pthread_mutex_t mutex; /* of what follows */
    struct mcp_name *names;
    struct mcp_link *links;
    const struct tsk_workspace *named_in; /* the workspace in which the agent has its label; NULL: none yet */
    struct proc_id process;               /* of the agent, there */
    int card;                             /* the agent's, there (own/who.h) */
    bool has_card;
    json_t *started; /* id -> true: processes that an agent has started through this server; NULL: none */
};

/* Whose tools these are; "" when that is not known. Borrowed. */
const char *mcp_server_instance(struct mcp_server *server);
/* The workspace that operations share, or NULL when it is not there (yet, or any more) and each must look for itself. */
struct tsk_workspace *mcp_server_workspace(struct mcp_server *server);

/* A question to the client and its answer (legacy only). */
struct mcp_question {
    int64_t id;
    json_t *answer; /* owned: the response frame */
    struct mcp_question *next;
};

/* subscriptions/listen, or (id NULL) the legacy subscriptions of the link. */
struct mcp_listen {
    json_t *id;
    uint64_t about;
    bool tools, prompts;
    json_t *uris;     /* object: uri -> true */
    json_t *task_ids; /* the same */
    struct mcp_listen *next;
};

struct mcp_link {
    struct mcp_server *server;
    mcp_send *send;
    void *data;
    uint64_t number; /* of frames about no request */
    pthread_mutex_t send_mutex;
    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t changed;
    const char *version; /* negotiated by initialize; NULL: not yet */
    json_t *capabilities;
    char client[WHO_LABEL_SIZE]; /* the name that it gave at initialize; "": none */
    int log_level;
    json_t *instances; /* ids that were registered through it; NULL: none */
    json_t *callers;   /* other ids that have proved themselves through it; NULL: none */
    struct mcp_request *running;
    struct mcp_question *questions;
    int64_t last_question;
    struct mcp_listen *listens;
    int watch_fd; /* inotify; -1: nobody subscribed yet */
    struct event_reader reader;
    const struct tsk_workspace *watched; /* whose trail it reads */
    bool has_reader, is_looking;
    bool is_unreadable; /* the trail; its listeners were sent to look for themselves */
    int64_t looked_ms;
    bool is_ended;
    struct mcp_link *next;
};

/* The answer of an operation: if it registered somebody, the link remembers whom. */
void mcp_link_remember(struct mcp_link *link, const struct op *op, const json_t *answer);
/* Somebody has proved itself; a link that stays remembers it. */
void mcp_link_hear(struct mcp_link *link, const char *instance);

/* What a call wants to know from a person (confirm.c). */
struct mcp_asking {
    char *approved;  /* owned: the question that was answered with yes */
    char *question;  /* owned: the question that could not be asked, or was answered with no */
    bool says_yes;   /* `confirm: true` */
    bool is_open;    /* somebody must answer */
    bool is_refused; /* somebody said no */
    bool is_dead;    /* nobody alive loses anything by a yes: the agent may say it */
    bool by_token;   /* a form was of no use: the client closed it, or shows none after all */
};

struct mcp_request {
    struct mcp_link *link;
    json_t *message; /* owned */
    uint64_t about;
    const json_t *id;     /* borrowed from the message, like the next two */
    const json_t *params; /* an object, never NULL */
    const json_t *capabilities;
    const struct mcp_method *method;
    const struct mcp_tool *tool; /* tools/call */
    struct tsk_workspace *ws;    /* in which its operation works; NULL: it has to look for itself */
    const json_t *args;          /* of the operation; borrowed while it runs */
    const char *caller; /* for a tool without the parameter `instance`; NULL: nobody, or the arguments have it */
    bool is_modern;
    bool is_wait; /* is counted in server->waits */
    struct mcp_asking asking;
    /* Of the link's mutex: */
    int64_t began_ms, progress_ms;
    int64_t progress; /* the last one that was sent */
    pthread_t worker;
    bool has_worker, is_cancelled, is_answered;
    bool may_signal;  /* the operation is interruptible and runs */
    bool is_held;     /* the clock is busy with it: not to be freed */
    bool has_no_task; /* one could not be made */
    struct mcp_task *task;
    struct mcp_request *next;
};

typedef json_t *mcp_handler(struct mcp_request *request, struct mcp_fault *fault);

/* Tools, resources and prompts that a program has besides those of the table. tasuki has none; tests/mcp adds those that the
 * official conformance suite calls by name. Its lists may change while a client is there. */
struct mcp_extra {
    void (*add_tools)(struct mcp_server *server); /* with mcp_add_tool */
    mcp_handler *call;                            /* of such a tool: request->tool */
    void (*add_resources)(json_t *list, bool templates);
    json_t *(*read)(const char *uri); /* the result of resources/read; NULL: not one of them */
    void (*add_prompts)(json_t *list);
    bool (*has_prompt)(const char *name);
    json_t *(*get_prompt)(struct mcp_request *request, const char *name, struct mcp_fault *fault);
};
extern const struct mcp_extra *mcp_extra; /* NULL: none; set before the first server is made */

enum mcp_method_flags {
    MCP_IN_LEGACY = 1,
    MCP_IN_MODERN = 2,
    MCP_BOTH = 3,
    MCP_WORKER = 4,    /* may wait: not in the reader's thread */
    MCP_CACHEABLE = 8, /* modern results have ttlMs and cacheScope */
    MCP_NEEDS_TASKS = 16,
    MCP_BEFORE = 32, /* may come from a client that only finds out what there is, and will not stay */
};
struct mcp_method {
    const char *name;
    unsigned flags;
    mcp_handler *run;
};

/* ---- link.c: frames out ---- */

/* `about`: see struct mcp_frame. */
void mcp_link_send(struct mcp_link *link, uint64_t about, const struct buf *frame);
void mcp_link_answer(struct mcp_link *link, uint64_t about, const struct buf *frame, int error);
/* {"jsonrpc", "id" (unless NULL), key: value} */
void mcp_put_frame(struct buf *b, const json_t *id, const char *key, const json_t *value);
void mcp_link_message(struct mcp_link *link, uint64_t about, const json_t *id, const char *method,
                      const json_t *params);
void mcp_link_fault(struct mcp_link *link, uint64_t about, const json_t *id,
                    struct mcp_fault *fault); /* takes fault->data */
void mcp_link_notify(struct mcp_link *link, uint64_t about, const char *method, json_t *params_take);

/* ---- request.c ---- */

/* Runs it here or in a worker; it is freed when it is done. */
void mcp_request_start(struct mcp_request *request);
void mcp_request_free(struct mcp_request *request);
/* What the clock asks for; with the link's mutex held, then without. */
enum mcp_due { DUE_NOTHING, DUE_PROGRESS, DUE_TASK, DUE_GO_ON };
enum mcp_due mcp_request_due(struct mcp_request *request, int64_t now_ms);
void mcp_request_tick(struct mcp_request *request, enum mcp_due due, int64_t now_ms);
/* Ends the wait of its operation, if it is in one; with the link's mutex held. */
void mcp_request_signal(struct mcp_request *request);
/* Sends an answer; the caller has made sure that it is the only one (is_answered, M4). `fault` keeps nothing. */
void mcp_request_answer(struct mcp_request *request, json_t *result_take, struct mcp_fault *fault);
/* For operations that wait: cancelled, or the connection has ended. */
bool mcp_request_is_over(struct mcp_request *request);
/* False when it was over before the time was. */
bool mcp_request_sleep(struct mcp_request *request, int64_t ms);
/* Around an operation that a signal may interrupt. */
void mcp_request_may_signal(struct mcp_request *request, bool may);
/* A message about the request, while it runs: progress and log. */
void mcp_request_progress(struct mcp_request *request, int64_t progress, int64_t total);
/* Asks the client (legacy) and waits; the response frame (owned), or NULL when none came in time. */
json_t *mcp_request_ask(struct mcp_request *request, const char *method, json_t *params_take, int64_t timeout_ms);
/* Whether the client can answer forms, or has another capability, by its dotted name. */
bool mcp_client_has(const struct mcp_request *request, const char *capability);
bool mcp_client_has_forms(const struct mcp_request *request);
bool mcp_client_has_tasks(const struct mcp_request *request);

/* Calls that wait at the same time, on all links; the threads beyond are for the others. */
#define MCP_WAITS_MAX 96

/* ---- methods.c ---- */

const struct mcp_method *mcp_method_find(const char *name, bool is_modern);
/* The version itself, as a constant, if it is one of the legacy era; else NULL. */
const char *mcp_legacy_version(const char *version);
mcp_handler mcp_initialize, mcp_discover, mcp_set_level, mcp_nothing;

/* ---- tools.c, schema.c ---- */

int mcp_tools_init(struct mcp_server *server, struct tsk_error *err);
void mcp_add_tool(struct mcp_server *server, struct mcp_tool tool, json_t *definition_take);
const struct mcp_tool *mcp_tool_find(const struct mcp_server *server, const char *name);
mcp_handler mcp_tools_list, mcp_tools_call;
json_t *mcp_input_schema(const struct mcp_server *server, const struct op *op);
json_t *mcp_output_schema(const struct op *op);
/* The tool that explains the settings which this one changes; NULL: it does so itself. */
const char *mcp_explained_by(const struct op *op);
/* A page of `list` (borrowed) under `key`, by the request's cursor. */
json_t *mcp_page(struct mcp_request *request, const char *key, const json_t *list, struct mcp_fault *fault);

/* ---- call.c ---- */

/* Runs the request's tool; the result of tools/call, or what must be answered first. */
json_t *mcp_call(struct mcp_request *request, struct mcp_fault *fault);
/* Runs an operation for its result alone; NULL with err. */
/* Stops what agents have started through this server, if TASUKI_STOP_ON_SHUTDOWN (or VANTAGE_STOP_ON_SHUTDOWN) says so. */
void mcp_stop_started(struct mcp_server *server);
json_t *mcp_run_op(struct mcp_server *server, const char *op_name, json_t *args_take, struct tsk_error *err);
/* A result with one block of text. */
json_t *mcp_text_result(const char *text, bool is_error);

/* ---- who.c ---- */

/* The call is made in the name of its client until mcp_who_leave: events and records name it. Uses the request's `ws` and `args`. */
void mcp_who_enter(struct mcp_request *request);
void mcp_who_leave(void);

/* ---- confirm.c ---- */

/* Before the operation: what was answered since the last time. 0, or -1 with err (a refusal) or with a fault. */
int mcp_asking_begin(struct mcp_request *request, const struct op *op, json_t *args, struct tsk_error *err,
                     struct mcp_fault *fault);
bool mcp_asking_confirm(struct op_call *call, const char *question);
/* After it, when a question is open or was refused: the round trip's result, or NULL and err says NEEDS_CONFIRMATION. */
json_t *mcp_asking_end(struct mcp_request *request, const struct op *op, const json_t *args, struct tsk_error *err);
void mcp_asking_clear(struct mcp_asking *asking);

/* ---- resources.c, prompts.c ---- */

mcp_handler mcp_resources_list, mcp_resources_templates, mcp_resources_read;
mcp_handler mcp_prompts_list, mcp_prompts_get, mcp_complete;
/* Whether somebody may subscribe to it: there is such a resource, and it tells when it changes. */
bool mcp_resource_has_news(struct mcp_server *server, const char *uri);
bool mcp_resource_is_template(const char *uri);
/* The resources that an event changes: array of uris, owned. */
json_t *mcp_resources_of_event(const json_t *event);

/* ---- listen.c ---- */

mcp_handler mcp_subscribe, mcp_unsubscribe, mcp_listen;
/* Reads the trail and tells the subscribers. */
void mcp_listen_tell(struct mcp_link *link);
/* Notifies all subscribers, on every link. */
void mcp_listen_task(struct mcp_server *server, const char *task_id, const json_t *task);
/* The legacy subscriptions: an array of uris, owned; and taking them up again. With the mutex held. */
json_t *mcp_listen_uris(struct mcp_link *link);
void mcp_listen_restore(struct mcp_link *link, const json_t *uris);
void mcp_listen_list_changed(struct mcp_server *server, bool is_tools);
/* Ends the one with this request id; false: there is none. */
bool mcp_listen_cancel(struct mcp_link *link, const json_t *id);
void mcp_listen_clear(struct mcp_link *link, bool say_so);

#endif
