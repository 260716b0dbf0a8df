/* access.c - who may come in. On TCP: the right Host (a page of another name cannot reach us by pointing its name at this
 * machine), no foreign Origin (another page cannot use the user's browser), and the token. On the unix socket the kernel has
 * said who the peer is (listen.c); Host and Origin are looked at all the same. */
#include "http/internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* "name", "name:port", "[::1]:port": splits the port off, which may be empty. */
static void split_authority(const struct http_text *authority, struct http_text *name, struct http_text *port)
{
    const char *at = authority->at, *end = at + authority->len;
    const char *close = authority->len && *at == '[' ? memchr(at, ']', authority->len) : NULL;
    const char *from = close ? close + 1 : at, *colon = memchr(from, ':', (size_t)(end - from));
    const char *stop = colon ? colon : end;
    *name = (struct http_text){at, (size_t)(stop - at)};
    *port = (struct http_text){colon ? colon + 1 : end, colon ? (size_t)(end - colon - 1) : 0};
}

static bool is_loopback(const struct http_text *name)
{
    char text[64];
    struct in_addr address;
    if (http_text_is_caseless(name, "localhost") || http_text_is(name, "[::1]"))
        return true;
    if (name->len >= sizeof text)
        return false;
    memcpy(text, name->at, name->len);
    text[name->len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

static bool is_our_host(const struct http_server *server, const struct http_text *name)
{
    if (is_loopback(name))
        return true;
    json_each (server->hosts, i, host)
        if (http_text_is_caseless(name, json_string_value(host)))
            return true;
    return false;
}

static bool is_host_ours(const struct http_server *server, const struct http_text *host)
{
    struct http_text name, port;
    split_authority(host, &name, &port);
    for (size_t i = 0; i < port.len; i++)
        if (port.at[i] < '0' || port.at[i] > '9')
            return false;
    return is_our_host(server, &name);
}

/* Ours: a name of ours, on the port that the request went to. */
static bool is_origin_ours(const struct http_server *server, const struct http_head *head,
                           const struct http_text *origin)
{
    struct http_text name, port, host_name, host_port;
    const char *slashes = memmem(origin->at, origin->len, "://", 3);
    if (!slashes)
        return false;
    struct http_text scheme = {origin->at, (size_t)(slashes - origin->at)};
    struct http_text authority = {slashes + 3, origin->len - scheme.len - 3};
    if (!http_text_is_caseless(&scheme, "http") && !http_text_is_caseless(&scheme, "https"))
        return false;
    split_authority(&authority, &name, &port);
    split_authority(&head->host, &host_name, &host_port);
    return is_our_host(server, &name) && port.len == host_port.len && memcmp(port.at, host_port.at, port.len) == 0;
}

/* In constant time for a text of the right length. */
static bool is_our_token(const struct http_server *server, const struct http_text *value)
{
    static const char word[] = "Bearer ";
    unsigned char difference = 0;
    if (!value || value->len != sizeof word - 1 + HTTP_TOKEN_DIGITS ||
        strncasecmp(value->at, word, sizeof word - 1) != 0)
        return false;
    for (size_t i = 0; i < HTTP_TOKEN_DIGITS; i++)
        difference |= (unsigned char)(value->at[sizeof word - 1 + i] ^ server->token[i]);
    return difference == 0;
}

/* The files of the page are the same for everybody, and the page brings the token itself once it is loaded. Whether a server is
 * here is no secret. A body costs memory and time: it needs a token. */
static bool access_is_open(const struct http_head *head)
{
    bool is_look = http_text_is(&head->method, "GET") || http_text_is(&head->method, "HEAD");
    bool has_body = head->content_length > 0 || head->is_chunked;
    return is_look && !has_body && (page_has(&head->path) || http_text_is(&head->path, "/healthz"));
}

bool http_may_enter(struct http_conn *conn)
{
    const struct http_server *server = conn->server;
    const struct http_text *origin = http_header(conn->head, "Origin");
    bool is_known = conn->is_unix || is_our_token(server, http_header(conn->head, "Authorization"));
    if (!is_host_ours(server, &conn->head->host))
        conn_refuse(conn, 403, TSK_FORBIDDEN_ORIGIN, "http_foreign_host");
    else if (origin && !is_origin_ours(server, conn->head, origin))
        conn_refuse(conn, 403, TSK_FORBIDDEN_ORIGIN, "http_foreign_origin");
    else if (!is_known && !access_is_open(conn->head))
        conn_refuse(conn, 401, TSK_UNAUTHORIZED, "http_no_token");
    else {
        conn->is_known = conn->is_known || is_known;
        return true;
    }
    return false;
}
