/* agent.c - config.yaml to agents and teams. */
#include "own/agent.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/word.h"
#include "base/yaml.h"

#include <errno.h>
#include <string.h>

struct reading {
    const struct yaml *doc;
    struct tsk_error *err;
    const json_t *agents; /* while teams are read */
};

#define WRONG(r, node, ...) yaml_error((r)->doc, node, (r)->err, __VA_ARGS__, NULL)
/* A constant of agent.h as a text. */
#define NUMBER_TEXT(number)  NUMBER_WORDS(number)
#define NUMBER_WORDS(number) #number

/* ---- values ---- */

static int agent_check_keys(struct reading *r, const struct yaml_node *map, const char *const *keys)
{
    size_t count = 0;
    while (keys[count])
        count++;
    for (const struct yaml_node *node = map->first; node; node = node->next) {
        bool is_known = false;
        for (size_t i = 0; i < count; i++)
            is_known |= strcmp(node->key, keys[i]) == 0;
        const char *near = is_known ? NULL : nearest_word(node->key, keys, count);
        if (!is_known)
            return WRONG(r, node, near ? "yaml_why_key_near" : "yaml_why_key_unknown", "name", node->key, "near", near);
    }
    return 0;
}

static bool is_name(const char *name)
{
    return id_is_valid(name) && strlen(name) <= AGENT_NAME_MAX;
}

/* A list of at least one text. */
static int read_texts(struct reading *r, const struct yaml_node *node, const char *what, json_t **ret)
{
    json_t *list CLEANUP_JSON = json_array();
    if (node->type != YAML_LIST || !node->first)
        return WRONG(r, node, "yaml_why_words", "key", what);
    for (const struct yaml_node *item = node->first; item; item = item->next) {
        if (item->type != YAML_SCALAR)
            return WRONG(r, item, "yaml_why_words", "key", what);
        json_array_append_new(list, json_string(item->text));
    }
    *ret = json_incref(list);
    return 0;
}

/* ---- agents ---- */

/* Without {task} and {task_file} it never learns what to do: a formatter, say, that does the same each time. */
static int agent_read_run(struct reading *r, const struct yaml_node *node, json_t *agent)
{
    json_t *words = NULL;
    if (read_texts(r, node, "run", &words) < 0)
        return -1;
    json_object_set_new(agent, "run", words);
    if (!*json_string_value(json_array_get(words, 0)))
        return WRONG(r, node->first, "yaml_why_program");
    return 0;
}

static int agent_read_env(struct reading *r, const struct yaml_node *node, json_t *agent)
{
    json_t *env = json_object();
    json_object_set_new(agent, "env", env);
    if (node->type != YAML_MAP)
        return WRONG(r, node, "yaml_why_env");
    for (const struct yaml_node *item = node->first; item; item = item->next) {
        if (item->type != YAML_SCALAR || !*item->key || strchr(item->key, '='))
            return WRONG(r, item, "yaml_why_env");
        json_object_set_new(env, item->key, json_string(item->text));
    }
    return 0;
}

static int agent_read_limits(struct reading *r, const struct yaml_node *node, json_t *agent)
{
    const struct yaml_node *timeout = yaml_get(node, "timeout"), *retries = yaml_get(node, "retries");
    int64_t value;
    if (timeout && (timeout->type != YAML_SCALAR || duration_parse(timeout->text, &value) < 0 || value <= 0))
        return WRONG(r, timeout, "yaml_why_duration");
    if (timeout)
        json_object_set_new(agent, "timeout", json_string(timeout->text));
    if (retries && (yaml_int(retries, &value) < 0 || value < 0 || value > 1000))
        return WRONG(r, retries, "yaml_why_range", "key", "retries", "min", "0", "max", "1000");
    if (retries)
        json_object_set_new(agent, "retries", json_integer(value));
    return 0;
}

static int read_agent(struct reading *r, const struct yaml_node *node, json_t *agents)
{
    static const char *const keys[] = {"run", "timeout", "retries", "cwd", "env", NULL};
    json_t *agent = json_object();
    json_object_set_new(agents, node->key, agent);
    if (!is_name(node->key))
        return WRONG(r, node, "yaml_why_agent_name", "name", node->key, "max", NUMBER_TEXT(AGENT_NAME_MAX));
    if (node->type != YAML_MAP)
        return WRONG(r, node, "yaml_why_agent_map");
    const struct yaml_node *run = yaml_get(node, "run"), *cwd = yaml_get(node, "cwd"), *env = yaml_get(node, "env");
    if (agent_check_keys(r, node, keys) < 0)
        return -1;
    if (!run)
        return WRONG(r, node, "yaml_why_agent_run", "name", node->key);
    if (agent_read_run(r, run, agent) < 0 || agent_read_limits(r, node, agent) < 0 ||
        (env && agent_read_env(r, env, agent) < 0))
        return -1;
    if (cwd && !yaml_text(cwd))
        return WRONG(r, cwd, "yaml_why_directory");
    if (cwd)
        json_object_set_new(agent, "cwd", json_string(cwd->text));
    return 0;
}

/* ---- teams ---- */

static int read_policy_map(struct reading *r, const struct yaml_node *node, const json_t *members, json_t *team)
{
    static const char *const keys[] = {"at_least", "critical", NULL};
    const struct yaml_node *least = yaml_get(node, "at_least"), *critical = yaml_get(node, "critical");
    json_t *names = NULL;
    int64_t value;
    if (agent_check_keys(r, node, keys) < 0)
        return -1;
    if (!least == !critical)
        return WRONG(r, node, "yaml_why_policy_map");
    if (least && (yaml_int(least, &value) < 0 || value < 1 || value > (int64_t)json_array_size(members)))
        return WRONG(r, least, "yaml_why_at_least");
    if (least) {
        json_object_set_new(team, "policy", json_pack("{s:I}", "at_least", (json_int_t)value));
        return 0;
    }
    if (read_texts(r, critical, "critical", &names) < 0)
        return -1;
    json_object_set_new(team, "policy", json_pack("{s:o}", "critical", names));
    for (const struct yaml_node *item = critical->first; item; item = item->next) {
        bool is_member = false;
        json_each (members, i, member)
            is_member |= strcmp(json_string_value(member), item->text) == 0;
        if (!is_member)
            return WRONG(r, item, "yaml_why_member", "name", item->text);
    }
    return 0;
}

static int read_policy(struct reading *r, const struct yaml_node *node, const json_t *members, json_t *team)
{
    static const char *const words[] = {"strict", "fail_fast", "best_effort", NULL};
    if (node->type == YAML_MAP)
        return read_policy_map(r, node, members, team);
    for (const char *const *word = words; *word && node->type == YAML_SCALAR; word++)
        if (strcmp(node->text, *word) == 0) {
            json_object_set_new(team, "policy", json_string(*word));
            return 0;
        }
    return WRONG(r, node, "yaml_why_policy");
}

static int read_members(struct reading *r, const struct yaml_node *node, json_t *team)
{
    json_t *members = NULL;
    if (read_texts(r, node, "agents", &members) < 0)
        return -1;
    json_object_set_new(team, "agents", members);
    if (json_array_size(members) > AGENT_MANY_MAX)
        return WRONG(r, node, "yaml_why_team_size", "max", NUMBER_TEXT(AGENT_MANY_MAX));
    for (const struct yaml_node *item = node->first; item; item = item->next)
        if (!json_object_get(r->agents, item->text))
            return WRONG(r, item, "yaml_why_no_agent", "name", item->text);
    return 0;
}

static int read_team(struct reading *r, const struct yaml_node *node, json_t *teams)
{
    static const char *const keys[] = {"agents", "policy", NULL};
    json_t *team = json_pack("{s:s}", "policy", "strict");
    json_object_set_new(teams, node->key, team);
    if (!is_name(node->key))
        return WRONG(r, node, "yaml_why_team_name", "name", node->key, "max", NUMBER_TEXT(AGENT_NAME_MAX));
    const struct yaml_node *members = yaml_get(node, "agents"), *policy = yaml_get(node, "policy");
    if (node->type != YAML_MAP || !members)
        return WRONG(r, node, "yaml_why_team_map");
    if (agent_check_keys(r, node, keys) < 0 || read_members(r, members, team) < 0)
        return -1;
    return policy ? read_policy(r, policy, json_object_get(team, "agents"), team) : 0;
}

/* ---- the file ---- */

static int read_map(struct reading *r, const struct yaml_node *node, json_t *ret,
                    int (*read)(struct reading *r, const struct yaml_node *node, json_t *ret))
{
    if (!node || yaml_is_null(node))
        return 0;
    if (node->type != YAML_MAP)
        return WRONG(r, node, "yaml_why_names", "key", node->key);
    for (const struct yaml_node *item = node->first; item; item = item->next)
        if (read(r, item, ret) < 0)
            return -1;
    return 0;
}

int agents_load(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    json_t *agents = json_object(), *teams = json_object();
    json_t *config CLEANUP_JSON = json_pack("{s:o, s:o}", "agents", agents, "teams", teams);
    int found = workspace_config(ws, &doc, err);
    struct reading r = {.doc = doc, .err = err, .agents = agents};
    if (found < 0 || (found && (read_map(&r, yaml_get(yaml_root(doc), "agents"), agents, read_agent) < 0 ||
                                read_map(&r, yaml_get(yaml_root(doc), "teams"), teams, read_team) < 0)))
        return -1;
    *ret = json_incref(config);
    return 0;
}

bool agents_are_configured(struct tsk_workspace *ws)
{
    struct tsk_error ignored;
    json_t *config CLEANUP_JSON = NULL;
    return agents_load(ws, &config, &ignored) == 0 && json_object_size(json_object_get(config, "agents")) > 0;
}
