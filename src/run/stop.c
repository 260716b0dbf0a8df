/* stop.c - ending a run from outside.
 *
 * What is seen before the run's byte is taken decides only who is asked: its runner, or we ourselves. Under the byte the journal
 * decides (D4 in rundir.h): a run that somebody has brought to its end meanwhile keeps that end. */
#include "base/clock.h"
#include "base/word.h"
#include "graph/journal.h"
#include "graph/run_tasks.h"
#include "run/book.h"
#include "run/settle.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BEGIN_MS 1000

static int signal_runner(const json_t *stage, bool is_now, struct tsk_error *err)
{
    struct proc_id id;
    if (!rundir_runner(stage, &id))
        errno = ESRCH;
    else if (proc_id_signal(&id, SIGCONT) == 0 && runner_ask_cancel(&id, is_now) == 0)
        return 0; /* one that is stopped (Ctrl-Z) hears only when it continues */
    return error_errno(err, "signal", "runner");
}

static bool nap_until(int64_t until)
{
    clock_nap(2);
    return clock_now().boot_ms <= until;
}

/* A run that has just begun may not have said who executes it. */
static int stop_look(const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct proc_id id;
    int64_t until = clock_now().boot_ms + BEGIN_MS;
    for (;;) {
        if (book_run_stage(run, ret, err) < 0)
            return -1;
        bool is_running = json_text_is(*ret, "status", "RUNNING");
        if (!is_running || rundir_runner(*ret, &id) || !nap_until(until))
            return 0;
        json_free(ret);
    }
}

/* It holds the run's byte, and yet there is no such process. */
static int refuse_unseen(const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    const json_t *runner = json_object_get(stage, "runner");
    error_set(err, TSK_ENVIRONMENT, "runner_unseen", "run", run->id, "pid", DIGITS(json_get_int(runner, "pid", 0)),
              NULL);
    return error_add_next(err, "tasuki runs show %s", run->id);
}

/* Asks the runner of a run that is RUNNING. One that is dying has no ears any more: a moment later the run is INTERRUPTED. */
static int ask_runner(const struct rundir *run, json_t **stage, bool is_now, bool *ret_is_asked, struct tsk_error *err)
{
    int64_t until = clock_now().boot_ms + BEGIN_MS;
    *ret_is_asked = false;
    while (json_text_is(*stage, "status", "RUNNING")) {
        *ret_is_asked = signal_runner(*stage, is_now, err) == 0;
        if (*ret_is_asked)
            return 0;
        if (err->sys_errno != ESRCH)
            return -1;
        if (!nap_until(until))
            return rundir_has_runner(run) ? refuse_unseen(run, *stage, err) : -1;
        json_free(stage);
        if (stop_look(run, stage, err) < 0)
            return -1;
    }
    return 0;
}

/* The word for a run that is over; NULL: it is not. */
static const char *over_word(const char *status)
{
    static const char *const over[] = {"DONE", "FAILED", "CANCELLED"};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (strcmp(status, over[i]) == 0)
            return over[i];
    return NULL;
}

/* With both bytes taken; *ret_status: how the run has ended meanwhile, NULL: it has not. What is out on workers ends before any process
 * of this machine does: without the server the cancel is refused and must have changed nothing (T2 in settle.h). */
static int take_idle(struct tsk_workspace *ws, struct rundir *run, const char **ret_status, struct tsk_error *err)
{
    json_t *records CLEANUP_JSON = NULL;
    *ret_status = NULL;
    if (rundir_take(run, err) < 0)
        return -1;
    /* A run without a journal cannot continue; it must be possible to give it up. */
    if (journal_read_whole(run->dir, &records, err) < 0 && err->sys_errno != ENOENT)
        return -1;
    *ret_status = over_word(rundir_end_of(records));
    if (*ret_status)
        return 0;
    return settle_run(ws, run->id, err) < 0 ? -1 : rundir_take_life(run, rundir_was_interrupted(records), err);
}

/* The stage as it is under the byte, or what was seen before if it cannot be read. */
static int write_cancelled(struct rundir *run, json_t *seen, struct tsk_error *err)
{
    struct tsk_error ignored;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_read_stage(run, &stage, &ignored) < 0)
        stage = json_incref(seen);
    json_object_set_new(stage, "status", json_string("CANCELLED"));
    run_tasks_set_questions(stage, json_array());
    json_array_append_new(
        json_object_get(stage, "history"),
        json_pack("{s:s, s:s, s:s}", "time", TIME_EXACT(clock_now().wall_ms), "what", "ended", "status", "CANCELLED"));
    return rundir_write_stage(run, stage, err);
}

static int tell_cancelled(struct tsk_workspace *ws, const struct rundir *run, const json_t *stage,
                          struct tsk_error *err)
{
    struct now now = clock_now();
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *data CLEANUP_JSON =
        json_pack("{s:s, s:s*}", "status", "CANCELLED", "request_id", json_get_string(stage, "request_id", NULL));
    json_write(&text, data, false);
    struct event event = {.type = "run.ended", .session_id = run->id, .run_id = run->id, .data = buf_str(&text)};
    return workspace_event(ws, &now, &event, err);
}

/* Nobody executes it: only the record changes. */
static int cancel_idle(struct tsk_workspace *ws, struct rundir *run, json_t *stage, const char **ret_status,
                       struct tsk_error *err)
{
    struct journal journal;
    if (take_idle(ws, run, ret_status, err) < 0)
        return -1;
    if (*ret_status)
        return 0;
    if (journal_open(&journal, run->dir, false, err) < 0)
        return -1;
    buf_json_pair(journal_begin(&journal, "done"), "status", "CANCELLED");
    journal_end(&journal);
    int result = journal_flush(&journal, err);
    journal_close(&journal);
    if (result < 0 || write_cancelled(run, stage, err) < 0)
        return -1;
    *ret_status = "CANCELLED";
    return tell_cancelled(ws, run, stage, err);
}

int stop_run(struct tsk_workspace *ws, const char *run_id, bool is_now, char id[RUN_ID_MAX], const char **ret_status,
             struct tsk_error *err)
{
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return -1;
    snprintf(id, RUN_ID_MAX, "%s", run.id);
    bool is_asked = false;
    int result = stop_look(&run, &stage, err);
    if (result == 0)
        result = ask_runner(&run, &stage, is_now, &is_asked, err);
    *ret_status = is_asked ? "CANCELLING" : over_word(json_get_string(stage, "status", ""));
    if (result == 0 && !*ret_status)
        result = cancel_idle(ws, &run, stage, ret_status, err);
    rundir_clear(&run);
    return result;
}
