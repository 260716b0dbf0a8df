/* op_doctor.c - doctor. */
#include "base/fs.h"
#include "base/log.h"
#include "doctor/doctor.h"
#include "ops/ops.h"
#include "ops/overview.h"

#include <errno.h>
#include <string.h>

#define LAST_REPORT_MAX (1u << 20)

static enum doctor_mode mode_of(const json_t *args)
{
    if (json_get_bool(args, "quick", false))
        return DOCTOR_QUICK;
    return strcmp(json_get_string(args, "mode", "full"), "quick") == 0 ? DOCTOR_QUICK : DOCTOR_FULL;
}

/* ---- the last report ---- */

/* A full report for a client of the server is kept, so that the next page shows it without an examination, and announced, so that the
 * open ones do. A report that cannot be kept is shown all the same. */
static void keep_report(struct op_call *call, const json_t *report, int64_t took_ms)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char data[64];
    struct tsk_error err;
    struct now now = clock_now();
    json_t *kept CLEANUP_JSON = json_copy((json_t *)report);
    json_object_set_new(kept, "at", json_string(TIME_EXACT(now.wall_ms)));
    json_object_set_new(kept, "took_ms", json_integer(took_ms));
    json_write(&b, kept, false);
    if (b.failed || b.len > LAST_REPORT_MAX ||
        fs_replace_file(call->ws->state_dir, DOCTOR_REPORT_FILE, 0600, b.data, b.len) < 0)
        return;
    snprintf(data, sizeof data, "{\"status\":\"%s\"}", json_get_string(report, "status", ""));
    struct event event = {.type = "doctor.examined", .data = data};
    if (workspace_event(call->ws, &now, &event, &err) < 0)
        log_problem(&err);
}

static int doctor_read_report(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(call->ws->state_dir, DOCTOR_REPORT_FILE, LAST_REPORT_MAX, &b) == 0)
        return json_parse(buf_str(&b), b.len, DOCTOR_REPORT_FILE, ret, err);
    if (errno != ENOENT)
        return fs_error(err, "read", call->ws->state_dir, DOCTOR_REPORT_FILE);
    error_set(err, TSK_NOT_FOUND, "doctor_never", NULL);
    return error_add_next(err, "tasuki doctor");
}

/* ---- the operation ---- */

static int run_doctor(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (json_get_bool(call->args, "last", false))
        return doctor_read_report(call, ret, err);
    int64_t began_ms = clock_now().boot_ms;
    bool is_quick = json_get_bool(call->args, "quick", false);
    if (is_quick && json_get_bool(call->args, "full", false))
        return error_set(err, TSK_INVALID_INPUT, "doctor_two_modes", NULL);
    struct doctor_options options = {.mode = mode_of(call->args),
                                     .fixes = json_get_bool(call->args, "fix", false),
                                     .lang = call->lang,
                                     .root = call->root};
    if (doctor_examine(call->ws, &options, ret, err) < 0)
        return -1;
    if (options.mode == DOCTOR_FULL && call->is_remote) /* a command changes nothing by looking */
        keep_report(call, *ret, clock_now().boot_ms - began_ms);
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

static const struct op_route last_route[] = {{"GET", "/api/doctor", "last=true"}, {0}};
static const char *const modes[] = {"full", "quick", NULL};

const struct op op_doctor = {
    NAMES("doctor", NULL, "doctor"),
    .summary = "Examine the workspace: what is broken or left behind, the evidence, and the command that fixes it.",
    .detail =
        "Each check is PASS, WARN (something is wrong, but work can continue) or FAIL (something cannot work). Locks "
        "whose holder is dead are recovered (--quick: only those of requests and of the queue), as before every "
        "run. --fix repairs what can be repaired without losing anything; nothing else is changed. Exit 0, 1 for "
        "a warning with --strict, 3 for a FAIL.",
    .examples = "tasuki doctor  # look at everything\n"
                "tasuki doctor --fix  # and repair what is safe to repair\n"
                "tasuki doctor --quick --strict  # in a script, before work begins",
    .flags = OP_IDEMPOTENT | OP_VERDICTS,
    .params = PARAMS(
        PARAM("mode", OP_ENUM, OP_OPTIONAL, "MODE", "full: everything; quick: what is checked before each run.",
              .fallback = "full", .choices = modes),
        FLAG("quick", OP_CLI_ONLY, "The same as --mode quick."), FLAG("full", OP_CLI_ONLY, "The same as --mode full."),
        FLAG("fix", OP_OPTIONAL, "Repair what can be repaired without losing anything."),
        FLAG("strict", OP_CLI_ONLY, "Exit with 1 when there is a warning."),
        FLAG("last", OP_REMOTE_ONLY | OP_PAGE_ONLY,
             "Show the last full report that was made over HTTP; examine nothing.")),
    .result =
        FIELDS({"status", "string", "PASS, WARN or FAIL: the worst of the checks"}, {"mode", "string", "full or quick"},
               {"checks", "array", "name title status summary evidence[] fix[]? (commands) fixed[]?"},
               {"recovered", "array", "locks of dead holders that were recovered, as in lock.list"},
               {"at", "string?", "with last: when the report was made"},
               {"took_ms", "integer?", "with last: how long the examination took"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_DOCTOR_FAILED, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/doctor", .also = last_route),
    .mcp = TOOL("doctor", "workspace",
                .text = "Examine the workspace when something seems stuck or broken: each check with evidence and the "
                        "command that fixes it. Locks of dead holders are recovered; fix: true also repairs what is "
                        "safe. A FAIL is an answer, not an error; nothing that lives is touched."),
    .run = run_doctor,
};
