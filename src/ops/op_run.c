/* op_run.c - run and resume: a flow in the foreground, or in a runner of its own. */
#include "base/word.h"
#include "doctor/doctor.h"
#include "graph/follow.h"
#include "graph/journal.h"
#include "graph/runner.h"
#include "ops/conflict.h"
#include "ops/detached.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "ops/run_owner.h"
#include "run/after.h"
#include "run/run_log.h"

#include <stdlib.h>
#include <string.h>

const char *const run_output_choices[] = {"live", "grouped", "fail", NULL};

void run_tell(void *data, const json_t *document)
{
    struct op_call *call = data;
    call->emit(call, document);
}

json_t *run_values(const json_t *pairs)
{
    json_t *values = json_object();
    json_each_pair (pairs, key, value)
        json_object_set_new(values, key, output_value(json_string_value(value)));
    return values;
}

/* The channel of a new run of a flow file, and the variables of its parameters. */
static int settle_values(struct op_call *call, const struct flow *flow, json_t *values, json_t **ret_params,
                         struct tsk_error *err)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (flow_params_settle(flow, json_object_get(call->args, "set"), values, ret_params, err) == 0)
        return 0;
    return error_add_next(err, "tasuki flow show %s", shell_word(&word, json_get_string(call->args, "flow", "")));
}

/* The verdict that belongs to a run's status: DONE 0, NEEDS_INPUT 8, everything else 7 with its own code; 4 if its lock was lost. */
static enum tsk_code verdict_of(const json_t *stage)
{
    const char *status = json_get_string(stage, "status", ""), *code = json_get_string(stage, "reason_code", "");
    if (strcmp(status, "DONE") == 0 || strcmp(status, "RUNNING") == 0)
        return TSK_OK;
    if (strcmp(status, "NEEDS_INPUT") == 0)
        return TSK_NEEDS_INPUT;
    if (strcmp(code, tsk_code_name(TSK_LOCK_LOST)) == 0)
        return TSK_LOCK_LOST; /* somebody else has the request */
    for (enum tsk_code c = TSK_OK; c < code_count(); c++)
        if (strcmp(tsk_code_name(c), code) == 0 && code_info(c)->exit_code == 7)
            return c;
    return TSK_RUN_FAILED;
}

void run_judge(struct op_call *call, json_t *stage)
{
    call->verdict = verdict_of(stage);
    run_read_reasons(stage, call->lang);
    run_log_add_failures(call->ws, stage, call->is_brief);
}

struct runner_options run_options(struct op_call *call)
{
    struct runner_options options = {.parallel = json_get_int(call->args, "parallel", 0),
                                     .start = json_get_string(call->args, "start", NULL)};
    if (call->emit && !call->is_quiet) {
        options.tell = run_tell;
        options.tell_data = call;
        options.wants_ticks = call->wants_ticks;
    }
    return options;
}

static bool flow_run_begun(void *data, const json_t *stage)
{
    op_decided(data, stage);
    return true;
}

struct run_start run_start_of(struct op_call *call)
{
    struct runner_options options = run_options(call);
    struct run_start start = {.lang = call->lang,
                              .redis = json_get_string(call->args, "redis", NULL),
                              .is_local = json_is_true(json_object_get(call->args, "local")),
                              .parallel = options.parallel,
                              .tell = options.tell,
                              .tell_data = options.tell_data,
                              .wants_ticks = options.wants_ticks,
                              .examine = doctor_quick};
    if (call->decided) {
        start.begun = flow_run_begun;
        start.begun_data = call;
    }
    return start;
}

/* ---- run ------------------------------------------------------------------------------------------------ */

/* The tasks that are named: one text, or a list of them. Owned; NULL: all. */
static json_t *chosen_tasks(const json_t *args)
{
    json_t *tasks = json_object_get(args, "tasks");
    return json_is_string(tasks) ? json_pack("[O]", tasks) : json_incref(tasks);
}

/* A task that there is not, with the command that was meant: `param` has `meant` instead, if a task is near. */
static int refuse_task(const struct op_call *call, const char *name, const char *near, const char *param, json_t *meant,
                       struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "flow", "");
    struct buf command CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    error_set(err, TSK_INVALID_INPUT, near ? "run_task_unknown_near" : "run_task_unknown", "task", name, "flow", given,
              NULL);
    if (near) {
        error_add(err, "near", near);
        op_put_typed(&command, call, param, meant);
    } else {
        buf_printf(&command, "tasuki flow show %s", shell_word(&word, given));
    }
    return error_add_next(err, "%s", buf_str(&command));
}

static int refuse_chosen(const struct op_call *call, const struct flow *flow, const json_t *only, size_t wrong,
                         struct tsk_error *err)
{
    const char *name = json_string_value(json_array_get(only, wrong)), *near = flow_nearest_task(flow, name);
    json_t *meant CLEANUP_JSON = json_copy((json_t *)only);
    if (near)
        json_array_set_new(meant, wrong, json_string(near));
    return refuse_task(call, name, near, "tasks", meant, err);
}

static int refuse_start(const struct op_call *call, const struct flow *flow, const char *name, struct tsk_error *err)
{
    const char *near = flow_nearest_task(flow, name);
    json_t *meant CLEANUP_JSON = json_string(near ? near : name);
    return refuse_task(call, name, near, "start", meant, err);
}

/* The tasks that the caller has named. */
static int check_chosen(const struct op_call *call, const struct flow *flow, struct tsk_error *err)
{
    json_t *only CLEANUP_JSON = chosen_tasks(call->args);
    const char *start = json_get_string(call->args, "start", NULL);
    if (start && json_array_size(only))
        return error_set(err, TSK_INVALID_INPUT, "start_and_tasks", NULL);
    json_each (only, i, name)
        if (graph_find(&flow->graph, json_string_value(name)) == NO_NODE)
            return refuse_chosen(call, flow, only, i, err);
    return start && graph_find(&flow->graph, start) == NO_NODE ? refuse_start(call, flow, start, err) : 0;
}

/* A byte per node, set for those that are to run; NULL: all are. */
static uint8_t *mark_chosen(const struct op_call *call, const struct graph *graph)
{
    json_t *only CLEANUP_JSON = chosen_tasks(call->args);
    const char *start = json_get_string(call->args, "start", NULL);
    uint8_t *marks = start || json_array_size(only) ? calloc(graph->nodes.count + 1, 1) : NULL;
    BUG(!marks && json_array_size(only));
    if (start)
        graph_follow_out(graph, graph_find(graph, start), marks);
    json_each (only, i, name) {
        uint32_t node = graph_find(graph, json_string_value(name));
        graph_need(graph, &node, 1, marks);
    }
    return marks;
}

static int dry_run(struct op_call *call, struct flow *flow, const json_t *values, json_t **ret, struct tsk_error *err)
{
    struct memory *memory;
    struct memory_limits limits = {0};
    struct claim claim;
    uint8_t *marks = mark_chosen(call, &flow->graph);
    if (memory_new(&flow->graph, "dry-run", values, &limits, NULL, &memory, err) < 0) {
        free(marks);
        return -1;
    }
    json_t *order = json_array();
    while (memory_claim(memory, 0, &claim)) {
        struct completion completion = {.outcome = OUTCOME_OK};
        if ((!marks || marks[claim.node]) && !flow_task_of(flow, claim.node)->never_starts)
            json_array_append_new(order, json_pack("{s:s, s:s}", "task", claim.task, "session_id", claim.session));
        memory_complete(memory, &claim, &completion);
    }
    memory_free(memory);
    free(marks);
    *ret = json_pack("{s:b, s:s, s:o}", "dry_run", true, "source", flow->source, "order", order);
    return 0;
}

/* Somebody else may run it now: only one at a time, unless the flow or the caller allows more. */
static int run_begin(struct op_call *call, struct flow_file *file, json_t **ret, struct tsk_error *err)
{
    struct buf again CLEANUP(buf_clear) = BUF_INIT;
    struct run_start start = run_start_of(call);
    json_t *values CLEANUP_JSON = json_object(), *params CLEANUP_JSON = NULL;
    if (settle_values(call, &file->flow, values, &params, err) < 0)
        return -1;
    op_put_typed(&again, call, "on_conflict", NULL);
    start.after = json_get_string(call->args, "after", NULL);
    json_t *only CLEANUP_JSON = chosen_tasks(call->args);
    struct run_flow what = {.flow = &file->flow,
                            .text = buf_str(&file->text),
                            .len = file->text.len,
                            .values = values,
                            .params = params,
                            .start = json_get_string(call->args, "start", NULL),
                            .only = only,
                            .again = buf_str(&again)};
    if (!json_get_bool(call->args, "concurrent", false) &&
        run_lock_of_flow(call->ws, &file->flow, file->real_path, &what.lock, err) < 0)
        return -1;
    if (start_flow(call->ws, &start, &what, ret, err) < 0)
        return -1;
    run_judge(call, *ret);
    return 0;
}

static int run_attempt(struct op_call *call, void *data, json_t **ret, struct tsk_error *err)
{
    if (!op_is_apart(call))
        return run_begin(call, data, ret, err);
    json_t *args CLEANUP_JSON = json_deep_copy(call->args);
    conflict_strip(args);
    return op_run_apart_as(call, call->op->name, args, !call->is_cli, ret, err);
}

/* Its first record; NULL: it is not there yet, or cannot be read. Owned. */
static json_t *first_record_of(struct op_call *call, const char *run_id)
{
    struct rundir run;
    struct tsk_error ignored;
    json_t *records CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, run_id, &run, &ignored) < 0)
        return NULL;
    int result = journal_read(run.dir, &records, &ignored);
    rundir_clear(&run);
    return result < 0 ? NULL : json_incref(json_array_get(records, 0));
}

static bool are_equal_lists(const json_t *one, const json_t *other)
{
    return (json_array_size(one) == 0 && json_array_size(other) == 0) || json_equal(one, other);
}

/* Whether the run has these values, and these tasks. */
static bool has_same_work(struct op_call *call, const struct flow *flow, const json_t *record)
{
    struct tsk_error ignored; /* the next attempt reports it */
    json_t *values CLEANUP_JSON = json_object(), *params CLEANUP_JSON = NULL, *only CLEANUP_JSON = NULL;
    const json_t *set = json_object_get(record, "set");
    const char *start = json_get_string(call->args, "start", "");
    if (settle_values(call, flow, values, &params, &ignored) < 0)
        return true;
    only = chosen_tasks(call->args);
    return (json_object_size(values) + json_object_size(set) == 0 || json_equal(values, set)) &&
           are_equal_lists(only, json_object_get(record, "only")) &&
           strcmp(start, json_get_string(record, "start", "")) == 0;
}

static bool is_same_run(struct op_call *call, void *data, const char *run_id)
{
    struct tsk_error ignored;
    struct flow_file own, *file = data;
    json_t *record CLEANUP_JSON = first_record_of(call, run_id);
    if (!record || (!file && flow_args_load(call, &own, &ignored) < 0))
        return true;
    bool is_same = has_same_work(call, file ? &file->flow : &own.flow, record);
    if (!file)
        flow_file_clear(&own);
    return is_same;
}

static int run_dry(struct op_call *call, struct flow *flow, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = json_object(), *params CLEANUP_JSON = NULL;
    return settle_values(call, flow, values, &params, err) < 0 ? -1 : dry_run(call, flow, values, ret, err);
}

static int run_here(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    int result = check_chosen(call, &file.flow, err);
    if (result == 0)
        result = json_get_bool(call->args, "dry_run", false)
                     ? run_dry(call, &file.flow, ret, err)
                     : conflict_run(call, run_attempt, is_same_run, &file, op_is_apart(call) ? 0 : -1, ret, err);
    flow_file_clear(&file);
    return result;
}

static int run_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    bool has_rule = strcmp(json_get_string(call->args, "on_conflict", "fail"), "fail") != 0;
    if (has_rule && json_get_bool(call->args, "concurrent", false))
        return error_set(err, TSK_INVALID_INPUT, "rule_and_concurrent", NULL);
    bool is_apart = !json_get_bool(call->args, "dry_run", false) && op_is_apart(call);
    if (is_apart && !call->is_cli)
        return conflict_run(call, run_attempt, is_same_run, NULL, REMOTE_WAIT_MAX_MS, ret, err);
    if (is_apart && flow_args_is_stream(call))
        return error_set(err, TSK_INVALID_INPUT, "flow_stdin_detached", NULL);
    return run_here(call, ret,
                    err); /* a command knows all that was typed, for the one that it proposes; its runner does not */
}

static const struct op_field stage_fields[] = {
    {"run_id", "string", ""},
    {"flow", "string?", "the flow's name"},
    {"source", "string?", "its file"},
    {"session_id", "string?", ""},
    {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED"},
    {"started_at", "string?", ""},
    {"ended_at", "string?", ""},
    {"counts", "object", "total done ok skipped failed stopped asking not_reached steps"},
    {"failures", "array", "task session_id exit_code reason log log_from lines"},
    {"questions", "array", "open ones"},
    {"channel", "object?", "the values at the end"},
    {"tasks", "array?", "task state attempt started_at ended_at exit_code"},
    {"started_by", "object?", "the party that started or resumed it: label user program pid host instance note"},
    {"reason_code", "string?", "why it is not DONE"},
    {"attached", "boolean?", "it is a run that was there already"},
    {"pending", "string?", "on_conflict after: status is PENDING, run_id the run that it follows"},
    {"replaced", "boolean?", "with pending: an older one was pending"},
    {"nothing_to_do", "boolean?", "resume: the run is DONE, nothing was changed"},
    {0},
};

const struct op op_run_flow = {
    NAMES("run", NULL, "run"),
    .summary = "Run a flow: tasks in parallel where the flow allows it, each branch in a session of its own.",
    .detail = "Everything is recorded in .aiflow/runs/RUN-…/: the journal, stage.json, a log per task. Ctrl-C ends "
              "the run in good order, a second one at once. `resume` continues a run that was interrupted or has "
              "failed. A flow in .aiflow/flows/, or with `exclusive: true`, runs once at a time. Exit codes: 0 done, "
              "7 failed, 8 a task asks something (answer), 4 it runs already.",
    .examples = "tasuki run build.yaml -j 4  # at most four tasks at a time\n"
                "tasuki run build.yaml test  # only test, and what it needs\n"
                "tasuki run deploy --set env=staging  # .aiflow/flows/deploy.yaml\n"
                "tasuki run build.yaml --output live  # what the tasks print, as they print it\n"
                "tasuki run build.yaml --redis redis://cache.internal  # on the machines where tasuki worker runs\n"
                "tasuki run build.yaml --json  # one JSON document per line, as it happens",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = PARAMS(
        FLOW_PARAM,
        PARAM("tasks", OP_ID, OP_POSITIONAL | OP_MANY, "TASK…", "Only these tasks, and what they need.",
              .agent_help = "Only these.", .completes = "flow-task"),
        RUN_PARALLEL_PARAM, RUN_OUTPUT_PARAM,
        PARAM("set", OP_MAP, OP_OPTIONAL, "K=V",
              "A parameter of the flow, or a value for the channel; repeat for more.", .agent_help = "Parameters.",
              .completes = "flow-param"),
        PARAM("start", OP_ID, OP_OPTIONAL, "TASK", "Begin with this task; earlier ones count as done.",
              .agent_help = "Begin with this task.", .completes = "flow-task"),
        FLAG("dry_run", OP_OPTIONAL, "Only show an order in which the tasks could run.",
             .agent_help = "Only the order."),
        CONFLICT_PARAM,
        FLAG("concurrent", OP_OPTIONAL, "Run it even if it is already running.", .agent_help = "Also a second one."),
        FLAG("yes", OP_CLI_ONLY, "Answer the question of replace with yes."), RUN_REDIS_PARAM, NOTE_PARAM,
        OP_DETACH_PARAM),
    .result = stage_fields,
    .errors = ERRORS(TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_NEEDS_CONFIRMATION, TSK_LOCK_HELD,
                     TSK_LOCK_LOST, TSK_TASK_FAILED, TSK_GROUP_FAILED, TSK_TASK_TIMEOUT, TSK_MAX_STEPS_EXCEEDED,
                     TSK_CYCLE_LIMIT_EXCEEDED, TSK_RUN_FAILED, TSK_NEEDS_INPUT, TSK_STORAGE_FULL, TSK_ENVIRONMENT,
                     TSK_REDIS_UNAVAILABLE, TSK_INVALID_INPUT),
    .http = ROUTE("POST", "/api/flows/run"),
    .mcp = TOOL("flow_run", "requests", .is_core = true, .refusal = "NOT DONE",
                .text = "Run a flow file. NOT DONE says what failed. "
                        "After 45 s the answer is RUNNING; the run outlives this connection."),
    .run = run_run,
};

/* ---- resume --------------------------------------------------------------------------------------------- */

/* The journal is right, whatever stage.json says. */
static bool journal_says_done(int run_dir)
{
    struct tsk_error ignored; /* it is not done, so resume reads the journal, and reports the error */
    json_t *records CLEANUP_JSON = NULL;
    if (journal_read(run_dir, &records, &ignored) < 0 || json_array_size(records) == 0)
        return false;
    const json_t *last = json_array_get(records, json_array_size(records) - 1);
    return json_text_is(last, "e", "done") && json_text_is(last, "status", "DONE");
}

/* A run that is DONE stays as it is: 1, its stage in *ret. One whose last stage was not written any more gets it by continuing,
 * with nothing left to do. */
static int look_done(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run;
    struct tsk_error ignored; /* a stage that cannot be read: the journal decides, in resume */
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, json_get_string(call->args, "run", "@1"), &run, err) < 0)
        return -1;
    json_object_set_new(call->args, "run", json_string(run.id));
    bool is_done = rundir_read_stage(&run, &stage, &ignored) == 0 && json_text_is(stage, "status", "DONE") &&
                   journal_says_done(run.dir);
    rundir_clear(&run);
    if (!is_done)
        return 0;
    json_object_set_new(stage, "nothing_to_do", json_true());
    *ret = json_incref(stage);
    return 1;
}

static int run_resume(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    int is_done = look_done(call, ret, err);
    if (is_done == 1)
        after_start(call->ws, NULL); /* no runner is needed here, but a pending run may need one */
    if (is_done != 0)
        return is_done < 0 ? -1 : 0;
    struct run_owner owner;
    if (run_owner_of_run(call, json_get_string(call->args, "run", ""), &owner, err) < 0)
        return -1;
    bool has_flow = json_object_get(call->args, "flow");
    if (op_is_apart(call)) {
        if (has_flow && call->is_cli && flow_args_is_stream(call))
            return error_set(err, TSK_INVALID_INPUT, "flow_stdin_detached", NULL);
        run_owner_pass(&owner, call->args);
        return op_run_apart(call, ret, err);
    }
    struct flow_file file CLEANUP(flow_file_clear) = {.text = BUF_INIT};
    struct run_start start = run_start_of(call);
    if (has_flow) {
        if (flow_args_load(call, &file, err) < 0)
            return -1;
        start.flow_source = file.path;
        start.flow_text = buf_str(&file.text);
        start.flow_len = file.text.len;
    }
    start.resume = json_get_string(call->args, "run", "");
    start.is_by_hand = true;
    /* From `answer`, which passes no arguments of the table's but its own. */
    start.is_answered = json_get_bool(call->args, "answered", false);
    start.wait_ms = json_get_int(call->args, "lock_wait_ms", 0);
    if (owner.workflow[0]) {
        start.beat = run_owner_beat;
        start.beat_data = &owner;
        start.beat_ms = RUN_OWNER_BEAT_MS;
        run_owner_tell(&owner);
    }
    if (start_again(call->ws, &start, ret, err) < 0)
        return -1;
    run_judge(call, *ret);
    return 0;
}

const struct op op_resume = {
    NAMES("resume", NULL, "resume"),
    .summary = "Continue a run that was interrupted or cancelled, or that failed. Completed tasks do not run again.",
    .detail = "A run keeps the flow that it began with, even if the file has changed since; --flow names another one. "
              "Processes that the run left behind are ended first.",
    .examples = "tasuki resume  # the latest run\n"
                "tasuki resume RUN-20260207T223000-1a2b3c --flow build.yaml  # the file was repaired",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = PARAMS(RUN_OR_LATEST_PARAM,
                     PARAM("flow", OP_PATH, OP_OPTIONAL, "FILE",
                           "Continue with this flow. Completed tasks with an unchanged definition stay completed; all "
                           "other changes are reported first.",
                           .max = 4096, .agent_help = "Continue with this flow file instead of the run's copy."),
                     RUN_PARALLEL_PARAM, RUN_REDIS_PARAM, RUN_OUTPUT_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = stage_fields,
    .errors =
        ERRORS(TSK_UL_WORKFLOW_NOT_OWNED, TSK_FLOW_INVALID, TSK_NOT_FOUND, TSK_RUN_NOT_FOUND, TSK_RUN_IN_PROGRESS,
               TSK_CONFLICT, TSK_LOCK_LOST, TSK_DOCTOR_FAILED, TSK_TASK_FAILED, TSK_GROUP_FAILED, TSK_TASK_TIMEOUT,
               TSK_MAX_STEPS_EXCEEDED, TSK_CYCLE_LIMIT_EXCEEDED, TSK_RUN_FAILED, TSK_NEEDS_INPUT,
               TSK_PROCESS_STOP_FAILED, TSK_STORAGE_FULL, TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE, TSK_INVALID_INPUT),
    .http = ROUTE("POST", "/api/runs/:run/resume"),
    .mcp = TOOL("run_resume", "requests", .refusal = "NOT DONE",
                .text = "Continue a run that was interrupted, cancelled or has failed; completed tasks do not run "
                        "again. Refused while it is running. It outlives this connection, as flow_run does."),
    .run = run_resume,
};
