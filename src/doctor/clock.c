/* clock.c - whether times can be trusted: steps of the wall clock since boot, and records from the future. */
#include "base/listing.h"
#include "doctor/check.h"
#include "lock/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_MS   2000
#define FUTURE_MS 60000
#define BUILT_MS  1767225600000 /* 2026-01-01: no clock that works is before that */

/* How far the wall clock has moved against the boot clock since a guard met this boot; 0: not at all, or it met another one. */
static int64_t step_of(int guard_dir, const char *name, const struct now *now)
{
    struct guard guard = GUARD_INIT;
    struct tsk_error err;
    guard.fd = fs->openat(guard_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    bool is_stepped = guard.fd >= 0 && guard_peek(&guard, &err) == 0 && guard_clock_was_stepped(&guard, now);
    fs_close(&guard.fd);
    return is_stepped ? now->wall_ms - now->boot_ms - guard.state.wall_offset_ms : 0;
}

/* The greatest step that any guard knows of. */
static int64_t greatest_step(struct doctor *d)
{
    struct listing guards CLEANUP(listing_close);
    int64_t step = 0;
    listing_open(&guards, d->ws->state_dir, "locks/.guard", LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&guards));) {
        int64_t one = name[0] == '.' ? 0 : step_of(guards.fd, name, &d->now);
        step = llabs(one) > llabs(step) ? one : step;
    }
    return step;
}

static void look_at_future(struct finding *f)
{
    static const char *const files[] = {"events.ndjson", "state.db", "locks", "runs", "processes"};
    struct stat st;
    char span[TIME_TEXT_MAX];
    const struct doctor *d = f->doctor;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (fs->fstatat(d->ws->state_dir, files[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int64_t ahead = (int64_t)st.st_mtim.tv_sec * 1000 - d->now.wall_ms;
        if (ahead < FUTURE_MS)
            continue;
        duration_format(ahead, span);
        finding_add(f, DOCTOR_WARN, "doctor_future", "what", files[i], "span", span, NULL);
    }
    if (d->newest_event_ms - d->now.wall_ms >= FUTURE_MS) {
        duration_format(d->newest_event_ms - d->now.wall_ms, span);
        finding_add(f, DOCTOR_WARN, "doctor_future", "what", "events.ndjson (time)", "span", span, NULL);
    }
}

void check_clock(struct finding *f)
{
    const struct now *now = &f->doctor->now;
    const char *time = TIME_LOCAL(now->wall_ms);
    finding_summary(f, "doctor_clock_good", "time", time, NULL);
    if (now->wall_ms < BUILT_MS)
        finding_add(f, DOCTOR_WARN, "doctor_clock_past", "time", time, NULL);
    int64_t step = greatest_step(f->doctor);
    if (llabs(step) > STEP_MS) {
        finding_add(f, DOCTOR_WARN, step > 0 ? "doctor_clock_forward" : "doctor_clock_back", "span",
                    DURATION(llabs(step)), NULL);
    }
    look_at_future(f);
    if (f->status != DOCTOR_PASS)
        finding_fix(f, "timedatectl status");
}
