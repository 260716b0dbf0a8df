/* json.h - JSON trees (jansson), with the limits that input from outside needs.
 *
 * Include this, never <jansson.h>. For writing on a hot path see buf.h. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <jansson.h>

#define JSON_SIZE_MAX (4u << 20)

void json_free(json_t **value); /* for CLEANUP */
#define CLEANUP_JSON CLEANUP(json_free)

/* Loops over the values of an array (may be NULL), in order, and over the members of an object. The names are declared by the
 * loop; `break` and `continue` work as in one loop. The body must not remove anything. */
#define json_each(array, i, item)                                                                                      \
    for (size_t i = 0, item##_more = 1; item##_more && i < json_array_size(array); i++)                                \
        for (json_t *item = (item##_more = 0, json_array_get(array, i)); !item##_more; item##_more = 1)
#define json_each_pair(object, key, value)                                                                             \
    for (void *key##_at = json_object_iter((json_t *)(object)), *key##_now; key##_at;                                  \
         key##_at = key##_now ? NULL : json_object_iter_next((json_t *)(object), key##_at))                            \
        for (const char *key = (key##_now = key##_at, json_object_iter_key(key##_at)); key; key = NULL)                \
            for (json_t *value = json_object_iter_value(key##_at); key##_now; key##_now = NULL)

#define json_each_key(object, key)                                                                                     \
    for (void *key##_at = json_object_iter((json_t *)(object)), *key##_now; key##_at;                                  \
         key##_at = key##_now ? NULL : json_object_iter_next((json_t *)(object), key##_at))                            \
        for (const char *key = (key##_now = key##_at, json_object_iter_key(key##_at)); key; key = key##_now = NULL)

/* Parses one document. Duplicate keys, trailing text, depth over jansson's limit and NUL in strings are refused;
 * the error names `source`:line:column. */
int json_parse(const char *text, size_t len, const char *source, json_t **ret, struct tsk_error *err);

/* A fast parser for plain JSON, as programs write it. NULL for any other text, valid or not: use json_parse then. Owned. */
json_t *json_read_plain(const char *text, size_t len);

/* The same for an object of texts, integers and nulls, without a tree: each text, and the digits of each integer, in order. False
 * for any other document; what was taken by then does not count. */
typedef void json_take(void *data, const char *key, const char *value);
bool json_take_plain(const char *text, size_t len, json_take *take, void *data);

/* Borrowed member of the wanted type, or the fallback. */
const char *json_get_string(const json_t *object, const char *key, const char *fallback);
int64_t json_get_int(const json_t *object, const char *key, int64_t fallback);
bool json_get_bool(const json_t *object, const char *key, bool fallback);
/* Whether the member `key` is this text. A member that is absent or is not a text counts as "". */
bool json_text_is(const json_t *object, const char *key, const char *text);
/* Copies the members that `keys` names and `from` has. The list ends with NULL. */
void json_copy_keys(json_t *to, const json_t *from, const char *const *keys);
/* Sets the text; null if it is empty or NULL. */
void json_set_text(json_t *object, const char *key, const char *text);
/* Appends the texts of an array (may be NULL), separated by `between`. */
void json_put_texts(struct buf *b, const json_t *texts, const char *between);
/* A time in the form of time_format_exact, or null for 0 and below. Owned. */
json_t *json_of_time(int64_t wall_ms);
/* A borrowed value by dotted path ("holder.pid"), or NULL. */
const json_t *json_at(const json_t *object, const char *path);

/* Parses a number in any notation; owned. NULL if the text is not a number. */
json_t *json_number_of_text(const char *text);

/* A value that is written already: json_write copies the text as it is. Owned. Everything else sees a string that no document has,
 * so it is only for answers that are written and not read. json_unfinished: the value itself, as of any value; owned. */
json_t *json_finished(const struct buf *text);
json_t *json_unfinished(const json_t *finished);

/* Serialised, keys in insertion order; a real number with as few digits as it needs. */
void json_write(struct buf *b, const json_t *value, bool pretty);

/* The context pairs of an error as an object; and the whole `{"error": ...}` document that every skin shows. */
json_t *json_of_error_context(const struct tsk_error *err);
json_t *json_of_error(const struct tsk_error *err, const char *lang_name);

#endif
