#include "base/fs.h"
#include "base/log.h"
#include "base/utf8.h"
#include "hold/protocol.h"
#include "proc/probe_try.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRY_MAX_MS      5000 /* of one attempt while `ready` is waited for */
#define TRY_MIN_MS      1000 /* the last attempt has this long, even if the time is nearly up */
#define REPORT_EVERY_MS 1000 /* other words about the same phase are not written more often */
#define LOG_GAP_MS      10   /* between two looks at a log that grows all the time */
#define HEAR_MAX        256  /* messages at a time */

#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1u << 2)
#endif

static int (*const attempts[])(struct probe_try *t, int64_t deadline_ms) = {
    [PROBE_LOG] = try_log,         [PROBE_PORT] = try_port,     [PROBE_HTTP] = try_http,
    [PROBE_COMMAND] = try_command, [PROBE_NOTIFY] = try_notify,
};

/* ---- what the attempts share ---- */

void try_say(struct probe_try *t, const char *format, ...)
{
    char raw[2 * PROBE_DETAIL_MAX], storage[12 * PROBE_DETAIL_MAX];
    struct buf b;
    va_list values;
    va_start(values, format);
    vsnprintf(raw, sizeof raw, format, values);
    va_end(values);
    buf_init_fixed(&b, storage, sizeof storage);
    utf8_put_visible(&b, raw, false);
    utf8_copy(t->detail, sizeof t->detail, buf_str(&b));
}

static int timeout_until(int64_t deadline_ms)
{
    if (deadline_ms < 0)
        return -1;
    int64_t left = deadline_ms - clock_now().boot_ms;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int try_wait(const struct probe_try *t, struct pollfd *fd, int64_t deadline_ms)
{
    for (;;) {
        struct pollfd fds[] = {*fd, {.fd = t->child_fd, .events = POLLIN}};
        int timeout = timeout_until(deadline_ms), n = poll(fds, 2, timeout);
        if (n < 0 && errno != EINTR)
            return 0;
        if (n > 0 && fds[1].revents)
            return -1;
        if (n > 0) {
            fd->revents = fds[0].revents;
            return 1;
        }
        if (timeout == 0)
            return 0;
    }
}

bool try_has_ended(const struct probe_try *t)
{
    struct pollfd ended = {.fd = t->child_fd, .events = POLLIN};
    return t->child_fd >= 0 && poll(&ended, 1, 0) > 0;
}

static int probe_try_init(struct probe_try *t, const struct proc *p, const char *key, const char *cwd, int child_fd,
                          struct tsk_error *err)
{
    const int64_t start[2] = {p->view.stdout_offset, p->view.stderr_offset};
    *t = (struct probe_try){.p = p, .cwd = cwd, .child_fd = child_fd};
    proc_spec_probe(p->spec, key, &t->probe);
    return t->probe.kind == PROBE_LOG ? try_log_init(t, start, err) : 0;
}

/* ---- one start's run ---- */

struct run {
    struct probe_try ready, health;
    struct probe_report report;
    int dir, child_fd, notify_fd;
    bool is_dirty, is_urgent; /* the report differs from the file; another phase, to be written at once */
    int64_t written_ms;
    bool is_stopping;              /* it said so */
    char status[PROBE_DETAIL_MAX]; /* what it last said of itself */
    struct tsk_workspace *ws;      /* for events; NULL: none */
};

/* B5 */
static void run_report(const struct run *run, const char *type, const char *reason)
{
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    struct now now = clock_now();
    struct tsk_error err;
    if (!run->ws)
        return;
    buf_puts(&data, "{");
    buf_json_pair(&data, "process_id", run->ready.p->id);
    buf_json_pair_int(&data, "run", run->report.n);
    buf_json_pair(&data, "reason", reason);
    buf_puts(&data, "}");
    struct event event = {.type = type, .data = buf_str(&data), .actor = "null"};
    if (workspace_event(run->ws, &now, &event, &err) < 0)
        log_problem(&err);
    event_trail_clear(&run->ws->trail); /* the probe lives long */
}

/* From `before` to the phase of the report. */
static void run_report_phase(const struct run *run, const char *before)
{
    const char *phase = run->report.phase;
    if (strcmp(phase, "unhealthy") == 0)
        run_report(run, "process.unhealthy", run->report.detail);
    else if (strcmp(before, "unhealthy") == 0)
        run_report(run, "process.healthy", run->report.detail);
    else if (strcmp(before, "starting") == 0 && strcmp(phase, "ready") == 0)
        run_report(run, "process.ready", run->report.detail);
}

static void run_flush(struct run *run)
{
    struct tsk_error err;
    int64_t now_ms = clock_now().boot_ms;
    if (!run->is_dirty || (!run->is_urgent && now_ms < run->written_ms + REPORT_EVERY_MS))
        return;
    run->written_ms = now_ms;
    run->is_urgent = false; /* on a full disk: again in a second */
    if (probe_report_write(run->dir, &run->report, &err) < 0)
        log_problem(&err);
    else
        run->is_dirty = false;
}

static void run_set(struct run *run, const char *phase, const char *detail)
{
    struct probe_report *report = &run->report;
    char before[sizeof report->phase];
    snprintf(before, sizeof before, "%s", report->phase);
    if (strcmp(report->phase, phase) != 0) {
        snprintf(report->phase, sizeof report->phase, "%s", phase);
        report->since_ms = clock_now().wall_ms;
        run->is_dirty = run->is_urgent = true;
    }
    if (detail && strcmp(report->detail, detail) != 0) {
        snprintf(report->detail, sizeof report->detail, "%s", detail);
        run->is_dirty = true;
    }
    run_flush(run);
    if (strcmp(before, phase) != 0)
        run_report_phase(run, before);
}

/* What the process says of itself; its status stands until it says another. */
static void run_take(struct run *run, const struct notify_words *words)
{
    const char *doing = words->stopping ? "stopping" : words->reloading ? "reloading" : NULL;
    run->ready.was_notified = run->ready.was_notified || words->ready;
    run->health.was_notified = run->health.was_notified || words->ready || words->watchdog;
    run->is_stopping = run->is_stopping || words->stopping;
    if (words->has_status)
        snprintf(run->status, sizeof run->status, "%s", words->status);
    if (!words->has_status && !words->ready && !doing)
        return;
    try_say(&run->ready, "%s", doing && !words->has_status ? doing : run->status);
    run_set(run, run->report.phase, run->ready.detail);
}

/* Somebody has to take the messages as long as the process lives: a sender whose messages pile up is blocked. One who sends
 * without end must not keep us from looking elsewhere. */
static void run_hear(struct run *run)
{
    struct notify_words words;
    int64_t started_ms = run->ready.p->view.started_at_ms;
    for (int i = 0; i < HEAR_MAX && notify_receive(run->notify_fd, started_ms, &words); i++)
        run_take(run, &words);
}

/* Until `until_ms` (-1: for ever), or until wake_fd or the process has something to say. -1: the process has ended. */
static int run_pause(struct run *run, int wake_fd, int64_t until_ms)
{
    struct pollfd fds[] = {{.fd = run->child_fd, .events = POLLIN},
                           {.fd = run->notify_fd, .events = POLLIN},
                           {.fd = wake_fd, .events = POLLIN}};
    int64_t wake_ms = until_ms, flush_ms = run->written_ms + REPORT_EVERY_MS;
    if (run->is_dirty && (until_ms < 0 || flush_ms < until_ms))
        wake_ms = flush_ms;
    poll(fds, 3, timeout_until(wake_ms));
    if (fds[0].revents)
        return -1;
    if (fds[1].revents)
        run_hear(run);
    char notes[4096];
    while (fds[2].revents && read(wake_fd, notes, sizeof notes) > 0)
        ;
    run_flush(run);
    return 0;
}

/* The same, not woken by anything but the end. */
static int run_sleep(struct run *run, int64_t until_ms)
{
    while (until_ms < 0 || clock_now().boot_ms < until_ms)
        if (run_pause(run, -1, until_ms) < 0)
            return -1;
    return 0;
}

/* `ready` must come within this time of the process's own start, however often the probe was started again. */
static int64_t ready_deadline(const struct proc *p, const struct proc_probe *probe)
{
    int64_t now_ms = clock_now().boot_ms;
    int64_t started_ms = (int64_t)(p->view.child.start_ticks * 1000 / ticks_per_second());
    return (started_ms < now_ms ? started_ms : now_ms) + probe->timeout_ms;
}

static int ready_attempt(struct probe_try *t, int64_t deadline_ms)
{
    int64_t now_ms = clock_now().boot_ms, until_ms = deadline_ms;
    if (t->probe.kind != PROBE_COMMAND && until_ms > now_ms + TRY_MAX_MS)
        until_ms = now_ms + TRY_MAX_MS;
    if (until_ms < now_ms + TRY_MIN_MS)
        until_ms = now_ms + TRY_MIN_MS;
    return attempts[t->probe.kind](t, until_ms);
}

static void ready_failed(struct run *run)
{
    char span[TIME_TEXT_MAX];
    duration_format(run->ready.probe.timeout_ms, span);
    snprintf(run->report.failed, sizeof run->report.failed, "did not become ready within %s", span);
    run->is_dirty = run->is_urgent = true;
    run_set(run, "starting", run->ready.detail);
    run_report(run, "process.not_ready", run->report.failed);
}

/* 0: it is ready, or the time is up (the report says which); -1: the process has ended. */
static int ready_wait(struct run *run, int watch)
{
    const struct proc_probe *probe = &run->ready.probe;
    int64_t deadline_ms = ready_deadline(run->ready.p, probe);
    bool is_told = watch >= 0 || probe->kind == PROBE_NOTIFY;
    for (;;) {
        if (ready_attempt(&run->ready, deadline_ms)) {
            run_set(run, "ready", run->ready.detail);
            return 0;
        }
        if (try_has_ended(&run->ready))
            return -1;
        int64_t now_ms = clock_now().boot_ms;
        if (now_ms >= deadline_ms) {
            ready_failed(run);
            return 0;
        }
        run_set(run, "starting", run->ready.detail);
        if (watch >= 0 && run_sleep(run, now_ms + LOG_GAP_MS) < 0)
            return -1;
        int64_t next_ms = is_told ? deadline_ms : now_ms + probe->interval_ms;
        if (run_pause(run, watch, next_ms < deadline_ms ? next_ms : deadline_ms) < 0)
            return -1;
    }
}

static int ready_run(struct run *run)
{
    if (run->ready.probe.kind == PROBE_NONE) {
        run_set(run, "ready", "");
        return 0;
    }
    run_set(run, "starting", "");
    int watch CLEANUP_FD = run->ready.probe.kind == PROBE_LOG ? try_log_watch(run->ready.p) : -1;
    return ready_wait(run, watch);
}

/* To the whole group, as a stop does it, where the kernel can (6.9); else to the process. */
static void signal_child(int child_fd, int number)
{
    if (syscall(SYS_pidfd_send_signal, child_fd, number, NULL, PIDFD_SIGNAL_PROCESS_GROUP) < 0 && errno == EINVAL)
        syscall(SYS_pidfd_send_signal, child_fd, number, NULL, 0);
}

/* Ends the process; its restart policy starts it again. */
static int health_restart(struct run *run)
{
    run_flush(run);
    signal_child(run->child_fd, SIGTERM);
    if (run_sleep(run, clock_now().boot_ms + HOLD_GRACE_MS) < 0)
        return -1;
    signal_child(run->child_fd, SIGKILL);
    return run_sleep(run, -1);
}

/* Until the process ends. `usual` is the phase of a healthy one: "starting" if it never became ready. */
static void health_run(struct run *run, const char *usual)
{
    struct probe_try *t = &run->health;
    bool may_restart = t->probe.restarts && proc_spec_restart(t->p->spec) != PROC_RESTART_NO;
    for (int failures = 0;;) {
        if (run_sleep(run, clock_now().boot_ms + t->probe.interval_ms) < 0)
            return;
        bool is_healthy = attempts[t->probe.kind](t, clock_now().boot_ms + t->probe.timeout_ms) == 1;
        if (try_has_ended(t))
            return;
        failures = is_healthy ? 0 : failures + 1;
        if (run->is_stopping)
            continue;
        if (is_healthy)
            run_set(run, usual, t->probe.kind == PROBE_NOTIFY ? NULL : t->detail);
        else if (failures >= t->probe.failures)
            run_set(run, "unhealthy", t->detail);
        if (failures >= t->probe.failures && may_restart && health_restart(run) < 0)
            return;
    }
}

/* B2: what an earlier probe of this start found. */
static bool run_continue(struct run *run, const struct proc *p)
{
    struct probe_report before;
    bool was_ready = probe_was_ready(p, &before);
    if (before.n)
        run->report = before;
    return was_ready || before.failed[0];
}

int probe_run(struct tsk_workspace *ws, const struct proc *p, const char *cwd, int notify_fd, struct tsk_error *err)
{
    int child_fd CLEANUP_FD = proc_id_open(&p->view.child); /* B4 */
    struct run run = {.report.n = p->view.n, .dir = p->dir, .child_fd = child_fd, .notify_fd = notify_fd, .ws = ws};
    if (child_fd < 0)
        return 0;
    if (notify_fd >= 0 && notify_init(notify_fd) < 0)
        run.notify_fd = -1;
    int result = probe_try_init(&run.ready, p, "ready", cwd, child_fd, err);
    if (result == 0)
        result = probe_try_init(&run.health, p, "health", cwd, child_fd, err);
    if (result == 0 && (run_continue(&run, p) || ready_run(&run) == 0)) {
        run_flush(&run);
        if (run.health.probe.kind != PROBE_NONE)
            health_run(&run, run.report.failed[0] ? "starting" : "ready");
        else if (run.notify_fd >= 0 || run.is_dirty)
            run_sleep(&run, -1);
    }
    try_log_clear(&run.ready);
    try_log_clear(&run.health);
    return result;
}

/* ---- by hand ---- */

static int probe_try_once(const struct proc *p, const char *key, const char *cwd, int child_fd, json_t **ret,
                          struct tsk_error *err)
{
    struct probe_try t;
    if (probe_try_init(&t, p, key, cwd, child_fd, err) < 0)
        return -1;
    if (t.probe.kind == PROBE_NONE) {
        *ret = json_null();
        return 0;
    }
    bool is_notify = t.probe.kind == PROBE_NOTIFY; /* the messages go to the holder's probe */
    bool ok = is_notify ? probe_was_ready(p, NULL) : ready_attempt(&t, clock_now().boot_ms + t.probe.timeout_ms);
    *ret = json_pack("{s:b, s:s}", "ok", ok, "detail", is_notify ? p->view.detail : t.detail);
    try_log_clear(&t);
    return 0;
}

int probe_once(const struct proc *p, const char *cwd, json_t **ret, struct tsk_error *err)
{
    int child_fd CLEANUP_FD = p->view.child.pid ? proc_id_open(&p->view.child) : -1;
    json_t *ready CLEANUP_JSON = NULL, *health CLEANUP_JSON = NULL;
    if (probe_try_once(p, "ready", cwd, child_fd, &ready, err) < 0 ||
        probe_try_once(p, "health", cwd, child_fd, &health, err) < 0)
        return -1;
    *ret = json_pack("{s:O, s:O}", "ready", ready, "health", health);
    return 0;
}
