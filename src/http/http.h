/* http.h - the server: HTTP and live events as a skin over the operation table, and the transport of MCP over HTTP.
 *
 *     row --> route.c: path, query, body become arguments --> job.c: a worker runs the operation --> its JSON and status
 *     trail --> feed.c: formatted once, sent to every stream
 *
 *  S1  Routes, OpenAPI and statuses come from the rows and errors.def; no code here knows an operation by its name (the
 *      statistics count three kinds of things, and say so).
 *  S2  One thread has all sockets and never waits for anything but them; operations run in the workers of mcp/pool.h.
 *  S3  The server has no state of its own: if it is killed at any moment, the next one shows everything again. A client
 *      continues with the id of the last event that it saw.
 *  S4  No request is served before Host, Origin and token (TCP) or the peer's user (unix socket) were checked (access.c).
 *
 * Places: how connections are shared among many clients (room.c; the limits of memory and time are C2 and C3 in conn.h).
 *  R1  A connection has a place. There are HTTP_CONNECTIONS_MAX, and never so many that fewer than 128 descriptors (with a
 *      limit below 256: half of it) are left for operations and for the other open files of the program. With 4,096
 *      descriptors, 1,024 of them are for what looks remember (proc/memo.h); with fewer, nothing is remembered. A stream of output
 *      counts with all descriptors that it has open; all such streams together get at most half of the descriptors.
 *  R2  The last 16 places (of few: a quarter) are for the unix socket alone: whatever happens on TCP, its user gets in.
 *  R3  When there is no place for a new connection, another is closed: first one that has not shown the token; then one that has
 *      shown it and is idle; then one whose body is incomplete. Among equals, the one that has been quiet for longest: since it
 *      connected, since its last answer, or since its head was complete.
 *  R4  A connection that has shown the token (or came through the unix socket) stays while the server works for it, answers it or
 *      sends it a stream. If all connections are like that, the new one is refused with 503.
 *  R5  If descriptors still run out, for a new connection or in an operation, a connection is closed by the same rule. If none
 *      can be closed, new connections wait in the kernel until the next tick.
 *  R6  At its end, the server waits only for requests in progress and for answers. An incomplete request is refused with 503; a
 *      connection that has not shown the token is closed.
 *
 * Files: `server.sock`, `server.token` and `server.lock` in `.aiflow/`, all 0600. The running server holds byte 0 of the lock;
 * the content says where the server is. People who tidy up remove lock files, so the server also locks `.aiflow/` itself. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "ops/ops.h"

/* `tasuki serve`: serves until SIGTERM or SIGINT. */
int http_serve(struct op_call *call, struct tsk_error *err);

#endif
