/* op_lock_run.c - a lock held while a command runs.
 *
 *  R1  The command inherits the lock's descriptor: if tasuki is killed, the lock lives until the command and what it started
 *      have ended.
 *  R2  At a normal end the lock is released at once, by unlocking, not by closing: a daemon that was left behind keeps a
 *      descriptor, but no lock.
 *  R3  Signals for tasuki are passed on. Those of the terminal go to the whole foreground group anyway, so they are not. */
#include "base/log.h"
#include "base/word.h"
#include "lock/held.h"
#include "ops/lock_args.h"
#include "ops/ops.h"
#include "ops/waits.h"
#include "proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

static void signals_block(sigset_t *waited, sigset_t *saved)
{
    sigemptyset(waited);
    sigaddset(waited, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, waited, saved);
}

static void lock_run_renew(struct tsk_lock *lock, bool *is_lost)
{
    struct tsk_error err;
    if (*is_lost || tsk_lock_renew(lock, &err) == 0)
        return;
    *is_lost = err.code == TSK_LOCK_LOST;
    log_problem(&err);
}

/* Waits for the command, passing signals on and renewing the lock every third of its TTL. */
static int wait_for_command(pid_t pid, struct tsk_lock *lock, const sigset_t *waited)
{
    int64_t period_ms = lock->record.ttl_ms / 3 > 0 ? lock->record.ttl_ms / 3 : 1;
    int64_t renew_at = clock_now().boot_ms + period_ms;
    bool is_lost = false;
    for (;;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        int64_t left = renew_at - clock_now().boot_ms;
        if (left <= 0) {
            lock_run_renew(lock, &is_lost);
            renew_at = clock_now().boot_ms + period_ms;
            continue;
        }
        struct timespec timeout = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
        siginfo_t info;
        int number = sigtimedwait(waited, &info, &timeout);
        if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL)
            kill(pid, number);
    }
}

static char **argv_of(const json_t *list)
{
    size_t count = json_array_size(list);
    char **argv = calloc(count + 1, sizeof *argv);
    for (size_t i = 0; argv && i < count; i++)
        argv[i] = (char *)json_string_value(json_array_get(list, i));
    return argv;
}

static int command_failed(struct op_call *call, const char *command, int number, struct tsk_error *err)
{
    call->has_exit_code = true;
    call->exit_code = number == ENOENT ? 127 : 126;
    error_set(err, TSK_INVALID_INPUT, number == ENOENT ? "command_not_found" : "command_not_executable", "command",
              command, "reason", strerrordesc_np(number), NULL);
    err->sys_errno = number;
    return -1;
}

static int run_command(struct op_call *call, struct tsk_lock *lock, struct tsk_error *err)
{
    char fence[24];
    sigset_t waited, saved;
    struct sigaction on_child, by_default = {.sa_handler = SIG_DFL};
    int result = 0;
    snprintf(fence, sizeof fence, "%llu", (unsigned long long)tsk_lock_fence(lock));
    setenv("TASUKI_LOCK", json_get_string(call->args, "name", ""), 1);
    setenv("TASUKI_LOCK_FENCE", fence, 1);
    int lock_fd = tsk_lock_fd(lock);
    if (lock_fd < 0)
        return error_errno(err, "start", json_string_value(json_array_get(json_object_get(call->args, "command"), 0)));
    char **argv = argv_of(json_object_get(call->args, "command"));
    if (!argv)
        return error_no_memory(err, "start", "command");
    signals_block(&waited, &saved);
    sigaction(SIGCHLD, &by_default, &on_child); /* ignored by our parent, it would leave no exit status to collect */
    struct spawn_fd kept = {.from = lock_fd, .to = lock_fd}; /* R1 */
    struct spawn command = {.argv = argv, .fds = &kept, .fd_count = 1, .mask = &saved, .keeps_signals = true};
    if (spawn_run(&command) < 0) {
        result = strcmp(command.stage, "exec") == 0 ? command_failed(call, argv[0], errno, err)
                                                    : error_errno(err, "start", argv[0]);
    } else {
        call->exit_code = wait_for_command(command.pid, lock, &waited);
        call->has_exit_code = true;
        close(command.pidfd);
    }
    sigaction(SIGCHLD, &on_child, NULL);
    sigprocmask(SIG_SETMASK, &saved, NULL);
    free(argv);
    return result;
}

/* Somebody who wants to run a command waits with that command. */
static int lock_run_refused(struct op_call *call, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT,
                 quoted CLEANUP(buf_clear) = BUF_INIT;
    const char *name = shell_word(&quoted, json_get_string(call->args, "name", ""));
    if (err->code != TSK_LOCK_HELD)
        return -1;
    buf_puts(&b, "tasuki");
    if (call->root)
        buf_printf(&b, " --root %s", shell_word(&word, call->root));
    const char *program = buf_str(&b);
    error_clear_next(err);
    error_add_next(err, "%s lock run %s --wait 30m -- COMMAND", program, name);
    error_add_next(err, "%s lock check name %s", program, name);
    return error_add_next(err, "%s lock acquire name %s --force", program, name);
}

/* The lock is this process's, but the place in line is that of the program that calls, which may call again. */
static int lock_run_wait(struct op_call *call, struct lock_target *target, struct tsk_lock **ret, struct tsk_error *err)
{
    char caller[64];
    const char *instance = getenv("TASUKI_INSTANCE_ID");
    struct lock_request above = {.hold = HOLD_GUESS, .instance = text_or_null(instance)};
    struct lock_request request = {.hold = HOLD_LIFE,
                                   .wait_ms = lock_args_wait(call),
                                   .ttl_ms = json_get_int(call->args, "ttl", 0),
                                   .session_id = json_get_string(call->args, "session", NULL)};
    struct lock_outcome outcome = {0};
    bool has_above = proc_guess_holder(&above.holder) == 0;
    request.caller = above.instance;
    if (!above.instance && has_above) {
        snprintf(caller, sizeof caller, "%d.%llu", (int)above.holder.pid, (unsigned long long)above.holder.start_ticks);
        request.caller = caller;
    }
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    if (request.wait_ms)
        op_wait_begin(&waiting, call, call->ws, target->kind->name, target->id);
    if (lock_acquire(target, &request, ret, &outcome, err) == 0)
        return 0;
    if (err->code == TSK_LOCK_HELD && has_above && outcome.before.record.hold != HOLD_LIFE &&
        lock_args_is_own(&above, &outcome.before))
        return lock_refuse_own(target, &outcome.before, err);
    return lock_run_refused(call, err);
}

static int lock_run_acquire(struct op_call *call, struct tsk_lock **ret, struct tsk_error *err)
{
    struct lock_target target;
    const char *name = json_get_string(call->args, "name", "");
    if (lock_target_init(&target, call->ws, lock_kind_get(TSK_LOCK_NAME), name, NULL, err) < 0)
        return -1;
    int result = lock_refuse_around(&target, err) < 0 ? -1 : lock_run_wait(call, &target, ret, err);
    lock_target_clear(&target);
    return result;
}

static int run_lock_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct tsk_lock *lock;
    struct tsk_error release_error;
    if (json_array_size(json_object_get(call->args, "command")) == 0)
        return error_set(err, TSK_INVALID_INPUT, "command_missing", NULL);
    if (lock_run_acquire(call, &lock, err) < 0)
        return -1;
    int result = run_command(call, lock, err);
    if (tsk_lock_release(lock, &release_error) < 0)
        log_problem(&release_error);
    *ret = NULL;
    return result;
}

const struct op op_lock_run = {
    NAMES("lock.run", "lock", "run"),
    .summary = "Hold a named lock while a command runs; returns the command's exit code.",
    .detail =
        "The command finds the lock's name in TASUKI_LOCK and its fence in TASUKI_LOCK_FENCE. If tasuki itself "
        "is killed, the lock stays held until the command and what it started have ended. At a normal end it is "
        "released at once, even if the command left a daemon behind. Exit codes: the command's own; 126 and 127 if it "
        "cannot be run; 128+N if signal N ended it; 4 if the lock is held.",
    .examples = "tasuki lock run deploy -- make deploy  # never two at a time\n"
                "tasuki lock run deploy --wait 10m -- make deploy  # one after the other",
    .params = PARAMS(PARAM("name", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "NAME", "The lock's name.", .max = 512,
                           .completes = "lock-id"),
                     LOCK_WAIT_PARAM,
                     PARAM("ttl", OP_DURATION, OP_OPTIONAL, "D",
                           "Time after which other tools may call it expired; renewed while the command runs.",
                           .fallback = "30m", .min = 1),
                     LOCK_SESSION_PARAM, NOTE_PARAM,
                     PARAM("command", OP_ARGV, OP_REQUIRED | OP_POSITIONAL, "CMD…", "The command and its arguments.")),
    .result = FIELDS(),
    .errors =
        ERRORS(TSK_LOCK_HELD, TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http.absent = "it runs a command of the caller's terminal",
    .mcp.absent = "it runs a command of the caller's terminal",
    .run = run_lock_run,
};
