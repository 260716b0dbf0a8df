#include "base/clock.h"
#include "base/fs.h"
#include "base/ident.h"
#include "http/agents.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER    "mcp"
#define PREFIX    "session."
#define KEEP_S    (7 * 24 * 3600) /* a session that nobody used for so long is forgotten */
#define ID_DIGITS 32

/* ---- the file ---- */

static void path_of(const char *id, char path[64])
{
    snprintf(path, 64, FOLDER "/" PREFIX "%s", id);
}

void agent_session_save(struct http_agents *agents, const struct agent_session *session)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *state CLEANUP_JSON = mcp_link_state(session->link);
    int dir = agents->server->ws->state_dir;
    char path[64];
    path_of(session->id, path);
    json_write(&text, state, false);
    /* Where it cannot be kept, the session lives as long as this server. */
    if (state && fs_make_dirs(dir, FOLDER) == 0)
        (void)!fs_replace_file(dir, path, 0600, text.data, text.len);
}

static json_t *load(struct http_agents *agents, const char *id)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    json_t *state = NULL;
    char path[64];
    path_of(id, path);
    if (fs_read_file(agents->server->ws->state_dir, path, HTTP_BODY_MAX, &text) < 0 ||
        json_parse(buf_str(&text), text.len, path, &state, &ignored) < 0)
        return NULL;
    return state;
}

static void sweep(struct http_agents *agents)
{
    int dir = agents->server->ws->state_dir;
    struct dirent **names = NULL;
    int64_t now_s = clock_now().wall_ms / 1000;
    int count = scandirat(dir, FOLDER, &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        struct stat st;
        char path[300];
        snprintf(path, sizeof path, FOLDER "/%s", names[i]->d_name);
        if (strncmp(names[i]->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            fs->fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && now_s - st.st_mtim.tv_sec > KEEP_S)
            fs->unlinkat(dir, path, 0);
        free(names[i]);
    }
    free(names);
}

/* ---- sessions ---- */

static void drop(struct http_agents *agents, struct agent_session **at)
{
    struct agent_session *session = *at;
    *at = session->next;
    for (unsigned i = 0; i < AGENTS_SLOTS; i++)
        if (agents->slots[i] && agents->slots[i]->session == session)
            conn_close(agents->slots[i]->conn);
    mcp_link_leave(session->link);
    agents_leave(agents, session->link);
    free(session);
}

/* Whoever was not heard of for longest makes room; its file stays. */
static void make_room(struct http_agents *agents)
{
    struct agent_session **oldest = NULL;
    unsigned count = 0;
    for (struct agent_session **at = &agents->sessions; *at; at = &(*at)->next, count++)
        if (!oldest || (*at)->used_ms < (*oldest)->used_ms)
            oldest = at;
    if (count >= AGENTS_SESSIONS_MAX)
        drop(agents, oldest);
}

static struct agent_session *add(struct http_agents *agents)
{
    struct agent_session *session = calloc(1, sizeof *session);
    BUG(!session);
    make_room(agents);
    session->link = mcp_link_new(agents->mcp, agents_send, agents);
    session->number = AGENTS_OF_SESSION | ++agents->last_number;
    mcp_link_number(session->link, session->number);
    session->used_ms = clock_now().boot_ms;
    session->next = agents->sessions;
    agents->sessions = session;
    return session;
}

struct agent_session *agent_session_new(struct http_agents *agents)
{
    struct agent_session *session = add(agents);
    random_hex(session->id, ID_DIGITS);
    sweep(agents);
    return session;
}

struct agent_session *agent_session_find(struct http_agents *agents, const struct http_head *head, bool *ret_given)
{
    const struct http_text *given = http_header(head, "Mcp-Session-Id");
    char id[ID_DIGITS + 1] = "";
    *ret_given = given != NULL;
    if (!given || given->len != ID_DIGITS)
        return NULL;
    memcpy(id, given->at, ID_DIGITS);
    if (strspn(id, "0123456789abcdef") != ID_DIGITS)
        return NULL;
    for (struct agent_session *session = agents->sessions; session; session = session->next)
        if (strcmp(session->id, id) == 0) {
            session->used_ms = clock_now().boot_ms;
            return session;
        }
    json_t *state CLEANUP_JSON = load(agents, id);
    if (!state)
        return NULL;
    struct agent_session *session = add(agents);
    memcpy(session->id, id, sizeof id);
    mcp_link_restore(session->link, state);
    return session;
}

void agent_session_end(struct http_agents *agents, struct agent_session *session)
{
    char path[64];
    struct agent_session **at = &agents->sessions;
    path_of(session->id, path);
    fs->unlinkat(agents->server->ws->state_dir, path, 0);
    while (*at != session)
        at = &(*at)->next;
    drop(agents, at);
}

void agent_session_drop_all(struct http_agents *agents)
{
    while (agents->sessions)
        drop(agents, &agents->sessions);
}
