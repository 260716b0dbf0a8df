/* memory_parts.h - the inside of memory.h: slots and queues (memory_queue.c), the plan's hooks (memory_hooks.c), the operations
 * (memory.c). */
#ifndef GRAPH_MEMORY_PARTS_H
#define GRAPH_MEMORY_PARTS_H

#include "graph/memory.h"

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_CLAIMED, SLOT_LATER, SLOT_PARKED };

/* A task between becoming ready and its end. */
struct slot {
    enum slot_state state;
    uint32_t node;
    uint32_t next; /* in its queue, or among the free ones: index + 1 */
    unsigned attempt;
    bool is_counted; /* as a step */
    uint64_t fence;
    int64_t time_ms; /* LATER: not before */
};

/* The queue of a session. */
struct queue {
    uint32_t first, last; /* index + 1 */
    uint32_t next;        /* among the queues that are not empty: scope + 1 */
    bool is_listed;
};

struct memory {
    struct plan plan;
    struct session session;
    struct memory_limits limits;
    struct memory_watcher watcher;
    struct region slots;
    struct region places;             /* per node of the graph, then per dynamic one: its slot + 1 */
    int64_t next_due_ms;              /* of the slots that wait for their time */
    struct queue *queues;             /* per scope */
    uint32_t first_queue, last_queue; /* B3: served in turn */
    uint32_t free_slot;
    struct region payloads; /* json_t * per dynamic node */
    struct plan_out out;
    size_t ready, claimed, later, parked;
    uint64_t fence, steps;
    bool has_ended, has_finished, is_stopped, has_stops;
    struct tsk_error *failure;
    uint32_t unmerged; /* the group whose merge failed last, + 1 */
};

static inline struct slot *slot_at(const struct memory *m, uint32_t index)
{
    return REGION_AT(&m->slots, struct slot, index);
}

/* memory_queue.c */
uint32_t memory_slot_new(struct memory *m, uint32_t node);
void memory_slot_free(struct memory *m, uint32_t index);
/* The slot of a node, NO_NODE: none. */
uint32_t memory_slot_of(const struct memory *m, uint32_t node);
/* Waits until that time; then memory_wake puts it into its queue. */
void memory_slot_later(struct memory *m, uint32_t index, int64_t at_ms);
void memory_wake(struct memory *m, int64_t now_ms);
/* Into the queue of its session. */
void memory_slot_ready(struct memory *m, uint32_t index);
/* The first of the first queue, which then goes to the end of the line. false: nothing is ready. */
bool memory_queue_take(struct memory *m, uint32_t *ret);
/* Takes a slot out of the middle of its queue. */
void memory_queue_remove(struct memory *m, uint32_t index);

/* memory_hooks.c */
extern const struct plan_hooks memory_hooks;
const char *memory_session_id(const struct memory *m, uint32_t scope);
/* The run's failure: the first, unless a later one says more. */
void memory_failure_keep(struct memory *m, const struct tsk_error *err, bool is_better);
void memory_task_dropped(struct memory *m, uint32_t node, enum outcome outcome);
/* Everything that follows from the plan's last steps: queues what became ready, ends what does not run. */
void memory_settle(struct memory *m);

#endif
