#include "redis/steps.h"
#include "redis/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char steps_text[], steps_text_hash[]; /* steps.lua */

static void steps_name(char name[32])
{
    snprintf(name, 32, "%s%.12s", STEPS_NAME, steps_text_hash);
}

void key_of_run(const struct redis_settings *settings, const char *root, const char *name, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%s:{%s}:%s", settings->prefix, root, name);
}

void key_of_pool(const struct redis_settings *settings, const char *name, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%s:{pool %s}:%s", settings->prefix, settings->pool, name);
}

void key_of_files(const struct redis_settings *settings, const char *hash, const char *name, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%s:{files %s}:%s", settings->prefix, hash, name);
}

void steps_begin(struct redis_command *command, struct redis_conn *conn, struct steps *steps, const char *name)
{
    struct tsk_error err;
    const struct redis_conn *node = cluster_at(conn, steps->meta, &err);
    snprintf(steps->server, sizeof steps->server, "%s", node ? node->server_id : "");
    command_begin(command, NULL);
    command_puts(command, steps->meta);
    command_puts(command, name);
    command_puts(command, steps->server);
    if (strcmp(name, "begin") != 0)
        command_put_int(command, steps->seen);
}

static int steps_load(struct redis_conn *conn, char sha[48], struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    char name[32];
    steps_name(name);
    command_begin(&command, conn->has_functions ? "FUNCTION" : "SCRIPT");
    command_puts(&command, "LOAD");
    if (conn->has_functions) {
        command_puts(&command, "REPLACE");
        buf_printf(&text, "#!lua name=%s\n%sredis.register_function('%s', main)\n", name, steps_text, name);
    } else {
        buf_printf(&text, "%sreturn main(KEYS, ARGV)\n", steps_text);
    }
    command_puts(&command, buf_str(&text));
    if (redis_ask(conn, &command, &reply, err) < 0) {
        const char *refusal = tsk_error_context(err, "reason");
        if (conn->fd < 0 || !conn->has_functions || !refusal || !strstr(refusal, "unknown command"))
            return -1;
        conn->has_functions = false; /* a compatible server that calls itself 7 */
        return steps_load(conn, sha, err);
    }
    snprintf(sha, 48, "%s", reply->str ? reply->str : "");
    return 0;
}

/* One try. 1: the steps have to be loaded first. `absent`: a key that never exists; NULL: the server is no cluster. While the run's slot
 * is on its way to another node, a node refuses the keys that it does not have. A key that is named beforehand has the step
 * refused before it begins; otherwise it would end in the middle. */
static int steps_try(struct redis_conn *conn, const struct redis_command *command, const char *absent, const char *sha,
                     redisReply **ret, struct tsk_error *err)
{
    struct redis_command front CLEANUP(command_clear) = {.count = 0};
    char name[32];
    steps_name(name);
    command_begin(&front, conn->has_functions ? "FCALL" : "EVALSHA");
    command_puts(&front, conn->has_functions ? name : sha);
    command_puts(&front, absent ? "2" : "1");
    if (absent)
        command_puts(&front, absent);
    if (redis_send(conn, command, &front, err) < 0)
        return -1;
    int result = redis_receive(conn, REDIS_CALL_MS, ret, err);
    if (result == 0) {
        redis_close(conn);
        error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "no answer in time", NULL);
    }
    if (result <= 0)
        return -1;
    if ((*ret)->type != REDIS_REPLY_ERROR)
        return 0;
    bool is_missing = strstr((*ret)->str, "Function not found") || strncmp((*ret)->str, "NOSCRIPT", 8) == 0 ||
                      (conn->has_functions && strstr((*ret)->str, "unknown command"));
    redis_refused(conn, ret, err);
    return is_missing ? 1 : -1;
}

static enum steps_answer answer_of(struct steps *steps, const redisReply *reply)
{
    const char *word = reply_text(reply, 0);
    if (strcmp(word, "OK") == 0) {
        int64_t step = strtoll(reply_text(reply, 1), NULL, 10);
        steps->seen = step > steps->seen && step < INT64_C(1) << 53 ? step : steps->seen;
        return STEPS_OK;
    }
    if (strcmp(word, "ENDED") == 0)
        return STEPS_ENDED;
    return strcmp(word, "OWNER") == 0 ? STEPS_FOREIGN : STEPS_STALE;
}

enum steps_answer steps_ask(struct redis_conn *conn, struct steps *steps, const struct redis_command *command,
                            redisReply **ret, struct tsk_error *err)
{
    static char sha[48]; /* of the script: the same text on every server */
    char none[KEY_MAX + 8];
    *ret = NULL;
    snprintf(none, sizeof none, "%s:none", steps->meta);
    const char *absent = conn->is_cluster ? none : NULL;
    struct redis_conn *node = cluster_at(conn, steps->meta, err);
    if (!node)
        return STEPS_AWAY;
    if (strcmp(node->server_id, steps->server) != 0) { /* the run has moved since the step was begun: once more */
        error_set(err, TSK_REDIS_UNAVAILABLE, "redis_lost", "reason", "MOVED", NULL);
        return STEPS_AWAY;
    }
    int result = !node->has_functions && !sha[0] ? 1 : steps_try(node, command, absent, sha, ret, err);
    if (result == 1)
        result = steps_load(node, sha, err) < 0 ? -1 : steps_try(node, command, absent, sha, ret, err);
    if (result != 0) {
        const char *refusal = tsk_error_context(err, "reason");
        cluster_moved(conn, refusal ? refusal : "");
        return STEPS_AWAY;
    }
    enum steps_answer answer = answer_of(steps, *ret);
    if (answer != STEPS_OK)
        error_set(err, TSK_ENVIRONMENT, "redis_stale", "reason", reply_text(*ret, 0), NULL);
    return answer;
}
