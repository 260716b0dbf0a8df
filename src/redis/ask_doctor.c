/* ask_doctor.c - a look at the server for `tasuki doctor`. Nothing stays there. */
#include "base/ident.h"
#include "base/text.h"
#include "redis/ask.h"
#include "redis/pool.h"
#include "redis/sign.h"
#include "redis/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEAD_SHOWN "9"

/* A line `KEY:VALUE` of INFO. */
static json_t *info_of(const redisReply *info, const char *key, bool is_number)
{
    char name[64];
    const char *text = info->str ? info->str : "";
    snprintf(name, sizeof name, "\n%s:", key);
    const char *at = strstr(text, name);
    at = at ? at + strlen(name) : "";
    return is_number ? json_integer(strtoll(at, NULL, 10)) : json_stringn(at, strcspn(at, "\r\n"));
}

/* The steps are loaded and called as a runner does it: what the server refuses is refused here. */
static json_t *try_steps(struct redis_conn *conn, const struct redis_settings *settings)
{
    static const char *const names[] = {"begin", "sweep"};
    struct steps steps = {.seen = 0};
    char root[32] = "doctor-";
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error err;
    random_hex(root + 7, 8);
    root[15] = '\0';
    key_of_run(settings, root, "meta", steps.meta);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        steps_begin(&command, conn, &steps, names[i]);
        const char *const words[] = {i ? root : "1", i ? "end" : "1000", i ? NULL : root};
        for (size_t k = 0; k < 3 && words[k]; k++)
            command_puts(&command, words[k]);
        if (steps_ask(conn, &steps, &command, &reply, &err) != STEPS_OK) {
            text_put_error(&text, lang_from_environment(), &err);
            return json_string(buf_str(&text));
        }
    }
    return json_null();
}

static int add_dead(struct redis_conn *conn, const struct redis_settings *settings, json_t *answer,
                    struct tsk_error *err)
{
    char key[KEY_MAX];
    redisReply *count CLEANUP_REPLY = NULL, *lines CLEANUP_REPLY = NULL;
    key_of_pool(settings, "dead", key);
    if (redis_say(conn, &count, err, "LLEN", key, NULL) < 0 ||
        redis_say(conn, &lines, err, "LRANGE", key, "0", DEAD_SHOWN, NULL) < 0)
        return -1;
    json_t *list = json_array();
    for (size_t i = 0; i < lines->elements; i++)
        json_array_append_new(list, json_string(reply_text(lines, i)));
    json_object_set_new(answer, "dead", list);
    json_object_set_new(answer, "dead_count", json_integer(count->integer));
    return 0;
}

int ask_doctor(struct redis_conn *conn, const struct redis_settings *settings, json_t **ret, struct tsk_error *err)
{
    char key[16];
    redisReply *info CLEANUP_REPLY = NULL;
    json_t *workers = NULL;
    struct buf others CLEANUP(buf_clear) = BUF_INIT;
    if (redis_say(conn, &info, err, "INFO", NULL) < 0)
        return -1;
    sign_name(settings, key);
    json_t *answer = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:s}", "version", conn->version, "role",
                               info_of(info, "role", false), "policy", info_of(info, "maxmemory_policy", false),
                               "memory", info_of(info, "used_memory", true), "memory_max",
                               info_of(info, "maxmemory", true), "aof", info_of(info, "aof_enabled", true), "key", key,
                               "prefix", settings->prefix, "pool", settings->pool, "tasuki", TASUKI_VERSION);
    BUG(!answer);
    pool_others(conn, settings, &others);
    json_object_set_new(answer, "others", json_string(buf_str(&others)));
    if (pool_workers(conn, settings, &workers, err) < 0 || add_dead(conn, settings, answer, err) < 0) {
        json_decref(workers);
        json_decref(answer);
        return -1;
    }
    json_object_set_new(answer, "workers", workers);
    json_object_set_new(answer, "refused", try_steps(conn, settings)); /* last: a replica breaks the connection */
    *ret = answer;
    return 0;
}
