#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int open_or_exit(const char *dir, const char *name, const char *suffix, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(99);
    }
    return fd;
}

void witness_open(struct witness *w, const char *dir, const char *lock, const char *role)
{
    *w = (struct witness){.lock = lock, .role = role};
    w->fd = open_or_exit(dir, lock, ".witness", O_RDWR);
    w->log_fd = open_or_exit(dir, "log", "", O_WRONLY | O_APPEND);
}

void witness_log(const struct witness *w, const char *verb, const char *more, ...)
{
    char line[512];
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    int len = snprintf(line, sizeof line, "%s lock=%s role=%s pid=%d t=%lld ", verb, w->lock, w->role, (int)getpid(),
                       (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    va_list args;
    va_start(args, more);
    len += vsnprintf(line + len, sizeof line - (size_t)len - 1, more, args);
    va_end(args);
    if (len > (int)sizeof line - 2)
        len = (int)sizeof line - 2;
    line[len++] = '\n';
    if (write(w->log_fd, line, (size_t)len) != len)
        abort();
}

pid_t witness_enter(const struct witness *w)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(w->fd, F_SETLK, &all) == 0)
        return 0;
    struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(w->fd, F_GETLK, &other) < 0)
        abort();
    /* Already gone again: it was a double hold all the same, but nobody can say whose. */
    pid_t pid = other.l_type == F_UNLCK ? -1 : other.l_pid;
    witness_log(w, "double", "other=%d", (int)pid);
    return pid;
}

void witness_leave(const struct witness *w)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(w->fd, F_SETLK, &all);
}
