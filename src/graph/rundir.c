#include "graph/rundir.h"
#include "base/fs.h"
#include "base/ident.h"
#include "graph/journal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENVIRON_MAX    (1u << 20)
#define KILL_WAIT_MS   5000
#define DYING_CHILD_MS 1000
#define HIDDEN         ".new-" /* before the name of a run that is being made */
#define STAGE_MAX      (64u << 20)

static int open_life(struct rundir *run, int flags, int *ret)
{
    *ret = fs->openat(run->dir, "life", O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    return *ret < 0 ? -1 : 0;
}

/* `prefix`: of the directory's name, while it is being made. */
static int open_dir(struct tsk_workspace *ws, const char *prefix, const char *id, struct rundir *ret,
                    struct tsk_error *err)
{
    char name[RUN_ID_MAX + 16];
    *ret = (struct rundir){.dir = -1, .life_fd = -1, .runner_fd = -1};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    snprintf(name, sizeof name, "runs/%s%s", prefix, id);
    if (snprintf(ret->path, sizeof ret->path, "%s/runs/%s", ws->state_path, id) >= (int)sizeof ret->path) {
        errno = ENAMETOOLONG;
        return error_errno(err, "open", id);
    }
    ret->dir = fs->openat(ws->state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    return ret->dir < 0 ? error_errno(err, "open", ret->path) : 0;
}

void rundir_new_id(char id[RUN_ID_MAX])
{
    char random[4];
    int64_t now_ms = clock_now().wall_ms;
    time_t now = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&now, &utc);
    random_hex(random, 3);
    size_t at = strftime(id, RUN_ID_MAX, "RUN-%Y%m%dT%H%M%S-", &utc);
    snprintf(id + at, RUN_ID_MAX - at, "%03x%s", (unsigned)(now_ms % 1000), random);
}

/* A run is seen for the first time with both of its bytes taken: who sees one that nobody executes sees no beginning. */
int rundir_create(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char new_id[RUN_ID_MAX], hidden[RUN_ID_MAX + 16], name[RUN_ID_MAX + 16];
    if (!id)
        rundir_new_id(new_id);
    id = id ? id : new_id;
    snprintf(hidden, sizeof hidden, "runs/" HIDDEN "%s", id);
    snprintf(name, sizeof name, "runs/%s", id);
    if (fs_make_dirs(ws->state_dir, hidden) < 0)
        return error_errno(err, "make", hidden);
    if (open_dir(ws, HIDDEN, id, ret, err) < 0)
        return -1;
    if (open_life(ret, O_CREAT, &ret->life_fd) == 0 && open_life(ret, 0, &ret->runner_fd) == 0 &&
        fs_lock_try(ret->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) == 0 &&
        fs_lock_try(ret->runner_fd, F_WRLCK, RUN_BYTE_RUNNER, 1) == 0 &&
        fs->renameat2(ws->state_dir, hidden, ws->state_dir, name, 0) == 0)
        return 0;
    error_errno(err, "make", ret->path);
    fs->unlinkat(ret->dir, "life", 0);
    fs->unlinkat(ws->state_dir, hidden, AT_REMOVEDIR);
    rundir_clear(ret);
    return -1;
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
    error_set(err, TSK_RUN_NOT_FOUND, found ? "run_ambiguous" : "run_unknown", "run", start, NULL);
    error_add_next(err, "tasuki runs list");
    return -1;
}

int rundir_open(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err)
{
    char whole[RUN_ID_MAX];
    if (!id_is_valid(id) || strlen(id) >= RUN_ID_MAX)
        return error_set(err, TSK_RUN_NOT_FOUND, "run_unknown", "run", id, NULL);
    if (strncmp(id, "RUN-", 4) == 0 && open_dir(ws, "", id, ret, err) == 0)
        return 0; /* a whole id: without reading the list */
    return find_id(ws, id, whole, err) < 0 ? -1 : open_dir(ws, "", whole, ret, err);
}

static int in_progress(const struct rundir *run, struct tsk_error *err)
{
    error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", run->id, NULL);
    error_add_next(err, "tasuki runs show %s", run->id);
    error_add_next(err, "tasuki runs cancel %s", run->id);
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
    if (open_life(run, O_CREAT, &run->runner_fd) < 0)
        return error_errno(err, "open", run->path);
    if (take_runner_byte(run, err) < 0)
        return -1;
    if (open_life(run, 0, &run->life_fd) < 0)
        return error_errno(err, "open", run->path);
    if (rundir_end_processes(run, NULL, NULL, err) < 0)
        return -1;
    if (fs_lock_try(run->life_fd, F_WRLCK, RUN_BYTE_LIFE, 1) < 0)
        return error_errno(err, "lock", run->path);
    return 0;
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
    return fd >= 0 && fs_lock_probe(fd, F_WRLCK, RUN_BYTE_RUNNER, 1, NULL) == 1;
}

/* ---- the stage ------------------------------------------------------------------------------------------ */

int rundir_read_stage(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = STAGE_MAX};
    if (fs_read_file(run->dir, "stage.json", STAGE_MAX - 1, &text) < 0)
        return error_errno(err, "read", "stage.json");
    *ret = json_loadb(buf_str(&text), text.len, 0, NULL);
    return *ret ? 0 : error_set(err, TSK_ENVIRONMENT, "stage_broken", "path", run->path, NULL);
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

int rundir_write_stage(const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = STAGE_MAX};
    json_write(&text, stage, true);
    buf_puts(&text, "\n");
    /* The first one needs nothing replaced; most short runs write only that. */
    if (!text.failed && publish_stage(run, &text))
        return 0;
    if (text.failed || fs_replace_file(run->dir, "stage.json", 0600, text.data, text.len) < 0)
        return error_errno(err, "write", "stage.json");
    return 0;
}

/* A run that has not written its stage yet, or died before it could: what the journal's first record says. */
static json_t *stage_from_journal(const struct rundir *run)
{
    struct tsk_error err;
    json_t *records CLEANUP_JSON = NULL;
    char began[TIME_TEXT_MAX] = "";
    if (journal_read(run->dir, &records, &err) < 0)
        records = json_array();
    const json_t *first = json_array_get(records, 0);
    if (first)
        time_format_utc(json_get_int(first, "t", 0), began);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:{}, s:[], s:[], s:[]}", "run_id", run->id, "source",
                     json_get_string(first, "flow", ""), "session_id", run->id, "request_id",
                     json_get_string(first, "request", NULL), "status", "RUNNING", "started_at", began, "counts",
                     "failures", "questions", "tasks");
}

int rundir_look(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct stat st;
    if (fs->fstatat(run->dir, "stage.json", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        *ret = stage_from_journal(run);
    else if (rundir_read_stage(run, ret, err) < 0)
        return -1;
    if (strcmp(json_get_string(*ret, "status", ""), "RUNNING") == 0 && !rundir_has_runner(run))
        json_object_set_new(*ret, "status", json_string("INTERRUPTED"));
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

int rundir_list(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    char **ids = NULL;
    size_t count = 0, room = 0;
    int fd = fs->openat(ws->state_dir, "runs", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    if (!listing && errno != ENOENT)
        return error_errno(err, "read", "runs");
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (strncmp(entry->d_name, "RUN-", 4) != 0 || strlen(entry->d_name) >= RUN_ID_MAX)
            continue;
        if (count == room) {
            room = room ? room * 2 : 64;
            ids = realloc(ids, room * sizeof *ids);
            BUG(!ids);
        }
        ids[count++] = strdup(entry->d_name);
    }
    if (listing)
        closedir(listing);
    if (count)
        qsort(ids, count, sizeof *ids, compare_ids); /* the time is in the id */
    *ret = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(*ret, json_string(ids[i]));
        free(ids[i]);
    }
    free(ids);
    return 0;
}

/* ---- processes ------------------------------------------------------------------------------------------ */

/* By what a process of the run is known. */
struct marks {
    char words[3][512]; /* of its environment */
    unsigned count;
    struct stat life;
};

static int read_environ(int proc_dir, struct buf *text)
{
    int fd CLEANUP_FD = fs->openat(proc_dir, "environ", O_RDONLY | O_CLOEXEC, 0);
    return fd < 0 || fs_read_fd(fd, ENVIRON_MAX - 1, text) < 0 ? -1 : 0;
}

static bool has_words(int proc_dir, const struct marks *marks)
{
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    unsigned found = 0;
    if (read_environ(proc_dir, &text) < 0)
        return false;
    for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
        for (unsigned i = 0; i < marks->count; i++)
            found += strcmp(text.data + at, marks->words[i]) == 0;
    return found == marks->count;
}

static bool has_file(int proc_dir, int number, const struct stat *file)
{
    char name[24];
    struct stat st;
    snprintf(name, sizeof name, "fd/%d", number);
    return fs->fstatat(proc_dir, name, &st, 0) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* Whoever has changed its environment still has the descriptor, where tasks get it: at another number it belongs to somebody
 * who only looks at the file, or who wants to resume the run as we do. All tasks share it, so it says nothing of one task. */
static bool has_life(int proc_dir, const struct marks *marks)
{
    return marks->count == 1 && has_file(proc_dir, RUN_LIFE_FD, &marks->life);
}

static bool is_ours(pid_t pid)
{
    struct proc_id id;
    return pid == getpid() || (proc_id_of(pid, &id) == 0 && proc_is_ancestor(&id));
}

/* Kills what is found; how many there were. */
static unsigned kill_marked(const struct marks *marks)
{
    unsigned count = 0;
    int proc = fs->openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = proc < 0 ? NULL : fdopendir(proc);
    if (!listing && proc >= 0)
        close(proc);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        struct proc_id id;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 1 || proc_id_of(pid, &id) < 0)
            continue;
        int dir CLEANUP_FD = fs->openat(proc, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        if (dir < 0 || (!has_words(dir, marks) && !has_life(dir, marks)) || is_ours(pid))
            continue;
        proc_id_signal(&id, SIGKILL);
        count++;
    }
    if (listing)
        closedir(listing);
    return count;
}

int rundir_end_processes(const struct rundir *run, const char *session, const char *task, struct tsk_error *err)
{
    struct marks marks = {.count = 1};
    int64_t began = clock_now().boot_ms;
    snprintf(marks.words[0], sizeof marks.words[0], "TASUKI_RUN_ID=%s", run->id);
    if (task) {
        snprintf(marks.words[1], sizeof marks.words[1], "TASUKI_TASK_ID=%s", task);
        snprintf(marks.words[2], sizeof marks.words[2], "TASUKI_SESSION_ID=%s", session);
        marks.count = 3;
    }
    if (fs->fstat(run->life_fd, &marks.life) < 0)
        return error_errno(err, "look at", run->path);
    while (kill_marked(&marks)) {
        if (clock_now().boot_ms - began > KILL_WAIT_MS)
            return error_set(err, TSK_PROCESS_STOP_FAILED, "leftovers_stay", "run", run->id, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000000}, NULL);
    }
    return 0;
}
