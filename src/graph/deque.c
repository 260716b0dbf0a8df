#include "graph/deque.h"

#include <stdlib.h>

static struct deque_array *array_new(int64_t size, struct deque_array *older)
{
    struct deque_array *array = malloc(sizeof *array + (size_t)size * sizeof array->items[0]);
    if (array) {
        array->older = older;
        array->size = size;
    }
    return array;
}

bool deque_init(struct deque *deque)
{
    struct deque_array *array = array_new(256, NULL);
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    atomic_init(&deque->array, array);
    return array != NULL;
}

void deque_clear(struct deque *deque)
{
    struct deque_array *array = atomic_load(&deque->array);
    while (array) {
        struct deque_array *older = array->older;
        free(array);
        array = older;
    }
}

static struct deque_array *deque_grow(struct deque *deque, struct deque_array *old, int64_t top, int64_t bottom)
{
    struct deque_array *array = array_new(old->size * 2, old);
    if (!array)
        return NULL;
    for (int64_t i = top; i < bottom; i++)
        atomic_store_explicit(&array->items[i & (array->size - 1)],
                              atomic_load_explicit(&old->items[i & (old->size - 1)], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&deque->array, array, memory_order_release);
    return array;
}

bool deque_push(struct deque *deque, uint32_t item)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);
    struct deque_array *array = atomic_load_explicit(&deque->array, memory_order_relaxed);
    if (bottom - top >= array->size && !(array = deque_grow(deque, array, top, bottom)))
        return false;
    atomic_store_explicit(&array->items[bottom & (array->size - 1)], item, memory_order_relaxed);
    /* Sequentially consistent: a pusher looks for sleepers afterwards, and a worker looks for work before it sleeps. */
    atomic_store(&deque->bottom, bottom + 1);
    return true;
}

bool deque_pop(struct deque *deque, uint32_t *ret)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    if (bottom < atomic_load_explicit(&deque->top, memory_order_relaxed))
        return false; /* nobody but us could have added something */
    struct deque_array *array = atomic_load_explicit(&deque->array, memory_order_relaxed);
    atomic_store(&deque->bottom, bottom);
    int64_t top = atomic_load(&deque->top);
    if (top > bottom) {
        atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
        return false;
    }
    *ret = atomic_load_explicit(&array->items[bottom & (array->size - 1)], memory_order_relaxed);
    if (top < bottom)
        return true;
    /* The last one: against the thieves. */
    bool is_ours = atomic_compare_exchange_strong(&deque->top, &top, top + 1);
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
    return is_ours;
}

bool deque_steal(struct deque *deque, uint32_t *ret)
{
    int64_t top = atomic_load(&deque->top);
    int64_t bottom = atomic_load(&deque->bottom);
    if (top >= bottom)
        return false;
    struct deque_array *array = atomic_load_explicit(&deque->array, memory_order_acquire);
    uint32_t item = atomic_load_explicit(&array->items[top & (array->size - 1)], memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&deque->top, &top, top + 1))
        return false;
    *ret = item;
    return true;
}
