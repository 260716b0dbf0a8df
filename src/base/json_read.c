/* json_read.c - the JSON that programs write: a quick reader for most texts, which leaves all others to jansson.
 *
 *  Q1  A text that this reader accepts has the value that jansson gives it. It refuses what needs care: escapes, characters beyond
 *      ASCII, real and very large numbers, doubled keys, deep nesting, errors. A refusal says nothing about the text. */
#include "base/json.h"

#include <string.h>

enum { JSON_DEPTH_MAX = 32, DIGITS_MAX = 18 };

struct reader {
    const char *at, *end; /* *end is no part of the text and is not read */
    int depth;
};

static json_t *read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool next_is(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* The characters up to the closing quote, behind the opening one; NULL: not plain. */
static const char *read_plain(struct reader *r, size_t *ret_len)
{
    const char *begin = r->at, *at = begin;
    while (at < r->end && *at != '"' && *at != '\\' && *at >= 0x20 && *at < 0x7f)
        at++;
    if (at == r->end || *at != '"')
        return NULL;
    *ret_len = (size_t)(at - begin);
    r->at = at + 1;
    return begin;
}

static json_t *read_object(struct reader *r)
{
    json_t *object = json_object();
    if (next_is(r, '}'))
        return object;
    for (size_t count = 1;; count++) {
        size_t len;
        const char *key = next_is(r, '"') ? read_plain(r, &len) : NULL;
        json_t *value = key && next_is(r, ':') ? read_value(r) : NULL;
        /* A doubled key leaves the number of members as it was. */
        if (!value || json_object_setn_new_nocheck(object, key, len, value) < 0 || json_object_size(object) != count)
            break;
        if (next_is(r, '}'))
            return object;
        if (!next_is(r, ','))
            break;
    }
    json_decref(object);
    return NULL;
}

static json_t *read_array(struct reader *r)
{
    json_t *array = json_array();
    if (next_is(r, ']'))
        return array;
    for (;;) {
        json_t *value = read_value(r);
        if (!value || json_array_append_new(array, value) < 0)
            break;
        if (next_is(r, ']'))
            return array;
        if (!next_is(r, ','))
            break;
    }
    json_decref(array);
    return NULL;
}

static bool read_digits(struct reader *r, json_int_t *ret)
{
    bool is_negative = *r->at == '-';
    const char *begin = r->at += is_negative, *at = begin;
    json_int_t value = 0;
    for (; at < r->end && *at >= '0' && *at <= '9' && at - begin < DIGITS_MAX; at++)
        value = value * 10 + (*at - '0');
    bool has_leading_zero = at > begin && *begin == '0' && (at > begin + 1 || is_negative);
    bool goes_on = at < r->end && (*at == '.' || *at == 'e' || *at == 'E' || (*at >= '0' && *at <= '9'));
    if (at == begin || has_leading_zero || goes_on)
        return false;
    r->at = at;
    *ret = is_negative ? -value : value;
    return true;
}

static json_t *read_integer(struct reader *r)
{
    json_int_t value;
    return read_digits(r, &value) ? json_integer(value) : NULL;
}

static bool skip_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

static json_t *read_value(struct reader *r)
{
    size_t len;
    const char *text;
    json_t *value = NULL;
    if (next_is(r, '"'))
        return (text = read_plain(r, &len)) ? json_stringn_nocheck(text, len) : NULL;
    if (next_is(r, '{') || next_is(r, '[')) {
        if (++r->depth < JSON_DEPTH_MAX)
            value = r->at[-1] == '{' ? read_object(r) : read_array(r);
        r->depth--;
        return value;
    }
    if (r->at == r->end)
        return NULL;
    if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))
        return read_integer(r);
    return skip_word(r, "null")    ? json_null()
           : skip_word(r, "true")  ? json_true()
           : skip_word(r, "false") ? json_false()
                                   : NULL;
}

json_t *json_read_plain(const char *text, size_t len)
{
    struct reader r = {.at = text, .end = text + len};
    json_t *value = read_value(&r);
    skip_blanks(&r);
    if (r.at == r.end && (json_is_object(value) || json_is_array(value)))
        return value;
    json_decref(value);
    return NULL;
}

/* ---- without a tree ---- */

enum { MEMBERS_MAX = 48, MEMBER_NAME_SIZE = 32, MEMBER_TEXT_SIZE = 1024 };

struct piece {
    const char *at;
    size_t len;
};

static bool has_piece(const struct piece *pieces, size_t count, const struct piece *piece)
{
    for (size_t i = 0; i < count; i++)
        if (pieces[i].len == piece->len && memcmp(pieces[i].at, piece->at, piece->len) == 0)
            return true;
    return false;
}

static bool copy_piece(const struct piece *piece, char *text, size_t size)
{
    if (piece->len >= size)
        return false;
    memcpy(text, piece->at, piece->len);
    text[piece->len] = '\0';
    return true;
}

/* A text, an integer, or null, which is passed over. */
static bool take_member(struct reader *r, const struct piece *key, json_take *take, void *data)
{
    char name[MEMBER_NAME_SIZE], value[MEMBER_TEXT_SIZE];
    struct piece text;
    json_int_t ignored;
    if (skip_word(r, "null"))
        return true;
    if (next_is(r, '"')) {
        text.at = read_plain(r, &text.len);
    } else {
        text.at = r->at;
        if (r->at == r->end || !(*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) || !read_digits(r, &ignored))
            return false;
        text.len = (size_t)(r->at - text.at);
    }
    if (!text.at || !copy_piece(key, name, sizeof name) || !copy_piece(&text, value, sizeof value))
        return false;
    take(data, name, value);
    return true;
}

bool json_take_plain(const char *text, size_t len, json_take *take, void *data)
{
    struct reader r = {.at = text, .end = text + len};
    struct piece keys[MEMBERS_MAX];
    if (!next_is(&r, '{'))
        return false;
    for (size_t count = 0; count < MEMBERS_MAX; count++) {
        struct piece *key = &keys[count];
        if (!next_is(&r, '"') || !(key->at = read_plain(&r, &key->len)) || has_piece(keys, count, key) ||
            !next_is(&r, ':'))
            return false;
        skip_blanks(&r);
        if (!take_member(&r, key, take, data))
            return false;
        if (next_is(&r, '}')) {
            skip_blanks(&r);
            return r.at == r.end;
        }
        if (!next_is(&r, ','))
            return false;
    }
    return false;
}
