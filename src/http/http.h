/* http.h - the server: HTTP and live events as a skin over the operation table, and the transport of MCP over HTTP.
 *
 *     row --> route.c: path, query, body become arguments --> job.c: a worker runs the operation --> its JSON and status
 *     trail --> feed.c: formatted once, sent to every stream
 *
 *  S1  Routes, OpenAPI and statuses come from the rows and errors.def; no code here knows an operation by its name (the
 *      statistics count three kinds of things, and say so).
 *  S2  One thread has all sockets and never waits for anything but them; operations run in the workers of mcp/pool.h.
 *  S3  The server has no state of its own: killed at any moment, the next one shows everything again. A client goes on with the
 *      id of the last event it saw.
 *  S4  Nobody is heard before Host, Origin and token (TCP) or the peer's user (unix socket) were looked at: access.c.
 *
 * Files: `server.sock`, `server.token` and `server.lock` in `.aiflow/`, all 0600. The lock's byte 0 is held by the server that
 * serves; its content says where that one is. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "ops/ops.h"

/* `tasuki serve`: serves until SIGTERM or SIGINT. */
int http_serve(struct op_call *call, struct tsk_error *err);

#endif
