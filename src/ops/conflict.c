#include "ops/conflict.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/who.h"
#include "ops/run_args.h"
#include "ops/waits.h"
#include "run/after.h"
#include "run/detach.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REPLACE_WAIT_MS 30000
#define ATTEMPTS_MAX    20 /* the conflicting run may end, or never begin, before it is followed */
#define AGAIN_MS        5

const char *const conflict_rules[] = {"fail", "attach", "replace", "after", NULL};

/* True if the followed run was executed at all. It was not if its lock was taken and the runner was refused after that. */
static bool has_begun(const json_t *stage)
{
    return *json_get_string(stage, "started_at", "");
}

/* Whether we are a task of that run: it does not end before we do. */
static bool is_around_us(const char *run)
{
    const char *chain = getenv("TASUKI_RUN_CHAIN");
    for (size_t len; chain && *chain; chain += len + (chain[len] == ':')) {
        len = strcspn(chain, ":");
        if (strlen(run) == len && strncmp(chain, run, len) == 0)
            return true;
    }
    return false;
}

static bool conflict_is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

/* How `attach` treats the run that is there. */
struct attach {
    int64_t follow_ms;
    conflict_is_same *is_same;
    void *data;
};

/* *err is the refusal. */
static int refuse_other(const char *run, struct tsk_error *err)
{
    err->text = "run_attach_differs";
    error_clear_next(err);
    error_add_next(err, "tasuki runs show %s", run);
    return error_add_next(err, "tasuki wait run %s", run);
}

static bool run_is_other(struct op_call *call, const struct attach *attach, const char *run)
{
    return attach->is_same && !attach->is_same(call, attach->data, run);
}

/* The run that is there already. 1: there is none after all. A run that does something else is not followed: before, and again
 * afterwards, when its first record is there in any case. */
static int run_attach(struct op_call *call, const struct run_lock *lock, const char *run, const struct attach *attach,
                      json_t **ret, struct tsk_error *err)
{
    json_t *stage CLEANUP_JSON = NULL;
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    struct tsk_error refusal = *err;
    if (run_is_other(call, attach, run))
        return refuse_other(run, err);
    if (attach->follow_ms)
        op_wait_begin(&waiting, call, call->ws, "run", run);
    int result = run_follow(call->ws, run, lock, attach->follow_ms, conflict_is_cancelled, call, &stage, err);
    op_wait_end(&waiting);
    if (result < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 1 : -1;
    if (!has_begun(stage))
        return 1;
    bool is_running = json_text_is(stage, "status", "RUNNING");
    if (run_is_other(call, attach, run)) {
        *err = refusal;
        return is_running ? refuse_other(run, err) : 1;
    }
    json_object_set_new(stage, "attached", json_true());
    run_judge(call, stage);
    call->goes_on = is_running;
    *ret = json_incref(stage);
    return 0;
}

/* *err is the refusal: its facts stay, and its commands, which wait for the run. None of them says yes: its runner lives. */
static int confirm_replace(struct op_call *call, const char *run, struct tsk_error *err)
{
    const char *request = tsk_error_context(err, "request_id"), *flow = tsk_error_context(err, "flow");
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    if (json_get_bool(call->args, "yes", false))
        return 0;
    text_put(&question, call->lang, "request_replace_question", "request",
             flow      ? flow
             : request ? request
                       : "",
             "run", run, NULL);
    if (call->confirm && call->confirm(call, buf_str(&question)))
        return 0;
    err->code = TSK_NEEDS_CONFIRMATION;
    err->text = flow ? "flow_replace_needs" : "request_replace_needs";
    return -1;
}

/* Cancels the run; 0: its lock is free now, or 1: there was no such run. */
static int run_replace(struct op_call *call, const struct run_lock *lock, const char *run, struct tsk_error *err)
{
    char id[RUN_ID_MAX];
    const char *status;
    json_t *stage CLEANUP_JSON = NULL;
    if (confirm_replace(call, run, err) < 0)
        return -1;
    bool existed; /* the newest wins: this run is newer than one that is pending */
    if (after_drop(call->ws, lock, NULL, "replaced", &existed, err) < 0)
        return -1;
    bool is_stopped = stop_run(call->ws, run, false, id, &status, err) == 0;
    if (!is_stopped && err->code != TSK_RUN_NOT_FOUND && err->sys_errno == 0)
        return -1; /* a runner that has ended since needs no signal */
    if (run_follow(call->ws, run, lock, REPLACE_WAIT_MS, NULL, NULL, &stage, err) < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 1 : -1;
    /* Its runner was killed before it could record the end: the run must not be continued (S9). */
    bool is_left = json_text_is(stage, "status", "INTERRUPTED");
    return is_left ? stop_run(call->ws, run, false, id, &status, err) : 0;
}

/* The job of a runner that does what this call wants, later and without it. Owned. */
static json_t *conflict_job_of(const struct op_call *call)
{
    char cwd[PATH_MAX];
    json_t *args CLEANUP_JSON = json_deep_copy(call->args);
    conflict_strip(args);
    json_object_del(args, "detach");
    return json_pack("{s:s, s:s, s:O, s:s, s:o, s:s}", "name", call->op->name, "op", call->op->name, "args", args,
                     "lang", lang_name(call->lang), "who", who_json(who_current()), "cwd",
                     getcwd(cwd, sizeof cwd) ? cwd : call->ws->root);
}

/* The answer of a run that is pending: the run that is there, and what follows it. */
static json_t *pending_json(const struct run_lock *lock, const char *run, const char *id, bool has_replaced)
{
    bool is_request = lock->kind == TSK_LOCK_REQUEST;
    return json_pack("{s:s, s:s, s:s, s:s, s:b}", "run_id", run, "status", "PENDING",
                     is_request ? "request_id" : "flow", is_request ? lock->id : lock->id + strlen(FLOW_LOCK_PREFIX),
                     "pending", id, "replaced", (int)has_replaced);
}

/* Records it once (after.h, A1), then looks at the lock (A2). 0: the runner that has it starts what is pending; 1: we try ourselves. */
static int run_after(struct op_call *call, const struct run_lock *lock, const char *run, json_t **ret,
                     struct tsk_error *err)
{
    char id[AFTER_ID_SIZE];
    bool has_replaced = false;
    const char *recorded = json_get_string(call->args, "after", NULL);
    json_t *job CLEANUP_JSON = conflict_job_of(call);
    if (!recorded && after_record(call->ws, lock, job, run, id, &has_replaced, err) < 0)
        return -1;
    if (!recorded)
        json_object_set_new(call->args, "after", json_string(id));
    if (!run_lock_is_taken_by(call->ws, lock, NULL))
        return 1;
    *ret = pending_json(lock, run, json_get_string(call->args, "after", ""), has_replaced);
    call->goes_on = true;
    return 0;
}

/* 1: it is settled; 0: try again; -1: refused. *err is the refusal, and what is left if the lock names no run of ours: then there is
 * nothing to follow or to cancel. */
static int conflict_settle(struct op_call *call, const struct attach *attach, json_t **ret, bool *ret_is_gone,
                           struct tsk_error *err)
{
    char run[LOCK_ID_MAX];
    struct tsk_error refusal = *err;
    const struct run_lock lock = run_lock_of_refusal(&refusal);
    const char *rule = json_get_string(call->args, "on_conflict", "fail");
    *ret_is_gone = false;
    if (!start_refused_by(&refusal, run) || strcmp(rule, "fail") == 0 ||
        (strcmp(rule, "after") != 0 && is_around_us(run)))
        return -1;
    bool replaces = strcmp(rule, "replace") == 0;
    int result = replaces                      ? run_replace(call, &lock, run, err)
                 : strcmp(rule, "attach") == 0 ? run_attach(call, &lock, run, attach, ret, err)
                                               : run_after(call, &lock, run, ret, err);
    if (result == 1)
        *err = refusal;
    *ret_is_gone = result == 1;
    return result == 0 ? (replaces ? 0 : 1) : -1;
}

/* Our pending run is not pending any more: another process began it, or a newer one took its place. It is done with. */
static bool was_taken_over(struct op_call *call, const struct tsk_error *err)
{
    return json_object_get(call->args, "after") && err->code == TSK_CONFLICT && err->text &&
           strcmp(err->text, AFTER_GONE) == 0;
}

/* A refusal changes nothing: the pending run that this call has recorded is removed, if it is still there. The runner of a pending run
 * (`is_runner`) removes nothing: the holder that it met may be another runner, which is about to begin the same one (after.h, A7). */
static int conflict_give_up(struct op_call *call, const struct run_lock *lock, bool is_runner, struct tsk_error *err)
{
    bool existed;
    struct tsk_error problem;
    const char *id = json_get_string(call->args, "after", NULL);
    if (id && !is_runner && lock->id[0] &&
        after_drop(call->ws, lock, id, tsk_code_name(err->code), &existed, &problem) < 0)
        log_problem(&problem);
    return -1;
}

int conflict_run(struct op_call *call, conflict_attempt *attempt, conflict_is_same *is_same, void *data,
                 int64_t follow_ms, json_t **ret, struct tsk_error *err)
{
    char run[LOCK_ID_MAX] = "";
    struct run_lock lock = {.kind = TSK_LOCK_NAME};
    const struct attach attach = {.follow_ms = follow_ms, .is_same = is_same, .data = data};
    const bool is_runner = json_object_get(call->args, "after");
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
        bool is_gone = false;
        if (attempt(call, data, ret, err) == 0)
            return 0;
        if (was_taken_over(call, err)) {
            *ret = pending_json(&lock, run, json_get_string(call->args, "after", ""), false);
            return 0;
        }
        if (start_refused_by(err, run))
            lock = run_lock_of_refusal(err);
        int settled = conflict_settle(call, &attach, ret, &is_gone, err);
        if (settled == 1)
            return 0;
        if (settled < 0 && !is_gone)
            return conflict_give_up(call, &lock, is_runner, err);
        if (is_gone) /* a moment later it is free, or held by somebody else, or by the same, which is no runner of ours */
            clock_nap(AGAIN_MS);
    }
    return conflict_give_up(call, &lock, is_runner, err);
}

void conflict_strip(json_t *args)
{
    json_object_del(args, "on_conflict");
    json_object_del(args, "output");
    json_object_del(args, "yes");
}
