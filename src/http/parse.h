/* parse.h - the bytes of an HTTP/1.1 request, judged strictly. Pure: no socket, no clock, no memory of its own.
 *
 * A request that two readers could understand differently is refused, not repaired, because request smuggling begins there:
 *  P1  Lines end with CR LF; a lone CR or LF, a NUL or another control character is refused.
 *  P2  Exactly one Host. At most one Content-Length, digits only. Transfer-Encoding is `chunked`, once, in HTTP/1.1, and never
 *      beside a Content-Length.
 *  P3  No white space before a header's colon, no folded lines; a name is a token.
 *  P4  The target is a path that begins with `/`, of visible ASCII characters.
 *  P5  A head has at most HTTP_HEAD_MAX bytes and HTTP_HEADERS_MAX fields, a body HTTP_BODY_MAX bytes. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include "base/buf.h"

#define HTTP_HEAD_MAX    (16u << 10)
#define HTTP_HEADERS_MAX 100
#define HTTP_BODY_MAX    (1u << 20)

struct http_text {
    const char *at;
    size_t len;
};

struct http_header {
    struct http_text name, value;
};

/* Points into the text that was parsed. */
struct http_head {
    struct http_text method, path, query; /* without the `?` */
    struct http_text host;
    struct http_header headers[HTTP_HEADERS_MAX];
    unsigned count;
    int64_t content_length; /* -1: none was given */
    bool is_chunked, keeps_alive, expects_continue;
};

/* Why a request is refused: the status, and a sentence's key. status 0: it is not. */
struct http_refusal {
    int status;
    const char *text;
};

/* Where a head ends (behind its empty line, also one without CR, so that it is refused and not waited for), 0 when it is not
 * complete. *scanned remembers what was seen, so that a head which
 * comes byte by byte is read once. */
size_t http_head_end(const char *data, size_t len, size_t *scanned);
/* `len` is what http_head_end said. 0, or -1 with the refusal. */
int http_parse_head(const char *data, size_t len, struct http_head *ret, struct http_refusal *refusal);

/* The value of a header, NULL when there is none. Names are compared without case. */
const struct http_text *http_header(const struct http_head *head, const char *name);
bool http_text_is(const struct http_text *text, const char *word);
bool http_text_is_caseless(const struct http_text *text, const char *word);
/* Whether the value, a list with commas, has the word (before any `;`). */
bool http_text_has(const struct http_text *list, const char *word);

/* A body that comes in chunks. */
struct http_chunks {
    uint64_t left;     /* of the chunk that is being read */
    unsigned state;    /* see parse.c */
    unsigned line_len; /* of the line with the size */
    bool is_done;
};
/* Takes what belongs to the body from `data`, appends it to `body`; how many bytes were taken, -1 with the refusal. */
ssize_t http_chunks_take(struct http_chunks *chunks, const char *data, size_t len, struct buf *body,
                         struct http_refusal *refusal);

/* Appends text with %XX resolved (`+` is a space if `is_form`); false when that is no text: a broken escape, a NUL, not UTF-8. */
bool http_put_decoded(struct buf *b, const struct http_text *text, bool is_form);

#endif
