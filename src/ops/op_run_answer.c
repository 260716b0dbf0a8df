/* op_run_answer.c - answer: what a task has asked, and the run continues. */
#include "base/clock.h"
#include "base/log.h"
#include "graph/reply.h"
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/run_args.h"
#include "ops/run_owner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_WAIT_MS 5000 /* for somebody who has the request's lock only for a moment */
#define TAKE_MS      5000 /* for a runner to take the answer */
#define TEXT_MAX     (1 << 20)

static json_t *option_at(const json_t *options, int64_t number)
{
    return number < 1 ? NULL : json_array_get(options, (size_t)number - 1);
}

/* The option with that text; borrowed, NULL: none. */
static json_t *option_by_text(const json_t *options, const char *text, size_t len)
{
    json_each (options, i, option)
        if (json_string_length(option) == len && memcmp(json_string_value(option), text, len) == 0)
            return option;
    return NULL;
}

static bool has_option(const json_t *list, const json_t *option)
{
    return option_by_text(list, json_string_value(option), json_string_length(option)) != NULL;
}

/* The option with that text, else with that number; borrowed, NULL: none. */
static json_t *option_named(const json_t *options, const char *text, size_t len)
{
    json_t *option = option_by_text(options, text, len);
    bool is_number = len && strspn(text, "0123456789") >= len;
    return option || !is_number ? option : option_at(options, strtoll(text, NULL, 10));
}

static int refuse_option(const json_t *options, bool is_multi, struct tsk_error *err)
{
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_t *option;
    json_array_foreach ((json_t *)options, i, option)
        buf_printf(&all, "%s%s", i ? ", " : "", json_string_value(option));
    return error_set(err, TSK_INVALID_INPUT, is_multi ? "answer_options" : "answer_option", "want", buf_str(&all),
                     NULL);
}

/* Several options, with commas between them: their texts or their numbers. */
static int options_make(const json_t *options, const char *text, json_t **ret, struct tsk_error *err)
{
    json_t *list CLEANUP_JSON = json_array();
    for (;;) {
        size_t len = strcspn(text, ",");
        json_t *option = option_named(options, text, len);
        if (!option)
            return refuse_option(options, true, err);
        if (!has_option(list, option)) /* chosen twice is chosen */
            json_array_append(list, option);
        if (!text[len])
            break;
        text += len + 1;
    }
    *ret = json_incref(list);
    return 0;
}

static bool is_word_of(const char *text, const char *letter, const char *word)
{
    return text && (strcasecmp(text, letter) == 0 || strcasecmp(text, word) == 0);
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
        is_yes |= call->is_cli && is_word_of(text, "y", "yes");
        is_no |= call->is_cli && is_word_of(text, "n", "no");
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
    json_t *option = text ? option_named(options, text, strlen(text)) : option_at(options, json_integer_value(chosen));
    if (!option)
        return chosen ? error_set(err, TSK_INVALID_INPUT, "answer_choice", NULL)
                      : refuse_option(options, is_multi, err);
    *ret = is_multi ? json_pack("[O]", option) : json_incref(option);
    return 0;
}

/* ---- which question -------------------------------------------------------------------------------------- */

/* The one open question that is meant; borrowed. */
static int question_find(const char *run_id, const json_t *records, const json_t *open, const char *task,
                         const json_t **ret, struct tsk_error *err)
{
    const json_t *found = NULL;
    size_t count = 0;
    json_each (open, i, question)
        if (!task || reply_is_for(run_id, question, task)) {
            found = question;
            count++;
        }
    *ret = found;
    if (count == 1)
        return 0;
    return count ? error_set(err, TSK_INVALID_INPUT, "many_questions", "run", run_id, NULL)
                 : reply_refuse(run_id, records, task, err);
}

/* An answer is for a run that has not ended: one that failed or was cancelled continues by `resume`. */
static int refuse_ended(const struct rundir *run, const json_t *records, const json_t *open, struct tsk_error *err)
{
    const char *status = rundir_end_of(records);
    if (!rundir_is_over(status))
        return 0;
    if (strcmp(status, "CANCELLED") == 0)
        return error_set(err, TSK_CONFLICT, "answer_cancelled", "run", run->id, "run_id", run->id, NULL);
    if (json_array_size(open) == 0)
        return reply_refuse(run->id, records, NULL, err);
    return error_set(err, TSK_CONFLICT, "answer_ended", "run", run->id, "run_id", run->id, "status", status, NULL);
}

/* ---- recording ------------------------------------------------------------------------------------------- */

static void tell_answered(struct op_call *call, const struct rundir *run, const json_t *records, const json_t *question,
                          const json_t *answer)
{
    const char *request = json_get_string(json_array_get(records, 0), "request", NULL);
    workspace_report(call->ws,
                     (struct event){.type = "run.answered",
                                    .session_id = run->id,
                                    .run_id = run->id,
                                    .task_id = json_get_string(question, "task", NULL)},
                     json_pack("{s:O, s:s*}", "answer", answer, "request_id", request));
}

/* Records the answer (reply.h, A1); nothing is changed when it is refused. */
static int record_answer(struct op_call *call, const struct rundir *run, json_t **ret_question, json_t **ret_answer,
                         struct tsk_error *err)
{
    const char *task = json_get_string(call->args, "task", NULL);
    json_t *records CLEANUP_JSON = NULL, *answer CLEANUP_JSON = NULL;
    const json_t *question = NULL;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    json_t *open CLEANUP_JSON = reply_questions(run, records);
    if (refuse_ended(run, records, open, err) < 0 || question_find(run->id, records, open, task, &question, err) < 0 ||
        answer_make(call, json_object_get(question, "question"), &answer, err) < 0 ||
        reply_put(run, question, answer, err) < 0)
        return -1;
    tell_answered(call, run, records, question, answer);
    *ret_question = json_incref((json_t *)question);
    *ret_answer = json_incref(answer);
    return 0;
}

/* ---- the run continues ------------------------------------------------------------------------------------- */

/* SIGCHLD: it wakes a runner that waits, and does nothing to a process that has left its run. */
static void wake_runner(const struct rundir *run)
{
    struct tsk_error ignored;
    struct proc_id id;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_read_stage(run, &stage, &ignored) == 0 && rundir_runner(stage, &id))
        proc_id_signal(&id, SIGCHLD);
}

/* Waits until the process that executes the run has taken the answer, or executes it no more. 1: taken; 0: the run needs somebody
 * who continues with it; -1: it has ended without the answer. A runner that was stopped takes the answer when it continues. */
static int wait_taken(const struct rundir *run, const json_t *question, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + TAKE_MS;
    for (int64_t nap_ms = 1; rundir_has_runner(run); nap_ms = nap_ms < 50 ? nap_ms * 2 : 50) {
        json_t *records CLEANUP_JSON = NULL;
        if (journal_read(run->dir, &records, err) < 0)
            return -1;
        if (reply_is_taken(records, question) || clock_now().boot_ms > until)
            return 1;
        wake_runner(run);
        clock_nap(nap_ms);
    }
    json_t *records CLEANUP_JSON = NULL;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    if (reply_is_taken(records, question))
        return 1;
    json_t *open CLEANUP_JSON = json_pack("[O]", question);
    return refuse_ended(run, records, open, err) < 0 ? -1 : 0;
}

/* Somebody else continues with this very run, or has done so, and has taken its byte after the answer was recorded. */
static bool goes_on_already(const char *run, const struct tsk_error *err)
{
    char by[LOCK_ID_MAX];
    const char *named = tsk_error_context(err, "run");
    if (start_was_answer_used(err))
        return true;
    return err->code == TSK_RUN_IN_PROGRESS &&
           ((start_refused_by(err, by) && strcmp(by, run) == 0) || (named && strcmp(named, run) == 0));
}

static int refused_after(const char *run, struct tsk_error *err)
{
    error_add(err, "answer", "recorded");
    if (err->code != TSK_CONFLICT || strcmp(err->text ? err->text : "", "max_runs_reached") == 0)
        error_add_next(err, "tasuki resume %s", run);
    return -1;
}

/* The answer is recorded; the runner that continues the run takes its locks again. */
static int go_on(struct op_call *call, const struct run_owner *owner, const char *run, json_t **ret,
                 struct tsk_error *err)
{
    bool waits = json_get_bool(call->args, "wait", false);
    json_t *args CLEANUP_JSON =
        json_pack("{s:s, s:b, s:i}", "run", run, "answered", true, "lock_wait_ms", LOCK_WAIT_MS);
    json_t *begun = NULL;
    run_owner_pass(owner, args);
    int result = op_run_apart_as(call, "resume", args, waits, waits ? ret : &begun, err);
    json_decref(begun);
    if (result < 0 && goes_on_already(run, err))
        result = waits ? op_follow(call, run, ret, err) : 0;
    return result < 0 ? refused_after(run, err) : 0;
}

/* Nobody executes a run that was answered and has not ended: it can continue. Otherwise the run says what it waits for. */
static int answer_refuse(const struct rundir *run, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    bool can_go_on = err->code == TSK_ALREADY_ANSWERED && rundir_look(run, &stage, &ignored) == 0 &&
                     json_text_is(stage, "status", "INTERRUPTED");
    if (!tsk_error_next(err, 0))
        error_add_next(err, can_go_on ? "tasuki resume %s" : "tasuki runs show %s", run->id);
    return -1;
}

static int answer_run(struct op_call *call, const struct run_owner *owner, const struct rundir *run, json_t **ret,
                      struct tsk_error *err)
{
    json_t *question CLEANUP_JSON = NULL, *answer CLEANUP_JSON = NULL;
    bool waits = json_get_bool(call->args, "wait", false);
    if (record_answer(call, run, &question, &answer, err) < 0)
        return answer_refuse(run, err);
    int taken = rundir_has_runner(run) ? wait_taken(run, question, err) : 0;
    int result = taken < 0 ? -1 : taken == 0 ? go_on(call, owner, run->id, ret, err) : 0;
    if (result == 0 && waits && taken == 1)
        result = op_follow(call, run->id, ret, err);
    if (result < 0 || waits)
        return result;
    call->verdict = TSK_OK;
    *ret = json_pack("{s:s, s:O, s:s}", "run_id", run->id, "answer", answer, "status", "RUNNING");
    return 0;
}

static int run_answer(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run;
    struct run_owner owner;
    if (run_take_word(call, err) < 0 || run_named_or_asking(call, err) < 0)
        return -1;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    int result = run_owner_of_run(call, run.id, &owner, err);
    if (result == 0)
        result = answer_run(call, &owner, &run, ret, err);
    rundir_clear(&run);
    return result;
}

const struct op op_answer = {
    NAMES("answer", NULL, "answer"),
    .summary = "Answer the question of a run; the run then continues.",
    .detail =
        "The answer is recorded first; a second one is refused. Then the run continues by itself; --wait follows it. "
        "Without a run, the only run that asks is answered; a single word that names no run is its answer. On a "
        "terminal, a command without an answer asks the question, "
        "and without a run shows what is open.",
    .examples = "tasuki answer  # on a terminal: shows the open questions\n"
                "tasuki answer --yes  # the only question that is open\n"
                "tasuki answer staging  # the same, for a text or an option\n"
                "tasuki answer RUN-20260207T223000-1a2b3c --yes --wait",
    .flags = OP_STREAMS | OP_WAITS | OP_DESTRUCTIVE | OP_GOES_ON,
    .params = PARAMS(
        RUN_PARAM_MAX(OP_REMOTE_REQUIRED, TEXT_MAX),
        PARAM("text", OP_STRING, OP_POSITIONAL, "TEXT",
              "The answer to a text question; or options, with commas, for a multi_selection.", .max = TEXT_MAX,
              .agent_help = "For a text question; or options, with commas."),
        FLAG("yes", OP_OPTIONAL, "Yes, for an approval."), FLAG("no", OP_OPTIONAL, "No, for an approval."),
        PARAM("choose", OP_INT, OP_OPTIONAL, "N", "The N-th option, for a selection.", .min = 1, .max = 10000),
        PARAM("task", OP_STRING, OP_OPTIONAL, "TASK",
              "Whose question, if several are open: a task, or BRANCH/TASK if its copies ask in several branches.",
              .max = 512, .agent_help = "Whose question, if several are open."),
        FLAG("wait", OP_OPTIONAL, "Follow the run until it has ended or asks again.", .agent_help = "Follow the run."),
        INSTANCE_PARAM),
    .result = FIELDS({"run_id", "string", ""}, {"answer", "string?", "as it was recorded"},
                     {"status", "string", "RUNNING; with wait the run's own"}),
    .errors = ERRORS(TSK_UL_WORKFLOW_NOT_OWNED, TSK_RUN_NOT_FOUND, TSK_RUN_IN_PROGRESS, TSK_ALREADY_ANSWERED,
                     TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_NEEDS_INPUT, TSK_CONFLICT, TSK_RUN_FAILED, TSK_ENVIRONMENT,
                     TSK_REDIS_UNAVAILABLE, TSK_DOCTOR_FAILED, TSK_LOCK_LOST),
    .http = ROUTE("POST", "/api/runs/:run/answer"),
    .mcp = TOOL("run_answer", "requests", .is_core = true, .refusal = "NOT ANSWERED",
                .text = "Answer what a run asks (its questions are in run_show), so that it continues. The answer is "
                        "recorded first; a second one is refused (ALREADY_ANSWERED)."),
    .run = run_answer,
};
