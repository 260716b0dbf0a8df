/* who.c - in whose name a tool works (own/who.h). */
#include "own/who.h"
#include "mcp/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *meta_text(const struct mcp_request *request, const char *key)
{
    return json_get_string(json_object_get(request->params, "_meta"), key, NULL);
}

/* The client's name: of this request (modern), or of the handshake. */
static void client_name(struct mcp_request *request, char name[WHO_LABEL_SIZE])
{
    const json_t *info = json_object_get(json_object_get(request->params, "_meta"), MCP_META "clientInfo");
    pthread_mutex_lock(&request->link->mutex);
    who_copy(name, WHO_LABEL_SIZE, json_get_string(info, "name", request->link->client));
    pthread_mutex_unlock(&request->link->mutex);
    if (!who_is_name(name))
        name[0] = '\0';
}

/* TASUKI_NOTE is the note of this agent until it writes another one. That of a command is the command's alone. */
static void keep_note(struct tsk_workspace *ws, const struct who *who)
{
    struct who known;
    struct tsk_error ignored; /* a note is for people to read, and no call fails for it */
    who_look(ws, who->instance, &known);
    if (who->note[0] && !known.note[0])
        who_write_note(ws, who->instance, who->note, &ignored);
}

/* Once in a workspace: the agent of this connection gets its label. The process itself works for it, too, when the connection
 * ends. */
static void name_agent(struct mcp_server *server, struct tsk_workspace *ws, const char *instance, const char *client)
{
    char directory[PATH_MAX];
    struct who who;
    struct tsk_error ignored;
    pthread_mutex_lock(&server->mutex);
    if (server->named_in != ws) {
        who_of_environment(&who, NULL);
        const char *name = who.is_agent || !client[0] ? NULL : client; /* TASUKI_AGENT is taken as it is */
        who.is_agent = who.is_client = true;
        if (who_register_id(ws, instance, name, getcwd(directory, sizeof directory), &who, &server->process, &ignored) <
            0)
            who_copy(who.label, sizeof who.label, name ? name : who.label);
        who_copy(who.instance, sizeof who.instance, instance);
        keep_note(ws, &who);
        who_set(&who);
        server->named_in = ws;
    }
    pthread_mutex_unlock(&server->mutex);
}

/* An agent of its own, by stdio. One that works in the name of another instance is a part of that one. */
static void enter_own(struct mcp_request *request, const struct op *op, struct tsk_workspace *ws, const char *client,
                      struct who *ret)
{
    struct mcp_server *server = request->link->server;
    const char *instance = mcp_server_instance(server);
    if (!atomic_load(&server->is_borrowed))
        name_agent(server, ws, instance, client);
    who_look(ws, instance, ret);
    if (!ret->label[0])
        who_of_environment(ret, NULL);
    who_copy(ret->instance, sizeof ret->instance, instance);
    ret->is_agent = true;
    if (atomic_load(&server->is_borrowed) && !ret->subagent[0])
        who_copy(ret->subagent, sizeof ret->subagent, getenv("TASUKI_SUBAGENT") ? getenv("TASUKI_SUBAGENT") : client);
    if (!(op->flags & (OP_READ_ONLY | OP_QUESTION))) /* a look writes nothing */
        who_saw(ws, instance, &server->process, op->name);
}

void mcp_who_enter(struct mcp_request *request, const struct op *op, const json_t *args)
{
    struct mcp_server *server = request->link->server;
    struct tsk_workspace *ws = mcp_server_workspace(server);
    char client[WHO_LABEL_SIZE];
    struct who who;
    client_name(request, client);
    if (!ws)
        return;
    if (server->options.is_shared)
        who_of_client(ws, json_get_string(args, "instance", request->caller ? request->caller : ""),
                      client[0] ? client : "mcp", true, op->flags & (OP_READ_ONLY | OP_QUESTION) ? NULL : op->name,
                      &who);
    else
        enter_own(request, op, ws, client, &who);
    const char *session = meta_text(request, "TASUKI_AGENT_SESSION"), *subagent = meta_text(request, "TASUKI_SUBAGENT");
    if (session)
        who_copy(who.session, sizeof who.session, session);
    if (subagent)
        who_copy(who.subagent, sizeof who.subagent, subagent);
    who_enter(&who);
}

void mcp_who_leave(void)
{
    who_enter(NULL);
}
