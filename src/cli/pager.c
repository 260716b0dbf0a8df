/* pager.c - a long text on a terminal goes through the user's pager, as git does it. */
#include "base/fs.h"
#include "cli/cli.h"
#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* `less` leaves the text on the screen and ends by itself when everything fits; where it is missing, nothing is lost. */
#define DEFAULT_PAGER "if command -v less >/dev/null; then exec less; else exec cat; fi"

static bool fits_screen(const char *text)
{
    struct winsize size;
    unsigned lines = 1; /* the prompt */
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0)
        return true;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    return lines <= size.ws_row;
}

/* The command for the shell; NULL: none is wanted. */
static const char *pager_of_user(void)
{
    const char *const names[] = {"TASUKI_PAGER", "PAGER"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value)
            return *value && strcmp(value, "cat") != 0 ? value : NULL;
    }
    return DEFAULT_PAGER;
}

/* Starts it. Returns the descriptor that it reads from, or -1. */
static int start_pager(const char *pager, pid_t *ret_pid)
{
    int ends[2];
    char *argv[] = {"sh", "-c", (char *)pager, NULL};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    struct spawn_fd input = {.from = ends[0], .to = STDIN_FILENO};
    struct spawn spawn = {.argv = argv, .fds = &input, .fd_count = 1};
    int started = spawn_run(&spawn);
    close(ends[0]);
    if (started < 0) {
        close(ends[1]);
        return -1;
    }
    close(spawn.pidfd);
    *ret_pid = spawn.pid;
    return ends[1];
}

/* The shell's words for a program that is not there, or cannot be executed: nobody has shown the text. */
static bool was_no_pager(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127);
}

void cli_page(const char *text)
{
    const char *pager = isatty(STDOUT_FILENO) && !fits_screen(text) ? pager_of_user() : NULL;
    pid_t pid;
    int fd = -1, status = 0;
    if (pager && !cli_is_plain_terminal()) {
        setenv("LESS", "FRX", 0);
        fflush(stdout);
        fd = start_pager(pager, &pid);
    }
    if (fd < 0) {
        fputs(text, stdout);
        return;
    }
    /* A reader may leave before the end, and Ctrl-C is the pager's. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    int written = fs_write_all(fd, text, strlen(text));
    (void)written; /* that reader has seen enough */
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    signal(SIGINT, SIG_DFL);
    if (was_no_pager(status))
        fputs(text, stdout);
}
