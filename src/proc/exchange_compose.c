/* exchange_compose.c - a process-compose file. Its keys become those of a spec; what a spec has nothing for is listed as
 * ignored. docs/protocol/process-files.md has the table.
 *
 * process-compose runs every command with a shell (bash unless the file says otherwise). Where the line needs none it is split
 * here, so that the process is the program itself and not a shell around it. */
#include "proc/exchange_reader.h"

#include <stdio.h>
#include <string.h>

struct compose {
    struct exchange_reader *r;
    const char *shell, *shell_argument;
    const char *name;             /* of the process at hand */
    const struct yaml_node *node; /* and its map */
    json_t *spec;                 /* the process that it becomes */
};

/* Takes one key of a map; false: it is nothing to us. */
typedef bool take_key(struct compose *c, const struct yaml_node *value, void *data);
struct key {
    const char *name;
    take_key *take;
};

/* Goes through a map; `prefix` is its path below the process, "" for the process itself. */
static void take_map(struct compose *c, const struct yaml_node *map, const char *prefix, const struct key *keys,
                     void *data)
{
    if (map->type != YAML_MAP) {
        EXCHANGE_PROBLEM(c->r, exchange_place_of(map), c->name, "param_type", "param", *prefix ? prefix : "process",
                         "want", "object");
        return;
    }
    for (const struct yaml_node *value = map->first; value; value = value->next) {
        const struct key *key = keys;
        while (key->name && strcmp(key->name, value->key) != 0)
            key++;
        if (yaml_is_null(value) || (key->name && key->take(c, value, data)))
            continue;
        exchange_ignore(c->r, c->name, "%s%s%s", prefix, *prefix ? "." : "", value->key);
    }
}

static void compose_refuse(struct compose *c, const struct yaml_node *node, const char *text, const char *want)
{
    EXCHANGE_PROBLEM(c->r, exchange_place_of(node), c->name, text, "param", node->key ? node->key : "?", "value",
                     node->text ? node->text : "", "want", want);
}

static bool take_seconds(struct compose *c, const struct yaml_node *value, int64_t *ret)
{
    int64_t seconds;
    if (yaml_int(value, &seconds) < 0 || seconds < 0 || seconds > 7 * 24 * 3600)
        compose_refuse(c, value, "param_not_a_number", "0 … 604800");
    else
        *ret = seconds;
    return true;
}

static void warn_of_variables(struct compose *c, const char *key, const char *text)
{
    char path[320];
    if (!strchr(text, '$'))
        return;
    snprintf(path, sizeof path, "%s.%s", c->name, key);
    exchange_warn(c->r, "import_no_expansion", path);
}

/* ---- commands ----------------------------------------------------------------------------------------- */

/* The words of a command line, with the shell where it needs one. NULL after a problem. Owned. */
static json_t *words_of(struct compose *c, const struct yaml_node *value)
{
    const char *line = yaml_text(value);
    if (!line) {
        compose_refuse(c, value, "param_type", "string");
        return NULL;
    }
    json_t *words = json_array();
    switch (shell_split(line, words)) {
    case SHELL_PLAIN:
        return words;
    case SHELL_SYNTAX:
        json_array_append_new(words, json_string(c->shell));
        json_array_append_new(words, json_string(c->shell_argument));
        json_array_append_new(words, json_string(line));
        return words;
    case SHELL_UNFINISHED:
        compose_refuse(c, value, "import_quote", "");
    }
    json_free(&words);
    return NULL;
}

static void set_words(struct compose *c, json_t *words)
{
    json_object_set(c->spec, "command", json_array_get(words, 0));
    json_array_remove(words, 0);
    json_object_set(c->spec, "args", words);
}

static bool take_command(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)data;
    if (yaml_get(c->node, "entrypoint"))
        return false; /* process-compose does not look at it either */
    json_t *words CLEANUP_JSON = words_of(c, value);
    if (words)
        set_words(c, words);
    return true;
}

static bool take_entrypoint(struct compose *c, const struct yaml_node *value, void *data)
{
    json_t *words CLEANUP_JSON = json_array();
    (void)data;
    for (const struct yaml_node *word = value->first; word; word = word->next)
        json_array_append_new(words, word->text ? json_string(word->text) : json_null());
    set_words(c, words);
    return true;
}

static bool take_working_dir(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)data;
    if (!yaml_text(value)) {
        compose_refuse(c, value, "param_type", "string");
        return true;
    }
    warn_of_variables(c, "working_dir", value->text);
    json_object_set_new(c->spec, "cwd", json_string(value->text));
    return true;
}

/* ---- environment -------------------------------------------------------------------------------------- */

static void set_variable(struct compose *c, const char *name, const char *text)
{
    char key[256];
    json_t *env = json_object_get(c->spec, "env");
    if (!env) {
        env = json_object();
        json_object_set_new(c->spec, "env", env);
    }
    snprintf(key, sizeof key, "environment.%s", name);
    warn_of_variables(c, key, text);
    json_object_set_new(env, name, json_string(text));
}

/* A list of NAME=VALUE, or a map. */
static bool take_environment(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)data;
    if (value->type == YAML_SCALAR) {
        compose_refuse(c, value, "param_type", "array");
        return true;
    }
    for (const struct yaml_node *one = value->first; one; one = one->next) {
        const char *text = one->text ? one->text : "", *equals = one->key ? NULL : strchr(text, '=');
        if (one->type != YAML_SCALAR || (!one->key && !equals)) {
            EXCHANGE_PROBLEM(c->r, exchange_place_of(one), c->name, "param_not_a_pair", "param", "environment", "value",
                             text, "form", "KEY=VALUE");
            continue;
        }
        json_t *name CLEANUP_JSON = one->key ? json_string(one->key) : json_stringn(text, (size_t)(equals - text));
        set_variable(c, json_string_value(name), one->key ? text : equals + 1);
    }
    return true;
}

/* What `up` reads for the process at hand; an import reads no other file. */
static json_t *env_files_of(struct compose *c)
{
    json_t *all = c->r->to->env_files, *own = json_object_get(all, c->name);
    if (!own)
        json_object_set_new(all, c->name, own = json_object());
    return own;
}

/* A path, or a list of them. */
static bool take_env_file(struct compose *c, const struct yaml_node *value, void *data)
{
    json_t *files = json_array();
    (void)data;
    if (!c->r->from->is_up) {
        json_decref(files);
        return false;
    }
    json_object_set_new(env_files_of(c), "files", files);
    for (const struct yaml_node *one = value->type == YAML_SCALAR ? value : value->first; one; one = one->next) {
        if (yaml_text(one))
            json_array_append_new(files, json_string(yaml_text(one)));
        else
            compose_refuse(c, value, "param_type", "array");
        if (value->type == YAML_SCALAR)
            break;
    }
    return true;
}

static bool take_dotenv_disabled(struct compose *c, const struct yaml_node *value, void *data)
{
    bool is_off;
    (void)data;
    if (!c->r->from->is_up)
        return false;
    if (yaml_bool(value, &is_off) < 0)
        compose_refuse(c, value, "param_type", "boolean");
    else
        json_object_set_new(env_files_of(c), "no_dot_env", json_boolean(is_off));
    return true;
}

/* ---- dependencies ------------------------------------------------------------------------------------- */

static const struct {
    const char *theirs, *ours;
} conditions[] = {
    {"process_started", "started"},     {"process_healthy", "ready"},
    {"process_log_ready", "ready"},     {"process_completed_successfully", "completed"},
    {"process_completed", "completed"},
};

static bool take_condition(struct compose *c, const struct yaml_node *value, void *data)
{
    const char **ret = data, *text = yaml_text(value);
    for (size_t i = 0; text && i < sizeof conditions / sizeof conditions[0]; i++)
        if (strcmp(conditions[i].theirs, text) == 0)
            *ret = conditions[i].ours;
    if (!*ret) {
        compose_refuse(c, value, "param_not_one_of",
                       "process_started, process_healthy, process_log_ready, "
                       "process_completed_successfully, process_completed");
        *ret = "started";
    } else if (text && strcmp(text, "process_completed") == 0) {
        exchange_warn(c->r, "import_completed", c->name);
    }
    return true;
}

static bool take_depends_on(struct compose *c, const struct yaml_node *value, void *data)
{
    static const struct key keys[] = {{"condition", take_condition}, {0}};
    json_t *others = json_object();
    (void)data;
    if (value->type != YAML_MAP)
        compose_refuse(c, value, "param_map", "{db: {condition: process_healthy}}");
    for (const struct yaml_node *other = value->type == YAML_MAP ? value->first : NULL; other; other = other->next) {
        char prefix[256];
        const char *condition = NULL;
        snprintf(prefix, sizeof prefix, "depends_on.%s", other->key);
        take_map(c, other, prefix, keys, &condition);
        if (!condition)
            EXCHANGE_PROBLEM(c->r, exchange_place_of_key(other), c->name, "param_missing", "param", "condition");
        else
            json_object_set_new(others, other->key, json_string(condition));
    }
    json_object_set_new(c->spec, "depends_on", others);
    return true;
}

/* ---- restarting --------------------------------------------------------------------------------------- */

static bool take_restart(struct compose *c, const struct yaml_node *value, void *data)
{
    static const char *const names[][2] = {
        {"no", "no"},
        {"always", "always"},
        {"on_failure", "on-failure"},
        {"on-failure", "on-failure"},
    };
    (void)data;
    if (value->text && strcmp(value->text, "exit_on_failure") == 0)
        return false;
    for (size_t i = 0; value->text && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], value->text) == 0) {
            json_object_set_new(c->spec, "restart", json_string(names[i][1]));
            return true;
        }
    compose_refuse(c, value, "param_not_one_of", "no, on_failure, always");
    return true;
}

/* There, 0 means without end. */
static bool take_max_restarts(struct compose *c, const struct yaml_node *value, void *data)
{
    int64_t count;
    (void)data;
    if (yaml_int(value, &count) < 0)
        compose_refuse(c, value, "param_not_a_number", "0 … 1000000");
    else if (count != 0)
        json_object_set_new(c->spec, "max_retries", json_integer(count));
    return true;
}

static bool take_backoff(struct compose *c, const struct yaml_node *value, void *data)
{
    int64_t seconds = 1;
    (void)data;
    take_seconds(c, value, &seconds);
    json_object_set_new(c->spec, "backoff_ms", json_integer(seconds * 1000)); /* it does not grow there */
    json_object_set_new(c->spec, "backoff_max_ms", json_integer(seconds * 1000));
    return true;
}

static bool take_availability(struct compose *c, const struct yaml_node *value, void *data)
{
    static const struct key keys[] = {
        {"restart", take_restart}, {"max_restarts", take_max_restarts}, {"backoff_seconds", take_backoff}, {0}};
    take_map(c, value, "availability", keys, data);
    return true;
}

/* ---- probes ------------------------------------------------------------------------------------------- */

struct probe {
    bool is_health;
    json_t *made;
    int64_t delay_s, period_s, timeout_s, failures;
    const char *host, *scheme, *path, *port;
};

static bool take_exec_command(struct compose *c, const struct yaml_node *value, void *data)
{
    struct probe *p = data;
    json_t *words = words_of(c, value);
    if (words)
        json_object_set_new(p->made, "command", words);
    return true;
}

static bool take_exec(struct compose *c, const struct yaml_node *value, void *data)
{
    static const struct key keys[] = {{"command", take_exec_command}, {0}};
    const struct probe *p = data;
    take_map(c, value, p->is_health ? "liveness_probe.exec" : "readiness_probe.exec", keys, data);
    return true;
}

static bool take_host(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)c;
    ((struct probe *)data)->host = value->text;
    return true;
}

static bool take_scheme(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)c;
    ((struct probe *)data)->scheme = value->text;
    return true;
}

static bool take_path(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)c;
    ((struct probe *)data)->path = value->text;
    return true;
}

static bool take_port(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)c;
    ((struct probe *)data)->port = value->text;
    return true;
}

static bool take_http_get(struct compose *c, const struct yaml_node *value, void *data)
{
    static const struct key keys[] = {{"host", take_host}, {"scheme", take_scheme}, {"path", take_path},
                                      {"port", take_port}, {"num_port", take_port}, {0}};
    struct probe *p = data;
    p->host = "127.0.0.1";
    p->scheme = "http";
    p->path = "/";
    take_map(c, value, p->is_health ? "liveness_probe.http_get" : "readiness_probe.http_get", keys, data);
    if (!p->host || !p->scheme || !p->path) {
        compose_refuse(c, value, "param_type", "string");
        return true;
    }
    /* spec.c says what is wrong with it, if something is. */
    json_object_set_new(p->made, "http",
                        json_sprintf("%s://%s%s%s%s%s", p->scheme, p->host, p->port ? ":" : "", p->port ? p->port : "",
                                     *p->path == '/' ? "" : "/", p->path));
    return true;
}

static bool take_delay(struct compose *c, const struct yaml_node *value, void *data)
{
    struct probe *p = data;
    return p->is_health ? false : take_seconds(c, value, &p->delay_s);
}

static bool take_period(struct compose *c, const struct yaml_node *value, void *data)
{
    return take_seconds(c, value, &((struct probe *)data)->period_s);
}

static bool take_timeout(struct compose *c, const struct yaml_node *value, void *data)
{
    return take_seconds(c, value, &((struct probe *)data)->timeout_s);
}

static bool take_failures(struct compose *c, const struct yaml_node *value, void *data)
{
    return take_seconds(c, value, &((struct probe *)data)->failures);
}

/* A process-compose readiness probe gives up after a number of tries, ours after a time. We use the duration of those
 * tries, but at least our default. */
static void set_timing(struct compose *c, struct probe *p)
{
    json_object_set_new(p->made, "interval_ms", json_integer(p->period_s > 0 ? p->period_s * 1000 : 1000));
    if (!p->is_health) {
        int64_t span = p->delay_s + p->failures * (p->period_s + p->timeout_s);
        json_object_set_new(p->made, "timeout_ms", json_integer((span > 60 ? span : 60) * 1000));
        return;
    }
    bool restarts = strcmp(json_get_string(c->spec, "restart", "no"), "no") != 0;
    json_object_set_new(p->made, "timeout_ms", json_integer(p->timeout_s > 0 ? p->timeout_s * 1000 : 1000));
    json_object_set_new(p->made, "failures", json_integer(p->failures > 0 ? p->failures : 1));
    json_object_set_new(p->made, "action", json_string(restarts ? "restart" : "none"));
}

static void read_probe(struct compose *c, const char *key, bool is_health)
{
    static const struct key keys[] = {{"exec", take_exec},
                                      {"http_get", take_http_get},
                                      {"initial_delay_seconds", take_delay},
                                      {"period_seconds", take_period},
                                      {"timeout_seconds", take_timeout},
                                      {"failure_threshold", take_failures},
                                      {0}};
    const struct yaml_node *node = yaml_get(c->node, key);
    if (!node || yaml_is_null(node))
        return;
    struct probe p = {.is_health = is_health, .made = json_object(), .period_s = 10, .timeout_s = 1, .failures = 3};
    take_map(c, node, key, keys, &p);
    set_timing(c, &p);
    json_object_set_new(c->spec, is_health ? "health" : "ready", p.made);
}

/* The line contains the text; as an expression, every special character stands for itself. */
static bool take_ready_log_line(struct compose *c, const struct yaml_node *value, void *data)
{
    struct buf regex CLEANUP(buf_clear) = BUF_INIT;
    (void)data;
    if (yaml_get(c->node, "readiness_probe")) {
        compose_refuse(c, value, "import_two_probes", "");
        return true;
    }
    for (const char *s = value->text ? value->text : ""; *s; s++) {
        if (strchr("\\^$.[]|()*+?{}", *s))
            buf_put(&regex, "\\", 1);
        buf_put(&regex, s, 1);
    }
    json_object_set_new(c->spec, "ready", json_pack("{s:s}", "log", buf_str(&regex)));
    return true;
}

/* Read apart, after `availability`: what an unhealthy process gets depends on that. */
static bool compose_skip(struct compose *c, const struct yaml_node *value, void *data)
{
    (void)c;
    (void)value;
    (void)data;
    return true;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static struct exchange_place compose_place(const struct exchange_entry *entry, const char *path, bool is_key)
{
    static const char *const table[][2] = {
        {"command", "command"},       {"args", "command"},          {"env", "environment"},
        {"cwd", "working_dir"},       {"restart", "availability"},  {"max_retries", "availability.max_restarts"},
        {"ready", "readiness_probe"}, {"health", "liveness_probe"}, {"backoff_ms", "availability.backoff_seconds"},
        {"depends_on", "depends_on"},
    };
    char theirs[512];
    size_t len = strcspn(path, ".");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i][0]) == len && memcmp(table[i][0], path, len) == 0) {
            snprintf(theirs, sizeof theirs, "%s%s", table[i][1], path + len);
            const struct yaml_node *node = exchange_node_at(entry->node, theirs);
            if (node == entry->node)
                return entry->where;
            return is_key ? exchange_place_of_key(node) : exchange_place_of(node);
        }
    return entry->where;
}

static void read_process(struct compose *c, const struct yaml_node *global_environment)
{
    static const struct key keys[] = {{"command", take_command},
                                      {"entrypoint", take_entrypoint},
                                      {"working_dir", take_working_dir},
                                      {"environment", take_environment},
                                      {"env_file", take_env_file},
                                      {"is_dotenv_disabled", take_dotenv_disabled},
                                      {"depends_on", take_depends_on},
                                      {"availability", take_availability},
                                      {"ready_log_line", take_ready_log_line},
                                      {"readiness_probe", compose_skip},
                                      {"liveness_probe", compose_skip},
                                      {0}};
    json_t *spec CLEANUP_JSON = json_object();
    c->spec = spec;
    json_object_set_new(spec, "cwd", json_string(c->r->from->cwd_base));
    if (global_environment)
        take_environment(c, global_environment, NULL);
    size_t before = json_array_size(c->r->to->problems);
    take_map(c, c->node, "", keys, NULL);
    if (c->node->type != YAML_MAP)
        return;
    read_probe(c, "readiness_probe", false);
    read_probe(c, "liveness_probe", true);
    struct exchange_entry entry = {
        .name = c->name, .where = exchange_place_of_key(c->node), .place = compose_place, .node = c->node};
    /* What is missing because it was refused above would only be refused again. */
    if (json_array_size(c->r->to->problems) == before)
        exchange_take(c->r, &entry, spec);
}

static void read_shell(struct compose *c, const struct yaml_node *shell)
{
    const char *command = yaml_text(yaml_get(shell, "shell_command"));
    const char *argument = yaml_text(yaml_get(shell, "shell_argument"));
    if (command)
        c->shell = command;
    if (argument)
        c->shell_argument = argument;
}

void exchange_read_compose(struct exchange_reader *r, const struct yaml_node *root)
{
    static const char *const known[] = {"version", "processes", "environment", "shell"};
    struct compose c = {.r = r, .shell = "bash", .shell_argument = "-c"};
    const struct yaml_node *processes = yaml_get(root, "processes");
    r->has_secrets = true;
    if (!processes) {
        EXCHANGE_PROBLEM(r, exchange_place_of(root), NULL, "param_missing", "param", "processes");
        return;
    }
    if (processes->type != YAML_MAP) {
        EXCHANGE_PROBLEM(r, exchange_place_of(processes), NULL, "param_map", "param", "processes", "want",
                         "{web: {command: ./server}}");
        return;
    }
    for (const struct yaml_node *key = root->first; key; key = key->next) {
        size_t i = 0;
        while (i < 4 && strcmp(known[i], key->key) != 0)
            i++;
        if (i == 4)
            exchange_ignore(r, NULL, "%s", key->key);
    }
    read_shell(&c, yaml_get(root, "shell"));
    for (const struct yaml_node *node = processes->first; node; node = node->next) {
        c.name = node->key;
        c.node = node;
        read_process(&c, yaml_get(root, "environment"));
    }
}
