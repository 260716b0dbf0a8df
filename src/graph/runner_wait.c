/* runner_wait.c - waiting for the ends of tasks, for signals, and for the next time that is due: where a run spends its life.
 *
 * A process without threads uses SIGCHLD, which is blocked and taken with sigtimedwait(2): one call per wake-up, and
 * nothing to set up for a task. Beside other threads one of them might get the signal, which would be lost; there each task has
 * a pidfd, polled together with a signalfd. What the difference is worth: docs/decisions/009-one-loop-in-the-runner.md. */
#include "base/fs.h"
#include "graph/remote.h"
#include "graph/runner.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CANCEL_WORD 0x7461736b /* in the signal of runner_ask_cancel, which is for a run alone */

int runner_ask_cancel(const struct proc_id *id, bool is_now)
{
    return proc_id_send(id, is_now ? SIGUSR1 : SIGTERM, CANCEL_WORD);
}

/* Outside of a run, because a blocked signal has none. A cancel that comes when its run has just ended must not end the queue that
 * continues with the next one, nor replace the exit code of the outcome. Other signals have their usual effect. */
static void on_late_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == SI_QUEUE && info->si_value.sival_int == CANCEL_WORD)
        return;
    signal(number, SIG_DFL);
    raise(number);
}

/* It stays: a cancel may have been sent before the end was to be seen. */
static void drop_late_cancels(int number)
{
    struct sigaction now, late = {.sa_sigaction = on_late_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
        sigaction(number, &late, NULL);
}

/* nohup, and `&` in a script: a blocked signal would reach us although it is ignored. */
static void catch_unless_ignored(struct runner *runner, int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) < 0 || now.sa_handler != SIG_IGN)
        sigaddset(&runner->caught, number);
}

static void set_task_mask(struct runner *runner)
{
    runner->task_mask = runner->saved_mask;
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&runner->caught, number) == 1)
            sigdelset(&runner->task_mask, number);
}

int runner_wait_begin(struct runner *runner, struct tsk_error *err)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t blocked;
    runner->has_threads = !__libc_single_threaded || runner->options.remote_program;
    drop_late_cancels(SIGTERM);
    drop_late_cancels(SIGUSR1);
    sigemptyset(&runner->caught);
    sigaddset(&runner->caught, SIGTERM);
    sigaddset(&runner->caught, SIGUSR1);
    catch_unless_ignored(runner, SIGINT);
    catch_unless_ignored(runner, SIGHUP);
    if (!runner->has_threads)
        sigaddset(&runner->caught, SIGCHLD);
    /* A process that ignores SIGCHLD gets no exit status. */
    if (sigaction(SIGCHLD, NULL, &runner->saved_action) == 0 && runner->saved_action.sa_handler == SIG_IGN)
        sigaction(SIGCHLD, &by_default, NULL);
    /* The reader of our output is gone (`| head`): the run continues, and the signal takes effect at its end (runner_hear). */
    blocked = runner->caught;
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, &runner->saved_mask);
    set_task_mask(runner);
    runner->is_waiting = true;
    if (runner->has_threads)
        runner->polls[0].fd = signalfd(-1, &runner->caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return runner->has_threads && runner->polls[0].fd < 0 ? error_errno(err, "wait for", "tasks") : 0;
}

void runner_wait_end(struct runner *runner)
{
    if (!runner->is_waiting)
        return;
    if (runner->saved_action.sa_handler == SIG_IGN)
        sigaction(SIGCHLD, &runner->saved_action, NULL);
    fs_close(&runner->polls[0].fd);
    runner->is_waiting = false;
    runner->is_deaf = true;
    if (!runner->stays_deaf)
        runner_hear(runner);
}

void runner_hear(struct runner *runner)
{
    /* A cancelled runner is about to end, and another Ctrl-C may already be pending: it would leave the lock behind and replace the
     * exit code of the outcome. */
    if (runner->is_deaf && !runner->cancels)
        sigprocmask(SIG_SETMASK, &runner->saved_mask, NULL);
    runner->is_deaf = false;
}

/* One SIGCHLD may stand for several ends. */
static void look_at_tasks(struct runner *runner)
{
    for (size_t i = 0; i < runner->parallel; i++) {
        struct running *slot = &runner->running[i];
        if (slot->is_used && slot->process.pid > 0 && !slot->process.look_at_ms && execution_has_exited(&slot->process))
            task_exited(runner, slot);
    }
}

/* `runs cancel --now` is one signal: two of a kind might arrive as one, and of two kinds one might be ignored. */
static void take_signal(struct runner *runner, int number)
{
    runner_cancel(runner);
    if (number == SIGUSR1)
        runner_cancel(runner);
}

static void wait_for_signal(struct runner *runner, int timeout_ms)
{
    siginfo_t info;
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    int number = sigtimedwait(&runner->caught, &info, &timeout);
    if (number > 0 && number != SIGCHLD)
        take_signal(runner, number);
    /* SIGINT and the like come before SIGCHLD: somebody who does not stop sending them would keep the ends of tasks from us. */
    if (number > 0)
        look_at_tasks(runner);
}

static void read_signals(struct runner *runner)
{
    struct signalfd_siginfo info;
    while (read(runner->polls[0].fd, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(runner, (int)info.ssi_signo);
}

static void wait_for_descriptor(struct runner *runner, int timeout_ms)
{
    int count = poll(runner->polls, runner->parallel + 2, timeout_ms);
    if (count > 0 && runner->polls[0].revents)
        read_signals(runner);
    for (size_t i = 1; count > 0 && i <= runner->parallel; i++)
        if (runner->polls[i].revents && runner->polls[i].fd >= 0)
            task_exited(runner, &runner->running[i - 1]);
    if (count > 0 && runner->polls[runner->parallel + 1].revents && runner->polls[runner->parallel + 1].fd >= 0)
        remote_read(runner);
}

void runner_wait(struct runner *runner, int timeout_ms)
{
    if (runner->has_threads)
        wait_for_descriptor(runner, timeout_ms);
    else
        wait_for_signal(runner, timeout_ms);
}
