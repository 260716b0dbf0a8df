/* short_id.h - ids for people: the shortest unique form, accepted wherever the whole id is. */
#ifndef OPS_SHORT_ID_H
#define OPS_SHORT_ID_H

#include "ops/ops.h"

/* All ids that one may be mistaken for: `with` says how many of them have a text in them, and the last of these. */
struct short_ids {
    size_t (*with)(const void *ids, const char *text, const char **ret_last);
    const void *ids;
};
struct run_names;
struct short_ids short_ids_of_runs(const struct run_names *names);
struct short_ids short_ids_of_texts(const json_t *texts);

/* PREFIX20260207T223000-1a2b3c is 1a2b3c, 223000-1a2b3c if another id has that, too; an id of another form, or one that is gone,
 * is itself. A part of `id`. */
const char *short_id_of(struct short_ids ids, const char *id);
/* Puts the short form of `id` into call->aside: `short.<id>`. On the command line only. */
void short_id_put(struct op_call *call, struct short_ids ids, const char *id);
/* The same for every request and every run that `result` names anywhere; `names`: of all runs, or NULL. Nothing for callers that
 * are not the command line. A list of all ids that cannot be read leaves the ids as they are: the answer is there. */
void short_ids_put_named(struct op_call *call, const json_t *result, const struct run_names *names);

#endif
