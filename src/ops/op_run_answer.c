/* op_run_answer.c - answer: what a task has asked, and the run goes on. */
#include "base/fs.h"
#include "ops/run_args.h"
#include "ops/table.h"
#include "ops/tool_texts.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const json_t *question_of(const struct runner *runner, const char *task)
{
    const char *number;
    json_t *question;
    json_object_foreach (runner->questions, number, question)
        if (!task || strcmp(json_get_string(question, "task", ""), task) == 0)
            return json_object_get(question, "question");
    return NULL;
}

/* The run goes on without us: in a session of its own, its words in runner.log. */
static int go_on_detached(struct op_call *call, const struct rundir *run, struct tsk_error *err)
{
    int log CLEANUP_FD = fs->openat(run->dir, "runner.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char *argv[] = {"tasuki", "--root", call->ws->root, "--quiet", "resume", (char *)run->id, NULL};
    struct spawn_fd fds[] = {{-1, 0}, {log, 1}, {log, 2}};
    struct spawn spawn = {.path = "/proc/self/exe", .argv = argv, .fds = fds, .fd_count = 3, .new_session = true};
    if (log < 0 || spawn_run(&spawn) < 0)
        return error_errno(err, "start", "runner");
    close(spawn.pidfd);
    return 0;
}

/* Without a second look a second answer would be taken for the first. */
static int refuse_second(const struct runner *runner, struct tsk_error *err)
{
    if (json_object_size(runner->questions))
        return 0;
    return error_set(err, TSK_ALREADY_ANSWERED, "no_question", "run", runner->run.id, NULL);
}

static int answer_and_go_on(struct op_call *call, struct runner *runner, json_t **ret, struct tsk_error *err)
{
    const char *task = json_get_string(call->args, "task", NULL);
    json_t *answer CLEANUP_JSON = NULL;
    if (refuse_second(runner, err) < 0 || answer_make(call, question_of(runner, task), &answer, err) < 0 ||
        runner_answer(runner, task, answer, err) < 0)
        return -1;
    runner_fact(runner, "run.answered", runner->run.id, task, json_pack("{s:O}", "answer", answer), true);
    if (json_get_bool(call->args, "wait", false))
        return run_execute(call, runner, ret, err);
    *ret = json_pack("{s:s, s:O, s:s}", "run_id", runner->run.id, "answer", answer, "status", "RUNNING");
    return 0;
}

static int run_answer(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct runner runner;
    struct flow flow;
    struct buf text;
    struct runner_options options = run_options(call);
    bool waits = json_get_bool(call->args, "wait", false);
    struct rundir place = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    options.is_answer = true;
    if (!waits)
        options.tell = NULL;
    int result = runner_resume(&runner, call->ws, json_get_string(call->args, "run", ""), &flow, &text, call->lang,
                               &options, err);
    if (result == 0)
        result = answer_and_go_on(call, &runner, ret, err);
    if (result == 0 && !waits)
        result = rundir_open(call->ws, runner.run.id, &place, err);
    runner_close(&runner);
    if (result == 0 && !waits)
        result = go_on_detached(call, &place, err);
    rundir_clear(&place);
    if (runner.flow)
        flow_clear(&flow);
    buf_clear(&text);
    return result;
}

static const struct op_param params[] = {
    RUN_ID_PARAM,
    {.name = "text",
     .type = OP_STRING,
     .flags = OP_POSITIONAL,
     .value = "TEXT",
     .help =
         "The answer, for a question that wants a text; or options with commas between them, for a multi_selection.",
     .max = 1 << 20},
    {.name = "yes", .type = OP_BOOL, .help = "Yes, for an approval."},
    {.name = "no", .type = OP_BOOL, .help = "No, for an approval."},
    {.name = "choose",
     .type = OP_INT,
     .value = "N",
     .help = "The N-th option, for a selection.",
     .min = 1,
     .max = 10000},
    {.name = "task", .type = OP_ID, .value = "TASK", .help = "Whose question, if several are open."},
    {.name = "wait", .type = OP_BOOL, .help = "Follow the run until it has ended or asks again."},
    {0},
};
static const struct op_field result_fields[] = {{"run_id", "string", ""},
                                                {"answer", "string?", "as it was recorded"},
                                                {"status", "string", "RUNNING; with wait the run's own"},
                                                {0}};
static const enum tsk_code errors[] = {TSK_RUN_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_ALREADY_ANSWERED,
                                       TSK_NOT_FOUND,     TSK_INVALID_INPUT,   TSK_NEEDS_INPUT,
                                       TSK_RUN_FAILED,    TSK_ENVIRONMENT,     TSK_OK};

const struct op op_answer = {
    .name = "answer",
    .verb = "answer",
    .summary = "Answer what a run asks; it goes on where it was.",
    .detail = "The answer is recorded first; a second one is refused. Then the run goes on in the background, or here "
              "with --wait.",
    .examples = "tasuki answer RUN-20260207T223000-1a2b3c --yes --wait",
    .flags = OP_STREAMS,
    .params = params,
    .result = result_fields,
    .errors = errors,
    .http = {.method = "POST", .path = "/api/runs/:run/answer"},
    .mcp = {.tool = "run_answer", .group = "requests", .is_core = true, TOOL_RUN_ANSWER},
    .run = run_answer,
};
