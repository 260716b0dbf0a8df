/* again.c - putting a request back that is done or has failed. */
#include "base/log.h"
#include "lock/held.h"
#include "run/book.h"
#include "run/start.h"

#include <string.h>

static int refuse_again(const struct book_entry *entry, enum tsk_code code, const char *text, const char *next,
                        struct tsk_error *err)
{
    const char *run = json_get_string(entry->run, "run_id", ""), *id = entry->request.id;
    error_set(err, code, text, "request", id, "request_id", id, "run_id", run, "run", run, NULL);
    return error_add_next(err, "%s%s", next, code == TSK_CONFLICT ? " --status ready" : "");
}

/* 1: it is to be put back; 0: it is ready as it is. */
static int judge_again(const struct book_entry *entry, struct tsk_error *err)
{
    char next[LOCK_ID_MAX + 64];
    const char *status = book_status(entry), *run = json_get_string(entry->run, "run_id", "");
    if (strcmp(status, "running") == 0) {
        snprintf(next, sizeof next, "tasuki runs show %s", run);
        return refuse_again(entry, TSK_RUN_IN_PROGRESS, "run_has_runner", next, err);
    }
    if (strcmp(status, "needs_input") == 0) {
        snprintf(next, sizeof next, "tasuki runs show %s", run);
        return refuse_again(entry, TSK_NEEDS_INPUT, "request_waits", next, err);
    }
    if (strcmp(status, "draft") == 0 || strcmp(status, "archived") == 0) {
        snprintf(next, sizeof next, "tasuki request edit %s", entry->request.id);
        return refuse_again(entry, TSK_CONFLICT, "request_not_ready", next, err);
    }
    if (strcmp(status, "broken") == 0)
        return request_need_whole(&entry->request, err);
    return strcmp(status, "done") == 0 || strcmp(status, "failed") == 0;
}

static int look_again(struct tsk_workspace *ws, const char *request_id, enum lang lang, bool is_ours,
                      struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    if (book_open(ws, false, lang, &book, err) < 0)
        return -1;
    struct book_entry *entry = book_find(&book, request_id);
    if (!entry) {
        error_set(err, TSK_REQUEST_NOT_FOUND, "request_unknown", "request", request_id, NULL);
        return error_add_next(err, "tasuki request list");
    }
    if (is_ours) { /* the lock that makes it `running` */
        json_decref(entry->lock);
        entry->lock = NULL;
    }
    return judge_again(entry, err);
}

int book_put_back(struct tsk_workspace *ws, const char *request_id, enum lang lang, bool *ret_changed,
                  struct tsk_error *err)
{
    struct tsk_error problem;
    struct tsk_lock *lock = NULL;
    struct tsk_lock_options options = {.size = sizeof options};
    *ret_changed = false;
    int is_due = look_again(ws, request_id, lang, false, err);
    if (is_due <= 0)
        return is_due;
    if (tsk_lock_acquire(ws, TSK_LOCK_REQUEST, request_id, &options, &lock, err) < 0)
        return -1;
    is_due = look_again(ws, request_id, lang, true, err); /* what was seen without the lock was a guess */
    int result = is_due > 0 ? book_forget_run(ws, request_id, err) : is_due;
    if (is_due > 0 && result == 0) {
        workspace_report(ws, (struct event){.type = "request.again"}, json_pack("{s:s}", "request_id", request_id));
        *ret_changed = true;
    }
    if (tsk_lock_release(lock, &problem) < 0)
        log_problem(&problem);
    return result;
}
