/* remote_child.c - the children of a runner whose attempts go elsewhere: the link, and with --local a worker of its own. */
#include "base/fs.h"
#include "graph/remote.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REMOTE_CHILD_FD 3

/* Our environment, without what it says about servers; then what this run says. */
static char **child_env(const json_t *pairs)
{
    extern char **environ;
    size_t count = 0, at = 0;
    while (environ[count])
        count++;
    char **env = memory_zeroed(count + json_array_size(pairs) + 1, sizeof *env);
    for (size_t k = 0; k < count; k++)
        if (strncmp(environ[k], "TASUKI_REDIS", 12) != 0)
            env[at++] = environ[k];
    json_each (pairs, i, pair)
        env[at++] = (char *)json_string_value(pair);
    return env;
}

pid_t remote_child(struct runner *runner, char **argv, int fd, int error_fd, struct tsk_error *err)
{
    struct spawn_fd fds[] = {{runner->executor.null_fd, 0}, {error_fd, 1}, {error_fd, 2}, {fd, REMOTE_CHILD_FD}};
    char **env = child_env(runner->options.remote_env);
    struct spawn spawn = {.path = argv[0],
                          .argv = argv,
                          .envp = env,
                          .fds = fds,
                          .fd_count = 4,
                          .mask = &runner->task_mask,
                          .new_session = true,
                          .no_pidfd = true};
    int result = spawn_run(&spawn), number = errno;
    free(env);
    errno = number;
    return result < 0 ? error_errno(err, "start", argv[0]) : spawn.pid;
}

/* R5. Whatever it has to say, the run says as well: it is silent. */
int local_start(struct runner *runner, struct tsk_error *err)
{
    int ends[2];
    char *argv[] = {(char *)runner->options.remote_program, "worker", "--run", runner->run.id, NULL};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "start", argv[0]);
    runner->remote.local_pid = remote_child(runner, argv, ends[0], runner->executor.null_fd, err);
    fs_close(&ends[0]);
    if (runner->remote.local_pid <= 0) {
        fs_close(&ends[1]);
        return -1;
    }
    runner->remote.local_fd = ends[1];
    return 0;
}

void local_end(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    if (remote->local_pid <= 0)
        return;
    fs_close(&remote->local_fd);
    while (waitpid(remote->local_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    remote->local_pid = 0;
}

bool remote_leaves(const struct runner *runner, struct tsk_error *err)
{
    if (runner->cancels < 2 || !runner->remote.away[0])
        return false;
    error_set(err, TSK_RUN_IN_PROGRESS, "run_elsewhere", "run", runner->run.id, "until",
              TIME_LOCAL(clock_now().wall_ms + remote_lease_ms(runner)), "reason", runner->remote.away, NULL);
    error_add_next(err, "tasuki runs cancel %s", runner->run.id);
    return true;
}
