/* tasuki.h - the public C API of libtasuki.
 *
 * The library has two parts. Locks make sure that only one process at a time does a thing, on a machine that people and
 * agents share. Graphs run C functions in parallel, in an order that you define. A crash at any instruction leaves nothing
 * to clean up.
 *
 * Calling sequence (a complete program: examples/lock.c):
 *
 *     struct tsk_error err;
 *     struct tsk_workspace *ws;
 *     struct tsk_lock *lock;
 *     if (tsk_workspace_open(NULL, &ws, &err) < 0) ...            // finds `.aiflow/` upwards from here
 *     if (tsk_lock_acquire(ws, TSK_LOCK_NAME, "deploy", NULL, &lock, &err) < 0) ...  // err names the holder
 *     ... the work ...
 *     if (tsk_lock_release(lock, &err) < 0) ...                   // TSK_LOCK_LOST: somebody forced it away
 *     tsk_workspace_close(ws);
 *
 * Errors: functions that can fail return 0 or -1 and fill *err; out-parameters stay untouched on failure.
 * Memory: strings that go in are borrowed; objects that come out are yours until their _close or _release.
 * Threads: calls on different workspaces are independent. One workspace may be used by several threads; one
 *   tsk_lock by one thread at a time. tsk_error values are plain data.
 * Forks: a fork without exec closes the lock's descriptors in the child, so the child holds nothing: a call on a lock of
 *   the parent returns TSK_LOCK_LOST there. To use locks in the child, open the workspace again; do not use the parent's
 *   tsk_workspace. To let a child keep the lock on purpose, give it a duplicate of tsk_lock_fd(), made before the fork.
 * Crashes: when a holder dies, for any reason, the next process gets the lock at once. No file has to be removed. */
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
    TSK_LOCK_STALE_RECOVERED,
};

#define TSK_ERROR_ARENA 8192

/* An error by value. The fields are for reading through the functions below. */
struct tsk_error {
    enum tsk_code code;
    int sys_errno;               /* 0, or the errno of the call that failed */
    const char *text;            /* key of its sentence; NULL: the code's own title */
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
/* Makes a workspace in `root` (NULL: the working directory) as `tasuki init` does, and opens it. An existing one is only opened. */
TSK_API int tsk_workspace_create(const char *root, struct tsk_workspace **ret, struct tsk_error *err);
TSK_API void tsk_workspace_close(struct tsk_workspace *ws);

/* ---- locks -------------------------------------------------------------------------------------------- */

enum tsk_lock_kind {
    TSK_LOCK_REQUEST, /* .aiflow/locks/request.<id>.lock.json */
    TSK_LOCK_QUEUE,   /* .aiflow/locks/queue.lock.json, has no id */
    TSK_LOCK_NAME,    /* .aiflow/locks/name.<id>.lock.json */
    TSK_LOCK_SPRINT,  /* <project root>/.sprint-running */
};

/* Waits in the kernel without a time limit. A waiter with a limit, however long, also gets a free lock when a process before
 * it in line is stopped (SIGSTOP); a waiter without one waits for that process. */
#define TSK_WAIT_FOREVER (-1)

/* Start from `struct tsk_lock_options options = {.size = sizeof options}`; a field that is 0 has its default. */
struct tsk_lock_options {
    size_t size;            /* sizeof(struct tsk_lock_options), so that fields can be added later */
    int64_t ttl_ms;         /* default 30 min; mostly for other tools, see docs/guide/locks.md */
    int64_t wait_ms;        /* 0: do not wait; TSK_WAIT_FOREVER; else at most this long, in arrival order */
    const char *session_id; /* required for TSK_LOCK_SPRINT */
    const char *run_id;
    const char *request_id; /* for TSK_LOCK_QUEUE: the request being run */
    const char *epic_spec;  /* required for TSK_LOCK_SPRINT */
    bool force;             /* take it even from a living holder; the caller has asked for permission */
    bool kill;              /* with force: end the old holder first (default: it is fenced off) */
};

struct tsk_lock;

/* Takes the lock for this process. It stays held until tsk_lock_release or the end of the process (and of
 * the children that got tsk_lock_fd). Refusals: TSK_LOCK_HELD (TSK_RUN_IN_PROGRESS,
 * TSK_QUEUE_IN_PROGRESS, TSK_SPRINT_BLOCKED by kind) with the holder in the context; a dead holder's sprint lock
 * without `force`: TSK_ZOMBIE_DETECTED. A waiting call that a signal handler interrupts: TSK_CONFLICT with
 * sys_errno EINTR. */
TSK_API int tsk_lock_acquire(struct tsk_workspace *ws, enum tsk_lock_kind kind, const char *id,
                             const struct tsk_lock_options *options, struct tsk_lock **ret, struct tsk_error *err);
/* Extends the TTL. TSK_LOCK_LOST: another process has the lock now; stop the work that it protects. */
TSK_API int tsk_lock_renew(struct tsk_lock *lock, struct tsk_error *err);
/* Succeeds if this process still has the lock; changes nothing. Otherwise TSK_LOCK_LOST. */
TSK_API int tsk_lock_verify(struct tsk_lock *lock, struct tsk_error *err);
/* Releases the lock and frees `lock` in every case. TSK_LOCK_LOST: another process had taken it; its lock is unchanged. */
TSK_API int tsk_lock_release(struct tsk_lock *lock, struct tsk_error *err);

/* The fence of this acquisition. It grows with every acquisition, survives reboots and never repeats. Store it beside the data
 * that you write, and refuse writes with a smaller one. */
TSK_API uint64_t tsk_lock_fence(const struct tsk_lock *lock);
TSK_API const char *tsk_lock_token(const struct tsk_lock *lock);
/* The lock is held as long as this descriptor is open in any process. To let a child hold the lock after this process has died,
 * give it a duplicate (dup without close-on-exec, or a file action of posix_spawn); the descriptor itself is close-on-exec, and
 * closed in a forked child. Opens a second descriptor for the release; returns -1 with errno if that fails. */
TSK_API int tsk_lock_fd(struct tsk_lock *lock);

/* ---- graphs ------------------------------------------------------------------------------------------- */

/* A graph of tasks that are C functions, run on a pool of threads. No workspace is needed.
 *
 *     struct tsk_graph *graph;
 *     struct tsk_context *context;
 *     uint32_t fetch, store;
 *     tsk_graph_new(&graph, &err);
 *     tsk_graph_task(graph, TSK_ROOT, "fetch", fetch_it, &data, &fetch, &err);
 *     tsk_graph_task(graph, TSK_ROOT, "store", store_it, &data, &store, &err);
 *     tsk_graph_edge(graph, fetch, store, &err);                    // store starts when fetch has ended
 *     tsk_context_create(graph, NULL, &context, &err);
 *     if (tsk_context_run(context, &err) < 0) ...                   // TSK_TASK_FAILED, TSK_GROUP_FAILED, ...
 *     tsk_context_free(context);
 *     tsk_graph_free(graph);
 *
 * Complete programs: examples/sequence.c, diamond.c, policy.c, dynamic.c, cancel.c, coordinator.c.
 *
 * Rules: a task starts once, when all its predecessors have ended. If one of them failed, the task does not start; tasks that
 * do not depend on the failure run to their end. A branch of a group has its own session (`<parent>_<branch>`) and channel.
 * When the whole group has ended, the keys that its branches wrote are merged, in the order in which the branches were added.
 *
 * Threads: a graph is built by one thread; once a context was created from it, it does not change, and any number of contexts
 * may run it at once. A context is run by one thread; tsk_context_cancel may be called by any other, and by a signal
 * handler. A tsk_call belongs to the task it was given to. */

struct tsk_graph;
struct tsk_context;
struct tsk_call;

/* A task. Returns 0 for success; any other value is a failure (tsk_call_fail gives the reason). */
typedef int tsk_task_function(struct tsk_call *call, void *arg);

#define TSK_ROOT 0u /* the scope of tasks that are in no group */

enum tsk_policy {
    TSK_POLICY_STRICT,      /* all branches must succeed; the others run to their end */
    TSK_POLICY_FAIL_FAST,   /* the first failure stops the others */
    TSK_POLICY_BEST_EFFORT, /* failures are reported, the group passes */
    TSK_POLICY_AT_LEAST,    /* `number` branches must succeed */
    TSK_POLICY_CRITICAL,    /* the branches marked critical must succeed */
};
/* How values of one key from several branches become one. Values that do not fit their rule fail the group, as ERROR does. */
enum tsk_merge {
    TSK_MERGE_LAST,
    TSK_MERGE_FIRST,
    TSK_MERGE_SUM, /* numbers */
    TSK_MERGE_APPEND,
    TSK_MERGE_MAX, /* numbers, or texts */
    TSK_MERGE_MIN,
    TSK_MERGE_ERROR,
};

TSK_API int tsk_graph_new(struct tsk_graph **ret, struct tsk_error *err);
TSK_API void tsk_graph_free(struct tsk_graph *graph); /* after its contexts */
/* `scope` is TSK_ROOT or a branch; `name` (copied) may be NULL; `arg` is passed to the function. */
TSK_API int tsk_graph_task(struct tsk_graph *graph, uint32_t scope, const char *name, tsk_task_function *function,
                           void *arg, uint32_t *ret_task, struct tsk_error *err);
/* `after` starts when `before` has ended. Either may be a group. Across scopes the edge holds between the groups. */
TSK_API int tsk_graph_edge(struct tsk_graph *graph, uint32_t before, uint32_t after, struct tsk_error *err);
/* Adds a group; its branches run in parallel. A group has edges like a task. `number` is for TSK_POLICY_AT_LEAST. */
TSK_API int tsk_graph_group(struct tsk_graph *graph, uint32_t scope, const char *name, enum tsk_policy policy,
                            uint32_t number, uint32_t *ret_group, struct tsk_error *err);
/* A branch is a scope. `name` NULL: that of its first task. */
TSK_API int tsk_graph_branch(struct tsk_graph *graph, uint32_t group, const char *name, bool is_critical,
                             uint32_t *ret_scope, struct tsk_error *err);
/* Sets the number of retries of a failed task, and the pause before the first; the pause doubles up to `max_ms`. */
TSK_API int tsk_graph_retry(struct tsk_graph *graph, uint32_t task, unsigned retries, int64_t initial_ms,
                            int64_t max_ms, struct tsk_error *err);
/* Sets how many times a task may run in one session (tsk_call_next, tsk_call_again). */
TSK_API int tsk_graph_max_cycles(struct tsk_graph *graph, uint32_t task, unsigned max, struct tsk_error *err);
/* Sets the merge rule of a key; `key` "*" stands for all keys without a rule. The default is TSK_MERGE_LAST. */
TSK_API int tsk_graph_merge(struct tsk_graph *graph, const char *key, enum tsk_merge rule, struct tsk_error *err);

/* Start from `struct tsk_context_options options = {.size = sizeof options}`; a field that is 0 has its default. */
struct tsk_context_options {
    size_t size;
    const char *session_id; /* default: random */
    unsigned workers;       /* threads, the caller's among them; default: one per processor */
    uint64_t max_steps;     /* executions in all branches together; default: no limit */
    unsigned max_cycles;    /* executions of one task; default 10 */
    void *data;             /* for the callbacks, which run on the threads of the pool */
    /* A branch has ended. */
    void (*on_branch)(void *data, const char *session_id, const char *branch, bool has_failed);
    /* Two branches wrote a key without a rule. By default the value of the second branch is kept. */
    void (*on_conflict)(void *data, const char *key, const char *first, const char *second);
    /* A task has ended and will not be retried; `err` is NULL unless it failed. */
    void (*on_task)(void *data, const char *session_id, const char *task, const struct tsk_error *err);
    /* For tasks without a tsk_graph_retry of their own. */
    unsigned retries;           /* default 0 */
    int64_t backoff_initial_ms; /* the pause before the first retry, which doubles; default 1000 */
    int64_t backoff_max_ms;     /* default 60000 */
};

TSK_API int tsk_context_create(struct tsk_graph *graph, const struct tsk_context_options *options,
                               struct tsk_context **ret, struct tsk_error *err);
/* Makes the run begin at a task or a group: only it and its successors in its branch (in TSK_ROOT, for a task that is in no
 * group) are executed. All other tasks count as done; a task can still request one of them (tsk_call_next). Call it before
 * tsk_context_run; a second call adds a second beginning. TSK_INVALID_INPUT: there is no such task. */
TSK_API int tsk_context_begin_at(struct tsk_context *context, const char *task, struct tsk_error *err);
/* Runs the graph to its end; once per context. On failure *err is that of the first failed task or group. A reached limit is
 * TSK_MAX_STEPS_EXCEEDED or TSK_CYCLE_LIMIT_EXCEEDED; a cancelled run is TSK_RUN_FAILED. */
TSK_API int tsk_context_run(struct tsk_context *context, struct tsk_error *err);
/* Cancels the run: no further task starts, and running tasks see tsk_call_is_stopped. Any thread or signal handler may call it. */
TSK_API void tsk_context_cancel(struct tsk_context *context);
TSK_API void tsk_context_free(struct tsk_context *context);

/* A branch without a group: a context with a copy of the channel and the session id `<session>_<branch>`. tsk_context_merge
 * merges the keys that it wrote, adds its steps, and keeps the greater of each cycle count. A branch can be merged once, and
 * only into the context that it was made from; otherwise TSK_INVALID_INPUT. The caller frees the branch. */
TSK_API int tsk_context_branch(struct tsk_context *context, const char *branch, struct tsk_context **ret,
                               struct tsk_error *err);
TSK_API int tsk_context_merge(struct tsk_context *context, struct tsk_context *branch, struct tsk_error *err);
/* The context that a branch was made from, which must not have been freed; NULL: it is not a branch. */
TSK_API struct tsk_context *tsk_context_parent(const struct tsk_context *context);

TSK_API const char *tsk_context_session(const struct tsk_context *context);
TSK_API uint64_t tsk_context_steps(const struct tsk_context *context);
/* After the run: how many times a task was executed, without retries; the greatest number of this session and its branches. */
TSK_API unsigned tsk_context_cycles(const struct tsk_context *context, const char *task);
/* The channel. Values are JSON texts. get: free() the result; NULL: there is no such key. */
TSK_API int tsk_context_set(struct tsk_context *context, const char *key, const char *json, struct tsk_error *err);
TSK_API char *tsk_context_get(struct tsk_context *context, const char *key);
/* The keys of the channel in the order of their bytes, as a JSON array of strings; free() it. NULL: out of memory. */
TSK_API char *tsk_context_keys(struct tsk_context *context);

/* ---- inside a task ------------------------------------------------------------------------------------ */

/* A task's writes and requests take effect when the task has succeeded; the task itself sees its writes at once. */
TSK_API const char *tsk_call_session(const struct tsk_call *call);
TSK_API const char *tsk_call_task(const struct tsk_call *call);
TSK_API unsigned tsk_call_attempt(const struct tsk_call *call);     /* 1, 2, … with retries */
TSK_API char *tsk_call_get(struct tsk_call *call, const char *key); /* JSON, free() it; NULL: there is none */
TSK_API int tsk_call_set(struct tsk_call *call, const char *key, const char *json);
TSK_API int tsk_call_add(struct tsk_call *call, const char *key, int64_t number);
TSK_API int tsk_call_append(struct tsk_call *call, const char *key, const char *json);
/* Runs `task` (of the same scope) after this one, in addition to its successors; with `instead`, in place of them. */
TSK_API int tsk_call_next(struct tsk_call *call, const char *task, bool instead);
/* Runs this task again before its successors. */
TSK_API int tsk_call_again(struct tsk_call *call);
/* Adds a task to this scope; the branch is joined only after it has ended. */
TSK_API int tsk_call_spawn(struct tsk_call *call, const char *name, tsk_task_function *function, void *arg);
/* Ends the run as a success, or as a failure. */
TSK_API void tsk_call_finish(struct tsk_call *call);
TSK_API void tsk_call_cancel(struct tsk_call *call, const char *message);
/* Sets the reason of the failure. Returns -1, for the task to return. */
TSK_API int tsk_call_fail(struct tsk_call *call, const char *message);
/* True if the group or the run is being stopped: the task should return soon. */
TSK_API bool tsk_call_is_stopped(const struct tsk_call *call);

#ifdef __cplusplus
}
#endif
#endif
