/* op_run_answer.c - answer: what a task has asked, and the run goes on. */
#include "ops/detached.h"
#include "ops/run_args.h"
#include "ops/run_owner.h"
#include "ops/table.h"
#include "ops/tool_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_WAIT_MS 5000 /* for somebody who has the request's lock only for a moment */

static json_t *option_at(const json_t *options, int64_t number)
{
    return number < 1 ? NULL : json_array_get(options, (size_t)number - 1);
}

/* The option with that text; borrowed, NULL: none. */
static json_t *option_of(const json_t *options, const char *text, size_t len)
{
    size_t i;
    json_t *option;
    json_array_foreach (options, i, option)
        if (json_string_length(option) == len && memcmp(json_string_value(option), text, len) == 0)
            return option;
    return NULL;
}

static bool has_option(const json_t *list, const json_t *option)
{
    return option_of(list, json_string_value(option), json_string_length(option)) != NULL;
}

/* Several options, with commas between them: their texts or their numbers. */
static int options_make(const json_t *options, const char *text, json_t **ret, struct tsk_error *err)
{
    json_t *list CLEANUP_JSON = json_array();
    for (;;) {
        size_t len = strcspn(text, ",");
        char *end;
        json_t *option = option_of(options, text, len);
        if (!option && len && strspn(text, "0123456789") == len)
            option = option_at(options, strtoll(text, &end, 10));
        if (!option)
            return error_set(err, TSK_INVALID_INPUT, "answer_option", NULL);
        if (!has_option(list, option)) /* chosen twice is chosen */
            json_array_append(list, option);
        if (!text[len])
            break;
        text += len + 1;
    }
    *ret = json_incref(list);
    return 0;
}

/* The answer from the arguments, fitting the question's type. */
static int answer_make(struct op_call *call, const json_t *question, json_t **ret, struct tsk_error *err)
{
    const char *text = json_get_string(call->args, "text", NULL), *type = json_get_string(question, "type", "text");
    bool is_yes = json_get_bool(call->args, "yes", false), is_no = json_get_bool(call->args, "no", false);
    const json_t *options = json_object_get(question, "options"), *chosen = json_object_get(call->args, "choose");
    if ((text != NULL) + is_yes + is_no + (chosen != NULL) != 1)
        return error_set(err, TSK_INVALID_INPUT, "answer_one", NULL);
    if (!question)
        return 0; /* runner_answer says which there are, or none */
    if (strcmp(type, "approval") == 0) {
        if (!is_yes && !is_no)
            return error_set(err, TSK_INVALID_INPUT, "answer_approval", NULL);
        *ret = json_boolean(is_yes);
        return 0;
    }
    if (strcmp(type, "text") == 0) {
        if (!text)
            return error_set(err, TSK_INVALID_INPUT, "answer_text", NULL);
        *ret = json_string(text);
        return 0;
    }
    bool is_multi = strcmp(type, "multi_selection") == 0;
    if (text && is_multi)
        return options_make(options, text, ret, err);
    json_t *option = text ? option_of(options, text, strlen(text)) : option_at(options, json_integer_value(chosen));
    if (!option)
        return error_set(err, TSK_INVALID_INPUT, text || !chosen ? "answer_option" : "answer_choice", NULL);
    *ret = is_multi ? json_pack("[O]", option) : json_incref(option);
    return 0;
}

/* NULL: there is none, or several. */
static const json_t *question_of(const struct runner *runner, const char *task)
{
    const char *number;
    json_t *question, *found = NULL;
    json_object_foreach (runner->questions, number, question)
        if (!task || runner_is_asked_by(runner, question, task)) {
            if (found)
                return NULL;
            found = question;
        }
    return json_object_get(found, "question");
}

/* Somebody executes the run. Whether a question has no answer yet the journal says; one that cannot be read refuses nothing. */
static int refuse_unasked(const struct rundir *run, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *records CLEANUP_JSON = NULL, *record;
    int64_t open = 0;
    size_t i;
    if (journal_read(run->dir, &records, &ignored) < 0)
        return 0;
    json_array_foreach (records, i, record) {
        const char *event = json_get_string(record, "e", "");
        open += (strcmp(event, "ask") == 0) - (strcmp(event, "answer") == 0);
    }
    return open > 0 ? 0 : rundir_refuse_answer(run->id, records, err);
}

/* What a look can refuse: a run that goes on because of an answer, and one that was given up. */
static int look_first(struct op_call *call, struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    int result = rundir_look(&run, &stage, err);
    const char *status = json_get_string(stage, "status", "");
    if (result == 0 && strcmp(status, "CANCELLED") == 0)
        result = error_set(err, TSK_CONFLICT, "answer_cancelled", "run", run.id, "run_id", run.id, NULL);
    else if (result == 0 && rundir_has_runner(&run))
        result = refuse_unasked(&run, err);
    if (result < 0 && (err->code == TSK_CONFLICT || err->code == TSK_ALREADY_ANSWERED))
        error_add_next(err, "tasuki runs show %s", run.id);
    rundir_clear(&run);
    return result;
}

/* Without a second look a second answer would be taken for the first. Nobody executes the run: if it has not ended, it can go on. */
static int refuse_second(const struct runner *runner, struct tsk_error *err)
{
    if (json_object_size(runner->questions))
        return 0;
    error_set(err, TSK_ALREADY_ANSWERED, "answered_already", "run", runner->run.id, "run_id", runner->run.id, NULL);
    error_add_next(err, "tasuki resume %s", runner->run.id);
    return -1;
}

/* The run's byte is ours. From here on the run waits for no answer: every reader finds a run that can continue instead of the
 * question, whether or not a runner continues it. */
static int publish_answered(struct runner *runner, struct tsk_error *err)
{
    json_t *stage CLEANUP_JSON = runner_stage(runner);
    json_object_set_new(stage, "runner", json_null());
    json_object_set_new(stage, "answered", json_true()); /* S9 */
    if (rundir_write_stage(&runner->run, stage, err) == 0)
        return 0;
    error_add(err, "answer", "recorded"); /* the journal has it */
    error_add_next(err, "tasuki resume %s", runner->run.id);
    return -1;
}

static int record_answer(struct op_call *call, struct runner *runner, json_t **ret_answer, struct tsk_error *err)
{
    const char *task = json_get_string(call->args, "task", NULL);
    if (refuse_second(runner, err) < 0 || answer_make(call, question_of(runner, task), ret_answer, err) < 0 ||
        runner_answer(runner, task, *ret_answer, err) < 0)
        return -1;
    task = task && strrchr(task, '/') ? strrchr(task, '/') + 1 : task;
    runner_fact(runner, "run.answered", runner->run.id, task, json_pack("{s:O}", "answer", *ret_answer), true);
    return publish_answered(runner, err);
}

/* Somebody else goes on with this very run, or has done so, and has taken its byte after we let it go: with our answer. */
static bool goes_on_already(const char *run, const struct tsk_error *err)
{
    char by[LOCK_ID_MAX];
    const char *named = tsk_error_context(err, "run");
    if (start_was_answer_used(err))
        return true;
    return err->code == TSK_RUN_IN_PROGRESS &&
           ((start_refused_by(err, by) && strcmp(by, run) == 0) || (named && strcmp(named, run) == 0));
}

/* The answer is recorded; the runner that continues the run takes its locks again. */
static int go_on(struct op_call *call, const struct run_owner *owner, const char *run, json_t *answer, json_t **ret,
                 struct tsk_error *err)
{
    bool waits = json_get_bool(call->args, "wait", false);
    json_t *args CLEANUP_JSON =
        json_pack("{s:s, s:b, s:i}", "run", run, "answered", true, "lock_wait_ms", LOCK_WAIT_MS);
    json_t *begun = NULL;
    run_owner_pass(owner, args);
    int result = op_run_apart_as(call, "resume", args, waits, waits ? ret : &begun, err);
    if (result < 0 && goes_on_already(run, err))
        result = waits ? op_follow(call, run, ret, err) : 0;
    if (result < 0) {
        error_add(err, "answer", "recorded");
        if (err->code != TSK_CONFLICT || strcmp(err->text ? err->text : "", "max_runs_reached") == 0)
            error_add_next(err, "tasuki resume %s", run);
        return -1;
    }
    if (waits)
        return 0;
    json_decref(begun);
    call->verdict = TSK_OK;
    *ret = json_pack("{s:s, s:O, s:s}", "run_id", run, "answer", answer, "status", "RUNNING");
    return 0;
}

static int run_answer(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct runner runner;
    struct flow flow;
    struct buf text;
    struct runner_options options = {.is_answer = true};
    json_t *answer CLEANUP_JSON = NULL;
    char run[RUN_ID_MAX];
    struct run_owner owner;
    if (look_first(call, err) < 0 || run_owner_of_run(call, json_get_string(call->args, "run", ""), &owner, err) < 0)
        return -1;
    int result = runner_resume(&runner, call->ws, json_get_string(call->args, "run", ""), &flow, &text, call->lang,
                               &options, err);
    if (result == 0)
        result = record_answer(call, &runner, &answer, err);
    snprintf(run, sizeof run, "%s", runner.run.id);
    runner_close(&runner);
    if (runner.flow)
        flow_clear(&flow);
    buf_clear(&text);
    return result < 0 ? -1 : go_on(call, &owner, run, answer, ret, err);
}

static const struct op_param params[] = {
    RUN_ID_PARAM,
    {.name = "text",
     .type = OP_STRING,
     .flags = OP_POSITIONAL,
     .value = "TEXT",
     .help = "The answer to a text question; or options, with commas, for a multi_selection.",
     .max = 1 << 20},
    {.name = "yes", .type = OP_BOOL, .help = "Yes, for an approval."},
    {.name = "no", .type = OP_BOOL, .help = "No, for an approval."},
    {.name = "choose",
     .type = OP_INT,
     .value = "N",
     .help = "The N-th option, for a selection.",
     .min = 1,
     .max = 10000},
    {.name = "task",
     .type = OP_STRING,
     .value = "TASK",
     .help = "Whose question, if several are open: a task, or BRANCH/TASK if its copies ask in several branches.",
     .agent_help = "Whose question, if several are open.",
     .max = 512},
    {.name = "wait", .type = OP_BOOL, .help = "Follow the run until it has ended or asks again."},
    OWN_INSTANCE_PARAM,
    {0},
};
static const struct op_field result_fields[] = {{"run_id", "string", ""},
                                                {"answer", "string?", "as it was recorded"},
                                                {"status", "string", "RUNNING; with wait the run's own"},
                                                {0}};
static const enum tsk_code errors[] = {TSK_UL_WORKFLOW_NOT_OWNED,
                                       TSK_RUN_NOT_FOUND,
                                       TSK_RUN_IN_PROGRESS,
                                       TSK_ALREADY_ANSWERED,
                                       TSK_NOT_FOUND,
                                       TSK_INVALID_INPUT,
                                       TSK_NEEDS_INPUT,
                                       TSK_CONFLICT,
                                       TSK_RUN_FAILED,
                                       TSK_ENVIRONMENT,
                                       TSK_DOCTOR_FAILED,
                                       TSK_LOCK_LOST,
                                       TSK_OK};

const struct op op_answer = {
    .name = "answer",
    .verb = "answer",
    .summary = "Answer what a run asks; it goes on where it was.",
    .detail = "The answer is recorded first; a second one is refused. Then the run goes on by itself; --wait follows "
              "it.",
    .examples = "tasuki answer RUN-20260207T223000-1a2b3c --yes --wait",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = params,
    .result = result_fields,
    .errors = errors,
    .http = {.method = "POST", .path = "/api/runs/:run/answer"},
    .mcp = {.tool = "run_answer", .group = "requests", .is_core = true, TOOL_RUN_ANSWER},
    .run = run_answer,
};
