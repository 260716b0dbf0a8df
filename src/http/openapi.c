/* openapi.c - the table as an OpenAPI 3.1 document. */
#include "base/word.h"
#include "http/internal.h"

#include <string.h>

/* ---- parameters ---- */

static json_t *one_or_many(const struct op_param *param, json_t *schema_take)
{
    if (!(param->flags & OP_MANY))
        return schema_take;
    json_t *list = json_pack("{s:s, s:O}", "type", "array", "items", schema_take);
    return json_pack("{s:[o, o]}", "anyOf", schema_take, list);
}

static json_t *choices_schema(const char *const *words)
{
    json_t *list = json_array();
    for (; *words; words++)
        json_array_append_new(list, json_string(*words));
    return json_pack("{s:s, s:o}", "type", "string", "enum", list);
}

static json_t *text_schema(const struct op_param *param)
{
    json_t *schema = json_pack("{s:s}", "type", "string");
    if (param->type == OP_ID)
        json_object_set_new(schema, "pattern", json_string("^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"));
    if (param->max && param->type == OP_STRING)
        json_object_set_new(schema, "maxLength", json_integer(param->max));
    if (param->flags & OP_REQUIRED)
        json_object_set_new(schema, "minLength", json_integer(1));
    return one_or_many(param, schema);
}

static json_t *schema_of(const struct op_param *param)
{
    switch (param->type) {
    case OP_INT:
        return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t)param->min, "maximum",
                         (json_int_t)param->max);
    case OP_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case OP_DURATION:
        return json_pack("{s:[{s:s}, {s:s, s:i}]}", "anyOf", "type", "string", "type", "integer", "minimum", 0);
    case OP_ENUM:
        return one_or_many(param, choices_schema(param->choices));
    case OP_ARGV:
        if (param->flags & OP_SHELL)
            return json_pack("{s:[{s:s}, {s:s, s:{s:s}}]}", "anyOf", "type", "string", "type", "array", "items", "type",
                             "string");
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    case OP_OBJECTS:
        return json_pack("{s:[{s:s}, {s:s, s:{s:s}}]}", "anyOf", "type", "string", "type", "array", "items", "type",
                         "object");
    case OP_MAP:
        return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type", "string");
    case OP_ANY:
        return json_pack("{s:[{s:s}, {s:s}]}", "anyOf", "type", "string", "type", "object");
    case OP_STRING:
    case OP_ID:
    case OP_PATH:
        return text_schema(param);
    }
    BUG(true);
}

#define CALLER_HELP                                                                                                    \
    "Who calls: the id that GET /api/status?register=true gave. The header Tasuki-Instance says it as well."

/* What the command line takes as default does not hold here: nobody is above a client of the server. */
static const char *help_of(const struct op_param *param)
{
    if ((param->flags & OP_CALLER) && strcmp(param->name, "instance") == 0)
        return CALLER_HELP;
    return param->agent_help ? param->agent_help : param->help;
}

/* How the command line takes it, for a page that shows the command: by position, behind `--`, or by an option of another name. */
static void add_cli_place(json_t *json, const struct op_param *param)
{
    const char *place = param->flags & OP_REMOTE_ONLY                         ? "none"
                        : param->flags & OP_PROGRAM || param->type == OP_ARGV ? "behind"
                        : param->flags & OP_POSITIONAL                        ? "position"
                                                                              : param->option;
    if (place)
        json_object_set_new(json, "x-cli", json_string(place));
}

static json_t *described_schema(json_t *schema_take, const struct op_param *param)
{
    json_object_set_new(schema_take, "description", json_string(help_of(param)));
    add_cli_place(schema_take, param);
    return schema_take;
}

/* Whether a path has `:name`. */
static bool is_in_path(const char *path, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = path; (at = strchr(at, ':')); at++)
        if (strncmp(at + 1, name, len) == 0 && (at[1 + len] == '/' || !at[1 + len]))
            return true;
    return false;
}

static json_t *parameter_object(const struct op_param *param, const char *where, bool is_required)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:o}", "name", param->name, "in", where, "description", help_of(param),
                             "schema", schema_of(param));
    if (is_required)
        json_object_set_new(json, "required", json_true());
    add_cli_place(json, param);
    return json;
}

static json_t *secret_schema(void)
{
    return json_pack(
        "{s:s, s:s}", "type", "string", "description",
        "The secret that came with the id. The header Tasuki-Secret carries it as well, and stays out of URLs.");
}

static json_t *caller_schema(void)
{
    return json_pack("{s:s, s:s}", "type", "string", "description", CALLER_HELP);
}

/* Every request can name its caller in headers (caller.c). A request that changes something, or opens a stream, can also do so in
 * its arguments. */
static void add_caller_headers(json_t *parameters, json_t *body, const struct op *op, bool has_body, bool streams)
{
    json_array_append_new(parameters, json_pack("{s:s}", "$ref", "#/components/parameters/Instance"));
    json_array_append_new(parameters, json_pack("{s:s}", "$ref", "#/components/parameters/Secret"));
    bool has_param = op_param_find(op, "instance");
    if (has_body && op_takes_caller(op)) {
        json_t *properties = json_object_get(body, "properties");
        json_object_set_new(properties, OP_SECRET, secret_schema());
        if (!has_param)
            json_object_set_new(properties, "instance", caller_schema());
    } else if (has_param || streams) {
        json_array_append_new(
            parameters, json_pack("{s:s, s:s, s:o}", "name", OP_SECRET, "in", "query", "schema", secret_schema()));
    }
    if (streams && !has_param)
        json_array_append_new(parameters,
                              json_pack("{s:s, s:s, s:s, s:{s:s}}", "name", "instance", "in", "query", "description",
                                        "Who listens, and lives as long as it does.", "schema", "type", "string"));
}

static json_t *caller_parameters(void)
{
    return json_pack(
        "{s:{s:s, s:s, s:s, s:{s:s}}, s:{s:s, s:s, s:o}}", "Instance", "name", CALLER_HEADER, "in", "header",
        "description", "Who calls: the id that GET /api/status?register=true gave. Needed to lock and to claim.",
        "schema", "type", "string", "Secret", "name", SECRET_HEADER, "in", "header", "schema", secret_schema());
}

/* ---- results ---- */

static json_t *result_ref(const struct op *op)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%s", op->name));
}

static json_t *result_schema(const struct op *op)
{
    json_t *properties = json_object();
    for (const struct op_field *field = op->result; field->name; field++) {
        size_t len = strcspn(field->type, "?");
        json_t *type = json_stringn(field->type, len), *schema = json_object();
        if (field->type[len] == '?')
            type = json_pack("[o, s]", type, "null");
        if (strcmp(field->type, "any") != 0)
            json_object_set(schema, "type", type);
        json_decref(type);
        if (*field->help)
            json_object_set_new(schema, "description", json_string(field->help));
        json_object_set_new(properties, field->name, schema);
    }
    return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}

static json_t *json_content(json_t *schema_take)
{
    return json_pack("{s:{s:o}}", "application/json", "schema", schema_take);
}

static json_t *error_ref(void)
{
    return json_pack("{s:s}", "$ref", "#/components/schemas/Error");
}

/* `op` NULL: it is never a result that is no success. */
static void openapi_add_error(json_t *responses, const struct op *op, int status, const char *name)
{
    const char *key = DIGITS(status);
    json_t *there = json_object_get(responses, key);
    const char *said = json_get_string(there, "description", NULL);
    if (status < 400 || (said && strstr(said, name)))
        return;
    json_t *text = said ? json_sprintf("%s, %s", said, name) : json_string(name);
    bool is_either = op && (op->flags & (OP_VERDICTS | OP_GOES_ON));
    json_t *schema = is_either ? json_pack("{s:[o, o]}", "anyOf", result_ref(op), error_ref()) : error_ref();
    if (there && !op) /* as it was */
        json_object_set_new(there, "description", text), json_decref(schema);
    else
        json_object_set_new(responses, key,
                            json_pack("{s:o, s:o}", "description", text, "content", json_content(schema)));
}

/* What a GET of a row with OP_STREAMS gives, if the client accepts it; or always (`streams`). */
static json_t *content_of(const struct op *op, bool is_get, bool streams)
{
    json_t *content = streams ? json_object() : json_content(result_ref(op));
    if (streams || (is_get && (op->flags & OP_STREAMS)))
        json_object_set_new(content, "text/event-stream", json_pack("{s:{s:s}}", "schema", "type", "string"));
    return content;
}

static json_t *responses_of(const struct op *op, bool is_get, bool streams)
{
    json_t *responses =
        json_pack("{s:{s:s, s:o}}", "200", "description", "Done.", "content", content_of(op, is_get, streams));
    if (op->flags & OP_GOES_ON)
        json_object_set_new(responses, "202",
                            json_pack("{s:s, s:o}", "description", "It has begun and continues by itself.", "content",
                                      json_content(result_ref(op))));
    json_object_set_new(responses, "default",
                        json_pack("{s:s, s:o}", "description", "An error.", "content", json_content(error_ref())));
    for (const enum tsk_code *code = op->errors; *code != TSK_OK; code++)
        openapi_add_error(responses, op, code_info(*code)->http_status, code_info(*code)->name);
    static const enum tsk_code always[] = {TSK_INVALID_INPUT, TSK_UNAUTHORIZED, TSK_FORBIDDEN_ORIGIN,
                                           TSK_PAYLOAD_TOO_LARGE, TSK_ENVIRONMENT};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        openapi_add_error(responses, NULL, code_info(always[i])->http_status, code_info(always[i])->name);
    return responses;
}

/* ---- operations ---- */

static void add_property(json_t *schema, const struct op_param *param)
{
    json_object_set_new(json_object_get(schema, "properties"), param->name, described_schema(schema_of(param), param));
    if (param->flags & (OP_REQUIRED | OP_SHOWN_REQUIRED | OP_REMOTE_REQUIRED))
        json_array_append_new(json_object_get(schema, "required"), json_string(param->name));
}

static json_t *body_schema(const struct op *op, const char *when)
{
    json_t *schema =
        json_pack("{s:s, s:{}, s:[], s:b}", "type", "object", "properties", "required", "additionalProperties", false);
    json_t *properties = json_object_get(schema, "properties");
    if (when) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(when, "="), when);
        json_object_set_new(properties, name, json_pack("{s:s}", "const", when + strcspn(when, "=") + 1));
        json_array_append_new(json_object_get(schema, "required"), json_string(name));
    }
    if (op_asks(op))
        json_object_set_new(properties, "confirm",
                            json_pack("{s:s, s:s}", "type", "boolean", "description",
                                      "Yes to the question that a refusal with needs_confirmation stands for."));
    return schema;
}

/* The route's parameters: in the path, in the query of GET, in the body otherwise. */
static json_t *operation_object(const struct op *op, const struct op_route *route, const char *when, const char *id)
{
    bool has_body = strcmp(route->method, "GET") != 0;
    bool streams = route->preset && strcmp(route->preset, "follow=true") == 0;
    json_t *parameters = json_array(), *schema = body_schema(op, when);
    for (const struct op_param *param = op->params; param->name; param++) {
        size_t len = strlen(param->name);
        bool is_preset = route->preset && strncmp(route->preset, param->name, len) == 0 && route->preset[len] == '=';
        if ((param->flags & OP_CLI_ONLY) || is_preset)
            continue;
        if (is_in_path(route->path, param->name))
            json_array_append_new(parameters, parameter_object(param, "path", true));
        else if (has_body)
            add_property(schema, param);
        else
            json_array_append_new(parameters, parameter_object(param, "query", param->flags & OP_REQUIRED));
    }
    add_caller_headers(parameters, schema, op, has_body, streams);
    json_t *json = json_pack("{s:s, s:s, s:o, s:o}", "operationId", id, "summary", op->summary, "parameters",
                             parameters, "responses", responses_of(op, !has_body, streams));
    if (op->detail)
        json_object_set_new(json, "description", json_string(op->detail));
    if (op->noun)
        json_object_set_new(json, "tags", json_pack("[s]", op->noun));
    if (has_body)
        json_object_set_new(json, "requestBody", json_pack("{s:o}", "content", json_content(json_incref(schema))));
    json_decref(schema);
    return json;
}

/* Rows that share a route: one operation whose body is one of theirs. */
static void join_paths(json_t *there, json_t *more_take)
{
    json_t *more CLEANUP_JSON = more_take;
    json_t *content =
        json_object_get(json_object_get(json_object_get(there, "requestBody"), "content"), "application/json");
    const json_t *other = json_at(more, "requestBody.content");
    json_t *schema = json_object_get(content, "schema"), *list = json_object_get(schema, "oneOf");
    json_t *added = json_object_get(json_object_get(other, "application/json"), "schema");
    if (!list) {
        list = json_pack("[O]", schema);
        json_object_set_new(content, "schema", json_pack("{s:o}", "oneOf", list));
    }
    json_array_append(list, added);
    json_t *summary =
        json_sprintf("%s / %s", json_get_string(there, "summary", ""), json_get_string(more, "summary", ""));
    json_object_set_new(there, "summary", summary);
    json_object_update_missing(json_object_get(there, "responses"), json_object_get(more, "responses"));
}

/* "/api/locks/:kind/:id" is "/api/locks/{kind}/{id}" there. */
static void path_text(const char *path, struct buf *b)
{
    while (*path) {
        size_t len = strcspn(path + 1, "/");
        if (path[1] == ':')
            buf_printf(b, "/{%.*s}", (int)len - 1, path + 2);
        else
            buf_printf(b, "/%.*s", (int)len, path + 1);
        path += len + 1;
    }
}

static void add_route(json_t *paths, const struct op *op, const struct op_route *route, const char *when,
                      const char *id)
{
    struct buf path CLEANUP(buf_clear) = BUF_INIT;
    char method[8] = "";
    path_text(route->path, &path);
    for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)(route->method[i] | 0x20);
    json_t *item = json_object_get(paths, buf_str(&path)), *json = operation_object(op, route, when, id);
    if (!item) {
        item = json_object();
        json_object_set_new(paths, buf_str(&path), item);
    }
    json_t *there = json_object_get(item, method);
    if (there)
        join_paths(there, json);
    else
        json_object_set_new(item, method, json);
}

static json_t *error_schema(void)
{
    static const char text[] =
        "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\",\"required\":"
        "[\"category\",\"reason_code\",\"message\"],\"properties\":{\"category\":{\"type\":\"string\"},\"reason_code\":"
        "{\"type\":\"string\"},\"message\":{\"type\":\"string\"},\"context\":{\"type\":\"object\"},\"next\":{\"type\":"
        "\"array\",\"items\":{\"type\":\"string\"}},\"actions\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}},"
        "\"latest_run\":{\"type\":\"string\"},\"needs_confirmation\":"
        "{\"type\":\"boolean\"},\"details\":{\"type\":\"object\"}}}";
    return json_loads(text, 0, NULL);
}

/* What the server has beside the table. */
static const struct other {
    const char *path, *method, *id, *summary;
    const char *type; /* of the answer; NULL: there is none */
} others[] = {
    {"/healthz", "get", "healthz", "Whether the server is there; without the token.", "application/json"},
    {"/metrics", "get", "metrics", "Numbers in Prometheus's text format.", "text/plain"},
    {"/api/openapi.json", "get", "openapi", "This document.", "application/json"},
    {"/mcp", "post", "mcp", "MCP (Streamable HTTP): one JSON-RPC message.", "application/json"},
    {"/mcp", "get", "mcp.stream", "MCP: a session's stream of news.", "text/event-stream"},
    {"/mcp", "delete", "mcp.end", "MCP: end a session.", NULL},
};

static void openapi_add_other(json_t *paths, const struct other *other)
{
    json_t *json = json_pack("{s:s, s:s, s:{s:{s:s}}}", "operationId", other->id, "summary", other->summary,
                             "responses", "200", "description", "Done.");
    if (other->type)
        json_object_set_new(json_object_get(json_object_get(json, "responses"), "200"), "content",
                            json_pack("{s:{s:{}}}", other->type, "schema"));
    if (strcmp(other->path, "/healthz") == 0)
        json_object_set_new(json, "security", json_array());
    if (strcmp(other->method, "post") == 0)
        json_object_set_new(json, "requestBody",
                            json_pack("{s:o}", "content", json_content(json_pack("{s:s}", "type", "object"))));
    else if (strcmp(other->path, "/mcp") == 0)
        json_object_set_new(json, "parameters",
                            json_pack("[{s:s, s:s, s:b, s:{s:s}}]", "name", "Mcp-Session-Id", "in", "header",
                                      "required", true, "schema", "type", "string"));
    if (!json_object_get(paths, other->path))
        json_object_set_new(paths, other->path, json_object());
    json_object_set_new(json_object_get(paths, other->path), other->method, json);
}

void openapi_write(struct buf *b)
{
    json_t *paths = json_object(), *schemas = json_pack("{s:o}", "Error", error_schema());
    op_foreach (op) {
        if (op->http.path)
            json_object_set_new(schemas, op->name, result_schema(op));
        if (op->http.path)
            add_route(paths, op, &(struct op_route){op->http.method, op->http.path, NULL}, op->http.when, op->name);
        unsigned number = 2;
        for (const struct op_route *also = op->http.also; also && also->path; also++) {
            char id[96];
            snprintf(id, sizeof id, "%s.%u", op->name, number++);
            add_route(paths, op, also, NULL, id);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        openapi_add_other(paths, &others[i]);
    json_t *document CLEANUP_JSON =
        json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:o, s:{s:o, s:o, s:{s:{s:s, s:s}}}, s:[{s:[]}]}",
                  "openapi", "3.1.0", "info", "title", "tasuki", "version", TASUKI_VERSION, "description",
                  "Run controller for machines that agents and people share. Made from the operation table.", "license",
                  "name", "MIT", "identifier", "MIT", "servers", "url", "/", "paths", paths, "components", "schemas",
                  schemas, "parameters", caller_parameters(), "securitySchemes", "token", "type", "http", "scheme",
                  "bearer", "security", "token");
    BUG(!document);
    json_write(b, document, false);
}
