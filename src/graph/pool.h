/* pool.h - the plan on threads: C functions as tasks, work stealing, nothing allocated or locked per task.
 *
 *  W1  A worker continues at once with the first node that its task made ready, so that a chain needs no queue. It puts the
 *      other ready nodes into its deque, and steals when its deque is empty. The nodes that are ready at the beginning are not
 *      queued at all: workers take them in slices from the graph.
 *  W2  Each worker counts the ended nodes of the root, and adds its count to the total when it runs out of work. So the run has
 *      ended when the last worker has done that, not before.
 *  W3  A worker that pushes looks for a sleeper afterwards; a worker that wants to sleep announces it first and then looks for
 *      work. Both are sequentially consistent: no node waits while a worker sleeps.
 *  W4  A task's worker applies its writes and requests after it succeeded and before it reports its end to the plan.
 *  W5  A task that waits for its retry is in the timer heap; its worker is free. */
#ifndef GRAPH_POOL_H
#define GRAPH_POOL_H

#include "graph/channel.h"
#include "graph/deque.h"
#include "graph/plan.h"
#include "graph/session.h"

#include <semaphore.h>

/* What a task asked for. */
struct request {
    struct request *next;
    enum { REQUEST_NEXT, REQUEST_GOTO, REQUEST_SPAWN, REQUEST_FINISH, REQUEST_CANCEL } kind;
    uint32_t target;
    tsk_task_function *run;
    void *arg;
    char *text; /* name or message */
};

struct retry {
    int64_t at_ms; /* on the boot clock */
    uint32_t node;
    unsigned attempt; /* the next one */
};

struct tsk_call {
    struct worker *worker;
    struct session *session;
    uint32_t node;
    unsigned attempt;
    struct effects effects; /* these three are empty between two tasks */
    struct request *requests, **last_request;
    char *message;
};

struct worker {
    struct deque deque;
    struct tsk_context *context;
    pthread_t thread;
    struct tsk_call call; /* of the task it runs: made once, because filling one costs more than a small task */
    struct plan_out out;
    uint32_t head_at, head_end; /* its slice of the heads */
    uint64_t steps;
    uint64_t seed; /* for choosing a victim */
    bool is_started;
};

struct tsk_context {
    const struct graph *graph;
    struct plan plan;
    struct session session;
    struct tsk_context_options options;
    char *session_id;
    struct worker *workers;
    unsigned worker_count;
    _Atomic uint32_t head; /* heads that no worker has taken yet begin here */
    _Atomic unsigned idle;
    _Atomic uint32_t unmerged; /* the group whose merge failed last, + 1 */
    _Atomic bool has_ended, is_cancelled, cancel_is_seen, has_finished;
    sem_t wake;
    _Atomic uint64_t steps;
    _Atomic int64_t next_retry_ms; /* INT64_MAX: none */
    pthread_mutex_t mutex;         /* of what follows */
    struct retry *retries;         /* a heap */
    size_t retry_count, retry_room;
    struct tsk_error *failure;        /* the first, or the outermost group's */
    json_t *cycles;                   /* of merged branches: task -> count */
    struct tsk_context *parent;       /* of which it is a branch; only compared */
    uint8_t *is_wanted;               /* tsk_context_begin_at: nodes that are to run; NULL: all */
    struct task_detail retry_default; /* of tasks that have no retries of their own */
    bool has_run, is_merged;
};

/* Runs the context's plan to its end on its workers. */
int pool_run(struct tsk_context *context, struct tsk_error *err);
/* W3: after something became ready. */
void pool_wake_one(struct tsk_context *context);
/* The run's error: the first, unless a later one says more. */
void pool_failure_keep(struct tsk_context *context, const struct tsk_error *err, bool is_better);

/* pool_retry.c: false: it may not be tried again. */
bool pool_retry_later(struct tsk_context *context, uint32_t node, unsigned attempt);
/* One that is due. */
bool pool_retry_take(struct tsk_context *context, struct retry *ret);
/* What waits in that scope is due at once, to be ended. */
void pool_retries_stop(struct tsk_context *context, uint32_t scope);

/* pool_session.c */
extern const struct plan_hooks pool_hooks;

#endif
