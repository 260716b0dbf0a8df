/* op_own.c - own check, claim, release, force-claim, leave, show, list: which instance drives a workflow. */
#include "base/clock.h"
#include "ops/lock_args.h"
#include "ops/ops.h"
#include "ops/own_args.h"
#include "ops/page.h"
#include "ops/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLAIM_LOOK_MS 250 /* how often a waiting claim looks again: the end of an owner announces nothing */
#define WORKFLOW_PARAM                                                                                                 \
    PARAM("ulTaskId", OP_ID, OP_REQUIRED | OP_POSITIONAL, "WORKFLOW", "The workflow's id.", .completes = "workflow-id")
#define NO_AUTO_CLAIM_PARAM FLAG("no_auto_claim", OP_OPTIONAL, "Leave a dead owner's claim where it is.")
#define OWNER_FIELDS                                                                                                   \
    FIELD("ulTaskId", "string", ""), FIELD("ownerInstanceId", "string?", "null: nobody"),                              \
        FIELD("ownerPid", "integer?", ""), FIELD("ownerAlive", "boolean?", "null: unknown"),                           \
        FIELD("fence", "integer", "grows with every change of the owner"),                                             \
        FIELD("who", "object?", "the owner: label user program pid host instance note")
#define CLAIM_FIELDS                                                                                                   \
    FIELDS({"owned", "boolean", "by the caller"}, OWNER_FIELDS,                                                        \
           {"claimed", "boolean?", "false: it was yours already"}, {"before", "string?", "the owner before"})
#define CLAIM_ERRORS                                                                                                   \
    ERRORS(TSK_WORKFLOW_OWNED_BY_OTHER, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND)

int own_args_open(struct op_call *call, struct owners *owners, struct instance *ret_caller, struct tsk_error *err)
{
    if (owners_open(owners, call->ws, err) < 0)
        return -1;
    if (instance_find(&owners->db, json_get_string(call->args, "instance", NULL), call->is_cli, ret_caller, err) == 0)
        return 0;
    if (call->is_remote)
        op_hint_register(err);
    return -1;
}

static const char *workflow_of(const struct op_call *call)
{
    return json_get_string(call->args, "ulTaskId", "");
}

static unsigned flags_of(const struct op_call *call)
{
    return json_get_bool(call->args, "no_auto_claim", false) ? WORKFLOW_NO_AUTO_CLAIM : 0;
}

/* ---- check ---- */

static const char *alive_text(const struct workflow *wf)
{
    return wf->state.alive == LIVE_ALIVE  ? "owner_alive"
           : wf->state.alive == LIVE_DEAD ? "owner_dead"
                                          : "owner_unknown";
}

/* For people: "claude-code#2: refactoring auth (vm-4711-…)", and whether it lives. */
static void say_owner(struct op_call *call, const struct workflow *wf)
{
    struct buf by CLEANUP(buf_clear) = BUF_INIT;
    json_t *who CLEANUP_JSON = wf->who.label[0] ? who_json(&wf->who) : NULL;
    who_put_label(&by, who);
    buf_printf(&by, by.len ? " (%s)" : "%s", wf->owner);
    call->aside = json_pack("{s:s, s:s}", "state", text_get(alive_text(wf), call->lang), "by", buf_str(&by));
}

static int run_check(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    struct workflow wf;
    if (own_args_open(call, &owners, &caller, err) < 0 ||
        workflow_claim(&owners, workflow_of(call), &caller, flags_of(call) | WORKFLOW_ONLY_LOOK, &wf, err) < 0)
        return -1;
    *ret = workflow_json(&wf, true);
    call->says = wf.is_callers ? "own_yours" : !wf.owner[0] ? "own_free" : "own_others";
    say_owner(call, &wf);
    call->verdict = wf.is_callers || !wf.owner[0] ? TSK_OK : TSK_WORKFLOW_OWNED_BY_OTHER;
    return 0;
}

const struct op op_own_check = {
    NAMES("own.check", "own", "check"),
    .summary = "Say whether you own a workflow or nobody does (exit 0), or somebody else (4).",
    .detail =
        "A claim whose owner is dead moves to you, unless --no-auto-claim; a workflow that nobody owns stays free.",
    .examples = "tasuki own check 2026-02-25T18-44-58--edb94a81  # may I continue it?\n"
                "tasuki own check nightly --no-auto-claim --json",
    .flags = OP_IDEMPOTENT | OP_QUESTION | OP_VERDICTS,
    .params = PARAMS(WORKFLOW_PARAM, NO_AUTO_CLAIM_PARAM, INSTANCE_PARAM),
    .result = FIELDS({"owned", "boolean", "by the caller"}, OWNER_FIELDS),
    .errors = CLAIM_ERRORS,
    .http = ROUTE("POST", "/api/workflows/:ulTaskId/check"),
    .mcp = TOOL("ul_workflow_check", "ownership", .is_core = true,
                .text = "Say whether you own a workflow, before you continue it. A dead owner's claim moves to you; "
                        "owned: false with an owner: leave it alone."),
    .run = run_check,
};

/* ---- claim ---- */

static json_t *claimed_json(struct op_call *call, const struct workflow *wf)
{
    call->says = !wf->was_taken ? "own_yours" : wf->before[0] ? "own_taken_over" : "own_claimed";
    say_owner(call, wf);
    json_t *json = workflow_json(wf, true);
    json_object_set_new(json, "claimed", json_boolean(wf->was_taken));
    json_set_text(json, "before", wf->was_taken ? wf->before : NULL);
    return json;
}

bool own_wait_more(struct op_call *call, int64_t until_ms)
{
    int64_t left = until_ms - clock_now().boot_ms, nap_ms = left < CLAIM_LOOK_MS ? left : CLAIM_LOOK_MS;
    if (left <= 0 || (call->is_cancelled && call->is_cancelled(call)))
        return false;
    clock_nap(nap_ms);
    return true;
}

/* One attempt; the tables are not kept open while the caller waits. */
static int claim_once(struct op_call *call, struct workflow *ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    if (own_args_open(call, &owners, &caller, err) < 0)
        return -1;
    return workflow_claim(&owners, workflow_of(call), &caller, flags_of(call), ret, err);
}

static int run_claim(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct workflow wf;
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    int64_t wait_ms = lock_args_wait(call), until_ms = clock_now().boot_ms + wait_ms;
    if (wait_ms)
        op_wait_begin(&waiting, call, call->ws, "workflow", workflow_of(call));
    while (claim_once(call, &wf, err) < 0)
        if (err->code != TSK_WORKFLOW_OWNED_BY_OTHER || !own_wait_more(call, until_ms))
            return -1;
    *ret = claimed_json(call, &wf);
    return 0;
}

const struct op op_own_claim = {
    NAMES("own.claim", "own", "claim"),
    .summary = "Become the owner of a workflow. The refusal names the present owner.",
    .detail =
        "If it is free, or its owner is dead, it becomes yours. If its owner is alive, or that is unknown, the claim "
        "is refused. It is yours until you release it; when you have ended, the next instance that asks gets it.",
    .examples = "tasuki own claim nightly  # for the process that calls\n"
                "tasuki own claim nightly --wait 10m  # wait until its owner has released it\n"
                "tasuki own claim nightly --instance \"$MY_ID\"  # for an instance that you name",
    .flags = OP_IDEMPOTENT | OP_WAITS,
    .params =
        PARAMS(WORKFLOW_PARAM, NO_AUTO_CLAIM_PARAM,
               PARAM("wait", OP_DURATION, OP_FOREVER, "D", "Wait this long for the owner to release it, or to end.",
                     .fallback = "0", .agent_help = "Wait this long for it."),
               NOTE_PARAM, INSTANCE_PARAM),
    .result = CLAIM_FIELDS,
    .errors = CLAIM_ERRORS,
    .http = ROUTE("POST", "/api/workflows/:ulTaskId/claim"),
    .mcp = TOOL("ul_workflow_claim", "ownership", .is_core = true, .refusal = "NOT CLAIMED",
                .text = "Become the owner of a workflow before you begin it. NOT CLAIMED: another living instance "
                        "owns it; wait, or ask the person. Yours until release_all, or until your program ends."),
    .run = run_claim,
};

/* ---- release ---- */

static int run_release(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    struct workflow wf;
    if (own_args_open(call, &owners, &caller, err) < 0 ||
        workflow_release(&owners, workflow_of(call), &caller, &wf, err) < 0)
        return -1;
    call->says = wf.was_taken ? "own_released" : "own_released_none";
    *ret = json_pack("{s:s, s:s, s:b, s:I}", "status", "released", "ulTaskId", wf.id, "existed", wf.was_taken, "fence",
                     (json_int_t)wf.fence);
    return 0;
}

const struct op op_own_release = {
    NAMES("own.release", "own", "release"),
    .summary = "Release a workflow; nobody owns it then.",
    .examples = "tasuki own release nightly",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(WORKFLOW_PARAM, INSTANCE_PARAM),
    .result = FIELDS({"status", "string", "released"}, {"ulTaskId", "string", ""},
                     {"existed", "boolean", "false: nobody owned it"}, {"fence", "integer", ""}),
    .errors = CLAIM_ERRORS,
    .http = ROUTE("POST", "/api/workflows/:ulTaskId/release"),
    .mcp = TOOL("ul_workflow_release", "ownership", .refusal = "NOT RELEASED",
                .text = "Release a workflow when your part of it is done, so that another instance can continue. "
                        "Succeeds if nobody owned it; refused if somebody else owns it."),
    .run = run_release,
};

/* ---- force-claim ---- */

static bool is_confirmed_force(struct op_call *call, const struct workflow *wf)
{
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    char pid[24] = "?";
    if (json_get_bool(call->args, "yes", false))
        return true;
    if (!call->confirm)
        return false;
    if (wf->state.pid)
        snprintf(pid, sizeof pid, "%d", (int)wf->state.pid);
    struct buf owner CLEANUP(buf_clear) = BUF_INIT;
    json_t *who CLEANUP_JSON = wf->who.label[0] ? who_json(&wf->who) : NULL;
    who_put_label(&owner, who);
    buf_printf(&owner, owner.len ? ", %s" : "%s", wf->owner);
    text_put(&question, call->lang, "confirm_force_claim", "workflow", wf->id, "owner", buf_str(&owner), "pid", pid,
             NULL);
    call->asks_about_dead = false;
    return call->confirm(call, buf_str(&question));
}

static int run_force(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    struct workflow wf;
    if (own_args_open(call, &owners, &caller, err) < 0)
        return -1;
    int result = workflow_force(&owners, workflow_of(call), &caller, NULL, &wf, err);
    if (result < 0 && err->code == TSK_NEEDS_CONFIRMATION) {
        struct workflow shown = wf;
        if (is_confirmed_force(call, &shown))
            result = workflow_force(&owners, workflow_of(call), &caller, &shown, &wf, err);
        else if (call->confirm) /* somebody was asked, and it was no yes */
            workflow_refuse(&wf, TSK_WORKFLOW_OWNED_BY_OTHER, err);
    }
    if (result == 0)
        *ret = claimed_json(call, &wf);
    return result;
}

const struct op op_own_force_claim = {
    NAMES("own.force-claim", "own", "force-claim"),
    .summary = "Take a workflow from its owner; if the owner is alive, a person must say yes.",
    .detail = "The old owner is not ended; what it writes from now on is refused (workflow_owned_by_other). First look "
              "whether it still works: ps -p PID.",
    .examples = "tasuki own force-claim nightly  # asks if the owner is alive\n"
                "tasuki own force-claim nightly --yes",
    .flags = OP_DESTRUCTIVE | OP_IDEMPOTENT,
    .params = PARAMS(WORKFLOW_PARAM, NOTE_PARAM, YES_PARAM, INSTANCE_PARAM),
    .result = CLAIM_FIELDS,
    .errors = ERRORS(TSK_WORKFLOW_OWNED_BY_OTHER, TSK_NEEDS_CONFIRMATION, TSK_INVALID_INPUT, TSK_ENVIRONMENT,
                     TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/workflows/:ulTaskId/force-claim"),
    .mcp = TOOL("ul_workflow_force_claim", "ownership", .refusal = "NOT CLAIMED",
                .text = "Take a workflow from an owner that does not work on it any more. If the owner is alive, a "
                        "person must say yes; what it writes afterwards is refused. Yours until ul_workflow_release."),
    .run = run_force,
};

/* ---- leave ---- */

/* Whether a command has the name of who gave it work in its environment, and not that of the program above it. */
static bool is_named_after_another(const struct instance *caller)
{
    struct proc_id above;
    if (instance_is_http(caller->id))
        return true;
    return caller->process.pid && (proc_guess_holder(&above) < 0 || above.pid != caller->process.pid ||
                                   above.start_ticks != caller->process.start_ticks);
}

/* An agent that works for another one has that one's name, but not its end: what the other one holds stays while it lives. */
static int refuse_borrowed(struct op_call *call, struct owners *owners, const struct instance *caller,
                           struct tsk_error *err)
{
    struct now now = clock_now();
    struct instance_state state;
    const char *given = json_get_string(call->args, "instance", NULL), *inherited = getenv("TASUKI_INSTANCE_ID");
    bool is_inherited = call->is_cli && !given && inherited && *inherited && is_named_after_another(caller);
    if (!call->is_borrowed && !is_inherited)
        return 0;
    if (instance_judge(&owners->db, caller->id, &now, &state, err) < 0)
        return -1;
    if (state.alive == LIVE_DEAD)
        return 0;
    error_set(err, TSK_CONFLICT, "instance_borrowed", "instance", caller->id, NULL);
    return error_add_next(err, "tasuki lock release KIND ID");
}

static void leave_say(struct op_call *call, const json_t *unreadable)
{
    struct buf paths CLEANUP(buf_clear) = BUF_INIT;
    json_put_texts(&paths, unreadable, ", ");
    call->says = paths.len ? "own_left_unreadable" : "own_left";
    if (paths.len)
        call->aside = json_pack("{s:s}", "paths", buf_str(&paths));
}

static int run_leave(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance caller;
    struct instance_end end;
    if (own_args_open(call, &owners, &caller, err) < 0 || refuse_borrowed(call, &owners, &caller, err) < 0 ||
        op_end_instance(call->ws, call->root, caller.id, &end, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s, s:i, s:i, s:o}", "status", "left", "instance", caller.id, "locks", end.locks,
                     "workflows", end.claims, "unreadable", end.unreadable);
    leave_say(call, end.unreadable);
    return 0;
}

const struct op op_own_leave = {
    NAMES("own.leave", "own", "leave"),
    .summary = "Release everything that you locked and claimed, when you are done here.",
    .detail = "A client of the server is then no longer registered, and its secret is invalid. What you started keeps "
              "running, and so does a lock run, which ends by itself. An agent that works in the name of another agent "
              "is refused while that agent lives.",
    .examples = "tasuki own leave  # for the process that calls",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(INSTANCE_PARAM),
    .result = FIELDS({"status", "string", "left"}, {"instance", "string", "the instance that has left"},
                     {"locks", "integer", "the number of locks released"}, {"workflows", "integer", "the same"},
                     {"unreadable", "array", "paths of locks that stay"}),
    .errors = ERRORS(TSK_CONFLICT, TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("DELETE", "/api/instances/:instance"),
    .mcp = TOOL("release_all", "workspace", .is_core = true, .refusal = "NOT RELEASED",
                .text = "Release all that you locked and claimed, when your work here is done. Over HTTP your instance "
                        "ends with it. What you started keeps running."),
    .run = run_leave,
};

/* ---- show ---- */

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct workflow wf;
    if (owners_open(&owners, call->ws, err) < 0)
        return -1;
    int found = workflow_look(&owners, workflow_of(call), NULL, &wf, err);
    if (found < 0)
        return -1;
    if (!found) {
        error_set(err, TSK_NOT_FOUND, "workflow_unknown", "workflow", workflow_of(call), NULL);
        return error_add_next(err, "tasuki own claim %s", workflow_of(call));
    }
    const char *time = TIME_EXACT(wf.claimed_at_ms);
    *ret = workflow_json(&wf, false);
    json_object_set_new(*ret, "claimed_at", json_string(time));
    if (wf.owner[0])
        json_object_set_new(*ret, "how", json_string(wf.state.how));
    return 0;
}

const struct op op_own_show = {
    NAMES("own.show", "own", "show"),
    .summary = "Show who owns a workflow, since when, alive or dead; it changes nothing.",
    .examples = "tasuki own show nightly",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(WORKFLOW_PARAM),
    .result = FIELDS(OWNER_FIELDS, {"claimed_at", "string", "when the owner last changed"},
                     {"how", "string?", "how it is known whether the owner is alive"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("GET", "/api/workflows/:ulTaskId"),
    .mcp.absent = "ul_workflow_check with no_auto_claim says the same",
    .run = run_show,
};

/* ---- list ---- */

static void workflow_page_key(const json_t *workflow, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_get_string(workflow, "ulTaskId", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    json_t *list CLEANUP_JSON = NULL;
    if (owners_open(&owners, call->ws, err) < 0 ||
        workflow_list(&owners, json_get_string(call->args, "owner", NULL), !json_get_bool(call->args, "all", false),
                      &list, err) < 0)
        return -1;
    *ret = page_sorted(call, "workflows", list, workflow_page_key);
    return 0;
}

const struct op op_own_list = {
    NAMES("own.list", "own", "list"),
    .summary = "Show all workflows that have an owner: whose, since when, alive or dead.",
    .examples = "tasuki own list\ntasuki own list --all --json",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(PARAM("owner", OP_STRING, OP_OPTIONAL, "I", "Only what this instance owns.", .max = 256),
                     FLAG("all", OP_OPTIONAL, "Also those that nobody owns any more."), PAGE_PARAMS),
    .result = FIELDS({"workflows", "array", "by id, each as own.show gives it"}, PAGE_FIELDS),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("GET", "/api/workflows"),
    .mcp = TOOL("ul_workflow_list", "ownership",
                .text = "List all workflows that have an owner: whose, since when, alive or dead. It changes nothing."),
    .run = run_list,
};
