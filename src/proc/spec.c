/* One table says which keys a spec has, how each is checked, and what it is when nobody says. The canonical form has all of
 * them in the table's order, and maps sorted by name: specs that mean the same are the same text. */
#include "proc/spec.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "base/word.h"
#include "hold/protocol.h"
#include "proc/spec_make.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_TEXT(number)    SPEC_TEXT_OF(number) /* the text of a number that has a name */
#define SPEC_TEXT_OF(number) #number

#define SPEC_SIZE_MAX (1u << 20)

const char *const proc_restart_names[] = {
    [PROC_RESTART_NO] = "no", [PROC_RESTART_ON_FAILURE] = "on-failure", [PROC_RESTART_ALWAYS] = "always", NULL};
const char *const proc_log_names[] = {[PROC_LOG_DIRECT] = "direct",
                                      [PROC_LOG_PIPE] = "pipe",
                                      [PROC_LOG_STAMPED] = "stamped",
                                      [PROC_LOG_TTY] = "tty",
                                      NULL};
const char *const proc_condition_names[] = {
    [PROC_DEP_STARTED] = "started", [PROC_DEP_READY] = "ready", [PROC_DEP_COMPLETED] = "completed", NULL};

/* ---- problems ----------------------------------------------------------------------------------------- */

static void show_value(const json_t *value, char *shown, size_t size)
{
    struct buf text CLEANUP(buf_clear) = {.max = 4096};
    if (json_is_string(value))
        buf_puts(&text, json_string_value(value));
    else if (value)
        json_write(&text, value, false);
    bool is_cut = text.failed || text.len >= size - 4;
    utf8_copy(shown, size - 4, buf_str(&text));
    if (is_cut)
        snprintf(shown + strlen(shown), 4, "…");
}

json_t *spec_problem(struct spec_maker *m, const char *text, const char *path, const json_t *value, const char *want)
{
    struct tsk_error problem;
    char shown[256];
    show_value(value, shown, sizeof shown);
    error_set(&problem, TSK_INVALID_INPUT, text, "param", path, "value", shown, "want", want, NULL);
    m->problem_count++;
    m->take(m->data, &problem);
    return NULL;
}

void spec_path(char path[SPEC_PATH_MAX], const char *parent, const char *name)
{
    size_t len = (size_t)snprintf(path, SPEC_PATH_MAX, "%s.", parent);
    utf8_copy(path + len, SPEC_PATH_MAX - len, name);
}

const char *spec_unknown_key(struct spec_maker *m, const char *path, const char *key, const char *const *known,
                             size_t count)
{
    const char *near = nearest_word(key, known, count);
    if (near) {
        spec_problem(m, "spec_key_unknown_near", path, NULL, near);
        return near;
    }
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < count; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", known[i]);
    spec_problem(m, "spec_key_unknown", path, NULL, buf_str(&all));
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------- */

json_t *spec_make_int(struct spec_maker *m, const char *path, const json_t *value, int64_t min, int64_t max)
{
    char want[64];
    snprintf(want, sizeof want, "%lld … %lld", (long long)min, (long long)max);
    if (!json_is_integer(value))
        return spec_problem(m, "param_not_a_number", path, value, want);
    if (json_integer_value(value) < min || json_integer_value(value) > max)
        return spec_problem(m, "param_out_of_range", path, value, want);
    return json_integer(json_integer_value(value));
}

json_t *spec_make_name(struct spec_maker *m, const char *path, const json_t *value, const char *const *names)
{
    char want[128] = "";
    size_t count = 0, at = 0;
    for (; names[count]; count++) {
        if (json_is_string(value) && strcmp(names[count], json_string_value(value)) == 0)
            return json_string(names[count]);
        at += (size_t)snprintf(want + at, sizeof want - at, "%s%s", at ? ", " : "", names[count]);
    }
    return spec_problem(m, "param_not_one_of", path, value, want);
}

/* A word of a command line or of an environment: the kernel takes no more than this. */
static json_t *make_word(struct spec_maker *m, const char *path, const json_t *value)
{
    if (!json_is_string(value))
        return spec_problem(m, "param_type", path, value, "string");
    if (json_string_length(value) > SPEC_WORD_MAX)
        return spec_problem(m, "param_too_long", path, value, DIGITS(SPEC_WORD_MAX));
    if (strlen(json_string_value(value)) != json_string_length(value))
        return spec_problem(m, "spec_nul", path, NULL, "");
    return json_string(json_string_value(value));
}

json_t *spec_make_words(struct spec_maker *m, const char *path, const json_t *value)
{
    if (!json_is_array(value))
        return spec_problem(m, "param_type", path, value, "array of strings");
    json_t *words = json_array();
    unsigned before = m->problem_count;
    json_each (value, i, item) {
        char item_path[SPEC_PATH_MAX];
        const char *number = DIGITS(i);
        spec_path(item_path, path, number);
        json_array_append_new(words, make_word(m, item_path, item));
    }
    if (m->problem_count != before)
        json_free(&words);
    return words;
}

static json_t *make_command(struct spec_maker *m, const char *path, const json_t *value)
{
    if (json_is_string(value) && json_string_length(value) == 0)
        return spec_problem(m, "param_empty", path, value, "");
    return make_word(m, path, value);
}

static json_t *make_bool(struct spec_maker *m, const char *path, const json_t *value)
{
    if (!json_is_boolean(value))
        return spec_problem(m, "param_type", path, value, "boolean");
    return json_boolean(json_is_true(value));
}

static json_t *make_cwd(struct spec_maker *m, const char *path, const json_t *value)
{
    json_t *word CLEANUP_JSON = make_word(m, path, value);
    if (!word)
        return NULL;
    const char *cwd = json_string_value(word);
    if (!cwd[0])
        return spec_problem(m, "param_empty", path, value, "");
    if (cwd[0] != '/' && !m->cwd_base)
        return spec_problem(m, "spec_cwd_relative", path, value, "");
    while (cwd[0] == '.' && cwd[1] == '/')
        cwd += 2;
    if (strcmp(cwd, ".") == 0)
        cwd = "";
    bool is_below = cwd[0] != '/';
    const char *base = is_below ? m->cwd_base : "", *slash = is_below && cwd[0] ? "/" : "";
    char whole[PATH_MAX];
    if (snprintf(whole, sizeof whole, "%s%s%s", base, slash, cwd) >= (int)sizeof whole)
        return spec_problem(m, "param_too_long", path, value, DIGITS(PATH_MAX - 1));
    return json_string(whole);
}

/* ---- maps --------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Makes each member with `make`, in the order of the names. */
static json_t *make_map(struct spec_maker *m, const char *path, const json_t *value,
                        json_t *(*make)(struct spec_maker *m, const char *path, const char *name, const json_t *value))
{
    if (!json_is_object(value))
        return spec_problem(m, "param_type", path, value, "object");
    size_t count = json_object_size(value), n = 0;
    const char **names = memory_zeroed(count + 1, sizeof *names);
    json_t *map = json_object();
    unsigned before = m->problem_count;
    json_each_key (value, name)
        names[n++] = name;
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        char member_path[SPEC_PATH_MAX];
        spec_path(member_path, path, names[i]);
        json_object_set_new(map, names[i], make(m, member_path, names[i], json_object_get(value, names[i])));
    }
    free(names);
    if (m->problem_count != before)
        json_free(&map);
    return map;
}

static json_t *make_variable(struct spec_maker *m, const char *path, const char *name, const json_t *value)
{
    if (!name[0] || strchr(name, '='))
        return spec_problem(m, "spec_env_name", path, NULL, name);
    json_t *word = make_word(m, path, value);
    if (word && strlen(name) + 1 + json_string_length(word) > SPEC_WORD_MAX) {
        json_free(&word);
        return spec_problem(m, "param_too_long", path, value, DIGITS(SPEC_WORD_MAX));
    }
    return word;
}

static json_t *make_env(struct spec_maker *m, const char *path, const json_t *value)
{
    return make_map(m, path, value, make_variable);
}

static json_t *make_condition(struct spec_maker *m, const char *path, const char *name, const json_t *value)
{
    json_t *id CLEANUP_JSON = json_string(name);
    if (!id_is_valid(name))
        return spec_problem(m, "id_pattern", path, id, "");
    return spec_make_name(m, path, value, proc_condition_names);
}

static json_t *make_depends_on(struct spec_maker *m, const char *path, const json_t *value)
{
    if (!json_is_object(value))
        return spec_problem(m, "param_map", path, value, "{db: ready}");
    return make_map(m, path, value, make_condition);
}

/* ---- the table ---------------------------------------------------------------------------------------- */

struct spec_key {
    const char *name;
    const char *fallback;                                                         /* JSON; NULL: the key is required */
    json_t *(*make)(struct spec_maker *m, const char *path, const json_t *value); /* NULL: `names`, or a number */
    const char *const *names;
    int64_t min, max;
};

static const struct spec_key keys[] = {
    {"command", NULL, make_command, NULL, 0, 0},
    {"args", "[]", spec_make_words, NULL, 0, 0},
    {"env", "{}", make_env, NULL, 0, 0},
    {"cwd", "null", make_cwd, NULL, 0, 0},
    {"auto_start_on_restore", "false", make_bool, NULL, 0, 0},
    {"restart", "\"no\"", NULL, proc_restart_names, 0, 0},
    {"max_retries", "null", NULL, NULL, 0, 1000000},
    {"backoff_ms", SPEC_TEXT(HOLD_BACKOFF_MS), NULL, NULL, 0, SPEC_MS_MAX},
    {"backoff_max_ms", SPEC_TEXT(HOLD_BACKOFF_MAX_MS), NULL, NULL, 0, SPEC_MS_MAX},
    {"healthy_after_ms", SPEC_TEXT(HOLD_HEALTHY_MS), NULL, NULL, 1, SPEC_MS_MAX},
    {"log", "\"direct\"", NULL, proc_log_names, 0, 0},
    {"log_max", SPEC_TEXT(HOLD_LOG_MAX), NULL, NULL, 4096, 1ll << 40},
    {"ready", "null", spec_make_probe, NULL, 0, 0},
    {"health", "null", spec_make_probe, NULL, 0, 0},
    {"depends_on", "{}", make_depends_on, NULL, 0, 0},
};
enum { SPEC_KEY_COUNT = sizeof keys / sizeof keys[0] };

static json_t *key_default(const struct spec_key *key)
{
    return key->fallback ? json_loads(key->fallback, JSON_DECODE_ANY, NULL) : NULL;
}

static json_t *make_value(struct spec_maker *m, const struct spec_key *key, const json_t *value)
{
    if (key->make)
        return key->make(m, key->name, value);
    if (key->names)
        return spec_make_name(m, key->name, value, key->names);
    return spec_make_int(m, key->name, value, key->min, key->max);
}

/* What the key becomes: what the input says, what the base has, or its default. */
static json_t *spec_resolve(struct spec_maker *m, const struct spec_key *key, const json_t *input)
{
    const json_t *value = json_object_get(input, key->name);
    if (value && !json_is_null(value))
        return make_value(m, key, value);
    const json_t *kept = value ? NULL : json_object_get(m->base, key->name);
    if (kept)
        return json_deep_copy(kept);
    json_t *fallback = key_default(key);
    return fallback || m->names_command ? fallback : spec_problem(m, "param_missing", key->name, NULL, "");
}

/* The names that flows and other tools have for our keys. */
static const char *const known_elsewhere[][2] = {
    {"run", "command"},
    {"cmd", "command"},
    {"exec", "command"},
    {"entrypoint", "command"},
    {"needs", "depends_on"},
    {"after", "depends_on"},
    {"dir", "cwd"},
    {"directory", "cwd"},
    {"working_dir", "cwd"},
    {"environment", "env"},
    {"vars", "env"},
    {"arguments", "args"},
    {"readiness_probe", "ready"},
    {"liveness_probe", "health"},
    {"healthcheck", "health"},
};

static void refuse_key(struct spec_maker *m, const char *name, const char *const *known)
{
    const char *meant = NULL;
    for (size_t i = 0; i < sizeof known_elsewhere / sizeof known_elsewhere[0]; i++)
        if (strcmp(known_elsewhere[i][0], name) == 0)
            meant = known_elsewhere[i][1];
    if (meant)
        spec_problem(m, "spec_key_called", name, NULL, meant);
    else
        meant = spec_unknown_key(m, name, name, known, SPEC_KEY_COUNT);
    m->names_command = m->names_command || (meant && strcmp(meant, "command") == 0);
}

static void refuse_unknown_keys(struct spec_maker *m, const json_t *input)
{
    const char *known[SPEC_KEY_COUNT];
    for (size_t i = 0; i < SPEC_KEY_COUNT; i++)
        known[i] = keys[i].name;
    json_each_key (input, name) {
        size_t i = 0;
        while (i < SPEC_KEY_COUNT && strcmp(known[i], name) != 0)
            i++;
        if (i == SPEC_KEY_COUNT)
            refuse_key(m, name, known);
    }
}

/* What no key can tell alone. */
static void check_whole(struct spec_maker *m, const json_t *spec)
{
    const json_t *first = json_object_get(spec, "backoff_ms"), *cap = json_object_get(spec, "backoff_max_ms");
    if (json_integer_value(cap) < json_integer_value(first)) {
        spec_problem(m, "spec_backoff", "backoff_max_ms", cap, DIGITS(json_integer_value(first)));
    }
    if (json_dumpb(spec, NULL, 0, JSON_COMPACT) > SPEC_SIZE_MAX)
        spec_problem(m, "spec_too_large", "command", NULL, DIGITS(SPEC_SIZE_MAX));
}

int proc_spec_make_all(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret,
                       void (*take)(void *data, const struct tsk_error *problem), void *data)
{
    struct spec_maker m = {.base = base, .cwd_base = cwd_base, .take = take, .data = data};
    if (!json_is_object(input)) {
        spec_problem(&m, "param_type", "spec", input, "object");
        return -1;
    }
    json_t *spec CLEANUP_JSON = json_object();
    refuse_unknown_keys(&m, input);
    for (size_t i = 0; i < SPEC_KEY_COUNT; i++)
        json_object_set_new(spec, keys[i].name, spec_resolve(&m, &keys[i], input));
    if (!m.problem_count)
        check_whole(&m, spec);
    if (m.problem_count)
        return -1;
    *ret = json_incref(spec);
    return 0;
}

static void keep_first(void *data, const struct tsk_error *problem)
{
    struct tsk_error *err = data;
    if (err->code == TSK_OK)
        *err = *problem;
}

int proc_spec_make(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret, struct tsk_error *err)
{
    err->code = TSK_OK;
    return proc_spec_make_all(input, base, cwd_base, ret, keep_first, err);
}

json_t *proc_spec_minimal(const json_t *spec)
{
    json_t *minimal = json_object();
    for (size_t i = 0; i < SPEC_KEY_COUNT; i++) {
        json_t *fallback CLEANUP_JSON = key_default(&keys[i]);
        json_t *value = json_object_get(spec, keys[i].name);
        if (!value || (fallback && json_equal(value, fallback)))
            continue;
        bool is_probe = keys[i].make == spec_make_probe;
        json_object_set_new(minimal, keys[i].name,
                            is_probe ? spec_probe_minimal(keys[i].name, value) : json_deep_copy(value));
    }
    return minimal;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

enum proc_restart proc_spec_restart(const json_t *spec)
{
    int i = index_of(proc_restart_names, json_get_string(spec, "restart", ""));
    return i < 0 ? PROC_RESTART_NO : (enum proc_restart)i;
}

enum proc_log_mode proc_spec_log(const json_t *spec)
{
    int i = index_of(proc_log_names, json_get_string(spec, "log", ""));
    return i < 0 ? PROC_LOG_DIRECT : (enum proc_log_mode)i;
}

bool proc_condition_parse(const char *name, enum proc_condition *ret)
{
    int i = index_of(proc_condition_names, name);
    if (i >= 0)
        *ret = (enum proc_condition)i;
    return i >= 0;
}
