/* plan_dynamic.c - nodes that are added while the plan runs: where they are kept, and how they are found and named. */
#include "graph/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chunk k holds PLAN_CHUNK_FIRST << k nodes: they never move, so that other threads may hold them. */
struct dynamic_node *plan_dynamic(const struct plan *plan, uint32_t node)
{
    uint32_t index = (node & ~PLAN_DYNAMIC) + PLAN_CHUNK_FIRST;
    unsigned chunk = 31u - (unsigned)__builtin_clz(index) - 8u;
    return &plan->chunks[chunk][index - ((uint32_t)PLAN_CHUNK_FIRST << chunk)];
}

/* Who only spawns pays nothing; who asks pays once for each that was spawned. */
static uint32_t find_dynamic(struct plan *plan, const char *name)
{
    pthread_mutex_lock(&plan->mutex);
    if (!plan->names)
        plan->names = json_object();
    BUG(!plan->names);
    for (uint32_t count = atomic_load(&plan->dynamic_count); plan->named < count; plan->named++) {
        uint32_t node = PLAN_DYNAMIC | plan->named;
        int kept = json_object_set_new(plan->names, plan_dynamic(plan, node)->name, json_integer(node));
        BUG(kept < 0);
    }
    uint32_t found = (uint32_t)json_get_int(plan->names, name, NO_NODE);
    pthread_mutex_unlock(&plan->mutex);
    return found;
}

uint32_t plan_find(struct plan *plan, const char *name)
{
    uint32_t found = graph_find(plan->graph, name);
    return found == NO_NODE && atomic_load(&plan->dynamic_count) ? find_dynamic(plan, name) : found;
}

static struct dynamic_node *dynamic_new(struct plan *plan, uint32_t *ret)
{
    uint32_t number = atomic_load(&plan->dynamic_count), index = number + PLAN_CHUNK_FIRST;
    unsigned chunk = 31u - (unsigned)__builtin_clz(index) - 8u;
    if (chunk >= PLAN_CHUNKS)
        return NULL;
    if (!plan->chunks[chunk])
        plan->chunks[chunk] = calloc((size_t)PLAN_CHUNK_FIRST << chunk, sizeof(struct dynamic_node));
    if (!plan->chunks[chunk])
        return NULL;
    *ret = PLAN_DYNAMIC | number;
    return plan_dynamic(plan, *ret);
}

static char *dynamic_name(const struct plan *plan, uint32_t by, const char *name, uint32_t number)
{
    char buf[GRAPH_NAME_MAX], *made = NULL;
    if (name)
        return strdup(name);
    return asprintf(&made, "%s-%u", plan_name(plan, by, buf), number) < 0 ? NULL : made;
}

int plan_spawn(struct plan *plan, uint32_t by, const char *name, tsk_task_function *run, void *arg, uint32_t *ret,
               struct plan_out *out, struct tsk_error *err)
{
    uint32_t node;
    pthread_mutex_lock(&plan->mutex);
    struct dynamic_node *added = dynamic_new(plan, &node);
    char *copy = added ? dynamic_name(plan, by, name, (node & ~PLAN_DYNAMIC) + 1) : NULL;
    if (copy) {
        added->run = run;
        added->arg = arg;
        added->name = copy;
        added->scope = plan_scope_of(plan, by);
        atomic_fetch_add(&plan->scopes[added->scope].live, 1); /* P3 */
        atomic_fetch_add_explicit(&plan->dynamic_count, 1, memory_order_release);
    }
    pthread_mutex_unlock(&plan->mutex);
    if (!copy)
        return error_no_memory(err, "plan", "graph");
    plan_out_add(out, node);
    *ret = node;
    return 0;
}

uint32_t plan_definition(const struct plan *plan, uint32_t node)
{
    return node & PLAN_DYNAMIC ? plan_dynamic(plan, node)->like - 1 : node; /* 0 - 1 is NO_NODE */
}

bool plan_is_lent(const struct plan *plan, uint32_t by, uint32_t target)
{
    if ((target & PLAN_DYNAMIC) || plan_scope_of(plan, by) == GRAPH_ROOT)
        return false;
    const struct graph_node *node = graph_node(plan->graph, target);
    return node->scope == GRAPH_ROOT && !node->is_group && !node->successor && graph_indegree(plan->graph, target) == 0;
}

uint32_t plan_copy_find(const struct plan *plan, uint32_t by, uint32_t target)
{
    uint32_t scope = plan_scope_of(plan, by);
    for (uint32_t i = atomic_load(&plan->dynamic_count); i-- > 0;) {
        const struct dynamic_node *node = plan_dynamic(plan, PLAN_DYNAMIC | i);
        if (node->scope == scope && node->like == target + 1)
            return PLAN_DYNAMIC | i;
    }
    return NO_NODE;
}

int plan_copy_spawn(struct plan *plan, uint32_t by, uint32_t target, struct plan_out *out, struct tsk_error *err)
{
    uint32_t node;
    char buf[GRAPH_NAME_MAX];
    if (plan_spawn(plan, by, graph_name(plan->graph, target, buf), NULL, NULL, &node, out, err) < 0)
        return -1;
    plan_dynamic(plan, node)->like = target + 1;
    atomic_fetch_or(&plan_dynamic(plan, node)->state, STATE_ASKED);
    return 0;
}
