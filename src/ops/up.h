/* up.h - shared by op_up.c and its helper files, which run the processes that a file names. */
#ifndef OPS_UP_H
#define OPS_UP_H

#include "ops/ops.h"
#include "proc/exchange.h"

#include <limits.h>

/* The file, as far as it is asked for. */
struct up_file {
    char path[PATH_MAX], dir[PATH_MAX];
    struct exchange_source from;
    struct exchange found; /* only what was selected */
    json_t *names;         /* everything that the file names: an object */
    json_t *ids;           /* what was selected: the ids given (for `up`, and what they depend on), or all */
};
void up_file_clear(struct up_file *file);
/* The one given with `file`, or the first of tasuki.yaml, process-compose.yaml and Procfile, here or above up to the root. */
int up_file_read(struct op_call *call, struct up_file *ret, struct tsk_error *err);

/* Whether one of those three is in the directory. */
bool up_file_is_in(const char *dir);

/* What `up` does with each process. Lists of ids; owned. */
struct up_plan {
    json_t *start;   /* all that are started */
    json_t *restart; /* … of those, what runs with another definition and is stopped first */
    json_t *running; /* left as they are */
    json_t *done;    /* have completed for others that run, and are not run again */
    json_t *left;    /* registered, of this worktree, and no longer in the file */
    json_t *warning; /* whose processes the restarts end (proc_others.h); NULL: nobody else's */
};

/* Whether the list of ids has this one. `ids` may be NULL. */
bool up_is_listed(const json_t *ids, const char *id);

/* up_follow.c: carries the plan out and shows all output until all have ended, the caller stops it, or it is left alone. */
int up_follow(struct op_call *call, const struct up_file *file, const struct up_plan *plan, json_t **ret,
              struct tsk_error *err);

#endif
