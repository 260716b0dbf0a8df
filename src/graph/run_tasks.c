#include "graph/run_tasks.h"
#include "base/word.h"
#include "graph/journal.h"
#include "graph/plan.h"
#include "graph/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_KEY_MAX 512

static void put_key(char key[TASK_KEY_MAX], const char *session, const char *task)
{
    snprintf(key, TASK_KEY_MAX, "%s/%s", session, task);
}

/* The tasks of a stage by session and name. Owned. */
static json_t *tasks_by_key(json_t *tasks)
{
    json_t *found = json_object();
    char key[TASK_KEY_MAX];
    json_each (tasks, i, task) {
        put_key(key, json_get_string(task, "session_id", ""), json_get_string(task, "task", ""));
        json_object_set(found, key, task);
    }
    return found;
}

/* ---- one record ----------------------------------------------------------------------------------------- */

static void task_set_time(json_t *task, const char *key, int64_t time_ms)
{
    json_object_set_new(task, key, json_string(TIME_EXACT(time_ms)));
}

static void task_take_start(json_t *task, const json_t *record)
{
    json_object_set_new(task, "state", json_string("running"));
    json_object_del(task, "ended_at");
    json_object_del(task, "exit_code");
    task_set_time(task, "started_at", json_get_int(record, "t", 0));
}

static void task_take_end(json_t *task, const json_t *record)
{
    int64_t exit_code = json_get_int(record, "x", -1);
    json_object_set_new(task, "state", json_string(json_get_string(record, "o", "")));
    task_set_time(task, "ended_at", json_get_int(record, "t", 0));
    json_object_set_new(task, "exit_code", exit_code < 0 ? json_null() : json_integer(exit_code));
}

bool run_task_take(json_t *task, const json_t *record)
{
    const char *event = json_get_string(record, "e", "");
    bool is_start = strcmp(event, "start") == 0, is_end = strcmp(event, "end") == 0;
    if (strcmp(event, "ask") == 0)
        return json_object_set_new(task, "state", json_string("asks")) == 0;
    if (!is_start && !is_end)
        return false;
    json_object_set_new(task, "attempt", json_integer(json_get_int(record, "a", 1)));
    is_start ? task_take_start(task, record) : task_take_end(task, record);
    return true;
}

/* ---- since the stage ------------------------------------------------------------------------------------ */

static bool task_is(const json_t *task, const char *state)
{
    return json_text_is(task, "state", state);
}

static bool is_of_task(const json_t *record)
{
    const char *event = json_get_string(record, "e", "");
    return strcmp(event, "start") == 0 || strcmp(event, "end") == 0 || strcmp(event, "ask") == 0;
}

/* A task that the stage does not list: it was added since, or is one of those that are left out. */
static json_t *add_task(json_t *stage, json_t *found, const char *key, const json_t *record)
{
    int64_t left_out = json_get_int(stage, "tasks_left_out", 0);
    json_t *task = json_pack("{s:s, s:s, s:i, s:s}", "task", json_get_string(record, "k", ""), "state", "waiting",
                             "attempt", 0, "session_id", json_get_string(record, "s", ""));
    json_array_append_new(json_object_get(stage, "tasks"), task);
    json_object_set(found, key, task);
    if (left_out > 1)
        json_object_set_new(stage, "tasks_left_out", json_integer(left_out - 1));
    return task;
}

static void take_records(json_t *stage, const json_t *records)
{
    json_t *found CLEANUP_JSON = tasks_by_key(json_object_get(stage, "tasks"));
    char key[TASK_KEY_MAX];
    json_each (records, i, record) {
        if (!is_of_task(record))
            continue;
        put_key(key, json_get_string(record, "s", ""), json_get_string(record, "k", ""));
        json_t *task = json_object_get(found, key);
        task = task ? task : add_task(stage, found, key, record);
        run_task_take(task, record);
        if (task_is(task, "passed")) /* the stage's word */
            json_object_set_new(task, "state", json_string("skipped"));
    }
}

static json_int_t count_events(const json_t *records, const char *event)
{
    json_int_t count = 0;
    json_each (records, i, record)
        count += json_text_is(record, "e", event);
    return count;
}

/* From the states. A stage that leaves tasks out keeps its counts. */
static void count_states(json_t *stage, json_int_t starts)
{
    static const char *const states[] = {"ok", "skipped", "failed", "stopped", "asks"};
    const json_t *tasks = json_object_get(stage, "tasks");
    json_t *counts = json_object_get(stage, "counts");
    json_int_t found[5] = {0}, total = json_get_int(counts, "total", 0);
    if (!json_is_object(counts) || json_object_get(stage, "tasks_left_out"))
        return;
    json_each (tasks, i, task)
        for (size_t k = 0; k < 5; k++)
            found[k] += task_is(task, states[k]);
    total = total > (json_int_t)json_array_size(tasks) ? total : (json_int_t)json_array_size(tasks);
    json_t *now CLEANUP_JSON = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", total, "done",
                                         found[0] + found[1] + found[2], "ok", found[0], "skipped", found[1], "failed",
                                         found[2], "stopped", found[3], "asking", found[4], "not_reached",
                                         total - found[0] - found[1] - found[2] - found[3] - found[4], "steps",
                                         (json_int_t)json_get_int(counts, "steps", 0) + starts);
    json_object_update(counts, now);
}

void run_tasks_catch_up(const struct rundir *run, json_t *stage, int64_t size)
{
    struct tsk_error ignored; /* the stage stays as it is */
    json_t *records CLEANUP_JSON = NULL, *all CLEANUP_JSON = NULL;
    if (journal_read_behind(run->dir, size, &records, &ignored) < 0 || json_array_size(records) == 0)
        return;
    take_records(stage, records);
    count_states(stage, count_events(records, "start"));
    bool has_questions = count_events(records, "ask") || count_events(records, "answer");
    if (has_questions && journal_read(run->dir, &all, &ignored) == 0)
        json_object_set_new(stage, "questions", reply_questions(run, all));
}

void run_task_interrupt(json_t *task)
{
    if (task_is(task, "running"))
        json_object_set_new(task, "state", json_string("interrupted"));
}

/* ---- of the whole journal ------------------------------------------------------------------------------- */

void run_tasks_count(json_t *stage, const json_t *records)
{
    json_t *ends CLEANUP_JSON = json_object(), *counts = json_object_get(stage, "counts");
    json_int_t ok = 0, failed = 0, asking = 0, added = 0;
    json_each (records, i, record) {
        const char *event = json_get_string(record, "e", ""), *outcome = json_get_string(record, "o", "");
        int64_t number = json_get_int(record, "n", -1);
        bool is_start = strcmp(event, "start") == 0, is_end = strcmp(event, "end") == 0;
        const char *node = DIGITS(number);
        if (is_start || strcmp(event, "answer") == 0 ||
            (is_end && (strcmp(outcome, "retry") == 0 || strcmp(outcome, "stopped") == 0)))
            json_object_set_new(ends, node, json_null());
        else if (strcmp(event, "ask") == 0)
            json_object_set_new(ends, node, json_true());
        else if (is_end)
            json_object_set_new(ends, node, json_string(outcome));
    }
    json_int_t done = 0;
    json_each_pair (ends, key, record) {
        done += json_is_string(record);
        asking += json_is_true(record);
        ok += json_is_string(record) && strcmp(json_string_value(record), "ok") == 0;
        failed += json_is_string(record) && strcmp(json_string_value(record), "failed") == 0;
        added += (strtoul(key, NULL, 10) & PLAN_DYNAMIC) != 0;
    }
    int64_t tasks = json_get_int(json_array_get(records, 0), "tasks", json_get_int(counts, "total", 0) - added);
    json_t *counted CLEANUP_JSON =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)tasks + added, "done", done, "ok",
                  ok, "skipped", done - ok - failed, "failed", failed, "stopped", (json_int_t)0, "asking", asking,
                  "not_reached", (json_int_t)tasks + added - done - asking);
    json_object_update(counts, counted);
}

void run_tasks_reopen(json_t *stage)
{
    json_object_set_new(stage, "status", json_string("RUNNING"));
    json_object_set_new(stage, "ended_at", json_null());
    json_object_set_new(stage, "failures", json_array());
    json_object_del(stage, "reason");
    json_object_del(stage, "reason_code");
}

void run_tasks_set_questions(json_t *stage, json_t *questions)
{
    json_t *counts = json_object_get(stage, "counts");
    json_int_t asking = (json_int_t)json_array_size(questions), before = json_get_int(counts, "asking", 0);
    json_object_set_new(stage, "questions", questions);
    if (!json_is_object(counts))
        return;
    json_object_set_new(counts, "asking", json_integer(asking));
    json_object_set_new(counts, "not_reached", json_integer(json_get_int(counts, "not_reached", 0) + before - asking));
}

void run_tasks_end(json_t *tasks, const json_t *records)
{
    json_t *task, *found CLEANUP_JSON = tasks_by_key(tasks);
    char key[TASK_KEY_MAX];
    json_each (records, i, record) {
        const char *outcome = json_get_string(record, "o", "retry");
        put_key(key, json_get_string(record, "s", ""), json_get_string(record, "k", ""));
        task = json_text_is(record, "e", "end") ? json_object_get(found, key) : NULL;
        if (task && strcmp(outcome, "retry") != 0)
            json_object_set_new(task, "state", json_string(strcmp(outcome, "passed") == 0 ? "skipped" : outcome));
    }
}
