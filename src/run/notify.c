#include "run/notify.h"
#include "base/fs.h"
#include "graph/rundir.h"
#include "run/run_log.h"
#include "store/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTIFY_MARKS "notified" /* of what is no run */

static bool is_inside_task(void)
{
    const char *run = getenv("TASUKI_RUN_ID");
    return run && *run;
}

/* ---- runs ----------------------------------------------------------------------------------------------- */

static bool event_of_status(const char *status, enum notify_event *ret)
{
    static const char *const statuses[] = {"NEEDS_INPUT", "FAILED", "DONE", "INTERRUPTED"};
    for (size_t i = 0; i < NOTIFY_EVENT_COUNT; i++)
        if (strcmp(statuses[i], status) == 0) {
            *ret = (enum notify_event)i;
            return true;
        }
    return false;
}

static json_t *event_of_run(const struct notice *notice, const json_t *stage)
{
    static const char *const keys[] = {"run_id",   "request_id",  "flow",   "source",   "status",    "started_at",
                                       "ended_at", "reason_code", "reason", "failures", "questions", "counts"};
    json_t *json = notice_json(notice);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(stage, keys[i]))
            json_object_set_new(json, keys[i], json_deep_copy(json_object_get(stage, keys[i])));
    run_log_add_failures(notice->ws, json, false);
    return json;
}

static bool mark_run_end(struct tsk_workspace *ws, const char *run_id, enum notify_event event)
{
    char name[64];
    struct rundir run;
    struct stat st = {0};
    struct tsk_error ignored; /* a run that is gone needs no notification */
    if (rundir_open(ws, run_id, &run, &ignored) < 0)
        return false;
    fs->fstatat(run.dir, "journal", &st, AT_SYMLINK_NOFOLLOW);
    snprintf(name, sizeof name, "notified.%s.%lld", notify_event_names[event], (long long)st.st_size); /* N2 */
    bool is_ours = notice_mark(run.dir, name);
    rundir_clear(&run);
    return is_ours;
}

void notify_run(struct tsk_workspace *ws, const json_t *stage)
{
    enum notify_event event;
    struct notice notice CLEANUP(notice_clear) = {.ws = ws};
    if (!event_of_status(json_get_string(stage, "status", ""), &event) || is_inside_task() ||
        !notice_open(&notice, ws, event) || !mark_run_end(ws, json_get_string(stage, "run_id", ""), event))
        return;
    json_t *json CLEANUP_JSON = event_of_run(&notice, stage);
    notice_send(&notice, json);
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

void notify_queue(struct tsk_workspace *ws, uint64_t fence, const char *reason)
{
    char name[64];
    struct notice notice CLEANUP(notice_clear) = {.ws = ws};
    if (is_inside_task() || !notice_open(&notice, ws, NOTIFY_STUCK))
        return;
    int folder CLEANUP_FD = fs_open_made_dir(ws->state_dir, NOTIFY_MARKS);
    snprintf(name, sizeof name, "queue.%" PRIu64, fence);
    if (folder < 0 || !notice_mark(folder, name))
        return;
    json_t *json CLEANUP_JSON = notice_json(&notice);
    json_object_set_new(json, "reason", json_string(reason));
    json_object_set_new(json, "fence", json_integer((json_int_t)fence));
    json_object_set_new(json, "flow", json_string("queue"));
    notice_send(&notice, json);
}
