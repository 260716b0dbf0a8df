/* run_one.c - the run that an operation is about, where the caller has named none. */
#include "base/word.h"
#include "ops/overview.h"
#include "ops/run_args.h"

#include <string.h>

static bool asks(const json_t *stage)
{
    return json_array_size(json_object_get(stage, "questions")) > 0;
}

static bool is_running(const json_t *stage)
{
    return json_text_is(stage, "status", "RUNNING");
}

/* How many of the runs that are not over fit, and the last of these. -1 with err. */
static int count_fitting(struct op_call *call, bool (*fits)(const json_t *stage), char run_id[RUN_ID_MAX],
                         struct tsk_error *err)
{
    json_t *marked CLEANUP_JSON = NULL;
    int count = 0;
    if (rundir_list_open(call->ws, &marked, err) < 0)
        return -1;
    json_each (marked, i, id) {
        json_t *stage CLEANUP_JSON = overview_stage(call->ws, json_string_value(id));
        if (!stage || !fits(stage))
            continue;
        snprintf(run_id, RUN_ID_MAX, "%s", json_string_value(id));
        count++;
    }
    return count;
}

/* Whether a word looks like a run: its id, its short form, @1. */
static bool is_run_name(const char *word)
{
    bool is_hex = strlen(word) >= 4 && strspn(word, "0123456789abcdefT-") == strlen(word);
    return word[0] == '@' || strncmp(word, "RUN-", 4) == 0 || (is_hex && strpbrk(word, "0123456789"));
}

int run_take_word(struct op_call *call, struct tsk_error *err)
{
    static const char *const answers[] = {"text", "yes", "no", "choose"};
    const char *word = json_get_string(call->args, "run", NULL);
    char id[RUN_ID_MAX];
    struct rundir run;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (!call->is_cli || !word || json_object_get(call->args, answers[i]))
            return 0;
    if (rundir_open(call->ws, word, &run, err) == 0) {
        rundir_clear(&run);
        return 0;
    }
    if (err->code != TSK_RUN_NOT_FOUND)
        return -1;
    bool is_ambiguous = strcmp(err->text ? err->text : "", "run_ambiguous") == 0;
    if (!is_ambiguous && !is_run_name(word)) {
        json_object_set_new(call->args, "text", json_string(word));
        json_object_del(call->args, "run");
        return 0;
    }
    struct tsk_error ignored;
    struct buf quoted CLEANUP(buf_clear) = BUF_INIT;
    if (word[0] != '@' && strncmp(word, "RUN-", 4) != 0 && count_fitting(call, asks, id, &ignored) == 1)
        error_add_next(err, "tasuki answer %s %s", id, shell_word(&quoted, word));
    return -1;
}

int run_named_or_asking(struct op_call *call, struct tsk_error *err)
{
    char id[RUN_ID_MAX] = "";
    if (json_get_string(call->args, "run", NULL))
        return 0;
    if (!call->is_cli)
        return op_param_missing(call->op, "RUN", err);
    int count = count_fitting(call, asks, id, err);
    if (count < 0)
        return -1;
    if (count == 0) {
        error_set(err, TSK_NOT_FOUND, "no_open_questions", NULL);
        return error_add_next(err, "tasuki status");
    }
    if (count == 1) {
        json_object_set_new(call->args, "run", json_string(id));
        return 0;
    }
    error_set(err, TSK_INVALID_INPUT, "run_several_ask", "count", DIGITS(count), NULL);
    return error_add_next(err, "tasuki status");
}

int run_must_be_named(struct op_call *call, struct tsk_error *err)
{
    char id[RUN_ID_MAX] = "";
    if (json_get_string(call->args, "run", NULL))
        return 0;
    if (!call->is_cli)
        return op_param_missing(call->op, "RUN", err);
    int count = count_fitting(call, is_running, id, err);
    if (count < 0)
        return -1;
    bool ends_runs = strcmp(call->op->name, "runs.cancel") == 0;
    error_set(err, TSK_INVALID_INPUT,
              !ends_runs   ? "param_missing"
              : count == 1 ? "run_missing_one"
              : count      ? "run_missing_several"
                           : "run_missing_none",
              "param", "RUN", "operation", call->op->name, "count", DIGITS(count), "run", id, NULL);
    if (ends_runs && count == 1)
        error_add_next(err, "tasuki runs cancel %s%s%s", id, json_get_bool(call->args, "now", false) ? " --now" : "",
                       json_get_bool(call->args, "pending", false) ? " --pending" : "");
    else
        error_add_next(err, "tasuki runs list");
    return -1;
}
