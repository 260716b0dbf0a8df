#include "lock/end.h"
#include "base/word.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define END_WAIT_MS 5000
#define PIDS_MAX    64

static int kill_failed(pid_t pid, struct tsk_error *err)
{
    int number = errno;
    error_set(err, TSK_ENVIRONMENT, "kill_failed", "pid", DIGITS(pid), "reason", strerrordesc_np(number), NULL);
    err->sys_errno = number;
    return -1;
}

/* Kills what `pid_fd` stands for and waits for its end. */
static int kill_and_wait(int pid_fd, pid_t pid, struct tsk_error *err)
{
    if (syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0) < 0)
        return errno == ESRCH ? 0 : kill_failed(pid, err);
    struct pollfd ended = {.fd = pid_fd, .events = POLLIN};
    int n;
    do
        n = poll(&ended, 1, END_WAIT_MS);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return 0;
    errno = ETIMEDOUT;
    return kill_failed(pid, err);
}

/* The pidfd is opened first, then it is checked that the process is still the one that was judged. */
static int end_process(const struct guard *guard, const struct judgement *found, bool by_life, pid_t pid,
                       struct tsk_error *err)
{
    int pid_fd = pid_open(pid);
    if (pid_fd < 0)
        return errno == ESRCH ? 0 : kill_failed(pid, err);
    bool is_it = true;
    if (by_life) {
        pid_t holders[PIDS_MAX];
        size_t count = guard_byte_holders(guard, GUARD_LIFE_BASE + (off_t)found->record.fence, holders, PIDS_MAX);
        is_it = false;
        for (size_t i = 0; i < count; i++)
            is_it = is_it || holders[i] == pid;
    } else if (found->record.hold != HOLD_FOREIGN) {
        is_it = proc_id_liveness(&found->record.holder) == LIVE_ALIVE;
    }
    int result = is_it ? kill_and_wait(pid_fd, pid, err) : 0;
    close(pid_fd);
    return result;
}

static int end_by_life(const struct guard *guard, const struct judgement *found, struct tsk_error *err)
{
    int64_t deadline = clock_now().boot_ms + END_WAIT_MS;
    off_t byte = GUARD_LIFE_BASE + (off_t)found->record.fence;
    pid_t pids[PIDS_MAX];
    while (guard_life_probe(guard, found->record.fence) == 1) {
        size_t count = guard_byte_holders(guard, byte, pids, PIDS_MAX);
        for (size_t i = 0; i < count; i++)
            if (end_process(guard, found, true, pids[i], err) < 0)
                return -1;
        if (count == 0 || clock_now().boot_ms > deadline) {
            if (guard_life_probe(guard, found->record.fence) == 0)
                return 0;
            errno = count ? ETIMEDOUT : EPERM; /* this process itself, or one whose /proc we may not read */
            return kill_failed(found->record.pid, err);
        }
        poll(NULL, 0, 2); /* the kernel is still closing what a killed process had */
    }
    return 0;
}

int end_holder(const struct guard *guard, const struct judgement *found, struct tsk_error *err)
{
    if (found->record.hold == HOLD_LIFE)
        return end_by_life(guard, found, err);
    if (found->record.hold == HOLD_LEASE)
        return error_set(err, TSK_INVALID_INPUT, "kill_no_process", "instance", found->record.instance, NULL);
    if (found->alive != LIVE_ALIVE || !found->record.pid) {
        errno = ESRCH;
        return kill_failed(found->record.pid, err);
    }
    return end_process(guard, found, false, found->record.pid, err);
}
