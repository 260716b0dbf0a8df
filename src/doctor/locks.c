/* locks.c - every lock: alive, left behind, another tool's; and what crashes leave beside them. */
#include "base/listing.h"
#include "doctor/check.h"
#include "lock/report.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "life byte is locked" -> the sentence how_life_byte_is_locked. */
static const char *how_text(const struct finding *f, const char *how)
{
    char key[128] = "how_";
    size_t len = strlen(key);
    for (; *how && len < sizeof key - 1; how++)
        key[len++] = isalnum((unsigned char)*how) ? *how : '_';
    key[len] = '\0';
    return text_get(key, f->doctor->options.lang);
}

/* What the sentences about a lock are made of. */
struct lock_words {
    char lock[LOCK_FILE_NAME_MAX], who[LOCK_TEXT_MAX + 64], age[TIME_TEXT_MAX], left[TIME_TEXT_MAX];
    const char *how;
};

static void put_lock_holder(char *who, size_t size, enum lang lang, const struct lock_record *record)
{
    struct buf b;
    char pid[24];
    buf_init_fixed(&b, who, size);
    snprintf(pid, sizeof pid, record->pid ? "%d" : "?", (int)record->pid);
    if (record->hold == HOLD_LEASE)
        text_put(&b, lang, "who_client", "instance", record->instance, NULL);
    else
        text_put(&b, lang, "who_pid", "pid", pid, NULL);
}

static void words_init(struct lock_words *w, const struct finding *f, const struct lock_target *target,
                       const struct judgement *found)
{
    lock_target_words(target, w->lock, sizeof w->lock);
    put_lock_holder(w->who, sizeof w->who, f->doctor->options.lang, &found->record);
    snprintf(w->age, sizeof w->age, "?");
    snprintf(w->left, sizeof w->left, "?");
    if (found->age_ms >= 0)
        duration_format(found->age_ms, w->age);
    if (found->expires_in_ms != INT64_MAX && found->expires_in_ms >= 0)
        duration_format(found->expires_in_ms, w->left);
    w->how = how_text(f, found->how ? found->how : "invalid format");
}

static void add_lock_finding(struct finding *f, enum doctor_status status, const char *key, const struct lock_words *w)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    text_put(&line, f->doctor->options.lang, key, "lock", w->lock, "who", w->who, "how", w->how, "age", w->age, "left",
             w->left, NULL);
    finding_add(f, status, "doctor_line", "line", buf_str(&line), NULL);
}

/* Dead, and not takeable before its TTL is over: its holder was guessed, or it is another tool's. */
static void tell_dead(struct finding *f, const struct lock_target *target, const struct lock_words *w)
{
    struct buf take CLEANUP(buf_clear) = BUF_INIT, give CLEANUP(buf_clear) = BUF_INIT;
    lock_target_command(target, "acquire", &take);
    lock_target_command(target, "release", &give);
    add_lock_finding(f, DOCTOR_WARN, "doctor_lock_dead", w);
    /* Without --yes: somebody who lives may have got it meanwhile. */
    finding_fix(f, "%s --force && %s", buf_str(&take), buf_str(&give));
}

static void recover_finding(struct finding *f, struct lock_target *target, const struct judgement *found,
                            const struct lock_words *w)
{
    struct lock_outcome outcome;
    struct tsk_error err;
    struct buf command CLEANUP(buf_clear) = BUF_INIT;
    json_t *lock = report_lock(target, &f->doctor->now, found);
    if (lock_recover(target, &outcome, &err) == 0) {
        if (outcome.recovered) {
            json_array_append(f->doctor->recovered, lock);
            finding_recovered(f, "doctor_lock_recovered", "lock", w->lock, "who", w->who, "how", w->how, NULL);
        } /* else somebody was faster */
    } else {
        add_lock_finding(f, DOCTOR_WARN, "doctor_lock_stale", w);
        finding_error(f, DOCTOR_WARN, &err);
        lock_target_command(target, "release", &command);
        finding_fix(f, "%s", buf_str(&command));
    }
    json_decref(lock);
}

static void tell_finding(struct finding *f, struct lock_target *target, const struct judgement *found)
{
    struct lock_words w;
    words_init(&w, f, target, found);
    if (found->verdict == VERDICT_STALE)
        recover_finding(f, target, found, &w);
    else if (found->alive == LIVE_DEAD)
        tell_dead(f, target, &w);
    else if (!found->is_parsed)
        add_lock_finding(f, DOCTOR_PASS, "doctor_lock_written", &w);
    else
        add_lock_finding(f, DOCTOR_PASS,
                         found->record.hold == HOLD_FOREIGN ? "doctor_lock_foreign" : "doctor_lock_held", &w);
}

static bool is_error(const struct tsk_error *err, const char *text)
{
    return err->text && strcmp(err->text, text) == 0;
}

/* One that cannot be read may be held: only what is no lock at all is put aside. */
static void tell_unreadable(struct finding *f, const struct lock_target *target, const struct tsk_error *err)
{
    char path[PATH_MAX];
    struct stat st, top;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    lock_target_path(target, path);
    const char *quoted = shell_word(&word, path);
    finding_error(f, DOCTOR_FAIL, err);
    if (is_error(err, "lock_not_regular")) {
        finding_fix(f, "mv %s %s.aside", quoted, quoted);
    } else if (fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != geteuid() &&
               fs->fstat(f->doctor->ws->state_dir, &top) == 0) {
        finding_add(f, DOCTOR_FAIL, "doctor_lock_denied", "path", path, "uid", DIGITS(st.st_uid), NULL);
        finding_fix(f, "sudo chown -h %u:%u %s", top.st_uid, top.st_gid, quoted);
    } else {
        finding_fix(f, "ls -ld %s", quoted);
    }
}

/* 1 there is one, 0 none, -1 no lock can be looked at. */
static int lock_look_at(struct finding *f, const struct lock_kind *kind, const char *id)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error err;
    if (lock_target_init(&target, f->doctor->ws, kind, kind->has_id ? id : NULL, NULL, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return -1;
    }
    target.given_root = f->doctor->options.root;
    bool exists = true;
    if (lock_inspect(&target, &found, &err) == 0) {
        exists = found.verdict != VERDICT_FREE;
        if (exists)
            tell_finding(f, &target, &found);
    } else {
        tell_unreadable(f, &target, &err);
    }
    lock_target_clear(&target);
    return exists;
}

static bool is_wanted_lock(const struct doctor *d, const struct lock_kind *kind, const char *id)
{
    if (d->options.mode == DOCTOR_FULL)
        return true;
    if (kind->kind == TSK_LOCK_REQUEST)
        return !d->options.request_id || strcmp(id, d->options.request_id) == 0;
    return kind->kind == TSK_LOCK_QUEUE;
}

/* The kind of lock a file's name is of, or NULL. */
static const struct lock_kind *kind_of_file(int dir, const char *name, char id[LOCK_NAME_SIZE])
{
    for (int k = 0; k < LOCK_KIND_COUNT; k++)
        if (lock_kind_file_id(lock_kind_get((enum tsk_lock_kind)k), dir, name, id))
            return lock_kind_get((enum tsk_lock_kind)k);
    return NULL;
}

/* Every look at a lock removes the private names beside it. */
static void lock_sweep(struct finding *f, const struct lock_kind *kind, const char *id)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error err;
    if (lock_target_init(&target, f->doctor->ws, kind, kind->has_id ? id : NULL, NULL, &err) < 0)
        return;
    lock_inspect(&target, &found, &err);
    lock_target_clear(&target);
}

/* `.tsk-<guard>`: a command died between an exchange and its end. */
static void look_at_private(struct finding *f, const char *name)
{
    struct stat st;
    char id[LOCK_NAME_SIZE], path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (f->doctor->options.mode == DOCTOR_QUICK)
        return;
    snprintf(path, sizeof path, "%s.lock.json", strchr(name, '-') + 1);
    const struct lock_kind *kind = kind_of_file(f->doctor->ws->locks_dir, path, id);
    if (kind)
        lock_sweep(f, kind, id);
    if (fs->fstatat(f->doctor->ws->locks_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        finding_recovered(f, "doctor_private_swept", "file", name, NULL);
        return;
    }
    if (f->doctor->now.wall_ms - (int64_t)st.st_ctim.tv_sec * 1000 < 60000)
        return; /* somebody may be using it */
    snprintf(path, sizeof path, "locks/%s", name);
    finding_add(f, DOCTOR_WARN, "doctor_private", "file", name, NULL);
    finding_fix(f, "rm -f %s", state_word(f->doctor, path, &word));
}

static void tell_unknown_name(struct finding *f, const char *name)
{
    size_t len = strlen(name), suffix = strlen(".lock.json");
    char path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT, aside CLEANUP(buf_clear) = BUF_INIT;
    if (f->doctor->options.mode == DOCTOR_QUICK || len < suffix || strcmp(name + len - suffix, ".lock.json") != 0)
        return;
    snprintf(path, sizeof path, "locks/%s", name);
    finding_add(f, DOCTOR_WARN, "doctor_lock_name", "file", name, NULL);
    state_word(f->doctor, path, &word);
    snprintf(path, sizeof path, "locks/%s.aside", name);
    finding_fix(f, "mv %s %s", buf_str(&word), state_word(f->doctor, path, &aside));
}

static size_t look_at_names(struct finding *f, struct dirent **names, int count)
{
    char id[LOCK_NAME_SIZE];
    size_t locks = 0;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        const struct lock_kind *kind = kind_of_file(f->doctor->ws->locks_dir, name, id);
        int found = 0;
        if (kind && is_wanted_lock(f->doctor, kind, id))
            found = lock_look_at(f, kind, id);
        else if (fs_is_private_name(name))
            look_at_private(f, name);
        else if (!kind)
            tell_unknown_name(f, name);
        if (found < 0)
            break;
        locks += found > 0;
    }
    return locks;
}

void check_locks(struct finding *f)
{
    struct stat st;
    struct tsk_error err;
    struct dirent **names = NULL;
    struct tsk_workspace *ws = f->doctor->ws;
    finding_summary(f, f->doctor->options.mode == DOCTOR_QUICK ? "doctor_locks_none_quick" : "doctor_locks_none", NULL);
    if (fs->fstatat(ws->state_dir, "locks", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return;
    if (workspace_lock_dirs(ws, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    int count = scandirat(ws->locks_dir, ".", &names, NULL, alphasort);
    size_t locks = count < 0 ? 0 : look_at_names(f, names, count);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (locks)
        finding_summary(f, "doctor_locks_good", "count", DIGITS(locks), NULL);
}

/* ---- sprint ------------------------------------------------------------------------------------------------- */

static bool exists_at(int dir, const char *name)
{
    struct stat st;
    return fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void tell_sprint(struct finding *f, const struct lock_target *target, const struct judgement *found)
{
    struct lock_words w;
    struct buf command CLEANUP(buf_clear) = BUF_INIT;
    words_init(&w, f, target, found);
    snprintf(w.lock, sizeof w.lock, "%s", target->file);
    if (found->verdict == VERDICT_HELD) {
        add_lock_finding(f, DOCTOR_PASS, "doctor_lock_held", &w);
        finding_summary(f, "doctor_sprint_active", "lock", w.lock, "who", w.who, NULL);
        return;
    }
    /* One that is only old may be in use: its release needs a person's yes. */
    lock_target_command(target, judgement_is_left_behind(found) ? "release" : "check", &command);
    add_lock_finding(f, DOCTOR_WARN, found->alive == LIVE_ALIVE ? "doctor_zombie_old" : "doctor_zombie", &w);
    finding_fix(f, "%s", buf_str(&command));
}

/* Whether `tasuki sprint`, typed here as it is, means this project. */
static bool is_project_here(const char *project)
{
    char here[PATH_MAX];
    struct tsk_error ignored; /* then the proposed command names the project */
    return workspace_project_root(NULL, here, &ignored) == 0 && strcmp(here, project) == 0;
}

static void look_at_sprint(struct finding *f, const char *project, int dir, const char *file)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error err;
    char tmp[LOCK_FILE_NAME_MAX + 8];
    snprintf(tmp, sizeof tmp, "%s.tmp", file);
    bool has_tmp = exists_at(dir, tmp);
    if (!exists_at(dir, file) && !has_tmp)
        return;
    if (lock_target_init(&target, f->doctor->ws, lock_kind_get(TSK_LOCK_SPRINT), file, project, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    target.given_root = f->doctor->options.root;
    target.given_project_root = is_project_here(project) ? NULL : project;
    target.given_lock_file = strcmp(file, SPRINT_FILE_DEFAULT) == 0 ? NULL : file;
    if (lock_inspect(&target, &found, &err) < 0)
        finding_error(f, DOCTOR_FAIL, &err);
    else if (found.verdict != VERDICT_FREE)
        tell_sprint(f, &target, &found);
    if (has_tmp && !exists_at(dir, tmp))
        finding_recovered(f, "doctor_tmp_swept", "file", tmp, NULL);
    lock_target_clear(&target);
}

/* Sprint locks with a name of their own are known by their guards. */
static void look_at_named_sprints(struct finding *f, const char *project, int dir)
{
    struct listing guards CLEANUP(listing_close);
    const char *prefix = lock_kind_get(TSK_LOCK_SPRINT)->file_prefix;
    size_t len = strlen(prefix);
    listing_open(&guards, dir, ".aiflow/locks/.guard", LISTING_SORTED | LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&guards));)
        if (strncmp(name, prefix, len) == 0 && strcmp(name + len, SPRINT_FILE_DEFAULT) != 0)
            look_at_sprint(f, project, dir, name + len);
}

void check_sprint(struct finding *f)
{
    char project[PATH_MAX];
    struct tsk_error err;
    finding_summary(f, "doctor_sprint_clean", NULL);
    if (workspace_project_root(f->doctor->options.root, project, &err) < 0)
        snprintf(project, sizeof project, "%s", f->doctor->ws->root);
    int dir CLEANUP_FD = fs->openat(AT_FDCWD, project, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0)
        return;
    look_at_sprint(f, project, dir, SPRINT_FILE_DEFAULT);
    look_at_named_sprints(f, project, dir);
}
