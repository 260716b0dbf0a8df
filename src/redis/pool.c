#include "redis/pool.h"
#include "base/clock.h"
#include "redis/cluster.h"
#include "redis/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_LAST "9999"
#define POOL_PAGE 500
#define ORDER_S   "120"
#define POOLS_KEY "tasuki:{pools}"

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
                                        "state", "version", "run",  "commit", "key",    "layout"};
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

/* The workers of a page of [id, last sign of life, …]. Those that have not been heard of for a while leave the set. */
static int pool_add_page(struct redis_conn *conn, const struct redis_settings *settings, const redisReply *ids,
                         size_t from, json_t *list, struct tsk_error *err)
{
    char all[KEY_MAX], key[KEY_MAX], name[KEY_MAX / 2];
    struct redis_command get CLEANUP(command_clear) = {.count = 0}, gone CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL, *removed CLEANUP_REPLY = NULL;
    key_of_pool(settings, "w", all);
    command_begin(&get, "MGET");
    command_begin(&gone, "ZREM");
    command_puts(&gone, all);
    for (size_t i = from; i + 1 < ids->elements && i < from + 2 * POOL_PAGE; i += 2) {
        snprintf(name, sizeof name, "w:%.200s", reply_text(ids, i));
        key_of_pool(settings, name, key);
        command_puts(&get, key);
    }
    if (cluster_ask(conn, all, &get, &reply, err) < 0)
        return -1;
    for (size_t i = 0; i < reply->elements; i++) {
        const char *id = reply_text(ids, from + 2 * i), *about = reply->element[i]->str;
        if (about)
            json_array_append_new(list, worker_of(about, reply_text(ids, from + 2 * i + 1)));
        else
            command_puts(&gone, id);
    }
    return gone.count > 2 ? cluster_ask(conn, all, &gone, &removed, err) : 0;
}

int pool_workers(struct redis_conn *conn, const struct redis_settings *settings, json_t **ret, struct tsk_error *err)
{
    char key[KEY_MAX];
    redisReply *reply CLEANUP_REPLY = NULL;
    key_of_pool(settings, "w", key);
    if (redis_say(conn, &reply, err, "ZRANGE", key, "0", POOL_LAST, "WITHSCORES", NULL) < 0)
        return -1;
    json_t *list = json_array();
    for (size_t from = 0; from + 1 < reply->elements; from += 2 * POOL_PAGE)
        if (pool_add_page(conn, settings, reply, from, list, err) < 0) {
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
    return redis_say(conn, NULL, err, "EXPIRE", POOLS_KEY, POOL_S, NULL);
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
