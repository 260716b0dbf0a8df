/* op_flow.c - flow list, flow show, flow validate. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/listing.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "run/run_lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- list ---- */

/* NAME.yaml, where NAME is what commands take. */
static bool is_flow(const char *file, char name[256])
{
    size_t len = strlen(file);
    if (len < 6 || len > 255 || strcmp(file + len - 5, ".yaml") != 0)
        return false;
    memcpy(name, file, len - 5);
    name[len - 5] = '\0';
    return id_is_valid(name);
}

static void flow_page_key(const json_t *flow, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_get_string(flow, "name", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct listing files CLEANUP(listing_close);
    if (listing_open(&files, call->ws->state_dir, "flows", 0) < 0 && errno != ENOENT)
        return fs_error(err, "read", call->ws->state_dir, "flows");
    json_t *flows CLEANUP_JSON = json_array();
    for (const char *file; (file = listing_next(&files));) {
        char name[256], path[300], time[TIME_TEXT_MAX];
        struct stat st;
        snprintf(path, sizeof path, "flows/%s", file);
        if (!is_flow(file, name))
            continue;
        bool is_there = fs->fstatat(call->ws->state_dir, path, &st, 0) == 0; /* if not, it is listed without a time */
        if (is_there && !S_ISREG(st.st_mode))
            continue;
        if (is_there)
            time_format_exact(st.st_mtim.tv_sec * INT64_C(1000) + st.st_mtim.tv_nsec / 1000000, time);
        json_array_append_new(flows, json_pack("{s:s, s:o, s:s?}", "name", name, "path",
                                               json_sprintf(".aiflow/%s", path), "updated_at", is_there ? time : NULL));
    }
    *ret = page_sorted(call, "flows", flows, flow_page_key);
    return 0;
}

const struct op op_flow_list = {
    NAMES("flow.list", "flow", "list"),
    .summary = "List the flows in .aiflow/flows/.",
    .examples = "tasuki flow list",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(PAGE_PARAMS),
    .result =
        FIELDS({"flows", "array", "by name: name path updated_at (null: the file cannot be looked at)"}, PAGE_FIELDS),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/flows"),
    .mcp.absent = "agents list the directory",
    .run = run_list,
};

/* ---- show ---- */

static json_t *names_of_tasks(const struct flow *flow)
{
    json_t *names = json_array();
    for (uint32_t i = 0; i < flow->tasks.count; i++)
        json_array_append_new(names, json_string(flow_string(flow, flow_task(flow, i)->name)));
    return names;
}

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    struct run_lock lock = {.kind = TSK_LOCK_NAME};
    struct tsk_error ignored; /* a pipe has no lock */
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    if (call->ws)
        run_lock_of_flow(call->ws, &file.flow, file.real_path, &lock, &ignored);
    *ret =
        json_pack("{s:s, s:s?, s:b, s:o, s:o}", "source", file.path, "name", file.flow.name, "exclusive",
                  (int)(lock.id[0] || file.flow.exclusive == EXCLUSIVE_ALWAYS), "params",
                  file.flow.params ? json_incref(file.flow.params) : json_array(), "tasks", names_of_tasks(&file.flow));
    flow_file_clear(&file);
    return 0;
}

const struct op op_flow_show = {
    NAMES("flow.show", "flow", "show"),
    .summary = "Show the parameters of a flow, with their defaults and choices, and its tasks.",
    .examples = "tasuki flow show deploy  # .aiflow/flows/deploy.yaml",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = PARAMS(FLOW_PARAM),
    .result = FIELDS({"source", "string", "the file"}, {"name", "string?", "the flow's name"},
                     {"exclusive", "boolean", "it has at most one active run"},
                     {"params", "array", "name variable default choices help"}, {"tasks", "array", "names"}),
    .errors = ERRORS(TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_INVALID_INPUT),
    .http = ROUTE("GET", "/api/flows/:flow"),
    .mcp = TOOL("flow_show", "requests",
                .text = "Show the parameters of a flow, with their defaults and choices, and its tasks. It changes "
                        "nothing."),
    .run = run_show,
};

/* ---- validate ---- */

static int run_validate(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    *ret = json_pack("{s:b, s:s, s:s?, s:I, s:I, s:I}", "valid", true, "source", file.path, "name", file.flow.name,
                     "tasks", (json_int_t)file.flow.tasks.count, "groups", (json_int_t)file.flow.graph.groups.count,
                     "edges", (json_int_t)file.flow.graph.edge_count);
    call->says = "flow_valid";
    flow_file_clear(&file);
    return 0;
}

const struct op op_flow_validate = {
    NAMES("flow.validate", "flow", "validate"),
    .summary = "Check a flow file without running anything; all problems are reported at once, each with its position.",
    .examples = "tasuki flow validate build.yaml",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = PARAMS(FLOW_PARAM),
    .result = FIELDS({"valid", "boolean", "true; otherwise it is an error with all problems"},
                     {"source", "string", "the file"}, {"name", "string?", "the flow's name"}, {"tasks", "integer", ""},
                     {"groups", "integer", ""}, {"edges", "integer", ""}),
    .errors = ERRORS(TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_INVALID_INPUT),
    .http = ROUTE("POST", "/api/flows/validate"),
    .mcp = TOOL("flow_validate", "requests"),
    .run = run_validate,
};
