#include "run/book.h"
#include "base/fs.h"
#include "lock/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES     "runs/.requests"
#define DEPTH_MAX 1000

const char *const book_reason_names[] = {NULL,
#define X(name) #name,
                                         BOOK_REASONS
#undef X
};

/* ---- the latest run ------------------------------------------------------------------------------------- */

int book_note_run(struct tsk_workspace *ws, const char *request_id, const char *run_id, struct tsk_error *err)
{
    if (fs_make_dirs(ws->state_dir, NOTES) < 0)
        return error_errno(err, "make", NOTES);
    int folder CLEANUP_FD = fs->openat(ws->state_dir, NOTES, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder < 0 || fs_replace_file(folder, request_id, 0600, run_id, strlen(run_id)) < 0)
        return error_errno(err, "write", NOTES);
    return 0;
}

bool book_has_begun(const json_t *stage)
{
    return *json_get_string(stage, "started_at", "");
}

static json_t *look_at(struct tsk_workspace *ws, const char *run_id)
{
    struct rundir run;
    struct tsk_error ignored;
    json_t *stage = NULL;
    if (rundir_open(ws, run_id, &run, &ignored) < 0)
        return NULL;
    if (rundir_look(&run, &stage, &ignored) < 0)
        stage = NULL;
    rundir_clear(&run);
    return stage;
}

/* The noted run was removed by hand: the newest that is left. */
static void search_latest(struct tsk_workspace *ws, const char *request_id, char run_id[RUN_ID_MAX])
{
    struct tsk_error ignored;
    json_t *ids CLEANUP_JSON = NULL, *id;
    size_t i;
    run_id[0] = '\0';
    if (rundir_list(ws, &ids, &ignored) < 0)
        return;
    json_array_foreach (ids, i, id) {
        json_t *stage CLEANUP_JSON = look_at(ws, json_string_value(id));
        if (strcmp(json_get_string(stage, "request_id", ""), request_id) == 0) {
            snprintf(run_id, RUN_ID_MAX, "%s", json_string_value(id));
            return;
        }
    }
}

void book_latest_run(struct tsk_workspace *ws, const char *request_id, char run_id[RUN_ID_MAX])
{
    char name[LOCK_ID_MAX + sizeof NOTES + 1], place[RUN_ID_MAX + 8];
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    snprintf(name, sizeof name, NOTES "/%s", request_id);
    run_id[0] = '\0';
    if (fs_read_file(ws->state_dir, name, RUN_ID_MAX - 1, &text) < 0 || !id_is_valid(buf_str(&text)))
        return;
    snprintf(run_id, RUN_ID_MAX, "%s", buf_str(&text));
    snprintf(place, sizeof place, "runs/%s", run_id);
    if (fs->fstatat(ws->state_dir, place, &st, AT_SYMLINK_NOFOLLOW) < 0)
        search_latest(ws, request_id, run_id);
}

static json_t *run_summary(const json_t *stage)
{
    static const char *const keys[] = {"run_id",      "status",    "started_at",        "ended_at",
                                       "reason_code", "questions", "request_updated_at"};
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(stage, keys[i]))
            json_object_set(json, keys[i], json_object_get(stage, keys[i]));
    return json;
}

/* ---- one request ---------------------------------------------------------------------------------------- */

static bool run_is(const struct book_entry *entry, const char *status)
{
    return strcmp(json_get_string(entry->run, "status", ""), status) == 0;
}

static void look_at_run(struct book *book, struct book_entry *entry)
{
    char run_id[RUN_ID_MAX];
    book_latest_run(book->ws, entry->request.id, run_id);
    json_t *stage CLEANUP_JSON = run_id[0] ? look_at(book->ws, run_id) : NULL;
    entry->run = stage && book_has_begun(stage) ? run_summary(stage) : NULL;
    bool is_same_file = strcmp(json_get_string(stage, "request_updated_at", ""), entry->request.updated_at) == 0;
    entry->is_done = run_is(entry, "DONE") && (is_same_file || entry->request.status == REQUEST_ARCHIVED);
}

/* A look for a lock that is not there must not leave its guard behind. */
static bool has_lock_file(struct tsk_workspace *ws, const struct lock_target *target)
{
    struct stat st;
    return fs->fstatat(ws->locks_dir, target->file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void look_at_lock(struct book *book, struct book_entry *entry)
{
    struct lock_target target;
    struct judgement found;
    struct tsk_error ignored;
    struct now now = clock_now();
    if (!id_is_valid(entry->request.id) ||
        lock_target_init(&target, book->ws, lock_kind_get(TSK_LOCK_REQUEST), entry->request.id, NULL, &ignored) < 0)
        return;
    if (has_lock_file(book->ws, &target) && lock_inspect(&target, &found, &ignored) == 0 &&
        found.verdict == VERDICT_HELD) {
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

/* RQ-20260207T223000-… : the time in an id, in seconds; -1: it has none. */
static int64_t time_in_id(const char *id)
{
    char text[32];
    int64_t ms;
    const char *digits = id + strlen(REQUEST_PREFIX);
    if (strlen(id) < strlen(REQUEST_PREFIX) + 15 || strspn(digits, "0123456789") != 8 || digits[8] != 'T' ||
        strspn(digits + 9, "0123456789") != 6)
        return -1;
    snprintf(text, sizeof text, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", digits, digits + 4, digits + 6, digits + 9,
             digits + 11, digits + 13);
    return time_parse(text, &ms) < 0 ? -1 : ms / 1000;
}

static int compare(const void *left, const void *right)
{
    const struct request *a = &((const struct book_entry *)left)->request,
                         *b = &((const struct book_entry *)right)->request;
    int64_t time_a = time_in_id(a->id), time_b = time_in_id(b->id);
    int64_t age_a = time_a < 0 ? a->mtime_ns / 1000000000 : time_a,
            age_b = time_b < 0 ? b->mtime_ns / 1000000000 : time_b;
    bool has_ids = time_a >= 0 && time_b >= 0; /* then they sort by themselves */
    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    if (age_a != age_b)
        return age_a < age_b ? -1 : 1;
    if (!has_ids && a->mtime_ns != b->mtime_ns)
        return a->mtime_ns < b->mtime_ns ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* ---- dependencies --------------------------------------------------------------------------------------- */

/* Whether `goal` is reached from `entry` through what is not done; then the way is in `path`. `seen` marks dead ends. */
static bool reaches(const struct book *book, const struct book_entry *entry, const struct book_entry *goal,
                    uint8_t *seen, int depth, struct buf *path)
{
    size_t i, len = path->len;
    json_t *id;
    json_array_foreach (json_object_get(entry->request.json, "depends_on"), i, id) {
        const struct book_entry *other = book_find(book, json_string_value(id));
        if (!other || other->is_done || depth > DEPTH_MAX)
            continue;
        buf_printf(path, " → %s", other->request.id);
        if (other == goal)
            return true;
        if (!seen[other - book->entries]) {
            seen[other - book->entries] = 1;
            if (reaches(book, other, goal, seen, depth + 1, path))
                return true;
        }
        path->len = len;
        path->data[len] = '\0';
    }
    return false;
}

static bool is_in_cycle(const struct book *book, struct book_entry *entry)
{
    uint8_t *seen = calloc(book->count + 1, 1);
    BUG(!seen);
    buf_reset(&entry->detail);
    buf_puts(&entry->detail, entry->request.id);
    bool is_in = reaches(book, entry, entry, seen, 0, &entry->detail);
    free(seen);
    if (!is_in)
        buf_reset(&entry->detail);
    return is_in;
}

/* The first dependency that is missing, or not done; NULL: none. */
static const char *open_dependency(const struct book *book, const struct book_entry *entry, bool wants_missing)
{
    size_t i;
    json_t *id;
    json_array_foreach (json_object_get(entry->request.json, "depends_on"), i, id) {
        const struct book_entry *other = book_find(book, json_string_value(id));
        if (wants_missing ? !other : other && !other->is_done)
            return json_string_value(id);
    }
    return NULL;
}

static enum book_reason judge_dependencies(const struct book *book, struct book_entry *entry)
{
    const char *missing = open_dependency(book, entry, true);
    if (missing) {
        buf_puts(&entry->detail, missing);
        return BOOK_DEPENDS_NOT_FOUND;
    }
    const char *waits_for = open_dependency(book, entry, false);
    if (!waits_for)
        return BOOK_MAY_RUN;
    if (is_in_cycle(book, entry))
        return BOOK_DEPENDS_CYCLE;
    buf_puts(&entry->detail, waits_for);
    return BOOK_DEPENDS_NOT_DONE;
}

static enum book_reason judge(const struct book *book, struct book_entry *entry, bool retries)
{
    const char *run = json_get_string(entry->run, "run_id", "");
    if (entry->lock || run_is(entry, "RUNNING")) {
        const char *by = json_get_string(json_object_get(entry->lock, "holder"), "run_id", run);
        buf_puts(&entry->detail, by);
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
    return judge_dependencies(book, entry);
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
    book->entries = NULL;
    book->count = 0;
}

struct book_entry *book_find(const struct book *book, const char *id)
{
    for (size_t i = 0; i < book->count; i++)
        if (strcmp(book->entries[i].request.id, id) == 0)
            return &book->entries[i];
    return NULL;
}

struct book_entry *book_next(const struct book *book)
{
    for (size_t i = 0; i < book->count; i++)
        if (book->entries[i].reason == BOOK_MAY_RUN && !book->entries[i].was_run)
            return &book->entries[i];
    return NULL;
}

int book_open(struct tsk_workspace *ws, bool retries, enum lang lang, struct book *ret, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *id;
    struct tsk_error gone;
    size_t i;
    struct book book CLEANUP(book_clear) = {.ws = ws};
    if (workspace_lock_dirs(ws, err) < 0 || request_list(ws, &ids, err) < 0)
        return -1;
    book.entries = calloc(json_array_size(ids) + 1, sizeof *book.entries);
    BUG(!book.entries);
    json_array_foreach (ids, i, id) {
        struct book_entry *entry = &book.entries[book.count];
        *entry = (struct book_entry){.detail = BUF_INIT};
        if (request_read(ws, json_string_value(id), lang, &entry->request, &gone) < 0)
            continue; /* removed a moment ago */
        book.count++;
        look_at_run(&book, entry);
        look_at_lock(&book, entry);
    }
    qsort(book.entries, book.count, sizeof *book.entries, compare);
    for (i = 0; i < book.count; i++)
        book.entries[i].reason = judge(&book, &book.entries[i], retries);
    *ret = book;
    book = (struct book){0};
    return 0;
}
