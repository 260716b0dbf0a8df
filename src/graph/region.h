/* region.h - an array that grows in place: elements are named by index, never by a pointer that is kept.
 *
 *     struct region nodes = REGION_OF(struct graph_node);
 *     struct graph_node *node = region_add(&nodes, 1);   // zeroed; NULL: out of memory
 *     REGION_AT(&nodes, struct graph_node, index)
 *
 * Small arrays are on the heap. From REGION_MAP_MIN bytes on they are mappings of their own, which the kernel moves by changing
 * page tables: growing to a million tasks copies nothing. They use huge pages from the beginning if the system has them: the
 * first touch of a small page costs as much as running twenty tasks. */
#ifndef GRAPH_REGION_H
#define GRAPH_REGION_H

#include <stddef.h>
#include <stdint.h>

#define REGION_MAP_MIN (1u << 20)

struct region {
    void *data;
    size_t element; /* bytes */
    size_t count, room;
};

/* Kept out of the way of a task that does next to nothing: what it needs on the stack would cost each of them. */
#define RARE __attribute__((cold, noinline))

#define REGION_OF(type)                                                                                                \
    {                                                                                                                  \
        .element = sizeof(type)                                                                                        \
    }
#define REGION_AT(region, type, index) (&((type *)(region)->data)[index])

/* Room for `count` elements in all. -1: out of memory; the old content stays. */
int region_reserve(struct region *region, size_t count);
/* `count` more elements, zeroed; the first of them, or NULL. */
void *region_add(struct region *region, size_t count);
/* One more, not zeroed, for the hot path. */
static inline void *region_add_one(struct region *region)
{
    if (__builtin_expect(region->count == region->room, 0) && region_reserve(region, region->count + 1) < 0)
        return NULL;
    return (char *)region->data + region->count++ * region->element;
}
void region_clear(struct region *region);

#endif
