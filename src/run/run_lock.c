#include "run/run_lock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "graph/rundir.h"
#include "lock/held.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELEASE_MS 2000

/* ---- which lock ----------------------------------------------------------------------------------------- */

struct run_lock run_lock_of_request(const char *request_id)
{
    struct run_lock lock = {.kind = TSK_LOCK_REQUEST};
    snprintf(lock.id, sizeof lock.id, "%s", request_id);
    return lock;
}

struct run_lock run_lock_of_stage(const json_t *stage)
{
    const char *request = json_get_string(stage, "request_id", "");
    struct run_lock lock = {.kind = TSK_LOCK_NAME};
    if (*request)
        return run_lock_of_request(request);
    snprintf(lock.id, sizeof lock.id, "%s", json_get_string(stage, "exclusive", ""));
    return lock;
}

struct run_lock run_lock_of_refusal(const struct tsk_error *err)
{
    const char *kind = tsk_error_context(err, "kind"), *id = tsk_error_context(err, "id");
    const struct lock_kind *found = kind ? lock_kind_by_name(kind) : NULL;
    struct run_lock lock = {.kind = found ? found->kind : TSK_LOCK_NAME};
    snprintf(lock.id, sizeof lock.id, "%s", id ? id : "");
    return lock;
}

/* The rest of a path below a directory; NULL: it is not below it. */
static const char *path_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return len && strncmp(path, dir, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

/* A name must be printable and short; a path that is neither is known by its hash. */
static void name_of_path(const char *path, char name[LOCK_NAME_SIZE])
{
    char hash[SHA256_HEX_SIZE];
    struct buf visible CLEANUP(buf_clear) = BUF_INIT;
    utf8_put_visible(&visible, path, false);
    size_t len = strlen(path);
    if (len < LOCK_NAME_SIZE - sizeof FLOW_LOCK_PREFIX && strcmp(buf_str(&visible), path) == 0) {
        snprintf(name, LOCK_NAME_SIZE, FLOW_LOCK_PREFIX "%s", path);
        return;
    }
    sha256_hex(path, len, hash);
    snprintf(name, LOCK_NAME_SIZE, FLOW_LOCK_PREFIX "sha256/%s", hash);
}

int run_lock_of_flow(struct tsk_workspace *ws, const struct flow *flow, const char *path, struct run_lock *ret,
                     struct tsk_error *err)
{
    char state[FS_PATH_MAX], root[PATH_MAX];
    *ret = (struct run_lock){.kind = TSK_LOCK_NAME};
    if (flow->exclusive == EXCLUSIVE_NEVER)
        return 0;
    if (!path[0])
        return flow->exclusive == EXCLUSIVE_ALWAYS ? error_set(err, TSK_INVALID_INPUT, "flow_exclusive_pipe", NULL) : 0;
    fs_path(ws->state_dir, "flows", state);
    const char *kept = path_below(path, state);
    if (flow->exclusive == EXCLUSIVE_BY_PLACE && (!kept || strchr(kept, '/')))
        return 0;
    const char *below = path_below(path, realpath(ws->root, root) ? root : ws->root);
    name_of_path(below ? below : path, ret->id);
    return 0;
}

/* ---- taking it ------------------------------------------------------------------------------------------ */

bool start_refused_by(const struct tsk_error *err, char run_id[LOCK_ID_MAX])
{
    const char *given = err->code == TSK_RUN_IN_PROGRESS ? tsk_error_context(err, "run_id") : NULL;
    snprintf(run_id, LOCK_ID_MAX, "%s", given ? given : "");
    return id_is_valid(run_id) && strcmp(run_id, "null") != 0; /* a lock may be held without a run: JSON's null */
}

bool start_is_holder_gone(const struct lock_record *record)
{
    if (record->hold != HOLD_LIFE || record->pid <= 0 || record->holder.pid_ns != pid_namespace())
        return false;
    struct proc_id now;
    return strcmp(record->holder.boot_id, boot_id()) != 0 || (proc_id_of(record->pid, &now) < 0 && errno == ESRCH);
}

/* The refusal of a name's lock becomes that of a run, with the same facts. */
static void name_the_flow(const struct run_lock *which, const struct lock_record *by, struct tsk_error *err)
{
    char url[LOCK_ID_MAX + 16];
    bool is_named = tsk_error_context(err, "by");
    err->code = TSK_RUN_IN_PROGRESS;
    err->text = is_named ? "flow_in_progress_by" : "flow_in_progress";
    snprintf(url, sizeof url, "/api/runs/%s", by->run_id);
    error_add(err, "flow", which->id + strlen(FLOW_LOCK_PREFIX));
    error_add(err, "latest_run", url);
}

/* The commands that help here, instead of those for locks in general. A lock that was taken by hand, or by another tool, has no
 * run that could be followed or replaced. */
static int lock_refused(const struct run_lock *which, const struct lock_record *by, const char *again,
                        struct tsk_error *err)
{
    bool is_runner = by->run_id[0] && by->hold == HOLD_LIFE, is_flow = which->kind == TSK_LOCK_NAME;
    if (err->code != (is_flow ? TSK_LOCK_HELD : TSK_RUN_IN_PROGRESS) || (is_flow && !is_runner))
        return -1;
    if (is_flow)
        name_the_flow(which, by, err);
    error_clear_next(err);
    if (is_runner) {
        error_add_next(err, "tasuki runs show %s", by->run_id);
        if (again)
            error_add_next(err, "%s --on-conflict attach", again);
        else
            error_add_next(err, "tasuki wait run %s", by->run_id);
        return -1;
    }
    error_add_next(err, "tasuki wait lock request/%s", which->id);
    error_add_next(err, "tasuki lock check request %s", which->id);
    return error_add_next(err, "tasuki lock acquire request %s --force", which->id);
}

static int try_lock(struct tsk_workspace *ws, const struct run_lock *which, const char *run_id, int64_t wait_ms,
                    struct tsk_lock **ret, struct lock_outcome *outcome, struct tsk_error *err)
{
    struct lock_target target;
    struct lock_request request = {.hold = HOLD_LIFE,
                                   .run_id = run_id,
                                   .request_id = which->kind == TSK_LOCK_REQUEST ? which->id : NULL,
                                   .wait_ms = wait_ms};
    if (lock_target_init(&target, ws, lock_kind_get(which->kind), which->id, NULL, err) < 0)
        return -1;
    int result = lock_acquire(&target, &request, ret, outcome, err);
    lock_target_clear(&target);
    return result;
}

/* R3: nobody executes the run any more, but processes of its tasks keep the lock. */
static int run_end_leftovers(struct tsk_workspace *ws, const char *run_id, struct tsk_error *err)
{
    struct rundir run;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return -1;
    int result = rundir_take(&run, err);
    if (result == 0)
        result = rundir_take_life(&run, true, err);
    rundir_clear(&run);
    return result;
}

int run_lock_take(struct tsk_workspace *ws, const struct run_lock *which, const char *run_id, int64_t wait_ms,
                  const char *again, struct tsk_lock **ret, struct tsk_error *err)
{
    struct lock_outcome outcome = {.recovered = false};
    struct tsk_error ignored;
    int result = try_lock(ws, which, run_id, wait_ms, ret, &outcome, err);
    const struct lock_record *by = &outcome.before.record;
    bool is_held = result < 0 && err->code == lock_kind_get(which->kind)->held_code;
    bool is_left = by->run_id[0] && (start_is_holder_gone(by) || strcmp(by->run_id, run_id) == 0);
    if (is_held && is_left && run_end_leftovers(ws, by->run_id, &ignored) == 0)
        /* Its last runner may be about to release it. */
        result = try_lock(ws, which, run_id, RELEASE_MS, ret, &outcome, err);
    return result < 0 ? lock_refused(which, by, again, err) : 0;
}

bool run_lock_is_taken_by(struct tsk_workspace *ws, const struct run_lock *which, const char *run_id)
{
    struct tsk_error ignored;
    struct lock_target target;
    struct judgement found = {.verdict = VERDICT_FREE};
    if (!which->id[0] || lock_target_init(&target, ws, lock_kind_get(which->kind), which->id, NULL, &ignored) < 0)
        return false;
    int looked = lock_inspect(&target, &found, &ignored);
    lock_target_clear(&target);
    const struct lock_record *by = &found.record;
    return looked == 0 && found.verdict == VERDICT_HELD && by->hold == HOLD_LIFE && by->run_id[0] &&
           (!run_id || strcmp(by->run_id, run_id) == 0) && !start_is_holder_gone(by);
}

/* ---- having it ------------------------------------------------------------------------------------------ */

json_t *run_lock_json(const struct tsk_lock *lock)
{
    const struct lock_record *record = &lock->record;
    char path[PATH_MAX];
    bool is_name = lock->target.kind->kind == TSK_LOCK_NAME;
    lock_target_path(&lock->target, path);
    return json_pack("{s:s, s:s*, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:s}", "lock_type", lock->target.kind->name,
                     "name", is_name ? lock->target.id : NULL, "request_id", record->request_id, "run_id",
                     record->run_id, "pid", (int)record->pid, "host", record->host, "hostname", record->hostname,
                     "created_at", TIME_LOCAL(record->created_ms), "expires_at", TIME_LOCAL(record->expires_ms),
                     "fence", (json_int_t)record->fence, "path", path);
}

/* The file that we have open is the one at its path: nobody has taken it away. Without the guard, which somebody may hold. */
static bool is_in_place(const struct tsk_lock *lock)
{
    struct stat st;
    return lock->file.fd >= 0 && fs->fstatat(lock->target.dir, lock->target.file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == lock->file.dev && st.st_ino == lock->file.ino;
}

bool run_lock_keep(struct tsk_lock *lock, bool is_due)
{
    struct tsk_error err;
    if (!is_due && is_in_place(lock))
        return true;
    if ((is_due ? tsk_lock_renew(lock, &err) : tsk_lock_verify(lock, &err)) == 0)
        return true;
    log_problem(&err);
    return err.code != TSK_LOCK_LOST; /* a full disk is no reason to stop: nobody else may have it */
}
