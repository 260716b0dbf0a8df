#include "lock/guard.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/lockers.h"
#include "base/word.h"
#include "lock/record.h"
#include "lock/wait.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct guard_state) == GUARD_LIFE_BASE, "the state must not reach into the life bytes");

/* What is written under byte 0: everything but the tickets. */
#define STATE_SIZE  offsetof(struct guard_state, tickets)
#define TICKET_BYTE 1

static const char magic[8] = "TSKGRD1\n";

/* 36 characters of a boot id to its 16 bytes; all zero if it is not one. */
static void boot_id_bytes(const char *text, unsigned char bytes[16])
{
    memset(bytes, 0, 16);
    for (size_t digit = 0; *text && digit < 32; text++) {
        if (!isxdigit((unsigned char)*text))
            continue;
        int value = isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10;
        bytes[digit / 2] = (unsigned char)(bytes[digit / 2] | value << (digit % 2 ? 0 : 4));
        digit++;
    }
}

/* All open guard descriptors of this process. A fork without exec must not keep our locks alive, also those that another
 * thread is just waiting for. (A spawned command gets a descriptor on purpose: no handler runs for it.) */
static struct {
    pthread_once_t once;
    pthread_mutex_t mutex;
    int *fds;
    size_t count, max;
} open_guards = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

static void guards_before_fork(void)
{
    pthread_mutex_lock(&open_guards.mutex);
}

static void guards_after_fork_parent(void)
{
    pthread_mutex_unlock(&open_guards.mutex);
}

static void guards_after_fork_child(void)
{
    for (size_t i = 0; i < open_guards.count; i++)
        fs->close(open_guards.fds[i]);
    open_guards.count = 0;
    pthread_mutex_unlock(&open_guards.mutex);
}

static void open_guards_init(void)
{
    pthread_atfork(guards_before_fork, guards_after_fork_parent, guards_after_fork_child);
}

static int open_guards_add(int fd)
{
    int result = 0;
    pthread_once(&open_guards.once, open_guards_init);
    pthread_mutex_lock(&open_guards.mutex);
    if (open_guards.count == open_guards.max) {
        size_t max = open_guards.max ? open_guards.max * 2 : 16;
        int *fds = realloc(open_guards.fds, max * sizeof *fds);
        result = fds ? 0 : -1;
        open_guards.fds = fds ? fds : open_guards.fds;
        open_guards.max = fds ? max : open_guards.max;
    }
    if (result == 0)
        open_guards.fds[open_guards.count++] = fd;
    pthread_mutex_unlock(&open_guards.mutex);
    return result;
}

static void open_guards_remove(int fd)
{
    pthread_mutex_lock(&open_guards.mutex);
    for (size_t i = 0; i < open_guards.count; i++)
        if (open_guards.fds[i] == fd) {
            open_guards.fds[i] = open_guards.fds[--open_guards.count];
            break;
        }
    if (open_guards.count == 0) {
        free(open_guards.fds);
        open_guards.fds = NULL;
        open_guards.max = 0;
    }
    pthread_mutex_unlock(&open_guards.mutex);
}

int guard_open(struct guard *guard, int guard_dir, const char *name, struct tsk_error *err)
{
    *guard = (struct guard)GUARD_INIT;
    if (!boot_id()[0]) {
        errno = EIO;
        return error_errno(err, "read", "/proc/sys/kernel/random/boot_id");
    }
    guard->fd = fs->openat(guard_dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (guard->fd >= 0 && open_guards_add(guard->fd) < 0) {
        fs_close(&guard->fd);
        errno = ENOMEM;
    }
    return guard->fd < 0 ? fs_error(err, "open", guard_dir, name) : 0;
}

void guard_drop_all(struct guard *guard)
{
    if (guard->fd < 0)
        return;
    fs_lock_try(guard->fd, F_UNLCK, 0, 0);
    if (guard->is_locked)
        pthread_sigmask(SIG_SETMASK, &guard->saved_signals, NULL);
    guard->is_locked = false;
}

void guard_close(struct guard *guard)
{
    guard_drop_all(guard); /* closing alone would not do: a child may have inherited the descriptor */
    guard_close_fd(&guard->fd);
}

void guard_close_fd(int *fd)
{
    if (*fd >= 0)
        open_guards_remove(*fd);
    fs_close(fd);
}

/* The guard is held for some ten microseconds; giving the processor away now and then is nearly always
 * enough. */
static int lock_byte(int fd, off_t byte)
{
    for (int i = 0; i < 200; i++) {
        if (fs_lock_try(fd, F_WRLCK, byte, 1) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -1;
        sched_yield();
    }
    /* A handler of the program that runs meanwhile is no reason to give up. */
    int64_t deadline = clock_now().boot_ms + GUARD_WAIT_MS, left;
    while ((left = deadline - clock_now().boot_ms) > 0) {
        if (wait_for_byte(fd, F_WRLCK, byte, left) == 0)
            return 0;
        if (errno != EINTR)
            return -1;
    }
    errno = ETIMEDOUT;
    return -1;
}

static int byte_failed(struct guard *guard, off_t byte, struct tsk_error *err)
{
    pid_t pid = 0;
    if (errno != ETIMEDOUT)
        return fs_error(err, "lock", guard->fd, NULL);
    guard_byte_holders(guard, byte, &pid, 1);
    return lockers_refuse(pid, TSK_ENVIRONMENT, "guard_busy", "guard_busy_unknown", err);
}

int guard_peek(struct guard *guard, struct tsk_error *err)
{
    ssize_t n = fs->pread(guard->fd, &guard->state, sizeof guard->state, 0);
    if (n < 0)
        return fs_error(err, "read", guard->fd, NULL);
    unsigned char now[16];
    boot_id_bytes(boot_id(), now);
    bool valid = n >= (ssize_t)STATE_SIZE && memcmp(guard->state.magic, magic, sizeof magic) == 0 &&
                 guard->state.boot_number < LOCK_FENCE_MAX >> 40 && guard->state.counter < (uint64_t)1 << 40;
    if (!valid)
        memset(&guard->state, 0, sizeof guard->state);
    guard->is_new_boot = !valid || memcmp(guard->state.boot_id, now, sizeof now) != 0;
    return 0;
}

int guard_lock_only(struct guard *guard, struct tsk_error *err)
{
    BUG(guard->is_locked);
    signals_hold(&guard->saved_signals);
    if (lock_byte(guard->fd, 0) < 0) {
        byte_failed(guard, 0, err);
        pthread_sigmask(SIG_SETMASK, &guard->saved_signals, NULL);
        return -1;
    }
    guard->is_locked = true;
    return 0;
}

int guard_lock(struct guard *guard, struct tsk_error *err)
{
    if (guard_lock_only(guard, err) < 0)
        return -1;
    if (guard_peek(guard, err) < 0) {
        guard_unlock(guard);
        return -1;
    }
    return 0;
}

void guard_unlock(struct guard *guard)
{
    fs_lock_try(guard->fd, F_UNLCK, 0, 1);
    guard->is_locked = false;
    pthread_sigmask(SIG_SETMASK, &guard->saved_signals, NULL);
}

static int write_state(struct guard *guard, struct tsk_error *err)
{
    ssize_t n = fs->pwrite(guard->fd, &guard->state, STATE_SIZE, 0);
    if (n == (ssize_t)STATE_SIZE)
        return 0;
    if (n >= 0)
        errno = ENOSPC;
    return fs_error(err, "write", guard->fd, NULL);
}

static int begin_boot(struct guard *guard, const struct now *now, uint64_t at_least, struct tsk_error *err)
{
    struct guard_state *state = &guard->state;
    memcpy(state->magic, magic, sizeof magic);
    boot_id_bytes(boot_id(), state->boot_id);
    uint64_t floor = at_least >> 40; /* the guard file was lost: what the lock file says must not be given again */
    state->boot_number = (state->boot_number > floor ? state->boot_number : floor) + 1;
    state->counter = 0;
    state->wall_offset_ms = now->wall_ms - now->boot_ms;
    if (write_state(guard, err) < 0)
        return -1;
    if (fs->fdatasync(guard->fd) < 0)
        return fs_error(err, "sync", guard->fd, NULL);
    guard->is_new_boot = false;
    return 0;
}

int guard_meet_boot(struct guard *guard, const struct now *now, uint64_t at_least, struct tsk_error *err)
{
    BUG(!guard->is_locked);
    if (at_least >= LOCK_FENCE_MAX)
        at_least = 0; /* nobody has given that one */
    return guard->is_new_boot ? begin_boot(guard, now, at_least, err) : 0;
}

int guard_next_fence(struct guard *guard, const struct now *now, uint64_t at_least, bool has_private, uint64_t *ret,
                     struct tsk_error *err)
{
    BUG(!guard->is_locked);
    if (guard_meet_boot(guard, now, at_least, err) < 0)
        return -1;
    guard->state.counter++;
    guard->state.has_private = has_private;
    /* A guard file that was lost or put back from a copy must not repeat what the lock file shows was given. */
    uint64_t next = (guard->state.boot_number << 40) + guard->state.counter;
    if (next <= at_least && at_least < LOCK_FENCE_MAX) {
        guard->state.boot_number = (at_least >> 40) + 1;
        guard->state.counter = 1;
    }
    if (write_state(guard, err) < 0)
        return -1;
    *ret = (guard->state.boot_number << 40) + guard->state.counter;
    return 0;
}

int guard_note_private(struct guard *guard, const struct now *now, uint64_t at_least, struct tsk_error *err)
{
    BUG(!guard->is_locked);
    if (guard_meet_boot(guard, now, at_least, err) < 0)
        return -1;
    guard->state.has_private = true;
    return write_state(guard, err);
}

int guard_next_ticket(struct guard *guard, uint64_t *ret, struct tsk_error *err)
{
    uint64_t ticket = 0;
    if (fs->pread(guard->fd, &ticket, sizeof ticket, (off_t)STATE_SIZE) < 0)
        return fs_error(err, "read", guard->fd, NULL);
    /* A lost or invalid counter must not lead to a place that is taken or out of range. */
    int result;
    if (ticket >= (uint64_t)1 << 60)
        ticket = 0;
    do
        result = fs_lock_try(guard->fd, F_WRLCK, GUARD_TICKET_BASE + (off_t)++ticket, 1);
    while (result < 0 && (errno == EAGAIN || errno == EACCES));
    if (result < 0)
        return error_errno(err, "lock", "ticket");
    ssize_t done = fs->pwrite(guard->fd, &ticket, sizeof ticket, (off_t)STATE_SIZE);
    if (done >= 0 && done < (ssize_t)sizeof ticket)
        errno = ENOSPC;
    if (done != (ssize_t)sizeof ticket)
        return fs_error(err, "write", guard->fd, NULL);
    *ret = ticket;
    return 0;
}

int guard_tickets_lock(struct guard *guard, sigset_t *saved, struct tsk_error *err)
{
    signals_hold(saved);
    if (lock_byte(guard->fd, TICKET_BYTE) == 0)
        return 0;
    byte_failed(guard, TICKET_BYTE, err);
    pthread_sigmask(SIG_SETMASK, saved, NULL);
    return -1;
}

void guard_tickets_unlock(struct guard *guard, const sigset_t *saved)
{
    fs_lock_try(guard->fd, F_UNLCK, TICKET_BYTE, 1);
    pthread_sigmask(SIG_SETMASK, saved, NULL);
}

bool guard_clock_was_stepped(const struct guard *guard, const struct now *now)
{
    if (guard->is_new_boot)
        return false;
    int64_t step = now->wall_ms - now->boot_ms - guard->state.wall_offset_ms;
    return step > 2000 || step < -2000;
}

int guard_life_take(struct guard *guard, uint64_t fence, struct tsk_error *err)
{
    if (fs_lock_try(guard->fd, F_WRLCK, GUARD_LIFE_BASE + (off_t)fence, 1) == 0)
        return 0;
    return error_errno(err, "lock", "life byte");
}

void guard_life_drop(struct guard *guard, uint64_t fence)
{
    fs_lock_try(guard->fd, F_UNLCK, GUARD_LIFE_BASE + (off_t)fence, 1);
}

int guard_life_probe(const struct guard *guard, uint64_t fence)
{
    /* As a reader: waiters hold read locks on the byte for an instant, and they are not the holder. */
    return fs_lock_probe(guard->fd, F_RDLCK, GUARD_LIFE_BASE + (off_t)fence, 1, NULL);
}

size_t guard_byte_holders(const struct guard *guard, off_t byte, pid_t *pids, size_t max)
{
    return lockers_find(guard->fd, byte, F_WRLCK, pids, max);
}
