/* files.h - the files of a process's directory as values (their meaning: hold/protocol.h), and the guard of operations. */
#ifndef PROC_FILES_H
#define PROC_FILES_H

#include "base/clock.h"
#include "proc/process.h"

#define RECORD_POLL_MS 50 /* between two looks at a record where no inotify instance is available */

/* processes/<id>/; ENOENT if there is none and `is_new` is false. */
int proc_dir_open(int processes, const char *id, bool is_new);

/* What all starts of a process have in their environment. */
#define PROC_MARK_SIZE 48
void proc_mark(int dir, char mark[PROC_MARK_SIZE]);

/* P1. Waits for the process's byte of processes/.guard, at most 10 s: then CONFLICT. SIGINT, SIGTERM and SIGTSTP are
 * blocked while it is held, so that no stopped process blocks the others. One per thread at a time, unless the further ones
 * are taken with `is_trying` (returns 1 when it is busy). */
struct proc_guard {
    int fd; /* -1: not held */
    sigset_t saved;
};
#define PROC_GUARD_INIT                                                                                                \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }
int proc_guard_take(struct proc_registry *reg, const char *id, bool is_trying, struct proc_guard *guard,
                    struct tsk_error *err);
void proc_guard_drop(struct proc_guard *guard); /* for CLEANUP */

/* holder.lock: a descriptor with the lock (>= 0), -1 with EAGAIN when somebody has it. Waits up to wait_ms. */
int proc_holder_lock(int dir, int64_t wait_ms);
bool proc_holder_is_there(int dir);

struct proc_want {
    bool is_down;
    bool is_shutdown; /* down together with the server, not on purpose: a restore starts it again */
    int64_t grace_ms;
};
int proc_want_read(int dir, struct proc_want *ret); /* -1 with ENOENT: never wanted */
int proc_want_write(int dir, const struct proc_want *want, struct tsk_error *err);

/* A start: from status.json (with its end), or from run.<n>.lock. */
struct proc_status {
    int64_t n;
    char start_id[33], log[12], phase[12];
    struct proc_id child, holder;
    int64_t started_at_ms, restarts, retries, next_start_ms, stdout_offset, stderr_offset;
    bool is_adopted; /* a holder before the present one died */
    bool has_ended;
    int raw_status; /* -1: unknown */
    int64_t stopped_at_ms;
    char by[16], reason[160];
};
/* 1 found, 0 none (also an unreadable one: a torn file after a power failure), -1. */
int proc_status_read(int dir, struct proc_status *ret, struct tsk_error *err);
int proc_status_write(int dir, const struct proc_status *status, struct tsk_error *err);
/* run.<n>.lock: 1 there is one, 0 none. *ret_is_held: somebody of start n lives. *ret_has_identity: *ret is filled. */
int proc_start_read(int dir, int64_t n, struct proc_status *ret, bool *ret_has_identity, bool *ret_is_held,
                    struct tsk_error *err);
void proc_start_name(int64_t n, char name[40]);
/* Makes a new run.<n>.lock, locked. */
int proc_start_lock(int dir, int64_t n, struct tsk_error *err);
/* The starts that have a run.<n>.lock, oldest first; at most max. */
size_t proc_starts_list(int dir, int64_t *ret, size_t max);

/* Appends a fact; `rest` is "" or `,"key":value…`. */
int proc_history_put(int dir, const struct now *now, const char *what, int64_t n, const char *rest,
                     struct tsk_error *err);
/* The logical end, to be compared with what was seen already; 0 if there is no history. */
int64_t proc_history_end(int dir);
/* Whether that is the logical end. Cheaper: it does not open short files. */
bool proc_history_ends_at(int dir, int64_t offset);
/* The lines from logical offset `from` on, as an array of objects; *ret_next is where the next reading begins. Lines that
 * cannot be parsed are skipped, an unfinished last line is left for later. */
int proc_history_read(int dir, int64_t from, json_t **ret, int64_t *ret_next, struct tsk_error *err);

#endif
