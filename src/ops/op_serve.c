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

static const struct op_param params[] = {
    {.name = "port",
     .type = OP_INT,
     .value = "N",
     .help = "The port; 0 is any free one. Default: the one of the last time, or 7411, or the next free one.",
     .min = 0,
     .max = 65535},
    {.name = "listen",
     .type = OP_STRING,
     .value = "ADDRESS",
     .help = "The IP address to listen on. Any but a loopback address lets other machines in: a client with the token "
             "can run "
             "commands as you.",
     .max = 64,
     .fallback = "127.0.0.1"},
    {.name = "host",
     .type = OP_STRING,
     .flags = OP_MANY,
     .value = "NAME",
     .help = "One more name that requests may have in their Host header (besides localhost and its addresses).",
     .max = 256},
    {.name = "open",
     .type = OP_BOOL,
     .help = "Open the start page in the browser; so far it only says where everything is."},
    {.name = "tools",
     .type = OP_STRING,
     .value = "GROUPS",
     .help = "Which tools /mcp offers: core (the working set), all, or groups, as for tasuki mcp.",
     .max = 256,
     .fallback = "core"},
    {0},
};
static const struct op_field result[] = {{"status", "string", "serving"},
                                         {"url", "string", "where the API is"},
                                         {"page", "string", "the start page, with the token"},
                                         {"socket", "string", "the unix socket"},
                                         {"token_file", "string", "where the token is"},
                                         {"pid", "integer", "of the server"},
                                         {"root", "string", "the workspace"},
                                         {0}};
static const enum tsk_code errors[] = {TSK_CONFLICT,    TSK_INVALID_INPUT, TSK_NOT_FOUND,
                                       TSK_ENVIRONMENT, TSK_STORAGE_FULL,  TSK_OK};

const struct op op_serve = {
    .name = "serve",
    .verb = "serve",
    .summary = "Serve this workspace over HTTP: the API, live events, and tools for agents (/mcp).",
    .detail =
        "Listens on 127.0.0.1 and on the unix socket .aiflow/server.sock. TCP needs the token in .aiflow/server.token "
        "(Authorization: Bearer). At its start it starts what should run (as tasuki restore does); at its end "
        "everything "
        "goes on, unless TASUKI_STOP_ON_SHUTDOWN=true. Nothing depends on it: every command works without a server.",
    .examples = "tasuki serve  # says where, until Ctrl-C\n"
                "tasuki serve --port 0 --json  # on any free port; the first line says which\n"
                "curl --unix-socket .aiflow/server.sock http://localhost/api/status  # no token needed",
    .flags = OP_STREAMS,
    .params = params,
    .result = result,
    .errors = errors,
    .http.absent = "it is the server",
    .mcp.absent = "a person decides what listens on the machine",
    .run = run_serve,
};
