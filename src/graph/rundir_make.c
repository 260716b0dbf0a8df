/* rundir_make.c - the beginning of a run's directory, and the end of one that was never begun. */
#include "base/fs.h"
#include "base/ident.h"
#include "graph/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNFINISHED    "runs/.new" /* where the directories of runs are made */
#define BEING_MADE_MS 10000       /* an older one that nobody holds was left by a crash */
#define SWEEP_MAX     8           /* so many are looked at by each run, so that many crashes do not make a start slow */

void rundir_new_id(char id[RUN_ID_MAX])
{
    char random[4];
    int64_t now_ms = clock_now().wall_ms;
    time_t now = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&now, &utc);
    random_hex(random, 3);
    size_t at = strftime(id, RUN_ID_MAX, "RUN-%Y%m%dT%H%M%S-", &utc);
    snprintf(id + at, RUN_ID_MAX - at, "%03x%s", (unsigned)(now_ms % 1000), random);
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
    bool result = true;
    int fd = fs->openat(run->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *entry; listing && result && (entry = readdir(listing));)
        result = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || is_before_begin(entry->d_name);
    if (listing)
        closedir(listing);
    return listing && result;
}

/* Removes a directory and the files that a run has before it begins. */
static bool remove_dir(struct tsk_workspace *ws, int dir, const char *path)
{
    int fd = fs->openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (is_before_begin(entry->d_name))
            fs->unlinkat(dir, entry->d_name, 0);
    if (listing)
        closedir(listing);
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
static void sweep(struct tsk_workspace *ws)
{
    int fd = fs->openat(ws->state_dir, UNFINISHED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    int left = SWEEP_MAX;
    for (struct dirent *entry; listing && left > 0 && (entry = readdir(listing));)
        if (strncmp(entry->d_name, "RUN-", 4) == 0 && strlen(entry->d_name) < RUN_ID_MAX) {
            sweep_one(ws, entry->d_name);
            left--;
        }
    if (listing)
        closedir(listing);
}

int rundir_create(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char new_id[RUN_ID_MAX], name[RUN_ID_MAX + 16];
    if (!id)
        rundir_new_id(new_id);
    id = id ? id : new_id;
    sweep(ws);
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
