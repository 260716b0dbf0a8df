/* pool.h - worker threads: made when work waits and nobody is idle, gone after some idle seconds.
 *
 * A job may block as long as it likes; at most POOL_MAX block at the same time, the next ones wait in line. */
#ifndef MCP_POOL_H
#define MCP_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_MAX 128

struct mcp_pool;

struct mcp_pool *pool_new(void);
/* Runs what is still in line, waits for all. */
void pool_free(struct mcp_pool *pool);
void pool_submit(struct mcp_pool *pool, void (*run)(void *), void *arg);
/* True when nothing is in line and nothing runs, at the latest after `timeout_ms` false. */
bool pool_drain(struct mcp_pool *pool, int64_t timeout_ms);

#endif
