/* faulty.h - one file-system call of ours fails: `fs` is a table that counts its calls. */
#ifndef UNIT_FAULTY_H
#define UNIT_FAULTY_H

#include "base/fs.h"

#include <errno.h>
#include <string.h>

static struct fault {
    const char *only;   /* only calls of this name count; NULL: all */
    long at;            /* the call that fails, from 1 on; 0: none */
    int error;          /* its errno */
    bool is_sticky;     /* so do all that count after it */
    const char *struck; /* the name of the call that failed */
    long made;
} fault;

static bool fault_strikes(const char *name)
{
    if (fault.only && strcmp(fault.only, name) != 0)
        return false;
    fault.made++;
    if (!fault.at || fault.made < fault.at || (fault.made > fault.at && !fault.is_sticky))
        return false;
    fault.struck = name;
    errno = fault.error;
    return true;
}

#define FAULTY_CALLS(X)                                                                                                \
    X(int, openat, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode))                      \
    X(ssize_t, pread, (int fd, void *data, size_t len, off_t offset), (fd, data, len, offset))                         \
    X(ssize_t, write, (int fd, const void *data, size_t len), (fd, data, len))                                         \
    X(ssize_t, pwrite, (int fd, const void *data, size_t len, off_t offset), (fd, data, len, offset))                  \
    X(int, ftruncate, (int fd, off_t len), (fd, len))                                                                  \
    X(int, fdatasync, (int fd), (fd))                                                                                  \
    X(int, fstat, (int fd, struct stat *st), (fd, st))                                                                 \
    X(int, fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))                   \
    X(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))                                       \
    X(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))                                       \
    X(int, linkat, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags))       \
    X(int, renameat2, (int from, const char *old, int to, const char *new, unsigned flags), (from, old, to, new, flags))

#define FAULTY_CALL(result, name, parameters, arguments)                                                               \
    static result faulty_##name parameters                                                                             \
    {                                                                                                                  \
        return fault_strikes(#name) ? -1 : fs_system_calls.name arguments;                                             \
    }
FAULTY_CALLS(FAULTY_CALL)

/* From here on the n-th call fails with `error`; of all calls, or of those that are named so. */
static void fault_begin(const char *only, long n, int error)
{
    static struct fs_calls table;
    fault = (struct fault){.only = only, .at = n, .error = error};
    table = fs_system_calls;
#define FAULTY_SET(result, name, parameters, arguments) table.name = faulty_##name;
    FAULTY_CALLS(FAULTY_SET)
    fs = &table;
}

/* Whether a call has failed since then. */
static bool fault_end(void)
{
    fs = &fs_system_calls;
    return fault.struck;
}

#endif
