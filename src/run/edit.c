/* edit.c - changing request files: one at a time (Q2), and never at the cost of what was not read. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/log.h"
#include "lock/wait.h"
#include "run/edit_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GUARD_NAME   "requests.lock"
#define GUARD_MS     10000
#define REMOVED      "removed"
#define NEW_ID_TRIES 20

/* ---- files ---------------------------------------------------------------------------------------------- */

/* What somebody left who was killed while he wrote. Only with the guard: then nobody is writing. */
static void sweep_private(struct tsk_workspace *ws)
{
    struct dirent **names = NULL;
    int folder CLEANUP_FD = fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int count = folder < 0 ? 0 : scandirat(folder, ".", &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        if (fs_is_private_name(names[i]->d_name))
            fs->unlinkat(folder, names[i]->d_name, 0);
        free(names[i]);
    }
    free(names);
}

/* Q2. A descriptor that ends the wait of others when it is closed. */
static int guard_take(struct tsk_workspace *ws, struct tsk_error *err)
{
    int fd = fs->openat(ws->state_dir, GUARD_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fs_error(err, "open", ws->state_dir, GUARD_NAME);
    if (fs_lock_try(fd, F_WRLCK, 0, 1) == 0 || wait_for_byte(fd, F_WRLCK, 0, GUARD_MS) == 0) {
        sweep_private(ws);
        return fd;
    }
    if (errno == ETIMEDOUT)
        error_set(err, TSK_CONFLICT, "request_busy", NULL);
    else
        fs_error(err, "lock", ws->state_dir, GUARD_NAME);
    close(fd);
    return -1;
}

static int open_folder(struct tsk_workspace *ws, struct tsk_error *err)
{
    int folder = fs_make_dirs(ws->state_dir, REQUEST_FOLDER) < 0
                     ? -1
                     : fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return folder < 0 ? fs_error(err, "open", ws->state_dir, REQUEST_FOLDER) : folder;
}

static void report(struct tsk_workspace *ws, const char *type, const char *id)
{
    struct tsk_error problem;
    struct now now = clock_now();
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "request_id", id);
    buf_puts(&data, "}");
    struct event event = {.type = type, .data = buf_str(&data)};
    if (workspace_event(ws, &now, &event, &problem) < 0)
        log_problem(&problem);
}

/* The milliseconds are in it as well, so that ids sort as they were made. */
static void new_id(char id[LOCK_ID_MAX])
{
    char random[3];
    int64_t now_ms = clock_now().wall_ms;
    time_t now = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&now, &utc);
    random_hex(random, 2);
    size_t at = strftime(id, LOCK_ID_MAX, REQUEST_PREFIX "%Y%m%dT%H%M%S-", &utc);
    snprintf(id + at, LOCK_ID_MAX - at, "%03x%s", (unsigned)(now_ms % 1000), random);
}

/* A file that is not there yet, whole from the first instant. 1: there is one. */
static int publish(int folder, const char *id, const struct buf *text, struct tsk_error *err)
{
    char private_name[FS_PRIVATE_NAME_MAX], name[LOCK_ID_MAX + 8];
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, id);
    int fd CLEANUP_FD = fs_temp_open(folder, 0644, private_name);
    if (fd < 0 || fs_write_all(fd, text->data, text->len) < 0)
        return fs_error(err, "write", folder, name);
    if (fs_publish(fd, private_name, folder, name) == 0)
        return 0;
    int number = errno;
    if (private_name[0])
        fs->unlinkat(folder, private_name, 0);
    errno = number;
    return number == EEXIST ? 1 : fs_error(err, "create", folder, name);
}

static int add_with_id(int folder, const char *id, const json_t *values, enum lang lang, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    struct request request CLEANUP(request_clear) = {.json = NULL};
    json_t *all CLEANUP_JSON = json_pack("{s:s}", "id", id);
    json_object_update_missing(all, (json_t *)values);
    edit_text_new(&text, all);
    if (text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    request_parse(id, buf_str(&text), text.len, lang, &request);
    if (request_need_whole(&request, err) < 0)
        return -1;
    if (!edit_text_says(&request, all)) /* never something else than was asked for */
        return error_set(err, TSK_INTERNAL, NULL, "request", id, NULL);
    return publish(folder, id, &text, err);
}

int request_add(struct tsk_workspace *ws, const json_t *values, enum lang lang, struct request *ret,
                struct tsk_error *err)
{
    char id[LOCK_ID_MAX];
    const char *given = json_get_string(values, "id", NULL);
    int guard CLEANUP_FD = guard_take(ws, err), result = 1;
    if (guard < 0)
        return -1;
    int folder CLEANUP_FD = open_folder(ws, err);
    if (folder < 0)
        return -1;
    for (int i = 0; result == 1 && i < (given ? 1 : NEW_ID_TRIES); i++) {
        if (given)
            snprintf(id, sizeof id, "%s", given);
        else
            new_id(id);
        result = add_with_id(folder, id, values, lang, err);
    }
    if (result == 1)
        return error_set(err, TSK_CONFLICT, "request_exists", "request", id, NULL);
    if (result < 0)
        return -1;
    report(ws, "request.added", id);
    return request_read(ws, id, lang, ret, err);
}

int request_check_time(const struct request *request, const char *expected, struct tsk_error *err)
{
    if (!expected || strcmp(expected, request->updated_at) == 0)
        return 0;
    return error_set(err, TSK_CONFLICT, "request_changed", "request", request->id, "updated_at", request->updated_at,
                     NULL);
}

/* With the guard: the text takes the file's place, if it is a whole request. */
static int put_text(struct tsk_workspace *ws, const struct request *before, const struct buf *text, enum lang lang,
                    struct request *ret, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + 8];
    struct stat st;
    struct request after CLEANUP(request_clear) = {.json = NULL};
    request_parse(before->id, buf_str(text), text->len, lang, &after);
    if (request_need_whole(&after, err) < 0)
        return -1;
    int folder CLEANUP_FD = open_folder(ws, err);
    if (folder < 0)
        return -1;
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, before->id);
    bool is_same = text->len == before->text.len && memcmp(text->data, before->text.data, text->len) == 0;
    mode_t mode = fs->fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & 0777 : 0644;
    if (!is_same && fs_replace_file(folder, name, mode, text->data, text->len) < 0)
        return error_errno(err, "write", before->source);
    if (!is_same)
        report(ws, "request.edited", before->id);
    return request_read(ws, before->id, lang, ret, err);
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
    return put_text(ws, &before, &text, lang, ret, err);
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
    return put_text(ws, &before, &copy, lang, ret, err);
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
    if (result < 0)
        return fs_error(err, "remove", ws->state_dir, from);
    report(ws, "request.removed", id);
    return 0;
}
