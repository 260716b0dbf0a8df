/* room.c - who has a place, and who makes room for another (http.h, R1-R5). */
#include "http/internal.h"
#include "proc/memo.h"
#include "proc/spawn.h"

#include <sys/resource.h>

enum {
    FDS_WANTED = 4096,
    MEMO_MOST = 256, /* processes, for HTTP and again for MCP; with fewer descriptors than wanted none */
    FDS_OF_MEMO = 4 * MEMO_MOST,
    FDS_KEPT = 128, /* for operations, their workers, and what the program itself has open (R1) */
    STREAM_FDS =
        6, /* of a stream of output beside its connection: the process, its end, its log, and now and then its row */
    UNIX_PLACES = 16, /* R2 */
};

/* ---- how many ---- */

static void more_descriptors(struct rlimit *limit)
{
    if (limit->rlim_cur >= FDS_WANTED)
        return;
    spawn_keep_limit(limit); /* what we start gets what we were given */
    struct rlimit more = *limit;
    more.rlim_cur = limit->rlim_max < FDS_WANTED ? limit->rlim_max : FDS_WANTED;
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        *limit = more;
}

/* R1, R2 */
void room_init(struct http_server *server)
{
    struct rlimit limit;
    rlim_t places = HTTP_CONNECTIONS_MAX, fds = FDS_WANTED;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        more_descriptors(&limit);
        rlim_t kept = limit.rlim_cur / 2 < FDS_KEPT ? limit.rlim_cur / 2 : FDS_KEPT;
        if (limit.rlim_cur >= FDS_WANTED && memo_begin(server->ws, MEMO_MOST)) {
            server->memo_most = MEMO_MOST;
            proc_keep_looks(2 * MEMO_MOST);
            kept += FDS_OF_MEMO;
        }
        fds = limit.rlim_cur - kept < FDS_WANTED ? limit.rlim_cur - kept : FDS_WANTED;
    }
    server->fd_places = (unsigned)fds;
    server->places = (unsigned)(fds < places ? fds : places);
    server->unix_places = server->places / 4 < UNIX_PLACES ? server->places / 4 : UNIX_PLACES;
}

/* ---- who leaves ---- */

enum rank { UNKNOWN, IDLE, SENDING, STAYS };

/* R3, R4. Nobody is worked for before he has shown the token, so what a stranger does makes no difference. */
static enum rank rank_of(const struct http_conn *conn)
{
    if (!conn->is_known)
        return UNKNOWN;
    if (conn->phase == CONN_HEAD || conn->phase == CONN_LINGER)
        return IDLE;
    return conn->phase == CONN_BODY ? SENDING : STAYS;
}

static bool take_from(struct http_server *server, const struct http_conn *but)
{
    struct http_conn *found = NULL;
    enum rank best = STAYS;
    for (struct http_conn *conn = server->first; conn; conn = conn->next) {
        enum rank rank = conn == but ? STAYS : rank_of(conn);
        if (rank < best || (found && rank == best && conn->began_ms < found->began_ms)) {
            found = conn;
            best = rank;
        }
    }
    if (found)
        conn_close(found);
    return found != NULL;
}

bool room_take(struct http_server *server)
{
    return take_from(server, NULL);
}

/* R1 */
static unsigned fds_used(const struct http_server *server)
{
    return server->conn_count + server->output_count * STREAM_FDS;
}

bool room_for(struct http_server *server, bool is_unix)
{
    unsigned kept = is_unix ? 0 : server->unix_places;
    bool has_some = server->conn_count + kept < server->places && fds_used(server) + kept < server->fd_places;
    return has_some || room_take(server);
}

bool room_for_output(struct http_conn *conn)
{
    struct http_server *server = conn->server;
    if ((server->output_count + 1) * (STREAM_FDS + 1) > server->fd_places / 2)
        return false; /* the rest is for those who ask */
    while (fds_used(server) + STREAM_FDS + server->unix_places > server->fd_places)
        if (!take_from(server, conn))
            return false;
    return true;
}
