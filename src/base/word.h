/* word.h - words: which known one was meant by one that people typed, how one is written for a shell, and those of a line. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include "base/buf.h"

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);
/* A word for /bin/sh, quoted if need be; into storage of the caller, borrowed until `b` is reset. */
const char *shell_word(struct buf *b, const char *text);
/* The first `max` words of a line, which is cut in place where it has blanks (sscanf would be 80 KB of the program). Returns how
 * many there were. */
size_t words_split(char *line, char *ret[], size_t max);

#endif
