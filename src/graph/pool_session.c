/* pool_session.c - what the plan asks of the pool: a session per branch, merging at the join, the run's failure. */
#include "graph/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int session_init(struct session *session, const char *id, struct channel *parent, struct tsk_error *err)
{
    session->id = strdup(id);
    if (!session->id) {
        errno = ENOMEM;
        return error_errno(err, "make", "session");
    }
    return parent ? channel_fork(&session->channel, parent, err) : channel_init(&session->channel, err);
}

void session_clear(struct session *session)
{
    free(session->id);
    session->id = NULL;
    channel_clear(&session->channel);
}

static struct session *session_of(const struct tsk_context *context, uint32_t scope)
{
    return context->plan.scopes[scope].session;
}

static void branch_begins(void *engine, uint32_t scope)
{
    struct tsk_context *context = engine;
    struct session *parent = session_of(context, graph_scope(context->graph, scope)->parent);
    struct session *session = malloc(sizeof *session);
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX], *id = NULL;
    int made = asprintf(&id, "%s_%s", parent->id, graph_scope_name(context->graph, scope, buf));
    BUG(!session || made < 0 || session_init(session, id, &parent->channel, &err) < 0);
    free(id);
    context->plan.scopes[scope].session = session;
}

static void branch_ended(void *engine, uint32_t scope, bool has_failed)
{
    struct tsk_context *context = engine;
    char buf[GRAPH_NAME_MAX];
    if (context->options.on_branch)
        context->options.on_branch(context->options.data, session_of(context, scope)->id,
                                   graph_scope_name(context->graph, scope, buf), has_failed);
}

static uint32_t branch_at(const struct graph *graph, uint32_t group, uint32_t number)
{
    uint32_t scope = graph_group(graph, group)->first_branch;
    while (number--)
        scope = graph_scope(graph, scope)->next_branch;
    return scope;
}

struct conflict {
    struct tsk_context *context;
    uint32_t group;
};

static void report_conflict(void *data, const char *key, enum merge_rule rule, uint32_t first, uint32_t second)
{
    const struct conflict *conflict = data;
    const struct tsk_context *context = conflict->context;
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    (void)rule;
    context->options.on_conflict(
        context->options.data, key,
        graph_scope_name(context->graph, branch_at(context->graph, conflict->group, first), a),
        graph_scope_name(context->graph, branch_at(context->graph, conflict->group, second), b));
}

void pool_failure_keep(struct tsk_context *context, const struct tsk_error *err, bool is_better)
{
    pthread_mutex_lock(&context->mutex);
    if (!context->failure || is_better) {
        if (!context->failure)
            context->failure = malloc(sizeof *context->failure);
        BUG(!context->failure);
        *context->failure = *err;
    }
    pthread_mutex_unlock(&context->mutex);
}

static bool group_merges(void *engine, uint32_t index)
{
    struct tsk_context *context = engine;
    const struct graph_group *group = graph_group(context->graph, index);
    struct channel **channels = calloc(group->branch_count, sizeof *channels);
    struct conflict conflict = {context, index};
    struct tsk_error err;
    BUG(!channels);
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count;
         i++, s = graph_scope(context->graph, s)->next_branch)
        channels[i] = atomic_load(&context->plan.scopes[s].failures) ? NULL : &session_of(context, s)->channel;
    struct session *into = session_of(context, graph_node(context->graph, group->node)->scope);
    int result = channel_merge(&into->channel, channels, group->branch_count, context->graph,
                               context->options.on_conflict ? report_conflict : NULL, &conflict, &err);
    free(channels);
    if (result < 0)
        pool_failure_keep(context, &err, false);
    return result == 0;
}

static void group_failed(struct tsk_context *context, uint32_t index)
{
    const struct graph_group *group = graph_group(context->graph, index);
    char names[512] = "", buf[GRAPH_NAME_MAX];
    size_t at = 0;
    struct tsk_error err;
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count;
         i++, s = graph_scope(context->graph, s)->next_branch)
        if (atomic_load(&context->plan.scopes[s].failures) && at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   graph_scope_name(context->graph, s, buf));
    if (!at)
        return; /* the merge failed, and said so */
    error_set(&err, TSK_GROUP_FAILED, "group_failed", "group", graph_name(context->graph, group->node, buf), "branches",
              names, NULL);
    pool_failure_keep(context, &err, true);
}

static void group_ended(void *engine, uint32_t index, enum outcome outcome)
{
    struct tsk_context *context = engine;
    const struct graph_group *group = graph_group(context->graph, index);
    if (outcome == OUTCOME_FAILED)
        group_failed(context, index);
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count;
         i++, s = graph_scope(context->graph, s)->next_branch) {
        session_clear(session_of(context, s));
        free(session_of(context, s));
        context->plan.scopes[s].session = NULL;
    }
}

static void scope_stops(void *engine, uint32_t scope)
{
    pool_retries_stop(engine, scope);
}

const struct plan_hooks pool_hooks = {.branch_begins = branch_begins,
                                      .branch_ended = branch_ended,
                                      .group_merges = group_merges,
                                      .group_ended = group_ended,

                                      .scope_stops = scope_stops};
