/* Any bytes as what a client sends: heads, bodies, routes and arguments, up to the point where an operation would begin. The
 * first byte says in pieces of which size the rest arrives; how it arrives must not matter.
 *
 * What holds for a request that is not refused: everything points into it, it has one Host, and one way only to say how long its
 * body is; its result is a row with arguments, or an error with a status. */
#include "http/agents.h"
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(const struct http_text *text, const char *data, size_t len)
{
    BUG(text->at < data || text->at + text->len > data + len);
}

static unsigned count_of(const struct http_head *head, const char *name)
{
    unsigned count = 0;
    for (unsigned i = 0; i < head->count; i++)
        count += http_text_is_caseless(&head->headers[i].name, name);
    return count;
}

static void check_head(const struct http_head *head, const char *data, size_t len)
{
    check_inside(&head->method, data, len);
    check_inside(&head->path, data, len);
    check_inside(&head->query, data, len);
    check_inside(&head->host, data, len);
    BUG(head->path.len == 0 || head->path.at[0] != '/');
    BUG(count_of(head, "Host") != 1);
    BUG(count_of(head, "Content-Length") + count_of(head, "Transfer-Encoding") > 1);
    BUG(head->is_chunked != (count_of(head, "Transfer-Encoding") == 1));
    BUG(head->content_length > (int64_t)HTTP_BODY_MAX);
    for (unsigned i = 0; i < head->count; i++) {
        check_inside(&head->headers[i].name, data, len);
        check_inside(&head->headers[i].value, data, len);
        BUG(memchr(head->headers[i].value.at, '\n', head->headers[i].value.len));
        BUG(memchr(head->headers[i].value.at, '\0', head->headers[i].value.len));
    }
}

static void check_arguments(const struct http_head *head, const struct buf *body)
{
    json_t *document CLEANUP_JSON = NULL, *args CLEANUP_JSON = NULL;
    struct tsk_error err = {0};
    struct http_route route = {0};
    char allow[64];
    if (body->len && json_parse(buf_str(body), body->len, "body", &document, &err) < 0)
        return;
    if (http_text_is(&head->path, "/mcp") && json_is_object(document)) {
        agents_mismatch(head, document, NULL);
        return;
    }
    if (document && !json_is_object(document))
        return;
    enum route_found found = route_find(head, document, &route, &args, allow, &err);
    BUG(found == ROUTE_FOUND && err.code == TSK_OK && (!route.op || !args));
    BUG(found != ROUTE_FOUND && args);
    if (found == ROUTE_FOUND && err.code == TSK_OK && op_check_args(route.op, args, &err) < 0)
        BUG(code_info(err.code)->http_status != 400);
}

/* The body, in pieces; how many bytes it took, -1: refused or not complete. */
static ssize_t take_body(const struct http_head *head, const char *data, size_t len, size_t piece, struct buf *body)
{
    struct http_chunks chunks = {0};
    struct http_refusal refusal = {0};
    if (!head->is_chunked) {
        size_t want = head->content_length > 0 ? (size_t)head->content_length : 0;
        buf_put(body, data, want < len ? want : len);
        return want <= len ? (ssize_t)want : -1;
    }
    for (size_t at = 0; at < len && !chunks.is_done;) {
        ssize_t taken = http_chunks_take(&chunks, data + at, len - at < piece ? len - at : piece, body, &refusal);
        BUG(taken < 0 && !refusal.status);
        BUG(body->len > HTTP_BODY_MAX);
        if (taken < 0)
            return -1;
        at += (size_t)taken;
        if (chunks.is_done)
            return (ssize_t)at;
    }
    return -1;
}

static size_t find_end(const char *data, size_t len, size_t piece)
{
    size_t scanned = 0, end = 0, whole = 0;
    for (size_t seen = 0; seen < len && !end;) {
        seen = len - seen < piece ? len : seen + piece;
        end = http_head_end(data, seen, &scanned);
    }
    BUG(end != http_head_end(data, len, &whole));
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static struct http_head head;
    if (size < 2)
        return 0;
    size_t piece = input[0] ? input[0] : 1, len = size - 1;
    char *copy = malloc(len);
    const char *data = copy;
    BUG(!copy);
    memcpy(copy, input + 1, len);
    for (int i = 0; i < REQUESTS_MAX && len; i++) {
        struct buf body CLEANUP(buf_clear) = BUF_INIT;
        struct http_refusal refusal = {0};
        size_t end = find_end(data, len, piece);
        if (!end)
            break;
        if (http_parse_head(data, end, &head, &refusal) < 0) {
            BUG(refusal.status < 400 || refusal.status > 505 || !refusal.text);
            break;
        }
        check_head(&head, data, end);
        ssize_t taken = take_body(&head, data + end, len - end, piece, &body);
        if (taken < 0)
            break;
        check_arguments(&head, &body);
        data += end + (size_t)taken;
        len -= end + (size_t)taken;
    }
    free(copy);
    return 0;
}
