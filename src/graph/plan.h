/* plan.h - the state of a graph: which nodes are ready, have ended, are joined. Pure: it starts nothing, waits for nothing,
 * reads no clock. The thread pool (pool.h) and the memory of a run (memory.h) drive it; tests/property drives it with random
 * schedules.
 *
 * How it works: every node has a word with the number of its edges that are not resolved yet. The end of a node resolves its
 * outgoing edges with a token (it ran: OK; it was not needed: SKIP; it failed or was stopped: FAIL). The token that resolves
 * the last edge makes the node ready, and plan_decide says whether it runs, is skipped or fails. A scope counts its nodes that
 * have not ended; at zero the scope has ended, a group whose branches have all ended is joined and ends as a node.
 *
 * Invariants
 *  P1  A node becomes ready exactly once per activation: only the token that takes `pending` from 1 to 0 makes it ready,
 *      and a node that is activated again before it became ready is not activated twice.
 *  P2  A node never runs twice at a time: if it is activated again while it runs, it waits for its own end (SELF).
 *  P3  `live` of a scope is raised before the node that raises it has ended, so it is zero only when nothing can follow.
 *  P4  The successors of a group become ready in the parent's scope, after all its branches ended and were merged, and
 *      only if the policy lets it pass.
 *  P5  A token is counted before it is sent: to activate a node again, `pending` of all nodes that will get a token from it is
 *      raised first; then the node runs.
 *
 * Threads: several threads may call the functions at once, except init, clear and those that say otherwise. Hooks run on the
 * calling thread; none of them may call back into the plan. */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "base/json.h"
#include "graph/model.h"

#include <pthread.h>
#include <stdatomic.h>

/* Nodes that were added while the plan ran have this bit in their number. */
#define PLAN_DYNAMIC 0x40000000u

enum outcome {
    OUTCOME_OK,
    OUTCOME_SKIPPED, /* not activated, or its condition was false */
    OUTCOME_FAILED,
    OUTCOME_BLOCKED, /* a predecessor failed */
    OUTCOME_STOPPED, /* its group or the run was stopped before it ran, or while it ran */
};

/* The word of a node, from the lowest bit: edges that are not resolved, OK tokens, then flags. Only for plan.c and for the
 * short cuts at the end of this header. */
#define STATE_PENDING    0xffffffffull
#define STATE_OK_ONE     (1ull << 32)
#define STATE_OK         (((1ull << 25) - 1) << 32)
#define STATE_ASKED_NEXT (1ull << 57) /* with SELF: somebody asked by name for the next time */
#define STATE_PASSED     (1ull << 58) /* it was passed over, and has not run */
#define STATE_AGAIN      (1ull << 59) /* it has run before; with SELF: the next time */
#define STATE_ASKED      (1ull << 60) /* somebody asked by name for this time */
#define STATE_SELF       (1ull << 61) /* P2: activated again while busy; one of `pending` is its own end */
#define STATE_DONE       (1ull << 62)
#define STATE_FAILED     (1ull << 63) /* a predecessor failed; with DONE also: it was stopped */
/* An OK token adds one OK and takes one from pending: one addition. */
#define STATE_TOKEN_OK (STATE_OK_ONE - 1)

/* What is to be done with a node that became ready. */
enum decision { DECIDE_RUN, DECIDE_FORK, DECIDE_END };

struct plan_scope {
    _Atomic int64_t live;      /* nodes that have not ended */
    _Atomic uint32_t failures; /* and what was stopped */
    _Atomic bool has_failed;   /* something of it, by itself */
    _Atomic bool is_stopped;
    _Atomic bool has_run; /* one of its nodes ran */
    void *session;        /* the engine's */
};

struct plan_group {
    _Atomic uint32_t live; /* branches that have not ended */
    uint32_t round;        /* how often it was forked */
};

struct dynamic_node {
    _Atomic uint64_t state;
    tsk_task_function *run;
    void *arg;
    const char *name; /* owned */
    uint32_t scope;
    uint32_t like; /* the task of the graph whose copy it is, + 1; 0: none */
    _Atomic uint32_t again;
};

struct plan;

struct plan_hooks {
    /* A branch begins: make its session. */
    void (*branch_begins)(void *engine, uint32_t scope);
    /* A branch has ended. */
    void (*branch_ended)(void *engine, uint32_t scope, bool has_failed);
    /* All branches have ended and the policy lets the group pass: merge those that did not fail. false: a conflict
     * that fails the group. */
    bool (*group_merges)(void *engine, uint32_t group);
    void (*group_ended)(void *engine, uint32_t group, enum outcome outcome);
    /* What runs in that scope is to be stopped. */
    void (*scope_stops)(void *engine, uint32_t scope);
};

/* Where the functions put what became ready. Reused by its owner; `clear` when done with. */
struct plan_out {
    uint32_t *ready;
    size_t count, room;
    int64_t root_ended; /* nodes of the root scope that ended: hand them to plan_flush */
};

enum { PLAN_CHUNKS = 20, PLAN_CHUNK_FIRST = 256 };

struct plan {
    const struct graph *graph;
    _Atomic uint64_t *state;
    struct region state_region;
    struct plan_scope *scopes;
    struct plan_group *groups;
    const struct plan_hooks *hooks;
    void *engine;
    pthread_mutex_t mutex; /* activation, dynamic nodes */
    struct dynamic_node *chunks[PLAN_CHUNKS];
    _Atomic uint32_t dynamic_count;
    json_t *names; /* of the first `named` dynamic nodes -> the last that has it; made when somebody asks (plan_find) */
    uint32_t named;
    _Atomic(_Atomic uint32_t *) again; /* per node: executions beyond the first; NULL until one is */
    uint32_t max_cycles;               /* for tasks that have none of their own; 0: no limit */
};

int plan_init(struct plan *plan, const struct graph *graph, const struct plan_hooks *hooks, void *engine,
              struct tsk_error *err);
void plan_clear(struct plan *plan);
void plan_out_clear(struct plan_out *out);
void plan_out_grow(struct plan_out *out);
static inline void plan_out_add(struct plan_out *out, uint32_t node)
{
    if (__builtin_expect(out->count == out->room, 0))
        plan_out_grow(out);
    out->ready[out->count++] = node;
}

/* The nodes of the root that can start at once, for engines that do not look for them themselves. */
void plan_heads(struct plan *plan, struct plan_out *out);

/* A node that became ready: run it, fork it (plan_fork), or end it at once with *ret_outcome. */
enum decision plan_decide(struct plan *plan, uint32_t node, enum outcome *ret_outcome);
void plan_fork(struct plan *plan, uint32_t group_node, struct plan_out *out);
/* A node has ended. */
void plan_end(struct plan *plan, uint32_t node, enum outcome outcome, struct plan_out *out);
/* P2: a node that was activated again while it was busy has ended. Part of plan_end. */
void plan_self_ended(struct plan *plan, uint32_t node, struct plan_out *out);
/* Counts ended nodes of the root scope; true: nothing is left, the run has ended. */
bool plan_flush(struct plan *plan, struct plan_out *out);

/* `by` (running) asks that `target` runs: again, or for the first time. Both are in one scope, or it is refused:
 * INVALID_INPUT, text "next_other_branch". A `goto` is this, and then plan_end_goto for `by`. */
int plan_activate(struct plan *plan, uint32_t by, uint32_t target, struct plan_out *out, struct tsk_error *err);
/* Ends `by` as OK without activating its successors. Those that it has activated by name run all the same. */
void plan_end_goto(struct plan *plan, uint32_t by, struct plan_out *out);
/* Adds a task to the scope of `by`, which runs. Ready at once. `name` is copied; NULL: `<by>-<number>`. */
int plan_spawn(struct plan *plan, uint32_t by, const char *name, tsk_task_function *run, void *arg, uint32_t *ret,
               struct plan_out *out, struct tsk_error *err);
/* A task of the root without edges (a flow's `when: never`) belongs to no branch: each branch that requests it has its own copy,
 * in its own session, which runs before the join. Whether `by` and `target` are such; and the copy in the scope of `by`, NO_NODE: it is to be made. */
bool plan_is_lent(const struct plan *plan, uint32_t by, uint32_t target);
uint32_t plan_copy_find(const struct plan *plan, uint32_t by, uint32_t target);
/* As plan_spawn, for that copy; it counts as asked for by name. Not for several threads. */
int plan_copy_spawn(struct plan *plan, uint32_t by, uint32_t target, struct plan_out *out, struct tsk_error *err);
/* The task of the graph that says what is to be done: the node itself, or the one whose copy it is. NO_NODE: plan_spawn has made
 * the node, and it says that itself. */
uint32_t plan_definition(const struct plan *plan, uint32_t node);
/* Nothing in that scope and below starts any more. */
void plan_stop(struct plan *plan, uint32_t scope);

uint32_t plan_scope_of(const struct plan *plan, uint32_t node);
struct dynamic_node *plan_dynamic(const struct plan *plan, uint32_t node);
const char *plan_name(const struct plan *plan, uint32_t node, char buf[GRAPH_NAME_MAX]);
/* Of several dynamic nodes of one name the last. NO_NODE. */
uint32_t plan_find(struct plan *plan, const char *name);
/* Marks a node that is about to end as not run, so that its next activation does not count as a repetition. */
void plan_pass(struct plan *plan, uint32_t node);
/* The number of activations of the node, this one included; and whether it exceeds the limit. */
uint32_t plan_cycles(const struct plan *plan, uint32_t node);
bool plan_is_over_cycles(const struct plan *plan, uint32_t node);
/* When the run has ended: how often the node, a task, was executed. */
uint32_t plan_executions(const struct plan *plan, uint32_t node);
/* Whether this turn of the node was asked for by name (plan_activate), so that its condition does not count. */
bool plan_is_asked(const struct plan *plan, uint32_t node);

static inline bool plan_is_stopped(const struct plan *plan, uint32_t scope)
{
    return atomic_load_explicit(&plan->scopes[scope].is_stopped, memory_order_relaxed);
}

/* Short cuts for what nearly every node is: a task of the root that was activated for the first time. Where they say no, the
 * functions above decide. */
static inline bool plan_is_plain_run(const struct plan *plan, uint32_t node)
{
    if (node & PLAN_DYNAMIC)
        return false;
    const struct graph_node *n = graph_node(plan->graph, node);
    uint64_t state = atomic_load_explicit(&plan->state[node], memory_order_acquire);
    return !n->is_group && !(state & (STATE_FAILED | STATE_AGAIN)) &&
           ((state & STATE_OK) || graph_indegree(plan->graph, node) == 0) && !plan_is_stopped(plan, n->scope);
}

static inline void plan_end_ok(struct plan *plan, uint32_t node, struct plan_out *out)
{
    const struct graph *graph = plan->graph;
    const struct graph_node *n = (node & PLAN_DYNAMIC) ? NULL : graph_node(graph, node);
    if (!n || n->scope != GRAPH_ROOT || n->is_group) {
        plan_end(plan, node, OUTCOME_OK, out);
        return;
    }
    /* A busy node is not DONE, so adding the bit sets it; x86 has no OR that tells what was there before. */
    uint64_t old = atomic_fetch_add_explicit(&plan->state[node], STATE_DONE, memory_order_acq_rel);
    for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
        uint64_t before = atomic_fetch_add_explicit(&plan->state[s.node], STATE_TOKEN_OK, memory_order_acq_rel);
        if ((before & STATE_PENDING) == 1)
            plan_out_add(out, s.node);
    }
    if (__builtin_expect((old & STATE_SELF) != 0, 0))
        plan_self_ended(plan, node, out);
    out->root_ended++;
}

#endif
