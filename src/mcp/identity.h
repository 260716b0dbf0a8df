/* identity.h - the instance behind the tools: the agent that started this server, so that its tools and its shell commands are
 * one instance, and what happens to its locks and claims when the connection ends.
 *
 * All servers of an instance share a lock on byte 1 of `.aiflow/mcp/serve.<pid>.<start>` (a hash of the name, if the instance
 * is not a process). So no server is left when the whole file can be locked exclusively. Byte 0 is held by the server that
 * found its agent by itself; a second server of the same process is an instance of its own. The content of the file is the time
 * at which the last server ended. The file is removed when the process is gone, or hours later. An agent that connects again is
 * the same instance, because the table `instance` has its id (own/instance.h). */
#ifndef MCP_IDENTITY_H
#define MCP_IDENTITY_H

#include "mcp/internal.h"

struct mcp_identity {
    char instance[512];     /* {hostname}-{pid}-{start in ms}, or as it was given */
    struct proc_id process; /* pid 0: not known */
    int serve_fd;           /* -1: without a workspace */
    bool is_borrowed;       /* the name is that of another living process than our agent: of who delegated work to it */
};

/* `given`: --instance, or NULL. */
void identity_find(struct mcp_identity *ret, const char *given, const char *root);
void identity_clear(struct mcp_identity *identity);

/* The number of locks of the instance; -1 if it cannot be determined. Locks past half of their TTL are renewed on the way, as by
 * every command that meets them. */
int identity_count_locks(struct mcp_server *server, const char *instance);

/* The connection has ended: what the instance holds is released now if its process is gone or `grace_ms` is 0, else after that
 * time by a process of its own (identity_let_go), unless the instance is served (again) by then. What was locked after the end,
 * by the agent's shell, stays. */
void identity_end(struct mcp_identity *identity, struct mcp_server *server, int64_t grace_ms);
void identity_let_go(struct mcp_server *server, const char *instance, int64_t grace_ms);

#endif
