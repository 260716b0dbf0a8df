/* await.c - waiting until a lock could be taken, without taking it and without standing in line for it. */
#include "base/fs.h"
#include "lock/lock.h"
#include "lock/wait.h"

/* Until something has happened to it, at most CANCEL_LOOK_MS. */
static void wait_a_little(struct lock_target *target, struct lock_watch *watch, int64_t left_ms)
{
    struct guard guard = GUARD_INIT;
    struct judgement seen;
    struct tsk_error ignored;
    struct now now = clock_now();
    int file_fd CLEANUP_FD = -1;
    if (guard_open(&guard, target->guard_dir, target->guard_name, &ignored) < 0) {
        clock_nap(left_ms >= 0 && left_ms < CANCEL_LOOK_MS ? left_ms
                                                           : CANCEL_LOOK_MS); /* a read-only file system, say */
        return;
    }
    if (lock_judge(target, &guard, &now, &seen, &file_fd, &ignored) == 0 && seen.verdict == VERDICT_HELD)
        wait_for_change(&guard, target, &seen, file_fd, watch,
                        left_ms >= 0 && left_ms < CANCEL_LOOK_MS ? left_ms : CANCEL_LOOK_MS);
    guard_close(&guard);
}

int lock_await(struct lock_target *target, int64_t timeout_ms, bool (*is_cancelled)(void *data), void *data,
               struct judgement *ret, struct tsk_error *err)
{
    struct lock_watch watch = {.fd = -1};
    int64_t deadline = clock_now().boot_ms + timeout_ms;
    int result;
    for (;;) {
        int64_t left = timeout_ms < 0 ? -1 : deadline - clock_now().boot_ms;
        result = lock_inspect(target, ret, err);
        if (result < 0 || ret->verdict != VERDICT_HELD)
            break;
        if ((timeout_ms >= 0 && left <= 0) || (is_cancelled && is_cancelled(data))) {
            result = 1;
            break;
        }
        wait_a_little(target, &watch, left);
    }
    lock_watch_close(&watch);
    return result;
}
