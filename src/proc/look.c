#include "proc/look.h"

#include "base/fs.h"
#include "hold/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define LOOK_SETTLE_MS 250
#define PHASE_MAX      4096

const char *const proc_state_names[] = {"NotStarted", "Running", "Stopped", "Failed", NULL};
_Static_assert(sizeof proc_state_names / sizeof proc_state_names[0] == PROC_STATE_COUNT + 1, "one name per state");

/* ---- looking -------------------------------------------------------------------------------------------------- */

static bool is_of_another_namespace(const struct proc_id *child)
{
    return pid_namespace() && child->pid_ns && child->pid_ns != pid_namespace();
}

/* Doubt counts as life. Only for another pid namespace the lock is asked: nothing else can tell from here. */
static bool is_child_alive(const struct proc_id *child, bool lock_is_held, struct look *look)
{
    enum liveness found = proc_id_look(child, &look->usage);
    look->has_usage = found == LIVE_ALIVE;
    if (found == LIVE_UNKNOWN && is_of_another_namespace(child))
        return lock_is_held;
    return found != LIVE_DEAD;
}

/* A start n+1 beside the record of n. */
static int look_at_next(int dir, struct look *look, struct tsk_error *err)
{
    struct proc_status next;
    bool has_identity, is_held;
    int found = proc_start_read(dir, look->status.n + 1, &next, &has_identity, &is_held, err);
    if (found <= 0)
        return found;
    if (!has_identity) {
        look->is_starting = is_held;
        return 0;
    }
    next.restarts = look->status.restarts;
    next.retries = look->status.retries;
    next.holder = look->status.holder;
    snprintf(next.phase, sizeof next.phase, "running");
    look->status = next;
    look->is_behind = true;
    look->child_lives = is_child_alive(&next.child, is_held, look);
    return 0;
}

static int look_at_child(int dir, struct look *look, struct tsk_error *err)
{
    struct proc_status ignored;
    bool has_identity, is_held = false;
    bool gave_up = look->status.has_ended && look->status.raw_status == -1 && strcmp(look->status.by, "stop") == 0;
    if (look->status.n == 0 || (look->status.has_ended && !gave_up))
        return 0;
    if (is_of_another_namespace(&look->status.child) &&
        proc_start_read(dir, look->status.n, &ignored, &has_identity, &is_held, err) < 0)
        return -1;
    look->child_lives = is_child_alive(&look->status.child, is_held, look);
    look->is_stuck = gave_up && look->child_lives;
    look->status.has_ended = look->status.has_ended && !look->is_stuck;
    return 0;
}

static enum look_need need_of(const struct look *look)
{
    const struct proc_status *status = &look->status;
    if (look->is_starting || status->n == 0 || (look->is_foreign && (look->child_lives || look->has_holder)))
        return LOOK_NOTHING;
    if (!status->has_ended && look->child_lives)
        return look->has_holder || look->is_stuck ? LOOK_NOTHING : LOOK_ADOPT;
    if (!status->has_ended)
        return look->has_holder ? LOOK_AGAIN : LOOK_LOST;
    if (!look->has_holder && strcmp(status->phase, "backoff") == 0 && !look->want.is_down && !look->was_rebooted &&
        clock_now().wall_ms >= status->next_start_ms)
        return LOOK_REVIVE;
    return LOOK_NOTHING;
}

/* No status record, or one that cannot be read: the starts themselves have said who they are. The newest that lives counts. */
static int look_without_status(int dir, struct look *look, struct tsk_error *err)
{
    int64_t starts[64];
    size_t count = proc_starts_list(dir, starts, 64);
    while (count-- > 0) {
        struct proc_status start;
        bool has_identity, is_held;
        if (proc_start_read(dir, starts[count], &start, &has_identity, &is_held, err) < 0)
            return -1;
        if (!has_identity || !is_child_alive(&start.child, is_held, look))
            continue;
        look->status = start;
        snprintf(look->status.phase, sizeof look->status.phase, "running");
        return 0;
    }
    look->status = (struct proc_status){.n = 0};
    return 0;
}

int look_at(int dir, struct look *ret, struct tsk_error *err)
{
    *ret = (struct look){.need = LOOK_NOTHING};
    if (dir < 0)
        return 0;
    ret->has_holder = proc_holder_is_there(dir);
    ret->has_want = proc_want_read(dir, &ret->want) == 0;
    int found = proc_status_read(dir, &ret->status, err);
    if (found < 0 || (found == 0 && look_without_status(dir, ret, err) < 0) || look_at_child(dir, ret, err) < 0)
        return -1;
    /* While n runs there cannot be an n+1 (H5). */
    if (!ret->child_lives && look_at_next(dir, ret, err) < 0)
        return -1;
    bool is_of_this_boot = !*boot_id() || strcmp(ret->status.child.boot_id, boot_id()) == 0;
    ret->is_foreign =
        ret->status.n && !ret->status.has_ended && is_of_this_boot && is_of_another_namespace(&ret->status.child);
    ret->was_rebooted = ret->status.n && !is_of_this_boot;
    ret->need = need_of(ret);
    return 0;
}

int look_settled(int dir, struct look *ret, struct tsk_error *err)
{
    int64_t deadline = clock_now().boot_ms + LOOK_SETTLE_MS;
    for (;;) {
        if (look_at(dir, ret, err) < 0)
            return -1;
        if (ret->need != LOOK_AGAIN || clock_now().boot_ms >= deadline)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

/* ---- telling -------------------------------------------------------------------------------------------------- */

static void describe_exit(const struct proc_status *status, struct proc_view *ret)
{
    int raw = status->raw_status;
    ret->raw_status = raw;
    if (raw == -1) {
        ret->exit_code = -1;
        snprintf(ret->error, sizeof ret->error, "exit status unknown: %s",
                 *status->reason ? status->reason : "nobody saw it end");
    } else if (WIFSIGNALED(raw)) {
        const char *name = sigabbrev_np(WTERMSIG(raw));
        ret->exit_code = 128 + WTERMSIG(raw);
        if (name)
            snprintf(ret->error, sizeof ret->error, "killed by signal SIG%s", name);
        else
            snprintf(ret->error, sizeof ret->error, "killed by signal %d", WTERMSIG(raw));
    } else {
        ret->exit_code = WEXITSTATUS(raw);
        snprintf(ret->error, sizeof ret->error, "Process exited with code %d", ret->exit_code);
    }
}

/* Ended by a stop: Stopped, whatever the signal did. Otherwise the exit code decides. */
static void view_ended(const struct look *look, struct proc_view *ret)
{
    const struct proc_status *status = &look->status;
    bool was_stopped = strcmp(status->by, "stop") == 0;
    describe_exit(status, ret);
    ret->state = was_stopped || ret->exit_code == 0 ? PROC_STOPPED : PROC_FAILED;
    if (ret->state == PROC_STOPPED) {
        ret->exit_code = 0;
        ret->error[0] = '\0';
    }
    ret->stopped_at_ms = status->stopped_at_ms;
    if (look->has_holder && strcmp(status->phase, "backoff") == 0) {
        ret->phase = "backoff";
        ret->next_start_ms = status->next_start_ms;
        if (look->want.is_down) { /* a stop in backoff that the holder is about to carry out */
            ret->phase = "stopping";
            ret->next_start_ms = 0;
        }
    }
}

/* The probe's words count only for the start that they were said of. */
static const char *probed_phase(int dir, int64_t n, bool has_ready, char detail[200])
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored; /* the detail says it */
    json_t *record CLEANUP_JSON = NULL;
    const char *before = has_ready ? "starting" : "ready";
    bool is_read = fs_read_file(dir, HOLD_PHASE_NAME, PHASE_MAX, &text) == 0;
    if (!is_read && errno == ENOENT)
        return before;
    if (!is_read || json_parse(buf_str(&text), text.len, HOLD_PHASE_NAME, &record, &ignored) < 0) {
        snprintf(detail, 200, "the file " HOLD_PHASE_NAME " cannot be read");
        return has_ready ? "starting" : "unhealthy"; /* in doubt, not ready */
    }
    if (json_get_int(record, "n", 0) != n)
        return before;
    const char *failed = json_get_string(record, "failed", NULL), *phase = json_get_string(record, "phase", "");
    const char *words = json_get_string(record, "detail", "");
    snprintf(detail, 200, "%s%s%s", failed ? failed : "", failed && *words ? ": " : "", words);
    return strcmp(phase, "ready") == 0 ? "ready" : strcmp(phase, "unhealthy") == 0 ? "unhealthy" : before;
}

void look_to_view(const struct look *look, int dir, bool has_ready, bool has_health, struct proc_view *ret)
{
    const struct proc_status *status = &look->status;
    *ret = (struct proc_view){.state = PROC_NOT_STARTED,
                              .phase = "",
                              .n = status->n,
                              .has_holder = look->has_holder,
                              .started_at_ms = status->started_at_ms,
                              .restarts = status->restarts,
                              .retries = status->retries,
                              .stdout_offset = status->stdout_offset,
                              .stderr_offset = status->stderr_offset,
                              .raw_status = -1,
                              .is_stuck = look->is_stuck,
                              .is_foreign = look->is_foreign,
                              .want_down = look->has_want && look->want.is_down,
                              .is_shutdown = look->has_want && look->want.is_shutdown};
    memcpy(ret->start_id, status->start_id, sizeof ret->start_id);
    memcpy(ret->log, status->log, sizeof ret->log);
    memcpy(ret->by, status->by, sizeof ret->by);
    if (look->has_holder)
        ret->holder = status->holder;
    if (status->n == 0) {
        ret->phase = look->is_starting ? "starting" : "";
    } else if (status->has_ended) {
        view_ended(look, ret);
        ret->phase = look->is_starting ? "starting" : ret->phase;
    } else {
        ret->state = PROC_RUNNING;
        ret->child = status->child;
        ret->has_usage = look->has_usage;
        ret->usage = look->usage;
        ret->phase = has_ready || has_health ? probed_phase(dir, status->n, has_ready, ret->detail) : "ready";
        if (look->want.is_down || strcmp(status->phase, "stopping") == 0)
            ret->phase = "stopping";
        else if (look->need == LOOK_AGAIN || look->need == LOOK_LOST || (look->is_foreign && !look->child_lives))
            ret->phase = "lost";
    }
}
