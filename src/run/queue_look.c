/* queue_look.c - the queue from outside: what it does, what it would do next, telling it to stop. */
#include "base/fs.h"
#include "base/word.h"
#include "lock/report.h"
#include "run/book.h"
#include "run/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_NOW " now"

static int look_at_queue_lock(struct tsk_workspace *ws, struct lock_target *target, struct judgement *found,
                              struct tsk_error *err)
{
    if (lock_target_init(target, ws, lock_kind_get(TSK_LOCK_QUEUE), NULL, NULL, err) < 0)
        return -1;
    *found = (struct judgement){.verdict = VERDICT_FREE};
    if (!fs_may_exist(ws->locks_dir, target->file))
        return 0; /* nobody was ever there: the guard need not be made */
    return lock_inspect(target, found, err);
}

bool queue_is_running(struct tsk_workspace *ws)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error ignored;
    if (look_at_queue_lock(ws, &target, &found, &ignored) < 0)
        return false;
    lock_target_clear(&target);
    return found.verdict == VERDICT_HELD;
}

/* ---- stop ----------------------------------------------------------------------------------------------- */

/* U4. A later plain stop does not replace a stop with `now`. */
static int write_stop(struct tsk_workspace *ws, uint64_t fence, bool is_now, struct tsk_error *err)
{
    char text[32];
    bool was_now = queue_stop_read(ws, fence) == QUEUE_STOPS_NOW;
    int len = snprintf(text, sizeof text, "%" PRIu64 "%s\n", fence, is_now || was_now ? STOP_NOW : "");
    if (fs_replace_file(ws->state_dir, QUEUE_STOP_NAME, 0600, text, (size_t)len) < 0)
        return fs_error(err, "write", ws->state_dir, QUEUE_STOP_NAME);
    return 0;
}

enum queue_stopping queue_stop_read(struct tsk_workspace *ws, uint64_t fence)
{
    char *end;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!fence || fs_read_file(ws->state_dir, QUEUE_STOP_NAME, 40, &text) < 0 ||
        strtoull(buf_str(&text), &end, 10) != fence)
        return QUEUE_RUNS_ON;
    return strncmp(end, STOP_NOW, strlen(STOP_NOW)) == 0 ? QUEUE_STOPS_NOW : QUEUE_STOPS;
}

/* Nobody would read what we write: another tool's lock, or one that somebody has taken by hand. */
static int refuse_foreign(const struct lock_target *target, const struct judgement *found, struct tsk_error *err)
{
    struct now now = clock_now();
    error_set(err, TSK_QUEUE_IN_PROGRESS, found->record.fence ? "queue_by_hand" : "queue_foreign", NULL);
    report_add_holder(target, &now, found, err);
    return -1;
}

/* The stop is written; the run that the lock names by now has not seen it. */
static int cancel_named(struct lock_target *target, struct judgement *found, struct tsk_workspace *ws,
                        struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    const char *status;
    struct tsk_error ended;
    uint64_t fence = found->record.fence;
    if (lock_inspect(target, found, err) < 0)
        return -1;
    if (found->verdict == VERDICT_HELD && found->record.fence == fence && found->record.run_id[0])
        (void)stop_run(ws, found->record.run_id, false, id, &status, &ended); /* one that has ended needs no signal */
    return 0;
}

int queue_stop(struct tsk_workspace *ws, bool is_now, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    if (look_at_queue_lock(ws, &target, &found, err) < 0)
        return -1;
    const struct lock_record *record = &found.record;
    bool is_running = found.verdict == VERDICT_HELD;
    int result = 0;
    if (is_running && (!record->fence || record->hold != HOLD_LIFE))
        result = refuse_foreign(&target, &found, err);
    else if (is_running)
        result = write_stop(ws, record->fence, is_now, err);
    if (result == 0 && is_running && is_now)
        result = cancel_named(&target, &found, ws, err);
    if (result == 0)
        *ret = json_pack("{s:s, s:s?, s:s?}", "status", is_running ? "stopping" : "not_running", "request_id",
                         text_or_null(record->request_id), "run_id", text_or_null(record->run_id));
    lock_target_clear(&target);
    return result;
}

/* ---- next ----------------------------------------------------------------------------------------------- */

static json_t *explain_entry(const struct book_entry *entry, size_t position)
{
    json_t *json = json_pack("{s:s, s:s?, s:s, s:s, s:s?}", "request_id", entry->request.id, "title",
                             json_get_string(entry->request.json, "title", NULL), "priority",
                             request_priorities[entry->request.priority], "status", book_status(entry), "reason",
                             book_reason_names[entry->reason]);
    if (entry->detail.len)
        json_object_set_new(json, "detail", json_string(buf_str(&entry->detail)));
    if (position)
        json_object_set_new(json, "position", json_integer((json_int_t)position));
    return json;
}

/* The request that would be run, and whether its run would be continued. */
static json_t *describe_next(const struct book_entry *entry)
{
    if (!entry)
        return json_null();
    json_t *json = book_json(entry);
    json_object_del(json, "body");
    bool resumes = json_text_is(entry->run, "status", "INTERRUPTED");
    json_object_set(json, "resumes", resumes ? json_object_get(entry->run, "run_id") : json_null());
    return json;
}

int queue_next(struct tsk_workspace *ws, bool retries, enum lang lang, json_t **ret, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    size_t position = 1;
    if (book_open(ws, retries, lang, &book, err) < 0)
        return -1;
    const struct book_entry *next = book_next(&book);
    json_t *others = json_array();
    for (size_t i = 0; i < book.count; i++)
        if (&book.entries[i] != next)
            json_array_append_new(
                others, explain_entry(&book.entries[i], book.entries[i].reason == BOOK_MAY_RUN ? ++position : 0));
    *ret = json_pack("{s:o, s:o}", "next", describe_next(next), "others", others);
    return 0;
}

/* ---- status --------------------------------------------------------------------------------------------- */

static json_t *read_queue_record(struct tsk_workspace *ws)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(ws->state_dir, QUEUE_RECORD_NAME, JSON_SIZE_MAX, &text) < 0)
        return json_null();
    json_t *record = json_loadb(buf_str(&text), text.len, 0, NULL);
    return record ? record : json_null();
}

static void queue_put_lock(struct tsk_workspace *ws, const struct lock_target *target, const struct judgement *found,
                           json_t *status)
{
    struct now now = clock_now();
    const struct lock_record *record = &found->record;
    json_t *lock CLEANUP_JSON = report_lock(target, &now, found);
    static const char *const keys[] = {"holder", "created_at", "age_ms", "expires_at", "expires_in_ms", "fence"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_object_set(status, keys[i], json_object_get(lock, keys[i]));
    json_set_text(status, "request_id", record->request_id);
    json_set_text(status, "run_id", record->run_id);
    json_object_set_new(status, "stopping", json_boolean(queue_stop_read(ws, record->fence) != QUEUE_RUNS_ON));
}

int queue_status(struct tsk_workspace *ws, const struct book *book, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    size_t ready = 0;
    if (look_at_queue_lock(ws, &target, &found, err) < 0)
        return -1;
    for (size_t i = 0; i < book->count; i++)
        ready += book->entries[i].reason == BOOK_MAY_RUN;
    const struct book_entry *next = book_next(book);
    json_t *last = read_queue_record(ws);
    bool is_running = found.verdict == VERDICT_HELD;
    bool was_killed = !is_running && json_text_is(last, "status", "RUNNING");
    json_t *status = json_pack("{s:s, s:I, s:s?, s:o}", "status",
                               is_running   ? "running"
                               : was_killed ? "interrupted"
                                            : "idle",
                               "ready", (json_int_t)ready, "next", next ? next->request.id : NULL, "last", last);
    if (is_running)
        queue_put_lock(ws, &target, &found, status);
    lock_target_clear(&target);
    *ret = status;
    return 0;
}
