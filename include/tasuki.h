/* tasuki.h - the public C API of libtasuki.
 *
 * What it is for: making sure that one thing is done by one process at a time, on a machine that people and
 * agents share, and that a crash at any instruction needs no cleaning up.
 *
 * Calling sequence (a complete program: examples/lock.c):
 *
 *     struct tsk_error err;
 *     struct tsk_workspace *ws;
 *     struct tsk_lock *lock;
 *     if (tsk_workspace_open(NULL, &ws, &err) < 0) ...            // finds `.aiflow/` upwards from here
 *     if (tsk_lock_acquire(ws, TSK_LOCK_NAME, "deploy", NULL, &lock, &err) < 0) ...  // err says who has it
 *     ... the work ...
 *     if (tsk_lock_release(lock, &err) < 0) ...                   // TSK_LOCK_LOST: somebody forced it away
 *     tsk_workspace_close(ws);
 *
 * Errors: functions that can fail return 0 or -1 and fill *err; out-parameters stay untouched on failure.
 * Memory: strings that go in are borrowed; objects that come out are yours until their _close or _release.
 * Threads: calls on different workspaces are independent. One workspace may be used by several threads; one
 *   tsk_lock by one thread at a time. tsk_error values are plain data.
 * Forks: a fork without exec closes the lock's descriptors in the child, so the child holds nothing: what the parent
 *   took is TSK_LOCK_LOST there. To use locks in the child, open the workspace anew; do not use the parent's tsk_workspace.
 *   To let a child keep the lock alive on purpose, hand it a duplicate of tsk_lock_fd(), made before the fork.
 * Crashes: a holder that dies, by whatever means, lets the next one in at once. Nothing is left to remove. */
#ifndef TASUKI_H
#define TASUKI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSK_API __attribute__((visibility("default")))

/* ---- errors ------------------------------------------------------------------------------------------- */

/* Reason codes. Names on the wire, HTTP status and exit code: src/base/errors.def. */
enum tsk_code {
    TSK_OK = 0,
    TSK_INVALID_INPUT,
    TSK_FLOW_INVALID,
    TSK_UNAUTHORIZED,
    TSK_FORBIDDEN_ORIGIN,
    TSK_NOT_FOUND,
    TSK_PROCESS_NOT_FOUND,
    TSK_REQUEST_NOT_FOUND,
    TSK_RUN_NOT_FOUND,
    TSK_LOCK_NOT_FOUND,
    TSK_RUN_IN_PROGRESS,
    TSK_QUEUE_IN_PROGRESS,
    TSK_LOCK_HELD,
    TSK_SPRINT_BLOCKED,
    TSK_PROCESS_ALREADY_EXISTS,
    TSK_PROCESS_ALREADY_RUNNING,
    TSK_PROCESS_NOT_RUNNING,
    TSK_WORKFLOW_OWNED_BY_OTHER,
    TSK_UL_WORKFLOW_NOT_OWNED,
    TSK_CONFLICT,
    TSK_LOCK_LOST,
    TSK_ALREADY_ANSWERED,
    TSK_NEEDS_CONFIRMATION,
    TSK_ZOMBIE_DETECTED,
    TSK_PAYLOAD_TOO_LARGE,
    TSK_PROCESS_START_FAILED,
    TSK_PROCESS_STOP_FAILED,
    TSK_TASK_FAILED,
    TSK_GROUP_FAILED,
    TSK_MAX_STEPS_EXCEEDED,
    TSK_CYCLE_LIMIT_EXCEEDED,
    TSK_TASK_TIMEOUT,
    TSK_RUN_FAILED,
    TSK_NEEDS_INPUT,
    TSK_ENVIRONMENT,
    TSK_STORAGE_FULL,
    TSK_UNSUPPORTED_FS,
    TSK_REDIS_UNAVAILABLE,
    TSK_DOCTOR_FAILED,
    TSK_INTERNAL,
    TSK_LOCK_STALE_RECOVERED
};

#define TSK_ERROR_ARENA 6144

/* An error by value. The fields are for reading through the functions below. */
struct tsk_error {
    enum tsk_code code;
    int sys_errno;               /* 0, or the errno of the call that failed */
    const char *text;            /* key of the sentence that says it, NULL: the code's own title */
    unsigned short used;         /* bytes of arena in use */
    char arena[TSK_ERROR_ARENA]; /* context pairs and next commands */
};

/* The wire name of a code, e.g. "LOCK_HELD". Static storage. */
TSK_API const char *tsk_code_name(enum tsk_code code);
/* One sentence in `lang` ("ja", "en", "zh"; NULL: from TASUKI_LANG or LANG). Returns buf. */
TSK_API const char *tsk_error_message(const struct tsk_error *err, const char *lang, char *buf, size_t size);
/* The value of a context pair such as "pid", or NULL. Borrowed from *err. */
TSK_API const char *tsk_error_context(const struct tsk_error *err, const char *key);
/* The i-th command that would help, or NULL. Borrowed from *err. */
TSK_API const char *tsk_error_next(const struct tsk_error *err, unsigned i);

/* ---- workspace ---------------------------------------------------------------------------------------- */

struct tsk_workspace;

/* Opens the workspace at `root`; with NULL: TASUKI_ROOT, else the nearest directory upwards that has
 * `.aiflow/` (in a linked git worktree: the main worktree's). TSK_NOT_FOUND when there is none. */
TSK_API int tsk_workspace_open(const char *root, struct tsk_workspace **ret, struct tsk_error *err);
TSK_API void tsk_workspace_close(struct tsk_workspace *ws);

/* ---- locks -------------------------------------------------------------------------------------------- */

enum tsk_lock_kind {
    TSK_LOCK_REQUEST, /* .aiflow/locks/request.<id>.lock.json */
    TSK_LOCK_QUEUE,   /* .aiflow/locks/queue.lock.json, has no id */
    TSK_LOCK_NAME,    /* .aiflow/locks/name.<id>.lock.json */
    TSK_LOCK_SPRINT,  /* <project root>/.sprint-running */
};

/* Blocks in the kernel. With a time, however long, a free lock is also gone for when somebody before us in line is stopped. */
#define TSK_WAIT_FOREVER (-1)

/* Start from `struct tsk_lock_options options = {.size = sizeof options}`; what is 0 takes its default. */
struct tsk_lock_options {
    size_t size;            /* sizeof(struct tsk_lock_options), so that fields can be added later */
    int64_t ttl_ms;         /* default 30 min; only other tools look at it, see docs/guide/locks.md */
    int64_t wait_ms;        /* 0: do not wait; TSK_WAIT_FOREVER; else at most this long, in arrival order */
    const char *session_id; /* required for TSK_LOCK_SPRINT */
    const char *run_id;
    const char *request_id; /* for TSK_LOCK_QUEUE: the request being run */
    const char *epic_spec;  /* required for TSK_LOCK_SPRINT */
    bool force;             /* take it from a living holder as well; you have asked whoever must be asked */
    bool kill;              /* with force: end the old holder first (default: it is fenced off) */
};

struct tsk_lock;

/* Takes the lock for this process. It stays held until tsk_lock_release or the end of the process (and of
 * the children that were handed tsk_lock_fd). Refusals: TSK_LOCK_HELD (TSK_RUN_IN_PROGRESS,
 * TSK_QUEUE_IN_PROGRESS, TSK_SPRINT_BLOCKED by kind) with the holder in the context; a dead holder's sprint lock
 * without `force`: TSK_ZOMBIE_DETECTED. A waiting call that a signal handler interrupts: TSK_CONFLICT with
 * sys_errno EINTR. */
TSK_API int tsk_lock_acquire(struct tsk_workspace *ws, enum tsk_lock_kind kind, const char *id,
                             const struct tsk_lock_options *options, struct tsk_lock **ret, struct tsk_error *err);
/* Extends the TTL. TSK_LOCK_LOST: it is not ours any more; stop what you are doing. */
TSK_API int tsk_lock_renew(struct tsk_lock *lock, struct tsk_error *err);
/* Whether it is still ours, without changing anything. TSK_LOCK_LOST if not. */
TSK_API int tsk_lock_verify(struct tsk_lock *lock, struct tsk_error *err);
/* Releases and frees `lock` in every case. TSK_LOCK_LOST: it had been taken from us; nothing was touched. */
TSK_API int tsk_lock_release(struct tsk_lock *lock, struct tsk_error *err);

/* Grows with every acquisition, survives reboots, never repeats: store it beside what you write, and refuse
 * writes with a smaller one. */
TSK_API uint64_t tsk_lock_fence(const struct tsk_lock *lock);
TSK_API const char *tsk_lock_token(const struct tsk_lock *lock);
/* The descriptor whose life is the lock's life. To let a child keep the lock held after this process died, give it a duplicate
 * (dup without close-on-exec, or a file action of posix_spawn): this one itself is close-on-exec, and closed in a forked
 * child. */
TSK_API int tsk_lock_fd(struct tsk_lock *lock);

#ifdef __cplusplus
}
#endif
#endif
