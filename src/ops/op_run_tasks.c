/* op_run_tasks.c - runs tasks: the tasks of a run page by page, from its journal. `stage.json` lists at most 1,000. */
#include "base/word.h"
#include "graph/journal.h"
#include "graph/run_tasks.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/run_args.h"

#include <stdio.h>
#include <string.h>

#define TASKS_DEFAULT 100

/* ---- attempts ---- */

static void set_exact(json_t *object, const char *key, int64_t time_ms)
{
    const char *text = TIME_EXACT(time_ms);
    json_object_set_new(object, key, json_string(text));
}

/* What an attempt that ended well wrote to the channel: key -> value; of several writes of a key the last one. */
static void take_writes(json_t *task, const json_t *effects)
{
    json_t *writes = json_object_get(task, "writes");
    json_each (effects, i, effect) {
        if (!writes) {
            writes = json_object();
            json_object_set_new(task, "writes", writes);
        }
        json_object_set(writes, json_string_value(json_array_get(effect, 1)), json_array_get(effect, 2));
    }
}

/* Every start and end of the task, and when it is tried again. */
static void task_take_attempt(json_t *task, const json_t *record, const char *event)
{
    json_t *attempts = json_object_get(task, "attempts"), *last;
    int64_t time_ms = json_get_int(record, "t", 0), exit_code = json_get_int(record, "x", -1);
    if (!attempts) {
        attempts = json_array();
        json_object_set_new(task, "attempts", attempts);
    }
    json_object_del(task, "next_try_at");
    if (strcmp(event, "ask") == 0) {
        set_exact(task, "asked_at", time_ms);
        return;
    }
    if (strcmp(event, "start") == 0) {
        last = json_pack("{s:I}", "attempt", (json_int_t)json_get_int(record, "a", 1));
        set_exact(last, "started_at", time_ms);
        json_array_append_new(attempts, last);
        return;
    }
    last = json_array_get(attempts, json_array_size(attempts) - 1);
    if (!last) /* it was skipped: it never started */
        return;
    set_exact(last, "ended_at", time_ms);
    json_object_set_new(last, "outcome", json_string(json_get_string(record, "o", "")));
    json_object_set_new(last, "exit_code", exit_code < 0 ? json_null() : json_integer(exit_code));
    json_object_set_new(last, "ms", json_integer(json_get_int(record, "ms", 0)));
    if (json_object_get(record, "pause"))
        set_exact(task, "next_try_at", time_ms + json_get_int(record, "pause", 0));
    take_writes(task, json_object_get(record, "w"));
}

static void add_next_tries(json_t *list)
{
    int64_t now_ms = clock_now().wall_ms, at_ms;
    json_each (list, i, task)
        if (time_parse(json_get_string(task, "next_try_at", ""), &at_ms) == 0)
            json_object_set_new(task, "next_try_in_ms", json_integer(at_ms > now_ms ? at_ms - now_ms : 0));
}

/* The tasks that a journal names: node -> task. */
static json_t *tasks_of(const json_t *records, bool with_attempts)
{
    json_t *tasks = json_object();
    json_each (records, i, record) {
        const char *event = json_get_string(record, "e", "");
        if (strcmp(event, "start") != 0 && strcmp(event, "end") != 0 && strcmp(event, "ask") != 0)
            continue;
        const char *node = DIGITS(json_get_int(record, "n", 0));
        json_t *task = json_object_get(tasks, node);
        if (!task) {
            task = json_pack("{s:I, s:s, s:s}", "node", (json_int_t)json_get_int(record, "n", 0), "task",
                             json_get_string(record, "k", ""), "session_id", json_get_string(record, "s", ""));
            json_object_set_new(tasks, node, task);
        }
        run_task_take(task, record);
        if (with_attempts)
            task_take_attempt(task, record, event);
    }
    return tasks;
}

/* In the order of the flow; those that were added while it ran come last. */
static void task_key(const json_t *task, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%010lld", (long long)json_get_int(task, "node", 0));
}

static int run_tasks(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct rundir run;
    json_t *records CLEANUP_JSON = NULL, *list CLEANUP_JSON = json_array();
    const char *state = json_get_string(call->args, "state", NULL);
    if (rundir_open_to_look(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    bool has_runner = rundir_has_runner(&run); /* asked first: of a run without one the journal is complete */
    int result = journal_read(run.dir, &records, err);
    rundir_clear(&run);
    if (result < 0)
        return -1;
    json_t *tasks CLEANUP_JSON = tasks_of(records, json_get_bool(call->args, "attempts", false));
    json_each_pair (tasks, node, task) {
        if (!has_runner)
            run_task_interrupt(task);
        if (!state || strcmp(json_string_value(json_object_get(task, "state")), state) == 0)
            json_array_append(list, task);
    }
    add_next_tries(list);
    if (!json_object_get(call->args, "limit"))
        json_object_set_new(call->args, "limit", json_integer(TASKS_DEFAULT));
    *ret = page_sorted(call, "tasks", list, task_key);
    json_object_set_new(*ret, "run_id", json_string(run.id));
    return 0;
}

static const char *const states[] = {"running", "ok",   "failed",      "retry", "skipped",
                                     "stopped", "asks", "interrupted", NULL};

const struct op op_runs_tasks = {
    NAMES("runs.tasks", "runs", "tasks"),
    .summary = "List the tasks of a run that have started, page by page, from its journal.",
    .detail = "`runs show` lists at most 1,000 tasks, and says how many it leaves out (tasks_left_out).",
    .examples = "tasuki runs tasks RUN-20260207T223000-1a2b3c --state failed",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(RUN_OR_LATEST_PARAM,
                     PARAM("state", OP_ENUM, OP_OPTIONAL, "S", "Only tasks in this state.", .choices = states),
                     FLAG("attempts", OP_REMOTE_ONLY | OP_PAGE_ONLY,
                          "Also each attempt, the time of the next one, and what was written to the channel."),
                     PAGE_LIMIT("At most N.", "At most N (100).", "100"), PAGE_CURSOR),
    .result = FIELDS({"run_id", "string", ""},
                     {"tasks", "array", "node task session_id state attempt started_at ended_at exit_code attempts?"},
                     PAGE_FIELDS),
    .errors = ERRORS(TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/runs/:run/tasks"),
    .mcp = TOOL("run_tasks", "requests",
                .text = "List the tasks of a run that have started, page by page; run_show lists at most 1,000. It "
                        "changes nothing."),
    .run = run_tasks,
};
