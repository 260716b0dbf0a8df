#include "graph/memory_parts.h"

static void queue_list(struct memory *m, uint32_t scope)
{
    struct queue *queue = &m->queues[scope];
    if (queue->is_listed)
        return;
    queue->is_listed = true;
    queue->next = 0;
    if (m->last_queue)
        m->queues[m->last_queue - 1].next = scope + 1;
    else
        m->first_queue = scope + 1;
    m->last_queue = scope + 1;
}

void memory_slot_ready(struct memory *m, uint32_t index)
{
    struct slot *slot = slot_at(m, index);
    uint32_t scope = plan_scope_of(&m->plan, slot->node);
    struct queue *queue = &m->queues[scope];
    slot->state = SLOT_READY;
    slot->next = 0;
    if (queue->last)
        slot_at(m, queue->last - 1)->next = index + 1;
    else
        queue->first = index + 1;
    queue->last = index + 1;
    m->ready++;
    queue_list(m, scope);
}

static size_t queue_place(const struct memory *m, uint32_t node)
{
    return node & PLAN_DYNAMIC ? m->plan.graph->nodes.count + (node & ~PLAN_DYNAMIC) : node;
}

uint32_t memory_slot_of(const struct memory *m, uint32_t node)
{
    size_t place = queue_place(m, node);
    uint32_t slot = place < m->places.count ? *REGION_AT(&m->places, uint32_t, place) : 0;
    return slot ? slot - 1 : NO_NODE;
}

static void place_set(struct memory *m, uint32_t node, uint32_t slot)
{
    size_t place = queue_place(m, node);
    if (place >= m->places.count)
        BUG(!region_add(&m->places, place + 1 - m->places.count));
    *REGION_AT(&m->places, uint32_t, place) = slot;
}

void memory_slot_later(struct memory *m, uint32_t index, int64_t at_ms)
{
    slot_at(m, index)->state = SLOT_LATER;
    slot_at(m, index)->time_ms = at_ms;
    m->later++;
    if (m->later == 1 || at_ms < m->next_due_ms)
        m->next_due_ms = at_ms;
}

void memory_wake(struct memory *m, int64_t now_ms)
{
    if (!m->later || m->next_due_ms > now_ms)
        return;
    m->next_due_ms = INT64_MAX;
    for (uint32_t i = 0; i < m->slots.count; i++) {
        const struct slot *slot = slot_at(m, i);
        if (slot->state != SLOT_LATER)
            continue;
        if (slot->time_ms > now_ms) {
            m->next_due_ms = slot->time_ms < m->next_due_ms ? slot->time_ms : m->next_due_ms;
            continue;
        }
        m->later--;
        memory_slot_ready(m, i);
    }
}

uint32_t memory_slot_new(struct memory *m, uint32_t node)
{
    uint32_t index = m->free_slot;
    if (index) {
        m->free_slot = slot_at(m, index - 1)->next;
    } else {
        BUG(!region_add(&m->slots, 1));
        index = (uint32_t)m->slots.count;
    }
    *slot_at(m, index - 1) = (struct slot){.node = node, .attempt = 1};
    place_set(m, node, index);
    return index - 1;
}

void memory_slot_free(struct memory *m, uint32_t index)
{
    place_set(m, slot_at(m, index)->node, 0);
    slot_at(m, index)->state = SLOT_FREE;
    slot_at(m, index)->next = m->free_slot;
    m->free_slot = index + 1;
}

/* The first of the first queue, which then goes to the end of the line. */
bool memory_queue_take(struct memory *m, uint32_t *ret)
{
    if (!m->first_queue)
        return false;
    uint32_t scope = m->first_queue - 1;
    struct queue *queue = &m->queues[scope];
    *ret = queue->first - 1;
    queue->first = slot_at(m, *ret)->next;
    m->first_queue = queue->next;
    if (!m->first_queue)
        m->last_queue = 0;
    queue->is_listed = false;
    if (queue->first)
        queue_list(m, scope);
    else
        queue->last = 0;
    m->ready--;
    return true;
}

/* Takes a slot out of the middle of its queue. */
void memory_queue_remove(struct memory *m, uint32_t index)
{
    struct queue *queue = &m->queues[plan_scope_of(&m->plan, slot_at(m, index)->node)];
    uint32_t before = 0;
    for (uint32_t at = queue->first; at - 1 != index; at = slot_at(m, at - 1)->next)
        before = at;
    uint32_t after = slot_at(m, index)->next;
    if (before)
        slot_at(m, before - 1)->next = after;
    else
        queue->first = after;
    if (queue->last == index + 1)
        queue->last = before;
    m->ready--;
    if (queue->first)
        return;
    /* An empty queue must not be listed. */
    uint32_t scope = plan_scope_of(&m->plan, slot_at(m, index)->node);
    uint32_t *link = &m->first_queue, last = 0;
    while (*link != scope + 1) {
        last = *link;
        link = &m->queues[*link - 1].next;
    }
    *link = queue->next;
    if (m->last_queue == scope + 1)
        m->last_queue = last;
    queue->is_listed = false;
}
