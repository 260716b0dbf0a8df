/* resources.c - what can be read by name, and which names an event changes. A resource is an operation without an effect. */
#include "mcp/internal.h"

#include <stdlib.h>
#include <string.h>

#define SCHEME "tasuki://"

struct resource {
    const char *uri; /* with {parameter}s: a template */
    const char *op;  /* offered when there is such an operation */
    const char *name, *description;
    bool is_quiet;                           /* no event says that it has changed */
    bool (*is_possible)(const json_t *args); /* NULL: with any parameters */
};

/* A lock that has no id is called by its file. */
static const char *own_name(const char *kind)
{
    return strcmp(kind, "queue") == 0 ? "queue" : strcmp(kind, "sprint") == 0 ? ".sprint-running" : NULL;
}

static bool is_lock(const json_t *args)
{
    const char *own = own_name(json_get_string(args, "kind", ""));
    return !own || json_text_is(args, "id", own);
}

static const struct resource resources[] = {
    {SCHEME "status", "status", "status", "The whole workspace: locks and processes.", false, NULL},
    {SCHEME "processes", "process.list", "processes", "All processes with their states.", false, NULL},
    {SCHEME "locks", "lock.list", "locks", "All locks and who holds them.", false, NULL},
    {SCHEME "runs", "runs.list", "runs", "All runs.", false, NULL},
    {SCHEME "events", "events", "events", "The newest events.", false, NULL},
    {SCHEME "process/{id}", "process.status", "process", "One process.", false, NULL},
    {SCHEME "process/{id}/log{?stream,tail}", "process.logs", "process log",
     "What a process wrote; stream: stdout, stderr or both; tail: the number of last lines.", true, NULL},
    {SCHEME "run/{id}", "runs.show", "run", "One run.", false, NULL},
    {SCHEME "lock/{kind}/{id}", "lock.check", "lock",
     "One lock: free, held, stale or zombie; a queue's id is queue, a sprint's .sprint-running.", false, is_lock},
};
#define RESOURCE_COUNT (sizeof resources / sizeof resources[0])

static bool is_template(const struct resource *resource)
{
    return strchr(resource->uri, '{') != NULL;
}

static json_t *resources_list(bool templates)
{
    json_t *found = json_array();
    for (size_t i = 0; i < RESOURCE_COUNT; i++)
        if (is_template(&resources[i]) == templates && op_by_name(resources[i].op))
            json_array_append_new(found, json_pack("{s:s, s:s, s:s, s:s}", templates ? "uriTemplate" : "uri",
                                                   resources[i].uri, "name", resources[i].name, "description",
                                                   resources[i].description, "mimeType", "application/json"));
    if (mcp_extra)
        mcp_extra->add_resources(found, templates);
    return found;
}

json_t *mcp_resources_list(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *found CLEANUP_JSON = resources_list(false);
    return mcp_page(request, "resources", found, fault);
}

json_t *mcp_resources_templates(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *found CLEANUP_JSON = resources_list(true);
    return mcp_page(request, "resourceTemplates", found, fault);
}

/* ---- reading ---- */

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

/* The text between two places, with %XX resolved; NULL when that is not UTF-8. */
static json_t *decoded_part(const char *text, size_t len)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < len; i++) {
        bool is_escape = text[i] == '%' && i + 2 < len && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
        char c = is_escape ? (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2])) : text[i];
        buf_put(&b, &c, 1);
        i += is_escape ? 2 : 0;
    }
    return json_stringn(buf_str(&b), b.len);
}

/* Whether a template's "stream,tail}" has that name. */
static bool resource_is_named(const char *names, const char *name, size_t len)
{
    for (; *names && *names != '}'; names += strcspn(names, ",}") + (names[strcspn(names, ",}")] == ','))
        if (strcspn(names, ",}") == len && strncmp(names, name, len) == 0)
            return true;
    return false;
}

/* Fills `args` from "?stream=stderr&tail=20" for the parameters that the template names. */
static bool take_uri_query(const char *query, const char *names, json_t *args)
{
    while (*query) {
        size_t pair = strcspn(query, "&"), key = strcspn(query, "=&");
        bool is_tail = key == 4 && strncmp(query, "tail", key) == 0; /* the operation calls it lines */
        json_t *value =
            key < pair && resource_is_named(names, query, key) ? decoded_part(query + key + 1, pair - key - 1) : NULL;
        if (!value || json_object_setn_new(args, is_tail ? "lines" : query, is_tail ? 5 : key, value) < 0)
            return false;
        query += pair + (query[pair] == '&');
    }
    return true;
}

/* Matches a uri with a template: {name} is one segment, {?a,b} an optional query. The parameters, owned, or NULL. */
static json_t *match_uri(const char *pattern, const char *uri)
{
    json_t *args = json_object();
    while (*pattern && !(pattern[0] == '{' && pattern[1] == '?')) {
        if (*pattern != '{') {
            if (*pattern != *uri)
                break;
            pattern++;
            uri++;
            continue;
        }
        size_t len = strcspn(uri, "/?"), name_len = strcspn(pattern + 1, "}");
        json_t *value = len ? decoded_part(uri, len) : NULL;
        if (!value || json_object_setn_new(args, pattern + 1, name_len, value) < 0)
            break;
        uri += len;
        pattern += name_len + 2;
    }
    bool fits = !*pattern && !*uri;
    if (*pattern == '{' && pattern[1] == '?')
        fits = !*uri || (*uri == '?' && take_uri_query(uri + 1, pattern + 2, args));
    if (fits)
        return args;
    json_decref(args);
    return NULL;
}

static const struct resource *resource_find(const char *uri, json_t **ret_args)
{
    for (size_t i = 0; i < RESOURCE_COUNT; i++) {
        json_t *args = op_by_name(resources[i].op) ? match_uri(resources[i].uri, uri) : NULL;
        if (args && resources[i].is_possible && !resources[i].is_possible(args))
            json_free(&args);
        if (args && ret_args)
            *ret_args = args;
        else
            json_decref(args);
        if (args)
            return &resources[i];
    }
    return NULL;
}

bool mcp_resource_has_news(struct mcp_server *server, const char *uri)
{
    const struct resource *resource = resource_find(uri, NULL);
    if (!resource) {
        json_t *extra CLEANUP_JSON = mcp_extra ? mcp_extra->read(uri) : NULL;
        return extra != NULL;
    }
    return !resource->is_quiet && mcp_server_workspace(server);
}

bool mcp_resource_is_template(const char *uri)
{
    for (size_t i = 0; i < RESOURCE_COUNT; i++)
        if (is_template(&resources[i]) && strcmp(resources[i].uri, uri) == 0)
            return true;
    return false;
}

static json_t *resource_not_found(const struct mcp_request *request, const char *uri, const char *why,
                                  struct mcp_fault *fault)
{
    json_t *text = json_string(uri);
    fault->data = json_pack("{s:o}", "uri", text ? text : json_null());
    return mcp_fault(fault, request->is_modern ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND, "%s", why);
}

json_t *mcp_resources_read(struct mcp_request *request, struct mcp_fault *fault)
{
    struct mcp_server *server = request->link->server;
    const char *uri = json_get_string(request->params, "uri", NULL);
    json_t *args = NULL, *extra;
    if (!uri)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "resources/read needs a uri");
    if (mcp_extra && (extra = mcp_extra->read(uri)))
        return extra;
    const struct resource *resource = resource_find(uri, &args);
    if (!resource)
        return resource_not_found(request, uri, "Resource not found", fault);
    struct tsk_error err = {0};
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *answer CLEANUP_JSON = mcp_run_op(server, resource->op, args, &err);
    if (!answer) {
        text_put_error(&text, server->options.lang, &err);
        bool is_absent = strcmp(code_info(err.code)->category, "NOT_FOUND") == 0 || err.code == TSK_INVALID_INPUT;
        return is_absent ? resource_not_found(request, uri, buf_str(&text), fault)
                         : mcp_fault(fault, MCP_INTERNAL, "%s", buf_str(&text));
    }
    json_write(&text, answer, false);
    return json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType", "application/json", "text",
                     buf_str(&text));
}

/* ---- events ---- */

static void add_uri(json_t *uris, json_t *uri_take)
{
    if (uri_take)
        json_array_append_new(uris, uri_take);
}

json_t *mcp_resources_of_event(const json_t *event)
{
    const char *type = json_get_string(event, "type", "");
    const json_t *data = json_object_get(event, "data");
    const char *process = json_get_string(data, "process_id", NULL), *kind = json_get_string(data, "kind", NULL),
               *run = json_get_string(event, "run_id", NULL);
    bool is_of_lock = strncmp(type, "lock.", 5) == 0 || strncmp(type, "LOCK_", 5) == 0;
    json_t *uris = json_array();
    add_uri(uris, json_string(SCHEME "events"));
    add_uri(uris, json_string(SCHEME "status"));
    if (process) {
        add_uri(uris, json_string(SCHEME "processes"));
        add_uri(uris, json_sprintf(SCHEME "process/%s", process));
    }
    if (is_of_lock) {
        add_uri(uris, json_string(SCHEME "locks"));
        const char *own = kind ? own_name(kind) : NULL;
        struct buf id CLEANUP(buf_clear) = BUF_INIT;
        word_put_encoded(&id, json_get_string(data, "id", ""));
        add_uri(uris, json_sprintf(SCHEME "lock/%s/%s", kind ? kind : "?", own ? own : buf_str(&id)));
    }
    if (run) {
        add_uri(uris, json_string(SCHEME "runs"));
        add_uri(uris, json_sprintf(SCHEME "run/%s", run));
    }
    return uris;
}
