/* words.h - a growing NULL-terminated list of strings: the argv and the environment of a program to be started. */
#ifndef PROC_WORDS_H
#define PROC_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct words {
    char **items; /* NULL-terminated once something was added */
    size_t count, room;
    bool failed; /* out of memory; checked once, at the end */
};

void words_clear(struct words *words);
void words_add(struct words *words, const char *word);
void words_printf(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* NAME=VALUE, in the place of an earlier NAME=… */
void words_set(struct words *words, const char *name, const char *value);
void words_unset(struct words *words, const char *name);

#endif
