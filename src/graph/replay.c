/* replay.c - X5: from the journal back to where the run was. */
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "graph/output.h"
#include "graph/reply.h"
#include "graph/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    struct runner *runner;
    const json_t *records;
    bool keeps_failures; /* an answer continues: what failed since the last explicit resume has failed */
    struct deciding deciding;
};

static uint32_t node_of(const struct replay *r, const json_t *record)
{
    uint32_t node = (uint32_t)json_get_int(record, "n", NO_NODE);
    const struct plan *plan = memory_plan(r->runner->memory);
    bool exists = node & PLAN_DYNAMIC ? (node & ~PLAN_DYNAMIC) < atomic_load(&plan->dynamic_count)
                                      : node < r->runner->flow->graph.nodes.count;
    return exists ? node : NO_NODE;
}

/* Whether the record says that a group around the node passed. */
static bool is_pass_around(const struct graph *graph, const json_t *record, uint32_t scope)
{
    if (!json_text_is(record, "e", "group") || !json_text_is(record, "o", "ok"))
        return false;
    uint32_t node = graph_find(graph, json_get_string(record, "k", ""));
    if (node == NO_NODE || !graph_node(graph, node)->is_group)
        return false;
    for (; scope != GRAPH_ROOT; scope = graph_scope(graph, scope)->parent)
        if (graph_scope(graph, scope)->group == graph_node(graph, node)->detail)
            return true;
    return false;
}

bool deciding_is_final(struct deciding *d, const struct graph *graph, uint32_t scope, size_t index, bool keeps_failures)
{
    while (d->next < d->count && d->at[d->next] <= index)
        d->next++;
    for (size_t i = d->next; i < d->count; i++) {
        const json_t *record = json_array_get(d->records, d->at[i]);
        if (json_text_is(record, "e", "resume"))
            return false;
        if (is_pass_around(graph, record, scope))
            return true;
    }
    return keeps_failures;
}

static bool is_deciding(const json_t *record)
{
    return json_text_is(record, "e", "resume") ? !json_get_bool(record, "keep", false)
                                               : json_text_is(record, "e", "group") && json_text_is(record, "o", "ok");
}

/* There are few of them; to look at all records for each of thousands of failures takes minutes. */
void deciding_find(struct deciding *d, const json_t *records)
{
    *d = (struct deciding){.records = records, .at = calloc(json_array_size(records) + 1, sizeof *d->at)};
    BUG(!d->at);
    json_each (records, i, record)
        if (is_deciding(record))
            d->at[d->count++] = i;
}

/* Whether the journal ends with an answer that no runner has used yet. The next runner continues with it. */
static bool ends_with_answer(const json_t *records)
{
    for (size_t i = json_array_size(records); i > 0; i--) {
        const json_t *record = json_array_get(records, i - 1);
        if (json_text_is(record, "e", "answer"))
            return true;
        if (json_text_is(record, "e", "start") || json_text_is(record, "e", "done") ||
            json_text_is(record, "e", "resume") || json_text_is(record, "e", "flow"))
            return false;
    }
    return false;
}

/* Readers of the stage see the failure as in the run that had it. */
static void note_old_failure(struct runner *runner, const json_t *record, const struct tsk_error *reason)
{
    json_t *failure =
        json_pack("{s:s, s:s, s:i, s:n}", "task", json_get_string(record, "k", ""), "session_id",
                  json_get_string(record, "s", ""), "exit_code", (int)json_get_int(record, "x", -1), "log");
    text_keep_reason(failure, runner->flow->lang, reason);
    json_array_append_new(runner->failures, failure);
}

static void reason_from(const struct runner *runner, const json_t *record, struct tsk_error *ret)
{
    const char *session = json_get_string(record, "s", "");
    error_set(ret, TSK_TASK_FAILED, strcmp(session, runner->run.id) == 0 ? "task_exited" : "task_exited_in", "task",
              json_get_string(record, "k", ""), "number", DIGITS(json_get_int(record, "x", -1)), "session_id", session,
              NULL);
}

/* Whether the node lies before --start, or was not among the tasks that the caller chose. */
static bool is_outside(const struct runner *runner, uint32_t node)
{
    return runner->is_wanted && !(node & PLAN_DYNAMIC) && !runner->is_wanted[node];
}

static void view_from(struct runner *runner, uint32_t node, const json_t *record, uint8_t state)
{
    int64_t ended = json_get_int(record, "t", 0);
    struct task_view view = {
        .state = is_outside(runner, node) ? VIEW_SKIPPED : state,
        .attempt = (uint16_t)json_get_int(record, "a", 1),
        .exit_code = (int16_t)json_get_int(record, "x", -1),
        .worker = view_worker(runner, json_get_string(record, "wk", ""), json_get_string(record, "wc", "")),
        .takeovers = (uint8_t)json_get_int(record, "tk", 0),
        .started_ms = ended - json_get_int(record, "ms", 0),
        .ended_ms = ended};
    view_set(runner, node, &view);
}

static void replay_complete(struct replay *r, uint32_t node, const json_t *record, struct completion *completion)
{
    struct runner *runner = r->runner;
    struct claim claim;
    struct tsk_error reason;
    static const uint8_t states[] = {[OUTCOME_OK] = VIEW_OK,
                                     [OUTCOME_SKIPPED] = VIEW_SKIPPED,
                                     [OUTCOME_FAILED] = VIEW_FAILED,
                                     [OUTCOME_BLOCKED] = VIEW_BLOCKED,
                                     [OUTCOME_STOPPED] = VIEW_STOPPED};
    bool is_retry = completion->retry_at_ms != 0;
    bool is_unwanted = json_text_is(record, "o", "passed");
    if (!memory_claim_node(runner->memory, node, &claim))
        return; /* it belongs to a task that will run again */
    if (is_unwanted || completion->outcome == OUTCOME_SKIPPED || is_outside(runner, node))
        memory_pass(runner->memory, &claim);
    else if (!memory_execute(runner->memory, &claim))
        return;
    bool has_failed = completion->outcome == OUTCOME_FAILED && !is_retry;
    if (has_failed) {
        reason_from(runner, record, &reason);
        completion->reason = &reason;
        note_old_failure(runner, record, &reason);
    }
    memory_complete(runner->memory, &claim, completion);
    view_from(runner, node, record, is_retry ? VIEW_RETRY : is_unwanted ? VIEW_SKIPPED : states[completion->outcome]);
}

static void replay_end(struct replay *r, size_t index, const json_t *record)
{
    const char *outcome = json_get_string(record, "o", "");
    uint32_t node = node_of(r, record);
    struct completion completion = {.outcome = OUTCOME_OK, .requests = json_object_get(record, "r")};
    if (node == NO_NODE)
        return;
    completion.effects.list = json_object_get(record, "w"); /* borrowed */
    if (strcmp(outcome, "skipped") == 0)
        completion.outcome = OUTCOME_SKIPPED;
    else if (strcmp(outcome, "retry") == 0) {
        completion.outcome = OUTCOME_FAILED;
        completion.retry_at_ms = 1;
    } else if (strcmp(outcome, "ok") != 0 && strcmp(outcome, "passed") != 0) {
        uint32_t scope = plan_scope_of(memory_plan(r->runner->memory), node);
        if (!deciding_is_final(&r->deciding, &r->runner->flow->graph, scope, index, r->keeps_failures)) {
            memory_set_attempt(r->runner->memory, node, 1);
            return;
        }
        completion.outcome = strcmp(outcome, "failed") == 0 ? OUTCOME_FAILED : OUTCOME_STOPPED;
    }
    replay_complete(r, node, record, &completion);
}

static void replay_ask(struct replay *r, const json_t *record)
{
    struct runner *runner = r->runner;
    struct claim claim;
    uint32_t node = node_of(r, record);
    if (node == NO_NODE || !memory_claim_node(runner->memory, node, &claim) || !memory_execute(runner->memory, &claim))
        return;
    memory_park(runner->memory, &claim);
    runner_put_question(runner, node, json_get_string(record, "k", ""), json_get_string(record, "s", ""),
                        json_object_get(record, "q"));
    view_from(runner, node, record, VIEW_ASKS);
}

void runner_put_question(struct runner *runner, uint32_t node, const char *task, const char *session, json_t *question)
{
    char id[REPLY_ID_MAX];
    const char *number = DIGITS(node);
    reply_id(node, json_get_int(runner->answer_counts, number, 0), id);
    json_object_set_new(
        runner->questions, number,
        json_pack("{s:s, s:s, s:s, s:O}", "id", id, "task", task, "session_id", session, "question", question));
}

static void count_answer(struct runner *runner, uint32_t node)
{
    const char *number = DIGITS(node);
    json_object_set_new(runner->answer_counts, number,
                        json_integer(json_get_int(runner->answer_counts, number, 0) + 1));
}

static bool is_refusal(const json_t *question, const json_t *answer)
{
    return json_get_bool(json_object_get(question, "question"), "interrupt", false) && json_is_false(answer);
}

/* The question is answered: the task is ready again, and finds the answer. */
static void replay_take_answer(struct runner *runner, uint32_t node, json_t *answer)
{
    struct tsk_error err;
    const char *number = DIGITS(node);
    json_t *question = json_object_get(runner->questions, number), *list = json_object_get(runner->answers, number);
    if (!question)
        return;
    if (!list)
        json_object_set_new(runner->answers, number, list = json_array());
    bool is_refused = is_refusal(question, answer);
    json_array_append_new(
        list, json_pack("{s:O, s:O}", "question", json_at(question, "question.question"), "answer", answer));
    json_object_del(runner->questions, number);
    memory_unpark(runner->memory, node);
    view_set_state(runner, node, VIEW_WAITING);
    struct claim claim;
    if (is_refused && memory_claim_node(runner->memory, node, &claim)) {
        error_set(&err, TSK_TASK_FAILED, "task_interrupted", "task", claim.task, NULL);
        task_complete(runner, running_take(runner, &claim), OUTCOME_FAILED, -1, NULL, &err);
    }
}

json_t *question_of_interrupted(const char *task)
{
    char text[200];
    snprintf(text, sizeof text, "%s was interrupted. Run it again?", task);
    return json_pack("{s:s, s:s, s:s, s:b}", "do", "ask", "question", text, "type", "approval", "interrupt", true);
}

/* What was in flight when the runner died. */
static void settle_interrupted(struct replay *r, uint32_t node, const json_t *start)
{
    struct runner *runner = r->runner;
    const struct flow_task *task = runner_flow_task(runner, node);
    struct claim claim;
    struct tsk_error err;
    if (!task || task->on_interrupt == INTERRUPT_RERUN)
        return;
    if (!memory_claim_node(runner->memory, node, &claim) || !memory_execute(runner->memory, &claim))
        return;
    if (task->on_interrupt == INTERRUPT_FAIL) {
        error_set(&err, TSK_TASK_FAILED, "task_interrupted", "task", claim.task, NULL);
        task_complete(runner, running_take(runner, &claim), OUTCOME_FAILED, -1, NULL, &err);
        return;
    }
    json_t *question CLEANUP_JSON = question_of_interrupted(claim.task);
    json_t *record CLEANUP_JSON = json_pack("{s:i, s:s, s:s, s:I}", "n", (int)node, "k", claim.task, "s", claim.session,
                                            "t", (json_int_t)json_get_int(start, "t", 0));
    json_object_set(record, "q", question);
    memory_give_back(runner->memory, &claim);
    struct buf *line = journal_begin(&runner->journal, "ask");
    buf_json_pair_int(line, "n", node);
    buf_json_pair(line, "k", json_get_string(record, "k", ""));
    buf_json_pair(line, "s", json_get_string(record, "s", ""));
    buf_json_key(line, "q");
    json_write(line, question, false);
    journal_end(&runner->journal);
    runner_note(runner, clock_now().wall_ms, "asked", "task", json_get_string(record, "k", ""));
    replay_ask(r, record);
}

/* What the interrupted attempt has printed; nothing if it has its name already. */
static void keep_output(struct runner *runner, const json_t *start)
{
    char path[512];
    struct tsk_error err;
    if (runner_keep_output(runner, (size_t)json_get_int(start, "p", 0), json_get_string(start, "s", ""),
                           json_get_string(start, "k", ""), (unsigned)json_get_int(start, "a", 1), path) == 0 ||
        errno == ENOENT)
        return;
    fs_error(&err, "name", runner->run.dir, path);
    log_problem(&err);
}

static void find_interrupted(struct replay *r)
{
    json_t *open CLEANUP_JSON = json_object(), *record;
    const char *key;
    void *next;
    size_t i;
    json_array_foreach (r->records, i, record) {
        const char *event = json_get_string(record, "e", "");
        const char *number = DIGITS(json_get_int(record, "n", -1));
        if (strcmp(event, "start") == 0)
            json_object_set(open, number, record);
        else if (strcmp(event, "end") == 0 || strcmp(event, "ask") == 0)
            json_object_del(open, number);
    }
    json_object_foreach_safe(open, next, key, record)
    {
        uint32_t node = node_of(r, record);
        keep_output(r->runner, record);
        if (node != NO_NODE)
            settle_interrupted(r, node, record);
    }
    runner_remove_io(r->runner); /* what they wrote was never applied */
}

static const char *asked_task(struct runner *runner, uint32_t node)
{
    const char *number = DIGITS(node);
    return json_get_string(json_object_get(runner->questions, number), "task", "");
}

/* The run's history. */
static void note_record(struct replay *r, const json_t *record)
{
    const char *event = json_get_string(record, "e", "");
    int64_t time_ms = json_get_int(record, "t", 0);
    if (strcmp(event, "run") == 0)
        runner_note(r->runner, time_ms, "started", NULL, NULL);
    else if (strcmp(event, "resume") == 0)
        runner_note(r->runner, time_ms, "resumed", NULL, NULL);
    else if (strcmp(event, "ask") == 0)
        runner_note(r->runner, time_ms, "asked", "task", json_get_string(record, "k", ""));
    else if (strcmp(event, "answer") == 0)
        runner_note(r->runner, time_ms, "answered", "task", asked_task(r->runner, node_of(r, record)));
    else if (strcmp(event, "done") == 0)
        runner_note(r->runner, time_ms, "ended", "status", json_get_string(record, "status", ""));
}

static void replay_one(struct replay *r, size_t index, const json_t *record)
{
    const char *event = json_get_string(record, "e", "");
    note_record(r, record);
    if (strcmp(event, "end") == 0)
        replay_end(r, index, record);
    else if (strcmp(event, "ask") == 0)
        replay_ask(r, record);
    else if (strcmp(event, "answer") == 0) {
        count_answer(r->runner, (uint32_t)json_get_int(record, "n", NO_NODE));
        if (node_of(r, record) != NO_NODE)
            replay_take_answer(r->runner, node_of(r, record), json_object_get(record, "v"));
    }
}

int runner_replay(struct runner *runner, const json_t *records, struct tsk_error *err)
{
    struct replay r = {.runner = runner, .records = records};
    r.keeps_failures = ends_with_answer(records) || reply_is_there(&runner->run, records);
    deciding_find(&r.deciding, records);
    json_each (records, i, record)
        replay_one(&r, i, record);
    free(r.deciding.at);
    if (runner_take_replies(runner, err) < 0)
        return -1;
    struct buf *line = journal_begin(&runner->journal, "resume");
    if (r.keeps_failures) {
        buf_json_key(line, "keep");
        buf_puts(line, "true");
    }
    journal_end(&runner->journal);
    runner_note(runner, clock_now().wall_ms, "resumed", NULL, NULL);
    find_interrupted(&r);
    return journal_flush(&runner->journal, err);
}

/* A refused repetition ends its task at once, which takes a place for a moment. */
static bool has_place_for(const struct runner *runner, const json_t *question, const json_t *answer)
{
    return runner->running_count < runner->parallel || !is_refusal(question, answer);
}

/* X1: the journal first, then the task that it makes ready. */
static int take_reply(struct runner *runner, uint32_t node, json_t *answer, struct tsk_error *err)
{
    struct buf *record = journal_begin(&runner->journal, "answer");
    buf_json_pair_int(record, "n", node);
    buf_json_key(record, "v");
    json_write(record, answer, false);
    journal_end(&runner->journal);
    if (journal_flush(&runner->journal, err) < 0)
        return -1;
    runner_note(runner, clock_now().wall_ms, "answered", "task", asked_task(runner, node));
    count_answer(runner, node);
    replay_take_answer(runner, node, answer);
    return 0;
}

int runner_take_replies(struct runner *runner, struct tsk_error *err)
{
    const char *number;
    void *next;
    json_t *question;
    bool has_taken = false;
    if (runner->cancels)
        return 0;
    json_object_foreach_safe(runner->questions, next, number, question)
    {
        json_t *answer CLEANUP_JSON = reply_get(&runner->run, question);
        if (!answer || !has_place_for(runner, question, answer))
            continue;
        if (take_reply(runner, (uint32_t)strtoul(number, NULL, 10), answer, err) < 0)
            return -1;
        has_taken = true;
    }
    if (has_taken && !runner->is_replaying)
        runner_save_stage(runner);
    return 0;
}
