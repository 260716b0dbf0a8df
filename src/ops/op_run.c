/* op_run.c - run and resume: a flow in the foreground, or in a runner of its own. */
#include "doctor/doctor.h"
#include "graph/journal.h"
#include "graph/runner.h"
#include "ops/detached.h"
#include "ops/flow_args.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "ops/run_owner.h"

#include <string.h>

void run_tell(void *data, const json_t *document)
{
    struct op_call *call = data;
    call->emit(call, document);
}

json_t *run_values(const json_t *pairs)
{
    json_t *values = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)pairs, key, value)
        json_object_set_new(values, key, output_value(json_string_value(value)));
    return values;
}

/* The verdict that belongs to a run's status: DONE 0, NEEDS_INPUT 8, everything else 7 with its own code; 4 if its lock was lost. */
enum tsk_code run_verdict(const json_t *stage)
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

static bool begun(void *data, const json_t *stage)
{
    op_decided(data, stage);
    return true;
}

struct run_start run_start_of(struct op_call *call)
{
    struct runner_options options = run_options(call);
    struct run_start start = {.lang = call->lang,
                              .parallel = options.parallel,
                              .tell = options.tell,
                              .tell_data = options.tell_data,
                              .wants_ticks = options.wants_ticks,
                              .examine = doctor_quick};
    if (call->decided) {
        start.begun = begun;
        start.begun_data = call;
    }
    return start;
}

/* Somebody waits to hear that it has begun: readers shall find it, too. Signals first: from then on we may be told to end. */
static int tell_begun(struct op_call *call, struct runner *runner, struct tsk_error *err)
{
    if (!call->decided)
        return 0;
    if (runner_wait_begin(runner, err) < 0)
        return -1;
    json_t *stage CLEANUP_JSON = runner_stage(runner);
    runner_save_stage(runner);
    op_decided(call, stage);
    return 0;
}

static int execute(struct op_call *call, struct runner *runner, json_t **ret, struct tsk_error *err)
{
    if (tell_begun(call, runner, err) < 0 || runner_execute(runner, ret, err) < 0)
        return -1;
    call->verdict = run_verdict(*ret);
    return 0;
}

/* ---- run ------------------------------------------------------------------------------------------------ */

static int dry_run(struct op_call *call, struct flow *flow, const json_t *values, json_t **ret, struct tsk_error *err)
{
    struct memory *memory;
    struct memory_limits limits = {0};
    struct claim claim;
    (void)call;
    if (memory_new(&flow->graph, "dry-run", values, &limits, NULL, &memory, err) < 0)
        return -1;
    json_t *order = json_array();
    while (memory_claim(memory, 0, &claim)) {
        struct completion completion = {.outcome = OUTCOME_OK};
        json_array_append_new(order, json_pack("{s:s, s:s}", "task", claim.task, "session_id", claim.session));
        memory_complete(memory, &claim, &completion);
    }
    memory_free(memory);
    *ret = json_pack("{s:b, s:s, s:o}", "dry_run", true, "source", flow->source, "order", order);
    return 0;
}

static int run_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct flow_file file;
    struct runner runner;
    bool is_dry = json_get_bool(call->args, "dry_run", false);
    if (!is_dry && op_is_apart(call)) {
        if (call->is_cli && flow_args_is_stream(call))
            return error_set(err, TSK_INVALID_INPUT, "flow_stdin_detached", NULL);
        return op_run_apart(call, ret, err);
    }
    struct runner_options options = run_options(call);
    json_t *values CLEANUP_JSON = run_values(json_object_get(call->args, "set"));
    if (flow_args_load(call, &file, err) < 0)
        return -1;
    int result;
    if (is_dry) {
        result = dry_run(call, &file.flow, values, ret, err);
    } else {
        result = runner_begin(&runner, call->ws, &file.flow, buf_str(&file.text), file.text.len, values, &options, err);
        if (result == 0)
            result = execute(call, &runner, ret, err);
        runner_close(&runner);
    }
    flow_file_clear(&file);
    return result;
}

static const struct op_param run_params[] = {
    FLOW_PARAM,
    RUN_PARALLEL_PARAM,
    {.name = "set",
     .type = OP_MAP,
     .value = "K=V",
     .help = "A value for the channel to begin with; repeat for more.",
     .agent_help = "Values for the channel to begin with."},
    {.name = "start", .type = OP_ID, .value = "TASK", .help = "Begin with this task; earlier ones count as done."},
    {.name = "dry_run", .type = OP_BOOL, .help = "Only say in which order tasks could run."},
    OP_DETACH_PARAM,
    {0},
};
static const struct op_field stage_fields[] = {
    {"run_id", "string", ""},
    {"flow", "string?", "the flow's name"},
    {"source", "string?", "its file"},
    {"session_id", "string?", ""},
    {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED INTERRUPTED"},
    {"started_at", "string?", ""},
    {"ended_at", "string?", ""},
    {"counts", "object", "total done ok skipped failed stopped not_reached steps"},
    {"failures", "array", "task session_id exit_code reason log"},
    {"questions", "array", "open ones"},
    {"channel", "object?", "the values at the end"},
    {"tasks", "array", "task state attempt started_at ended_at exit_code"},
    {"reason_code", "string?", "why it is not DONE"},
    {"nothing_to_do", "boolean?", "resume: the run is DONE, nothing was changed"},
    {0}};
static const enum tsk_code run_errors[] = {TSK_FLOW_INVALID,
                                           TSK_NOT_FOUND,
                                           TSK_TASK_FAILED,
                                           TSK_GROUP_FAILED,
                                           TSK_TASK_TIMEOUT,
                                           TSK_MAX_STEPS_EXCEEDED,
                                           TSK_CYCLE_LIMIT_EXCEEDED,
                                           TSK_RUN_FAILED,
                                           TSK_NEEDS_INPUT,
                                           TSK_STORAGE_FULL,
                                           TSK_ENVIRONMENT,
                                           TSK_INVALID_INPUT,
                                           TSK_OK};

const struct op op_run_flow = {
    .name = "run",
    .verb = "run",
    .summary = "Run a flow: tasks in parallel where the flow allows it, each branch in a session of its own.",
    .detail = "Everything that happens is in .aiflow/runs/RUN-…/: the journal, stage.json, a log per task. Ctrl-C ends "
              "the run in "
              "good order, a second one at once. A run that was interrupted or has failed goes on with resume. Exit "
              "codes: 0 done, "
              "7 failed, 8 a task asks something (answer).",
    .examples = "tasuki run build.yaml -j 4  # at most four tasks at a time\n"
                "tasuki run deploy --set env=staging  # .aiflow/flows/deploy.yaml\n"
                "tasuki run build.yaml --json  # one JSON document per line, as it happens",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = run_params,
    .result = stage_fields,
    .errors = run_errors,
    .http = {.method = "POST", .path = "/api/flows/run"},
    .mcp = {.tool = "flow_run",
            .group = "requests",
            .is_core = true,
            .refusal = "NOT DONE",
            .text = "Run the tasks of a flow file, in parallel where it allows that. NOT DONE says what failed. After "
                    "45 s the answer is RUNNING, and it goes on without this connection."},
    .run = run_run,
};

/* ---- resume --------------------------------------------------------------------------------------------- */

/* The journal is right, whatever stage.json says. */
static bool journal_says_done(int run_dir)
{
    struct tsk_error ignored;
    json_t *records CLEANUP_JSON = NULL;
    if (journal_read(run_dir, &records, &ignored) < 0 || json_array_size(records) == 0)
        return false;
    const json_t *last = json_array_get(records, json_array_size(records) - 1);
    return strcmp(json_get_string(last, "e", ""), "done") == 0 &&
           strcmp(json_get_string(last, "status", ""), "DONE") == 0;
}

/* A run that is DONE stays as it is: 1, its stage in *ret. One whose last stage was not written any more gets it by going on,
 * with nothing left to do. */
static int look_done(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run;
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    bool is_done = rundir_read_stage(&run, &stage, &ignored) == 0 &&
                   strcmp(json_get_string(stage, "status", ""), "DONE") == 0 && journal_says_done(run.dir);
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
    call->verdict = run_verdict(*ret);
    return 0;
}

static const struct op_param resume_params[] = {
    RUN_ID_PARAM,
    {.name = "flow",
     .type = OP_PATH,
     .value = "FILE",
     .help = "Go on with this flow. Completed tasks that it defines as before stay completed; what else changes is "
             "reported first.",
     .agent_help = "Go on with this flow file instead of the run's copy.",
     .max = 4096},
    RUN_PARALLEL_PARAM,
    OP_DETACH_PARAM,
    OWN_INSTANCE_PARAM,
    {0}};
static const enum tsk_code resume_errors[] = {
    TSK_UL_WORKFLOW_NOT_OWNED, TSK_FLOW_INVALID, TSK_NOT_FOUND,     TSK_RUN_NOT_FOUND,
    TSK_RUN_IN_PROGRESS,       TSK_CONFLICT,     TSK_LOCK_LOST,     TSK_DOCTOR_FAILED,
    TSK_TASK_FAILED,           TSK_GROUP_FAILED, TSK_TASK_TIMEOUT,  TSK_MAX_STEPS_EXCEEDED,
    TSK_CYCLE_LIMIT_EXCEEDED,  TSK_RUN_FAILED,   TSK_NEEDS_INPUT,   TSK_PROCESS_STOP_FAILED,
    TSK_STORAGE_FULL,          TSK_ENVIRONMENT,  TSK_INVALID_INPUT, TSK_OK};

const struct op op_resume = {
    .name = "resume",
    .verb = "resume",
    .summary = "Go on with a run that was interrupted, cancelled or has failed; what was completed is not run again.",
    .detail = "The flow is the one that the run began with, even if the file was changed since, unless --flow names "
              "another one. Processes that the run "
              "left behind "
              "are ended first.",
    .examples = "tasuki resume RUN-20260207T223000-1a2b3c\n"
                "tasuki resume RUN-20260207T223000-1a2b3c --flow build.yaml  # the file was repaired",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = resume_params,
    .result = stage_fields,
    .errors = resume_errors,
    .http = {.method = "POST", .path = "/api/runs/:run/resume"},
    .mcp = {.tool = "run_resume",
            .group = "requests",
            .refusal = "NOT DONE",
            .text = "Go on with a run that was interrupted, cancelled or has failed; what was completed is not run "
                    "again. Refused while somebody runs it. It outlives this connection, as flow_run does."},
    .run = run_resume,
};
