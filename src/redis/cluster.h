/* cluster.h - a Redis Cluster: which node has a key. All keys of a run have one hash tag, so a run is on one node; a pool and
 * the files of a run may be on others.
 *
 *  N1  A connection to a cluster is a connection to one of its nodes, which has connections to the others as they are needed.
 *      Each connection knows its own server_id. The steps of a run go to the node that has the run, and a node that takes its
 *      place counts as another server (L2 of link.h).
 *  N2  MOVED updates the node of a slot. A plain command is sent there at once; the caller of a step builds the step again,
 *      because it contains the server's id. ASK is followed once, for that command, but not for a step: a step waits until the
 *      slot has arrived, because half of the run's keys may be on either node. A step is executed wholly or not at all
 *      (steps.c). */
#ifndef REDIS_CLUSTER_H
#define REDIS_CLUSTER_H

#include "redis/conn.h"

/* The connection that a key belongs to: `conn` itself where there is no cluster. NULL with *err: that node cannot be reached. */
struct redis_conn *cluster_at(struct redis_conn *conn, const char *key, struct tsk_error *err);
/* Whether a refusal says where the slot is; then that is known from now on. */
bool cluster_moved(struct redis_conn *conn, const char *refusal);
/* A command about a key, with what N2 says. As redis_ask. */
int cluster_ask(struct redis_conn *conn, const char *key, const struct redis_command *command, redisReply **ret,
                struct tsk_error *err);
/* Two commands of one key, the answer to the first. They are under way together where the server is no cluster. */
int cluster_ask_two(struct redis_conn *conn, const char *key, const struct redis_command *first,
                    const struct redis_command *second, redisReply **ret, struct tsk_error *err);
/* A connection for one key, on which a caller waits. */
int cluster_connect(struct redis_conn *conn, const struct redis_settings *settings, const char *key,
                    struct tsk_error *err);
void cluster_close(struct redis_conn *conn);

#endif
