/* log_watch.h - waiting until a process has written something, or its state has changed.
 *
 *     struct log_watch watch CLEANUP(log_watch_clear);
 *     log_watch_open(&watch, p);          // before looking and reading, so that nothing falls in between
 *     for (;;) {
 *         ... read ...
 *         unsigned what = log_watch_wait(&watch, -1);
 *         if (what & LOG_WATCH_STATE) { ... look at the process again ...; log_watch_child(&watch, p); }
 *     }
 *
 * It never fails: if inotify is not available (128 instances per user), it polls four times a second. */
#ifndef PROC_LOG_WATCH_H
#define PROC_LOG_WATCH_H

#include "proc/process.h"

enum {
    LOG_WATCH_OUTPUT = 1, /* there may be more in the log */
    LOG_WATCH_STATE = 2,  /* the process may have ended, or been started again */
};

struct log_watch {
    int fd;             /* inotify, or -1 */
    int log;            /* the watch of log/, or -1 */
    int process;        /* the watch of the process's directory */
    int pid_fd;         /* of the child, or -1 */
    int dir;            /* borrowed */
    bool is_child_gone; /* the process was said to run, and yet its child is not there: look again soon */
};

void log_watch_open(struct log_watch *watch, const struct proc *p);
void log_watch_clear(struct log_watch *watch);
/* The child to be watched is p's now; p has been loaded again. */
void log_watch_child(struct log_watch *watch, const struct proc *p);
/* What happened (a set of the above), 0 after timeout_ms (-1: none) or when a signal handler ran. */
unsigned log_watch_wait(struct log_watch *watch, int timeout_ms);

#endif
