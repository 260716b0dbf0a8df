/* Probes: the string of the command line and the object become one object; then each member is checked. */
#include "base/word.h"
#include "proc/spec.h"
#include "proc/spec_make.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_TEXT_MAX 4096
/* glibc copies what a {n} repeats; nested ones multiply, and a few bytes could ask for gigabytes. */
#define PROBE_REPEAT_MAX 32767

static const char *const kind_names[] = {
    [PROBE_LOG] = "log",         [PROBE_PORT] = "port",     [PROBE_HTTP] = "http",
    [PROBE_COMMAND] = "command", [PROBE_NOTIFY] = "notify",
};
enum { KIND_COUNT = sizeof kind_names / sizeof kind_names[0] };

static const char *const action_names[] = {"none", "restart", NULL};

/* The members beside the kind. */
static const struct setting {
    const char *name;
    int64_t ready, health; /* defaults; -1: the key does not exist there */
    int64_t min, max;
} settings[] = {
    {"timeout_ms", 60000, 5000, 1, SPEC_MS_MAX},
    {"interval_ms", 100, 10000, 10, SPEC_MS_MAX},
    {"failures", -1, 3, 1, 1000},
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

static bool is_health(const char *key)
{
    return strcmp(key, "health") == 0;
}

static int64_t setting_default(const struct setting *s, const char *key)
{
    return is_health(key) ? s->health : s->ready;
}

/* ---- the string form ---------------------------------------------------------------------------------- */

static json_t *split_blanks(const char *text)
{
    json_t *words = json_array();
    for (;;) {
        text += strspn(text, " \t");
        size_t len = strcspn(text, " \t");
        if (!len)
            return words;
        json_array_append_new(words, json_stringn(text, len));
        text += len;
    }
}

static json_t *port_of(const char *text)
{
    char *end;
    long long port = strtoll(text, &end, 10);
    return end == text || *end ? json_string(text) : json_integer(port); /* a string is refused later, by its path */
}

/* The object that a string stands for, or NULL when it is none. */
static json_t *probe_expand(const char *text)
{
    if (strncmp(text, "log:", 4) == 0)
        return json_pack("{s:s}", "log", text + 4);
    if (strncmp(text, "port:", 5) == 0)
        return json_pack("{s:o}", "port", port_of(text + 5));
    if (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0)
        return json_pack("{s:s}", "http", text);
    if (strncmp(text, "exec:", 5) == 0)
        return json_pack("{s:o}", "command", split_blanks(text + 5));
    if (strcmp(text, "notify") == 0)
        return json_pack("{s:b}", "notify", 1);
    return NULL;
}

/* {"probe": "port:80", …} is the same with the string's member in its place. */
static json_t *probe_unfold(struct spec_maker *m, const char *key, const json_t *value)
{
    const json_t *text = json_is_string(value) ? value : json_object_get(value, "probe");
    if (!text && json_is_object(value))
        return json_deep_copy(value);
    json_t *probe = json_is_string(text) ? probe_expand(json_string_value(text)) : NULL;
    if (!probe)
        return spec_problem(m, "spec_probe", key, text ? text : value, "log:REGEX, port:N, http://…, exec:CMD, notify");
    json_each_pair (value, name, member)
        if (strcmp(name, "probe") != 0)
            json_object_set(probe, name, member);
    return probe;
}

/* ---- kinds -------------------------------------------------------------------------------------------- */

/* The product of all repetition counts of the expression, at most PROBE_REPEAT_MAX + 1. */
static int64_t regex_repetitions(const char *regex)
{
    int64_t product = 1;
    for (; *regex && product <= PROBE_REPEAT_MAX; regex++) {
        if (*regex == '\\' && regex[1]) {
            regex++;
            continue;
        }
        if (*regex != '{' || !isdigit((unsigned char)regex[1]))
            continue;
        char *end;
        long low = strtol(regex + 1, &end, 10);
        long high = *end == ',' && isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : low;
        if (high > PROBE_REPEAT_MAX)
            return PROBE_REPEAT_MAX + 1;
        product *= high > 1 ? high : 1;
    }
    return product;
}

static json_t *make_text(struct spec_maker *m, const char *path, const json_t *value)
{
    if (!json_is_string(value))
        return spec_problem(m, "param_type", path, value, "string");
    if (json_string_length(value) == 0)
        return spec_problem(m, "param_empty", path, value, "");
    if (json_string_length(value) > PROBE_TEXT_MAX)
        return spec_problem(m, "param_too_long", path, value, DIGITS(PROBE_TEXT_MAX));
    return json_string(json_string_value(value));
}

static json_t *make_log(struct spec_maker *m, const char *path, const json_t *value)
{
    json_t *text = make_text(m, path, value);
    if (!text)
        return NULL;
    const char *reason = "too many repetitions";
    char reason_text[160];
    regex_t regex;
    if (regex_repetitions(json_string_value(text)) <= PROBE_REPEAT_MAX) {
        int rc = regcomp(&regex, json_string_value(text), REG_EXTENDED | REG_NOSUB);
        if (rc == 0) {
            regfree(&regex);
            return text;
        }
        regerror(rc, &regex, reason_text, sizeof reason_text);
        reason = reason_text;
    }
    json_free(&text);
    return spec_problem(m, "spec_regex", path, value, reason);
}

static json_t *make_port(struct spec_maker *m, const char *path, const json_t *value)
{
    return spec_make_int(m, path, value, 1, 65535);
}

/* http://host[:port][/path]; nothing that would end or add a line in a request. */
static bool is_http_url(const char *url)
{
    if (strncmp(url, "http://", 7) != 0)
        return false;
    for (const char *at = url; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return false;
    const char *host = url + 7, *end = host + strcspn(host, "/?#");
    if (memchr(host, '@', (size_t)(end - host)))
        return false;
    const char *name_end = *host == '[' ? strchr(host, ']') : host + strcspn(host, ":/?#");
    if (!name_end || name_end > end)
        return false;
    if (*host == '[')
        name_end++;
    if (name_end == host)
        return false;
    if (name_end == end)
        return true;
    char *digits_end;
    long port = isdigit((unsigned char)name_end[1]) ? strtol(name_end + 1, &digits_end, 10) : 0;
    return *name_end == ':' && port > 0 && port <= 65535 && digits_end == end;
}

static json_t *make_http(struct spec_maker *m, const char *path, const json_t *value)
{
    json_t *text = make_text(m, path, value);
    if (!text || is_http_url(json_string_value(text)))
        return text;
    json_free(&text);
    return spec_problem(m, "spec_http", path, value, "http://127.0.0.1:8080/healthz");
}

static json_t *make_argv(struct spec_maker *m, const char *path, const json_t *value)
{
    json_t *words = spec_make_words(m, path, value);
    if (!words || (json_array_size(words) && json_string_length(json_array_get(words, 0))))
        return words;
    json_free(&words);
    return spec_problem(m, "param_empty", path, value, "");
}

static json_t *make_notify(struct spec_maker *m, const char *path, const json_t *value)
{
    return json_is_true(value) ? json_true() : spec_problem(m, "param_not_one_of", path, value, "true");
}

typedef json_t *make_kind(struct spec_maker *m, const char *path, const json_t *value);
static make_kind *const makers[KIND_COUNT] = {
    [PROBE_LOG] = make_log,      [PROBE_PORT] = make_port,     [PROBE_HTTP] = make_http,
    [PROBE_COMMAND] = make_argv, [PROBE_NOTIFY] = make_notify,
};

/* ---- the whole ---------------------------------------------------------------------------------------- */

static size_t count_kinds(const json_t *probe)
{
    size_t count = 0;
    for (size_t i = 1; i < KIND_COUNT; i++)
        count += json_object_get(probe, kind_names[i]) != NULL;
    return count;
}

/* A probe without a kind changes the timing of the one that there is. */
static void probe_inherit(const json_t *base, json_t *probe)
{
    if (count_kinds(probe))
        return;
    json_each_pair (base, name, member)
        if (!json_object_get(probe, name))
            json_object_set(probe, name, member);
}

static bool is_member(const char *key, const char *name)
{
    for (size_t i = 1; i < KIND_COUNT; i++)
        if (strcmp(kind_names[i], name) == 0)
            return true;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(settings[i].name, name) == 0)
            return setting_default(&settings[i], key) >= 0;
    return is_health(key) && strcmp(name, "action") == 0;
}

static void refuse_unknown_probe_keys(struct spec_maker *m, const char *key, const json_t *probe)
{
    static const char *const known[] = {"log",        "port",        "http",     "command", "notify",
                                        "timeout_ms", "interval_ms", "failures", "action"};
    json_each_key (probe, name) {
        char path[SPEC_PATH_MAX];
        spec_path(path, key, name);
        if (!is_member(key, name))
            spec_unknown_key(m, path, name, known, is_health(key) ? 9 : 7);
    }
}

static void make_settings(struct spec_maker *m, const char *key, const json_t *probe, json_t *ret)
{
    char path[SPEC_PATH_MAX];
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const json_t *value = json_object_get(probe, settings[i].name);
        int64_t fallback = setting_default(&settings[i], key);
        spec_path(path, key, settings[i].name);
        if (fallback >= 0)
            json_object_set_new(ret, settings[i].name,
                                value && !json_is_null(value)
                                    ? spec_make_int(m, path, value, settings[i].min, settings[i].max)
                                    : json_integer(fallback));
    }
    if (!is_health(key))
        return;
    const json_t *action = json_object_get(probe, "action");
    json_object_set_new(ret, "action",
                        action && !json_is_null(action) ? spec_make_name(m, "health.action", action, action_names)
                                                        : json_string("none"));
}

json_t *spec_make_probe(struct spec_maker *m, const char *key, const json_t *value)
{
    unsigned before = m->problem_count;
    json_t *probe CLEANUP_JSON = probe_unfold(m, key, value);
    if (!probe)
        return NULL;
    probe_inherit(json_object_get(m->base, key), probe);
    if (count_kinds(probe) != 1)
        return spec_problem(m, "spec_probe_kinds", key, value, "log, port, http, command, notify");
    refuse_unknown_probe_keys(m, key, probe);
    json_t *made CLEANUP_JSON = json_object();
    for (size_t i = 1; i < KIND_COUNT; i++) {
        char path[SPEC_PATH_MAX];
        const json_t *member = json_object_get(probe, kind_names[i]);
        spec_path(path, key, kind_names[i]);
        if (member)
            json_object_set_new(made, kind_names[i], makers[i](m, path, member));
    }
    make_settings(m, key, probe, made);
    return m->problem_count == before ? json_incref(made) : NULL;
}

json_t *spec_probe_minimal(const char *key, const json_t *probe)
{
    json_t *minimal = json_deep_copy(probe);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (json_get_int(minimal, settings[i].name, -1) == setting_default(&settings[i], key))
            json_object_del(minimal, settings[i].name);
    if (json_text_is(minimal, "action", "none"))
        json_object_del(minimal, "action");
    return minimal;
}

void proc_spec_probe(const json_t *spec, const char *key, struct proc_probe *ret)
{
    const json_t *probe = json_object_get(spec, key);
    *ret = (struct proc_probe){.kind = PROBE_NONE};
    for (size_t i = 1; i < KIND_COUNT && !ret->kind; i++)
        if (json_object_get(probe, kind_names[i]))
            ret->kind = (enum proc_probe_kind)i;
    if (!ret->kind)
        return;
    ret->text = json_string_value(json_object_get(probe, kind_names[ret->kind]));
    ret->port = (int)json_get_int(probe, "port", 0);
    ret->argv = json_object_get(probe, "command");
    ret->timeout_ms = json_get_int(probe, "timeout_ms", setting_default(&settings[0], key));
    ret->interval_ms = json_get_int(probe, "interval_ms", setting_default(&settings[1], key));
    ret->failures = (int)json_get_int(probe, "failures", 1);
    ret->restarts = strcmp(json_get_string(probe, "action", "none"), "restart") == 0;
}
