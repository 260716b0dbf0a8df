/* runner_task.c - one task: its environment and files, its start, its end. */
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "graph/leftover.h"
#include "graph/output.h"
#include "graph/remote.h"
#include "graph/runner.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define IO_PATH_MAX (PATH_MAX + 64)

const struct flow_task *runner_flow_task(const struct runner *runner, uint32_t node)
{
    uint32_t task = node & PLAN_DYNAMIC ? plan_definition(memory_plan(runner->memory), node) : node;
    return task == NO_NODE ? NULL : flow_task_of(runner->flow, task);
}

/* ---- slots ---------------------------------------------------------------------------------------------- */

struct running *running_take(struct runner *runner, const struct claim *claim)
{
    for (size_t i = 0; i < runner->parallel; i++) {
        struct running *slot = &runner->running[i];
        if (slot->is_used)
            continue;
        *slot = (struct running){.is_used = true, .claim = *claim, .process.pidfd = -1};
        slot->claim.task = strdup(claim->task);
        slot->claim.session = strdup(claim->session);
        BUG(!slot->claim.task || !slot->claim.session);
        slot->scope = plan_scope_of(memory_plan(runner->memory), claim->node);
        runner->running_count++;
        return slot;
    }
    BUG(true);
}

static struct pollfd *poll_of(struct runner *runner, const struct running *slot)
{
    return &runner->polls[slot - runner->running + 1];
}

/* Once: the report of its end does not count it any more. */
static void count_out(struct runner *runner, struct running *slot)
{
    runner->running_count -= !slot->is_over;
    slot->is_over = true;
}

void running_free(struct runner *runner, struct running *slot)
{
    count_out(runner, slot);
    poll_of(runner, slot)->fd = -1;
    fs_close(&slot->process.pidfd);
    free((char *)slot->claim.task);
    free((char *)slot->claim.session);
    slot->is_used = false;
}

/* ---- starting ------------------------------------------------------------------------------------------- */

/* `<run>/<what>.<number>`. */
static const char *io_path(const struct runner *runner, char path[IO_PATH_MAX], const char *what, uint64_t number)
{
    snprintf(path, IO_PATH_MAX, "%s/%s.%llu", runner->run.path, what, (unsigned long long)number);
    return path;
}

/* `count` strings, one behind the other. Returns their number. */
static size_t put_words(char **argv, const char *word, size_t count)
{
    for (size_t i = 0; i < count; i++, word += strlen(word) + 1)
        argv[i] = (char *)word;
    return count;
}

char **task_argv(const struct runner *runner, const struct running *slot)
{
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    const json_t *words = task ? NULL : json_object_get(slot->claim.payload, "run");
    size_t count = task ? task->run_count : json_array_size(words);
    char **argv = memory_zeroed(count + (task ? task->shell_count : 0) + 4, sizeof *argv);
    if (!task) {
        for (size_t i = 0; i < count; i++)
            argv[i] = (char *)json_string_value(json_array_get(words, i));
        return argv;
    }
    size_t shell_count = 0;
    if (task->is_shell) {
        shell_count = put_words(argv, flow_string(runner->flow, task->shell), task->shell_count);
        if (!shell_count)
            argv[shell_count++] = "/bin/sh";
        argv[shell_count++] = "-c";
    }
    put_words(argv + shell_count, flow_string(runner->flow, task->run), count);
    return argv;
}

static int spawn_task(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    bool has_answer;
    char channel[IO_PATH_MAX], output[IO_PATH_MAX], answer[IO_PATH_MAX];
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    if (task_channel(runner, slot, err) < 0 || task_log_open(runner, slot, err) < 0 ||
        task_answer(runner, slot, &has_answer, err) < 0)
        return -1;
    char **argv CLEANUP_FREE = task_argv(runner, slot);
    struct attempt_spec spec = {.claim = &slot->claim,
                                .argv = argv,
                                .cwd = task ? flow_string(runner->flow, task->cwd) : NULL,
                                .env = task ? flow_string(runner->flow, task->env) : NULL,
                                .env_count = task ? task->env_count : 0,
                                .channel = slot->channel_file ? io_path(runner, channel, "channel", slot->channel_file)
                                                              : runner->empty_channel,
                                .output = io_path(runner, output, "output", slot->claim.fence),
                                .answer = has_answer ? io_path(runner, answer, "answer", slot->claim.fence) : NULL,
                                .root = runner->ws->root,
                                .chain = runner->chain,
                                .log_fd = runner->logs[slot - runner->running].fd};
    return execution_start(&runner->executor, &spec, &slot->process, err);
}

void task_start(struct runner *runner, struct running *slot)
{
    struct tsk_error err;
    struct now now = clock_now();
    if (slot->process.stops != STOP_NONE) { /* since it was claimed */
        task_complete(runner, slot, OUTCOME_STOPPED, -1, NULL, NULL);
        return;
    }
    if (runner->options.remote_program) {
        remote_push(runner, slot);
        return;
    }
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    slot->started_ms = now.boot_ms;
    slot->started_wall_ms = now.wall_ms;
    slot->process.deadline_ms = task && task->timeout_ms ? now.boot_ms + task->timeout_ms : 0;
    view_set(runner, slot->claim.node,
             &(struct task_view){.state = VIEW_RUNNING,
                                 .attempt = (uint16_t)slot->claim.attempt,
                                 .exit_code = -1,
                                 .started_ms = now.wall_ms});
    if (spawn_task(runner, slot, &err) < 0) {
        task_complete(runner, slot, OUTCOME_FAILED, err.sys_errno == ENOENT ? 127 : 126, NULL, &err);
        return;
    }
    poll_of(runner, slot)->fd = slot->process.pidfd;
    runner_fact(runner, "task.started", slot->claim.session, slot->claim.task,
                json_pack("{s:i, s:i, s:o*}", "attempt", (int)slot->claim.attempt, "pid", (int)slot->process.pid,
                          "log_from", slot->log_from ? json_integer((json_int_t)slot->log_from) : NULL),
                true);
}

enum pass task_passes(struct runner *runner, const struct claim *claim)
{
    const struct flow_task *task = runner_flow_task(runner, claim->node);
    const char *when = task && !claim->is_asked ? flow_string(runner->flow, task->when) : NULL;
    /* What was added while it runs, copies too, is behind --start. */
    if (runner->is_wanted && !(claim->node & PLAN_DYNAMIC) && !runner->is_wanted[claim->node])
        return PASS_START;
    if (!when)
        return PASS_NOT;
    if (task->never_starts)
        return PASS_NEVER;
    uint64_t version;
    json_t *values CLEANUP_JSON = memory_values(runner->memory, claim, &version);
    return flow_condition_holds(when, values) ? PASS_NOT : PASS_WHEN;
}

/* ---- stopping ------------------------------------------------------------------------------------------- */

void task_stop(struct runner *runner, struct running *slot, enum stop why)
{
    if (runner->options.remote_program)
        remote_stop(runner, slot, why);
    else
        execution_stop(&runner->executor, &slot->claim, &slot->process, why);
}

/* ---- ending --------------------------------------------------------------------------------------------- */

/* How long to wait for the next attempt; -1: there is none. */
static int64_t retry_pause(struct runner *runner, const struct running *slot)
{
    const struct graph *graph = &runner->flow->graph;
    uint32_t task = plan_definition(memory_plan(runner->memory), slot->claim.node);
    uint32_t index = task == NO_NODE ? 0 : graph_node(graph, task)->detail;
    const struct task_detail *detail = index ? REGION_AT(&graph->details, struct task_detail, index - 1) : NULL;
    int32_t retries = detail && detail->retries >= 0 ? detail->retries : runner->flow->retries;
    if (attempt_is_last(slot->process.stops, runner->cancels, slot->claim.attempt, retries))
        return -1;
    return attempt_pause(detail, slot->claim.session, slot->claim.task, slot->claim.attempt);
}

static void journal_task_end(struct runner *runner, const struct running *slot, const char *outcome, int exit_code,
                             int64_t pause_ms, const struct completion *completion)
{
    struct buf *record = journal_begin(&runner->journal, "end");
    buf_json_pair_int(record, "n", slot->claim.node);
    buf_json_pair(record, "k", slot->claim.task);
    buf_json_pair(record, "s", slot->claim.session);
    buf_json_pair_int(record, "a", slot->claim.attempt);
    buf_json_pair(record, "o", outcome);
    buf_json_pair_int(record, "x", exit_code);
    buf_json_pair_int(record, "ms", slot->started_ms ? clock_now().boot_ms - slot->started_ms : 0);
    if (slot->remote.worker[0])
        buf_json_pair(record, "wk", slot->remote.worker);
    if (slot->remote.commit[0])
        buf_json_pair(record, "wc", slot->remote.commit);
    if (slot->remote.takeovers)
        buf_json_pair_int(record, "tk", slot->remote.takeovers);
    if (completion->retry_at_ms)
        buf_json_pair_int(record, "pause", pause_ms);
    if (completion->effects.list && completion->outcome == OUTCOME_OK) {
        buf_json_key(record, "w");
        json_write(record, completion->effects.list, false);
    }
    if (completion->requests && completion->outcome == OUTCOME_OK) {
        buf_json_key(record, "r");
        json_write(record, completion->requests, false);
    }
    journal_end(&runner->journal);
}

static void task_note_failure(struct runner *runner, const struct running *slot, int exit_code,
                              const struct tsk_error *reason)
{
    char log[PATH_MAX];
    snprintf(log, sizeof log, ".aiflow/runs/%s/%s", runner->run.id, slot->log);
    json_t *failure = json_pack("{s:s, s:s, s:i, s:s, s:s?, s:s}", "task", slot->claim.task, "session_id",
                                slot->claim.session, "exit_code", exit_code, "reason", "", "log",
                                slot->log[0] ? log : NULL, "reason_code", tsk_code_name(TSK_TASK_FAILED));
    if (slot->log_from)
        json_object_set_new(failure, "log_from", json_integer((json_int_t)slot->log_from));
    if (reason)
        text_keep_reason(failure, runner->flow->lang, reason);
    runner_note_failure(runner, slot->claim.session, slot->claim.task, failure);
}

static const char *outcome_word(const struct running *slot, const struct completion *completion)
{
    if (completion->outcome == OUTCOME_FAILED && completion->retry_at_ms)
        return "retry";
    if (slot->is_unwanted)
        return "passed";
    return completion->outcome == OUTCOME_OK        ? "ok"
           : completion->outcome == OUTCOME_FAILED  ? "failed"
           : completion->outcome == OUTCOME_SKIPPED ? "skipped"
                                                    : "stopped";
}

static uint8_t view_after(const struct completion *completion)
{
    if (completion->outcome == OUTCOME_FAILED && completion->retry_at_ms)
        return VIEW_RETRY;
    return completion->outcome == OUTCOME_OK        ? VIEW_OK
           : completion->outcome == OUTCOME_FAILED  ? VIEW_FAILED
           : completion->outcome == OUTCOME_SKIPPED ? VIEW_SKIPPED
                                                    : VIEW_STOPPED;
}

/* An answer that the task got is in the channel, too. */
static void add_answer(struct runner *runner, const struct running *slot, struct completion *completion)
{
    char key[200];
    struct tsk_error err;
    if (!json_object_size(runner->answers))
        return;
    const char *node = DIGITS(slot->claim.node);
    const json_t *answers = json_object_get(runner->answers, node);
    if (!json_array_size(answers) || completion->outcome != OUTCOME_OK)
        return;
    snprintf(key, sizeof key, "%s.answer", slot->claim.task);
    const json_t *last = json_array_get(answers, json_array_size(answers) - 1);
    effects_add_take(&completion->effects, EFFECT_SET, key, json_incref(json_object_get(last, "answer")), &err);
    json_object_del(runner->answers, node);
}

static void view_end(struct runner *runner, const struct running *slot, uint8_t state, int exit_code)
{
    struct task_view view = *view_of(runner, slot->claim.node);
    view.state = state;
    view.ended_ms = clock_now().wall_ms;
    view.exit_code = (int16_t)exit_code;
    view.worker = view_worker(runner, slot->remote.worker, slot->remote.commit);
    view.takeovers = (uint8_t)slot->remote.takeovers;
    view_set(runner, slot->claim.node, &view);
}

/* A watcher hears of a failure once, as task.failed; in the trail every task.started has its task.ended. */
static void tell_end(struct runner *runner, const struct running *slot, const struct completion *completion,
                     const char *outcome, int exit_code)
{
    json_int_t ms = slot->started_ms ? clock_now().boot_ms - slot->started_ms : 0;
    json_t *end = json_pack("{s:s, s:i, s:I, s:i}", "outcome", outcome, "exit_code", exit_code, "ms", ms, "attempt",
                            (int)slot->claim.attempt);
    if (completion->outcome != OUTCOME_FAILED || completion->retry_at_ms) {
        runner_fact(runner, "task.ended", slot->claim.session, slot->claim.task, end, true);
        return;
    }
    runner_trail(runner, "task.ended", slot->claim.session, slot->claim.task, end);
    json_decref(end);
    task_note_failure(runner, slot, exit_code, completion->reason->code ? completion->reason : NULL);
}

/* The order:
 *  1. The files of the task are closed: its log is complete when a reader hears of the end.
 *  2. The memory takes the end and decides the outcome (a write that it refuses makes a failure of a success). Facts and journal
 *     records that follow from it, such as the end of a branch, wait until the end itself is recorded.
 *  3. The journal gets the end, then those records. A resumed run replays them in this order.
 *  4. The view and the watchers get the end, then the facts that waited: the cause comes before its consequences.
 *  5. The slot becomes free, last, because all of this reads it. */
void task_complete(struct runner *runner, struct running *slot, enum outcome outcome, int exit_code,
                   struct output *output, struct tsk_error *reason)
{
    struct tsk_error own_reason;
    struct completion completion = {.outcome = outcome, .reason = reason ? reason : &own_reason};
    own_reason.code = TSK_OK;
    if (output) {
        completion.effects.list = json_incref(output->effects.list);
        completion.requests = output->requests;
    }
    int64_t pause_ms = outcome == OUTCOME_FAILED ? retry_pause(runner, slot) : -1;
    if (pause_ms >= 0)
        completion.retry_at_ms = clock_now().boot_ms + pause_ms;
    add_answer(runner, slot, &completion);
    task_channel_done(runner, slot);
    task_log_close(runner, slot, outcome == OUTCOME_FAILED && slot->process.pid != 0);

    bool holds = runner_facts_hold(runner);
    memory_complete(runner->memory, &slot->claim, &completion);
    json_t *held = holds ? runner_facts_take(runner) : NULL;
    const char *word = outcome_word(slot, &completion);
    journal_task_end(runner, slot, word, exit_code, pause_ms, &completion);
    runner_write_late(runner);

    bool is_skipped = slot->is_passed || slot->is_unwanted;
    view_end(runner, slot, is_skipped ? VIEW_SKIPPED : view_after(&completion), exit_code);
    count_out(runner, slot);
    tell_end(runner, slot, &completion, is_skipped ? "skipped" : word, exit_code);
    runner_facts_tell_take(runner, held);
    effects_clear(&completion.effects);
    running_free(runner, slot);
    runner_beat(runner, true);
}

static void task_asks(struct runner *runner, struct running *slot, json_t *question)
{
    runner_put_question(runner, slot->claim.node, slot->claim.task, slot->claim.session, question);
    struct buf *record = journal_begin(&runner->journal, "ask");
    buf_json_pair_int(record, "n", slot->claim.node);
    buf_json_pair(record, "k", slot->claim.task);
    buf_json_pair(record, "s", slot->claim.session);
    buf_json_key(record, "q");
    json_write(record, question, false);
    journal_end(&runner->journal);
    runner_note(runner, clock_now().wall_ms, "asked", "task", slot->claim.task);
    view_set_state(runner, slot->claim.node, VIEW_ASKS);
    task_channel_done(runner, slot);
    task_log_close(runner, slot, false);
    memory_park(runner->memory, &slot->claim);
    count_out(runner, slot);
    runner_fact(runner, "task.asked", slot->claim.session, slot->claim.task, json_incref(question), true);
    running_free(runner, slot);
}

void task_interrupted(struct runner *runner, struct running *slot, uint8_t on_interrupt)
{
    struct tsk_error err;
    if (on_interrupt == INTERRUPT_FAIL) {
        error_set(&err, TSK_TASK_FAILED, "task_interrupted", "task", slot->claim.task, NULL);
        task_complete(runner, slot, OUTCOME_FAILED, -1, NULL, &err);
        return;
    }
    json_t *question CLEANUP_JSON = question_of_interrupted(slot->claim.task);
    task_asks(runner, slot, question);
}

/* The session is named where it is a branch of the run. */
static void task_failure_of(const struct runner *runner, const struct running *slot, int exit_code, int signal_number,
                            int64_t timeout_ms, struct tsk_error *err)
{
    if (slot->process.stops == STOP_TIMEOUT) {
        error_set(err, TSK_TASK_TIMEOUT, "task_timed_out", "task", slot->claim.task, "span", DURATION(timeout_ms),
                  NULL);
        return;
    }
    bool is_branch = strcmp(slot->claim.session, runner->run.id) != 0;
    const char *key =
        signal_number ? (is_branch ? "task_killed_in" : "task_killed") : (is_branch ? "task_exited_in" : "task_exited");
    error_set(err, TSK_TASK_FAILED, key, "task", slot->claim.task, "number",
              DIGITS(signal_number ? signal_number : exit_code), "session_id", slot->claim.session, NULL);
}

/* Words without NUL, the first not empty: what execve takes. */
static bool is_command(const json_t *words)
{
    json_each (words, i, word)
        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
            return false;
    return json_array_size(words) && json_string_length(json_array_get(words, 0));
}

/* A task that is asked for in a file must say its name and what to execute; memory.h knows no commands. */
static int check_spawns(const json_t *requests, struct tsk_error *err)
{
    json_each (requests, i, request) {
        const char *name = json_get_string(request, "task", NULL);
        if (!json_text_is(request, "do", "spawn"))
            continue;
        if (!name)
            return error_set(err, TSK_INVALID_INPUT, "request_lacks", "request", "spawn", "key", "task", NULL);
        if (!is_command(json_object_get(json_object_get(request, "payload"), "run")))
            return error_set(err, TSK_INVALID_INPUT, "spawn_no_command", "name", name, NULL);
    }
    return 0;
}

void task_exited(struct runner *runner, struct running *slot)
{
    poll_of(runner, slot)->fd = -1; /* it has reported everything */
    if (execution_ended(&runner->executor, &slot->claim, &slot->process))
        task_judge(runner, slot);
}

void task_judge(struct runner *runner, struct running *slot)
{
    struct tsk_error err;
    struct output output = {0};
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    int exit_code = execution_exit_code(&slot->process);
    int result = task_output(runner, slot, &output, &err);
    if (result == 0 && output.question)
        result = output_check_question(output.question, &err);
    if (result == 0)
        result = check_spawns(output.requests, &err);
    switch (attempt_verdict(slot->process.stops, exit_code, result == 0, output.question)) {
    case ATTEMPT_ASKS:
        task_asks(runner, slot, output.question);
        break;
    case ATTEMPT_STOPPED:
        task_complete(runner, slot, OUTCOME_STOPPED, exit_code, NULL, NULL);
        break;
    case ATTEMPT_OK:
        task_complete(runner, slot, OUTCOME_OK, 0, &output, NULL);
        break;
    case ATTEMPT_FAILED: /* its exit says more than what it wrote */
        if (exit_code != 0 || slot->process.stops == STOP_TIMEOUT)
            task_failure_of(runner, slot, exit_code,
                            execution_was_killed(&slot->process) ? slot->process.end.si_status : 0,
                            task ? task->timeout_ms : 0, &err);
        task_complete(runner, slot, OUTCOME_FAILED, exit_code, NULL, &err);
        break;
    }
    output_clear(&output);
}
