/* who.c - in whose name a tool works (own/who.h). */
#include "own/who.h"
#include "base/fs.h"
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

/* With the mutex, with which cards are written, too. */
static void open_card(struct mcp_server *server, struct tsk_workspace *ws, const char *instance)
{
    int card CLEANUP_FD = who_card(ws, instance, &server->process);
    server->has_card = card >= 0 && (server->card < 0 || dup3(card, server->card, O_CLOEXEC) >= 0);
    if (server->has_card && server->card < 0) {
        server->card = card;
        card = -1;
    }
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
        open_card(server, ws, instance);
        server->named_in = ws;
    }
    pthread_mutex_unlock(&server->mutex);
}

/* A card that is kept open is that of the workspace in which the agent was named last: another thread may be in a newer one. */
static void note_call(struct mcp_server *server, struct tsk_workspace *ws, const char *instance, const char *operation)
{
    pthread_mutex_lock(&server->mutex);
    bool is_own = server->has_card && server->named_in == ws && !atomic_load(&server->is_borrowed);
    if (!is_own || !who_saw_at(server->card, operation))
        who_saw(ws, instance, &server->process, operation);
    pthread_mutex_unlock(&server->mutex);
}

/* An agent of its own, by stdio. One that works in the name of another instance is a part of that one. */
static void find_own_party(struct mcp_request *request, const char *client, struct who *ret)
{
    struct mcp_server *server = request->link->server;
    const char *instance = mcp_server_instance(server);
    who_look(request->ws, instance, ret);
    if (!ret->label[0])
        who_of_environment(ret, NULL);
    who_copy(ret->instance, sizeof ret->instance, instance);
    ret->is_agent = true;
    if (atomic_load(&server->is_borrowed) && !ret->subagent[0])
        who_copy(ret->subagent, sizeof ret->subagent, getenv("TASUKI_SUBAGENT") ? getenv("TASUKI_SUBAGENT") : client);
}

static bool is_look(const struct op *op)
{
    return op->flags & (OP_READ_ONLY | OP_QUESTION);
}

static void find_party(void *data, struct who *ret)
{
    struct mcp_request *request = data;
    const struct op *op = request->tool->op;
    char client[WHO_LABEL_SIZE];
    client_name(request, client);
    if (request->link->server->options.is_shared)
        who_of_client(request->ws, json_get_string(request->args, "instance", request->caller ? request->caller : ""),
                      client[0] ? client : "mcp", true, is_look(op) ? NULL : op->name, ret);
    else
        find_own_party(request, client, ret);
    const char *session = meta_text(request, "TASUKI_AGENT_SESSION"), *subagent = meta_text(request, "TASUKI_SUBAGENT");
    if (session)
        who_copy(ret->session, sizeof ret->session, session);
    if (subagent)
        who_copy(ret->subagent, sizeof ret->subagent, subagent);
}

/* A look writes nothing, and its party is found only if it is asked for. */
void mcp_who_enter(struct mcp_request *request)
{
    struct mcp_server *server = request->link->server;
    const struct op *op = request->tool->op;
    char client[WHO_LABEL_SIZE];
    struct who who;
    if (!request->ws)
        return;
    client_name(request, client);
    const char *instance = server->options.is_shared ? NULL : mcp_server_instance(server);
    if (instance && !atomic_load(&server->is_borrowed))
        name_agent(server, request->ws, instance, client);
    if (is_look(op)) {
        who_enter_later(find_party, request);
        return;
    }
    find_party(request, &who);
    if (instance)
        note_call(server, request->ws, instance, op->name);
    who_enter(&who);
}

void mcp_who_leave(void)
{
    who_enter(NULL);
}
