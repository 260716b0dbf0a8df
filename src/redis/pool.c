#include "redis/pool.h"
#include "base/clock.h"
#include "redis/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_LAST "9999"
#define ORDER_S   "120"
#define POOLS_KEY "tasuki:{pools}"
#define POOLS_S   "86400"

static json_t *tags_of(const char *text, size_t len)
{
    json_t *tags = json_array();
    for (size_t at = 0, next; at < len; at = next + 1) {
        next = at;
        while (next < len && text[next] != ',')
            next++;
        if (next > at)
            json_array_append_new(tags, json_stringn(text + at, next - at));
    }
    return tags;
}

/* The fields that talk_live has written, with tabs between them. */
static json_t *worker_of(const char *text, const char *seen)
{
    static const char *const names[] = {"id",    "name",    "host", "tags",   "places", "tasks",
                                        "state", "version", "run",  "commit", "key"};
    json_t *worker = json_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = strcspn(text, "\t");
        bool is_number = i == 4 || i == 5;
        json_object_set_new(worker, names[i],
                            is_number ? json_integer(strtoll(text, NULL, 10))
                            : i == 3  ? tags_of(text, len)
                                      : json_stringn(text, len));
        text += len + (text[len] == '\t');
    }
    json_object_set_new(worker, "seen_ms", json_integer(strtoll(seen, NULL, 10)));
    return worker;
}

static int pool_add_worker(struct redis_conn *conn, const struct redis_settings *settings, const char *id,
                           const char *seen, json_t *list, struct tsk_error *err)
{
    char key[KEY_MAX], name[KEY_MAX / 2];
    redisReply *reply CLEANUP_REPLY = NULL;
    snprintf(name, sizeof name, "w:%.200s", id);
    key_of_pool(settings, name, key);
    if (redis_say(conn, &reply, err, "GET", key, NULL) < 0)
        return -1;
    if (reply->str) {
        json_array_append_new(list, worker_of(reply->str, seen));
        return 0;
    }
    key_of_pool(settings, "w", key); /* it has not been heard of for a while */
    return redis_say(conn, NULL, err, "ZREM", key, id, NULL);
}

int pool_workers(struct redis_conn *conn, const struct redis_settings *settings, json_t **ret, struct tsk_error *err)
{
    char key[KEY_MAX];
    redisReply *reply CLEANUP_REPLY = NULL;
    key_of_pool(settings, "w", key);
    if (redis_say(conn, &reply, err, "ZRANGE", key, "0", POOL_LAST, "WITHSCORES", NULL) < 0)
        return -1;
    json_t *list = json_array();
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (pool_add_worker(conn, settings, reply_text(reply, i), reply_text(reply, i + 1), list, err) < 0) {
            json_decref(list);
            return -1;
        }
    *ret = list;
    return 0;
}

int pool_register(struct redis_conn *conn, const struct redis_settings *settings, struct tsk_error *err)
{
    char place[2 * REDIS_NAME_MAX + 2], wall[32];
    snprintf(place, sizeof place, "%s/%s", settings->prefix, settings->pool);
    snprintf(wall, sizeof wall, "%lld", (long long)clock_now().wall_ms);
    if (redis_say(conn, NULL, err, "ZADD", POOLS_KEY, wall, place, NULL) < 0)
        return -1;
    return redis_say(conn, NULL, err, "EXPIRE", POOLS_KEY, POOLS_S, NULL);
}

void pool_others(struct redis_conn *conn, const struct redis_settings *settings, struct buf *ret)
{
    char place[2 * REDIS_NAME_MAX + 2], since[32];
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    snprintf(place, sizeof place, "%s/%s", settings->prefix, settings->pool);
    snprintf(since, sizeof since, "%lld", (long long)clock_now().wall_ms - 2 * POOL_REGISTER_MS);
    if (redis_say(conn, &reply, &err, "ZRANGEBYSCORE", POOLS_KEY, since, "+inf", "LIMIT", "0", "20", NULL) < 0)
        return;
    for (size_t i = 0; i < reply->elements; i++)
        if (strcmp(reply_text(reply, i), place) != 0)
            buf_printf(ret, "%s%s", ret->len ? ", " : "", reply_text(reply, i));
}

int pool_order(struct redis_conn *conn, const struct redis_settings *settings, const char *worker, const char *order,
               struct tsk_error *err)
{
    char key[KEY_MAX], name[KEY_MAX / 2];
    snprintf(name, sizeof name, "o:%.200s", worker);
    key_of_pool(settings, name, key);
    if (redis_say(conn, NULL, err, "RPUSH", key, order, NULL) < 0)
        return -1;
    return redis_say(conn, NULL, err, "EXPIRE", key, ORDER_S, NULL);
}
