/* agents.c - /mcp */
#include "http/internal.h"
struct http_agents {
    int x;
};
void agents_init(struct http_server *server, struct mcp_server *mcp)
{
    (void)server;
    (void)mcp;
}
void agents_request(struct http_conn *conn)
{
    conn_refuse(conn, 404, TSK_NOT_FOUND, "http_no_path");
}
int agents_tick(struct http_server *server, int64_t now_ms)
{
    (void)server;
    (void)now_ms;
    return -1;
}
void agents_news(struct http_server *server)
{
    (void)server;
}
void agents_end(struct http_server *server)
{
    (void)server;
}
bool agents_are_idle(struct http_server *server)
{
    (void)server;
    return true;
}
void agents_clear(struct http_server *server)
{
    (void)server;
}
