#include "graph/follow.h"
#include "graph/plan.h"

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
