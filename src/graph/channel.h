/* channel.h - the values of a session: copied at the fork, written by tasks, merged at the join.
 *
 * Invariants
 *  C1  A branch sees its parent's values as they were at the fork. It does not see later writes of the parent or of a sibling.
 *  C2  At the join only keys that the branch wrote are merged, in the order of the branches, not of their ends. A branch
 *      that failed merges nothing.
 *  C3  `sum` and `append` merge only what each branch added since the fork: if two branches each count from 5 to 6, the result
 *      is 7.
 *  C4  The writes of a task (struct effects) are applied at its end, and only if it succeeded.
 *  C5  Values are never changed in place, so sessions of one thread share them. Sessions that several threads use (is_copying)
 *      share nothing: a value that leaves or enters a channel is a copy, because only one thread at a time may touch jansson's
 *      reference counts.
 *  C6  Channels of one version have the same values, so what has been written down for one need not be for the other.
 *
 * Threads: one mutex per channel; effects belong to one task. */
#ifndef GRAPH_CHANNEL_H
#define GRAPH_CHANNEL_H

#include "base/json.h"
#include "graph/model.h"

#include <pthread.h>

#define CHANNEL_KEY_MAX 256

struct channel {
    pthread_mutex_t mutex;
    json_t *values;   /* object */
    json_t *base;     /* as they were at the fork; NULL for a root */
    json_t *written;  /* object: key -> true */
    uint64_t version; /* of the values: another one with every change, and no other channel's but that of a fork (C6) */
    bool is_copying;  /* C5; inherited by forks */
};

enum effect_kind { EFFECT_SET, EFFECT_ADD, EFFECT_APPEND };

/* Writes that wait for the end of a task. An array of [kind, key, value]. */
struct effects {
    json_t *list; /* NULL: none */
};

int channel_init(struct channel *channel, bool is_copying, struct tsk_error *err);
int channel_fork(struct channel *channel, struct channel *parent, struct tsk_error *err); /* C1 */
void channel_clear(struct channel *channel);

/* The value, owned by the caller; NULL: there is none. `effects` (may be NULL): the task's own writes count. */
json_t *channel_get(struct channel *channel, const struct effects *effects, const char *key);
/* All values as one object, owned. */
json_t *channel_values(struct channel *channel);
/* Applies writes, C4. INVALID_INPUT when something is added to what is no number. All or none. */
int channel_apply(struct channel *channel, const struct effects *effects, struct tsk_error *err);

/* Says that several branches wrote one key for which there is no rule: the first and the last of them. */
typedef void conflict_report(void *data, const char *key, enum tsk_merge rule, uint32_t first, uint32_t second);

/* C2: merges branches[0…count) into `into`; NULL entries are branches that failed. -1: a key with the rule `error` was
 * written by two, or one with the rule `sum` by two of which one wrote no number, or with `max` or `min` by two who wrote neither
 * two numbers nor two texts (context: key, first, second); nothing was merged. */
int channel_merge(struct channel *into, struct channel *const *branches, uint32_t count, const struct graph *rules,
                  conflict_report *report, void *data, struct tsk_error *err);

/* `value` is taken, also on failure. */
int effects_add_take(struct effects *effects, enum effect_kind kind, const char *key, json_t *value,
                     struct tsk_error *err);
void effects_clear(struct effects *effects);

bool channel_key_is_valid(const char *key);

#endif
