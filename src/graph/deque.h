/* deque.h - a worker's own queue of nodes: the owner pushes and pops at one end, others steal at the other.
 *
 * Chase and Lev's deque (2005) in C11 atomics. Instead of fences the two ends are exchanged sequentially consistent, which
 * costs the same on x86 and can be checked by ThreadSanitizer. An array that became too small is kept until the deque is
 * cleared: a thief may still read it. */
#ifndef GRAPH_DEQUE_H
#define GRAPH_DEQUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct deque_array {
    struct deque_array *older;
    int64_t size; /* a power of two */
    _Atomic uint32_t items[];
};

struct deque {
    _Atomic int64_t top __attribute__((aligned(64)));    /* where thieves take */
    _Atomic int64_t bottom __attribute__((aligned(64))); /* where the owner works */
    _Atomic(struct deque_array *) array;
};

bool deque_init(struct deque *deque);
void deque_clear(struct deque *deque);
/* Owner only. false: out of memory. */
bool deque_push(struct deque *deque, uint32_t item);
/* Owner only. false: empty. */
bool deque_pop(struct deque *deque, uint32_t *ret);
/* Anybody. false: empty, or somebody else was faster. */
bool deque_steal(struct deque *deque, uint32_t *ret);

static inline bool deque_is_empty(struct deque *deque)
{
    return atomic_load(&deque->bottom) <= atomic_load(&deque->top);
}

#endif
