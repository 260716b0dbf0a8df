/* tails.h - the output and the states of several processes, as they come: one inotify instance and one poll for all.
 *
 *     struct tails tails CLEANUP(tails_clear);
 *     tails_open(&tails, ws, ids, count, &query, err);
 *     while (tails_read(&tails, &hooks, err) >= 0 && !tails_have_ended(&tails))
 *         tails_wait(&tails, fds, fd_count, -1);
 *
 *  T1  Every byte is delivered once: reading continues from a cursor, however rarely it happens.
 *  T2  The output of a start is delivered before its end, and before the output of the next start.
 *  T3  The state of a process is read before its output. So when its end is known, all output before the end is read. */
#ifndef PROC_TAILS_H
#define PROC_TAILS_H

#include "proc/log.h"

#include <poll.h>

enum tail_what { TAIL_STARTED, TAIL_ENDED, TAIL_READY, TAIL_UNHEALTHY, TAIL_REMOVED, TAIL_STOPPED };

/* A change of a process. TAIL_STOPPED: a restart was due, and will not come. */
struct tail_change {
    enum tail_what what;
    int64_t run;
    int64_t pid;          /* TAIL_STARTED; 0: it has ended since */
    const json_t *exit;   /* TAIL_ENDED: an element of proc_last_exits, or NULL: not known */
    int64_t again_ms;     /* TAIL_ENDED: when it starts again (wall), 0: it does not */
    const struct proc *p; /* as it is now */
};

/* Each returns false to stop. */
struct tail_hooks {
    bool (*line)(void *data, size_t which, const struct log_line *line);
    bool (*missed)(void *data, size_t which, int64_t bytes); /* were dropped before they were read */
    bool (*changed)(void *data, size_t which, const struct tail_change *change);
    void *data;
};

struct tail {
    struct proc p;
    struct log_query query; /* its cursors move */
    struct log_seen seen[2];
    int watch_dir, watch_log, pid_fd;
    bool is_dirty, is_changed; /* there may be output; its state may be another */
    bool is_gone;              /* it was removed */
    int64_t run;               /* the newest start that was reported */
    bool is_running;           /* … and it had not ended */
    bool is_coming;            /* … and it was to start again */
    char phase[16];            /* the phase that was reported */
    int64_t behind_ms;         /* since when its output is left for later (boot clock); 0: it is not */
};

struct tails {
    struct tsk_workspace *ws;
    struct tail *list;
    size_t count;
    int notes;       /* inotify, or -1: polling */
    int watch_all;   /* of processes/: a process gets its directory with its first start */
    bool is_behind;  /* the output of one was left for later */
    int64_t read_ms; /* when tails_read was called last (boot clock) */
    int64_t over_ms; /* since when nothing runs; 0: something does */
};

/* Every process is read from query->cursor on, or from its end (both -1). ProcessNotFound. `query` lives as long as tails does. */
int tails_open(struct tails *tails, struct tsk_workspace *ws, const char *const *ids, size_t count,
               const struct log_query *query, struct tsk_error *err);
void tails_clear(struct tails *tails);
/* Where to continue reading process `which`; before the first tails_read. */
void tails_set_cursor(struct tails *tails, size_t which, const int64_t cursor[2]);
/* Gives out what is new: 1, 0 when nothing runs that could write, -1 also when a hook said stop (err->code is TSK_OK
 * then). */
int tails_read(struct tails *tails, const struct tail_hooks *hooks, struct tsk_error *err);
/* Until there may be more, or nothing has run for TAILS_LINGER_MS, or one of fds[0 … count) has something, at most timeout_ms (-1: no limit). Output that comes fast is
 * gathered: rounds are TAILS_GATHER_MS apart. */
void tails_wait(struct tails *tails, struct pollfd *fds, size_t count, int timeout_ms);
#define TAILS_GATHER_MS 40
/* Whether nothing has run for a while: between the two halves of a restart nothing runs, either. */
bool tails_have_ended(const struct tails *tails);
#define TAILS_LINGER_MS 1000

#endif
