#include "proc/spawn.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child leaves its stack by exec, so its frames stay marked in AddressSanitizer's shadow, also when the next stack is mapped
 * at the same place. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define STACK_FORGET(top, size) __asan_unpoison_memory_region((top) - (size), (size))
#else
#define STACK_FORGET(top, size) ((void)0)
#endif

/* ThreadSanitizer keeps a table of handlers in the memory that the child shares: what the child resets must pass it by, or we
 * would lose ours. (SIG_DFL is all zeros, whatever the kernel's structure looks like.) */
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
static void reset_signal(int number)
{
    static const char zeros[64];
    syscall(SYS_rt_sigaction, number, zeros, NULL, 8);
}
#else
static void reset_signal(int number)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(number, &by_default, NULL);
}
#endif

extern char **environ;

#define SAFE_FD          64 /* descriptors are moved above this before they get their final numbers */
#define SPAWN_STACK_SIZE (160u << 10)
#define GUARD_SIZE       4096u

static struct rlimit kept_descriptors; /* rlim_max 0: not set */

void spawn_keep_limit(const struct rlimit *descriptors)
{
    kept_descriptors = *descriptors;
}

struct child {
    struct spawn *spawn;
    sigset_t mask; /* to be set before the exec */
    pid_t parent;
    int failed; /* errno, written by the child into our memory */
    const char *stage;
};

static int spawn_child_fail(struct child *child, const char *stage)
{
    child->failed = errno ? errno : EINVAL;
    child->stage = stage;
    _exit(127);
}

/* Handlers of ours must not run in the child, which shares our memory. */
static void reset_signals(const struct spawn *s)
{
    struct sigaction current;
    for (int number = 1; number < NSIG; number++) {
        if (s->changed_signals && !sigismember(s->changed_signals, number))
            continue;
        if (s->changed_signals && !s->keeps_signals) { /* known to be changed, and wanted by nobody */
            reset_signal(number);
            continue;
        }
        if (sigaction(number, NULL, &current) < 0 || current.sa_handler == SIG_DFL)
            continue;
        /* Our own SIGXFSZ is ignored so that a write fails instead of killing us; nobody else wants that. */
        if (current.sa_handler != SIG_IGN || !s->keeps_signals || number == SIGXFSZ)
            reset_signal(number);
    }
}

void spawn_look(sigset_t *ret_changed)
{
    struct sigaction current;
    sigemptyset(ret_changed);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &current) == 0 && current.sa_handler != SIG_DFL)
            sigaddset(ret_changed, number);
}

/* One after the other: no final number is a descriptor that is still to be placed. A number above 63 would cost the child a
 * larger table. */
static bool can_place_directly(const struct spawn *s)
{
    for (size_t i = 0; i < s->fd_count; i++)
        for (size_t k = i; k < s->fd_count; k++)
            if (s->fds[i].from < 0 || s->fds[i].to == s->fds[k].from)
                return false;
    return true;
}

/* By number: the child has its own descriptors but our memory, and ThreadSanitizer would note them as ours. */
static int put_descriptor(int from, int to)
{
    return (int)syscall(SYS_dup3, from, to, 0);
}

static int place_directly(const struct spawn *s)
{
    for (size_t i = 0; i < s->fd_count; i++)
        if (put_descriptor(s->fds[i].from, s->fds[i].to) < 0)
            return -1;
    return 0;
}

static bool is_final(const struct spawn *s, int fd)
{
    for (size_t i = 0; i < s->fd_count; i++)
        if (s->fds[i].to == fd)
            return true;
    return false;
}

/* Under a low limit there may be nothing above SAFE_FD: then whatever is free and no final number. */
static int move_away(const struct spawn *s, int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, SAFE_FD);
    for (int from = 3; moved < 0 && (errno == EINVAL || errno == EMFILE) && from < SAFE_FD; from++) {
        int free_fd = fcntl(fd, F_DUPFD_CLOEXEC, from);
        if (free_fd < 0)
            return -1;
        if (!is_final(s, free_fd))
            return free_fd;
        syscall(SYS_close, free_fd);
        from = free_fd;
    }
    return moved;
}

/* First everything out of the way of the final numbers, then into place. */
static int place_descriptors(const struct spawn *s)
{
    int moved[16];
    if (s->fd_count > sizeof moved / sizeof moved[0])
        return errno = E2BIG, -1;
    if (can_place_directly(s))
        return place_directly(s);
    for (size_t i = 0; i < s->fd_count; i++) {
        int from = s->fds[i].from;
        int opened = from < 0 ? fs->openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0) : from;
        if (opened < 0 || (moved[i] = move_away(s, opened)) < 0)
            return -1;
    }
    for (size_t i = 0; i < s->fd_count; i++)
        if (put_descriptor(moved[i], s->fds[i].to) < 0)
            return -1;
    return 0;
}

static int spawn_child_run(void *arg)
{
    struct child *child = arg;
    struct spawn *s = child->spawn;
    errno = 0;
    reset_signals(s);
    if (s->dies_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != child->parent)
            _exit(127);
    }
    if (s->mark)
        setrlimit(RLIMIT_RTTIME, &(struct rlimit){.rlim_cur = s->mark, .rlim_max = RLIM_INFINITY});
    if (s->new_session)
        setsid();
    else if (s->new_group)
        setpgid(0, 0);
    if (place_descriptors(s) < 0)
        return spawn_child_fail(child, "descriptors");
    if (s->cwd && chdir(s->cwd) < 0)
        return spawn_child_fail(child, "cwd");
    if (kept_descriptors.rlim_max)
        setrlimit(RLIMIT_NOFILE, &kept_descriptors);
    sigprocmask(SIG_SETMASK, &child->mask, NULL);
    char *const *envp = s->envp ? s->envp : environ;
    if (s->path)
        execve(s->path, s->argv, envp);
    else
        execvpe(s->argv[0], s->argv, envp);
    return spawn_child_fail(child, "exec");
}

static size_t argument_count(char *const *argv)
{
    size_t count = 0;
    while (argv[count])
        count++;
    return count;
}

/* execvpe puts the arguments of a script without #! on its stack; the lowest page stays a barrier. */
static char *stack_new(size_t argc, size_t *ret_size)
{
    size_t size = (SPAWN_STACK_SIZE + argc * sizeof(char *) + GUARD_SIZE - 1) & ~(size_t)(GUARD_SIZE - 1);
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return NULL;
    mprotect(stack, GUARD_SIZE, PROT_NONE);
    *ret_size = size;
    return stack;
}

char *spawn_stack(void)
{
    size_t size;
    char *stack = stack_new(SPAWN_ARGS_MAX, &size);
    return stack ? stack + size : NULL;
}

void spawn_stack_free(char *stack)
{
    size_t size = (SPAWN_STACK_SIZE + SPAWN_ARGS_MAX * sizeof(char *) + GUARD_SIZE - 1) & ~(size_t)(GUARD_SIZE - 1);
    if (!stack)
        return;
    STACK_FORGET(stack, SPAWN_STACK_SIZE); /* for the next mapping of this place */
    munmap(stack - size, size);
}

static int spawn_failed(struct spawn *s, const char *stage, int number)
{
    s->stage = stage;
    errno = number;
    return -1;
}

int spawn_run(struct spawn *s)
{
    size_t size;
    sigset_t all, before;
    struct child child = {.spawn = s, .parent = getpid()};
    s->pid = -1;
    s->pidfd = -1;
    s->stage = "";
    size_t argc = argument_count(s->argv);
    bool is_borrowed = s->stack && argc <= SPAWN_ARGS_MAX;
    char *stack = is_borrowed ? NULL : stack_new(argc, &size);
    if (!stack && !is_borrowed)
        return spawn_failed(s, "clone", ENOMEM);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    child.mask = s->mask ? *s->mask : before;
    int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (s->no_pidfd ? 0 : CLONE_PIDFD);
    char *top = is_borrowed ? s->stack : stack + size;
    STACK_FORGET(top, SPAWN_STACK_SIZE);
    pid_t pid = fs->clone(spawn_child_run, top, flags, &child, &s->pidfd);
    int number = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    STACK_FORGET(top, SPAWN_STACK_SIZE);
    if (!is_borrowed)
        munmap(stack, size);
    if (pid < 0)
        return spawn_failed(s, "clone", number);
    if (!child.failed) {
        s->pid = pid;
        return 0;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (s->pidfd >= 0)
        close(s->pidfd);
    s->pidfd = -1;
    return spawn_failed(s, child.stage, child.failed);
}
