#include "graph/region.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* A mapping is whole huge pages. */
static size_t huge_round(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

static void *map_pages(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

static void *map_grow(void *old, size_t old_bytes, size_t bytes)
{
    void *data = mremap(old, old_bytes, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        return NULL;
    madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

/* From the heap into a mapping. */
static void *heap_to_map(void *old, size_t used, size_t bytes)
{
    void *data = map_pages(bytes);
    if (data && used)
        memcpy(data, old, used);
    if (data)
        free(old);
    return data;
}

int region_reserve(struct region *region, size_t count)
{
    if (count <= region->room)
        return 0;
    size_t old_bytes = region->room * region->element;
    size_t room = region->room ? region->room * 2 : 16;
    while (room < count)
        room *= 2;
    size_t bytes = room * region->element;
    void *data;
    if (bytes >= REGION_MAP_MIN) {
        bytes = huge_round(bytes);
        room = bytes / region->element;
        data = old_bytes >= REGION_MAP_MIN ? map_grow(region->data, huge_round(old_bytes), bytes)
                                           : heap_to_map(region->data, region->count * region->element, bytes);
    } else {
        data = realloc(region->data, bytes);
    }
    if (!data)
        return -1;
    region->data = data;
    region->room = room;
    return 0;
}

void *region_add(struct region *region, size_t count)
{
    if (region_reserve(region, region->count + count) < 0)
        return NULL;
    char *first = (char *)region->data + region->count * region->element;
    /* A mapping is zero until it is written, and elements are never taken back. */
    if (region->room * region->element < REGION_MAP_MIN)
        memset(first, 0, count * region->element);
    region->count += count;
    return first;
}

void region_clear(struct region *region)
{
    size_t bytes = region->room * region->element;
    if (bytes >= REGION_MAP_MIN)
        munmap(region->data, huge_round(bytes));
    else
        free(region->data);
    *region = (struct region){.element = region->element};
}
