/* detached.c - the runner's side of run/detach.h: one operation, whose outcome nobody prints. */
#include "base/log.h"
#include "base/who.h"
#include "cli/cli.h"
#include "run/detach.h"

#include <string.h>

struct job {
    bool is_answered;
};

/* The first decision counts; what comes later is in the run's directory. */
static void detached_decided(struct op_call *call, const json_t *stage)
{
    struct job *job = call->skin;
    if (job->is_answered)
        return;
    job->is_answered = true;
    job_answer(call->ws, json_get_string(stage, "run_id", NULL), stage);
}

static int detached_perform(struct op_call *call, struct tsk_error *err)
{
    json_t *result CLEANUP_JSON = NULL;
    struct job *job = call->skin;
    if (tsk_workspace_open(call->root, &call->ws, err) < 0)
        return -1;
    int outcome = op_run(call, &result, err);
    if (outcome == 0 && !job->is_answered)
        detached_decided(call, result);
    tsk_workspace_close(call->ws);
    json_decref(call->aside);
    return outcome;
}

int cli_detached(const char *root, struct cli_options *options)
{
    struct tsk_error err = {0};
    struct job job = {0};
    json_t *document CLEANUP_JSON = NULL;
    if (job_take(&document, &err) < 0)
        return code_info(err.code)->exit_code;
    lang_parse(json_get_string(document, "lang", "en"), &options->lang);
    struct op_call call = {.op = op_by_name(json_get_string(document, "op", "")),
                           .args = json_object_get(document, "args"),
                           .root = root,
                           .lang = options->lang,
                           .is_cli = true,
                           .is_quiet = true,
                           .decided = detached_decided,
                           .skin = &job};
    BUG(!call.op);
    struct who who; /* of who asked for it: this process has nobody above it */
    who_of_json(json_object_get(document, "who"), &who);
    who_set(&who);
    if (detached_perform(&call, &err) == 0)
        return code_info(call.verdict)->exit_code;
    if (!job.is_answered)
        job_fail(&err);
    else
        cli_print_error(options, &err); /* into the run's runner.log */
    return code_info(err.code)->exit_code;
}
