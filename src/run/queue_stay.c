/* queue_stay.c - a queue that waits for more (U7, U9). */
#include "base/clock.h"
#include "base/fs.h"
#include "run/queue.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CHANGES (IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)

/* nohup, and `&` in a script, ignore some: a blocked one would reach us all the same. */
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) < 0 || now.sa_handler != SIG_IGN)
        sigaddset(set, number);
}

int queue_stay_open(struct queue_stay *stay, struct tsk_error *err)
{
    sigset_t caught;
    *stay = (struct queue_stay){.requests = -1, .locks = -1, .state = -1};
    sigemptyset(&caught);
    add_unless_ignored(&caught, SIGTERM);
    add_unless_ignored(&caught, SIGINT);
    add_unless_ignored(&caught, SIGHUP);
    stay->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    stay->signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (stay->inotify >= 0 && stay->signals >= 0)
        return sigprocmask(SIG_BLOCK, &caught, NULL);
    error_errno(err, "watch", REQUEST_FOLDER);
    queue_stay_close(stay);
    return -1;
}

/* The signals stay blocked (U9). */
void queue_stay_close(struct queue_stay *stay)
{
    fs_close(&stay->inotify);
    fs_close(&stay->signals);
}

bool queue_stay_is_signalled(struct queue_stay *stay)
{
    struct signalfd_siginfo info;
    while (stay->signals >= 0 && read(stay->signals, &info, sizeof info) > 0)
        stay->is_signalled = true;
    return stay->is_signalled;
}

static int watch_dir(int inotify, int dir, const char *name, uint32_t mask)
{
    char proc[64];
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : inotify_add_watch(inotify, proc, mask); /* a directory that is watched stays watched once */
}

void queue_stay_watch(struct queue_stay *stay, struct tsk_workspace *ws)
{
    stay->state = watch_dir(stay->inotify, ws->state_dir, ".", IN_CREATE | IN_MOVED_TO);
    stay->requests = watch_dir(stay->inotify, ws->state_dir, REQUEST_FOLDER, CHANGES);
    stay->locks = watch_dir(stay->inotify, ws->locks_dir, ".", IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO);
}

/* In the state folder only the stop and a new folder of requests matter. A folder that was removed is IN_IGNORED. */
static bool is_wanted_change(const struct queue_stay *stay, const struct inotify_event *event)
{
    const char *name = event->len ? event->name : "";
    if (event->mask & (IN_Q_OVERFLOW | IN_IGNORED) || event->wd == stay->requests)
        return true;
    if (event->wd == stay->state)
        return strcmp(name, QUEUE_STOP_NAME) == 0 || strcmp(name, REQUEST_FOLDER) == 0;
    return strncmp(name, "request.", 8) == 0 || strncmp(name, "queue.", 6) == 0;
}

static bool stay_read_changes(const struct queue_stay *stay)
{
    _Alignas(struct inotify_event) char text[4096];
    bool is_wanted = false;
    for (ssize_t got; (got = read(stay->inotify, text, sizeof text)) > 0;)
        for (char *at = text; at < text + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            is_wanted = is_wanted || is_wanted_change(stay, event);
            at += sizeof *event + event->len;
        }
    return is_wanted;
}

enum queue_woken queue_stay_wait(struct queue_stay *stay, int64_t until_ms)
{
    for (;;) {
        struct pollfd polls[] = {{.fd = stay->inotify, .events = POLLIN}, {.fd = stay->signals, .events = POLLIN}};
        int64_t left = until_ms - clock_now().boot_ms;
        if (queue_stay_is_signalled(stay))
            return QUEUE_SIGNALLED;
        if (left <= 0)
            return QUEUE_TIME_UP;
        int count = poll(polls, 2, left > INT32_MAX ? INT32_MAX : (int)left);
        if (count > 0 && polls[0].revents && stay_read_changes(stay))
            return QUEUE_WOKEN;
    }
}
