#include "lock/wait.h"
#include "base/fs.h"
#include "base/lockers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* A byte lock has no deadline of its own, and a library must not use signals for one. So a thread blocks in
 * fcntl, which is a cancellation point, and the caller polls its eventfd; at the deadline the thread is
 * cancelled. */
struct byte_waiter {
    pthread_t thread;
    int fd;
    short type;
    off_t start;
    int event_fd;
    int result; /* 0, or errno; valid after the eventfd became readable or the thread was joined */
};

static void *byte_waiter_run(void *arg)
{
    struct byte_waiter *waiter = arg;
    int result;
    do
        result = fs_lock_wait(waiter->fd, waiter->type, waiter->start, 1);
    while (result < 0 && errno == EINTR);
    waiter->result = result < 0 ? errno : 0;
    uint64_t one = 1;
    if (write(waiter->event_fd, &one, sizeof one) < 0)
        waiter->result = errno;
    return NULL;
}

static int byte_waiter_start(struct byte_waiter *waiter, int fd, short type, off_t start)
{
    *waiter = (struct byte_waiter){.fd = fd, .type = type, .start = start, .result = ECANCELED};
    waiter->event_fd = eventfd(0, EFD_CLOEXEC);
    if (waiter->event_fd < 0)
        return -1;
    sigset_t all, saved;
    sigfillset(&all);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    pthread_sigmask(SIG_BLOCK, &all, &saved);
    int result = pthread_create(&waiter->thread, &attr, byte_waiter_run, waiter);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attr);
    if (result == 0)
        return 0;
    close(waiter->event_fd);
    errno = result;
    return -1;
}

/* Ends the thread; 0 if the byte was locked, else -1 and errno. `reason` is 0 when the thread has reported.
 */
static int byte_waiter_stop(struct byte_waiter *waiter, int reason)
{
    if (reason)
        pthread_cancel(waiter->thread);
    pthread_join(waiter->thread, NULL);
    close(waiter->event_fd);
    errno = waiter->result == ECANCELED ? reason : waiter->result;
    return waiter->result ? -1 : 0;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline_ms)
{
    int timeout = -1;
    if (deadline_ms >= 0) {
        int64_t left = deadline_ms - clock_now().boot_ms;
        timeout = left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
    }
    return poll(fds, count, timeout);
}

static int64_t deadline_after(int64_t timeout_ms)
{
    return timeout_ms < 0 ? -1 : clock_now().boot_ms + timeout_ms;
}

static bool is_past(int64_t deadline_ms)
{
    return deadline_ms >= 0 && clock_now().boot_ms >= deadline_ms;
}

/* Polls until something is readable: 0; the deadline: ETIMEDOUT; a signal: EINTR; a look that is true: EAGAIN. */
static int poll_for(struct pollfd *fds, nfds_t count, int64_t deadline, wait_look *look, void *data)
{
    for (;;) {
        int64_t next = look ? deadline_after(SECOND_LOOK_MS) : -1;
        int n = poll_until(fds, count, next >= 0 && (deadline < 0 || next < deadline) ? next : deadline);
        if (n != 0)
            return n > 0 ? 0 : errno;
        if (is_past(deadline))
            return ETIMEDOUT;
        if (look && is_past(next) && look(data))
            return EAGAIN;
    }
}

int wait_for_byte(int fd, short type, off_t start, int64_t timeout_ms)
{
    return wait_looking_for_byte(fd, type, start, timeout_ms, NULL, NULL);
}

int wait_for_file(int fd, int dir, const char *path, int64_t timeout_ms, struct tsk_error *err)
{
    pid_t pid = 0;
    int64_t deadline = clock_now().boot_ms + timeout_ms, left = timeout_ms;
    int result = fs_lock_try(fd, F_WRLCK, 0, 1);
    while (result < 0 && (errno == EAGAIN || errno == EACCES || errno == EINTR) && left > 0) {
        result = wait_for_byte(fd, F_WRLCK, 0, left);
        left = deadline - clock_now().boot_ms;
    }
    if (result == 0)
        return 0;
    if (errno != ETIMEDOUT)
        return fs_error(err, "lock", dir, path);
    lockers_find(fd, 0, F_WRLCK, &pid, 1);
    lockers_refuse(pid, TSK_CONFLICT, "file_busy_by", "file_busy", err);
    return error_add(err, "path", path);
}

int wait_looking_for_byte(int fd, short type, off_t start, int64_t timeout_ms, wait_look *look, void *data)
{
    if (timeout_ms < 0 && !look)
        return fs_lock_wait(fd, type, start, 1);
    int64_t deadline = deadline_after(timeout_ms);
    struct byte_waiter waiter;
    if (byte_waiter_start(&waiter, fd, type, start) < 0)
        return -1;
    struct pollfd ready = {.fd = waiter.event_fd, .events = POLLIN};
    int result = byte_waiter_stop(&waiter, poll_for(&ready, 1, deadline, look, data));
    if (result < 0) {
        /* The cancellation may have hit in the instant after the lock was granted. */
        int saved = errno;
        fs_lock_try(fd, F_UNLCK, start, 1);
        errno = saved;
    }
    return result;
}

int wait_for_turn(int fd, uint64_t ticket, int64_t timeout_ms, wait_look *look, void *data)
{
    int64_t deadline = deadline_after(timeout_ms);
    /* The one right before us is nearly always the last to go; then look whether an older one is left. */
    off_t before = GUARD_TICKET_BASE + (off_t)ticket - 1;
    for (;;) {
        int64_t left = deadline < 0 ? -1 : deadline - clock_now().boot_ms;
        if (deadline >= 0 && left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (fs_lock_try(fd, F_RDLCK, before, 1) < 0) {
            if (errno != EAGAIN && errno != EACCES)
                return -1;
            if (wait_looking_for_byte(fd, F_RDLCK, before, left, look, data) < 0)
                return -1;
        }
        fs_lock_try(fd, F_UNLCK, before, 1);
        off_t first;
        int found = fs_lock_probe(fd, F_RDLCK, GUARD_TICKET_BASE, (off_t)ticket, &first);
        if (found <= 0)
            return found;
        before = first;
    }
}

bool wait_briefly_for_life(const struct guard *guard)
{
    const off_t all = GUARD_TICKET_BASE - GUARD_LIFE_BASE;
    for (int i = 0; i < 200; i++) {
        if (fs_lock_probe(guard->fd, F_RDLCK, GUARD_LIFE_BASE, all, NULL) == 0)
            return true;
        sched_yield();
    }
    return false;
}

void lock_watch_close(struct lock_watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
}

/* A lock file as it was judged. */
struct judged {
    const struct lock_target *target;
    const struct judgement *judgement;
};

static bool has_changed(const struct lock_target *target, const struct judgement *judgement)
{
    struct stat st;
    return fs->fstatat(target->dir, target->file, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != judgement->st.st_ino ||
           st.st_dev != judgement->st.st_dev || st.st_ctim.tv_sec != judgement->st.st_ctim.tv_sec ||
           st.st_ctim.tv_nsec != judgement->st.st_ctim.tv_nsec; /* a spare file keeps its inode */
}

/* The second look: a lock that was forced away from a holder that lives on, or that is to be renewed for it. */
static bool must_be_judged(void *data)
{
    const struct judged *judged = data;
    const struct lock_record *record = &judged->judgement->record;
    return has_changed(judged->target, judged->judgement) ||
           clock_now().boot_ms >= record->expires_boot_ms - record->ttl_ms / 2;
}

/* Makes watch->fd readable when the judged file is unlinked, replaced or rewritten. Returns the watch's
 * number, or -1 if the system has none to spare, which only costs promptness. */
static int watch_file(struct lock_watch *watch, const struct lock_target *target, const struct judgement *judgement,
                      int file_fd, bool *ret_changed)
{
    char path[40];
    if (file_fd < 0)
        return -1;
    if (watch->fd < 0)
        watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file_fd);
    int number =
        watch->fd < 0 ? -1 : inotify_add_watch(watch->fd, path, IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_MODIFY);
    /* What happened before the watch was there would never wake us. */
    *ret_changed = has_changed(target, judgement);
    return number;
}

static void unwatch_file(struct lock_watch *watch, int number)
{
    char notes[4096];
    if (number < 0)
        return;
    inotify_rm_watch(watch->fd, number);
    while (read(watch->fd, notes, sizeof notes) > 0)
        ;
}

static int watch_process(const struct judgement *judgement)
{
    const struct lock_record *record = &judgement->record;
    if (!record->pid || judgement->alive != LIVE_ALIVE)
        return -1;
    int fd = pid_open(record->pid);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd >= 0 && poll(&ended, 1, 0) == 0)
        return fd;
    /* It has ended and nobody has collected it: that would wake us again and again. */
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A holder with a life byte: blocked in the kernel until it is dropped, by release or by death. Only a lock
 * that was forced away from a holder who lives on changes without that; hence the second look. */
static int wait_for_life(const struct guard *guard, struct judged *judged, int64_t deadline)
{
    off_t life = GUARD_LIFE_BASE + (off_t)judged->judgement->record.fence;
    struct byte_waiter waiter;
    if (byte_waiter_start(&waiter, guard->fd, F_RDLCK, life) < 0)
        return errno;
    struct pollfd ready = {.fd = waiter.event_fd, .events = POLLIN};
    int reason = poll_for(&ready, 1, deadline, must_be_judged, judged);
    byte_waiter_stop(&waiter, reason);
    fs_lock_try(guard->fd, F_UNLCK, life, 1);
    return reason;
}

static int wait_for_watch(struct lock_watch *watch, const struct lock_target *target, const struct judgement *judgement,
                          int file_fd, int64_t deadline)
{
    bool changed = false;
    int number = watch_file(watch, target, judgement, file_fd, &changed);
    int pid_fd CLEANUP_FD = watch_process(judgement);
    struct pollfd fds[] = {{.fd = number < 0 ? -1 : watch->fd, .events = POLLIN}, {.fd = pid_fd, .events = POLLIN}};
    int reason = changed ? 0 : poll_for(fds, 2, deadline, NULL, NULL);
    unwatch_file(watch, number);
    return reason;
}

/* The longest time without a look at the lock, for the rare changes that nothing announces. */

int wait_for_change(const struct guard *guard, const struct lock_target *target, const struct judgement *judgement,
                    int file_fd, struct lock_watch *watch, int64_t timeout_ms)
{
    bool has_life = judgement->record.hold == HOLD_LIFE && judgement->is_parsed;
    struct judged judged = {target, judgement};
    int64_t longest = has_life ? 60 * SECOND_LOOK_MS : SECOND_LOOK_MS;
    int64_t look = judgement->recheck_ms >= 0 && judgement->recheck_ms < longest ? judgement->recheck_ms + 1 : longest;
    bool is_final = timeout_ms >= 0 && timeout_ms <= look;
    int64_t deadline = deadline_after(is_final ? timeout_ms : look);
    int reason = has_life ? wait_for_life(guard, &judged, deadline)
                          : wait_for_watch(watch, target, judgement, file_fd, deadline);
    if ((reason == ETIMEDOUT && !is_final) || reason == EAGAIN)
        reason = 0;
    errno = reason;
    return reason ? -1 : 0;
}
