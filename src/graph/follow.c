#include "graph/follow.h"
#include "graph/plan.h"

#include <stdlib.h>

static void mark_inside(const struct graph *graph, uint32_t group, uint8_t *marks)
{
    for (uint32_t n = 0; n < graph->nodes.count; n++)
        for (uint32_t scope = graph_node(graph, n)->scope; scope != GRAPH_ROOT;
             scope = graph_scope(graph, scope)->parent)
            if (graph_scope(graph, scope)->group == graph_node(graph, group)->detail)
                marks[n] = 1;
}

void graph_follow(const struct graph *graph, uint32_t first, uint8_t *marks)
{
    struct plan_out todo = {0};
    plan_out_add(&todo, first);
    while (todo.count) {
        uint32_t node = todo.ready[--todo.count];
        if (marks[node])
            continue;
        marks[node] = 1;
        if (graph_node(graph, node)->is_group)
            mark_inside(graph, node, marks);
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s))
            plan_out_add(&todo, s.node);
    }
    plan_out_clear(&todo);
}

void graph_follow_out(const struct graph *graph, uint32_t first, uint8_t *marks)
{
    graph_follow(graph, first, marks);
    for (uint32_t scope = graph_node(graph, first)->scope; scope != GRAPH_ROOT;
         scope = graph_scope(graph, scope)->parent) {
        uint32_t around = graph_group(graph, graph_scope(graph, scope)->group)->node;
        for (struct successor s = graph_first(graph, around); s.node != NO_NODE; graph_next(graph, &s))
            graph_follow(graph, s.node, marks);
    }
}

/* The edges of a graph in the other direction: a list per node. */
struct backwards {
    uint32_t *first; /* per node: 1 + the index of an edge; 0: none */
    uint32_t *next, *before;
};

static void backwards_make(const struct graph *graph, struct backwards *b)
{
    uint32_t count = 0;
    b->first = calloc(graph->nodes.count + 1, sizeof *b->first);
    b->next = calloc(graph->edge_count + 1, sizeof *b->next);
    b->before = calloc(graph->edge_count + 1, sizeof *b->before);
    BUG(!b->first || !b->next || !b->before);
    for (uint32_t n = 0; n < graph->nodes.count; n++)
        for (struct successor s = graph_first(graph, n); s.node != NO_NODE; graph_next(graph, &s)) {
            BUG(count > graph->edge_count);
            b->before[count] = n;
            b->next[count] = b->first[s.node];
            b->first[s.node] = ++count;
        }
}

static void add_before(const struct backwards *b, uint32_t node, struct plan_out *todo)
{
    for (uint32_t at = b->first[node]; at; at = b->next[at - 1])
        plan_out_add(todo, b->before[at - 1]);
}

void graph_need(const struct graph *graph, const uint32_t *last, size_t count, uint8_t *marks)
{
    struct plan_out todo = {0};
    struct backwards backwards;
    backwards_make(graph, &backwards);
    for (size_t i = 0; i < count; i++)
        plan_out_add(&todo, last[i]);
    while (todo.count) {
        uint32_t node = todo.ready[--todo.count];
        bool is_group = graph_node(graph, node)->is_group;
        if (marks[node] && !is_group)
            continue;
        if (is_group && marks[node] == 2)
            continue;
        marks[node] = is_group ? 2 : 1;
        if (is_group)
            mark_inside(graph, node, marks);
        add_before(&backwards, node, &todo);
        for (uint32_t scope = graph_node(graph, node)->scope; scope != GRAPH_ROOT;
             scope = graph_scope(graph, scope)->parent)
            add_before(&backwards, graph_group(graph, graph_scope(graph, scope)->group)->node, &todo);
    }
    plan_out_clear(&todo);
    free(backwards.first);
    free(backwards.next);
    free(backwards.before);
}
