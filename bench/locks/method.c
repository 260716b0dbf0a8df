/* method.c - the ways to lock that are compared. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static void set_path(struct bench *bench, const char *root, const char *name)
{
    int length = snprintf(bench->path, sizeof bench->path, "%s/%s", root, name);
    if (length < 0 || (size_t)length >= sizeof bench->path) {
        errno = ENAMETOOLONG;
        die(root);
    }
}

/* ---- tasuki ------------------------------------------------------------------------------------------- */

static void tasuki_open(struct bench *bench, const char *root)
{
    struct tsk_error err;
    if (tsk_workspace_open(root, &bench->workspace, &err) < 0)
        die_tasuki("open", &err);
}

static void tasuki_acquire(struct bench *bench, bool wait)
{
    struct tsk_lock_options options = {.size = sizeof options, .wait_ms = wait ? TSK_WAIT_FOREVER : 0};
    struct tsk_error err;
    if (tsk_lock_acquire(bench->workspace, TSK_LOCK_NAME, "bench", &options, &bench->lock, &err) < 0)
        die_tasuki("acquire", &err);
}

static void tasuki_release(struct bench *bench)
{
    struct tsk_error err;
    if (tsk_lock_release(bench->lock, &err) < 0)
        die_tasuki("release", &err);
}

/* ---- O_EXCL create and unlink ------------------------------------------------------------------------- */

static void excl_open(struct bench *bench, const char *root)
{
    set_path(bench, root, "excl.lock");
}

static bool excl_try(struct bench *bench)
{
    bench->fd = open(bench->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (bench->fd < 0 && errno != EEXIST)
        die(bench->path);
    return bench->fd >= 0;
}

/* Polls, and calls `between` after each try that failed. */
static void excl_poll(struct bench *bench, bool wait, void (*between)(void))
{
    while (!excl_try(bench)) {
        if (!wait)
            die(bench->path);
        between();
    }
}

static void no_pause(void)
{
}

static void yield_pause(void)
{
    sched_yield();
}

static void nap_pause(void)
{
    usleep(100);
}

static void spin_acquire(struct bench *bench, bool wait)
{
    excl_poll(bench, wait, no_pause);
    close(bench->fd);
}

static void yield_acquire(struct bench *bench, bool wait)
{
    excl_poll(bench, wait, yield_pause);
    close(bench->fd);
}

static void nap_acquire(struct bench *bench, bool wait)
{
    excl_poll(bench, wait, nap_pause);
    close(bench->fd);
}

/* The same with a file that says who holds it, as every real lock file does. */
static void content_acquire(struct bench *bench, bool wait)
{
    static const char content[] =
        "{\"version\":\"1.0\",\"lock_type\":\"name\",\"request_id\":null,\"run_id\":null,\"pid\":12345,"
        "\"host\":\"127.0.0.1\",\"created_at\":\"2026-01-01T00:00:00+00:00\",\"expires_at\":"
        "\"2026-01-01T00:30:00+00:00\"}\n";
    excl_poll(bench, wait, yield_pause);
    if (write(bench->fd, content, sizeof content - 1) != (ssize_t)(sizeof content - 1))
        die(bench->path);
    close(bench->fd);
}

static void excl_release(struct bench *bench)
{
    if (unlink(bench->path) < 0)
        die(bench->path);
}

/* ---- open file description locks ---------------------------------------------------------------------- */

static void ofd_open(struct bench *bench, const char *root)
{
    set_path(bench, root, "ofd.lock");
    bench->fd = open(bench->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (bench->fd < 0)
        die(bench->path);
}

static void ofd_set(struct bench *bench, short type, bool wait)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (fcntl(bench->fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range) < 0)
        die(bench->path);
}

static void ofd_acquire(struct bench *bench, bool wait)
{
    ofd_set(bench, F_WRLCK, wait);
}

static void ofd_release(struct bench *bench)
{
    ofd_set(bench, F_UNLCK, false);
}

/* ---- flock(2), with a lock file that says who holds it -------------------------------------------------- */

static void flock_open(struct bench *bench, const char *root)
{
    set_path(bench, root, "flock.guard");
    bench->guard_fd = open(bench->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (bench->guard_fd < 0)
        die(bench->path);
    set_path(bench, root, "flock.lock");
}

static void flock_acquire(struct bench *bench, bool wait)
{
    if (flock(bench->guard_fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0)
        die(bench->path);
    content_acquire(bench, false);
}

static void flock_release(struct bench *bench)
{
    excl_release(bench);
    if (flock(bench->guard_fd, LOCK_UN) < 0)
        die(bench->path);
}

static const struct method methods[] = {
    {"tasuki", "the library, with its events", tasuki_open, tasuki_acquire, tasuki_release},
    {"excl", "bare O_EXCL create and unlink; tries again at once", excl_open, spin_acquire, excl_release},
    {"excl-yield", "the same, sched_yield between tries", excl_open, yield_acquire, excl_release},
    {"excl-nap", "the same, usleep(100) between tries", excl_open, nap_acquire, excl_release},
    {"excl-content", "O_EXCL create, write the holder, unlink", excl_open, content_acquire, excl_release},
    {"flock", "flock(2), and below it O_EXCL create, write the holder, unlink", flock_open, flock_acquire,
     flock_release},
    {"ofd", "F_OFD_SETLK of one byte of an open file", ofd_open, ofd_acquire, ofd_release},
};

const struct method *method_find(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name))
            return &methods[i];
    return NULL;
}

void method_print_all(void)
{
    fputs("methods:\n", stderr);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        fprintf(stderr, "  %s: %s\n", methods[i].name, methods[i].about);
}
