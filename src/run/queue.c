#include "run/queue.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "lock/held.h"
#include "lock/report.h"
#include "run/after.h"
#include "run/book.h"
#include "run/notify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MISSES_MAX 100
#define MISS_MS    10
#define RAN_MAX    200 /* runs in the record of a queue that stays: the last ones */

const char *const queue_reason_names[] = {NULL,
#define X(name, code, why) #name,
                                          QUEUE_REASONS
#undef X
};

struct queue {
    struct tsk_workspace *ws;
    const struct queue_run *options;
    struct tsk_lock *lock;
    json_t *ran;    /* [{request_id, run_id, status}] */
    json_t *record; /* queue.json */
    json_t *error;  /* why a run could not begin */
    int64_t count;  /* of the runs */
    json_t *seen;   /* {request_id: {run_id, updated_at}}: the runs, for U2 and U7 */
    int64_t deadline_ms;
    enum queue_reason reason, passed; /* why it ended; the worst that it has passed over (U8) */
    struct queue_stay stay;
    bool has_waited;
    unsigned misses; /* runs in a row that could not begin because somebody was faster */
    json_t *missed;  /* {request_id: …}: those that are tried again when nothing else is left (U6) */
    struct run_start start;
    const char *request_id;                                /* being run */
    const struct book *book;                               /* by which that was decided */
    enum { DECIDE_GO, DECIDE_LATE, DECIDE_STOP } decision; /* under the request's lock */
};

/* ---- reports --------------------------------------------------------------------------------------- */

static void put_queue_event(struct queue *q, const char *type, json_t *data_take)
{
    workspace_report(q->ws, (struct event){.type = type, .run_id = json_get_string(data_take, "run_id", NULL)},
                     data_take);
}

static void write_record(struct queue *q)
{
    struct tsk_error problem;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, q->record, true);
    buf_puts(&text, "\n");
    if (fs_replace_file(q->ws->state_dir, QUEUE_RECORD_NAME, 0600, text.data, text.len) < 0) {
        fs_error(&problem, "write", q->ws->state_dir, QUEUE_RECORD_NAME);
        log_problem(&problem);
    }
}

static json_t *time_now(void)
{
    const char *text = TIME_EXACT(clock_now().wall_ms);
    return json_string(text);
}

static void tell_started(struct queue *q)
{
    q->record = json_pack("{s:s, s:o, s:i, s:I, s:n, s:n, s:O}", "status", "RUNNING", "started_at", time_now(), "pid",
                          (int)q->lock->record.pid, "fence", (json_int_t)tsk_lock_fence(q->lock), "ended_at", "reason",
                          "ran", q->ran);
    write_record(q);
    put_queue_event(q, "queue.started",
                    json_pack("{s:I, s:I, s:b}", "max", (json_int_t)q->options->max, "for_ms",
                              (json_int_t)q->options->for_ms, "retry", (int)q->options->retries));
}

/* U3. */
static void tell_stopped(struct queue *q)
{
    const char *reason = queue_reason_names[q->reason];
    json_object_set_new(q->record, "status", json_string("STOPPED"));
    json_object_set_new(q->record, "ended_at", time_now());
    json_object_set_new(q->record, "reason", json_string(reason));
    if (q->error)
        json_object_set(q->record, "error", q->error);
    write_record(q);
    put_queue_event(q, "queue.stopped", json_pack("{s:s, s:O}", "reason", reason, "ran", q->ran));
    bool is_stuck = q->reason == QUEUE_DOCTOR_FAILED || q->reason == QUEUE_LOCK_LOST || q->error;
    if (is_stuck) /* of a run that has failed or asks, the run itself has notified */
        notify_queue(q->ws, tsk_lock_fence(q->lock), reason);
}

/* ---- the lock ------------------------------------------------------------------------------------------- */

/* U1. NULL: between two. false: the lock is not ours any more. */
static bool name_run(struct queue *q, const char *request_id, const char *run_id)
{
    struct tsk_error problem;
    struct lock_record *record = &q->lock->record;
    /* Another command may have renewed the lock past half of its TTL, with the old names: then write it again. */
    for (int i = 0; i < 2; i++) {
        snprintf(record->request_id, sizeof record->request_id, "%s", request_id ? request_id : "");
        snprintf(record->run_id, sizeof record->run_id, "%s", run_id ? run_id : "");
        if (tsk_lock_renew(q->lock, &problem) < 0) {
            log_problem(&problem);
            return problem.code != TSK_LOCK_LOST;
        }
        if (strcmp(record->run_id, run_id ? run_id : "") == 0)
            break;
    }
    return true;
}

static enum queue_stopping queue_stopping_of(struct queue *q)
{
    return queue_stop_read(q->ws, tsk_lock_fence(q->lock)); /* U4 */
}

static bool is_told_to_stop(struct queue *q)
{
    return queue_stopping_of(q) != QUEUE_RUNS_ON;
}

/* ---- one after the other -------------------------------------------------------------------------------- */

/* The last of the runs, and what its request is about. */
static void queue_tell_run(struct queue *q)
{
    const struct book_entry *entry = book_find(q->book, q->request_id);
    const json_t *line = json_array_get(q->ran, json_array_size(q->ran) - 1);
    if (q->options->tells)
        q->options->tells(q->options->waits_data, line, json_get_string(entry->request.json, "title", ""));
}

/* U4: we name the run in our lock before we look for a stop file; a process that stops the queue writes the stop file
 * before it reads the lock. So one of the two sees the other. */
static bool run_begun(void *data, const json_t *stage)
{
    struct queue *q = data;
    const char *run = json_get_string(stage, "run_id", NULL);
    name_run(q, q->request_id, run);
    json_array_append_new(
        q->ran, json_pack("{s:s, s:s, s:s}", "request_id", q->request_id, "run_id", run, "status", "RUNNING"));
    write_record(q);
    put_queue_event(q, "queue.next", json_pack("{s:s, s:s}", "request_id", q->request_id, "run_id", run));
    queue_tell_run(q);
    bool goes_on = !q->options->start.begun || q->options->start.begun(q->options->start.begun_data, stage);
    return queue_stopping_of(q) != QUEUE_STOPS_NOW && goes_on;
}

/* Whether the request's file and its latest run are what the book has seen. */
static bool is_as_seen(struct queue *q, const struct book_entry *entry)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    struct request now CLEANUP(request_clear) = {.json = NULL};
    if (request_read(q->ws, entry->request.id, q->start.lang, &now, &ignored) < 0 ||
        strcmp(now.id, entry->request.id) != 0 || strcmp(now.updated_at, entry->request.updated_at) != 0)
        return false;
    if (book_latest_stage(q->ws, now.id, &stage, &ignored) < 0)
        return false;
    if (!stage)
        return !entry->run;
    return json_text_is(stage, "run_id", json_get_string(entry->run, "run_id", "")) &&
           json_text_is(stage, "status", json_get_string(entry->run, "status", ""));
}

/* U5, under the request's lock. */
static int queue_decide(void *data, struct tsk_error *err)
{
    struct queue *q = data;
    const struct book_entry *entry = book_find(q->book, q->request_id), *other;
    bool is_same = is_as_seen(q, entry);
    json_each (json_object_get(entry->request.json, "depends_on"), i, id)
        is_same = is_same && (other = book_find(q->book, json_string_value(id))) && is_as_seen(q, other);
    bool is_stopped = is_told_to_stop(q) || queue_stay_is_signalled(&q->stay);
    q->decision = is_stopped ? DECIDE_STOP : is_same ? DECIDE_GO : DECIDE_LATE;
    if (q->decision == DECIDE_GO)
        return 0;
    return error_set(err, TSK_CONFLICT, "queue_changed", "request", q->request_id, NULL);
}

static enum queue_reason reason_of_status(const char *status)
{
    if (strcmp(status, "DONE") == 0)
        return QUEUE_GOES_ON;
    if (strcmp(status, "NEEDS_INPUT") == 0)
        return QUEUE_NEEDS_INPUT;
    return strcmp(status, "CANCELLED") == 0 ? QUEUE_CANCELLED : QUEUE_FAILED;
}

/* Nothing is wrong: somebody was faster, or something has changed since we looked. */
static bool was_late(const struct queue *q, const struct tsk_error *err)
{
    bool is_cancelled = q->start.resume && err->code == TSK_CONFLICT; /* the run that was to continue */
    return err->code == TSK_RUN_IN_PROGRESS || err->code == TSK_REQUEST_NOT_FOUND || err->code == TSK_NEEDS_INPUT ||
           q->decision == DECIDE_LATE || is_cancelled;
}

/* A run that could not begin. */
static enum queue_reason reason_of_error(struct queue *q, const struct tsk_error *err)
{
    if (q->decision == DECIDE_STOP)
        return QUEUE_STOPPED;
    if (was_late(q, err) && ++q->misses < MISSES_MAX) {
        if (err->code == TSK_RUN_IN_PROGRESS)
            json_object_set_new(q->missed, q->request_id, json_true());
        return QUEUE_GOES_ON;
    }
    json_t *document CLEANUP_JSON = json_of_error(err, lang_name(q->options->start.lang));
    q->error = json_incref(json_object_get(document, "error"));
    return err->code == TSK_DOCTOR_FAILED ? QUEUE_DOCTOR_FAILED : QUEUE_FAILED;
}

/* What became of a run that began and could not end, or could not begin and was recorded as failed (S8). */
static void note_error(struct queue *q, json_t *line, const struct tsk_error *err)
{
    const char *run = tsk_error_context(err, "run_id");
    if (line)
        json_object_set_new(line, "status", json_string("INTERRUPTED"));
    else if (run && !was_late(q, err) && q->decision == DECIDE_GO)
        json_array_append_new(
            q->ran, json_pack("{s:s, s:s, s:s}", "request_id", q->request_id, "run_id", run, "status", "FAILED"));
}

/* After a run that has begun, or was recorded. */
static void queue_note_seen(struct queue *q, const struct book_entry *entry, size_t before)
{
    size_t count = json_array_size(q->ran);
    if (count == before)
        return;
    queue_tell_run(q);
    q->count++;
    json_object_set_new(q->seen, entry->request.id,
                        json_pack("{s:O, s:s}", "run_id", json_object_get(json_array_get(q->ran, before), "run_id"),
                                  "updated_at", entry->request.updated_at));
    if (q->options->stays && count > RAN_MAX)
        json_array_remove(q->ran, 0);
}

static enum queue_reason run_one(struct queue *q, const struct book_entry *entry)
{
    struct tsk_error err;
    json_t *stage CLEANUP_JSON = NULL;
    bool resumes = json_text_is(entry->run, "status", "INTERRUPTED");
    size_t before = json_array_size(q->ran);
    q->request_id = entry->request.id;
    q->decision = DECIDE_GO;
    q->start.request_id = entry->request.id;
    q->start.resume = resumes ? json_get_string(entry->run, "run_id", NULL) : NULL;
    int result = resumes ? start_again(q->ws, &q->start, &stage, &err) : start_request(q->ws, &q->start, &stage, &err);
    json_t *line = json_array_size(q->ran) > before ? json_array_get(q->ran, before) : NULL;
    if (result < 0) {
        note_error(q, line, &err);
        queue_note_seen(q, entry, before);
        return reason_of_error(q, &err);
    }
    q->misses = 0;
    json_object_clear(q->missed);
    const char *status = json_get_string(stage, "status", "");
    if (line)
        json_object_set_new(line, "status", json_string(status));
    queue_note_seen(q, entry, before);
    return name_run(q, NULL, NULL) ? reason_of_status(status) : QUEUE_LOCK_LOST;
}

/* U8: whether it continues although that run, which is recorded, did not end well. */
static enum queue_reason pass_over(struct queue *q, enum queue_reason reason, int64_t count_before)
{
    bool is_passed =
        q->options->keeps_going && q->count > count_before && (reason == QUEUE_FAILED || reason == QUEUE_NEEDS_INPUT);
    if (!is_passed)
        return reason;
    q->passed = q->passed == QUEUE_FAILED ? QUEUE_FAILED : reason;
    json_decref(q->error);
    q->error = NULL;
    return QUEUE_GOES_ON;
}

/* U2, U7. */
static bool was_run(const struct queue *q, const struct book_entry *entry)
{
    const json_t *seen = json_object_get(q->seen, entry->request.id);
    if (!seen || !q->options->stays)
        return seen;
    return json_text_is(seen, "run_id", json_get_string(entry->run, "run_id", "?")) &&
           json_text_is(seen, "updated_at", entry->request.updated_at);
}

static enum queue_reason limit_reached(struct queue *q)
{
    if (is_told_to_stop(q) || queue_stay_is_signalled(&q->stay))
        return QUEUE_STOPPED;
    if (q->options->max && q->count >= q->options->max)
        return QUEUE_MAX;
    return q->deadline_ms && clock_now().boot_ms >= q->deadline_ms ? QUEUE_TIME : QUEUE_GOES_ON;
}

/* U2, U6: the next one; of those that could not begin a moment ago only if there is no other, and after a pause. */
static const struct book_entry *queue_choose(struct queue *q, struct book *book)
{
    for (size_t i = 0; i < book->count; i++) {
        struct book_entry *entry = &book->entries[i];
        entry->was_run = was_run(q, entry) || json_object_get(q->missed, entry->request.id);
    }
    const struct book_entry *next = book_next(book);
    if (next || json_object_size(q->missed) == 0)
        return next;
    for (size_t i = 0; i < book->count; i++)
        book->entries[i].was_run = was_run(q, &book->entries[i]);
    clock_nap(MISS_MS);
    return book_next(book);
}

static void queue_idles(struct queue *q, bool is_idle)
{
    if (q->options->idles)
        q->options->idles(q->options->waits_data, is_idle);
}

/* U7. Nothing is left: until there may be more. */
static enum queue_reason wait_for_more(struct queue *q)
{
    struct tsk_error problem;
    int64_t renew_ms = clock_now().boot_ms + q->lock->record.ttl_ms / 3;
    if (!q->has_waited && q->options->waits)
        q->options->waits(q->options->waits_data, q->ran);
    q->has_waited = true;
    queue_idles(q, true);
    enum queue_woken woken =
        queue_stay_wait(&q->stay, q->deadline_ms && q->deadline_ms < renew_ms ? q->deadline_ms : renew_ms);
    queue_idles(q, false);
    if (woken == QUEUE_SIGNALLED)
        return QUEUE_STOPPED;
    int kept = woken == QUEUE_TIME_UP ? tsk_lock_renew(q->lock, &problem) : tsk_lock_verify(q->lock, &problem);
    return kept < 0 && problem.code == TSK_LOCK_LOST ? QUEUE_LOCK_LOST : QUEUE_GOES_ON;
}

/* Until there is a reason; -1 when the requests cannot be read. */
static int run_all(struct queue *q, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    while ((q->reason = limit_reached(q)) == QUEUE_GOES_ON) {
        if (q->options->stays)
            queue_stay_watch(&q->stay, q->ws);
        if (book_update(q->ws, q->options->retries, q->options->start.lang, &book, err) < 0)
            return -1;
        const struct book_entry *next = queue_choose(q, &book);
        int64_t count = q->count;
        q->book = &book;
        q->reason = next ? pass_over(q, run_one(q, next), count) : q->options->stays ? wait_for_more(q) : QUEUE_EMPTY;
        q->book = NULL;
        if (q->reason != QUEUE_GOES_ON)
            break;
    }
    /* A stop with --now cancels the run of the queue: the stop is the reason. */
    if (q->reason == QUEUE_CANCELLED && is_told_to_stop(q))
        q->reason = QUEUE_STOPPED;
    return 0;
}

enum tsk_code queue_verdict(const char *reason)
{
#define X(name, code, why)                                                                                             \
    if (strcmp(reason, #name) == 0)                                                                                    \
        return code;
    QUEUE_REASONS
#undef X
    return TSK_OK;
}

/* As make -k: what was passed over is the outcome of a queue that has ended for no other reason. One that stays ends when it is
 * stopped, and that is no failure. */
static enum tsk_code outcome_of(const struct queue *q)
{
    enum tsk_code code = queue_verdict(queue_reason_names[q->reason]);
    return code == TSK_OK && q->passed && !q->options->stays ? queue_verdict(queue_reason_names[q->passed]) : code;
}

static int queue_refused(struct tsk_error *err)
{
    if (err->code != TSK_QUEUE_IN_PROGRESS)
        return -1;
    error_clear_next(err);
    error_add_next(err, "tasuki queue status");
    return error_add_next(err, "tasuki wait lock queue");
}

int queue_run(struct tsk_workspace *ws, const struct queue_run *options, json_t **ret, enum tsk_code *ret_verdict,
              struct tsk_error *err)
{
    struct tsk_error problem;
    struct queue q = {.ws = ws, .options = options, .start = options->start, .stay = {.inotify = -1, .signals = -1}};
    struct tsk_lock_options lock = {.size = sizeof lock};
    if (options->stays && queue_stay_open(&q.stay, err) < 0)
        return -1;
    if (tsk_lock_acquire(ws, TSK_LOCK_QUEUE, NULL, &lock, &q.lock, err) < 0) {
        queue_stay_close(&q.stay);
        return queue_refused(err);
    }
    q.ran = json_array();
    q.missed = json_object();
    q.seen = json_object();
    q.deadline_ms = options->for_ms ? clock_now().boot_ms + options->for_ms : 0;
    q.start.begun = run_begun;
    q.start.begun_data = &q;
    q.start.decide = queue_decide;
    q.start.decide_data = &q;
    q.start.queue = q.lock;
    tell_started(&q);
    after_start(ws, NULL); /* pending runs of runners that died */
    int result = run_all(&q, err);
    if (result < 0)
        q.reason = QUEUE_FAILED;
    tell_stopped(&q);
    if (is_told_to_stop(&q))
        fs->unlinkat(ws->state_dir, QUEUE_STOP_NAME, 0);
    if (tsk_lock_release(q.lock, &problem) < 0)
        log_problem(&problem);
    if (result == 0) {
        *ret = json_pack("{s:s, s:s, s:O, s:O?}", "status", "STOPPED", "reason", queue_reason_names[q.reason], "ran",
                         q.ran, "error", q.error);
        *ret_verdict = outcome_of(&q);
    }
    queue_stay_close(&q.stay);
    json_decref(q.seen);
    json_decref(q.ran);
    json_decref(q.missed);
    json_decref(q.record);
    json_decref(q.error);
    return result;
}
