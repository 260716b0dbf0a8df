#include "run/settle.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/text.h"
#include "graph/remote_mark.h"
#include "lock/wait.h"
#include "run/elsewhere.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MARK_SIZE_MAX 65536
#define MARK_WAIT_MS  60000 /* the other one may wait for a lease */

/* The mark, and its lock (T3) as long as *ret_fd is open. 1: there is none. */
static int take_mark(struct tsk_workspace *ws, const char *path, int *ret_fd, json_t **ret, struct tsk_error *err)
{
    struct stat st;
    struct buf text CLEANUP(buf_clear) = {.max = MARK_SIZE_MAX};
    *ret_fd = fs->openat(ws->state_dir, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (*ret_fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    if (*ret_fd >= 0 && wait_for_file(*ret_fd, ws->state_dir, path, MARK_WAIT_MS, err) < 0)
        return -1;
    if (*ret_fd < 0 || fs->fstat(*ret_fd, &st) < 0 || fs_read_fd(*ret_fd, MARK_SIZE_MAX - 1, &text) < 0)
        return fs_error(err, "read", ws->state_dir, path);
    if (st.st_nlink == 0)
        return 1;
    return json_parse(buf_str(&text), text.len, path, ret, err);
}

/* T2. */
static int refuse_unsettled(const char *run_id, const json_t *mark, struct tsk_error *err)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    const char *server = json_get_string(mark, "redis", "");
    text_put_error(&reason, lang_from_environment(), err);
    error_set(err, TSK_RUN_IN_PROGRESS, "run_elsewhere", "run", run_id, "until",
              TIME_LOCAL(clock_now().wall_ms + json_get_int(mark, "lease_ms", 0)), "reason", buf_str(&reason), NULL);
    return error_add_next(err, "tasuki workers list --redis %s", server);
}

/* *ret_swept: nothing of the run is on the server any more. */
static int settle_marked(struct tsk_workspace *ws, const char *run_id, const json_t *mark, bool *ret_swept,
                         struct tsk_error *err)
{
    char epoch[32], lease[32];
    struct elsewhere elsewhere;
    json_t *answer CLEANUP_JSON = NULL;
    const char *const question[] = {"settle", run_id, epoch, lease, NULL};
    snprintf(epoch, sizeof epoch, "%lld", (long long)json_get_int(mark, "epoch", 0));
    snprintf(lease, sizeof lease, "%lld", (long long)json_get_int(mark, "lease_ms", 0));
    int result = elsewhere_find(ws, NULL, json_get_string(mark, "redis", ""), &elsewhere, err);
    if (result == 0)
        result = elsewhere_ask(&elsewhere, question, &answer, err);
    elsewhere_clear(&elsewhere);
    *ret_swept = result == 0 && json_is_true(json_object_get(answer, "swept"));
    return result < 0 ? refuse_unsettled(run_id, mark, err) : 0;
}

int settle_run(struct tsk_workspace *ws, const char *run_id, struct tsk_error *err)
{
    char path[RUN_ID_MAX + 32];
    json_t *mark CLEANUP_JSON = NULL;
    int fd CLEANUP_FD = -1;
    snprintf(path, sizeof path, REMOTE_MARKS "/%.63s", run_id);
    int found = take_mark(ws, path, &fd, &mark, err);
    if (found != 0)
        return found < 0 ? -1 : 0;
    bool is_swept;
    if (settle_marked(ws, run_id, mark, &is_swept, err) < 0)
        return -1;
    if (is_swept)
        remote_mark_drop(ws, run_id);
    return 0;
}

bool settle_is_due(struct tsk_workspace *ws, const char *run_id)
{
    char path[RUN_ID_MAX + 32];
    snprintf(path, sizeof path, REMOTE_MARKS "/%.63s", run_id);
    return fs_may_exist(ws->state_dir, path);
}

/* Whether the run with that mark was executed under the lock; in doubt it was. */
static bool is_of_lock(struct tsk_workspace *ws, const char *run_id, const struct run_lock *which)
{
    char path[RUN_ID_MAX + 32];
    struct tsk_error ignored;
    struct buf text CLEANUP(buf_clear) = {.max = MARK_SIZE_MAX};
    json_t *mark CLEANUP_JSON = NULL;
    snprintf(path, sizeof path, REMOTE_MARKS "/%.63s", run_id);
    if (fs_read_file(ws->state_dir, path, MARK_SIZE_MAX - 1, &text) < 0)
        return errno != ENOENT;
    if (json_parse(buf_str(&text), text.len, path, &mark, &ignored) < 0)
        return true;
    struct run_lock lock = run_lock_of_stage(mark);
    return lock.kind == which->kind && strcmp(lock.id, which->id) == 0;
}

int settle_lock(struct tsk_workspace *ws, const struct run_lock *which, const char *except, struct tsk_error *err)
{
    struct listing names CLEANUP(listing_close);
    if (listing_open(&names, ws->state_dir, REMOTE_MARKS, LISTING_SORTED) < 0)
        return errno == ENOENT ? 0 : fs_error(err, "read", ws->state_dir, REMOTE_MARKS);
    for (const char *name; (name = listing_next(&names));)
        if (strncmp(name, "RUN-", 4) == 0 && strcmp(name, except) != 0 && is_of_lock(ws, name, which) &&
            settle_run(ws, name, err) < 0)
            return -1;
    return 0;
}
