/* waits.c - tells a person for whom a command waits, since when, and its place in line. A thread looks, because the command itself
 * sleeps in the kernel: after a moment once, and on a terminal again each second, in the same line. */
#include "base/clock.h"
#include "base/utf8.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/cli.h"
#include "own/waiting.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_RUN_LEN 6   /* of an id's end, by which a run can be named */
#define MOMENT_MS     300 /* most waits are over by then, and say nothing */

/* How much of the line has room. The place in line is the last that is given up, then the holder's label. */
enum room {
    ROOM_ALL,
    ROOM_NO_NOTE, /* labels without notes, times without spans, runs by the end of their ids, the place before the holder */
    ROOM_NO_TIME,
    ROOM_NAMES, /* without "waiting for" */
};

/* The wait of this command; a command has one at a time. */
static struct {
    const struct cli_options *options;
    const char *root;
    char kind[32], id[512];
    int64_t began_ms, since_ms;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t over;
    bool is_running, is_over, is_drawn;
    bool is_aside;  /* the wait of a start, or of an idle queue: a script did not ask for it, and reads nothing */
    enum room room; /* for the line being made */
} wait_line = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- looking ---------------------------------------------------------------------------------------------------- */

/* The result of an operation that only looks; owned, NULL: it was refused. Takes `args`. */
static json_t *wait_look_at(const char *op, json_t *args)
{
    struct tsk_error ignored;
    json_t *result = NULL;
    struct op_call call = {.op = op_by_name(op), .args = args, .root = wait_line.root, .lang = wait_line.options->lang};
    if (op_check_args(call.op, args, &ignored) < 0 || op_run(&call, &result, &ignored) < 0)
        result = NULL;
    json_decref(call.aside);
    json_decref(args);
    return result;
}

/* Whether the lock is the one that is waited for: `wait lock` names it as deploy, queue or request/RQ-1. */
static bool is_awaited(const json_t *lock)
{
    const char *kind = json_get_string(lock, "kind", ""), *id = json_get_string(lock, "id", "");
    if (strcmp(wait_line.kind, "lock") != 0)
        return strcmp(kind, wait_line.kind) == 0 && strcmp(id, wait_line.id) == 0;
    size_t len = strlen(kind);
    bool has_kind = strncmp(wait_line.id, kind, len) == 0;
    return strcmp(id, wait_line.id) == 0 || (has_kind && !wait_line.id[len]) ||
           (has_kind && wait_line.id[len] == '/' && strcmp(wait_line.id + len + 1, id) == 0);
}

/* "held by claude-code#2: refactoring auth since 12:45 (3 min ago)"; `keys`: with the time, and without. */
static void put_party(struct buf *b, const char *const keys[2], const json_t *who, const char *since, int64_t age_ms)
{
    struct buf label CLEANUP(buf_clear) = BUF_INIT, time CLEANUP(buf_clear) = BUF_INIT;
    if (wait_line.room == ROOM_ALL) {
        who_put_label(&label, who);
        cli_since(wait_line.options, since ? since : "?", age_ms, &time);
    } else {
        buf_puts(&label, json_get_string(who, "label", ""));
        buf_puts(&time, CLI_CLOCK(wait_line.options, since ? since : "?"));
    }
    buf_puts(b, ", ");
    text_put(b, wait_line.options->lang, keys[wait_line.room >= ROOM_NO_TIME], "who", label.len ? buf_str(&label) : "?",
             "time", buf_str(&time), NULL);
}

static const char *const held_keys[] = {"wait_held", "wait_held_short"};
static const char *const started_keys[] = {"wait_started", "wait_started_short"};
static const char *const owned_keys[] = {"wait_owned", "wait_owned_short"};

static void put_lock_party(struct buf *b)
{
    json_t *result CLEANUP_JSON = wait_look_at("lock.list", json_object());
    json_each (json_object_get(result, "locks"), i, lock)
        if (is_awaited(lock))
            put_party(b, held_keys, json_at(lock, "holder.who"), json_get_string(lock, "created_at", NULL),
                      json_get_int(lock, "age_ms", -1));
}

static void put_process_party(struct buf *b)
{
    json_t *process CLEANUP_JSON = wait_look_at("process.status", json_pack("{s:s}", "id", wait_line.id));
    const json_t *state =
        json_object_get(json_object_get(process, "state"), json_get_string(process, "state_name", ""));
    if (process)
        buf_printf(b, ", %s", json_get_string(process, "state_name", ""));
    if (json_get_string(state, "started_at", NULL))
        put_party(b, started_keys, json_object_get(process, "started_by"), json_get_string(state, "started_at", NULL),
                  -1);
}

static void put_run_party(struct buf *b)
{
    json_t *run CLEANUP_JSON = wait_look_at("runs.show", json_pack("{s:s}", "run", wait_line.id));
    if (!run)
        return;
    put_party(b, started_keys, json_object_get(run, "started_by"), json_get_string(run, "started_at", NULL), -1);
    buf_printf(b, ", %lld/%lld", (long long)json_get_int(json_object_get(run, "counts"), "done", 0),
               (long long)json_get_int(json_object_get(run, "counts"), "total", 0));
}

static void put_owner_party(struct buf *b)
{
    json_t *wf CLEANUP_JSON = wait_look_at("own.show", json_pack("{s:s}", "ulTaskId", wait_line.id));
    if (wf)
        put_party(b, owned_keys, json_object_get(wf, "who"), json_get_string(wf, "claimed_at", NULL), -1);
}

/* The waiters for the same lock that came before this one stand before it. */
static void wait_put_place(struct buf *b)
{
    struct tsk_workspace *ws = NULL;
    struct tsk_error ignored;
    size_t place = 1;
    if (tsk_workspace_open(wait_line.root, &ws, &ignored) < 0)
        return;
    json_t *list CLEANUP_JSON = waiting_list(ws);
    tsk_workspace_close(ws);
    const char *own = TIME_EXACT(wait_line.since_ms);
    json_each (list, i, one)
        place += json_text_is(one, "kind", wait_line.kind) && json_text_is(one, "id", wait_line.id) &&
                 strcmp(json_get_string(one, "since", ""), own) < 0;
    buf_puts(b, ", ");
    text_put(b, wait_line.options->lang, "wait_place", "place", DIGITS(place), NULL);
}

/* A queue that stays. */
static bool is_for_requests(void)
{
    return strcmp(wait_line.kind, "requests") == 0;
}

static void put_awaited(struct buf *b)
{
    char what[600];
    size_t len = strlen(wait_line.id);
    bool is_short = wait_line.room != ROOM_ALL && strcmp(wait_line.kind, "run") == 0 && len > SHORT_RUN_LEN;
    const char *id = is_short ? wait_line.id + len - SHORT_RUN_LEN : wait_line.id;
    snprintf(what, sizeof what, "%s%s%s", wait_line.kind, id[0] ? " " : "", id);
    if (is_for_requests())
        text_put(b, wait_line.options->lang, wait_line.room < ROOM_NO_TIME ? "wait_requests" : "wait_requests_short",
                 NULL);
    else if (wait_line.room == ROOM_NAMES)
        buf_puts(b, what);
    else
        text_put(b, wait_line.options->lang, "wait_for", "what", what, NULL);
}

static void wait_put_line(struct buf *b)
{
    bool is_process = strcmp(wait_line.kind, "process") == 0, is_run = strcmp(wait_line.kind, "run") == 0;
    bool is_owner = strcmp(wait_line.kind, "workflow") == 0;
    bool has_place = !is_process && !is_run && !is_owner && strcmp(wait_line.kind, "lock") != 0;
    put_awaited(b);
    if (is_for_requests())
        return;
    if (has_place && wait_line.room != ROOM_ALL)
        wait_put_place(b);
    (is_process ? put_process_party : is_run ? put_run_party : is_owner ? put_owner_party : put_lock_party)(b);
    if (has_place && wait_line.room == ROOM_ALL)
        wait_put_place(b);
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

/* The cursor stands below the line, so that a prompt after Ctrl-C does not follow it. */
static void line_clear(void)
{
    if (wait_line.is_drawn)
        fputs("\033[1A\r\033[K", stderr);
    wait_line.is_drawn = false;
}

/* The whole line, or the part of it that fits into the columns. */
static void put_wait_within(struct buf *b, size_t columns)
{
    for (wait_line.room = ROOM_ALL;; wait_line.room++) {
        buf_clear(b);
        wait_put_line(b);
        if (utf8_width(buf_str(b)) <= columns || wait_line.room == ROOM_NAMES)
            return;
    }
}

static void line_draw(bool is_terminal)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT, shown CLEANUP(buf_clear) = BUF_INIT;
    const char *span = CLI_WHOLE_SPAN(wait_line.options->lang, clock_now().boot_ms - wait_line.began_ms);
    size_t width = (size_t)cli_terminal_width(stderr), tail = utf8_width(span) + 3;
    put_wait_within(&line, is_terminal && width > tail ? width - tail - 1 : SIZE_MAX);
    pthread_mutex_lock(&wait_line.mutex);
    if (!wait_line.is_over) {
        utf8_put_visible(&shown, buf_str(&line), false);
        char *text = is_terminal && width > tail + 10 ? cli_cut(buf_take(&shown), width - tail - 1) : buf_take(&shown);
        line_clear();
        fprintf(stderr, is_terminal ? "%s (%s)\n" : "%s\n", text ? text : "", span);
        fflush(stderr);
        wait_line.is_drawn = is_terminal;
        free(text);
    }
    pthread_mutex_unlock(&wait_line.mutex);
}

/* Sleeps; true: the wait is over. */
static bool nap(int64_t ms)
{
    struct timespec until = clock_deadline(CLOCK_MONOTONIC, ms);
    pthread_mutex_lock(&wait_line.mutex);
    while (!wait_line.is_over && pthread_cond_timedwait(&wait_line.over, &wait_line.mutex, &until) == 0)
        ;
    bool is_over = wait_line.is_over;
    pthread_mutex_unlock(&wait_line.mutex);
    return is_over;
}

static void *wait_show(void *data)
{
    bool is_terminal = isatty(STDERR_FILENO) && !cli_is_plain_terminal();
    if (wait_line.is_aside && !is_terminal)
        return data;
    for (int64_t ms = MOMENT_MS; !nap(ms); ms = SECOND_LOOK_MS) {
        line_draw(is_terminal);
        if (!is_terminal)
            break;
    }
    return data;
}

static void wait_stop(void)
{
    if (!wait_line.is_running)
        return;
    pthread_mutex_lock(&wait_line.mutex);
    wait_line.is_over = true;
    pthread_cond_signal(&wait_line.over);
    line_clear();
    fflush(stderr);
    pthread_mutex_unlock(&wait_line.mutex);
    pthread_join(wait_line.thread, NULL);
    pthread_cond_destroy(&wait_line.over);
    wait_line.is_running = false;
}

/* Signals belong to the thread that waits. */
void cli_waits(struct op_call *call, const char *kind, const char *id, int64_t since_ms)
{
    sigset_t all, before;
    pthread_condattr_t attr;
    wait_stop();
    if (!kind)
        return;
    wait_line.options = call->skin;
    wait_line.root = call->root;
    snprintf(wait_line.kind, sizeof wait_line.kind, "%s", kind);
    snprintf(wait_line.id, sizeof wait_line.id, "%s", id ? id : "");
    wait_line.began_ms = clock_now().boot_ms;
    wait_line.since_ms = since_ms;
    bool is_of_start = strcmp(kind, "process") == 0 || strcmp(kind, "run") == 0; /* if the command is no wait */
    wait_line.is_aside = (is_of_start && !(call->op->flags & OP_READ_ONLY)) || is_for_requests();
    wait_line.is_over = false;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&wait_line.over, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    wait_line.is_running = pthread_create(&wait_line.thread, NULL, wait_show, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
