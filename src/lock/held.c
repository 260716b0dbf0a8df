#include "lock/held.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "lock/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    pthread_mutex_t mutex;
    struct tsk_lock *first;
    struct proc_id self;
    struct {
        const struct tsk_workspace *ws;
        char name[LOCK_FILE_NAME_MAX];
        int guard_fd, file_fd;
    } warm;
} held = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER, .warm = {.guard_fd = -1, .file_fd = -1}};

static void warm_close(void)
{
    guard_close_fd(&held.warm.guard_fd);
    fs_close(&held.warm.file_fd);
}

static void before_fork(void)
{
    pthread_mutex_lock(&held.mutex);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&held.mutex);
}

/* The guards' descriptors were closed by their own handler (guard.c); the objects must know. */
static void after_fork_child(void)
{
    for (struct tsk_lock *lock = held.first; lock; lock = lock->next) {
        lock->guard.fd = lock->work.fd = -1;
        fs_close(&lock->file.fd);
    }
    held.warm.guard_fd = -1;
    fs_close(&held.warm.file_fd);
    held.first = NULL;
    held.self.pid = 0;
    pthread_mutex_unlock(&held.mutex);
}

static void held_init(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

int held_self(struct proc_id *ret, struct tsk_error *err)
{
    pthread_once(&held.once, held_init);
    pthread_mutex_lock(&held.mutex);
    int result = held.self.pid ? 0 : proc_id_of(getpid(), &held.self);
    *ret = held.self;
    pthread_mutex_unlock(&held.mutex);
    return result < 0 ? error_errno(err, "read", "/proc/self/stat") : 0;
}

struct tsk_lock *held_new(struct lock_target *target, struct guard *guard, struct lock_file *file,
                          const struct lock_record *record)
{
    struct tsk_lock *lock = malloc(sizeof *lock);
    if (!lock)
        return NULL;
    lock->target = *target;
    target->owns_dirs = false;
    lock->guard = *guard;
    guard->fd = -1;
    guard->is_locked = false;
    memcpy(&lock->file, file, offsetof(struct lock_file, content) + file->len);
    file->fd = -1;
    lock->record = *record;
    lock->is_shared = false;
    lock->work = (struct guard)GUARD_INIT;
    pthread_once(&held.once, held_init);
    pthread_mutex_lock(&held.mutex);
    lock->previous = NULL;
    lock->next = held.first;
    if (held.first)
        held.first->previous = lock;
    held.first = lock;
    pthread_mutex_unlock(&held.mutex);
    return lock;
}

static void warm_forget(struct tsk_workspace *ws)
{
    pthread_mutex_lock(&held.mutex);
    if (held.warm.ws == ws)
        warm_close();
    pthread_mutex_unlock(&held.mutex);
}

/* With held.mutex. A descriptor that others may have must not be used for another lock: its life byte could
 * outlive us. */
static void warm_keep(struct tsk_lock *lock)
{
    warm_close();
    held.warm.ws = lock->target.ws;
    lock->target.ws->on_close = warm_forget;
    snprintf(held.warm.name, sizeof held.warm.name, "%s", lock->target.guard_name);
    held.warm.guard_fd = lock->guard.fd;
    held.warm.file_fd = lock->file.fd;
    lock->guard.fd = lock->file.fd = -1;
}

void held_take_warm(const struct lock_target *target, struct guard *guard, struct lock_file *file)
{
    struct stat st;
    guard->fd = file->fd = -1;
    pthread_mutex_lock(&held.mutex);
    if (held.warm.guard_fd >= 0 && held.warm.ws == target->ws && strcmp(held.warm.name, target->guard_name) == 0) {
        /* A guard file that was removed by hand protects nothing any more. */
        if (fs->fstat(held.warm.guard_fd, &st) == 0 && st.st_nlink == 1) {
            guard->fd = held.warm.guard_fd;
            file->fd = held.warm.file_fd;
            held.warm.guard_fd = held.warm.file_fd = -1;
        } else {
            warm_close();
        }
    }
    pthread_mutex_unlock(&held.mutex);
}

/* `was_released`: the life byte is dropped already. */
static void held_free(struct tsk_lock *lock, bool was_released)
{
    bool may_keep = was_released && !lock->is_shared && !lock->target.kind->is_sprint && lock->guard.fd >= 0;
    if (!was_released)
        guard_drop_all(&lock->guard);
    pthread_mutex_lock(&held.mutex);
    if (may_keep)
        warm_keep(lock);
    if (lock->next)
        lock->next->previous = lock->previous;
    if (lock->previous)
        lock->previous->next = lock->next;
    else if (held.first == lock)
        held.first = lock->next;
    pthread_mutex_unlock(&held.mutex);
    guard_close(&lock->guard);
    guard_close(&lock->work);
    lock_file_close(&lock->file);
    lock_target_clear(&lock->target);
    free(lock);
}

/* The guard to work with. Byte 0 on a descriptor that a command has inherited would stay locked if we were killed. */
static struct guard *working_guard(struct tsk_lock *lock)
{
    return lock->is_shared ? &lock->work : &lock->guard;
}

/* Somebody else may have renewed the file for us: then it has our fence and token, and becomes our file. */
static int adopt_renewed(struct tsk_lock *lock, const struct now *now, struct tsk_error *err)
{
    struct judgement found;
    int fd CLEANUP_FD = -1;
    sprint_path_clear(&lock->target);
    if (lock_judge(&lock->target, working_guard(lock), now, &found, &fd, err) < 0)
        return -1;
    bool is_ours = found.is_parsed && found.record.fence == lock->record.fence &&
                   strcmp(found.record.token, lock->record.token) == 0;
    if (!is_ours)
        return report_lost(&lock->target, now, &lock->record, &found, err);
    ssize_t n = fs->pread(fd, lock->file.content, sizeof lock->file.content, 0);
    if (n < 0)
        return error_errno(err, "read", lock->target.file);
    lock_file_close(&lock->file);
    lock->file.fd = fd;
    fd = -1;
    lock->file.len = (size_t)n;
    lock->file.dev = found.st.st_dev;
    lock->file.ino = found.st.st_ino;
    lock->record = found.record;
    return 0;
}

/* With the guard held: is it still ours (L5)? */
static int check_ours(struct tsk_lock *lock, const struct now *now, struct tsk_error *err)
{
    int published = lock_file_is_published(&lock->file, &lock->target, err);
    if (published < 0)
        return -1;
    return published ? 0 : adopt_renewed(lock, now, err);
}

static void held_leave(struct tsk_lock *lock)
{
    guard_unlock(working_guard(lock));
}

static int held_enter(struct tsk_lock *lock, int (*take)(struct guard *, struct tsk_error *), struct now *now,
                      struct tsk_error *err)
{
    if (lock->guard.fd < 0) /* the child of a fork */
        return error_set(err, TSK_LOCK_LOST, "lost_by_fork", NULL);
    if (take(working_guard(lock), err) < 0)
        return -1;
    *now = clock_now();
    if (check_ours(lock, now, err) == 0)
        return 0;
    held_leave(lock);
    return -1;
}

int tsk_lock_verify(struct tsk_lock *lock, struct tsk_error *err)
{
    struct now now;
    if (held_enter(lock, guard_lock_only, &now, err) < 0)
        return -1;
    held_leave(lock);
    return 0;
}

int tsk_lock_renew(struct tsk_lock *lock, struct tsk_error *err)
{
    struct now now;
    if (held_enter(lock, guard_lock, &now, err) < 0)
        return -1;
    struct lock_record record = lock->record;
    struct lock_file file = LOCK_FILE_INIT;
    record.expires_ms = now.wall_ms + record.ttl_ms;
    record.expires_boot_ms = now.boot_ms + record.ttl_ms;
    int result = 0;
    if (!lock->target.kind->is_sprint) /* a sprint has no TTL to extend */
        result = lock_file_renew(&file, &lock->target, working_guard(lock), &now, &record, lock->file.dev,
                                 lock->file.ino, err);
    if (result == 0 && file.fd >= 0) {
        lock_file_close(&lock->file);
        memcpy(&lock->file, &file, offsetof(struct lock_file, content) + file.len);
        lock->record = record;
        report_renewed(&lock->target, &now, &record);
    }
    held_leave(lock);
    return result;
}

int tsk_lock_release(struct tsk_lock *lock, struct tsk_error *err)
{
    struct now now;
    int result = held_enter(lock, guard_lock_only, &now, err);
    if (result == 0) {
        result = fs->unlinkat(lock->target.dir, lock->target.file, 0);
        if (result < 0 && errno == ENOENT) /* another tool does not wait for the guard */
            report_lost(&lock->target, &now, &lock->record, &(struct judgement){.verdict = VERDICT_FREE}, err);
        else if (result < 0)
            error_errno(err, "delete", lock->target.file);
        else
            report_released(&lock->target, &now, &lock->record);
        if (result == 0 && lock->target.kind->is_sprint)
            sprint_tmp_drop(&lock->target);
        guard_drop_all(&lock->guard); /* the life byte, before others are let in */
    }
    held_free(lock, result == 0);
    return result;
}

uint64_t tsk_lock_fence(const struct tsk_lock *lock)
{
    return lock->record.fence;
}

const char *tsk_lock_token(const struct tsk_lock *lock)
{
    return lock->record.token;
}

int tsk_lock_fd(struct tsk_lock *lock)
{
    struct tsk_error err;
    /* Opened now: a release that finds no descriptor left would leave the lock behind. */
    if (!lock->is_shared && guard_open(&lock->work, lock->target.guard_dir, lock->target.guard_name, &err) < 0) {
        errno = err.sys_errno ? err.sys_errno : EIO;
        return -1;
    }
    lock->is_shared = true;
    return lock->guard.fd;
}

int tsk_lock_acquire(struct tsk_workspace *ws, enum tsk_lock_kind kind, const char *id,
                     const struct tsk_lock_options *options, struct tsk_lock **ret, struct tsk_error *err)
{
    struct tsk_lock_options given = {.size = sizeof given};
    if (options)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    const struct lock_kind *k = lock_kind_get(kind);
    if (!k)
        return error_set(err, TSK_INVALID_INPUT, "param_not_one_of", "param", "kind", "value", "?", "want",
                         LOCK_KIND_LIST, NULL);
    if (k->is_sprint && (!given.session_id || !given.session_id[0] || !given.epic_spec || !given.epic_spec[0]))
        return error_set(err, TSK_INVALID_INPUT, "sprint_needs_session_and_epic", NULL);
    const char *const texts[] = {given.session_id, given.epic_spec, given.run_id, given.request_id};
    static const char *const names[] = {"session_id", "epic_spec", "run_id", "request_id"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] &&
            (strlen(texts[i]) >= (i < 2 ? LOCK_TEXT_MAX : LOCK_ID_MAX) || !utf8_is_valid(texts[i], strlen(texts[i]))))
            return error_set(err, TSK_INVALID_INPUT, "text_not_utf8", "param", names[i], NULL);
    struct lock_target target;
    if (lock_target_init(&target, ws, k, id, NULL, err) < 0)
        return -1;
    struct lock_request request = {.hold = HOLD_LIFE,
                                   .ttl_ms = given.ttl_ms,
                                   .wait_ms = given.wait_ms,
                                   .session_id = given.session_id,
                                   .run_id = given.run_id,
                                   .request_id = given.request_id,
                                   .epic_spec = given.epic_spec,
                                   .force = given.force,
                                   .kill = given.kill};
    int result = lock_acquire(&target, &request, ret, NULL, err);
    lock_target_clear(&target);
    return result;
}
