/* prune.h - removing runs that have ended and that nobody needs any more.
 *
 *  K1  Only a run that is over is removed (DONE, FAILED, CANCELLED), checked with both of its bytes held. A run that is
 *      executed, waits for an answer, was interrupted or cannot be read is kept.
 *  K2  It must be older than `days` *and* not among the newest `runs`.
 *  K3  The latest run of an existing request is kept: the state of the request follows from it.
 *  K4  One call removes at most `max` runs and opens a bounded number of them; it begins at a random one, so that repeated
 *      calls reach all of them. The end of a run and `doctor --fix` make such calls; reading removes nothing. */
#ifndef RUN_PRUNE_H
#define RUN_PRUNE_H

#include "graph/rundir.h"

#define PRUNE_KEEP_RUNS 200
#define PRUNE_KEEP_DAYS 30
#define PRUNE_EACH_TIME 20 /* runs that are removed at the end of a run, and by doctor --fix */

struct prune {
    int64_t runs, age_ms; /* K2 */
    size_t max;           /* 0: all of them */
    bool is_dry;          /* only look */
};

/* `keep: {runs, days}` of config.yaml, else 200 and 30. */
int prune_config(struct tsk_workspace *ws, struct prune *ret, struct tsk_error *err);
/* *ret: the ids of the runs that were removed, or would be; owned. */
int prune_runs(struct tsk_workspace *ws, const struct prune *prune, json_t **ret, struct tsk_error *err);
/* K4, at the end of a run; a problem is logged. */
void prune_after_run(struct tsk_workspace *ws);
/* One run, whatever its age; refused if it is not over (K1), or its request's latest (K3). */
int prune_remove(struct tsk_workspace *ws, const char *name, char run_id[RUN_ID_MAX], struct tsk_error *err);

#endif
