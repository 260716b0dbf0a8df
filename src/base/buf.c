#include "base/buf.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init_fixed(struct buf *b, char *storage, size_t size)
{
    *b = (struct buf){.data = storage, .cap = size, .max = size, .is_fixed = true};
    storage[0] = '\0';
}

void buf_clear(struct buf *b)
{
    if (!b->is_fixed)
        free(b->data);
    *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t len)
{
    if (b->failed)
        return NULL;
    if (len > b->max || b->len + len + 1 > b->max) {
        b->failed = true;
        return NULL;
    }
    if (b->len + len + 1 > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < b->len + len + 1)
            cap *= 2;
        char *data = b->is_fixed ? NULL : realloc(b->data, cap);
        if (!data) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->cap = cap;
        b->data[b->len] = '\0'; /* a caller that then reads nothing has an empty text, not what was there before */
    }
    return b->data + b->len;
}

void buf_put(struct buf *b, const void *data, size_t len)
{
    char *at = buf_reserve(b, len);
    if (!at)
        return;
    memcpy(at, data, len);
    at[len] = '\0';
    b->len += len;
}

void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *at = len < 0 ? NULL : buf_reserve(b, (size_t)len);
    if (at) {
        vsnprintf(at, (size_t)len + 1, format, again);
        b->len += (size_t)len;
    }
    va_end(again);
}

void buf_put_int(struct buf *b, int64_t value)
{
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--at = '-';
    buf_put(b, at, (size_t)(digits + sizeof digits - at));
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    if (!b->failed && !b->data)
        buf_put(b, "", 0);
    char *data = b->failed ? NULL : b->data;
    if (!data)
        buf_clear(b);
    *b = (struct buf){.max = b->max};
    return data;
}

static void put_escaped(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        buf_put(b, "\\\"", 2);
        break;
    case '\\':
        buf_put(b, "\\\\", 2);
        break;
    case '\n':
        buf_put(b, "\\n", 2);
        break;
    case '\t':
        buf_put(b, "\\t", 2);
        break;
    case '\r':
        buf_put(b, "\\r", 2);
        break;
    default:
        buf_printf(b, "\\u%04x", c);
    }
}

/* How many characters from here on stand for themselves. */
static size_t plain_length(const char *s, size_t max)
{
    size_t len = 0;
    while (len < max && (unsigned char)s[len] >= 0x20 && (unsigned char)s[len] < 0x7f && s[len] != '"' &&
           s[len] != '\\')
        len++;
    return len;
}

enum { ESCAPED_AT_ONCE = 4096 };

/* Puts the characters that stand for themselves or need a backslash alone, at most ESCAPED_AT_ONCE; returns how many. Where there may
 * be no room for twice as many, none. */
static size_t put_simple(struct buf *b, const char *s, size_t len)
{
    size_t most = len < ESCAPED_AT_ONCE ? len : ESCAPED_AT_ONCE, done = 0;
    if (b->is_fixed || b->failed || b->max - b->len <= 2 * most + 1)
        return 0;
    char *at = buf_reserve(b, 2 * most), *end = at;
    for (; at && done < most && (unsigned char)s[done] >= 0x20 && (unsigned char)s[done] < 0x7f; done++) {
        if (s[done] == '"' || s[done] == '\\')
            *end++ = '\\';
        *end++ = s[done];
    }
    b->len += (size_t)(end - at);
    if (at)
        *end = '\0';
    return done;
}

static void buf_put_quoted(struct buf *b, const char *s, size_t len)
{
    char *at = buf_reserve(b, len + 2);
    if (!at)
        return;
    at[0] = at[len + 1] = '"';
    memcpy(at + 1, s, len);
    at[len + 2] = '\0';
    b->len += len + 2;
}

/* A character that is not ASCII, or what is in its place; returns its length. */
static size_t put_wide(struct buf *b, const char *s, size_t left)
{
    size_t len = utf8_sequence(s, left);
    /* YAML takes these three for line breaks, JSON for characters; escaped, both read what was written. */
    if (len == 2 && memcmp(s, "\xc2\x85", 2) == 0)
        buf_puts(b, "\\u0085");
    else if (len == 3 && (memcmp(s, "\xe2\x80\xa8", 3) == 0 || memcmp(s, "\xe2\x80\xa9", 3) == 0))
        buf_puts(b, s[2] == '\xa8' ? "\\u2028" : "\\u2029");
    else
        buf_put(b, len ? s : "\xef\xbf\xbd", len ? len : 3);
    return len ? len : 1;
}

void buf_json_text(struct buf *b, const char *s, size_t len)
{
    size_t plain = plain_length(s, len);
    if (plain == len) { /* nearly every one */
        buf_put_quoted(b, s, len);
        return;
    }
    buf_put(b, "\"", 1);
    for (size_t at = 0; at < len;) {
        size_t done = put_simple(b, s + at, len - at);
        at += done;
        if (done)
            continue;
        plain = plain_length(s + at, len - at);
        buf_put(b, s + at, plain);
        at += plain;
        if (at < len && (unsigned char)s[at] >= 0x80)
            at += put_wide(b, s + at, len - at);
        else if (at < len)
            put_escaped(b, (unsigned char)s[at++]);
    }
    buf_put(b, "\"", 1);
}

void buf_json_string(struct buf *b, const char *s)
{
    if (s)
        buf_json_text(b, s, strlen(s));
    else
        buf_puts(b, "null");
}

void buf_json_key(struct buf *b, const char *key)
{
    bool is_first = !b->len || b->data[b->len - 1] == '{' || b->data[b->len - 1] == '[';
    size_t len = strlen(key);
    char *at = buf_reserve(b, len + 3 + !is_first);
    if (!at)
        return;
    b->len += len + 3 + !is_first;
    if (!is_first)
        *at++ = ',';
    *at++ = '"';
    memcpy(at, key, len + 1); /* keys are ours: nothing in them needs escaping */
    memcpy(at + len, "\":", sizeof "\":");
}

void buf_json_pair(struct buf *b, const char *key, const char *value)
{
    buf_json_key(b, key);
    buf_json_string(b, value);
}

void buf_json_pair_int(struct buf *b, const char *key, int64_t value)
{
    buf_json_key(b, key);
    buf_put_int(b, value);
}
