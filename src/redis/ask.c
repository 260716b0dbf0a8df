#include "redis/ask.h"
#include "base/json.h"
#include "base/text.h"
#include "redis/link.h"
#include "redis/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ask_server(struct redis_conn *conn, json_t **ret, struct tsk_error *err)
{
    redisReply *pong CLEANUP_REPLY = NULL;
    if (redis_say(conn, &pong, err, "PING", NULL) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s}", "version", conn->version, "server_id", conn->server_id);
    return 0;
}

static int ask_settle(const struct redis_settings *settings, char **argv, json_t **ret, struct tsk_error *err)
{
    bool is_swept = false;
    int64_t epoch = strtoll(argv[2], NULL, 10), lease_ms = strtoll(argv[3], NULL, 10);
    if (link_end_run(settings, argv[1], epoch, lease_ms, &is_swept, err) < 0)
        return -1;
    *ret = json_pack("{s:b}", "swept", is_swept);
    return 0;
}

static int ask_one(int argc, char **argv, json_t **ret, struct tsk_error *err)
{
    const char *url = getenv("TASUKI_REDIS");
    struct redis_settings settings;
    struct redis_conn conn = {.fd = -1};
    if (!url || !*url)
        return error_set(err, TSK_INVALID_INPUT, "redis_not_named", NULL);
    if (redis_settings_read(&settings, url, err) < 0 || redis_connect(&conn, &settings, err) < 0)
        return -1;
    int result = -1;
    if (strcmp(argv[0], "server") == 0)
        result = ask_server(&conn, ret, err);
    else if (strcmp(argv[0], "doctor") == 0)
        result = ask_doctor(&conn, &settings, ret, err);
    else if (strcmp(argv[0], "workers") == 0)
        result = pool_workers(&conn, &settings, ret, err);
    else if ((strcmp(argv[0], "drain") == 0 || strcmp(argv[0], "end") == 0) && argc > 1)
        result = pool_order(&conn, &settings, argv[1], argv[0], err);
    else if (strcmp(argv[0], "settle") == 0 && argc > 3)
        result = ask_settle(&settings, argv, ret, err);
    else
        error_set(err, TSK_INVALID_INPUT, "redis_question", NULL);
    redis_close(&conn);
    if (result == 0 && !*ret)
        *ret = json_object();
    return result;
}

int ask_main(int argc, char **argv)
{
    struct tsk_error err;
    json_t *answer CLEANUP_JSON = NULL;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    int result = ask_one(argc, argv, &answer, &err);
    if (result < 0)
        answer = json_of_error(&err, lang_name(lang_from_environment()));
    json_write(&text, answer, false);
    printf("%s\n", buf_str(&text));
    return result < 0 ? 1 : 0;
}
