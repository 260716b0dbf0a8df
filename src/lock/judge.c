#include "lock/judge.h"
#include "base/fs.h"
#include "base/word.h"
#include "own/instance.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define REUSE_SLACK_MS 2000
#define BOOT_SLACK_MS  60000

static void judge_life(const struct guard *guard, struct judgement *j)
{
    int probe = guard_life_probe(guard, j->record.fence);
    j->alive = probe < 0 ? LIVE_UNKNOWN : probe ? LIVE_ALIVE : LIVE_DEAD;
    j->how = probe < 0 ? "life byte cannot be read" : probe ? "life byte is locked" : "life byte is free";
}

static void judge_process(struct judgement *j)
{
    const struct proc_id *holder = &j->record.holder;
    j->alive = proc_id_liveness(holder);
    if (strcmp(holder->boot_id, boot_id()) != 0)
        j->how = "machine was rebooted";
    else if (holder->pid_ns != pid_namespace())
        j->how = "other pid namespace";
    else if (j->alive == LIVE_ALIVE)
        j->how = "process exists";
    else if (j->alive == LIVE_UNKNOWN)
        j->how = "process cannot be examined";
    else {
        struct proc_id now_there;
        j->how = proc_id_of(holder->pid, &now_there) < 0 ? "process is gone" : "pid was reused";
    }
}

/* J2b. A sprint lock may be looked at from a workspace that has never heard of the instance: then in the table that it names. */
static int look_up_lease(const struct lock_target *target, const struct lock_record *record, const struct now *now,
                         struct instance_state *ret)
{
    struct tsk_error ignored;
    bool is_elsewhere = target->kind->is_sprint && strcmp(record->registry, target->ws->state_path) != 0;
    if (!is_elsewhere)
        return instance_judge_at(target->ws->state_dir, record->instance, now, ret, &ignored);
    int dir CLEANUP_FD = fs->openat(AT_FDCWD, record->registry, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return dir < 0 ? -1 : instance_judge_at(dir, record->instance, now, ret, &ignored);
}

static void judge_lease(const struct lock_target *target, const struct now *now, struct judgement *j)
{
    struct instance_state state = {.alive = LIVE_DEAD};
    bool is_rebooted = strcmp(j->record.holder.boot_id, boot_id()) != 0;
    if (!is_rebooted && look_up_lease(target, &j->record, now, &state) < 0)
        state = (struct instance_state){.alive = LIVE_UNKNOWN};
    j->alive = state.alive;
    j->how = is_rebooted                   ? "machine was rebooted"
             : state.alive == LIVE_UNKNOWN ? "lease cannot be read"
             : state.alive == LIVE_ALIVE   ? "lease runs"
                                           : "lease is over";
    j->recheck_ms = state.alive == LIVE_ALIVE ? state.lease_ms : -1;
}

/* J3. The order matters: what needs no wall clock comes first. */
static void judge_foreign(const struct guard *guard, const struct now *now, struct judgement *j)
{
    const struct lock_record *record = &j->record;
    int64_t started;
    j->alive = LIVE_ALIVE;
    if (!record->pid) {
        j->alive = LIVE_UNKNOWN;
        j->how = "no usable pid";
        return;
    }
    bool exists = kill(record->pid, 0) == 0 || errno != ESRCH;
    bool is_eperm = exists && errno == EPERM && kill(record->pid, 0) < 0;
    if (!exists) {
        j->alive = LIVE_DEAD;
        j->how = "process is gone";
        return;
    }
    bool clock_is_good = !guard_clock_was_stepped(guard, now);
    if (clock_is_good && record->created_ms >= 0) {
        if (record->created_ms < now->wall_ms - now->boot_ms - BOOT_SLACK_MS) {
            j->alive = LIVE_DEAD;
            j->how = "machine was rebooted";
            return;
        }
        if (proc_start_wall(record->pid, now, &started) == 0 && started > record->created_ms + REUSE_SLACK_MS) {
            j->alive = LIVE_DEAD;
            j->how = "pid was reused";
            return;
        }
    }
    j->how = is_eperm ? "process of another user exists" : "process exists";
}

static void judge_expiry(const struct lock_kind *kind, const struct now *now, struct judgement *j)
{
    const struct lock_record *record = &j->record;
    bool is_ours = record->hold != HOLD_FOREIGN;
    j->expires_in_ms = INT64_MAX;
    if (is_ours && strcmp(record->holder.boot_id, boot_id()) == 0) {
        j->expires_in_ms = record->expires_boot_ms - now->boot_ms;
        int64_t ttl = kind->is_sprint ? SPRINT_ZOMBIE_MS : record->ttl_ms;
        j->age_ms = kind->is_sprint ? ttl - j->expires_in_ms : now->wall_ms - record->created_ms;
    } else {
        int64_t created = record->created_ms >= 0 ? record->created_ms : (int64_t)j->st.st_mtim.tv_sec * 1000;
        int64_t ttl = kind->is_sprint ? SPRINT_ZOMBIE_MS : LOCK_TTL_DEFAULT_MS;
        int64_t expires = record->expires_ms >= 0 ? record->expires_ms : created + ttl;
        j->age_ms = record->created_ms >= 0 ? now->wall_ms - created : -1;
        j->expires_in_ms = is_ours ? -1 : expires - now->wall_ms;
    }
    j->is_expired = j->expires_in_ms < 0;
}

static bool is_dead(const struct judgement *j)
{
    return j->alive == LIVE_DEAD || (!j->record.pid && j->record.hold != HOLD_LEASE); /* J6 */
}

bool judgement_is_left_behind(const struct judgement *found)
{
    return found->verdict == VERDICT_ZOMBIE && (!found->is_parsed || is_dead(found));
}

static void decide_sprint(struct judgement *j)
{
    j->verdict = is_dead(j) || j->is_expired ? VERDICT_ZOMBIE : VERDICT_HELD;
    if (j->verdict != VERDICT_HELD)
        j->recheck_ms = -1;
    else if (j->recheck_ms < 0 || j->recheck_ms > j->expires_in_ms)
        j->recheck_ms = j->expires_in_ms;
}

static void decide_d39(struct judgement *j)
{
    bool needs_expiry = j->record.hold == HOLD_FOREIGN || j->record.hold == HOLD_GUESS;
    j->verdict = is_dead(j) && (!needs_expiry || j->is_expired) ? VERDICT_STALE : VERDICT_HELD;
    if (j->verdict != VERDICT_HELD)
        j->recheck_ms = -1;
    else if (needs_expiry && !j->is_expired)
        j->recheck_ms = j->expires_in_ms;
}

/* J7 */
static void decide_unparsable(const struct lock_kind *kind, const struct now *now, struct judgement *j)
{
    int64_t written = (int64_t)j->st.st_mtim.tv_sec * 1000 + j->st.st_mtim.tv_nsec / 1000000;
    int64_t age = now->wall_ms - written;
    /* A time stamp far in the future means that the clock was set back: nobody is writing it this moment. */
    bool may_be_written = age < BEING_WRITTEN_MS && age > -BEING_WRITTEN_MS;
    j->alive = LIVE_UNKNOWN;
    j->age_ms = -1;
    j->expires_in_ms = INT64_MAX;
    if (kind->is_sprint) {
        j->verdict = VERDICT_ZOMBIE;
        j->how = "invalid format";
    } else {
        j->verdict = may_be_written ? VERDICT_HELD : VERDICT_STALE;
        j->how = may_be_written ? "may be being written" : "invalid format";
        j->recheck_ms = may_be_written ? BEING_WRITTEN_MS - age : -1;
    }
}

static int open_lock_file(const struct lock_target *target, struct judgement *j, struct tsk_error *err)
{
    char path[PATH_MAX];
    int fd = fs->openat(target->dir, target->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    int saved = errno;
    lock_target_path(target, path);
    errno = saved;
    if (fd < 0 && errno == ELOOP)
        goto not_regular;
    if (fd < 0)
        return error_errno(err, "read", path);
    if (fs->fstat(fd, &j->st) < 0) {
        error_errno(err, "read", path);
        fs_close(&fd);
        return -1;
    }
    if (S_ISREG(j->st.st_mode))
        return fd;
    fs_close(&fd);
not_regular:
    error_set(err, TSK_ENVIRONMENT, "lock_not_regular", "path", path, NULL);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    return error_add_next(err, "ls -ld %s", shell_word(&word, path));
}

/* A broken file under the default name is a zombie. A name given with --lock-file may be any file of the project: only a file
 * with the keys of a sprint lock is one. */
static bool looks_like_sprint(const struct judgement *j)
{
    return j->is_parsed && (j->record.pid || j->record.session_id[0]) && j->record.created_ms >= 0;
}

int lock_judge(const struct lock_target *target, const struct guard *guard, const struct now *now,
               struct judgement *ret, int *ret_fd, struct tsk_error *err)
{
    memset(ret, 0, offsetof(struct judgement, record));
    ret->record.fence = 0;
    ret->recheck_ms = -1;
    ret->age_ms = -1;
    if (ret_fd)
        *ret_fd = -1;
    int fd CLEANUP_FD = open_lock_file(target, ret, err);
    if (fd < 0) {
        if (err->sys_errno != ENOENT)
            return -1;
        ret->verdict = VERDICT_FREE;
        return 0;
    }
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char storage[8192];
    if (ret->st.st_size < (off_t)sizeof storage / 2) /* ours always are: no allocation on that path */
        buf_init_fixed(&b, storage, sizeof storage);
    bool is_too_long = ret->st.st_size > (off_t)LOCK_FILE_MAX;
    if (!is_too_long && fs_read_fd(fd, LOCK_FILE_MAX, &b) < 0) {
        if (errno != EFBIG)
            return error_errno(err, "read", target->file);
        is_too_long = true; /* it grew while we looked */
    }
    ret->is_parsed = !is_too_long && target->kind->parse(buf_str(&b), b.len, &ret->record) == 0;
    if (target->kind->is_sprint && strcmp(target->file, SPRINT_FILE_DEFAULT) != 0 && !looks_like_sprint(ret)) {
        char path[PATH_MAX];
        lock_target_path(target, path);
        return error_set(err, TSK_INVALID_INPUT, "not_a_sprint_lock", "path", path, NULL);
    }
    if (!ret->is_parsed) {
        memset(&ret->record, 0, sizeof ret->record);
        ret->record.created_ms = ret->record.expires_ms = -1;
        decide_unparsable(target->kind, now, ret);
    } else {
        if (ret->record.hold == HOLD_LIFE)
            judge_life(guard, ret);
        else if (ret->record.hold == HOLD_FOREIGN)
            judge_foreign(guard, now, ret);
        else if (ret->record.hold == HOLD_LEASE)
            judge_lease(target, now, ret);
        else
            judge_process(ret);
        judge_expiry(target->kind, now, ret);
        (target->kind->is_sprint ? decide_sprint : decide_d39)(ret);
    }
    if (ret_fd) {
        *ret_fd = fd;
        fd = -1;
    }
    return 0;
}
