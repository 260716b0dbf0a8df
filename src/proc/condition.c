#include "proc/condition.h"

#include "proc/depend.h"
#include "proc/probe.h"

#include <stdio.h>
#include <string.h>

#define PROBE_SLACK_MS 5000 /* the probe says itself that the time is up; if it cannot, we say it after this */

enum verdict condition_fails(struct reason *ret, enum why why, const char *words)
{
    ret->why = why;
    snprintf(ret->words, sizeof ret->words, "%s", words);
    return FAILS;
}

static bool has_ready(const struct proc *p)
{
    struct proc_probe probe;
    proc_spec_probe(p->spec, "ready", &probe);
    return probe.kind != PROBE_NONE;
}

bool proc_ended_well(const struct proc_view *view)
{
    return view->state == PROC_STOPPED && view->exit_code == 0 && strcmp(view->by, "itself") == 0;
}

bool proc_is_coming(const struct proc_view *view)
{
    return strcmp(view->phase, "backoff") == 0 || strcmp(view->phase, "starting") == 0;
}

static enum verdict judge_ended(const struct proc *p, enum proc_condition condition, struct reason *why)
{
    const struct proc_view *view = &p->view;
    if (condition == PROC_DEP_COMPLETED && proc_ended_well(view))
        return HOLDS;
    if (proc_is_coming(view))
        return PENDING;
    if (view->state == PROC_FAILED)
        return condition_fails(why, WHY_ENDED, view->error);
    if (!proc_ended_well(view))
        return condition_fails(why, WHY_STOPPED, "");
    if (condition == PROC_DEP_READY && has_ready(p) && !probe_was_ready(p, NULL))
        return condition_fails(why, WHY_UNREADY, "");
    return HOLDS;
}

/* An unhealthy process may become healthy again; dependants wait for that as long as for the first time. */
static enum verdict judge_ready(const struct proc *p, int64_t give_up_ms, struct reason *why)
{
    struct probe_report report;
    bool was_ready = probe_was_ready(p, &report);
    if (!has_ready(p))
        return HOLDS;
    if (was_ready && strcmp(report.phase, "ready") == 0)
        return HOLDS;
    if (!report.failed[0] && clock_now().boot_ms < give_up_ms)
        return PENDING;
    struct proc_probe probe;
    proc_spec_probe(p->spec, "ready", &probe);
    duration_format(probe.timeout_ms, why->span);
    return condition_fails(why, WHY_NOT_READY, report.detail[0] ? report.detail : "nothing was heard of it");
}

enum verdict condition_judge(const struct proc *p, enum proc_condition condition, int64_t give_up_ms,
                             struct reason *why)
{
    const struct proc_view *view = &p->view;
    if (view->state != PROC_RUNNING)
        return judge_ended(p, condition, why);
    if (strcmp(view->phase, "stopping") == 0 || strcmp(view->phase, "lost") == 0)
        return PENDING;
    if (view->child.pid && proc_id_liveness(&view->child) == LIVE_DEAD)
        return PENDING; /* its holder has not noticed yet */
    switch (condition) {
    case PROC_DEP_STARTED:
        return HOLDS;
    case PROC_DEP_READY:
        return judge_ready(p, give_up_ms, why);
    case PROC_DEP_COMPLETED:
        break;
    }
    return PENDING;
}

int64_t condition_give_up(const struct proc *p)
{
    struct proc_probe probe;
    proc_spec_probe(p->spec, "ready", &probe);
    return clock_now().boot_ms + probe.timeout_ms + PROBE_SLACK_MS;
}

/* ---- waiting for one ----------------------------------------------------------------------------------------------- */

/* It was ready before it ended. Without a probe, running is ready (D1); one that failed by itself is said to have failed. */
static bool has_been_ready(const struct proc *p, enum why why)
{
    bool has_ended = why == WHY_ENDED || why == WHY_STOPPED || why == WHY_UNREADY;
    return has_ended && (has_ready(p) ? probe_was_ready(p, NULL) : why == WHY_STOPPED);
}

static int wait_failed(const struct proc *p, const struct reason *why, struct tsk_error *err)
{
    static const char *const texts[WHY_COUNT] = {[WHY_ENDED] = "ready_ended",
                                                 [WHY_STOPPED] = "ready_stopped",
                                                 [WHY_UNREADY] = "ready_never",
                                                 [WHY_NOT_READY] = "ready_timed_out"};
    const char *state = why->why == WHY_ENDED ? why->words : proc_state_names[p->view.state];
    error_set(err, TSK_PROCESS_START_FAILED, has_been_ready(p, why->why) ? "ready_past" : texts[why->why], "id", p->id,
              "why", why->words, "span", why->span, "state", state, NULL);
    error_add_next(err, "tasuki proc logs %s", p->id);
    return error_add_next(err, "tasuki proc status %s", p->id);
}

static int wait_timed_out(const struct proc *p, enum proc_wait_for what, int64_t timeout_ms, struct tsk_error *err)
{
    const char *name = what == PROC_WAIT_READY ? "ready" : "exit";
    error_set(err, TSK_CONFLICT, "wait_timeout", "id", p->id, "for", name, "span", DURATION(timeout_ms), "state",
              proc_state_names[p->view.state], "phase", p->view.phase, NULL);
    error_add_next(err, "tasuki proc wait %s --for %s", p->id, name);
    return error_add_next(err, "tasuki proc logs %s", p->id);
}

static enum verdict judge_wait(const struct proc *p, enum proc_wait_for what, int64_t give_up_ms, struct reason *why)
{
    if (what == PROC_WAIT_READY) {
        /* It has been ready, perhaps for a moment between two looks. What it is now, the answer says. */
        if (p->view.state == PROC_RUNNING && strcmp(p->view.phase, "unhealthy") == 0 && probe_was_ready(p, NULL))
            return HOLDS;
        enum verdict verdict = condition_judge(p, PROC_DEP_READY, give_up_ms, why);
        bool is_over = verdict == HOLDS && p->view.state != PROC_RUNNING;
        return is_over ? condition_fails(why, WHY_UNREADY, "") : verdict;
    }
    bool is_settled =
        p->view.state != PROC_RUNNING && !proc_is_coming(&p->view) && strcmp(p->view.phase, "stopping") != 0;
    return is_settled ? HOLDS : PENDING;
}

int proc_wait(struct proc_registry *reg, const char *id, enum proc_wait_for what, int64_t timeout_ms, struct proc *ret,
              struct tsk_error *err)
{
    int64_t deadline_ms = timeout_ms < 0 ? INT64_MAX : clock_now().boot_ms + timeout_ms, give_up_ms = 0;
    bool is_again = false;
    for (;;) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct reason why = {.span = ""};
        if (proc_load(reg, id, &p, err) < 0)
            return -1;
        if (p.view.state == PROC_NOT_STARTED && !proc_is_coming(&p.view)) {
            error_set(err, TSK_PROCESS_NOT_RUNNING, NULL, "id", id, NULL);
            return error_add_next(err, "tasuki proc start %s", id);
        }
        give_up_ms = give_up_ms ? give_up_ms : condition_give_up(&p);
        enum verdict verdict = judge_wait(&p, what, give_up_ms, &why);
        if (verdict == FAILS)
            return wait_failed(&p, &why, err);
        if (verdict == HOLDS && !is_again && strcmp(p.view.phase, "starting") == 0) {
            is_again = true; /* it became ready after the look that would be the answer */
            continue;
        }
        if (verdict == HOLDS) {
            *ret = p;
            p = (struct proc){.dir = -1};
            return 0;
        }
        int64_t left = deadline_ms - clock_now().boot_ms;
        if (left <= 0)
            return wait_timed_out(&p, what, timeout_ms, err);
        if (proc_wait_change(&p, left < SECOND_LOOK_MS ? left : SECOND_LOOK_MS, err) < 0)
            return -1;
    }
}
