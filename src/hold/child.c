/* child.c - starting the child, the probe beside it, and the program that tells of its failure.
 *
 *  C1  The child's side of the clone runs in our memory while we sleep: what it finds out about itself, and why it failed, is
 *      in the struct when we wake. It must leave nothing else behind there.
 *  C2  It writes its identity before it executes the command (H2), and nothing of ours but the life lock is open in it.
 *  C3  Signals are blocked and have their default action here from the beginning on, so the child has only to unblock them. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_DEFAULT       "/usr/local/bin:/usr/bin:/bin"
#define PROBE_FAILURES_MAX 5
#define PROBE_DELAY_MS     1000

extern char **environ;

static _Noreturn void child_fail(struct holder *h, const char *stage)
{
    h->failed_errno = errno;
    h->failed_stage = stage;
    _exit(127);
}

/* What the kernel does not know as a program but is text is a script of the shell's, as execvp and the shells have it. */
static bool is_text(const char *path)
{
    char head[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, head, sizeof head);
    close(fd);
    return len > 0 && !memchr(head, 0, (size_t)len);
}

static void exec_file(struct holder *h, char *path)
{
    execve(path, h->command, environ);
    if (errno != ENOEXEC)
        return;
    char *const name = h->command[0];
    h->command[-1] = (char[]){"/bin/sh"};
    h->command[0] = path;
    if (is_text(path))
        execve("/bin/sh", h->command - 1, environ);
    h->command[0] = name;
    errno = ENOEXEC;
}

/* The first program of that name along PATH that can be executed. EACCES is the answer if one was there but could not. */
static void exec_search(struct holder *h)
{
    const char *name = h->command[0], *path = getenv("PATH");
    int answer = ENOENT;
    path = path ? path : PATH_DEFAULT;
    while (*name && path) {
        const char *end = strchr(path, ':');
        int dir_len = end ? (int)(end - path) : (int)strlen(path);
        errno = ENAMETOOLONG;
        if (snprintf(h->text, sizeof h->text, "%.*s%s%s", dir_len, path, dir_len ? "/" : "", name) <
            (int)sizeof h->text)
            exec_file(h, h->text);
        if (errno == EACCES)
            answer = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
            return;
        path = end ? end + 1 : NULL;
    }
    errno = answer;
}

/* The child keeps the life lock open as long as it lives, and so do its descendants. */
static int child_keep_life(struct holder *h)
{
    if (fcntl(h->run.lock, F_DUPFD, HOLD_FD_LIFE) >= 0)
        return 0;
    /* RLIMIT_NOFILE is lower than that. */
    return fcntl(h->run.lock, F_DUPFD, 3) >= 0 ? 0 : -1;
}

static _Noreturn void child_run(struct holder *h)
{
    char line[STAT_SIZE];
    sigset_t none;
    setsid();
    h->run.pid = getpid();
    h->run.started_ms = clock_wall_ms();
    if (stat_read(h->run.pid, line, sizeof line) < 0)
        child_fail(h, "record");
    h->run.ticks = stat_field(line, STAT_TICKS);
    if (record_identity(h) < 0 || child_keep_life(h) < 0)
        child_fail(h, "record");
    if (dup2(h->child_fd[0], 1) < 0 || dup2(h->child_fd[1], 2) < 0)
        child_fail(h, "log");
    if (h->mode == LOG_TTY && tty_child(h) < 0)
        child_fail(h, "tty");
    umask(h->child_umask);
    if ((h->opt.cwd[0] != '/' && fchdir(HOLD_FD_DIR) < 0) || chdir(h->opt.cwd) < 0)
        child_fail(h, "cwd");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    h->has_tried_exec = true;
    if (strchr(h->command[0], '/'))
        exec_file(h, h->command[0]);
    else
        exec_search(h);
    child_fail(h, "exec");
}

static pid_t child_clone(struct holder *h)
{
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): C1 */
    if (pid == 0)
        child_run(h); /* NOLINT(clang-analyzer-unix.Vfork) */
    return pid;
}

int child_start(struct holder *h)
{
    char *const name = h->command[0];
    h->failed_stage = NULL;
    h->has_tried_exec = false;
    if (output_open(h) < 0)
        return -1;
    pid_t pid = child_clone(h);
    if (pid < 0)
        h->failed_errno = errno;
    else if (!h->has_tried_exec && !h->failed_stage)
        h->failed_errno = EINTR; /* somebody has killed it before it could do anything */
    if (!h->has_tried_exec && !h->failed_stage)
        h->failed_stage = "clone";
    h->command[0] = name;
    output_close_child(h);
    if (h->failed_stage && pid > 0)
        waitpid(pid, NULL, 0);
    if (h->failed_stage)
        return -1;
    h->is_alive = true;
    h->is_adopted = false;
    h->started_boot_ms = clock_boot_ms();
    return 0;
}

int notify_open(struct holder *h)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    const int on = 1;
    if (!name || name[0] != '@' || strlen(name) > sizeof address.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    h->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (h->notify < 0 || setsockopt(h->notify, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return -1;
    return bind(h->notify, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static _Noreturn void probe_run(struct holder *h)
{
    const char *const argv[] = {h->opt.probe, "probe", "--root", h->opt.root, h->id, NULL};
    sigset_t none;
    setpgid(0, 0);
    if (h->opt.root[0] != '/' && fchdir(HOLD_FD_DIR) < 0)
        _exit(127);
    /* HOLD_FD_DIR has that number in us; here it is no longer needed. */
    if (h->notify >= 0)
        dup2(h->notify, HOLD_FD_NOTIFY);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(h->opt.probe, (char *const *)argv, environ);
    _exit(127);
}

void probe_start(struct holder *h)
{
    if (!h->opt.probe)
        return;
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): C1 */
    if (pid == 0)
        probe_run(h); /* NOLINT(clang-analyzer-unix.Vfork) */
    h->probe = pid;
}

void probe_kill(struct holder *h)
{
    h->probe_failures = 0;
    holder_timer(h, TIMER_PROBE, -1);
    if (h->probe > 0)
        kill(h->probe, SIGKILL);
    h->probe = 0; /* reaped like any other child */
}

void probe_ended(struct holder *h, int status)
{
    h->probe = 0;
    if (status == 0 || h->state != RUNNING || h->probe_failures >= PROBE_FAILURES_MAX)
        return;
    h->probe_failures++;
    holder_timer(h, TIMER_PROBE, PROBE_DELAY_MS);
}

/* Removes the marks of the start from our environment, so that the program started next does not count as a descendant
 * of the process and survives a stop. No later child needs them. */
static void marks_drop(void)
{
    char **to = environ;
    for (char **from = environ; *from; from++)
        if (strncmp(*from, HOLD_ENV_ID, sizeof "TASUKI_PROCESS_" - 1) != 0)
            *to++ = *from;
    *to = NULL;
}

static _Noreturn void tell_run(struct holder *h)
{
    const char *const argv[] = {h->opt.tell, "--root", h->opt.root, HOLD_FAILED_WORD, h->id, h->text, NULL};
    sigset_t none;
    setsid();
    if (h->opt.root[0] != '/' && fchdir(HOLD_FD_DIR) < 0)
        _exit(127);
    umask(h->child_umask);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(h->opt.tell, (char *const *)argv, environ);
    _exit(127);
}

void failure_tell(struct holder *h)
{
    if (!h->opt.tell || h->is_ending || h->status == 0)
        return;
    marks_drop();
    snprintf(h->text, sizeof h->text, "%lld", (long long)h->run.n);
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): C1 */
    if (pid == 0)
        tell_run(h); /* NOLINT(clang-analyzer-unix.Vfork) */
}
