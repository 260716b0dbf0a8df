/* edit_text.c - the text of a request's file, changed where it is to change.
 *
 * A value that stands on its key's line is replaced where it stands, so that a comment behind it stays. One that takes several
 * lines is replaced with all of its lines, comments between them included; comments and blank lines around it stay. A new key
 * comes behind the one that stands before it in the usual order. What comes out is read again: only if it says what was meant
 * it is taken. A file in a form that was not foreseen (such as one pair of braces) is written again from its values; not if
 * anything would be lost with it. */
#include "run/edit_text.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "base/yaml_reader.h"

#include <string.h>

/* ---- writing values ------------------------------------------------------------------------------------- */

/* Whether it means itself without quotes. */
static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(text);
    if (!len || !strchr(letters, text[0]) || text[len - 1] == ' ' || yaml_is_reserved(text) || yaml_needs_escapes(text))
        return false;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < 0x80 && !strchr(letters, *at) && !strchr("0123456789 ._/+=@()-", *at))
            return false;
    return true;
}

/* Whether it can stand as a block: `|` and indented lines. */
static bool is_block(const char *text)
{
    size_t len = strlen(text);
    if (!strchr(text, '\n') || text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || len < 2 ||
        (text[len - 1] == '\n' && text[len - 2] == '\n') || yaml_needs_escapes(text))
        return false;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' && *at != '\n' && *at != '\t')
            return false;
    return true;
}

static void put_block(struct buf *b, const char *text)
{
    bool has_end = text[strlen(text) - 1] == '\n';
    buf_puts(b, has_end ? "|\n" : "|-\n");
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len)
            buf_printf(b, "  %.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (*text)
            buf_puts(b, "\n");
    }
}

static void put_scalar(struct buf *b, const char *text)
{
    if (is_plain(text))
        buf_puts(b, text);
    else
        yaml_put_quoted(b, text);
}

/* One line, or a block; without the end of its last line. */
static void put_yaml_value(struct buf *b, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text && is_block(text)) {
        put_block(b, text);
    } else if (text) {
        put_scalar(b, text);
    } else {
        buf_puts(b, "[");
        json_each (value, i, one) {
            buf_puts(b, i ? ", " : "");
            put_scalar(b, json_string_value(one));
        }
        buf_puts(b, "]");
    }
}

static void put_pair(struct buf *b, const char *key, const json_t *value)
{
    buf_printf(b, "%s: ", key);
    put_yaml_value(b, value);
    buf_puts(b, "\n");
}

static bool value_is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

void edit_text_new(struct buf *text, const json_t *values)
{
    for (size_t i = 0; i < REQUEST_KEY_COUNT; i++) {
        const json_t *value = json_object_get(values, request_keys[i]);
        if (!value_is_absent(value) && !(json_is_array(value) && json_array_size(value) == 0))
            put_pair(text, request_keys[i], value);
    }
}

/* ---- where keys stand ----------------------------------------------------------------------------------- */

struct entry {
    char key[16];
    size_t from, to;             /* its lines, in bytes; without what follows its value */
    size_t value_from, value_to; /* of a value on one line; from == to: it is not on one */
};

struct layout {
    const char *text;
    size_t len;
    struct entry entries[REQUEST_KEY_COUNT];
    size_t count;
};

/* What libyaml takes for the end of a line: its length, 0 where there is none. */
static size_t break_length(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    if (c[0] == '\r')
        return c[1] == '\n' ? 2 : 1;
    if (c[0] == '\n')
        return 1;
    if (c[0] == 0xc2 && c[1] == 0x85)
        return 2;
    return c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9) ? 3 : 0;
}

static size_t line_start(const struct layout *l, unsigned line)
{
    size_t at = strncmp(l->text, YAML_BOM, 3) == 0 ? 3 : 0;
    while (line > 1 && at < l->len) {
        size_t len = break_length(l->text + at);
        line -= len > 0;
        at += len ? len : 1;
    }
    return at;
}

/* Columns count characters. */
static size_t layout_offset_of(const struct layout *l, unsigned line, unsigned column)
{
    size_t at = line_start(l, line);
    for (; column > 1 && at < l->len; column--)
        for (at++; at < l->len && utf8_is_inside(l->text[at]);)
            at++;
    return at;
}

/* `...` at the margin: nothing of the document comes behind it. */
static bool is_document_end(const char *line)
{
    return strncmp(line, "...", 3) == 0 && (!line[3] || strchr(" \t\r\n", line[3]));
}

/* Without blank lines and comments that are at the margin: they belong to what comes next. */
static size_t trim_end(const struct layout *l, size_t from, size_t to)
{
    while (to > from) {
        size_t start = to - 1;
        while (start > from && l->text[start - 1] != '\n')
            start--;
        size_t blank = strspn(l->text + start, " \t\r");
        if (start == from ||
            !(l->text[start] == '#' || l->text[start + blank] == '\n' || is_document_end(l->text + start)))
            break;
        to = start;
    }
    return to;
}

/* Skips a value; its last piece in *piece. */
static int skip_value(struct yaml_reader *reader, struct yaml_piece *piece, const char **reason)
{
    int depth = 0;
    do {
        if (yaml_reader_next(reader, piece, reason) < 0 || piece->type == YAML_PIECE_END_OF_FILE)
            return -1;
        depth += (piece->type == YAML_PIECE_LIST || piece->type == YAML_PIECE_MAP) - (piece->type == YAML_PIECE_END);
    } while (depth);
    return 0;
}

static int layout_read_entries(struct layout *l, struct yaml_reader *reader)
{
    struct yaml_piece piece, first;
    const char *reason;
    if (yaml_reader_next(reader, &piece, &reason) < 0)
        return -1;
    if (piece.type != YAML_PIECE_MAP)
        return piece.type == YAML_PIECE_END_OF_FILE ? 0 : -1; /* nothing but comments */
    while (l->count < REQUEST_KEY_COUNT) {
        struct entry *e = &l->entries[l->count];
        if (yaml_reader_next(reader, &piece, &reason) < 0)
            return -1;
        if (piece.type == YAML_PIECE_END)
            return 0;
        if (piece.type != YAML_PIECE_SCALAR || piece.column != 1 || piece.len >= sizeof e->key)
            return -1;
        memcpy(e->key, piece.text, piece.len + 1);
        unsigned line = piece.line, colon = piece.end_column;
        e->from = line_start(l, line);
        if (skip_value(reader, &piece, &reason) < 0)
            return -1;
        first = piece;
        if (l->count)
            l->entries[l->count - 1].to = trim_end(l, l->entries[l->count - 1].from, e->from);
        e->to = trim_end(l, e->from, l->len);
        /* A plain empty value has no place of its own. */
        bool is_short = first.end_line == line && first.end_column > colon + 1 && !first.is_block;
        if (is_short && piece.type == YAML_PIECE_SCALAR) {
            e->value_from = layout_offset_of(l, line, piece.column);
            e->value_to = layout_offset_of(l, line, piece.end_column);
        } else if (is_short) { /* [a, b] on the key's line */
            e->value_to = layout_offset_of(l, line, piece.end_column);
            e->value_from = layout_offset_of(l, line, colon) + 1;
            e->value_from += strspn(l->text + e->value_from, " \t");
            if (l->text[e->value_from] != '[')
                e->value_to = e->value_from = 0;
        }
        l->count++;
    }
    return yaml_reader_next(reader, &piece, &reason) < 0 || piece.type != YAML_PIECE_END ? -1 : 0;
}

static int layout_read(struct layout *l, const char *text, size_t len)
{
    struct yaml_reader *reader;
    struct tsk_error ignored;
    *l = (struct layout){.text = text, .len = len};
    if (yaml_reader_open(text, len, &reader, &ignored) < 0)
        return -1;
    int result = layout_read_entries(l, reader);
    yaml_reader_close(reader);
    return result;
}

static const struct entry *layout_find(const struct layout *l, const char *key)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->entries[i].key, key) == 0)
            return &l->entries[i];
    return NULL;
}

/* Where a key that is not there would stand. */
static size_t place_for(const struct layout *l, const char *key)
{
    size_t rank = 0;
    while (rank < REQUEST_KEY_COUNT && strcmp(request_keys[rank], key) != 0)
        rank++;
    while (rank-- > 0) {
        const struct entry *before = layout_find(l, request_keys[rank]);
        if (before)
            return before->to;
    }
    return l->count ? l->entries[0].from : l->len;
}

/* With the file's own line ends. */
static void use_crlf(struct buf *text)
{
    struct buf out = {.max = text->max};
    for (const char *at = buf_str(text); *at; at++) {
        if (*at == '\n')
            buf_puts(&out, "\r");
        buf_put(&out, at, 1);
    }
    buf_clear(text);
    *text = out;
}

static bool is_crlf(const struct buf *text)
{
    const char *end = memchr(buf_str(text), '\n', text->len);
    return end && end > text->data && end[-1] == '\r';
}

static void text_splice(struct buf *text, size_t from, size_t to, const char *with)
{
    struct buf out = {.max = text->max};
    buf_put(&out, text->data, from);
    if (from && out.data[from - 1] != '\n' && from == text->len)
        buf_puts(&out, is_crlf(text) ? "\r\n" : "\n");
    buf_puts(&out, with);
    buf_put(&out, text->data + to, text->len - to);
    buf_clear(text);
    *text = out;
}

static int change_key(struct buf *text, const char *key, const json_t *value)
{
    struct layout l;
    struct buf with CLEANUP(buf_clear) = BUF_INIT;
    buf_put(text, "", 0);
    if (layout_read(&l, buf_str(text), text->len) < 0)
        return -1;
    const struct entry *e = layout_find(&l, key);
    if (value_is_absent(value)) {
        if (e)
            text_splice(text, e->from, e->to, "");
        return 0;
    }
    put_yaml_value(&with, value);
    bool is_line = !strchr(buf_str(&with), '\n');
    if (e && e->value_to > e->value_from && is_line) {
        text_splice(text, e->value_from, e->value_to, buf_str(&with));
        return 0;
    }
    buf_reset(&with);
    put_pair(&with, key, value);
    if (is_crlf(text))
        use_crlf(&with);
    size_t at = e ? e->from : place_for(&l, key);
    text_splice(text, at, e ? e->to : at, buf_str(&with));
    return 0;
}

/* What the file must say afterwards: what it said, with `values` over it. */
static json_t *wanted_values(const struct request *before, const json_t *values)
{
    json_t *all = json_object(), *value;
    const char *key;
    for (size_t i = 0; i < REQUEST_KEY_COUNT; i++)
        if (before->given & 1u << i && json_object_get(before->json, request_keys[i]))
            json_object_set(all, request_keys[i], json_object_get(before->json, request_keys[i]));
    json_object_update(all, (json_t *)values);
    void *next;
    json_object_foreach_safe(all, next, key, value)
    {
        if (value_is_absent(value))
            json_object_del(all, key);
    }
    return all;
}

bool edit_text_says(const struct request *request, const json_t *values)
{
    for (size_t i = 0; i < REQUEST_KEY_COUNT; i++) {
        const json_t *is = json_object_get(request->json, request_keys[i]),
                     *must = json_object_get(values, request_keys[i]);
        bool stands = request->given & 1u << i && is && !(json_is_array(is) && json_array_size(is) == 0);
        if (value_is_absent(must) ? stands : !json_equal(is, must))
            return false;
    }
    return true;
}

/* The places where the keys stand are not known, or a key cannot simply be added: all values once more, if that is all. */
static int request_rewrite(const struct request *before, const json_t *want, struct buf *text, struct tsk_error *err)
{
    if (request_need_whole(before, err) < 0)
        return -1;
    if (memchr(before->text.data, '#', before->text.len)) {
        error_set(err, TSK_INVALID_INPUT, "request_form", "source", before->source, NULL);
        return error_add_next(err, "tasuki request edit %s", before->id);
    }
    buf_reset(text);
    edit_text_new(text, want);
    return 0;
}

int edit_text_change(const struct request *before, const json_t *values, enum lang lang, struct buf *text,
                     struct tsk_error *err)
{
    json_t *want CLEANUP_JSON = wanted_values(before, values);
    struct buf anew CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    struct request after CLEANUP(request_clear) = {.json = NULL}, meant CLEANUP(request_clear) = {.json = NULL};
    bool is_done = true;
    buf_put(text, buf_str(&before->text), before->text.len);
    json_each_pair (values, key, value)
        is_done = is_done && change_key(text, key, value) == 0;
    request_parse(before->id, buf_str(text), text->len, lang, &after);
    if (is_done && !request_is_broken(&after) && edit_text_says(&after, want))
        return 0;
    edit_text_new(&anew, want);
    request_parse(before->id, buf_str(&anew), anew.len, lang, &meant);
    /* Broken by what was asked for, or still as broken as it was: the caller says how. */
    if (is_done && request_is_broken(&after) && (request_is_broken(&meant) || request_is_broken(before)))
        return 0;
    return request_rewrite(before, want, text, err);
}
