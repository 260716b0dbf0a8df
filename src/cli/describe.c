/* describe.c - the operation table as JSON: `tasuki help --json`, for programs that want to know what there is. */
#include "cli/cli.h"

#include <string.h>

static const char *type_name(enum op_type type)
{
    static const char *const names[] = {
        [OP_STRING] = "string",     [OP_ID] = "id",     [OP_INT] = "integer",    [OP_BOOL] = "boolean",
        [OP_DURATION] = "duration", [OP_ENUM] = "enum", [OP_PATH] = "path",      [OP_ARGV] = "argv",
        [OP_MAP] = "map",           [OP_ANY] = "any",   [OP_OBJECTS] = "objects"};
    return names[type];
}

static json_t *describe_param(const struct op_param *param)
{
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:b, s:s, s:s?}", "name", param->name, "type", type_name(param->type), "required",
                  (param->flags & OP_REQUIRED) != 0, "positional", (param->flags & (OP_POSITIONAL | OP_PROGRAM)) != 0,
                  "help", param->help, "default", param->fallback);
    if (param->option)
        json_object_set_new(json, "option", json_string(param->option));
    if (param->flags & OP_CLI_ONLY)
        json_object_set_new(json, "cli_only", json_true());
    if (param->flags & OP_REMOTE_ONLY)
        json_object_set_new(json, "remote_only", json_true());
    if (!param->choices)
        return json;
    json_t *choices = json_array();
    for (const char *const *choice = param->choices; *choice; choice++)
        json_array_append_new(choices, json_string(*choice));
    json_object_set_new(json, "choices", choices);
    return json;
}

static json_t *describe_tool(const struct op *op)
{
    return op->mcp.tool
               ? json_pack("{s:s, s:s, s:b}", "tool", op->mcp.tool, "group", op->mcp.group, "core", op->mcp.is_core)
               : json_pack("{s:s}", "absent", op->mcp.absent);
}

static json_t *describe_route(const struct op *op)
{
    if (!op->http.path)
        return json_pack("{s:s}", "absent", op->http.absent);
    json_t *json = json_pack("{s:s, s:s}", "method", op->http.method, "path", op->http.path);
    if (op->http.when)
        json_object_set_new(json, "when", json_string(op->http.when));
    json_t *also = json_array();
    for (const struct op_route *route = op->http.also; route && route->path; route++)
        json_array_append_new(
            also, json_pack("{s:s, s:s, s:s?}", "method", route->method, "path", route->path, "preset", route->preset));
    if (json_array_size(also))
        json_object_set(json, "also", also);
    json_decref(also);
    return json;
}

static json_t *describe_op(const struct op *op)
{
    json_t *params = json_array(), *result = json_array(), *errors = json_array();
    for (const struct op_param *param = op->params; param->name; param++)
        json_array_append_new(params, describe_param(param));
    for (const struct op_field *field = op->result; field->name; field++)
        json_array_append_new(
            result, json_pack("{s:s, s:s, s:s}", "name", field->name, "type", field->type, "help", field->help));
    for (const enum tsk_code *code = op->errors; *code; code++)
        json_array_append_new(errors, json_pack("{s:s, s:i, s:i}", "reason_code", tsk_code_name(*code), "exit",
                                                code_info(*code)->exit_code, "http", code_info(*code)->http_status));
    struct buf usage CLEANUP(buf_clear) = BUF_INIT;
    cli_usage_line(op, &usage);
    return json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "name", op->name, "usage",
                     buf_str(&usage), "summary", op->summary, "read_only", (op->flags & OP_READ_ONLY) != 0,
                     "destructive", (op->flags & OP_DESTRUCTIVE) != 0, "idempotent", (op->flags & OP_IDEMPOTENT) != 0,
                     "params", params, "result", result, "errors", errors, "http", describe_route(op), "mcp",
                     describe_tool(op));
}

json_t *cli_describe(const char *noun, const char *verb)
{
    json_t *list = json_array();
    op_foreach (op) {
        bool fits = !noun || op_has_noun(op, noun) || (!op->noun && strcmp(op->verb, noun) == 0);
        if (fits && (!verb || strcmp(op->verb, verb) == 0))
            json_array_append_new(list, describe_op(op));
    }
    return json_pack("{s:o}", "operations", list);
}
