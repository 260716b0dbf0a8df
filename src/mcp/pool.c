#include "mcp/pool.h"
#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { MCP_STACK_SIZE = 1 << 20, IDLE_S = 10 };

struct job {
    void (*run)(void *);
    void *arg;
    struct job *next;
};

struct mcp_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, rest; /* something to do; a thread has nothing to do any more */
    struct job *first, **last;
    unsigned waiting; /* jobs in line */
    unsigned threads, idle;
    unsigned called;   /* idle ones that were woken and did not begin yet */
    unsigned starting; /* new ones that did not begin yet */
    int64_t moved_ms;  /* when the line moved */
    bool is_ending;
};

struct mcp_pool *pool_new(void)
{
    struct mcp_pool *pool = calloc(1, sizeof *pool);
    pthread_condattr_t attr;
    BUG(!pool);
    pool->last = &pool->first;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, &attr);
    pthread_cond_init(&pool->rest, &attr);
    pthread_condattr_destroy(&attr);
    return pool;
}

static struct job *pool_take(struct mcp_pool *pool)
{
    struct job *job = pool->first;
    pool->moved_ms = clock_now().boot_ms;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->waiting--;
    return job;
}

/* With the mutex held: false when nobody called for a while. */
static bool wait_for_call(struct mcp_pool *pool)
{
    struct timespec end = clock_deadline(CLOCK_MONOTONIC, IDLE_S * 1000);
    pool->idle++;
    pthread_cond_broadcast(&pool->rest);
    int result = 0;
    while (!pool->called && !pool->is_ending && result == 0)
        result = pthread_cond_timedwait(&pool->work, &pool->mutex, &end);
    bool is_called = pool->called > 0;
    if (is_called)
        pool->called--;
    pool->idle--;
    return is_called;
}

static void *pool_work(void *arg)
{
    struct mcp_pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    pool->starting--;
    do {
        while (pool->first) {
            struct job *job = pool_take(pool);
            pthread_mutex_unlock(&pool->mutex);
            job->run(job->arg);
            free(job);
            pthread_mutex_lock(&pool->mutex);
        }
    } while (wait_for_call(pool) || pool->first);
    pool->threads--;
    pthread_cond_broadcast(&pool->rest);
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* With the mutex held. Without a thread at all the job must be done by the caller: then -1. */
static int add_thread(struct mcp_pool *pool)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, MCP_STACK_SIZE);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attr, pool_work, pool);
    pthread_attr_destroy(&attr);
    if (result == 0) {
        pool->threads++;
        pool->starting++;
    }
    return result == 0 || pool->threads ? 0 : -1;
}

/* With the mutex held: one more thread for the line. */
static int call_one(struct mcp_pool *pool)
{
    if (pool->idle > pool->called) {
        pool->called++;
        pthread_cond_signal(&pool->work);
        return 0;
    }
    return pool->threads < POOL_MAX ? add_thread(pool) : 0;
}

void pool_submit(struct mcp_pool *pool, void (*run)(void *), void *arg)
{
    struct job *job = memory_zeroed(1, sizeof *job);
    *job = (struct job){.run = run, .arg = arg};
    pthread_mutex_lock(&pool->mutex);
    if (!pool->first)
        pool->moved_ms = clock_now().boot_ms;
    *pool->last = job;
    pool->last = &job->next;
    pool->waiting++;
    int result = pool->threads - pool->idle + pool->called < POOL_FEW ? call_one(pool) : 0;
    job = result < 0 ? pool_take(pool) : NULL;
    pthread_mutex_unlock(&pool->mutex);
    if (job) {
        job->run(job->arg);
        free(job);
    }
}

/* With the mutex held. At most as many come as there are, and those on their way count: on a busy machine the line stands still
 * although nobody is blocked, and a thread for each job would only wait for its turn. */
static void pool_wake_worker(struct mcp_pool *pool)
{
    unsigned most = pool->waiting < pool->threads ? pool->waiting : pool->threads;
    if (pool->first && clock_now().boot_ms - pool->moved_ms >= POOL_STALL_MS)
        for (unsigned i = pool->called + pool->starting; i < most; i++)
            call_one(pool);
}

bool pool_nudge(struct mcp_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool_wake_worker(pool);
    bool is_waiting = pool->first != NULL;
    pthread_mutex_unlock(&pool->mutex);
    return is_waiting;
}

bool pool_drain(struct mcp_pool *pool, int64_t timeout_ms)
{
    int64_t end_ms = clock_now().boot_ms + timeout_ms;
    pthread_mutex_lock(&pool->mutex);
    while ((pool->first || pool->threads != pool->idle) && clock_now().boot_ms < end_ms) {
        struct timespec soon = clock_deadline(CLOCK_MONOTONIC, pool->first ? POOL_STALL_MS : 100);
        pthread_cond_timedwait(&pool->rest, &pool->mutex, &soon);
        pool_wake_worker(pool);
    }
    bool is_empty = !pool->first && pool->threads == pool->idle;
    pthread_mutex_unlock(&pool->mutex);
    return is_empty;
}

void pool_free(struct mcp_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->work);
    while (pool->threads)
        pthread_cond_wait(&pool->rest, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->rest);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
