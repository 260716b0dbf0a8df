#include "base/utf8.h"
#include "base/buf.h"

#include <string.h>

size_t utf8_sequence(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    if (len == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;
    size_t need = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc2 ? 2 : 0;
    if (need == 0 || u[0] > 0xf4 || len < need)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
        (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return need;
}

bool utf8_is_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(s + i, len - i);
        if (!n)
            return false;
        i += n;
    }
    return true;
}

void utf8_copy(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, size);
    if (len == size) {
        len--;
        while (len && utf8_is_inside(from[len]))
            len--;
    }
    memcpy(to, from, len);
    to[len] = '\0';
}

static uint32_t utf8_decode(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    uint32_t c = n == 1 ? u[0] : n == 2 ? u[0] & 0x1f : n == 3 ? u[0] & 0x0f : u[0] & 0x07;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (u[i] & 0x3f);
    return c;
}

static bool in_range(uint32_t c, uint32_t low, uint32_t high)
{
    return c >= low && c <= high;
}

static size_t character_width_of(uint32_t c)
{
    if (in_range(c, 0x300, 0x36f) || in_range(c, 0x200b, 0x200f) || in_range(c, 0xfe00, 0xfe0f) || c == 0x3099 ||
        c == 0x309a)
        return 0;
    if (in_range(c, 0x1100, 0x115f) || in_range(c, 0x2e80, 0x303e) || in_range(c, 0x3041, 0xa4cf) ||
        in_range(c, 0xac00, 0xd7a3) || in_range(c, 0xf900, 0xfaff) || in_range(c, 0xfe30, 0xfe6f) ||
        in_range(c, 0xff00, 0xff60) || in_range(c, 0xffe0, 0xffe6) || in_range(c, 0x1f300, 0x1faff) ||
        in_range(c, 0x20000, 0x3fffd))
        return 2;
    return 1;
}

/* Returns the columns of the character at s; its length in bytes is in *ret_len. */
static size_t width_at(const char *s, size_t *ret_len)
{
    size_t n = utf8_sequence(s, strnlen(s, 4));
    *ret_len = n ? n : 1;
    return n ? character_width_of(utf8_decode(s, n)) : 1;
}

size_t utf8_width(const char *s)
{
    size_t width = 0;
    for (size_t n; *s; s += n)
        width += width_at(s, &n);
    return width;
}

size_t utf8_fit(const char *s, size_t columns)
{
    const char *at = s;
    for (size_t n, width; *at; at += n, columns -= width)
        if ((width = width_at(at, &n)) > columns)
            break;
    return (size_t)(at - s);
}

static bool is_harmful(uint32_t c, bool lines)
{
    if (lines && (c == '\n' || c == '\t'))
        return false;
    return c < 0x20 || in_range(c, 0x7f, 0x9f) || in_range(c, 0x200e, 0x200f) || in_range(c, 0x202a, 0x202e) ||
           in_range(c, 0x2066, 0x2069);
}

/* `newline` NULL: as \x0a. */
static void put_visible(struct buf *b, const char *s, bool lines, const char *newline)
{
    for (size_t left = strlen(s); left;) {
        size_t n = utf8_sequence(s, left);
        uint32_t c = n ? utf8_decode(s, n) : (unsigned char)*s;
        if (c == '\n' && newline)
            buf_puts(b, newline);
        else if (!n || (is_harmful(c, lines) && c < 0x100))
            buf_printf(b, "\\x%02x", (unsigned)c);
        else if (is_harmful(c, lines))
            buf_printf(b, "\\u{%04x}", (unsigned)c);
        else
            buf_put(b, s, n);
        s += n ? n : 1;
        left -= n ? n : 1;
    }
}

void utf8_put_visible(struct buf *b, const char *s, bool lines)
{
    put_visible(b, s, lines, NULL);
}

void utf8_put_line(struct buf *b, const char *s)
{
    put_visible(b, s, false, "\xe2\x8f\x8e "); /* U+23CE */
}
