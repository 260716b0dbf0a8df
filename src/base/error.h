/* error.h - the error value, and the table of reason codes behind it.
 *
 * A function that can fail returns 0 or -1 and fills `struct tsk_error *err` (never NULL):
 *
 *     return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "id", "value", id, NULL);
 *
 * The third argument is the key of a sentence in share/messages.v1.*.json ("texts"), whose {placeholders} are
 * the context pairs that follow; NULL stands for the code's own title. The sentence is built only when a skin shows
 * it, in that skin's language. The first error wins: callers may add context with error_add, but never overwrite the
 * code.
 *
 * Values are copied into the error. A value that does not fit is cut or dropped. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "tasuki.h"

#include <stdarg.h>
#include <stdlib.h>

#define CLEANUP(function) __attribute__((cleanup(function)))
#define CLEANUP_FREE      CLEANUP(pointer_free) /* free() */
static inline void pointer_free(void *pointer)
{
    free(*(void **)pointer);
}

/* One row of errors.def. */
struct code_info {
    const char *name;
    const char *category;
    int http_status;
    int exit_code;
    bool is_retryable;
};

const struct code_info *code_info(enum tsk_code code);
enum tsk_code code_count(void);

/* The functions error_set, error_errno and error_add… return -1, so that a function can end with `return error_set(...)`. The list of (key, value) pairs
 * ends with a NULL key; a NULL value is stored as null. */
int error_set(struct tsk_error *err, enum tsk_code code, const char *text, ...) __attribute__((sentinel));
/* A failed system call: errno decides the code (for example STORAGE_FULL), and the text is "{what} {path}: {reason}".
 * `what` is an English verb phrase such as "open". */
int error_errno(struct tsk_error *err, const char *what, const char *path);
/* error_errno with ENOMEM. */
int error_no_memory(struct tsk_error *err, const char *what, const char *path) __attribute__((cold));

int error_add(struct tsk_error *err, const char *key, const char *value);
int error_add_int(struct tsk_error *err, const char *key, int64_t value);
/* Adds a serialised JSON value to the context object. */
int error_add_json(struct tsk_error *err, const char *key, const char *json);
/* Adds a serialised JSON value beside `error` in the document, not to its context: existing clients expect `latest_run` and
 * `details` there. */
int error_add_beside(struct tsk_error *err, const char *key, const char *json);
int error_add_next(struct tsk_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the value of a text in the context; changes nothing if there is no such text. */
void error_replace(struct tsk_error *err, const char *key, const char *value);
/* Removes the next commands, for a caller that knows better ones. */
void error_clear_next(struct tsk_error *err);

/* Iterates over the stored items in order. `type` is 's' string, 'j' JSON, 'b' JSON beside the error, 'n' next command
 * (its key is ""). */
struct error_item {
    char type;
    const char *key;
    const char *value;
};
bool error_item_next(const struct tsk_error *err, unsigned *cursor, struct error_item *ret);

/* For a bug, not an error: prints file and line and aborts. */
void bug_abort(const char *file, int line, const char *condition) __attribute__((noreturn));
#define BUG(condition)                                                                                                 \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            bug_abort(__FILE__, __LINE__, #condition);                                                                 \
    } while (0)
/* Returns zeroed memory, never NULL: missing memory is a bug. The caller frees it. */
static inline void *memory_zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    BUG(!memory);
    return memory;
}

#ifdef __clang_analyzer__ /* it does not see that these always return -1 */
#define error_set(...)       (error_set(__VA_ARGS__), -1)
#define error_errno(...)     (error_errno(__VA_ARGS__), -1)
#define error_no_memory(...) (error_no_memory(__VA_ARGS__), -1)
#define error_add(...)       (error_add(__VA_ARGS__), -1)
#define error_add_int(...)   (error_add_int(__VA_ARGS__), -1)
#define error_add_json(...)  (error_add_json(__VA_ARGS__), -1)
#define error_add_next(...)  (error_add_next(__VA_ARGS__), -1)
#endif

#endif
