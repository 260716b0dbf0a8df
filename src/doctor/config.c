/* config.c - config.yaml: readable, only keys that somebody reads, values of the right kind; and the Redis it names. */
#include "base/address.h"
#include "base/word.h"
#include "base/yaml.h"
#include "doctor/check.h"
#include "graph/wire.h"
#include "own/agent.h"
#include "proc/actor.h"
#include "run/prune.h"
#include "store/notify.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REDIS_WAIT_MS 1500

enum value_kind { VALUE_BOOL, VALUE_INT, VALUE_TEXT, VALUE_MAP, VALUE_PLACE };

/* Every key that some part of tasuki reads. */
static const struct config_key {
    const char *name;
    enum value_kind kind;
} keys[] = {
    {"trust_fs", VALUE_BOOL}, {"agents_confirm_live", VALUE_BOOL},
    {"max_runs", VALUE_INT},  {"agents", VALUE_MAP},
    {"teams", VALUE_MAP},     {"redis", VALUE_PLACE},
    {"processes", VALUE_MAP}, {"keep", VALUE_MAP},
    {"notify", VALUE_MAP},
};
enum { CONFIG_KEY_COUNT = sizeof keys / sizeof keys[0] };

static const struct config_key *config_key_find(const char *name)
{
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static bool key_has_kind(const struct yaml_node *node, enum value_kind kind)
{
    bool flag;
    int64_t number;
    switch (kind) {
    case VALUE_BOOL:
        return yaml_bool(node, &flag) == 0;
    case VALUE_INT:
        return yaml_int(node, &number) == 0 && number > 0;
    case VALUE_TEXT:
        return yaml_text(node) != NULL;
    case VALUE_MAP:
        return node->type == YAML_MAP || yaml_is_null(node); /* all of it commented out */
    case VALUE_PLACE:                                        /* a URL, or a map that has it */
        return node->type == YAML_MAP || yaml_text(node);
    }
    return false;
}

static const char *kind_text(enum value_kind kind)
{
    static const char *const names[] = {[VALUE_BOOL] = "doctor_kind_bool",
                                        [VALUE_INT] = "doctor_kind_int",
                                        [VALUE_TEXT] = "doctor_kind_text",
                                        [VALUE_MAP] = "doctor_kind_map",
                                        [VALUE_PLACE] = "doctor_kind_text"};
    return names[kind];
}

static void suggest_config(struct finding *f, unsigned line)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    finding_fix(f, "${EDITOR:-vi} +%u %s", line, state_word(f->doctor, "config.yaml", &word));
}

static void look_at_key(struct finding *f, const struct yaml_node *node)
{
    const char *names[CONFIG_KEY_COUNT];
    char place[64];
    const struct config_key *key = config_key_find(node->key);
    snprintf(place, sizeof place, "config.yaml:%u:%u", node->key_line, node->key_column);
    for (size_t i = 0; i < CONFIG_KEY_COUNT; i++)
        names[i] = keys[i].name;
    bool is_locks = strcmp(node->key, "locks") == 0; /* a key to come; until then nothing may be granted under it */
    const char *near = key ? NULL : nearest_word(node->key, names, CONFIG_KEY_COUNT);
    if (is_locks)
        finding_add(f, DOCTOR_FAIL, "config_locks", "place", place, NULL);
    else if (!key)
        finding_add(f, DOCTOR_WARN, near ? "doctor_key_near" : "doctor_key_unknown", "place", place, "key", node->key,
                    "near", near ? near : "", NULL);
    else if (!key_has_kind(node, key->kind))
        finding_add(f, DOCTOR_FAIL, "doctor_key_kind", "place", place, "key", node->key, "want",
                    text_get(kind_text(key->kind), f->doctor->options.lang), NULL);
    else
        return;
    suggest_config(f, node->key_line);
}

static void tell_error(struct finding *f, const struct tsk_error *err)
{
    json_t *context CLEANUP_JSON = json_of_error_context(err);
    const char *text = json_get_string(context, "line", NULL);
    int64_t line = text ? strtoll(text, NULL, 10) : json_get_int(context, "line", 1);
    finding_error(f, DOCTOR_FAIL, err);
    suggest_config(f, (unsigned)line);
}

/* Returns 1 if it was parsed, 0 if there is no file, -1 if a finding was added. */
static int config_open(struct finding *f, struct yaml **ret)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error err;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(f->doctor->ws->state_dir, "config.yaml", YAML_SIZE_MAX, &text) < 0) {
        if (errno == ENOENT)
            return 0;
        finding_add(f, DOCTOR_FAIL, "doctor_access", "path", "config.yaml", "reason", strerrordesc_np(errno), NULL);
        finding_fix(f, "ls -ld %s", state_word(f->doctor, "config.yaml", &word));
        return -1;
    }
    if (yaml_parse(buf_str(&text), text.len, "config.yaml", ret, &err) == 0)
        return 1;
    tell_error(f, &err);
    return -1;
}

void check_config(struct finding *f)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    int found = config_open(f, &doc);
    finding_summary(f, found ? "doctor_config_good" : "doctor_config_none", NULL);
    if (found <= 0)
        return;
    const struct yaml_node *root = yaml_root(doc);
    if (root->type != YAML_MAP) {
        finding_add(f, DOCTOR_FAIL, "doctor_config_no_map", NULL);
        suggest_config(f, 1);
        return;
    }
    for (const struct yaml_node *node = root->first; node; node = node->next)
        look_at_key(f, node);
    json_t *agents CLEANUP_JSON = NULL;
    struct tsk_error err;
    struct prune keep;
    enum proc_guarding guard;
    struct tsk_workspace *ws = f->doctor->ws;
    if (f->status != DOCTOR_FAIL && (agents_load(ws, &agents, &err) < 0 || prune_config(ws, &keep, &err) < 0 ||
                                     notify_check(ws, &err) < 0 || proc_guarding_read(ws, &guard, &err) < 0))
        tell_error(f, &err);
}

/* ---- Redis --------------------------------------------------------------------------------------------------- */

struct redis_place {
    char host[256], port[8];
    int port_number;
};

static bool parse_port(const char *text, struct redis_place *ret)
{
    size_t len = strspn(text, "0123456789");
    long port = len && len <= 5 && !text[len] ? strtol(text, NULL, 10) : 0;
    snprintf(ret->port, sizeof ret->port, "%ld", port);
    ret->port_number = (int)port;
    return port >= 1 && port <= 65535;
}

/* redis://[user:password@]host[:port][/db]; an IPv6 address is in brackets. */
static bool parse_url(const char *url, struct redis_place *ret)
{
    if (strncmp(url, "redis://", 8) != 0)
        return false;
    size_t len = strcspn(url + 8, "/?#");
    char text[320];
    if (len == 0 || len >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)len, url + 8);
    char *host = strrchr(text, '@') ? strrchr(text, '@') + 1 : text,
         *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    char *port = strrchr(bracket ? bracket : host, ':');
    if (host[0] == '[' && (!bracket || (bracket[1] && bracket[1] != ':')))
        return false;
    if (!parse_port(port ? port + 1 : REDIS_PORT, ret))
        return false;
    if (port)
        *port = '\0';
    if (bracket) {
        *bracket = '\0';
        host++;
    }
    return host[0] && snprintf(ret->host, sizeof ret->host, "%s", host) < (int)sizeof ret->host;
}

static bool redis_wait_for(int fd, short events)
{
    struct pollfd look = {.fd = fd, .events = events};
    return poll(&look, 1, REDIS_WAIT_MS) == 1;
}

static int server_connect(const union address *address)
{
    int error = 0;
    socklen_t size = sizeof error;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, &address->any, address_len(address)) == 0)
        return fd;
    if (errno == EINPROGRESS && !redis_wait_for(fd, POLLOUT))
        errno = ETIMEDOUT;
    else if (errno == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error)
        return fd;
    else if (error)
        errno = error;
    fs_close(&fd);
    return -1;
}

/* Whether something that speaks Redis answers; one that wants a password does. */
static bool ping_socket(int fd)
{
    char answer[64] = "";
    if (send(fd, "PING\r\n", 6, MSG_NOSIGNAL) != 6 || !redis_wait_for(fd, POLLIN) ||
        recv(fd, answer, sizeof answer - 1, 0) <= 0) {
        errno = errno ? errno : ECONNRESET;
        return false;
    }
    errno = EPROTO;
    return strncmp(answer, "+PONG", 5) == 0 || strncmp(answer, "-NOAUTH", 7) == 0;
}

/* NULL if one of the addresses answers, else the first one's reason: a machine without IPv6 says something odd for the second. */
static const char *try_redis(const union address *list, size_t count)
{
    const char *reason = NULL;
    for (size_t i = 0; i < count; i++) {
        errno = 0;
        int fd CLEANUP_FD = server_connect(&list[i]);
        if (fd >= 0 && ping_socket(fd))
            return NULL;
        reason = reason ? reason : strerrordesc_np(errno);
    }
    return reason;
}

void check_redis(struct finding *f)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    struct redis_place place;
    struct tsk_error err;
    f->is_absent = true; /* the check before reports what is wrong with the file */
    if (workspace_config(f->doctor->ws, &doc, &err) <= 0)
        return;
    const struct yaml_node *redis = yaml_get(yaml_root(doc), "redis");
    const char *url = yaml_text(redis && redis->type == YAML_MAP ? yaml_get(redis, "url") : redis);
    if (!url || strncmp(url, "rediss://", 9) == 0 || strncmp(url, "unix://", 7) == 0) /* the next check asks */
        return;
    f->is_absent = false;
    if (!parse_url(url, &place)) {
        finding_add(f, DOCTOR_FAIL, "doctor_redis_url", NULL); /* without the URL: it may have a password */
        suggest_config(f, 1);
        return;
    }
    union address list[ADDRESSES_MAX];
    size_t count = host_addresses(place.host, place.port_number, list);
    const char *reason = count ? try_redis(list, count) : NULL;
    finding_summary(f, "doctor_redis_good", "host", place.host, "port", place.port, NULL);
    if (count && !reason)
        return;
    if (!count)
        finding_add(f, DOCTOR_WARN, "doctor_redis_name", "host", place.host, NULL);
    else
        finding_add(f, DOCTOR_FAIL, "doctor_redis", "host", place.host, "port", place.port, "reason", reason, NULL);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    finding_fix(f, "redis-cli -h %s -p %s ping", shell_word(&word, place.host), place.port);
}
