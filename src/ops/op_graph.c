/* op_graph.c - a flow as a picture. */
#include "graph/render.h"
#include "ops/flow_args.h"
#include "ops/table.h"

#include <string.h>

static int run_graph(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const char *format = json_get_string(call->args, "format", "ascii");
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    const char *title = file.flow.name ? file.flow.name : "flow";
    if (strcmp(format, "mermaid") == 0)
        render_mermaid(&file.flow.graph, title, &text);
    else if (strcmp(format, "dot") == 0)
        render_dot(&file.flow.graph, title, &text);
    else if (strcmp(format, "svg") == 0)
        render_svg(&file.flow.graph, title, &text);
    else
        render_ascii(&file.flow.graph, &text);
    flow_file_clear(&file);
    if (text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    *ret = json_pack("{s:s, s:s}", "format", format, "text", buf_str(&text));
    return 0;
}

static const char *const formats[] = {"ascii", "mermaid", "dot", "svg", NULL};
static const struct op_param params[] = {
    FLOW_PARAM,
    {.name = "format",
     .type = OP_ENUM,
     .value = "F",
     .help = "ascii, mermaid, dot or svg.",
     .choices = formats,
     .fallback = "ascii"},
    {0},
};
static const struct op_field result[] = {{"format", "string", ""}, {"text", "string", "the picture"}, {0}};
static const enum tsk_code errors[] = {TSK_FLOW_INVALID,  TSK_NOT_FOUND,         TSK_ENVIRONMENT,
                                       TSK_INVALID_INPUT, TSK_PAYLOAD_TOO_LARGE, TSK_OK};

const struct op op_graph = {
    .name = "graph",
    .verb = "graph",
    .summary = "Draw a flow: tasks, groups with fork and join, and what waits for what.",
    .examples = "tasuki graph build.yaml  # on the terminal\n"
                "tasuki graph build.yaml --format svg >build.svg",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = params,
    .result = result,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/flows/graph"},
    .mcp.absent = "agents read the flow file itself",
    .run = run_graph,
};
