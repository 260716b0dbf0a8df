/* word.h - guessing which known word an unknown one was meant to be. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);

#endif
