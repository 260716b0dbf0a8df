#include "base/json.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_free(json_t **value)
{
    json_decref(*value);
    *value = NULL;
}

static int json_invalid(struct tsk_error *err, const char *source, int line, int column, const char *reason)
{
    error_set(err, TSK_INVALID_INPUT, "json_invalid", "source", source, NULL);
    error_add_int(err, "line", line < 1 ? 1 : line);
    error_add_int(err, "column", column < 1 ? 1 : column);
    return error_add(err, "reason", reason);
}

int json_parse(const char *text, size_t len, const char *source, json_t **ret, struct tsk_error *err)
{
    if (len > JSON_SIZE_MAX)
        return json_invalid(err, source, 1, 1, "the document is larger than 4 MiB");
    json_error_t problem;
    json_t *value = json_read_plain(text, len);
    if (!value)
        value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
    if (!value)
        return json_invalid(err, source, problem.line, problem.column, problem.text);
    *ret = value;
    return 0;
}

const char *json_get_string(const json_t *object, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : fallback;
}

bool json_text_is(const json_t *object, const char *key, const char *text)
{
    return strcmp(json_get_string(object, key, ""), text) == 0;
}

int64_t json_get_int(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool json_get_bool(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

void json_copy_keys(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(from, *keys))
            json_object_set(to, *keys, json_object_get(from, *keys));
}

void json_set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text && text[0] ? json_string(text) : json_null());
}

void json_put_texts(struct buf *b, const json_t *texts, const char *between)
{
    for (size_t i = 0; i < json_array_size(texts); i++) {
        buf_puts(b, i ? between : "");
        buf_puts(b, json_string_value(json_array_get(texts, i)));
    }
}

json_t *json_of_time(int64_t wall_ms)
{
    return wall_ms > 0 ? json_string(TIME_EXACT(wall_ms)) : json_null();
}

const json_t *json_at(const json_t *object, const char *path)
{
    for (;;) {
        size_t len = strcspn(path, ".");
        object = json_object_getn(object, path, len);
        if (!object || !path[len])
            return object;
        path += len + 1;
    }
}

json_t *json_number_of_text(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(value))
        return value;
    json_decref(value);
    return NULL;
}

/* No text in a JSON tree begins like this: it is not UTF-8. */
#define FINISHED_MARK '\xff'

json_t *json_finished(const struct buf *text)
{
    struct buf marked CLEANUP(buf_clear) = BUF_INIT;
    char *at = buf_reserve(&marked, text->len + 1);
    BUG(!at || text->failed);
    at[0] = FINISHED_MARK;
    memcpy(at + 1, buf_str(text), text->len);
    return json_stringn_nocheck(at, text->len + 1);
}

json_t *json_unfinished(const json_t *finished)
{
    json_t *value = NULL;
    struct tsk_error ignored; /* it was written by us */
    if (!json_is_string(finished) || json_string_value(finished)[0] != FINISHED_MARK)
        return json_incref((json_t *)finished);
    int result = json_parse(json_string_value(finished) + 1, json_string_length(finished) - 1, "", &value, &ignored);
    BUG(result < 0);
    return value;
}

/* The fewest digits that are read back as the same number. Normal doubles with up to 15 digits keep them; only subnormal ones
 * have less precision. */
static void put_real(struct buf *b, double value)
{
    char text[32], *exponent;
    int digits = fabs(value) < DBL_MIN ? 1 : 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (digits++ < 17 && strtod(text, NULL) != value);
    if ((exponent = strchr(text, 'e')))
        *exponent++ = '\0';
    buf_puts(b, text);
    if (!exponent) {
        if (!strchr(text, '.')) /* it is read back as a real number */
            buf_puts(b, ".0");
        return;
    }
    buf_puts(b, *exponent == '-' ? "e-" : "e");
    buf_puts(b, exponent + 1 + strspn(exponent + 1, "0"));
}

static void problem_put_line(struct buf *b, int depth)
{
    if (depth < 0)
        return;
    buf_put(b, "\n", 1);
    for (int i = 0; i < depth; i++)
        buf_put(b, "  ", 2);
}

/* `depth` is the indentation; -1: all on one line. */
static void json_put_value(struct buf *b, const json_t *value, int depth)
{
    int inner = depth < 0 ? -1 : depth + 1;
    size_t count = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        buf_put(b, "{", 1);
        json_each_pair (value, key, member) {
            if (count++)
                buf_put(b, ",", 1);
            problem_put_line(b, inner);
            buf_json_string(b, key);
            buf_put(b, ": ", depth < 0 ? 1 : 2);
            json_put_value(b, member, inner);
        }
        if (count)
            problem_put_line(b, depth);
        buf_put(b, "}", 1);
        break;
    case JSON_ARRAY:
        buf_put(b, "[", 1);
        json_each (value, i, member) {
            if (i)
                buf_put(b, ",", 1);
            problem_put_line(b, inner);
            json_put_value(b, member, inner);
        }
        if (json_array_size(value))
            problem_put_line(b, depth);
        buf_put(b, "]", 1);
        break;
    case JSON_STRING:
        if (json_string_value(value)[0] == FINISHED_MARK) {
            buf_put(b, json_string_value(value) + 1, json_string_length(value) - 1);
            break;
        }
        buf_json_text(b, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_put_int(b, json_integer_value(value));
        break;
    case JSON_REAL:
        put_real(b, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        buf_puts(b, json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        buf_puts(b, "null");
        break;
    }
}

void json_write(struct buf *b, const json_t *value, bool pretty)
{
    if (value)
        json_put_value(b, value, pretty ? 0 : -1);
    else
        b->failed = true;
}

/* jansson refuses strings that are not UTF-8; file names and other tools' words may be such. */
static json_t *string_of_anything(const char *s)
{
    json_t *string = json_string(s);
    if (string)
        return string;
    struct buf clean CLEANUP(buf_clear) = BUF_INIT;
    for (size_t left = strlen(s); left;) {
        size_t n = utf8_sequence(s, left);
        buf_put(&clean, n ? s : "\xef\xbf\xbd", n ? n : 3);
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    return json_string(buf_str(&clean));
}

static json_t *value_of_item(const struct error_item *item)
{
    json_t *value = item->type != 's' ? json_loads(item->value, JSON_DECODE_ANY, NULL) : NULL;
    return value ? value : string_of_anything(item->value);
}

json_t *json_of_error_context(const struct tsk_error *err)
{
    json_t *context = json_object();
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);)
        if (item.type != 'n' && item.type != 'b')
            json_object_set_new(context, item.key, value_of_item(&item));
    return context;
}

static void put_beside(json_t *document, const struct tsk_error *err)
{
    unsigned cursor = 0;
    for (struct error_item item; error_item_next(err, &cursor, &item);)
        if (item.type == 'b')
            json_object_set_new(document, item.key, value_of_item(&item));
}

static json_t *next_of_error(const struct tsk_error *err)
{
    json_t *next = json_array();
    const char *command;
    for (unsigned i = 0; (command = tsk_error_next(err, i)); i++)
        json_array_append_new(next, string_of_anything(command));
    return next;
}

/* What the catalogue advises for the code. */
static json_t *actions_of_error(const struct tsk_error *err, enum lang lang)
{
    json_t *list = json_array();
    for (const char *const *action = text_of_code(err->code, lang)->actions; *action; action++)
        json_array_append_new(list, json_string(*action));
    return list;
}

static json_t *message_of_error(const struct tsk_error *err, enum lang lang)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&message, lang, err);
    return string_of_anything(buf_str(&message));
}

/* The URL of the run that blocks the request. It is beside the error, where existing clients look for it. NULL if there is none. */
static json_t *take_latest_run(const struct tsk_error *err, json_t *context)
{
    json_t *latest_run = json_incref(json_object_get(context, "latest_run"));
    const char *run = json_get_string(context, "run_id", json_get_string(context, "run", NULL));
    json_object_del(context, "latest_run");
    bool is_named = err->code == TSK_RUN_IN_PROGRESS && run && run[0];
    return latest_run || !is_named ? latest_run : json_sprintf("/api/runs/%s", run);
}

json_t *json_of_error(const struct tsk_error *err, const char *lang_name)
{
    enum lang lang;
    if (!lang_name || !lang_parse(lang_name, &lang))
        lang = lang_from_environment();
    const struct code_info *info = code_info(err->code);
    json_t *context = json_of_error_context(err);
    json_t *latest_run = take_latest_run(err, context);
    json_t *error = json_object();
    json_object_set_new(error, "category", json_string(info->category));
    json_object_set_new(error, "reason_code", json_string(info->name));
    json_object_set_new(error, "message", message_of_error(err, lang));
    json_object_set_new(error, "summary", json_string(text_of_code(err->code, lang)->summary));
    json_object_set_new(error, "context", context);
    json_object_set_new(error, "next", next_of_error(err));
    json_object_set_new(error, "actions", actions_of_error(err, lang));
    json_t *document = json_object();
    json_object_set_new(document, "error", error);
    if (latest_run)
        json_object_set_new(document, "latest_run", latest_run);
    if (err->code == TSK_NEEDS_CONFIRMATION)
        json_object_set_new(document, "needs_confirmation", json_true());
    put_beside(document, err);
    return document;
}
