/* rundir_gone.c - the end of a run's directory (D6). */
#include "base/fs.h"
#include "base/listing.h"
#include "graph/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GONE "runs/.gone"

static int removal_refused(const struct rundir *run, struct tsk_error *err)
{
    if (!rundir_is_in_place(run))
        return rundir_refuse_gone(run, err);
    error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", run->id, "run_id", run->id, NULL);
    error_add_next(err, "tasuki runs show %s", run->id);
    return error_add_next(err, "tasuki wait run %s", run->id);
}

int rundir_take_for_removal(struct rundir *run, struct tsk_error *err)
{
    bool is_open = rundir_open_life(run, 0, &run->runner_fd) == 0 && rundir_open_life(run, 0, &run->life_fd) == 0;
    if (!is_open && errno != ENOENT)
        return error_errno(err, "open", run->path);
    if (!is_open || fs_lock_try(run->runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) < 0 ||
        fs_lock_try(run->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) < 0 || !rundir_is_in_place(run))
        return removal_refused(run, err);
    return 0;
}

/* All but `life`, whose bytes say that somebody is at it; then `life` and the directory. */
static void remove_content(int gone, int dir, const char *id)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        if (strcmp(name, "life") != 0)
            listing_remove_tree(dir, name);
    fs->unlinkat(dir, "life", 0);
    fs->unlinkat(gone, id, AT_REMOVEDIR);
}

int rundir_remove(struct tsk_workspace *ws, struct rundir *run, struct tsk_error *err)
{
    char from[RUN_ID_MAX + 16];
    int gone CLEANUP_FD = fs_open_made_dir(ws->state_dir, GONE);
    snprintf(from, sizeof from, "runs/%s", run->id);
    if (gone < 0 || fs->renameat2(ws->state_dir, from, gone, run->id, 0) < 0)
        return fs_error(err, "remove", ws->state_dir, from);
    rundir_mark_new(ws, run->id, false);
    remove_content(gone, run->dir, run->id);
    return 0;
}

/* One that somebody removes this moment is left to it. */
static void sweep_one_gone(struct tsk_workspace *ws, int gone, const char *id)
{
    struct tsk_error ignored;
    struct rundir run;
    char name[RUN_ID_MAX + 16];
    snprintf(name, sizeof name, GONE "/%s", id);
    if (rundir_open_dir(ws, name, id, &run, &ignored) < 0)
        return;
    bool is_free = rundir_open_life(&run, 0, &run.runner_fd) < 0
                       ? errno == ENOENT
                       : fs_lock_try(run.runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) == 0;
    if (is_free)
        remove_content(gone, run.dir, id);
    rundir_clear(&run);
}

void rundir_sweep_gone(struct tsk_workspace *ws, size_t max)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, ws->state_dir, GONE, LISTING_NO_LINK);
    for (const char *name; max > 0 && (name = listing_next(&names)); max--)
        if (strncmp(name, "RUN-", 4) == 0 && strlen(name) < RUN_ID_MAX) {
            rundir_mark_new(ws, name, false);
            sweep_one_gone(ws, names.fd, name);
        }
}
