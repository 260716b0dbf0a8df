/* pool.h - worker threads. As long as the line moves, a few threads do all the work: waking one more for each job costs more
 * than most jobs do. When it does not move for POOL_STALL_MS, those few are blocked, and as many more are started, until every
 * job in line has a thread. So a caller must call pool_nudge now and then while it reports that jobs wait.
 *
 * A job may block as long as it likes; at most POOL_MAX block at the same time, the next ones wait in line. */
#ifndef MCP_POOL_H
#define MCP_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_MAX      1100 /* more than a server has connections, so a waiting job blocks no other */
#define POOL_FEW      2    /* threads that are called at once; more only when a job waits for POOL_STALL_MS */
#define POOL_STALL_MS 2

struct mcp_pool;

struct mcp_pool *pool_new(void);
/* Runs what is still in line, waits for all. */
void pool_free(struct mcp_pool *pool);
void pool_submit(struct mcp_pool *pool, void (*run)(void *), void *arg);
/* Whether somebody waits in line; if for too long, more threads come. */
bool pool_nudge(struct mcp_pool *pool);
/* True when nothing is in line and nothing runs, at the latest after `timeout_ms` false. */
bool pool_drain(struct mcp_pool *pool, int64_t timeout_ms);

#endif
