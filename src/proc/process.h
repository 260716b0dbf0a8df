/* process.h - supervised processes: registry, state, and the operations on them. See hold/protocol.h for the files and for the
 * invariants H1-H7 that this side keeps too.
 *
 * The registry (table `process`) says what a process should be; the files of its directory say what it is. Every function that
 * reads the state also reconciles it: facts of `history` become events, a process whose holder died is adopted by a new one or
 * declared lost, and the row's `state` is updated, in one transaction.
 *
 *  P1  An operation that changes a process (create, start, stop, remove, update, adopt) holds the process's byte of
 *      `processes/.guard` while it decides. It is short: waiting for an end happens without it.
 *  P2  Where file and database differ, the file is right.
 *  P3  A start is refused while holder.lock is held, or while run.<n>.lock is held or n's child lives, unless n has an exit. */
#ifndef PROC_PROCESS_H
#define PROC_PROCESS_H

#include "base/ident.h"
#include "proc/spec.h"
#include "store/db.h"
#include "store/workspace.h"

enum proc_state { PROC_NOT_STARTED, PROC_RUNNING, PROC_STOPPED, PROC_FAILED, PROC_STATE_COUNT };
extern const char *const proc_state_names[]; /* "NotStarted" … as on the wire; NULL at the end */

/* The phase of one in a list whose files cannot be read: `state` is what was known last, `detail` says why. */
#define PROC_UNREADABLE "unreadable"

/* What a look at a process found. */
struct proc_view {
    enum proc_state state;
    const char *phase;            /* "" starting ready unhealthy stopping backoff lost unreadable; static */
    int64_t n;                    /* number of the newest start, 0: never started */
    struct proc_id child, holder; /* pid 0: none */
    bool has_holder;              /* somebody is in charge */
    int64_t started_at_ms, stopped_at_ms, next_start_ms;
    int64_t restarts, retries;
    int exit_code;   /* -1: unknown */
    int raw_status;  /* wait status; -1: unknown */
    char by[16];     /* of the exit: itself stop signal unknown */
    char error[256]; /* PROC_FAILED: "Process exited with code 3" */
    char start_id[33];
    char log[12];                         /* mode in use */
    int64_t stdout_offset, stderr_offset; /* where the newest start's output begins */
    bool is_foreign;                      /* started in another pid namespace: cannot be signalled from here */
    bool is_stuck;                        /* a stop gave up: it is alive after SIGKILL */
    bool want_down;                       /* stopped since its last start */
    bool is_shutdown;                     /* … but only because the server ended, not on purpose */
    char detail[200];                     /* the probe's words */
    bool has_usage; /* false also where the child cannot be asked: it is in another pid namespace */
    struct proc_usage usage;
};

/* An opened registry: database and `processes/`. One per operation; not to be kept over a fork. */
struct proc_registry {
    struct tsk_workspace *ws;
    struct db db;
    int dir;              /* processes/ */
    bool outbox_is_empty; /* when a row was read last */
    json_t *removed;      /* holder_list_removed, once it was asked for */
    bool is_written;      /* the records are only written (json_finished), not read */
    char *home;     /* directory of the caller, where that is known; owned. Records of other git worktrees say so */
    char *worktree; /* that of `home`, once it was asked for; owned */
    struct {
        char *dir, *top; /* owned; the worktree that it is in, "": none, NULL: the caller's or not asked for */
        bool is_gone;
    } place; /* the directory of a process that was looked at last: most processes of a list share theirs */
    /* Told for which processes ("db, cache") a start waits, and with NULL that it does not wait any more; may be NULL. */
    void (*waits)(void *data, const char *ids);
    void *waits_data;
};
int proc_registry_open(struct proc_registry *reg, struct tsk_workspace *ws, struct tsk_error *err);
void proc_registry_close(struct proc_registry *reg);

struct
    proc_known; /* what a memo has instead of the definition, of a process about which nothing has changed (memo.h) */

/* A registered process as read from its row, with its directory. */
struct proc {
    char id[129];
    json_t *spec; /* canonical; NULL where `known` has what is shown of it */
    struct proc_known *known;
    struct buf row; /* its columns, where a memo is kept */
    bool is_synced; /* the row had heard of everything */
    int64_t created_at_ms, updated_at_ms;
    int dir;                /* processes/<id>/, -1 if there is none */
    int64_t history_offset; /* how far the history has become events */
    int64_t exit_run;       /* the newest start whose end has become an event */
    char *state_text;       /* the row's state */
    char *started_by;       /* the who of the starter (actor.h) as the row has it: JSON, or "" */
    struct proc_view view;
    struct proc_stamp { /* of status.json and phase before they were read, for proc_wait_change */
        uint64_t inode;
        int64_t time_ns;
    } seen[2];
};
void proc_clear(struct proc *p);

/* Looks one up and reconciles it. ProcessNotFound with the nearest id. */
int proc_load(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err);
/* The same for a caller that only shows it: `spec` and `dir` may be missing. */
int proc_load_to_show(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err);
int proc_list_to_show(struct proc_registry *reg, struct proc **ret, size_t *ret_count, struct tsk_error *err);
/* All of them, reconciled, sorted by id. *ret is owned: proc_list_free. */
int proc_list(struct proc_registry *reg, struct proc **ret, size_t *ret_count, struct tsk_error *err);
void proc_list_free(struct proc *list, size_t count);
/* Only the registered ids, for completion and suggestions: array of strings, owned. */
int proc_ids(struct proc_registry *reg, json_t **ret, struct tsk_error *err);

/* `spec` canonical (proc_spec_make), borrowed. ProcessAlreadyExists. */
int proc_create(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);
/* A running process keeps the definition with which it was started. If expected_updated_at_ms is not -1 and differs from the time
 * of the last update, the error is CONFLICT with the text PROC_CHANGED. */
#define PROC_CHANGED "process_changed"
int proc_update(struct proc_registry *reg, const char *id, const json_t *spec, int64_t expected_updated_at_ms,
                struct tsk_error *err);
/* NEEDS_CONFIRMATION when it runs, unless is_forced: then it is stopped first. Ends leftovers. */
int proc_remove(struct proc_registry *reg, const char *id, bool is_forced, struct tsk_error *err);
/* Several, with one look at the machine's processes; results[i] is what became of ids[i]. */
void proc_remove_many(struct proc_registry *reg, const char *const *ids, size_t count, bool is_forced,
                      struct tsk_error *results);

/* Starts many, overlapping the waits; results[i] is the error of ids[i] (code TSK_OK: started). Dependencies are not looked at
 * here (depend.h does that). -1 only when nothing could be tried. */
int proc_start_many(struct proc_registry *reg, const char *const *ids, size_t count, struct tsk_error *results,
                    struct tsk_error *err);
/* Stops many, in reverse order of dependencies (depend.h, D4): of those that do not need each other it signals all, then waits
 * for all. */
int proc_stop_many(struct proc_registry *reg, const char *const *ids, size_t count, int64_t grace_ms,
                   struct tsk_error *results, struct tsk_error *err);
int proc_stop(struct proc_registry *reg, const char *id, int64_t grace_ms, struct tsk_error *err);
/* Stops all that runs, as a shutdown does: a restore starts again what should run. What cannot be stopped is logged. */
int proc_shutdown(struct tsk_workspace *ws, struct tsk_error *err);

/* The party that has registered it, as JSON; owned, NULL: unknown. */
json_t *proc_creator(struct proc_registry *reg, const char *id);

/* The record as every skin shows it, secrets masked. Owned. Finished if reg->is_written, and it was known. */
json_t *proc_to_json(struct proc_registry *reg, const struct proc *p);
/* The same with more members, and the bytes of its log. */
json_t *proc_to_json_with(struct proc_registry *reg, const struct proc *p, const json_t *more);
/* What is shown of a process, also of one that is known: its directory, and the port that its probes ask (0: none). */
const char *proc_directory(const struct proc_registry *reg, const struct proc *p);
int proc_port(const struct proc *p);

/* The records of the processes of a workspace, which may have none yet. Owned. Of more than `most` those that run come first, and
 * only this many; *ret_total is the number of all. `home`: the caller's directory; processes of another worktree say so (NULL: none
 * does). New facts become events, so a command that shows events calls this first. */
int proc_overview(struct tsk_workspace *ws, const char *home, size_t most, json_t **ret, size_t *ret_total,
                  struct tsk_error *err);
/* The same; the records may be finished. */
int proc_overview_to_write(struct tsk_workspace *ws, const char *home, size_t most, json_t **ret, size_t *ret_total,
                           struct tsk_error *err);

/* Waits until something about the process may have changed, at most timeout_ms: 1 changed, 0 timeout, -1. Does not poll:
 * inotify on its directory where available, and the child's pidfd. */
int proc_wait_change(const struct proc *p, int64_t timeout_ms, struct tsk_error *err);

/* The processes that belong to a start although its child has ended: array of {"pid","name"}; owned. */
int proc_leftovers(const struct proc *p, json_t **ret, struct tsk_error *err);
/* Which of those that have ended left some, in one look for all; ret has `count` elements. */
void proc_have_leftovers(const struct proc *list, size_t count, bool *ret);

#endif
