#include "http/parse.h"
#include "base/utf8.h"

#include <ctype.h>
#include <string.h>

/* ---- words ---- */

static bool is_token_char(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token_text(const struct http_text *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (!is_token_char((unsigned char)text->at[i]))
            return false;
    return text->len > 0;
}

bool http_text_is(const struct http_text *text, const char *word)
{
    return text && strlen(word) == text->len && memcmp(text->at, word, text->len) == 0;
}

bool http_text_is_caseless(const struct http_text *text, const char *word)
{
    return text && strlen(word) == text->len && strncasecmp(text->at, word, text->len) == 0;
}

static struct http_text trimmed_text(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct http_text){at, (size_t)(end - at)};
}

bool http_text_has(const struct http_text *list, const char *word)
{
    const char *at = list ? list->at : NULL, *end = list ? at + list->len : NULL;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        const char *more = memchr(at, ';', (size_t)(stop - at));
        struct http_text item = trimmed_text(at, more ? more : stop);
        if (http_text_is_caseless(&item, word))
            return true;
        at = stop + 1;
    }
    return false;
}

const struct http_text *http_header(const struct http_head *head, const char *name)
{
    for (unsigned i = 0; i < head->count; i++)
        if (http_text_is_caseless(&head->headers[i].name, name))
            return &head->headers[i].value;
    return NULL;
}

static int parse_refuse(struct http_refusal *refusal, int status, const char *text)
{
    *refusal = (struct http_refusal){status, text};
    return -1;
}

/* ---- the head ---- */

size_t http_head_end(const char *data, size_t len, size_t *scanned)
{
    const char *end = data + len, *at = data + *scanned;
    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        const char *before = at > data && at[-1] == '\r' ? at - 1 : at;
        if (before > data && before[-1] == '\n')
            break;
    }
    *scanned = len;
    return at && at < end ? (size_t)(at - data) + 1 : 0;
}

/* P1, P4 */
static int parse_target(const struct http_text *target, struct http_head *ret, struct http_refusal *refusal)
{
    if (target->len == 0 || target->at[0] != '/')
        return parse_refuse(refusal, 400, "http_bad_target");
    for (size_t i = 0; i < target->len; i++)
        if (target->at[i] <= ' ' || target->at[i] >= 127 || target->at[i] == '#')
            return parse_refuse(refusal, 400, "http_bad_target");
    const char *end = target->at + target->len, *question = memchr(target->at, '?', target->len);
    ret->path = (struct http_text){target->at, (size_t)((question ? question : end) - target->at)};
    ret->query = (struct http_text){question ? question + 1 : end, question ? (size_t)(end - question - 1) : 0};
    return 0;
}

static int parse_line(const char *line, size_t len, struct http_head *ret, struct http_refusal *refusal)
{
    const char *end = line + len, *first = memchr(line, ' ', len);
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return parse_refuse(refusal, 400, "http_bad_line");
    struct http_text target = {first + 1, (size_t)(second - first - 1)};
    struct http_text version = {second + 1, (size_t)(end - second - 1)};
    ret->method = (struct http_text){line, (size_t)(first - line)};
    if (!is_token_text(&ret->method))
        return parse_refuse(refusal, 400, "http_bad_line");
    ret->keeps_alive = http_text_is(&version, "HTTP/1.1");
    if (!ret->keeps_alive && !http_text_is(&version, "HTTP/1.0")) {
        bool is_http = version.len == 8 && memcmp(version.at, "HTTP/", 5) == 0;
        return parse_refuse(refusal, is_http ? 505 : 400, is_http ? "http_bad_version" : "http_bad_line");
    }
    return parse_target(&target, ret, refusal);
}

/* P1, P3 */
static int parse_field(const char *line, size_t len, struct http_head *ret, struct http_refusal *refusal)
{
    const char *colon = memchr(line, ':', len);
    if (!colon)
        return parse_refuse(refusal, 400, "http_bad_header");
    struct http_header header = {{line, (size_t)(colon - line)}, trimmed_text(colon + 1, line + len)};
    if (!is_token_text(&header.name))
        return parse_refuse(refusal, 400, "http_bad_header");
    for (size_t i = 0; i < header.value.len; i++) {
        unsigned char c = (unsigned char)header.value.at[i];
        if ((c < ' ' && c != '\t') || c == 127)
            return parse_refuse(refusal, 400, "http_bad_header");
    }
    if (ret->count == HTTP_HEADERS_MAX)
        return parse_refuse(refusal, 431, "http_head_too_large");
    ret->headers[ret->count++] = header;
    return 0;
}

/* P2: the one header of that name, NULL in *ret when there is none. */
static int parse_single(const struct http_head *head, const char *name, const char *text, const struct http_text **ret,
                        struct http_refusal *refusal)
{
    *ret = NULL;
    for (unsigned i = 0; i < head->count; i++) {
        if (!http_text_is_caseless(&head->headers[i].name, name))
            continue;
        if (*ret)
            return parse_refuse(refusal, 400, text);
        *ret = &head->headers[i].value;
    }
    return 0;
}

static int parse_length(const struct http_text *value, int64_t *ret, struct http_refusal *refusal)
{
    *ret = 0;
    for (size_t i = 0; i < value->len; i++) {
        if (!isdigit((unsigned char)value->at[i]) || value->len > 18)
            return parse_refuse(refusal, 400, "http_bad_length");
        *ret = *ret * 10 + (value->at[i] - '0');
    }
    if (value->len == 0)
        return parse_refuse(refusal, 400, "http_bad_length");
    return *ret > HTTP_BODY_MAX ? parse_refuse(refusal, 413, "http_body_too_large") : 0;
}

/* P2 */
static int parse_framing(struct http_head *ret, struct http_refusal *refusal)
{
    const struct http_text *host, *length, *encoding, *coding, *expect, *origin, *token;
    if (parse_single(ret, "Origin", "http_bad_header", &origin, refusal) < 0 ||
        parse_single(ret, "Authorization", "http_bad_header", &token, refusal) < 0 ||
        parse_single(ret, "Host", "http_bad_host", &host, refusal) < 0 ||
        parse_single(ret, "Content-Length", "http_bad_length", &length, refusal) < 0 ||
        parse_single(ret, "Transfer-Encoding", "http_bad_encoding", &encoding, refusal) < 0 ||
        parse_single(ret, "Content-Encoding", "http_bad_coding", &coding, refusal) < 0 ||
        parse_single(ret, "Expect", "http_bad_header", &expect, refusal) < 0)
        return -1;
    if (!host)
        return parse_refuse(refusal, 400, "http_bad_host");
    if (length && encoding)
        return parse_refuse(refusal, 400, "http_bad_encoding");
    if (encoding && (!ret->keeps_alive || !http_text_is_caseless(encoding, "chunked")))
        return parse_refuse(refusal, ret->keeps_alive ? 501 : 400, "http_bad_encoding");
    if (expect && !http_text_is_caseless(expect, "100-continue"))
        return parse_refuse(refusal, 417, "http_bad_expect");
    if (coding && !http_text_is_caseless(coding, "identity"))
        return parse_refuse(refusal, 415, "http_bad_coding");
    ret->host = *host;
    ret->is_chunked = encoding != NULL;
    ret->expects_continue = expect != NULL && ret->keeps_alive;
    return length ? parse_length(length, &ret->content_length, refusal) : 0;
}

int http_parse_head(const char *data, size_t len, struct http_head *ret, struct http_refusal *refusal)
{
    const char *at = data, *end = data + len - 2; /* before the empty line */
    ret->count = 0;
    ret->content_length = -1;
    ret->is_chunked = ret->expects_continue = false;
    if (len > HTTP_HEAD_MAX)
        return parse_refuse(refusal, 431, "http_head_too_large");
    if (len < 4 || memcmp(data + len - 4, "\r\n\r\n", 4) != 0)
        return parse_refuse(refusal, 400, "http_bad_line");
    for (bool is_first = true; at < end; is_first = false) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        if (!stop || stop[1] != '\n' || memchr(at, '\n', (size_t)(stop - at)))
            return parse_refuse(refusal, 400, "http_bad_line");
        int result = is_first ? parse_line(at, (size_t)(stop - at), ret, refusal)
                              : parse_field(at, (size_t)(stop - at), ret, refusal);
        if (result < 0)
            return -1;
        at = stop + 2;
    }
    if (at == data)
        return parse_refuse(refusal, 400, "http_bad_line");
    if (parse_framing(ret, refusal) < 0)
        return -1;
    const struct http_text *connection = http_header(ret, "Connection");
    ret->keeps_alive = ret->keeps_alive && !http_text_has(connection, "close");
    return 0;
}

/* ---- chunks ---- */

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST_CR,
    CHUNK_LAST_LF
};
#define CHUNK_LINE_MAX 256

static int parse_hex_digit(char c)
{
    const char *digits = "0123456789abcdefABCDEF", *at = c ? strchr(digits, c) : NULL;
    return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

static int chunk_size(struct http_chunks *chunks, char c)
{
    int digit = parse_hex_digit(c);
    if (++chunks->line_len > CHUNK_LINE_MAX)
        return -1;
    if (chunks->state == CHUNK_SIZE && digit >= 0) {
        chunks->left = chunks->left * 16 + (unsigned)digit;
        return chunks->left > HTTP_BODY_MAX ? -1 : 0;
    }
    if (chunks->line_len == 1) /* no digit at all */
        return -1;
    if (c == '\r')
        chunks->state = CHUNK_SIZE_LF;
    else if (chunks->state == CHUNK_SIZE && c == ';')
        chunks->state = CHUNK_EXTENSION;
    else if (chunks->state == CHUNK_SIZE || (c < ' ' && c != '\t') || c == 127)
        return -1;
    return 0;
}

/* One character that is not data; -1: it does not belong there. Trailers are not taken: nobody needs them. */
static int chunk_step(struct http_chunks *chunks, char c)
{
    static const struct {
        char want;
        unsigned next;
    } steps[] = {
        [CHUNK_DATA_CR] = {'\r', CHUNK_DATA_LF}, [CHUNK_DATA_LF] = {'\n', CHUNK_SIZE},
        [CHUNK_LAST_CR] = {'\r', CHUNK_LAST_LF}, [CHUNK_LAST_LF] = {'\n', CHUNK_LAST_LF},
        [CHUNK_SIZE_LF] = {'\n', CHUNK_DATA},
    };
    if (chunks->state == CHUNK_SIZE || chunks->state == CHUNK_EXTENSION)
        return chunk_size(chunks, c);
    if (c != steps[chunks->state].want)
        return -1;
    chunks->is_done = chunks->state == CHUNK_LAST_LF;
    chunks->state = steps[chunks->state].next;
    if (chunks->state == CHUNK_DATA && chunks->left == 0)
        chunks->state = CHUNK_LAST_CR;
    chunks->line_len = 0;
    return 0;
}

ssize_t http_chunks_take(struct http_chunks *chunks, const char *data, size_t len, struct buf *body,
                         struct http_refusal *refusal)
{
    size_t at = 0;
    while (at < len && !chunks->is_done) {
        if (chunks->state != CHUNK_DATA) {
            if (chunk_step(chunks, data[at++]) == 0)
                continue;
            return chunks->left > HTTP_BODY_MAX ? parse_refuse(refusal, 413, "http_body_too_large")
                                                : parse_refuse(refusal, 400, "http_bad_chunk");
        }
        size_t some = len - at < chunks->left ? len - at : (size_t)chunks->left;
        if (body->len + some > HTTP_BODY_MAX)
            return parse_refuse(refusal, 413, "http_body_too_large");
        buf_put(body, data + at, some);
        at += some;
        chunks->left -= some;
        if (chunks->left == 0)
            chunks->state = CHUNK_DATA_CR;
    }
    return (ssize_t)at;
}

/* ---- escapes ---- */

bool http_put_decoded(struct buf *b, const struct http_text *text, bool is_form)
{
    size_t begin = b->len;
    for (size_t i = 0; i < text->len; i++) {
        char c = text->at[i];
        if (c == '%') {
            int high = i + 2 < text->len ? parse_hex_digit(text->at[i + 1]) : -1;
            int low = i + 2 < text->len ? parse_hex_digit(text->at[i + 2]) : -1;
            if (high < 0 || low < 0 || (high | low) == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && is_form) {
            c = ' ';
        }
        buf_put(b, &c, 1);
    }
    return !b->failed && utf8_is_valid(buf_str(b) + begin, b->len - begin);
}
