/* memory_hooks.c - what the plan tells the memory of a run, and what follows from it. */
#include "graph/memory_parts.h"

#include <stdlib.h>

const char *memory_session_id(const struct memory *m, uint32_t scope)
{
    return session_of(&m->plan, scope)->id;
}

void memory_failure_keep(struct memory *m, const struct tsk_error *err, bool is_better)
{
    if (m->failure && !is_better)
        return;
    if (!m->failure)
        m->failure = malloc(sizeof *m->failure);
    BUG(!m->failure);
    *m->failure = *err;
}

static void memory_branch_begins(void *engine, uint32_t scope)
{
    session_fork(&((struct memory *)engine)->plan, scope);
}

static void memory_branch_ended(void *engine, uint32_t scope, bool has_failed)
{
    struct memory *m = engine;
    char buf[GRAPH_NAME_MAX];
    if (m->watcher.branch_ended)
        m->watcher.branch_ended(m->watcher.data, memory_session_id(m, scope),
                                graph_scope_name(m->plan.graph, scope, buf), has_failed);
}

struct conflict {
    struct memory *m;
    uint32_t group;
};

static void memory_report_conflict(void *data, const char *key, enum tsk_merge rule, uint32_t first, uint32_t second)
{
    const struct conflict *conflict = data;
    struct memory *m = conflict->m;
    const struct graph *graph = m->plan.graph;
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    uint32_t scope = graph_node(graph, graph_group(graph, conflict->group)->node)->scope;
    if (m->watcher.conflict)
        m->watcher.conflict(m->watcher.data, memory_session_id(m, scope), key, merge_rule_names[rule],
                            graph_scope_name(graph, session_branch(graph, conflict->group, first), a),
                            graph_scope_name(graph, session_branch(graph, conflict->group, second), b));
}

static bool memory_group_merges(void *engine, uint32_t group)
{
    struct memory *m = engine;
    struct conflict conflict = {m, group};
    struct tsk_error err;
    if (session_join(&m->plan, group, memory_report_conflict, &conflict, &err) == 0)
        return true;
    memory_failure_keep(m, &err, true);
    m->unmerged = group + 1;
    return false;
}

static void say_sessions_end(struct memory *m, uint32_t group)
{
    const struct graph *graph = m->plan.graph;
    uint32_t scope = graph_group(graph, group)->first_branch;
    for (uint32_t i = 0; i < graph_group(graph, group)->branch_count;
         i++, scope = graph_scope(graph, scope)->next_branch)
        m->watcher.session_ends(m->watcher.data, scope, memory_session_id(m, scope));
}

static void memory_group_ended(void *engine, uint32_t group, enum outcome outcome)
{
    struct memory *m = engine;
    const struct graph *graph = m->plan.graph;
    uint32_t node = graph_group(graph, group)->node;
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    if (outcome == OUTCOME_FAILED && !m->is_stopped) {
        session_group_failed(&m->plan, group, &err);
        /* What could not be merged, here or in a group within, says more than the branches that failed by it. */
        if (*tsk_error_context(&err, "branches") && !session_group_contains(graph, group, m->unmerged))
            memory_failure_keep(m, &err, true);
    }
    if (m->watcher.group_ended)
        m->watcher.group_ended(m->watcher.data, memory_session_id(m, graph_node(graph, node)->scope),
                               graph_name(graph, node, buf), outcome);
    if (m->watcher.session_ends)
        say_sessions_end(m, group);
    session_end(&m->plan, group);
}

static void memory_scope_stops(void *engine, uint32_t scope)
{
    struct memory *m = engine;
    m->has_stops = true; /* the plan must not be called from here: purge comes later */
    if (session_of(&m->plan, scope) && m->watcher.session_stops)
        m->watcher.session_stops(m->watcher.data, memory_session_id(m, scope));
}

const struct plan_hooks memory_hooks = {.branch_begins = memory_branch_begins,
                                        .branch_ended = memory_branch_ended,
                                        .group_merges = memory_group_merges,
                                        .group_ended = memory_group_ended,
                                        .scope_stops = memory_scope_stops};

void memory_task_dropped(struct memory *m, uint32_t node, enum outcome outcome)
{
    char buf[GRAPH_NAME_MAX];
    bool is_task = (node & PLAN_DYNAMIC) || !graph_node(m->plan.graph, node)->is_group;
    if (is_task && m->watcher.task_dropped)
        m->watcher.task_dropped(m->watcher.data, memory_session_id(m, plan_scope_of(&m->plan, node)),
                                plan_name(&m->plan, node, buf), node, outcome);
}

/* What became ready: groups are forked and nodes that do not run are ended at once, tasks are queued. */
static void queue_ready(struct memory *m)
{
    for (size_t i = 0; i < m->out.count; i++) {
        uint32_t node = m->out.ready[i];
        enum outcome outcome;
        switch (plan_decide(&m->plan, node, &outcome)) {
        case DECIDE_RUN:
            memory_slot_ready(m, memory_slot_new(m, node));
            break;
        case DECIDE_FORK:
            plan_fork(&m->plan, node, &m->out);
            break;
        case DECIDE_END:
            memory_task_dropped(m, node, outcome);
            plan_end(&m->plan, node, outcome, &m->out);
            break;
        }
    }
    m->out.count = 0;
}

/* What waits in a session that was stopped ends without having run. */
static void queue_purge(struct memory *m)
{
    m->has_stops = false;
    for (uint32_t i = 0; i < m->slots.count; i++) {
        struct slot *slot = slot_at(m, i);
        bool waits = slot->state == SLOT_READY || slot->state == SLOT_LATER || slot->state == SLOT_PARKED;
        if (!waits || !plan_is_stopped(&m->plan, plan_scope_of(&m->plan, slot->node)))
            continue;
        if (slot->state == SLOT_READY)
            memory_queue_remove(m, i);
        else if (slot->state == SLOT_LATER)
            m->later--;
        else
            m->parked--;
        uint32_t node = slot->node;
        memory_slot_free(m, i);
        memory_task_dropped(m, node, OUTCOME_STOPPED);
        plan_end(&m->plan, node, OUTCOME_STOPPED, &m->out);
    }
}

void memory_settle(struct memory *m)
{
    do {
        queue_ready(m);
        if (m->has_stops)
            queue_purge(m);
    } while (m->out.count);
    if (plan_flush(&m->plan, &m->out))
        m->has_ended = true;
}
