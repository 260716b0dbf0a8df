/* op_workspace.c - init, status, version. */
#include "base/fs.h"
#include "ops/ops.h"
#include "ops/overview.h"
#include "ops/own_args.h"
#include "ops/up.h"
#include "own/agent.h"
#include "own/who.h"
#include "store/db.h"

#include <string.h>
#include <unistd.h>

/* ---- init ---- */

/* The workspace is further up. */
static bool is_above_here(const char *root)
{
    char here[PATH_MAX];
    size_t len = strlen(root);
    return getcwd(here, sizeof here) && strncmp(here, root, len) == 0 && here[len] == '/';
}

static int run_init(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct workspace_place place;
    bool created;
    if (workspace_init(call->root, &place, &created, err) < 0)
        return -1;
    struct tsk_workspace *ws CLEANUP(workspace_cleanup) = NULL;
    if (workspace_open_at(&place, &ws, err) < 0)
        return -1;
    struct db db;
    if (db_open(&db, ws->state_dir, err) < 0)
        return -1;
    db_close(&db);
    struct now now = clock_now();
    struct event event = {.type = "workspace.created"};
    if (created && workspace_event(ws, &now, &event, err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:s, s:s, s:b}", "status", created ? "created" : "exists", "root", place.root, "state",
                     place.state_path, "created", created);
    call->says = created ? "init_created" : !call->root && is_above_here(place.root) ? "init_above" : "init_exists";
    call->aside = up_file_is_in(place.root)
                      ? json_pack("{s:[s, s]}", "next", "tasuki up", "tasuki status")
                      : json_pack("{s:[s, s]}", "next", "tasuki status", "tasuki proc create NAME --start -- COMMAND");
    return 0;
}

const struct op op_init = {
    NAMES("init", NULL, "init"),
    .summary = "Create a workspace here (or say where it already is).",
    .detail = "Creates .aiflow/ with its .gitignore and database, and adds /.sprint-running to the project's "
              ".gitignore. In a linked git worktree the workspace is the main worktree's; below a workspace, that one "
              "is used (--root . makes another).",
    .examples = "tasuki init  # make this directory a workspace\n"
                "tasuki --root ~/project init  # or another one",
    .flags = OP_IDEMPOTENT | OP_NO_WORKSPACE,
    .params = PARAMS(),
    .result = FIELDS({"status", "string", "created or exists"}, {"root", "string", "the workspace"},
                     {"state", "string", "the directory with its state"},
                     {"created", "boolean", "false: it existed already"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http.absent = "a server runs in a workspace that exists",
    .mcp.absent = "an agent works in a workspace that exists",
    .run = run_init,
};

/* ---- status ---- */

/* Adds who the caller is from now on. A skin that knows it has said so; a client of the server gets an id and its secret. */
static int add_instance(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    char id[INSTANCE_HTTP_SIZE], secret[INSTANCE_SECRET_SIZE];
    const char *known = json_get_string(call->args, "instance", NULL);
    if (known) {
        json_object_set_new(answer, "instance", json_string(known));
        return 0;
    }
    struct who who = *who_current();
    const char *asked = json_get_string(call->args, "label", NULL), *label = who_is_name(asked) ? asked : who.label;
    if (instance_register_http(call->ws, label, id, secret, err) < 0 ||
        who_register_id(call->ws, id, label, NULL, &who, NULL, err) < 0)
        return -1;
    json_object_set_new(answer, "label", json_string(who.label));
    json_object_set_new(answer, "instance", json_string(id));
    json_object_set_new(answer, "secret", json_string(secret));
    return 0;
}

static json_t *status_names_of(const json_t *map)
{
    json_t *names = json_array();
    json_each_key (map, name)
        json_array_append_new(names, json_string(name));
    return names;
}

/* Whom work can be given to. */
static int add_agents(struct op_call *call, json_t *answer, struct tsk_error *err)
{
    json_t *config CLEANUP_JSON = NULL;
    if (agents_load(call->ws, &config, err) < 0)
        return -1;
    const json_t *agents = json_object_get(config, "agents");
    if (json_object_size(agents) == 0)
        return 0;
    json_object_set_new(answer, "agents", status_names_of(agents));
    json_object_set_new(answer, "teams", status_names_of(json_object_get(config, "teams")));
    return 0;
}

static int run_status(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    if (overview_make(call, ret, err) < 0)
        return -1;
    bool registers = json_get_bool(call->args, "register", false);
    if (add_agents(call, *ret, err) == 0 && (!registers || add_instance(call, *ret, err) == 0))
        return 0;
    json_free(ret);
    return -1;
}

const struct op op_status = {
    NAMES("status", NULL, "status"),
    .summary = "Show the whole workspace on one screen: what runs, who holds what, alive or dead.",
    .examples = "tasuki status  # who is running what",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(
        FLAG("register", OP_REMOTE_ONLY, "Also return your instance; over HTTP a new one, with its secret."),
        PARAM("label", OP_STRING, OP_REMOTE_ONLY | OP_CALLER, "TEXT", "A name for people, with register.", .max = 128),
        PARAM("instance", OP_STRING, OP_REMOTE_ONLY | OP_CALLER, "I", "The caller's instance id.", .max = 256)),
    .result =
        FIELDS({"version", "string", "of this program"}, {"root", "string", "the workspace"},
               {"state", "string", "the directory with its state"}, {"time", "string", "now"},
               {"host", "string?", "the machine"},
               {"examined_at", "string?", "when the report of GET /api/doctor was made, if there is one"},
               {"locks", "array", "as in lock.list"}, {"processes", "array", "as in process.list"},
               {"processes_total", "integer?", "for agents: the number of all, if not all are shown"},
               {"runs", "array", "first those that run, wait or were interrupted; then the newest"},
               {"questions", "array?", "questions of runs: run_id request_id flow task session_id asked_at question"},
               {"confirmations", "array?", "questions of agents: id token operation instance question expires_in_ms"},
               {"waiting", "array?", "parties that wait: kind id since who, and the holder"},
               {"requests", "array", "requests that are not done: id title status priority"},
               {"queue", "object?", "as in queue.status"},
               {"event_id", "integer?", "the newest event in this answer; a stream can continue after it"},
               {"workflows", "array", "workflows that have an owner, as in own.list"},
               {"agents", "array?", "names of the agents of config.yaml"}, {"teams", "array?", "the same for teams"},
               {"instance", "string?", "with register: your identity in later calls"},
               {"secret", "string?", "the instance's secret; shown only once"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/status"),
    .mcp =
        TOOL("get_status", "workspace", .is_core = true,
             .text = "Show the whole workspace: who holds which lock, what runs or asks. Call it before you start or "
                     "change anything; it changes nothing."),
    .run = run_status,
};

/* ---- version ---- */

static int run_version(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    (void)call;
    (void)err;
    *ret = json_pack("{s:s, s:s, s:i, s:s}", "name", "tasuki", "version", TASUKI_VERSION, "schema", db_schema_version(),
                     "compiler", __VERSION__);
    return 0;
}

const struct op op_version = {
    NAMES("version", NULL, "version"),
    .summary = "Print the version.",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_NO_WORKSPACE,
    .params = PARAMS(),
    .result = FIELDS({"name", "string", "tasuki"}, {"version", "string", "of this program"},
                     {"schema", "integer", "version of the database schema it writes"},
                     {"compiler", "string", "that built it"}),
    .errors = ERRORS(),
    .http.absent = "part of /api/status",
    .mcp.absent = "part of get_status",
    .run = run_version,
};
