/* settle.h - one wait for all that a call has started: until each is ready, has lived a moment, or has ended.
 *
 * A process with a `ready` probe has settled when the probe has succeeded or has given up, another one when it has lived
 * PROC_SETTLE_MS. An end settles both, unless the policy starts it again at once: then the new start is waited for. */
#ifndef PROC_SETTLE_H
#define PROC_SETTLE_H

#include "proc/process.h"

#define PROC_SETTLE_MS 300

enum proc_settled {
    SETTLED_PENDING, /* the time was up before; its phase says what it is */
    SETTLED_WELL,    /* ready, alive, or ended with 0 */
    SETTLED_FAILED,  /* ended otherwise, or was not ready in time */
};

struct proc_settle {
    int64_t timeout_ms;               /* < 0: as long as the probes want */
    bool (*is_cancelled)(void *data); /* asked a few times a second; NULL: never */
    void *data;
};

/* ret[i] is the result for ids[i]. An id that is NULL is skipped. Never fails: a process that cannot be read counts as settled. */
void proc_settle(struct proc_registry *reg, const char *const *ids, size_t count, const struct proc_settle *how,
                 enum proc_settled *ret);

#endif
