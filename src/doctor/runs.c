/* runs.c - runs whose runner is gone, and what still lives of them. */
#include "doctor/runs.h"
#include "base/listing.h"
#include "doctor/check.h"
#include "graph/journal.h"
#include "run/prune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_MS 10000 /* a directory without a first record after this time was left by a crash */

enum { BYTE_LIFE = 0 };

void run_look_clear(struct run_look *look)
{
    rundir_clear(&look->run);
    json_decref(look->stage);
}

int run_look_open(struct finding *f, const char *id, struct run_look *ret)
{
    char name[RUN_ID_MAX + 8];
    *ret = (struct run_look){.run = {.dir = -1, .life_fd = -1, .runner_fd = -1}};
    snprintf(name, sizeof name, "runs/%s", id);
    snprintf(ret->run.id, sizeof ret->run.id, "%s", id);
    state_path(f->doctor, name, ret->run.path);
    ret->run.dir = fs->openat(f->doctor->ws->state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (ret->run.dir < 0)
        return -1;
    struct stat st;
    ret->has_journal = fs->fstatat(ret->run.dir, "journal", &st, AT_SYMLINK_NOFOLLOW) == 0;
    ret->has_stage = fs->fstatat(ret->run.dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) == 0;
    ret->has_runner = rundir_has_runner(&ret->run);
    return 0;
}

void run_suggest_aside(struct finding *f, const struct run_look *look)
{
    char aside[RUN_ID_MAX + 24];
    struct buf from CLEANUP(buf_clear) = BUF_INIT, to CLEANUP(buf_clear) = BUF_INIT;
    snprintf(aside, sizeof aside, "runs/damaged.%s", look->run.id);
    finding_fix(f, "mv %s %s", shell_word(&from, look->run.path), state_word(f->doctor, aside, &to));
}

/* ---- leftovers ---------------------------------------------------------------------------------------------- */

static bool has_life_held(const struct rundir *run)
{
    int fd CLEANUP_FD = fs->openat(run->dir, "life", O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    return fd >= 0 && fs_lock_probe(fd, F_WRLCK, BYTE_LIFE, 1, NULL) == 1;
}

static bool carries_mark(const char *pid, const char *mark)
{
    char path[64];
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_fd(fd, ENVIRON_MAX - 1, &text) < 0)
        return false;
    for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
        if (strcmp(text.data + at, mark) == 0)
            return true;
    return false;
}

/* "812, 813": who has the run's mark. */
static void put_marked(struct buf *b, const char *run_id)
{
    char mark[RUN_ID_MAX + 16];
    struct listing processes CLEANUP(listing_close);
    snprintf(mark, sizeof mark, "TASUKI_RUN_ID=%s", run_id);
    listing_open(&processes, AT_FDCWD, "/proc", 0);
    for (const char *pid; (pid = listing_next(&processes));)
        if (strtol(pid, NULL, 10) > 1 && carries_mark(pid, mark))
            buf_printf(b, "%s%s", b->len ? ", " : "", pid);
    if (!b->len)
        buf_puts(b, "?");
}

/* ---- the check ------------------------------------------------------------------------------------------------ */

/* Somebody died between making the directory and beginning the run. */
static bool is_empty(const struct run_look *look, const struct now *now)
{
    struct stat st;
    return !look->has_stage && !look->has_runner && !rundir_has_begun(&look->run) &&
           fs->fstat(look->run.dir, &st) == 0 && now->wall_ms - (int64_t)st.st_mtim.tv_sec * 1000 > EMPTY_MS;
}

/* Only what a run has before it begins; a directory with anything else in it stays, as it is. */
static bool remove_empty(struct finding *f, struct run_look *look)
{
    struct tsk_error err;
    return finding_fixes(f) && rundir_take(&look->run, &err) == 0 && rundir_remove_unbegun(f->doctor->ws, &look->run);
}

static void tell_empty(struct finding *f, struct run_look *look)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (remove_empty(f, look)) {
        finding_fixed(f, "doctor_run_empty_fixed", "run", look->run.id, NULL);
        return;
    }
    finding_add(f, DOCTOR_WARN, "doctor_run_empty", "run", look->run.id, NULL);
    finding_fix(f, "rm -r %s", shell_word(&word, look->run.path));
}

static void tell_interrupted(struct finding *f, const struct run_look *look)
{
    const json_t *counts = json_object_get(look->stage, "counts");
    finding_add(f, DOCTOR_WARN, "doctor_run_interrupted", "run", look->run.id, "done",
                DIGITS(json_get_int(counts, "done", 0)), "total", DIGITS(json_get_int(counts, "total", 0)), NULL);
    if (has_life_held(&look->run)) {
        struct buf pids CLEANUP(buf_clear) = BUF_INIT;
        put_marked(&pids, look->run.id);
        finding_add(f, DOCTOR_WARN, "doctor_run_leftovers", "run", look->run.id, "pids", buf_str(&pids), NULL);
    }
    finding_fix_ours(f, "resume %s", look->run.id);
}

static void run_look_at(struct finding *f, const char *id, size_t running[2])
{
    struct tsk_error err;
    struct run_look look CLEANUP(run_look_clear);
    if (run_look_open(f, id, &look) < 0) {
        int reason = errno;
        finding_add(f, DOCTOR_WARN, "doctor_access", "path", look.run.path, "reason", strerrordesc_np(reason), NULL);
        if (reason == ENOTDIR) /* also of a link */
            run_suggest_aside(f, &look);
        return;
    }
    if (is_empty(&look, &f->doctor->now)) {
        tell_empty(f, &look);
        return;
    }
    if (rundir_look(&look.run, &look.stage, &err) < 0)
        return; /* reported by the check of the journals */
    const char *status = json_get_string(look.stage, "status", "");
    running[0] += strcmp(status, "RUNNING") == 0;
    running[1]++;
    if (strcmp(status, "INTERRUPTED") == 0)
        tell_interrupted(f, &look);
}

void runs_each(struct finding *f, void (*look)(struct finding *f, const char *id, size_t *counts), size_t *counts)
{
    struct tsk_error err;
    json_t *ids CLEANUP_JSON = NULL;
    if (rundir_list(f->doctor->ws, &ids, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    json_each (ids, i, id)
        if (id_is_valid(json_string_value(id)))
            look(f, json_string_value(id), counts);
}

/* Runs that are old enough to go: up to as many as the end of a run removes. */
static void tell_old(struct finding *f)
{
    struct tsk_error err;
    struct prune prune;
    json_t *gone CLEANUP_JSON = NULL;
    if (prune_config(f->doctor->ws, &prune, &err) < 0)
        return; /* reported by the check of the configuration */
    prune.max = PRUNE_EACH_TIME;
    prune.is_dry = !finding_fixes(f);
    if (prune_runs(f->doctor->ws, &prune, &gone, &err) < 0) {
        finding_error(f, DOCTOR_WARN, &err);
        return;
    }
    const char *count = DIGITS(json_array_size(gone));
    if (json_array_size(gone) && prune.is_dry)
        finding_add(f, DOCTOR_PASS, "doctor_runs_old", "count", count, NULL);
    else if (json_array_size(gone))
        finding_fixed(f, "doctor_runs_old_fixed", "count", count, NULL);
}

void check_runs(struct finding *f)
{
    size_t counts[2] = {0, 0};
    tell_old(f);
    runs_each(f, run_look_at, counts);
    finding_summary(f, counts[1] ? "doctor_runs_good" : "doctor_runs_none", "count", DIGITS(counts[1]), "running",
                    DIGITS(counts[0]), NULL);
}
