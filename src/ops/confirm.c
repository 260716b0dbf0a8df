#include "ops/confirm.h"
#include "base/ident.h"
#include "base/listing.h"
#include "base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIRM_FOLDER     "confirm"
#define CONFIRM_RECORD_MAX (64u << 10)

static int open_question_folder(struct tsk_workspace *ws, struct tsk_error *err)
{
    int dir = fs_open_made_dir(ws->state_dir, CONFIRM_FOLDER);
    return dir < 0 ? fs_error(err, "open", ws->state_dir, CONFIRM_FOLDER) : dir;
}

static int question_gone(const char *token, struct tsk_error *err)
{
    error_set(err, TSK_NOT_FOUND, "confirm_gone", "token", token, NULL);
    return error_add_next(err, "tasuki status"); /* which shows the open ones */
}

/* C2: a question has one name, and another one when it was answered. */
static void file_name(const char *token, bool is_approved, char name[64])
{
    snprintf(name, 64, "%s%s.json", token, is_approved ? ".yes" : "");
}

static bool is_question_token(const char *token)
{
    return strlen(token) == CONFIRM_TOKEN_SIZE - 1 && strspn(token, "0123456789abcdef") == CONFIRM_TOKEN_SIZE - 1;
}

/* C3; negative: it is over. */
static int64_t question_left_ms(const json_t *record)
{
    return !json_text_is(record, "boot_id", boot_id())
               ? INT64_MIN
               : json_get_int(record, "expires_boot_ms", 0) - clock_now().boot_ms;
}

static bool question_is_over(const json_t *record)
{
    return question_left_ms(record) < 0;
}

static bool is_by_token(const json_t *record)
{
    return strcmp(json_get_string(record, "way", CONFIRM_BY_TOKEN), CONFIRM_BY_TOKEN) == 0;
}

/* The record behind a file name; NULL: there is no such file. A record that cannot be read or parsed is an error, not a no. */
static int question_read(int dir, const char *name, json_t **ret, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char path[FS_PATH_MAX];
    *ret = NULL;
    if (fs_read_file(dir, name, CONFIRM_RECORD_MAX, &b) < 0)
        return errno == ENOENT ? 0 : fs_error(err, "read", dir, name);
    if (json_parse(buf_str(&b), b.len, name, ret, err) == 0)
        return 0;
    fs_path(dir, name, path);
    return error_set(err, TSK_ENVIRONMENT, "confirm_damaged", "path", path, NULL);
}

static int question_keep(int dir, const char *token, const json_t *record, struct tsk_error *err)
{
    char name[64];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    file_name(token, false, name);
    json_write(&b, record, false);
    if (b.failed || b.len > CONFIRM_RECORD_MAX)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    return fs_replace_file(dir, name, 0600, b.data, b.len) < 0 ? fs_error(err, "write", dir, name) : 0;
}

static bool is_old(int dir, const char *name)
{
    struct stat st;
    return fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           clock_now().wall_ms - st.st_mtim.tv_sec * 1000 > 2 * CONFIRM_TTL_MS;
}

/* C3 */
static void sweep_questions(int dir)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, ".", 0);
    for (const char *name; (name = listing_next(&names));) {
        /* The caller with that token gets the error; a damaged record goes when its time is over. */
        struct tsk_error ignored;
        json_t *record CLEANUP_JSON = NULL;
        if (name[0] == '.')
            continue;
        bool is_read = question_read(dir, name, &record, &ignored) == 0;
        if (is_read ? record && question_left_ms(record) < -CONFIRM_KEEP_MS : is_old(dir, name))
            fs->unlinkat(dir, name, 0);
    }
}

int confirm_ask(struct tsk_workspace *ws, const json_t *record, char ret_token[CONFIRM_TOKEN_SIZE],
                struct tsk_error *err)
{
    int dir CLEANUP_FD = open_question_folder(ws, err);
    if (dir < 0)
        return -1;
    sweep_questions(dir);
    json_t *kept CLEANUP_JSON = json_copy((json_t *)record);
    json_object_set_new(kept, "boot_id", json_string(boot_id()));
    json_object_set_new(kept, "expires_boot_ms", json_integer(clock_now().boot_ms + CONFIRM_TTL_MS));
    json_object_set_new(kept, "asked_at_ms", json_integer(clock_now().wall_ms));
    random_hex(ret_token, CONFIRM_TOKEN_SIZE - 1);
    if (question_keep(dir, ret_token, kept, err) < 0)
        return -1;
    return is_by_token(kept) ? confirm_report(ws, "confirm.asked", ret_token, kept, err) : 0;
}

static void confirm_id(const char *token, char ret[CONFIRM_ID_SIZE])
{
    char hash[SHA256_HEX_SIZE];
    sha256_hex(token, strlen(token), hash);
    snprintf(ret, CONFIRM_ID_SIZE, "%.16s", hash);
}

int confirm_report(struct tsk_workspace *ws, const char *type, const char *token, const json_t *record,
                   struct tsk_error *err)
{
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    struct now now = clock_now();
    char id[CONFIRM_ID_SIZE];
    confirm_id(token, id);
    buf_puts(&data, "{");
    buf_json_pair(&data, "confirmation", id);
    buf_json_pair(&data, "operation", json_get_string(record, "operation", ""));
    buf_json_pair(&data, "instance", json_get_string(record, "instance", ""));
    buf_json_pair(&data, "question", json_get_string(record, "question", ""));
    buf_puts(&data, "}");
    struct event event = {.type = type, .data = buf_str(&data)};
    return workspace_event(ws, &now, &event, err);
}

static json_t *question_json(const char *token, const json_t *record)
{
    static const char *const copied[] = {"operation", "args", "instance", "question", "is_dead", NULL};
    char id[CONFIRM_ID_SIZE];
    int64_t left = question_left_ms(record);
    confirm_id(token, id);
    json_t *json = json_pack("{s:s, s:s, s:s, s:I}", "id", id, "token", token, "asked_at",
                             TIME_EXACT(json_get_int(record, "asked_at_ms", 0)), "expires_in_ms",
                             (json_int_t)(left > 0 ? left : 0));
    json_copy_keys(json, record, copied);
    return json;
}

json_t *confirm_list(struct tsk_workspace *ws, bool is_over)
{
    json_t *list = json_array();
    struct listing names CLEANUP(listing_close);
    listing_open(&names, ws->state_dir, CONFIRM_FOLDER, 0);
    for (const char *name; (name = listing_next(&names));) {
        char token[CONFIRM_TOKEN_SIZE];
        struct tsk_error ignored; /* the caller with that token gets the error */
        json_t *record CLEANUP_JSON = NULL;
        snprintf(token, sizeof token, "%s", name);
        if (!is_question_token(token) || strcmp(name + strlen(token), ".json") != 0 || /* C2: it has no yes */
            question_read(names.fd, name, &record, &ignored) < 0 || !record || !is_by_token(record) ||
            question_is_over(record) != is_over)
            continue;
        json_t *one = question_json(token, record);
        size_t at = json_array_size(list);
        while (at > 0 &&
               json_get_int(json_array_get(list, at - 1), "expires_in_ms", 0) > json_get_int(one, "expires_in_ms", 0))
            at--;
        json_array_insert_new(list, at, one);
    }
    return list;
}

/* The live record of a token, with `approved`, and the name it was found by; `dir` stays open for the caller. */
static int find_question(struct tsk_workspace *ws, const char *token, char name[64], int *ret_dir, json_t **ret,
                         struct tsk_error *err)
{
    if (!is_question_token(token))
        return question_gone(token, err);
    int dir = open_question_folder(ws, err);
    if (dir < 0)
        return -1;
    json_t *record = NULL;
    for (int is_approved = 0; is_approved < 2 && !record; is_approved++) { /* in the order in which it is renamed */
        file_name(token, is_approved, name);
        if (question_read(dir, name, &record, err) < 0) {
            fs_close(&dir);
            return -1;
        }
        json_object_set_new(record, "approved", json_boolean(is_approved));
    }
    if (!record || question_is_over(record)) {
        json_decref(record);
        fs_close(&dir);
        return question_gone(token, err);
    }
    *ret = record;
    *ret_dir = dir;
    return 0;
}

int confirm_look(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64];
    return find_question(ws, token, name, &dir, ret, err);
}

int confirm_approve(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64], yes[64];
    json_t *record CLEANUP_JSON = NULL;
    if (find_question(ws, token, name, &dir, &record, err) < 0)
        return -1;
    file_name(token, true, yes);
    /* Not written again: what was used meanwhile must not come back. */
    if (!json_get_bool(record, "approved", false) && fs->renameat2(dir, name, dir, yes, 0) < 0)
        return errno == ENOENT ? question_gone(token, err) : fs_error(err, "rename", dir, name);
    *ret = json_incref(record);
    return 0;
}

int confirm_deny(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    json_t *record CLEANUP_JSON = NULL;
    if (confirm_look(ws, token, &record, err) < 0)
        return -1;
    if (json_get_bool(record, "approved", false)) /* a yes stays a yes: the agent may be on its way */
        return error_set(err, TSK_CONFLICT, "confirm_approved", "token", token, NULL);
    return confirm_take(ws, token, ret, err);
}

int confirm_take(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = -1;
    char name[64];
    json_t *record CLEANUP_JSON = NULL;
    if (find_question(ws, token, name, &dir, &record, err) < 0)
        return -1;
    if (fs->unlinkat(dir, name, 0) < 0) /* C2 */
        return errno == ENOENT ? question_gone(token, err) : fs_error(err, "delete", dir, name);
    *ret = json_incref(record);
    return 0;
}
