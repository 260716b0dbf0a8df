/* render_ascii.c - the picture for a terminal: one line per node, in an order in which they could run, beside lanes. A
 * lane is an edge that has begun above and ends below; it forks under the node that it leaves and joins above the node
 * that it leads to. A group is drawn from its fork to its join, with the lanes that pass it at its left.
 *
 *     * a                      * fetch
 *     +-.                      +-- fork checks (strict)
 *     * | b                    |-- branch lint
 *     | * c                    |   * lint
 *     +-'                      +-- join checks
 *     * d                      * store
 *
 * With more lanes than a terminal is wide nobody could follow them: then each node says what it waits for. */
#include "graph/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES_MAX 32 /* bits of a mask */
#define WAITS_MAX 8  /* names behind an arrow */

/* ---- order ---------------------------------------------------------------------------------------------- */

/* The nodes of a scope, predecessors first, otherwise as they were added. Owned by the caller. */
static uint32_t *scope_order(const struct graph *graph, uint32_t scope, uint32_t *left)
{
    uint32_t count = graph_scope(graph, scope)->node_count, done = 0;
    uint32_t *order = memory_zeroed(count + 1, sizeof *order);
    for (uint32_t i = 0; i < count; i++)
        left[graph_scope_node(graph, scope, i)] = graph_indegree(graph, graph_scope_node(graph, scope, i));
    /* Depth first from each head, so that a chain stays together. */
    uint32_t *stack CLEANUP_FREE = malloc((count + 1) * sizeof *stack), depth = 0;
    BUG(!stack);
    for (uint32_t i = count; i > 0; i--)
        if (!left[graph_scope_node(graph, scope, i - 1)])
            stack[depth++] = graph_scope_node(graph, scope, i - 1);
    while (depth) {
        uint32_t node = stack[--depth], begin = depth;
        order[done++] = node;
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s))
            if (--left[s.node] == 0)
                stack[depth++] = s.node;
        for (uint32_t a = begin, b = depth; a + 1 < b; a++, b--) { /* the first successor on top */
            uint32_t kept = stack[a];
            stack[a] = stack[b - 1];
            stack[b - 1] = kept;
        }
    }
    return order;
}

/* For every node the nodes before it, as one list per node: heads[node] is an index + 1 into links. */
struct before {
    uint32_t *heads;
    struct {
        uint32_t node, next;
    } * links;
};

static struct before before_make(const struct graph *graph)
{
    struct before before = {.heads = calloc(graph->nodes.count + 1, sizeof *before.heads),
                            .links = calloc((size_t)graph->edge_count + 1, sizeof *before.links)};
    uint32_t used = 0;
    BUG(!before.heads || !before.links);
    for (uint32_t n = (uint32_t)graph->nodes.count; n > 0; n--)
        for (struct successor s = graph_first(graph, n - 1); s.node != NO_NODE; graph_next(graph, &s)) {
            before.links[used].node = n - 1;
            before.links[used].next = before.heads[s.node];
            before.heads[s.node] = ++used;
        }
    return before;
}

static void before_free(struct before *before)
{
    free(before->heads);
    free(before->links);
}

/* ---- lanes ---------------------------------------------------------------------------------------------- */

struct drawing {
    const struct graph *graph;
    struct before before;
    uint32_t *left; /* room for scope_order */
    struct buf *out;
    char indent[1024];
};

/* The lanes of one scope. `open` has a bit for each that leads somewhere; to[] says where. */
struct lanes {
    uint32_t open, to[LANES_MAX];
};

static unsigned lowest_bit(uint32_t mask)
{
    return (unsigned)__builtin_ctz(mask);
}

static unsigned bit_count(uint32_t mask)
{
    return mask ? LANES_MAX - (unsigned)__builtin_clz(mask) : 0;
}

/* The lanes that lead to the node; none: it is a head and gets the first free one, 0 if there is no more. */
static uint32_t lanes_to(const struct lanes *lanes, uint32_t node)
{
    uint32_t mask = 0;
    for (uint32_t rest = lanes->open; rest; rest &= rest - 1)
        if (lanes->to[lowest_bit(rest)] == node)
            mask |= 1U << lowest_bit(rest);
    return mask ? mask : ~lanes->open & -~lanes->open;
}

/* Open a lane for every edge that leaves the node in lane `at`: the first goes straight on, the others to the right of
 * it. Returns their mask; false in `fits` if there are not enough lanes. */
static uint32_t lanes_from(struct lanes *lanes, const struct graph *graph, uint32_t node, unsigned at, bool *fits)
{
    uint32_t mask = 0;
    for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
        uint32_t free_lanes = ~lanes->open & (UINT32_MAX << at);
        if (!free_lanes) {
            *fits = false;
            return mask;
        }
        lanes->to[lowest_bit(free_lanes)] = s.node;
        lanes->open |= 1U << lowest_bit(free_lanes);
        mask |= 1U << lowest_bit(free_lanes);
    }
    return mask;
}

/* Whether the scope can be drawn with lanes at all. */
static bool lanes_fit(const struct graph *graph, const uint32_t *order, uint32_t count)
{
    struct lanes lanes = {0};
    bool fits = true;
    for (uint32_t i = 0; i < count && fits; i++) {
        uint32_t into = lanes_to(&lanes, order[i]);
        lanes.open &= ~into;
        fits = into != 0;
        if (fits)
            lanes_from(&lanes, graph, order[i], lowest_bit(into), &fits);
    }
    return fits;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

/* The lanes of a row: `mark` is in lane `at`, the open ones pass. */
static void put_lanes(struct drawing *d, uint32_t open, unsigned at, char mark)
{
    buf_puts(d->out, d->indent);
    for (unsigned i = 0; i < bit_count(open | 1U << at); i++)
        buf_printf(d->out, "%c ", i == at ? mark : open >> i & 1 ? '|' : ' ');
}

static void put_gap(struct drawing *d, uint32_t open)
{
    buf_puts(d->out, d->indent);
    for (unsigned i = 0; i < bit_count(open); i++)
        buf_printf(d->out, "%c%s", open >> i & 1 ? '|' : ' ', i + 1 < bit_count(open) ? " " : "");
    buf_puts(d->out, "\n");
}

/* A row that links lane `at` with all lanes of the mask; lanes that only pass are crossed. */
static void put_links(struct drawing *d, uint32_t open, unsigned at, uint32_t mask, char corner)
{
    unsigned end = bit_count(mask) - 1, last = bit_count(open | mask);
    buf_puts(d->out, d->indent);
    for (unsigned i = 0; i < last; i++) {
        bool is_inside = i >= at && i < end;
        char mark = i == at ? '+' : mask >> i & 1 ? corner : open >> i & 1 ? '|' : is_inside ? '-' : ' ';
        buf_printf(d->out, i + 1 < last ? "%c%c" : "%c\n", mark, is_inside ? '-' : ' ');
    }
}

/* A row of a group in lane `at`; its words stand to the right of all lanes that pass it. */
static void put_group_lanes(struct drawing *d, uint32_t open, unsigned at, char mark)
{
    buf_puts(d->out, d->indent);
    for (unsigned i = 0; i < bit_count(open | 1U << at); i++)
        buf_printf(d->out, "%c%c", i == at ? mark : open >> i & 1 ? '|' : i > at ? '-' : ' ', i < at ? ' ' : '-');
    buf_puts(d->out, "- ");
}

static void put_waits(struct drawing *d, uint32_t node)
{
    char buf[GRAPH_NAME_MAX];
    unsigned shown = 0;
    for (uint32_t link = d->before.heads[node]; link; link = d->before.links[link - 1].next)
        if (shown++ < WAITS_MAX)
            buf_printf(d->out, "%s%s", shown > 1 ? ", " : "  <- ",
                       graph_name(d->graph, d->before.links[link - 1].node, buf));
    if (shown > WAITS_MAX)
        buf_printf(d->out, ", … (%u)", shown);
}

/* ---- nodes, groups, scopes ------------------------------------------------------------------------------ */

static void ascii_draw_scope(struct drawing *d, uint32_t scope);

/* `open`: the lanes that pass. */
static void ascii_draw_group(struct drawing *d, uint32_t node, uint32_t open, unsigned at, bool says_waits)
{
    const struct graph_group *group = graph_group(d->graph, graph_node(d->graph, node)->detail);
    char name[GRAPH_NAME_MAX], branch[GRAPH_NAME_MAX];
    size_t len = strlen(d->indent);
    put_group_lanes(d, open, at, '+');
    buf_printf(d->out, "fork %s (", graph_name(d->graph, node, name));
    render_policy(group, d->out);
    buf_puts(d->out, ")");
    if (says_waits)
        put_waits(d, node);
    buf_puts(d->out, "\n");
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(d->graph, s)->next_branch) {
        put_group_lanes(d, open, at, '|');
        buf_printf(d->out, "branch %s%s\n", graph_scope_name(d->graph, s, branch),
                   graph_scope(d->graph, s)->is_critical ? " (critical)" : "");
        size_t end = len;
        for (unsigned lane = 0; lane < bit_count(open | 1U << at) && end + 8 < sizeof d->indent; lane++, end += 2)
            memcpy(d->indent + end, (open | 1U << at) >> lane & 1 ? "| " : "  ", 3);
        if (end + 8 < sizeof d->indent)
            memcpy(d->indent + end, "  ", 3);
        ascii_draw_scope(d, s);
        d->indent[len] = '\0';
    }
    put_group_lanes(d, open, at, '+');
    buf_printf(d->out, "join %s\n", graph_name(d->graph, node, name));
}

static void draw_node(struct drawing *d, uint32_t node, uint32_t open, unsigned at)
{
    char name[GRAPH_NAME_MAX];
    if (graph_node(d->graph, node)->is_group) {
        ascii_draw_group(d, node, open, at, false);
        return;
    }
    put_lanes(d, open, at, '*');
    buf_printf(d->out, "%s\n", graph_name(d->graph, node, name));
}

static void draw_with_lanes(struct drawing *d, const uint32_t *order, uint32_t count)
{
    struct lanes lanes = {0};
    uint32_t ended = 0; /* the lane of the node above, if nothing waits for it: a line keeps the next head apart */
    bool fits = true;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t into = lanes_to(&lanes, order[i]);
        unsigned at = lowest_bit(into);
        if (into == ended)
            put_gap(d, lanes.open);
        if (into & (into - 1))
            put_links(d, lanes.open, at, into, '\'');
        lanes.open &= ~into;
        draw_node(d, order[i], lanes.open, at);
        uint32_t passing = lanes.open, from = lanes_from(&lanes, d->graph, order[i], at, &fits);
        ended = from ? 0 : 1U << at;
        if (from & (from - 1))
            put_links(d, passing, at, from, '.');
    }
}

static void draw_as_list(struct drawing *d, const uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[GRAPH_NAME_MAX];
        if (graph_node(d->graph, order[i])->is_group) {
            ascii_draw_group(d, order[i], 0, 0, true);
            continue;
        }
        buf_printf(d->out, "%s* %s", d->indent, graph_name(d->graph, order[i], name));
        put_waits(d, order[i]);
        buf_puts(d->out, "\n");
    }
}

static void ascii_draw_scope(struct drawing *d, uint32_t scope)
{
    uint32_t *order = scope_order(d->graph, scope, d->left), count = graph_scope(d->graph, scope)->node_count;
    if (lanes_fit(d->graph, order, count))
        draw_with_lanes(d, order, count);
    else
        draw_as_list(d, order, count);
    free(order);
}

void render_ascii(const struct graph *graph, struct buf *out)
{
    struct drawing d = {.graph = graph, .before = before_make(graph), .out = out};
    d.left = memory_zeroed(graph->nodes.count + 1, sizeof *d.left);
    ascii_draw_scope(&d, GRAPH_ROOT);
    free(d.left);
    before_free(&d.before);
}
