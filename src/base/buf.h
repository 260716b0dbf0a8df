/* buf.h - a growing byte buffer with a stated maximum, and JSON written straight into it.
 *
 *     struct buf b CLEANUP(buf_clear) = BUF_INIT;
 *     buf_printf(&b, "%d", n);
 *     if (b.failed) ...          // out of memory or over the maximum; checked once, at the end
 *
 * The content is always NUL-terminated. A buffer may use the caller's storage (buf_init_fixed). It then never allocates and
 * fails when full; the hot path of locks needs that. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/error.h"

#define BUF_MAX_DEFAULT (64u << 20)

struct buf {
    char *data;
    size_t len, cap, max;
    bool failed;
    bool is_fixed;
};

#define BUF_INIT                                                                                                       \
    {                                                                                                                  \
        .max = BUF_MAX_DEFAULT                                                                                         \
    }

/* Makes room for one more entry in a list of which `count` of `room` entries are used. The list doubles, from `first` on. Missing
 * memory is a bug: it aborts. */
#define LIST_GROW(list, count, room, first)                                                                            \
    do {                                                                                                               \
        if ((count) == (room)) {                                                                                       \
            (room) = (room) ? (room)*2 : (first);                                                                      \
            (list) = realloc((list), (room) * sizeof *(list));                                                         \
            BUG(!(list));                                                                                              \
        }                                                                                                              \
    } while (0)

void buf_init_fixed(struct buf *b, char *storage, size_t size);
void buf_clear(struct buf *b);
void buf_reset(struct buf *b); /* empties, keeps the storage */
void buf_put(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_put_int(struct buf *b, int64_t value);
/* Room for at least `len` more bytes at data + len, or NULL. */
char *buf_reserve(struct buf *b, size_t len);
/* The content, never NULL. Borrowed. */
const char *buf_str(const struct buf *b);
/* Returns the content, which the caller frees, and leaves the buffer empty. NULL if the buffer has failed. */
char *buf_take(struct buf *b);

/* A quoted JSON string; invalid UTF-8 becomes U+FFFD; NULL becomes null. */
void buf_json_string(struct buf *b, const char *s);
void buf_json_text(struct buf *b, const char *s, size_t len); /* the same, of any bytes */
/* `"key":` with a comma before it unless the last byte opens an object. */
void buf_json_key(struct buf *b, const char *key);
void buf_json_pair(struct buf *b, const char *key, const char *value);
void buf_json_pair_int(struct buf *b, const char *key, int64_t value);

#endif
