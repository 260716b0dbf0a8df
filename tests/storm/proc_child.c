/* storm-proc-child - a supervised process that can be believed: it knows when there are two of it, and it says how much it
 * has written in a place that survives it.
 *
 *     storm-proc-child DIR NAME [PAUSE_US]
 *
 * The witness is an abstract socket of the name: the kernel gives it to one process at a time and takes it back at the
 * instant of its death. A process that does not get it writes a line to DIR/doubles.
 *
 * DIR/NAME.lives is struct lives, mapped. Each life takes the next entry, then writes lines `<NAME life pid number>` to
 * stdout with one write(2) each and counts them in its entry afterwards. So after any death the log must have the numbers
 * 1 … written of every life, and at most one more. `order` is the test's: code + 1 makes the process exit with that code. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LIVES_MAX = 65536 };

struct lives {
    _Atomic uint64_t born;
    _Atomic uint64_t order;
    struct life {
        _Atomic uint32_t pid;
        _Atomic uint32_t leaving; /* code + 1: about to exit with that code */
        _Atomic uint64_t written;
    } life[LIVES_MAX];
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "storm-proc-child: %s: %s\n", what, strerror(errno));
    exit(98);
}

static int open_in(const char *dir, const char *name, const char *suffix, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(path);
    return fd;
}

static struct lives *lives_open(const char *dir, const char *name)
{
    int fd = open_in(dir, name, ".lives", O_RDWR);
    if (ftruncate(fd, sizeof(struct lives)) < 0)
        fail("ftruncate");
    struct lives *lives = mmap(NULL, sizeof *lives, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (lives == MAP_FAILED)
        fail("mmap");
    close(fd);
    return lives;
}

static void witness_enter(const char *dir, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s/%s", dir, name);
    if (len < 0 || len >= (int)sizeof address.sun_path - 1) {
        errno = ENAMETOOLONG;
        fail(dir);
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0)
        return;
    int doubles = open_in(dir, "doubles", "", O_WRONLY | O_APPEND);
    dprintf(doubles, "%s pid %d: %s\n", name, (int)getpid(), strerror(errno));
    exit(97);
}

static void leave_if_ordered(struct lives *lives, struct life *life)
{
    uint64_t order = atomic_load(&lives->order) ? atomic_exchange(&lives->order, 0) : 0;
    if (!order)
        return;
    atomic_store(&life->leaving, (uint32_t)order);
    _exit((int)order - 1);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 96;
    long pause_us = argc > 3 ? strtol(argv[3], NULL, 10) : 500;
    witness_enter(argv[1], argv[2]);
    struct lives *lives = lives_open(argv[1], argv[2]);
    uint64_t number = atomic_fetch_add(&lives->born, 1);
    if (number >= LIVES_MAX)
        return 95;
    struct life *life = &lives->life[number];
    atomic_store(&life->pid, (uint32_t)getpid());
    struct timespec pause = {.tv_sec = pause_us / 1000000, .tv_nsec = pause_us % 1000000 * 1000};
    for (uint64_t line = 1;; line++) {
        char text[256];
        int len = snprintf(text, sizeof text, "<%s %llu %d %llu>\n", argv[2], (unsigned long long)number, (int)getpid(),
                           (unsigned long long)line);
        if (write(STDOUT_FILENO, text, (size_t)len) != len)
            fail("write");
        atomic_store(&life->written, line);
        leave_if_ordered(lives, life);
        nanosleep(&pause, NULL);
    }
}
