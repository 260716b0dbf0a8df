/* room.c - who has a place, and who makes room for another (http.h, R1-R5). */
#include "http/internal.h"
#include "proc/spawn.h"

#include <sys/resource.h>

enum {
    FDS_WANTED = 4096,
    FDS_KEPT = 128,   /* for operations, their workers, streams, and what the program itself has open (R1) */
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
    rlim_t places = HTTP_CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        more_descriptors(&limit);
        rlim_t kept = limit.rlim_cur / 2 < FDS_KEPT ? limit.rlim_cur / 2 : FDS_KEPT;
        if (limit.rlim_cur - kept < places)
            places = limit.rlim_cur - kept;
    }
    server->places = (unsigned)places;
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

bool room_take(struct http_server *server)
{
    struct http_conn *found = NULL;
    enum rank best = STAYS;
    for (struct http_conn *conn = server->first; conn; conn = conn->next) {
        enum rank rank = rank_of(conn);
        if (rank < best || (found && rank == best && conn->began_ms < found->began_ms)) {
            found = conn;
            best = rank;
        }
    }
    if (found)
        conn_close(found);
    return found != NULL;
}

bool room_for(struct http_server *server, bool is_unix)
{
    unsigned places = is_unix ? server->places : server->places - server->unix_places;
    return server->conn_count < places || room_take(server);
}
