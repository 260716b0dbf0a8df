/* render.c - the pictures that are text. ASCII: one line per node in an order in which they could run,
 *
 *     fetch
 *     +-- checks (strict) -- fork
 *     |   |-- lint
 *     |   `-- test > report
 *     `-- checks -- join
 *     store           <- checks
 *
 * what a node waits for behind an arrow, unless it is the line above. */
#include "graph/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policy_names[POLICY_COUNT] = {[POLICY_STRICT] = "strict",
                                                       [POLICY_FAIL_FAST] = "fail_fast",
                                                       [POLICY_BEST_EFFORT] = "best_effort",
                                                       [POLICY_AT_LEAST] = "at_least",
                                                       [POLICY_CRITICAL] = "critical"};

static void put_policy(const struct graph_group *group, struct buf *out)
{
    buf_puts(out, policy_names[group->policy]);
    if (group->policy == POLICY_AT_LEAST)
        buf_printf(out, " %u", group->at_least);
}

/* ---- order ---------------------------------------------------------------------------------------------- */

/* The nodes of a scope, predecessors first, otherwise as they were added. Owned by the caller. */
static uint32_t *scope_order(const struct graph *graph, uint32_t scope, uint32_t *left)
{
    uint32_t count = graph_scope(graph, scope)->node_count, done = 0;
    uint32_t *order = calloc(count + 1, sizeof *order);
    BUG(!order);
    for (uint32_t i = 0; i < count; i++)
        left[graph_scope_node(graph, scope, i)] = graph_indegree(graph, graph_scope_node(graph, scope, i));
    /* Depth first from each head, so that a chain stays together. */
    uint32_t *stack = malloc((count + 1) * sizeof *stack), depth = 0;
    BUG(!stack);
    for (uint32_t i = count; i > 0; i--)
        if (!left[graph_scope_node(graph, scope, i - 1)])
            stack[depth++] = graph_scope_node(graph, scope, i - 1);
    while (depth) {
        uint32_t node = stack[--depth], begin = depth;
        order[done++] = node;
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s))
            if (--left[s.node] == 0)
                stack[depth++] = s.node;
        for (uint32_t a = begin, b = depth; a + 1 < b; a++, b--) { /* the first successor on top */
            uint32_t kept = stack[a];
            stack[a] = stack[b - 1];
            stack[b - 1] = kept;
        }
    }
    free(stack);
    return order;
}

/* For every node the nodes before it, as one list per node: heads[node] is an index + 1 into links. */
struct before {
    uint32_t *heads;
    struct {
        uint32_t node, next;
    } * links;
};

static struct before before_make(const struct graph *graph)
{
    struct before before = {.heads = calloc(graph->nodes.count + 1, sizeof *before.heads),
                            .links = calloc((size_t)graph->edge_count + 1, sizeof *before.links)};
    uint32_t used = 0;
    BUG(!before.heads || !before.links);
    for (uint32_t n = (uint32_t)graph->nodes.count; n > 0; n--)
        for (struct successor s = graph_first(graph, n - 1); s.node != NO_NODE; graph_next(graph, &s)) {
            before.links[used].node = n - 1;
            before.links[used].next = before.heads[s.node];
            before.heads[s.node] = ++used;
        }
    return before;
}

static void before_free(struct before *before)
{
    free(before->heads);
    free(before->links);
}

/* ---- ASCII ---------------------------------------------------------------------------------------------- */

struct drawing {
    const struct graph *graph;
    struct before before;
    uint32_t *left; /* room for scope_order */
    struct buf *out;
    char indent[1024];
};

static bool waits_only_for(const struct drawing *d, uint32_t node, uint32_t above)
{
    uint32_t link = d->before.heads[node];
    return link ? d->before.links[link - 1].node == above && !d->before.links[link - 1].next : above == NO_NODE;
}

static void put_waits(struct drawing *d, uint32_t node, uint32_t above)
{
    char buf[GRAPH_NAME_MAX];
    if (waits_only_for(d, node, above))
        return;
    buf_puts(d->out, "  <- ");
    if (!d->before.heads[node])
        buf_puts(d->out, "start");
    unsigned shown = 0;
    for (uint32_t link = d->before.heads[node]; link; link = d->before.links[link - 1].next)
        if (shown++ < 8)
            buf_printf(d->out, "%s%s", shown > 1 ? ", " : "",
                       graph_name(d->graph, d->before.links[link - 1].node, buf));
    if (shown > 8)
        buf_printf(d->out, ", … (%u)", shown);
}

static void draw_scope(struct drawing *d, uint32_t scope);

static void draw_group(struct drawing *d, uint32_t node, uint32_t above)
{
    const struct graph_group *group = graph_group(d->graph, graph_node(d->graph, node)->detail);
    char buf[GRAPH_NAME_MAX];
    const char *name = graph_name(d->graph, node, buf);
    size_t len = strlen(d->indent);
    buf_printf(d->out, "%s+-- fork %s (", d->indent, name);
    put_policy(group, d->out);
    buf_puts(d->out, ")");
    put_waits(d, node, above);
    buf_puts(d->out, "\n");
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(d->graph, s)->next_branch) {
        char branch_buf[GRAPH_NAME_MAX];
        buf_printf(d->out, "%s|-- branch %s%s\n", d->indent, graph_scope_name(d->graph, s, branch_buf),
                   graph_scope(d->graph, s)->is_critical ? " (critical)" : "");
        if (len + 8 < sizeof d->indent)
            snprintf(d->indent + len, sizeof d->indent - len, "|   ");
        draw_scope(d, s);
        d->indent[len] = '\0';
    }
    buf_printf(d->out, "%s+-- join %s\n", d->indent, graph_name(d->graph, node, buf));
}

static void draw_scope(struct drawing *d, uint32_t scope)
{
    uint32_t *order = scope_order(d->graph, scope, d->left), above = NO_NODE;
    for (uint32_t i = 0; i < graph_scope(d->graph, scope)->node_count; i++) {
        char buf[GRAPH_NAME_MAX];
        if (graph_node(d->graph, order[i])->is_group) {
            draw_group(d, order[i], above);
        } else {
            buf_printf(d->out, "%s%s", d->indent, graph_name(d->graph, order[i], buf));
            put_waits(d, order[i], above);
            buf_puts(d->out, "\n");
        }
        above = order[i];
    }
    free(order);
}

void render_ascii(const struct graph *graph, struct buf *out)
{
    struct drawing d = {.graph = graph, .before = before_make(graph), .out = out};
    d.left = calloc(graph->nodes.count + 1, sizeof *d.left);
    BUG(!d.left);
    draw_scope(&d, GRAPH_ROOT);
    free(d.left);
    before_free(&d.before);
}

/* ---- Mermaid and dot ------------------------------------------------------------------------------------ */

/* What both need: in and out of a group are its fork and its join. */
static void put_id(struct buf *out, const struct graph *graph, uint32_t node, bool is_entry)
{
    if (graph_node(graph, node)->is_group)
        buf_printf(out, "%s%u", is_entry ? "f" : "j", node);
    else
        buf_printf(out, "n%u", node);
}

static void mermaid_scope(const struct graph *graph, uint32_t scope, unsigned depth, struct buf *out);

static void mermaid_group(const struct graph *graph, uint32_t node, unsigned depth, struct buf *out)
{
    const struct graph_group *group = graph_group(graph, graph_node(graph, node)->detail);
    char buf[GRAPH_NAME_MAX];
    int pad = (int)depth * 2;
    buf_printf(out, "%*ssubgraph g%u[\"%s (", pad, "", node, graph_name(graph, node, buf));
    put_policy(group, out);
    buf_printf(out, ")\"]\n%*s  f%u{{fork}}\n%*s  j%u{{join}}\n", pad, "", node, pad, "", node);
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch) {
        mermaid_scope(graph, s, depth + 1, out);
        for (uint32_t k = 0; k < graph_scope(graph, s)->node_count; k++) {
            uint32_t inner = graph_scope_node(graph, s, k);
            if (graph_indegree(graph, inner) == 0) {
                buf_printf(out, "%*s  f%u --> ", pad, "", node);
                put_id(out, graph, inner, true);
                buf_puts(out, "\n");
            }
            if (!graph_node(graph, inner)->successor) {
                buf_printf(out, "%*s  ", pad, "");
                put_id(out, graph, inner, false);
                buf_printf(out, " --> j%u\n", node);
            }
        }
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
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
            buf_printf(out, "%*s", (int)depth * 2, "");
            put_id(out, graph, node, false);
            buf_puts(out, " --> ");
            put_id(out, graph, s.node, true);
            buf_puts(out, "\n");
        }
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
    put_policy(group, out);
    buf_printf(out,
               ")\"; style=rounded;\n%*s  f%u [label=fork, shape=diamond];\n%*s  j%u [label=join, shape=diamond];\n",
               pad, "", node, pad, "", node);
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch) {
        dot_scope(graph, s, depth + 1, out);
        for (uint32_t k = 0; k < graph_scope(graph, s)->node_count; k++) {
            uint32_t inner = graph_scope_node(graph, s, k);
            if (graph_indegree(graph, inner) == 0) {
                buf_printf(out, "%*s  f%u -> ", pad, "", node);
                put_id(out, graph, inner, true);
                buf_puts(out, ";\n");
            }
            if (!graph_node(graph, inner)->successor) {
                buf_printf(out, "%*s  ", pad, "");
                put_id(out, graph, inner, false);
                buf_printf(out, " -> j%u;\n", node);
            }
        }
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
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
            buf_printf(out, "%*s", (int)depth * 2, "");
            put_id(out, graph, node, false);
            buf_puts(out, " -> ");
            put_id(out, graph, s.node, true);
            buf_puts(out, ";\n");
        }
    }
}

void render_dot(const struct graph *graph, const char *title, struct buf *out)
{
    buf_printf(out, "digraph \"%s\" {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=sans];\n", title);
    dot_scope(graph, GRAPH_ROOT, 1, out);
    buf_puts(out, "}\n");
}
