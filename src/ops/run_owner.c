#include "ops/run_owner.h"
#include "base/log.h"
#include "graph/journal.h"
#include "graph/rundir.h"

#include <stdio.h>
#include <stdlib.h>

int run_owner_find(struct op_call *call, const char *workflow, struct owners *owners, struct run_owner *ret,
                   struct tsk_error *err)
{
    struct now now = clock_now();
    struct tsk_error absent;
    const char *given = json_get_string(call->args, "instance", NULL);
    *ret = (struct run_owner){.call = call};
    snprintf(ret->workflow, sizeof ret->workflow, "%s", workflow ? workflow : "");
    if (instance_find(&owners->db, given, call->is_cli, &ret->caller, workflow ? err : &absent) < 0)
        return workflow ? -1 : 0;
    ret->has_caller = true;
    if (!ret->caller.is_new)
        return 0;
    if (db_begin(&owners->db, err) < 0)
        return -1;
    int result = instance_keep(&owners->db, &now, &ret->caller, err);
    result = result < 0 ? -1 : db_commit(&owners->db, err);
    db_rollback(&owners->db);
    return result;
}

int run_owner_claim(struct run_owner *owner, struct owners *owners, struct tsk_error *err)
{
    if (!owner->workflow[0] || workflow_claim(owners, owner->workflow, &owner->caller, 0, &owner->owned, err) == 0)
        return 0;
    return err->code == TSK_WORKFLOW_OWNED_BY_OTHER ? workflow_refuse(&owner->owned, TSK_UL_WORKFLOW_NOT_OWNED, err)
                                                    : -1;
}

/* The workflow of a run, "" for none. */
static int owner_workflow_of(struct op_call *call, const char *id, char workflow[WORKFLOW_ID_MAX],
                             struct tsk_error *err)
{
    struct rundir run;
    struct tsk_error unreadable;
    json_t *records CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, id, &run, err) < 0)
        return -1;
    bool is_read = journal_read(run.dir, &records, &unreadable) == 0; /* else the resume reports it */
    rundir_clear(&run);
    snprintf(workflow, WORKFLOW_ID_MAX, "%s",
             is_read ? json_get_string(json_array_get(records, 0), "workflow", "") : "");
    return 0;
}

int run_owner_of_run(struct op_call *call, const char *run, struct run_owner *ret, struct tsk_error *err)
{
    char workflow[WORKFLOW_ID_MAX];
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    *ret = (struct run_owner){.call = call};
    if (owner_workflow_of(call, run, workflow, err) < 0)
        return -1;
    if (!workflow[0])
        return 0;
    if (owners_open(&owners, call->ws, err) < 0 || run_owner_find(call, workflow, &owners, ret, err) < 0)
        return -1;
    return run_owner_claim(ret, &owners, err);
}

bool run_owner_beat(void *data, bool has_progress, struct tsk_error *why)
{
    (void)has_progress;
    struct run_owner *owner = data;
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_error err = {0};
    struct workflow wf;
    int found = owners_open(&owners, owner->call->ws, &err) < 0
                    ? -1
                    : workflow_look(&owners, owner->workflow, &owner->caller, &wf, &err);
    /* A look that failed says nothing about the owner, so the run continues; the next beat looks again. */
    if (found < 0 && !owner->is_unknown)
        log_problem(&err);
    owner->is_unknown = found < 0;
    if (found <= 0)
        return true;
    if (!wf.owner[0] || wf.is_callers)
        return true;
    error_set(why, TSK_WORKFLOW_OWNED_BY_OTHER, "run_lost_workflow", "workflow", wf.id, "owner", wf.owner, NULL);
    error_add_int(why, "fence", wf.fence);
    return false;
}

void run_owner_tell(const struct run_owner *owner)
{
    if (owner->has_caller)
        setenv("TASUKI_INSTANCE_ID", owner->caller.id, 1);
    if (owner->workflow[0])
        setenv("TASUKI_UL_TASK_ID", owner->workflow, 1);
}

void run_owner_pass(const struct run_owner *owner, json_t *args)
{
    if (owner->has_caller)
        json_object_set_new(args, "instance", json_string(owner->caller.id));
}
