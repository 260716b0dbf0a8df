/* stop.c - ending a run from outside. */
#include "graph/journal.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int signal_runner(const json_t *stage, bool is_now, struct tsk_error *err)
{
    struct proc_id id;
    if (!rundir_runner(stage, &id))
        errno = ESRCH;
    else if (proc_id_signal(&id, SIGTERM) == 0) {
        if (is_now)
            proc_id_signal(&id, SIGHUP); /* a second signal: two equal ones would be one */
        return 0;
    }
    return error_errno(err, "signal", "runner");
}

/* Nobody executes it: only the record changes. */
static int cancel_idle(struct tsk_workspace *ws, struct rundir *run, json_t *stage, struct tsk_error *err)
{
    struct journal journal;
    struct now now = clock_now();
    struct event event = {
        .type = "run.ended", .session_id = run->id, .run_id = run->id, .data = "{\"status\":\"CANCELLED\"}"};
    json_t *records CLEANUP_JSON = NULL;
    if (rundir_take(run, err) < 0 || journal_read_whole(run->dir, &records, err) < 0 ||
        journal_open(&journal, run->dir, false, err) < 0)
        return -1;
    buf_json_pair(journal_begin(&journal, "done"), "status", "CANCELLED");
    journal_end(&journal);
    int result = journal_flush(&journal, err);
    journal_close(&journal);
    json_object_set_new(stage, "status", json_string("CANCELLED"));
    json_object_set_new(stage, "questions", json_array());
    if (result < 0 || rundir_write_stage(run, stage, err) < 0)
        return -1;
    return workspace_event(ws, &now, &event, err);
}

int stop_run(struct tsk_workspace *ws, const char *run_id, bool is_now, char id[RUN_ID_MAX], const char **ret_status,
             struct tsk_error *err)
{
    static const char *const over[] = {"DONE", "FAILED", "CANCELLED"};
    struct rundir run;
    json_t *stage CLEANUP_JSON = NULL;
    if (rundir_open(ws, run_id, &run, err) < 0)
        return -1;
    snprintf(id, RUN_ID_MAX, "%s", run.id);
    int result = rundir_look(&run, &stage, err);
    const char *status = json_get_string(stage, "status", "");
    *ret_status = NULL;
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (strcmp(status, over[i]) == 0)
            *ret_status = over[i];
    if (result == 0 && strcmp(status, "RUNNING") == 0) {
        result = signal_runner(stage, is_now, err);
        *ret_status = "CANCELLING";
    } else if (result == 0 && !*ret_status) {
        result = cancel_idle(ws, &run, stage, err);
        *ret_status = "CANCELLED";
    }
    rundir_clear(&run);
    return result;
}
