/* nearest.h - what somebody may have meant by a word that is not known. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/* The name nearest to `word` among `count` candidates, or NULL when none is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);

#endif
