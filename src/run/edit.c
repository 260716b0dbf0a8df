/* edit.c - changing request files: one at a time (Q2), and never at the cost of what was not read. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/listing.h"
#include "base/lockers.h"
#include "base/log.h"
#include "lock/wait.h"
#include "run/book.h"
#include "run/edit_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS_GUARD_NAME "requests.lock"
#define GUARD_MS            10000
#define REMOVED             "removed"
#define NEW_ID_TRIES        20

/* ---- files ---------------------------------------------------------------------------------------------- */

/* Removes the private files of writers that were killed. The caller must hold the guard, so that no other process is
 * writing. */
static void sweep_private(struct tsk_workspace *ws)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, ws->state_dir, REQUEST_FOLDER, 0);
    for (const char *name; (name = listing_next(&names));)
        if (fs_is_private_name(name))
            fs->unlinkat(names.fd, name, 0);
}

/* Q2. A descriptor that ends the wait of others when it is closed. */
static int guard_take(struct tsk_workspace *ws, struct tsk_error *err)
{
    int fd = fs->openat(ws->state_dir, REQUESTS_GUARD_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fs_error(err, "open", ws->state_dir, REQUESTS_GUARD_NAME);
    if (fs_lock_try(fd, F_WRLCK, 0, 1) == 0 || wait_for_byte(fd, F_WRLCK, 0, GUARD_MS) == 0) {
        sweep_private(ws);
        return fd;
    }
    pid_t pid = 0;
    if (errno != ETIMEDOUT) {
        fs_error(err, "lock", ws->state_dir, REQUESTS_GUARD_NAME);
    } else {
        lockers_find(fd, 0, F_WRLCK, &pid, 1);
        lockers_refuse(pid, TSK_CONFLICT, "request_busy_by", "request_busy", err);
    }
    close(fd);
    return -1;
}

static int open_request_folder(struct tsk_workspace *ws, struct tsk_error *err)
{
    int folder = fs_make_dirs(ws->state_dir, REQUEST_FOLDER) < 0
                     ? -1
                     : fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return folder < 0 ? fs_error(err, "open", ws->state_dir, REQUEST_FOLDER) : folder;
}

static void request_report(struct tsk_workspace *ws, const char *type, const char *id)
{
    workspace_report(ws, (struct event){.type = type}, json_pack("{s:s}", "request_id", id));
}

/* The runs of a removed request with this id are not runs of the new one: it would be done before it ran. */
static int forget_removed(struct tsk_workspace *ws, int folder, const char *name, const char *id, struct tsk_error *err)
{
    struct stat st;
    bool is_new = fs->fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    return is_new ? book_forget_run(ws, id, err) : 0;
}

/* A file that is not there yet, whole from the first instant. 1: there is one. */
static int request_publish(struct tsk_workspace *ws, int folder, const char *id, const struct buf *text,
                           struct tsk_error *err)
{
    char private_name[FS_PRIVATE_NAME_MAX], name[LOCK_ID_MAX + 8];
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, id);
    if (forget_removed(ws, folder, name, id, err) < 0)
        return -1;
    int fd CLEANUP_FD = fs_temp_open(folder, 0644, private_name);
    bool is_written = fd >= 0 && fs_write_all(fd, text->data, text->len) == 0;
    if (is_written)
        fs_stamp(fd, 0); /* lists show requests in the order of this time */
    int result = is_written ? fs_publish(fd, private_name, folder, name) : -1, number = errno;
    if (private_name[0])
        fs->unlinkat(folder, private_name, 0);
    if (result == 0)
        return 0;
    errno = number;
    return is_written && number == EEXIST ? 1 : fs_error(err, is_written ? "create" : "write", folder, name);
}

/* The request as its file says now; if that cannot be read, as it was written. */
static void request_read_written(struct tsk_workspace *ws, const char *id, const struct buf *text, enum lang lang,
                                 struct request *ret)
{
    struct tsk_error problem;
    if (request_read(ws, id, lang, ret, &problem) == 0)
        return;
    log_problem(&problem);
    request_parse(id, buf_str(text), text->len, lang, ret);
}

static int add_with_id(struct tsk_workspace *ws, int folder, const char *id, const json_t *values, enum lang lang,
                       struct buf *text, struct tsk_error *err)
{
    struct request request CLEANUP(request_clear) = {.json = NULL};
    json_t *all CLEANUP_JSON = json_pack("{s:s}", "id", id);
    json_object_update_missing(all, (json_t *)values);
    buf_reset(text);
    edit_text_new(text, all);
    if (text->failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    request_parse(id, buf_str(text), text->len, lang, &request);
    if (request_need_whole(&request, err) < 0)
        return -1;
    if (!edit_text_says(&request, all)) /* never something else than was asked for */
        return error_set(err, TSK_INTERNAL, NULL, "request", id, NULL);
    return request_publish(ws, folder, id, text, err);
}

int request_add(struct tsk_workspace *ws, const json_t *values, enum lang lang, struct request *ret,
                struct tsk_error *err)
{
    char id[LOCK_ID_MAX];
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    const char *given = json_get_string(values, "id", NULL);
    int guard CLEANUP_FD = guard_take(ws, err), result = 1;
    if (guard < 0)
        return -1;
    int folder CLEANUP_FD = open_request_folder(ws, err);
    if (folder < 0)
        return -1;
    for (int i = 0; result == 1 && i < (given ? 1 : NEW_ID_TRIES); i++) {
        if (given)
            snprintf(id, sizeof id, "%s", given);
        else
            time_id(id, LOCK_ID_MAX, REQUEST_PREFIX, 2);
        result = add_with_id(ws, folder, id, values, lang, &text, err);
    }
    if (result == 1) {
        error_set(err, TSK_CONFLICT, "request_exists", "request", id, NULL);
        return error_add_next(err, "tasuki request show %s", id);
    }
    if (result < 0)
        return -1;
    request_report(ws, "request.added", id);
    request_read_written(ws, id, &text, lang, ret);
    return 0;
}

int request_check_time(const struct request *request, const char *expected, struct tsk_error *err)
{
    if (!expected || strcmp(expected, request->updated_at) == 0)
        return 0;
    error_set(err, TSK_CONFLICT, "request_changed", "request", request->id, "updated_at", request->updated_at, NULL);
    return error_add_next(err, "tasuki request show %s", request->id);
}

/* With the guard: the text takes the file's place, if it is a whole request. */
static int request_put_text(struct tsk_workspace *ws, const struct request *before, const struct buf *text,
                            enum lang lang, struct request *ret, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + 8];
    struct stat st;
    struct request after CLEANUP(request_clear) = {.json = NULL};
    request_parse(before->id, buf_str(text), text->len, lang, &after);
    if (request_need_whole(&after, err) < 0)
        return -1;
    int folder CLEANUP_FD = open_request_folder(ws, err);
    if (folder < 0)
        return -1;
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, before->id);
    bool is_same = text->len == before->text.len && memcmp(text->data, before->text.data, text->len) == 0;
    mode_t mode = fs->fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & 0777 : 0644;
    if (!is_same && fs_replace_file_after(folder, name, mode, text->data, text->len, before->mtime_ns) < 0)
        return error_errno(err, "write", before->source);
    if (!is_same)
        request_report(ws, "request.edited", before->id);
    request_read_written(ws, before->id, text, lang, ret);
    return 0;
}

/* What was not read cannot be kept. */
static int need_known(const struct request *before, struct tsk_error *err)
{
    if (before->is_map)
        return 0;
    request_need_whole(before, err);
    if (!before->read_errno) {
        error_clear_next(err);
        error_add_next(err, "tasuki request edit %s", before->id);
    }
    return -1;
}

int request_edit(struct tsk_workspace *ws, const char *id, const json_t *values, const char *expected_updated_at,
                 enum lang lang, struct request *ret, struct tsk_error *err)
{
    struct request before CLEANUP(request_clear) = {.json = NULL};
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0 || request_read(ws, id, lang, &before, err) < 0 ||
        request_check_time(&before, expected_updated_at, err) < 0)
        return -1;
    if (need_known(&before, err) < 0 || edit_text_change(&before, values, lang, &text, err) < 0)
        return -1;
    return request_put_text(ws, &before, &text, lang, ret, err);
}

int request_replace(struct tsk_workspace *ws, const char *id, const char *text, size_t len,
                    const char *expected_updated_at, enum lang lang, struct request *ret, struct tsk_error *err)
{
    struct request before CLEANUP(request_clear) = {.json = NULL};
    struct buf copy CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0 || request_read(ws, id, lang, &before, err) < 0 ||
        request_check_time(&before, expected_updated_at, err) < 0)
        return -1;
    if (before.read_errno) /* it is not what the editor had */
        return request_need_whole(&before, err);
    buf_put(&copy, text, len);
    return request_put_text(ws, &before, &copy, lang, ret, err);
}

int request_remove(struct tsk_workspace *ws, const char *id, char kept[PATH_MAX], struct tsk_error *err)
{
    char from[LOCK_ID_MAX + 32], random[5];
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0)
        return -1;
    snprintf(from, sizeof from, REQUEST_FOLDER "/%s" REQUEST_SUFFIX, id);
    if (fs_make_dirs(ws->state_dir, REMOVED) < 0)
        return fs_error(err, "make", ws->state_dir, REMOVED);
    int result = -1;
    for (int i = 0; i < NEW_ID_TRIES && result < 0 && (i == 0 || errno == EEXIST); i++) {
        random_hex(random, 4);
        snprintf(kept, PATH_MAX, REMOVED "/%s.%s" REQUEST_SUFFIX, id, random);
        result = fs->renameat2(ws->state_dir, from, ws->state_dir, kept, RENAME_NOREPLACE);
    }
    if (result < 0) /* ENOENT: somebody else has removed it meanwhile */
        return errno == ENOENT ? request_refuse_unknown(id, err) : fs_error(err, "remove", ws->state_dir, from);
    request_report(ws, "request.removed", id);
    return 0;
}
