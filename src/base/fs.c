#include "base/fs.h"
#include "base/ident.h"

#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What root makes in a user's directory belongs to the owner of that directory: one `sudo tasuki …` must not lock the user out of
 * the files that everybody who works there has to write. A failure leaves root's file, which doctor reports. */
static void give_to_owner(int fd, int dir, const char *path)
{
    char parent[PATH_MAX];
    struct stat st;
    int saved = errno;
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", slash && slash > path ? (int)(slash - path) : 1, slash ? path : ".");
    if (fstatat(dir, parent, &st, 0) == 0 && st.st_uid != 0 && fchown(fd, st.st_uid, st.st_gid) < 0) {
        /* root's, then */
    }
    errno = saved;
}

/* Only a file that this very call has made is given away: one that was there may be anybody's, put there under our name. */
static int create_as_root(int dir, const char *path, int flags, mode_t mode)
{
    for (int i = 0; i < 16; i++) {
        bool is_new = (flags & O_TMPFILE) == O_TMPFILE || (flags & O_EXCL);
        int fd = is_new ? -1 : openat(dir, path, flags & ~O_CREAT);
        if (!is_new && (fd >= 0 || errno != ENOENT))
            return fd;
        fd = openat(dir, path, is_new ? flags : flags | O_EXCL, mode & ~FS_KEEP);
        if (fd >= 0 && !(mode & FS_KEEP))
            give_to_owner(fd, dir, (flags & O_TMPFILE) == O_TMPFILE ? "./." : path);
        if (fd >= 0 || is_new || errno != EEXIST)
            return fd;
    }
    return openat(dir, path, flags, mode);
}

static int sys_openat(int dir, const char *path, int flags, mode_t mode)
{
    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return creates && geteuid() == 0 ? create_as_root(dir, path, flags, mode)
                                     : openat(dir, path, flags, mode & ~FS_KEEP);
}

static int sys_mkdirat(int dir, const char *path, mode_t mode)
{
    if (mkdirat(dir, path, mode & ~FS_KEEP) < 0)
        return -1;
    int fd =
        geteuid() == 0 && !(mode & FS_KEEP) ? openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd >= 0) {
        give_to_owner(fd, dir, path);
        close(fd);
    }
    return 0;
}

static int sys_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return renameat2(from, old, to, new, flags);
}

/* ThreadSanitizer takes clone for a fork, and stops following the locks of a thread that has forked; but with CLONE_VM the
 * thread that it gives up is ours. It does not know the other name. */
#if defined __SANITIZE_THREAD__
int __clone(int (*run)(void *), void *stack, int flags, void *arg, ...);
#define real_clone __clone
#else
#define real_clone clone
#endif

static int sys_clone(int (*run)(void *), void *stack, int flags, void *arg, int *ret_pidfd)
{
    return real_clone(run, stack, flags, arg, ret_pidfd);
}

static int sys_ofd_lock(int fd, int cmd, struct flock *range)
{
    return fcntl(fd, cmd, range);
}

const struct fs_calls fs_system_calls = {
    .openat = sys_openat,
    .close = close,
    .pread = pread,
    .write = write,
    .pwrite = pwrite,
    .ftruncate = ftruncate,
    .fdatasync = fdatasync,
    .fstat = fstat,
    .fstatat = fstatat,
    .fstatfs = fstatfs,
    .mkdirat = sys_mkdirat,
    .unlinkat = unlinkat,
    .linkat = linkat,
    .renameat2 = sys_renameat2,
    .ofd_lock = sys_ofd_lock,
    .clone = sys_clone,
};

const struct fs_calls *fs = &fs_system_calls;

void fs_path(int dir, const char *name, char path[FS_PATH_MAX])
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t len = readlink(link, path, FS_PATH_MAX - NAME_MAX - 1);
    size_t used = len > 0 && path[0] == '/' ? (size_t)len : 0;
    path[used] = '\0';
    if (name)
        snprintf(path + used, FS_PATH_MAX - used, "%s%s", used ? "/" : "", name);
}

#undef fs_error
int fs_error(struct tsk_error *err, const char *what, int dir, const char *name)
{
    char path[FS_PATH_MAX];
    int number = errno;
    fs_path(dir, name, path);
    errno = number;
    return error_errno(err, what, path);
}

void fs_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    fs->close(*fd);
    *fd = -1;
    errno = saved;
}

#define STREAM_CHUNK 65536

int fs_read_fd(int fd, size_t max, struct buf *b)
{
    off_t offset = 0;
    for (;;) {
        char *at = buf_reserve(b, 4096);
        if (!at) {
            errno = b->len + 4096 + 1 > b->max ? EFBIG : ENOMEM;
            return -1;
        }
        ssize_t n = fs->pread(fd, at, 4096, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        offset += n;
        if ((size_t)offset > max) {
            errno = EFBIG;
            return -1;
        }
        b->len += (size_t)n;
        b->data[b->len] = '\0';
        if (n < 4096) /* regular files: a short read is the end; one more call would only confirm it */
            return 0;
    }
}

int fs_read_stream(int fd, size_t max, struct buf *b)
{
    for (size_t total = 0;;) {
        char *at = buf_reserve(b, STREAM_CHUNK);
        ssize_t n = at ? read(fd, at, STREAM_CHUNK) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (!at || (total += (size_t)n) > max) {
            errno = EFBIG;
            return -1;
        }
        if (n == 0)
            return 0;
        b->len += (size_t)n;
        b->data[b->len] = '\0';
    }
}

int fs_read_file(int dir, const char *path, size_t max, struct buf *b)
{
    /* O_NONBLOCK: a FIFO at that name must not hang us. */
    int fd CLEANUP_FD = fs->openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    size_t before = b->len;
    int result = fs_read_fd(fd, max, b);
    if (result == 0 && b->len > before)
        return 0;
    /* Only what gave no bytes is worth another call: pread(2) refuses directories, FIFOs and terminals, but /dev/null is empty. */
    struct stat st;
    int saved = errno;
    if (fs->fstat(fd, &st) < 0)
        return -1;
    errno = S_ISREG(st.st_mode) ? saved : S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    return S_ISREG(st.st_mode) ? result : -1;
}

int fs_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t n = fs->write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

#define PRIVATE_PREFIX ".tsk-"

void fs_private_name(char name[FS_PRIVATE_NAME_MAX])
{
    char hex[17];
    random_hex(hex, 16);
    snprintf(name, FS_PRIVATE_NAME_MAX, PRIVATE_PREFIX "%s", hex);
}

bool fs_is_private_name(const char *name)
{
    return strncmp(name, PRIVATE_PREFIX, strlen(PRIVATE_PREFIX)) == 0;
}

static bool lacks_tmpfile(int number)
{
    return number == EOPNOTSUPP || number == EISDIR || number == ENOENT || number == EINVAL;
}

int fs_temp_open(int dir, mode_t mode, char private_name[FS_PRIVATE_NAME_MAX])
{
    private_name[0] = '\0';
    int fd = fs->openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd >= 0 || !lacks_tmpfile(errno))
        return fd;
    fs_private_name(private_name);
    return fs->openat(dir, private_name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, mode);
}

int fs_publish(int fd, const char *private_name, int dir, const char *name)
{
    if (private_name[0])
        return fs->linkat(dir, private_name, dir, name, 0);
    /* By descriptor where the kernel lets us (6.10, or with the capability); else through /proc. */
    if (fs->linkat(fd, "", dir, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOENT && errno != EPERM)
        return -1;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fs->linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW);
}

void fs_stamp(int fd, int64_t than_ns)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    int64_t next_ms = than_ns / 1000000 + 1;
    clock_gettime(CLOCK_REALTIME, &times[1]);
    if (times[1].tv_sec * INT64_C(1000) + times[1].tv_nsec / 1000000 < next_ms)
        times[1] = (struct timespec){.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000};
    futimens(fd, times);
}

int fs_replace_file(int dir, const char *path, mode_t mode, const void *data, size_t len)
{
    return fs_replace_file_after(dir, path, mode, data, len, -1);
}

int fs_replace_file_after(int dir, const char *path, mode_t mode, const void *data, size_t len, int64_t than_ns)
{
    char name[FS_PRIVATE_NAME_MAX];
    int fd CLEANUP_FD = fs_temp_open(dir, mode, name);
    if (fd < 0)
        return -1;
    if (fs_write_all(fd, data, len) < 0)
        goto fail;
    if (than_ns >= 0)
        fs_stamp(fd, than_ns);
    if (!name[0]) {
        /* rename(2) needs a name to start from; it lives for two system calls */
        char link_name[FS_PRIVATE_NAME_MAX];
        fs_private_name(link_name);
        if (fs_publish(fd, name, dir, link_name) < 0)
            return -1;
        memcpy(name, link_name, sizeof name);
    }
    if (fs->renameat2(dir, name, dir, path, 0) == 0)
        return 0;
fail:;
    int saved = errno;
    if (name[0])
        fs->unlinkat(dir, name, 0);
    errno = saved;
    return -1;
}

bool fs_may_exist(int dir, const char *path)
{
    struct stat st;
    return fs->fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

int fs_make_dirs(int dir, const char *path)
{
    char part[4096];
    size_t len = strlen(path);
    if (len >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (fs->mkdirat(dir, part, 0700) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

int fs_open_made_dir(int dir, const char *path)
{
    return fs_make_dirs(dir, path) < 0 ? -1 : fs->openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
}

int fs_lock_try(int fd, short type, off_t start, off_t len)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fs->ofd_lock(fd, F_OFD_SETLK, &range);
}

int fs_lock_wait(int fd, short type, off_t start, off_t len)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fs->ofd_lock(fd, F_OFD_SETLKW, &range);
}

int fs_lock_probe(int fd, short type, off_t start, off_t len, off_t *ret_start)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    if (fs->ofd_lock(fd, F_OFD_GETLK, &range) < 0)
        return -1;
    if (range.l_type == F_UNLCK)
        return 0;
    if (ret_start)
        *ret_start = range.l_start;
    return 1;
}

static const struct {
    unsigned long magic;
    enum fs_class class;
    const char *name;
} fs_types[] = {
    {0x6969, FS_NETWORK, "nfs"},          {0xff534d42, FS_NETWORK, "cifs"},
    {0xfe534d42, FS_NETWORK, "smb2"},     {0x517b, FS_NETWORK, "smb"},
    {0x00c36400, FS_NETWORK, "ceph"},     {0x5346414f, FS_NETWORK, "afs"},
    {0x6b414653, FS_NETWORK, "afs"},      {0x73757245, FS_NETWORK, "coda"},
    {0x0bd00bd0, FS_NETWORK, "lustre"},   {0x01161970, FS_NETWORK, "gfs2"},
    {0x7461636f, FS_NETWORK, "ocfs2"},    {0x65735546, FS_SINGLE_KERNEL, "fuse"},
    {0x01021997, FS_SINGLE_KERNEL, "9p"}, {0x6a656a63, FS_SINGLE_KERNEL, "virtiofs"},
};

int fs_classify(int dir, enum fs_class *ret_class, const char **ret_name)
{
    struct statfs st;
    if (fs->fstatfs(dir, &st) < 0)
        return -1;
    *ret_class = FS_LOCAL;
    *ret_name = "local";
    for (size_t i = 0; i < sizeof fs_types / sizeof fs_types[0]; i++)
        if (((unsigned long)st.f_type & 0xffffffffUL) == fs_types[i].magic) {
            *ret_class = fs_types[i].class;
            *ret_name = fs_types[i].name;
        }
    return 0;
}
