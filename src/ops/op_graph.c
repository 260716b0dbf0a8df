/* op_graph.c - a flow as a picture. */
#include "graph/render.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/run_args.h"

#include <string.h>

static int draw(struct op_call *call, struct flow_file *file_take, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const struct flow *flow = &file_take->flow;
    const char *format = json_get_string(call->args, "format", "ascii"), *title = flow->name ? flow->name : "flow";
    if (strcmp(format, "mermaid") == 0)
        render_mermaid(&flow->graph, title, &text);
    else if (strcmp(format, "dot") == 0)
        render_dot(&flow->graph, title, &text);
    else if (strcmp(format, "svg") == 0)
        render_svg(&flow->graph, title, &text);
    else
        render_ascii(&flow->graph, &text);
    flow_file_clear(file_take);
    if (text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    *ret = json_pack("{s:s, s:s}", "format", format, "text", buf_str(&text));
    return 0;
}

static int run_graph(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    return flow_args_load(call, &file, err) < 0 ? -1 : draw(call, &file, ret, err);
}

/* As the flow was when the run began. */
static int run_runs_graph(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct flow_file file;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    return flow_args_load_at(call, run.dir, "flow.yaml", &file, err) < 0 ? -1 : draw(call, &file, ret, err);
}

static const char *const formats[] = {"ascii", "mermaid", "dot", "svg", NULL};
#define FORMAT_PARAM                                                                                                   \
    {                                                                                                                  \
        .name = "format", .type = OP_ENUM, .value = "F", .help = "ascii, mermaid, dot or svg.", .choices = formats,    \
        .fallback = "ascii"                                                                                            \
    }
static const struct op_param params[] = {FLOW_PARAM, FORMAT_PARAM, {0}};
static const struct op_param runs_params[] = {RUN_ID_PARAM, FORMAT_PARAM, {0}};
static const struct op_field result[] = {{"format", "string", ""}, {"text", "string", "the picture"}, {0}};
static const enum tsk_code errors[] = {TSK_FLOW_INVALID,  TSK_NOT_FOUND,         TSK_ENVIRONMENT,
                                       TSK_INVALID_INPUT, TSK_PAYLOAD_TOO_LARGE, TSK_OK};

static const enum tsk_code runs_errors[] = {TSK_RUN_NOT_FOUND,
                                            TSK_INVALID_INPUT,
                                            TSK_FLOW_INVALID,
                                            TSK_ENVIRONMENT,
                                            TSK_PAYLOAD_TOO_LARGE,
                                            TSK_NOT_FOUND,
                                            TSK_OK};

const struct op op_runs_graph = {
    .name = "runs.graph",
    .noun = "runs",
    .verb = "graph",
    .summary = "Draw the flow of a run, as it was when the run began.",
    .examples = "tasuki runs graph RUN-20260207T223000-1a2b3c --format mermaid",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = runs_params,
    .result = result,
    .errors = runs_errors,
    .http = {.method = "GET", .path = "/api/runs/:run/graph"},
    .mcp.absent = "run_show has the tasks and their states",
    .run = run_runs_graph,
};

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
