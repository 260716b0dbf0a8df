#include "run/book.h"
#include "base/fs.h"
#include "graph/journal.h"
#include "lock/report.h"
#include "run/depends.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES        "runs/.requests"
#define NOTE_FORMAT  NOTES "/%s" /* the request */
#define STAGE_FORMAT "runs/%s/stage.json"
#define SETTLED_MS   3000 /* more than the coarsest clock of a file system */

const char *const book_reason_names[] = {NULL,
#define X(name) #name,
                                         BOOK_REASONS
#undef X
};

/* ---- what has changed ------------------------------------------------------------------------------------ */

/* Of a file below the state folder. It is taken before the file is read: a change in between makes the stamp old, not the value. */
static __attribute__((format(printf, 2, 3))) struct book_stamp book_stamp_of(const struct tsk_workspace *ws,
                                                                             const char *format, ...)
{
    char path[PATH_MAX];
    struct stat st;
    va_list values;
    va_start(values, format);
    vsnprintf(path, sizeof path, format, values);
    va_end(values);
    if (fs->fstatat(ws->state_dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return (struct book_stamp){.is_settled = errno == ENOENT};
    int64_t age_ms = clock_now().wall_ms - (int64_t)st.st_ctim.tv_sec * 1000;
    return (struct book_stamp){.dev = st.st_dev,
                               .ino = st.st_ino,
                               .size = st.st_size,
                               .mtime = st.st_mtim,
                               .ctime = st.st_ctim,
                               .is_settled = S_ISREG(st.st_mode) && age_ms > SETTLED_MS};
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool stamp_holds(const struct book_stamp *then, const struct book_stamp *now)
{
    return then->is_settled && then->dev == now->dev && then->ino == now->ino && then->size == now->size &&
           is_same_time(then->mtime, now->mtime) && is_same_time(then->ctime, now->ctime);
}

/* ---- the latest run ------------------------------------------------------------------------------------- */

int book_note_run(struct tsk_workspace *ws, const char *request_id, const char *run_id, struct tsk_error *err)
{
    int folder CLEANUP_FD = fs_open_made_dir(ws->state_dir, NOTES);
    if (folder < 0 || fs_replace_file(folder, request_id, 0600, run_id, strlen(run_id)) < 0)
        return fs_error(err, "write", ws->state_dir, NOTES);
    return 0;
}

int book_forget_run(struct tsk_workspace *ws, const char *request_id, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + sizeof NOTES + 1];
    snprintf(name, sizeof name, NOTE_FORMAT, request_id);
    if (fs->unlinkat(ws->state_dir, name, 0) < 0 && errno != ENOENT)
        return fs_error(err, "remove", ws->state_dir, name);
    return 0;
}

bool book_has_begun(const json_t *stage)
{
    return *json_get_string(stage, "started_at", "");
}

/* A stage that nobody can read (the power was lost before it was on the disk): what the journal says. */
static int stage_of_journal(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    if (json_array_size(records) == 0)
        return rundir_damaged(run, "stage.json", err);
    const json_t *first = json_array_get(records, 0), *last = json_array_get(records, json_array_size(records) - 1);
    bool is_over = json_text_is(last, "e", "done");
    *ret = json_pack("{s:s, s:s, s:s, s:{}, s:[], s:[], s:[], s:s?, s:s?, s:s?, s:s, s:s, s:s?}", "run_id", run->id,
                     "session_id", run->id, "source", json_get_string(first, "flow", ""), "counts", "failures",
                     "questions", "tasks", "request_id", json_get_string(first, "request", NULL), "request_updated_at",
                     json_get_string(first, "request_updated_at", NULL), "request_sha256",
                     json_get_string(first, "request_sha256", NULL), "started_at",
                     TIME_EXACT(json_get_int(first, "t", 0)), "status",
                     is_over                  ? json_get_string(last, "status", "DONE")
                     : rundir_has_runner(run) ? "RUNNING"
                                              : "INTERRUPTED",
                     "ended_at", is_over ? TIME_EXACT(json_get_int(last, "t", 0)) : NULL);
    return *ret ? 0 : rundir_damaged(run, "stage.json", err);
}

int book_run_stage(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    json_t *stage = NULL;
    int result = rundir_look(run, &stage, err);
    bool is_damaged =
        result < 0 ? err->text && strcmp(err->text, "stage_broken") == 0 : !*json_get_string(stage, "status", "");
    if (is_damaged) {
        if (result == 0)
            json_decref(stage);
        result = stage_of_journal(run, &stage, err);
    }
    if (result == 0)
        *ret = stage;
    return result;
}

/* 0 with NULL: there is no such run. What cannot be looked at is an error, never "no run": it would be executed again. */
static int run_stage_by_id(struct tsk_workspace *ws, const char *run_id, json_t **ret, struct tsk_error *err)
{
    struct rundir run;
    *ret = NULL;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 0 : -1;
    int result = book_run_stage(&run, ret, err);
    rundir_clear(&run);
    return result;
}

/* The newest run of a request, for a note that is damaged or names a run that was removed by hand. A run that cannot be read may
 * be this request's: the search fails there, or it would report an older run as the latest (B4). */
static int search_latest(struct tsk_workspace *ws, const char *request_id, char run_id[RUN_ID_MAX],
                         struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL;
    run_id[0] = '\0';
    if (rundir_list(ws, &ids, err) < 0)
        return -1;
    json_each (ids, i, id) {
        json_t *stage CLEANUP_JSON = NULL;
        if (run_stage_by_id(ws, json_string_value(id), &stage, err) < 0)
            return -1;
        if (json_text_is(stage, "request_id", request_id)) {
            snprintf(run_id, RUN_ID_MAX, "%s", json_string_value(id));
            return 0;
        }
    }
    return 0;
}

int book_latest_run(struct tsk_workspace *ws, const char *request_id, char run_id[RUN_ID_MAX], struct tsk_error *err)
{
    char name[LOCK_ID_MAX + sizeof NOTES + 1], place[RUN_ID_MAX + 8];
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    snprintf(name, sizeof name, NOTE_FORMAT, request_id);
    run_id[0] = '\0';
    if (fs_read_file(ws->state_dir, name, RUN_ID_MAX - 1, &text) < 0 && errno != EFBIG)
        return errno == ENOENT ? 0 : fs_error(err, "read", ws->state_dir, name);
    if (!id_is_valid(buf_str(&text)) || strncmp(buf_str(&text), "RUN-", 4) != 0)
        return search_latest(ws, request_id, run_id, err);
    snprintf(run_id, RUN_ID_MAX, "%s", buf_str(&text));
    snprintf(place, sizeof place, "runs/%s", run_id);
    if (fs->fstatat(ws->state_dir, place, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return search_latest(ws, request_id, run_id, err);
    return 0;
}

static json_t *run_summary(const json_t *stage)
{
    static const char *const keys[] = {"run_id",      "status",    "started_at",         "ended_at", "duration_ms",
                                       "reason_code", "questions", "request_updated_at", NULL};
    json_t *json = json_object();
    json_copy_keys(json, stage, keys);
    return json;
}

/* ---- one request ---------------------------------------------------------------------------------------- */

static bool run_is(const struct book_entry *entry, const char *status)
{
    return json_text_is(entry->run, "status", status);
}

/* The time is the quick test. */
bool book_is_same_file(const struct request *request, const json_t *stage)
{
    char hash[SHA256_HEX_SIZE];
    if (json_text_is(stage, "request_updated_at", request->updated_at))
        return true;
    request_hash(request, hash);
    return json_text_is(stage, "request_sha256", hash);
}

/* B4. A request whose latest run or lock (`text` says which) cannot be read is broken, and is not begun. */
static void note_unknown(struct book_entry *entry, const char *text, const char *run_id, enum lang lang,
                         const struct tsk_error *err)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT, problem CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&reason, lang, err);
    text_put(&problem, lang, text, "run", run_id, "reason", buf_str(&reason), NULL);
    json_array_append_new(entry->request.problems,
                          json_pack("{s:i, s:i, s:s}", "line", 1, "column", 1, "reason", buf_str(&problem)));
    json_object_set(entry->request.json, "problems", entry->request.problems);
}

int book_latest_stage(struct tsk_workspace *ws, const char *request_id, json_t **ret, struct tsk_error *err)
{
    char run_id[RUN_ID_MAX];
    json_t *stage CLEANUP_JSON = NULL;
    *ret = NULL;
    if (book_latest_run(ws, request_id, run_id, err) < 0 || (run_id[0] && run_stage_by_id(ws, run_id, &stage, err) < 0))
        return -1;
    *ret = stage && book_has_begun(stage) ? json_incref(stage) : NULL;
    return 0;
}

static void entry_look_at_run(struct book *book, struct book_entry *entry, enum lang lang)
{
    char run_id[RUN_ID_MAX];
    struct tsk_error err;
    json_t *stage CLEANUP_JSON = NULL;
    entry->note = book_stamp_of(book->ws, NOTE_FORMAT, entry->request.id);
    int result = book_latest_run(book->ws, entry->request.id, run_id, &err);
    if (result == 0 && run_id[0]) {
        entry->stage = book_stamp_of(book->ws, STAGE_FORMAT, run_id);
        result = run_stage_by_id(book->ws, run_id, &stage, &err);
    }
    if (result < 0) {
        note_unknown(entry, run_id[0] ? "req_run_unreadable" : "req_latest_unknown", run_id, lang, &err);
        return;
    }
    entry->run = stage && book_has_begun(stage) ? run_summary(stage) : NULL;
    entry->is_done = run_is(entry, "DONE") &&
                     (entry->request.status == REQUEST_ARCHIVED || book_is_same_file(&entry->request, stage));
}

/* Whether the run is still what was seen. One that is not over may end without a change of its stage: when it is killed. */
static bool is_run_known(struct book *book, const struct book_entry *old)
{
    struct book_stamp note = book_stamp_of(book->ws, NOTE_FORMAT, old->request.id);
    if (!stamp_holds(&old->note, &note))
        return false;
    if (!old->run)
        return note.ino == 0;
    bool is_over = run_is(old, "DONE") || run_is(old, "FAILED") || run_is(old, "CANCELLED");
    struct book_stamp stage = book_stamp_of(book->ws, STAGE_FORMAT, json_get_string(old->run, "run_id", ""));
    return is_over && stamp_holds(&old->stage, &stage);
}

/* A look for a lock that is not there must not leave its guard behind. */
static bool has_lock_file(struct tsk_workspace *ws, const struct lock_target *target)
{
    return fs_may_exist(ws->locks_dir, target->file);
}

static void entry_look_at_lock(struct book *book, struct book_entry *entry, enum lang lang)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error err;
    struct now now = clock_now();
    if (!id_is_valid(entry->request.id))
        return;
    if (lock_target_init(&target, book->ws, lock_kind_get(TSK_LOCK_REQUEST), entry->request.id, NULL, &err) < 0) {
        note_unknown(entry, "req_lock_unreadable", "", lang, &err);
        return;
    }
    bool has_lock = has_lock_file(book->ws, &target);
    if (has_lock && lock_inspect(&target, &found, &err) < 0) {
        note_unknown(entry, "req_lock_unreadable", "", lang, &err);
    } else if (has_lock && found.verdict == VERDICT_HELD) {
        bool is_leftover =
            run_is(entry, "INTERRUPTED") && strcmp(found.record.run_id, json_get_string(entry->run, "run_id", "")) == 0;
        if (!is_leftover) /* B3 */
            entry->lock = report_lock(&target, &now, &found);
    }
    lock_target_clear(&target);
}

const char *book_status(const struct book_entry *entry)
{
    bool waits = entry->reason == BOOK_DEPENDS_NOT_FOUND || entry->reason == BOOK_DEPENDS_CYCLE ||
                 entry->reason == BOOK_DEPENDS_NOT_DONE;
    if (entry->lock || run_is(entry, "RUNNING"))
        return "running";
    if (request_is_broken(&entry->request))
        return "broken";
    if (entry->request.status != REQUEST_READY)
        return request_status_names[entry->request.status];
    if (run_is(entry, "NEEDS_INPUT"))
        return "needs_input";
    if (run_is(entry, "FAILED"))
        return "failed";
    return entry->is_done ? "done" : waits ? "blocked" : "ready";
}

json_t *book_json(const struct book_entry *entry)
{
    json_t *json = json_copy(entry->request.json);
    json_object_set_new(json, "file_status", json_string(request_status_names[entry->request.status]));
    json_object_set_new(json, "status", json_string(book_status(entry)));
    json_object_set_new(json, "latest_run", entry->run ? json_incref(entry->run) : json_null());
    json_object_set_new(json, "lock", entry->lock ? json_incref(entry->lock) : json_null());
    if (entry->reason != BOOK_MAY_RUN)
        json_object_set_new(json, "reason", json_string(book_reason_names[entry->reason]));
    if (entry->detail.len)
        json_object_set_new(json, "detail", json_string(buf_str(&entry->detail)));
    return json;
}

/* ---- the order ------------------------------------------------------------------------------------------ */

static struct book_place request_place(const struct request *request)
{
    int64_t time_ms = time_of_id(request->id);
    bool has_time = time_ms >= 0;
    return (struct book_place){request->priority, has_time ? time_ms / 1000 : request->mtime_ns / 1000000000,
                               has_time ? 0 : request->mtime_ns};
}

static int numbers_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const void *left, const void *right)
{
    const struct book_entry *a = left, *b = right;
    int order = numbers_compare(a->place.priority, b->place.priority);
    order = order ? order : numbers_compare(a->place.age_s, b->place.age_s);
    order = order ? order : numbers_compare(a->place.mtime_ns, b->place.mtime_ns);
    return order ? order : strcmp(a->request.id, b->request.id);
}

void book_put_place(const struct book_entry *entry, struct buf *b)
{
    buf_printf(b, "%d.%011" PRId64 ".%020" PRId64 ".%s", entry->place.priority, entry->place.age_s,
               entry->place.mtime_ns, entry->request.id);
}

/* ---- dependencies --------------------------------------------------------------------------------------- */

/* The first dependency that is missing, or not done; NULL: none. */
static const char *open_dependency(const struct book *book, const struct book_entry *entry, bool wants_missing)
{
    json_each (json_object_get(entry->request.json, "depends_on"), i, id) {
        const struct book_entry *other = book_find(book, json_string_value(id));
        if (wants_missing ? !other : other && !other->is_done)
            return json_string_value(id);
    }
    return NULL;
}

static enum book_reason judge_dependencies(const struct book *book, struct book_entry *entry, struct depends *depends)
{
    const char *missing = open_dependency(book, entry, true);
    if (missing) {
        buf_puts(&entry->detail, missing);
        return BOOK_DEPENDS_NOT_FOUND;
    }
    const char *waits_for = open_dependency(book, entry, false);
    if (!waits_for)
        return BOOK_MAY_RUN;
    if (depends_is_cyclic(depends, (size_t)(entry - book->entries))) {
        depends_put_path(depends, (size_t)(entry - book->entries), &entry->detail);
        return BOOK_DEPENDS_CYCLE;
    }
    buf_puts(&entry->detail, waits_for);
    return BOOK_DEPENDS_NOT_DONE;
}

/* The run that blocks it; of a lock that is held without a run, its holder. */
static void put_holder(struct buf *detail, const json_t *holder, const char *run)
{
    const char *by = json_get_string(holder, "run_id", run);
    int64_t pid = json_get_int(holder, "pid", 0);
    if (by)
        buf_puts(detail, by);
    else if (pid > 0)
        buf_printf(detail, "pid %lld", (long long)pid);
}

static enum book_reason entry_judge(const struct book *book, struct book_entry *entry, bool retries,
                                    struct depends *depends)
{
    const char *run = json_get_string(entry->run, "run_id", "");
    if (entry->lock || run_is(entry, "RUNNING")) {
        put_holder(&entry->detail, json_object_get(entry->lock, "holder"), entry->lock ? NULL : run);
        return BOOK_REQUEST_LOCKED;
    }
    if (request_is_broken(&entry->request) || entry->request.status != REQUEST_READY) {
        buf_puts(&entry->detail, book_status(entry));
        return BOOK_NOT_READY;
    }
    if (run_is(entry, "NEEDS_INPUT") || (run_is(entry, "FAILED") && !retries)) {
        buf_puts(&entry->detail, run);
        return run_is(entry, "FAILED") ? BOOK_LATEST_RUN_FAILED : BOOK_LATEST_RUN_NEEDS_INPUT;
    }
    if (entry->is_done) {
        buf_puts(&entry->detail, run);
        return BOOK_ALREADY_DONE;
    }
    return judge_dependencies(book, entry, depends);
}

/* ---- the book ------------------------------------------------------------------------------------------- */

void book_clear(struct book *book)
{
    for (size_t i = 0; i < book->count; i++) {
        request_clear(&book->entries[i].request);
        json_decref(book->entries[i].run);
        json_decref(book->entries[i].lock);
        buf_clear(&book->entries[i].detail);
    }
    free(book->entries);
    free(book->by_id);
    book->entries = NULL;
    book->by_id = NULL;
    book->count = 0;
}

static int compare_ids(const void *left, const void *right)
{
    const struct book_entry *const *a = left, *const *b = right;
    return strcmp((*a)->request.id, (*b)->request.id);
}

static int compare_with_id(const void *id, const void *right)
{
    const struct book_entry *const *b = right;
    return strcmp(id, (*b)->request.id);
}

struct book_entry *book_find(const struct book *book, const char *id)
{
    struct book_entry **found =
        book->count ? bsearch(id, book->by_id, book->count, sizeof *book->by_id, compare_with_id) : NULL;
    return found ? *found : NULL;
}

struct book_entry *book_next(const struct book *book)
{
    for (size_t i = 0; i < book->count; i++)
        if (book->entries[i].reason == BOOK_MAY_RUN && !book->entries[i].was_run)
            return &book->entries[i];
    return NULL;
}

/* The queue's order, and for each why it may not run. */
static void book_settle(struct book *book, bool retries)
{
    struct depends depends;
    for (size_t i = 0; i < book->count; i++)
        book->entries[i].place = request_place(&book->entries[i].request);
    if (book->count)
        qsort(book->entries, book->count, sizeof *book->entries, compare_places);
    for (size_t i = 0; i < book->count; i++)
        book->by_id[i] = &book->entries[i];
    if (book->count)
        qsort(book->by_id, book->count, sizeof *book->by_id, compare_ids);
    depends_init(&depends, book);
    for (size_t i = 0; i < book->count; i++)
        book->entries[i].reason = entry_judge(book, &book->entries[i], retries, &depends);
    depends_clear(&depends);
}

/* From the old book what has not changed. A file that was removed a moment ago is no entry; any other failure is one: a request
 * that is left out would not run, and those that depend on it would be reported as blocked. */
static int add_entry(struct book *book, struct book_entry *old, const char *id, enum lang lang, struct tsk_error *err)
{
    struct book_entry *entry = &book->entries[book->count];
    *entry = (struct book_entry){.detail = BUF_INIT,
                                 .file = book_stamp_of(book->ws, REQUEST_FOLDER "/%s" REQUEST_SUFFIX, id)};
    bool is_known = old && !request_is_broken(&old->request) && stamp_holds(&old->file, &entry->file);
    if (!is_known && request_read(book->ws, id, lang, &entry->request, err) < 0)
        return err->code == TSK_REQUEST_NOT_FOUND ? 0 : -1;
    book->count++;
    if (is_known && is_run_known(book, old)) {
        entry->run = json_incref(old->run);
        entry->is_done = old->is_done;
        entry->note = old->note;
        entry->stage = old->stage;
    }
    if (is_known) {
        entry->request = old->request;
        old->request.json = old->request.problems = NULL; /* the id stays: others are looked for beside it */
        old->request.text = (struct buf){0};
    }
    if (!entry->note.is_settled)
        entry_look_at_run(book, entry, lang);
    entry_look_at_lock(book, entry, lang);
    return 0;
}

int book_update(struct tsk_workspace *ws, bool retries, enum lang lang, struct book *book, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *strays CLEANUP_JSON = NULL;
    int result = 0;
    struct book fresh = {.ws = ws};
    if (workspace_lock_dirs(ws, err) < 0 || request_list(ws, &ids, &strays, err) < 0)
        return -1;
    size_t most = json_array_size(ids) + json_array_size(strays);
    fresh.entries = calloc(most + 1, sizeof *fresh.entries);
    fresh.by_id = calloc(most + 1, sizeof *fresh.by_id);
    BUG(!fresh.entries || !fresh.by_id);
    for (size_t i = 0; result == 0 && i < json_array_size(ids); i++) {
        const char *name = json_string_value(json_array_get(ids, i));
        result = add_entry(&fresh, book_find(book, name), name, lang, err);
    }
    json_each (strays, i, id) {
        fresh.entries[fresh.count] = (struct book_entry){.detail = BUF_INIT};
        request_of_stray(json_string_value(id), lang, &fresh.entries[fresh.count++].request);
    }
    book_settle(&fresh, retries);
    book_clear(book); /* also after a failure: a part of it is in the fresh one */
    if (result == 0)
        *book = fresh;
    else
        book_clear(&fresh);
    return result;
}

int book_open(struct tsk_workspace *ws, bool retries, enum lang lang, struct book *ret, struct tsk_error *err)
{
    struct book book = {.ws = ws};
    if (book_update(ws, retries, lang, &book, err) < 0)
        return -1;
    *ret = book;
    return 0;
}
