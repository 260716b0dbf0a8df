/* sprint_tmp.c - the fixed temporary name of sprint locks keeps other tools out.
 *
 * Another tool writes `.sprint-running.tmp` and renames it over the lock. While we hold the lock, that name is a
 * directory, which no tool can write or rename over a file. If the name is a regular file, another tool is
 * between its two steps. */
#include "base/fs.h"
#include "base/log.h"
#include "lock/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void tmp_name(const struct lock_target *target, char name[LOCK_FILE_NAME_MAX + 8])
{
    snprintf(name, LOCK_FILE_NAME_MAX + 8, "%s.tmp", target->file);
}

static void report_removed(const struct lock_target *target, const struct now *now, const char *name)
{
    char storage[1024];
    struct buf data;
    struct tsk_error problem;
    buf_init_fixed(&data, storage, sizeof storage);
    buf_puts(&data, "{");
    buf_json_pair(&data, "kind", target->kind->name);
    buf_json_pair(&data, "file", name);
    buf_puts(&data, "}");
    struct event event = {.type = "lock.tmp_removed", .data = data.data};
    if (workspace_event(target->ws, now, &event, &problem) < 0)
        log_problem(&problem);
}

/* Returns 1 if the file is gone or a directory, 0 if another tool is writing it, -1 on error. */
static int remove_old_file(const struct lock_target *target, const struct now *now, const char *name, struct stat *st)
{
    if (fs->fstatat(target->dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : -1;
    if (S_ISDIR(st->st_mode))
        return 1;
    int64_t age = now->wall_ms - (int64_t)st->st_mtim.tv_sec * 1000 - st->st_mtim.tv_nsec / 1000000;
    if (age < BEING_WRITTEN_MS && age > -BEING_WRITTEN_MS)
        return 0;
    if (fs->unlinkat(target->dir, name, 0) < 0 && errno != ENOENT)
        return -1;
    report_removed(target, now, name);
    return 1;
}

enum sprint_tmp sprint_tmp_take(const struct lock_target *target, const struct now *now, struct judgement *judgement,
                                struct tsk_error *err)
{
    char name[LOCK_FILE_NAME_MAX + 8];
    struct stat st;
    tmp_name(target, name);
    for (int i = 0; i < 10; i++) {
        if (fs->mkdirat(target->dir, name, 0700) == 0)
            return SPRINT_TMP_READY;
        if (errno != EEXIST)
            break;
        int gone = remove_old_file(target, now, name, &st);
        if (gone < 0)
            break;
        if (gone && fs->fstatat(target->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return SPRINT_TMP_READY;
        if (gone)
            continue;
        memset(judgement, 0, sizeof *judgement);
        judgement->verdict = VERDICT_HELD;
        judgement->alive = LIVE_UNKNOWN;
        judgement->how = "another tool is writing its temporary file";
        judgement->age_ms = -1;
        judgement->expires_in_ms = INT64_MAX;
        judgement->recheck_ms = 1000;
        judgement->record.created_ms = judgement->record.expires_ms = -1;
        return SPRINT_TMP_BUSY;
    }
    error_errno(err, "create", name);
    return SPRINT_TMP_FAILED;
}

void sprint_path_clear(const struct lock_target *target)
{
    if (target->kind->is_sprint)
        fs->unlinkat(target->dir, target->file, AT_REMOVEDIR);
}

void sprint_tmp_drop(const struct lock_target *target)
{
    char name[LOCK_FILE_NAME_MAX + 8];
    tmp_name(target, name);
    fs->unlinkat(target->dir, name, AT_REMOVEDIR);
}

void sprint_tmp_sweep(const struct lock_target *target, const struct now *now, const struct judgement *judgement)
{
    char name[LOCK_FILE_NAME_MAX + 8];
    struct stat st;
    if (!target->kind->is_sprint)
        return;
    tmp_name(target, name);
    remove_old_file(target, now, name, &st);
    if (judgement->verdict != VERDICT_HELD || judgement->record.hold == HOLD_FOREIGN)
        sprint_tmp_drop(target);
}
