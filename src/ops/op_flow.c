/* op_flow.c - flow validate. */
#include "ops/flow_args.h"
#include "ops/table.h"

static int run_validate(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    *ret = json_pack("{s:b, s:s, s:s?, s:I, s:I, s:I}", "valid", true, "source", file.path, "name", file.flow.name,
                     "tasks", (json_int_t)file.flow.tasks.count, "groups", (json_int_t)file.flow.graph.groups.count,
                     "edges", (json_int_t)file.flow.graph.edges.count);
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
    .summary = "Check a flow file without running anything; all problems are told at once, each with its place.",
    .examples = "tasuki flow validate build.yaml",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = params,
    .result = result,
    .errors = errors,
    .http = {.method = "POST", .path = "/api/flows/validate"},
    .mcp = {.tool = "flow_validate", .group = "requests"},
    .run = run_validate,
};
