/* text.h - what tasuki says, in the user's language. The sentences are in share/messages.v1.{ja,en,zh}.json and
 * embedded in the program; src and share are kept equal by tests/checks. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"

enum lang { LANG_JA, LANG_EN, LANG_ZH, LANG_COUNT };

/* "ja", "ja_JP.UTF-8", "zh-CN", ... false if it names none of ours. */
bool lang_parse(const char *name, enum lang *ret);
const char *lang_name(enum lang lang);
/* TASUKI_LANG, else LC_ALL, LC_MESSAGES, LANG; English when none is ours. */
enum lang lang_from_environment(void);

/* What the catalogue says of a reason code. `actions` ends with NULL. */
struct code_text {
    const char *title, *summary;
    const char *const *actions;
};
const struct code_text *text_of_code(enum tsk_code code, enum lang lang);
/* The sentence with that key; a missing key is a bug. */
const char *text_get(const char *key, enum lang lang);

/* The catalogue's own copy of a key, which lives for ever; NULL if there is none. */
const char *text_key(const char *key);

/* Appends the sentence with its {placeholders} replaced from (name, value) pairs; ends with a NULL name. */
void text_put(struct buf *b, enum lang lang, const char *key, ...) __attribute__((sentinel));
void text_put_list(struct buf *b, enum lang lang, const char *key, va_list *pairs);
/* Appends the error's one-sentence message. */
void text_put_error(struct buf *b, enum lang lang, const struct tsk_error *err);

#endif
