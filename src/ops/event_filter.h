/* event_filter.h - which events a reader wants, by the arguments `type`, `thing`, `actor`, `since` and `until` of the operation
 * `events`. All that are given must fit. */
#ifndef OPS_EVENT_FILTER_H
#define OPS_EVENT_FILTER_H

#include "base/json.h"

struct event_filter {
    const char *type;           /* a type, or its begin with `*` behind it (process.*); NULL: any */
    const char *thing;          /* KIND:ID, such as process:web or lock:name:deploy; NULL: any */
    const char *actor;          /* the label of the party; NULL: any */
    int64_t since_ms, until_ms; /* wall clock; -1: no */
};

/* INVALID_INPUT if a time cannot be parsed or a thing has no kind. Texts are borrowed from `args`. */
int event_filter_take(const json_t *args, struct event_filter *ret, struct tsk_error *err);
bool event_filter_wants(const struct event_filter *filter, const json_t *event);
/* Whether the event tells of something that went wrong. */
bool event_is_bad(const json_t *event);

#endif
