#include "run/elsewhere.h"
#include "base/fs.h"
#include "base/yaml.h"
#include "proc/launch.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ELSEWHERE_ANSWER_MAX (8u << 20)

/* ---- settings ------------------------------------------------------------------------------------------- */

/* The URL goes without user and password to whatever people see. */
static void show_url(const char *url, char shown[512])
{
    const char *scheme = strstr(url, "://");
    const char *place = scheme ? scheme + 3 : url;
    const char *at = memrchr(place, '@', strcspn(place, "/?"));
    snprintf(shown, 512, "%.*s%s", (int)(at ? place - url : 0), url, at ? at + 1 : url);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void elsewhere_put_pair(json_t *env, const char *name, const char *value)
{
    struct buf pair CLEANUP(buf_clear) = BUF_INIT;
    if (!value)
        return;
    buf_printf(&pair, "%s=%s", name, value);
    json_array_append_new(env, json_string(buf_str(&pair)));
}

/* `redis: URL`, or a map with these keys. */
static void elsewhere_put_settings(const struct yaml_node *redis, json_t *env)
{
    static const char *const keys[][2] = {
        {"user", "TASUKI_REDIS_USER"}, {"password_file", "TASUKI_REDIS_PASSWORD_FILE"},
        {"ca", "TASUKI_REDIS_CA"},     {"cert", "TASUKI_REDIS_CERT"},
        {"key", "TASUKI_REDIS_KEY"},   {"prefix", "TASUKI_REDIS_PREFIX"},
        {"pool", "TASUKI_REDIS_POOL"}, {"key_file", "TASUKI_REDIS_KEY_FILE"}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct yaml_node *node = redis ? yaml_get(redis, keys[i][0]) : NULL;
        elsewhere_put_pair(env, keys[i][1],
                           variable(keys[i][1]) ? variable(keys[i][1])
                           : node               ? yaml_text(node)
                                                : NULL);
    }
}

static const char *url_of_config(const struct yaml_node *redis)
{
    const struct yaml_node *node = redis ? yaml_get(redis, "url") : NULL;
    return node ? yaml_text(node) : redis ? yaml_text(redis) : NULL;
}

void elsewhere_clear(struct elsewhere *elsewhere)
{
    json_decref(elsewhere->env);
    elsewhere->env = NULL;
}

int elsewhere_find(struct tsk_workspace *ws, const char *url, const char *remembered, struct elsewhere *ret,
                   struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    json_t *server CLEANUP_JSON = NULL;
    static const char *const question[] = {"server", NULL};
    int found = ws ? workspace_config(ws, &doc, err) : 0;
    *ret = (struct elsewhere){.env = NULL};
    if (found < 0)
        return -1;
    const struct yaml_node *redis = found == 1 ? yaml_get(yaml_root(doc), "redis") : NULL;
    const char *wanted = url && *url ? url : variable("TASUKI_REDIS");
    wanted = wanted ? wanted : url_of_config(redis);
    wanted = wanted ? wanted : remembered;
    if (!wanted || !*wanted)
        return 0;
    if (launch_find_program("tasuki-worker", ret->program, err) < 0)
        return -1;
    ret->env = json_array();
    elsewhere_put_pair(ret->env, "TASUKI_REDIS", wanted);
    elsewhere_put_settings(redis, ret->env);
    show_url(wanted, ret->shown);
    return remembered ? 0 : elsewhere_ask(ret, question, &server, err);
}

void elsewhere_use(const struct elsewhere *elsewhere, struct runner_options *options)
{
    if (!elsewhere->program[0])
        return;
    options->remote_program = elsewhere->program;
    options->remote_env = elsewhere->env;
    options->remote_shown = elsewhere->shown;
}

/* ---- questions ------------------------------------------------------------------------------------------ */

static void put_environment(const struct elsewhere *elsewhere, char **env, size_t room)
{
    extern char **environ;
    size_t at = 0;
    json_each (elsewhere->env, i, pair)
        env[at++] = (char *)json_string_value(pair);
    for (size_t k = 0; environ[k] && at + 1 < room; k++)
        if (strncmp(environ[k], "TASUKI_REDIS", 12) != 0)
            env[at++] = environ[k];
    env[at] = NULL;
}

/* Runs the program; what it prints. Its exit code, or -1. */
static int ask_program(const struct elsewhere *elsewhere, const char *const *words, struct buf *ret,
                       struct tsk_error *err)
{
    extern char **environ;
    int ends[2], status = 0;
    char *argv[8] = {(char *)elsewhere->program, "ask"};
    size_t room = json_array_size(elsewhere->env) + 1;
    for (size_t i = 0; words[i] && i < 5; i++)
        argv[i + 2] = (char *)words[i];
    for (size_t i = 0; environ[i]; i++)
        room++;
    char **env = memory_zeroed(room, sizeof *env);
    put_environment(elsewhere, env, room);
    if (pipe2(ends, O_CLOEXEC) < 0) {
        free(env);
        return error_errno(err, "start", elsewhere->program);
    }
    struct spawn_fd fds[] = {{-1, 0}, {ends[1], 1}};
    struct spawn spawn = {.path = argv[0], .argv = argv, .envp = env, .fds = fds, .fd_count = 2, .no_pidfd = true};
    int result = spawn_run(&spawn);
    fs_close(&ends[1]);
    free(env);
    if (result == 0 && fs_read_stream(ends[0], ELSEWHERE_ANSWER_MAX - 1, ret) < 0)
        result = -1;
    fs_close(&ends[0]);
    while (spawn.pid > 0 && waitpid(spawn.pid, &status, 0) < 0 && errno == EINTR)
        ;
    return result < 0 ? error_errno(err, "start", elsewhere->program) : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The reason that the program names. */
static enum tsk_code code_of_answer(const json_t *error)
{
    const char *name = json_get_string(error, "reason_code", "");
    for (enum tsk_code code = TSK_OK + 1; code < code_count(); code++)
        if (strcmp(code_info(code)->name, name) == 0)
            return code;
    return TSK_ENVIRONMENT;
}

int elsewhere_ask(const struct elsewhere *elsewhere, const char *const *words, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = ELSEWHERE_ANSWER_MAX};
    json_t *answer CLEANUP_JSON = NULL;
    int code = ask_program(elsewhere, words, &text, err);
    if (code < 0 || json_parse(buf_str(&text), text.len, "tasuki-worker", &answer, err) < 0)
        return -1;
    if (code == 0) {
        *ret = json_incref(answer);
        return 0;
    }
    const json_t *error = json_object_get(answer, "error");
    error_set(err, code_of_answer(error), "redis_problem", "reason", json_get_string(error, "message", ""), NULL);
    return -1;
}
