#include "proc/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void words_clear(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    *words = (struct words){.items = NULL};
}

static void add_take(struct words *words, char *word)
{
    if (words->count + 2 > words->room) {
        size_t room = words->room ? words->room * 2 : 64;
        char **items = realloc(words->items, room * sizeof *items);
        if (items) {
            words->items = items;
            words->room = room;
        }
    }
    if (!word || words->count + 2 > words->room) {
        free(word);
        words->failed = true;
        return;
    }
    words->items[words->count++] = word;
    words->items[words->count] = NULL;
}

void words_add(struct words *words, const char *word)
{
    add_take(words, strdup(word));
}

void words_printf(struct words *words, const char *format, ...)
{
    char *word;
    va_list values;
    va_start(values, format);
    int len = vasprintf(&word, format, values);
    va_end(values);
    add_take(words, len < 0 ? NULL : word);
}

static bool is_named(const char *word, const char *name)
{
    size_t len = strlen(name);
    return strncmp(word, name, len) == 0 && word[len] == '=';
}

void words_unset(struct words *words, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < words->count; i++) {
        if (is_named(words->items[i], name))
            free(words->items[i]);
        else
            words->items[kept++] = words->items[i];
    }
    words->count = kept;
    if (words->items)
        words->items[kept] = NULL;
}

void words_set(struct words *words, const char *name, const char *value)
{
    words_unset(words, name);
    words_printf(words, "%s=%s", name, value);
}
