/* runner_task.c - one task: its environment and files, its start, its end. */
#include "base/fs.h"
#include "base/log.h"
#include "graph/leftover.h"
#include "graph/output.h"
#include "graph/runner.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENV_OWN        11
#define OTHERS_LOOK_MS 20

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
        *slot = (struct running){.is_used = true, .claim = *claim, .pidfd = -1};
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
    fs_close(&slot->pidfd);
    free((char *)slot->claim.task);
    free((char *)slot->claim.session);
    slot->is_used = false;
}

/* ---- environment ---------------------------------------------------------------------------------------- */

/* Where the variables begin in the text, which may move while it grows. */
struct env_own {
    size_t count, offsets[ENV_OWN];
};

static void env_put(struct runner *runner, struct env_own *own, const char *name, const char *value)
{
    own->offsets[own->count++] = runner->env_text.len;
    buf_puts(&runner->env_text, name);
    buf_put(&runner->env_text, value, strlen(value) + 1);
}

static void env_put_number(struct runner *runner, struct env_own *own, const char *name, uint64_t value)
{
    own->offsets[own->count++] = runner->env_text.len;
    buf_puts(&runner->env_text, name);
    buf_put_int(&runner->env_text, (int64_t)value);
    buf_put(&runner->env_text, "", 1);
}

/* `<run>/<what>.<number>`. */
static void env_put_file(struct runner *runner, struct env_own *own, const char *name, const char *what,
                         uint64_t number)
{
    own->offsets[own->count++] = runner->env_text.len;
    buf_puts(&runner->env_text, name);
    buf_puts(&runner->env_text, runner->run.path);
    buf_puts(&runner->env_text, "/");
    buf_puts(&runner->env_text, what);
    buf_puts(&runner->env_text, ".");
    buf_put_int(&runner->env_text, (int64_t)number);
    buf_put(&runner->env_text, "", 1);
}

/* The variables that every task gets; their places in the text. */
static struct env_own env_own_make(struct runner *runner, const struct running *slot, bool has_answer)
{
    struct env_own own = {0};
    buf_reset(&runner->env_text);
    env_put(runner, &own, "TASUKI_RUN_ID=", runner->run.id);
    env_put(runner, &own, "TASUKI_SESSION_ID=", slot->claim.session);
    env_put(runner, &own, "TASUKI_TASK_ID=", slot->claim.task);
    env_put_number(runner, &own, "TASUKI_ATTEMPT=", slot->claim.attempt);
    env_put_number(runner, &own, "TASUKI_FENCE=", slot->claim.fence);
    if (slot->channel_file)
        env_put_file(runner, &own, "TASUKI_CHANNEL=", "channel", slot->channel_file);
    else
        env_put(runner, &own, "TASUKI_CHANNEL=", runner->empty_channel);
    env_put_file(runner, &own, "TASUKI_OUTPUT=", "output", slot->claim.fence);
    env_put(runner, &own, "TASUKI_ROOT=", runner->ws->root);
    env_put(runner, &own, "TASUKI_RUN_CHAIN=", runner->chain);
    if (has_answer)
        env_put_file(runner, &own, "TASUKI_ANSWER=", "answer", slot->claim.fence);
    BUG(runner->env_text.failed);
    return own;
}

static bool env_has(char *const *pairs, size_t count, const char *pair)
{
    size_t len = strcspn(pair, "=") + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(pairs[i], pair, len) == 0)
            return true;
    return false;
}

/* Our environment, then what every task gets. A task with variables of its own has them in another order, in the places behind:
 * what every task gets, its own, and of ours what is not among them. No name is there twice: who reads which is anybody's guess. */
static char **env_make(struct runner *runner, const struct running *slot, bool has_answer)
{
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    size_t of_task = task ? task->env_count : 0;
    size_t need = runner->env_base * 2 + ENV_OWN + of_task + 1;
    if (need > runner->env_room) {
        runner->env = realloc(runner->env, need * sizeof *runner->env);
        runner->env_room = need;
        BUG(!runner->env);
    }
    struct env_own own = env_own_make(runner, slot, has_answer);
    char **first = runner->env + runner->env_base, **next = first;
    for (size_t i = 0; i < own.count; i++)
        *next++ = runner->env_text.data + own.offsets[i];
    const char *pair = task ? flow_string(runner->flow, task->env) : NULL;
    for (size_t i = 0; i < of_task; i++, pair += strlen(pair) + 1)
        if (!env_has(first, (size_t)(next - first), pair))
            *next++ = (char *)pair;
    size_t given = (size_t)(next - first);
    for (size_t i = 0; of_task && i < runner->env_base; i++)
        if (!env_has(first, given, runner->env[i]))
            *next++ = runner->env[i];
    *next = NULL;
    return of_task ? first : runner->env;
}

/* ---- starting ------------------------------------------------------------------------------------------- */

/* The command of a task as an argument list; owned array of borrowed words. */
static char **argv_make(const struct runner *runner, const struct running *slot)
{
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    const json_t *words = task ? NULL : json_object_get(slot->claim.payload, "run");
    size_t count = task ? task->run_count : json_array_size(words);
    char **argv = calloc(count + 4, sizeof *argv);
    BUG(!argv);
    if (task && task->is_shell) {
        argv[0] = "/bin/sh";
        argv[1] = "-c";
        argv[2] = (char *)flow_string(runner->flow, task->run);
        return argv;
    }
    const char *word = task ? flow_string(runner->flow, task->run) : NULL;
    for (size_t i = 0; i < count; i++) {
        argv[i] = (char *)(task ? word : json_string_value(json_array_get(words, i)));
        word = task ? word + strlen(word) + 1 : NULL;
    }
    return argv;
}

static int start_failed(const struct running *slot, const char *command, const char *stage, struct tsk_error *err)
{
    int number = errno;
    error_set(err, TSK_TASK_FAILED, "task_not_started", "task", slot->claim.task, "command", command ? command : "",
              "what", stage, "reason", strerrordesc_np(number), NULL);
    err->sys_errno = number;
    return -1;
}

static int spawn_task(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    bool has_answer;
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    if (task_channel(runner, slot, err) < 0 || task_log_open(runner, slot, err) < 0 ||
        task_answer(runner, slot, &has_answer, err) < 0)
        return -1;
    char **argv = argv_make(runner, slot);
    int log = runner->logs[slot - runner->running].fd;
    struct spawn_fd fds[] = {{runner->null_fd, 0},
                             {log, 1},
                             {log, 2},
                             {runner->run.life_fd, RUN_LIFE_FD},
                             {runner->options.lock_fd, RUN_LOCK_FD}};
    struct spawn spawn = {.argv = argv,
                          .envp = env_make(runner, slot, has_answer),
                          .cwd = task ? flow_string(runner->flow, task->cwd) : NULL,
                          .fds = fds,
                          .fd_count = runner->options.lock_fd ? 5 : 4,
                          .mask = &runner->saved_mask,
                          .new_group = true,
                          .dies_with_parent = true,
                          .no_pidfd = !runner->has_threads,
                          .mark = leftover_start_mark(runner->mark, slot->claim.fence),
                          .changed_signals = &runner->changed_signals,
                          .stack = runner->stack};
    int result = spawn_run(&spawn);
    if (result < 0)
        start_failed(slot, argv[0], spawn.stage, err);
    slot->pid = spawn.pid;
    slot->pidfd = spawn.pidfd;
    free(argv);
    return result;
}

void task_start(struct runner *runner, struct running *slot)
{
    struct tsk_error err;
    struct now now = clock_now();
    if (slot->stops != STOP_NONE) { /* since it was claimed */
        task_complete(runner, slot, OUTCOME_STOPPED, -1, NULL, NULL);
        return;
    }
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    slot->started_ms = now.boot_ms;
    slot->started_wall_ms = now.wall_ms;
    slot->deadline_ms = task && task->timeout_ms ? now.boot_ms + task->timeout_ms : 0;
    view_set(runner, slot->claim.node,
             &(struct task_view){.state = VIEW_RUNNING,
                                 .attempt = (uint16_t)slot->claim.attempt,
                                 .exit_code = -1,
                                 .started_ms = now.wall_ms});
    if (spawn_task(runner, slot, &err) < 0) {
        task_complete(runner, slot, OUTCOME_FAILED, err.sys_errno == ENOENT ? 127 : 126, NULL, &err);
        return;
    }
    poll_of(runner, slot)->fd = slot->pidfd;
    runner_fact(runner, "task.started", slot->claim.session, slot->claim.task,
                json_pack("{s:i, s:i}", "attempt", (int)slot->claim.attempt, "pid", (int)slot->pid), true);
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

/* All at once while they live: who executes a run of its own leads to what that run's tasks have hidden. */
void task_end_processes(struct runner *runner, const struct running *slot)
{
    struct tsk_error err;
    if (leftovers_end_task(&runner->run, &slot->claim, &err) < 0)
        log_problem(&err);
    if (slot->pid > 0)
        kill(-slot->pid, SIGKILL);
}

void task_stop(struct runner *runner, struct running *slot, enum stop why)
{
    int64_t now = clock_now().boot_ms;
    if (slot->stops == STOP_NONE) {
        slot->stops = why;
        slot->kill_at_ms = now + runner->grace_ms;
        slot->deadline_ms = 0;
        if (slot->pid > 0) {
            kill(-slot->pid, SIGTERM);
            leftovers_signal_task(&runner->run, &slot->claim, SIGTERM, slot->pid);
            kill(-slot->pid, SIGCONT); /* what is stopped can end in good order, too */
        }
    }
    if (now >= slot->kill_at_ms || runner->grace_ms == 0) {
        task_end_processes(runner, slot);
        slot->kill_at_ms = INT64_MAX;
    }
}

/* X4. The zombie keeps the group's number from being given away meanwhile. */
static bool must_wait_for_others(struct runner *runner, struct running *slot)
{
    int64_t now = clock_now().boot_ms;
    poll_of(runner, slot)->fd = -1; /* it has told what it had to tell */
    bool is_killed = slot->kill_at_ms == INT64_MAX || now >= slot->kill_at_ms;
    if (is_killed || leftovers_signal_task(&runner->run, &slot->claim, 0, 0) == 0)
        return false;
    slot->look_at_ms = now + OTHERS_LOOK_MS;
    return true;
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
    if (attempt_is_last(slot->stops, runner->cancels, slot->claim.attempt, retries))
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

static void note_failure(struct runner *runner, const struct running *slot, int exit_code,
                         const struct tsk_error *reason)
{
    char log[PATH_MAX];
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    snprintf(log, sizeof log, ".aiflow/runs/%s/%s", runner->run.id, slot->log);
    if (reason)
        text_put_error(&message, runner->flow->lang, reason);
    json_t *failure =
        json_pack("{s:s, s:s, s:i, s:s, s:s?, s:s}", "task", slot->claim.task, "session_id", slot->claim.session,
                  "exit_code", exit_code, "reason", buf_str(&message), "log", slot->log[0] ? log : NULL, "reason_code",
                  tsk_code_name(reason ? reason->code : TSK_TASK_FAILED));
    json_array_append(runner->failures, failure);
    runner_fact(runner, "task.failed", slot->claim.session, slot->claim.task, failure, true);
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
    char node[16], key[200];
    struct tsk_error err;
    if (!json_object_size(runner->answers))
        return;
    snprintf(node, sizeof node, "%u", slot->claim.node);
    const json_t *answers = json_object_get(runner->answers, node);
    if (!json_array_size(answers) || completion->outcome != OUTCOME_OK)
        return;
    snprintf(key, sizeof key, "%s.answer", slot->claim.task);
    const json_t *last = json_array_get(answers, json_array_size(answers) - 1);
    effects_add_take(&completion->effects, EFFECT_SET, key, json_incref(json_object_get(last, "answer")), &err);
    json_object_del(runner->answers, node);
}

void task_complete(struct runner *runner, struct running *slot, enum outcome outcome, int exit_code,
                   struct output *output, struct tsk_error *reason)
{
    struct tsk_error own_reason;
    struct completion completion = {.outcome = outcome, .reason = reason ? reason : &own_reason};
    if (output) {
        completion.effects.list = json_incref(output->effects.list);
        completion.requests = output->requests;
    }
    int64_t pause_ms = outcome == OUTCOME_FAILED ? retry_pause(runner, slot) : -1;
    if (pause_ms >= 0)
        completion.retry_at_ms = clock_now().boot_ms + pause_ms;
    own_reason.code = TSK_OK;
    add_answer(runner, slot, &completion);
    bool ends = !completion.retry_at_ms;
    task_channel_done(runner, slot);
    task_log_close(runner, slot, outcome == OUTCOME_FAILED && slot->pid != 0);
    bool holds = runner_facts_hold(runner);
    memory_complete(runner->memory, &slot->claim, &completion);
    json_t *held = holds ? runner_facts_take(runner) : NULL;
    journal_task_end(runner, slot, outcome_word(slot, &completion), exit_code, pause_ms, &completion);
    runner_write_late(runner);
    struct task_view view = *view_of(runner, slot->claim.node);
    bool is_skipped = slot->is_passed || slot->is_unwanted;
    view.state = is_skipped ? VIEW_SKIPPED : view_after(&completion);
    view.ended_ms = clock_now().wall_ms;
    view.exit_code = exit_code;
    view_set(runner, slot->claim.node, &view);
    count_out(runner, slot);
    json_t *end = json_pack("{s:s, s:i, s:I, s:i}", "outcome", is_skipped ? "skipped" : outcome_word(slot, &completion),
                            "exit_code", exit_code, "ms",
                            (json_int_t)(slot->started_ms ? clock_now().boot_ms - slot->started_ms : 0), "attempt",
                            (int)slot->claim.attempt);
    if (ends &&
        completion.outcome == OUTCOME_FAILED) { /* who watches hears of it once; in the trail every start has its end */
        runner_trail(runner, "task.ended", slot->claim.session, slot->claim.task, end);
        json_decref(end);
        note_failure(runner, slot, exit_code, completion.reason->code ? completion.reason : NULL);
    } else {
        runner_fact(runner, "task.ended", slot->claim.session, slot->claim.task, end, true);
    }
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

static void failure_of(const struct running *slot, int exit_code, int signal_number, int64_t timeout_ms,
                       struct tsk_error *err)
{
    char number[24], span[TIME_TEXT_MAX];
    if (slot->stops == STOP_TIMEOUT) {
        duration_format(timeout_ms, span);
        error_set(err, TSK_TASK_TIMEOUT, "task_timed_out", "task", slot->claim.task, "span", span, NULL);
        return;
    }
    snprintf(number, sizeof number, "%d", signal_number ? signal_number : exit_code);
    error_set(err, TSK_TASK_FAILED, signal_number ? "task_killed" : "task_exited", "task", slot->claim.task, "number",
              number, "session", slot->claim.session, NULL);
}

/* Words without NUL, the first not empty: what execve takes. */
static bool is_command(const json_t *words)
{
    size_t i;
    json_t *word;
    json_array_foreach (words, i, word)
        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
            return false;
    return json_array_size(words) && json_string_length(json_array_get(words, 0));
}

/* A task that is asked for in a file must say its name and what to execute; memory.h knows no commands. */
static int check_spawns(const json_t *requests, struct tsk_error *err)
{
    size_t i;
    json_t *request;
    json_array_foreach (requests, i, request) {
        const char *name = json_get_string(request, "task", NULL);
        if (strcmp(json_get_string(request, "do", ""), "spawn") != 0)
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
    siginfo_t *info = &slot->end;
    struct tsk_error err;
    struct output output = {0};
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    if (slot->stops != STOP_NONE && must_wait_for_others(runner, slot))
        return;
    if (slot->stops != STOP_NONE)
        task_end_processes(runner, slot);
    while (!info->si_pid && waitid(P_PID, (id_t)slot->pid, info, WEXITED) < 0 && errno == EINTR)
        ;
    bool by_signal = info->si_code != CLD_EXITED;
    int exit_code = by_signal ? 128 + info->si_status : info->si_status;
    int result = task_output(runner, slot, &output, &err);
    if (result == 0 && output.question)
        result = output_check_question(output.question, &err);
    if (result == 0)
        result = check_spawns(output.requests, &err);
    switch (attempt_verdict(slot->stops, exit_code, result == 0, output.question)) {
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
        if (exit_code != 0 || slot->stops == STOP_TIMEOUT)
            failure_of(slot, exit_code, by_signal ? info->si_status : 0, task ? task->timeout_ms : 0, &err);
        task_complete(runner, slot, OUTCOME_FAILED, exit_code, NULL, &err);
        break;
    }
    output_clear(&output);
}
