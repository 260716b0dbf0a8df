/* latest.c - S6, S7, S9: what the latest run of a request means for the next `request run`, resume or queue. */
#include "base/clock.h"
#include "base/fs.h"
#include "lock/lock.h"
#include "run/book.h"
#include "run/start.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LEAVE_MS 2000 /* at most this long latest_wait waits for a killed runner to close its files */

/* A request whose latest run cannot be known is not run: doctor names the file. */
static int latest_unknown(struct tsk_error *err)
{
    if (!tsk_error_next(err, 0))
        error_add_next(err, "tasuki doctor");
    return -1;
}

/* The latest run of a request as it is now; *ret_stage NULL: there is none that has begun. */
static int look_at_latest(struct tsk_workspace *ws, const char *request_id, char latest[RUN_ID_MAX], bool tidies,
                          json_t **ret_stage, struct tsk_error *err)
{
    struct rundir dir;
    json_t *stage CLEANUP_JSON = NULL;
    *ret_stage = NULL;
    if (book_latest_run(ws, request_id, latest, err) < 0)
        return latest_unknown(err);
    if (!latest[0])
        return 0;
    if (rundir_open(ws, latest, &dir, err) < 0)
        return err->code == TSK_RUN_NOT_FOUND ? 0 : latest_unknown(err);
    int looked = book_run_stage(&dir, &stage, err);
    bool has_begun = looked == 0 && book_has_begun(stage);
    if (looked == 0 && !has_begun && tidies)
        rundir_remove_unbegun(ws, &dir); /* its runner was killed before it began: it cannot be continued */
    rundir_clear(&dir);
    *ret_stage = has_begun ? json_incref(stage) : NULL;
    return looked < 0 ? latest_unknown(err) : 0;
}

void latest_wait(struct tsk_workspace *ws, const char *request_id)
{
    int64_t until = clock_now().boot_ms + LEAVE_MS;
    for (;;) {
        char latest[RUN_ID_MAX];
        struct tsk_error ignored;
        json_t *stage CLEANUP_JSON = NULL;
        int looked = look_at_latest(ws, request_id, latest, false, &stage, &ignored);
        if (looked < 0 || !json_text_is(stage, "status", "RUNNING") || clock_now().boot_ms > until)
            return;
        clock_nap(2);
    }
}

static bool waits_for_answer(const json_t *stage)
{
    return json_text_is(stage, "status", "NEEDS_INPUT");
}

/* S9. It is RUNNING for the moment in which who answers has the run's byte. */
static bool is_answered(const json_t *stage)
{
    const char *status = json_get_string(stage, "status", "");
    return json_get_bool(stage, "answered", false) &&
           (strcmp(status, "INTERRUPTED") == 0 || strcmp(status, "RUNNING") == 0);
}

/* S9. */
static bool can_go_on(const json_t *stage)
{
    return is_answered(stage) || json_text_is(stage, "status", "INTERRUPTED");
}

/* Whether the run was begun with what the flow's file says now; if the file cannot be read, the resumed run reports it. */
static bool is_same_flow(const struct wanted *wanted, const char *run_id)
{
    struct rundir dir;
    struct tsk_error ignored;
    struct buf begun CLEANUP(buf_clear) = {.max = FLOW_SIZE_MAX};
    if (!json_object_get(wanted->request->json, "flow") || rundir_open(wanted->ws, run_id, &dir, &ignored) < 0)
        return true;
    bool is_read = fs_read_file(dir.dir, "flow.yaml", FLOW_SIZE_MAX - 1, &begun) == 0;
    rundir_clear(&dir);
    return !is_read ||
           (begun.len == wanted->flow->len && memcmp(buf_str(&begun), buf_str(wanted->flow), begun.len) == 0);
}

/* S9. The run would continue with the old text, but the file has a new one: a person has to decide. */
static int refuse_changed(const char *text, const char *request_id, const char *latest, struct tsk_error *err)
{
    error_set(err, TSK_CONFLICT, text, "request", request_id, "run", latest, NULL);
    error_add(err, "request_id", request_id);
    error_add(err, "run_id", latest);
    error_add_next(err, "tasuki resume %s", latest);
    return error_add_next(err, "tasuki request run %s --new", request_id);
}

/* -1, and start_request continues with that run. */
static int go_on_instead(const struct wanted *wanted, const char *run_id, const json_t *stage, char goes_on[RUN_ID_MAX],
                         struct tsk_error *err)
{
    const struct request *request = wanted->request;
    bool must_be_same = !is_answered(stage) && !wanted->start->queue;
    if (must_be_same && !book_is_same_file(request, stage))
        return refuse_changed("request_changed_since", request->id, run_id, err);
    if (must_be_same && !is_same_flow(wanted, run_id))
        return refuse_changed("request_flow_changed_since", request->id, run_id, err);
    snprintf(goes_on, RUN_ID_MAX, "%s", run_id);
    return error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", run_id, NULL);
}

static int refuse_waiting(const char *request_id, const char *latest, struct tsk_error *err)
{
    error_set(err, TSK_NEEDS_INPUT, "request_waits", "request", request_id, "run", latest, NULL);
    error_add(err, "request_id", request_id);
    error_add(err, "run_id", latest);
    error_add_next(err, "tasuki runs show %s", latest); /* it has the questions, and the forms of their answers */
    return error_add_next(err, "tasuki answer %s TEXT", latest);
}

static bool is_locked(struct tsk_workspace *ws, const char *request_id)
{
    struct tsk_error ignored;
    struct lock_target target;
    struct judgement found = {.verdict = VERDICT_FREE};
    if (lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_REQUEST), request_id, NULL, &ignored) < 0)
        return false;
    bool is = lock_inspect(&target, &found, &ignored) == 0 && found.verdict == VERDICT_HELD;
    lock_target_clear(&target);
    return is;
}

/* A run that is just being continued is locked: then the lock decides. */
int latest_settle_early(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err)
{
    const char *id = wanted->request->id;
    char latest[RUN_ID_MAX];
    json_t *stage CLEANUP_JSON = NULL;
    if (wanted->start->is_new)
        return 0;
    if (look_at_latest(wanted->ws, id, latest, false, &stage, err) < 0)
        return -1;
    if ((!waits_for_answer(stage) && !can_go_on(stage)) || is_locked(wanted->ws, id))
        return 0;
    return can_go_on(stage) ? go_on_instead(wanted, latest, stage, goes_on, err) : refuse_waiting(id, latest, err);
}

int latest_settle(const struct wanted *wanted, char goes_on[RUN_ID_MAX], struct tsk_error *err)
{
    const char *id = wanted->request->id, *status;
    char latest[RUN_ID_MAX], run[RUN_ID_MAX];
    json_t *stage CLEANUP_JSON = NULL;
    if (look_at_latest(wanted->ws, id, latest, true, &stage, err) < 0)
        return -1;
    if (!waits_for_answer(stage) && !can_go_on(stage))
        return 0;
    if (wanted->start->is_new)
        return stop_run(wanted->ws, latest, false, run, &status, err);
    return can_go_on(stage) ? go_on_instead(wanted, latest, stage, goes_on, err) : refuse_waiting(id, latest, err);
}

/* S7: an answer continues with the run that has asked, once, and not with one that another has taken the place of. */
static int need_answered(const char *run_id, const char *latest, const json_t *stage, struct tsk_error *err)
{
    if (json_text_is(stage, "status", "CANCELLED"))
        return error_set(err, TSK_CONFLICT, "run_given_up", "run", run_id, NULL);
    if (!is_answered(stage))
        return error_set(err, TSK_CONFLICT, START_ANSWER_USED, "run", run_id, NULL);
    if (!latest[0] || strcmp(latest, run_id) == 0)
        return 0;
    error_set(err, TSK_CONFLICT, "run_replaced", "run", run_id, "latest", latest, NULL);
    return error_add_next(err, "tasuki runs show %s", latest);
}

int latest_need(struct tsk_workspace *ws, const struct run_start *start, const char *request_id, const char *run_id,
                struct tsk_error *err)
{
    char latest[RUN_ID_MAX];
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (!start->is_answered && !start->is_instead)
        return 0;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return -1;
    int looked = start->is_instead ? book_run_stage(&run, &stage, err) : rundir_look(&run, &stage, err);
    rundir_clear(&run);
    if (looked < 0 || book_latest_run(ws, request_id, latest, err) < 0)
        return latest_unknown(err);
    if (start->is_answered)
        return need_answered(run_id, latest, stage, err);
    bool is_latest = !latest[0] || strcmp(latest, run_id) == 0;
    return is_latest && can_go_on(stage) ? 0 : error_set(err, TSK_CONFLICT, START_ANSWER_USED, "run", run_id, NULL);
}
