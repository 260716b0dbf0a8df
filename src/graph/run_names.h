/* run_names.h - the ids of all runs, for readers that need only the newest of very many: all names are read, but only as many
 * as needed are sorted. */
#ifndef GRAPH_RUN_NAMES_H
#define GRAPH_RUN_NAMES_H

#include "graph/rundir.h"

#define RUNS_FOLDER "runs"

struct run_names {
    char *text; /* the ids, each with its end */
    const char **ids;
    size_t count;
    size_t left;    /* ids[0 .. left) are a heap, whose first is the newest; those after it were returned */
    bool has_other; /* one of the ids has another form than RUN-<time>-<letters> */
};

/* `folder`: below the state directory; one that is absent has no ids. */
int run_names_open(struct tsk_workspace *ws, const char *folder, struct run_names *ret, struct tsk_error *err);
/* The newest id that was not returned yet; NULL: none is left. Borrowed from the names. */
const char *run_names_next(struct run_names *names);
/* The number of ids that contain the text, and one of them. */
size_t run_names_with(const struct run_names *names, const char *text, const char **ret_one);
void run_names_clear(struct run_names *names); /* for CLEANUP */

#endif
