/* text_tables.h - the types of the tables that tools/embed_messages.py generates. Only text.c and the generated file use them. */
#ifndef BASE_TEXT_TABLES_H
#define BASE_TEXT_TABLES_H

#include "base/text.h"

enum {
    TEXT_CODE_COUNT = 1 /* TSK_OK */
#define X(symbol, name, category, http, exit, retryable) +1
#include "base/errors.def"
#undef X
};

struct text_entry {
    const char *key;
    const char *sentence[LANG_COUNT];
};

extern const struct code_text text_codes[LANG_COUNT][TEXT_CODE_COUNT];
extern const struct text_entry text_entries[]; /* sorted by key, in the order of strcmp */
extern const size_t text_entry_count;

#endif
