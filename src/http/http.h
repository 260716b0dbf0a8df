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
 * Places: what a crowd costs those who are let in. (room.c; what it costs in memory and time: C2, C3 in conn.h)
 *  R1  A connection has a place. There are HTTP_CONNECTIONS_MAX, and never so many that fewer than 128 descriptors (with a limit
 *      below 256: half of it) are left for operations and what else the program has open. A stream of output counts as what it
 *      has open, and all of them have half of what there is.
 *  R2  The last 16 places (of few: a quarter) are for the unix socket alone: whatever happens on TCP, its user gets in.
 *  R3  When there is no place for a new connection, another is closed: first one that has not shown the token; then one that has
 *      shown it and is idle; then one whose body is incomplete. Among equals, the one that has been quiet for longest: since it
 *      connected, since its last answer, or since its head was complete.
 *  R4  A connection that has shown the token (or came through the unix socket) stays while the server works for it, answers it or
 *      sends it a stream. If all connections are like that, the new one is refused with 503.
 *  R5  When a descriptor is missing all the same, for a new one or in an operation, the same one leaves; if nobody can, nobody is let in until the next tick: the
 *      kernel keeps them waiting.
 *  R6  At the end of the server only those who are worked for or answered are waited for: half a request is refused with 503, who
 *      has not shown the token is cut off.
 *
 * Files: `server.sock`, `server.token` and `server.lock` in `.aiflow/`, all 0600. The lock's byte 0 is held by the server that
 * serves; its content says where that one is. Lock files get removed by people who tidy up, so `.aiflow/` itself is locked, too. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "ops/ops.h"

/* `tasuki serve`: serves until SIGTERM or SIGINT. */
int http_serve(struct op_call *call, struct tsk_error *err);

#endif
