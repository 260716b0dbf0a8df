/* op_serve.c - the server, for people and pages. */
#include "ops/skins.h"

int (*op_serve_run)(struct op_call *call, struct tsk_error *err);

static int run_serve(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    if (!op_serve_run)
        return error_set(err, TSK_INVALID_INPUT, "only_in_cli", NULL);
    return op_serve_run(call, err);
}

const struct op op_serve = {
    NAMES("serve", NULL, "serve"),
    .summary = "Serve this workspace over HTTP: the page, the API, live events, and tools for agents (/mcp).",
    .detail = "Listens on 127.0.0.1 and on the unix socket .aiflow/server.sock. TCP needs the token in "
              ".aiflow/server.token (Authorization: Bearer). At its start it starts the processes that should run (as "
              "tasuki restore does); at its end everything keeps running, unless TASUKI_STOP_ON_SHUTDOWN=true. Nothing "
              "depends on it: every "
              "command works without a server. If a server is already running, this command prints its address and "
              "ends with 0.",
    .examples = "tasuki serve  # prints its addresses; runs until Ctrl-C\n"
                "tasuki serve --port 0 --json  # on any free port; the first line has it\n"
                "curl --unix-socket .aiflow/server.sock http://localhost/api/status  # no token needed",
    .flags = OP_STREAMS,
    .params = PARAMS(
        PARAM("port", OP_INT, OP_OPTIONAL, "N",
              "The port; 0 is any free one. Default: the last one that was used, else 7411 or the next free one.",
              .min = 0, .max = 65535),
        PARAM("listen", OP_STRING, OP_OPTIONAL, "ADDRESS",
              "The IP address to listen on. Any but a loopback address lets other machines in: a client with the token "
              "can run commands as you.",
              .fallback = "127.0.0.1", .max = 64),
        PARAM("host", OP_STRING, OP_MANY, "NAME",
              "Another name that the Host header of requests may have, besides localhost and its addresses.",
              .max = 256),
        FLAG("open", OP_OPTIONAL, "Open the page in the browser."),
        PARAM("tools", OP_STRING, OP_OPTIONAL, "GROUPS",
              "Which tools /mcp offers: core (the working set), all, or groups, as for tasuki mcp.", .fallback = "core",
              .max = 256)),
    .result = FIELDS({"status", "string", "serving; running: another server has this workspace, and this one ends"},
                     {"url", "string", "where the API is"}, {"page", "string", "the page, with the token"},
                     {"socket", "string", "the unix socket"}, {"token_file", "string", "where the token is"},
                     {"pid", "integer", "of the server"}, {"root", "string", "the workspace"}),
    .errors = ERRORS(TSK_CONFLICT, TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http.absent = "it is the server",
    .mcp.absent = "a person decides what listens on the machine",
    .run = run_serve,
};
