#include "base/ident_kept.h"
#include "base/fs.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLACES_EACH = 8, PIDFDS_MAX = 32 };

static struct {
    pthread_mutex_t mutex;
    size_t most, open, pidfds; /* descriptors of /proc/PID/stat, and pidfds of those whose life alone is asked for */
    size_t count;              /* places: more than descriptors, so that few pids share one */
    struct kept_stat {
        pid_t pid; /* 0: none */
        int fd, pidfd;
        uint64_t start_ticks; /* of the pidfd's process */
    } * places;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* With the mutex, as what follows. */
static void kept_drop(struct kept_stat *place)
{
    if (!place->pid)
        return;
    kept.open--;
    kept.pidfds -= place->pidfd >= 0;
    fs_close(&place->fd);
    fs_close(&place->pidfd);
    place->pid = 0;
}

void proc_keep_looks(size_t count)
{
    pthread_mutex_lock(&kept.mutex);
    for (size_t i = 0; i < kept.count; i++)
        kept_drop(&kept.places[i]);
    free(kept.places);
    kept.places = count ? memory_zeroed(count * PLACES_EACH, sizeof *kept.places) : NULL;
    kept.most = count;
    __atomic_store_n(&kept.count, count * PLACES_EACH, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&kept.mutex);
}

/* Whether the mutex was taken, and there are places. */
static bool kept_enter(void)
{
    if (!__atomic_load_n(&kept.count, __ATOMIC_RELAXED) || pthread_mutex_trylock(&kept.mutex) != 0)
        return false;
    if (kept.count)
        return true;
    pthread_mutex_unlock(&kept.mutex);
    return false;
}

/* With the mutex. */
static ssize_t kept_read_at(pid_t pid, char *text, size_t size)
{
    char path[64];
    struct kept_stat *place = &kept.places[(size_t)pid % kept.count];
    ssize_t len = place->pid == pid ? fs->pread(place->fd, text, size, 0) : -1;
    if (len > 0)
        return len;
    kept_drop(place);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    len = fd < 0 ? -1 : fs->pread(fd, text, size, 0);
    if (len > 0 && kept.open < kept.most) {
        *place = (struct kept_stat){.pid = pid, .fd = fd, .pidfd = -1};
        kept.open++;
        fd = -1;
    }
    return len;
}

ssize_t kept_stat_read(pid_t pid, char *text, size_t size)
{
    if (!kept_enter())
        return KEPT_NOT;
    ssize_t len = kept_read_at(pid, text, size);
    int saved = errno;
    pthread_mutex_unlock(&kept.mutex);
    errno = saved;
    return len;
}

bool kept_start(pid_t pid, uint64_t *ret_ticks)
{
    if (pid <= 0 || !kept_enter())
        return false;
    const struct kept_stat *place = &kept.places[(size_t)pid % kept.count];
    bool is_known = place->pid == pid && place->pidfd >= 0;
    struct pollfd end = {.fd = is_known ? place->pidfd : -1, .events = POLLIN};
    is_known = is_known && poll(&end, 1, 0) == 0;
    if (is_known)
        *ret_ticks = place->start_ticks;
    pthread_mutex_unlock(&kept.mutex);
    return is_known;
}

void kept_pidfd_open(pid_t pid)
{
    char text[1024];
    struct proc_stat stat;
    if (!kept_enter())
        return;
    struct kept_stat *place = &kept.places[(size_t)pid % kept.count];
    int pidfd CLEANUP_FD = -1;
    if (place->pid == pid && place->pidfd < 0 && kept.pidfds < PIDFDS_MAX)
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    ssize_t len = pidfd < 0 ? -1 : fs->pread(place->fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    if (len > 0 && proc_stat_parse(text, &stat) == 0) {
        place->start_ticks = stat.start_ticks;
        place->pidfd = pidfd;
        pidfd = -1;
        kept.pidfds++;
    }
    pthread_mutex_unlock(&kept.mutex);
}
