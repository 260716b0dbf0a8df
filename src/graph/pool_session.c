/* pool_session.c - what the plan asks of the pool: a session per branch, merging at the join, the run's failure. */
#include "graph/pool.h"

#include <stdlib.h>

static void branch_begins(void *engine, uint32_t scope)
{
    struct tsk_context *context = engine;
    session_fork(&context->plan, scope);
}

static void pool_branch_ended(void *engine, uint32_t scope, bool has_failed)
{
    struct tsk_context *context = engine;
    char buf[GRAPH_NAME_MAX];
    if (context->options.on_branch)
        context->options.on_branch(context->options.data, session_of(&context->plan, scope)->id,
                                   graph_scope_name(context->graph, scope, buf), has_failed);
}

struct conflict {
    struct tsk_context *context;
    uint32_t group;
};

static void report_conflict(void *data, const char *key, enum tsk_merge rule, uint32_t first, uint32_t second)
{
    const struct conflict *conflict = data;
    const struct tsk_context *context = conflict->context;
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    (void)rule;
    context->options.on_conflict(
        context->options.data, key,
        graph_scope_name(context->graph, session_branch(context->graph, conflict->group, first), a),
        graph_scope_name(context->graph, session_branch(context->graph, conflict->group, second), b));
}

void pool_failure_keep(struct tsk_context *context, const struct tsk_error *err, bool is_better)
{
    pthread_mutex_lock(&context->mutex);
    bool is_final = context->failure &&
                    (context->failure->code == TSK_RUN_FAILED || context->failure->code == TSK_MAX_STEPS_EXCEEDED);
    if (!context->failure || (is_better && !is_final)) {
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
    struct conflict conflict = {context, index};
    struct tsk_error err;
    if (session_join(&context->plan, index, context->options.on_conflict ? report_conflict : NULL, &conflict, &err) ==
        0)
        return true;
    pool_failure_keep(context, &err, true);
    atomic_store(&context->unmerged, index + 1);
    return false;
}

static bool has_failed_branch(const struct plan *plan, uint32_t index)
{
    uint32_t scope = graph_group(plan->graph, index)->first_branch;
    for (uint32_t i = 0; i < graph_group(plan->graph, index)->branch_count;
         i++, scope = graph_scope(plan->graph, scope)->next_branch)
        if (atomic_load(&plan->scopes[scope].failures))
            return true;
    return false;
}

static void pool_group_ended(void *engine, uint32_t index, enum outcome outcome)
{
    struct tsk_context *context = engine;
    struct tsk_error err;
    /* Without a failed branch it was the merge that failed, of this group or of one in it, and that was said. */
    if (outcome == OUTCOME_FAILED && has_failed_branch(&context->plan, index) &&
        !session_group_contains(context->graph, index, atomic_load(&context->unmerged))) {
        session_group_failed(&context->plan, index, &err);
        pool_failure_keep(context, &err, true);
    }
    session_end(&context->plan, index);
}

static void scope_stops(void *engine, uint32_t scope)
{
    pool_retries_stop(engine, scope);
}

const struct plan_hooks pool_hooks = {.branch_begins = branch_begins,
                                      .branch_ended = pool_branch_ended,
                                      .group_merges = group_merges,
                                      .group_ended = pool_group_ended,
                                      .scope_stops = scope_stops};
