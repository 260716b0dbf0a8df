/* probe_command.c - PROBE_COMMAND: a command that exits with 0.
 *
 * It runs in a group of its own, which is ended with it: what a probe leaves behind would pile up, once per interval. */
#include "base/fs.h"
#include "proc/probe_try.h"
#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_LOOK_MS 20 /* between two looks at the command where the kernel has no pidfd */

/* The end of what the command said, for the detail. */
struct output {
    int fd; /* read end, not blocking */
    char data[1024];
    size_t len;
};

static void output_drain(struct output *output)
{
    char chunk[4096];
    ssize_t n;
    while ((n = read(output->fd, chunk, sizeof chunk)) > 0) {
        size_t kept = (size_t)n < sizeof output->data ? (size_t)n : sizeof output->data;
        size_t old = output->len < sizeof output->data - kept ? output->len : sizeof output->data - kept;
        memmove(output->data, output->data + output->len - old, old);
        memcpy(output->data + old, chunk + n - kept, kept);
        output->len = old + kept;
    }
    if (n == 0)
        fs_close(&output->fd);
}

/* The last line that is not empty; borrowed. */
static const char *output_last_line(const struct output *output, size_t *ret_len)
{
    size_t end = output->len;
    while (end && strchr("\r\n \t", output->data[end - 1]))
        end--;
    size_t start = end;
    while (start && output->data[start - 1] != '\n')
        start--;
    *ret_len = end - start;
    return output->data + start;
}

/* Until the command ends: 1; its time is up: 0; the process has ended: -1. */
static int wait_for_end(const struct probe_try *t, const struct spawn *s, struct output *output, int64_t deadline_ms)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = s->pidfd, .events = POLLIN},
                               {.fd = output->fd, .events = POLLIN},
                               {.fd = t->child_fd, .events = POLLIN}};
        siginfo_t info = {0};
        int64_t left = deadline_ms - clock_now().boot_ms;
        if (left <= 0)
            return 0;
        if (s->pidfd < 0 && left > PROBE_LOOK_MS)
            left = PROBE_LOOK_MS;
        poll(fds, 3, left > INT_MAX ? INT_MAX : (int)left);
        if (fds[1].revents)
            output_drain(output);
        if (waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == s->pid)
            return 1;
        if (fds[2].revents)
            return -1;
    }
}

/* Kills the group before it reaps the leader: until then the kernel cannot reuse the number. */
static int end_group(const struct spawn *s)
{
    int status = -1;
    kill(-s->pid, SIGKILL);
    kill(s->pid, SIGKILL); /* it may have left its group */
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void probe_say_end(struct probe_try *t, int status, const struct output *output)
{
    size_t len;
    const char *line = output_last_line(output, &len);
    if (WIFSIGNALED(status))
        try_say(t, "killed by SIG%s%s%.*s", sigabbrev_np(WTERMSIG(status)), len ? ": " : "", (int)len, line);
    else
        try_say(t, "exit %d%s%.*s", WEXITSTATUS(status), len ? ": " : "", (int)len, line);
}

static int run_command(struct probe_try *t, char *const *argv, int64_t deadline_ms)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        try_say(t, "%s", strerrordesc_np(errno));
        return 0;
    }
    fcntl(pipe_fds[1], F_SETFL, 0); /* the command's end blocks, as it is used to */
    const struct spawn_fd fds[] = {{-1, 0}, {pipe_fds[1], 1}, {pipe_fds[1], 2}};
    struct spawn s = {
        .argv = argv, .cwd = t->cwd, .fds = fds, .fd_count = 3, .new_group = true, .dies_with_parent = true};
    struct output output = {.fd = pipe_fds[0]};
    int result = spawn_run(&s), number = errno, status;
    fs_close(&pipe_fds[1]);
    if (result < 0) {
        try_say(t, "%s: %s", strcmp(s.stage, "cwd") == 0 ? t->cwd : argv[0], strerrordesc_np(number));
    } else {
        result = wait_for_end(t, &s, &output, deadline_ms);
        status = end_group(&s);
        output_drain(&output);
        if (result > 0)
            probe_say_end(t, status, &output);
        else
            try_say(t, "%s: did not end in time", argv[0]);
        fs_close(&s.pidfd);
        result = result > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    fs_close(&output.fd);
    return result > 0;
}

int try_command(struct probe_try *t, int64_t deadline_ms)
{
    size_t count = json_array_size(t->probe.argv);
    char **argv CLEANUP_FREE = calloc(count + 1, sizeof *argv);
    for (size_t i = 0; argv && i < count; i++)
        argv[i] = (char *)json_string_value(json_array_get(t->probe.argv, i));
    int result = 0;
    if (argv && count)
        result = run_command(t, argv, deadline_ms);
    return result;
}
