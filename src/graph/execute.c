#include "graph/execute.h"
#include "base/fs.h"
#include "base/log.h"
#include "graph/flow.h"
#include "graph/leftover.h"
#include "hold/protocol.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ENV_OWN        12
#define OTHERS_LOOK_MS 20

extern char **environ;

/* ---- environment ---------------------------------------------------------------------------------------- */

static bool is_set_by_us(const char *pair)
{
    static const char *const names[] = {"RUN_ID", "SESSION_ID", "TASK_ID", "ATTEMPT",   "FENCE",  "CHANNEL",
                                        "OUTPUT", "ANSWER",     "ROOT",    "RUN_CHAIN", "WORKER", "REDIS"};
    if (strncmp(pair, "TASUKI_", 7) != 0)
        return false;
    if (strncmp(pair, FLOW_PARAM_PREFIX, strlen(FLOW_PARAM_PREFIX)) == 0 || strncmp(pair, "TASUKI_REDIS_", 13) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(pair + 7, names[i], strlen(names[i])) == 0 && pair[7 + strlen(names[i])] == '=')
            return true;
    return false;
}

void executor_init(struct executor *executor, const struct rundir *run)
{
    size_t count = 0;
    while (environ[count])
        count++;
    *executor = (struct executor){
        .run = run, .null_fd = -1, .grace_ms = HOLD_GRACE_MS, .env_text = {.max = 4u << 20}, .stack = spawn_stack()};
    executor->env = calloc(count + 1, sizeof *executor->env);
    BUG(!executor->env || !executor->stack);
    for (size_t i = 0; i < count; i++)
        if (!is_set_by_us(environ[i]))
            executor->env[executor->env_base++] = environ[i];
    spawn_look(&executor->changed_signals);
    executor->mark = leftover_run_mark(run);
}

void executor_add_env(struct executor *executor, const char *pair)
{
    executor->env = realloc(executor->env, (executor->env_base + 2) * sizeof *executor->env);
    BUG(!executor->env);
    executor->env[executor->env_base++] = (char *)pair;
}

void executor_clear(struct executor *executor)
{
    fs_close(&executor->null_fd);
    spawn_stack_free(executor->stack);
    free(executor->env);
    buf_clear(&executor->env_text);
}

/* Where the variables begin in the text, which may move while it grows. */
struct env_own {
    size_t count, offsets[ENV_OWN];
};

static void env_put(struct executor *executor, struct env_own *own, const char *name, const char *value)
{
    if (!value)
        return;
    own->offsets[own->count++] = executor->env_text.len;
    buf_puts(&executor->env_text, name);
    buf_put(&executor->env_text, value, strlen(value) + 1);
}

static void env_put_number(struct executor *executor, struct env_own *own, const char *name, uint64_t value)
{
    own->offsets[own->count++] = executor->env_text.len;
    buf_puts(&executor->env_text, name);
    buf_put_int(&executor->env_text, (int64_t)value);
    buf_put(&executor->env_text, "", 1);
}

/* The variables that every task gets; their places in the text. */
static struct env_own env_own_make(struct executor *executor, const struct attempt_spec *spec)
{
    struct env_own own = {0};
    buf_reset(&executor->env_text);
    env_put(executor, &own, "TASUKI_RUN_ID=", executor->run->id);
    env_put(executor, &own, "TASUKI_SESSION_ID=", spec->claim->session);
    env_put(executor, &own, "TASUKI_TASK_ID=", spec->claim->task);
    env_put_number(executor, &own, "TASUKI_ATTEMPT=", spec->claim->attempt);
    env_put_number(executor, &own, "TASUKI_FENCE=", spec->claim->fence);
    env_put(executor, &own, "TASUKI_CHANNEL=", spec->channel);
    env_put(executor, &own, "TASUKI_OUTPUT=", spec->output);
    env_put(executor, &own, "TASUKI_ROOT=", spec->root);
    env_put(executor, &own, "TASUKI_RUN_CHAIN=", spec->chain);
    env_put(executor, &own, "TASUKI_WORKER=", spec->worker);
    env_put(executor, &own, "TASUKI_ANSWER=", spec->answer);
    BUG(executor->env_text.failed);
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

/* Our environment, then the variables that every task gets. A task with variables of its own has them in another order, in the
 * places behind: those of every task, its own, and of ours those that are not among them. No name is there twice: programs differ
 * in which of two they read. */
static char **env_make(struct executor *executor, const struct attempt_spec *spec)
{
    size_t need = executor->env_base * 2 + ENV_OWN + spec->env_count + 1;
    if (need > executor->env_room) {
        executor->env = realloc(executor->env, need * sizeof *executor->env);
        executor->env_room = need;
        BUG(!executor->env);
    }
    struct env_own own = env_own_make(executor, spec);
    char **first = executor->env + executor->env_base, **next = first;
    for (size_t i = 0; i < own.count; i++)
        *next++ = executor->env_text.data + own.offsets[i];
    const char *pair = spec->env;
    for (size_t i = 0; i < spec->env_count; i++, pair += strlen(pair) + 1)
        if (!env_has(first, (size_t)(next - first), pair))
            *next++ = (char *)pair;
    size_t given = (size_t)(next - first);
    for (size_t i = 0; spec->env_count && i < executor->env_base; i++)
        if (!env_has(first, given, executor->env[i]))
            *next++ = executor->env[i];
    *next = NULL;
    return spec->env_count ? first : executor->env;
}

/* ---- starting ------------------------------------------------------------------------------------------- */

int execution_not_started(const char *task, const char *command, const char *cwd, const char *stage, int number,
                          struct tsk_error *err)
{
    const char *reason = strerrordesc_np(number);
    if (cwd && strcmp(stage, "cwd") == 0)
        error_set(err, TSK_TASK_FAILED, "task_no_directory", "task", task, "path", cwd, "reason", reason, NULL);
    else
        error_set(err, TSK_TASK_FAILED, "task_not_started", "task", task, "command", command ? command : "", "what",
                  stage, "reason", reason, NULL);
    err->sys_errno = number;
    return -1;
}

static int execution_start_failed(const struct attempt_spec *spec, const char *stage, struct tsk_error *err)
{
    return execution_not_started(spec->claim->task, spec->argv[0], spec->cwd, stage, errno, err);
}

int execution_start(struct executor *executor, const struct attempt_spec *spec, struct attempt_process *execution,
                    struct tsk_error *err)
{
    struct spawn_fd fds[] = {{executor->null_fd, 0},
                             {spec->log_fd, 1},
                             {spec->log_fd, 2},
                             {executor->run->life_fd, RUN_LIFE_FD},
                             {executor->lock_fd, RUN_LOCK_FD}};
    struct spawn spawn = {.argv = spec->argv,
                          .envp = env_make(executor, spec),
                          .cwd = spec->cwd,
                          .fds = fds,
                          .fd_count = executor->run->life_fd < 0 ? 3
                                      : executor->lock_fd        ? 5
                                                                 : 4,
                          .mask = executor->mask,
                          .new_group = true,
                          .dies_with_parent = true,
                          .no_pidfd = executor->no_pidfd,
                          .mark = leftover_start_mark(executor->mark, spec->claim->fence),
                          .changed_signals = &executor->changed_signals,
                          .stack = executor->stack};
    int result = spawn_run(&spawn);
    if (result < 0)
        execution_start_failed(spec, spawn.stage, err);
    execution->pid = spawn.pid;
    execution->pidfd = spawn.pidfd;
    return result;
}

/* ---- stopping ------------------------------------------------------------------------------------------- */

/* All at once while they live: a process that executes a run of its own shows which processes that run's tasks have hidden. */
void execution_kill(struct executor *executor, const struct claim *claim, const struct attempt_process *execution)
{
    struct tsk_error err;
    if (leftovers_end_task(executor->run, claim, executor->is_exact, &err) < 0)
        log_problem(&err);
    if (execution->pid > 0)
        kill(-execution->pid, SIGKILL);
}

void execution_stop(struct executor *executor, const struct claim *claim, struct attempt_process *execution,
                    enum stop why)
{
    int64_t now = clock_now().boot_ms;
    if (execution->stops == STOP_NONE) {
        execution->stops = why;
        execution->kill_at_ms = now + executor->grace_ms;
        execution->deadline_ms = 0;
        if (execution->pid > 0) {
            kill(-execution->pid, SIGTERM);
            leftovers_signal_task(executor->run, claim, executor->is_exact, SIGTERM, execution->pid);
            kill(-execution->pid, SIGCONT); /* a stopped process can end in good order, too */
        }
    }
    if (now >= execution->kill_at_ms || executor->grace_ms == 0) {
        execution_kill(executor, claim, execution);
        execution->kill_at_ms = INT64_MAX;
    }
}

bool execution_has_exited(struct attempt_process *execution)
{
    siginfo_t seen = {.si_pid = 0};
    bool is_stopped = execution->stops != STOP_NONE;
    siginfo_t *info = is_stopped ? &seen : &execution->end;
    return waitid(P_PID, (id_t)execution->pid, info, WEXITED | WNOHANG | (is_stopped ? WNOWAIT : 0)) == 0 &&
           info->si_pid;
}

/* The zombie keeps the group's number from being given away meanwhile. */
static bool must_wait_for_others(struct executor *executor, const struct claim *claim,
                                 struct attempt_process *execution)
{
    int64_t now = clock_now().boot_ms;
    bool is_killed = execution->kill_at_ms == INT64_MAX || now >= execution->kill_at_ms;
    if (is_killed || leftovers_signal_task(executor->run, claim, executor->is_exact, 0, 0) == 0)
        return false;
    execution->look_at_ms = now + OTHERS_LOOK_MS;
    return true;
}

bool execution_ended(struct executor *executor, const struct claim *claim, struct attempt_process *execution)
{
    siginfo_t *info = &execution->end;
    if (execution->stops != STOP_NONE && must_wait_for_others(executor, claim, execution))
        return false;
    if (execution->stops != STOP_NONE)
        execution_kill(executor, claim, execution);
    while (!info->si_pid && waitid(P_PID, (id_t)execution->pid, info, WEXITED) < 0 && errno == EINTR)
        ;
    return true;
}

bool execution_was_killed(const struct attempt_process *execution)
{
    return execution->end.si_code != CLD_EXITED;
}

int execution_exit_code(const struct attempt_process *execution)
{
    return execution_was_killed(execution) ? 128 + execution->end.si_status : execution->end.si_status;
}
