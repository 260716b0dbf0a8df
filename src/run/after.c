#include "run/after.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "graph/rundir.h"
#include "lock/wait.h"
#include "run/book.h"
#include "run/detach.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AFTER_FOLDER  "after"
#define AFTER_GUARD   AFTER_FOLDER "/.guard"
#define AFTER_WAIT_MS 10000
#define AFTER_MAX     (4u << 20) /* bytes of a file: the arguments of one call */
#define AFTER_NAME    300

/* ---- the file ------------------------------------------------------------------------------------------- */

/* A5: held until the descriptor is closed. */
static int take_guard(struct tsk_workspace *ws, struct tsk_error *err)
{
    int fd = fs->openat(ws->state_dir, AFTER_GUARD, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fs_error(err, "open", ws->state_dir, AFTER_GUARD);
    if (wait_for_file(fd, ws->state_dir, AFTER_GUARD, AFTER_WAIT_MS, err) == 0)
        return fd;
    fs_close(&fd);
    return -1;
}

/* The path of a lock's file below the state directory. */
static int after_path(struct tsk_workspace *ws, const struct run_lock *lock, char path[AFTER_NAME],
                      struct tsk_error *err)
{
    struct lock_target target;
    if (lock_target_init(&target, ws, lock_kind_get(lock->kind), lock->id, NULL, err) < 0)
        return -1;
    snprintf(path, AFTER_NAME, AFTER_FOLDER "/%s.json", target.guard_name);
    lock_target_clear(&target);
    return 0;
}

/* NULL: there is none, or it is no file of ours (a power cut before it was whole: its recorder has had no answer). */
static json_t *after_read(struct tsk_workspace *ws, const char *path)
{
    struct buf text CLEANUP(buf_clear) = {.max = AFTER_MAX};
    if (fs_read_file(ws->state_dir, path, AFTER_MAX - 1, &text) < 0)
        return NULL;
    return json_loadb(text.data ? text.data : "", text.len, 0, NULL);
}

static int after_write(struct tsk_workspace *ws, const char *path, const json_t *pending, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = AFTER_MAX};
    json_write(&text, pending, false);
    buf_puts(&text, "\n");
    if (text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    if (fs_replace_file(ws->state_dir, path, 0600 | FS_KEEP, text.data, text.len) < 0)
        return fs_error(err, "write", ws->state_dir, path);
    return 0;
}

/* A1: the data, then its name. */
static int after_sync(struct tsk_workspace *ws, const char *path, struct tsk_error *err)
{
    int fd CLEANUP_FD = fs->openat(ws->state_dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    int dir CLEANUP_FD = fs->openat(ws->state_dir, AFTER_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 || dir < 0 || fs->fdatasync(fd) < 0 || fs->fdatasync(dir) < 0)
        return fs_error(err, "write", ws->state_dir, path);
    return 0;
}

static void after_tell(struct tsk_workspace *ws, const char *type, json_t *data_take)
{
    workspace_report(ws, (struct event){.type = type, .run_id = json_get_string(data_take, "after", NULL)}, data_take);
}

static bool run_exists(struct tsk_workspace *ws, const char *run_id)
{
    char path[RUN_ID_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "runs/%s", run_id);
    return *run_id && fs->fstatat(ws->state_dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A4: it has begun, and only its file is left. */
static bool has_become(struct tsk_workspace *ws, const json_t *pending)
{
    return run_exists(ws, json_get_string(pending, "run", ""));
}

/* A living runner is about to begin it. */
static bool is_beginning(struct tsk_workspace *ws, const struct run_lock *lock, const json_t *pending)
{
    const char *run = json_get_string(pending, "run", "");
    return *run && run_lock_is_taken_by(ws, lock, run);
}

/* ---- recording ------------------------------------------------------------------------------------------ */

int after_record(struct tsk_workspace *ws, const struct run_lock *lock, json_t *job, const char *after,
                 char id[AFTER_ID_SIZE], bool *ret_replaced, struct tsk_error *err)
{
    char path[AFTER_NAME];
    random_hex(id, AFTER_ID_SIZE - 1);
    json_object_set_new(json_object_get(job, "args"), "after", json_string(id));
    json_t *pending CLEANUP_JSON = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "version", "1.0", "id", id, "kind",
                                             lock_kind_get(lock->kind)->name, "lock", lock->id, "after", after,
                                             "created_at", TIME_EXACT(clock_now().wall_ms), "job", job);
    if (fs_make_dirs(ws->state_dir, AFTER_FOLDER) < 0)
        return fs_error(err, "make", ws->state_dir, AFTER_FOLDER);
    if (after_path(ws, lock, path, err) < 0)
        return -1;
    int guard CLEANUP_FD = take_guard(ws, err);
    if (guard < 0)
        return -1;
    json_t *old CLEANUP_JSON = after_read(ws, path);
    if (after_write(ws, path, pending, err) < 0 || after_sync(ws, path, err) < 0)
        return -1;
    *ret_replaced = old && !has_become(ws, old) && !is_beginning(ws, lock, old);
    after_tell(ws, "run.pending",
               json_pack("{s:s, s:s, s:s, s:s, s:s?}", "id", id, "kind", lock_kind_get(lock->kind)->name, "lock",
                         lock->id, "after", after, "replaced",
                         *ret_replaced ? json_get_string(old, "id", NULL) : NULL));
    return 0;
}

int after_claim(struct tsk_workspace *ws, const struct run_lock *lock, const char *id, const char *run_id,
                struct tsk_error *err)
{
    char path[AFTER_NAME];
    if (after_path(ws, lock, path, err) < 0)
        return -1;
    int guard CLEANUP_FD = take_guard(ws, err);
    if (guard < 0)
        return -1;
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    bool is_ours = pending && json_text_is(pending, "id", id);
    if (is_ours && has_become(ws, pending)) {
        fs->unlinkat(ws->state_dir, path, 0);
        is_ours = false;
    }
    if (!is_ours)
        return error_set(err, TSK_CONFLICT, AFTER_GONE, NULL);
    json_object_set_new(pending, "run", json_string(run_id));
    return after_write(ws, path, pending, err);
}

void after_begun(struct tsk_workspace *ws, const struct run_lock *lock, const char *run_id)
{
    char path[AFTER_NAME];
    struct tsk_error problem;
    if (after_path(ws, lock, path, &problem) < 0)
        return;
    int guard CLEANUP_FD = take_guard(ws, &problem);
    if (guard < 0) {
        log_problem(&problem); /* the file stays; the next look removes it */
        return;
    }
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    if (json_text_is(pending, "run", run_id))
        fs->unlinkat(ws->state_dir, path, 0);
}

int after_drop(struct tsk_workspace *ws, const struct run_lock *lock, const char *id, const char *why,
               bool *ret_existed, struct tsk_error *err)
{
    char path[AFTER_NAME];
    *ret_existed = false;
    if (after_path(ws, lock, path, err) < 0)
        return -1;
    if (!fs_may_exist(ws->state_dir, path))
        return 0;
    int guard CLEANUP_FD = take_guard(ws, err);
    if (guard < 0)
        return -1;
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    if (pending && id && !json_text_is(pending, "id", id))
        return 0;
    if (fs->unlinkat(ws->state_dir, path, 0) < 0 && errno != ENOENT)
        return fs_error(err, "remove", ws->state_dir, path);
    if (!pending || has_become(ws, pending) || is_beginning(ws, lock, pending))
        return 0;
    *ret_existed = true;
    after_tell(ws, "run.pending_dropped",
               json_pack("{s:s, s:s, s:s, s:s?, s:s}", "id", json_get_string(pending, "id", ""), "kind",
                         lock_kind_get(lock->kind)->name, "lock", lock->id, "after",
                         json_get_string(pending, "after", NULL), "why", why));
    return 0;
}

json_t *after_look(struct tsk_workspace *ws, const struct run_lock *lock)
{
    char path[AFTER_NAME];
    struct tsk_error ignored;
    if (!lock->id[0] || after_path(ws, lock, path, &ignored) < 0)
        return NULL;
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    if (!pending || has_become(ws, pending))
        return NULL;
    return json_pack("{s:s, s:s, s:s, s:O*}", "id", json_get_string(pending, "id", ""), "after",
                     json_get_string(pending, "after", ""), "created_at", json_get_string(pending, "created_at", ""),
                     "who", json_at(pending, "job.who"));
}

/* ---- starting ------------------------------------------------------------------------------------------- */

/* No living process has the lock. What only leftovers hold is free for a runner, which ends them. */
static bool is_lock_free(struct tsk_workspace *ws, const struct run_lock *lock)
{
    struct tsk_error ignored;
    struct lock_target target;
    struct judgement found = {.verdict = VERDICT_HELD};
    if (lock_target_init(&target, ws, lock_kind_get(lock->kind), lock->id, NULL, &ignored) < 0)
        return false;
    int looked = lock_inspect(&target, &found, &ignored);
    lock_target_clear(&target);
    return looked == 0 && (found.verdict != VERDICT_HELD || start_is_holder_gone(&found.record));
}

/* A7: its latest run asks something; the runner that continues it looks again. */
static bool after_waits_for_answer(struct tsk_workspace *ws, const struct run_lock *lock)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    return lock->kind == TSK_LOCK_REQUEST && book_latest_stage(ws, lock->id, &stage, &ignored) == 0 &&
           json_text_is(stage, "status", "NEEDS_INPUT");
}

/* A7: another attempt would find the same. */
static bool is_for_ever(const struct tsk_error *err)
{
    bool is_place = err->code == TSK_ENVIRONMENT &&
                    (err->sys_errno == ENOENT || err->sys_errno == ENOTDIR || err->sys_errno == EACCES);
    return is_place || err->code == TSK_FLOW_INVALID || err->code == TSK_NOT_FOUND || err->code == TSK_INVALID_INPUT ||
           err->code == TSK_REQUEST_NOT_FOUND || err->code == TSK_PAYLOAD_TOO_LARGE;
}

static void start_one(struct tsk_workspace *ws, const struct run_lock *lock, const json_t *pending)
{
    bool existed;
    struct tsk_error err, problem;
    json_t *answer CLEANUP_JSON = NULL;
    const json_t *job = json_object_get(pending, "job");
    if (!json_is_object(job))
        error_set(&err, TSK_INVALID_INPUT, NULL, NULL);
    else if (run_detach(ws, job, &answer, &err) == 0)
        return;
    if (is_for_ever(&err)) {
        log_problem(&err);
        if (after_drop(ws, lock, json_get_string(pending, "id", ""), tsk_code_name(err.code), &existed, &problem) < 0)
            log_problem(&problem);
    }
}

/* `lock`: what the pending run says. */
static void pending_settle(struct tsk_workspace *ws, const struct run_lock *lock, const json_t *pending)
{
    bool existed;
    struct tsk_error ignored;
    if (has_become(ws, pending))
        after_drop(ws, lock, json_get_string(pending, "id", ""), "begun", &existed, &ignored);
    else if (is_lock_free(ws, lock) && !after_waits_for_answer(ws, lock))
        start_one(ws, lock, pending);
}

static void after_look_at(struct tsk_workspace *ws, const char *name, const struct run_lock *except)
{
    char path[AFTER_NAME];
    snprintf(path, sizeof path, AFTER_FOLDER "/%.280s", name);
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    const struct lock_kind *kind = lock_kind_by_name(json_get_string(pending, "kind", ""));
    struct run_lock lock = {.kind = kind ? kind->kind : TSK_LOCK_NAME};
    snprintf(lock.id, sizeof lock.id, "%s", json_get_string(pending, "lock", ""));
    if (kind && lock.id[0] && !(except && except->kind == lock.kind && strcmp(except->id, lock.id) == 0))
        pending_settle(ws, &lock, pending);
}

void after_start(struct tsk_workspace *ws, const struct run_lock *except)
{
    struct listing names CLEANUP(listing_close);
    if (listing_open(&names, ws->state_dir, AFTER_FOLDER, 0) < 0)
        return; /* nothing was ever pending */
    for (const char *name; (name = listing_next(&names));)
        if (name[0] != '.')
            after_look_at(ws, name, except);
}

void after_start_newer(struct tsk_workspace *ws, const struct run_lock *lock, const char *id)
{
    char path[AFTER_NAME];
    struct tsk_error ignored; /* the lock has a file, which its recorder has written */
    if (after_path(ws, lock, path, &ignored) < 0)
        return;
    json_t *pending CLEANUP_JSON = after_read(ws, path);
    if (pending && !json_text_is(pending, "id", id))
        pending_settle(ws, lock, pending);
}
