/* op_graph.c - a flow as a picture. */
#include "base/utf8.h"
#include "base/word.h"
#include "graph/journal.h"
#include "graph/render.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/run_args.h"

#include <stdio.h>
#include <string.h>

enum { COMMAND_SHOWN = 1000 };

/* What each task executes, by its name, as a shell takes it; the beginning of a long one. */
static json_t *commands_of(const struct flow *flow)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    json_t *commands = json_object();
    char shown[COMMAND_SHOWN];
    for (uint32_t i = 0; i < flow->tasks.count; i++) {
        const struct flow_task *task = flow_task(flow, i);
        const char *text = flow_string(flow, task->run);
        if (!task->has_run || !text)
            continue;
        buf_reset(&line);
        for (uint32_t k = 0; k < task->run_count; k++, text += strlen(text) + 1)
            buf_printf(&line, "%s%s", k > 0 ? " " : "", task->is_shell ? text : shell_word(&word, text));
        utf8_copy(shown, sizeof shown, buf_str(&line));
        json_object_set_new(commands, flow_string(flow, task->name), json_string(shown));
    }
    return commands;
}

/* Counts a jump in `jumps`, under a key for both tasks: names have no slash. */
static void jump_count(json_t *jumps, const char *from, const char *to)
{
    char key[2 * GRAPH_NAME_MAX];
    snprintf(key, sizeof key, "%s/%s", from, to);
    json_t *jump = json_object_get(jumps, key);
    if (jump)
        json_object_set_new(jump, "count", json_integer((json_int_t)json_get_int(jump, "count", 0) + 1));
    else
        json_object_set_new(jumps, key, json_pack("{s:s, s:s, s:i}", "from", from, "to", to, "count", 1));
}

/* What one end of a task asked for: `again` and `next` are jumps, `spawn` adds a task. */
static void taken_add(json_t *jumps, json_t *spawned, const json_t *record)
{
    const char *by = json_get_string(record, "k", "");
    json_each (json_object_get(record, "r"), i, request) {
        const char *what = json_get_string(request, "do", ""), *task = json_get_string(request, "task", by);
        if (strcmp(what, "again") == 0 || strcmp(what, "next") == 0 || strcmp(what, "goto") == 0)
            jump_count(jumps, by, what[0] == 'a' ? by : task);
        else if (strcmp(what, "spawn") == 0)
            json_object_set_new(spawned, task, json_pack("{s:s, s:s}", "task", task, "by", by));
    }
}

static json_t *members_listed(json_t *object)
{
    json_t *list = json_array();
    json_each_pair (object, key, value)
        json_array_append(list, value);
    return list;
}

/* What the run added to its flow: jumps that were taken, tasks that were spawned. */
static int graph_add_taken(json_t *graph, int run_dir, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL, *jumps CLEANUP_JSON = json_object(), *spawned CLEANUP_JSON = json_object();
    if (journal_read(run_dir, &records, err) < 0)
        return -1;
    json_each (records, i, record)
        if (json_text_is(record, "e", "end") && json_text_is(record, "o", "ok"))
            taken_add(jumps, spawned, record);
    json_object_set_new(graph, "jumps", members_listed(jumps));
    json_object_set_new(graph, "spawned", members_listed(spawned));
    return 0;
}

/* A run has one session for each scope (session_fork). */
static void scope_add_session(json_t *scope, json_t *id_take)
{
    json_object_set_new(scope, "session_id", id_take);
    json_each (json_object_get(scope, "nodes"), i, node)
        json_each (json_object_get(json_object_get(node, "group"), "branches"), j, branch)
            scope_add_session(branch,
                              json_sprintf("%s_%s", json_string_value(id_take), json_get_string(branch, "name", "")));
}

static int graph_draw(struct op_call *call, struct flow_file *file_take, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const struct flow *flow = &file_take->flow;
    const char *format = json_get_string(call->args, "format", "ascii"), *title = flow->name ? flow->name : "flow";
    json_t *graph CLEANUP_JSON = NULL;
    if (strcmp(format, "json") == 0) {
        graph = render_json(&flow->graph, title);
        json_object_set_new(graph, "commands", commands_of(flow));
    } else if (strcmp(format, "mermaid") == 0)
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
    *ret = graph ? json_pack("{s:s, s:O}", "format", format, "graph", graph)
                 : json_pack("{s:s, s:s}", "format", format, "text", buf_str(&text));
    return 0;
}

static int run_graph(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    return flow_args_load(call, &file, err) < 0 ? -1 : graph_draw(call, &file, ret, err);
}

/* As the flow was when the run began, and in JSON what the run added to it. */
static int run_runs_graph(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run CLEANUP(rundir_clear) = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct flow_file file;
    struct stat st;
    if (rundir_open_to_look(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    if (fs->fstatat(run.dir, "flow.yaml", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return rundir_flow_error(&run, "open", err);
    if (flow_args_load_at(call, run.dir, "flow.yaml", &file, err) < 0 || graph_draw(call, &file, ret, err) < 0)
        return -1;
    json_t *graph = json_object_get(*ret, "graph");
    if (!graph)
        return 0;
    scope_add_session(json_object_get(graph, "scope"), json_string(run.id));
    return graph_add_taken(graph, run.dir, err);
}

static const char *const formats[] = {"ascii", "mermaid", "dot", "svg", "json", NULL};
#define FORMAT_PARAM                                                                                                   \
    PARAM("format", OP_ENUM, OP_OPTIONAL, "F", "ascii, mermaid, dot, svg or json.", .fallback = "ascii",               \
          .choices = formats)
static const struct op_field result[] = {{"format", "string", ""},
                                         {"text", "string", "the picture"},
                                         {"graph", "object",
                                          "json: name, scope with nodes and edges (groups nest), commands by task; of "
                                          "a run also the session_id of each scope, jumps and spawned"},
                                         {0}};

const struct op op_runs_graph = {
    NAMES("runs.graph", "runs", "graph"),
    .summary = "Draw the flow of a run, as it was when the run began.",
    .examples = "tasuki runs graph RUN-20260207T223000-1a2b3c --format mermaid",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(RUN_OR_LATEST_PARAM, FORMAT_PARAM),
    .result = result,
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_FLOW_INVALID, TSK_ENVIRONMENT, TSK_PAYLOAD_TOO_LARGE,
                     TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/runs/:run/graph"),
    .mcp.absent = "run_show has the tasks and their states",
    .run = run_runs_graph,
};

const struct op op_graph = {
    NAMES("graph", NULL, "graph"),
    .summary = "Draw a flow: tasks, groups with fork and join, and which task waits for which.",
    .examples = "tasuki graph build.yaml  # on the terminal\n"
                "tasuki graph build.yaml --format svg >build.svg",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_WANTS_WORKSPACE,
    .params = PARAMS(FLOW_PARAM, FORMAT_PARAM),
    .result = result,
    .errors = ERRORS(TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_INVALID_INPUT, TSK_PAYLOAD_TOO_LARGE),
    .http = ROUTE("GET", "/api/flows/graph"),
    .mcp.absent = "agents read the flow file itself",
    .run = run_graph,
};
