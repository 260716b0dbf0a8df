/* word.h - words: the known word nearest to a typed one, quoting for a shell, and splitting a line. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include "base/buf.h"

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);
/* The word as /bin/sh needs it, quoted if necessary. It is stored in `b` and borrowed until `b` is reset. */
const char *shell_word(struct buf *b, const char *text);
/* Splits a line at its blanks, in place, into at most `max` words. Returns their number. (sscanf would make the program larger
 * by 80 KB.) */
size_t words_split(char *line, char *ret[], size_t max);

#endif
