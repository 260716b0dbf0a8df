/* task.h - calls that outlive their request (extension io.modelcontextprotocol/tasks of the modern era).
 *
 * A task is a file, `.aiflow/mcp/<taskId>.json`, written before the client gets its id and replaced at each change, so that any
 * server of the workspace can report its state (M2). The work itself is a thread of one server; the record names that process,
 * and a task whose process is gone has failed, for every reader.
 *
 * A thread that waits for input inside a task is woken by tasks/update on the same server. Another server that is asked to cancel
 * the task leaves a mark, `<taskId>.cancel`. */
#ifndef MCP_TASK_H
#define MCP_TASK_H

#include "mcp/internal.h"

struct mcp_task;

/* Makes the request's task and answers with it; the request's later result belongs to the task. False: none could be made, and
 * the request continues as it was. */
bool task_begin(struct mcp_request *request);
/* The end of the work. */
void task_end(struct mcp_task *task, const json_t *result, const struct mcp_fault *fault);
/* Puts questions (id -> request) and waits until all are answered; the answers by id (owned), NULL: cancelled. */
json_t *task_ask(struct mcp_request *request, json_t *questions_take);
/* With the link's mutex held: whether another server was asked to cancel it. */
void task_look(struct mcp_request *request);
void task_drop(struct mcp_task *task); /* NULL is allowed */

mcp_handler mcp_tasks_get, mcp_tasks_update, mcp_tasks_cancel;

#endif
