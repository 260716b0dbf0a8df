/* unbegun.c - S8: runs that a queue wanted to begin, or to continue with, and that cannot be executed. */
#include "base/log.h"
#include "base/text.h"
#include "graph/journal.h"
#include "run/book.h"
#include "run/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What another attempt would find unchanged. */
static bool is_lasting(const struct tsk_error *why)
{
    bool is_of_file = why->sys_errno == 0 || why->sys_errno == ENOENT || why->sys_errno == ENOTDIR ||
                      why->sys_errno == EACCES || why->sys_errno == EISDIR || why->sys_errno == ELOOP ||
                      why->sys_errno == EFBIG || why->sys_errno == ENAMETOOLONG;
    return is_of_file && why->code != TSK_RUN_IN_PROGRESS && why->code != TSK_CONFLICT &&
           why->code != TSK_PROCESS_STOP_FAILED && why->code != TSK_STORAGE_FULL;
}

static void put_stage_reason(json_t *stage, enum lang lang, const struct tsk_error *why)
{
    json_object_set_new(stage, "status", json_string("FAILED"));
    text_keep_reason(stage, lang, why);
    json_object_set_new(stage, "runner", json_null());
}

static json_t *stage_of(const struct request *request, const char *run_id, enum lang lang, const struct tsk_error *why)
{
    const char *flow = json_get_string(request->json, "flow", NULL);
    const char *time = TIME_EXACT(clock_now().wall_ms);
    json_t *stage =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:{s:i, s:i, s:i, s:i}, s:[], s:[], s:{}, s:[]}", "run_id",
                  run_id, "source", flow ? flow : request->source, "session_id", run_id, "request_id", request->id,
                  "request_updated_at", request->updated_at, "started_at", time, "ended_at", time, "counts", "total", 0,
                  "done", 0, "failed", 0, "steps", 0, "failures", "questions", "channel", "tasks");
    put_stage_reason(stage, lang, why);
    return stage;
}

static int write_journal(const struct rundir *run, const struct request *request, const json_t *stage,
                         struct tsk_error *err)
{
    char cwd[PATH_MAX];
    struct journal journal;
    if (journal_open(&journal, run->dir, false, err) < 0)
        return -1;
    struct buf *record = journal_begin(&journal, "run");
    buf_json_pair(record, "run", run->id);
    buf_json_pair(record, "flow", json_get_string(stage, "source", ""));
    buf_json_pair(record, "cwd", getcwd(cwd, sizeof cwd) ? cwd : "/");
    buf_json_pair(record, "request", request->id);
    buf_json_pair(record, "request_updated_at", request->updated_at);
    buf_json_pair_int(record, "tasks", 0);
    journal_end(&journal);
    buf_json_pair(journal_begin(&journal, "done"), "status", "FAILED");
    journal_end(&journal);
    int result = journal_flush(&journal, err);
    journal_close(&journal);
    return result;
}

static void unbegun_tell(struct tsk_workspace *ws, const char *request_id, const char *run_id,
                         const struct tsk_error *why)
{
    workspace_report(ws, (struct event){.type = "run.ended", .session_id = run_id, .run_id = run_id},
                     json_pack("{s:s, s:s, s:s}", "status", "FAILED", "reason_code", tsk_code_name(why->code),
                               "request_id", request_id));
}

int unbegun_record(struct tsk_workspace *ws, const struct request *request, const char *run_id, enum lang lang,
                   const struct tsk_error *why, struct tsk_error *err)
{
    struct rundir run;
    *err = *why;
    if (!is_lasting(why))
        return -1;
    json_t *stage CLEANUP_JSON = stage_of(request, run_id, lang, why);
    if (book_note_run(ws, request->id, run_id, err) < 0 || rundir_create(ws, run_id, &run, err) < 0)
        return -1;
    int result = write_journal(&run, request, stage, err);
    if (result == 0)
        result = rundir_write_stage(&run, stage, err);
    if (result == 0)
        result = rundir_publish(ws, &run, err);
    rundir_clear(&run);
    if (result < 0)
        return -1;
    unbegun_tell(ws, request->id, run_id, why);
    *err = *why;
    return error_add(err, "run_id", run_id);
}

void unbegun_mark(const struct rundir *run, enum lang lang, struct tsk_error *err)
{
    struct tsk_error problem;
    json_t *stage CLEANUP_JSON = NULL;
    if (run->runner_fd < 0 || !is_lasting(err) || rundir_look(run, &stage, &problem) < 0 || !book_has_begun(stage))
        return;
    put_stage_reason(stage, lang, err);
    if (rundir_write_stage(run, stage, &problem) < 0)
        log_problem(&problem);
    else
        error_add(err, "run_id", run->id);
}
