/* text.h - messages in the user's language. The sentences are in share/messages.v1.{ja,en,zh}.json and embedded in the
 * program; tests/checks makes sure that src and share agree. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/buf.h"
#include "base/json.h"

enum lang { LANG_JA, LANG_EN, LANG_ZH, LANG_COUNT };

/* Parses "ja", "ja_JP.UTF-8", "zh-CN", ... Returns false if tasuki does not have the language. */
bool lang_parse(const char *name, enum lang *ret);
const char *lang_name(enum lang lang);
/* TASUKI_LANG, else LC_ALL, LC_MESSAGES, LANG; English when none is ours. */
enum lang lang_from_environment(void);

/* The texts of a reason code. `actions` ends with NULL. */
struct code_text {
    const char *title, *summary;
    const char *const *actions;
};
const struct code_text *text_of_code(enum tsk_code code, enum lang lang);
/* The sentence with that key; a missing key is a bug. */
const char *text_get(const char *key, enum lang lang);

/* The catalogue's copy of a key, in static storage; NULL if there is no such key. */
const char *text_key(const char *key);

/* Appends the sentence with its {placeholders} replaced from (name, value) pairs; ends with a NULL name. `{count|file|files}` is the first
 * word where count is 1, else the second. */
void text_put(struct buf *b, enum lang lang, const char *key, ...) __attribute__((sentinel));
void text_put_list(struct buf *b, enum lang lang, const char *key, va_list *pairs);
/* The same from the keys of `values`, else from those of `more` (may be NULL). */
void text_put_json(struct buf *b, enum lang lang, const char *key, const json_t *values, const json_t *more);
/* A span as duration_format writes it ("2 h 5 min"), with the units of the language; another text as it is. Sentences do this to
 * their {span}, {age}, {left}, {uptime} and {cpu}. */
void text_put_span(struct buf *b, enum lang lang, const char *span);
/* Why a text is not YAML (yaml.h says it in English) in this language; another text as it is. Sentences do this to their {reason}. */
void text_put_reason(struct buf *b, enum lang lang, const char *english);
/* A value for people: a string without quotes, nothing as "-". */
void text_put_value(struct buf *b, const json_t *value);
/* Appends the error's one-sentence message. */
void text_put_error(struct buf *b, enum lang lang, const struct tsk_error *err);

/* A file that is read later, by somebody with another language: `reason_code`, `reason` (the message in this language, for readers
 * that know no other) and `reason_text`: {key, values}. */
void text_keep_reason(json_t *json, enum lang lang, const struct tsk_error *err);
/* `reason` in the reader's language, and no `reason_text`. A file without it, or with a key of another version, keeps its words. */
void text_read_reason(json_t *json, enum lang lang);

#endif
