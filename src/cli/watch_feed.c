/* watch_feed.c - the threads behind the screen (watch.h, S2). Each performs operations of the table, as a command does. */
#include "base/clock.h"
#include "cli/watch.h"
#include "ops/overview.h"
#include "store/events.h"
#include "store/notify.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_EVENTS       100         /* the newest that are shown */
#define WATCH_EVENTS_BYTES (64u << 10) /* of the trail before the start that are read */
#define WATCH_LAST_LINES   20          /* runs whose last line is read */
#define WATCH_VIEW_MS      300         /* a log is read again after this time: nothing announces a line */
#define WATCH_ANSWER_S     30          /* no answer within this time is a no, as at a prompt */

/* With the mutex. */
static void watch_wake(struct watch_shared *shared)
{
    uint64_t one = 1;
    (void)!write(shared->wake_fd, &one, sizeof one);
}

/* With the mutex. Takes the value; returns what nobody has taken, to be freed without the mutex: keys wait for it. */
static json_t *hand_over(struct watch_shared *shared, json_t **place, json_t *value)
{
    json_t *before = *place;
    *place = value;
    watch_wake(shared);
    return before;
}

/* ---- the feed --------------------------------------------------------------------------------------------- */

struct feed {
    struct watch *watch;
    struct event_reader reader;
    bool reads; /* the reader is open */
    json_t *events;
};

/* The event of which a person wants to know; NOTIFY_EVENT_COUNT: none. */
static enum notify_event rings_for(const json_t *event)
{
    const char *type = json_get_string(event, "type", "");
    const char *status = json_get_string(json_object_get(event, "data"), "status", "");
    if (strcmp(type, "run.interrupted") == 0 || strcmp(type, "queue.interrupted") == 0)
        return NOTIFY_STUCK;
    if (strcmp(type, "run.ended") != 0)
        return NOTIFY_EVENT_COUNT;
    return strcmp(status, "DONE") == 0          ? NOTIFY_DONE
           : strcmp(status, "FAILED") == 0      ? NOTIFY_FAILURE
           : strcmp(status, "NEEDS_INPUT") == 0 ? NOTIFY_QUESTION
                                                : NOTIFY_EVENT_COUNT;
}

/* Reads what is new; whether the bell is due. What was there before the screen rings no bell. */
static bool feed_read_events(struct feed *feed, struct tsk_workspace *ws)
{
    struct tsk_error ignored;
    json_t *event;
    bool rings = false, is_first = !feed->reads;
    if (is_first) {
        if (event_reader_init(&feed->reader, ws->state_dir, EVENT_FROM_END, &ignored) < 0)
            return false;
        uint64_t end = feed->reader.next_id;
        event_reader_clear(&feed->reader);
        uint64_t from = end > WATCH_EVENTS_BYTES ? end - WATCH_EVENTS_BYTES : 0;
        feed->reads = event_reader_init(&feed->reader, ws->state_dir, from, &ignored) == 0;
    }
    while (feed->reads && event_read(&feed->reader, &event, &ignored) == 1) {
        enum notify_event what = is_first ? NOTIFY_EVENT_COUNT : rings_for(event);
        rings = rings || (what < NOTIFY_EVENT_COUNT && notify_rings(ws, what));
        json_array_append_new(feed->events, event);
    }
    while (json_array_size(feed->events) > WATCH_EVENTS)
        json_array_remove(feed->events, 0);
    return rings;
}

static void add_last_lines(struct tsk_workspace *ws, const json_t *status)
{
    size_t read = 0;
    json_each (json_object_get(status, "runs"), i, run)
        if (json_text_is(run, "status", "RUNNING") && read++ < WATCH_LAST_LINES)
            overview_add_last_line(ws, run);
}

static bool feed_take(struct op_call *call, const json_t *document)
{
    struct feed *feed = call->skin;
    struct watch_shared *shared = &feed->watch->shared;
    bool rings = feed_read_events(feed, call->ws);
    json_t *status = json_deep_copy(document);
    add_last_lines(call->ws, status);
    if (json_object_get(call->aside, "short")) /* ids for people, as in tables */
        json_object_set_new(status, "short", json_deep_copy(json_object_get(call->aside, "short")));
    json_t *events = json_copy(feed->events); /* an event is never changed */
    pthread_mutex_lock(&shared->mutex);
    events = hand_over(shared, &shared->events, events);
    status = hand_over(shared, &shared->status, status);
    shared->rings |= rings;
    pthread_mutex_unlock(&shared->mutex);
    json_decref(events);
    json_decref(status);
    return true;
}

static struct op_call call_of(struct watch *watch, const char *op, json_t *args)
{
    return (struct op_call){
        .op = op_by_name(op), .args = args, .root = watch->root, .lang = watch->options.lang, .is_cli = true};
}

static void *feed_main(void *data)
{
    struct watch *watch = data;
    struct feed feed = {.watch = watch, .events = json_array()};
    json_t *args CLEANUP_JSON = json_object(), *none CLEANUP_JSON = NULL;
    struct tsk_error err = {0};
    struct op_call call = call_of(watch, "watch", args);
    call.emit = feed_take;
    call.wants_ticks = true;
    call.skin = &feed;
    int result = op_run(&call, &none, &err);
    json_decref(feed.events);
    if (feed.reads)
        event_reader_clear(&feed.reader);
    pthread_mutex_lock(&watch->shared.mutex);
    watch->shared.has_failed = result < 0;
    watch->shared.err = err;
    watch_wake(&watch->shared);
    pthread_mutex_unlock(&watch->shared.mutex);
    return NULL;
}

/* ---- operations of the view and the job ------------------------------------------------------------------- */

static char *error_text(const struct watch *watch, const struct tsk_error *err)
{
    struct buf b = BUF_INIT;
    text_put_error(&b, watch->options.lang, err);
    return buf_take(&b);
}

/* {op, args, result, aside} or {op, args, error}; owned. */
static json_t *watch_perform(struct watch *watch, const char *op, const json_t *given,
                             bool (*confirm)(struct op_call *, const char *))
{
    json_t *args CLEANUP_JSON = given ? json_deep_copy(given) : json_object(), *result CLEANUP_JSON = NULL;
    struct op_call call = call_of(watch, op, args);
    struct tsk_error err = {0};
    call.confirm = confirm;
    call.skin = watch;
    json_t *done = json_pack("{s:s, s:O}", "op", op, "args", args);
    if (op_check_args(call.op, args, &err) < 0 || op_run(&call, &result, &err) < 0) {
        char *text = error_text(watch, &err);
        json_object_set_new(done, "error", json_string(text ? text : ""));
        free(text);
    }
    if (result)
        json_object_set(done, "result", result);
    if (call.says)
        json_object_set_new(done, "says", json_string(call.says));
    if (call.aside)
        json_object_set_new(done, "aside", call.aside);
    return done;
}

/* ---- the view --------------------------------------------------------------------------------------------- */

static json_t *view_fetch(struct watch *watch, const json_t *wish)
{
    const char *op = json_get_string(wish, "op", NULL), *log = json_get_string(wish, "log", NULL);
    json_t *view = json_pack("{s:O}", "number", json_object_get(wish, "number"));
    if (json_object_get(wish, "shown"))
        json_object_set(view, "shown", json_object_get(wish, "shown"));
    if (op)
        json_object_set_new(view, "facts", watch_perform(watch, op, json_object_get(wish, "args"), NULL));
    if (log)
        json_object_set_new(view, "log", watch_perform(watch, log, json_object_get(wish, "log_args"), NULL));
    return view;
}

static void wait_until(struct watch_shared *shared, int64_t ms)
{
    struct timespec until = clock_deadline(CLOCK_REALTIME, ms);
    pthread_cond_timedwait(&shared->changed, &shared->mutex, &until);
}

static void *view_main(void *data)
{
    struct watch *watch = data;
    struct watch_shared *shared = &watch->shared;
    pthread_mutex_lock(&shared->mutex);
    for (;;) {
        json_t *wish CLEANUP_JSON = shared->wish ? json_deep_copy(shared->wish) : NULL;
        if (wish) {
            pthread_mutex_unlock(&shared->mutex);
            json_t *view = view_fetch(watch, wish);
            pthread_mutex_lock(&shared->mutex);
            json_decref(hand_over(shared, &shared->view, view));
        }
        bool is_same = shared->wish && wish && json_equal(shared->wish, wish);
        if (is_same)
            wait_until(shared, WATCH_VIEW_MS);
        else if (!shared->wish)
            pthread_cond_wait(&shared->changed, &shared->mutex);
    }
    return NULL;
}

void watch_wish(struct watch *watch, json_t *wish)
{
    if (wish)
        json_object_set_new(wish, "number", json_integer(++watch->wish_number));
    pthread_mutex_lock(&watch->shared.mutex);
    json_decref(watch->shared.wish);
    watch->shared.wish = wish;
    pthread_cond_broadcast(&watch->shared.changed);
    pthread_mutex_unlock(&watch->shared.mutex);
}

/* ---- the job ---------------------------------------------------------------------------------------------- */

struct job_start {
    struct watch *watch;
    json_t *job;
};

static bool watch_job_confirm(struct op_call *call, const char *question)
{
    struct watch *watch = call->skin;
    struct watch_shared *shared = &watch->shared;
    int64_t end = clock_now().boot_ms + WATCH_ANSWER_S * 1000;
    pthread_mutex_lock(&shared->mutex);
    free(shared->question);
    shared->question = strdup(question);
    shared->answer = -1;
    watch_wake(shared);
    for (int64_t left; shared->answer < 0 && (left = end - clock_now().boot_ms) > 0;)
        wait_until(shared, left);
    bool is_yes = shared->answer == 1;
    free(shared->question);
    shared->question = NULL;
    watch_wake(shared);
    pthread_mutex_unlock(&shared->mutex);
    return is_yes;
}

static void *job_main(void *data)
{
    struct job_start *start = data;
    struct watch_shared *shared = &start->watch->shared;
    json_t *done = watch_perform(start->watch, json_get_string(start->job, "op", ""),
                                 json_object_get(start->job, "args"), watch_job_confirm);
    json_decref(start->job);
    free(start);
    pthread_mutex_lock(&shared->mutex);
    shared->is_busy = false;
    json_decref(hand_over(shared, &shared->done, done));
    pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

/* A thread that gets no signal: they are the screen's. */
static bool thread_start(void *(*run)(void *), void *data)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int result = pthread_create(&thread, NULL, run, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0)
        pthread_detach(thread);
    return result == 0;
}

bool watch_job(struct watch *watch, json_t *job)
{
    struct watch_shared *shared = &watch->shared;
    pthread_mutex_lock(&shared->mutex);
    bool is_free = !shared->is_busy;
    shared->is_busy = true;
    pthread_mutex_unlock(&shared->mutex);
    struct job_start *start = is_free ? malloc(sizeof *start) : NULL;
    if (start) {
        *start = (struct job_start){.watch = watch, .job = job};
        if (thread_start(job_main, start))
            return true;
        free(start);
    }
    json_decref(job);
    if (is_free) {
        pthread_mutex_lock(&shared->mutex);
        shared->is_busy = false;
        pthread_mutex_unlock(&shared->mutex);
    }
    return false;
}

void watch_job_answer(struct watch *watch, bool is_yes)
{
    pthread_mutex_lock(&watch->shared.mutex);
    watch->shared.answer = is_yes;
    pthread_cond_broadcast(&watch->shared.changed);
    pthread_mutex_unlock(&watch->shared.mutex);
}

int watch_threads_start(struct watch *watch, struct tsk_error *err)
{
    if (thread_start(feed_main, watch) && thread_start(view_main, watch))
        return 0;
    return error_errno(err, "start", "a thread");
}
