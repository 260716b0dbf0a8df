/* stop.c - stopping and removing. The stop is recorded on disk before the holder is signalled, so that it survives the holder: a
 * holder that adopts the process continues the stop. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "hold/protocol.h"
#include "proc/actor.h"
#include "proc/depend.h"
#include "proc/holder.h"
#include "proc/kin.h"
#include "proc/leftover.h"
#include "proc/reconcile.h"
#include "proc/registry.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define HOLDER_WORK_MS 15000 /* beyond the grace: SIGKILL, looking for descendants, writing the record */
#define BATCH_MAX      256   /* whose directories are open at a time */
#define ROUNDS_MAX     200   /* holders that are killed while they stop it */

struct stop {
    const char *id;
    struct tsk_error *result;
    struct proc_id holder, child;
    int holder_fd; /* -1: nobody to wait for */
    bool is_under_way;
    bool is_shutdown;
    bool has_looked;   /* `strays` is what one look at all processes found */
    struct buf strays; /* of the descendants that are not below its holder */
    struct proc ended; /* dir -1: its leftovers need not be looked for */
};

static int not_running(const struct proc *p, struct tsk_error *err)
{
    error_set(err, TSK_PROCESS_NOT_RUNNING, NULL, "id", p->id, NULL);
    return error_add_next(err, "tasuki proc status %s", p->id);
}

static bool has_to_end(const struct proc *p)
{
    return p->view.state == PROC_RUNNING || *p->view.phase;
}

/* A process that does not run may have left others behind; ending those is a success. Without the guard: it may take the
 * whole grace period. */
static int end_leftovers(struct proc_registry *reg, const char *id, int64_t grace_ms, struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct leftovers *found = memory_zeroed(1, sizeof *found);
    int result = proc_load(reg, id, &p, err);
    if (result == 0)
        result = leftovers_find(&p, found, err);
    size_t count = found->count;
    free(found);
    if (result < 0)
        return -1;
    return count ? leftovers_end(&p, grace_ms, err) : not_running(&p, err);
}

/* ---- descendants that are not below their holder ---- */

/* A holder that adopted its process looks for them itself, at all processes, unless it finds this. */
static int write_strays(struct stop *stop, int dir, struct tsk_error *err)
{
    if (!stop->has_looked)
        return 0;
    stop->has_looked = false; /* for the first round; a further one may be much later */
    if (fs_replace_file(dir, HOLD_STRAYS_NAME, 0600, buf_str(&stop->strays), stop->strays.len) < 0)
        return fs_error(err, "write", dir, HOLD_STRAYS_NAME);
    return 0;
}

static void add_stray_keys(struct proc_registry *reg, struct kin_keys *keys, size_t owner, struct stop *stop)
{
    struct tsk_error ignored;
    struct proc_status status;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (proc_find(reg, stop->id, &p, &ignored) < 0 || p.dir < 0 || proc_status_read(p.dir, &status, &ignored) != 1 ||
        status.has_ended || (!status.is_adopted && proc_holder_is_there(p.dir)))
        return;
    p.view.n = status.n;
    p.view.child = status.child;
    memcpy(p.view.start_id, status.start_id, sizeof p.view.start_id);
    kin_keys_of_start(keys, owner, &p);
    stop->has_looked = true;
}

/* One look for all of them: as many as there are would be too many for a thousand processes. */
static void look_for_strays(struct proc_registry *reg, struct stop *stops, size_t count)
{
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    struct kin_list found CLEANUP(kin_list_clear) = {.count = 0};
    struct tsk_error ignored;
    int64_t now_ms = clock_now().boot_ms;
    for (size_t i = 0; i < count; i++)
        add_stray_keys(reg, &keys, i, &stops[i]);
    bool has_looked = kin_scan(&keys, &found, &ignored) == 0;
    for (size_t i = 0; i < count; i++) {
        stops[i].has_looked = stops[i].has_looked && has_looked;
        buf_printf(&stops[i].strays, "%" PRId64, now_ms);
    }
    for (size_t i = 0; i < found.count; i++)
        buf_printf(&stops[found.list[i].owner].strays, " %d:%" PRIu64, (int)found.list[i].id.pid,
                   found.list[i].id.start_ticks);
    for (size_t i = 0; i < count; i++)
        buf_puts(&stops[i].strays, "\n");
}

/* ---- stopping ---- */

static int too_late(const struct stop *stop, struct tsk_error *err)
{
    bool is_gone = stop->child.pid && proc_id_liveness(&stop->child) == LIVE_DEAD;
    return error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", stop->id, "reason",
                     is_gone ? "it has ended, but its holder process cannot write that down (is the disk full?)"
                             : "its holder process does not answer",
                     NULL);
}

/* Its holder is dead, and the program for another one is not there: we end it ourselves. Without the guard, as end_leftovers. */
static int end_without_holder(struct proc_registry *reg, struct stop *stop, int64_t grace_ms, struct tsk_error *err)
{
    struct proc now CLEANUP(proc_clear) = {.dir = -1};
    struct proc *p = &stop->ended;
    struct pollfd child = {.fd = proc_id_open(&p->view.child), .events = POLLIN};
    p->view.state = PROC_STOPPED; /* all of this start are leftovers now */
    proc_id_signal(&p->view.child, SIGTERM);
    int result = leftovers_end(p, grace_ms, err);
    /* A child that hides its environment and has closed its lock is not found as a leftover. */
    if (result == 0 && child.fd >= 0 && poll(&child, 1, (int)(grace_ms < INT_MAX ? grace_ms : INT_MAX)) == 0) {
        proc_id_signal(&p->view.child, SIGKILL);
        poll(&child, 1, HOLDER_WORK_MS);
    }
    fs_close(&child.fd);
    if (result < 0 || proc_load(reg, stop->id, &now, err) < 0) /* records the end that nobody saw */
        return -1;
    return now.view.state == PROC_RUNNING ? too_late(stop, err) : 0;
}

/* Writes what is wanted and tells the holder. 1: there is something to wait for; 0: it does not run; 2: there is no program for a
 * holder, and stop->ended is to be ended without one. */
static int stop_tell(struct proc_registry *reg, struct stop *stop, int64_t grace_ms, struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (proc_guard_take(reg, stop->id, false, &guard, err) < 0 || proc_find(reg, stop->id, &p, err) < 0)
        return -1;
    if (proc_reconcile(reg, &p, true, err) < 0)
        return -1;
    if (!has_to_end(&p))
        return 0;
    if (p.view.is_foreign)
        return error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", p.id, "reason",
                         "it runs in another pid namespace (a container); stop it from there", NULL);
    bool is_bare = !p.view.has_holder && p.view.state == PROC_RUNNING && proc_take_up(reg, &p, err) < 0;
    if (is_bare && !(err->text && strcmp(err->text, "program_missing") == 0))
        return -1;
    struct proc_want want = {.is_down = true, .grace_ms = grace_ms};
    want.is_shutdown = stop->is_shutdown && (!p.view.want_down || p.view.is_shutdown); /* a person's stop stays one */
    struct tsk_error unnamed; /* on a full disk it is stopped all the same */
    proc_actor_write(p.dir, PROC_STOPPED_BY, p.view.n, &unnamed);
    if ((!is_bare && write_strays(stop, p.dir, err) < 0) || proc_want_write(p.dir, &want, err) < 0)
        return -1;
    if (is_bare) {
        *err = (struct tsk_error){.code = TSK_OK};
        proc_clear(&stop->ended);
        stop->ended = p;
        p = (struct proc){.dir = -1};
        return 2;
    }
    stop->holder = p.view.holder;
    stop->child = p.view.child;
    stop->holder_fd = proc_id_open(&stop->holder);
    if (stop->holder_fd < 0 && errno != ESRCH)
        return error_errno(err, "look at", "the holder process");
    if (stop->holder_fd < 0 && holder_find(p.dir, &stop->holder) == 1) /* its record is damaged, or not there yet */
        stop->holder_fd = proc_id_open(&stop->holder);
    if (stop->holder_fd < 0)
        return 1;                           /* killed this very moment: the next round adopts */
    proc_id_signal(&stop->holder, SIGCONT); /* somebody may have stopped it */
    if (proc_id_signal(&stop->holder, SIGUSR1) < 0 && errno != ESRCH)
        return error_errno(err, "signal", "tasuki-hold");
    return 1;
}

/* 0: the holder has ended. */
static int wait_for_holder(struct stop *stop, int64_t deadline_ms, struct tsk_error *err)
{
    struct pollfd end = {.fd = stop->holder_fd, .events = POLLIN};
    int ready = 0;
    while (stop->holder_fd >= 0 && ready == 0) {
        int64_t left = deadline_ms - clock_now().boot_ms;
        if (left <= 0)
            return too_late(stop, err);
        ready = poll(&end, 1, (int)(left < 1000 ? left : 1000));
        if (ready < 0 && errno != EINTR)
            return error_errno(err, "wait for", "tasuki-hold");
        ready = ready < 0 ? 0 : ready;
    }
    if (stop->holder_fd >= 0)
        waitpid(stop->holder.pid, NULL, WNOHANG); /* if we started it */
    else
        clock_nap(5); /* a start is under way, or a holder was just killed */
    fs_close(&stop->holder_fd);
    stop->holder_fd = -1;
    return 0;
}

/* After the holder's end: is it true that nothing is left? */
static int stop_confirm(struct proc_registry *reg, struct stop *stop, bool is_repeated, bool *ret_again,
                        struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    *ret_again = false;
    if (proc_load(reg, stop->id, &p, err) < 0)
        return err->code == TSK_PROCESS_NOT_FOUND ? 0 : -1; /* removed meanwhile */
    if (p.view.is_stuck) {
        char reason[64];
        snprintf(reason, sizeof reason, "pid %d is alive after SIGKILL", (int)p.view.child.pid);
        return error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", stop->id, "reason", reason, NULL);
    }
    if (has_to_end(&p)) {
        *ret_again = p.view.want_down; /* otherwise somebody has started it again: our stop was done */
        return 0;
    }
    struct proc_status status;
    bool has_status = proc_status_read(p.dir, &status, err) == 1;
    bool was_adopted = has_status && status.is_adopted;
    bool gave_up = has_status && strcmp(status.by, "stop") == 0 && *status.reason && status.raw_status != -1;
    /* Its holder has looked for descendants of this start. Those of earlier ones, and those of a holder that was killed, we
     * look for. */
    bool was_complete = p.view.n == 1 && p.view.raw_status != -1 && !is_repeated;
    bool is_sure = was_complete && !was_adopted && !leftovers_hold_a_lock(&p);
    if (!is_sure) {
        proc_clear(&stop->ended);
        stop->ended = p;
        p = (struct proc){.dir = -1};
    }
    return gave_up ? error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", stop->id, "reason", status.reason, NULL) : 0;
}

static int stop_finish(struct proc_registry *reg, struct stop *stop, int64_t grace_ms, struct tsk_error *err)
{
    int64_t deadline = clock_now().boot_ms + grace_ms + HOLDER_WORK_MS;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool again;
        if (wait_for_holder(stop, deadline, err) < 0 || stop_confirm(reg, stop, round > 0, &again, err) < 0)
            return -1;
        if (!again)
            return 0;
        int more = stop_tell(reg, stop, grace_ms, err);
        if (more == 2)
            return end_without_holder(reg, stop, grace_ms, err);
        if (more <= 0)
            return more;
    }
    return error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", stop->id, "reason",
                     "its holder process was killed again and again", NULL);
}

/* What slipped through, in one look for all. */
static void end_all_leftovers(struct stop *stops, size_t count)
{
    struct proc *list = calloc(count + 1, sizeof *list);
    struct tsk_error *errors = calloc(count + 1, sizeof *errors);
    size_t *places = calloc(count + 1, sizeof *places), found = 0;
    BUG(!list || !errors || !places);
    for (size_t i = 0; i < count; i++)
        if (stops[i].ended.dir >= 0 && stops[i].result->code == TSK_OK) {
            places[found] = i;
            list[found++] = stops[i].ended; /* borrowed */
        }
    if (found)
        leftovers_end_many(list, found, 0, errors);
    for (size_t i = 0; i < found; i++)
        if (errors[i].code != TSK_OK)
            *stops[places[i]].result = errors[i];
    free(places);
    free(errors);
    free(list);
    for (size_t i = 0; i < count; i++) {
        buf_clear(&stops[i].strays);
        proc_clear(&stops[i].ended);
    }
}

/* Those that do not need each other: it signals all, then waits for all. */
static void stop_together(struct proc_registry *reg, struct stop *stops, size_t count, int64_t grace_ms)
{
    look_for_strays(reg, stops, count);
    for (size_t i = 0; i < count; i++) {
        *stops[i].result = (struct tsk_error){.code = TSK_OK};
        int told = stop_tell(reg, &stops[i], grace_ms, stops[i].result);
        stops[i].is_under_way = told == 1;
        if (told == 0)
            end_leftovers(reg, stops[i].id, grace_ms, stops[i].result);
        if (told == 2)
            end_without_holder(reg, &stops[i], grace_ms, stops[i].result);
    }
    for (size_t i = 0, first = 0; i < count; i++) {
        if (stops[i].is_under_way && stop_finish(reg, &stops[i], grace_ms, stops[i].result) < 0)
            fs_close(&stops[i].holder_fd);
        if (i + 1 == count || i + 1 - first == BATCH_MAX) {
            end_all_leftovers(&stops[first], i + 1 - first);
            first = i + 1;
        }
    }
}

/* D4: rank after rank. */
static int stop_many(struct proc_registry *reg, const char *const *ids, size_t count, int64_t grace_ms,
                     bool is_shutdown, struct tsk_error *results, struct tsk_error *err)
{
    struct stop *stops CLEANUP_FREE = calloc(count + 1, sizeof *stops);
    size_t *ranks CLEANUP_FREE = calloc(count + 1, sizeof *ranks);
    BUG(!stops || !ranks);
    int result = proc_depend_ranks(reg, ids, count, ranks, err);
    for (size_t rank = 0, done = 0; result == 0 && done < count; rank++) {
        size_t size = 0;
        for (size_t i = 0; i < count; i++)
            if (ranks[i] == rank)
                stops[size++] = (struct stop){.id = ids[i],
                                              .result = &results[i],
                                              .holder_fd = -1,
                                              .is_shutdown = is_shutdown,
                                              .strays = BUF_INIT,
                                              .ended = {.dir = -1}};
        if (size)
            stop_together(reg, stops, size, grace_ms);
        done += size;
    }
    return result;
}

int proc_stop_many(struct proc_registry *reg, const char *const *ids, size_t count, int64_t grace_ms,
                   struct tsk_error *results, struct tsk_error *err)
{
    return stop_many(reg, ids, count, grace_ms, false, results, err);
}

int proc_shutdown(struct tsk_workspace *ws, struct tsk_error *err)
{
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    struct proc *list;
    size_t count, running = 0;
    if (proc_registry_open(&reg, ws, err) < 0 || proc_list(&reg, &list, &count, err) < 0)
        return -1;
    const char **ids = calloc(count + 1, sizeof *ids);
    struct tsk_error *results = calloc(count + 1, sizeof *results);
    BUG(!ids || !results);
    for (size_t i = 0; i < count; i++)
        if (has_to_end(&list[i]))
            ids[running++] = list[i].id;
    int result = stop_many(&reg, ids, running, HOLD_GRACE_MS, true, results, err);
    for (size_t i = 0; result == 0 && i < running; i++)
        if (results[i].code != TSK_OK && results[i].code != TSK_PROCESS_NOT_RUNNING)
            log_problem(&results[i]);
    free(results);
    free(ids);
    proc_list_free(list, count);
    return result;
}

int proc_stop(struct proc_registry *reg, const char *id, int64_t grace_ms, struct tsk_error *err)
{
    struct tsk_error result;
    if (proc_stop_many(reg, &id, 1, grace_ms, &result, err) < 0)
        return -1;
    if (result.code == TSK_OK)
        return 0;
    *err = result;
    return -1;
}

/* ---- removing -------------------------------------------------------------------------------------------------- */

int proc_forget_orphan(struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    struct look look;
    struct tsk_error ignored;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (proc_find(reg, id, &p, &ignored) == 0 || ignored.code != TSK_PROCESS_NOT_FOUND)
        return 0; /* it has a row: creating it will say so */
    int dir CLEANUP_FD = proc_dir_open(reg->dir, id, false);
    if (dir < 0)
        return 0;
    if (look_settled(dir, &look, err) < 0)
        return -1;
    if (look.has_holder || look.child_lives || look.is_starting)
        return 0;
    return listing_remove_tree(reg->dir, id) < 0 ? fs_error(err, "remove", reg->dir, id) : 0;
}

static int needs_confirmation(const struct proc *p, struct tsk_error *err)
{
    error_set(err, TSK_NEEDS_CONFIRMATION, "process_remove_running", "id", p->id, NULL);
    error_add_next(err, "tasuki proc status %s", p->id);
    return error_add_next(err, "tasuki proc stop %s", p->id);
}

static int delete_row(struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    if (db_exec(&reg->db, err, "DELETE FROM process WHERE id = ?1", DB_TEXT(id)) < 0)
        return -1;
    if (db_changes(&reg->db) == 0)
        return proc_not_found(reg, id, err);
    return proc_event(reg, "process.removed", id, err);
}

/* Where the disk is full its output goes first, to make room for the transaction. */
static int proc_forget(struct proc_registry *reg, const struct proc *p, struct tsk_error *err)
{
    for (bool has_room = false;; has_room = true) {
        *err = (struct tsk_error){.code = TSK_OK};
        if (db_begin(&reg->db, err) == 0 && proc_commit(reg, delete_row(reg, p->id, err), err) == 0)
            return 0;
        if (err->code != TSK_STORAGE_FULL || has_room || p->dir < 0 || listing_remove_tree(p->dir, HOLD_LOG_DIR) < 0)
            return -1;
    }
}

/* 1: it runs, and has to be stopped first. `looked_n`: the start until which its leftovers were ended; 0: they were not looked for. */
static int remove_stopped(struct proc_registry *reg, const char *id, bool is_forced, int64_t looked_n,
                          struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (proc_guard_take(reg, id, false, &guard, err) < 0 || proc_find(reg, id, &p, err) < 0)
        return -1;
    if (proc_reconcile(reg, &p, true, err) < 0)
        return -1;
    if (p.view.state == PROC_RUNNING && !is_forced)
        return needs_confirmation(&p, err);
    if (has_to_end(&p))
        return 1;
    if (p.dir >= 0) {
        /* A holder that has just written the end needs a moment to go. */
        int lock CLEANUP_FD = proc_holder_lock(p.dir, 5000);
        if (lock < 0)
            return errno == EAGAIN ? 1 : fs_error(err, "lock", p.dir, HOLD_LOCK_NAME);
        bool is_sure = looked_n && looked_n == p.view.n && !leftovers_hold_a_lock(&p);
        if (!is_sure && leftovers_end(&p, 0, err) < 0)
            return -1;
    }
    if (proc_forget(reg, &p, err) < 0)
        return -1;
    return listing_remove_tree(reg->dir, id) < 0 ? fs_error(err, "remove", reg->dir, id) : 0;
}

static int remove_process(struct proc_registry *reg, const char *id, bool is_forced, int64_t looked_n,
                          struct tsk_error *err)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int running = remove_stopped(reg, id, is_forced, looked_n, err);
        if (running <= 0)
            return running;
        if (proc_stop(reg, id, HOLD_GRACE_MS, err) < 0 && err->code != TSK_PROCESS_NOT_RUNNING)
            return -1;
        *err = (struct tsk_error){.code = TSK_OK};
    }
    return error_set(err, TSK_CONFLICT, "process_busy", "id", id, NULL);
}

int proc_remove(struct proc_registry *reg, const char *id, bool is_forced, struct tsk_error *err)
{
    return remove_process(reg, id, is_forced, 0, err);
}

/* Ends what those that do not run have left behind, in one look; looked[i]: until which start. */
static void look_before_removal(struct proc_registry *reg, const char *const *ids, size_t count, int64_t *looked)
{
    struct proc *list = calloc(count + 1, sizeof *list);
    struct tsk_error *errors = calloc(count + 1, sizeof *errors);
    BUG(!list || !errors);
    for (size_t i = 0; i < count; i++) {
        list[i].dir = -1;
        if (proc_load(reg, ids[i], &list[i], &errors[i]) == 0)
            errors[i].code = has_to_end(&list[i]) ? TSK_CONFLICT : TSK_OK; /* the removal says what is wrong */
    }
    leftovers_end_many(list, count, 0, errors);
    for (size_t i = 0; i < count; i++) {
        looked[i] = errors[i].code == TSK_OK ? list[i].view.n : 0;
        proc_clear(&list[i]);
    }
    free(errors);
    free(list);
}

void proc_remove_many(struct proc_registry *reg, const char *const *ids, size_t count, bool is_forced,
                      struct tsk_error *results)
{
    int64_t looked[BATCH_MAX];
    struct tsk_error ignored; /* a process that could not be stopped is stopped again, and reported, by its removal */
    if (is_forced)
        proc_stop_many(reg, ids, count, HOLD_GRACE_MS, results, &ignored);
    for (size_t i = 0; i < count; i++) {
        size_t place = i % BATCH_MAX, left = count - i;
        if (place == 0)
            look_before_removal(reg, ids + i, left < BATCH_MAX ? left : BATCH_MAX, looked);
        results[i] = (struct tsk_error){.code = TSK_OK};
        remove_process(reg, ids[i], is_forced, looked[place], &results[i]);
    }
}
