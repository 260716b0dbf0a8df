#include "graph/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum token { TOKEN_SEND_OK, TOKEN_SEND_SKIP, TOKEN_SEND_FAIL };

void plan_out_clear(struct plan_out *out)
{
    free(out->ready);
    *out = (struct plan_out){0};
}

void plan_out_grow(struct plan_out *out)
{
    out->room = out->room ? out->room * 2 : 64;
    out->ready = realloc(out->ready, out->room * sizeof *out->ready);
    BUG(!out->ready); /* half a fan-out cannot be taken back */
}

int plan_init(struct plan *plan, const struct graph *graph, const struct plan_hooks *hooks, void *engine,
              struct tsk_error *err)
{
    *plan = (struct plan){.graph = graph, .hooks = hooks, .engine = engine, .state_region = REGION_OF(uint64_t)};
    BUG(!graph->is_sealed);
    size_t count = graph->nodes.count;
    plan->scopes = calloc(graph->scopes.count, sizeof *plan->scopes);
    plan->groups = calloc(graph->groups.count + 1, sizeof *plan->groups);
    if (!plan->scopes || !plan->groups || !region_add(&plan->state_region, count + 1)) {
        free(plan->scopes);
        free(plan->groups);
        region_clear(&plan->state_region);
        plan->graph = NULL; /* nothing is left for plan_clear */
        return error_no_memory(err, "plan", "graph");
    }
    pthread_mutex_init(&plan->mutex, NULL);
    plan->state = plan->state_region.data;
    const uint32_t *indegree = graph->indegree.data;
    uint64_t *plain = plan->state_region.data; /* nobody else looks yet */
    for (size_t i = 0; i < count && i < graph->indegree.count; i++)
        plain[i] = indegree[i];
    for (uint32_t s = 0; s < graph->scopes.count; s++)
        atomic_init(&plan->scopes[s].live, graph_scope(graph, s)->node_count);
    return 0;
}

void plan_clear(struct plan *plan)
{
    if (!plan->graph)
        return;
    for (uint32_t i = 0; i < atomic_load(&plan->dynamic_count); i++)
        free((char *)plan_dynamic(plan, PLAN_DYNAMIC | i)->name);
    for (unsigned i = 0; i < PLAN_CHUNKS; i++)
        free(plan->chunks[i]);
    json_decref(plan->names);
    free(plan->scopes);
    free(plan->groups);
    free(atomic_load(&plan->again));
    region_clear(&plan->state_region);
    pthread_mutex_destroy(&plan->mutex);
    plan->graph = NULL;
}

/* ---- nodes ---------------------------------------------------------------------------------------------- */

static _Atomic uint64_t *node_state(const struct plan *plan, uint32_t node)
{
    return __builtin_expect(node & PLAN_DYNAMIC, 0) ? &plan_dynamic(plan, node)->state : &plan->state[node];
}

uint32_t plan_scope_of(const struct plan *plan, uint32_t node)
{
    return node & PLAN_DYNAMIC ? plan_dynamic(plan, node)->scope : graph_node(plan->graph, node)->scope;
}

const char *plan_name(const struct plan *plan, uint32_t node, char buf[GRAPH_NAME_MAX])
{
    return node & PLAN_DYNAMIC ? plan_dynamic(plan, node)->name : graph_name(plan->graph, node, buf);
}

static uint32_t node_repetitions(const struct plan *plan, uint32_t node)
{
    if (node & PLAN_DYNAMIC)
        return atomic_load_explicit(&plan_dynamic(plan, node)->again, memory_order_relaxed);
    _Atomic uint32_t *again = atomic_load_explicit(&plan->again, memory_order_acquire);
    return again ? atomic_load_explicit(&again[node], memory_order_relaxed) : 0;
}

uint32_t plan_cycles(const struct plan *plan, uint32_t node)
{
    return 1 + node_repetitions(plan, node);
}

/* Whether a node that is DONE, and was not blocked or stopped, has run. */
static bool has_run(const struct plan *plan, uint32_t node, uint64_t state)
{
    bool is_head = (node & PLAN_DYNAMIC) || graph_indegree(plan->graph, node) == 0;
    return !(state & STATE_PASSED) && ((state & STATE_OK) || is_head);
}

uint32_t plan_executions(const struct plan *plan, uint32_t node)
{
    uint64_t state = atomic_load(node_state(plan, node));
    uint32_t cycles = plan_cycles(plan, node) - plan_is_over_cycles(plan, node);
    bool is_run = (state & STATE_DONE) && !(state & STATE_FAILED) && has_run(plan, node, state);
    return cycles > 1 || is_run ? cycles : 0;
}

void plan_pass(struct plan *plan, uint32_t node)
{
    atomic_fetch_or(node_state(plan, node), STATE_PASSED);
}

bool plan_is_over_cycles(const struct plan *plan, uint32_t node)
{
    uint32_t max = plan->max_cycles, again = node_repetitions(plan, node),
             task = again ? plan_definition(plan, node) : NO_NODE;
    if (task != NO_NODE && graph_node(plan->graph, task)->detail) {
        uint32_t own =
            REGION_AT(&plan->graph->details, struct task_detail, graph_node(plan->graph, task)->detail - 1)->max_cycles;
        max = own ? own : max;
    }
    return again && max && 1 + again > max;
}

bool plan_is_asked(const struct plan *plan, uint32_t node)
{
    return atomic_load(node_state(plan, node)) & STATE_ASKED;
}

static void again_count(struct plan *plan, uint32_t node)
{
    _Atomic uint32_t *again = node & PLAN_DYNAMIC ? &plan_dynamic(plan, node)->again : &atomic_load(&plan->again)[node];
    atomic_fetch_add_explicit(again, 1, memory_order_relaxed);
}

/* ---- tokens --------------------------------------------------------------------------------------------- */

/* P1. */
static void token_send(struct plan *plan, uint32_t node, enum token token, struct plan_out *out)
{
    _Atomic uint64_t *state = node_state(plan, node);
    uint64_t old;
    if (token == TOKEN_SEND_OK) {
        old = atomic_fetch_add_explicit(state, STATE_TOKEN_OK, memory_order_acq_rel);
    } else {
        if (token == TOKEN_SEND_FAIL)
            atomic_fetch_or_explicit(state, STATE_FAILED, memory_order_relaxed);
        old = atomic_fetch_sub_explicit(state, 1, memory_order_acq_rel);
    }
    if ((old & STATE_PENDING) == 1)
        plan_out_add(out, node);
}

static void tokens_send(struct plan *plan, uint32_t node, enum token token, struct plan_out *out)
{
    if (node & PLAN_DYNAMIC)
        return;
    for (struct successor s = graph_first(plan->graph, node); s.node != NO_NODE; graph_next(plan->graph, &s))
        token_send(plan, s.node, token, out);
}

void plan_heads(struct plan *plan, struct plan_out *out)
{
    const struct graph *graph = plan->graph;
    for (uint32_t i = 0; i < graph_scope(graph, GRAPH_ROOT)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, GRAPH_ROOT, i);
        if (graph_indegree(graph, node) == 0)
            plan_out_add(out, node);
    }
}

enum decision plan_decide(struct plan *plan, uint32_t node, enum outcome *ret_outcome)
{
    uint64_t state = atomic_load_explicit(node_state(plan, node), memory_order_acquire);
    bool is_group = !(node & PLAN_DYNAMIC) && graph_node(plan->graph, node)->is_group;
    if ((state & (STATE_AGAIN | STATE_SELF)) == STATE_AGAIN)
        again_count(plan, node);
    if (plan_is_stopped(plan, plan_scope_of(plan, node))) {
        *ret_outcome = OUTCOME_STOPPED;
        return DECIDE_END;
    }
    if (state & STATE_FAILED) {
        *ret_outcome = OUTCOME_BLOCKED;
        return DECIDE_END;
    }
    /* A head has no edge from which an OK could have come. */
    if (!(state & STATE_OK) && !(node & PLAN_DYNAMIC) && graph_indegree(plan->graph, node)) {
        *ret_outcome = OUTCOME_SKIPPED;
        return DECIDE_END;
    }
    return is_group ? DECIDE_FORK : DECIDE_RUN;
}

/* ---- groups --------------------------------------------------------------------------------------------- */

/* A branch that runs for the second time starts as it did for the first; what was added to it is not there again. */
static void scope_reset(struct plan *plan, uint32_t scope)
{
    const struct graph *graph = plan->graph;
    const struct graph_scope *s = graph_scope(graph, scope);
    for (uint32_t i = 0; i < s->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        atomic_store(&plan->state[node], graph_indegree(graph, node));
    }
    atomic_store(&plan->scopes[scope].live, s->node_count);
    atomic_store(&plan->scopes[scope].failures, 0);
    atomic_store(&plan->scopes[scope].has_failed, false);
    atomic_store(&plan->scopes[scope].has_run, false);
}

/* Whether a scope is a branch of the group or lies in one. */
static bool is_in_group(const struct graph *graph, uint32_t scope, uint32_t group)
{
    for (; scope != GRAPH_ROOT; scope = graph_scope(graph, scope)->parent)
        if (graph_scope(graph, scope)->group == group)
            return true;
    return false;
}

/* fail_fast stopped the branches the last time. Somebody who stops the run meanwhile has stopped the parent first. */
static void group_reset(struct plan *plan, uint32_t index)
{
    const struct graph *graph = plan->graph;
    for (uint32_t s = 1; s < graph->scopes.count; s++)
        if (is_in_group(graph, s, index)) {
            atomic_store(&plan->scopes[s].is_stopped, false);
            if (graph_scope(graph, s)->group == index)
                scope_reset(plan, s);
        }
    if (plan_is_stopped(plan, graph_node(graph, graph_group(graph, index)->node)->scope))
        for (uint32_t s = 1; s < graph->scopes.count; s++)
            if (graph_scope(graph, s)->group == index)
                plan_stop(plan, s);
}

static void scope_begin(struct plan *plan, uint32_t scope, struct plan_out *out)
{
    const struct graph *graph = plan->graph;
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        if (graph_indegree(graph, node) == 0)
            plan_out_add(out, node);
    }
}

void plan_fork(struct plan *plan, uint32_t group_node, struct plan_out *out)
{
    const struct graph *graph = plan->graph;
    uint32_t index = graph_node(graph, group_node)->detail;
    const struct graph_group *group = graph_group(graph, index);
    atomic_store(&plan->groups[index].live, group->branch_count);
    if (plan->groups[index].round++)
        group_reset(plan, index);
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch)
        plan->hooks->branch_begins(plan->engine, s);
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count; i++, s = graph_scope(graph, s)->next_branch)
        scope_begin(plan, s, out);
}

/* How a group's branches have ended. */
struct branches {
    uint32_t count, failed;
    uint32_t at_least; /* of the group */
    bool critical_failed;
};

static bool policy_strict(const struct branches *branches)
{
    return branches->failed == 0;
}

static bool policy_best_effort(const struct branches *branches)
{
    (void)branches;
    return true;
}

static bool policy_at_least(const struct branches *branches)
{
    return branches->count - branches->failed >= branches->at_least;
}

static bool policy_critical(const struct branches *branches)
{
    return !branches->critical_failed;
}

static bool (*const policies[])(const struct branches *branches) = {
#define X(symbol, name, function, form) [TSK_POLICY_##symbol] = function,
#include "graph/policy.def"
#undef X
};

static enum outcome group_outcome(struct plan *plan, uint32_t index)
{
    const struct graph *graph = plan->graph;
    const struct graph_group *group = graph_group(graph, index);
    struct branches branches = {.count = group->branch_count, .at_least = group->at_least};
    bool has_run = false;
    for (uint32_t s = group->first_branch, i = 0; i < group->branch_count;
         i++, s = graph_scope(graph, s)->next_branch) {
        bool has_failed = atomic_load(&plan->scopes[s].failures) > 0;
        branches.failed += has_failed;
        branches.critical_failed = branches.critical_failed || (has_failed && graph_scope(graph, s)->is_critical);
        has_run = has_run || atomic_load(&plan->scopes[s].has_run);
    }
    if (plan_is_stopped(plan, graph_node(graph, group->node)->scope))
        return OUTCOME_STOPPED;
    if (!policies[group->policy](&branches) || !plan->hooks->group_merges(plan->engine, index))
        return OUTCOME_FAILED;
    return has_run ? OUTCOME_OK : OUTCOME_SKIPPED;
}

static void branch_take_end(struct plan *plan, uint32_t scope, struct plan_out *out)
{
    uint32_t index = graph_scope(plan->graph, scope)->group;
    plan->hooks->branch_ended(plan->engine, scope, atomic_load(&plan->scopes[scope].failures) > 0);
    if (atomic_fetch_sub(&plan->groups[index].live, 1) != 1)
        return;
    enum outcome outcome = group_outcome(plan, index);
    const struct graph_group *group = graph_group(plan->graph, index);
    plan->hooks->group_ended(plan->engine, index, outcome);
    plan_end(plan, group->node, outcome, out);
}

/* ---- ends ----------------------------------------------------------------------------------------------- */

static void fail_fast(struct plan *plan, uint32_t scope)
{
    const struct graph_scope *s = graph_scope(plan->graph, scope);
    if (s->group == NO_NODE || graph_group(plan->graph, s->group)->policy != TSK_POLICY_FAIL_FAST)
        return;
    const struct graph_group *group = graph_group(plan->graph, s->group);
    for (uint32_t b = group->first_branch, i = 0; i < group->branch_count;
         i++, b = graph_scope(plan->graph, b)->next_branch)
        plan_stop(plan, b);
}

static void count_outcome(struct plan *plan, uint32_t scope, enum outcome outcome)
{
    struct plan_scope *s = &plan->scopes[scope];
    bool has_failed = outcome == OUTCOME_FAILED || outcome == OUTCOME_STOPPED;
    if ((outcome == OUTCOME_OK || has_failed) && !atomic_load_explicit(&s->has_run, memory_order_relaxed))
        atomic_store_explicit(&s->has_run, true, memory_order_relaxed);
    if (!has_failed)
        return;
    atomic_fetch_add(&s->failures, 1);
    if (outcome != OUTCOME_FAILED)
        return;
    if (!plan_is_stopped(plan, scope))
        atomic_store(&s->has_failed, true);
    fail_fast(plan, scope);
}

static void scope_count_down(struct plan *plan, uint32_t scope, struct plan_out *out)
{
    if (scope == GRAPH_ROOT)
        out->root_ended++;
    else if (atomic_fetch_sub(&plan->scopes[scope].live, 1) == 1)
        branch_take_end(plan, scope, out);
}

void plan_self_ended(struct plan *plan, uint32_t node, struct plan_out *out)
{
    _Atomic uint64_t *state = node_state(plan, node);
    uint64_t old = atomic_load(state), new;
    do {
        new = old & ~(STATE_SELF | STATE_DONE | STATE_ASKED | STATE_ASKED_NEXT);
        if (old & STATE_ASKED_NEXT)
            new |= STATE_ASKED;
        if (old & STATE_PASSED) /* it has not run: the next time is the first one */
            new &= ~(STATE_AGAIN | STATE_PASSED);
    } while (!atomic_compare_exchange_weak(state, &old, new));
    token_send(plan, node, TOKEN_SEND_SKIP, out);
}

static void node_ended(struct plan *plan, uint32_t node, enum outcome outcome, enum token token, struct plan_out *out)
{
    uint32_t scope = plan_scope_of(plan, node);
    if (outcome != OUTCOME_SKIPPED && outcome != OUTCOME_BLOCKED)
        count_outcome(plan, scope, outcome);
    uint64_t bits = STATE_DONE | (outcome == OUTCOME_STOPPED ? STATE_FAILED : 0);
    uint64_t old = atomic_fetch_or_explicit(node_state(plan, node), bits, memory_order_acq_rel);
    tokens_send(plan, node, token, out);
    if (old & STATE_SELF)
        plan_self_ended(plan, node, out);
    scope_count_down(plan, scope, out);
}

void plan_end(struct plan *plan, uint32_t node, enum outcome outcome, struct plan_out *out)
{
    static const enum token tokens[] = {[OUTCOME_OK] = TOKEN_SEND_OK,
                                        [OUTCOME_SKIPPED] = TOKEN_SEND_SKIP,
                                        [OUTCOME_FAILED] = TOKEN_SEND_FAIL,
                                        [OUTCOME_BLOCKED] = TOKEN_SEND_FAIL,
                                        [OUTCOME_STOPPED] = TOKEN_SEND_FAIL};
    node_ended(plan, node, outcome, tokens[outcome], out);
}

void plan_end_goto(struct plan *plan, uint32_t by, struct plan_out *out)
{
    node_ended(plan, by, OUTCOME_OK, TOKEN_SEND_SKIP, out);
}

bool plan_flush(struct plan *plan, struct plan_out *out)
{
    int64_t ended = out->root_ended;
    out->root_ended = 0;
    return ended && atomic_fetch_sub(&plan->scopes[GRAPH_ROOT].live, ended) == ended;
}

/* ---- activation ----------------------------------------------------------------------------------------- */

static int again_make(struct plan *plan, struct tsk_error *err)
{
    if (atomic_load(&plan->again))
        return 0;
    _Atomic uint32_t *again = calloc(plan->graph->nodes.count + 1, sizeof *again);
    if (!again)
        return error_no_memory(err, "plan", "graph");
    atomic_store_explicit(&plan->again, again, memory_order_release);
    return 0;
}

/* One more token will come. True: the node had ended or is busy, so this is a new activation. */
static bool edge_raise(struct plan *plan, uint32_t node)
{
    _Atomic uint64_t *state = node_state(plan, node);
    uint64_t old = atomic_load(state), new;
    do {
        if (old & STATE_PENDING)
            new = old + 1;
        else if (old & STATE_DONE)
            new = (old & STATE_FAILED) || has_run(plan, node, old) ? STATE_AGAIN | 1 : 1;
        else /* what it became ready with may not have been looked at yet */
            new = (old & (STATE_FAILED | STATE_OK | STATE_ASKED)) | STATE_AGAIN | STATE_SELF | 2;
    } while (!atomic_compare_exchange_weak(state, &old, new));
    return !(old & STATE_PENDING);
}

static void activated_again(struct plan *plan, uint32_t node)
{
    atomic_fetch_add(&plan->scopes[plan_scope_of(plan, node)].live, 1); /* P3 */
}

/* P5: everything behind a node that will run again will get one more token from it. */
static void raise_behind(struct plan *plan, uint32_t target)
{
    struct plan_out todo = {0};
    if (edge_raise(plan, target)) {
        activated_again(plan, target);
        plan_out_add(&todo, target);
    }
    while (todo.count) {
        uint32_t node = todo.ready[--todo.count];
        if (node & PLAN_DYNAMIC)
            continue;
        for (struct successor s = graph_first(plan->graph, node); s.node != NO_NODE; graph_next(plan->graph, &s)) {
            if (edge_raise(plan, s.node)) {
                activated_again(plan, s.node);
                plan_out_add(&todo, s.node);
            }
        }
    }
    plan_out_clear(&todo);
}

/* While the node waits for its turn, or has it, somebody asks for one more: the turn that it has keeps its condition. */
static void node_ask(struct plan *plan, uint32_t node)
{
    _Atomic uint64_t *state = node_state(plan, node);
    uint64_t old = atomic_load(state);
    while (!atomic_compare_exchange_weak(state, &old, old | (old & STATE_SELF ? STATE_ASKED_NEXT : STATE_ASKED)))
        ;
}

int plan_activate(struct plan *plan, uint32_t by, uint32_t target, struct plan_out *out, struct tsk_error *err)
{
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    if (plan_scope_of(plan, by) != plan_scope_of(plan, target))
        return error_set(err, TSK_INVALID_INPUT, "next_other_branch", "task", plan_name(plan, by, a), "target",
                         plan_name(plan, target, b), NULL);
    pthread_mutex_lock(&plan->mutex);
    if (again_make(plan, err) < 0) {
        pthread_mutex_unlock(&plan->mutex);
        return -1;
    }
    raise_behind(plan, target);
    node_ask(plan, target);
    pthread_mutex_unlock(&plan->mutex);
    token_send(plan, target, TOKEN_SEND_OK, out);
    return 0;
}

void plan_stop(struct plan *plan, uint32_t scope)
{
    for (uint32_t s = 0; s < plan->graph->scopes.count; s++)
        if (graph_scope_contains(plan->graph, scope, s) && !atomic_exchange(&plan->scopes[s].is_stopped, true))
            plan->hooks->scope_stops(plan->engine, s);
}
