/* word.h - words that people type: which known one was meant, and how one is written for a shell. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include "base/buf.h"

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);
/* A word for /bin/sh, quoted if need be; into storage of the caller, borrowed until `b` is reset. */
const char *shell_word(struct buf *b, const char *text);

#endif
