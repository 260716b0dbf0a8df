#include "graph/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int session_init(struct session *session, const char *id, struct channel *parent, bool is_shared, struct tsk_error *err)
{
    session->id = strdup(id);
    if (!session->id)
        return error_no_memory(err, "make", "session");
    return parent ? channel_fork(&session->channel, parent, err) : channel_init(&session->channel, is_shared, err);
}

void session_clear(struct session *session)
{
    free(session->id);
    session->id = NULL;
    channel_clear(&session->channel);
}

void session_fork(struct plan *plan, uint32_t scope)
{
    struct session *parent = session_of(plan, graph_scope(plan->graph, scope)->parent);
    struct session *session = malloc(sizeof *session);
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX], *id = NULL;
    int made = asprintf(&id, "%s_%s", parent->id, graph_scope_name(plan->graph, scope, buf));
    BUG(!session || made < 0 || session_init(session, id, &parent->channel, false, &err) < 0);
    free(id);
    plan->scopes[scope].session = session;
}

uint32_t session_branch(const struct graph *graph, uint32_t group, uint32_t number)
{
    uint32_t scope = graph_group(graph, group)->first_branch;
    while (number--)
        scope = graph_scope(graph, scope)->next_branch;
    return scope;
}

/* The channel knows the branches by their numbers only. */
static void name_branches(const struct graph *graph, uint32_t group, struct tsk_error *err)
{
    const char *first = tsk_error_context(err, "first"), *second = tsk_error_context(err, "second");
    struct tsk_error old = *err;
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    if (!first || !second)
        return;
    uint32_t one = session_branch(graph, group, (uint32_t)strtoul(first, NULL, 10) - 1);
    uint32_t other = session_branch(graph, group, (uint32_t)strtoul(second, NULL, 10) - 1);
    error_set(err, old.code, old.text, "key", tsk_error_context(&old, "key"), "first", graph_scope_name(graph, one, a),
              "second", graph_scope_name(graph, other, b), NULL);
}

int session_join(struct plan *plan, uint32_t group, conflict_report *report, void *data, struct tsk_error *err)
{
    const struct graph_group *g = graph_group(plan->graph, group);
    struct channel **channels = calloc(g->branch_count, sizeof *channels);
    uint32_t scope = g->first_branch;
    BUG(!channels);
    for (uint32_t i = 0; i < g->branch_count; i++, scope = graph_scope(plan->graph, scope)->next_branch)
        channels[i] = atomic_load(&plan->scopes[scope].failures) ? NULL : &session_of(plan, scope)->channel;
    struct session *into = session_of(plan, graph_node(plan->graph, g->node)->scope);
    int result = channel_merge(&into->channel, channels, g->branch_count, plan->graph, report, data, err);
    free(channels);
    if (result < 0)
        name_branches(plan->graph, group, err);
    return result;
}

void session_end(struct plan *plan, uint32_t group)
{
    const struct graph_group *g = graph_group(plan->graph, group);
    uint32_t scope = g->first_branch;
    for (uint32_t i = 0; i < g->branch_count; i++, scope = graph_scope(plan->graph, scope)->next_branch) {
        session_clear(session_of(plan, scope));
        free(session_of(plan, scope));
        plan->scopes[scope].session = NULL;
    }
}

bool session_group_contains(const struct graph *graph, uint32_t group, uint32_t other)
{
    const struct graph_group *g = graph_group(graph, group);
    uint32_t branch = g->first_branch, scope;
    if (!other)
        return false;
    scope = graph_node(graph, graph_group(graph, other - 1)->node)->scope;
    for (uint32_t i = 0; i < g->branch_count; i++, branch = graph_scope(graph, branch)->next_branch)
        if (graph_scope_contains(graph, branch, scope))
            return true;
    return false;
}

/* The branches that fail_fast has stopped did not fail. */
int session_group_failed(const struct plan *plan, uint32_t group, struct tsk_error *err)
{
    const struct graph_group *g = graph_group(plan->graph, group);
    char names[512] = "", buf[GRAPH_NAME_MAX];
    size_t at = 0;
    uint32_t scope = g->first_branch;
    for (uint32_t i = 0; i < g->branch_count; i++, scope = graph_scope(plan->graph, scope)->next_branch)
        if (atomic_load(&plan->scopes[scope].has_failed) && at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   graph_scope_name(plan->graph, scope, buf));
    return error_set(err, TSK_GROUP_FAILED, "group_failed", "group", graph_name(plan->graph, g->node, buf), "branches",
                     names, NULL);
}
