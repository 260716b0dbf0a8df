/* pool.h - the workers of a pool, as they report themselves. These are only hints: they decide what people see, and how many
 * attempts are out at a time. */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include "base/json.h"
#include "redis/conn.h"

#define POOL_REGISTER_MS (10 * 60000) /* how often a worker renews its registration */
#define POOL_WAKE        "wake"       /* the list on which workers wait */
#define POOL_WAKE_TAG    "tag:"       /* and with a tag behind it: also those that have the tag */
#define POOL_S           "86400"      /* after which what nobody renews is gone */

/* [{id, name, host, tags, places, tasks, state, version, run, commit, key, layout, seen_ms}]; owned. run: it works for that one only, "": for any. */
int pool_workers(struct redis_conn *conn, const struct redis_settings *settings, json_t **ret, struct tsk_error *err);
/* Workers that another prefix or pool separates from us are a likely mistake: each says where it is, under one name for all. */
int pool_register(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err);
/* `PREFIX/POOL`, with commas between them; nothing if there are none. */
void pool_others(struct redis_conn *conn, const struct redis_settings *settings, struct buf *ret);
/* An order for a worker; it does not matter whether it is there. */
int pool_order(struct redis_conn *conn, const struct redis_settings *settings, const char *worker, const char *order,
               struct tsk_error *err);

#endif
