/* Any bytes as frames of a connection (one per line): every frame that comes back is a JSON-RPC message, and each request has at
 * most one answer. There is no workspace, so that no operation does anything. */
#include "../mcp/fixtures.h"
#include "mcp/internal.h"
#include "mcp/pool.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frame(void *data, const struct mcp_frame *frame)
{
    struct tsk_error err;
    json_t *message CLEANUP_JSON = NULL;
    (void)data;
    BUG(memchr(frame->text, '\n', frame->len));
    BUG(json_parse(frame->text, frame->len, "frame", &message, &err) < 0);
    BUG(strcmp(json_get_string(message, "jsonrpc", ""), "2.0") != 0);
    bool has_method = json_is_string(json_object_get(message, "method"));
    bool has_result = json_object_get(message, "result") != NULL, has_error = json_object_get(message, "error") != NULL;
    BUG(has_method + has_result + has_error != 1);
    BUG(has_error && !json_is_integer(json_at(message, "error.code")));
    BUG(has_result && !json_object_get(message, "id"));
}

static struct mcp_server *server_of_all(void)
{
    static struct mcp_server *server;
    struct tsk_error err;
    mcp_extra = &fixtures;
    struct mcp_options options = {
        .root = "/dev/null/nowhere", .lang = LANG_EN, .tools = "processes,templates,workspace"};
    BUG(!server && mcp_server_new(&options, &server, &err) < 0);
    return server;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_server *server = server_of_all();
    struct mcp_link *link = mcp_link_new(server, check_frame, NULL);
    const char *at = (const char *)data, *end = at + size;
    for (int lines = 0; at < end && lines < LINES_MAX; lines++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = newline ? (size_t)(newline - at) : (size_t)(end - at);
        mcp_link_take(link, (uint64_t)lines, at, len);
        at += len + 1;
    }
    mcp_link_tick(link);
    mcp_link_end(link, 10000);
    BUG(!pool_drain(server->pool, 10000));
    mcp_link_free(link);
    return 0;
}
