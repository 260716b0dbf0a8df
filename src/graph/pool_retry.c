/* pool_retry.c - W5: tasks that wait for their next attempt, in a heap ordered by time. */
#include "base/clock.h"
#include "graph/attempt.h"
#include "graph/pool.h"

#include <stdlib.h>

static void retry_swap(struct retry *a, struct retry *b)
{
    struct retry kept = *a;
    *a = *b;
    *b = kept;
}

static void retry_put(struct tsk_context *context, struct retry retry)
{
    pthread_mutex_lock(&context->mutex);
    LIST_GROW(context->retries, context->retry_count, context->retry_room, 16);
    size_t at = context->retry_count++;
    context->retries[at] = retry;
    for (; at && context->retries[at].at_ms < context->retries[(at - 1) / 2].at_ms; at = (at - 1) / 2)
        retry_swap(&context->retries[at], &context->retries[(at - 1) / 2]);
    atomic_store(&context->next_retry_ms, context->retries[0].at_ms);
    pthread_mutex_unlock(&context->mutex);
    pool_wake_one(context); /* somebody sleeps without knowing of it */
}

static void retry_sift(struct tsk_context *context, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < context->retry_count; child++)
            if (context->retries[child].at_ms < context->retries[least].at_ms)
                least = child;
        if (least == at)
            return;
        retry_swap(&context->retries[at], &context->retries[least]);
        at = least;
    }
}

static void retries_order(struct tsk_context *context)
{
    for (size_t at = context->retry_count / 2; at > 0; at--)
        retry_sift(context, at - 1);
}

/* Functions look at it themselves (tsk_call_is_stopped); what waits for a retry is due at once, to be ended. */
void pool_retries_stop(struct tsk_context *context, uint32_t scope)
{
    bool has_any = false;
    pthread_mutex_lock(&context->mutex);
    for (size_t i = 0; i < context->retry_count; i++)
        if (plan_scope_of(&context->plan, context->retries[i].node) == scope) {
            context->retries[i].at_ms = 0;
            has_any = true;
        }
    if (has_any) {
        retries_order(context);
        atomic_store(&context->next_retry_ms, context->retries[0].at_ms);
    }
    pthread_mutex_unlock(&context->mutex);
    if (has_any)
        pool_wake_one(context);
}

/* One that is due. */
bool pool_retry_take(struct tsk_context *context, struct retry *ret)
{
    bool is_due = false;
    if (atomic_load_explicit(&context->next_retry_ms, memory_order_relaxed) == INT64_MAX)
        return false;
    pthread_mutex_lock(&context->mutex);
    if (context->retry_count && context->retries[0].at_ms <= clock_now().boot_ms) {
        is_due = true;
        *ret = context->retries[0];
        context->retries[0] = context->retries[--context->retry_count];
        retry_sift(context, 0);
        atomic_store(&context->next_retry_ms, context->retry_count ? context->retries[0].at_ms : INT64_MAX);
    }
    pthread_mutex_unlock(&context->mutex);
    return is_due;
}

static const struct task_detail *node_detail(const struct tsk_context *context, uint32_t node)
{
    uint32_t detail = node & PLAN_DYNAMIC ? 0 : graph_node(context->graph, node)->detail;
    return detail ? REGION_AT(&context->graph->details, struct task_detail, detail - 1) : NULL;
}

bool pool_retry_later(struct tsk_context *context, uint32_t node, unsigned attempt)
{
    const struct task_detail *detail = node_detail(context, node);
    if (!detail || detail->retries < 0)
        detail = &context->retry_default;
    if (attempt > (unsigned)detail->retries || plan_is_stopped(&context->plan, plan_scope_of(&context->plan, node)))
        return false;
    char buf[GRAPH_NAME_MAX];
    const struct session *session = context->plan.scopes[plan_scope_of(&context->plan, node)].session;
    int64_t ms = attempt_pause(detail, session->id, plan_name(&context->plan, node, buf), attempt);
    retry_put(context, (struct retry){.at_ms = clock_now().boot_ms + ms, .node = node, .attempt = attempt + 1});
    if (plan_is_stopped(&context->plan, plan_scope_of(&context->plan, node))) /* meanwhile: nobody else will see it */
        pool_retries_stop(context, plan_scope_of(&context->plan, node));
    return true;
}
