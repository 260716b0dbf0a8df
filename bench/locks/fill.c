/* fill.c - holds many locks, in several processes so that descriptors suffice, until stdin ends. */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCKS_EACH 200

static void hold_range(const char *root, long first, long after, int ready)
{
    struct tsk_workspace *workspace;
    struct tsk_lock *lock; /* never released: the end of the process does that */
    struct tsk_error err;
    char id[32];
    if (tsk_workspace_open(root, &workspace, &err) < 0)
        die_tasuki("open", &err);
    for (long i = first; i < after; i++) {
        snprintf(id, sizeof id, "fill-%ld", i);
        if (tsk_lock_acquire(workspace, TSK_LOCK_NAME, id, NULL, &lock, &err) < 0)
            die_tasuki(id, &err);
    }
    if (write(ready, "r", 1) != 1)
        die("write");
    for (;;)
        pause();
}

/* One after the other, so that filling costs no more than it must on a small machine. */
static pid_t start_filler(const char *root, long first, long after)
{
    int ends[2];
    char byte;
    if (pipe(ends) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        hold_range(root, first, after, ends[1]);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1)
        die("a filler ended");
    close(ends[0]);
    return pid;
}

int fill_main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long count = parse_count(argv[2]), fillers = 0;
    pid_t *pids = calloc((size_t)(count / LOCKS_EACH + 1), sizeof *pids);
    if (!pids)
        die("calloc");
    for (long first = 0; first < count; first += LOCKS_EACH)
        pids[fillers++] = start_filler(argv[1], first, first + LOCKS_EACH < count ? first + LOCKS_EACH : count);
    printf("{\"held\": %ld}\n", count);
    fflush(stdout);
    char rest[64];
    while (read(STDIN_FILENO, rest, sizeof rest) > 0)
        ;
    for (long i = 0; i < fillers; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    free(pids);
    return 0;
}
