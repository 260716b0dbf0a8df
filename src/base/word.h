/* word.h - words: the known word nearest to a typed one, quoting for a shell, and splitting a line. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include "base/buf.h"

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);
/* The word as /bin/sh needs it, quoted if necessary. It is stored in `b` and borrowed until `b` is reset. */
const char *shell_word(struct buf *b, const char *text);
/* Appends the text as a part of a file name or a URI: [A-Za-z0-9][A-Za-z0-9._-]* stays, every other byte becomes %XX. */
void word_put_encoded(struct buf *b, const char *text);
/* The reverse, in place; false when a % is not followed by two digits, or by 00. */
bool word_decode(char *text);
/* Splits a line at its blanks, in place, into at most `max` words. Returns their number. (sscanf would make the program larger
 * by 80 KB.) */
size_t words_split(char *line, char *ret[], size_t max);
/* Whether the word is in a list that ends with NULL. */
bool word_is_in(const char *word, const char *const *list);
/* FNV-1a. */
#define HASH_BEGIN 0xcbf29ce484222325u
static inline uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}
/* The number as decimal text, which lasts as long as the block in which the macro stands. */
#define DIGITS(value) number_text((value), (char[24]){0})
const char *number_text(int64_t value, char text[24]); /* for DIGITS */
/* The last name of a path. */
const char *path_name(const char *path);
/* The text; NULL if it is empty or NULL (for json_pack's "s?"). */
const char *text_or_null(const char *text);

#endif
