/* op_mcp.c - the door for agents, and the answer to what they may not decide alone. */
#include "base/fs.h"
#include "ops/confirm.h"
#include "ops/skins.h"
#include "own/who.h"

int (*op_mcp_serve)(struct op_call *call, struct tsk_error *err);

/* ---- mcp ---- */

static int run_mcp(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    if (!op_mcp_serve)
        return error_set(err, TSK_INVALID_INPUT, "only_in_cli", NULL);
    return op_mcp_serve(call, err);
}

const struct op op_mcp = {
    NAMES("mcp", NULL, "mcp"),
    .summary = "Serve an agent over standard input and output (Model Context Protocol).",
    .detail = "An MCP client starts this; people put it into the client's configuration. It ends with the connection "
              "or with its parent; the agent's locks are then released, and what it started keeps running.",
    .examples = "tasuki mcp  # the working set of tools\n"
                "tasuki mcp --tools all  # every tool\n"
                "tasuki mcp --tools processes,locks  # two groups",
    .flags = OP_NO_WORKSPACE,
    .params = PARAMS(
        PARAM("tools", OP_STRING, OP_OPTIONAL, "GROUPS",
              "Which tools to offer: core (the working set), all, or groups with commas (processes, locks, templates, "
              "ownership, requests, delegation, workers, workspace).",
              .fallback = "core", .max = 256),
        PARAM("instance", OP_STRING, OP_CALLER, "I",
              "Whose tools these are (default: TASUKI_INSTANCE_ID, else the program that started this one).",
              .max = 256),
        PARAM("grace", OP_DURATION, OP_OPTIONAL, "D",
              "How long the agent keeps its locks if the connection has ended and the agent still lives.",
              .fallback = "60s"),
        FLAG("let_go", OP_OPTIONAL,
             "Internal: wait for the grace period, then release what --instance holds; tasuki itself starts this.")),
    .result = FIELDS(),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_ENVIRONMENT),
    .http.absent = "POST /mcp is the same over HTTP",
    .mcp.absent = "it is the server of the tools",
    .run = run_mcp,
};

/* ---- confirm ---- */

/* An agent answers neither its own question nor another one's, but where its word is enough anyway (mcp/confirm.c). */
static int refuse_agent(struct op_call *call, const json_t *record, struct tsk_error *err)
{
    bool is_allowed = false;
    if (!who_current()->is_agent || json_get_bool(record, "is_dead", false))
        return 0;
    if (workspace_config_bool(call->ws, "agents_confirm_live", &is_allowed, err) < 0)
        return -1;
    return is_allowed ? 0
                      : error_set(err, TSK_NEEDS_CONFIRMATION, "confirm_by_agent", "by", who_current()->label, NULL);
}

/* The label of the agent that asked, else its instance. */
static void say_answered(struct op_call *call, const json_t *record, const char *token, bool denies)
{
    struct who who;
    const char *instance = json_get_string(record, "instance", "");
    who_look(call->ws, instance, &who);
    call->says = denies ? "confirm_denied" : "confirm_given";
    struct buf asked CLEANUP(buf_clear) = BUF_INIT; /* in a sentence: on one line */
    for (const char *at = json_get_string(record, "question", ""); *at; at++)
        buf_put(&asked, *at == '\n' ? " " : at, 1);
    call->aside = json_pack("{s:s, s:s, s:s}", "by", who.label[0] ? who.label : instance, "token", token, "asked",
                            buf_str(&asked));
}

static int run_confirm(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *token = json_get_string(call->args, "token", "");
    bool denies = json_get_bool(call->args, "deny", false);
    json_t *record CLEANUP_JSON = NULL, *answered CLEANUP_JSON = NULL;
    if (confirm_look(call->ws, token, &record, err) < 0 || refuse_agent(call, record, err) < 0)
        return -1;
    const char *question = json_get_string(record, "question", "");
    /* On a terminal the person sees what is asked; without one, the caller has read it elsewhere. */
    if (!denies && !json_get_bool(call->args, "yes", false) && call->confirm && !call->confirm(call, question))
        return error_set(err, TSK_NEEDS_CONFIRMATION, "confirm_refused", "token", token, NULL);
    if ((denies ? confirm_deny(call->ws, token, &answered, err) : confirm_approve(call->ws, token, &answered, err)) < 0)
        return -1;
    if (confirm_report(call->ws, denies ? "confirm.denied" : "confirm.given", token, record, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s, s:s, s:s}", "status", denies ? "denied" : "confirmed", "operation",
                     json_get_string(record, "operation", ""), "question", question, "instance",
                     json_get_string(record, "instance", ""));
    say_answered(call, record, token, denies);
    return 0;
}

const struct op op_confirm = {
    NAMES("confirm", NULL, "confirm"),
    .summary = "Confirm or deny an action that an agent may not take alone, within 30 seconds of its question.",
    .detail =
        "The agent's refusal has the token. Once confirmed, the agent repeats the same call with confirm_token. An "
        "agent's own answer is refused.",
    .examples = "tasuki confirm 5f0c33b2a1e94d7788f0c2ab5d6e7f10  # the token that the agent shows\n"
                "tasuki confirm 5f0c33b2a1e94d7788f0c2ab5d6e7f10 --deny  # no",
    .params = PARAMS(
        PARAM("token", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "TOKEN", "The confirm_token of the refusal.", .max = 64),
        FLAG("yes", OP_CLI_ONLY, "Do not show the question first."),
        FLAG("deny", OP_OPTIONAL, "Answer no; the question is closed at once.")),
    .result = FIELDS({"status", "string", "confirmed or denied"},
                     {"operation", "string", "the operation that is now allowed"},
                     {"question", "string", "the question"}, {"instance", "string", "the agent that asked"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_NEEDS_CONFIRMATION, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_ENVIRONMENT,
                     TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/confirm"),
    .mcp.absent = "a person answers; an agent must not answer its own question",
    .run = run_confirm,
};
