/* rundir_make.c - the beginning of a run's directory, and the end of one that was never begun. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/listing.h"
#include "graph/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNFINISHED "runs/.new" /* where the directories of runs are made */
#define SWEEP_MAX  8           /* at most this many are removed per run: many crashes do not slow down a start */

void rundir_new_id(char id[RUN_ID_MAX])
{
    time_id(id, RUN_ID_MAX, "RUN-", 3);
}

void rundir_log_name(const char *session, const char *task, int64_t attempt, char path[RUN_LOG_NAME])
{
    snprintf(path, RUN_LOG_NAME, "tasks/%.*s/%s.%lld.log", RUN_SESSION, session, task, (long long)attempt);
}

static void unfinished_name(char name[RUN_ID_MAX + 16], const char *id)
{
    snprintf(name, RUN_ID_MAX + 16, UNFINISHED "/%s", id);
}

static bool is_before_begin(const char *name)
{
    static const char *const names[] = {"life", "flow.yaml", "journal", "runner.log", "agents.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "task.", 5) == 0;
}

/* Only what a run has before its first record. */
static bool has_only_beginnings(const struct rundir *run)
{
    struct listing names CLEANUP(listing_close);
    bool result = listing_open(&names, run->dir, ".", 0) == 0;
    for (const char *name; result && (name = listing_next(&names));)
        result = is_before_begin(name);
    return result;
}

/* Removes a directory and the files that a run has before it begins. */
static bool remove_dir(struct tsk_workspace *ws, int dir, const char *path)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        if (is_before_begin(name))
            fs->unlinkat(dir, name, 0);
    return fs->unlinkat(ws->state_dir, path, AT_REMOVEDIR) == 0;
}

static void sweep_one(struct tsk_workspace *ws, const char *id)
{
    struct tsk_error err;
    struct rundir run;
    struct stat st;
    char name[RUN_ID_MAX + 16];
    unfinished_name(name, id);
    if (rundir_open_dir(ws, name, id, &run, &err) < 0)
        return;
    int64_t now_ms = clock_now().wall_ms;
    bool is_old = fs->fstat(run.dir, &st) == 0 && now_ms - (int64_t)st.st_mtim.tv_sec * 1000 > BEING_MADE_MS;
    bool is_free = is_old && (rundir_open_life(&run, 0, &run.runner_fd) < 0 ||
                              fs_lock_try(run.runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) == 0);
    if (is_free)
        remove_dir(ws, run.dir, name);
    rundir_clear(&run);
}

/* What a crash has left: the next run removes it. */
static void sweep_unnamed(struct tsk_workspace *ws)
{
    struct listing names CLEANUP(listing_close);
    int left = SWEEP_MAX;
    listing_open(&names, ws->state_dir, UNFINISHED, LISTING_NO_LINK);
    for (const char *name; left > 0 && (name = listing_next(&names));)
        if (strncmp(name, "RUN-", 4) == 0 && strlen(name) < RUN_ID_MAX) {
            sweep_one(ws, name);
            left--;
        }
}

int rundir_create(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char new_id[RUN_ID_MAX], name[RUN_ID_MAX + 16];
    if (!id)
        rundir_new_id(new_id);
    id = id ? id : new_id;
    sweep_unnamed(ws);
    unfinished_name(name, id);
    if (fs_make_dirs(ws->state_dir, UNFINISHED) < 0 ||
        (fs->mkdirat(ws->state_dir, name, 0700 | FS_KEEP) < 0 && errno != EEXIST))
        return fs_error(err, "make", ws->state_dir, name);
    if (rundir_open_dir(ws, name, id, ret, err) < 0)
        return -1;
    if (rundir_open_life(ret, O_CREAT, &ret->life_fd) == 0 && rundir_open_life(ret, 0, &ret->runner_fd) == 0 &&
        fs_lock_try(ret->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) == 0 &&
        fs_lock_try(ret->runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) == 0)
        return 0;
    error_errno(err, "make", ret->path);
    rundir_drop(ws, ret);
    rundir_clear(ret);
    return -1;
}

int rundir_publish(struct tsk_workspace *ws, const struct rundir *run, struct tsk_error *err)
{
    char from[RUN_ID_MAX + 16], to[RUN_ID_MAX + 16];
    unfinished_name(from, run->id);
    snprintf(to, sizeof to, "runs/%s", run->id);
    if (rundir_mark_new(ws, run->id, true) == 0 && fs->renameat2(ws->state_dir, from, ws->state_dir, to, 0) == 0)
        return 0;
    error_errno(err, "make", run->path);
    rundir_mark_new(ws, run->id, false);
    return -1;
}

void rundir_drop(struct tsk_workspace *ws, const struct rundir *run)
{
    char name[RUN_ID_MAX + 16];
    unfinished_name(name, run->id);
    if (run->dir >= 0)
        remove_dir(ws, run->dir, name);
}

bool rundir_remove_unbegun(struct tsk_workspace *ws, const struct rundir *run)
{
    char path[RUN_ID_MAX + 16];
    if (rundir_has_begun(run) || !has_only_beginnings(run))
        return false;
    snprintf(path, sizeof path, "runs/%s", run->id);
    return remove_dir(ws, run->dir, path);
}
