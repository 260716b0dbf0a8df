/* utf8.h - UTF-8 and terminal columns, as far as tasuki needs them. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Length of the well-formed sequence at s (1-4), or 0. Overlong forms, surrogates and > U+10FFFF are not. */
size_t utf8_sequence(const char *s, size_t len);
bool utf8_is_valid(const char *s, size_t len);
/* Copies as many whole characters as fit into `size` bytes, NUL included. */
void utf8_copy(char *to, size_t size, const char *from);
/* Columns a terminal gives to the string: East Asian wide characters count two, combining ones none. */
size_t utf8_width(const char *s);
/* The length in bytes of the longest prefix of the string that takes at most `columns`. */
size_t utf8_fit(const char *s, size_t columns);
/* Appends s in a form that is safe for a terminal: control characters, C1 controls, bidirectional overrides
 * and invalid bytes appear as \xNN or \u{NNNN}. With `lines`, newline and tab stay. */
void utf8_put_visible(struct buf *b, const char *s, bool lines);
/* Whether the byte continues a character. */
static inline bool utf8_is_inside(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}
/* The same on one line for people to read: the end of a line appears as a sign. */
void utf8_put_line(struct buf *b, const char *s);

#endif
