/* workflow.h - which instance may drive a workflow.
 *
 *     struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
 *     struct instance caller;
 *     if (owners_open(&owners, ws, err) < 0 || instance_find(&owners.db, given, true, &caller, err) < 0)
 *         return -1;
 *     if (workflow_claim(&owners, id, &caller, 0, &wf, err) < 0)
 *         return -1;    // workflow_owned_by_other: `wf` says by whom
 *
 * The check succeeds if the caller owns the workflow, and fails if another owner is alive or unknown. If another owner is dead,
 * the claim moves to the caller, unless auto-claim is off. Without an owner, a caller that asks for ownership gets it.
 *
 * Invariants
 *  W1  The owner is decided inside one BEGIN IMMEDIATE transaction: read, judge, write the owner, raise the fence, add the
 *      event. So if many callers claim the workflow of a dead owner, one gets it, and the others find that one as the owner.
 *  W2  A fence grows with each change of the owner and never repeats; the row stays when nobody owns the workflow.
 *  W3  Only the owner releases. A former owner finds another one and is refused, whatever it believes.
 *  W4  A yes to taking it from a living owner counts only for the owner and the fence that were shown.
 *  W5  Two agents below one program have one instance; the label that the claim recorded tells them apart, as for locks
 *      (who_current_is). A caller that names its instance acts for all of it. */
#ifndef OWN_WORKFLOW_H
#define OWN_WORKFLOW_H

#include "own/who.h"

#define WORKFLOW_ID_MAX (ID_LENGTH_MAX + 1)

/* The open tables. One thread at a time. */
struct owners {
    struct tsk_workspace *ws; /* borrowed */
    struct db db;
};
int owners_open(struct owners *owners, struct tsk_workspace *ws, struct tsk_error *err);
void owners_close(struct owners *owners); /* for CLEANUP; also after a failed owners_open */
#define OWNERS_INIT                                                                                                    \
    {                                                                                                                  \
        .ws = NULL                                                                                                     \
    }

struct workflow {
    char id[WORKFLOW_ID_MAX];
    char owner[INSTANCE_ID_MAX]; /* "": nobody */
    struct instance_state state; /* the owner's */
    struct who who;              /* the same; label "": not known */
    int64_t fence;               /* 0: it was never claimed */
    int64_t claimed_at_ms;       /* wall clock */
    bool is_callers;             /* the caller owns it */
    bool was_taken;              /* by this call, from `before` (may be "") */
    char before[INSTANCE_ID_MAX];
};

enum workflow_flags {
    WORKFLOW_NO_AUTO_CLAIM = 1, /* leave a dead owner's claim where it is */
    WORKFLOW_ONLY_LOOK = 2,     /* leave one that nobody owns, too */
};

/* Makes the caller the owner, or is refused with workflow_owned_by_other; *ret is filled in both cases. With
 * WORKFLOW_ONLY_LOOK it is the check: 0 also when the caller does not own it (ret->is_callers). */
int workflow_claim(struct owners *owners, const char *id, struct instance *caller, unsigned flags, struct workflow *ret,
                   struct tsk_error *err);
/* Takes it from anyone. From a living (or unknown) owner only if that is what `confirmed` (may be NULL) shows (W4); otherwise
 * NEEDS_CONFIRMATION, and *ret shows it. */
int workflow_force(struct owners *owners, const char *id, struct instance *caller, const struct workflow *confirmed,
                   struct workflow *ret, struct tsk_error *err);
/* Nobody owns it any more. That nobody did is success too (ret->was_taken is false). */
int workflow_release(struct owners *owners, const char *id, const struct instance *caller, struct workflow *ret,
                     struct tsk_error *err);
/* All that the instance owns, when it ends; for a client of the server, its registration too. `spares_others`: what another agent
 * below the same program owns stays (W5). *ret_count (may be NULL): how many. */
int workflow_release_all(struct owners *owners, const char *instance, bool spares_others, int *ret_count,
                         struct tsk_error *err);
/* How it is; 1, or 0 when nobody ever claimed it (ret->fence is 0). `caller` may be NULL. */
int workflow_look(struct owners *owners, const char *id, const struct instance *caller, struct workflow *ret,
                  struct tsk_error *err);
/* All that were ever claimed, the newest claim first: an array of what workflow_json gives. `owner` (may be NULL): only its.
 * `owned`: only those that have an owner. */
int workflow_list(struct owners *owners, const char *owner, bool owned, json_t **ret, struct tsk_error *err);

/* {ulTaskId ownerInstanceId ownerPid ownerAlive fence who}, `owned` first if has_caller; owned. ownerAlive is null when unknown. */
json_t *workflow_json(const struct workflow *wf, bool has_caller);
/* Sets the error `code` (workflow_owned_by_other, ul_workflow_not_owned) with `details` beside it, as existing clients expect.
 * Returns -1. */
int workflow_refuse(const struct workflow *wf, enum tsk_code code, struct tsk_error *err);
/* `text` NULL: by the owner's state, as above. */
int workflow_refuse_as(const struct workflow *wf, enum tsk_code code, const char *text, struct tsk_error *err);

#endif
