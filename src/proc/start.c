/* start.c - starting processes. P3 is decided here, with the guard and holder.lock; from then on the holder is in charge. */
#include "base/fs.h"
#include "proc/actor.h"
#include "proc/holder.h"
#include "proc/launch.h"
#include "proc/leftover.h"
#include "proc/log.h"
#include "proc/reconcile.h"
#include "proc/registry.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDER_END_MS 5000 /* a holder that has nothing more to do ends within this time */
#define FORGET_MAX    512
#define IN_FLIGHT_MAX 64 /* starts whose report has not been read yet; each has a few descriptors */

/* One process on its way. */
struct start {
    struct proc p;
    struct proc_guard guard;
    struct launch launch;
    struct tsk_error *result;
    bool is_launched;
};

static int already_running(struct proc_registry *reg, const struct proc *p, struct tsk_error *err)
{
    const char *elsewhere = proc_other_worktree(reg, p);
    error_set(err, TSK_PROCESS_ALREADY_RUNNING, elsewhere ? "process_runs_elsewhere" : NULL, "id", p->id,
              elsewhere ? "worktree" : NULL, elsewhere, NULL);
    struct who who;
    if (proc_starter(p->dir, p->view.n, &who))
        error_add_starter(err, &who);
    error_add_next(err, "tasuki proc status %s", p->id);
    return error_add_next(err, elsewhere ? "tasuki proc create %s-2 -- …" : "tasuki proc logs %s -f", p->id);
}

/* Makes the restart of the policy now, by a new holder with the present spec; the old holder is ended. */
static int cancel_backoff(struct start *start, struct tsk_error *err)
{
    struct proc *p = &start->p;
    if (proc_want_write(p->dir, &(struct proc_want){.is_down = true}, err) < 0)
        return -1;
    return proc_id_signal(&p->view.holder, SIGUSR1) < 0 && errno != ESRCH ? error_errno(err, "signal", "tasuki-hold")
                                                                          : 0;
}

/* holder.lock for the start, or ProcessAlreadyRunning. A holder that is about to end is waited for. */
static int take_charge(struct proc_registry *reg, struct start *start, int *ret_lock, struct tsk_error *err)
{
    struct proc *p = &start->p;
    if (proc_reconcile(reg, p, true, err) < 0)
        return -1;
    bool is_under_way = p->view.state == PROC_RUNNING || strcmp(p->view.phase, "starting") == 0;
    if (is_under_way)
        return already_running(reg, p, err);
    if (strcmp(p->view.phase, "backoff") == 0 && cancel_backoff(start, err) < 0)
        return -1;
    *ret_lock = proc_holder_lock(p->dir, HOLDER_END_MS);
    if (*ret_lock < 0)
        return errno == EAGAIN ? already_running(reg, p, err) : fs_error(err, "lock", p->dir, "holder.lock");
    return 0;
}

/* A first start, or one whose files were removed while it ran: then its holder still has them open. */
static bool still_runs_elsewhere(struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    char path[PATH_MAX + 160];
    if (!reg->removed)
        reg->removed = holder_list_removed();
    snprintf(path, sizeof path, "%s/processes/%s", reg->ws->state_path, id);
    int64_t pid = json_get_int(reg->removed, path, 0);
    if (!pid)
        return false;
    error_set(err, TSK_PROCESS_ALREADY_RUNNING, "process_files_removed", "id", id, NULL);
    error_add_int(err, "pid", pid);
    error_add_next(err, "kill %lld", (long long)pid); /* ends it in order */
    return true;
}

/* The locks of ended starts that nobody left behind holds any more. */
static void forget_starts(int dir, int64_t newest)
{
    int64_t starts[FORGET_MAX];
    size_t count = proc_starts_list(dir, starts, FORGET_MAX);
    for (size_t i = 0; i < count && starts[i] <= newest; i++) {
        char name[40];
        proc_start_name(starts[i], name);
        int fd CLEANUP_FD = fs->openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd >= 0 && fs_lock_try(fd, F_WRLCK, 0, 1) == 0)
            fs->unlinkat(dir, name, 0);
    }
}

/* With holder.lock: nothing of what is looked at now can change. */
static int start_launch(struct proc_registry *reg, struct start *start, int *lock, struct tsk_error *err)
{
    struct proc *p = &start->p;
    struct look look;
    bool can_punch = true;
    if (look_at(p->dir, &look, err) < 0)
        return -1;
    if (look.is_starting || (look.status.n && !look.status.has_ended))
        return already_running(reg, p, err); /* it was revived while we waited */
    if (look.status.n == 0 && still_runs_elsewhere(reg, p->id, err))
        return -1;
    forget_starts(p->dir, look.status.n);
    if (proc_tell_exit(p, &look.status, err) < 0 ||
        log_compact(p->dir, leftovers_hold_a_lock(p), &can_punch, err) < 0 ||
        proc_want_write(p->dir, &(struct proc_want){.is_down = false}, err) < 0)
        return -1;
    struct tsk_error unnamed; /* on a full disk it starts all the same, and nobody is named */
    if (proc_actor_write(p->dir, PROC_STARTED_BY, look.status.n + 1, &unnamed) < 0)
        fs->unlinkat(p->dir, PROC_STARTED_BY, 0);
    enum proc_log_mode mode = proc_spec_log(p->spec);
    struct launch_options options = {.n = look.status.n + 1,
                                     .log_mode =
                                         proc_log_names[mode == PROC_LOG_DIRECT && !can_punch ? PROC_LOG_PIPE : mode]};
    return launch_start(reg, p, &options, lock, &start->launch, err);
}

static int start_begin(struct proc_registry *reg, const char *id, struct start *start, struct tsk_error *err)
{
    int lock CLEANUP_FD = -1;
    if (proc_find(reg, id, &start->p, err) < 0)
        return -1;
    if (start->p.dir < 0 && (start->p.dir = proc_dir_open(reg->dir, id, true)) < 0)
        return fs_error(err, "create", reg->dir, id);
    if (take_charge(reg, start, &lock, err) < 0 || start_launch(reg, start, &lock, err) < 0)
        return -1;
    start->is_launched = true;
    return 0;
}

/* The holder's report. A holder that was killed says nothing: then the files tell whether the command runs. */
static void start_hear(struct proc_registry *reg, struct start *start)
{
    if (!start->is_launched || launch_result(&start->launch, start->result) == 0)
        return;
    struct tsk_error ignored;
    const char *stage = tsk_error_context(start->result, "stage");
    bool is_unsure = stage && strcmp(stage, "holder") == 0;
    if (is_unsure && proc_reconcile(reg, &start->p, true, &ignored) == 0 && start->p.view.state == PROC_RUNNING)
        *start->result = (struct tsk_error){.code = TSK_OK};
}

static void start_init(struct start *start, struct tsk_error *result)
{
    *start = (struct start){
        .p = {.dir = -1}, .guard = PROC_GUARD_INIT, .launch = {.report = -1, .holder_fd = -1}, .result = result};
}

static void start_clear(struct start *start)
{
    launch_clear(&start->launch);
    proc_guard_drop(&start->guard);
    proc_clear(&start->p);
}

/* Starts in flight, oldest first. Their guards are held, so that a second starter waits for the outcome. */
struct flight {
    struct start starts[IN_FLIGHT_MAX];
    size_t count;
};

/* The guards are dropped in the opposite order, because each restores the signals that were blocked before it. */
static void flight_land(struct proc_registry *reg, struct flight *flight)
{
    for (size_t i = 0; i < flight->count; i++)
        start_hear(reg, &flight->starts[i]);
    while (flight->count > 0)
        start_clear(&flight->starts[--flight->count]);
}

/* While others are in flight a guard is only tried: two who start the same processes in a different order would wait for each
 * other. */
static void flight_add(struct proc_registry *reg, struct flight *flight, const char *id, struct tsk_error *result)
{
    struct start *start = &flight->starts[flight->count];
    *result = (struct tsk_error){.code = TSK_OK};
    start_init(start, result);
    int busy = proc_guard_take(reg, id, flight->count > 0, &start->guard, result);
    if (busy == 1) {
        flight_land(reg, flight);
        start = &flight->starts[0];
        start_init(start, result);
        busy = proc_guard_take(reg, id, false, &start->guard, result);
    }
    if (busy != 0 || start_begin(reg, id, start, result) < 0) {
        start_clear(start);
        return;
    }
    if (++flight->count == IN_FLIGHT_MAX)
        flight_land(reg, flight);
}

/* The rows and events of what was just started. */
static void sync_started(struct proc_registry *reg, const char *const *ids, size_t count)
{
    struct tsk_error ignored;
    struct proc *list = calloc(count + 1, sizeof *list);
    size_t found = 0;
    for (size_t i = 0; list && i < count; i++) {
        if (proc_find(reg, ids[i], &list[found], &ignored) < 0)
            continue;
        if (proc_reconcile(reg, &list[found], false, &ignored) == 0)
            found++;
        else
            proc_clear(&list[found]);
    }
    if (list)
        proc_sync(reg, list, found, &ignored); /* otherwise the next look does it */
    proc_list_free(list, found);
}

int proc_start_many(struct proc_registry *reg, const char *const *ids, size_t count, struct tsk_error *results,
                    struct tsk_error *err)
{
    struct flight *flight = calloc(1, sizeof *flight);
    if (!flight)
        return error_no_memory(err, "start", "processes");
    for (size_t i = 0; i < count; i++)
        flight_add(reg, flight, ids[i], &results[i]);
    flight_land(reg, flight);
    free(flight);
    sync_started(reg, ids, count);
    return 0;
}
