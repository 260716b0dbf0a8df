/* schema.c - JSON Schemas from rows. Agents pay for every byte of them: what a value means is said once, limits that nobody
 * meets are left out, and results name their top-level keys only. And a schema is portable: one type each, no null, no choice
 * of types; where an operation takes more (a list of ids, a probe as an object), the schema has the short form. */
#include "mcp/internal.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_THAT_MATTERS 10000

static json_t *string_list(const char *const *choices)
{
    json_t *list = json_array();
    for (; *choices; choices++)
        json_array_append_new(list, json_string(*choices));
    return list;
}

static void set_type(json_t *schema, const char *type)
{
    json_object_set_new(schema, "type", json_string(type));
}

static void add_int(json_t *schema, const struct op_param *param)
{
    set_type(schema, "integer");
    if (param->min > 1)
        json_object_set_new(schema, "minimum", json_integer(param->min));
    if (param->max < LIMIT_THAT_MATTERS)
        json_object_set_new(schema, "maximum", json_integer(param->max));
}

static void schema_add_list(json_t *schema, const char *type)
{
    set_type(schema, "array");
    json_object_set_new(schema, "items", json_pack("{s:s}", "type", type));
}

static void add_type(json_t *schema, const struct op_param *param)
{
    switch (param->type) {
    case OP_STRING:
    case OP_ID:
    case OP_PATH:
    case OP_ANY:
        set_type(schema, "string");
        break;
    case OP_INT:
        add_int(schema, param);
        break;
    case OP_DURATION:
        set_type(schema, param->flags & OP_MS ? "integer" : "string");
        break;
    case OP_BOOL:
        set_type(schema, "boolean");
        break;
    case OP_ENUM:
        set_type(schema, "string");
        json_object_set_new(schema, "enum", string_list(param->choices));
        break;
    case OP_ARGV:
        schema_add_list(schema, "string");
        break;
    case OP_OBJECTS:
        schema_add_list(schema, "object");
        break;
    case OP_MAP:
        set_type(schema, "object");
        json_object_set_new(schema, "additionalProperties", json_pack("{s:s}", "type", "string"));
        break;
    }
}

/* The fallback as a value of the parameter's type, or NULL when it is words. */
static json_t *default_of(const struct op_param *param)
{
    char *end;
    int64_t ms;
    if (param->type == OP_ENUM)
        return json_string(param->fallback);
    if (param->type == OP_DURATION && op_duration(param, param->fallback, &ms) == 0)
        return param->flags & OP_MS ? json_integer(ms) : json_string(param->fallback);
    long long number = strtoll(param->fallback, &end, 10);
    return param->type == OP_INT && !*end ? json_integer(number) : NULL;
}

/* Whether a tool is understood with another one: what changes something takes what made it takes, and "As …" says so itself. */
static bool is_second(const struct op *op)
{
    return (op->flags & OP_KEEPS_REST) || (op->mcp.text && strncmp(op->mcp.text, "As ", 3) == 0);
}

/* The tool where a parameter is explained in the same words. NULL: this one. */
static const char *explained_by(const struct op *op, const struct op_param *param)
{
    op_foreach (other) {
        if (!is_second(op) || other == op)
            return NULL;
        bool is_near = other->mcp.tool && strcmp(other->mcp.group, op->mcp.group) == 0 && other->mcp.is_core;
        const struct op_param *same = is_near ? op_param_find(other, param->name) : NULL;
        if (same && same->help && strcmp(same->help, param->help) == 0)
            return other->mcp.tool;
    }
    return NULL;
}

const char *mcp_explained_by(const struct op *op)
{
    for (const struct op_param *param = op->params; param->name && (op->flags & OP_KEEPS_REST); param++)
        if (!(param->flags & OP_POSITIONAL) && explained_by(op, param))
            return explained_by(op, param);
    return NULL;
}

/* Where what is not mentioned stays as it is, there are no defaults. */
static json_t *param_schema(const struct op *op, const struct op_param *param)
{
    struct buf help CLEANUP(buf_clear) = BUF_INIT;
    bool has_default = param->fallback && !(op->flags & OP_KEEPS_REST);
    json_t *schema = json_object(), *fallback = has_default ? default_of(param) : NULL;
    if (param->flags & OP_LIST)
        schema_add_list(schema, "string");
    else
        add_type(schema, param);
    const char *elsewhere = explained_by(op, param);
    buf_puts(&help, param->agent_help ? param->agent_help : param->help);
    if (param->type == OP_DURATION && !(param->flags & OP_MS))
        buf_puts(&help, param->flags & OP_FOREVER ? " (30s, 5m, forever)" : " (30s, 5m)");
    if (has_default && !fallback && !param->agent_help)
        buf_printf(&help, " Default: %s.", param->fallback);
    if (!elsewhere && help.len) /* the tool's text says where it is explained */
        json_object_set_new(schema, "description", json_string(buf_str(&help)));
    if (fallback)
        json_object_set_new(schema, "default", fallback);
    return schema;
}

/* Of the tools of the working set, the first that asks explains both; a refusal explains them to everybody. */
static bool explains_asking(const struct op *op)
{
    op_foreach (other)
        if (op_asks(other) && other->mcp.is_core)
            return other == op || !op->mcp.is_core;
    return true;
}

static void add_asking(json_t *properties, const struct op *op)
{
    json_t *yes = json_pack("{s:s}", "type", "boolean"), *token = json_pack("{s:s}", "type", "string");
    if (explains_asking(op)) {
        json_object_set_new(yes, "description", json_string("Your own yes: enough where nobody alive loses anything."));
        json_object_set_new(token, "description", json_string("Of a refusal, once a person has confirmed it."));
    }
    json_object_set_new(properties, "confirm", yes);
    json_object_set_new(properties, "confirm_token", token);
}

/* The first tool of the working set that takes a caller explains `instance`. A refusal explains it to everybody. */
static bool explains_caller(const struct op *op)
{
    op_foreach (other)
        if (op_takes_caller(other) && other->mcp.is_core && !op_param_find(other, "register"))
            return other == op || !op->mcp.is_core;
    return true;
}

/* Where many share a server, each says who it is; the tool that registers is the one that must not. */
static void add_caller_properties(json_t *properties, const struct op *op)
{
    if (!op_takes_caller(op))
        return;
    if (op_param_find(op, "register")) {
        json_object_del(properties, "instance");
        return;
    }
    json_t *instance = json_pack("{s:s}", "type", "string");
    if (explains_caller(op))
        json_object_set_new(instance, "description", json_string("Yours (get_status register)."));
    json_object_set_new(properties, "instance", instance);
    json_object_set_new(properties, OP_SECRET, json_pack("{s:s}", "type", "string"));
}

json_t *mcp_input_schema(const struct mcp_server *server, const struct op *op)
{
    unsigned hidden = OP_CLI_ONLY | OP_PAGE_ONLY | (server->options.is_shared ? 0 : OP_CALLER);
    json_t *properties = json_object(), *required = json_array();
    for (const struct op_param *param = op->params; param->name; param++) {
        if (param->flags & hidden)
            continue;
        json_object_set_new(properties, param->name, param_schema(op, param));
        if (param->flags & (OP_REQUIRED | OP_SHOWN_REQUIRED | OP_REMOTE_REQUIRED))
            json_array_append_new(required, json_string(param->name));
    }
    if (op_asks(op))
        add_asking(properties, op);
    if (server->options.is_shared)
        add_caller_properties(properties, op);
    json_t *schema = json_pack("{s:s}", "type", "object");
    if (json_object_size(properties))
        json_object_set(schema, "properties", properties);
    else
        json_object_set_new(schema, "additionalProperties", json_false()); /* elsewhere the refusal says it, for free */
    if (json_array_size(required))
        json_object_set(schema, "required", required);
    json_decref(properties);
    json_decref(required);
    return schema;
}

/* Whether the caller has said it itself: to this tool, or where the thing was made. */
static bool is_said(const struct op *op, const char *name)
{
    op_foreach (other)
        if (other->mcp.tool && strcmp(other->mcp.group, op->mcp.group) == 0 && strcmp(other->verb, "create") == 0 &&
            op_param_find(other, name))
            return true;
    return op_param_find(op, name) != NULL;
}

/* Only keys of one type: clients that map schemas onto another dialect know neither null nor several types. */
json_t *mcp_output_schema(const struct op *op)
{
    json_t *properties = json_object();
    for (const struct op_field *field = op->result; field->name; field++)
        if (!strchr(field->type, '?') && strcmp(field->type, "any") != 0 && !is_said(op, field->name))
            json_object_set_new(properties, field->name, json_pack("{s:s}", "type", field->type));
    return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}
