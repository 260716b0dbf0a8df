/* witness.c - the child of bench/crash: writes numbered lines, and keeps its own account of them that no SIGKILL can
 * take back.
 *
 *   bench-witness DIR
 *
 * DIR/runs/PID-NANOSECONDS is the account: `struct account`, mapped, and locked (flock) for as long as the process
 * lives. A line is counted only after its write returned, so every counted line must be in the supervisor's log. DIR/only.lock
 * belongs to one copy at a time: who finds it taken is a second copy, and notes that.
 *
 * SIGUSR1 makes it exit, with a code that it notes first. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BURST 16 /* lines without a pause between them, so that a pipe is seldom empty */

/* Read by bench/crash/measure.py. */
struct account {
    int64_t start_ns; /* also the first word of each line */
    int64_t lines;
    int64_t is_second; /* it ran while another copy did */
    int64_t exit_code; /* -1: has not decided to exit */
    int64_t signal;    /* SIGPIPE, when that ended it */
};

static struct account *account; /* for the handler of SIGPIPE */
static volatile sig_atomic_t is_asked_to_exit;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench-witness: %s: %s\n", what, strerror(errno));
    exit(99);
}

static void on_exit_asked(int number)
{
    (void)number;
    is_asked_to_exit = 1;
}

/* Nothing reads our output any more. Dies as a program without a handler does. */
static void on_pipe(int number)
{
    account->signal = number;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* Under a temporary name until it is locked, so that one that can be seen is locked if and only if its process lives. */
static struct account *account_open(const char *dir)
{
    char hidden[4096], name[4200];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t start_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    snprintf(hidden, sizeof hidden, "%s/new-%d", dir, (int)getpid());
    snprintf(name, sizeof name, "%s/runs/%d-%" PRId64, dir, (int)getpid(), start_ns);
    int fd = open(hidden, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || ftruncate(fd, sizeof(struct account)) < 0)
        die(hidden);
    struct account *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made == MAP_FAILED)
        die("mmap");
    *made = (struct account){.start_ns = start_ns, .exit_code = -1};
    if (rename(hidden, name) < 0)
        die(name);
    return made; /* the descriptor stays open: it is the lock */
}

static void write_line(int64_t number)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%016" PRIx64 " %08" PRId64 "\n", account->start_ns, number);
    for (int done = 0; done < length;) {
        ssize_t wrote = write(STDOUT_FILENO, line + done, (size_t)(length - done));
        if (wrote < 0 && errno != EINTR)
            die("write");
        done += wrote > 0 ? (int)wrote : 0;
    }
    account->lines = number;
}

static void leave(void)
{
    account->exit_code = 1 + account->lines % 100;
    _exit((int)account->exit_code);
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 2)
        return 2;
    account = account_open(argv[1]);
    signal(SIGUSR1, on_exit_asked);
    signal(SIGPIPE, on_pipe);
    snprintf(path, sizeof path, "%s/only.lock", argv[1]);
    int only = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (only < 0)
        die(path);
    bool is_only = false;
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int64_t number = 1;; number++) {
        if (!is_only && !(is_only = flock(only, LOCK_EX | LOCK_NB) == 0))
            account->is_second = 1;
        write_line(number);
        if (is_asked_to_exit)
            leave();
        if (number % BURST == 0)
            nanosleep(&nap, NULL);
    }
}
