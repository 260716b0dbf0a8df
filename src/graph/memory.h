/* memory.h - a run in the memory of this process: its queues, its channels, its claims, its joins. The runner (runner.h) executes
 * the tasks and writes the journal; the memory says which task is next and what follows from its end. A run that is resumed gets
 * its memory back by replaying the journal (replay.c).
 *
 * The life of a task:
 *
 *        ready --claim--> claimed --complete--> ended
 *          ^                | | |
 *          |   give_back ---+ | +--park--> parked (it has asked something)
 *          |                  |               |
 *          +-- later <--------+ (complete     +--unpark--> ready
 *                                with a retry)
 *
 * Invariants
 *  B1  A claim has a fence. Fences grow, and no two claims have the same. Completing, parking or returning a task with an old
 *      fence is refused and changes nothing, so a task that completes twice releases its successors once.
 *  B2  Completing is one step: the task's writes are applied, its requests are carried out, its edges are resolved, joins are
 *      merged, and tasks that became ready are queued.
 *  B3  A task is queued in the queue of its session only. Queues of different sessions are served in turn.
 *  B4  Time comes from the caller (now_ms).
 *
 * Not for several threads at once. */
#ifndef GRAPH_MEMORY_H
#define GRAPH_MEMORY_H

#include "graph/session.h"

/* Borrowed strings live until the next call that changes the run. */
struct claim {
    uint32_t slot; /* its place in the memory */
    uint64_t fence;
    uint32_t node;
    unsigned attempt;    /* 1, 2, … of this execution */
    uint32_t cycle;      /* the number of this execution: 1, 2, … */
    const char *task;    /* its name */
    const char *session; /* its session's id */
    /* Of a task that another one added: what it was added with; borrowed. NULL otherwise, also of a copy (plan_definition). */
    json_t *payload;
    bool is_asked; /* activated by name: its condition does not count */
};

/* What a task asks of the run. An array, in order, of objects:
 *   {"do": "next"|"goto", "task": NAME}   {"do": "again"}   {"do": "spawn", "task": NAME, "payload": {…}}
 *   {"do": "finish"|"cancel", "message": TEXT?}
 * A task of the root that has no edges runs in the branch that asks for it, as a copy (plan_is_lent). */
struct completion {
    enum outcome outcome; /* OK, FAILED, SKIPPED, STOPPED */
    struct effects effects;
    json_t *requests;         /* borrowed; NULL: none */
    int64_t retry_at_ms;      /* FAILED: 0: for good; else try again, not before */
    struct tsk_error *reason; /* FAILED: why; may be NULL */
};

enum run_state {
    RUN_ACTIVE,  /* something is ready, claimed, or waits for its time */
    RUN_WAITING, /* only questions are open */
    RUN_ENDED,
};

struct memory_status {
    enum run_state state;
    size_t ready, claimed, later, parked;
    int64_t next_due_ms; /* of `later`; INT64_MAX: none */
    uint64_t steps;
    bool has_failed, has_finished;
    const struct tsk_error *failure; /* borrowed; NULL: none */
};

/* Facts, reported as they happen. Names are borrowed for the call. */
struct memory_watcher {
    void (*branch_ended)(void *data, const char *session, const char *branch, bool has_failed);
    void (*group_ended)(void *data, const char *session, const char *group, enum outcome outcome);
    /* A branch's session ends: nobody reads its values any more. */
    void (*session_ends)(void *data, uint32_t scope, const char *session);
    void (*conflict)(void *data, const char *session, const char *key, const char *rule, const char *first,
                     const char *second);
    /* A task ended without having run: skipped, blocked or stopped. */
    void (*task_dropped)(void *data, const char *session, const char *task, uint32_t node, enum outcome outcome);
    /* The claimed tasks of that session are to be stopped; complete them as STOPPED. */
    void (*session_stops)(void *data, const char *session);
    void *data;
};

struct memory;

struct memory_limits {
    uint64_t max_steps;   /* 0: none */
    uint32_t max_cycles;  /* 0: none */
    uint64_t first_fence; /* fences are greater: a run that is resumed uses none twice */
};

/* `graph` is sealed and borrowed; the channel begins with `values` (may be NULL). */
int memory_new(const struct graph *graph, const char *session_id, const json_t *values,
               const struct memory_limits *limits, const struct memory_watcher *watcher, struct memory **ret,
               struct tsk_error *err);
void memory_free(struct memory *m);

/* false: nothing is ready now. */
bool memory_claim(struct memory *m, int64_t now_ms, struct claim *ret);
/* Counts the execution of the claimed task as a step and as a cycle. Returns false if a limit is exceeded; the task has ended then. */
bool memory_execute(struct memory *m, const struct claim *claim);
/* Marks the claimed task as passed over: it is neither a step nor a cycle. The caller completes it. */
void memory_pass(struct memory *m, const struct claim *claim);
/* For the replay of a journal: claims exactly that node, if it is ready or waits for its time. */
bool memory_claim_node(struct memory *m, uint32_t node, struct claim *ret);
/* The next claim of that node has this attempt. */
void memory_set_attempt(struct memory *m, uint32_t node, unsigned attempt);

/* false: the claim is not the task's present one, and nothing has changed (B1). */
bool memory_complete(struct memory *m, const struct claim *claim, struct completion *completion);
bool memory_give_back(struct memory *m, const struct claim *claim);
bool memory_park(struct memory *m, const struct claim *claim);
/* false: the task is not parked. */
bool memory_unpark(struct memory *m, uint32_t node);

/* The values that the claimed task may read; owned. */
json_t *memory_values(struct memory *m, const struct claim *claim, uint64_t *ret_version);
/* Nothing starts any more. */
void memory_stop(struct memory *m, const struct tsk_error *reason);
void memory_status(struct memory *m, struct memory_status *ret);
/* The values of the run itself; owned. */
json_t *memory_result(struct memory *m);
struct plan *memory_plan(struct memory *m);

#endif
