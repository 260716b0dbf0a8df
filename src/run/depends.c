#include "run/depends.h"

#include <stdlib.h>

#define PATH_LENGTH_MAX 10   /* a cycle of at most this length is shown whole */
#define PATH_LOOK_MAX   1000 /* requests looked at for one path: many cycles must not cost more than finding them */

static uint32_t *number_array(size_t count)
{
    uint32_t *list = memory_zeroed(count + 1, sizeof *list);
    return list;
}

/* ---- the graph ------------------------------------------------------------------------------------------ */

static size_t add_edges(struct depends *d, const struct book_entry *entry, size_t at)
{
    json_each (json_object_get(entry->request.json, "depends_on"), i, id) {
        const struct book_entry *other = book_find(d->book, json_string_value(id));
        if (other && !other->is_done)
            d->to[at++] = (uint32_t)(other - d->book->entries);
    }
    return at;
}

static void make_graph(struct depends *d)
{
    size_t edges = 0, at = 0, count = d->book->count;
    for (size_t i = 0; i < count; i++)
        edges += json_array_size(json_object_get(d->book->entries[i].request.json, "depends_on"));
    d->to = number_array(edges);
    for (size_t i = 0; i < count; i++) {
        d->first[i] = (uint32_t)at;
        at = add_edges(d, &d->book->entries[i], at);
    }
    d->first[count] = (uint32_t)at;
}

/* ---- cycles --------------------------------------------------------------------------------------------- */

/* Tarjan's numbers. `stack` has what may still be in the component of something below; `way` is where we are. */
struct search {
    struct depends *d;
    uint32_t *index, *low, *next, *stack, *way;
    uint8_t *is_stacked;
    uint32_t counter, top, depth, cycles;
};

static void search_enter(struct search *s, uint32_t node)
{
    s->index[node] = s->low[node] = ++s->counter;
    s->next[node] = s->d->first[node];
    s->stack[s->top++] = node;
    s->is_stacked[node] = 1;
    s->way[s->depth++] = node;
}

static bool has_edge_to_itself(const struct depends *d, uint32_t node)
{
    for (uint32_t e = d->first[node]; e < d->first[node + 1]; e++)
        if (d->to[e] == node)
            return true;
    return false;
}

/* All above `node` on the stack is in one component with it. */
static void take_component(struct search *s, uint32_t node)
{
    bool is_cycle = s->stack[s->top - 1] != node || has_edge_to_itself(s->d, node);
    uint32_t number = is_cycle ? ++s->cycles : 0, other;
    do {
        other = s->stack[--s->top];
        s->is_stacked[other] = 0;
        s->d->cycle[other] = number;
    } while (other != node);
}

static void search_leave(struct search *s, uint32_t node)
{
    s->depth--;
    if (s->depth && s->low[node] < s->low[s->way[s->depth - 1]])
        s->low[s->way[s->depth - 1]] = s->low[node];
    if (s->low[node] == s->index[node])
        take_component(s, node);
}

static void search_from(struct search *s, uint32_t start)
{
    search_enter(s, start);
    while (s->depth) {
        uint32_t node = s->way[s->depth - 1];
        if (s->next[node] == s->d->first[node + 1]) {
            search_leave(s, node);
            continue;
        }
        uint32_t other = s->d->to[s->next[node]++];
        if (!s->index[other])
            search_enter(s, other);
        else if (s->is_stacked[other] && s->index[other] < s->low[node])
            s->low[node] = s->index[other];
    }
}

static void find_cycles(struct depends *d)
{
    size_t count = d->book->count;
    struct search s = {.d = d,
                       .index = number_array(count),
                       .low = number_array(count),
                       .next = number_array(count),
                       .stack = number_array(count),
                       .way = number_array(count),
                       .is_stacked = calloc(count + 1, 1)};
    BUG(!s.is_stacked);
    for (uint32_t i = 0; i < count; i++)
        if (!s.index[i])
            search_from(&s, i);
    free(s.index);
    free(s.low);
    free(s.next);
    free(s.stack);
    free(s.way);
    free(s.is_stacked);
}

void depends_init(struct depends *d, const struct book *book)
{
    *d = (struct depends){.book = book,
                          .first = number_array(book->count + 1),
                          .cycle = number_array(book->count),
                          .seen = number_array(book->count),
                          .from = number_array(book->count),
                          .queue = number_array(book->count)};
    make_graph(d);
    find_cycles(d);
}

void depends_clear(struct depends *d)
{
    free(d->first);
    free(d->to);
    free(d->cycle);
    free(d->seen);
    free(d->from);
    free(d->queue);
    *d = (struct depends){0};
}

/* ---- the way around ------------------------------------------------------------------------------------- */

/* The shortest way from `start` back to it, the nearest first: its last stop, from which `from` leads back. */
static bool find_way(struct depends *d, uint32_t start, uint32_t *ret_last)
{
    uint32_t head = 0, tail = 0;
    d->looks++;
    d->queue[tail++] = start;
    while (head < tail && head < PATH_LOOK_MAX) {
        uint32_t node = d->queue[head++];
        for (uint32_t e = d->first[node]; e < d->first[node + 1]; e++) {
            uint32_t other = d->to[e];
            if (other == start) {
                *ret_last = node;
                return true;
            }
            if (d->cycle[other] != d->cycle[start] || d->seen[other] == d->looks)
                continue;
            d->seen[other] = d->looks;
            d->from[other] = node;
            d->queue[tail++] = other;
        }
    }
    return false;
}

static uint32_t first_step(const struct depends *d, uint32_t start)
{
    uint32_t e = d->first[start];
    while (d->cycle[d->to[e]] != d->cycle[start])
        e++;
    return d->to[e];
}

static const char *name_of(const struct depends *d, uint32_t node)
{
    return d->book->entries[node].request.id;
}

void depends_put_path(struct depends *d, size_t entry, struct buf *path)
{
    uint32_t start = (uint32_t)entry, last = 0, stops[PATH_LENGTH_MAX], count = 0;
    bool is_found = find_way(d, start, &last);
    for (; is_found && last != start && count < PATH_LENGTH_MAX; last = d->from[last])
        stops[count++] = last;
    buf_puts(path, name_of(d, start));
    if (is_found && last == start)
        while (count)
            buf_printf(path, " → %s", name_of(d, stops[--count]));
    else
        buf_printf(path, " → %s → …", name_of(d, first_step(d, start)));
    buf_printf(path, " → %s", name_of(d, start));
}
