/* op_mcp.c - the door for agents, and the answer to what they may not decide alone. */
#include "base/fs.h"
#include "ops/confirm.h"
#include "ops/skins.h"

int (*op_mcp_serve)(struct op_call *call, struct tsk_error *err);

/* ---- mcp ---- */

static int run_mcp(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    if (!op_mcp_serve)
        return error_set(err, TSK_INVALID_INPUT, "only_in_cli", NULL);
    return op_mcp_serve(call, err);
}

static const struct op_param mcp_params[] = {
    {.name = "tools",
     .type = OP_STRING,
     .value = "GROUPS",
     .help = "Which tools to offer: core (the working set), all, or groups with commas (processes, locks, "
             "templates, ownership, requests, delegation, workspace).",
     .max = 256,
     .fallback = "core"},
    {.name = "instance",
     .type = OP_STRING,
     .flags = OP_CALLER,
     .value = "I",
     .help = "Whose tools these are (default: TASUKI_INSTANCE_ID, else the program that started this one).",
     .max = 256},
    {.name = "grace",
     .type = OP_DURATION,
     .value = "D",
     .help = "How long the agent's locks stay its own when the connection has ended and the agent lives.",
     .fallback = "60s"},
    {.name = "let_go",
     .type = OP_BOOL,
     .help = "Only wait the grace period out and release what --instance holds; started by tasuki itself at the end."},
    {0},
};
static const struct op_field no_result[] = {{0}};
static const enum tsk_code mcp_errors[] = {TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_OK};

const struct op op_mcp = {
    .name = "mcp",
    .verb = "mcp",
    .summary = "Serve an agent over standard input and output (Model Context Protocol).",
    .detail =
        "An MCP client starts this; people put it into the client's configuration. It ends with the connection or "
        "with its parent; what the agent locked is released then, what it started lives on.",
    .examples = "tasuki mcp  # the working set of tools\n"
                "tasuki mcp --tools all  # every tool\n"
                "tasuki mcp --tools processes,locks  # two groups",
    .flags = OP_NO_WORKSPACE,
    .params = mcp_params,
    .result = no_result,
    .errors = mcp_errors,
    .http.absent = "POST /mcp is the same over HTTP",
    .mcp.absent = "it is the server of the tools",
    .run = run_mcp,
};

/* ---- confirm ---- */

static int run_confirm(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *token = json_get_string(call->args, "token", "");
    json_t *record CLEANUP_JSON = NULL;
    if (confirm_look(call->ws, token, &record, err) < 0)
        return -1;
    const char *question = json_get_string(record, "question", "");
    /* On a terminal the person sees what is asked; without one, the caller has read it elsewhere. */
    if (!json_get_bool(call->args, "yes", false) && call->confirm && !call->confirm(call, question))
        return error_set(err, TSK_NEEDS_CONFIRMATION, "confirm_refused", "token", token, NULL);
    json_t *approved CLEANUP_JSON = NULL;
    if (confirm_approve(call->ws, token, &approved, err) < 0)
        return -1;
    struct now now = clock_now();
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "operation", json_get_string(record, "operation", ""));
    buf_json_pair(&data, "instance", json_get_string(record, "instance", ""));
    buf_json_pair(&data, "question", question);
    buf_puts(&data, "}");
    struct event event = {.type = "confirm.given", .data = buf_str(&data)};
    if (workspace_event(call->ws, &now, &event, err) < 0)
        return -1;
    *ret =
        json_pack("{s:s, s:s, s:s, s:s}", "status", "confirmed", "operation", json_get_string(record, "operation", ""),
                  "question", question, "instance", json_get_string(record, "instance", ""));
    return 0;
}

static const struct op_param confirm_params[] = {
    {.name = "token",
     .type = OP_STRING,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "TOKEN",
     .help = "The confirm_token of the refusal.",
     .max = 64},
    {.name = "yes", .type = OP_BOOL, .flags = OP_CLI_ONLY, .help = "Do not show the question first."},
    {0},
};
static const struct op_field confirm_result[] = {{"status", "string", "confirmed"},
                                                 {"operation", "string", "what may be done now"},
                                                 {"question", "string", "what was asked"},
                                                 {"instance", "string", "who asked"},
                                                 {0}};
static const enum tsk_code confirm_errors[] = {TSK_NOT_FOUND,   TSK_NEEDS_CONFIRMATION, TSK_INVALID_INPUT,
                                               TSK_ENVIRONMENT, TSK_STORAGE_FULL,       TSK_OK};

const struct op op_confirm = {
    .name = "confirm",
    .verb = "confirm",
    .summary = "Say yes to what an agent may not decide alone, within 30 seconds of its question.",
    .detail = "The agent's refusal has the token. Once confirmed, the agent repeats its call with the token.",
    .examples = "tasuki confirm 5f0c33b2a1e94d7788f0c2ab5d6e7f10  # the token that the agent shows",
    .params = confirm_params,
    .result = confirm_result,
    .errors = confirm_errors,
    .http = {.method = "POST", .path = "/api/confirm"},
    .mcp.absent = "a person answers; an agent must not answer its own question",
    .run = run_confirm,
};
