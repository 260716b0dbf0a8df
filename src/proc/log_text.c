#include "proc/log_text.h"
#include "base/utf8.h"

#include <string.h>

#define SGR_MAX 64 /* longer ones are no colour */

static size_t skip_range(const char *s, size_t at, size_t len, unsigned char low, unsigned char high)
{
    while (at < len && (unsigned char)s[at] >= low && (unsigned char)s[at] <= high)
        at++;
    return at;
}

/* Behind the BEL or ESC \ that ends a string sequence (OSC, DCS, …); without one, the end of the text: so does a terminal. */
static size_t string_end(const char *s, size_t len)
{
    for (size_t i = 2; i < len; i++) {
        if (s[i] == '\a')
            return i + 1;
        if (s[i] == '\033')
            return i + 1 < len && s[i + 1] == '\\' ? i + 2 : i;
    }
    return len;
}

/* Length of the escape sequence at s (s[0] is ESC), by ECMA-48. A broken one ends before the byte that does not fit. */
static size_t sequence_length(const char *s, size_t len, bool *ret_is_colour)
{
    *ret_is_colour = false;
    if (len < 2)
        return len;
    if (strchr("]PX^_", s[1]) && s[1])
        return string_end(s, len);
    if (s[1] != '[') {
        size_t at = skip_range(s, 1, len, 0x20, 0x2f);
        return skip_range(s, at, at < len ? at + 1 : len, 0x30, 0x7e);
    }
    size_t params = skip_range(s, 2, len, 0x30, 0x3f);
    size_t at = skip_range(s, params, len, 0x20, 0x2f);
    size_t end = skip_range(s, at, at < len ? at + 1 : len, 0x40, 0x7e);
    *ret_is_colour =
        end > at && at == params && s[at] == 'm' && end <= SGR_MAX && skip_range(s, 2, len, '0', ';') == params;
    return end;
}

const char *log_text_last_part(const char *line, size_t *len)
{
    while (*len && line[*len - 1] == '\r')
        --*len;
    const char *back = *len ? memrchr(line, '\r', *len) : NULL;
    if (back)
        *len -= (size_t)(back + 1 - line);
    return back ? back + 1 : line;
}

void log_text_strip(struct buf *b, const char *text, size_t len)
{
    bool is_colour;
    while (len) {
        const char *escape = memchr(text, '\033', len);
        size_t plain = escape ? (size_t)(escape - text) : len;
        buf_put(b, text, plain);
        text += plain;
        len -= plain;
        size_t skip = escape ? sequence_length(text, len, &is_colour) : 0;
        text += skip;
        len -= skip;
    }
}

/* Text without ESC and newline. is_last: its line ends with it. */
static void put_plain(struct buf *b, const char *text, size_t len, bool is_last, struct buf *scratch)
{
    while (len) {
        size_t part = 0;
        while (part < len && text[part] && text[part] != '\r')
            part++;
        buf_reset(scratch);
        buf_put(scratch, text, part);
        utf8_put_visible(b, buf_str(scratch), true);
        if (part < len && text[part] == '\0')
            buf_puts(b, "\\x00");
        else if (part + 1 < len || (part < len && !is_last)) /* but not the one of CRLF */
            buf_puts(b, "\n");
        part += part < len;
        text += part;
        len -= part;
    }
}

static void put_line(struct buf *b, const char *text, size_t len, bool has_colour, struct buf *scratch)
{
    bool is_coloured = false, is_colour;
    while (len) {
        const char *escape = memchr(text, '\033', len);
        size_t plain = escape ? (size_t)(escape - text) : len;
        put_plain(b, text, plain, !escape, scratch);
        text += plain;
        len -= plain;
        size_t skip = escape ? sequence_length(text, len, &is_colour) : 0;
        if (escape && is_colour && has_colour) {
            buf_put(b, text, skip);
            is_coloured = true;
        }
        text += skip;
        len -= skip;
    }
    if (is_coloured)
        buf_puts(b, "\033[0m");
}

void log_text_for_terminal(struct buf *b, const char *text, size_t len, bool has_colour)
{
    struct buf scratch CLEANUP(buf_clear) = BUF_INIT;
    while (len) {
        const char *newline = memchr(text, '\n', len);
        size_t line = newline ? (size_t)(newline - text) : len;
        put_line(b, text, line, has_colour, &scratch);
        if (newline)
            buf_puts(b, "\n");
        line += newline != NULL;
        text += line;
        len -= line;
    }
}

json_t *log_text_json(const char *text, size_t len)
{
    struct buf clean CLEANUP(buf_clear) = BUF_INIT;
    if (utf8_is_valid(text, len))
        return json_stringn(text, len);
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = utf8_sequence(text + i, len - i);
        buf_put(&clean, n ? text + i : "\xef\xbf\xbd", n ? n : 3);
    }
    return clean.failed ? NULL : json_stringn(buf_str(&clean), clean.len);
}
