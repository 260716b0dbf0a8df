/* follow.c - waiting for a run that somebody else executes: in the kernel, for the byte that the runner holds while it lives.
 *
 *  F1  Of a run that needs a lock (of its request or its flow), the lock is looked at first and decides: it is taken before the run exists or continues, and
 *      released after its last stage is written (S2). So long as it names the run, a missing directory, a free byte and an old
 *      stage mean "not yet" or "in a moment". Once it does not, what is there is final.
 *  F2  A lock whose holder is dead is kept by leftovers only: nobody will write a stage for them.
 *  F3  A lock that names a run without being held as our runners hold it (another tool's, or one taken by hand) says nothing
 *      about runs of ours. */
#include "base/clock.h"
#include "base/fs.h"
#include "graph/rundir.h"
#include "lock/wait.h"
#include "run/book.h"
#include "run/detach.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FOLLOW_SETTLE_MS 5000
#define PAUSE_MIN_MS     1 /* between lock and byte; normally a fraction of a millisecond */
#define PAUSE_MAX_MS     50

struct follow {
    struct tsk_workspace *ws;
    char run_id[LOCK_ID_MAX]; /* whole, as soon as the run is there */
    struct run_lock lock;     /* without an id: not known yet, or none */
    int64_t deadline_ms;      /* < 0: none */
    int64_t settled_ms;       /* until then "not yet" and "in a moment" are waited for in any case */
    bool (*is_cancelled)(void *data);
    void *data;
};

static bool follow_is_over(const struct follow *f)
{
    return (f->deadline_ms >= 0 && clock_now().boot_ms >= f->deadline_ms) ||
           (f->is_cancelled && f->is_cancelled(f->data));
}

/* 0: nobody executes the run now; 1: somebody does, and the time is up or somebody asks whether it is. */
static int wait_for_byte_of(const struct follow *f, const struct rundir *run)
{
    int fd CLEANUP_FD = fs->openat(run->dir, "life", O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    int64_t left = f->deadline_ms < 0 ? CANCEL_LOOK_MS : f->deadline_ms - clock_now().boot_ms;
    if (fd < 0 || fs_lock_probe(fd, F_RDLCK, RUN_BYTE_RUNNER, 1, NULL) == 0)
        return 0;
    /* Shared: it is in nobody's way but a resumer's, who tries again (D2). */
    if (left > 0 && wait_for_byte(fd, F_RDLCK, RUN_BYTE_RUNNER, left < CANCEL_LOOK_MS ? left : CANCEL_LOOK_MS) == 0)
        return 0;
    return left <= 0 || errno == ETIMEDOUT || errno == EINTR ? 1 : 0;
}

/* The request of a run that is there; the run waited for a while. 0: nobody executes it, 1: somebody does, -1. */
static int look_once(struct follow *f, struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(f->ws, f->run_id, &run, err) < 0)
        return -1;
    snprintf(f->run_id, sizeof f->run_id, "%s", run.id);
    if (!f->lock.id[0] && book_run_stage(&run, &stage, err) == 0)
        f->lock = run_lock_of_stage(stage);
    int is_executed = wait_for_byte_of(f, &run);
    rundir_clear(&run);
    return is_executed;
}

static void pause_for(int64_t *pause_ms)
{
    clock_nap(*pause_ms);
    *pause_ms = *pause_ms * 2 < PAUSE_MAX_MS ? *pause_ms * 2 : PAUSE_MAX_MS;
}

/* Until nobody has the run any more (F1), or the time is up; -1: there is no such run, and nobody is about to make it. */
static int follow_wait_for_end(struct follow *f, struct tsk_error *err)
{
    for (int64_t pause_ms = PAUSE_MIN_MS;;) {
        bool was_locked = run_lock_is_taken_by(f->ws, &f->lock, f->run_id), had_lock = f->lock.id[0]; /* F1 to F3 */
        int found = look_once(f, err);
        if (found < 0 && (err->code != TSK_RUN_NOT_FOUND || !was_locked))
            return -1;
        bool is_unsettled = was_locked && found != 1 && clock_now().boot_ms < f->settled_ms;
        if (!is_unsettled && follow_is_over(f))
            return found < 0 ? -1 : 0;
        if (found == 1) {
            pause_ms = PAUSE_MIN_MS;
            continue;
        }
        if (!was_locked && (had_lock || !f->lock.id[0]))
            return 0;
        if (was_locked)
            pause_for(&pause_ms);
    }
}

int run_follow(struct tsk_workspace *ws, const char *run_id, const struct run_lock *lock, int64_t timeout_ms,
               bool (*is_cancelled)(void *data), void *data, json_t **ret_stage, struct tsk_error *err)
{
    struct rundir run;
    struct follow follow = {.ws = ws,
                            .settled_ms = clock_now().boot_ms + FOLLOW_SETTLE_MS,
                            .deadline_ms = timeout_ms < 0 ? -1 : clock_now().boot_ms + timeout_ms,
                            .is_cancelled = is_cancelled,
                            .data = data};
    snprintf(follow.run_id, sizeof follow.run_id, "%s", run_id);
    if (lock)
        follow.lock = *lock;
    if (follow_wait_for_end(&follow, err) < 0 || rundir_open(ws, follow.run_id, &run, err) < 0)
        return -1;
    int looked = book_run_stage(&run, ret_stage, err);
    rundir_clear(&run);
    return looked;
}
