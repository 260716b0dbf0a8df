/* tools.c - the rows as tools: which of them are offered, their list, and the way to a call. */
#include "mcp/internal.h"
#include "mcp/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mcp_extra *mcp_extra;

#define PAGE_SIZE 64 /* all real tools on one page: many clients do not ask for the second */

/* ---- which ---- */

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strcspn(at, ",") == len && strncmp(at, word, len) == 0)
            return true;
    return false;
}

static bool is_wanted_tool(const struct mcp_server *server, const struct op *op, struct tsk_workspace *ws)
{
    const char *wanted = server->options.tools ? server->options.tools : "core";
    if (!op->mcp.tool || (op->mcp.when && !(ws && op->mcp.when(ws))))
        return false;
    return has_word(wanted, "all") || has_word(wanted, op->mcp.group) || (op->mcp.is_core && has_word(wanted, "core"));
}

/* A word that names no group would silently offer nothing. */
static int tools_check_groups(const char *wanted, struct tsk_error *err)
{
    char groups[256] = "core,all";
    op_foreach (op)
        if (op->mcp.group && !has_word(groups, op->mcp.group))
            snprintf(groups + strlen(groups), sizeof groups - strlen(groups), ",%s", op->mcp.group);
    const char *at = wanted;
    do { /* also an empty one */
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (!has_word(groups, word))
            return error_set(err, TSK_INVALID_INPUT, "mcp_group_unknown", "value", word, "want", groups, NULL);
        at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',');
    } while (*at);
    return 0;
}

/* ---- the list ---- */

static json_t *tool_annotations(const struct op *op)
{
    json_t *hints = json_object();
    if (op->flags & OP_READ_ONLY) {
        json_object_set_new(hints, "readOnlyHint", json_true());
        return hints; /* the others mean nothing then */
    }
    json_object_set_new(hints, "destructiveHint", json_boolean(op->flags & OP_DESTRUCTIVE));
    if (op->flags & OP_IDEMPOTENT)
        json_object_set_new(hints, "idempotentHint", json_true());
    return hints;
}

static json_t *tool_definition(const struct mcp_server *server, const struct op *op)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, op->mcp.text ? op->mcp.text : op->summary);
    if (!op->mcp.text && op->detail)
        buf_printf(&text, " %s", op->detail);
    if (mcp_explained_by(op))
        buf_printf(&text, " Parameters without a description are those of %s.", mcp_explained_by(op));
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", op->mcp.tool, "description", buf_str(&text), "inputSchema",
                     mcp_input_schema(server, op), "outputSchema", mcp_output_schema(op), "annotations",
                     tool_annotations(op));
}

void mcp_add_tool(struct mcp_server *server, struct mcp_tool tool, json_t *definition_take)
{
    server->tools = realloc(server->tools, (server->tool_count + 1) * sizeof *server->tools);
    BUG(!server->tools || !definition_take);
    server->tools[server->tool_count++] = tool;
    json_array_append_new(server->tool_list, definition_take);
}

int mcp_tools_init(struct mcp_server *server, struct tsk_error *err)
{
    if (server->options.tools && tools_check_groups(server->options.tools, err) < 0)
        return -1;
    server->tool_list = json_array();
    struct tsk_workspace *ws = mcp_server_workspace(server);
    if (mcp_extra)
        mcp_extra->add_tools(server);
    op_foreach (op)
        if (is_wanted_tool(server, op, ws))
            mcp_add_tool(server, (struct mcp_tool){.name = op->mcp.tool, .op = op}, tool_definition(server, op));
    return 0;
}

const struct op *mcp_server_op(const struct mcp_server *server, const char *tool)
{
    const struct mcp_tool *found = mcp_tool_find(server, tool);
    return found ? found->op : NULL;
}

const struct mcp_tool *mcp_tool_find(const struct mcp_server *server, const char *name)
{
    for (size_t i = 0; i < server->tool_count; i++)
        if (strcmp(server->tools[i].name, name) == 0)
            return &server->tools[i];
    return NULL;
}

/* The cursor is the number of the first one of the page: the lists do not change. */
json_t *mcp_page(struct mcp_request *request, const char *key, const json_t *list, struct mcp_fault *fault)
{
    const json_t *given = json_object_get(request->params, "cursor");
    size_t total = json_array_size(list), first = 0;
    if (given && !json_is_null(given)) {
        const char *cursor = json_is_string(given) ? json_string_value(given) : "";
        first = strtoul(cursor, NULL, 10);
        if (!*cursor || cursor[strspn(cursor, "0123456789")] || first >= total)
            return mcp_fault(fault, MCP_INVALID_PARAMS, "The cursor is not one of this list");
    }
    json_t *page = json_array(), *result = json_pack("{s:o}", key, page);
    for (size_t i = first; i < total && i < first + PAGE_SIZE; i++)
        json_array_append(page, json_array_get(list, i));
    if (first + PAGE_SIZE < total)
        json_object_set_new(result, "nextCursor", json_sprintf("%zu", first + PAGE_SIZE));
    return result;
}

json_t *mcp_tools_list(struct mcp_request *request, struct mcp_fault *fault)
{
    return mcp_page(request, "tools", request->link->server->tool_list, fault);
}

/* ---- a call ---- */

json_t *mcp_tools_call(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *name = json_get_string(request->params, "name", NULL);
    const json_t *args = json_object_get(request->params, "arguments");
    if (!name)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "tools/call needs the tool's name");
    if (args && !json_is_object(args))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "arguments must be an object");
    const struct mcp_tool *tool = request->tool;
    if (!tool)
        return mcp_fault(fault, MCP_INVALID_PARAMS, "Unknown tool: %.100s", name);
    return tool->op ? mcp_call(request, fault) : mcp_extra->call(request, fault);
}
