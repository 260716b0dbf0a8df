#include "mcp/pool.h"
#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_SIZE = 1 << 20, IDLE_S = 10 };

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
    bool is_ending;
};

static void in_future(struct timespec *ret, int64_t ms)
{
    clock_gettime(CLOCK_MONOTONIC, ret);
    ret->tv_sec += ms / 1000;
    ret->tv_nsec += ms % 1000 * 1000000;
    if (ret->tv_nsec >= 1000000000) {
        ret->tv_sec++;
        ret->tv_nsec -= 1000000000;
    }
}

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

static struct job *take(struct mcp_pool *pool)
{
    struct job *job = pool->first;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->waiting--;
    return job;
}

/* With the mutex held: false when there was nothing to do for a while. */
static bool wait_for_work(struct mcp_pool *pool)
{
    struct timespec end;
    in_future(&end, IDLE_S * 1000);
    pool->idle++;
    pthread_cond_broadcast(&pool->rest);
    int result = 0;
    while (!pool->first && !pool->is_ending && result == 0)
        result = pthread_cond_timedwait(&pool->work, &pool->mutex, &end);
    pool->idle--;
    return pool->first != NULL;
}

static void *worker(void *arg)
{
    struct mcp_pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    while (pool->first || wait_for_work(pool)) {
        struct job *job = take(pool);
        pthread_mutex_unlock(&pool->mutex);
        job->run(job->arg);
        free(job);
        pthread_mutex_lock(&pool->mutex);
    }
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
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attr, worker, pool);
    pthread_attr_destroy(&attr);
    if (result == 0)
        pool->threads++;
    return result == 0 || pool->threads ? 0 : -1;
}

void pool_submit(struct mcp_pool *pool, void (*run)(void *), void *arg)
{
    struct job *job = calloc(1, sizeof *job);
    BUG(!job);
    *job = (struct job){.run = run, .arg = arg};
    pthread_mutex_lock(&pool->mutex);
    *pool->last = job;
    pool->last = &job->next;
    pool->waiting++;
    int result = 0;
    if (pool->waiting > pool->idle && pool->threads < POOL_MAX)
        result = add_thread(pool);
    else
        pthread_cond_signal(&pool->work);
    job = result < 0 ? take(pool) : NULL;
    pthread_mutex_unlock(&pool->mutex);
    if (job) {
        job->run(job->arg);
        free(job);
    }
}

bool pool_drain(struct mcp_pool *pool, int64_t timeout_ms)
{
    struct timespec end;
    in_future(&end, timeout_ms);
    pthread_mutex_lock(&pool->mutex);
    int result = 0;
    while ((pool->first || pool->threads != pool->idle) && result == 0)
        result = pthread_cond_timedwait(&pool->rest, &pool->mutex, &end);
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
