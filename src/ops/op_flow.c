/* op_flow.c - flow list, flow validate. */
#include "base/fs.h"
#include "base/ident.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/page.h"

#include <dirent.h>
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

static void list_key(const json_t *flow, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_get_string(flow, "name", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct dirent **files = NULL;
    int count = scandirat(call->ws->state_dir, "flows", &files, NULL, NULL);
    if (count < 0 && errno != ENOENT)
        return fs_error(err, "read", call->ws->state_dir, "flows");
    json_t *flows CLEANUP_JSON = json_array();
    for (int i = 0; i < count; i++) {
        char name[256], path[300], time[TIME_TEXT_MAX];
        struct stat st;
        snprintf(path, sizeof path, "flows/%s", files[i]->d_name);
        if (is_flow(files[i]->d_name, name) && fs->fstatat(call->ws->state_dir, path, &st, 0) == 0 &&
            S_ISREG(st.st_mode)) {
            time_format_local(st.st_mtim.tv_sec * INT64_C(1000) + st.st_mtim.tv_nsec / 1000000, time);
            json_array_append_new(flows, json_pack("{s:s, s:o, s:s}", "name", name, "path",
                                                   json_sprintf(".aiflow/%s", path), "updated_at", time));
        }
        free(files[i]);
    }
    free(files);
    *ret = page_sorted(call, "flows", flows, list_key);
    return 0;
}

static const struct op_param list_params[] = {PAGE_PARAMS, {0}};
static const struct op_field list_result[] = {{"flows", "array", "by name: name path updated_at"}, PAGE_FIELDS, {0}};
static const enum tsk_code list_errors[] = {TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_OK};

const struct op op_flow_list = {
    .name = "flow.list",
    .noun = "flow",
    .verb = "list",
    .summary = "List the flows in .aiflow/flows/.",
    .examples = "tasuki flow list",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = list_params,
    .result = list_result,
    .errors = list_errors,
    .http = {.method = "GET", .path = "/api/flows"},
    .mcp.absent = "agents list the directory",
    .run = run_list,
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
    flow_file_clear(&file);
    return 0;
}

static const struct op_param params[] = {FLOW_PARAM, {0}};
static const struct op_field result[] = {{"valid", "boolean", "true; otherwise it is an error with all problems"},
                                         {"source", "string", "the file"},
                                         {"name", "string?", "the flow's name"},
                                         {"tasks", "integer", ""},
                                         {"groups", "integer", ""},
                                         {"edges", "integer", ""},
                                         {0}};
static const enum tsk_code errors[] = {TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_INVALID_INPUT, TSK_OK};

const struct op op_flow_validate = {
    .name = "flow.validate",
    .noun = "flow",
    .verb = "validate",
    .summary = "Check a flow file without running anything; all problems are reported at once, each with its position.",
    .examples = "tasuki flow validate build.yaml",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = params,
    .result = result,
    .errors = errors,
    .http = {.method = "POST", .path = "/api/flows/validate"},
    .mcp = {.tool = "flow_validate", .group = "requests"},
    .run = run_validate,
};
