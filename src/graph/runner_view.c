/* runner_view.c - what others see of a run: stage.json, the event trail, documents for the runner's caller. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/log.h"
#include "base/who.h"
#include "base/word.h"
#include "graph/remote.h"
#include "graph/run_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGE_TASKS_MAX   1000 /* beyond that only those that are not finished well */
#define STAGE_PERIOD_MS   1000
#define TRAIL_PERIOD_MS   20
#define STAGE_HISTORY_MAX 1000 /* the beginning stays, then the newest */

const char *const view_state_names[] = {
    [VIEW_WAITING] = "waiting", [VIEW_RUNNING] = "running", [VIEW_RETRY] = "retry",
    [VIEW_OK] = "ok",           [VIEW_FAILED] = "failed",   [VIEW_SKIPPED] = "skipped",
    [VIEW_BLOCKED] = "blocked", [VIEW_STOPPED] = "stopped", [VIEW_ASKS] = "asks"};

struct task_view *view_of(struct runner *runner, uint32_t node)
{
    size_t index = node & PLAN_DYNAMIC ? runner->flow->graph.nodes.count + (node & ~PLAN_DYNAMIC) : node;
    if (index >= runner->views.count)
        BUG(!region_add(&runner->views, index + 1 - runner->views.count));
    return REGION_AT(&runner->views, struct task_view, index);
}

size_t runner_done(const struct runner *runner)
{
    return runner->counts[VIEW_OK] + runner->counts[VIEW_FAILED] + runner->counts[VIEW_SKIPPED];
}

/* A task that was stopped before it began counts as one that was not reached. */
static bool is_counted(const struct task_view *view)
{
    return view->state != VIEW_WAITING && (view->state != VIEW_STOPPED || view->started_ms);
}

void view_set(struct runner *runner, uint32_t node, const struct task_view *view)
{
    struct task_view *old = view_of(runner, node);
    if (is_counted(old))
        runner->counts[old->state]--;
    if (is_counted(view))
        runner->counts[view->state]++;
    *old = *view;
}

void view_set_state(struct runner *runner, uint32_t node, uint8_t state)
{
    struct task_view view = *view_of(runner, node);
    view.state = state;
    view_set(runner, node, &view);
}

uint16_t view_worker(struct runner *runner, const char *name, const char *commit)
{
    char key[256];
    if (!*name)
        return 0;
    if (!runner->workers)
        runner->workers = json_object();
    snprintf(key, sizeof key, "%s\t%s", name, commit);
    json_int_t number = json_integer_value(json_object_get(runner->workers, key));
    if (number)
        return (uint16_t)number;
    number = (json_int_t)json_object_size(runner->workers) + 1;
    if (number > UINT16_MAX)
        return 0;
    json_object_set_new(runner->workers, key, json_integer(number));
    return (uint16_t)number;
}

/* Nothing, of a task that ran here. */
static void put_worker(const struct runner *runner, const struct task_view *view, json_t *json)
{
    if (!view->worker)
        return;
    json_each_pair (runner->workers, key, number) {
        size_t len = strcspn(key, "\t");
        if (json_integer_value(number) != view->worker)
            continue;
        json_object_set_new(json, "worker", json_stringn(key, len));
        if (key[len] && key[len + 1])
            json_object_set_new(json, "commit", json_string(key + len + 1));
    }
    json_object_set_new(json, "takeovers", json_integer(view->takeovers));
}

/* The flow's tasks and those that were added. */
static json_int_t total_tasks(struct runner *runner)
{
    size_t count = runner->flow->tasks.count + atomic_load(&memory_plan(runner->memory)->dynamic_count);
    return (json_int_t)count;
}

/* ---- stage.json ----------------------------------------------------------------------------------------- */

/* The id that the branch's session has, or had: it ends with its join. */
static json_t *session_json(const struct runner *runner, uint32_t scope)
{
    const struct graph *graph = &runner->flow->graph;
    char buf[GRAPH_NAME_MAX];
    if (scope == GRAPH_ROOT)
        return json_string(runner->run.id);
    json_t *parent CLEANUP_JSON = session_json(runner, graph_scope(graph, scope)->parent);
    return json_sprintf("%s_%s", json_string_value(parent), graph_scope_name(graph, scope, buf));
}

static json_t *task_json(struct runner *runner, uint32_t node)
{
    struct plan *plan = memory_plan(runner->memory);
    const struct task_view *view = view_of(runner, node);
    char buf[GRAPH_NAME_MAX];
    json_t *json = json_pack("{s:s, s:s, s:i}", "task", plan_name(plan, node, buf), "state",
                             view_state_names[view->state], "attempt", (int)view->attempt);
    json_object_set_new(json, "session_id", session_json(runner, plan_scope_of(plan, node)));
    if (view->started_ms)
        json_object_set_new(json, "started_at", json_of_time(view->started_ms));
    if (view->ended_ms) {
        json_object_set_new(json, "ended_at", json_of_time(view->ended_ms));
        json_object_set_new(json, "exit_code", view->exit_code < 0 ? json_null() : json_integer(view->exit_code));
    }
    put_worker(runner, view, json);
    return json;
}

static bool is_group_node(const struct runner *runner, uint32_t node)
{
    return !(node & PLAN_DYNAMIC) && graph_node(&runner->flow->graph, node)->is_group;
}

/* *ret_left_out: the tasks that are not in the list; `runs tasks` gives them page by page. */
static json_t *tasks_json(struct runner *runner, json_int_t *ret_left_out)
{
    size_t count = runner->flow->graph.nodes.count;
    size_t all = count + atomic_load(&memory_plan(runner->memory)->dynamic_count);
    json_t *list = json_array();
    *ret_left_out = 0;
    for (size_t i = 0; i < all; i++) {
        uint32_t node = i < count ? (uint32_t)i : PLAN_DYNAMIC | (uint32_t)(i - count);
        uint8_t state = view_of(runner, node)->state;
        bool is_dull = state == VIEW_OK || state == VIEW_WAITING || state == VIEW_SKIPPED || state == VIEW_BLOCKED;
        if (is_group_node(runner, node))
            continue;
        if ((all <= STAGE_TASKS_MAX || !is_dull) && json_array_size(list) < STAGE_TASKS_MAX)
            json_array_append_new(list, task_json(runner, node));
        else
            ++*ret_left_out;
    }
    return list;
}

static json_t *questions_json(const struct runner *runner)
{
    json_t *list = json_array();
    json_each_pair (runner->questions, node, question)
        json_array_append(list, question);
    return list;
}

void runner_note(struct runner *runner, int64_t wall_ms, const char *what, const char *key, const char *value)
{
    json_t *note = json_pack("{s:o, s:s}", "time", json_of_time(wall_ms), "what", what);
    if (key)
        json_object_set_new(note, key, json_string(value));
    if (!runner->history)
        runner->history = json_array();
    json_array_append_new(runner->history, note);
    if (json_array_size(runner->history) > STAGE_HISTORY_MAX)
        json_array_remove(runner->history, 1);
}

static json_t *counts_json(struct runner *runner, uint64_t steps)
{
    const size_t *counts = runner->counts;
    json_int_t ok = (json_int_t)counts[VIEW_OK], skipped = (json_int_t)counts[VIEW_SKIPPED],
               failed = (json_int_t)counts[VIEW_FAILED], stopped = (json_int_t)counts[VIEW_STOPPED],
               asking = (json_int_t)counts[VIEW_ASKS];
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", total_tasks(runner), "done",
                     (json_int_t)runner_done(runner), "ok", ok, "skipped", skipped, "failed", failed, "stopped",
                     stopped, "asking", asking, "not_reached",
                     total_tasks(runner) - ok - skipped - failed - stopped - asking, "steps", (json_int_t)steps);
}

json_t *runner_stage(struct runner *runner)
{
    struct proc_id self;
    struct memory_status status;
    json_t *who = json_null();
    json_int_t left_out;
    memory_status(runner->memory, &status);
    if (!runner->status && proc_id_of(getpid(), &self) == 0)
        who = json_pack("{s:i, s:I, s:s}", "pid", (int)self.pid, "start_ticks", (json_int_t)self.start_ticks, "boot_id",
                        self.boot_id);
    json_t *stage =
        json_pack("{s:s, s:s?, s:s, s:s, s:s?, s:s, s:o, s:o, s:o, s:o, s:O, s:o, s:o, s:o}", "run_id", runner->run.id,
                  "flow", runner->flow->name, "source", runner->flow->source, "session_id", runner->run.id,
                  "request_id", runner->request_id[0] ? runner->request_id : NULL, "status",
                  runner->status ? runner->status : "RUNNING", "started_at", json_of_time(runner->began_wall_ms),
                  "ended_at", runner->status ? json_of_time(clock_now().wall_ms) : json_null(), "runner", who, "counts",
                  counts_json(runner, status.steps), "failures", runner->failures, "questions", questions_json(runner),
                  "channel", memory_result(runner->memory), "tasks", tasks_json(runner, &left_out));
    if (runner->status)
        json_object_set_new(stage, "duration_ms",
                            json_integer(clock_now().wall_ms - runner->began_wall_ms - runner->paused_ms));
    if (left_out)
        json_object_set_new(stage, "tasks_left_out", json_integer(left_out));
    if (runner->request_id[0]) {
        json_object_set_new(stage, "request_updated_at", json_string(runner->request_updated_at));
        json_object_set_new(stage, "request_sha256", json_string(runner->request_sha256));
    }
    json_object_set(stage, "history", runner->history);
    json_object_set_new(stage, "started_by", who_json(who_current())); /* this start, or resume */
    if (runner->workflow[0])
        json_object_set_new(stage, "ulTaskId", json_string(runner->workflow));
    if (runner->exclusive[0])
        json_object_set_new(stage, "exclusive", json_string(runner->exclusive));
    if (runner->options.lock)
        json_object_set(stage, "lock", (json_t *)runner->options.lock);
    if (status.failure && runner->status && strcmp(runner->status, "DONE") != 0)
        text_keep_reason(stage, runner->flow->lang, status.failure);
    return stage;
}

void runner_save_stage(struct runner *runner)
{
    struct tsk_error err;
    struct stat st;
    json_t *stage CLEANUP_JSON = runner_stage(runner);
    if (fs->fstat(runner->journal.fd, &st) == 0) /* nobody else appends */
        json_object_set_new(stage, RUN_JOURNAL_SIZE,
                            json_integer((json_int_t)st.st_size + (json_int_t)runner->journal.pending.len));
    if (rundir_write_stage(&runner->run, stage, &err) < 0)
        log_problem(&err); /* the journal is the truth; readers see an older stage */
    runner->next_stage_ms = clock_now().boot_ms + STAGE_PERIOD_MS;
}

/* ---- facts ---------------------------------------------------------------------------------------------- */

void runner_trail(struct runner *runner, const char *type, const char *session, const char *task, const json_t *data)
{
    struct now now = clock_now();
    struct buf text CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    if (runner->is_replaying)
        return;
    if (runner->request_id[0]) { /* what a request has done is found by it, also when the run is gone */
        json_t *with CLEANUP_JSON = json_copy((json_t *)data);
        json_object_set_new(with, "request_id", json_string(runner->request_id));
        json_write(&text, with, false);
    } else {
        json_write(&text, data, false);
    }
    struct event event = {
        .type = type, .session_id = session, .run_id = runner->run.id, .task_id = task, .data = buf_str(&text)};
    event_put_line(&line, &now, &event);
    if (runner->trail.len + line.len >= runner->trail.max)
        runner_write_trail(runner);
    buf_put(&runner->trail, buf_str(&line), line.len);
}

void runner_write_trail(struct runner *runner)
{
    struct tsk_error err;
    if (!runner->trail.len)
        return;
    if (workspace_event_lines(runner->ws, runner->trail.data, runner->trail.len, &err) < 0)
        log_problem(&err);
    buf_reset(&runner->trail);
    runner->trail_due_ms = clock_now().boot_ms + TRAIL_PERIOD_MS;
}

void runner_fact(struct runner *runner, const char *type, const char *session, const char *task, json_t *data_take,
                 bool is_for_trail)
{
    json_t *data CLEANUP_JSON = data_take ? data_take : json_object();
    struct now now = clock_now();
    if (runner->is_replaying)
        return;
    if (runner->held_facts) {
        json_t *fact = json_pack("[s, s?, s?, O, b]", type, session, task, data, is_for_trail);
        BUG(json_array_append_new(runner->held_facts, fact) < 0);
        return;
    }
    if (is_for_trail)
        runner_trail(runner, type, session, task, data);
    if (!runner->options.tell)
        return;
    json_t *document CLEANUP_JSON =
        json_pack("{s:o, s:s, s:s?, s:s, s:s?, s:O, s:{s:I, s:I, s:I, s:I}}", "time", json_of_time(now.wall_ms), "type",
                  type, "session_id", session, "run_id", runner->run.id, "task_id", task, "data", data, "progress",
                  "done", (json_int_t)runner_done(runner), "total", total_tasks(runner), "failed",
                  (json_int_t)runner->counts[VIEW_FAILED], "running", (json_int_t)runner->running_count);
    runner->options.tell(runner->options.tell_data, document);
}

/* Without groups there is nothing more to report. */
bool runner_facts_hold(struct runner *runner)
{
    if (runner->held_facts || runner->is_replaying || !runner->flow->graph.groups.count)
        return false;
    runner->held_facts = json_array();
    return runner->held_facts;
}

json_t *runner_facts_take(struct runner *runner)
{
    json_t *held = runner->held_facts;
    runner->held_facts = NULL;
    return held;
}

void runner_facts_tell_take(struct runner *runner, json_t *held)
{
    json_each (held, i, fact)
        runner_fact(runner, json_string_value(json_array_get(fact, 0)), json_string_value(json_array_get(fact, 1)),
                    json_string_value(json_array_get(fact, 2)), json_incref(json_array_get(fact, 3)),
                    json_is_true(json_array_get(fact, 4)));
    json_decref(held);
}

static void view_branch_ended(void *data, const char *session, const char *branch, bool has_failed)
{
    runner_fact(data, "branch.ended", session, branch, /* which is called as its first task */
                json_pack("{s:s, s:s}", "branch", branch, "outcome", has_failed ? "failed" : "ok"), true);
}

static void view_group_ended(void *data, const char *session, const char *group, enum outcome outcome)
{
    struct runner *runner = data;
    bool passes = outcome == OUTCOME_OK || outcome == OUTCOME_SKIPPED;
    if (runner->is_replaying)
        return;
    struct buf *late = &runner->late_records;
    buf_puts(late, "{");
    buf_json_pair_int(late, "t", clock_now().wall_ms);
    buf_json_pair(late, "e", "group");
    buf_json_pair(late, "k", group);
    buf_json_pair(late, "s", session);
    buf_json_pair(late, "o", passes ? "ok" : "failed");
    buf_puts(late, "}\n");
}

static void view_session_ends(void *data, uint32_t scope, const char *session)
{
    struct runner *runner = data;
    if (!runner->is_replaying && runner->options.remote_program)
        remote_values_end(runner, scope, session);
}

void runner_write_late(struct runner *runner)
{
    if (!runner->late_records.len)
        return;
    buf_put(&runner->journal.pending, runner->late_records.data, runner->late_records.len);
    buf_reset(&runner->late_records);
}

static void view_conflict(void *data, const char *session, const char *key, const char *rule, const char *first,
                          const char *second)
{
    runner_fact(data, "channel.conflict", session, NULL,
                json_pack("{s:s, s:s, s:[s, s]}", "key", key, "rule", rule, "branches", first, second), true);
}

void runner_note_failure(struct runner *runner, const char *session, const char *task, json_t *failure)
{
    json_t *fact = json_copy(failure);
    json_object_del(fact, "reason_text"); /* the trail has words */
    json_array_append_new(runner->failures, failure);
    runner_fact(runner, "task.failed", session, task, fact, true);
}

/* The only reason for which a task fails without having run. A policy may tolerate it: it is seen all the same. */
static void note_cycle_limit(struct runner *runner, const char *session, const char *task, uint32_t node)
{
    struct tsk_error err;
    error_set(&err, TSK_CYCLE_LIMIT_EXCEEDED, "max_cycles_reached", "task", task, "max",
              DIGITS(plan_cycles(memory_plan(runner->memory), node) - 1), NULL);
    json_t *failure = json_pack("{s:s, s:s, s:n, s:n}", "task", task, "session_id", session, "exit_code", "log");
    text_keep_reason(failure, runner->flow->lang, &err);
    runner_note_failure(runner, session, task, failure);
}

static void task_dropped(void *data, const char *session, const char *task, uint32_t node, enum outcome outcome)
{
    struct runner *runner = data;
    static const uint8_t states[] = {[OUTCOME_OK] = VIEW_OK,
                                     [OUTCOME_SKIPPED] = VIEW_SKIPPED,
                                     [OUTCOME_FAILED] = VIEW_FAILED,
                                     [OUTCOME_BLOCKED] = VIEW_BLOCKED,
                                     [OUTCOME_STOPPED] = VIEW_STOPPED};
    view_set_state(runner, node, states[outcome]);
    if (json_object_size(runner->questions)) { /* nobody waits for the answer any more */
        json_object_del(runner->questions, DIGITS(node));
    }
    if (outcome == OUTCOME_FAILED)
        note_cycle_limit(runner, session, task, node);
}

static void session_stops(void *data, const char *session)
{
    struct runner *runner = data;
    for (size_t i = 0; i < runner->parallel; i++)
        if (runner->running && runner->running[i].is_used && strcmp(runner->running[i].claim.session, session) == 0)
            task_stop(runner, &runner->running[i], STOP_GROUP);
}

const struct memory_watcher runner_watcher = {.branch_ended = view_branch_ended,
                                              .group_ended = view_group_ended,
                                              .session_ends = view_session_ends,
                                              .conflict = view_conflict,
                                              .task_dropped = task_dropped,
                                              .session_stops = session_stops};
