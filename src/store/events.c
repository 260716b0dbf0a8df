/* The writing end of the trail; invariants E1-E6 are in events.h. */
#include "base/clock.h"
#include "base/ident.h"
#include "base/lockers.h"
#include "base/who.h"
#include "base/word.h"
#include "store/segment.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "events.lock"

enum {
    SMALL_LINE = 2048,     /* an event of usual size is put together on the stack */
    TRAIL_WAIT_MS = 10000, /* for the lock of the trail */
    APPEND_ATTEMPTS = 16,  /* for what only another process's doing at the same moment can make fail */
};

/* ---- the line ----------------------------------------------------------------------------------------- */

static void put_optional(struct buf *b, const char *key, const char *value)
{
    if (value)
        buf_json_pair(b, key, value);
}

void event_put_line(struct buf *b, const struct now *now, const struct event *event)
{
    const char *data = event->data ? event->data : "{}";
    BUG(data[0] != '{' || strchr(data, '\n'));
    buf_puts(b, "{\"time\":\"");
    char time[TIME_TEXT_MAX];
    time_format_exact(now->wall_ms, time);
    buf_puts(b, time);
    buf_puts(b, "\"");
    buf_json_pair(b, "type", event->type);
    put_optional(b, "session_id", event->session_id);
    put_optional(b, "run_id", event->run_id);
    put_optional(b, "task_id", event->task_id);
    buf_json_key(b, "actor");
    buf_puts(b, event->actor ? event->actor : who_current_text());
    buf_json_key(b, "data");
    buf_puts(b, data);
    buf_puts(b, "}\n");
}

/* ---- the writing end ---------------------------------------------------------------------------------- */

void event_trail_init(struct event_trail *trail, int state_dir)
{
    *trail =
        (struct event_trail){.state_dir = state_dir, .fd = -1, .lock_fd = -1, .segment_max = EVENT_SEGMENT_MAX_DEFAULT};
}

void event_trail_clear(struct event_trail *trail)
{
    fs_close(&trail->fd);
    fs_close(&trail->lock_fd);
}

static int trail_lock(struct event_trail *trail, short type)
{
    if (trail->lock_fd < 0)
        trail->lock_fd = fs->openat(trail->state_dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (trail->lock_fd < 0)
        return -1;
    /* Writers hold it for some microseconds. A process that keeps it longer hangs, and must not make this one hang, too. */
    struct timespec pause = {.tv_nsec = 100 * 1000};
    int64_t deadline = clock_now().boot_ms + (trail->is_kept ? 0 : TRAIL_WAIT_MS);
    for (int i = 0;; i++) {
        if (fs_lock_try(trail->lock_fd, type, 0, 1) == 0) {
            trail->is_kept = false;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return -1;
        if (i >= APPEND_ATTEMPTS && clock_now().boot_ms >= deadline) {
            trail->is_kept = true;
            errno = ETIMEDOUT;
            return -1;
        }
        if (i < APPEND_ATTEMPTS) {
            sched_yield();
            continue;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 20 * 1000 * 1000)
            pause.tv_nsec *= 2;
    }
}

/* The process that holds the lock, or 0 if we cannot see it (another PID namespace, another user). */
static pid_t trail_holder(const struct event_trail *trail)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    pid_t pid = 0;
    if (fs->ofd_lock(trail->lock_fd, F_OFD_GETLK, &range) < 0 || range.l_type == F_UNLCK)
        return 0;
    if (range.l_pid > 0)
        return range.l_pid;
    lockers_find(trail->lock_fd, 0, range.l_type == F_WRLCK ? F_WRLCK : F_RDLCK, &pid, 1);
    return pid;
}

static int trail_lock_failed(const struct event_trail *trail, struct tsk_error *err)
{
    if (errno != ETIMEDOUT)
        return fs_error(err, "lock", trail->state_dir, LOCK_NAME);
    pid_t pid = trail_holder(trail);
    lockers_refuse(pid, TSK_ENVIRONMENT, "events_busy", "events_busy_unknown", err);
    if (!pid)
        return error_add_next(err, "fuser -v .aiflow/" LOCK_NAME);
    return -1;
}

static void trail_unlock(struct event_trail *trail)
{
    int saved = errno;
    fs_lock_try(trail->lock_fd, F_UNLCK, 0, 1);
    errno = saved;
}

static void keep_newest(void *context, uint64_t base)
{
    int64_t *newest = context;
    if ((int64_t)base > *newest)
        *newest = (int64_t)base;
}

/* The base of a segment that follows all closed ones. */
static int base_after_closed(int state_dir, uint64_t *ret_base)
{
    int64_t newest = -1;
    if (segment_each_closed(state_dir, keep_newest, &newest) < 0)
        return -1;
    *ret_base = 0;
    if (newest < 0)
        return 0;
    char name[SEGMENT_NAME_MAX];
    struct stat st;
    segment_name((uint64_t)newest, name);
    if (fs->fstatat(state_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    *ret_base = segment_end((uint64_t)newest, &st);
    return 0;
}

/* A new segment without a name. It is synced, so that no power cut can leave a trail without its first line.
 */
static int segment_write(int state_dir, uint64_t base, char private_name[FS_PRIVATE_NAME_MAX])
{
    char stream[33], header[SEGMENT_HEADER_MAX];
    random_hex(stream, 32);
    int len = snprintf(header, sizeof header, SEGMENT_HEADER_START "%" PRIu64 ",\"stream\":\"%s\"}}\n", base, stream);
    int fd = fs_temp_open(state_dir, 0600, private_name);
    if (fd < 0)
        return -1;
    if (fs_write_all(fd, header, (size_t)len) == 0 && fs->fdatasync(fd) == 0)
        return fd;
    int saved = errno;
    fs_close(&fd);
    if (private_name[0])
        fs->unlinkat(state_dir, private_name, 0);
    errno = saved;
    return -1;
}

/* Gives it the trail's name; another process may have done the same, which is as good. */
static int segment_publish(int state_dir, int fd, const char *private_name)
{
    int rc = fs_publish(fd, private_name, state_dir, TRAIL_NAME);
    int saved = errno;
    if (private_name[0])
        fs->unlinkat(state_dir, private_name, 0);
    errno = saved;
    return rc < 0 && errno != EEXIST ? -1 : 0;
}

/* Safe under the shared lock: nothing can be closed meanwhile, so everybody computes the same base. */
static int trail_create(int state_dir)
{
    uint64_t base;
    char private_name[FS_PRIVATE_NAME_MAX];
    if (base_after_closed(state_dir, &base) < 0)
        return -1;
    int fd CLEANUP_FD = segment_write(state_dir, base, private_name);
    return fd < 0 ? -1 : segment_publish(state_dir, fd, private_name);
}

/* A tail that cannot be read counts as torn: an event behind one that is would be acknowledged, and skipped by readers. */
static bool tail_is_torn(int fd, off_t size)
{
    char byte;
    return size > 0 && (fs->pread(fd, &byte, 1, size - 1) != 1 || byte != '\n');
}

/* Closes the segment `fd` and begins the next. Needs the exclusive lock. */
static int segment_rotate(int state_dir, int fd, uint64_t base)
{
    char name[SEGMENT_NAME_MAX], private_name[FS_PRIVATE_NAME_MAX];
    struct stat st;
    segment_name(base, name);
    if (fs->fstatat(state_dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST; /* never overwrite history */
        return -1;
    }
    if (fs->fstat(fd, &st) < 0)
        return -1;
    if (tail_is_torn(fd, st.st_size) && (fs->write(fd, "\n", 1) < 0 || fs->fstat(fd, &st) < 0))
        return -1;
    int next CLEANUP_FD = segment_write(state_dir, segment_end(base, &st), private_name);
    if (next < 0)
        return -1;
    if (fs->renameat2(state_dir, TRAIL_NAME, state_dir, name, 0) < 0) {
        int saved = errno;
        if (private_name[0])
            fs->unlinkat(state_dir, private_name, 0);
        errno = saved;
        return -1;
    }
    return segment_publish(state_dir, next, private_name);
}

/* A segment whose first line is damaged is closed under the base it would have had; readers take that from
 * its name. */
static int trail_recover(struct event_trail *trail)
{
    uint64_t base;
    struct stat st;
    trail_unlock(trail); /* two that hold it shared could never both have it exclusively */
    if (trail_lock(trail, F_WRLCK) < 0)
        return -1;
    int fd CLEANUP_FD = segment_open(trail->state_dir, TRAIL_NAME, O_RDWR | O_APPEND, &st);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    int is_good = segment_base(fd, &base);
    if (is_good)
        return is_good < 0 ? -1 : 0;
    if (base_after_closed(trail->state_dir, &base) < 0)
        return -1;
    return segment_rotate(trail->state_dir, fd, base);
}

/* 1: opened, 0: there was something to repair, try again, -1. */
static int trail_open(struct event_trail *trail, struct stat *st)
{
    fs_close(&trail->fd);
    int fd CLEANUP_FD = segment_open(trail->state_dir, TRAIL_NAME, O_RDWR | O_APPEND, st);
    if (fd < 0)
        return errno == ENOENT ? trail_create(trail->state_dir) : -1;
    int is_good = segment_base(fd, &trail->base);
    if (is_good <= 0)
        return is_good < 0 ? -1 : trail_recover(trail);
    trail->fd = fd;
    trail->dev = (uint64_t)st->st_dev;
    trail->ino = (uint64_t)st->st_ino;
    trail->clean_end = 0;
    fd = -1;
    return 1;
}

/* E5: makes trail->fd the segment that has the name now. */
static int trail_follow(struct event_trail *trail, struct stat *st)
{
    if (trail->fd >= 0 && fs->fstatat(trail->state_dir, TRAIL_NAME, st, AT_SYMLINK_NOFOLLOW) == 0 &&
        trail->ino == (uint64_t)st->st_ino && trail->dev == (uint64_t)st->st_dev)
        return 0;
    for (int i = 0; i < APPEND_ATTEMPTS; i++) {
        int rc = trail_open(trail, st);
        if (rc)
            return rc < 0 ? -1 : 0;
    }
    errno = EIO;
    return -1;
}

static bool is_long(const struct event_trail *trail, const struct stat *st)
{
    return (uint64_t)st->st_size >= trail->segment_max;
}

/* Exchanges the shared lock for the exclusive one if no other process is writing at this moment. The shared lock is
 * released first: two processes that keep theirs would refuse each other for ever. */
static bool trail_lock_exclusively(struct event_trail *trail)
{
    trail_unlock(trail);
    for (int i = 0; i < APPEND_ATTEMPTS; i++) {
        if (fs_lock_try(trail->lock_fd, F_WRLCK, 0, 1) == 0)
            return true;
        sched_yield();
    }
    return false;
}

/* Best effort: when it cannot be done now, the next append tries again. Afterwards some lock is held, and *st
 * is that of the segment to append to. */
static int trail_rotate(struct event_trail *trail, struct stat *st)
{
    sigset_t saved;
    signals_hold(&saved);
    if (trail_lock_exclusively(trail) && trail_follow(trail, st) == 0 && is_long(trail, st))
        segment_rotate(trail->state_dir, trail->fd, trail->base);
    int rc = trail_lock(trail, F_RDLCK);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return rc < 0 ? -1 : trail_follow(trail, st);
}

/* One write; afterwards *ret_offset is where the line begins, or -1 if a torn tail stands right before it.
 * `text` has a spare newline before the line. */
static int trail_write(struct event_trail *trail, const struct stat *st, const char *text, size_t len,
                       off_t *ret_offset)
{
    off_t size = st->st_size;
    bool is_torn = (uint64_t)size != trail->clean_end && tail_is_torn(trail->fd, size);
    const char *from = is_torn ? text : text + 1;
    size_t left = is_torn ? len : len - 1;
    ssize_t n;
    do {
        n = fs->write(trail->fd, from, left);
    } while (n < 0 && errno == EINTR);
    trail->clean_end = 0;
    if (n < 0)
        return -1;
    if ((size_t)n < left) {
        if (fs->write(trail->fd, "\n", 1) < 0) {
            /* the next append closes it, E4 */
        }
        errno = ENOSPC;
        return -1;
    }
    off_t end = lseek(trail->fd, 0, SEEK_CUR);
    off_t start = end - n;
    trail->clean_end = (uint64_t)end;
    bool is_glued = !is_torn && start != size && tail_is_torn(trail->fd, start);
    *ret_offset = is_glued ? -1 : start + is_torn;
    return 0;
}

static int append_locked(struct event_trail *trail, const char *text, size_t len, uint64_t *ret_id)
{
    struct stat st;
    if (trail_follow(trail, &st) < 0)
        return -1;
    if (is_long(trail, &st) && trail_rotate(trail, &st) < 0)
        return -1;
    off_t offset = -1;
    for (int i = 0; i < APPEND_ATTEMPTS && offset < 0; i++)
        if (trail_write(trail, &st, text, len, &offset) < 0)
            return -1;
    if (offset < 0) {
        errno = EIO;
        return -1;
    }
    if (ret_id)
        *ret_id = trail->base + (uint64_t)offset;
    return 0;
}

static int append_text(struct event_trail *trail, const struct buf *text, uint64_t *ret_id, struct tsk_error *err)
{
    if (trail_lock(trail, F_RDLCK) < 0)
        return trail_lock_failed(trail, err);
    int rc = append_locked(trail, text->data, text->len, ret_id);
    if (rc < 0)
        fs_error(err, "append to", trail->state_dir, TRAIL_NAME);
    trail_unlock(trail);
    return rc;
}

static int line_too_long(struct tsk_error *err, const char *type)
{
    error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, "event", type, NULL);
    return error_add_int(err, "limit", EVENT_LINE_MAX);
}

int event_append(struct event_trail *trail, const struct now *now, const struct event *event, uint64_t *ret_id,
                 struct tsk_error *err)
{
    char storage[SMALL_LINE];
    struct buf small;
    buf_init_fixed(&small, storage, sizeof storage);
    buf_puts(&small, "\n");
    event_put_line(&small, now, event);
    if (!small.failed)
        return append_text(trail, &small, ret_id, err);
    struct buf large CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX};
    buf_puts(&large, "\n");
    event_put_line(&large, now, event);
    return large.failed ? line_too_long(err, event->type) : append_text(trail, &large, ret_id, err);
}

int event_append_line(struct event_trail *trail, const char *line, size_t len, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = EVENT_LINE_MAX};
    buf_puts(&text, "\n");
    buf_put(&text, line, len);
    return text.failed ? line_too_long(err, NULL) : append_text(trail, &text, NULL, err);
}

int event_trail_sync(struct event_trail *trail, struct tsk_error *err)
{
    if (trail->fd >= 0 && fs->fdatasync(trail->fd) < 0)
        return fs_error(err, "sync", trail->state_dir, TRAIL_NAME);
    return 0;
}
