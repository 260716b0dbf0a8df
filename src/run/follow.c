/* follow.c - waiting for a run that somebody else executes: in the kernel, for the byte that the runner holds while it lives. */
#include "base/fs.h"
#include "graph/rundir.h"
#include "lock/lock.h"
#include "lock/wait.h"
#include "run/detach.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define LOOK_MS    1000 /* how often is_cancelled is asked */
#define RELEASE_MS 2000 /* from a run's end to the release of its lock; normally a fraction of a millisecond */
#define APPEAR_MS  5000 /* from the lock to the run's directory */

static bool is_running(const json_t *stage)
{
    return strcmp(json_get_string(stage, "status", ""), "RUNNING") == 0;
}

/* A run whose lock was just taken may not have its directory yet. */
static int open_soon(struct tsk_workspace *ws, const char *run_id, struct rundir *run, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + APPEAR_MS;
    while (rundir_open(ws, run_id, run, err) < 0) {
        if (err->code != TSK_RUN_NOT_FOUND || clock_now().boot_ms > until)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000000}, NULL);
    }
    return 0;
}

/* 0: the runner is gone; 1: the time is up. */
static int wait_for_runner(const struct rundir *run, int64_t timeout_ms, bool (*is_cancelled)(void *), void *data)
{
    int64_t deadline = clock_now().boot_ms + timeout_ms;
    int fd CLEANUP_FD = fs->openat(run->dir, "life", O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    for (;;) {
        int64_t left = timeout_ms < 0 ? LOOK_MS : deadline - clock_now().boot_ms;
        if (left <= 0 || (is_cancelled && is_cancelled(data)))
            return 1;
        /* Shared: it is in nobody's way but a resumer's, who tries again. */
        if (wait_for_byte(fd, F_RDLCK, RUN_BYTE_RUNNER, left < LOOK_MS ? left : LOOK_MS) == 0)
            return 0;
        if (errno != ETIMEDOUT && errno != EINTR)
            return 0;
    }
}

/* The run has ended; its request's lock is released last. */
static void wait_for_release(struct tsk_workspace *ws, const json_t *stage)
{
    struct tsk_error ignored;
    struct lock_target target;
    const char *request = json_get_string(stage, "request_id", NULL), *run = json_get_string(stage, "run_id", "");
    int64_t until = clock_now().boot_ms + RELEASE_MS;
    if (!request || lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_REQUEST), request, NULL, &ignored) < 0)
        return;
    for (struct judgement found; lock_inspect(&target, &found, &ignored) == 0;) {
        bool is_its = found.verdict == VERDICT_HELD && strcmp(found.record.run_id, run) == 0;
        if (!is_its || clock_now().boot_ms > until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    lock_target_clear(&target);
}

int run_follow(struct tsk_workspace *ws, const char *run_id, int64_t timeout_ms, bool (*is_cancelled)(void *data),
               void *data, json_t **ret_stage, struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (open_soon(ws, run_id, &run, err) < 0)
        return -1;
    int64_t deadline = clock_now().boot_ms + timeout_ms;
    int result = 0, looked;
    while ((looked = rundir_look(&run, &stage, err)) == 0 && is_running(stage) && result == 0) {
        int64_t left = timeout_ms < 0 ? -1 : deadline - clock_now().boot_ms;
        if (rundir_has_runner(&run)) {
            result = wait_for_runner(&run, timeout_ms < 0 || left > 0 ? left : 0, is_cancelled, data);
        } else { /* being made: nobody takes the byte before its runner has */
            result = (timeout_ms >= 0 && left <= 0) || (is_cancelled && is_cancelled(data));
            nanosleep(&(struct timespec){.tv_nsec = 5 * 1000000}, NULL);
        }
        json_free(&stage);
    }
    rundir_clear(&run);
    if (looked < 0)
        return -1;
    if (result == 0 && !is_running(stage))
        wait_for_release(ws, stage);
    *ret_stage = json_incref(stage);
    return 0;
}
