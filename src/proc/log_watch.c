#include "proc/log_watch.h"
#include "base/fs.h"
#include "hold/protocol.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOG_POLL_MS 250

/* A directory that is made later (the first start makes log/) is found when its parent says so. */
static void watch_log(struct log_watch *watch)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/" HOLD_LOG_DIR, watch->dir);
    if (watch->log < 0)
        watch->log = inotify_add_watch(watch->fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

void log_watch_open(struct log_watch *watch, const struct proc *p)
{
    char path[64];
    *watch = (struct log_watch){.fd = -1, .log = -1, .process = -1, .pid_fd = -1, .dir = p->dir};
    log_watch_child(watch, p);
    if (p->dir < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", p->dir);
    watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->fd >= 0)
        watch->process = inotify_add_watch(watch->fd, path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF);
    if (watch->process < 0)
        fs_close(&watch->fd);
    else
        watch_log(watch);
}

void log_watch_clear(struct log_watch *watch)
{
    fs_close(&watch->fd);
    fs_close(&watch->pid_fd);
}

void log_watch_child(struct log_watch *watch, const struct proc *p)
{
    fs_close(&watch->pid_fd);
    watch->dir = p->dir;
    watch->is_child_gone = false;
    if (p->view.state != PROC_RUNNING || p->view.child.pid <= 0)
        return;
    watch->pid_fd = pid_open(p->view.child.pid);
    /* Opened first, then compared: somebody else may have its number. */
    watch->is_child_gone = watch->pid_fd < 0 || proc_id_liveness(&p->view.child) == LIVE_DEAD;
    if (watch->is_child_gone)
        fs_close(&watch->pid_fd);
}

/* Empties the queue. A queue that overflowed may have lost anything. */
static unsigned read_notes(struct log_watch *watch)
{
    _Alignas(struct inotify_event) char notes[4096];
    unsigned found = 0;
    ssize_t len;
    while ((len = read(watch->fd, notes, sizeof notes)) > 0) {
        const struct inotify_event *note;
        for (char *at = notes; at < notes + len; at += sizeof *note + note->len) {
            note = (const struct inotify_event *)at;
            if (note->wd == watch->log)
                found |= LOG_WATCH_OUTPUT;
            else
                found |= LOG_WATCH_OUTPUT | LOG_WATCH_STATE;
            if (note->wd == watch->log && (note->mask & IN_IGNORED))
                watch->log = -1;
        }
    }
    if (found & LOG_WATCH_STATE)
        watch_log(watch);
    return found;
}

unsigned log_watch_wait(struct log_watch *watch, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = watch->fd, .events = POLLIN}, {.fd = watch->pid_fd, .events = POLLIN}};
    bool is_polling = watch->fd < 0 || watch->is_child_gone;
    if (is_polling && (timeout_ms < 0 || timeout_ms > LOG_POLL_MS))
        timeout_ms = LOG_POLL_MS;
    int n = poll(fds, 2, timeout_ms);
    unsigned found = n >= 0 && is_polling ? LOG_WATCH_OUTPUT | LOG_WATCH_STATE : 0;
    if (n > 0 && fds[0].revents)
        found |= read_notes(watch);
    if (n > 0 && fds[1].revents) {
        found |= LOG_WATCH_OUTPUT | LOG_WATCH_STATE;
        fs_close(&watch->pid_fd); /* once is enough: it stays readable */
    }
    return found;
}
