/* runs.h - reading a run's directory without trusting anything in it; for runs.c and journals.c. */
#ifndef DOCTOR_RUNS_H
#define DOCTOR_RUNS_H

#include "doctor/check.h"
#include "graph/rundir.h"

struct run_look {
    struct rundir run; /* only `dir`, `id`, `path` */
    bool has_journal, has_stage, has_runner;
    json_t *stage; /* for the caller; freed with it */
};
int run_look_open(struct finding *f, const char *id, struct run_look *ret); /* ret is to be cleared also after -1 */
void run_look_clear(struct run_look *look);                                 /* for CLEANUP */

/* The command that puts it where nobody looks for runs: nothing can be made of it. */
void run_suggest_aside(struct finding *f, const struct run_look *look);

/* Calls `look` for every run, the newest first. */
void runs_each(struct finding *f, void (*look)(struct finding *f, const char *id, size_t *counts), size_t *counts);

#endif
