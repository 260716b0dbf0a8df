/* backend.h - where a run lives: its queues, its channels, its leases, its joins. The engine that executes tasks (runner.h, a
 * worker) knows nothing else of a run than these operations. `memory` keeps a run in this process; a backend on a server has
 * the same operations and passes the same tests (tests/unit/backend_test.c, tests/property).
 *
 * The life of a task:
 *
 *        ready --claim--> leased --complete--> ended
 *          ^                | | |
 *          |   expire, -----+ | +--park--> parked (it has asked something)
 *          |   give_back      |               |
 *          +-- later <--------+ (complete     +--unpark--> ready
 *                                with a retry)
 *
 * Invariants
 *  B1  A claim is a lease with a fence: fences grow, no two claims have the same. Renewing, completing, parking and returning
 *      a claim with a fence that is not the task's present one is refused with LOCK_LOST and changes nothing: a task that completes
 *      twice releases nothing twice.
 *  B2  Completing is one step: what the task wrote is applied, what it asked for is done, its edges are resolved, joins are
 *      merged, what became ready is queued.
 *  B3  A task is queued in the queue of its session only. Queues of different sessions are served in turn.
 *  B4  A lease that has run out goes back to its queue (expire). After BACKEND_TAKEOVERS_MAX takeovers the task fails: it kills
 *      its workers.
 *  B5  Time is what the caller says it is (now_ms); a server's backend takes its own.
 *
 * Not for several threads at once. */
#ifndef GRAPH_BACKEND_H
#define GRAPH_BACKEND_H

#include "graph/session.h"

#define BACKEND_TAKEOVERS_MAX 3

/* Borrowed strings live until the next call that changes the run. */
struct claim {
    uint32_t slot; /* the backend's */
    uint64_t fence;
    uint32_t node;
    unsigned attempt;    /* 1, 2, … of this execution */
    uint32_t cycle;      /* the number of this execution, counting from 1 */
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
    RUN_ACTIVE,  /* something is ready, leased, or waits for its time */
    RUN_WAITING, /* only questions are open */
    RUN_ENDED,
};

struct backend_status {
    enum run_state state;
    size_t ready, leased, later, parked;
    int64_t next_due_ms; /* of `later`; INT64_MAX: none */
    uint64_t steps;
    bool has_failed, has_finished;
    const struct tsk_error *failure; /* borrowed; NULL: none */
};

/* Facts, told as they happen. Names are borrowed for the call. */
struct backend_watcher {
    void (*branch_ended)(void *data, const char *session, const char *branch, bool has_failed);
    void (*group_ended)(void *data, const char *session, const char *group, enum outcome outcome);
    void (*conflict)(void *data, const char *session, const char *key, const char *rule, const char *first,
                     const char *second);
    /* A task ended without having run: skipped, blocked or stopped. */
    void (*task_dropped)(void *data, const char *session, const char *task, uint32_t node, enum outcome outcome);
    /* The leased tasks of that session are to be stopped; complete them as STOPPED. */
    void (*session_stops)(void *data, const char *session);
    void *data;
};

struct backend;

struct backend_ops {
    const char *name;
    /* 1: a claim, 0: nothing is ready now, -1. */
    int (*claim)(struct backend *backend, int64_t now_ms, int64_t lease_ms, struct claim *ret, struct tsk_error *err);
    int (*renew)(struct backend *backend, const struct claim *claim, int64_t now_ms, int64_t lease_ms,
                 struct tsk_error *err);
    int (*complete)(struct backend *backend, const struct claim *claim, struct completion *completion,
                    struct tsk_error *err);
    int (*give_back)(struct backend *backend, const struct claim *claim, struct tsk_error *err);
    int (*park)(struct backend *backend, const struct claim *claim, struct tsk_error *err);
    int (*unpark)(struct backend *backend, uint32_t node, struct tsk_error *err);
    int (*expire)(struct backend *backend, int64_t now_ms, struct tsk_error *err);
    /* The values that the claimed task may read; owned. */
    int (*values)(struct backend *backend, const struct claim *claim, json_t **ret, uint64_t *ret_version,
                  struct tsk_error *err);
    /* Nothing starts any more. */
    int (*stop)(struct backend *backend, const struct tsk_error *reason, struct tsk_error *err);
    void (*status)(struct backend *backend, struct backend_status *ret);
    /* The values of the run itself; owned. */
    json_t *(*result)(struct backend *backend);
    void (*free)(struct backend *backend);
};

struct backend {
    const struct backend_ops *ops;
};

struct backend_limits {
    uint64_t max_steps;   /* 0: none */
    uint32_t max_cycles;  /* 0: none */
    uint64_t first_fence; /* fences are greater: a run that is resumed goes on where nobody else was */
};

/* A run in this process. `graph` is sealed and borrowed; `values` (may be NULL) is what the channel begins with. */
int backend_memory_new(const struct graph *graph, const char *session_id, const json_t *values,
                       const struct backend_limits *limits, const struct backend_watcher *watcher, struct backend **ret,
                       struct tsk_error *err);
/* For the replay of a journal: claims exactly that node if it is ready or waits for its time. Returns 0 if it is not. */
int backend_memory_claim_node(struct backend *backend, uint32_t node, struct claim *ret, struct tsk_error *err);
/* The next claim of that node has this attempt. */
void backend_memory_set_attempt(struct backend *backend, uint32_t node, unsigned attempt);
struct plan *backend_memory_plan(struct backend *backend);

#endif
