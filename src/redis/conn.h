/* conn.h - a connection to Redis: our own transport (a socket, or TLS over it) with time limits, hiredis' reader for the answers.
 *
 *  C1  Every call has a time limit. A connection on which a call was not answered in time is closed: a late answer would be
 *      taken for the answer of the next call. Nothing waits past redis_due: no call, connect, handshake or name lookup.
 *  C2  server_id is read once, when the connection is made. A server that restarts breaks its connections, so everything on one
 *      connection goes to the same server. */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "base/buf.h"
#include "redis/url.h"

#include <hiredis/hiredis.h>

#define REDIS_CONNECT_MS 2000
#define REDIS_CALL_MS    3000
#define REDIS_BLOCK_S    25 /* a wait that the server answers: shorter than the patience of routers in between */

struct ssl_st;
struct ssl_ctx_st;

struct redis_conn {
    int fd; /* -1: closed */
    struct ssl_ctx_st *tls_context;
    struct ssl_st *tls;
    redisReader *reader;
    char server_id[48];
    char version[24];
    bool has_functions; /* FUNCTION is known there: 7 and later */
    bool is_cluster;    /* a command goes to the node that has its key (cluster.h) */
    struct redis_cluster *cluster;
    const struct redis_settings *settings; /* borrowed */
};

/* A command that is being put together. */
struct redis_command {
    struct buf body;
    unsigned count;
};

void command_begin(struct redis_command *command, const char *name);
void command_put(struct redis_command *command, const void *data, size_t len);
void command_puts(struct redis_command *command, const char *text);
void command_put_int(struct redis_command *command, int64_t number);
void command_clear(struct redis_command *command);

/* ENVIRONMENT with the reason, without a password. */
int redis_connect(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err);
void redis_close(struct redis_conn *conn);
/* Sends it, after the words in front (may be NULL). -1: the connection is closed. */
int redis_send(struct redis_conn *conn, const struct redis_command *command, const struct redis_command *front,
               struct tsk_error *err);
/* At that time (CLOCK_BOOTTIME) the caller has to do something else: from then on nothing waits, until another time is set. */
void redis_due(int64_t at_ms);
/* Waits for poll(2)'s events. false: the time is over. */
bool redis_wait(int fd, short events, int64_t until_ms);
/* The next answer; the caller frees it (freeReplyObject). 1: there. 0: not yet. -1: closed. */
int redis_receive(struct redis_conn *conn, int timeout_ms, redisReply **ret, struct tsk_error *err);
/* What follows from an answer that is an error: *err has its words, *reply is freed. A server that is a replica (READONLY) is left: the
 * next connection may find the primary. */
void redis_refused(struct redis_conn *conn, redisReply **reply, struct tsk_error *err);
/* Both. 0: *ret is an answer that is no error. -1: closed, or refused: then *err has the words, and the connection is still open unless
 * it leads to a replica. */
int redis_ask(struct redis_conn *conn, const struct redis_command *command, redisReply **ret, struct tsk_error *err);
/* The same for two that are under way together; the answer to the first. */
int redis_ask_two(struct redis_conn *conn, const struct redis_command *first, const struct redis_command *second,
                  redisReply **ret, struct tsk_error *err);
/* A command of plain words, up to a NULL; the second is its key. */
int redis_say(struct redis_conn *conn, redisReply **ret, struct tsk_error *err, ...) __attribute__((sentinel));
void reply_free(redisReply **reply); /* for CLEANUP */
#define CLEANUP_REPLY CLEANUP(reply_free)
/* The text of an element, "" if there is none. */
const char *reply_text(const redisReply *reply, size_t index);

#endif
