#include "graph/rundir.h"
#include "base/fs.h"
#include "base/ident.h"
#include "graph/journal.h"
#include "graph/leftover.h"
#include "graph/plan.h"
#include "graph/reply.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DYING_CHILD_MS 1000
#define STAGE_MAX      (64u << 20)
#define STAGE_VALUES   (16u << 20) /* a larger one does without the channel */
#define BEING_MADE_MS  10000       /* so long a directory may have nothing in it */

int rundir_open_life(struct rundir *run, int flags, int *ret)
{
    *ret = fs->openat(run->dir, "life", O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    return *ret < 0 ? -1 : 0;
}

int rundir_open_dir(struct tsk_workspace *ws, const char *name, const char *id, struct rundir *ret,
                    struct tsk_error *err)
{
    *ret = (struct rundir){.dir = -1, .life_fd = -1, .runner_fd = -1};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    if (snprintf(ret->path, sizeof ret->path, "%s/runs/%s", ws->state_path, id) >= (int)sizeof ret->path) {
        errno = ENAMETOOLONG;
        return error_errno(err, "open", id);
    }
    ret->dir = fs->openat(ws->state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    return ret->dir < 0 ? error_errno(err, "open", ret->path) : 0;
}

/* The one run whose id begins with `start`. */
static int find_id(struct tsk_workspace *ws, const char *start, char id[RUN_ID_MAX], struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *value;
    size_t i, found = 0;
    if (rundir_list(ws, &ids, err) < 0)
        return -1;
    json_array_foreach (ids, i, value)
        if (strncmp(json_string_value(value), start, strlen(start)) == 0) {
            snprintf(id, RUN_ID_MAX, "%s", json_string_value(value));
            found++;
            if (strcmp(id, start) == 0)
                return 0;
        }
    if (found == 1)
        return 0;
    error_set(err, TSK_RUN_NOT_FOUND, found ? "run_ambiguous" : "run_unknown", "run", start, "run_id", start, NULL);
    error_add_next(err, "tasuki runs list");
    return -1;
}

static int open_run(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char name[RUN_ID_MAX + 16];
    snprintf(name, sizeof name, "runs/%s", id);
    return rundir_open_dir(ws, name, id, ret, err);
}

int rundir_open(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char whole[RUN_ID_MAX];
    if (!id_is_valid(id) || strlen(id) >= RUN_ID_MAX)
        return error_set(err, TSK_RUN_NOT_FOUND, "run_unknown", "run", id, NULL);
    if (strncmp(id, "RUN-", 4) == 0 && open_run(ws, id, ret, err) == 0)
        return 0; /* a whole id: without reading the list */
    return find_id(ws, id, whole, err) < 0 ? -1 : open_run(ws, whole, ret, err);
}

static int in_progress(const struct rundir *run, struct tsk_error *err)
{
    error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", run->id, NULL);
    error_add_next(err, "tasuki runs show %s", run->id);
    error_add_next(err, "tasuki wait run %s", run->id);
    return -1;
}

bool rundir_runner(const json_t *stage, struct proc_id *ret)
{
    const json_t *who = json_object_get(stage, "runner");
    *ret = (struct proc_id){.pid = (pid_t)json_get_int(who, "pid", 0),
                            .start_ticks = (uint64_t)json_get_int(who, "start_ticks", 0),
                            .pid_ns = pid_namespace()};
    snprintf(ret->boot_id, sizeof ret->boot_id, "%s", json_get_string(who, "boot_id", ""));
    return ret->pid > 0;
}

static bool has_living_runner(const struct rundir *run)
{
    struct tsk_error err;
    struct proc_id id;
    json_t *stage CLEANUP_JSON = NULL;
    return rundir_read_stage(run, &stage, &err) == 0 && rundir_runner(stage, &id) &&
           proc_id_liveness(&id) == LIVE_ALIVE;
}

/* A runner that was killed while it started a task leaves a child that has not come to its exec: it has a copy of the runner's
 * descriptor, sees that its parent is gone, and ends. So a byte that is held is looked at again, unless its runner lives. */
static int take_runner_byte(struct rundir *run, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + DYING_CHILD_MS;
    while (fs_lock_try(run->runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) < 0) {
        if (errno != EAGAIN)
            return error_errno(err, "lock", run->path);
        if (has_living_runner(run) || clock_now().boot_ms > until)
            return in_progress(run, err);
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000000}, NULL);
    }
    return 0;
}

int rundir_take(struct rundir *run, struct tsk_error *err)
{
    if (rundir_open_life(run, O_CREAT, &run->runner_fd) < 0)
        return error_errno(err, "open", run->path);
    if (take_runner_byte(run, err) < 0)
        return -1;
    if (rundir_mark_open(run, true) < 0)
        return error_errno(err, "mark", run->path);
    return rundir_open_life(run, 0, &run->life_fd) < 0 ? error_errno(err, "open", run->path) : 0;
}

int rundir_take_life(struct rundir *run, bool was_interrupted, struct tsk_error *err)
{
    if (!was_interrupted && fs_lock_try(run->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) == 0)
        return 0;
    if (leftovers_end_run(run, err) < 0)
        return -1;
    if (fs_lock_try(run->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) < 0)
        return error_errno(err, "lock", run->path);
    return 0;
}

bool rundir_was_interrupted(const json_t *records)
{
    bool was = true;
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record) {
        const char *event = json_get_string(record, "e", "");
        if (strcmp(event, "done") == 0)
            was = false;
        else if (strcmp(event, "start") == 0)
            was = true;
    }
    return was;
}

const char *rundir_end_of(const json_t *records)
{
    size_t count = json_array_size(records);
    const json_t *last = count ? json_array_get(records, count - 1) : NULL;
    return strcmp(json_get_string(last, "e", ""), "done") == 0 ? json_get_string(last, "status", "") : "";
}

bool rundir_is_over(const char *status)
{
    return strcmp(status, "DONE") == 0 || strcmp(status, "FAILED") == 0 || strcmp(status, "CANCELLED") == 0;
}

void rundir_clear(struct rundir *run)
{
    /* Unlocked rather than only closed: a process that a task left behind on purpose keeps a descriptor, but no lock. */
    if (run->life_fd >= 0)
        fs_lock_try(run->life_fd, F_UNLCK, RUN_BYTE_LIFE, 1);
    fs_close(&run->life_fd);
    fs_close(&run->runner_fd);
    fs_close(&run->dir);
    run->life_fd = run->runner_fd = run->dir = -1;
}

bool rundir_has_runner(const struct rundir *run)
{
    int fd CLEANUP_FD = fs->openat(run->dir, "life", O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    return fd >= 0 && fs_lock_probe(fd, F_RDLCK, RUN_BYTE_RUNNER, 1, NULL) == 1 /* D2 */;
}

/* ---- the stage ------------------------------------------------------------------------------------------ */

int rundir_damaged(const struct rundir *run, const char *file, struct tsk_error *err)
{
    error_set(err, TSK_ENVIRONMENT, "stage_broken", "path", run->path, "file", file, "run_id", run->id, NULL);
    error_add_next(err, "tasuki doctor");
    return -1;
}

int rundir_read_stage(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = STAGE_MAX};
    if (fs_read_file(run->dir, "stage.json", STAGE_MAX - 1, &text) < 0)
        return fs_error(err, "read", run->dir, "stage.json");
    *ret = json_loadb(buf_str(&text), text.len, 0, NULL);
    return *ret ? 0 : rundir_damaged(run, "stage.json", err);
}

static bool publish_stage(const struct rundir *run, const struct buf *text)
{
    char private_name[FS_PRIVATE_NAME_MAX];
    struct stat st;
    if (fs->fstatat(run->dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    int fd CLEANUP_FD = fs_temp_open(run->dir, 0600, private_name);
    return fd >= 0 && fs_write_all(fd, text->data, text->len) == 0 &&
           fs_publish(fd, private_name, run->dir, "stage.json") == 0;
}

static void put_stage(struct buf *text, const json_t *stage)
{
    json_write(text, stage, true);
    buf_puts(text, "\n");
}

/* The values are as large as the tasks make them, and the stage is written every second. */
static void put_stage_without_values(struct buf *text, const json_t *stage)
{
    json_t *smaller CLEANUP_JSON = json_copy((json_t *)stage);
    json_object_set_new(smaller, "channel", json_object());
    json_object_set_new(smaller, "channel_left_out", json_true());
    buf_clear(text);
    *text = (struct buf){.max = STAGE_MAX};
    put_stage(text, smaller);
}

int rundir_write_stage(const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = STAGE_VALUES};
    put_stage(&text, stage);
    if (text.failed)
        put_stage_without_values(&text, stage);
    if (text.failed)
        errno = EFBIG;
    /* The first one needs nothing replaced; most short runs write only that. */
    if (text.failed ||
        (!publish_stage(run, &text) && fs_replace_file(run->dir, "stage.json", 0600, text.data, text.len) < 0))
        return fs_error(err, "write", run->dir, "stage.json");
    if (rundir_is_over(json_get_string(stage, "status", "")))
        rundir_mark_open(run, false);
    return 0;
}

/* A run without a journal has no records; one whose journal cannot be read is an error. */
static int read_records(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct stat st;
    if (fs->fstatat(run->dir, "journal", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        *ret = json_array();
        return 0;
    }
    return journal_read(run->dir, ret, err);
}

/* How far a run came that could not say so itself any more: the tasks whose last record is an end. */
static void count_from_journal(json_t *stage, const json_t *records)
{
    json_t *ends CLEANUP_JSON = json_object(), *counts = json_object_get(stage, "counts"), *record;
    json_int_t ok = 0, failed = 0, added = 0;
    char node[24];
    const char *key;
    size_t i;
    json_array_foreach (records, i, record) {
        const char *event = json_get_string(record, "e", ""), *outcome = json_get_string(record, "o", "");
        int64_t number = json_get_int(record, "n", -1);
        bool is_start = strcmp(event, "start") == 0, is_end = strcmp(event, "end") == 0;
        snprintf(node, sizeof node, "%lld", (long long)number);
        if (is_start || (is_end && (strcmp(outcome, "retry") == 0 || strcmp(outcome, "stopped") == 0)))
            json_object_set_new(ends, node, json_null());
        else if (is_end)
            json_object_set_new(ends, node, json_string(outcome));
    }
    json_int_t done = 0;
    json_object_foreach (ends, key, record) {
        done += json_is_string(record);
        ok += json_is_string(record) && strcmp(json_string_value(record), "ok") == 0;
        failed += json_is_string(record) && strcmp(json_string_value(record), "failed") == 0;
        added += (strtoul(key, NULL, 10) & PLAN_DYNAMIC) != 0;
    }
    int64_t tasks = json_get_int(json_array_get(records, 0), "tasks", json_get_int(counts, "total", 0) - added);
    json_t *counted CLEANUP_JSON = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)tasks + added,
                                             "done", done, "ok", ok, "skipped", done - ok - failed, "failed", failed,
                                             "stopped", (json_int_t)0, "not_reached", (json_int_t)tasks + added - done);
    json_object_update(counts, counted);
}

/* A run that has not written its stage yet, or died before it could: what the journal's first record says. */
static json_t *stage_from_journal(const struct rundir *run, const json_t *records)
{
    char began[TIME_TEXT_MAX] = "";
    const json_t *first = json_array_get(records, 0);
    if (first)
        time_format_utc(json_get_int(first, "t", 0), began);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s*, s:s*, s:s, s:s, s:{}, s:[], s:[], s:[]}", "run_id", run->id, "source",
                     json_get_string(first, "flow", ""), "session_id", run->id, "request_id",
                     json_get_string(first, "request", NULL), "request_updated_at",
                     json_get_string(first, "request_updated_at", NULL), "ulTaskId",
                     json_get_string(first, "workflow", NULL), "status", "RUNNING", "started_at", began, "counts",
                     "failures", "questions", "tasks");
}

/* The states of the tasks that a stage lists, as the journal has them. */
static void tasks_from_journal(json_t *tasks, const json_t *records)
{
    json_t *record, *task, *found CLEANUP_JSON = json_object();
    size_t i;
    char key[512];
    json_array_foreach (tasks, i, task) {
        snprintf(key, sizeof key, "%s/%s", json_get_string(task, "session_id", ""), json_get_string(task, "task", ""));
        json_object_set(found, key, task);
    }
    json_array_foreach ((json_t *)records, i, record) {
        const char *outcome = json_get_string(record, "o", "retry");
        snprintf(key, sizeof key, "%s/%s", json_get_string(record, "s", ""), json_get_string(record, "k", ""));
        task = strcmp(json_get_string(record, "e", ""), "end") == 0 ? json_object_get(found, key) : NULL;
        if (task && strcmp(outcome, "retry") != 0)
            json_object_set_new(task, "state", json_string(strcmp(outcome, "passed") == 0 ? "skipped" : outcome));
    }
}

/* What the stage says of them is older than the end. */
static void values_from_journal(json_t *stage, const json_t *end)
{
    json_t *values = json_object_get(end, "v");
    json_object_set_new(stage, "channel", values ? json_incref(values) : json_object());
    json_object_del(stage, "channel_left_out");
    if (!values)
        json_object_set_new(stage, "channel_left_out", json_true());
}

/* D5. The run has ended and its stage does not say so: its runner was killed in between, or the disk was full. */
static bool end_from_journal(const struct rundir *run, json_t *stage, const json_t *records)
{
    char ended[TIME_TEXT_MAX];
    const char *status = rundir_end_of(records);
    if (!*status)
        return false;
    const json_t *end = json_array_get(records, json_array_size(records) - 1);
    time_format_utc(json_get_int(end, "t", 0), ended);
    json_object_set_new(stage, "status", json_string(status));
    json_object_set_new(stage, "ended_at", json_string(ended));
    json_object_set_new(stage, "runner", json_null());
    values_from_journal(stage, end);
    tasks_from_journal(json_object_get(stage, "tasks"), records);
    json_object_set_new(stage, "questions",
                        strcmp(status, "NEEDS_INPUT") == 0 ? reply_questions(run, records) : json_array());
    return true;
}

/* 1: it says that nobody is to be looked for; 0: it says RUNNING, or there is none (*ret is NULL). */
static int look_at_stage(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct stat st;
    *ret = NULL;
    if (fs->fstatat(run->dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    if (rundir_read_stage(run, ret, err) < 0)
        return -1;
    return strcmp(json_get_string(*ret, "status", ""), "RUNNING") != 0;
}

/* Somebody makes it this moment: the directory is there before its lock. */
static bool is_being_made(const struct rundir *run, const json_t *records)
{
    struct stat st;
    return json_array_size(records) == 0 && fs->fstat(run->dir, &st) == 0 &&
           clock_now().wall_ms - (int64_t)st.st_mtim.tv_sec * 1000 < BEING_MADE_MS;
}

/* The stage is written behind the journal, so one that is newer needs no look. */
static bool has_newer_journal(const struct rundir *run)
{
    struct stat journal, stage;
    if (fs->fstatat(run->dir, "journal", &journal, AT_SYMLINK_NOFOLLOW) < 0 ||
        fs->fstatat(run->dir, "stage.json", &stage, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    int64_t seconds = (int64_t)journal.st_mtim.tv_sec - stage.st_mtim.tv_sec;
    return seconds ? seconds > 0 : journal.st_mtim.tv_nsec >= stage.st_mtim.tv_nsec;
}

/* A run that can go on: at least one of its questions has its answer. */
static void put_answered(const struct rundir *run, json_t *stage, const json_t *records)
{
    json_t *open = reply_questions(run, records), *task;
    size_t i;
    json_object_set_new(stage, "status", json_string("INTERRUPTED"));
    json_object_set_new(stage, "answered", json_true());
    json_object_set_new(stage, "ended_at", json_null());
    json_object_set_new(stage, "questions", open);
    json_array_foreach (json_object_get(stage, "tasks"), i, task)
        if (strcmp(json_get_string(task, "state", ""), "asks") == 0 && json_array_size(open) == 0)
            json_object_set_new(task, "state", json_string("waiting"));
}

/* Whether an answer follows the last end that the journal has. */
static bool ends_answered(const json_t *records)
{
    bool is_answered = false;
    const json_t *one;
    size_t i;
    json_array_foreach (records, i, one) {
        const char *event = json_get_string(one, "e", "");
        is_answered = strcmp(event, "answer") == 0 || (is_answered && strcmp(event, "done") != 0);
    }
    return is_answered;
}

/* D5. The stage says that the run asks, but it has its answer (A2), or was cancelled: the process that recorded that has not
 * written the stage. A reader that still saw the question would be refused when it answers. */
static void catch_up(const struct rundir *run, json_t *stage)
{
    json_t *open CLEANUP_JSON = json_copy(json_object_get(stage, "questions"));
    bool has_reply = reply_filter(run, open) > 0;
    struct tsk_error ignored; /* the stage stays as it is */
    json_t *records CLEANUP_JSON = NULL;
    if (!has_reply && !has_newer_journal(run))
        return;
    if (read_records(run, &records, &ignored) < 0)
        return;
    bool is_answered = has_reply || ends_answered(records), is_over = rundir_is_over(rundir_end_of(records));
    if ((!is_answered && !is_over) || rundir_has_runner(run))
        return;
    if (is_over)
        end_from_journal(run, stage, records);
    else if (has_reply || !end_from_journal(run, stage, records))
        put_answered(run, stage, records);
}

/* A run that was killed before it took an answer (A2) can go on because of it. */
static void put_interrupted(const struct rundir *run, json_t *stage, const json_t *records)
{
    json_object_set_new(stage, "status", json_string("INTERRUPTED"));
    if (reply_is_there(run, records))
        put_answered(run, stage, records);
}

int rundir_look(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    bool is_executed;
    int looked = look_at_stage(run, ret, err);
    if (looked > 0 && strcmp(json_get_string(*ret, "status", ""), "NEEDS_INPUT") == 0)
        catch_up(run, *ret);
    if (looked != 0)
        return looked < 0 ? -1 : 0;
    is_executed = rundir_has_runner(run);
    if (!is_executed) { /* a runner that ended between the two looks has said how */
        json_decref(*ret);
        looked = look_at_stage(run, ret, err);
        if (looked != 0)
            return looked < 0 ? -1 : 0;
    }
    if (*ret && is_executed) {
        reply_filter(run, json_object_get(*ret, "questions"));
        return 0;
    }
    if (read_records(run, &records, err) < 0) {
        json_decref(*ret);
        *ret = NULL;
        return -1;
    }
    if (!*ret)
        *ret = stage_from_journal(run, records);
    count_from_journal(*ret, records);
    if (!is_executed && !end_from_journal(run, *ret, records) && !is_being_made(run, records))
        put_interrupted(run, *ret, records);
    return 0;
}

/* ---- what was never begun, what is broken ---------------------------------------------------------------- */

bool rundir_has_begun(const struct rundir *run)
{
    struct stat st;
    struct tsk_error unreadable; /* in doubt it has begun: what has not may be removed */
    json_t *records CLEANUP_JSON = NULL;
    return read_records(run, &records, &unreadable) < 0 || json_array_size(records) > 0 ||
           fs->fstatat(run->dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int rundir_rebuild_stage(struct rundir *run, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    if (rundir_open_life(run, O_CREAT, &run->runner_fd) < 0)
        return error_errno(err, "open", run->path);
    if (fs_lock_try(run->runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) < 0)
        return in_progress(run, err);
    if (journal_read(run->dir, &records, err) < 0)
        return -1;
    json_t *stage CLEANUP_JSON = stage_from_journal(run, records);
    count_from_journal(stage, records);
    if (!end_from_journal(run, stage, records))
        json_object_set_new(stage, "questions", reply_questions(run, records));
    fs->renameat2(run->dir, "stage.json", run->dir, "stage.json.damaged", 0);
    return rundir_write_stage(run, stage, err);
}
