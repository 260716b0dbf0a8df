#include "run/start.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/yaml.h"
#include "lock/held.h"
#include "lock/report.h"
#include "run/book.h"
#include "run/detach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_NAME "runs/.slots"
#define RELEASE_MS 2000
#define AGAIN_MAX  20
#define LOOK_MS    1000 /* how often the lock is looked at */

/* One execution. */
struct execution {
    struct tsk_workspace *ws;
    const struct run_start *start;
    struct tsk_lock *lock; /* of the request; NULL: of no request */
    json_t *lock_json;     /* what the stage shows of it */
    int slot;              /* -1: none */
    struct runner runner;
    struct flow flow;
    struct buf flow_text;
    bool has_runner, has_flow;
    int64_t renewed_ms;
    char goes_on[RUN_ID_MAX]; /* the run to continue instead (S9); "": none */
};

/* ---- locks ---------------------------------------------------------------------------------------------- */

/* What is in the lock file, without what proves that it is ours. */
static json_t *describe_lock(const struct tsk_lock *lock)
{
    const struct lock_record *record = &lock->record;
    char created[TIME_TEXT_MAX], expires[TIME_TEXT_MAX], path[PATH_MAX];
    time_format_local(record->created_ms, created);
    time_format_local(record->expires_ms, expires);
    lock_target_path(&lock->target, path);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:s}", "lock_type", lock->target.kind->name,
                     "request_id", record->request_id, "run_id", record->run_id, "pid", (int)record->pid, "host",
                     record->host, "hostname", record->hostname, "created_at", created, "expires_at", expires, "fence",
                     (json_int_t)record->fence, "path", path);
}

bool start_refused_by(const struct tsk_error *err, char run_id[LOCK_ID_MAX])
{
    const char *given = err->code == TSK_RUN_IN_PROGRESS ? tsk_error_context(err, "run_id") : NULL;
    snprintf(run_id, LOCK_ID_MAX, "%s", given ? given : "");
    return id_is_valid(run_id) && strcmp(run_id, "null") != 0; /* a lock may be held without a run: JSON's null */
}

/* The commands that help here, instead of those for locks in general. A lock that was taken by hand, or by another tool, has no
 * run that could be followed or replaced. */
static int refused(const char *request_id, enum hold hold, struct tsk_error *err)
{
    char run[LOCK_ID_MAX];
    if (err->code != TSK_RUN_IN_PROGRESS)
        return -1;
    error_clear_next(err);
    if (start_refused_by(err, run) && hold == HOLD_LIFE) {
        error_add_next(err, "tasuki runs show %s", run);
        error_add_next(err, "tasuki request run %s --on-conflict attach", request_id);
        return -1;
    }
    error_add_next(err, "tasuki wait lock request/%s", request_id);
    error_add_next(err, "tasuki lock check request %s", request_id);
    error_add_next(err, "tasuki lock acquire request %s --force", request_id);
    return -1;
}

static int try_lock(struct execution *e, const char *request_id, const char *run_id, int64_t wait_ms,
                    struct lock_outcome *outcome, struct tsk_error *err)
{
    struct lock_target target;
    struct lock_request request = {.hold = HOLD_LIFE, .run_id = run_id, .request_id = request_id, .wait_ms = wait_ms};
    if (lock_target_init(&target, e->ws, lock_kind_get(TSK_LOCK_REQUEST), request_id, NULL, err) < 0)
        return -1;
    int result = lock_acquire(&target, &request, &e->lock, outcome, err);
    lock_target_clear(&target);
    return result;
}

bool start_is_holder_gone(const struct lock_record *record)
{
    if (record->hold != HOLD_LIFE || record->pid <= 0 || record->holder.pid_ns != pid_namespace())
        return false;
    struct proc_id now;
    return strcmp(record->holder.boot_id, boot_id()) != 0 || (proc_id_of(record->pid, &now) < 0 && errno == ESRCH);
}

/* Nobody executes the run any more, but processes of its tasks keep its request locked (S3). */
static int end_leftovers(struct tsk_workspace *ws, const char *run_id, struct tsk_error *err)
{
    struct rundir run;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return -1;
    int result = rundir_take(&run, err);
    if (result == 0)
        result = rundir_take_life(&run, true, err);
    rundir_clear(&run);
    return result;
}

static int take_lock(struct execution *e, const char *request_id, const char *run_id, struct tsk_error *err)
{
    struct lock_outcome outcome = {.recovered = false};
    struct tsk_error ignored;
    int result = try_lock(e, request_id, run_id, e->start->wait_ms, &outcome, err);
    const struct lock_record *by = &outcome.before.record;
    bool is_left = by->run_id[0] && (start_is_holder_gone(by) || strcmp(by->run_id, run_id) == 0);
    if (result < 0 && err->code == TSK_RUN_IN_PROGRESS && is_left && end_leftovers(e->ws, by->run_id, &ignored) == 0)
        /* Its last runner may be about to release it. */
        result = try_lock(e, request_id, run_id, RELEASE_MS, &outcome, err);
    if (result < 0)
        return refused(request_id, by->hold, err);
    e->lock_json = describe_lock(e->lock);
    e->renewed_ms = clock_now().boot_ms;
    latest_wait(e->ws, request_id);
    return 0;
}

/* The file that we have open is the one at its path: nobody has taken it away. Without the guard, which somebody may hold. */
static bool is_in_place(const struct tsk_lock *lock)
{
    struct stat st;
    return lock->file.fd >= 0 && fs->fstatat(lock->target.dir, lock->target.file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_dev == lock->file.dev && st.st_ino == lock->file.ino;
}

/* Whether it is still ours; extended if that is due. */
static bool keep(struct tsk_lock *lock, bool is_due)
{
    struct tsk_error err;
    if (!is_due && is_in_place(lock))
        return true;
    if ((is_due ? tsk_lock_renew(lock, &err) : tsk_lock_verify(lock, &err)) == 0)
        return true;
    log_problem(&err);
    return err.code != TSK_LOCK_LOST; /* a full disk is no reason to stop: nobody else may have it */
}

/* S4. Once a second, beside the stage that is written then. */
static bool beat(void *data, bool has_progress, struct tsk_error *why)
{
    (void)why; /* the lock: the runner knows */
    struct execution *e = data;
    int64_t now_ms = clock_now().boot_ms;
    bool is_due = has_progress || now_ms >= e->renewed_ms + e->lock->record.ttl_ms / 3;
    bool is_kept = keep(e->lock, is_due);
    if (is_due) {
        e->renewed_ms = now_ms;
        json_t *now CLEANUP_JSON = describe_lock(e->lock);
        json_object_update(e->lock_json, now);
    }
    return (!e->start->queue || keep(e->start->queue, is_due)) && is_kept;
}

/* ---- how many at a time --------------------------------------------------------------------------------- */

static int max_runs(struct tsk_workspace *ws, int64_t *ret, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    *ret = 0;
    if (fs_read_file(ws->state_dir, "config.yaml", YAML_SIZE_MAX, &b) < 0)
        return errno == ENOENT ? 0 : fs_error(err, "read", ws->state_dir, "config.yaml");
    if (yaml_parse(b.data, b.len, ".aiflow/config.yaml", &doc, err) < 0)
        return -1;
    const struct yaml_node *node = yaml_get(yaml_root(doc), "max_runs");
    if (node && (yaml_int(node, ret) < 0 || *ret < 1))
        return yaml_error(doc, node, err, "max_runs must be a number from 1 on");
    return 0;
}

/* A byte of the file for each that may run: held as long as we live. */
static int take_slot(struct execution *e, struct tsk_error *err)
{
    int64_t max;
    char number[24];
    if (!e->start->is_by_hand)
        return 0;
    if (max_runs(e->ws, &max, err) < 0)
        return -1;
    if (max == 0)
        return 0;
    e->slot = fs->openat(e->ws->state_dir, SLOTS_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (e->slot < 0)
        return fs_error(err, "open", e->ws->state_dir, SLOTS_NAME);
    for (int64_t i = 0; i < max; i++)
        if (fs_lock_try(e->slot, F_WRLCK, i, 1) == 0)
            return 0;
    snprintf(number, sizeof number, "%lld", (long long)max);
    error_set(err, TSK_CONFLICT, "max_runs_reached", "max", number, NULL);
    error_add_next(err, "tasuki runs list --status RUNNING");
    return -1;
}

/* ---- what is run ---------------------------------------------------------------------------------------- */

/* `run` as a flow of one task; JSON is YAML. */
static void put_command(const struct request *request, struct buf *text)
{
    json_t *flow CLEANUP_JSON = json_pack("{s:s, s:{s:{s:O}}}", "name", request->id, "tasks", "run", "run",
                                          json_object_get(request->json, "run"));
    json_write(text, flow, false);
    buf_puts(text, "\n");
}

/* A pipe or a device: reading it may block for ever, and the queue with it. */
static bool is_endless(int fd)
{
    struct stat st;
    return fs->fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* A path below the workspace's root, or a name in .aiflow/flows/. */
static int open_flow(struct tsk_workspace *ws, const char *given, struct tsk_error *err)
{
    char path[2 * PATH_MAX];
    if (!given[0])
        return error_set(err, TSK_NOT_FOUND, "flow_not_found", "flow", "\"\"", NULL);
    snprintf(path, sizeof path, "%s/%.4095s", ws->root, given);
    int fd = fs->openat(AT_FDCWD, given[0] == '/' ? given : path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT && id_is_valid(given)) {
        flow_kept_path(given, path, sizeof path);
        fd = fs->openat(ws->state_dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    }
    if (fd < 0 && errno == ENOENT)
        return error_set(err, TSK_NOT_FOUND, "flow_not_found", "flow", given, NULL);
    if (fd < 0 && errno != ENXIO)
        return error_errno(err, "open", given);
    if (fd < 0 || is_endless(fd)) {
        fs_close(&fd);
        return error_set(err, TSK_INVALID_INPUT, "doctor_no_file", "path", given, NULL);
    }
    return fd;
}

static int load_flow(struct execution *e, const struct request *request, struct tsk_error *err)
{
    const char *given = json_get_string(request->json, "flow", NULL);
    e->flow_text = (struct buf){.max = FLOW_SIZE_MAX};
    if (!given && !json_object_get(request->json, "run"))
        return error_set(err, TSK_INVALID_INPUT, "request_nothing_to_run", "request", request->id, NULL);
    if (given) {
        int fd CLEANUP_FD = open_flow(e->ws, given, err);
        if (fd < 0)
            return -1;
        if (fs_read_fd(fd, FLOW_SIZE_MAX - 1, &e->flow_text) < 0)
            return error_errno(err, "read", given);
    } else {
        put_command(request, &e->flow_text);
    }
    const char *source = given ? given : request->source;
    if (flow_load(&e->flow, source, buf_str(&e->flow_text), e->flow_text.len, e->start->lang, err) < 0)
        return -1;
    e->has_flow = true;
    return flow_settle_agents(&e->flow, e->ws, NULL, buf_str(&e->flow_text), e->flow_text.len, err);
}

/* Tasks read what they are for from the channel. */
static json_t *values_of(const struct request *request)
{
    static const char *const keys[] = {"id", "title", "priority", "body"};
    json_t *about = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(request->json, keys[i]))
            json_object_set(about, keys[i], json_object_get(request->json, keys[i]));
    return json_pack("{s:o}", "request", about);
}

/* ---- the execution -------------------------------------------------------------------------------------- */

static struct runner_options options_of(struct execution *e)
{
    struct runner_options options = {.parallel = e->start->parallel,
                                     .tell = e->start->tell,
                                     .tell_data = e->start->tell_data,
                                     .wants_ticks = e->start->wants_ticks};
    if (e->lock) {
        options.lock = e->lock_json;
        options.lock_fd = tsk_lock_fd(e->lock);
        options.beat = beat;
        options.beat_data = e;
        options.beat_ms = LOOK_MS;
    } else {
        options.beat = e->start->beat;
        options.beat_data = e->start->beat_data;
        options.beat_ms = e->start->beat_ms;
    }
    return options;
}

/* Signals first: from the moment its stage names us we may be told to end. */
static int execute(struct execution *e, json_t **ret, struct tsk_error *err)
{
    if (runner_wait_begin(&e->runner, err) < 0)
        return -1;
    if (e->lock || e->start->begun)
        runner_save_stage(&e->runner);
    if (e->start->begun) {
        json_t *stage CLEANUP_JSON = runner_stage(&e->runner);
        if (!e->start->begun(e->start->begun_data, stage))
            runner_cancel(&e->runner);
    }
    return runner_execute(&e->runner, ret, err);
}

/* S2: the opposite order. */
static void finish(struct execution *e)
{
    struct tsk_error problem;
    e->runner.stays_deaf = true; /* a cancel that comes when the run has just ended must not leave its lock behind */
    if (e->has_runner)
        runner_close(&e->runner);
    if (e->has_flow)
        flow_clear(&e->flow);
    buf_clear(&e->flow_text);
    fs_close(&e->slot);
    if (e->lock && tsk_lock_release(e->lock, &problem) < 0)
        log_problem(&problem);
    runner_hear(&e->runner);
    json_decref(e->lock_json);
}

static int begin(struct execution *e, const struct request *request, const char *run_id, struct tsk_error *err)
{
    char hash[SHA256_HEX_SIZE];
    json_t *values CLEANUP_JSON = values_of(request);
    struct runner_options options = options_of(e);
    options.id = run_id;
    options.request_id = request->id;
    options.request_updated_at = request->updated_at;
    request_hash(request, hash);
    options.request_sha256 = hash;
    if (chdir(e->ws->root) < 0)
        return error_errno(err, "go to", e->ws->root);
    /* Noted first: a run that is there is known, whenever we are killed. */
    if (book_note_run(e->ws, request->id, run_id, err) < 0)
        return -1;
    e->has_runner = true;
    return runner_begin(&e->runner, e->ws, &e->flow, buf_str(&e->flow_text), e->flow_text.len, values, &options, err);
}

/* What the request says; *ret_flow: 0, or -1 and why its flow cannot be executed. */
static int prepare(struct execution *e, struct request *request, int *ret_flow, struct tsk_error *flow_err,
                   struct tsk_error *err)
{
    const struct run_start *start = e->start;
    if (request_read(e->ws, start->request_id, start->lang, request, err) < 0)
        return -1;
    if (request_need_whole(request, err) < 0)
        return -1;
    *ret_flow = load_flow(e, request, flow_err);
    if (*ret_flow < 0 && !start->queue) {
        *err = *flow_err;
        return -1;
    }
    if (request->status == REQUEST_ARCHIVED) {
        error_set(err, TSK_INVALID_INPUT, "request_archived", "request", request->id, NULL);
        error_add_next(err, "tasuki request edit %s --status ready", request->id);
        return -1;
    }
    return start->examine ? start->examine(e->ws, request->id, start->lang, err) : 0;
}

/* S5: the caller decides once more, by what cannot change any more. */
static int decide(struct execution *e, struct tsk_error *err)
{
    return e->start->decide ? e->start->decide(e->start->decide_data, err) : 0;
}

/* goes_on: the run to continue instead (S9), "" for none. */
static int start_new(struct tsk_workspace *ws, const struct run_start *start, char goes_on[RUN_ID_MAX], json_t **ret,
                     struct tsk_error *err)
{
    char run_id[RUN_ID_MAX];
    int flow = 0;
    struct tsk_error flow_err;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    struct execution e = {.ws = ws, .start = start, .slot = -1};
    const struct wanted wanted = {.ws = ws, .start = start, .request = &request, .flow = &e.flow_text};
    rundir_new_id(run_id);
    int result = prepare(&e, &request, &flow, &flow_err, err);
    if (result == 0)
        result = latest_settle_early(&wanted, e.goes_on, err);
    if (result == 0)
        result = take_lock(&e, request.id, run_id, err);
    if (result == 0)
        result = decide(&e, err);
    if (result == 0)
        result = take_slot(&e, err);
    if (result == 0)
        result = latest_settle(&wanted, e.goes_on, err);
    if (result == 0 && flow < 0)
        result = unbegun_record(ws, &request, run_id, start->lang, &flow_err, err);
    if (result == 0)
        result = begin(&e, &request, run_id, err);
    if (result == 0)
        result = execute(&e, ret, err);
    finish(&e);
    snprintf(goes_on, RUN_ID_MAX, "%s", e.goes_on);
    return result;
}

bool start_was_answer_used(const struct tsk_error *err)
{
    return err->code == TSK_CONFLICT && err->text && strcmp(err->text, START_ANSWER_USED) == 0;
}

int start_request(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err)
{
    char goes_on[RUN_ID_MAX];
    struct run_start again = *start;
    again.resume = goes_on;
    again.is_instead = true;
    int result = start_new(ws, start, goes_on, ret, err);
    for (int i = 0; goes_on[0] && i < AGAIN_MAX; i++) {
        result = start_again(ws, &again, ret, err);
        if (result < 0 && err->code == TSK_ENVIRONMENT) /* it cannot go on: its files are damaged */
            error_add_next(err, "tasuki request run %s --new", start->request_id);
        if (result == 0 || !start_was_answer_used(err))
            return result;
        result = start_new(ws, start, goes_on, ret, err); /* somebody was faster */
    }
    return result;
}

/* The request of a run, "" for none; its whole id. */
static int look_up(struct tsk_workspace *ws, const char *given, char run_id[RUN_ID_MAX], char request_id[LOCK_ID_MAX],
                   struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, given, &run, err) < 0)
        return -1;
    snprintf(run_id, RUN_ID_MAX, "%s", run.id);
    int result = book_look_at(&run, &stage, err);
    rundir_clear(&run);
    snprintf(request_id, LOCK_ID_MAX, "%s", json_get_string(stage, "request_id", ""));
    return result;
}

static int resume(struct execution *e, const char *run_id, struct tsk_error *err)
{
    struct runner_options options = options_of(e);
    options.flow_source = e->start->flow_source;
    options.flow_text = e->start->flow_text;
    options.flow_len = e->start->flow_len;
    options.refuses_cancelled = e->start->is_answered || e->start->is_instead || e->start->queue;
    e->has_runner = true;
    int result = runner_resume(&e->runner, e->ws, run_id, &e->flow, &e->flow_text, e->start->lang, &options, err);
    e->has_flow = e->runner.flow;
    if (result < 0 && e->start->queue)
        unbegun_mark(&e->runner.run, e->start->lang, err);
    return result;
}

int start_again(struct tsk_workspace *ws, const struct run_start *start, json_t **ret, struct tsk_error *err)
{
    char run_id[RUN_ID_MAX], request_id[LOCK_ID_MAX];
    struct execution e = {.ws = ws, .start = start, .slot = -1};
    if (look_up(ws, start->resume, run_id, request_id, err) < 0)
        return -1;
    if (request_id[0] && start->examine && start->examine(ws, request_id, start->lang, err) < 0)
        return -1;
    int result = request_id[0] ? take_lock(&e, request_id, run_id, err) : 0;
    if (result == 0 && request_id[0])
        result = latest_need(ws, start, request_id, run_id, err);
    if (result == 0)
        result = decide(&e, err);
    if (result == 0 && request_id[0])
        result = take_slot(&e, err);
    if (result == 0)
        result = resume(&e, run_id, err);
    if (result == 0)
        result = execute(&e, ret, err);
    finish(&e);
    return result;
}
