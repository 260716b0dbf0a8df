/* op_run_tasks.c - runs tasks: the tasks of a run page by page, out of its journal. `stage.json` lists at most 1,000. */
#include "graph/journal.h"
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/run_args.h"

#include <stdio.h>
#include <string.h>

#define TASKS_DEFAULT 100

static void set_time(json_t *task, const char *key, int64_t time_ms)
{
    char text[TIME_TEXT_MAX];
    time_format_utc(time_ms, text);
    json_object_set_new(task, key, json_string(text));
}

/* What a record says of its task; the task's last record decides. */
static void apply(json_t *task, const json_t *record, const char *event)
{
    int64_t time_ms = json_get_int(record, "t", 0), exit_code = json_get_int(record, "x", -1);
    if (strcmp(event, "ask") == 0) {
        json_object_set_new(task, "state", json_string("asks"));
        return;
    }
    json_object_set_new(task, "attempt", json_integer(json_get_int(record, "a", 1)));
    if (strcmp(event, "start") == 0) {
        json_object_set_new(task, "state", json_string("running"));
        json_object_del(task, "ended_at");
        json_object_del(task, "exit_code");
        set_time(task, "started_at", time_ms);
        return;
    }
    json_object_set_new(task, "state", json_string(json_get_string(record, "o", "")));
    set_time(task, "ended_at", time_ms);
    json_object_set_new(task, "exit_code", exit_code < 0 ? json_null() : json_integer(exit_code));
}

/* The tasks that a journal names: node -> task. */
static json_t *tasks_of(const json_t *records)
{
    json_t *tasks = json_object(), *record;
    size_t i;
    json_array_foreach ((json_t *)records, i, record) {
        const char *event = json_get_string(record, "e", "");
        char node[24];
        if (strcmp(event, "start") != 0 && strcmp(event, "end") != 0 && strcmp(event, "ask") != 0)
            continue;
        snprintf(node, sizeof node, "%lld", (long long)json_get_int(record, "n", 0));
        json_t *task = json_object_get(tasks, node);
        if (!task) {
            task = json_pack("{s:I, s:s, s:s}", "node", (json_int_t)json_get_int(record, "n", 0), "task",
                             json_get_string(record, "k", ""), "session_id", json_get_string(record, "s", ""));
            json_object_set_new(tasks, node, task);
        }
        apply(task, record, event);
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
    json_t *records CLEANUP_JSON = NULL, *list CLEANUP_JSON = json_array(), *task;
    const char *state = json_get_string(call->args, "state", NULL), *node;
    if (rundir_open(call->ws, json_get_string(call->args, "run", ""), &run, err) < 0)
        return -1;
    int result = journal_read(run.dir, &records, err);
    rundir_clear(&run);
    if (result < 0)
        return -1;
    json_t *tasks CLEANUP_JSON = tasks_of(records);
    json_object_foreach (tasks, node, task)
        if (!state || strcmp(json_string_value(json_object_get(task, "state")), state) == 0)
            json_array_append(list, task);
    if (!json_object_get(call->args, "limit"))
        json_object_set_new(call->args, "limit", json_integer(TASKS_DEFAULT));
    *ret = page_sorted(call, "tasks", list, task_key);
    json_object_set_new(*ret, "run_id", json_string(run.id));
    return 0;
}

static const char *const states[] = {"running", "ok", "failed", "retry", "skipped", "stopped", "asks", NULL};
static const struct op_param params[] = {
    RUN_ID_PARAM,
    {.name = "state", .type = OP_ENUM, .value = "S", .help = "Only tasks in this state.", .choices = states},
    PAGE_LIMIT("At most so many.", "At most so many (100).", "100"),
    PAGE_CURSOR,
    {0},
};
static const struct op_field fields[] = {
    {"run_id", "string", ""},
    {"tasks", "array", "node task session_id state attempt started_at ended_at exit_code"},
    PAGE_FIELDS,
    {0}};
static const enum tsk_code errors[] = {TSK_RUN_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_NOT_FOUND, TSK_OK};

const struct op op_runs_tasks = {
    .name = "runs.tasks",
    .noun = "runs",
    .verb = "tasks",
    .summary = "List the tasks of a run that have started, page by page, out of its journal.",
    .detail = "`runs show` lists at most 1,000 tasks, and says how many it leaves out (tasks_left_out).",
    .examples = "tasuki runs tasks RUN-20260207T223000-1a2b3c --state failed",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = params,
    .result = fields,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/runs/:run/tasks"},
    .mcp = {.tool = "run_tasks",
            .group = "requests",
            .text = "List the tasks of a run that have started, page by page; run_show lists at most 1,000. It changes "
                    "nothing."},
    .run = run_tasks,
};
