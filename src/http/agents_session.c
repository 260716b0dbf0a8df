#include "base/clock.h"
#include "base/fs.h"
#include "base/ident.h"
#include "http/agents.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX    "session."
#define ID_DIGITS 32

enum {
    KEEP_S = 7 * 24 * 3600, /* a session whose file is older is forgotten */
    SWEEP_MS = 3600 * 1000,
    FILES_MAX = 4096, /* with more of them the oldest go, */
    FILES_LEFT = 3072 /* files that are left after a cleanup */
};

/* ---- the file ---- */

static void path_of(const char *id, char path[64])
{
    snprintf(path, 64, MCP_FOLDER "/" PREFIX "%s", id);
}

void agent_session_save(struct http_agents *agents, struct agent_session *session)
{
    session->saved_ms = clock_now().boot_ms;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *state CLEANUP_JSON = mcp_link_state(session->link);
    int dir = agents->server->ws->state_dir;
    char path[64];
    path_of(session->id, path);
    json_write(&text, state, false);
    /* Where it cannot be kept, the session lives as long as this server. */
    if (state && fs_make_dirs(dir, MCP_FOLDER) == 0)
        (void)!fs_replace_file(dir, path, 0600, text.data, text.len);
}

static json_t *session_load(struct http_agents *agents, const char *id)
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

/* ---- sweeping ---- */

struct kept {
    int64_t time_s;
    char path[300];
};

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct kept *)a)->time_s, y = ((const struct kept *)b)->time_s;
    return (x > y) - (x < y);
}

static int is_session_file(const struct dirent *entry)
{
    return strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0;
}

/* In a worker, because the folder may be large. Nobody's session ends by it: only what a later server would find. */
static void sessions_sweep(struct http_job *job)
{
    int dir = job->server->ws->state_dir;
    int64_t now_s = clock_now().wall_ms / 1000;
    struct dirent **names = NULL;
    int count = scandirat(dir, MCP_FOLDER, &names, is_session_file, NULL);
    size_t there = 0, at = 0;
    struct kept *files = memory_zeroed((size_t)(count > 0 ? count : 0) + 1, sizeof *files);
    for (int i = 0; i < count; i++) {
        struct stat st;
        snprintf(files[there].path, sizeof files[there].path, MCP_FOLDER "/%s", names[i]->d_name);
        if (fs->fstatat(dir, files[there].path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            files[there++].time_s = st.st_mtim.tv_sec;
        free(names[i]);
    }
    free(names);
    qsort(files, there, sizeof *files, by_time);
    /* Fewer than the maximum, so that the next one is not due at once. */
    size_t most = there > FILES_MAX ? FILES_LEFT : there;
    while (at < there && (there - at > most || now_s - files[at].time_s > KEEP_S))
        fs->unlinkat(dir, files[at++].path, 0);
    free(files);
    atomic_store(&job->server->agents->files, there - at);
}

static void sessions_swept(struct http_job *job)
{
    job->server->agents->is_sweeping = false;
}

void agent_session_sweep(struct http_agents *agents, int64_t now_ms)
{
    bool is_due = !agents->swept_ms || now_ms - agents->swept_ms >= SWEEP_MS || atomic_load(&agents->files) > FILES_MAX;
    if (!is_due || agents->is_sweeping || agents->server->is_ending)
        return;
    agents->swept_ms = now_ms;
    agents->is_sweeping = true;
    struct http_job *job = job_new(agents->server, NULL, sessions_sweep);
    job->done = sessions_swept;
    job_start(job);
}

/* ---- sessions ---- */

static void session_drop(struct http_agents *agents, struct agent_session **at)
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

/* Drops the session that has been silent for longest; its file stays. A session with an open stream is not silent. */
static bool goes_before(const struct agent_session *a, const struct agent_session *b)
{
    return !a->stream == !b->stream ? a->used_ms < b->used_ms : !a->stream;
}

static void make_room(struct http_agents *agents)
{
    struct agent_session **oldest = NULL;
    unsigned count = 0;
    for (struct agent_session **at = &agents->sessions; *at; at = &(*at)->next, count++)
        if (!oldest || goes_before(*at, *oldest))
            oldest = at;
    if (count >= AGENTS_SESSIONS_MAX)
        session_drop(agents, oldest);
}

static struct agent_session *session_add(struct http_agents *agents)
{
    struct agent_session *session = memory_zeroed(1, sizeof *session);
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
    struct agent_session *session = session_add(agents);
    random_hex(session->id, ID_DIGITS);
    atomic_fetch_add(&agents->files, 1);
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
            if (session->used_ms - session->saved_ms > SWEEP_MS) /* the file's time says when it was used */
                agent_session_save(agents, session);
            return session;
        }
    json_t *state CLEANUP_JSON = session_load(agents, id);
    if (!state)
        return NULL;
    struct agent_session *session = session_add(agents);
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
    session_drop(agents, at);
}

void agent_session_drop_all(struct http_agents *agents)
{
    while (agents->sessions)
        session_drop(agents, &agents->sessions);
}
