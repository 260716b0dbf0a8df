/* death.c - how long a lock stays taken after its holder got SIGKILL.
 *
 * A chain: each waiter becomes the next holder, and is killed in its turn. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct contender {
    pid_t pid;
    int said; /* pipe: when it asked, when it got it */
};

static void say_now(int fd)
{
    int64_t now = now_ns();
    if (write(fd, &now, sizeof now) != (ssize_t)sizeof now)
        die("write");
}

static int64_t hear(const struct contender *c)
{
    int64_t when;
    if (read(c->said, &when, sizeof when) != (ssize_t)sizeof when)
        die("a contender ended before it held the lock");
    return when;
}

static struct contender start(const struct method *method, const char *root)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        struct bench bench = {.fd = -1};
        close(ends[0]);
        method->open(&bench, root);
        say_now(ends[1]);
        method->acquire(&bench, true);
        say_now(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    return (struct contender){.pid = pid, .said = ends[0]};
}

static char state_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        die(path);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *after_name = strrchr(text, ')');
    return after_name && after_name[1] ? after_name[2] : '?';
}

/* It sleeps, and still does a while later: it waits for the lock, not for a page or another short thing. */
static void wait_until_blocked(const struct contender *c)
{
    int64_t deadline = now_ns() + 10000000000;
    for (int asleep = 0; asleep < 15; asleep = state_of(c->pid) == 'S' ? asleep + 1 : 0) {
        if (now_ns() > deadline) {
            errno = ETIMEDOUT;
            die("the waiter does not sleep");
        }
        usleep(1000);
    }
}

static void end(const struct contender *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->said);
}

int death_main(int argc, char **argv)
{
    const struct method *method = argc == 4 ? method_find(argv[1]) : NULL;
    if (!method)
        return 2;
    long count = parse_count(argv[3]);
    int64_t *gap = calloc((size_t)count, sizeof *gap);
    if (!gap)
        die("calloc");
    struct contender holder = start(method, argv[2]);
    hear(&holder);
    hear(&holder);
    for (long i = 0; i < count; i++) {
        struct contender waiter = start(method, argv[2]);
        hear(&waiter);
        wait_until_blocked(&waiter);
        int64_t killed = now_ns();
        end(&holder);
        gap[i] = hear(&waiter) - killed;
        holder = waiter;
    }
    end(&holder);
    sort_ns(gap, count);
    printf("{\"method\": \"%s\", \"count\": %ld, \"median_us\": %.1f, \"max_us\": %.1f}\n", method->name, count,
           (double)gap[count / 2] / 1e3, (double)gap[count - 1] / 1e3);
    free(gap);
    return 0;
}
