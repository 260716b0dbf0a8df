/* up_follow.c - the screen of `up`. One thread starts and stops, so that the output is shown meanwhile; this one shows.
 *
 *  Y1  The tails are opened before anything is started: every line of what this call starts is shown.
 *  Y2  A stop ends only what this call has started. It is repeated when a start was still under way. An agent's spares what another
 *      agent has started again since.
 *  Y3  Whatever ends the screen otherwise (d, the end of the terminal or of the pipe) changes nothing. */
#include "base/fs.h"
#include "base/word.h"
#include "hold/protocol.h"
#include "ops/proc_args.h"
#include "ops/proc_lines.h"
#include "ops/proc_others.h"
#include "ops/up.h"
#include "proc/depend.h"
#include "store/notify.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AWAIT_MOMENT_MS 1000

/* ---- starting and stopping, in a thread ---- */

struct up_work {
    struct tsk_workspace *ws;
    const char *const *stop, *const *start; /* stopped, then started */
    size_t stops, starts;
    struct tsk_error *results; /* of the starts */
    struct tsk_error err;
    int result;
    int wake;                /* written to in the end, and when there is news */
    _Atomic(char *) awaited; /* owned: news of what the starts wait for ("db, cache"; "": nothing); NULL: none */
    pthread_t thread;
    bool is_active;
    atomic_bool is_done;
};

/* In the thread that starts. */
static void work_waits(void *data, const char *ids)
{
    struct up_work *work = data;
    free(atomic_exchange(&work->awaited, strdup(ids ? ids : "")));
    ssize_t ignored = write(work->wake, "w", 1);
    (void)ignored;
}

static int work_do(struct up_work *work)
{
    REGISTRY(reg);
    struct tsk_error *stopped CLEANUP_FREE = memory_zeroed(work->stops + 1, sizeof *stopped);
    int result = proc_registry_open(&reg, work->ws, &work->err);
    reg.waits = work_waits;
    reg.waits_data = work;
    if (result == 0 && work->stops)
        result = proc_stop_many(&reg, work->stop, work->stops, HOLD_GRACE_MS, stopped, &work->err);
    for (size_t i = 0; i < work->stops && result == 0; i++)
        if (stopped[i].code != TSK_OK && stopped[i].code != TSK_PROCESS_NOT_RUNNING) {
            work->err = stopped[i];
            result = -1;
        }
    if (result == 0 && work->starts)
        result = proc_start_ordered(&reg, work->start, work->starts, true, work->results, &work->err);
    return result;
}

static void *work_main(void *data)
{
    struct up_work *work = data;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* they are the other thread's */
    work->result = work_do(work);
    atomic_store(&work->is_done, true);
    ssize_t ignored = write(work->wake, "w", 1);
    (void)ignored;
    return NULL;
}

static void work_begin(struct up_work *work)
{
    work->is_done = false;
    work->is_active = true;
    BUG(pthread_create(&work->thread, NULL, work_main, work) != 0);
}

/* Whether it has ended just now. */
static bool work_ended(struct up_work *work)
{
    if (!work->is_active || !atomic_load(&work->is_done))
        return false;
    pthread_join(work->thread, NULL);
    work->is_active = false;
    return true;
}

/* ---- the screen ---- */

struct up_screen {
    struct op_call *call;
    struct proc_lines lines;
    struct tails tails;
    struct up_work start, stop;
    int pipe[2];
    bool has_keys, is_stopping, is_left;
    bool is_behind;       /* in the background of the terminal */
    bool stops_again;     /* Y2 */
    const char **started; /* by this call */
    size_t started_count;
    const char **stopping; /* the stopping thread's own copy */
    char *awaited;         /* owned: what the starts wait for; NULL: nothing */
    int64_t awaited_ms;    /* since when, on the boot clock */
};

/* The pipe of the one screen that a program has, for the signal handler. */
static atomic_int up_wake = -1;

static void on_up_signal(int number)
{
    char what = number == SIGHUP ? 'h' : 'i';
    ssize_t ignored = write(up_wake, &what, 1);
    (void)ignored;
}

static const int up_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { UP_SIGNALS = sizeof up_signals / sizeof up_signals[0] };

static void up_signals_take(struct up_screen *screen, struct sigaction before[UP_SIGNALS])
{
    struct sigaction action = {.sa_handler = on_up_signal, .sa_flags = SA_RESTART};
    up_wake = screen->pipe[1];
    for (size_t i = 0; i < UP_SIGNALS; i++)
        sigaction(up_signals[i], &action, &before[i]);
}

static void signals_give_back(const struct sigaction before[UP_SIGNALS])
{
    for (size_t i = 0; i < UP_SIGNALS; i++)
        sigaction(up_signals[i], &before[i], NULL);
    up_wake = -1;
}

static void up_say(struct up_screen *screen, const char *key, const char *file, const json_t *names)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, list CLEANUP(buf_clear) = BUF_INIT;
    json_put_texts(&list, names, ", ");
    text_put(&text, screen->call->lang, key, "file", file, "names", buf_str(&list), NULL);
    proc_lines_remark(&screen->lines, buf_str(&text));
}

/* Whose processes are restarted: a line for each. */
static void say_whose(struct up_screen *screen, const json_t *warning)
{
    const char *line = json_string_value(warning);
    for (size_t len; line; line = line[len] ? line + len + 1 : NULL) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        len = strcspn(line, "\n");
        buf_printf(&text, "%s: %.*s", text_get("label_warning", screen->call->lang), (int)len, line);
        proc_lines_remark(&screen->lines, buf_str(&text));
    }
}

/* What Ctrl-C will do comes first; then what is done differently from what the file says. */
static void say_first(struct up_screen *screen, const struct up_file *file, const struct up_plan *plan)
{
    bool starts = json_array_size(plan->start) > 0;
    if (!screen->lines.call->emit_line) {
        json_t *document CLEANUP_JSON =
            json_pack("{s:s, s:O, s:O, s:O, s:O, s:O, s:O}", "file", file->path, "start", plan->start, "restart",
                      plan->restart, "running", plan->running, "completed", plan->done, "left_alone", plan->left,
                      "ignored", file->found.ignored);
        proc_others_warn(document, plan->warning);
        screen->call->emit(screen->call, document);
        return;
    }
    up_say(screen,
           starts ? (screen->has_keys ? "up_first_started" : "up_first_started_plain")
                  : (screen->has_keys ? "up_first_attached" : "up_first_attached_plain"),
           file->path, starts ? plan->start : plan->running);
    if (starts && json_array_size(plan->running))
        up_say(screen, "up_run_on", file->path, plan->running);
    if (json_array_size(plan->done))
        up_say(screen, "up_done", file->path, plan->done);
    if (json_array_size(plan->restart))
        up_say(screen, "up_restarting", file->path, plan->restart);
    say_whose(screen, plan->warning);
    if (json_array_size(plan->left))
        up_say(screen, "up_left_alone", file->path, plan->left);
    if (json_array_size(file->found.ignored))
        up_say(screen, "up_ignored", file->path, file->found.ignored);
}

/* Those that the stop leaves alone; whose they are is said. Owned. */
static json_t *stop_spares(struct up_screen *screen, bool is_said)
{
    REGISTRY(reg);
    struct tsk_error ignored; /* the stop itself opens it again and says what is wrong */
    json_t *ids CLEANUP_JSON = json_array(), *warning CLEANUP_JSON = NULL;
    if (proc_registry_open(&reg, screen->call->ws, &ignored) < 0)
        return NULL;
    for (size_t i = 0; i < screen->started_count; i++)
        json_array_append_new(ids, json_string(screen->started[i]));
    json_t *spared = proc_others_spare(screen->call, &reg, ids, &warning);
    if (is_said)
        say_whose(screen, warning);
    if (is_said && json_array_size(spared))
        up_say(screen, "up_spared", "", spared);
    return spared;
}

static void stop_begin(struct up_screen *screen, bool is_first)
{
    json_t *spared CLEANUP_JSON = stop_spares(screen, is_first);
    screen->stop.stop = screen->stopping;
    screen->stop.stops = 0;
    for (size_t i = 0; i < screen->started_count; i++)
        if (!up_is_listed(spared, screen->started[i]))
            screen->stopping[screen->stop.stops++] = screen->started[i];
    work_begin(&screen->stop);
}

static void up_stop(struct up_screen *screen)
{
    if (screen->started_count == 0) {
        screen->is_left = true;
        return;
    }
    if (screen->is_stopping)
        return;
    screen->is_stopping = true;
    screen->stops_again = screen->start.is_active;
    up_say(screen, "up_stopping", "", NULL);
    stop_begin(screen, true);
}

/* Most messages name the process; the others get its name in front. */
static void say_start_error(struct up_screen *screen, const char *id, const struct tsk_error *result,
                            const char *message)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!tsk_error_context(result, "id"))
        buf_printf(&text, "%s: ", id);
    buf_puts(&text, message);
    proc_lines_complain(&screen->lines, buf_str(&text));
}

/* The first command of each error: those that are new in `said`, an object. */
static void say_next(struct up_screen *screen, const json_t *error, json_t *said)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const char *command = json_string_value(json_array_get(json_object_get(error, "next"), 0));
    if (!command || json_object_get(said, command))
        return;
    json_object_set_new(said, command, json_true());
    buf_printf(&text, "%s: %s", text_get("label_next", screen->call->lang), command);
    proc_lines_remark(&screen->lines, buf_str(&text));
}

/* What could not be started is no process's own output, and yet stands where one looks. */
static int say_start_errors(struct up_screen *screen, struct tsk_error *err)
{
    if (screen->start.result < 0) {
        *err = screen->start.err;
        return -1;
    }
    json_t *said CLEANUP_JSON = json_object();
    size_t kept = 0;
    for (size_t i = 0; i < screen->start.starts; i++) {
        const struct tsk_error *result = &screen->start.results[i];
        if (result->code == TSK_OK)
            screen->started[kept++] = screen->started[i];
        if (result->code == TSK_OK || (screen->is_stopping && tsk_error_context(result, "other")))
            continue; /* or it waited for another one, which this call has stopped */
        json_t *document CLEANUP_JSON = json_of_error(result, lang_name(screen->call->lang));
        const json_t *error = json_object_get(document, "error");
        if (result->code != TSK_PROCESS_ALREADY_RUNNING && screen->call->verdict == TSK_OK)
            screen->call->verdict = result->code;
        if (screen->call->emit_line) {
            say_start_error(screen, screen->start.start[i], result, json_get_string(error, "message", ""));
            say_next(screen, error, said);
        } else {
            json_object_set_new(document, "id", json_string(screen->start.start[i]));
            screen->call->emit(screen->call, document);
        }
    }
    screen->started_count = kept;
    return 0;
}

/* The starts wait for what others need. Most waits are over after a moment, and are not shown. */
static void await_look(struct up_screen *screen)
{
    char *news = atomic_exchange(&screen->start.awaited, NULL);
    int64_t now_ms = clock_now().boot_ms;
    if (news) {
        free(screen->awaited);
        screen->awaited = *news ? news : NULL;
        screen->awaited_ms = now_ms;
    }
    if (news && !*news)
        free(news);
    if (!screen->awaited) {
        proc_lines_await(&screen->lines, "");
    } else if (now_ms - screen->awaited_ms >= AWAIT_MOMENT_MS) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        text_put(&text, screen->call->lang, "up_waiting", "names", screen->awaited, NULL);
        proc_lines_await(&screen->lines, buf_str(&text));
    }
}

static int await_timeout(const struct up_screen *screen)
{
    int64_t left = screen->awaited_ms + AWAIT_MOMENT_MS - clock_now().boot_ms;
    if (!screen->awaited)
        return screen->is_behind ? SECOND_LOOK_MS : -1;
    return left > 0 && left < SECOND_LOOK_MS ? (int)left : SECOND_LOOK_MS;
}

/* What has ended, and what follows from it (Y2). */
static int works_look(struct up_screen *screen, struct tsk_error *err)
{
    if (work_ended(&screen->start) && say_start_errors(screen, err) < 0)
        return -1;
    if (work_ended(&screen->stop) && screen->stop.result < 0) {
        *err = screen->stop.err;
        return -1;
    }
    if (screen->stops_again && !screen->stop.is_active && !screen->start.is_active) {
        screen->stops_again = false;
        if (screen->started_count)
            stop_begin(screen, false);
    }
    return 0;
}

/* Whether keys come to us now. Not after `bg`, where a read would stop this program; back in front, single keys are taken again. */
static bool screen_has_keys(struct up_screen *screen)
{
    bool was_behind = screen->is_behind;
    screen->is_behind = screen->has_keys && tcgetpgrp(STDIN_FILENO) != getpgrp();
    if (was_behind && !screen->is_behind)
        screen->has_keys = screen->call->take_keys(screen->call, true);
    return screen->has_keys && !screen->is_behind;
}

static void take_input(struct up_screen *screen, struct pollfd fds[2])
{
    char text[64];
    ssize_t len = fds[0].revents ? read(screen->pipe[0], text, sizeof text) : 0;
    for (ssize_t i = 0; i < len; i++) {
        screen->is_left = screen->is_left || text[i] == 'h';
        if (text[i] == 'i')
            up_stop(screen);
    }
    len = fds[1].revents && screen_has_keys(screen) ? read(STDIN_FILENO, text, sizeof text) : -1;
    if (len == 0 || (len < 0 && fds[1].revents & (POLLHUP | POLLERR | POLLNVAL)))
        screen->has_keys = false;
    for (ssize_t i = 0; i < len; i++)
        screen->is_left = screen->is_left || text[i] == 'd';
}

static bool has_work(const struct up_screen *screen)
{
    return screen->start.is_active || screen->stop.is_active || screen->stops_again;
}

static int screen_run(struct up_screen *screen, struct tsk_error *err)
{
    struct tail_hooks hooks = proc_lines_hooks(&screen->lines);
    while (!screen->is_left) {
        int result = tails_read(&screen->tails, &hooks, err);
        await_look(screen);
        if (!proc_lines_flush(&screen->lines) || (result < 0 && err->code == TSK_OK)) {
            screen->is_left = true; /* nobody reads any more */
            return 0;
        }
        if (result < 0 || works_look(screen, err) < 0)
            return -1;
        if (screen->is_stopping && !has_work(screen)) { /* others may run on: their last lines are enough */
            tails_wait(&screen->tails, NULL, 0, 0);
            return tails_read(&screen->tails, &hooks, err) < 0 && err->code != TSK_OK ? -1 : 0;
        }
        if (has_work(screen))
            screen->tails.over_ms = 0;
        if (tails_have_ended(&screen->tails))
            return 0;
        struct pollfd fds[] = {{.fd = screen->pipe[0], .events = POLLIN},
                               {.fd = screen_has_keys(screen) ? STDIN_FILENO : -1, .events = POLLIN}};
        tails_wait(&screen->tails, fds, 2, await_timeout(screen));
        take_input(screen, fds);
    }
    return 0;
}

/* All have ended: whether each of them did so well. */
static void judge_ends(struct up_screen *screen)
{
    for (size_t i = 0; i < screen->tails.count; i++)
        if (screen->tails.list[i].p.view.state == PROC_FAILED && screen->call->verdict == TSK_OK &&
            !screen->is_stopping)
            screen->call->verdict = TSK_PROCESS_START_FAILED;
}

/* The commands have the file that this call was given. */
static void say_detached(struct up_screen *screen)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT, option CLEANUP(buf_clear) = BUF_INIT;
    const char *given = json_get_string(screen->call->args, "file", NULL);
    if (given)
        buf_printf(&option, " -f %s", shell_word(&word, given));
    up_say(screen, "up_detached", buf_str(&option), NULL);
}

static int screen_show(struct up_screen *screen, const struct up_file *file, const struct up_plan *plan,
                       struct tsk_error *err)
{
    struct sigaction before[UP_SIGNALS];
    screen->has_keys = screen->call->take_keys && screen->call->take_keys(screen->call, true);
    up_signals_take(screen, before);
    say_first(screen, file, plan);
    if (screen->start.starts)
        work_begin(&screen->start);
    int result = screen_run(screen, err);
    if (screen->is_left && screen->call->emit_line)
        say_detached(screen);
    else if (result == 0)
        judge_ends(screen);
    /* What is being started is started to its end: a detached `up` leaves nothing half done. It says what it waits for. */
    if (screen->start.is_active) {
        proc_lines_flush(&screen->lines);
        pthread_join(screen->start.thread, NULL);
    }
    if (screen->stop.is_active)
        pthread_join(screen->stop.thread, NULL);
    signals_give_back(before);
    if (screen->call->take_keys)
        screen->call->take_keys(screen->call, false);
    proc_lines_end(&screen->lines);
    return result;
}

int up_follow(struct op_call *call, const struct up_file *file, const struct up_plan *plan, json_t **ret,
              struct tsk_error *err)
{
    static const struct log_query all = {
        .stream = LOG_BOTH, .lines = -1, .cursor = {-1, -1}, .since_ms = -1, .until_ms = -1};
    const char **ids CLEANUP_FREE = proc_args_strings(file->ids);
    const char **start CLEANUP_FREE = proc_args_strings(plan->start);
    const char **stop CLEANUP_FREE = proc_args_strings(plan->restart);
    const char **started CLEANUP_FREE = proc_args_strings(plan->start);
    const char **stopping CLEANUP_FREE = proc_args_strings(plan->start);
    size_t count = json_array_size(plan->start);
    struct tsk_error *results CLEANUP_FREE = proc_args_results(plan->start);
    struct up_screen screen = {
        .call = call, .pipe = {-1, -1}, .started = started, .started_count = count, .stopping = stopping};
    *ret = NULL;
    int result = tails_open(&screen.tails, call->ws, ids, json_array_size(file->ids), &all, err); /* Y1 */
    if (result == 0 && pipe2(screen.pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        result = error_errno(err, "make", "a pipe");
    if (result == 0) {
        proc_lines_init(&screen.lines, call, ids, json_array_size(file->ids));
        screen.lines.has_states = true;
        screen.lines.rings = notify_rings(call->ws, NOTIFY_FAILURE);
        screen.start = (struct up_work){.ws = call->ws,
                                        .stop = stop,
                                        .stops = json_array_size(plan->restart),
                                        .start = start,
                                        .starts = count,
                                        .results = results,
                                        .wake = screen.pipe[1]};
        screen.stop = (struct up_work){.ws = call->ws, .wake = screen.pipe[1]};
        result = screen_show(&screen, file, plan, err);
    }
    free(screen.awaited);
    free(atomic_load(&screen.start.awaited));
    tails_clear(&screen.tails);
    fs_close(&screen.pipe[0]);
    fs_close(&screen.pipe[1]);
    return result;
}
