/* scene.h - what the lock tests share: a workspace in the test's directory, files by hand, children that report. */
#ifndef UNIT_SCENE_H
#define UNIT_SCENE_H

#include "base/fs.h"
#include "harness/test.h"
#include "store/workspace.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCENE_DEADLINE_MS 60000

#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != 0)                                                                                               \
            scene_fail(__FILE__, __LINE__, #call, &err);                                                               \
    } while (0)
/* The call is refused with that code. */
#define ASSERT_CODE(call, wanted)                                                                                      \
    do {                                                                                                               \
        ASSERT_INT((call), -1);                                                                                        \
        ASSERT_STR(tsk_code_name(err.code), tsk_code_name(wanted));                                                    \
    } while (0)

__attribute__((noreturn)) static inline void scene_fail(const char *file, int line, const char *call,
                                                        const struct tsk_error *err)
{
    char message[512];
    test_fail(file, line, "%s failed: %s: %s", call, tsk_code_name(err->code),
              tsk_error_message(err, "en", message, sizeof message));
}

/* A workspace in the working directory, whatever the environment says. */
static inline struct tsk_workspace *scene_open(void)
{
    struct tsk_error err;
    struct workspace_place place;
    struct tsk_workspace *ws;
    bool created;
    unsetenv("TASUKI_ROOT");
    ASSERT_OK(workspace_init(".", &place, &created, &err));
    ASSERT_OK(workspace_open_at(&place, &ws, &err));
    return ws;
}

static inline void scene_write(const char *path, const char *text)
{
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    ASSERT_INT(fs_write_all(fd, text, strlen(text)), 0);
}

static inline bool scene_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* A pair of pipes between a test and its child: `say` and `hear` are this side's. */
struct child {
    pid_t pid;
    int say, hear;
};

static inline void child_say(const struct child *child, char word)
{
    ASSERT_INT(write(child->say, &word, 1), 1);
}

/* The next word, 0 at the end of the stream. */
static inline char child_hear(const struct child *child)
{
    struct pollfd ready = {.fd = child->hear, .events = POLLIN};
    char word = 0;
    int n;
    do
        n = poll(&ready, 1, SCENE_DEADLINE_MS);
    while (n < 0 && errno == EINTR);
    ASSERT_INT(n, 1);
    return read(child->hear, &word, 1) == 1 ? word : 0;
}

/* Forks: in the child it runs `body` with the child's side and ends. */
static inline struct child child_start(void (*body)(const struct child *me, void *arg), void *arg)
{
    int down[2], up[2];
    ASSERT_INT(pipe2(down, O_CLOEXEC), 0);
    ASSERT_INT(pipe2(up, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        struct child me = {.pid = getppid(), .say = up[1], .hear = down[0]};
        close(down[1]);
        close(up[0]);
        body(&me, arg);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    return (struct child){.pid = pid, .say = down[1], .hear = up[0]};
}

/* Waits for its end; the exit status. */
static inline int child_wait(struct child *child)
{
    int status;
    while (waitpid(child->pid, &status, 0) < 0)
        ASSERT_INT(errno, EINTR);
    close(child->say);
    close(child->hear);
    return status;
}

static inline void child_kill(struct child *child)
{
    kill(child->pid, SIGKILL);
    child_wait(child);
}

#endif
