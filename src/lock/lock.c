#include "lock/lock.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "lock/end.h"
#include "lock/file.h"
#include "lock/held.h"
#include "lock/line.h"
#include "lock/report.h"
#include "lock/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One call of lock_acquire. */
struct attempt {
    struct lock_target *target;
    const struct lock_request *request;
    struct guard guard;
    struct now now;
    struct judgement found;
    int found_fd; /* the judged lock file, kept open while waiting for it to change */
    struct lock_watch watch;
    struct lock_record record;
    bool recovered, forced;
    bool has_ticket, is_place_kept;
    bool goes_past; /* those before us in line do not take the free lock */
    int idle_looks; /* in a row, at a free lock */
    bool gives_way; /* our time is up and a waiter is ahead of us: a free lock is left to that waiter */
    bool left_free; /* ... and the lock was free */
    uint64_t ticket;
    bool is_exchanged;     /* the old file still has the private name */
    struct lock_file file; /* the last one: attempt_init leaves its 24 KiB of content as they are */
};

enum step { STEP_TAKEN, STEP_HELD, STEP_AGAIN, STEP_FAILED };

static void copy_text(char *to, size_t size, const char *from)
{
    utf8_copy(to, size, from ? from : "");
}

/* Written once, at the beginning: a start time that is computed again from the wall clock differs by a millisecond. */
static void put_instance(struct lock_record *record, const char *given, const struct now *now)
{
    struct buf b;
    const struct who *who = who_current();
    if (!given && who->pid == record->pid && who->instance[0])
        given = who->instance; /* the id that it has already */
    if (given) {
        copy_text(record->instance, sizeof record->instance, given);
        return;
    }
    int64_t started = now->wall_ms - now->boot_ms + (int64_t)(record->holder.start_ticks * 1000 / ticks_per_second());
    buf_init_fixed(&b, record->instance, sizeof record->instance);
    buf_put(&b, host_name(), strnlen(host_name(), 200));
    buf_put(&b, "-", 1);
    buf_put_int(&b, record->pid);
    buf_put(&b, "-", 1);
    buf_put_int(&b, started);
}

static int fill_record(struct attempt *a, struct tsk_error *err)
{
    const struct lock_request *request = a->request;
    const struct lock_kind *kind = a->target->kind;
    struct lock_record *record = &a->record;
    memset(record, 0, sizeof *record);
    record->hold = request->hold;
    record->holder = request->holder;
    if (request->hold == HOLD_LIFE && held_self(&record->holder, err) < 0)
        return -1;
    if (request->hold == HOLD_LEASE) {
        record->holder = (struct proc_id){.pid = 0};
        copy_text(record->holder.boot_id, sizeof record->holder.boot_id, boot_id());
        if (kind->is_sprint && request->registry && strlen(request->registry) < sizeof record->registry)
            copy_text(record->registry, sizeof record->registry, request->registry);
    }
    record->pid = record->holder.pid;
    record->ttl_ms = kind->is_sprint ? SPRINT_ZOMBIE_MS : request->ttl_ms > 0 ? request->ttl_ms : LOCK_TTL_DEFAULT_MS;
    if (record->ttl_ms > LOCK_TTL_MAX_MS)
        record->ttl_ms = LOCK_TTL_MAX_MS;
    record->created_ms = a->now.wall_ms;
    record->expires_ms = a->now.wall_ms + record->ttl_ms;
    record->expires_boot_ms = a->now.boot_ms + record->ttl_ms;
    random_hex(record->token, TOKEN_SIZE - 1);
    copy_text(record->request_id, sizeof record->request_id,
              kind->kind == TSK_LOCK_REQUEST ? a->target->id : request->request_id);
    copy_text(record->name, sizeof record->name, kind->kind == TSK_LOCK_NAME ? a->target->id : "");
    copy_text(record->run_id, sizeof record->run_id, request->run_id);
    copy_text(record->session_id, sizeof record->session_id, request->session_id);
    copy_text(record->epic_spec, sizeof record->epic_spec, request->epic_spec);
    put_instance(record, request->instance, &a->now);
    copy_text(record->host, sizeof record->host, "127.0.0.1");
    copy_text(record->hostname, sizeof record->hostname, host_name());
    record->who = *who_current();
    if (strcmp(record->who.instance, record->instance) == 0)
        record->who.instance[0] = '\0';
    return 0;
}

/* Inode numbers are used again; fences and tokens are not. */
bool judgement_is_same(const struct judgement *a, const struct judgement *b)
{
    const struct lock_record *x = &a->record, *y = &b->record;
    if (a->is_parsed != b->is_parsed || x->hold != y->hold)
        return false;
    if (x->hold != HOLD_FOREIGN)
        return x->fence == y->fence && strcmp(x->token, y->token) == 0;
    return a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino &&
           a->st.st_ctim.tv_sec == b->st.st_ctim.tv_sec && a->st.st_ctim.tv_nsec == b->st.st_ctim.tv_nsec &&
           x->pid == y->pid && x->created_ms == y->created_ms;
}

/* Whether what was found may be replaced, and by which right. */
static enum step attempt_decide(struct attempt *a, struct tsk_error *err)
{
    const struct lock_request *request = a->request;
    bool is_confirmed = !request->confirmed || judgement_is_same(request->confirmed, &a->found);
    switch (a->found.verdict) {
    case VERDICT_FREE:
        return STEP_TAKEN;
    case VERDICT_STALE:
        a->recovered = true;
        return STEP_TAKEN;
    case VERDICT_ZOMBIE:
        a->recovered = true;
        if (request->take_dead && judgement_is_left_behind(&a->found))
            return STEP_TAKEN;
        return (request->take_zombie || request->force) && is_confirmed ? STEP_TAKEN : STEP_HELD;
    case VERDICT_HELD:
        break;
    }
    if (!request->force || !is_confirmed || !a->found.how || a->found_fd < 0)
        return STEP_HELD;
    if (request->kill && end_holder(&a->guard, &a->found, err) < 0)
        return STEP_FAILED;
    a->forced = true;
    return STEP_TAKEN;
}

/* L2 and L4. A crash anywhere in here leaves the path as it was, or naming our fence whose life byte dies
 * with us. */
static enum step put_in_place(struct attempt *a, struct tsk_error *err)
{
    bool is_absent = a->found.verdict == VERDICT_FREE;
    if (fill_record(a, err) < 0 ||
        guard_next_fence(&a->guard, &a->now, a->found.record.fence, !is_absent, &a->record.fence, err) < 0)
        return STEP_FAILED;
    if (a->record.hold == HOLD_LIFE && guard_life_take(&a->guard, a->record.fence, err) < 0)
        return STEP_FAILED;
    if (!is_absent) /* a warm file may be the very file that is there */
        lock_file_close(&a->file);
    int result = lock_file_create(&a->file, a->target, &a->guard, &a->now, &a->record, err);
    if (result == 0)
        result = is_absent ? lock_file_publish(&a->file, a->target, err)
                           : lock_file_exchange(&a->file, a->target, a->found.st.st_dev, a->found.st.st_ino, err);
    a->is_exchanged = result == 0 && !is_absent;
    if (result == 0)
        return STEP_TAKEN;
    guard_life_drop(&a->guard, a->record.fence);
    lock_file_close(&a->file);
    return result < 0 ? STEP_FAILED : STEP_AGAIN;
}

/* Removes the lock that was just published: the caller is not told that it has the lock, so it must not have it. */
static void take_back(struct attempt *a)
{
    struct tsk_error ignored;
    if (lock_file_is_published(&a->file, a->target, &ignored) != 1)
        lock_file_sweep(a->target);
    else if (a->is_exchanged)
        lock_file_undo_exchange(a->target);
    else
        fs->unlinkat(a->target->dir, a->target->file, 0);
    guard_life_drop(&a->guard, a->record.fence);
    lock_file_close(&a->file);
}

/* Reads a sprint file back before success is reported, as its format requires. A client of the server may have ended while its
 * call waited for the lock. */
static int read_back(struct attempt *a, struct tsk_error *err)
{
    bool is_leased = a->record.hold == HOLD_LEASE;
    if (!a->target->kind->is_sprint && !is_leased)
        return 0;
    struct judgement seen;
    sprint_path_clear(a->target);
    if (lock_judge(a->target, &a->guard, &a->now, &seen, NULL, err) < 0)
        return -1;
    if (is_leased && seen.alive == LIVE_DEAD)
        return error_set(err, TSK_NOT_FOUND, "instance_gone", "instance", a->record.instance, NULL);
    if (seen.is_parsed && seen.record.fence == a->record.fence && strcmp(seen.record.token, a->record.token) == 0)
        return 0;
    return error_set(err, TSK_LOCK_LOST, "read_back_differs", NULL);
}

/* One try under the guard. */
static enum step try_take(struct attempt *a, struct tsk_error *err)
{
    enum step step = STEP_AGAIN;
    if (a->guard.state.has_private)
        lock_file_recover(a->target, &a->guard, &a->now);
    for (int i = 0; i < 20 && step == STEP_AGAIN; i++) {
        a->recovered = a->forced = false;
        fs_close(&a->found_fd);
        if (a->target->kind->is_sprint) {
            enum sprint_tmp tmp = sprint_tmp_take(a->target, &a->now, &a->found, err);
            if (tmp != SPRINT_TMP_READY)
                return tmp == SPRINT_TMP_BUSY ? STEP_HELD : STEP_FAILED;
        }
        sprint_path_clear(a->target);
        if (lock_judge(a->target, &a->guard, &a->now, &a->found, &a->found_fd, err) < 0)
            step = STEP_FAILED;
        else
            step = attempt_decide(a, err);
        a->left_free = step == STEP_TAKEN && a->gives_way;
        if (a->left_free)
            step = STEP_HELD;
        if (step == STEP_TAKEN)
            step = put_in_place(a, err);
    }
    if (step == STEP_TAKEN && (read_back(a, err) < 0 || report_taken(a->target, &a->now, &a->record, &a->found,
                                                                     a->recovered, a->forced, err) < 0)) {
        take_back(a);
        step = STEP_FAILED;
    }
    if (step == STEP_TAKEN && a->is_exchanged)
        lock_file_sweep(a->target);
    if (step != STEP_TAKEN && a->target->kind->is_sprint) {
        if (step == STEP_FAILED) /* the judgement may be missing; the directory is ours or nobody's unless he lives */
            a->found.verdict = a->found.how && a->found.alive != LIVE_DEAD ? a->found.verdict : VERDICT_FREE;
        sprint_tmp_sweep(a->target, &a->now, &a->found);
    }
    if (step == STEP_HELD) {
        if (guard_meet_boot(&a->guard, &a->now, a->found.record.fence, err) < 0)
            return STEP_FAILED;
        ino_t before = a->found.st.st_ino;
        lock_file_renew_met(a->target, &a->guard, &a->now, &a->found);
        if (a->found.st.st_ino != before)
            fs_close(&a->found_fd); /* watch the new file: open it at the next look */
    }
    return step == STEP_AGAIN ? STEP_HELD : step; /* another tool was faster, twenty times */
}

static int wait_interrupted(struct tsk_error *err)
{
    error_set(err, TSK_CONFLICT, "interrupted", NULL);
    err->sys_errno = EINTR;
    return -1;
}

/* The result of a wait: 0 continue, 1 the time is up, -1. */
static int after_wait(int result, struct tsk_error *err)
{
    if (result == 0)
        return 0;
    if (errno == ETIMEDOUT)
        return 1;
    return errno == EINTR ? wait_interrupted(err) : error_errno(err, "wait for", "lock");
}

static int64_t time_left(int64_t deadline)
{
    if (deadline < 0)
        return -1;
    int64_t left = deadline - clock_now().boot_ms;
    return left > 0 ? left : 0;
}

static bool somebody_waits(const struct guard *guard)
{
    return fs_lock_probe(guard->fd, F_RDLCK, GUARD_TICKET_BASE, 0, NULL) == 1;
}

/* Whether the lock could be taken, seen without the guard. */
static bool looks_takeable(struct attempt *a)
{
    struct tsk_error ignored;
    struct judgement seen;
    struct now now = clock_now();
    return lock_judge(a->target, &a->guard, &now, &seen, NULL, &ignored) == 0 &&
           (seen.verdict == VERDICT_FREE || seen.verdict == VERDICT_STALE);
}

/* The name in which a place in line is kept. */
static void attempt_key(const struct attempt *a, char key[LINE_KEY_SIZE])
{
    struct lock_record caller = {.holder = a->request->holder, .pid = a->request->holder.pid};
    struct tsk_error ignored;
    if (a->request->hold == HOLD_LIFE && held_self(&caller.holder, &ignored) == 0)
        caller.pid = caller.holder.pid;
    snprintf(caller.instance, sizeof caller.instance, "%d.%llu", (int)caller.pid,
             (unsigned long long)caller.holder.start_ticks);
    line_key(a->request->caller     ? a->request->caller
             : a->request->instance ? a->request->instance
             : caller.pid           ? caller.instance
                                    : NULL,
             key);
}

/* P3: somebody before us may have come back since we were the head. With the guard. */
static bool is_head(const struct attempt *a)
{
    return fs_lock_probe(a->guard.fd, F_RDLCK, GUARD_TICKET_BASE, (off_t)a->ticket, NULL) == 0;
}

#define LINE_LOOK_MS 1000

/* Whether the first in line is stopped. A waiter of another pid namespace cannot be asked. */
static bool is_head_stopped(const struct attempt *a)
{
    pid_t pid;
    off_t head = GUARD_TICKET_BASE + (off_t)a->ticket;
    while (fs_lock_probe(a->guard.fd, F_RDLCK, GUARD_TICKET_BASE, head - GUARD_TICKET_BASE, &head) == 1)
        ; /* each is before the last one */
    return guard_byte_holders(&a->guard, head, &pid, 1) == 1 && process_is_stopped(pid);
}

/* A free lock is not kept by a waiter that is stopped. One that runs may only be late on a busy machine: it has more time. Whether it is
 * stopped costs a search through /proc, so few looks ask: the second, the fourth and the eighth. */
static bool is_left_free(void *data)
{
    enum { LATE_LOOKS = 15 };
    struct attempt *a = data;
    a->idle_looks = looks_takeable(a) ? a->idle_looks + 1 : 0;
    bool asks = a->idle_looks == 2 || a->idle_looks == 4 || a->idle_looks == 8;
    return a->idle_looks >= LATE_LOOKS || (asks && is_head_stopped(a));
}

/* Gets in line and waits until nobody is before us, or those before us leave a free lock where it is. (A call of the library that
 * waits for ever blocks in the kernel and does not look.) */
static int wait_in_line(struct attempt *a, int64_t deadline, struct tsk_error *err)
{
    char key[LINE_KEY_SIZE];
    attempt_key(a, key);
    a->idle_looks = 0;
    if (!a->has_ticket && line_enter(&a->guard, key, &a->ticket, err) < 0)
        return -1;
    a->has_ticket = true;
    a->goes_past = false;
    int64_t left = time_left(deadline);
    int result = wait_for_turn(a->guard.fd, a->ticket, left, left < 0 ? NULL : is_left_free, a);
    a->goes_past = result < 0 && errno == EAGAIN;
    return a->goes_past ? 0 : after_wait(result, err);
}

/* The time is up, and somebody before us is about to take the free lock. If that has not happened for a second, it is ours: this call
 * cannot wait longer. */
static void leave_lock_to_line(struct attempt *a)
{
    int64_t end = clock_now().boot_ms + LINE_LOOK_MS;
    while (clock_now().boot_ms < end)
        if (wait_for_turn(a->guard.fd, a->ticket, 20, NULL, NULL) == 0 || errno != ETIMEDOUT || !looks_takeable(a))
            return;
    a->goes_past = true;
}

static int lock_wait_for_holder(struct attempt *a, int64_t deadline, struct tsk_error *err)
{
    int64_t left = time_left(deadline);
    return after_wait(wait_for_change(&a->guard, a->target, &a->found, a->found_fd, &a->watch, left), err);
}

/* Joins the line. At the head of the line it looks without the guard, which would only delay a holder that is about to
 * release. What is seen is a hint; the lock is taken under the guard alone. */
static int wait_for_turn_and_holder(struct attempt *a, int64_t deadline, struct tsk_error *err)
{
    struct tsk_error ignored;
    int waited = wait_in_line(a, deadline, err);
    if (waited != 0 || wait_briefly_for_life(&a->guard))
        return waited;
    fs_close(&a->found_fd);
    a->now = clock_now();
    if (lock_judge(a->target, &a->guard, &a->now, &a->found, &a->found_fd, &ignored) < 0 ||
        a->found.verdict != VERDICT_HELD)
        return 0;
    return lock_wait_for_holder(a, deadline, err);
}

/* Returns with the guard locked (STEP_TAKEN) or not (everything else). */
static enum step take_or_wait(struct attempt *a, struct tsk_error *err)
{
    int64_t wait_ms = a->request->wait_ms;
    int64_t deadline = wait_ms < 0 ? -1 : clock_now().boot_ms + wait_ms;
    /* Those who wait keep their order; those who do not wait may take what is free. */
    int waited = wait_ms == 0;
    if (wait_ms != 0 && somebody_waits(&a->guard))
        waited = wait_for_turn_and_holder(a, deadline, err);
    while (waited >= 0) {
        if (guard_lock(&a->guard, err) < 0)
            return STEP_FAILED;
        /* Under the guard: without it the lock could be taken and released once more between this look and ours. */
        bool is_behind = a->has_ticket && !a->goes_past && !is_head(a);
        if (waited == 0 && is_behind) {
            guard_unlock(&a->guard);
            waited = wait_for_turn_and_holder(a, deadline, err);
            continue;
        }
        a->now = clock_now();
        a->gives_way = is_behind && !a->request->force;
        enum step step = try_take(a, err);
        if (step == STEP_TAKEN || step == STEP_FAILED)
            return step;
        guard_unlock(&a->guard);
        if (a->left_free) {
            leave_lock_to_line(a);
            continue;
        }
        /* A zombie is not waited for: nobody will release it, somebody must say yes. */
        if (waited == 1 && a->has_ticket && a->found.verdict != VERDICT_ZOMBIE) {
            char key[LINE_KEY_SIZE];
            attempt_key(a, key);
            a->is_place_kept = line_keep(&a->guard, key, a->ticket);
        }
        if (waited == 1 || a->found.verdict == VERDICT_ZOMBIE)
            return STEP_HELD;
        waited = a->has_ticket ? lock_wait_for_holder(a, deadline, err) : wait_for_turn_and_holder(a, deadline, err);
    }
    return STEP_FAILED;
}

/* P2: the lock was free, so the caller did not need the place that was kept for it. */
static void use_up_place(struct attempt *a)
{
    char key[LINE_KEY_SIZE];
    if (a->has_ticket || a->guard.state.tickets == 0 || !line_has_kept(&a->guard))
        return;
    attempt_key(a, key);
    line_forget(&a->guard, key);
}

static void fill_outcome(const struct attempt *a, struct lock_outcome *outcome)
{
    if (!outcome)
        return;
    memset(outcome, 0, sizeof *outcome);
    outcome->record = a->record;
    outcome->recovered = a->recovered;
    outcome->forced = a->forced;
    outcome->is_place_kept = a->is_place_kept;
    outcome->existed = a->found.verdict != VERDICT_FREE;
    outcome->before = a->found;
}

static void attempt_init(struct attempt *a, struct lock_target *target, const struct lock_request *request)
{
    memset(a, 0, offsetof(struct attempt, file) + offsetof(struct lock_file, content));
    a->target = target;
    a->request = request;
    a->guard.fd = a->found_fd = a->watch.fd = a->file.fd = -1;
}

int lock_acquire(struct lock_target *target, const struct lock_request *request, struct tsk_lock **ret_lock,
                 struct lock_outcome *outcome, struct tsk_error *err)
{
    struct attempt a;
    attempt_init(&a, target, request);
    BUG(request->hold == HOLD_LIFE && !ret_lock);
    BUG(request->hold == HOLD_LEASE && !request->instance);
    if (workspace_locks_are_local(target->ws, err) < 0)
        return -1;
    held_take_warm(target, &a.guard, &a.file);
    if (a.guard.fd < 0 && guard_open(&a.guard, target->guard_dir, target->guard_name, err) < 0)
        return -1;
    enum step step = take_or_wait(&a, err);
    fs_close(&a.found_fd);
    fill_outcome(&a, outcome);
    if (step == STEP_TAKEN)
        use_up_place(&a);
    if (step == STEP_TAKEN && request->hold == HOLD_LIFE) {
        struct tsk_lock *lock = held_new(target, &a.guard, &a.file, &a.record);
        if (lock) {
            if (a.has_ticket)
                fs_lock_try(lock->guard.fd, F_UNLCK, GUARD_TICKET_BASE, 0);
            guard_unlock(&lock->guard);
            lock_watch_close(&a.watch);
            *ret_lock = lock;
            return 0;
        }
        take_back(&a);
        error_no_memory(err, "hold", target->file);
        step = STEP_FAILED;
    }
    lock_file_close(&a.file);
    guard_close(&a.guard);
    lock_watch_close(&a.watch);
    if (step == STEP_TAKEN)
        return 0;
    return step == STEP_HELD ? report_refusal(target, &a.now, &a.found, a.is_place_kept, err) : -1;
}
