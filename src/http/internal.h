/* internal.h - what the files of src/http share. */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include "http/conn.h"
#include "http/feed.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include "mcp/pool.h"
#include "store/db.h"

#include <pthread.h>
#include <stdatomic.h>

#define HTTP_CONNECTIONS_MAX 1000
#define HTTP_TOKEN_DIGITS    64

struct http_agents; /* agents.c */
struct http_stats;  /* stats.c */

struct http_listener {
    struct loop_source source; /* first */
    struct http_server *server;
    bool is_unix;
};

struct http_server {
    struct tsk_workspace *ws;
    const char *root;
    struct loop loop;
    struct http_listener listeners[4];
    unsigned listener_count;
    enum lang lang;
    char token[HTTP_TOKEN_DIGITS + 1];
    const json_t *hosts; /* more names that may be in Host and Origin; borrowed */
    int lock_fd;         /* server.lock */
    int dir_fd;          /* .aiflow/, locked as well */
    int64_t seen_ms;     /* wall clock: when the server before us was last there; 0: not known */
    dev_t socket_dev;    /* of server.sock, with socket_ino */
    ino_t socket_ino;
    char url[256];
    pid_t
        other_pid; /* another server has this workspace, and `url` is its address; 0: there is none, or nobody knows where */

    struct http_conn *first, *last; /* all connections, in the order in which they came */
    unsigned conn_count, stream_count;
    unsigned places, unix_places; /* R1, R2 */
    size_t memo_most;             /* processes that are remembered (proc/memo.h) */
    unsigned fd_places;           /* R1: descriptors of connections and of what streams of output have open */
    unsigned output_count;        /* such streams, until their threads have ended */
    struct http_conn *dead;       /* closed in this turn; linked by next */
    int64_t ticked_ms, cancelled_ms, beat_ms;
    char *scratch; /* for reading */

    struct mcp_server *mcp;
    struct mcp_pool *pool; /* mcp's */
    struct http_agents *agents;
    struct http_feed feed;
    struct http_stream *streams; /* stream.c */
    struct http_stats *stats;
    struct db db; /* open and unused: with it, SQLite keeps its log, and does not write when others close theirs */
    struct buf openapi; /* made when it is asked for */

    json_t *to_renew; /* instances of open streams that are to be renewed (caller.c); NULL: none */
    bool is_renewing;
    bool has_db;
    bool is_resting; /* R5 */

    struct loop_source wake; /* an eventfd: a signal, or something in `done` */
    pthread_mutex_t mutex;   /* of what follows */
    struct http_job *jobs;   /* all that run or wait */
    struct http_job *done;   /* answers for the loop */
    bool is_woken;
    bool is_ending; /* no new requests; the loop's */
    int64_t end_ms; /* when the shutdown gives up on what is open */
    char date[40];  /* of the header, for the second date_s */
    int64_t date_s;
};

/* ---- access.c ---- */

/* Whether this request may be made at all: Host, Origin, token. Otherwise it was refused. */
bool http_may_enter(struct http_conn *conn);

/* ---- room.c: places ---- */

/* Takes as many descriptors as it may have, and says how many of them connections may use. */
void room_init(struct http_server *server);
/* Whether there is a place for a new one; somebody may have left for it. */
bool room_for(struct http_server *server, bool is_unix);
/* True if there is room for a stream of output on this connection; other connections may have been closed for it. */
bool room_for_output(struct http_conn *conn);
/* Closes the connection that is first by R3; false if all stay. */
bool room_take(struct http_server *server);

/* ---- dispatch.c ---- */

/* Accept-Language, if tasuki has the language. */
enum lang http_lang(const struct http_head *head, enum lang otherwise);

/* A request is complete: head and body. */
void http_dispatch(struct http_conn *conn);

/* ---- job.c: operations in worker threads ---- */

/* The caller as the request names it; both owned, NULL if it names none. */
struct http_caller {
    char *instance; /* where it is no argument of the operation, or a header has said it */
    char *secret;
};

struct http_job {
    struct http_server *server;
    struct http_conn *conn;             /* the loop's; NULL: the client is gone */
    void (*run)(struct http_job *job);  /* in a worker: fills status, type, body */
    void (*done)(struct http_job *job); /* in the loop, after it; NULL: the answer goes to conn */
    const struct op *op;
    json_t *args; /* owned */
    enum lang lang;
    struct http_caller caller;
    uint64_t exchange;        /* of /mcp, that waits for it (agents.h); 0: none */
    bool says_yes, has_asked; /* {"confirm": true}; somebody must */
    bool has_force;           /* `force` is the other way to say it */
    bool is_unmet;            /* what it waited for did not happen */
    bool is_short;            /* for want of a descriptor */
    int status;
    const char *type;
    struct buf body;
    struct buf question; /* that a person must answer */
    atomic_bool is_cancelled;
    pthread_t worker; /* of the server's mutex, like the next two */
    bool has_worker, may_signal;
    struct http_job *prev, *next, *next_done;
};

struct http_job *job_new(struct http_server *server, struct http_conn *conn, void (*run)(struct http_job *));
/* Hands it to a worker. With a conn, that one waits for the answer. */
void job_start(struct http_job *job);
/* An operation's answer, with the status that its outcome has. */
void job_run_op(struct http_job *job);
/* The loop's part of what is done. */
void job_finish_all(struct http_server *server);
/* Ends what only waits. */
void job_cancel(struct http_job *job);
/* A signal may come just before the wait that it should end: once more. Returns after how many ms to call it again, or -1. */
int job_cancel_again(struct http_server *server, int64_t now_ms);
void http_wake(struct http_server *server); /* from any thread */

/* ---- caller.c ---- */

#define CALLER_HEADER "Tasuki-Instance"
#define SECRET_HEADER "Tasuki-Secret"
/* Whether it can be understood in one way only. */
int caller_check(const struct http_conn *conn, const struct op *op, const json_t *args, struct tsk_error *err);
int caller_check_headers(const struct http_conn *conn, struct tsk_error *err);
/* By the headers alone, where there are no arguments. */
struct http_caller caller_of_headers(const struct http_conn *conn);
/* Takes it out of the request: what the operation has no parameters for leaves the arguments. */
struct http_caller caller_take(const struct http_conn *conn, const struct op *op, json_t *args, bool streams);
void caller_clear(struct http_caller *caller);
/* A job's work: only that. */
void caller_verify(struct http_job *job);
/* The proved caller is still connected. NULL, "": nobody. */
void caller_renew(struct http_server *server, const char *instance);
void caller_renew_all(struct http_server *server, const json_t *instances);
/* They have ended (op_end_instance); then the connection gets its answer. */
void caller_end_all(struct http_conn *conn, json_t *instances_take);

/* ---- route.c ---- */

struct http_route {
    const struct op *op;
    const char *preset; /* "force=true", or NULL */
};
enum route_found { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };
/* Finds the row; `body` (an object, or NULL) decides between rows that share a path. With ROUTE_FOUND *ret_args (owned) has path,
 * query and body together; -1 in ret_err's code when they do not fit. */
enum route_found route_find(const struct http_head *head, const json_t *body, struct http_route *ret, json_t **ret_args,
                            char allow[64], struct tsk_error *ret_err);

/* ---- page.c ---- */

bool page_has(const struct http_text *path); /* one of the files of the page */
void page_get(struct http_conn *conn);       /* the file that the request names */

/* ---- openapi.c, stats.c ---- */

void openapi_write(struct buf *b);
struct http_stats *stats_new(void);
void stats_free(struct http_stats *stats);
void stats_request(struct http_stats *stats, const struct op *op, int status, int64_t began_us);
void stats_event(struct http_stats *stats, const char *type);
void stats_open(struct http_stats *stats, unsigned connections, unsigned streams);
/* In a worker: the gauges need operations. */
void stats_job(struct http_job *job);

/* ---- stream.c: OP_STREAMS, one thread each ---- */

void stream_begin(struct http_conn *conn, const struct op *op, json_t *args_take, enum lang lang,
                  struct http_caller caller_take_it);
/* What their threads have said since. */
void stream_take_all(struct http_server *server);
/* Ends all of them; they are gone when server->streams is NULL. */
void stream_end_all(struct http_server *server);

/* ---- agents.c: /mcp ---- */

void agents_init(struct http_server *server, struct mcp_server *mcp);
void agents_request(struct http_conn *conn);
/* Returns after how many ms to call it again, -1: when something happens. */
int agents_tick(struct http_server *server, int64_t now_ms);
void agents_news(struct http_server *server);         /* the trail has grown */
bool agents_listen(const struct http_server *server); /* somebody waits for news */
void agents_end(struct http_server *server);          /* no more requests: ends streams and waits; may be said again */
bool agents_are_idle(struct http_server *server);
void agents_clear(struct http_server *server);

#endif
