/* tasuki-fault - the whole command line program, whose file-system calls can be made to fail.
 *
 * It puts its own tables behind `fs` and `clock_source` and then is tasuki. The environment says what goes
 * wrong:
 *
 *   TASUKI_FAULT_AT=n          the n-th call of the table (1-based, over the whole process) is the one
 *   TASUKI_FAULT_ONLY=a,b      only these calls are counted, e.g. openat,write
 *   TASUKI_FAULT_MODE=         kill        SIGKILL before the call
 *                              kill-after  SIGKILL after it
 *                              ENOSPC ...  the call is not made and fails with that errno (close is made all
 * the same, as in Linux: after a failed close the descriptor is gone) SHORT       the disk is full from here
 * on: the call, if it writes, writes half of its data; every later call that needs space fails with ENOSPC
 *   TASUKI_FAULT_STICKY=1      with an errno: all later counted calls fail as well
 *   TASUKI_FAULT_STOP_AT=n     SIGSTOP before that call, so that a test can look at, or overtake, a frozen
 * process TASUKI_FAULT_COUNT=path    the number of counted calls is appended at the end of the process
 *   TASUKI_FAULT_PATH=end      only openat (with TASUKI_FAULT_ONLY=unlinkat: unlinkat) of a path that ends so is counted: the
 * window before a named file is touched
 *   TASUKI_FAKE_WALL_MS=ms     the wall clock is off by that much
 *   TASUKI_FAKE_FSTYPE=nfs     (cifs, smb2, fuse, 9p) what fstatfs says */
#include "base/clock.h"
#include "base/fs.h"
#include "cli/cli.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault_mode { FAULT_NONE, FAULT_KILL, FAULT_KILL_AFTER, FAULT_ERRNO, FAULT_SHORT };

static struct {
    enum fault_mode mode;
    int error; /* of FAULT_ERRNO */
    bool is_sticky;
    unsigned long at, stop_at;
    const char *only, *count_path, *path;
    long fs_type; /* 0: the true one */
    int64_t wall_offset_ms;
    pid_t pid; /* a forked child counts for itself and reports nothing */
} plan;

static atomic_ulong calls_made;

/* What a wrapper has to do. */
enum verdict { MAKE_IT, MAKE_IT_AND_DIE, MAKE_HALF_OF_IT, FAIL_IT };

static bool name_is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static enum verdict fail_with(int error)
{
    errno = error;
    return FAIL_IT;
}

static enum verdict fault_at_this_call(bool needs_space)
{
    switch (plan.mode) {
    case FAULT_KILL:
        die();
        return MAKE_IT;
    case FAULT_KILL_AFTER:
        return MAKE_IT_AND_DIE;
    case FAULT_ERRNO:
        return fail_with(plan.error);
    case FAULT_SHORT:
        return needs_space ? MAKE_HALF_OF_IT : MAKE_IT;
    case FAULT_NONE:
        break;
    }
    return MAKE_IT;
}

static enum verdict fault_before(const char *name, bool needs_space)
{
    if ((plan.only && !name_is_listed(plan.only, name)) ||
        (plan.path && strcmp(name, plan.only ? plan.only : "openat") != 0))
        return MAKE_IT;
    unsigned long n = atomic_fetch_add(&calls_made, 1) + 1;
    if (n == plan.stop_at)
        kill(getpid(), SIGSTOP);
    if (n == plan.at)
        return fault_at_this_call(needs_space);
    if (plan.at == 0 || n < plan.at)
        return MAKE_IT;
    if (plan.mode == FAULT_SHORT && needs_space)
        return fail_with(ENOSPC);
    if (plan.mode == FAULT_ERRNO && plan.is_sticky)
        return fail_with(plan.error);
    return MAKE_IT;
}

/* The calls with nothing special about them:
 *   X(result, name, needs space, (parameters), (arguments))
 * MAKE_HALF_OF_IT of such a call is the failure itself: half a directory entry does not exist. */
#define PLAIN_CALLS(X)                                                                                                 \
    X(int, openat, (flags & (O_CREAT | __O_TMPFILE)) != 0, (int dir, const char *path, int flags, mode_t mode),        \
      (dir, path, flags, mode))                                                                                        \
    X(ssize_t, pread, false, (int fd, void *data, size_t len, off_t offset), (fd, data, len, offset))                  \
    X(int, ftruncate, len > 0, (int fd, off_t len), (fd, len))                                                         \
    X(int, fdatasync, false, (int fd), (fd))                                                                           \
    X(int, fstat, false, (int fd, struct stat *st), (fd, st))                                                          \
    X(int, fstatat, false, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))            \
    X(int, mkdirat, true, (int dir, const char *path, mode_t mode), (dir, path, mode))                                 \
    X(int, unlinkat, false, (int dir, const char *path, int flags), (dir, path, flags))                                \
    X(int, linkat, true, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags)) \
    X(int, renameat2, false, (int from, const char *old, int to, const char *new, unsigned flags),                     \
      (from, old, to, new, flags))                                                                                     \
    X(int, ofd_lock, false, (int fd, int cmd, struct flock *range), (fd, cmd, range))                                  \
    X(int, clone, false, (int (*run)(void *), void *stack, int flags, void *arg, int *ret_pidfd),                      \
      (run, stack, flags, arg, ret_pidfd))

#define DEFINE_WRAPPER(result, name, needs_space, parameters, arguments)                                               \
    static result fault_##name parameters                                                                              \
    {                                                                                                                  \
        enum verdict verdict = fault_before(#name, needs_space);                                                       \
        if (verdict == MAKE_HALF_OF_IT)                                                                                \
            verdict = fail_with(ENOSPC);                                                                               \
        if (verdict == FAIL_IT)                                                                                        \
            return -1;                                                                                                 \
        result made = fs_system_calls.name arguments;                                                                  \
        if (verdict == MAKE_IT_AND_DIE)                                                                                \
            die();                                                                                                     \
        return made;                                                                                                   \
    }
PLAIN_CALLS(DEFINE_WRAPPER)

static bool is_other_path(const char *path)
{
    size_t len = strlen(path), end = plan.path ? strlen(plan.path) : 0;
    return plan.path && (len < end || strcmp(path + len - end, plan.path) != 0);
}

static int fault_openat_path(int dir, const char *path, int flags, mode_t mode)
{
    return is_other_path(path) ? fs_system_calls.openat(dir, path, flags, mode) : fault_openat(dir, path, flags, mode);
}

static int fault_unlinkat_path(int dir, const char *path, int flags)
{
    return is_other_path(path) ? fs_system_calls.unlinkat(dir, path, flags) : fault_unlinkat(dir, path, flags);
}

static ssize_t fault_write(int fd, const void *data, size_t len)
{
    enum verdict verdict = fault_before("write", true);
    if (verdict == FAIL_IT)
        return -1;
    ssize_t made = fs_system_calls.write(fd, data, verdict == MAKE_HALF_OF_IT ? len / 2 : len);
    if (verdict == MAKE_IT_AND_DIE)
        die();
    return made;
}

static ssize_t fault_pwrite(int fd, const void *data, size_t len, off_t offset)
{
    enum verdict verdict = fault_before("pwrite", true);
    if (verdict == FAIL_IT)
        return -1;
    ssize_t made = fs_system_calls.pwrite(fd, data, verdict == MAKE_HALF_OF_IT ? len / 2 : len, offset);
    if (verdict == MAKE_IT_AND_DIE)
        die();
    return made;
}

static int fault_close(int fd)
{
    enum verdict verdict = fault_before("close", false);
    int wanted = errno;
    int made = fs_system_calls.close(fd);
    if (verdict == MAKE_IT_AND_DIE)
        die();
    if (verdict != FAIL_IT)
        return made;
    errno = wanted;
    return -1;
}

static int fault_fstatfs(int fd, struct statfs *st)
{
    enum verdict verdict = fault_before("fstatfs", false);
    if (verdict == FAIL_IT)
        return -1;
    int made = fs_system_calls.fstatfs(fd, st);
    if (made == 0 && plan.fs_type)
        st->f_type = (__typeof__(st->f_type))plan.fs_type;
    if (verdict == MAKE_IT_AND_DIE)
        die();
    return made;
}

#define TABLE_ENTRY(result, name, needs_space, parameters, arguments) .name = fault_##name,
static struct fs_calls fault_calls = {
    PLAIN_CALLS(TABLE_ENTRY).write = fault_write,
    .pwrite = fault_pwrite,
    .close = fault_close,
    .fstatfs = fault_fstatfs,
};

/* A call that is added to the table and not here would escape the tests. */
#define COUNT_ONE(result, name, needs_space, parameters, arguments) +1
_Static_assert(sizeof(struct fs_calls) == (4 PLAIN_CALLS(COUNT_ONE)) * sizeof(void (*)(void)),
               "every call of struct fs_calls has a wrapper");

static struct now fault_now(void)
{
    struct now now = clock_system_calls.now();
    now.wall_ms += plan.wall_offset_ms;
    return now;
}

static const struct clock_calls fault_clock = {.now = fault_now};

/* ---- the environment ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    long value;
} error_names[] =
    {
#define E(name)                                                                                                        \
    {                                                                                                                  \
#name, name                                                                                                    \
    }
        E(ENOSPC), E(EIO),    E(EMFILE), E(ENFILE), E(ENOMEM), E(EROFS),      E(EACCES), E(EPERM),
        E(EDQUOT), E(ENOLCK), E(EINTR),  E(EAGAIN), E(ENOSYS), E(EOPNOTSUPP), E(EINVAL), E(ESTALE),
#undef E
},
  fs_types[] = {
      {"nfs", NFS_SUPER_MAGIC},   {"cifs", CIFS_SUPER_MAGIC}, {"smb2", SMB2_SUPER_MAGIC},
      {"fuse", FUSE_SUPER_MAGIC}, {"9p", V9FS_MAGIC},
};

#define LOOK_UP(table, wanted, ret)                                                                                    \
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)                                                          \
        if (strcmp(table[i].name, wanted) == 0)                                                                        \
            ret = table[i].value;

static void refuse(const char *variable, const char *value)
{
    fprintf(stderr, "tasuki-fault: %s=%s is not understood\n", variable, value);
    _exit(99);
}

static int64_t number_from(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || !*text)
        return 0;
    char *end;
    int64_t value = strtoll(text, &end, 10);
    if (*end)
        refuse(variable, text);
    return value;
}

static void read_mode(void)
{
    const char *mode = getenv("TASUKI_FAULT_MODE");
    if (!mode || !*mode)
        return;
    if (strcmp(mode, "kill") == 0) {
        plan.mode = FAULT_KILL;
    } else if (strcmp(mode, "kill-after") == 0) {
        plan.mode = FAULT_KILL_AFTER;
    } else if (strcmp(mode, "SHORT") == 0) {
        plan.mode = FAULT_SHORT;
    } else {
        long error = 0;
        LOOK_UP(error_names, mode, error)
        if (!error)
            refuse("TASUKI_FAULT_MODE", mode);
        plan.mode = FAULT_ERRNO;
        plan.error = (int)error;
    }
}

static void read_plan(void)
{
    read_mode();
    plan.at = (unsigned long)number_from("TASUKI_FAULT_AT");
    plan.stop_at = (unsigned long)number_from("TASUKI_FAULT_STOP_AT");
    plan.is_sticky = number_from("TASUKI_FAULT_STICKY") != 0;
    plan.only = getenv("TASUKI_FAULT_ONLY");
    plan.path = getenv("TASUKI_FAULT_PATH");
    plan.count_path = getenv("TASUKI_FAULT_COUNT");
    plan.wall_offset_ms = number_from("TASUKI_FAKE_WALL_MS");
    const char *type = getenv("TASUKI_FAKE_FSTYPE");
    if (type && *type) {
        LOOK_UP(fs_types, type, plan.fs_type)
        if (!plan.fs_type)
            refuse("TASUKI_FAKE_FSTYPE", type);
    }
    plan.pid = getpid();
}

static void report_count(void)
{
    if (getpid() != plan.pid)
        return;
    int fd = open(plan.count_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dprintf(fd, "%lu\n", atomic_load(&calls_made));
    close(fd);
}

int main(int argc, char **argv)
{
    read_plan();
    if (plan.count_path)
        atexit(report_count);
    fault_calls.openat = fault_openat_path;
    fault_calls.unlinkat = fault_unlinkat_path;
    fs = &fault_calls;
    clock_source = &fault_clock;
    return cli_main(argc, argv);
}
