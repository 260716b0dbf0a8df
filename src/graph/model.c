#include "graph/model.h"
#include "base/word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const merge_rule_names[] = {
#define X(symbol, name, ...) [TSK_MERGE_##symbol] = name,
#include "graph/merge.def"
#undef X
    NULL};
const char *const policy_names[] = {
#define X(symbol, name, ...) [TSK_POLICY_##symbol] = name,
#include "graph/policy.def"
#undef X
    NULL};

/* The public enums are written out by hand for their readers; this keeps them equal to the tables. */
#define X(symbol, ...) _Static_assert((int)MERGE_OF_##symbol == (int)TSK_MERGE_##symbol, "tasuki.h: " #symbol);
#include "graph/merge.def"
#undef X
#define X(symbol, ...) _Static_assert((int)POLICY_OF_##symbol == (int)TSK_POLICY_##symbol, "tasuki.h: " #symbol);
#include "graph/policy.def"
#undef X

int graph_init(struct graph *graph, struct tsk_error *err)
{
    *graph = (struct graph){.nodes = REGION_OF(struct graph_node),
                            .edges = REGION_OF(struct graph_edge),
                            .indegree = REGION_OF(uint32_t),
                            .details = REGION_OF(struct task_detail),
                            .groups = REGION_OF(struct graph_group),
                            .scopes = REGION_OF(struct graph_scope),
                            .names = REGION_OF(char),
                            .name_of = REGION_OF(uint32_t),
                            .name_slots = REGION_OF(uint32_t),
                            .scope_nodes = REGION_OF(uint32_t),
                            .rules = REGION_OF(struct graph_rule)};
    struct graph_scope *root = region_add(&graph->scopes, 1);
    if (!root)
        return error_no_memory(err, "build", "graph");
    *root = (struct graph_scope){.group = NO_NODE, .first_node = NO_NODE};
    return 0;
}

void graph_clear(struct graph *graph)
{
    struct region *const all[] = {&graph->nodes,      &graph->edges,       &graph->indegree, &graph->details,
                                  &graph->groups,     &graph->scopes,      &graph->names,    &graph->name_of,
                                  &graph->name_slots, &graph->scope_nodes, &graph->rules};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        region_clear(all[i]);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name)
{
    uint64_t hash = text_hash(HASH_BEGIN, name);
    return (uint32_t)(hash ^ hash >> 32);
}

static const char *name_at(const struct graph *graph, uint32_t offset)
{
    return (const char *)graph->names.data + offset;
}

static const char *name_given(const struct graph *graph, uint32_t node)
{
    uint32_t offset = node < graph->name_of.count ? *REGION_AT(&graph->name_of, uint32_t, node) : 0;
    return offset ? name_at(graph, offset - 1) : NULL;
}

static uint32_t *node_slot(const struct graph *graph, const char *name)
{
    uint32_t mask = (uint32_t)graph->name_slots.count - 1;
    uint32_t at = hash_of(name) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *slot = REGION_AT(&graph->name_slots, uint32_t, at);
        if (!*slot || strcmp(name_given(graph, *slot - 1), name) == 0)
            return slot;
    }
}

static int graph_slots_grow(struct graph *graph)
{
    size_t size = graph->name_slots.count ? graph->name_slots.count * 2 : 64;
    struct region old = graph->name_slots;
    graph->name_slots = (struct region)REGION_OF(uint32_t);
    if (!region_add(&graph->name_slots, size)) {
        graph->name_slots = old;
        return -1;
    }
    for (size_t i = 0; i < old.count; i++) {
        uint32_t entry = *REGION_AT(&old, uint32_t, i);
        if (entry)
            *node_slot(graph, name_given(graph, entry - 1)) = entry;
    }
    region_clear(&old);
    return 0;
}

static int copy_name(struct graph *graph, const char *name, uint32_t *ret_offset)
{
    size_t len = strlen(name) + 1;
    uint32_t offset = (uint32_t)graph->names.count;
    char *copy = region_add(&graph->names, len);
    if (!copy)
        return -1;
    memcpy(copy, name, len);
    *ret_offset = offset;
    return 0;
}

static RARE int set_name(struct graph *graph, uint32_t node, const char *name, struct tsk_error *err)
{
    uint32_t offset;
    if (graph->named * 2 >= graph->name_slots.count && graph_slots_grow(graph) < 0)
        return error_no_memory(err, "build", "graph");
    if (*node_slot(graph, name))
        return error_set(err, TSK_INVALID_INPUT, "graph_name_twice", "name", name, NULL);
    if (graph->name_of.count <= node && !region_add(&graph->name_of, node + 1 - graph->name_of.count))
        return error_no_memory(err, "build", "graph");
    if (copy_name(graph, name, &offset) < 0)
        return error_no_memory(err, "build", "graph");
    *REGION_AT(&graph->name_of, uint32_t, node) = offset + 1;
    *node_slot(graph, name) = node + 1;
    graph->named++;
    return 0;
}

uint32_t graph_find(const struct graph *graph, const char *name)
{
    uint32_t found = graph->named ? *node_slot(graph, name) : 0;
    if (found)
        return found - 1;
    const char *digits = strncmp(name, "task-", 5) == 0 ? name + 5 : "";
    size_t len = strspn(digits, "0123456789");
    if (len == 0 || len > 9 || digits[len])
        return NO_NODE;
    uint32_t number = (uint32_t)strtoul(digits, NULL, 10);
    return number < graph->nodes.count && !name_given(graph, number) ? number : NO_NODE;
}

const char *graph_name(const struct graph *graph, uint32_t node, char buf[GRAPH_NAME_MAX])
{
    const char *name = name_given(graph, node);
    if (name)
        return name;
    snprintf(buf, GRAPH_NAME_MAX, "task-%u", node);
    return buf;
}

const char *graph_scope_name(const struct graph *graph, uint32_t scope, char buf[GRAPH_NAME_MAX])
{
    const struct graph_scope *s = graph_scope(graph, scope);
    if (s->name)
        return name_at(graph, s->name - 1);
    if (s->first_node == NO_NODE)
        return scope ? "?" : "root";
    return graph_name(graph, s->first_node, buf);
}

/* ---- building ------------------------------------------------------------------------------------------- */

static inline int add_node(struct graph *graph, uint32_t scope, const char *name, uint32_t *ret, struct tsk_error *err)
{
    uint32_t node = (uint32_t)graph->nodes.count;
    BUG(graph->is_sealed || scope >= graph->scopes.count);
    struct graph_node *made = node < GRAPH_NODES_MAX ? region_add_one(&graph->nodes) : NULL;
    if (!made)
        return error_no_memory(err, "build", "graph");
    if (name && set_name(graph, node, name, err) < 0) {
        graph->nodes.count--;
        return -1;
    }
    struct graph_scope *s = graph_scope(graph, scope);
    if (s->first_node == NO_NODE)
        s->first_node = node;
    s->node_count++;
    *ret = node;
    return 0;
}

int graph_add_task(struct graph *graph, uint32_t scope, const char *name, tsk_task_function *run, void *arg,
                   uint32_t *ret, struct tsk_error *err)
{
    if (add_node(graph, scope, name, ret, err) < 0)
        return -1;
    *REGION_AT(&graph->nodes, struct graph_node, graph->nodes.count - 1) =
        (struct graph_node){.run = run, .arg = arg, .scope = scope};
    return 0;
}

int graph_add_group(struct graph *graph, uint32_t scope, const char *name, enum tsk_policy policy, uint32_t *ret_node,
                    struct tsk_error *err)
{
    uint32_t node = NO_NODE;
    if (add_node(graph, scope, name, &node, err) < 0)
        return -1;
    struct graph_group *group = region_add(&graph->groups, 1);
    if (!group)
        return error_no_memory(err, "build", "graph");
    *group = (struct graph_group){.node = node, .policy = policy};
    *graph_node(graph, node) =
        (struct graph_node){.scope = scope, .is_group = 1, .detail = (graph->groups.count - 1) & 0x7fffffff};
    *ret_node = node;
    return 0;
}

int graph_add_branch(struct graph *graph, uint32_t group_node, const char *name, uint32_t *ret_scope,
                     struct tsk_error *err)
{
    uint32_t offset = 0, group_index = graph_node(graph, group_node)->detail;
    uint32_t scope = (uint32_t)graph->scopes.count;
    BUG(!graph_node(graph, group_node)->is_group);
    if (name && copy_name(graph, name, &offset) < 0)
        return error_no_memory(err, "build", "graph");
    struct graph_scope *branch = region_add(&graph->scopes, 1);
    if (!branch)
        return error_no_memory(err, "build", "graph");
    struct graph_group *group = graph_group(graph, group_index);
    *branch = (struct graph_scope){.group = group_index,
                                   .parent = graph_node(graph, group_node)->scope,
                                   .number = group->branch_count,
                                   .first_node = NO_NODE,
                                   .name = name ? offset + 1 : 0};
    if (group->branch_count++)
        graph_scope(graph, group->last_branch)->next_branch = scope;
    else
        group->first_branch = scope;
    group->last_branch = scope;
    *ret_scope = scope;
    return 0;
}

/* How deep a scope lies. */
static unsigned depth_of(const struct graph *graph, uint32_t scope)
{
    unsigned depth = 0;
    for (; scope != GRAPH_ROOT; scope = graph_scope(graph, scope)->parent)
        depth++;
    return depth;
}

static uint32_t node_around(const struct graph *graph, uint32_t node)
{
    uint32_t scope = graph_node(graph, node)->scope;
    return graph_group(graph, graph_scope(graph, scope)->group)->node;
}

struct lifted {
    uint32_t before, after;
};

/* M2: both ends go up until they are in one scope. */
static struct lifted edge_lift(const struct graph *graph, uint32_t before, uint32_t after)
{
    unsigned a = depth_of(graph, graph_node(graph, before)->scope);
    unsigned b = depth_of(graph, graph_node(graph, after)->scope);
    for (; a > b; a--)
        before = node_around(graph, before);
    for (; b > a; b--)
        after = node_around(graph, after);
    while (graph_node(graph, before)->scope != graph_node(graph, after)->scope) {
        before = node_around(graph, before);
        after = node_around(graph, after);
    }
    return (struct lifted){before, after};
}

static int edge_check_siblings(const struct graph *graph, uint32_t before, uint32_t after, struct tsk_error *err)
{
    char a[GRAPH_NAME_MAX], b[GRAPH_NAME_MAX];
    return error_set(err, TSK_INVALID_INPUT, "graph_edge_siblings", "before", graph_name(graph, before, a), "after",
                     graph_name(graph, after, b), NULL);
}

static __attribute__((noinline)) int add_further_edge(struct graph *graph, struct graph_node *node, uint32_t to)
{
    struct graph_edge *edge = region_add_one(&graph->edges);
    if (!edge)
        return -1;
    uint32_t index = (uint32_t)graph->edges.count;
    struct graph_edge *last = node->more ? graph_edge(graph, node->more) : edge;
    edge->to = to;
    edge->next = node->more ? last->next : index;
    last->next = index;
    node->more = index;
    return 0;
}

static RARE int indegree_grow(struct graph *graph)
{
    return region_add(&graph->indegree, graph->nodes.room - graph->indegree.count) ? 0 : -1;
}

/* Both are in one scope. */
static inline int add_edge(struct graph *graph, uint32_t from, uint32_t to, struct tsk_error *err)
{
    struct graph_node *node = graph_node(graph, from);
    if (__builtin_expect(to >= graph->indegree.count, 0) && indegree_grow(graph) < 0)
        return error_no_memory(err, "build", "graph");
    if (!node->successor)
        node->successor = to + 1;
    else if (add_further_edge(graph, node, to) < 0)
        return error_no_memory(err, "build", "graph");
    graph->goes_back = graph->goes_back || to <= from;
    graph->edge_count++;
    ++*REGION_AT(&graph->indegree, uint32_t, to);
    return 0;
}

static RARE int add_edge_across(struct graph *graph, uint32_t before, uint32_t after, struct tsk_error *err)
{
    struct lifted lifted = edge_lift(graph, before, after);
    if (lifted.before == lifted.after)
        return edge_check_siblings(graph, before, after, err);
    return add_edge(graph, lifted.before, lifted.after, err);
}

int graph_add_edge(struct graph *graph, uint32_t before, uint32_t after, struct tsk_error *err)
{
    BUG(graph->is_sealed || before >= graph->nodes.count || after >= graph->nodes.count);
    if (__builtin_expect(graph_node(graph, before)->scope != graph_node(graph, after)->scope, 0))
        return add_edge_across(graph, before, after, err);
    return add_edge(graph, before, after, err);
}

struct task_detail *graph_detail(struct graph *graph, uint32_t task)
{
    BUG(graph_node(graph, task)->is_group);
    if (!graph_node(graph, task)->detail) {
        struct task_detail *detail = region_add(&graph->details, 1);
        if (!detail)
            return NULL;
        *detail = (struct task_detail){.retries = -1,
                                       .backoff_initial_ms = BACKOFF_INITIAL_MS,
                                       .backoff_max_ms = BACKOFF_MAX_MS,
                                       .backoff_factor = BACKOFF_FACTOR};
        graph_node(graph, task)->detail = graph->details.count & 0x7fffffff;
    }
    return REGION_AT(&graph->details, struct task_detail, graph_node(graph, task)->detail - 1);
}

int graph_add_rule(struct graph *graph, const char *key, enum tsk_merge rule, struct tsk_error *err)
{
    uint32_t offset;
    if (strcmp(key, "*") == 0) {
        graph->default_rule = rule;
        return 0;
    }
    struct graph_rule *entry = region_add(&graph->rules, 1);
    if (!entry || copy_name(graph, key, &offset) < 0)
        return error_no_memory(err, "build", "graph");
    *entry = (struct graph_rule){.key = offset, .rule = rule};
    return 0;
}

enum tsk_merge graph_rule(const struct graph *graph, const char *key, bool *ret_is_explicit)
{
    for (size_t i = 0; i < graph->rules.count; i++) {
        const struct graph_rule *entry = REGION_AT(&graph->rules, struct graph_rule, i);
        if (strcmp(name_at(graph, entry->key), key) == 0) {
            *ret_is_explicit = true;
            return entry->rule;
        }
    }
    *ret_is_explicit = false;
    return graph->default_rule;
}

/* ---- sealing -------------------------------------------------------------------------------------------- */

/* The nodes of each scope side by side, in the order they were added. */
static int sort_scopes(struct graph *graph)
{
    uint32_t at = 0;
    if (graph->scopes.count == 1)
        return 0;
    if (!region_add(&graph->scope_nodes, graph->nodes.count))
        return -1;
    for (uint32_t s = 0; s < graph->scopes.count; s++) {
        graph_scope(graph, s)->nodes = at;
        at += graph_scope(graph, s)->node_count;
        graph_scope(graph, s)->node_count = 0;
    }
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        struct graph_scope *scope = graph_scope(graph, graph_node(graph, n)->scope);
        *REGION_AT(&graph->scope_nodes, uint32_t, scope->nodes + scope->node_count++) = n;
    }
    return 0;
}

static void tell_cycle(const struct graph *graph, const uint32_t *walk, uint32_t from, uint32_t to,
                       graph_cycle_found *found, void *data)
{
    char path[1024], buf[GRAPH_NAME_MAX];
    /* The walk went backwards; the path is reported forwards. */
    size_t at = (size_t)snprintf(path, sizeof path, "%s", graph_name(graph, walk[from], buf));
    for (uint32_t i = to; i > from + 1 && at < sizeof path; i--)
        at += (size_t)snprintf(path + at, sizeof path - at, " >> %s", graph_name(graph, walk[i - 1], buf));
    if (at < sizeof path)
        snprintf(path + at, sizeof path - at, " >> %s", graph_name(graph, walk[from], buf));
    found(data, path);
}

/* Going back from a node that no order reaches, over nodes that no order reaches either, one comes for the second time. What
 * an earlier walk has seen leads to a cycle that was reported. */
static int cycles_found(const struct graph *graph, const uint32_t *left, graph_cycle_found *found, void *data)
{
    uint32_t count = (uint32_t)graph->nodes.count, steps = 0;
    uint32_t *before = calloc((size_t)count * 3, sizeof *before);
    if (!before)
        return -1;
    uint32_t *seen = before + count, *walk = seen + count;
    for (uint32_t n = 0; n < count; n++)
        for (struct successor s = graph_first(graph, n); left[n] && s.node != NO_NODE; graph_next(graph, &s))
            before[s.node] = n;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t node = n, began = steps;
        for (; left[node] && !seen[node]; node = before[node]) {
            walk[steps] = node;
            seen[node] = ++steps;
        }
        if (left[node] && seen[node] > began)
            tell_cycle(graph, walk, seen[node] - 1, steps, found, data);
    }
    free(before);
    return 1;
}

/* Kahn's order; what it does not reach is on a cycle or behind one. Edges that only go forward need no look. */
int graph_cycles(const struct graph *graph, graph_cycle_found *found, void *data)
{
    uint32_t count = (uint32_t)graph->nodes.count;
    if (!graph->goes_back)
        return 0;
    uint32_t *left = malloc((size_t)count * 2 * sizeof *left);
    if (!left)
        return -1;
    uint32_t *queue = left + count, head = 0, tail = 0;
    for (uint32_t n = 0; n < count; n++) {
        left[n] = graph_indegree(graph, n);
        if (!left[n])
            queue[tail++] = n;
    }
    while (head < tail) {
        uint32_t n = queue[head++];
        for (struct successor s = graph_first(graph, n); s.node != NO_NODE; graph_next(graph, &s))
            if (--left[s.node] == 0)
                queue[tail++] = s.node;
    }
    int result = tail == count ? 0 : cycles_found(graph, left, found, data);
    free(left);
    return result;
}

static void first_cycle(void *data, const char *path)
{
    struct tsk_error *err = data;
    if (err->code != TSK_FLOW_INVALID)
        error_set(err, TSK_FLOW_INVALID, "graph_cycle", "path", path, NULL);
}

static int check_cycles(const struct graph *graph, struct tsk_error *err)
{
    err->code = TSK_OK;
    int result = graph_cycles(graph, first_cycle, err);
    return result < 0 ? error_no_memory(err, "build", "graph") : -result;
}

static int check_groups(const struct graph *graph, struct tsk_error *err)
{
    char buf[GRAPH_NAME_MAX];
    for (uint32_t g = 0; g < graph->groups.count; g++) {
        const struct graph_group *group = graph_group(graph, g);
        bool is_empty = group->branch_count == 0;
        for (uint32_t s = group->first_branch, i = 0; i < group->branch_count;
             i++, s = graph_scope(graph, s)->next_branch)
            is_empty = is_empty || graph_scope(graph, s)->node_count == 0;
        if (is_empty)
            return error_set(err, TSK_INVALID_INPUT, "graph_group_empty", "name", graph_name(graph, group->node, buf),
                             NULL);
    }
    return 0;
}

int graph_seal(struct graph *graph, struct tsk_error *err)
{
    if (graph->is_sealed)
        return 0;
    if (check_cycles(graph, err) < 0 || check_groups(graph, err) < 0)
        return -1;
    if (sort_scopes(graph) < 0)
        return error_no_memory(err, "build", "graph");
    graph->is_sealed = true;
    return 0;
}

bool graph_scope_contains(const struct graph *graph, uint32_t scope, uint32_t inner)
{
    while (inner != scope && inner != GRAPH_ROOT)
        inner = graph_scope(graph, inner)->parent;
    return inner == scope;
}
