#include "graph/rundir.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/word.h"
#include "graph/journal.h"
#include "graph/leftover.h"
#include "graph/reply.h"
#include "graph/run_names.h"
#include "graph/run_tasks.h"

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

/* "" is the latest run, @2 the one before it; 0: it is no such name. */
static size_t state_place(const char *name)
{
    char *end;
    if (!name[0])
        return 1;
    unsigned long place = name[0] == '@' && name[1] >= '1' && name[1] <= '9' ? strtoul(name + 1, &end, 10) : 0;
    return place && !*end ? place : 0;
}

int rundir_refuse_name(const char *name, const char *key, struct tsk_error *err)
{
    error_set(err, TSK_RUN_NOT_FOUND, key, "run", name, "run_id", name, NULL);
    return error_add_next(err, "tasuki runs list");
}

#define PART_MIN 4 /* characters of a part of an id for what changes something; fewer may be meant as something else */

/* How well a name fits an id: 3 it is the id, 2 its beginning, 1 a part of it, 0 not at all. */
static int run_fit_of(const char *id, const char *name)
{
    const char *at = strstr(id, name);
    return strcmp(id, name) == 0 ? 3 : at == id ? 2 : at ? 1 : 0;
}

/* One of those that the name fits best; how many those are. */
static const char *find_fitting(const struct run_names *names, const char *name, size_t *ret_count)
{
    int best = 0;
    const char *found = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < names->count; i++) {
        int fit = run_fit_of(names->ids[i], name);
        if (fit > best)
            found = names->ids[i];
        *ret_count = fit > best ? 1 : *ret_count + (fit && fit == best);
        best = fit > best ? fit : best;
    }
    return found;
}

static int rundir_refuse_short(const char *name, struct tsk_error *err)
{
    rundir_refuse_name(name, "run_part_short", err);
    return error_add(err, "count", DIGITS(PART_MIN));
}

/* The run of that place, or the one run that the name fits best. */
static int find_id(struct tsk_workspace *ws, const char *name, bool is_look, char id[RUN_ID_MAX], struct tsk_error *err)
{
    struct run_names names CLEANUP(run_names_clear);
    size_t count = 1, place = state_place(name);
    const char *found = NULL;
    if (run_names_open(ws, RUNS_FOLDER, &names, err) < 0)
        return -1;
    if (!place)
        found = find_fitting(&names, name, &count);
    for (size_t i = 0; i < place && (i == 0 || found); i++)
        found = run_names_next(&names);
    if (!found)
        return rundir_refuse_name(name, place && !names.count ? "run_none" : "run_unknown", err);
    if (!is_look && !place && strlen(name) < PART_MIN && strcmp(found, name) != 0)
        return rundir_refuse_short(name, err);
    if (count > 1)
        return rundir_refuse_name(name, "run_ambiguous", err);
    snprintf(id, RUN_ID_MAX, "%s", found);
    return 0;
}

static int open_run(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char name[RUN_ID_MAX + 16];
    snprintf(name, sizeof name, "runs/%s", id);
    return rundir_open_dir(ws, name, id, ret, err);
}

static int open_named(struct tsk_workspace *ws, const char *id, bool is_look, struct rundir *ret, struct tsk_error *err)
{
    char whole[RUN_ID_MAX];
    if (!state_place(id) && (!id_is_valid(id) || strlen(id) >= RUN_ID_MAX))
        return rundir_refuse_name(id, "run_unknown", err);
    if (strncmp(id, "RUN-", 4) == 0 && open_run(ws, id, ret, err) == 0)
        return 0; /* a whole id: without reading the list */
    return find_id(ws, id, is_look, whole, err) < 0 ? -1 : open_run(ws, whole, ret, err);
}

int rundir_open(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    return open_named(ws, id, false, ret, err);
}

int rundir_open_to_look(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    return open_named(ws, id, true, ret, err);
}

int rundir_flow_error(const struct rundir *run, const char *what, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    fs_error(err, what, run->dir, "flow.yaml");
    bool is_absent = err->sys_errno == ENOENT && rundir_read_stage(run, &stage, &ignored) == 0;
    if (!is_absent || json_get_int(json_object_get(stage, "counts"), "total", 1) > 0)
        return -1; /* it was there: somebody has removed it */
    error_set(err, TSK_NOT_FOUND, "run_has_no_flow", "run", run->id, NULL);
    return error_add_next(err, "tasuki runs show %s", run->id);
}

void rundir_add_starter(const json_t *stage, struct tsk_error *err)
{
    struct buf who CLEANUP(buf_clear) = BUF_INIT;
    if (!json_is_object(json_object_get(stage, "started_by")))
        return;
    json_write(&who, json_object_get(stage, "started_by"), false);
    error_add_json(err, "started_by", buf_str(&who));
}

static int in_progress(const struct rundir *run, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", run->id, NULL);
    if (rundir_read_stage(run, &stage, &ignored) == 0)
        rundir_add_starter(stage, err);
    error_add_next(err, "tasuki runs show %s", run->id);
    return error_add_next(err, "tasuki wait run %s", run->id);
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
        clock_nap(2);
    }
    return 0;
}

bool rundir_is_in_place(const struct rundir *run)
{
    struct stat here, there;
    if (fs->fstat(run->dir, &here) < 0 || fs->fstatat(AT_FDCWD, run->path, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    errno = ENOENT;
    return here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

int rundir_refuse_gone(const struct rundir *run, struct tsk_error *err)
{
    return errno == ENOENT ? rundir_refuse_name(run->id, "run_unknown", err) : error_errno(err, "read", run->path);
}

int rundir_take(struct rundir *run, struct tsk_error *err)
{
    if (!rundir_is_in_place(run))
        return rundir_refuse_gone(run, err);
    if (rundir_open_life(run, O_CREAT, &run->runner_fd) < 0)
        return error_errno(err, "open", run->path);
    if (take_runner_byte(run, err) < 0)
        return -1;
    if (!rundir_is_in_place(run)) /* D6 */
        return rundir_refuse_gone(run, err);
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
    json_each (records, i, record) {
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
    return json_text_is(last, "e", "done") ? json_get_string(last, "status", "") : "";
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
    int fd CLEANUP_FD = fs->openat(run->dir, "life", O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return errno != ENOENT && errno != ELOOP; /* in doubt it has one: a run that is executed is never INTERRUPTED */
    return fs_lock_probe(fd, F_RDLCK, RUN_BYTE_RUNNER, 1, NULL) != 0 /* D2 */;
}

/* ---- the stage ------------------------------------------------------------------------------------------ */

int rundir_damaged(const struct rundir *run, const char *file, struct tsk_error *err)
{
    error_set(err, TSK_ENVIRONMENT, "stage_broken", "path", run->path, "file", file, "run_id", run->id, NULL);
    return error_add_next(err, "tasuki doctor");
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
    bool is_published = fd >= 0 && fs_write_all(fd, text->data, text->len) == 0 &&
                        fs_publish(fd, private_name, run->dir, "stage.json") == 0;
    if (private_name[0])
        fs->unlinkat(run->dir, private_name, 0);
    return is_published;
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

/* A run that has not written its stage yet, or died before it could: what the journal's first record says. */
static json_t *stage_from_journal(const struct rundir *run, const json_t *records)
{
    char began[TIME_TEXT_MAX] = "";
    const json_t *first = json_array_get(records, 0);
    if (first)
        time_format_exact(json_get_int(first, "t", 0), began);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s*, s:s*, s:s*, s:s, s:s, s:{}, s:[], s:[], s:[]}", "run_id", run->id,
                     "source", json_get_string(first, "flow", ""), "session_id", run->id, "request_id",
                     json_get_string(first, "request", NULL), "request_updated_at",
                     json_get_string(first, "request_updated_at", NULL), "ulTaskId",
                     json_get_string(first, "workflow", NULL), "exclusive", json_get_string(first, "exclusive", NULL),
                     "status", "RUNNING", "started_at", began, "counts", "failures", "questions", "tasks");
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
    const char *status = rundir_end_of(records);
    if (!*status)
        return false;
    const json_t *end = json_array_get(records, json_array_size(records) - 1);
    const char *ended = TIME_EXACT(json_get_int(end, "t", 0));
    json_object_set_new(stage, "status", json_string(status));
    json_object_set_new(stage, "ended_at", json_string(ended));
    json_object_set_new(stage, "runner", json_null());
    values_from_journal(stage, end);
    run_tasks_end(json_object_get(stage, "tasks"), records);
    run_tasks_set_questions(stage, strcmp(status, "NEEDS_INPUT") == 0 ? reply_questions(run, records) : json_array());
    return true;
}

/* D5. The stage says how the run ended and how long the journal was then, but a resume has begun since, and its runner was killed, or
 * the disk was full, before it wrote a stage. */
static bool was_resumed_since(const struct rundir *run, const json_t *stage, int64_t journal_size)
{
    struct stat st;
    struct tsk_error ignored; /* the stage stays as it is */
    json_t *behind CLEANUP_JSON = NULL;
    bool may_be = json_text_is(stage, "status", "FAILED") || json_text_is(stage, "status", "CANCELLED");
    if (!may_be || !journal_size || fs->fstatat(run->dir, "journal", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        st.st_size <= journal_size || journal_read_behind(run->dir, journal_size, &behind, &ignored) < 0)
        return false;
    json_each (behind, i, record)
        if (json_text_is(record, "e", "resume"))
            return true;
    return false;
}

/* 1: it says that nobody is to be looked for; 0: it says RUNNING, or there is none (*ret is NULL). *ret_size: how much of the journal is
 * in it. */
static int rundir_look_at_stage(const struct rundir *run, json_t **ret, int64_t *ret_size, struct tsk_error *err)
{
    struct stat st;
    *ret = NULL;
    *ret_size = 0;
    if (fs->fstatat(run->dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    if (rundir_read_stage(run, ret, err) < 0)
        return rundir_is_in_place(run) ? -1 : rundir_refuse_gone(run, err); /* D6 */
    *ret_size = json_get_int(*ret, RUN_JOURNAL_SIZE, 0);
    json_object_del(*ret, RUN_JOURNAL_SIZE);
    if (was_resumed_since(run, *ret, *ret_size))
        run_tasks_reopen(*ret);
    return !json_text_is(*ret, "status", "RUNNING");
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

/* A run that can continue: at least one of its questions has its answer. */
static void put_answered(const struct rundir *run, json_t *stage, const json_t *records)
{
    json_t *open = reply_questions(run, records);
    json_object_set_new(stage, "status", json_string("INTERRUPTED"));
    json_object_set_new(stage, "answered", json_true());
    json_object_set_new(stage, "ended_at", json_null());
    run_tasks_set_questions(stage, open);
    json_each (json_object_get(stage, "tasks"), i, task)
        if (json_text_is(task, "state", "asks") && json_array_size(open) == 0)
            json_object_set_new(task, "state", json_string("waiting"));
}

/* Whether an answer follows the last end that the journal has. */
static bool ends_answered(const json_t *records)
{
    bool is_answered = false;
    json_each (records, i, one) {
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

/* A run that was killed before it took an answer (A2) can continue because of it. */
static void put_interrupted(const struct rundir *run, json_t *stage, int64_t size, const json_t *records)
{
    json_object_set_new(stage, "status", json_string("INTERRUPTED"));
    run_tasks_catch_up(run, stage, size);
    json_each (json_object_get(stage, "tasks"), i, task)
        run_task_interrupt(task);
    if (reply_is_there(run, records))
        put_answered(run, stage, records);
}

/* `is_exact`: with what a living runner has recorded since its last stage. */
static int look_at_run(const struct rundir *run, bool is_exact, json_t **ret, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    bool is_executed;
    int64_t size;
    int looked = rundir_look_at_stage(run, ret, &size, err);
    if (looked > 0 && json_text_is(*ret, "status", "NEEDS_INPUT"))
        catch_up(run, *ret);
    if (looked != 0)
        return looked < 0 ? -1 : 0;
    is_executed = rundir_has_runner(run);
    if (!is_executed) { /* a runner that ended between the two looks has said how */
        json_decref(*ret);
        looked = rundir_look_at_stage(run, ret, &size, err);
        if (looked != 0)
            return looked < 0 ? -1 : 0;
    }
    if (*ret && is_executed) {
        if (is_exact)
            run_tasks_catch_up(run, *ret, size);
        reply_filter(run, json_object_get(*ret, "questions"));
        return 0;
    }
    int read = read_records(run, &records, err);
    if (!rundir_is_in_place(run)) /* D6: what is missing here was removed */
        read = rundir_refuse_gone(run, err);
    if (read < 0) {
        json_decref(*ret);
        *ret = NULL;
        return -1;
    }
    if (!*ret)
        *ret = stage_from_journal(run, records);
    if (is_exact && is_executed)
        run_tasks_catch_up(run, *ret, size);
    run_tasks_count(*ret, records);
    if (!is_executed && !end_from_journal(run, *ret, records) && !is_being_made(run, records))
        put_interrupted(run, *ret, size, records);
    return 0;
}

int rundir_look(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    return look_at_run(run, false, ret, err);
}

int rundir_look_exactly(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    return look_at_run(run, true, ret, err);
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
    run_tasks_count(stage, records);
    if (!end_from_journal(run, stage, records))
        json_object_set_new(stage, "questions", reply_questions(run, records));
    fs->renameat2(run->dir, "stage.json", run->dir, "stage.json.damaged", 0);
    return rundir_write_stage(run, stage, err);
}
