/* session.h - a session: an id and a channel. The root has one, each branch has one from its fork to its join. */
#ifndef GRAPH_SESSION_H
#define GRAPH_SESSION_H

#include "graph/channel.h"
#include "graph/plan.h"

struct session {
    char *id;
    struct channel channel;
};

/* `parent` NULL: an empty channel (for several threads: `is_shared`), else a copy of it. */
int session_init(struct session *session, const char *id, struct channel *parent, bool is_shared,
                 struct tsk_error *err);
void session_clear(struct session *session);

/* Of a plan whose scopes have sessions: one for a branch that begins, `<parent>_<branch>`. Aborts without memory: half a
 * fork cannot be taken back. */
void session_fork(struct plan *plan, uint32_t scope);
/* Merges the branches of a group that did not fail into the session around it (channel_merge). */
int session_join(struct plan *plan, uint32_t group, conflict_report *report, void *data, struct tsk_error *err);
/* The sessions of a group's branches end. */
void session_end(struct plan *plan, uint32_t group);
/* GROUP_FAILED with the names of the branches that failed. */
/* Is the group `other` (its number + 1, 0: none) in one of the branches of `group`? */
bool session_group_contains(const struct graph *graph, uint32_t group, uint32_t other);
int session_group_failed(const struct plan *plan, uint32_t group, struct tsk_error *err);
/* The n-th branch of a group. */
uint32_t session_branch(const struct graph *graph, uint32_t group, uint32_t number);

static inline struct session *session_of(const struct plan *plan, uint32_t scope)
{
    return plan->scopes[scope].session;
}

#endif
