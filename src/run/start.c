#include "run/start.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "base/yaml.h"
#include "lock/held.h"
#include "run/after.h"
#include "run/book.h"
#include "run/detach.h"
#include "run/elsewhere.h"
#include "run/notify.h"
#include "run/prune.h"
#include "run/settle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_NAME   "runs/.slots"
#define AGAIN_MAX    20   /* tries to continue with a run whose answer another runner has just used */
#define LOCK_LOOK_MS 1000 /* how often the lock is looked at */

/* One execution. */
struct execution {
    struct tsk_workspace *ws;
    const struct run_start *start;
    struct run_lock which; /* the lock that it needs; without an id: none */
    struct tsk_lock *lock; /* NULL: it has none */
    json_t *lock_json;     /* what the stage shows of it */
    int slot;              /* -1: none */
    struct runner runner;
    struct elsewhere elsewhere;
    struct flow flow;
    struct buf flow_text;
    bool has_runner, has_flow, has_begun;
    int64_t renewed_ms;
    char goes_on[RUN_ID_MAX]; /* the run to continue instead (S9); "": none */
};

/* ---- locks ---------------------------------------------------------------------------------------------- */

/* `again`: the command that asked, for the hints; NULL: none. */
static int take_lock(struct execution *e, const struct run_lock *which, const char *run_id, const char *again,
                     struct tsk_error *err)
{
    if (!e->start->after)
        after_start(e->ws, which);
    if (run_lock_take(e->ws, which, run_id, e->start->wait_ms, again, &e->lock, err) < 0)
        return -1;
    e->which = *which;
    e->lock_json = run_lock_json(e->lock);
    e->renewed_ms = clock_now().boot_ms;
    if (which->kind == TSK_LOCK_REQUEST)
        latest_wait(e->ws, which->id);
    return settle_lock(e->ws, which, run_id, err);
}

static int take_request_lock(struct execution *e, const char *request_id, const char *run_id, struct tsk_error *err)
{
    struct run_lock which = run_lock_of_request(request_id);
    struct buf again CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&again, "tasuki request run %s", request_id);
    return take_lock(e, &which, run_id, buf_str(&again), err);
}

/* Of a pending run (after.h): it becomes this one. */
static int claim_pending(struct execution *e, const char *run_id, struct tsk_error *err)
{
    const char *id = e->start->after;
    return id && e->lock ? after_claim(e->ws, &e->which, id, run_id, err) : 0;
}

/* S4. Once a second, beside the stage that is written then. */
static bool execution_beat(void *data, bool has_progress, struct tsk_error *why)
{
    (void)why; /* the lock: the runner knows */
    struct execution *e = data;
    int64_t now_ms = clock_now().boot_ms;
    bool is_due = has_progress || now_ms >= e->renewed_ms + e->lock->record.ttl_ms / 3;
    bool is_kept = run_lock_keep(e->lock, is_due);
    if (is_due) {
        e->renewed_ms = now_ms;
        json_t *now CLEANUP_JSON = run_lock_json(e->lock);
        json_object_update(e->lock_json, now);
    }
    return (!e->start->queue || run_lock_keep(e->start->queue, is_due)) && is_kept;
}

/* ---- how many at a time --------------------------------------------------------------------------------- */

static int max_runs(struct tsk_workspace *ws, int64_t *ret, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    int found = workspace_config(ws, &doc, err);
    const struct yaml_node *node = found == 1 ? yaml_get(yaml_root(doc), "max_runs") : NULL;
    *ret = 0;
    if (node && (yaml_int(node, ret) < 0 || *ret < 1))
        return yaml_error(doc, node, err, "yaml_why_least", "key", "max_runs", "min", "1", NULL);
    return found < 0 ? -1 : 0;
}

/* A byte of the file for each that may run: held as long as we live. */
static int take_slot(struct execution *e, struct tsk_error *err)
{
    int64_t max;
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
    error_set(err, TSK_CONFLICT, "max_runs_reached", "max", DIGITS(max), NULL);
    return error_add_next(err, "tasuki runs list --status RUNNING");
}

/* ---- what is run ---------------------------------------------------------------------------------------- */

/* `run` as a flow of one task; JSON is YAML. */
static void put_one_task_flow(const struct request *request, struct buf *text)
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
    if (fd < 0 && errno == ENOENT)
        fd = flow_open_kept(ws->state_dir, given, path, sizeof path);
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

/* The flow that the request names; -1: its author has to name another one. */
static int open_flow_of(struct tsk_workspace *ws, const struct request *request, const char *given,
                        struct tsk_error *err)
{
    int fd = open_flow(ws, given, err);
    if (fd < 0 && !tsk_error_next(err, 0))
        error_add_next(err, "tasuki request edit %s", request->id);
    return fd;
}

int request_flow_find(struct tsk_workspace *ws, const struct request *request, struct tsk_error *err)
{
    const char *given = json_get_string(request->json, "flow", NULL);
    int fd CLEANUP_FD = given ? open_flow_of(ws, request, given, err) : -1;
    return given && fd < 0 ? -1 : 0;
}

static int execution_load_flow(struct execution *e, const struct request *request, struct tsk_error *err)
{
    const char *given = json_get_string(request->json, "flow", NULL);
    e->flow_text = (struct buf){.max = FLOW_SIZE_MAX};
    if (!given && !json_object_get(request->json, "run"))
        return error_set(err, TSK_INVALID_INPUT, "request_nothing_to_run", "request", request->id, NULL);
    if (given) {
        int fd CLEANUP_FD = open_flow_of(e->ws, request, given, err);
        if (fd < 0)
            return -1;
        if (fs_read_fd(fd, FLOW_SIZE_MAX - 1, &e->flow_text) < 0)
            return error_errno(err, "read", given);
    } else {
        put_one_task_flow(request, &e->flow_text);
    }
    const char *source = given ? given : request->source;
    if (flow_load(&e->flow, source, buf_str(&e->flow_text), e->flow_text.len, e->start->lang, err) < 0)
        return -1;
    e->has_flow = true;
    /* A parameter without a value is a problem of the flow here: a request gives none. */
    json_t *values CLEANUP_JSON = json_object(), *params CLEANUP_JSON = NULL;
    if (flow_params_settle(&e->flow, NULL, values, &params, err) < 0)
        return -1;
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

static int find_elsewhere(void *data, const char *shown, struct runner_options *options, struct tsk_error *err)
{
    struct execution *e = data;
    if (elsewhere_find(e->ws, e->start->redis, shown, &e->elsewhere, err) < 0)
        return -1;
    elsewhere_use(&e->elsewhere, options);
    options->is_local = options->remote_program && (options->is_local || e->start->is_local);
    return e->start->is_local && !options->remote_program ? error_set(err, TSK_INVALID_INPUT, "redis_not_named", NULL)
                                                          : 0;
}

static struct runner_options options_of(struct execution *e)
{
    struct runner_options options = {.parallel = e->start->parallel,
                                     .tell = e->start->tell,
                                     .tell_data = e->start->tell_data,
                                     .wants_ticks = e->start->wants_ticks,
                                     .find_remote = find_elsewhere,
                                     .find_remote_data = e};
    if (e->lock) {
        options.lock = e->lock_json;
        options.lock_fd = tsk_lock_fd(e->lock);
        options.beat = execution_beat;
        options.beat_data = e;
        options.beat_ms = LOCK_LOOK_MS;
    } else {
        options.beat = e->start->beat;
        options.beat_data = e->start->beat_data;
        options.beat_ms = e->start->beat_ms;
    }
    return options;
}

/* Signals first: from the moment its stage names us, we may be asked to end. */
static int execution_run(struct execution *e, json_t **ret, struct tsk_error *err)
{
    e->has_begun = true;
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

/* A run that waited for this one, or for one whose runner died (after.h, A6). */
static void execution_look_after(const struct execution *e)
{
    const char *id = e->start->after;
    if (!id || e->has_begun)
        after_start(e->ws, NULL);
    else if (e->which.id[0])
        after_start_newer(e->ws, &e->which, id);
}

/* S2: the opposite order. `stage`: of the run that was executed; NULL: it did not come to its end. */
static void execution_finish(struct execution *e, const json_t *stage)
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
    execution_look_after(e);
    runner_hear(&e->runner);
    json_decref(e->lock_json);
    elsewhere_clear(&e->elsewhere);
    if (stage)
        notify_run(e->ws, stage);
    if (e->has_runner)
        prune_after_run(e->ws);
}

static int execution_begin(struct execution *e, const struct request *request, const char *run_id,
                           struct tsk_error *err)
{
    char hash[SHA256_HEX_SIZE];
    json_t *values CLEANUP_JSON = values_of(request), *params CLEANUP_JSON = NULL;
    if (flow_params_settle(&e->flow, NULL, values, &params, err) < 0)
        return -1;
    struct runner_options options = options_of(e);
    options.id = run_id;
    options.request_id = request->id;
    options.params = params;
    options.request_updated_at = request->updated_at;
    request_hash(request, hash);
    options.request_sha256 = hash;
    if (chdir(e->ws->root) < 0)
        return error_errno(err, "go to", e->ws->root);
    if (find_elsewhere(e, NULL, &options, err) < 0)
        return -1;
    /* Noted first: a run that is there is known, whenever we are killed. */
    if (book_note_run(e->ws, request->id, run_id, err) < 0)
        return -1;
    e->has_runner = true;
    return runner_begin(&e->runner, e->ws, &e->flow, buf_str(&e->flow_text), e->flow_text.len, values, &options, err);
}

/* What the request says; *ret_flow: 0, or -1 and why its flow cannot be executed. */
static int execution_prepare(struct execution *e, struct request *request, int *ret_flow, struct tsk_error *flow_err,
                             struct tsk_error *err)
{
    const struct run_start *start = e->start;
    if (request_read(e->ws, start->request_id, start->lang, request, err) < 0)
        return -1;
    if (request_need_whole(request, err) < 0)
        return -1;
    *ret_flow = execution_load_flow(e, request, flow_err);
    if (*ret_flow < 0 && !start->queue) {
        *err = *flow_err;
        return -1;
    }
    if (request->status == REQUEST_ARCHIVED) {
        error_set(err, TSK_INVALID_INPUT, "request_archived", "request", request->id, NULL);
        return error_add_next(err, "tasuki request edit %s --status ready", request->id);
    }
    return start->examine ? start->examine(e->ws, request->id, start->lang, err) : 0;
}

/* S5: the caller decides once more, by what cannot change any more. */
static int execution_decide(struct execution *e, struct tsk_error *err)
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
    int result = execution_prepare(&e, &request, &flow, &flow_err, err);
    if (result == 0)
        result = latest_settle_early(&wanted, e.goes_on, err);
    if (result == 0)
        result = take_request_lock(&e, request.id, run_id, err);
    if (result == 0)
        result = execution_decide(&e, err);
    if (result == 0)
        result = take_slot(&e, err);
    if (result == 0)
        result = latest_settle(&wanted, e.goes_on, err);
    if (result == 0 && flow < 0)
        result = unbegun_record(ws, &request, run_id, start->lang, &flow_err, err);
    if (result == 0)
        result = claim_pending(&e, run_id, err);
    if (result == 0)
        result = execution_begin(&e, &request, run_id, err);
    if (result == 0 && start->after)
        after_begun(ws, &e.which, run_id);
    if (result == 0)
        result = execution_run(&e, ret, err);
    execution_finish(&e, result == 0 ? *ret : NULL);
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
        if (result < 0 && err->code == TSK_ENVIRONMENT) /* it cannot continue: its files are damaged */
            error_add_next(err, "tasuki request run %s --new", start->request_id);
        if (result == 0 || !start_was_answer_used(err))
            return result;
        result = start_new(ws, start, goes_on, ret, err); /* somebody was faster */
    }
    return result;
}

/* The lock that a run needs; its whole id. */
static int look_up(struct tsk_workspace *ws, const char *given, char run_id[RUN_ID_MAX], struct run_lock *ret,
                   struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, given, &run, err) < 0)
        return -1;
    snprintf(run_id, RUN_ID_MAX, "%s", run.id);
    int result = book_run_stage(&run, &stage, err);
    rundir_clear(&run);
    *ret = run_lock_of_stage(stage);
    return result;
}

static int execution_resume(struct execution *e, const char *run_id, struct tsk_error *err)
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
    char run_id[RUN_ID_MAX];
    struct run_lock which;
    struct execution e = {.ws = ws, .start = start, .slot = -1};
    if (look_up(ws, start->resume, run_id, &which, err) < 0)
        return -1;
    bool is_request = which.kind == TSK_LOCK_REQUEST;
    if (is_request && start->examine && start->examine(ws, which.id, start->lang, err) < 0)
        return -1;
    int result = is_request    ? take_request_lock(&e, which.id, run_id, err)
                 : which.id[0] ? take_lock(&e, &which, run_id, NULL, err)
                               : 0;
    if (result == 0 && is_request)
        result = latest_need(ws, start, which.id, run_id, err);
    if (result == 0)
        result = execution_decide(&e, err);
    if (result == 0 && is_request)
        result = take_slot(&e, err);
    if (result == 0)
        result = execution_resume(&e, run_id, err);
    if (result == 0)
        result = execution_run(&e, ret, err);
    execution_finish(&e, result == 0 ? *ret : NULL);
    return result;
}

/* ---- a flow that is run directly -------------------------------------------------------------------------- */

static int execution_begin_flow(struct execution *e, const struct run_flow *what, const char *run_id,
                                struct tsk_error *err)
{
    struct runner_options options = options_of(e);
    options.start = what->start;
    options.only = what->only;
    options.params = what->params;
    if (e->lock) {
        options.id = run_id;
        options.exclusive = what->lock.id;
    }
    if (find_elsewhere(e, NULL, &options, err) < 0)
        return -1;
    e->has_runner = true;
    return runner_begin(&e->runner, e->ws, what->flow, what->text, what->len, what->values, &options, err);
}

int start_flow(struct tsk_workspace *ws, const struct run_start *start, const struct run_flow *what, json_t **ret,
               struct tsk_error *err)
{
    char run_id[RUN_ID_MAX];
    struct execution e = {.ws = ws, .start = start, .slot = -1};
    rundir_new_id(run_id);
    if (!what->lock.id[0])
        after_start(ws, NULL);
    int result = what->lock.id[0] ? take_lock(&e, &what->lock, run_id, what->again, err) : 0;
    if (result == 0)
        result = claim_pending(&e, run_id, err);
    if (result == 0)
        result = execution_begin_flow(&e, what, run_id, err);
    if (result == 0 && e.lock && start->after)
        after_begun(ws, &e.which, run_id);
    if (result == 0)
        result = execution_run(&e, ret, err);
    execution_finish(&e, result == 0 ? *ret : NULL);
    return result;
}
