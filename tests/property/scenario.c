#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t scenario_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(uint64_t *random, unsigned limit)
{
    return (unsigned)(scenario_random(random) % limit);
}

/* ---- making --------------------------------------------------------------------------------------------- */

static void make_task(struct scenario_node *node, uint64_t *random)
{
    struct behaviour *task = &node->task;
    task->retries = below(random, 3);
    task->fails = below(random, 6) == 0 ? below(random, 4) : 0;
    task->again = below(random, 10) == 0 ? 1 + below(random, 3) : 0;
    task->children = below(random, 8) == 0 ? 1 + below(random, CHILDREN_MAX - 1) : 0;
    task->bad_children = task->children && below(random, 6) == 0 ? 1 : 0;
}

static void make_scope(struct scenario *s, uint32_t scope, unsigned depth, uint64_t *random);

static void make_group(struct scenario *s, uint32_t index, unsigned depth, uint64_t *random)
{
    struct scenario_node *node = &s->nodes[index];
    node->is_group = true;
    node->policy = (enum tsk_policy)below(random, POLICY_COUNT);
    node->branch_count = 1 + below(random, 4);
    for (uint32_t i = 0; i < node->branch_count; i++) {
        uint32_t scope = s->scope_count++;
        node->branches[i] = scope;
        s->scopes[scope] = (struct scenario_scope){.group = index, .is_critical = below(random, 2)};
        make_scope(s, scope, depth + 1, random);
    }
    node->at_least = 1 + below(random, node->branch_count);
}

static void make_scope(struct scenario *s, uint32_t scope, unsigned depth, uint64_t *random)
{
    uint32_t own[8], count = 1 + below(random, scope ? 3 : 7), made = 0;
    for (uint32_t i = 0; i < count && (i == 0 || s->node_count < NODES_MAX - 24); i++) {
        uint32_t index = s->node_count++;
        struct scenario_node *node = &s->nodes[index];
        *node = (struct scenario_node){.scope = scope};
        for (uint32_t k = 0; k < made; k++)
            if (below(random, 3) == 0)
                node->preds[node->pred_count++] = own[k];
        own[made++] = index;
        bool has_room = s->scope_count + 5 < SCOPES_MAX && s->node_count + 28 < NODES_MAX;
        if (depth < 3 && has_room && below(random, 3) == 0)
            make_group(s, index, depth, random);
        else
            make_task(node, random);
        node->task.writes_group_keys = scope && made == 1 && !node->is_group;
    }
}

void scenario_make(struct scenario *s, uint64_t seed)
{
    uint64_t random = seed * 2 + 1;
    *s = (struct scenario){.seed = seed, .scope_count = 1};
    s->scopes[0].group = NO_NODE;
    make_scope(s, 0, 0, &random);
}

/* ---- expecting ------------------------------------------------------------------------------------------ */

static void expect_scope(struct scenario *s, uint32_t scope);

static void expect_task(struct scenario_scope *scope, struct scenario_node *node)
{
    const struct behaviour *task = &node->task;
    bool is_good = task->fails <= task->retries;
    node->outcome = is_good ? OUTCOME_OK : OUTCOME_FAILED;
    node->attempts = is_good ? task->fails + 1 + task->again : task->retries + 1;
    if (!is_good) {
        scope->has_failed = true;
        return;
    }
    node->good_children = task->children - task->bad_children;
    node->failed_children = task->bad_children;
    scope->has_failed = scope->has_failed || task->bad_children;
    scope->sum += 1 + task->again + node->good_children;
}

static bool group_passes(const struct scenario *s, const struct scenario_node *group)
{
    unsigned failed = 0;
    bool critical_failed = false;
    for (uint32_t i = 0; i < group->branch_count; i++) {
        const struct scenario_scope *branch = &s->scopes[group->branches[i]];
        failed += branch->has_failed;
        critical_failed = critical_failed || (branch->has_failed && branch->is_critical);
    }
    switch (group->policy) {
    case TSK_POLICY_BEST_EFFORT:
        return true;
    case TSK_POLICY_AT_LEAST:
        return group->branch_count - failed >= group->at_least;
    case TSK_POLICY_CRITICAL:
        return !critical_failed;
    default:
        return failed == 0;
    }
}

static void mark_maybe(struct scenario *s, uint32_t scope)
{
    for (uint32_t n = 0; n < s->node_count; n++)
        if (s->nodes[n].scope == scope) {
            s->nodes[n].is_maybe = true;
            for (uint32_t i = 0; s->nodes[n].is_group && i < s->nodes[n].branch_count; i++)
                mark_maybe(s, s->nodes[n].branches[i]);
        }
}

static void expect_group(struct scenario *s, uint32_t index)
{
    struct scenario_node *group = &s->nodes[index];
    struct scenario_scope *scope = &s->scopes[group->scope];
    for (uint32_t i = 0; i < group->branch_count; i++)
        expect_scope(s, group->branches[i]);
    bool passes = group_passes(s, group);
    group->outcome = passes ? OUTCOME_OK : OUTCOME_FAILED;
    scope->has_failed = scope->has_failed || !passes;
    for (uint32_t i = 0; i < group->branch_count; i++) {
        if (passes && !s->scopes[group->branches[i]].has_failed)
            scope->sum += s->scopes[group->branches[i]].sum;
        if (!passes && group->policy == TSK_POLICY_FAIL_FAST)
            mark_maybe(s, group->branches[i]);
    }
}

/* Nodes of a scope come after their predecessors in the array. */
static void expect_scope(struct scenario *s, uint32_t scope)
{
    for (uint32_t n = 0; n < s->node_count; n++) {
        struct scenario_node *node = &s->nodes[n];
        if (node->scope != scope)
            continue;
        bool is_blocked = false;
        for (uint32_t i = 0; i < node->pred_count; i++)
            is_blocked = is_blocked || s->nodes[node->preds[i]].outcome != OUTCOME_OK;
        if (is_blocked)
            node->outcome = OUTCOME_BLOCKED;
        else if (node->is_group)
            expect_group(s, n);
        else
            expect_task(&s->scopes[scope], node);
    }
}

void scenario_expect(struct scenario *s)
{
    for (uint32_t n = 0; n < s->node_count; n++)
        s->nodes[n].outcome = OUTCOME_BLOCKED; /* what nobody reaches */
    expect_scope(s, 0);
    s->is_failed = s->scopes[0].has_failed;
}

/* Whether what is merged into a scope arrives at the root. */
static bool arrives(const struct scenario *s, uint32_t scope)
{
    while (scope) {
        const struct scenario_node *group = &s->nodes[s->scopes[scope].group];
        if (s->scopes[scope].has_failed || group->outcome != OUTCOME_OK)
            return false;
        scope = group->scope;
    }
    return true;
}

bool scenario_group_value(const struct scenario *s, uint32_t group, const char *key, char *text, size_t size)
{
    const struct scenario_node *g = &s->nodes[group];
    long first = -1, last = -1, max = -1;
    char list[512] = "";
    size_t at = 0;
    if (g->outcome != OUTCOME_OK || !arrives(s, g->scope))
        return false;
    for (uint32_t i = 0; i < g->branch_count; i++)
        for (uint32_t n = 0; n < s->node_count; n++) {
            const struct scenario_node *node = &s->nodes[n];
            bool has_written =
                node->scope == g->branches[i] && node->task.writes_group_keys && node->outcome == OUTCOME_OK;
            if (!has_written || s->scopes[g->branches[i]].has_failed)
                continue;
            first = first < 0 ? n : first;
            last = n;
            max = max > (long)n ? max : (long)n;
            for (unsigned k = 0; k < 1 + node->task.again; k++)
                at += (size_t)snprintf(list + at, sizeof list - at, "%s%u", at ? "," : "", n);
        }
    if (last < 0)
        return false;
    if (strcmp(key, "app") == 0)
        snprintf(text, size, "[%s]", list);
    else
        snprintf(text, size, "%ld", strcmp(key, "first") == 0 ? first : strcmp(key, "max") == 0 ? max : last);
    return true;
}

/* ---- building ------------------------------------------------------------------------------------------- */

static void add_rules(const struct scenario *s, struct graph *graph)
{
    struct tsk_error err;
    char key[32];
    BUG(graph_add_rule(graph, "sum", TSK_MERGE_SUM, &err) < 0);
    for (uint32_t n = 0; n < s->node_count; n++) {
        if (!s->nodes[n].is_group)
            continue;
        snprintf(key, sizeof key, "first%u", n);
        BUG(graph_add_rule(graph, key, TSK_MERGE_FIRST, &err) < 0);
        snprintf(key, sizeof key, "max%u", n);
        BUG(graph_add_rule(graph, key, TSK_MERGE_MAX, &err) < 0);
        snprintf(key, sizeof key, "app%u", n);
        BUG(graph_add_rule(graph, key, TSK_MERGE_APPEND, &err) < 0);
    }
}

void scenario_build(const struct scenario *s, struct graph *graph, tsk_task_function *run, void *const *args)
{
    struct tsk_error err;
    uint32_t scopes[SCOPES_MAX] = {0};
    BUG(graph_init(graph, &err) < 0);
    for (uint32_t n = 0; n < s->node_count; n++) {
        const struct scenario_node *node = &s->nodes[n];
        uint32_t made;
        char name[16];
        snprintf(name, sizeof name, "n%u", n);
        if (!node->is_group) {
            BUG(graph_add_task(graph, scopes[node->scope], name, run, args ? args[n] : NULL, &made, &err) < 0);
            graph_detail(graph, made)->retries = (int32_t)node->task.retries;
            graph_detail(graph, made)->backoff_initial_ms = 0;
        } else {
            BUG(graph_add_group(graph, scopes[node->scope], name, node->policy, &made, &err) < 0);
            graph_group(graph, graph_node(graph, made)->detail)->at_least = node->at_least;
            for (uint32_t i = 0; i < node->branch_count; i++) {
                BUG(graph_add_branch(graph, made, NULL, &scopes[node->branches[i]], &err) < 0);
                graph_scope(graph, scopes[node->branches[i]])->is_critical = s->scopes[node->branches[i]].is_critical;
            }
        }
        BUG(made != n);
        for (uint32_t i = 0; i < node->pred_count; i++)
            BUG(graph_add_edge(graph, node->preds[i], n, &err) < 0);
    }
    add_rules(s, graph);
    BUG(graph_seal(graph, &err) < 0);
}
