/* flow_check.c - what can only be said when the whole file is known; and the small languages inside it. */
#include "base/word.h"
#include "graph/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *flow_nearest_task(const struct flow *flow, const char *name)
{
    const char *near = NULL;
    const char **names CLEANUP_FREE = calloc(flow->tasks.count + 1, sizeof *names);
    for (uint32_t i = 0; names && i < flow->tasks.count; i++)
        names[i] = flow_string(flow, flow_task(flow, i)->name);
    if (names)
        near = nearest_word(name, names, flow->tasks.count);
    return near;
}

/* ---- tasks and needs ------------------------------------------------------------------------------------ */

/* F3: a task that is not in the expression is in the root. */
static void add_the_rest(struct flow *flow)
{
    struct tsk_error err;
    for (uint32_t i = 0; i < flow->tasks.count; i++) {
        struct flow_task *task = flow_task(flow, i);
        if (!task->is_in_expression)
            BUG(flow_add_node(flow, GRAPH_ROOT, i, &err) < 0);
        if (!task->detail)
            continue;
        struct task_detail *detail = graph_detail(&flow->graph, task->node);
        BUG(!detail);
        *detail = *REGION_AT(&flow->details, struct task_detail, task->detail - 1);
    }
}

static void add_need(struct flow *flow, const struct flow_need *need)
{
    struct tsk_error err;
    const char *name = flow_string(flow, need->name);
    uint32_t before = graph_find(&flow->graph, name); /* groups can be waited for, too */
    if (before == NO_NODE) {
        const char *near = flow_nearest_task(flow, name);
        flow_problem(flow, need->line, need->column, near ? "flow_no_task_near" : "flow_no_task", "name", name, "near",
                     near ? near : "", NULL);
        return;
    }
    if (graph_add_edge(&flow->graph, before, flow_task(flow, need->task)->node, &err) < 0)
        flow_problem(flow, need->line, need->column, "graph_edge_siblings", "before", name, "after",
                     flow_string(flow, flow_task(flow, need->task)->name), NULL);
}

static void check_reachable(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->tasks.count; i++) {
        const struct flow_task *task = flow_task(flow, i);
        bool is_alone = !task->is_in_expression && !task->has_needs && !task->never_starts &&
                        !graph_node(&flow->graph, task->node)->successor;
        if (is_alone)
            flow_problem(flow, task->line, task->column, "flow_unreachable", "name", flow_string(flow, task->name),
                         NULL);
    }
}

/* ---- groups --------------------------------------------------------------------------------------------- */

static void no_such_group(struct flow *flow, const struct flow_group *group)
{
    const char *names[64], *name = flow_string(flow, group->name);
    static const char none[] = "";
    size_t count = 0;
    char buf[GRAPH_NAME_MAX];
    for (uint32_t g = 0; g < flow->graph.groups.count && count < 64; g++)
        names[count++] = graph_name(&flow->graph, graph_group(&flow->graph, g)->node, buf);
    const char *near = nearest_word(name, names, count);
    flow_problem(flow, group->line, group->column, near ? "flow_no_group_near" : "flow_no_group", "name", name, "near",
                 near ? near : none, NULL);
}

static void mark_critical(struct flow *flow, const struct flow_group *group, const struct graph_group *in_graph)
{
    const char *wanted = flow_string(flow, group->critical);
    for (uint32_t i = 0; i < group->critical_count; i++, wanted += strlen(wanted) + 1) {
        bool is_found = false;
        uint32_t scope = in_graph->first_branch;
        for (uint32_t b = 0; b < in_graph->branch_count; b++, scope = graph_scope(&flow->graph, scope)->next_branch) {
            char buf[GRAPH_NAME_MAX];
            if (strcmp(graph_scope_name(&flow->graph, scope, buf), wanted) == 0)
                graph_scope(&flow->graph, scope)->is_critical = is_found = true;
        }
        if (!is_found)
            flow_problem(flow, group->critical_line, group->critical_column, "flow_no_branch", "name", wanted, "group",
                         flow_string(flow, group->name), NULL);
    }
}

static void apply_group(struct flow *flow, const struct flow_group *group)
{
    uint32_t node = graph_find(&flow->graph, flow_string(flow, group->name));
    if (node == NO_NODE || !graph_node(&flow->graph, node)->is_group) {
        if (node == NO_NODE || !flow->has_taken_name) /* else it is the group whose name was refused */
            no_such_group(flow, group);
        return;
    }
    struct graph_group *in_graph = graph_group(&flow->graph, graph_node(&flow->graph, node)->detail);
    in_graph->policy = group->policy;
    in_graph->at_least = group->at_least;
    if (group->policy == TSK_POLICY_AT_LEAST && group->at_least > in_graph->branch_count) {
        flow_problem(flow, group->line, group->column, "flow_at_least", "group", flow_string(flow, group->name),
                     "count", DIGITS(in_graph->branch_count), NULL);
    }
    if (group->policy == TSK_POLICY_CRITICAL)
        mark_critical(flow, group, in_graph);
}

/* ---- the graph as a whole ------------------------------------------------------------------------------- */

/* Where its first task stands; groups have no place of their own. */
static void note_cycle(void *data, const char *path)
{
    struct flow *flow = data;
    uint32_t line = 1, column = 1;
    char name[256];
    for (const char *at = path; *at; at += strspn(at, " >")) {
        size_t len = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)(len < 255 ? len : 255), at);
        uint32_t index = flow_find(flow, name);
        if (index != NO_NODE) {
            line = flow_task(flow, index)->line;
            column = flow_task(flow, index)->column;
            break;
        }
        at += len;
    }
    flow_problem(flow, line, column, "graph_cycle", "path", path, NULL);
}

static void flow_seal(struct flow *flow)
{
    struct tsk_error err;
    if (graph_seal(&flow->graph, &err) == 0)
        return;
    /* Otherwise a group is empty, because its tasks could not be added: that was reported. */
    if (graph_cycles(&flow->graph, note_cycle, flow) <= 0 && !flow->problem_count)
        flow_problem(flow, 1, 1, "graph_cycle", "path", "?", NULL);
}

void flow_check(struct flow *flow, bool has_expression)
{
    add_the_rest(flow);
    for (size_t i = 0; i < flow->needs.count; i++)
        add_need(flow, REGION_AT(&flow->needs, struct flow_need, i));
    if (has_expression)
        check_reachable(flow);
    for (size_t i = 0; i < flow->groups.count && (!flow->problem_count || flow->graph.groups.count); i++)
        apply_group(flow, REGION_AT(&flow->groups, struct flow_group, i));
    flow_seal(flow);
    if (!flow->max_steps)
        flow->max_steps = flow->tasks.count < 1000 ? 10000 : flow->tasks.count * 10;
    /* Of no use any more, and long in a large flow. */
    region_clear(&flow->needs);
    region_clear(&flow->slots);
}
