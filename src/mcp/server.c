#include "base/fs.h"
#include "mcp/internal.h"
#include "mcp/pool.h"

#include <stdlib.h>

int mcp_server_new(const struct mcp_options *options, struct mcp_server **ret, struct tsk_error *err)
{
    struct mcp_server *server = calloc(1, sizeof *server);
    struct tsk_error absent;
    BUG(!server);
    server->options = *options;
    pthread_mutex_init(&server->mutex, NULL);
    server->pool = pool_new();
    /* Every call says what is wrong with the workspace, in its answer. */
    if (tsk_workspace_open(options->root, &server->ws, &absent) < 0)
        server->ws = NULL;
    if (mcp_tools_init(server, err) < 0) {
        mcp_server_free(server);
        return -1;
    }
    *ret = server;
    return 0;
}

const char *mcp_server_instance(struct mcp_server *server)
{
    pthread_mutex_lock(&server->mutex);
    if (!server->is_identified && server->options.identify)
        server->options.identify(server->options.identify_data, server->instance, sizeof server->instance);
    server->is_identified = true; /* and from now on it does not change */
    pthread_mutex_unlock(&server->mutex);
    return server->instance;
}

const json_t *mcp_server_tools(const struct mcp_server *server)
{
    return server->tool_list;
}

struct mcp_pool *mcp_server_pool(struct mcp_server *server)
{
    return server->pool;
}

void mcp_server_free(struct mcp_server *server)
{
    BUG(server->links);
    pool_free(server->pool);
    tsk_workspace_close(server->ws);
    free(server->tools);
    json_decref(server->tool_list);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

struct tsk_workspace *mcp_server_workspace(const struct mcp_server *server)
{
    struct stat now, opened;
    if (!server->ws)
        return NULL;
    /* Somebody may have removed it and made another one since. */
    bool is_same = fs->fstatat(AT_FDCWD, server->ws->state_path, &now, 0) == 0 &&
                   fs->fstat(server->ws->state_dir, &opened) == 0 && now.st_ino == opened.st_ino &&
                   now.st_dev == opened.st_dev;
    return is_same ? server->ws : NULL;
}
