/* main.c - the command line, the set-up and the loop of the holder program. Start with hold.h. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT(field) offsetof(struct hold_options, field)

static const struct {
    char name[16];
    bool is_number;
    uint8_t at;
} options[] = {
    {"start_id", false, AT(start_id)},
    {"boot_id", false, AT(boot_id)},
    {"cwd", false, AT(cwd)},
    {"log", false, AT(log)},
    {"restart", false, AT(restart)},
    {"probe", false, AT(probe)},
    {"tell", false, AT(tell)},
    {"root", false, AT(root)},
    {"adopt", false, AT(adopt)},
    {"n", true, AT(n)},
    {"pid_ns", true, AT(pid_ns)},
    {"log_max", true, AT(log_max)},
    {"max_retries", true, AT(max_retries)},
    {"backoff_ms", true, AT(backoff_ms)},
    {"backoff_max_ms", true, AT(backoff_max_ms)},
    {"healthy_ms", true, AT(healthy_ms)},
    {"restarts", true, AT(restarts)},
    {"notify", true, AT(notify)},
    {"sweep", true, AT(sweep)},
    {"pass", true, AT(pass)},
};

static bool option_take(struct hold_options *opt, char *word)
{
    const char *value = strchr(word, '=');
    for (size_t i = 0; value && i < sizeof options / sizeof options[0]; i++) {
        size_t len = strlen(options[i].name);
        if (len != (size_t)(value - word) || memcmp(word, options[i].name, len) != 0)
            continue;
        char *field = (char *)opt + options[i].at, *end;
        if (!options[i].is_number) {
            *(const char **)(void *)field = value + 1;
            return true;
        }
        *(int64_t *)(void *)field = strtoll(value + 1, &end, 10);
        return end > value + 1 && !*end;
    }
    return false;
}

/* The index of `word` in `words`, -1 if it is none of them. */
static int word_find(const char *word, const char (*words)[12], int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0)
            return i;
    }
    return -1;
}

static bool options_check(struct holder *h)
{
    static const char modes[][12] = {"direct", "pipe", "stamped", "tty"};
    static const char policies[][12] = {"no", "on-failure", "always"};
    int mode = word_find(h->opt.log, modes, 4), policy = word_find(h->opt.restart, policies, 3);
    if (mode < 0 || policy < 0 || h->opt.n < 1 || !h->opt.start_id || !h->opt.boot_id || strlen(h->opt.start_id) > 32)
        return false;
    h->mode = (enum log_mode)mode;
    h->policy = (enum restart_policy)policy;
    h->restarts = h->opt.restarts;
    snprintf(h->env_mark, sizeof h->env_mark, "%s=%s", HOLD_ENV_START, h->opt.start_id);
    return (!h->opt.probe && !h->opt.tell) || h->opt.root;
}

static bool options_parse(struct holder *h, int argc, char **argv)
{
    int i = 2;
    h->opt = (struct hold_options){.cwd = "/",
                                   .log = "direct",
                                   .log_max = HOLD_LOG_MAX,
                                   .restart = "no",
                                   .max_retries = -1,
                                   .backoff_ms = HOLD_BACKOFF_MS,
                                   .backoff_max_ms = HOLD_BACKOFF_MAX_MS,
                                   .healthy_ms = HOLD_HEALTHY_MS};
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!option_take(&h->opt, argv[i]))
            return false;
    }
    if (i + 1 >= argc)
        return false;
    h->id = argv[1];
    h->command = argv + i + 1;
    return options_check(h);
}

/* All of them are blocked, and have their default action. By the system's own calls, because a C library keeps some signals to
 * itself; zeros are SIG_DFL. */
static void signals_seize(void)
{
    const uint64_t all = ~(uint64_t)0, default_action[8] = {0};
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    for (int sig = 1; sig <= 64; sig++)
        syscall(SYS_rt_sigaction, sig, default_action, NULL, sizeof all);
}

/* Drops what the holder inherited from its starter: session, directory, descriptors. */
static void holder_detach(struct holder *h)
{
    signals_seize();
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    h->child_umask = umask(077);
    const int last = h->opt.pass ? HOLD_FD_PASS : HOLD_FD_REPORT;
    if (syscall(SYS_close_range, last + 1, ~0U, 0) < 0) {
        for (int fd = last + 1; fd < 1024; fd++)
            close(fd);
    }
    for (int fd = HOLD_FD_DIR; fd <= HOLD_FD_REPORT; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    h->self = getpid();
}

static void holder_clear(struct holder *h)
{
    h->state = OVER;
    h->pidfd = h->history = h->spare_status = h->spare_run = h->notify = h->log_dir = -1;
    h->child_fd[0] = h->child_fd[1] = h->peek[0] = h->peek[1] = -1;
    for (int i = 0; i < 2; i++) {
        h->files[i].fd = h->files[i].index = -1;
        h->inputs[i].pipe = -1;
    }
    tty_clear(h);
    h->files[0].name = h->mode == LOG_STAMPED ? "output" : "stdout";
    h->files[1].name = h->mode == LOG_STAMPED ? NULL : "stderr";
}

/* The starter has taken both locks for us. If it has not, we may not touch anything. */
static bool holder_has_locks(struct holder *h)
{
    h->failed_stage = "record";
    return lock_try(HOLD_FD_LOCK, 0) && (h->opt.adopt || lock_try(HOLD_FD_RUN, 0));
}

/* What every start needs. */
static int holder_prepare(struct holder *h)
{
    char line[STAT_SIZE];
    sigset_t all;
    sigfillset(&all);
    if (stat_read(h->self, line, sizeof line) < 0 || history_open(h) < 0 || chdir("/") < 0)
        return -1;
    h->self_ticks = stat_field(line, STAT_TICKS);
    h->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (h->signals < 0)
        return -1;
    h->failed_stage = "notify";
    return h->opt.notify ? notify_open(h) : 0;
}

static void children_reap(struct holder *h)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == h->run.pid && h->is_alive && !h->is_adopted)
            holder_child_ended(h, status, "itself", "");
        else if (pid == h->probe)
            probe_ended(h, status);
    }
    holder_check_stop(h);
}

static void holder_ends_by_signal(struct holder *h)
{
    if (h->state == RECORDING || h->state == PUMPING)
        h->state = OVER;
    else
        holder_stop(h, "signal", HOLD_GRACE_MS);
}

static void signals_take(struct holder *h)
{
    struct signalfd_siginfo info;
    while (h->state != OVER && read(h->signals, &info, sizeof info) == sizeof info) {
        int sig = (int)info.ssi_signo;
        if (sig == SIGCHLD)
            children_reap(h);
        else if (sig == SIGUSR1)
            holder_look_at_want(h);
        else if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP)
            holder_ends_by_signal(h);
        else if (sig == SIGRTMIN || sig == SIGIO) /* SIGIO: the queue of the former was full */
            h->state == PUMPING ? pump_watch(h) : output_grew(h);
    }
}

static const struct timespec *timers_next(const struct holder *h, struct timespec *wait)
{
    int64_t next = INT64_MAX;
    for (int t = 0; t < TIMER_COUNT; t++) {
        if (h->due[t] && h->due[t] < next)
            next = h->due[t];
    }
    if (next == INT64_MAX)
        return NULL;
    int64_t delay = next - clock_boot_ms();
    delay = delay < 0 ? 0 : delay;
    *wait = (struct timespec){.tv_sec = delay / 1000, .tv_nsec = delay % 1000 * 1000000};
    return wait;
}

static void timers_run(struct holder *h)
{
    int64_t now = clock_boot_ms();
    for (enum timer t = 0; t < TIMER_COUNT && h->state != OVER; t++) {
        if (h->due[t] && h->due[t] <= now)
            holder_timer_ran_out(h, t);
    }
}

static void holder_step(struct holder *h)
{
    struct timespec wait;
    struct pollfd fds[4 + HOLD_TTY_CLIENTS + 1] = {
        {.fd = h->signals, .events = POLLIN},
        {.fd = h->pidfd, .events = h->due[TIMER_REAP] ? 0 : POLLIN},
        {.fd = h->inputs[0].is_mute ? -1 : h->inputs[0].pipe, .events = POLLIN},
        {.fd = h->inputs[1].is_mute ? -1 : h->inputs[1].pipe, .events = POLLIN},
    };
    const bool has_tty = h->mode == LOG_TTY;
    if (has_tty)
        tty_poll(h, fds + 4);
    int count = ppoll(fds, has_tty ? sizeof fds / sizeof fds[0] : 4, timers_next(h, &wait), NULL);
    if (count > 0 && fds[0].revents)
        signals_take(h);
    if (count > 0 && fds[1].revents && h->pidfd >= 0)
        adopt_look(h, fds[1].revents);
    for (int i = 0; count > 0 && i < 2; i++) {
        if (fds[2 + i].revents && h->state != OVER)
            pump_wake(h, &h->inputs[i]);
    }
    if (has_tty && count > 0)
        tty_wake(h, fds + 4);
    timers_run(h);
}

static int holder_begin(struct holder *h)
{
    if (holder_prepare(h) < 0)
        h->failed_errno = errno;
    else if ((h->opt.adopt ? adopt_begin : holder_first_start)(h) == 0)
        return 0;
    if (!h->opt.adopt)
        run_lock_abandon(h, h->opt.n);
    return -1;
}

int main(int argc, char **argv)
{
    static struct holder h;
    if (!options_parse(&h, argc, argv)) {
        dprintf(2, "tasuki-hold: this is a part of tasuki; use 'tasuki proc start'\n");
        return 2;
    }
    holder_detach(&h);
    holder_clear(&h);
    if (!holder_has_locks(&h)) {
        h.failed_errno = errno;
        report_error(&h);
        return 1;
    }
    if (holder_begin(&h) < 0) {
        report_error(&h);
        return 1;
    }
    while (h.state != OVER)
        holder_step(&h);
    /* Nothing is left to do at an exit. The leak check of a sanitizer would hang there for ever if a SIGCONT came at the wrong moment. */
    _exit(0);
}
