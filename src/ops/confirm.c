#include "ops/confirm.h"
#include "base/fs.h"
#include "base/ident.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER     "confirm"
#define RECORD_MAX (64u << 10)

static int open_folder(struct tsk_workspace *ws, struct tsk_error *err)
{
    if (fs_make_dirs(ws->state_dir, FOLDER) < 0)
        return fs_error(err, "create", ws->state_dir, FOLDER);
    int dir = fs->openat(ws->state_dir, FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    return dir < 0 ? fs_error(err, "open", ws->state_dir, FOLDER) : dir;
}

static int gone(const char *token, struct tsk_error *err)
{
    return error_set(err, TSK_NOT_FOUND, "confirm_gone", "token", token, NULL);
}

/* C2: a question has one name, and another one when it was answered. */
static void file_name(const char *token, bool is_approved, char name[64])
{
    snprintf(name, 64, "%s%s.json", token, is_approved ? ".yes" : "");
}

static bool is_token(const char *token)
{
    return strlen(token) == CONFIRM_TOKEN_SIZE - 1 && strspn(token, "0123456789abcdef") == CONFIRM_TOKEN_SIZE - 1;
}

static bool is_over(const json_t *record)
{
    return strcmp(json_get_string(record, "boot_id", ""), boot_id()) != 0 ||
           json_get_int(record, "expires_boot_ms", 0) < clock_now().boot_ms;
}

/* The record behind a file name, or NULL. */
static json_t *read_record(int dir, const char *name)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    json_t *record = NULL;
    if (fs_read_file(dir, name, RECORD_MAX, &b) < 0 || json_parse(buf_str(&b), b.len, name, &record, &ignored) < 0)
        return NULL;
    return record;
}

static int keep(int dir, const char *token, const json_t *record, struct tsk_error *err)
{
    char name[64];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    file_name(token, false, name);
    json_write(&b, record, false);
    if (b.failed || b.len > RECORD_MAX)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    return fs_replace_file(dir, name, 0600, b.data, b.len) < 0 ? fs_error(err, "write", dir, name) : 0;
}

/* C3 */
static void sweep(int dir)
{
    struct dirent **names = NULL;
    int count = scandirat(dir, ".", &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            json_t *record CLEANUP_JSON = read_record(dir, names[i]->d_name);
            if (!record || is_over(record))
                fs->unlinkat(dir, names[i]->d_name, 0);
        }
        free(names[i]);
    }
    free(names);
}

int confirm_ask(struct tsk_workspace *ws, const json_t *record, char ret_token[CONFIRM_TOKEN_SIZE],
                struct tsk_error *err)
{
    int dir CLEANUP_FD = open_folder(ws, err);
    if (dir < 0)
        return -1;
    sweep(dir);
    json_t *kept CLEANUP_JSON = json_copy((json_t *)record);
    json_object_set_new(kept, "boot_id", json_string(boot_id()));
    json_object_set_new(kept, "expires_boot_ms", json_integer(clock_now().boot_ms + CONFIRM_TTL_MS));
    random_hex(ret_token, CONFIRM_TOKEN_SIZE - 1);
    return keep(dir, ret_token, kept, err);
}

/* The live record of a token, with `approved`, and the name it was found by; `dir` stays open for the caller. */
static int find(struct tsk_workspace *ws, const char *token, char name[64], int *ret_dir, json_t **ret,
                struct tsk_error *err)
{
    if (!is_token(token))
        return gone(token, err);
    int dir = open_folder(ws, err);
    if (dir < 0)
        return -1;
    json_t *record = NULL;
    for (int is_approved = 0; is_approved < 2 && !record; is_approved++) { /* in the order in which it is renamed */
        file_name(token, is_approved, name);
        record = read_record(dir, name);
        json_object_set_new(record, "approved", json_boolean(is_approved));
    }
    if (!record || is_over(record)) {
        json_decref(record);
        fs_close(&dir);
        return gone(token, err);
    }
    *ret = record;
    *ret_dir = dir;
    return 0;
}

int confirm_look(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64];
    return find(ws, token, name, &dir, ret, err);
}

int confirm_approve(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64], yes[64];
    json_t *record CLEANUP_JSON = NULL;
    if (find(ws, token, name, &dir, &record, err) < 0)
        return -1;
    file_name(token, true, yes);
    /* Not written anew: what was used meanwhile must not come back. */
    if (!json_get_bool(record, "approved", false) && fs->renameat2(dir, name, dir, yes, 0) < 0)
        return errno == ENOENT ? gone(token, err) : fs_error(err, "rename", dir, name);
    *ret = json_incref(record);
    return 0;
}

int confirm_take(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64];
    json_t *record CLEANUP_JSON = NULL;
    if (find(ws, token, name, &dir, &record, err) < 0)
        return -1;
    if (fs->unlinkat(dir, name, 0) < 0) /* C2 */
        return errno == ENOENT ? gone(token, err) : fs_error(err, "delete", dir, name);
    *ret = json_incref(record);
    return 0;
}
