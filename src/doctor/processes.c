/* processes.c - supervised processes: what their files say, without doing anything about it unless asked to. */
#include "base/listing.h"
#include "doctor/check.h"
#include "proc/holder.h"
#include "proc/look.h"
#include "proc/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_registry(const struct doctor *d)
{
    struct stat st;
    return db_is_open(&d->db) && fs->fstatat(d->ws->state_dir, "processes", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

/* What is to be done about a process, in words; NULL: nothing. */
static const char *need_text(const struct look *look)
{
    if (look->is_stuck)
        return "doctor_proc_stuck";
    switch (look->need) {
    case LOOK_ADOPT:
        return "doctor_proc_adopt";
    case LOOK_LOST:
        return "doctor_proc_lost";
    case LOOK_REVIVE:
        return "doctor_proc_revive";
    case LOOK_NOTHING:
    case LOOK_AGAIN:
        return NULL;
    }
    return NULL;
}

/* Every look at a process repairs it. */
static bool process_repair(struct finding *f, struct proc_registry *reg, const char *id)
{
    struct tsk_error err;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (!finding_fixes(f) || proc_load(reg, id, &p, &err) < 0)
        return false;
    finding_fixed(f, "doctor_proc_fixed", "id", id, "state", proc_state_names[p.view.state], NULL);
    return true;
}

/* An ended start whose lock somebody still has: a process that it left behind. */
static bool has_leftovers(int dir, const struct look *look)
{
    struct proc_status start;
    struct tsk_error err;
    bool has_identity, is_held = false;
    return look->status.n && look->status.has_ended && !look->has_holder &&
           proc_start_read(dir, look->status.n, &start, &has_identity, &is_held, &err) == 1 && is_held;
}

/* Returns whether something of it may be alive. */
static bool look_at_process(struct finding *f, struct proc_registry *reg, const char *id, size_t *ret_running)
{
    struct look look;
    struct tsk_error err;
    int dir CLEANUP_FD = proc_dir_open(reg->dir, id, false);
    bool is_denied = dir < 0 && errno != ENOENT && fs_error(&err, "open", reg->dir, id) < 0;
    if (is_denied || look_settled(dir, &look, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return true;
    }
    *ret_running += look.child_lives;
    const char *key = need_text(&look);
    if (key && (look.is_stuck || !process_repair(f, reg, id))) {
        finding_add(f, DOCTOR_WARN, key, "id", id, "pid", DIGITS(look.status.child.pid), NULL);
        finding_fix_ours(f, look.is_stuck ? "proc stop %s" : "proc status %s", id);
    } else if (!key && has_leftovers(dir, &look)) {
        finding_add(f, DOCTOR_WARN, "doctor_proc_leftovers", "id", id, NULL);
        finding_fix_ours(f, "proc stop %s", id);
        return true;
    }
    return key || look.child_lives || look.has_holder;
}

/* Its directory was removed, as `git worktree remove` does: it runs on in nothing, and cannot be started again. What may be alive
 * is stopped in good order first. */
static void process_look_at_place(struct finding *f, struct proc_registry *reg, const char *id, bool may_live)
{
    struct stat st;
    struct tsk_error err;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    const char *cwd = proc_find(reg, id, &p, &err) == 0 ? json_get_string(p.spec, "cwd", NULL) : NULL;
    if (!cwd || fs->fstatat(AT_FDCWD, cwd, &st, 0) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return;
    finding_add(f, DOCTOR_WARN, "process_directory_gone", "id", id, "path", cwd, NULL);
    finding_fix_ours(f, may_live ? "proc stop %s" : "proc remove %s", id);
}

/* Files that were removed under a running process (git clean -x): it lives on, and nobody can see it. */
static void look_for_removed(struct finding *f)
{
    json_t *removed CLEANUP_JSON = holder_list_removed();
    size_t len = strlen(f->doctor->ws->state_path);
    json_each_pair (removed, path, value) {
        if (strncmp(path, f->doctor->ws->state_path, len) != 0 || path[len] != '/')
            continue;
        const char *pid = DIGITS(json_integer_value(value));
        finding_add(f, DOCTOR_FAIL, "doctor_proc_removed", "path", path, "pid", pid, NULL);
        finding_fix(f, "kill %s", pid);
    }
}

void check_processes(struct finding *f)
{
    struct tsk_error err;
    json_t *ids CLEANUP_JSON = NULL;
    size_t running = 0;
    look_for_removed(f);
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    finding_summary(f, "doctor_procs_none", NULL);
    if (!has_registry(f->doctor))
        return;
    if (proc_registry_open(&reg, f->doctor->ws, &err) < 0 || proc_ids(&reg, &ids, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    json_each (ids, i, id) {
        bool may_live = look_at_process(f, &reg, json_string_value(id), &running);
        process_look_at_place(f, &reg, json_string_value(id), may_live);
    }
    if (json_array_size(ids))
        finding_summary(f, "doctor_procs_good", "count", DIGITS(json_array_size(ids)), "running", DIGITS(running),
                        NULL);
}

/* ---- directories without a row -------------------------------------------------------------------------- */

static bool holds_nothing(int parent, const char *name, unsigned depth)
{
    struct stat st;
    struct listing names CLEANUP(listing_close);
    bool is_nothing = listing_open(&names, parent, name, LISTING_NO_LINK) == 0;
    for (const char *entry; is_nothing && (entry = listing_next(&names));)
        is_nothing = fs->fstatat(names.fd, entry, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                     (S_ISREG(st.st_mode) ? st.st_size == 0
                                          : S_ISDIR(st.st_mode) && depth && holds_nothing(names.fd, entry, depth - 1));
    return is_nothing;
}

/* A removal that was cut short has no more to lose; whatever has bytes in it may be all that is left of a lost database, or
 * somebody's notes. */
static bool directory_forget(struct finding *f, struct proc_registry *reg, const char *id, int dir)
{
    struct stat st;
    struct tsk_error err;
    struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
    if (!finding_fixes(f) || !holds_nothing(dir, ".", 1))
        return false;
    return proc_guard_take(reg, id, false, &guard, &err) == 0 && proc_forget_orphan(reg, id, &err) == 0 &&
           fs->fstatat(reg->dir, id, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

static void look_at_orphan(struct finding *f, struct proc_registry *reg, const char *id)
{
    struct look look;
    struct tsk_error err;
    char name[512];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    int dir CLEANUP_FD = proc_dir_open(reg->dir, id, false);
    snprintf(name, sizeof name, "processes/%s", id);
    if (dir < 0) {
        if (errno != ENOENT) { /* else somebody has removed it meanwhile */
            fs_error(&err, "open", reg->dir, id);
            finding_error(f, DOCTOR_WARN, &err);
        }
        return;
    }
    bool lives = look_settled(dir, &look, &err) == 0 && (look.has_holder || look.child_lives);
    if (lives) {
        finding_add(f, DOCTOR_WARN, "doctor_orphan_lives", "id", id, "pid", DIGITS(look.status.child.pid), NULL);
        finding_fix(f, "kill %lld", (long long)(look.has_holder ? look.status.holder.pid : look.status.child.pid));
    } else if (directory_forget(f, reg, id, dir)) {
        finding_fixed(f, "doctor_orphan_fixed", "id", id, NULL);
    } else {
        finding_add(f, DOCTOR_WARN, "doctor_orphan", "id", id, NULL);
        finding_fix(f, "rm -r %s", state_word(f->doctor, name, &word));
    }
}

static bool has_row(struct proc_registry *reg, const char *id)
{
    struct tsk_error err;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    return proc_find(reg, id, &p, &err) == 0 || err.code != TSK_PROCESS_NOT_FOUND;
}

void check_process_dirs(struct finding *f)
{
    struct tsk_error err;
    struct listing names CLEANUP(listing_close) = {.fd = -1};
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    f->is_absent = !has_registry(f->doctor);
    if (f->is_absent)
        return;
    finding_summary(f, "doctor_orphans_none", NULL);
    if (proc_registry_open(&reg, f->doctor->ws, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    if (listing_open(&names, reg.dir, ".", LISTING_SORTED) < 0) {
        fs_error(&err, "read", reg.dir, ".");
        finding_error(f, DOCTOR_FAIL, &err);
    }
    for (const char *id; (id = listing_next(&names));)
        if (id_is_valid(id) && !has_row(&reg, id))
            look_at_orphan(f, &reg, id);
}
