/* exchange_own.c - tasuki's own format, and turning YAML into the JSON that a spec is made from. */
#include "base/word.h"
#include "proc/exchange_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- YAML to JSON ------------------------------------------------------------------------------------- */

/* What stands somewhere decides what a plain scalar is: `no` is a text after `restart:` and a boolean after
 * `auto_start_on_restore:`. */
enum context { CONTEXT_ANY, CONTEXT_SPECS, CONTEXT_SPEC, CONTEXT_PROBE, CONTEXT_TEXT, CONTEXT_INT, CONTEXT_BOOL };

/* What the keys of a spec and of a probe are read as; other keys are texts. */
static const struct {
    enum context in, context;
    const char *key;
} keys[] = {
    {CONTEXT_SPEC, CONTEXT_BOOL, "auto_start_on_restore"},
    {CONTEXT_SPEC, CONTEXT_BOOL, "auto_start_on_create"},
    {CONTEXT_SPEC, CONTEXT_INT, "max_retries"},
    {CONTEXT_SPEC, CONTEXT_INT, "backoff_ms"},
    {CONTEXT_SPEC, CONTEXT_INT, "backoff_max_ms"},
    {CONTEXT_SPEC, CONTEXT_INT, "healthy_after_ms"},
    {CONTEXT_SPEC, CONTEXT_INT, "log_max"},
    {CONTEXT_SPEC, CONTEXT_PROBE, "ready"},
    {CONTEXT_SPEC, CONTEXT_PROBE, "health"},
    {CONTEXT_PROBE, CONTEXT_INT, "port"},
    {CONTEXT_PROBE, CONTEXT_INT, "timeout_ms"},
    {CONTEXT_PROBE, CONTEXT_INT, "interval_ms"},
    {CONTEXT_PROBE, CONTEXT_INT, "failures"},
    {CONTEXT_PROBE, CONTEXT_BOOL, "notify"},
};

static enum context context_of_child(enum context context, const char *key)
{
    if (context == CONTEXT_SPECS)
        return CONTEXT_SPEC;
    if (context != CONTEXT_SPEC && context != CONTEXT_PROBE)
        return context;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (key && keys[i].in == context && strcmp(keys[i].key, key) == 0)
            return keys[i].context;
    return CONTEXT_TEXT;
}

static json_t *json_of_scalar(const struct yaml_node *node, enum context context)
{
    int64_t number;
    bool flag;
    if (yaml_is_null(node))
        return json_null();
    if ((context == CONTEXT_INT || context == CONTEXT_ANY) && yaml_int(node, &number) == 0)
        return json_integer(number);
    if ((context == CONTEXT_BOOL || context == CONTEXT_ANY) && yaml_bool(node, &flag) == 0)
        return json_boolean(flag);
    return json_string(node->text);
}

static json_t *json_of_node(const struct yaml_node *node, enum context context)
{
    if (node->type == YAML_SCALAR)
        return json_of_scalar(node, context);
    json_t *value = node->type == YAML_LIST ? json_array() : json_object();
    for (const struct yaml_node *child = node->first; child; child = child->next) {
        json_t *member = json_of_node(child, context_of_child(context, child->key));
        if (node->type == YAML_LIST)
            json_array_append_new(value, member);
        else
            json_object_set_new(value, child->key, member);
    }
    return value;
}

json_t *exchange_json_of(const struct yaml_node *root)
{
    bool has_records = root->type != YAML_MAP || (!yaml_get(root, "processes") && !yaml_get(root, "version"));
    if (has_records)
        return json_of_node(root, CONTEXT_SPECS);
    json_t *document = json_object();
    for (const struct yaml_node *child = root->first; child; child = child->next) {
        bool is_list = strcmp(child->key, "processes") == 0 || strcmp(child->key, "templates") == 0;
        json_object_set_new(document, child->key, json_of_node(child, is_list ? CONTEXT_SPECS : CONTEXT_ANY));
    }
    return document;
}

/* ---- places ------------------------------------------------------------------------------------------- */

static const struct yaml_node *child_named(const struct yaml_node *node, const char *name, size_t len)
{
    unsigned long index = node->type == YAML_LIST ? strtoul(name, NULL, 10) : 0;
    for (const struct yaml_node *child = node->first; child; child = child->next) {
        if (node->type == YAML_LIST ? index-- == 0 : strlen(child->key) == len && memcmp(child->key, name, len) == 0)
            return child;
    }
    return NULL;
}

const struct yaml_node *exchange_node_at(const struct yaml_node *node, const char *path)
{
    while (node && *path) {
        const struct yaml_node *whole = child_named(node, path, strlen(path));
        if (whole)
            return whole;
        size_t len = strcspn(path, ".");
        const struct yaml_node *child = child_named(node, path, len);
        if (!child || !path[len])
            return child ? child : node;
        node = child;
        path += len + 1;
    }
    return node;
}

static struct exchange_place own_place(const struct exchange_entry *entry, const char *path, bool is_key)
{
    const struct yaml_node *node = entry->node ? exchange_node_at(entry->node, path) : NULL;
    if (!node || node == entry->node)
        return entry->where;
    return is_key || node->type != YAML_SCALAR ? exchange_place_of_key(node) : exchange_place_of(node);
}

/* ---- the format --------------------------------------------------------------------------------------- */

static void read_entries(struct exchange_reader *r, const char *list_name, const json_t *list,
                         const struct yaml_node *node, bool is_template)
{
    if (!list || json_is_null(list))
        return;
    if (!json_is_object(list)) {
        EXCHANGE_PROBLEM(r, exchange_place_of(node), NULL, "param_map", "param", list_name, "want",
                         "{web: {command: ./server}}");
        return;
    }
    json_each_pair (list, name, input) {
        const struct yaml_node *at = yaml_get(node, name);
        struct exchange_entry entry = {.name = name,
                                       .is_template = is_template,
                                       .where = exchange_place_of_key(at),
                                       .place = own_place,
                                       .node = at};
        exchange_take(r, &entry, input);
    }
}

static void say_unknown(struct exchange_reader *r, const struct yaml_node *node)
{
    EXCHANGE_PROBLEM(r, exchange_place_of(node), NULL, r->from->is_up ? "up_no_version" : "import_no_version", "source",
                     r->from->name);
}

static void check_version(struct exchange_reader *r, const json_t *version, const struct yaml_node *node)
{
    const char *text = json_string_value(version);
    if (!version)
        say_unknown(r, node);
    else if (!(json_is_integer(version) && json_integer_value(version) == 1) && !(text && strcmp(text, "1") == 0)) {
        char *shown = json_dumps(version, JSON_ENCODE_ANY);
        EXCHANGE_PROBLEM(r, exchange_place_of(yaml_get(node, "version")), NULL, "import_version", "value",
                         shown ? shown : "?");
        free(shown);
    }
}

static void check_keys(struct exchange_reader *r, const json_t *root, const struct yaml_node *node)
{
    static const char *const known[] = {"version", "secrets", "processes", "templates"};
    json_each_key (root, key) {
        size_t i = 0;
        while (i < 4 && strcmp(known[i], key) != 0)
            i++;
        if (i < 4)
            continue;
        const char *near = nearest_word(key, known, 4);
        EXCHANGE_PROBLEM(r, exchange_place_of_key(yaml_get(node, key)), NULL,
                         near ? "spec_key_unknown_near" : "spec_key_unknown", "param", key, "want",
                         near ? near : "version, secrets, processes, templates");
    }
}

void exchange_read_own(struct exchange_reader *r, const json_t *root, const struct yaml_node *node)
{
    if (!json_is_object(root)) {
        say_unknown(r, node);
        return;
    }
    const json_t *secrets = json_object_get(root, "secrets");
    check_version(r, json_object_get(root, "version"), node);
    if (!json_object_get(root, "version"))
        return; /* it may be anything: more would only confuse */
    check_keys(r, root, node);
    if (secrets && !json_is_boolean(secrets))
        EXCHANGE_PROBLEM(r, exchange_place_of(yaml_get(node, "secrets")), NULL, "param_type", "param", "secrets",
                         "want", "boolean");
    r->has_secrets = json_is_true(secrets);
    read_entries(r, "processes", json_object_get(root, "processes"), yaml_get(node, "processes"), false);
    read_entries(r, "templates", json_object_get(root, "templates"), yaml_get(node, "templates"), true);
}
