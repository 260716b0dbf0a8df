/* check.c - arguments against the row, the same for all skins. */
#include "base/clock.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "base/word.h"
#include "ops/ops.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING_MAX_DEFAULT 4096
#define WHOLE_MAX          9007199254740992.0 /* 2^53: beyond it a real number may stand for several */

const struct op_param *op_param_find(const struct op *op, const char *name)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if (strcmp(param->name, name) == 0)
            return param;
    return NULL;
}

#define SHOWN_MAX 256

static const char *shortened_value(const char *value, char shown[SHOWN_MAX])
{
    snprintf(shown, SHOWN_MAX, "%.200s%s", value, strlen(value) > 200 ? "…" : "");
    /* A cut in the middle of a character would make the message unreadable. */
    for (size_t len = strlen(value) > 200 ? 200 : 0; len && !utf8_is_valid(shown, len); len--)
        snprintf(shown + len - 1, SHOWN_MAX - len + 1, "…");
    return shown;
}

static int unknown_param(struct tsk_error *err, const struct op *op, const char *key)
{
    char shown[SHOWN_MAX];
    return error_set(err, TSK_INVALID_INPUT, "param_unknown", "param", shortened_value(key, shown), "operation",
                     op->name, NULL);
}

static int bad_value(struct tsk_error *err, const struct op_param *param, const char *text, const char *value,
                     const char *want)
{
    char shown[SHOWN_MAX];
    shortened_value(value, shown);
    return error_set(err, TSK_INVALID_INPUT, text, "param", param->name, "value", shown, "want", want, NULL);
}

/* A value as it was given, for a message; borrowed from it or from `b`. */
static const char *text_of_value(const json_t *value, struct buf *b)
{
    if (json_is_string(value))
        return json_string_value(value);
    json_write(b, value, false);
    return buf_str(b);
}

/* A whole number, also one that is written 1.0 or "1"; ERANGE: too large for any. */
static int whole_number(const json_t *value, const char *text, int64_t *ret)
{
    char *end;
    double real = json_real_value(value);
    errno = 0;
    if (json_is_string(value)) {
        *ret = strtoll(text, &end, 10);
        return end == text || *end || errno == ERANGE ? -1 : 0;
    }
    bool is_whole = real > -WHOLE_MAX && real < WHOLE_MAX && real == (double)(int64_t)real;
    *ret = json_is_integer(value) ? json_integer_value(value) : is_whole ? (int64_t)real : 0;
    return json_is_integer(value) || (json_is_real(value) && is_whole) ? 0 : -1;
}

static int check_string(const struct op_param *param, const json_t *value, struct tsk_error *err)
{
    int64_t max = param->max ? param->max : STRING_MAX_DEFAULT;
    const char *want = DIGITS(max);
    if (!json_is_string(value))
        return bad_value(err, param, "param_type", "?", "string");
    if ((int64_t)json_string_length(value) > max)
        return bad_value(err, param, "param_too_long", json_string_value(value), want);
    if (param->type == OP_ID && !id_is_valid(json_string_value(value)))
        return bad_value(err, param, "id_pattern", json_string_value(value), "");
    if ((param->flags & OP_REQUIRED) && json_string_length(value) == 0)
        return bad_value(err, param, "param_empty", "", "");
    return 0;
}

static int check_int(const struct op_param *param, json_t *args, const json_t *value, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *text = text_of_value(value, &b);
    char want[64];
    int64_t number;
    snprintf(want, sizeof want, "%lld … %lld", (long long)param->min, (long long)param->max);
    if (whole_number(value, text, &number) < 0)
        return bad_value(err, param, errno == ERANGE ? "param_out_of_range" : "param_not_a_number", text, want);
    if (number < param->min || number > param->max)
        return bad_value(err, param, "param_out_of_range", text, want);
    json_object_set_new(args, param->name, json_integer(number));
    return 0;
}

int op_duration(const struct op_param *param, const char *text, int64_t *ret_ms)
{
    if ((param->flags & OP_FOREVER) && strcmp(text, "forever") == 0)
        *ret_ms = -1;
    else if ((param->flags & OP_MS) && *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 12)
        *ret_ms = strtoll(text, NULL, 10);
    else
        return duration_parse(text, ret_ms);
    return 0;
}

static int check_duration(const struct op_param *param, json_t *args, const json_t *value, struct tsk_error *err)
{
    int64_t ms, number;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *text = text_of_value(value, &b);
    bool is_number = json_is_number(value) && whole_number(value, text, &number) == 0;
    if (is_number && number >= 0 && number < INT32_MAX)
        ms = number * (param->flags & OP_MS ? 1 : 1000);
    else if (!json_is_string(value) || op_duration(param, text, &ms) < 0)
        return bad_value(err, param, "param_not_a_duration", text,
                         param->flags & OP_FOREVER ? "30s, 5m, 1h, forever" : "30s, 5m, 1h");
    if (ms >= 0 && ms < param->min)
        return bad_value(err, param, "param_not_a_duration", text, "30s, 5m, 1h");
    json_object_set_new(args, param->name, json_integer(ms));
    return 0;
}

static int check_enum(const struct op *op, const struct op_param *param, const json_t *args, const json_t *value,
                      struct tsk_error *err)
{
    char want[256] = "";
    size_t count = 0, at = 0;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *text = text_of_value(value, &b);
    for (; param->choices[count]; count++) {
        if (json_is_string(value) && strcmp(param->choices[count], text) == 0)
            return 0;
        at += (size_t)snprintf(want + at, sizeof want - at, "%s%s", at ? ", " : "", param->choices[count]);
    }
    const char *near = nearest_word(text, param->choices, count);
    for (size_t i = 0; i < count; i++) /* failed: FAILED */
        if (strcasecmp(text, param->choices[i]) == 0)
            near = param->choices[i];
    bad_value(err, param, near ? "param_not_one_of_near" : "param_not_one_of", text, want);
    if (near)
        error_add(err, "near", near);
    else if ((param->flags & OP_POSITIONAL) && strcmp(param->name, "kind") == 0 && op->noun &&
             strcmp(op->noun, "lock") == 0 && id_is_valid(text) && !json_object_get(args, "id"))
        error_add_next(err, "tasuki lock %s name %s", op->verb, text); /* the kind was forgotten */
    return -1;
}

/* A number or a truth value is the text that a command line would have (PORT: 8080). */
static int check_map(const struct op_param *param, json_t *value, struct tsk_error *err)
{
    const char *key;
    json_t *item;
    void *next;
    if (!json_is_object(value))
        return bad_value(err, param, "param_type", "?", "object");
    json_object_foreach_safe(value, next, key, item)
    {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        bool is_plain = json_is_number(item) || json_is_boolean(item);
        if (!*key || (!json_is_string(item) && !is_plain))
            return bad_value(err, param, "param_type", key, "object of strings");
        if (is_plain)
            json_object_set_new(value, key, json_string(text_of_value(item, &text)));
    }
    return 0;
}

static int check_list(const struct op_param *param, const json_t *value, struct tsk_error *err)
{
    if (!json_is_array(value))
        return bad_value(err, param, "param_type", "?", "array");
    json_each (value, i, item)
        if (!json_is_string(item))
            return bad_value(err, param, "param_type", "?", "array of strings");
    return 0;
}

static int check_objects(const struct op_param *param, const json_t *value, struct tsk_error *err)
{
    json_each (value, i, item)
        if (!json_is_object(item))
            return bad_value(err, param, "param_type", "?", "array of objects");
    return 0;
}

static int check_value(const struct op *op, const struct op_param *param, json_t *args, json_t *value,
                       struct tsk_error *err)
{
    if ((param->flags & OP_MANY) && json_is_array(value)) {
        json_each (value, i, item)
            if (check_string(param, item, err) < 0)
                return -1;
        return 0;
    }
    switch (param->type) {
    case OP_STRING:
    case OP_ID:
    case OP_PATH:
        return check_string(param, value, err);
    case OP_INT:
        return check_int(param, args, value, err);
    case OP_DURATION:
        return check_duration(param, args, value, err);
    case OP_ENUM:
        return check_enum(op, param, args, value, err);
    case OP_BOOL:
        return json_is_boolean(value) ? 0 : bad_value(err, param, "param_type", "?", "boolean");
    case OP_ARGV:
        return (param->flags & OP_SHELL) && json_is_string(value) ? check_string(param, value, err)
                                                                  : check_list(param, value, err);
    case OP_MAP:
        return check_map(param, value, err);
    case OP_ANY:
        return json_is_object(value) ? 0 : check_string(param, value, err);
    case OP_OBJECTS:
        return json_is_array(value) ? check_objects(param, value, err) : check_string(param, value, err);
    }
    BUG(true);
}

void op_propose_help(const struct op *op, struct tsk_error *err)
{
    if (err->code == TSK_INVALID_INPUT && !tsk_error_next(err, 0))
        error_add_next(err, "tasuki %s --help", OP_WORDS(op));
}

int op_param_missing(const struct op *op, const char *word, struct tsk_error *err)
{
    error_set(err, TSK_INVALID_INPUT, "param_missing", "param", word, "operation", op->name, NULL);
    op_propose_help(op, err);
    return -1;
}

/* Other names of parameters: those of the same values in results, in lock files and in the inputs of sprint tools. A caller may
 * pass a value back under the name that it came with. `id` is the name in a path (/api/runs/:id), so it stands only for what
 * such a path names. */
static const struct {
    const char *given, *meant;
} synonyms[] = {{"run_id", "run"},
                {"request_id", "request"},
                {"session_id", "session"},
                {"epic_spec", "epic"},
                {"lock_file_name", "lock_file"},
                {"answer", "text"},
                {"id", "request"},
                {"id", "run"},
                {"id", "ulTaskId"}};

/* The parameter that is meant, or NULL. */
static const struct op_param *synonym_find(const struct op *op, size_t i)
{
    const struct op_param *param = op_param_find(op, synonyms[i].meant);
    bool is_id = strcmp(synonyms[i].given, "id") == 0;
    if (!param || op_param_find(op, synonyms[i].given) || (is_id && !(param->flags & OP_POSITIONAL)))
        return NULL;
    return param;
}

/* Both names with different values: the other one stays, and is unknown. */
static void take_synonyms(const struct op *op, json_t *args)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        json_t *value = json_object_get(args, synonyms[i].given);
        const struct op_param *param = value ? synonym_find(op, i) : NULL;
        json_t *known = param ? json_object_get(args, param->name) : NULL;
        if (param && (known ? json_equal(known, value) : json_object_set(args, param->name, value) == 0))
            json_object_del(args, synonyms[i].given);
    }
}

static int check_args(const struct op *op, json_t *args, struct tsk_error *err)
{
    take_synonyms(op, args);
    json_each_key (args, key)
        if (!op_param_find(op, key))
            return unknown_param(err, op, key);
    for (const struct op_param *param = op->params; param->name; param++) {
        json_t *value = json_object_get(args, param->name);
        if (!value || json_is_null(value)) {
            if (param->flags & OP_REQUIRED)
                return op_param_missing(op, param->name, err);
            json_object_del(args, param->name);
            continue;
        }
        if (check_value(op, param, args, value, err) < 0)
            return -1;
    }
    return 0;
}

int op_check_args(const struct op *op, json_t *args, struct tsk_error *err)
{
    int result = check_args(op, args, err);
    if (result < 0)
        op_propose_help(op, err);
    return result;
}

int op_check_remote(const struct op *op, const json_t *args, struct tsk_error *err)
{
    json_each_key (args, key) {
        const struct op_param *param = op_param_find(op, key);
        if (param && (param->flags & OP_CLI_ONLY))
            return unknown_param(err, op, key);
    }
    return 0;
}

/* ---- paths ---- */

/* Where it leads, links followed, must be below the root; of what is not there, the nearest directory that is. Somebody who may
 * change links there meanwhile needs no server. */
static bool is_below(const char *root, const char *path)
{
    char whole[PATH_MAX], real[PATH_MAX], top[PATH_MAX];
    bool is_absolute = path[0] == '/';
    if (snprintf(whole, sizeof whole, "%s/%s", is_absolute ? "" : root, path) >= (int)sizeof whole ||
        !realpath(root, top))
        return false;
    while (!realpath(whole, real)) {
        char *last = strrchr(whole, '/');
        if ((errno != ENOENT && errno != ENOTDIR) || !last || strcmp(last, "/..") == 0)
            return false;
        *last = '\0';
        if (!*whole)
            return false;
    }
    size_t len = strlen(top);
    return strncmp(real, top, len) == 0 && (real[len] == '/' || !real[len]);
}

int op_check_paths(const struct op_call *call, struct tsk_error *err)
{
    for (const struct op_param *param = call->op->params; param->name; param++) {
        const char *path = json_get_string(call->args, param->name, NULL);
        if (param->type != OP_PATH || (param->flags & OP_ANYWHERE) || !path || !*path)
            continue;
        if (!call->home || !is_below(call->home->root, path))
            return error_set(err, TSK_INVALID_INPUT, "param_outside", "param", param->name, "value", path, "root",
                             call->home ? call->home->root : "?", NULL);
    }
    return 0;
}

bool op_asks(const struct op *op)
{
    for (const enum tsk_code *code = op->errors; *code != TSK_OK; code++)
        if (*code == TSK_NEEDS_CONFIRMATION && !(op->flags & OP_READ_ONLY))
            return true;
    return false;
}
