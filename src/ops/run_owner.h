/* run_owner.h - a run for a workflow works for the workflow's owner, even after a resume.
 *
 *     struct run_owner owner;
 *     if (run_owner_take(call, id, &owner, err) < 0)   // ul_workflow_not_owned: nothing is started
 *         return -1;
 *     options.beat = run_owner_beat; …                 // and it is stopped when somebody else owns the workflow */
#ifndef OPS_RUN_OWNER_H
#define OPS_RUN_OWNER_H

#include "ops/own_args.h"

#define RUN_OWNER_BEAT_MS 2000 /* so soon agents of a former owner are stopped */

struct run_owner {
    struct op_call *call;
    char workflow[WORKFLOW_ID_MAX]; /* "": for none */
    struct instance caller;
    bool has_caller; /* the caller is needed only for a workflow */
    struct workflow owned;
    bool is_unknown; /* the last look at the owner failed, which was reported */
};

/* The caller. */
int run_owner_find(struct op_call *call, const char *workflow, struct owners *owners, struct run_owner *ret,
                   struct tsk_error *err);
/* Makes the workflow the caller's, or is refused. */
int run_owner_claim(struct run_owner *owner, struct owners *owners, struct tsk_error *err);
/* Both, for a run that is there: of no workflow is 0, too. */
int run_owner_of_run(struct op_call *call, const char *run, struct run_owner *ret, struct tsk_error *err);
/* For runner_options: false when another instance owns the workflow. What is unknown is no reason to stop. */
bool run_owner_beat(void *data, bool has_progress, struct tsk_error *why);
/* What tasks of this process get to know: TASUKI_INSTANCE_ID, TASUKI_UL_TASK_ID. */
void run_owner_tell(const struct run_owner *owner);
/* For a process of its own that does the rest: its arguments name the caller. */
void run_owner_pass(const struct run_owner *owner, json_t *args);

#endif
