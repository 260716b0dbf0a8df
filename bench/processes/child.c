/* child.c - what the supervisors of bench/processes supervise. Static and tiny, so that what is measured is theirs.
 *
 *   stamp FILE TAG          appends "TAG PID NANOSECONDS" to FILE as its first act, writes one line, stays
 *   pour FILE TAG MIB KIB   stamps; at SIGUSR1 stamps again, writes MIB mebibytes of lines in pieces of KIB,
 *                           stamps a third time, stays
 *   respawn FILE TAG        a limit: the barest supervisor of a `stamp`, a loop of vfork and wait
 *   splice                  a limit: the barest logger, a loop that moves stdin to stdout
 *
 * The clock is CLOCK_MONOTONIC, which all processes share (and Python's time.monotonic_ns). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 128
#define PIECE_MAX  (64 << 10)

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench-child: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void stamp(const char *file, const char *tag)
{
    struct timespec t;
    char line[256];
    clock_gettime(CLOCK_MONOTONIC, &t);
    int length = snprintf(line, sizeof line, "%s %d %" PRId64 "\n", tag, (int)getpid(),
                          (int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        die(file);
    close(fd);
}

static void write_all(const char *data, size_t size)
{
    for (ssize_t done; size > 0; data += done, size -= (size_t)done)
        if ((done = write(STDOUT_FILENO, data, size)) < 0)
            die("write");
}

static _Noreturn void stay(void)
{
    for (;;)
        pause();
}

/* Before the first stamp: the signal may come as soon as that is there. */
static void block_go(sigset_t *go)
{
    sigemptyset(go);
    sigaddset(go, SIGUSR1);
    sigprocmask(SIG_BLOCK, go, NULL);
}

static _Noreturn void pour(const char *file, const char *tag, long mib, long kib)
{
    static char piece[PIECE_MAX];
    sigset_t go;
    int number;
    size_t size = (size_t)kib << 10;
    if (size < LINE_BYTES || size > sizeof piece)
        exit(2);
    memset(piece, 'x', size);
    for (size_t end = LINE_BYTES; end <= size; end += LINE_BYTES)
        piece[end - 1] = '\n';
    block_go(&go);
    stamp(file, tag);
    sigwait(&go, &number);
    stamp(file, tag);
    for (long i = 0; i < (mib << 10) / kib; i++)
        write_all(piece, size);
    stamp(file, tag);
    stay();
}

static int move_all(void)
{
    ssize_t moved;
    while ((moved = splice(STDIN_FILENO, NULL, STDOUT_FILENO, NULL, 1 << 20, SPLICE_F_MOVE)) > 0)
        ;
    if (moved < 0)
        die("splice");
    return 0;
}

static _Noreturn void respawn(char *self, char *file, char *tag)
{
    char *argv[] = {self, "stamp", file, tag, NULL};
    for (;;) {
        pid_t pid = vfork();
        if (pid == 0) {
            execv(self, argv);
            _exit(127);
        }
        if (pid < 0 || waitpid(pid, NULL, 0) != pid)
            die("respawn");
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "stamp")) {
        stamp(argv[2], argv[3]);
        write_all("started\n", 8);
        stay();
    }
    if (argc == 6 && !strcmp(argv[1], "pour"))
        pour(argv[2], argv[3], strtol(argv[4], NULL, 10), strtol(argv[5], NULL, 10));
    if (argc == 2 && !strcmp(argv[1], "splice"))
        return move_all();
    if (argc == 4 && !strcmp(argv[1], "respawn"))
        respawn(argv[0], argv[2], argv[3]);
    fputs("usage: bench-child stamp|respawn FILE TAG, pour FILE TAG MIB KIB, splice (bench/run.py calls it)\n", stderr);
    return 2;
}
