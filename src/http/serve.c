/* serve.c - the life of a server: finding its place, the loop, the end. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "http/listen.h"
#include "mcp/signals.h"
#include "own/instance.h"
#include "proc/process.h"
#include "proc/spawn.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SERVE_TICK_MS = 1000,
    BEAT_MS = 60000,
    END_MS = 10000, /* what is open has this long to finish */
};

/* ---- the start ---- */

static void server_woken(struct loop_source *source, uint32_t events)
{
    struct http_server *server = (struct http_server *)((char *)source - offsetof(struct http_server, wake));
    uint64_t count;
    (void)events;
    (void)!read(source->fd, &count, sizeof count);
    job_finish_all(server);
    stream_take_all(server);
}

static int open_agents(struct http_server *server, const struct op_call *call, struct tsk_error *err)
{
    struct mcp_options options = {.root = server->root,
                                  .lang = call->lang,
                                  .tools = json_get_string(call->args, "tools", NULL),
                                  .memo_most = server->memo_most,
                                  .is_told = true,
                                  .is_shared = true};
    if (mcp_server_new(&options, &server->mcp, err) < 0)
        return -1;
    server->pool = mcp_server_pool(server->mcp);
    agents_init(server, server->mcp);
    return 0;
}

/* Nobody's lease has run out because we were not there; before anybody can ask. */
static void extend_leases(struct http_server *server)
{
    struct tsk_error err = {0};
    if (instance_extend_all(server->ws, server->seen_ms, &err) < 0)
        log_problem(&err);
}

static int open_server(struct http_server *server, struct op_call *call, struct tsk_error *err)
{
    const char *address = json_get_string(call->args, "listen", NULL);
    int port = (int)json_get_int(call->args, "port", -1);
    server->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake.fd < 0)
        return error_errno(err, "make", "eventfd");
    if (listen_lock(server, err) < 0 || listen_token(server, err) < 0 || loop_init(&server->loop, err) < 0 ||
        open_agents(server, call, err) < 0 || feed_init(&server->feed, server, err) < 0)
        return -1;
    extend_leases(server);
    if (listen_tcp(server, address, port, err) < 0 || listen_unix(server, err) < 0 || listen_tell(server, err) < 0)
        return -1;
    if (loop_add(&server->loop, &server->wake, EPOLLIN) < 0)
        return error_errno(err, "watch", "eventfd");
    struct tsk_error damaged = {0}; /* a server can say what is wrong with it */
    server->has_db = db_open(&server->db, server->ws->state_dir, &damaged) == 0;
    if (!server->has_db)
        log_problem(&damaged);
    return 0;
}

/* The names in --host, and the address itself when it was named. */
static json_t *allowed_hosts(const struct op_call *call)
{
    const json_t *given = json_object_get(call->args, "host");
    const char *address = json_get_string(call->args, "listen", NULL);
    json_t *hosts = json_is_array(given) ? json_deep_copy(given) : json_array();
    if (json_is_string(given))
        json_array_append_new(hosts, json_deep_copy(given));
    if (address)
        json_array_append_new(hosts, strchr(address, ':') ? json_sprintf("[%s]", address) : json_string(address));
    return hosts;
}

/* ---- saying so ---- */

/* Where the server is: we, or the other one that has the workspace already. */
static void announce_address(const struct http_server *server, struct op_call *call)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, page CLEANUP(buf_clear) = BUF_INIT;
    struct buf socket CLEANUP(buf_clear) = BUF_INIT, token CLEANUP(buf_clear) = BUF_INIT;
    const char *address = json_get_string(call->args, "listen", "127.0.0.1");
    buf_printf(&page, "%s/#token=%s", server->url, server->token);
    buf_printf(&socket, "%s/server.sock", server->ws->state_path);
    buf_printf(&token, "%s/server.token", server->ws->state_path);
    if (!listen_is_loopback(address) && !server->other_pid) {
        struct tsk_error warning = {0};
        error_set(&warning, TSK_ENVIRONMENT, "serve_not_loopback", "address", server->url, NULL);
        log_problem(&warning);
    }
    if (!call->emit_text) {
        json_t *document CLEANUP_JSON =
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s}", "status", server->other_pid ? "running" : "serving", "url",
                      server->url, "page", buf_str(&page), "socket", buf_str(&socket), "token_file", buf_str(&token),
                      "pid", (int)(server->other_pid ? server->other_pid : getpid()), "root", server->ws->root);
        call->emit(call, document);
    } else if (!call->is_quiet) {
        text_put(&text, call->lang, server->other_pid ? "serve_there" : "serve_ready", "root", server->ws->root, "page",
                 buf_str(&page), "url", server->url, "token", buf_str(&token), "socket", buf_str(&socket), NULL);
        buf_puts(&text, "\n");
        call->emit_text(call, text.data, text.len);
    }
}

static void open_page(const struct http_server *server)
{
    struct buf page CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&page, "%s/#token=%s", server->url, server->token);
    char *argv[] = {"xdg-open", page.data, NULL};
    static const struct spawn_fd quiet[] = {{-1, 0}, {-1, 1}, {-1, 2}};
    struct spawn spawn = {.argv = argv, .fds = quiet, .fd_count = 3, .new_session = true};
    struct tsk_error err = {0};
    if (spawn_run(&spawn) == 0) {
        fs_close(&spawn.pidfd);
        return;
    }
    error_errno(&err, "run", "xdg-open");
    log_problem(&err);
}

/* A server is there already: the address is what the caller wants to know. */
static int show_other(struct http_server *server, struct op_call *call)
{
    if (!server->other_pid || !listen_has_token(server))
        return -1;
    announce_address(server, call);
    if (json_get_bool(call->args, "open", false))
        open_page(server);
    return 0;
}

/* ---- operations of its own ---- */

static void say_errors(const json_t *answer)
{
    json_each (json_object_get(answer, "errors"), i, item) {
        struct tsk_error problem = {0};
        error_set(&problem, TSK_PROCESS_START_FAILED, "problem_of", "what", json_get_string(item, "id", "?"), "reason",
                  json_get_string(json_object_get(item, "error"), "message", "?"), NULL);
        log_problem(&problem);
    }
}

static void run_quietly(struct http_server *server, const char *name, json_t *args_take)
{
    json_t *answer CLEANUP_JSON = NULL, *args CLEANUP_JSON = args_take;
    struct tsk_error err = {0};
    const struct op *op = op_by_name(name);
    BUG(!op);
    struct op_call call = {.op = op, .args = args, .ws = server->ws, .root = server->root, .lang = server->lang};
    if (op_check_args(op, args, &err) < 0 || op_run(&call, &answer, &err) < 0)
        log_problem(&err);
    else
        say_errors(answer);
    json_decref(call.aside);
}

/* Starts the processes that should run. This is a worker's job, because a start may wait for a dependency. */
static void restore_queue(struct http_job *job)
{
    run_quietly(job->server, "process.restore", json_object());
}

static void serve_no_answer(struct http_job *job)
{
    (void)job;
}

static bool stops_processes(void)
{
    const char *value = getenv("TASUKI_STOP_ON_SHUTDOWN");
    if (!value)
        value = getenv("VANTAGE_STOP_ON_SHUTDOWN");
    return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

/* ---- the loop ---- */

static int next_timeout(struct http_server *server, int64_t now_ms)
{
    bool is_busy = server->first || server->feed.count || server->is_resting || server->feed.source.fd < 0;
    int timeout = is_busy ? SERVE_TICK_MS : BEAT_MS;
    int agents = agents_tick(server, now_ms);
    if (agents >= 0 && agents < timeout)
        timeout = agents;
    int cancels = job_cancel_again(server, now_ms);
    if (cancels >= 0 && cancels < timeout)
        timeout = cancels;
    if (server->feed.has_news) /* F5 */
        return 0;
    if (pool_nudge(server->pool))
        timeout = POOL_STALL_MS;
    return server->is_ending && timeout > 20 ? 20 : timeout;
}

/* Once a minute the lock says that we are there: whose lease was over before we went away is not extended by the next server. */
static void server_beat(struct http_server *server, int64_t now_ms)
{
    if (now_ms - server->beat_ms < BEAT_MS)
        return;
    server->beat_ms = now_ms;
    listen_beat(server);
}

static void server_tick(struct http_server *server, int64_t now_ms)
{
    if (now_ms - server->ticked_ms < SERVE_TICK_MS)
        return;
    server->ticked_ms = now_ms;
    server_beat(server, now_ms);
    listen_again(server);
    for (struct http_conn *conn = server->first, *next; conn; conn = next) {
        next = conn->next; /* conn_close keeps it until the end of the turn */
        conn_tick(conn, now_ms);
    }
    if (server->feed.source.fd < 0) /* nothing announces a change */
        server->feed.has_news = true;
}

/* Accepts no more requests; finishes open ones; answers 503 to those that only wait. */
static void begin_end(struct http_server *server, int64_t now_ms)
{
    server->is_ending = true;
    server->end_ms = now_ms + END_MS;
    listen_close(server);
    feed_end(&server->feed);
    stream_end_all(server);
    agents_end(server);
    for (struct http_job *job = server->jobs; job; job = job->next)
        job_cancel(job);
    for (struct http_conn *conn = server->first, *next; conn; conn = next) {
        next = conn->next;
        conn_end(conn);
    }
}

/* A connection that lingers has its answer. */
static bool has_open(const struct http_server *server)
{
    const struct http_conn *conn = server->first;
    while (conn && conn->phase == CONN_LINGER)
        conn = conn->next;
    return conn != NULL;
}

static bool has_ended(const struct http_server *server, int64_t now_ms)
{
    bool is_idle =
        !has_open(server) && !server->jobs && !server->streams && agents_are_idle((struct http_server *)server);
    return server->is_ending && (is_idle || now_ms >= server->end_ms || signals_seen() > 1);
}

static void run_loop(struct http_server *server)
{
    int64_t now_ms = clock_now().boot_ms;
    while (!has_ended(server, now_ms)) {
        loop_turn(&server->loop, next_timeout(server, now_ms));
        now_ms = clock_now().boot_ms;
        feed_turn(&server->feed);
        server_tick(server, now_ms);
        feed_tick(&server->feed, !server->is_ending && (server->feed.count || agents_listen(server)), now_ms);
        usage_tick(&server->feed, now_ms);
        if (signals_seen() && !server->is_ending)
            begin_end(server, now_ms);
        else if (server->is_ending) /* a signal may come just before the wait that it should end: once more */
            agents_end(server);
        conn_bury(server);
    }
}

/* ---- the end ---- */

static void close_server(struct http_server *server)
{
    if (server->ticked_ms) /* it was there */
        listen_beat(server);
    while (server->first)
        conn_close(server->first);
    conn_bury(server);
    listen_close(server);
    bool is_idle = !server->jobs && !server->streams && (!server->pool || pool_drain(server->pool, 0));
    if (!is_idle) /* what cannot be ended in time must not use what would be freed */
        _exit(0);
    if (server->mcp) {
        agents_clear(server);
        mcp_server_free(server->mcp);
    }
    proc_keep_looks(0);
    feed_clear(&server->feed);
    loop_clear(&server->loop);
    stats_free(server->stats);
    if (server->has_db)
        db_close(&server->db);
    json_decref(server->to_renew);
    buf_clear(&server->openapi);
    pthread_mutex_destroy(&server->mutex);
    fs_close(&server->wake.fd);
    fs_close(&server->lock_fd);
    fs_close(&server->dir_fd);
    free(server->scratch);
}

/* The given root as an absolute path, for us and for what we start: the server leaves the directory to which a relative path refers.
 * NULL if the root was found from the working directory, which is inside it. */
static const char *absolute_root(const struct op_call *call, char root[PATH_MAX])
{
    const char *given = call->root ? call->root : getenv("TASUKI_ROOT");
    if (!given || !*given || !realpath(given, root))
        return call->root;
    if (!call->root)
        setenv("TASUKI_ROOT", root, 1);
    return root;
}

int http_serve(struct op_call *call, struct tsk_error *err)
{
    json_t *hosts CLEANUP_JSON = allowed_hosts(call);
    char root[PATH_MAX];
    struct http_server server = {.ws = call->ws,
                                 .root = absolute_root(call, root),
                                 .lang = call->lang,
                                 .loop.fd = -1,
                                 .hosts = hosts,
                                 .lock_fd = -1,
                                 .dir_fd = -1,
                                 .feed.source.fd = -1,
                                 .feed.reader.fd = -1,
                                 .wake = {.fd = -1, .ready = server_woken},
                                 .scratch = malloc(64u << 10),
                                 .stats = stats_new(),
                                 .openapi = BUF_INIT};
    BUG(!server.scratch);
    pthread_mutex_init(&server.mutex, NULL);
    db_use(DB_USE_KEEP);
    room_init(&server);
    int result = open_server(&server, call, err);
    if (result == 0 && chdir(call->ws->root) < 0)
        result = error_errno(err, "enter", call->ws->root);
    if (result < 0) {
        result = show_other(&server, call);
        close_server(&server);
        return result;
    }
    signals_take(server.wake.fd, false); /* the terminal may go; who wants the server to end says so */
    mallopt(M_ARENA_MAX, 2);             /* not one for each of many short-lived threads */
    struct http_job *job = job_new(&server, NULL, restore_queue);
    job->done = serve_no_answer;
    job_start(job);
    announce_address(&server, call);
    if (json_get_bool(call->args, "open", false))
        open_page(&server);
    run_loop(&server);
    struct tsk_error problem = {0};
    if (stops_processes() && proc_shutdown(server.ws, &problem) < 0)
        log_problem(&problem);
    close_server(&server);
    return 0;
}
