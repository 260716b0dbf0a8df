/* model.h - a graph: tasks, edges, groups and their branches. The graph itself does not change during a run; plan.h has the
 * state.
 *
 * Invariants
 *  M1  A node is a task or a group. It is in exactly one scope: the root (scope 0) or a branch of a group. It is identified by
 *      its index, which never changes.
 *  M2  An edge connects two nodes of one scope. An edge across scopes is lifted to the nodes (the groups) that contain its ends
 *      in their nearest common scope: a node that waits for a task inside a group waits for the whole group, and a task inside
 *      that waits for something outside makes its whole group wait. Between two branches of one group there is no edge.
 *  M3  A group has at least one branch, a branch at least one node. Branches are numbered in the order in which they
 *      were added, which is the order of the file; merging follows it.
 *  M4  Names are unique among all nodes; a node without a name is called `task-<index>`. A branch without a name has that of
 *      its first node.
 *  M5  A sealed graph does not change and has no cycle of edges; several runs may read it at once.
 *
 * A million tasks are normal: a node is 32 bytes with its first edge in it, a further edge 8, and nothing is allocated per
 * task. */
#ifndef GRAPH_MODEL_H
#define GRAPH_MODEL_H

#include "base/error.h"
#include "graph/region.h"

#define GRAPH_ROOT      0u /* the root scope */
#define GRAPH_NODES_MAX 0x3fffffffu
#define NO_NODE         UINT32_MAX

extern const char *const merge_rule_names[]; /* by enum tsk_merge; ends with NULL */
extern const char *const policy_names[];     /* by enum tsk_policy; ends with NULL */
enum {
#define X(symbol, ...) MERGE_OF_##symbol,
#include "graph/merge.def"
#undef X
    MERGE_COUNT
};
enum {
#define X(symbol, ...) POLICY_OF_##symbol,
#include "graph/policy.def"
#undef X
    POLICY_COUNT
};

struct graph_node {
    tsk_task_function *run; /* of the C library; NULL in a flow */
    void *arg;
    uint32_t
        successor; /* its first one, + 1, 0: none (NO_NODE + 1). Most have no other, and their edge is found where they are */
    uint32_t more; /* the last of the further edges: index + 1 into edges; 0: none */
    uint32_t scope;
    uint32_t is_group : 1, detail : 31; /* tasks: index + 1 into details, 0: none. Groups: index into groups */
};

/* The further edges of a node are a ring: behind the last one comes the first, so that one number is enough for both. */
struct graph_edge {
    uint32_t to;
    uint32_t next; /* index + 1 */
};

/* The back-off of a task that does not say its own (attempt.h). */
#define BACKOFF_INITIAL_MS 1000
#define BACKOFF_MAX_MS     60000
#define BACKOFF_FACTOR     2

/* What only some tasks have. */
struct task_detail {
    int32_t retries;     /* -1: the graph's */
    uint32_t max_cycles; /* 0: the graph's */
    int64_t backoff_initial_ms, backoff_max_ms;
    double backoff_factor, backoff_jitter;
};

struct graph_group {
    uint32_t node;
    enum tsk_policy policy;
    uint32_t at_least;
    uint32_t first_branch, last_branch, branch_count; /* scopes, linked by next_branch */
};

struct graph_scope {
    uint32_t group;  /* index into groups; the root has none: NO_NODE */
    uint32_t parent; /* scope in which the group stands */
    uint32_t number; /* of the branch in its group */
    uint32_t next_branch;
    uint32_t first_node, node_count;
    uint32_t nodes; /* sealed: index into scope_nodes of its nodes; only when there are groups */
    uint32_t name;  /* offset into names + 1, 0: as its first node */
    bool is_critical;
};

struct graph {
    struct region nodes, edges, details, groups, scopes;
    struct region indegree;   /* per node, with nodes' room in advance; shorter when no edge leads to the rest */
    struct region names;      /* characters */
    struct region name_of;    /* per node: offset + 1 into names; shorter than nodes when the rest has no name */
    struct region name_slots; /* hash of names: node + 1; power of two */
    struct region scope_nodes;
    struct region rules; /* struct graph_rule */
    uint32_t named;      /* nodes in name_slots */
    uint32_t edge_count;
    enum tsk_merge default_rule;
    bool goes_back; /* an edge leads to a node that was added before: there may be a cycle */
    bool is_sealed;
};

struct graph_rule {
    uint32_t key; /* offset into names */
    enum tsk_merge rule;
};

int graph_init(struct graph *graph, struct tsk_error *err);
void graph_clear(struct graph *graph);

/* `name` is copied; NULL: none. A second node of that name: INVALID_INPUT, text "graph_name_twice". */
int graph_add_task(struct graph *graph, uint32_t scope, const char *name, tsk_task_function *run, void *arg,
                   uint32_t *ret, struct tsk_error *err);
int graph_add_group(struct graph *graph, uint32_t scope, const char *name, enum tsk_policy policy, uint32_t *ret_node,
                    struct tsk_error *err);
int graph_add_branch(struct graph *graph, uint32_t group_node, const char *name, uint32_t *ret_scope,
                     struct tsk_error *err);
/* Lifts the edge as M2 says. INVALID_INPUT, text "graph_edge_siblings": the ends are in two branches of one group. */
int graph_add_edge(struct graph *graph, uint32_t before, uint32_t after, struct tsk_error *err);
/* The detail of a task, made if it has none; NULL: out of memory. */
struct task_detail *graph_detail(struct graph *graph, uint32_t task);
int graph_add_rule(struct graph *graph, const char *key, enum tsk_merge rule, struct tsk_error *err);
enum tsk_merge graph_rule(const struct graph *graph, const char *key, bool *ret_is_explicit);

/* Tells every cycle of edges, each by its path, "a >> b >> a"; those that share a node may count as one. 0: there is none, 1,
 * -1: out of memory. */
typedef void graph_cycle_found(void *data, const char *path);
int graph_cycles(const struct graph *graph, graph_cycle_found *found, void *data);
/* Checks M3 and M5. A cycle: FLOW_INVALID, text "graph_cycle", its path in the context ("a >> b >> a"). */
int graph_seal(struct graph *graph, struct tsk_error *err);

uint32_t graph_find(const struct graph *graph, const char *name); /* NO_NODE: there is none */
/* The name of a node, or in `buf` the one it is called by. */
#define GRAPH_NAME_MAX 32
const char *graph_name(const struct graph *graph, uint32_t node, char buf[GRAPH_NAME_MAX]);
const char *graph_scope_name(const struct graph *graph, uint32_t scope, char buf[GRAPH_NAME_MAX]);
bool graph_scope_contains(const struct graph *graph, uint32_t scope, uint32_t inner); /* or is it */

static inline struct graph_node *graph_node(const struct graph *graph, uint32_t node)
{
    return REGION_AT(&graph->nodes, struct graph_node, node);
}
static inline struct graph_edge *graph_edge(const struct graph *graph, uint32_t edge)
{
    return REGION_AT(&graph->edges, struct graph_edge, edge - 1);
}

/* The successors of a node, in the order in which the edges were added:
 *
 *     for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) */
struct successor {
    uint32_t node;
    uint32_t edge, last; /* index + 1 of the edge that comes then, 0: none; of the last one */
};
static inline struct successor graph_first(const struct graph *graph, uint32_t node)
{
    const struct graph_node *n = graph_node(graph, node);
    return (struct successor){n->successor - 1, n->more ? graph_edge(graph, n->more)->next : 0, n->more};
}
static inline void graph_next(const struct graph *graph, struct successor *at)
{
    const struct graph_edge *edge = at->edge ? graph_edge(graph, at->edge) : NULL;
    at->node = edge ? edge->to : NO_NODE;
    at->edge = edge && at->edge != at->last ? edge->next : 0;
}
static inline struct graph_group *graph_group(const struct graph *graph, uint32_t group)
{
    return REGION_AT(&graph->groups, struct graph_group, group);
}
static inline struct graph_scope *graph_scope(const struct graph *graph, uint32_t scope)
{
    return REGION_AT(&graph->scopes, struct graph_scope, scope);
}
static inline uint32_t graph_indegree(const struct graph *graph, uint32_t node)
{
    return node < graph->indegree.count ? *REGION_AT(&graph->indegree, uint32_t, node) : 0;
}
/* The i-th node of a scope of a sealed graph. */
static inline uint32_t graph_scope_node(const struct graph *graph, uint32_t scope, uint32_t i)
{
    return graph->scope_nodes.count ? *REGION_AT(&graph->scope_nodes, uint32_t, graph_scope(graph, scope)->nodes + i)
                                    : i;
}

#endif
