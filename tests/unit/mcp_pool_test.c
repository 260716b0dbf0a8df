/* The pool of worker threads, with the starts of threads held back: as on a machine that lets nobody begin. */
#include "base/clock.h"
#include "harness/test.h"
#include "mcp/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { JOBS = 32 };

static struct {
    void *(*run)(void *);
    void *arg;
} held[2000];
static unsigned created, begun;
static bool holds_back;
static atomic_uint working;
static atomic_bool may_end;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    held[created].run = run;
    held[created++].arg = arg;
    if (holds_back)
        return 0;
    begun = created;
    return __real_pthread_create(thread, attr, run, arg);
}

static void let_begin(void)
{
    pthread_t thread;
    holds_back = false;
    for (; begun < created; begun++) {
        ASSERT_INT(__real_pthread_create(&thread, NULL, held[begun].run, held[begun].arg), 0);
        pthread_detach(thread);
    }
}

static void block(void *ignored)
{
    (void)ignored;
    atomic_fetch_add(&working, 1);
    while (!atomic_load(&may_end))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void end(struct mcp_pool *pool)
{
    atomic_store(&may_end, true);
    ASSERT(pool_drain(pool, 60000));
    pool_free(pool);
}

TEST(threads_that_did_not_begin_yet_are_not_asked_for_again)
{
    struct mcp_pool *pool = pool_new();
    holds_back = true;
    for (int i = 0; i < JOBS; i++)
        pool_submit(pool, block, NULL);
    unsigned few = created;
    for (int64_t until = clock_now().boot_ms + 5 * POOL_STALL_MS; clock_now().boot_ms < until;)
        ASSERT(pool_nudge(pool));
    ASSERT_INT(created, few);
    let_begin();
    end(pool);
}

TEST(every_job_in_line_gets_a_thread_when_those_before_it_block)
{
    struct mcp_pool *pool = pool_new();
    for (int i = 0; i < JOBS; i++)
        pool_submit(pool, block, NULL);
    for (int64_t until = clock_now().boot_ms + 60000; atomic_load(&working) < JOBS && clock_now().boot_ms < until;)
        pool_nudge(pool);
    ASSERT_INT(atomic_load(&working), JOBS);
    ASSERT_INT(created, JOBS);
    end(pool);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_gate(void *ignored)
{
    (void)ignored;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

TEST(however_many_jobs_block_there_are_no_more_threads_than_the_maximum)
{
    struct mcp_pool *pool = pool_new();
    pthread_mutex_lock(&gate);
    for (int i = 0; i < POOL_MAX + 8; i++)
        pool_submit(pool, pass_gate, NULL);
    for (int64_t until = clock_now().boot_ms + 60000; created < POOL_MAX && clock_now().boot_ms < until;)
        ASSERT(pool_nudge(pool));
    for (int64_t until = clock_now().boot_ms + 5 * POOL_STALL_MS; clock_now().boot_ms < until;)
        ASSERT(pool_nudge(pool));
    ASSERT_INT(created, POOL_MAX);
    pthread_mutex_unlock(&gate);
    end(pool);
}
