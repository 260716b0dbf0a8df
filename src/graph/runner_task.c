/* runner_task.c - one task: its environment and files, its start, its end. */
#include "base/fs.h"
#include "base/log.h"
#include "graph/output.h"
#include "graph/runner.h"
#include "proc/spawn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFE_FD       62  /* in the task: out of the way of what shells use */
#define SESSION_MAX   200 /* longer ids are cut in directory names */
#define ENV_OWN       10
#define EMPTY_CHANNEL "runs/.empty.json"

const struct flow_task *runner_flow_task(const struct runner *runner, uint32_t node)
{
    return node & PLAN_DYNAMIC ? NULL : flow_task_of(runner->flow, node);
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
        slot->scope = plan_scope_of(backend_memory_plan(runner->backend), claim->node);
        runner->running_count++;
        return slot;
    }
    BUG(true);
}

void running_free(struct runner *runner, struct running *slot)
{
    /* Closing is not enough: a child that is in its exec may still have a copy of the descriptor for a moment. */
    if (slot->pidfd >= 0)
        epoll_ctl(runner->poll_fd, EPOLL_CTL_DEL, slot->pidfd, NULL);
    fs_close(&slot->pidfd);
    free((char *)slot->claim.task);
    free((char *)slot->claim.session);
    slot->is_used = false;
    runner->running_count--;
}

/* ---- files ---------------------------------------------------------------------------------------------- */

static void io_path(const struct runner *runner, char path[PATH_MAX + 64], const char *what, uint64_t number)
{
    snprintf(path, PATH_MAX + 64, "%s/%s.%llu", runner->run.path, what, (unsigned long long)number);
}

static void io_name(char name[64], const char *what, uint64_t number)
{
    snprintf(name, 64, "%s.%llu", what, (unsigned long long)number);
}

static int write_file(struct runner *runner, const char *name, const void *data, size_t len, struct tsk_error *err)
{
    int fd CLEANUP_FD = fs->openat(runner->run.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 || fs_write_all(fd, data, len) < 0 ? error_errno(err, "write", name) : 0;
}

/* What there is to read as long as nobody has written: one file for all runs. */
static int empty_channel(struct runner *runner, struct tsk_error *err)
{
    struct stat st;
    if (runner->has_empty_channel || fs->fstatat(runner->ws->state_dir, EMPTY_CHANNEL, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        runner->has_empty_channel = true;
        return 0;
    }
    if (fs_replace_file(runner->ws->state_dir, EMPTY_CHANNEL, 0600, "{}", 2) < 0)
        return error_errno(err, "write", EMPTY_CHANNEL);
    runner->has_empty_channel = true;
    return 0;
}

/* The values that the task may read: a file that all tasks of a session share as long as nothing changes. */
static int channel_file(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    struct channel_file *file = &runner->files[slot->scope];
    const void *session = session_of(backend_memory_plan(runner->backend), slot->scope);
    json_t *values CLEANUP_JSON = NULL;
    uint64_t version;
    char name[64];
    if (runner->backend->ops->values(runner->backend, &slot->claim, &values, &version, err) < 0)
        return -1;
    if (json_object_size(values) == 0)
        return empty_channel(runner, err);
    if (!file->number || file->session != session || file->version != version) {
        struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
        if (file->number && !file->users) {
            io_name(name, "channel", file->number);
            fs->unlinkat(runner->run.dir, name, 0);
        }
        *file = (struct channel_file){.session = session, .version = version, .number = ++runner->file_number};
        io_name(name, "channel", file->number);
        json_write(&text, values, false);
        if (text.failed || write_file(runner, name, text.data, text.len, err) < 0)
            return -1;
    }
    file->users++;
    slot->channel_file = file->number;
    return 0;
}

static void channel_file_done(struct runner *runner, struct running *slot)
{
    struct channel_file *file = &runner->files[slot->scope];
    char name[64];
    if (slot->channel_file && slot->channel_file == file->number) {
        file->users--;
    } else if (slot->channel_file) { /* there is a newer one; who else reads this one is not counted, so see */
        for (size_t i = 0; i < runner->parallel; i++)
            if (&runner->running[i] != slot && runner->running[i].is_used &&
                runner->running[i].channel_file == slot->channel_file)
                return;
        io_name(name, "channel", slot->channel_file);
        fs->unlinkat(runner->run.dir, name, 0);
    }
}

static struct slot_log *log_of(struct runner *runner, const struct running *slot)
{
    return &runner->logs[slot - runner->running];
}

static int open_log(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    struct slot_log *log = log_of(runner, slot);
    char name[64];
    if (log->fd >= 0)
        return 0;
    snprintf(name, sizeof name, "slot.%zu", (size_t)(slot - runner->running));
    log->fd = fs->openat(runner->run.dir, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return log->fd < 0 ? error_errno(err, "open", name) : 0;
}

/* A task that runs again in a later cycle, or after a resume, goes on in its log. */
static int join_logs(struct runner *runner, const char *from, const char *to)
{
    struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
    int fd CLEANUP_FD = fs->openat(runner->run.dir, to, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_file(runner->run.dir, from, (1u << 30) - 1, &text) < 0 ||
        fs_write_all(fd, buf_str(&text), text.len) < 0)
        return -1;
    return fs->unlinkat(runner->run.dir, from, 0);
}

int runner_keep_output(struct runner *runner, size_t place, const char *session, const char *task, unsigned attempt,
                       char path[512])
{
    char folder[SESSION_MAX + 16], from[64];
    snprintf(from, sizeof from, "slot.%zu", place);
    snprintf(folder, sizeof folder, "tasks/%.*s", SESSION_MAX, session);
    snprintf(path, 512, "%s/%s.%u.log", folder, task, attempt);
    int result = fs->renameat2(runner->run.dir, from, runner->run.dir, path, RENAME_NOREPLACE);
    if (result < 0 && errno == ENOENT && fs_make_dirs(runner->run.dir, folder) == 0)
        result = fs->renameat2(runner->run.dir, from, runner->run.dir, path, RENAME_NOREPLACE);
    if (result < 0 && errno == EEXIST)
        result = join_logs(runner, from, path);
    return result;
}

void task_name_log(struct runner *runner, struct running *slot)
{
    struct tsk_error err;
    if (slot->is_log_named || log_of(runner, slot)->fd < 0)
        return;
    if (runner_keep_output(runner, (size_t)(slot - runner->running), slot->claim.session, slot->claim.task,
                           slot->claim.attempt, slot->log) < 0) {
        error_errno(&err, "name", slot->log);
        log_problem(&err);
    }
    slot->is_log_named = true;
}

/* At the end: a file that was written to, or that somebody may still write to, belongs to this task. */
static void close_log(struct runner *runner, struct running *slot, bool must_stay)
{
    struct slot_log *log = log_of(runner, slot);
    struct stat st;
    if (log->fd < 0)
        return;
    bool is_used = must_stay || slot->is_log_named || fs->fstat(log->fd, &st) < 0 || st.st_size > 0 ||
                   (slot->pid > 0 && kill(-slot->pid, 0) == 0);
    if (!is_used)
        return;
    task_name_log(runner, slot);
    fs_close(&log->fd);
    log->fd = -1;
}

/* ---- environment ---------------------------------------------------------------------------------------- */

static void env_put(struct runner *runner, size_t *count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void env_put(struct runner *runner, size_t *count, const char *format, ...)
{
    char text[PATH_MAX + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* An offset for now: the text may move while it grows. */
    runner->env[runner->env_base + (*count)++] = (char *)(uintptr_t)runner->env_text.len;
    buf_put(&runner->env_text, text, strlen(text) + 1);
}

/* Our environment, then what every task gets, then its own. */
static char **env_make(struct runner *runner, const struct running *slot, bool has_answer)
{
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    size_t own = task ? task->env_count : 0, count = 0;
    char path[PATH_MAX + 64];
    runner->env = realloc(runner->env, (runner->env_base + ENV_OWN + own + 1) * sizeof *runner->env);
    BUG(!runner->env);
    buf_reset(&runner->env_text);
    env_put(runner, &count, "TASUKI_RUN_ID=%s", runner->run.id);
    env_put(runner, &count, "TASUKI_SESSION_ID=%s", slot->claim.session);
    env_put(runner, &count, "TASUKI_TASK_ID=%s", slot->claim.task);
    env_put(runner, &count, "TASUKI_ATTEMPT=%u", slot->claim.attempt);
    env_put(runner, &count, "TASUKI_FENCE=%llu", (unsigned long long)slot->claim.fence);
    if (slot->channel_file)
        io_path(runner, path, "channel", slot->channel_file);
    else
        snprintf(path, sizeof path, "%s/" EMPTY_CHANNEL, runner->ws->state_path);
    env_put(runner, &count, "TASUKI_CHANNEL=%s", path);
    io_path(runner, path, "output", slot->claim.fence);
    env_put(runner, &count, "TASUKI_OUTPUT=%s", path);
    env_put(runner, &count, "TASUKI_ROOT=%s", runner->ws->root);
    io_path(runner, path, "answer", slot->claim.fence);
    if (has_answer)
        env_put(runner, &count, "TASUKI_ANSWER=%s", path);
    BUG(runner->env_text.failed);
    for (size_t i = 0; i < count; i++)
        runner->env[runner->env_base + i] = runner->env_text.data + (uintptr_t)runner->env[runner->env_base + i];
    const char *pair = task ? flow_string(runner->flow, task->env) : NULL;
    for (size_t i = 0; i < own; i++, pair += strlen(pair) + 1)
        runner->env[runner->env_base + count++] = (char *)pair;
    runner->env[runner->env_base + count] = NULL;
    return runner->env;
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

static int answer_file(struct runner *runner, const struct running *slot, bool *ret_has_answer, struct tsk_error *err)
{
    char node[16], name[64];
    snprintf(node, sizeof node, "%u", slot->claim.node);
    const json_t *answers = json_object_get(runner->answers, node);
    *ret_has_answer = json_array_size(answers) > 0;
    if (!*ret_has_answer)
        return 0;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *last = json_array_get(answers, json_array_size(answers) - 1);
    json_t *document CLEANUP_JSON = json_pack("{s:O, s:O, s:O}", "question", json_object_get(last, "question"),
                                              "answer", json_object_get(last, "answer"), "all", answers);
    json_write(&text, document, false);
    io_name(name, "answer", slot->claim.fence);
    return write_file(runner, name, buf_str(&text), text.len, err);
}

static int spawn_task(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    bool has_answer;
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    if (channel_file(runner, slot, err) < 0 || open_log(runner, slot, err) < 0 ||
        answer_file(runner, slot, &has_answer, err) < 0)
        return -1;
    char **argv = argv_make(runner, slot);
    struct spawn_fd fds[] = {{runner->null_fd, 0},
                             {log_of(runner, slot)->fd, 1},
                             {log_of(runner, slot)->fd, 2},
                             {runner->run.life_fd, LIFE_FD}};
    struct spawn spawn = {.argv = argv,
                          .envp = env_make(runner, slot, has_answer),
                          .cwd = task ? flow_string(runner->flow, task->cwd) : NULL,
                          .fds = fds,
                          .fd_count = 4,
                          .mask = &runner->saved_mask,
                          .new_group = true,
                          .dies_with_parent = true,
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
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    struct task_view *view = view_of(runner, slot->claim.node);
    slot->started_ms = now.boot_ms;
    slot->started_wall_ms = now.wall_ms;
    slot->deadline_ms = task && task->timeout_ms ? now.boot_ms + task->timeout_ms : 0;
    *view = (struct task_view){
        .state = VIEW_RUNNING, .attempt = (uint16_t)slot->claim.attempt, .exit_code = -1, .started_ms = now.wall_ms};
    if (spawn_task(runner, slot, &err) < 0) {
        task_complete(runner, slot, OUTCOME_FAILED, err.sys_errno == ENOENT ? 127 : 126, NULL, &err);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(slot - runner->running)};
    BUG(epoll_ctl(runner->poll_fd, EPOLL_CTL_ADD, slot->pidfd, &event) < 0);
    if (runner->options.tell)
        runner_fact(runner, "task.started", slot->claim.session, slot->claim.task,
                    json_pack("{s:i, s:i}", "attempt", (int)slot->claim.attempt, "pid", (int)slot->pid), false);
}

bool task_is_passed_over(struct runner *runner, const struct claim *claim, enum outcome *ret)
{
    const struct flow_task *task = runner_flow_task(runner, claim->node);
    const char *when = task && !claim->is_asked ? flow_string(runner->flow, task->when) : NULL;
    if (task && runner->is_wanted && !runner->is_wanted[claim->node]) {
        *ret = OUTCOME_OK;
        return true;
    }
    if (!when)
        return false;
    json_t *values CLEANUP_JSON = NULL;
    struct tsk_error err;
    uint64_t version;
    BUG(runner->backend->ops->values(runner->backend, claim, &values, &version, &err) < 0);
    *ret = OUTCOME_SKIPPED;
    return !flow_condition_holds(when, values);
}

/* ---- stopping ------------------------------------------------------------------------------------------- */

void task_stop(struct runner *runner, struct running *slot, int why)
{
    int64_t now = clock_now().boot_ms;
    if (slot->stops == STOP_NONE) {
        slot->stops = why;
        slot->kill_at_ms = now + runner->grace_ms;
        slot->deadline_ms = 0;
        if (slot->pid > 0)
            kill(-slot->pid, SIGTERM);
    }
    if (now >= slot->kill_at_ms || runner->grace_ms == 0) {
        if (slot->pid > 0)
            kill(-slot->pid, SIGKILL);
        slot->kill_at_ms = INT64_MAX;
    }
}

/* ---- ending --------------------------------------------------------------------------------------------- */

static int64_t retry_delay(const struct task_detail *detail, unsigned attempt)
{
    double initial = detail ? (double)detail->backoff_initial_ms : 1000, factor = detail ? detail->backoff_factor : 2;
    double most = detail ? (double)detail->backoff_max_ms : 60000, jitter = detail ? detail->backoff_jitter : 0;
    double pause = initial * pow(factor, attempt - 1);
    pause = pause > most ? most : pause;
    unsigned random = (unsigned)(clock_now().wall_ms * 2654435761u) % 1000;
    return (int64_t)(pause * (1 + jitter * ((double)random / 500 - 1)));
}

/* When it is to be tried again; 0: not any more. */
static int64_t retry_time(struct runner *runner, const struct running *slot)
{
    const struct graph *graph = &runner->flow->graph;
    uint32_t node = slot->claim.node, index = node & PLAN_DYNAMIC ? 0 : graph_node(graph, node)->detail;
    const struct task_detail *detail = index ? REGION_AT(&graph->details, struct task_detail, index - 1) : NULL;
    int32_t retries = detail && detail->retries >= 0 ? detail->retries : runner->flow->retries;
    if ((int64_t)slot->claim.attempt > retries || slot->stops == STOP_GROUP || slot->stops == STOP_RUN ||
        runner->cancels)
        return 0;
    int64_t delay = retry_delay(detail, slot->claim.attempt);
    return clock_now().boot_ms + (delay > 0 ? delay : 1);
}

static void journal_task_end(struct runner *runner, const struct running *slot, const char *outcome, int exit_code,
                             const struct completion *completion)
{
    struct buf *record = journal_begin(&runner->journal, "end");
    buf_json_pair_int(record, "n", slot->claim.node);
    buf_json_pair(record, "k", slot->claim.task);
    buf_json_pair(record, "s", slot->claim.session);
    buf_json_pair_int(record, "a", slot->claim.attempt);
    buf_json_pair(record, "o", outcome);
    buf_json_pair_int(record, "x", exit_code);
    buf_json_pair_int(record, "ms", slot->started_ms ? clock_now().boot_ms - slot->started_ms : 0);
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
    runner->failed++;
    runner_fact(runner, "task.failed", slot->claim.session, slot->claim.task, failure, true);
}

static const char *outcome_word(const struct completion *completion)
{
    if (completion->outcome == OUTCOME_FAILED && completion->retry_at_ms)
        return "retry";
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
    struct tsk_error err, own_reason;
    struct completion completion = {.outcome = outcome, .reason = reason ? reason : &own_reason};
    if (output) {
        completion.effects.list = json_incref(output->effects.list);
        completion.requests = output->requests;
    }
    if (outcome == OUTCOME_FAILED)
        completion.retry_at_ms = retry_time(runner, slot);
    own_reason.code = TSK_OK;
    add_answer(runner, slot, &completion);
    struct task_view *view = view_of(runner, slot->claim.node);
    bool ends = !completion.retry_at_ms;
    channel_file_done(runner, slot);
    close_log(runner, slot, outcome == OUTCOME_FAILED && slot->pid != 0);
    BUG(runner->backend->ops->complete(runner->backend, &slot->claim, &completion, &err) < 0);
    journal_task_end(runner, slot, outcome_word(&completion), exit_code, &completion);
    runner_write_late(runner);
    view = view_of(runner, slot->claim.node);
    view->state = view_after(&completion);
    view->ended_ms = clock_now().wall_ms;
    view->exit_code = exit_code;
    runner->done += ends;
    if (ends && completion.outcome == OUTCOME_FAILED)
        note_failure(runner, slot, exit_code, completion.reason->code ? completion.reason : NULL);
    else if (runner->options.tell)
        runner_fact(runner, "task.ended", slot->claim.session, slot->claim.task,
                    json_pack("{s:s, s:i, s:I, s:i}", "outcome", outcome_word(&completion), "exit_code", exit_code,
                              "ms", (json_int_t)(slot->started_ms ? clock_now().boot_ms - slot->started_ms : 0),
                              "attempt", (int)slot->claim.attempt),
                    false);
    effects_clear(&completion.effects);
    running_free(runner, slot);
}

/* What it wrote; an absent file is an empty one. */
static int read_output(struct runner *runner, const struct running *slot, struct output *ret, struct tsk_error *err)
{
    char name[64];
    struct buf text CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    *ret = (struct output){0};
    io_name(name, "output", slot->claim.fence);
    if (fs_read_file(runner->run.dir, name, OUTPUT_MAX - 1, &text) < 0)
        return errno == ENOENT ? 0 : error_errno(err, "read", name);
    fs->unlinkat(runner->run.dir, name, 0);
    return output_parse(ret, buf_str(&text), text.len, err);
}

static void task_asks(struct runner *runner, struct running *slot, json_t *question)
{
    struct tsk_error err;
    char node[16];
    snprintf(node, sizeof node, "%u", slot->claim.node);
    json_t *open =
        json_pack("{s:s, s:s, s:O}", "task", slot->claim.task, "session_id", slot->claim.session, "question", question);
    json_object_set_new(runner->questions, node, open);
    struct buf *record = journal_begin(&runner->journal, "ask");
    buf_json_pair_int(record, "n", slot->claim.node);
    buf_json_pair(record, "k", slot->claim.task);
    buf_json_pair(record, "s", slot->claim.session);
    buf_json_key(record, "q");
    json_write(record, question, false);
    journal_end(&runner->journal);
    view_of(runner, slot->claim.node)->state = VIEW_ASKS;
    channel_file_done(runner, slot);
    close_log(runner, slot, false);
    BUG(runner->backend->ops->park(runner->backend, &slot->claim, &err) < 0);
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

void task_exited(struct runner *runner, struct running *slot)
{
    siginfo_t info = {0};
    struct tsk_error err;
    struct output output = {0};
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    if (slot->stops != STOP_NONE) { /* X4; the zombie still keeps the group's number from being given away */
        kill(-slot->pid, SIGKILL);
        if (rundir_end_processes(&runner->run, slot->claim.session, slot->claim.task, &err) < 0)
            log_problem(&err);
    }
    while (waitid(P_PIDFD, (id_t)slot->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    bool by_signal = info.si_code != CLD_EXITED;
    int exit_code = by_signal ? 128 + info.si_status : info.si_status;
    bool is_good = exit_code == 0 && slot->stops == STOP_NONE;
    int result = read_output(runner, slot, &output, &err);
    if (result == 0 && output.question && slot->stops == STOP_NONE)
        task_asks(runner, slot, output.question);
    else if (slot->stops == STOP_GROUP || slot->stops == STOP_RUN)
        task_complete(runner, slot, OUTCOME_STOPPED, exit_code, NULL, NULL);
    else if (is_good && result == 0)
        task_complete(runner, slot, OUTCOME_OK, 0, &output, NULL);
    else {
        if (!is_good)
            failure_of(slot, exit_code, by_signal ? info.si_status : 0, task ? task->timeout_ms : 0, &err);
        task_complete(runner, slot, OUTCOME_FAILED, exit_code, NULL, &err);
    }
    output_clear(&output);
}
