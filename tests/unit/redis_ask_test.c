/* One question to a server that has a script, and the files that travel to it. */
#include "redis_scene.h"

#include "redis/ask.h"
#include "redis/link.h"

/* ---- questions ------------------------------------------------------------------------------------------ */

/* What tasuki-worker ask prints for these words; its exit status in *ret. */
static json_t *answer_to(const char *url, const char *words, int *ret)
{
    char text[200], *argv[6], *rest = text;
    int argc = 0, kept = dup(1);
    snprintf(text, sizeof text, "%s", words);
    for (char *word; (word = strsep(&rest, " "));)
        argv[argc++] = word;
    argv[argc] = NULL;
    if (url)
        setenv("TASUKI_REDIS", url, 1);
    else
        unsetenv("TASUKI_REDIS");
    fflush(stdout);
    int file = open("printed", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(file, 1);
    *ret = ask_main(argc, argv);
    fflush(stdout);
    dup2(kept, 1);
    close(kept);
    close(file);
    json_t *answer = json_load_file("printed", 0, NULL);
    ASSERT(answer);
    return answer;
}

static void is_refused(const char *url, const char *words, const char *code)
{
    int status;
    json_t *answer CLEANUP_JSON = answer_to(url, words, &status);
    ASSERT_INT(status, 1);
    ASSERT_STR(json_get_string(json_object_get(answer, "error"), "reason_code", ""), code);
}

TEST(a_question_without_a_server_or_that_is_none_is_invalid_input)
{
    struct server s;
    char url[64];
    server_open(&s);
    snprintf(url, sizeof url, "redis://127.0.0.1:%s", s.ports[0]);
    is_refused(NULL, "server", "INVALID_INPUT");
    is_refused("", "server", "INVALID_INPUT");
    is_refused("http://h", "server", "INVALID_INPUT");
    struct line lines[] = {HELLO(0), HELLO(0), HELLO(0), HELLO(0), HELLO(0)};
    START(&s, lines);
    static const char *const words[] = {"weather", "drain", "end", "settle RUN-1", "settle RUN-1 1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_refused(url, words[i], "INVALID_INPUT");
    server_close(&s);
}

TEST(what_the_server_refuses_is_the_answer_to_a_question)
{
    struct server s;
    char url[64];
    server_open(&s);
    snprintf(url, sizeof url, "redis://127.0.0.1:%s", s.ports[0]);
    struct line lines[] = {
        HELLO(0),
        {0, "PING", "-ERR x\r\n"},
        HELLO(0),
        {0, "ZRANGE *", "-ERR x\r\n"},
        HELLO(0),
        {0, "RPUSH tasuki:{pool default}:o:w drain", "-ERR x\r\n"},
        HELLO(0),
        {0, "INFO", "-ERR x\r\n"},
        HELLO(0),
        {0, "INFO", "$0\r\n\r\n"},
        {0, "ZRANGEBYSCORE *", "-ERR x\r\n"}, /* only a hint */
        {0, "ZRANGE *", "-ERR x\r\n"},
        HELLO(0),
        {0, "INFO", "$0\r\n\r\n"},
        {0, "ZRANGEBYSCORE *", "*0\r\n"},
        {0, "ZRANGE *", "*0\r\n"},
        {0, "LLEN *", "-ERR x\r\n"},
        HELLO(0),
        {0, "INFO", "$0\r\n\r\n"},
        {0, "ZRANGEBYSCORE *", "*0\r\n"},
        {0, "ZRANGE *", "*0\r\n"},
        {0, "LLEN *", ":1\r\n"},
        {0, "LRANGE *", "-ERR x\r\n"},
    };
    START(&s, lines);
    static const char *const words[] = {"server", "workers", "drain w", "doctor", "doctor", "doctor", "doctor"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_refused(url, words[i], "ENVIRONMENT");
    server_close(&s);
}

TEST(a_question_is_answered_with_what_the_server_says)
{
    struct server s;
    char url[64];
    int status;
    server_open(&s);
    snprintf(url, sizeof url, "redis://127.0.0.1:%s/2", s.ports[0]);
    static const char info[] =
        "# "
        "Memory\r\nused_memory:123\r\nmaxmemory:456\r\nmaxmemory_policy:noeviction\r\nrole:master\r\naof_enabled:1\r\n";
    char said[300];
    snprintf(said, sizeof said, "$%zu\r\n%s\r\n", strlen(info), info);
    struct line lines[] = {
        {0, "SELECT 2", "+OK\r\n"},
        HELLO(0),
        {0, "PING", "+PONG\r\n"},
        {0, "SELECT 2", "+OK\r\n"},
        HELLO(0),
        {0, "RPUSH tasuki:{pool default}:o:w end", ":1\r\n"},
        {0, "EXPIRE *", ":1\r\n"},
        {0, "SELECT 2", "+OK\r\n"},
        HELLO(0),
        {0, "INFO", said},
        {0, "ZRANGEBYSCORE *", "*0\r\n"},
        {0, "ZRANGE *", "*0\r\n"},
        {0, "LLEN tasuki:{pool default}:dead", ":12\r\n"},
        {0, "LRANGE tasuki:{pool default}:dead 0 9", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
        {0, "FCALL tasuki_v3_*", "-NOPERM x\r\n"},
    };
    START(&s, lines);
    json_t *server CLEANUP_JSON = answer_to(url, "server", &status);
    ASSERT_INT(status, 0);
    ASSERT_STR(json_get_string(server, "version", ""), "7.2.4");
    json_t *end CLEANUP_JSON = answer_to(url, "end w", &status);
    ASSERT_INT(status, 0);
    ASSERT(json_is_object(end) && json_object_size(end) == 0);
    json_t *doctor CLEANUP_JSON = answer_to(url, "doctor", &status);
    ASSERT_INT(status, 0);
    ASSERT_STR(json_get_string(doctor, "role", ""), "master");
    ASSERT_STR(json_get_string(doctor, "policy", ""), "noeviction");
    ASSERT_INT(json_get_int(doctor, "memory", 0), 123);
    ASSERT_INT(json_get_int(doctor, "memory_max", 0), 456);
    ASSERT_INT(json_get_int(doctor, "aof", 0), 1);
    ASSERT_INT(json_get_int(doctor, "dead_count", 0), 12);
    ASSERT_INT(json_array_size(json_object_get(doctor, "dead")), 2);
    ASSERT_STR(json_get_string(doctor, "prefix", ""), "tasuki");
    ASSERT_STR(json_get_string(doctor, "pool", ""), "default");
    ASSERT_STR(json_get_string(doctor, "key", "?"), "");
    ASSERT(strstr(json_get_string(doctor, "refused", ""), "NOPERM"));
    server_close(&s);
}

/* ---- the files of a run --------------------------------------------------------------------------------- */

#define PACK_KEY "p:{files h}:pack"
#define PART_KEY "p:{files h}:part:me"

TEST(files_are_sent_under_another_name_first_and_any_refusal_means_that_the_server_lacks_them)
{
    struct server s;
    struct tsk_error err;
    struct link l = {.fd = -1, .outgoing = {.max = 1 << 20}, .owner = "me", .files_hash = "h"};
    char path[] = "pack";
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_INT(write(file, "content", 7), 7);
    close(file);
    server_open(&s);
    settings_for(&l.settings, &s, 0);
    struct line lines[] = {
        HELLO(0),
        {0, "STRLEN " PACK_KEY, "-ERR x\r\n"},
        {0, "STRLEN " PACK_KEY, ":0\r\n"},
        {0, "DEL " PART_KEY, "-ERR x\r\n"},
        {0, "STRLEN " PACK_KEY, ":6\r\n"}, /* cut off */
        {0, "DEL " PART_KEY, ":0\r\n"},
        {0, "APPEND " PART_KEY " content", "-OOM x\r\n"},
        {0, "STRLEN " PACK_KEY, ":0\r\n"},
        {0, "DEL " PART_KEY, ":0\r\n"},
        {0, "APPEND " PART_KEY " content", ":7\r\n"},
        {0, "EXPIRE " PART_KEY " 3600", "-ERR x\r\n"},
        {0, "STRLEN " PACK_KEY, ":0\r\n"},
        {0, "DEL " PART_KEY, ":0\r\n"},
        {0, "APPEND " PART_KEY " content", ":7\r\n"},
        {0, "EXPIRE " PART_KEY " 3600", ":1\r\n"},
        {0, "RENAME " PART_KEY " " PACK_KEY, "-ERR x\r\n"},
        {0, "STRLEN " PACK_KEY, ":0\r\n"},
        {0, "DEL " PART_KEY, ":0\r\n"},
        {0, "APPEND " PART_KEY " content", ":7\r\n"},
        {0, "EXPIRE " PART_KEY " 3600", ":1\r\n"},
        {0, "RENAME " PART_KEY " " PACK_KEY, "+OK\r\n"},
        {0, "EXPIRE " PACK_KEY " 604800", "-ERR x\r\n"},
        {0, "STRLEN " PACK_KEY, ":7\r\n"}, /* they are there */
        {0, "EXPIRE " PACK_KEY " 604800", ":1\r\n"},
        {0, "EXPIRE " PACK_KEY " 604800", ":1\r\n"}, /* they live on */
        {0, "EXPIRE " PACK_KEY " 604800", ":0\r\n"}, /* they were evicted */
        {0, "STRLEN " PACK_KEY, ":0\r\n"},
        {0, "DEL " PART_KEY, ":0\r\n"},
        {0, "APPEND " PART_KEY " content", ":7\r\n"},
        {0, "EXPIRE " PART_KEY " 3600", ":1\r\n"},
        {0, "RENAME " PART_KEY " " PACK_KEY, "+OK\r\n"},
        {0, "EXPIRE " PACK_KEY " 604800", ":1\r\n"},
    };
    START(&s, lines);
    ASSERT_OK(redis_connect(&l.calls, &l.settings, &err));
    ASSERT(link_files(&l)); /* nothing travels */
    link_files_live(&l);
    l.files_path = path;
    link_files_live(&l); /* the server has nothing yet */
    for (int i = 0; i < 6; i++) {
        ASSERT(!link_files(&l));
        ASSERT(l.is_away && !l.has_files);
    }
    ASSERT(link_files(&l));
    ASSERT(l.has_files);
    ASSERT(link_files(&l)); /* known */
    link_files_live(&l);
    ASSERT(l.has_files);
    link_files_live(&l);
    ASSERT(l.has_files);
    ASSERT_INT(unlink(path), 0);
    l.has_files = false;
    ASSERT(!link_files(&l));
    redis_close(&l.calls);
    buf_clear(&l.outgoing);
    server_close(&s);
}
