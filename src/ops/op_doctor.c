/* op_doctor.c - doctor. */
#include "doctor/doctor.h"
#include "ops/ops.h"

#include <string.h>

static enum doctor_mode mode_of(const json_t *args)
{
    if (json_get_bool(args, "quick", false))
        return DOCTOR_QUICK;
    return strcmp(json_get_string(args, "mode", "full"), "quick") == 0 ? DOCTOR_QUICK : DOCTOR_FULL;
}

static int run_doctor(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    bool is_quick = json_get_bool(call->args, "quick", false);
    if (is_quick && json_get_bool(call->args, "full", false))
        return error_set(err, TSK_INVALID_INPUT, "doctor_two_modes", NULL);
    struct doctor_options options = {.mode = mode_of(call->args),
                                     .fixes = json_get_bool(call->args, "fix", false),
                                     .lang = call->lang,
                                     .root = call->root};
    if (doctor_examine(call->ws, &options, ret, err) < 0)
        return -1;
    /* For HTTP and MCP the examination has succeeded whatever it found; a script looks at the exit code. */
    const char *status = json_get_string(*ret, "status", "");
    if (call->is_cli && strcmp(status, "FAIL") == 0)
        call->verdict = TSK_DOCTOR_FAILED;
    if (call->is_cli && strcmp(status, "WARN") == 0 && json_get_bool(call->args, "strict", false)) {
        call->has_exit_code = true;
        call->exit_code = 1;
    }
    return 0;
}

static const char *const modes[] = {"full", "quick", NULL};
static const struct op_param doctor_params[] = {
    {.name = "mode",
     .type = OP_ENUM,
     .value = "MODE",
     .help = "full: everything; quick: what a run looks at before it begins.",
     .choices = modes,
     .fallback = "full"},
    {.name = "quick", .type = OP_BOOL, .flags = OP_CLI_ONLY, .help = "The same as --mode quick."},
    {.name = "full", .type = OP_BOOL, .flags = OP_CLI_ONLY, .help = "The same as --mode full."},
    {.name = "fix", .type = OP_BOOL, .help = "Repair what can be repaired without losing anything."},
    {.name = "strict", .type = OP_BOOL, .flags = OP_CLI_ONLY, .help = "Exit with 1 when there is a warning."},
    {0},
};
static const struct op_field doctor_result[] = {
    {"status", "string", "PASS, WARN or FAIL: the worst of the checks"},
    {"mode", "string", "full or quick"},
    {"checks", "array", "name title status summary evidence[] fix[]? (commands) fixed[]?"},
    {"recovered", "array", "locks of dead holders that were recovered, as in lock.list"},
    {0}};
static const enum tsk_code doctor_errors[] = {TSK_INVALID_INPUT, TSK_DOCTOR_FAILED, TSK_ENVIRONMENT, TSK_NOT_FOUND,
                                              TSK_OK};

const struct op op_doctor = {
    .name = "doctor",
    .verb = "doctor",
    .summary =
        "Examine the workspace: what is broken or left behind, how that is known, and the command that fixes it.",
    .detail =
        "Each check is PASS, WARN (something is wrong, work goes on) or FAIL (something cannot work). Locks whose "
        "holder is dead are recovered (--quick: only those of requests and of the queue), as before every run. "
        "--fix repairs what can be repaired without losing anything; nothing else is changed. Exit 0, 1 for a warning "
        "with --strict, 3 for a FAIL.",
    .examples = "tasuki doctor  # look at everything\n"
                "tasuki doctor --fix  # and repair what is safe to repair\n"
                "tasuki doctor --quick --strict  # in a script, before work begins",
    .flags = OP_IDEMPOTENT | OP_VERDICTS,
    .params = doctor_params,
    .result = doctor_result,
    .errors = doctor_errors,
    .http = {.method = "POST", .path = "/api/doctor"},
    .mcp = {.tool = "doctor",
            .group = "workspace",
            .text = "Examine the workspace when something seems stuck or broken: each check with evidence and the "
                    "command that fixes it. Locks of dead holders are recovered; fix: true also repairs what is safe. "
                    "A FAIL is an answer, not an error; nothing that lives is touched."},
    .run = run_doctor,
};
