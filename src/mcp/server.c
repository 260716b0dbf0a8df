#include "base/fs.h"
#include "mcp/internal.h"
#include "mcp/pool.h"
#include "proc/memo.h"

#include <stdlib.h>

int mcp_server_new(const struct mcp_options *options, struct mcp_server **ret, struct tsk_error *err)
{
    struct mcp_server *server = memory_zeroed(1, sizeof *server);
    server->options = *options;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_mutex_init(&server->place_mutex, NULL);
    server->ttl_ms = INT64_MAX;
    server->card = -1;
    server->pool = pool_new();
    mcp_server_workspace(server); /* if there is none, every call says so in its answer */
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
    if (!atomic_exchange(&server->is_identified, true)) {
        struct mcp_name *name = memory_zeroed(1, sizeof *name);
        if (server->options.identify)
            server->is_borrowed =
                server->options.identify(server->options.identify_data, name->text, sizeof name->text);
        name->next = server->names; /* somebody may still read the old one */
        server->names = name;
    }
    const char *instance = server->names->text;
    pthread_mutex_unlock(&server->mutex);
    return instance;
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
    for (struct mcp_place *place = server->places, *next; place; place = next) {
        next = place->next;
        tsk_workspace_close(place->ws);
        free(place);
    }
    for (struct mcp_name *name = server->names, *next; name; name = next) {
        next = name->next;
        free(name);
    }
    fs_close(&server->card);
    free(server->tools);
    json_decref(server->tool_list);
    json_decref(server->started);
    pthread_mutex_destroy(&server->place_mutex);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

/* Somebody may have removed it and made another one since. */
static bool is_there(const struct mcp_place *place)
{
    struct stat now;
    return fs->fstatat(AT_FDCWD, place->ws->state_path, &now, 0) == 0 && now.st_ino == place->inode &&
           now.st_dev == place->device;
}

/* With the mutex held. */
static bool find_place(struct mcp_server *server)
{
    struct tsk_workspace *ws = NULL;
    struct tsk_error absent;
    struct mcp_place *place = memory_zeroed(1, sizeof *place);
    struct stat opened;
    if (tsk_workspace_open(server->options.root, &ws, &absent) < 0) {
        free(place);
        return false;
    }
    if (server->places && server->places->ws->memo)
        memo_end(server->places->ws->memo); /* calls may still be in the old one */
    memo_begin(ws, server->options.memo_most);
    BUG(fs->fstat(ws->state_dir, &opened) < 0);
    *place = (struct mcp_place){.ws = ws, .device = opened.st_dev, .inode = opened.st_ino, .next = server->places};
    server->places = place;
    atomic_store(&server->is_identified, false);
    return true;
}

struct tsk_workspace *mcp_server_workspace(struct mcp_server *server)
{
    pthread_mutex_lock(&server->place_mutex);
    bool is_found = (server->places && is_there(server->places)) || find_place(server);
    struct tsk_workspace *ws = is_found ? server->places->ws : NULL;
    pthread_mutex_unlock(&server->place_mutex);
    return ws;
}
