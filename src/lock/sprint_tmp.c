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

static bool tmp_is_young(const struct now *now, const struct stat *st)
{
    int64_t age = now->wall_ms - (int64_t)st->st_mtim.tv_sec * 1000 - st->st_mtim.tv_nsec / 1000000;
    return age < BEING_WRITTEN_MS && age > -BEING_WRITTEN_MS;
}

static void tmp_judge_busy(struct judgement *judgement)
{
    *judgement = (struct judgement){.verdict = VERDICT_HELD,
                                    .alive = LIVE_UNKNOWN,
                                    .age_ms = -1,
                                    .expires_in_ms = INT64_MAX,
                                    .recheck_ms = 1000,
                                    .record = {.created_ms = -1, .expires_ms = -1}};
    judgement->how = "another tool is writing its temporary file";
}

/* Returns 1 if the file is gone or a directory, 0 if another tool is writing it, -1 on error. */
static int remove_old_file(const struct lock_target *target, const struct now *now, const char *name, struct stat *st)
{
    if (fs->fstatat(target->dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : -1;
    if (S_ISDIR(st->st_mode))
        return 1;
    if (tmp_is_young(now, st))
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
        tmp_judge_busy(judgement);
        return SPRINT_TMP_BUSY;
    }
    error_errno(err, "create", name);
    return SPRINT_TMP_FAILED;
}

void sprint_tmp_meet(const struct lock_target *target, const struct now *now, struct judgement *judgement)
{
    char name[LOCK_FILE_NAME_MAX + 8];
    struct stat st;
    tmp_name(target, name);
    if (judgement->verdict == VERDICT_FREE && fs->fstatat(target->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISDIR(st.st_mode) && tmp_is_young(now, &st))
        tmp_judge_busy(judgement);
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
