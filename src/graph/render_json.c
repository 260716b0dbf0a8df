/* render_json.c - a graph for programs that draw it themselves. Scopes nest as groups do; nodes and branches are in the order of the
 * file, and a node has the number by which the journal names it. */
#include "graph/render.h"

static json_t *json_of_scope(const struct graph *graph, uint32_t scope);

static json_t *json_of_group(const struct graph *graph, const struct graph_group *group)
{
    struct buf policy CLEANUP(buf_clear) = BUF_INIT;
    json_t *branches = json_array();
    uint32_t scope = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, scope = graph_scope(graph, scope)->next_branch)
        json_array_append_new(branches, json_of_scope(graph, scope));
    render_policy(group, &policy);
    return json_pack("{s:s, s:o}", "policy", buf_str(&policy), "branches", branches);
}

static json_t *graph_node_json(const struct graph *graph, uint32_t node)
{
    char buf[GRAPH_NAME_MAX];
    json_t *document = json_pack("{s:I, s:s}", "node", (json_int_t)node, "name", graph_name(graph, node, buf));
    if (graph_node(graph, node)->is_group)
        json_object_set_new(document, "group",
                            json_of_group(graph, graph_group(graph, graph_node(graph, node)->detail)));
    return document;
}

static json_t *json_of_scope(const struct graph *graph, uint32_t scope)
{
    char buf[GRAPH_NAME_MAX];
    json_t *nodes = json_array(), *edges = json_array();
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        json_array_append_new(nodes, graph_node_json(graph, node));
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s))
            json_array_append_new(edges, json_pack("[I, I]", (json_int_t)node, (json_int_t)s.node));
    }
    json_t *document = json_pack("{s:o, s:o}", "nodes", nodes, "edges", edges);
    if (scope != GRAPH_ROOT)
        json_object_set_new(document, "name", json_string(graph_scope_name(graph, scope, buf)));
    return document;
}

json_t *render_json(const struct graph *graph, const char *title)
{
    return json_pack("{s:s, s:o}", "name", title, "scope", json_of_scope(graph, GRAPH_ROOT));
}
