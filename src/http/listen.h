/* listen.h - how clients find the server: its sockets, its token, and the lock that says that it runs. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "http/internal.h"

#define SERVE_PORT 7411

/* Takes server.lock, and .aiflow/ itself. CONFLICT "serve_running" says where the server is that has it; so do url and other_pid. Waits
 * for the locks of one that does not answer: it may be dying. */
int listen_lock(struct http_server *server, struct tsk_error *err);
/* Reads server.token; false if there is none that is ours alone. */
bool listen_has_token(struct http_server *server);
/* Reads or makes it. */
int listen_token(struct http_server *server, struct tsk_error *err);
/* TCP: `address` (NULL: 127.0.0.1) on `port` (-1: the one of the last time, or 7411 and the ones after it). Fills server->url. */
int listen_tcp(struct http_server *server, const char *address, int port, struct tsk_error *err);
bool listen_is_loopback(const char *address);
/* .aiflow/server.sock */
int listen_unix(struct http_server *server, struct tsk_error *err);
/* Writes down where we are, for the next one. */
int listen_tell(struct http_server *server, struct tsk_error *err);
/* Says that we are still here: the time of server.lock. */
void listen_beat(struct http_server *server);
/* After a descriptor was missing (R5). */
void listen_again(struct http_server *server);
void listen_close(struct http_server *server);

#endif
