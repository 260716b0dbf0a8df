#include "lock/file.h"
#include "base/fs.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAD_TO 256

static void private_name(const struct lock_target *target, char name[LOCK_FILE_NAME_MAX])
{
    snprintf(name, LOCK_FILE_NAME_MAX, ".tsk-%s", target->guard_name);
}

static void spare_name(const struct lock_target *target, char name[LOCK_FILE_NAME_MAX])
{
    snprintf(name, LOCK_FILE_NAME_MAX, ".spare.%s", target->guard_name);
}

void lock_file_close(struct lock_file *file)
{
    fs_close(&file->fd);
}

static void file_serialise(struct lock_file *file, const struct lock_target *target, const struct lock_record *record)
{
    struct buf b;
    buf_init_fixed(&b, file->content, sizeof file->content);
    if (target->kind->is_sprint) {
        record_write_yaml(record, &b);
    } else {
        record_write_json(record, target->kind->name, &b);
        /* One length for nearly all, so that rewriting a spare file never shows a shorter one. */
        b.len -= 1;
        while ((b.len + 1) % PAD_TO && b.len + 2 < sizeof file->content)
            file->content[b.len++] = ' ';
        file->content[b.len++] = '\n';
    }
    BUG(b.failed);
    file->len = b.len;
}

static void file_remember(struct lock_file *file, const struct stat *st)
{
    file->dev = st->st_dev;
    file->ino = st->st_ino;
}

/* A lock that was taken before has left its file as `.spare.<guard>` beside the guard: writing it again and
 * linking it is twice as fast as making a new inode (docs/decisions/003-spare-lock-file.md). It is used only
 * while no other name of it exists, and the guard is held: nobody can be looking at it as a lock. */
static int reuse_spare(struct lock_file *file, const struct lock_target *target)
{
    char name[LOCK_FILE_NAME_MAX];
    struct stat st;
    spare_name(target, name);
    int fd CLEANUP_FD =
        file->fd >= 0 ? file->fd : fs->openat(target->guard_dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    file->fd = -1;
    if (fd < 0 || fs->fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return -1;
    if (fs->pwrite(fd, file->content, file->len, 0) != (ssize_t)file->len)
        return -1;
    if (st.st_size > (off_t)file->len && fs->ftruncate(fd, (off_t)file->len) < 0)
        return -1;
    file->fd = fd;
    fd = -1;
    file_remember(file, &st);
    return 0;
}

static void keep_as_spare(const struct lock_file *file, const struct lock_target *target)
{
    char name[LOCK_FILE_NAME_MAX];
    spare_name(target, name);
    /* A failure only means that the next one makes a new file. */
    fs->unlinkat(target->guard_dir, name, 0);
    fs_publish(file->fd, "", target->guard_dir, name);
}

static int create_private(const struct lock_target *target, struct guard *guard, const struct now *now,
                          struct tsk_error *err)
{
    char name[LOCK_FILE_NAME_MAX];
    private_name(target, name);
    if (guard_note_private(guard, now, 0, err) < 0)
        return -1;
    if (fs->unlinkat(target->dir, name, 0) < 0 && errno != ENOENT)
        return -1;
    return fs->openat(target->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int lock_file_create(struct lock_file *file, const struct lock_target *target, struct guard *guard,
                     const struct now *now, const struct lock_record *record, struct tsk_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    file->is_private = false;
    file_serialise(file, target, record);
    if (!target->kind->is_sprint && reuse_spare(file, target) == 0)
        return 0;
    lock_file_close(file);
    file->fd = fs->openat(target->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        file->fd = create_private(target, guard, now, err);
        file->is_private = file->fd >= 0;
    }
    if (file->fd < 0 || fs_write_all(file->fd, file->content, file->len) < 0 || fs->fstat(file->fd, &st) < 0) {
        lock_target_path(target, path);
        error_errno(err, "write", path);
        if (file->is_private)
            lock_file_sweep(target);
        lock_file_close(file);
        return -1;
    }
    if (!target->kind->is_sprint && !file->is_private)
        keep_as_spare(file, target);
    file_remember(file, &st);
    return 0;
}

static int give_name(const struct lock_file *file, const struct lock_target *target, const char *name)
{
    char private[LOCK_FILE_NAME_MAX] = "";
    if (file->is_private)
        private_name(target, private);
    return fs_publish(file->fd, private, target->dir, name);
}

int lock_file_publish(struct lock_file *file, const struct lock_target *target, struct tsk_error *err)
{
    char path[PATH_MAX];
    int result = give_name(file, target, target->file);
    if (result < 0 && errno == EEXIST)
        result = 1;
    if (result < 0) {
        lock_target_path(target, path);
        error_errno(err, "write", path);
    }
    if (file->is_private)
        lock_file_sweep(target);
    file->is_private = false;
    return result;
}

/* File systems without RENAME_EXCHANGE: the inode is looked at once more, then replaced. The instant between
 * the two is the reason why doctor warns there. */
static int replace_without_exchange(const char *private, const struct lock_target *target, dev_t dev, ino_t ino)
{
    struct stat st;
    if (fs->fstatat(target->dir, target->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : -1;
    if (st.st_dev != dev || st.st_ino != ino)
        return 1;
    return fs->renameat2(target->dir, private, target->dir, target->file, 0);
}

/* L4: swap, look at what came out, swap back if it is not what was judged. */
static int exchange_checked(const char *private, const struct lock_target *target, dev_t dev, ino_t ino)
{
    struct stat st;
    if (fs->renameat2(target->dir, private, target->dir, target->file, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
            return replace_without_exchange(private, target, dev, ino);
        return errno == ENOENT ? 1 : -1;
    }
    int looked = fs->fstatat(target->dir, private, &st, AT_SYMLINK_NOFOLLOW);
    if (looked == 0 && st.st_dev == dev && st.st_ino == ino)
        return 0;
    int saved = errno;
    int back = fs->renameat2(target->dir, private, target->dir, target->file, RENAME_EXCHANGE);
    if (looked < 0)
        errno = saved;
    return looked < 0 || back < 0 ? -1 : 1;
}

int lock_file_exchange(struct lock_file *file, const struct lock_target *target, dev_t old_dev, ino_t old_ino,
                       struct tsk_error *err)
{
    char private[LOCK_FILE_NAME_MAX], path[PATH_MAX];
    int result = 0;
    private_name(target, private);
    if (!file->is_private) {
        if (fs->unlinkat(target->dir, private, 0) < 0 && errno != ENOENT)
            result = -1;
        else
            result = give_name(file, target, private);
    }
    if (result == 0)
        result = exchange_checked(private, target, old_dev, old_ino);
    if (result < 0) {
        lock_target_path(target, path);
        error_errno(err, "replace", path);
    }
    file->is_private = false;
    if (result != 0)
        lock_file_sweep(target);
    return result;
}

void lock_file_undo_exchange(const struct lock_target *target)
{
    char private[LOCK_FILE_NAME_MAX];
    private_name(target, private);
    if (fs->renameat2(target->dir, private, target->dir, target->file, RENAME_EXCHANGE) < 0)
        fs->unlinkat(target->dir, target->file, 0); /* there was nothing to put back */
    lock_file_sweep(target);
}

void lock_file_recover(const struct lock_target *target, const struct guard *guard, const struct now *now)
{
    char private[LOCK_FILE_NAME_MAX];
    struct lock_target left = *target;
    struct judgement theirs, current;
    struct tsk_error ignored;
    private_name(target, private);
    snprintf(left.file, sizeof left.file, "%s", private);
    sprint_path_clear(&left);
    bool is_held =
        lock_judge(&left, guard, now, &theirs, NULL, &ignored) == 0 && theirs.verdict == VERDICT_HELD &&
        theirs.record.hold == HOLD_FOREIGN; /* ours change under the guard alone: what is here was replaced */
    /* Only a dead one's file of ours in its place shows that it was an interrupted exchange. A free path shows that its owner
     * has released since, by removing whatever was there: bringing it back would lock the owner's next try out. */
    if (is_held && lock_judge(target, guard, now, &current, NULL, &ignored) == 0 &&
        (current.verdict == VERDICT_STALE || current.verdict == VERDICT_ZOMBIE) && current.record.hold != HOLD_FOREIGN)
        exchange_checked(private, target, current.st.st_dev, current.st.st_ino);
    lock_file_sweep(target);
}

int lock_file_renew(struct lock_file *file, const struct lock_target *target, struct guard *guard,
                    const struct now *now, const struct lock_record *record, dev_t old_dev, ino_t old_ino,
                    struct tsk_error *err)
{
    if (guard_note_private(guard, now, record->fence, err) < 0 ||
        lock_file_create(file, target, guard, now, record, err) < 0)
        return -1;
    int result = lock_file_exchange(file, target, old_dev, old_ino, err);
    if (result == 0) {
        lock_file_sweep(target);
        return 0;
    }
    lock_file_close(file);
    return result < 0 ? -1 : error_set(err, TSK_LOCK_LOST, NULL, NULL);
}

static bool needs_renewal(const struct lock_target *target, const struct judgement *found)
{
    return !target->kind->is_sprint && found->is_parsed && found->record.hold != HOLD_FOREIGN &&
           found->alive == LIVE_ALIVE && found->record.ttl_ms > 0 && found->expires_in_ms < found->record.ttl_ms / 2;
}

void lock_file_renew_met(const struct lock_target *target, struct guard *guard, const struct now *now,
                         struct judgement *found)
{
    struct lock_file file = LOCK_FILE_INIT;
    struct tsk_error ignored; /* the lock is the holder's: he renews it himself, this is a courtesy */
    if (!needs_renewal(target, found))
        return;
    struct lock_record record = found->record;
    record.expires_ms = now->wall_ms + record.ttl_ms;
    record.expires_boot_ms = now->boot_ms + record.ttl_ms;
    if (lock_file_renew(&file, target, guard, now, &record, found->st.st_dev, found->st.st_ino, &ignored) == 0)
        lock_judge(target, guard, now, found, NULL, &ignored);
    lock_file_close(&file);
}

int lock_file_is_published(const struct lock_file *file, const struct lock_target *target, struct tsk_error *err)
{
    char bytes[LOCK_CONTENT_MAX];
    struct stat st;
    if (fs->fstatat(target->dir, target->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_errno(err, "examine", target->file);
    if (st.st_ino != file->ino || st.st_dev != file->dev)
        return 0;
    ssize_t n = fs->pread(file->fd, bytes, file->len, 0);
    if (n < 0)
        return error_errno(err, "read", target->file);
    return (size_t)n == file->len && memcmp(bytes, file->content, file->len) == 0;
}

void lock_file_sweep(const struct lock_target *target)
{
    char name[LOCK_FILE_NAME_MAX];
    private_name(target, name);
    if (fs->unlinkat(target->dir, name, 0) < 0 && errno == EISDIR)
        fs->unlinkat(target->dir, name, AT_REMOVEDIR);
}
