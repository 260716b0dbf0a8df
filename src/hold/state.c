/* state.c - what follows from what: the table of hold.h, and the restart policy.
 *
 *  S1  The exit of n is written before anything that follows from it (H5). While it cannot be written (a full disk), nothing
 *      follows: we stay in charge and try again every second.
 *  S2  `want` is read before every start that the policy makes (H6), after the first one and after an adoption: a stop that was
 *      ordered when nobody could be signalled is not missed.
 *  S3  A start that does not come to be leaves n, status.json and the number of restarts as they were; its number is used
 *      again. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIVE_UP_MS      5000 /* after SIGKILL */
#define CHECK_MS        20   /* a descendant that is not below us ends unannounced */
#define CHECK_LONG_MS   100
#define PASSES_SHORT    10
#define RECORD_RETRY_MS 1000
#define PASSES_HURRIED  200 /* against processes that continue making more of themselves */

void holder_timer(struct holder *h, enum timer timer, int64_t delay_ms)
{
    h->due[timer] = delay_ms < 0 ? 0 : clock_boot_ms() + delay_ms;
}

static void status_write(struct holder *h)
{
    holder_timer(h, TIMER_RECORD, record_status(h, RECORD_NORMAL) < 0 ? RECORD_RETRY_MS : -1);
}

/* Start n runs: what the records and the rest of us must know. */
static void start_record(struct holder *h)
{
    h->state = RUNNING;
    h->phase = "running";
    h->has_exit = h->is_exit_told = false;
    h->reason[0] = '\0';
    h->next_start_ms = 0;
    run_lock_remember(h);
    status_write(h);
    history_add_start(h);
    output_begin(h);
    probe_start(h);
}

void holder_started(struct holder *h)
{
    report_ok(h);
    run_locks_tidy(h);
    holder_look_at_want(h);
    if (h->policy != RESTART_NO && h->state == RUNNING)
        spares_make(h);
}

int holder_first_start(struct holder *h)
{
    h->run.n = h->opt.n;
    h->run.lock = HOLD_FD_RUN;
    int result = child_start(h);
    if (h->opt.pass)
        close(HOLD_FD_PASS);
    if (result < 0)
        return -1;
    start_record(h);
    holder_started(h);
    return 0;
}

static void end_reached(struct holder *h)
{
    run_lock_end(h, h->run.lock, h->run.n);
    /* An exec wakes us before it closes what it inherited: a restart may have found its predecessor's lock still held. */
    run_locks_tidy(h);
    spares_remove(h);
    tty_end(h);
    lock_drop(HOLD_FD_LOCK, 0);
    failure_tell(h);
    h->state = OVER;
    /* Whatever a stop could not end, or had to spare, is not waited for. */
    if (h->mode != LOG_DIRECT && !h->is_ending)
        pump_alone(h);
}

/* -1: no restart. Counts the retry that it grants. */
static int64_t policy_delay(struct holder *h)
{
    if (h->is_ending || h->policy == RESTART_NO || (h->policy == RESTART_ON_FAILURE && h->status == 0))
        return -1;
    if (h->ran_ms >= h->opt.healthy_ms)
        h->retries = 0;
    if (h->opt.max_retries >= 0 && h->retries >= h->opt.max_retries) {
        h->has_gave_up = true;
        return -1;
    }
    /* A back-off of 0 grows, too: a command that fails at once would take a whole processor. */
    const int64_t first = h->opt.backoff_ms > 0 ? h->opt.backoff_ms : 1;
    int64_t delay = h->retries == 0 ? 0 : first;
    for (int64_t i = 1; i < h->retries && delay > 0 && delay < h->opt.backoff_max_ms; i++)
        delay *= 2;
    h->retries++;
    return delay < h->opt.backoff_max_ms ? delay : h->opt.backoff_max_ms;
}

/* The exit is in status.json: history, then what follows. */
static void exit_go_on(struct holder *h)
{
    if (!h->is_exit_told)
        history_add(h, "exited", h->run.n, ",\"status\":%d,\"by\":\"%s\"%s%s%s", h->status, h->by,
                    h->reason[0] ? ",\"reason\":\"" : "", h->reason, h->reason[0] ? "\"" : "");
    h->is_exit_told = true;
    if (h->has_gave_up)
        history_add(h, "gave_up", h->run.n, ",\"retries\":%" PRId64, h->retries);
    if (h->delay_ms < 0) {
        end_reached(h);
        return;
    }
    history_add(h, "restarting", h->run.n + 1, ",\"delay_ms\":%" PRId64 ",\"retry\":%" PRId64, h->delay_ms, h->retries);
    tty_show(h, HOLD_TTY_AGAIN, &h->delay_ms, sizeof h->delay_ms);
    h->state = BACKOFF;
    holder_timer(h, TIMER_RESTART, h->delay_ms);
}

static bool is_directory_gone(void)
{
    struct stat st;
    return fstat(HOLD_FD_DIR, &st) == 0 && st.st_nlink == 0;
}

static void exit_record(struct holder *h)
{
    enum record_kind kind = h->delay_ms < 0 ? RECORD_FINAL : h->delay_ms == 0 ? RECORD_BRIEF : RECORD_NORMAL;
    if (record_status(h, kind) == 0) {
        holder_timer(h, TIMER_RECORD, -1);
        exit_go_on(h);
    } else if (is_directory_gone()) {
        h->state = OVER;
    } else {
        h->state = RECORDING;
        holder_timer(h, TIMER_RECORD, RECORD_RETRY_MS);
    }
}

/* n has ended, or its successor could not be started: is there to be another? */
static void policy_apply(struct holder *h)
{
    h->delay_ms = policy_delay(h);
    h->phase = h->delay_ms < 0 ? "ended" : "backoff";
    h->next_start_ms = h->delay_ms < 0 ? 0 : clock_wall_ms() + h->delay_ms;
    exit_record(h);
}

void holder_child_ended(struct holder *h, int status, const char *by, const char *reason)
{
    int64_t grace_ms;
    h->is_alive = false;
    if (h->is_adopted && h->state == RUNNING && h->session_until)
        h->session_until = clock_boot_ticks();
    h->has_exit = true;
    h->status = status;
    h->by = by;
    h->stopped_ms = clock_wall_ms();
    h->ran_ms = clock_boot_ms() - h->started_boot_ms;
    snprintf(h->reason, sizeof h->reason, "%s", reason);
    probe_kill(h);
    if (h->state != RUNNING)
        return;
    if (want_is_down(h, &grace_ms)) {
        holder_stop(h, "stop", grace_ms);
        return;
    }
    if (h->opt.sweep && WIFSIGNALED(status)) {
        holder_stop(h, by, 0);
        return;
    }
    output_settle(h);
    policy_apply(h);
}

static void restart_failed(struct holder *h)
{
    history_add(h, "start_failed", h->run.n + 1, ",\"stage\":\"%s\",\"errno\":%d", h->failed_stage, h->failed_errno);
    h->ran_ms = 0;
    policy_apply(h);
}

static void restart_now(struct holder *h)
{
    const struct hold_run old = h->run;
    int64_t grace_ms;
    if (want_is_down(h, &grace_ms)) {
        holder_stop(h, "stop", grace_ms);
        return;
    }
    if (run_lock_make(h, old.n + 1, &h->run.lock) < 0) {
        h->failed_stage = "record";
        h->failed_errno = errno;
        restart_failed(h);
        return;
    }
    h->run.n++;
    if (child_start(h) < 0) {
        run_lock_abandon(h, h->run.n);
        close(h->run.lock);
        h->run = old;
        restart_failed(h);
        return;
    }
    h->restarts++;
    start_record(h);
    run_lock_end(h, old.lock, old.n);
    spares_make(h);
}

/* Neither the child nor any descendant lives, or we gave up waiting for that. */
static void stop_done(struct holder *h, int left)
{
    if (left > 0)
        snprintf(h->reason, sizeof h->reason, "%d processes still alive", left);
    if (h->is_alive)
        h->status = -1;
    if (!h->has_exit || h->is_alive)
        h->stopped_ms = clock_wall_ms();
    h->has_exit = true;
    h->by = h->end_by;
    for (enum timer t = TIMER_RESTART; t <= TIMER_GIVE_UP; t++)
        holder_timer(h, t, -1);
    output_settle(h);
    policy_apply(h);
}

void holder_check_stop(struct holder *h)
{
    if (h->state != STOPPING && h->state != KILLING)
        return;
    const int sig = h->state == KILLING ? SIGKILL : 0;
    int left = sweep(h, sig);
    if (left == 0 && h->is_foreign)
        left = sweep(h, sig); /* one pass can miss a process that is not our descendant */
    if (left == 0 && !h->is_alive) {
        stop_done(h, 0);
        return;
    }
    h->passes++;
    if (h->state == KILLING)
        holder_timer(h, TIMER_CHECK, h->passes < PASSES_HURRIED ? 0 : CHECK_MS);
    else if (h->is_foreign)
        holder_timer(h, TIMER_CHECK, h->passes < PASSES_SHORT ? CHECK_MS : CHECK_LONG_MS);
}

static void stop_kill(struct holder *h)
{
    h->state = KILLING;
    h->passes = 0;
    setpriority(PRIO_PROCESS, 0, -20); /* if we may: a process that is about to be killed can use any delay to fork */
    holder_timer(h, TIMER_KILL, -1);
    holder_timer(h, TIMER_GIVE_UP, GIVE_UP_MS);
    holder_check_stop(h);
}

void holder_stop(struct holder *h, const char *by, int64_t grace_ms)
{
    if (h->state == STOPPING && clock_boot_ms() + grace_ms < h->due[TIMER_KILL])
        holder_timer(h, TIMER_KILL, grace_ms);
    if (h->is_ending && strcmp(by, "stop") == 0)
        h->end_by = by; /* somebody's signal came first, but now it is wanted */
    if (h->state != RUNNING && h->state != BACKOFF)
        return;
    h->state = STOPPING;
    h->is_ending = true;
    h->end_by = by;
    h->phase = "stopping";
    h->next_start_ms = 0;
    h->passes = 0;
    holder_timer(h, TIMER_RESTART, -1);
    probe_kill(h);
    strays_take(h);
    status_write(h);
    if (grace_ms == 0) {
        stop_kill(h);
        return;
    }
    holder_timer(h, TIMER_KILL, grace_ms);
    sweep(h, SIGTERM);
    holder_check_stop(h);
}

void holder_look_at_want(struct holder *h)
{
    int64_t grace_ms;
    if (h->state <= STOPPING && want_is_down(h, &grace_ms))
        holder_stop(h, "stop", grace_ms);
}

void holder_timer_ran_out(struct holder *h, enum timer timer)
{
    h->due[timer] = 0;
    switch (timer) {
    case TIMER_RESTART:
        restart_now(h);
        break;
    case TIMER_KILL:
        stop_kill(h);
        break;
    case TIMER_CHECK:
        holder_check_stop(h);
        break;
    case TIMER_GIVE_UP:
        stop_done(h, sweep(h, SIGKILL));
        break;
    case TIMER_LOOK:
        output_look(h);
        break;
    case TIMER_PROBE:
        probe_start(h);
        break;
    case TIMER_RECORD:
        if (h->state == RECORDING)
            exit_record(h);
        else
            status_write(h);
        break;
    case TIMER_REAP:
        adopt_timer(h);
        break;
    case TIMER_FLUSH:
        tty_flush(h);
        break;
    case TIMER_COUNT:
        break;
    }
}
