/* render.c - the pictures that other programs draw: Mermaid and dot. */
#include "graph/render.h"

void render_policy(const struct graph_group *group, struct buf *out)
{
    buf_puts(out, policy_names[group->policy]);
    if (group->policy == TSK_POLICY_AT_LEAST)
        buf_printf(out, " %u", group->at_least);
}

/* For Mermaid and dot: edges enter a group at its fork and leave it at its join. */
static void put_id(struct buf *out, const struct graph *graph, uint32_t node, bool is_entry)
{
    if (graph_node(graph, node)->is_group)
        buf_printf(out, "%s%u", is_entry ? "f" : "j", node);
    else
        buf_printf(out, "n%u", node);
}

/* How an edge is written. */
struct edge_style {
    const char *arrow, *end;
};
static const struct edge_style mermaid = {" --> ", "\n"}, dot = {" -> ", ";\n"};

static void put_edges(const struct graph *graph, uint32_t node, int pad, const struct edge_style *style,
                      struct buf *out)
{
    for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
        buf_printf(out, "%*s", pad, "");
        put_id(out, graph, node, false);
        buf_puts(out, style->arrow);
        put_id(out, graph, s.node, true);
        buf_puts(out, style->end);
    }
}

/* From the fork of a group to the first nodes of a branch, and from its last nodes to the join. */
static void put_fork_and_join(const struct graph *graph, uint32_t group, uint32_t scope, int pad,
                              const struct edge_style *style, struct buf *out)
{
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t inner = graph_scope_node(graph, scope, i);
        if (graph_indegree(graph, inner) == 0) {
            buf_printf(out, "%*s  f%u%s", pad, "", group, style->arrow);
            put_id(out, graph, inner, true);
            buf_puts(out, style->end);
        }
        if (!graph_node(graph, inner)->successor) {
            buf_printf(out, "%*s  ", pad, "");
            put_id(out, graph, inner, false);
            buf_printf(out, "%sj%u%s", style->arrow, group, style->end);
        }
    }
}

static void mermaid_scope(const struct graph *graph, uint32_t scope, unsigned depth, struct buf *out);

static void mermaid_group(const struct graph *graph, uint32_t node, unsigned depth, struct buf *out)
{
    const struct graph_group *group = graph_group(graph, graph_node(graph, node)->detail);
    char buf[GRAPH_NAME_MAX];
    int pad = (int)depth * 2;
    buf_printf(out, "%*ssubgraph g%u[\"%s (", pad, "", node, graph_name(graph, node, buf));
    render_policy(group, out);
    buf_printf(out, ")\"]\n%*s  f%u{{fork}}\n%*s  j%u{{join}}\n", pad, "", node, pad, "", node);
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch) {
        mermaid_scope(graph, s, depth + 1, out);
        put_fork_and_join(graph, node, s, pad, &mermaid, out);
    }
    buf_printf(out, "%*send\n", pad, "");
}

static void mermaid_scope(const struct graph *graph, uint32_t scope, unsigned depth, struct buf *out)
{
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        char buf[GRAPH_NAME_MAX];
        if (graph_node(graph, node)->is_group)
            mermaid_group(graph, node, depth, out);
        else
            buf_printf(out, "%*sn%u[\"%s\"]\n", (int)depth * 2, "", node, graph_name(graph, node, buf));
    }
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        put_edges(graph, node, (int)depth * 2, &mermaid, out);
    }
}

void render_mermaid(const struct graph *graph, const char *title, struct buf *out)
{
    buf_printf(out, "---\ntitle: %s\n---\nflowchart LR\n", title);
    mermaid_scope(graph, GRAPH_ROOT, 1, out);
}

static void dot_scope(const struct graph *graph, uint32_t scope, unsigned depth, struct buf *out);

static void dot_group(const struct graph *graph, uint32_t node, unsigned depth, struct buf *out)
{
    const struct graph_group *group = graph_group(graph, graph_node(graph, node)->detail);
    char buf[GRAPH_NAME_MAX];
    int pad = (int)depth * 2;
    buf_printf(out, "%*ssubgraph cluster_%u {\n%*s  label=\"%s (", pad, "", node, pad, "",
               graph_name(graph, node, buf));
    render_policy(group, out);
    buf_printf(out,
               ")\"; style=rounded;\n%*s  f%u [label=fork, shape=diamond];\n%*s  j%u [label=join, shape=diamond];\n",
               pad, "", node, pad, "", node);
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch) {
        dot_scope(graph, s, depth + 1, out);
        put_fork_and_join(graph, node, s, pad, &dot, out);
    }
    buf_printf(out, "%*s}\n", pad, "");
}

static void dot_scope(const struct graph *graph, uint32_t scope, unsigned depth, struct buf *out)
{
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        char buf[GRAPH_NAME_MAX];
        if (graph_node(graph, node)->is_group)
            dot_group(graph, node, depth, out);
        else
            buf_printf(out, "%*sn%u [label=\"%s\"];\n", (int)depth * 2, "", node, graph_name(graph, node, buf));
        put_edges(graph, node, (int)depth * 2, &dot, out);
    }
}

void render_dot(const struct graph *graph, const char *title, struct buf *out)
{
    buf_printf(out, "digraph \"%s\" {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=sans];\n", title);
    dot_scope(graph, GRAPH_ROOT, 1, out);
    buf_puts(out, "}\n");
}
