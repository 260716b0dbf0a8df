/* command.c - release, renew and check by a command that does not hold the lock object. */
#include "base/fs.h"
#include "lock/file.h"
#include "lock/report.h"
#include "own/instance.h"

#include <errno.h>
#include <string.h>

struct visit {
    struct guard guard;
    struct now now;
    struct judgement found;
};

static int visit_begin(struct visit *visit, const struct lock_target *target, struct tsk_error *err)
{
    if (guard_open(&visit->guard, target->guard_dir, target->guard_name, err) < 0)
        return -1;
    if (guard_lock(&visit->guard, err) < 0)
        goto fail;
    visit->now = clock_now();
    if (visit->guard.state.has_private)
        lock_file_recover(target, &visit->guard, &visit->now);
    sprint_path_clear(target);
    if (lock_judge(target, &visit->guard, &visit->now, &visit->found, NULL, err) < 0)
        goto fail;
    /* On a full disk a lock can still be looked at and released. */
    struct tsk_error ignored;
    if (visit->found.verdict != VERDICT_FREE)
        guard_meet_boot(&visit->guard, &visit->now, visit->found.record.fence, &ignored);
    return 0;
fail:
    guard_close(&visit->guard);
    return -1;
}

/* For a change: *outcome is what was there before it. */
static int visit_begin_change(struct visit *visit, const struct lock_target *target, struct lock_outcome *outcome,
                              struct tsk_error *err)
{
    *outcome = (struct lock_outcome){0};
    if (visit_begin(visit, target, err) < 0)
        return -1;
    outcome->existed = visit->found.verdict != VERDICT_FREE;
    outcome->before = visit->found;
    outcome->record = visit->found.record;
    return 0;
}

static void visit_end(struct visit *visit)
{
    guard_close(&visit->guard);
}

/* Whether the caller may touch this lock: by its token, by being its instance or (a descendant of) its process, and no other agent
 * there. */
static bool is_proven(const struct lock_proof *proof, const struct lock_record *record)
{
    if (proof->token && proof->token[0])
        return strcmp(proof->token, record->token) == 0;
    if (!proof->is_remote && !who_current_is(&record->who))
        return false;
    if (proof->instance && record->instance[0] && strcmp(proof->instance, record->instance) == 0)
        return true;
    /* The processes above a server are not its clients: among these only the instance counts. */
    if (proof->is_remote || instance_is_http(record->instance) ||
        (proof->instance && instance_is_http(proof->instance)))
        return false;
    bool is_process = record->hold == HOLD_PROCESS || record->hold == HOLD_GUESS;
    /* Of two instances below one process, each says that it is not that process. */
    pid_t said = proof->instance ? instance_pid(proof->instance) : 0;
    return is_process && (!said || said == record->holder.pid) && proc_is_ancestor(&record->holder);
}

/* Whose lease is over can be overtaken at any moment: renewing its TTL would only seem to help. (A call of its own has renewed
 * the lease before it comes here; so this is after a reboot, or somebody else's call with the token.) */
static bool is_lease_over(const struct judgement *found)
{
    return found->record.hold == HOLD_LEASE && found->alive == LIVE_DEAD;
}

static bool has_token(const struct lock_proof *proof)
{
    return proof->token && proof->token[0];
}

/* Another tool records nothing but a pid. It was judged alive, so the process with that pid is the holder. */
static bool is_foreign_ancestor(const struct lock_proof *proof, const struct judgement *found)
{
    struct proc_id holder;
    return !proof->is_remote && found->record.hold == HOLD_FOREIGN && found->alive == LIVE_ALIVE &&
           proc_id_of(found->record.pid, &holder) == 0 && proc_is_ancestor(&holder);
}

/* A session id proves nothing: every refusal shows it. */
static bool may_release_sprint(const struct lock_proof *proof, const struct judgement *found)
{
    return judgement_is_left_behind(found) || is_foreign_ancestor(proof, found) ||
           (proof->confirmed && judgement_is_same(proof->confirmed, found));
}

static bool may_release(const struct lock_target *target, const struct lock_proof *proof, const struct judgement *found)
{
    if (has_token(proof) || is_proven(proof, &found->record))
        return is_proven(proof, &found->record);
    return target->kind->is_sprint ? may_release_sprint(proof, found) : found->verdict == VERDICT_STALE;
}

/* Why the caller may not touch the lock, and the commands for a holder that calls from somewhere else. */
static int refuse_stranger(const struct lock_target *target, const struct visit *visit, const struct lock_proof *proof,
                           const char *verb, struct tsk_error *err)
{
    if (target->kind->is_sprint && !has_token(proof)) {
        error_set(err, TSK_NEEDS_CONFIRMATION, "needs_confirmation_release", NULL);
        report_add_facts(target, &visit->now, &visit->found, err);
        report_add_command(target, "check", "", err);
        return -1;
    }
    error_set(err, TSK_LOCK_LOST, has_token(proof) ? "token_differs" : "not_the_holder", NULL);
    report_add_facts(target, &visit->now, &visit->found, err);
    report_add_command(target, "check", "", err);
    if (!has_token(proof) && visit->found.record.hold != HOLD_FOREIGN)
        report_add_command(target, verb, " --token TOKEN", err);
    return -1;
}

static int remove_lock(const struct lock_target *target, struct visit *visit, const struct lock_proof *proof,
                       struct lock_outcome *outcome, struct tsk_error *err)
{
    const struct lock_record *record = &visit->found.record;
    if (!may_release(target, proof, &visit->found))
        return refuse_stranger(target, visit, proof, "release", err);
    outcome->session_mismatch = proof->session_id && proof->session_id[0] && visit->found.is_parsed &&
                                strcmp(proof->session_id, record->session_id) != 0;
    if (outcome->session_mismatch && proof->strict) {
        error_set(err, TSK_LOCK_LOST, "session_mismatch", "expected", proof->session_id, "actual", record->session_id,
                  NULL);
        report_add_facts(target, &visit->now, &visit->found, err);
        report_add_command(target, "check", "", err);
        return -1;
    }
    if (fs->unlinkat(target->dir, target->file, 0) < 0) {
        if (errno != ENOENT) /* another tool does not wait for the guard, and may be quicker */
            return error_errno(err, "delete", target->file);
        outcome->existed = false;
        return 0;
    }
    if (is_proven(proof, record) && !outcome->session_mismatch)
        report_released(target, &visit->now, record);
    else
        report_released_by(target, &visit->now, record, proof);
    return 0;
}

int lock_release_by(struct lock_target *target, const struct lock_proof *proof, struct lock_outcome *outcome,
                    struct tsk_error *err)
{
    struct visit visit;
    int result = 0;
    if (visit_begin_change(&visit, target, outcome, err) < 0)
        return -1;
    if (outcome->existed)
        result = remove_lock(target, &visit, proof, outcome, err);
    if (result == 0)
        visit.found.verdict = VERDICT_FREE;
    sprint_tmp_sweep(target, &visit.now, &visit.found);
    visit_end(&visit);
    return result;
}

int lock_recover(struct lock_target *target, struct lock_outcome *outcome, struct tsk_error *err)
{
    struct visit visit;
    int result = 0;
    if (visit_begin_change(&visit, target, outcome, err) < 0)
        return -1;
    /* Another tool does not wait for the guard: what is deleted is what was judged. */
    struct stat st;
    if (visit.found.verdict == VERDICT_STALE && fs->fstatat(target->dir, target->file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == visit.found.st.st_dev && st.st_ino == visit.found.st.st_ino) {
        outcome->recovered = fs->unlinkat(target->dir, target->file, 0) == 0;
        if (!outcome->recovered && errno != ENOENT)
            result = error_errno(err, "delete", target->file);
    }
    if (outcome->recovered)
        report_recovered(target, &visit.now, &visit.found);
    visit_end(&visit);
    return result;
}

static int renew_found(const struct lock_target *target, struct visit *visit, int64_t ttl_ms, struct tsk_error *err)
{
    struct lock_file file = LOCK_FILE_INIT;
    struct lock_record *record = &visit->found.record;
    if (ttl_ms > 0)
        record->ttl_ms = ttl_ms;
    if (record->ttl_ms <= 0)
        record->ttl_ms = LOCK_TTL_DEFAULT_MS;
    if (record->ttl_ms > LOCK_TTL_MAX_MS)
        record->ttl_ms = LOCK_TTL_MAX_MS;
    record->expires_ms = visit->now.wall_ms + record->ttl_ms;
    record->expires_boot_ms = visit->now.boot_ms + record->ttl_ms;
    int result = lock_file_renew(&file, target, &visit->guard, &visit->now, record, visit->found.st.st_dev,
                                 visit->found.st.st_ino, err);
    lock_file_close(&file);
    if (result == 0)
        report_renewed(target, &visit->now, record);
    return result;
}

int lock_renew_by(struct lock_target *target, const struct lock_proof *proof, int64_t ttl_ms,
                  struct lock_outcome *outcome, struct tsk_error *err)
{
    struct visit visit;
    memset(outcome, 0, sizeof *outcome);
    if (visit_begin(&visit, target, err) < 0)
        return -1;
    int result = 0;
    if (visit.found.verdict == VERDICT_FREE) {
        result = error_set(err, TSK_LOCK_NOT_FOUND, NULL, NULL);
        report_add_holder(target, &visit.now, &visit.found, err);
        report_add_command(target, "acquire", "", err);
    } else if (!is_proven(proof, &visit.found.record) && (!target->kind->is_sprint || has_token(proof))) {
        result = refuse_stranger(target, &visit, proof, "renew", err);
    } else if (is_lease_over(&visit.found)) {
        result = error_set(err, TSK_LOCK_LOST, "lease_is_over", NULL);
        report_add_holder(target, &visit.now, &visit.found, err);
    } else if (!target->kind->is_sprint) {
        result = renew_found(target, &visit, ttl_ms, err);
    }
    outcome->existed = true;
    outcome->record = visit.found.record;
    outcome->before = visit.found;
    visit_end(&visit);
    return result;
}

/* Where nothing may be written, looking is still allowed; the answer is then a good guess. */
static int inspect_without_guard(const struct lock_target *target, struct judgement *ret, struct tsk_error *err)
{
    struct guard guard = GUARD_INIT;
    struct now now = clock_now();
    guard.is_new_boot = true; /* nothing is known of the clock */
    guard.fd = fs->openat(target->guard_dir, target->guard_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    int result = lock_judge(target, &guard, &now, ret, NULL, err);
    fs_close(&guard.fd);
    return result;
}

int lock_inspect(struct lock_target *target, struct judgement *ret, struct tsk_error *err)
{
    struct visit visit;
    if (visit_begin(&visit, target, err) < 0) {
        if (err->sys_errno == EACCES || err->sys_errno == EROFS || err->sys_errno == EPERM)
            return inspect_without_guard(target, ret, err);
        return -1;
    }
    lock_file_renew_met(target, &visit.guard, &visit.now, &visit.found);
    sprint_tmp_sweep(target, &visit.now, &visit.found);
    *ret = visit.found;
    visit_end(&visit);
    return 0;
}
