#include "base/error.h"
#include "base/word.h"

#undef error_set
#undef error_errno
#undef error_no_memory
#undef error_add
#undef error_add_int
#undef error_add_json
#undef error_add_next

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct code_info codes[] = {
    [TSK_OK] = {"OK", "NONE", 200, 0, false},
#define X(symbol, name, category, http, exit, retryable) [TSK_##symbol] = {name, #category, http, exit, retryable},
#include "base/errors.def"
#undef X
};

enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

/* The public enum is written out by hand for its readers; this keeps it equal to the table. */
enum {
    TABLE_OK = 0,
#define X(symbol, name, category, http, exit, retryable) TABLE_##symbol,
#include "base/errors.def"
#undef X
    TABLE_COUNT
};
#define X(symbol, name, category, http, exit, retryable)                                                               \
    _Static_assert((int)TABLE_##symbol == (int)TSK_##symbol, "tasuki.h and errors.def differ at " #symbol);
#include "base/errors.def"
#undef X
_Static_assert((int)TABLE_COUNT == (int)CODE_COUNT, "errors.def has a gap");

const struct code_info *code_info(enum tsk_code code)
{
    BUG((unsigned)code >= CODE_COUNT);
    return &codes[code];
}

enum tsk_code code_count(void)
{
    return (enum tsk_code)CODE_COUNT;
}

const char *tsk_code_name(enum tsk_code code)
{
    return (unsigned)code < CODE_COUNT ? codes[code].name : "UNKNOWN";
}

/* An item in the arena is: type byte, key NUL, value NUL. */
static void item_put(struct tsk_error *err, char type, const char *key, const char *value)
{
    size_t key_len = strlen(key);
    size_t room = sizeof err->arena - err->used;
    size_t value_len = strlen(value);
    if (key_len + 3 > room)
        return;
    if (value_len > room - key_len - 3) {
        if (type == 'j' || type == 'b') /* half a JSON value is worse than none */
            return;
        value_len = room - key_len - 3;
    }
    char *at = err->arena + err->used;
    *at++ = type;
    memcpy(at, key, key_len + 1);
    at += key_len + 1;
    memcpy(at, value, value_len);
    at[value_len] = '\0';
    err->used = (unsigned short)(err->used + key_len + value_len + 3);
}

bool error_item_next(const struct tsk_error *err, unsigned *cursor, struct error_item *ret)
{
    if (*cursor >= err->used)
        return false;
    const char *at = err->arena + *cursor;
    ret->type = *at;
    ret->key = at + 1;
    ret->value = ret->key + strlen(ret->key) + 1;
    *cursor = (unsigned)(ret->value + strlen(ret->value) + 1 - err->arena);
    return true;
}

int error_set(struct tsk_error *err, enum tsk_code code, const char *text, ...)
{
    err->code = code;
    err->sys_errno = 0;
    err->text = text;
    err->used = 0;
    va_list pairs;
    va_start(pairs, text);
    for (const char *key; (key = va_arg(pairs, const char *));)
        error_add(err, key, va_arg(pairs, const char *));
    va_end(pairs);
    return -1;
}

static enum tsk_code code_of_errno(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TSK_STORAGE_FULL;
    case ENAMETOOLONG: /* the caller can give another name */
        return TSK_INVALID_INPUT;
    default:
        return TSK_ENVIRONMENT;
    }
}

/* The command that shows why a path cannot be used: the owner and the mode of each of its directories, the room that is left for
 * the workspace, or how its file system is mounted. */
static void error_add_look(struct tsk_error *err, const char *path)
{
    bool is_denied = err->sys_errno == EACCES || err->sys_errno == EPERM || err->sys_errno == ENOTDIR;
    bool is_full = err->sys_errno == ENOSPC || err->sys_errno == EDQUOT, is_read_only = err->sys_errno == EROFS;
    if (path[0] != '/' || !(is_denied || is_full || is_read_only))
        return;
    struct buf word CLEANUP(buf_clear) = BUF_INIT, root CLEANUP(buf_clear) = BUF_INIT;
    const char *state = strstr(path + 1, "/.aiflow"), *name = strrchr(path, '/');
    buf_put(&root, path, is_denied ? strlen(path) : (size_t)((state ? state : name + 1) - path));
    error_add_next(err, "%s %s",
                   is_denied      ? "namei -l"
                   : is_read_only ? "findmnt -T"
                                  : "df -h",
                   shell_word(&word, buf_str(&root)));
}

int error_errno(struct tsk_error *err, const char *what, const char *path)
{
    int number = errno;
    /* What is too long to be read is somebody's file, not our disk. */
    bool is_too_long = number == EFBIG && strcmp(what, "read") == 0;
    error_set(err, is_too_long ? TSK_INVALID_INPUT : code_of_errno(number), "system_call", "what", what, "path", path,
              "reason", strerrordesc_np(number), NULL);
    err->sys_errno = number;
    error_add(err, "errno", strerrorname_np(number));
    error_add_look(err, path);
    return -1;
}

int error_no_memory(struct tsk_error *err, const char *what, const char *path)
{
    errno = ENOMEM;
    return error_errno(err, what, path);
}

int error_add(struct tsk_error *err, const char *key, const char *value)
{
    if (value)
        item_put(err, 's', key, value);
    else
        item_put(err, 'j', key, "null");
    return -1;
}

int error_add_int(struct tsk_error *err, const char *key, int64_t value)
{
    item_put(err, 'j', key, DIGITS(value));
    return -1;
}

int error_add_json(struct tsk_error *err, const char *key, const char *json)
{
    item_put(err, 'j', key, json);
    return -1;
}

int error_add_beside(struct tsk_error *err, const char *key, const char *json)
{
    item_put(err, 'b', key, json);
    return -1;
}

int error_add_next(struct tsk_error *err, const char *format, ...)
{
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    item_put(err, 'n', "", command);
    return -1;
}

void error_clear_next(struct tsk_error *err)
{
    struct tsk_error kept = *err;
    unsigned cursor = 0;
    kept.used = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);)
        if (item.type != 'n')
            item_put(&kept, item.type, item.key, item.value);
    *err = kept;
}

void error_replace(struct tsk_error *err, const char *key, const char *value)
{
    struct tsk_error kept = *err;
    unsigned cursor = 0;
    kept.used = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);) {
        bool is_it = item.type == 's' && strcmp(item.key, key) == 0;
        item_put(&kept, item.type, item.key, is_it ? value : item.value);
    }
    *err = kept;
}

const char *tsk_error_context(const struct tsk_error *err, const char *key)
{
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);)
        if (item.type != 'n' && strcmp(item.key, key) == 0)
            return item.value;
    return NULL;
}

const char *tsk_error_next(const struct tsk_error *err, unsigned i)
{
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);)
        if (item.type == 'n' && i-- == 0)
            return item.value;
    return NULL;
}

void bug_abort(const char *file, int line, const char *condition)
{
    fprintf(stderr, "tasuki: bug at %s:%d: %s\n", file, line, condition);
    abort();
}
