/* condition.h - whether the condition of a wait is true, or can no longer come true. The rules are D1 and D2 of depend.h. */
#ifndef PROC_CONDITION_H
#define PROC_CONDITION_H

#include "base/clock.h"
#include "proc/process.h"

enum verdict { HOLDS, PENDING, FAILS };

/* Why it cannot come true any more. */
enum why {
    WHY_ENDED,     /* words: how */
    WHY_STOPPED,   /* or never started */
    WHY_UNREADY,   /* ended with 0, and never was ready */
    WHY_NOT_READY, /* within `span`; words: what the probe saw last */
    WHY_MISSING,
    WHY_START_FAILED,
    WHY_COUNT,
};
struct reason {
    enum why why;
    char words[256];
    char span[TIME_TEXT_MAX];
};

/* The condition `condition` on p, as p was loaded; *ret is filled for FAILS. `give_up_ms` (boot clock): when to stop believing in
 * a probe that says nothing. */
enum verdict condition_judge(const struct proc *p, enum proc_condition condition, int64_t give_up_ms,
                             struct reason *ret);
/* For a wait that begins now. */
int64_t condition_give_up(const struct proc *p);
enum verdict condition_fails(struct reason *ret, enum why why, const char *words);

/* It ended with 0 by itself; nobody stopped it. */
bool proc_ended_well(const struct proc_view *view);
/* It does not run, but somebody is about to start it: backoff, or a start under way. */
bool proc_is_coming(const struct proc_view *view);

#endif
