/* probe.h - finding out whether a process is ready, and whether it stays healthy.
 *
 * `tasuki probe ID` runs as a second child of the holder beside each start of a process that has `ready` or `health` (spec.h).
 * It reports by replacing the file `phase`, which every look at the process reads. Nothing else depends on it: if a probe is
 * killed, the holder starts it again, and it continues from the file.
 *
 * After `ready` has succeeded or timed out, the probe continues with `health`; without `health`, it ends. With `notify` it
 * stays, because it must receive the messages of the process. The health action `restart` ends the process as a stop does, and
 * leaves the rest to its restart policy; without a policy it does nothing.
 *
 *  B1  A report names its start n. Readers ignore the report of another start.
 *  B2  A result is kept: a probe that is started again for the same n does not check `ready` again.
 *  B3  A probe ends when its process has ended (its pidfd) and when its holder has (PR_SET_PDEATHSIG).
 *  B4  The process is signalled only through a pidfd whose identity was compared after it was opened.
 *  B5  A change of the phase is in the file first, then in the trail: process.ready, .not_ready, .unhealthy, .healthy. A probe
 *      that is started again finds the phase and does not report it again. */
#ifndef PROC_PROBE_H
#define PROC_PROBE_H

#include "proc/process.h"

#define PROBE_DETAIL_MAX 200

/* The content of `phase`. */
struct probe_report {
    int64_t n;
    char phase[12];   /* starting ready unhealthy */
    int64_t since_ms; /* wall time at which the phase began */
    char detail[PROBE_DETAIL_MAX];
    char failed[80]; /* "", or the reason why it did not become ready in time */
};
/* Returns 1 if there is a report, 0 if there is none (or it cannot be read). */
int probe_report_read(int dir, struct probe_report *ret);
int probe_report_write(int dir, const struct probe_report *report, struct tsk_error *err);
/* Whether the newest start of p has been ready. *ret (may be NULL) is the report of that start, zeros if there is none. */
bool probe_was_ready(const struct proc *p, struct probe_report *ret);

/* Probes the newest start of `p` until there is nothing more to find out, or it has ended. `notify_fd` is the sd_notify
 * socket, or -1; `cwd` is where a probe's command runs; `ws` is
 * for events, NULL: none. */
int probe_run(struct tsk_workspace *ws, const struct proc *p, const char *cwd, int notify_fd, struct tsk_error *err);

/* One attempt of each probe that p has, for people who write them: {"ready": {"ok", "detail"} or null, "health": …}. Changes
 * nothing. Owned. */
int probe_once(const struct proc *p, const char *cwd, json_t **ret, struct tsk_error *err);

#endif
