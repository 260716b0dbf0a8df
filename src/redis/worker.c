#include "redis/worker.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOGS_MS        400
#define WORKER_TICK_MS 50    /* while something is about to be due */
#define IDLE_MS        10000 /* while nothing is */
#define GOODBYE_MS     10000 /* how long a drained worker waits for the runner to take its results */

/* ---- the beginning -------------------------------------------------------------------------------------- */

static int worker_options(struct worker *w, int argc, char **argv, struct tsk_error *err)
{
    static const struct option names[] = {{"jobs", 1, NULL, 'j'}, {"name", 1, NULL, 'n'}, {"tags", 1, NULL, 't'},
                                          {"dir", 1, NULL, 'd'},  {"run", 1, NULL, 'r'},  {NULL, 0, NULL, 0}};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const char *name = NULL, *dir = ".";
    w->place_count = processors > 0 ? (size_t)processors : 1;
    for (int c; (c = getopt_long(argc, argv, "j:", names, NULL)) != -1;) {
        if (c == 'j' && strtol(optarg, NULL, 10) > 0)
            w->place_count = (size_t)strtol(optarg, NULL, 10);
        else if (c == 'n')
            name = optarg;
        else if (c == 't')
            snprintf(w->tags, sizeof w->tags, ",%.500s,", optarg);
        else if (c == 'd')
            dir = optarg;
        else if (c == 'r')
            snprintf(w->only, sizeof w->only, "%s", optarg);
    }
    w->runner_fd = w->only[0] ? WORKER_RUNNER_FD : -1;
    gethostname(w->host, sizeof w->host - 1);
    snprintf(w->name, sizeof w->name, "%s%s", name ? name : w->host, w->only[0] ? "-local" : "");
    return realpath(dir, w->dir) ? 0 : error_errno(err, "go to", dir);
}

/* The name is for people; the id is of this process, so that a worker that starts again is another one. */
static void worker_make_id(struct worker *w)
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) < 0)
        number = (uint32_t)clock_now().wall_ms;
    snprintf(w->id, sizeof w->id, "%s.%d.%08x", w->name, (int)getpid(), number);
    for (char *c = w->id; *c; c++)
        if (*c <= ' ' || *c == '{' || *c == '}')
            *c = '_';
}

static int worker_signals(struct worker *w)
{
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGHUP);
    sigaddset(&caught, SIGCHLD);
    sigprocmask(SIG_BLOCK, &caught, &w->mask);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int worker_begin(struct worker *w, int argc, char **argv, struct tsk_error *err)
{
    const char *url = getenv("TASUKI_REDIS");
    w->calls.fd = w->wakes.conn.fd = w->orders.conn.fd = w->guard_fd = w->null_fd = -1;
    w->env = (struct buf)BUF_INIT;
    if (!url || !*url)
        return error_set(err, TSK_INVALID_INPUT, "redis_not_named", NULL);
    if (redis_settings_read(&w->settings, url, err) < 0 || worker_options(w, argc, argv, err) < 0)
        return -1;
    worker_make_id(w);
    w->places = memory_zeroed(w->place_count, sizeof *w->places);
    for (size_t i = 0; i < w->place_count; i++)
        w->places[i] = (struct worker_place){.log_fd = -1, .process.pidfd = -1};
    w->null_fd = fs->openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    w->life_fd = scratch_make(w->scratch, w->place_count, &w->attempts_fd, err);
    return w->life_fd < 0 ? -1 : 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------- */

void worker_end(struct worker *w, unsigned level)
{
    w->ends = level > w->ends ? level : w->ends;
    for (size_t i = 0; level > 1 && i < w->place_count; i++)
        if (w->places[i].run && !w->places[i].is_back) {
            w->places[i].is_back = true;
            place_stop(w, &w->places[i], STOP_RUN);
        }
    w->live_ms = 0;
}

static void take_signals(struct worker *w, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD)
            worker_end(w, w->ends + 1);
        else if (w->guard_pid > 0 && waitpid(w->guard_pid, NULL, WNOHANG) == w->guard_pid)
            w->guard_pid = 0; /* the next word finds its socket closed, and another one is started */
    }
}

/* Until when a worker that is to end waits, and the signals that it had by then. */
struct goodbye {
    int64_t until_ms;
    unsigned ends;
    bool has_said;
};

static bool has_unsent(const struct worker *w)
{
    for (const struct worker_result *result = w->results; result; result = result->next)
        if (!result->is_sent)
            return true;
    return false;
}

static int worker_wait_for(const struct worker *w)
{
    int64_t now = clock_now().boot_ms, at = w->live_ms;
    if (w->rest_ms > now && w->rest_ms < at)
        at = w->rest_ms;
    if (w->calls.fd < 0 || w->ends)
        return WORKER_TICK_MS;
    if (w->wakes.conn.fd < 0 && w->wakes.try_ms < at)
        at = w->wakes.try_ms;
    if (w->orders.conn.fd < 0 && w->orders.try_ms < at)
        at = w->orders.try_ms;
    if (w->used && w->log_ms < at)
        at = w->log_ms;
    if ((w->used || w->results) && w->renew_ms < at)
        at = w->renew_ms;
    for (size_t i = 0; i < w->place_count; i++) {
        const struct worker_place *place = &w->places[i];
        if (place->run && (place->process.look_at_ms || place->process.stops != STOP_NONE || has_unsent(w)))
            return WORKER_TICK_MS;
        if (place->run && place->process.deadline_ms && place->process.deadline_ms < at)
            at = place->process.deadline_ms;
        if (place->run && place->kill_at_ms < at)
            at = place->kill_at_ms;
    }
    if (has_unsent(w))
        return WORKER_TICK_MS;
    return at <= now ? 0 : at - now > IDLE_MS ? IDLE_MS : (int)(at - now);
}

static void worker_turn(struct worker *w)
{
    places_look(w);
    talk_connect(w);
    talk_wakes(w);
    for (struct worker_run *run = w->runs; run && w->calls.fd >= 0; run = run->next)
        talk_next(w, run);
    int64_t now = clock_now().boot_ms;
    if (w->log_ms <= now) {
        talk_logs(w);
        w->log_ms = now + LOGS_MS;
    }
    if (w->renew_ms <= now)
        talk_renew(w);
    if (w->live_ms <= now && w->calls.fd >= 0)
        talk_live(w);
}

static bool has_asked(const struct worker *w)
{
    for (const struct worker_run *run = w->runs; run; run = run->next)
        if (run->is_asked)
            return true;
    return false;
}

/* Everything is sent; W4 for a while; W5. */
static bool may_leave(struct worker *w, struct goodbye *goodbye)
{
    int64_t now = clock_now().boot_ms;
    if (!w->ends || w->used)
        return false;
    if (!goodbye->until_ms || goodbye->ends != w->ends)
        *goodbye = (struct goodbye){now + GOODBYE_MS, w->ends, .has_said = false};
    bool is_alone = w->only[0] && w->runner_fd < 0;
    forget_results(w);
    if (!has_asked(w) && (is_alone ? !has_unsent(w) : !w->results))
        return true;
    if (now < goodbye->until_ms)
        return false;
    if (w->calls.fd >= 0 || w->ends > 1 || is_alone || !has_unsent(w))
        return true;
    if (!goodbye->has_said)
        worker_say(w, "", "", "", "waits for Redis with results; a second SIGTERM ends it without them");
    *goodbye = (struct goodbye){now + GOODBYE_MS, w->ends, .has_said = true};
    return false;
}

static void worker_loop(struct worker *w, int signal_fd)
{
    struct goodbye goodbye = {0};
    while (!may_leave(w, &goodbye)) {
        worker_turn(w);
        guard_words(w);
        struct pollfd list[] = {{.fd = signal_fd, .events = POLLIN},
                                {.fd = w->wakes.conn.fd, .events = POLLIN},
                                {.fd = w->orders.conn.fd, .events = POLLIN},
                                {.fd = w->runner_fd, .events = POLLIN}};
        if (poll(list, 4, worker_wait_for(w)) <= 0)
            continue;
        if (list[0].revents)
            take_signals(w, signal_fd);
        if (list[3].revents) { /* W6 */
            fs_close(&w->runner_fd);
            w->runner_fd = -1;
            worker_end(w, 2);
        }
    }
}

static void worker_leave(struct worker *w)
{
    char key[KEY_MAX], name[WORKER_ID_MAX + 8];
    struct tsk_error err;
    redis_due(INT64_MAX);
    snprintf(name, sizeof name, "w:%s", w->id);
    key_of_pool(&w->settings, name, key);
    if (w->calls.fd >= 0)
        redis_say(&w->calls, NULL, &err, "DEL", key, NULL);
    key_of_pool(&w->settings, "w", key);
    if (w->calls.fd >= 0)
        redis_say(&w->calls, NULL, &err, "ZREM", key, w->id, NULL);
    redis_close(&w->calls);
    redis_close(&w->wakes.conn);
    redis_close(&w->orders.conn);
    fs_close(&w->guard_fd);
    if (w->guard_pid > 0)
        waitpid(w->guard_pid, NULL, 0);
    listing_remove_tree(AT_FDCWD, w->scratch);
}

int worker_main(int argc, char **argv)
{
    static struct worker w;
    struct tsk_error err;
    if (worker_begin(&w, argc, argv, &err) < 0) {
        log_problem(&err);
        return 2;
    }
    int signal_fd = worker_signals(&w);
    w.guard_fd = guard_start(&w.settings, w.id, w.scratch, w.place_count, &w.guard_pid);
    worker_say(&w, "", "", "", "started");
    worker_loop(&w, signal_fd);
    worker_leave(&w);
    worker_say(&w, "", "", "", "ended");
    return 0;
}
