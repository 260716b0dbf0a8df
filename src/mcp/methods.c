/* methods.c - which methods there are in which era, and the ones that are about the connection itself. */
#include "mcp/internal.h"
#include "mcp/task.h"

#include <string.h>

/* A sentence for each tool that is offered; together at most 600 characters. */
static const struct {
    const char *tool; /* NULL: always */
    const char *text;
} instructions[] = {
    {NULL, "tasuki keeps agents and people on this machine out of each other's way."},
    {"get_status", "Before you start or change anything: get_status."},
    {"lock_acquire",
     "Before you touch what others may touch: lock_acquire (kind name), and lock_release when done; NOT "
     "ACQUIRED means somebody else works there, so wait or do something else."},
    {"create_process",
     "Run servers and long commands with create_process and start_process instead of your shell: they outlive you, "
     "never run twice, and their output stays readable (get_process_output)."},
    {"wait_for", "Use wait_for instead of polling."},
    {NULL, "Every error says what to do next."},
};

static json_t *instructions_of(const struct mcp_server *server)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < sizeof instructions / sizeof instructions[0]; i++)
        if (!instructions[i].tool || mcp_tool_find(server, instructions[i].tool))
            buf_printf(&b, "%s%s", i ? " " : "", instructions[i].text);
    return json_string(buf_str(&b));
}

static const struct mcp_method methods[] = {
    {"initialize", MCP_IN_LEGACY | MCP_BEFORE, mcp_initialize},
    {"ping", MCP_IN_LEGACY | MCP_BEFORE, mcp_nothing},
    {"logging/setLevel", MCP_IN_LEGACY, mcp_set_level},
    {"server/discover", MCP_IN_MODERN | MCP_CACHEABLE | MCP_BEFORE, mcp_discover},
    {"tools/list", MCP_BOTH | MCP_CACHEABLE, mcp_tools_list},
    {"tools/call", MCP_BOTH | MCP_WORKER, mcp_tools_call},
    {"resources/list", MCP_BOTH | MCP_CACHEABLE, mcp_resources_list},
    {"resources/templates/list", MCP_BOTH | MCP_CACHEABLE, mcp_resources_templates},
    {"resources/read", MCP_BOTH | MCP_CACHEABLE | MCP_WORKER, mcp_resources_read},
    {"resources/subscribe", MCP_IN_LEGACY, mcp_subscribe},
    {"resources/unsubscribe", MCP_IN_LEGACY, mcp_unsubscribe},
    {"subscriptions/listen", MCP_IN_MODERN, mcp_listen},
    {"prompts/list", MCP_BOTH | MCP_CACHEABLE, mcp_prompts_list},
    {"prompts/get", MCP_BOTH | MCP_WORKER, mcp_prompts_get},
    {"completion/complete", MCP_BOTH | MCP_WORKER, mcp_complete},
    {"tasks/get", MCP_IN_MODERN | MCP_WORKER | MCP_NEEDS_TASKS, mcp_tasks_get},
    {"tasks/update", MCP_IN_MODERN | MCP_WORKER | MCP_NEEDS_TASKS, mcp_tasks_update},
    {"tasks/cancel", MCP_IN_MODERN | MCP_WORKER | MCP_NEEDS_TASKS, mcp_tasks_cancel},
};

const struct mcp_method *mcp_method_find(const char *name, bool is_modern)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].flags & (is_modern ? MCP_IN_MODERN : MCP_IN_LEGACY) ? &methods[i] : NULL;
    return NULL;
}

/* The lists are made at the start and stay; only those of mcp_extra may change. */
static json_t *capabilities_of(bool is_modern)
{
    json_t *json =
        json_pack("{s:{}, s:{s:b}, s:{}, s:{}}", "tools", "resources", "subscribe", true, "prompts", "completions");
    if (mcp_extra) {
        json_object_set_new(json_object_get(json, "tools"), "listChanged", json_true());
        json_object_set_new(json_object_get(json, "prompts"), "listChanged", json_true());
    }
    if (is_modern)
        json_object_set_new(json, "extensions", json_pack("{s:{}}", MCP_TASKS));
    else if (mcp_extra)
        json_object_set_new(json, "logging", json_object());
    return json;
}

const char *mcp_legacy_version(const char *version)
{
    static const char *const versions[] = {MCP_NEWEST_LEGACY, "2025-06-18", "2025-03-26", NULL};
    for (size_t i = 0; versions[i]; i++)
        if (strcmp(version, versions[i]) == 0)
            return versions[i];
    return NULL;
}

json_t *mcp_initialize(struct mcp_request *request, struct mcp_fault *fault)
{
    struct mcp_link *link = request->link;
    const char *asked = json_get_string(request->params, "protocolVersion", NULL);
    if (!asked)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "initialize needs protocolVersion");
    const char *version = mcp_legacy_version(asked) ? mcp_legacy_version(asked) : MCP_NEWEST_LEGACY;
    pthread_mutex_lock(&link->mutex);
    bool is_first = !link->version;
    if (is_first) { /* what runs may be reading the first one's capabilities */
        link->version = version;
        link->capabilities = json_deep_copy(json_object_get(request->params, "capabilities"));
        who_copy(link->client, sizeof link->client,
                 json_get_string(json_object_get(request->params, "clientInfo"), "name", NULL));
    }
    pthread_mutex_unlock(&link->mutex);
    if (!is_first)
        return mcp_fault(fault, MCP_INVALID_REQUEST, "The connection is initialized already");
    return json_pack("{s:s, s:o, s:{s:s, s:s, s:s}, s:o}", "protocolVersion", version, "capabilities",
                     capabilities_of(false), "serverInfo", "name", "tasuki", "title", "tasuki run controller",
                     "version", TASUKI_VERSION, "instructions", instructions_of(link->server));
}

json_t *mcp_discover(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)fault;
    return json_pack("{s:[s], s:o, s:o}", "supportedVersions", MCP_MODERN, "capabilities", capabilities_of(true),
                     "instructions", instructions_of(request->link->server));
}

json_t *mcp_nothing(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)request;
    (void)fault;
    return json_object();
}

static const char *const levels[] = {"debug",    "info",  "notice",    "warning", "error",
                                     "critical", "alert", "emergency", NULL};

json_t *mcp_set_level(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *wanted = json_get_string(request->params, "level", "");
    for (int level = 0; levels[level]; level++)
        if (strcmp(levels[level], wanted) == 0) {
            pthread_mutex_lock(&request->link->mutex);
            request->link->log_level = level;
            pthread_mutex_unlock(&request->link->mutex);
            return json_object();
        }
    return mcp_fault(fault, MCP_INVALID_PARAMS, "There is no log level '%.40s'", wanted);
}
