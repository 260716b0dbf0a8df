/* fs.h - every file-system call of tasuki goes through one table, so that a test can end the process at the n-th call, or
 * make that call fail (tests/fault). The compound operations built on the table follow it.
 *
 * All descriptors are opened close-on-exec, and no symbolic link is followed in the last component. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include "base/buf.h"
#include "base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

/* The system calls. Each behaves as its namesake: -1 and errno. */
struct fs_calls {
    int (*openat)(int dir, const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *data, size_t len, off_t offset);
    ssize_t (*write)(int fd, const void *data, size_t len); /* descriptors opened O_APPEND, and temporary files */
    ssize_t (*pwrite)(int fd, const void *data, size_t len, off_t offset);
    int (*ftruncate)(int fd, off_t len);
    int (*fdatasync)(int fd);
    int (*fstat)(int fd, struct stat *st);
    int (*fstatat)(int dir, const char *path, struct stat *st, int flags);
    int (*fstatfs)(int fd, struct statfs *st);
    int (*mkdirat)(int dir, const char *path, mode_t mode);
    int (*unlinkat)(int dir, const char *path, int flags);
    int (*linkat)(int from, const char *old, int to, const char *new, int flags);
    int (*renameat2)(int from, const char *old, int to, const char *new, unsigned flags);
    /* fcntl with F_OFD_SETLK, F_OFD_SETLKW or F_OFD_GETLK. The waiting form is a thread cancellation point. */
    int (*ofd_lock)(int fd, int cmd, struct flock *range);
    /* clone(2) with a pidfd. It is no file-system call, but a step at which a test ends the process (src/proc/spawn.c). */
    int (*clone)(int (*run)(void *), void *stack, int flags, void *arg, int *ret_pidfd);
};

extern const struct fs_calls fs_system_calls;
extern const struct fs_calls *fs; /* &fs_system_calls, unless a test put its own there before the first call */

/* The whole path of dir/name, for messages; without a name, the path of the descriptor `dir`. */
#define FS_PATH_MAX (4096 + 256)
void fs_path(int dir, const char *name, char path[FS_PATH_MAX]);
/* error_errno with that path. Always -1. */
int fs_error(struct tsk_error *err, const char *what, int dir, const char *name);

void fs_close(int *fd); /* for CLEANUP: closes if >= 0, keeps errno */
#define CLEANUP_FD CLEANUP(fs_close)

/* Reads a whole regular file of at most `max` bytes into *b (appended). -1 with EFBIG when it is longer, ELOOP
 * when the last component is a symbolic link, EISDIR/EINVAL when it is not a regular file. */
int fs_read_file(int dir, const char *path, size_t max, struct buf *b);
int fs_read_fd(int fd, size_t max, struct buf *b);
/* The same for anything that can be read to its end, such as a pipe, a terminal, or a list in /proc, which the kernel delivers in
 * pieces: for fs_read_fd a short piece is the end. Blocks. */
int fs_read_stream(int fd, size_t max, struct buf *b);
int fs_write_all(int fd, const void *data, size_t len);

/* Opens a new file without a name in directory `dir`; fs_publish gives it one. If the file system has no O_TMPFILE, the
 * file has a private name, which is stored in `private_name` (otherwise private_name is ""). */
#define FS_PRIVATE_NAME_MAX 64
int fs_temp_open(int dir, mode_t mode, char private_name[FS_PRIVATE_NAME_MAX]);
/* Gives the open file `fd` the name dir/name; EEXIST if there is one. */
int fs_publish(int fd, const char *private_name, int dir, const char *name);
/* A name in the form of the private names, unique to this process and call. */
void fs_private_name(char name[FS_PRIVATE_NAME_MAX]);
bool fs_is_private_name(const char *name);

/* Combined with the mode of a new file or directory: if root makes it, it stays root's, because root obeys it later (a token, a
 * run, a process). Other files that root makes belong to the owner of their directory. */
#define FS_KEEP ((mode_t)S_ISVTX)

/* Replaces the content of dir/path atomically: a reader sees the old content or the new one. */
int fs_replace_file(int dir, const char *path, mode_t mode, const void *data, size_t len);
/* The same; the new file also gets a time of change after `than_ns` (fs_stamp). */
int fs_replace_file_after(int dir, const char *path, mode_t mode, const void *data, size_t len, int64_t than_ns);
/* Sets the time of change of an open file to the exact time, and at least one millisecond after `than_ns`. The kernel sets the
 * time of its last tick, so two changes within some milliseconds would get the same time. If the file system refuses, the
 * kernel's time stays. */
void fs_stamp(int fd, int64_t than_ns);

/* Returns false only if dir/path certainly does not exist: what cannot be examined counts as there, and the next call on it gives
 * the reason. */
bool fs_may_exist(int dir, const char *path);

/* mkdir -p below `dir`, mode 0700; not an error if it exists. */
int fs_make_dirs(int dir, const char *path);
/* The same, and opens it. The last component may not be a symbolic link. */
int fs_open_made_dir(int dir, const char *path);

/* Byte-range locks on the open file description (they belong to the descriptor, not to the process). */
int fs_lock_try(int fd, short type, off_t start, off_t len);  /* F_WRLCK, F_RDLCK or F_UNLCK; EAGAIN if held */
int fs_lock_wait(int fd, short type, off_t start, off_t len); /* EINTR when a handler ran */
/* Returns 1 if another descriptor has a conflicting lock, with the start of the first one in *ret_start (may be NULL); 0 if
 * not; -1 on error. */
int fs_lock_probe(int fd, short type, off_t start, off_t len, off_t *ret_start);

/* "network" (nfs, cifs, ...), "single-kernel" (fuse, 9p, virtiofs) or "local", and the type's name. */
enum fs_class { FS_LOCAL, FS_SINGLE_KERNEL, FS_NETWORK };
int fs_classify(int dir, enum fs_class *ret_class, const char **ret_name);

#ifdef __clang_analyzer__ /* as in error.h */
#define fs_error(...) (fs_error(__VA_ARGS__), -1)
#endif

#endif
