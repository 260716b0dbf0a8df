/* json_text.c - a JSON value as compact text. jansson writes a string character by character through a callback; a list of
 * processes is mostly strings. The text is the same, byte for byte. */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_escaped(struct buf *b, unsigned char c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    char text[8] = {'\\', c < sizeof letters ? letters[c] : 0};
    if (!text[1])
        snprintf(text, sizeof text, "\\u%04X", c);
    buf_puts(b, text);
}

static void put_string(struct buf *b, const char *s, size_t len)
{
    buf_put(b, "\"", 1);
    for (size_t from = 0, at = 0; at <= len; at++) {
        unsigned char c = at < len ? (unsigned char)s[at] : 0;
        if (at < len && c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_put(b, s + from, at - from);
        from = at + 1;
        if (at < len)
            put_escaped(b, c);
    }
    buf_put(b, "\"", 1);
}

static void put_array(struct buf *b, const json_t *array)
{
    size_t count = json_array_size(array);
    buf_put(b, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_put(b, ",", 1);
        json_put_compact(b, json_array_get(array, i));
    }
    buf_put(b, "]", 1);
}

static void put_object(struct buf *b, json_t *object)
{
    buf_put(b, "{", 1);
    for (void *at = json_object_iter(object), *first = at; at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        if (at != first)
            buf_put(b, ",", 1);
        put_string(b, key, strlen(key));
        buf_put(b, ":", 1);
        json_put_compact(b, json_object_iter_value(at));
    }
    buf_put(b, "}", 1);
}

/* Numbers with a fraction are rare; jansson knows how they are written. */
static void put_real(struct buf *b, const json_t *value)
{
    char text[64];
    size_t len = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY);
    if (len == 0 || len > sizeof text)
        b->failed = true;
    else
        buf_put(b, text, len);
}

void json_put_compact(struct buf *b, const json_t *value)
{
    if (!value) {
        b->failed = true;
        return;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(b, (json_t *)value);
        break;
    case JSON_ARRAY:
        put_array(b, value);
        break;
    case JSON_STRING:
        put_string(b, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_put_int(b, json_integer_value(value));
        break;
    case JSON_REAL:
        put_real(b, value);
        break;
    case JSON_TRUE:
        buf_put(b, "true", 4);
        break;
    case JSON_FALSE:
        buf_put(b, "false", 5);
        break;
    case JSON_NULL:
        buf_put(b, "null", 4);
        break;
    }
}
