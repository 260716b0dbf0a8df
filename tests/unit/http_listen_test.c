/* Where a server listens, and which token it takes from its file (listen.c). */
#include "base/json.h"
#include "harness/test.h"
#include "http/listen.h"
#include "unit/scene.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define DIGITS_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(an_address_of_this_machine_alone_is_known_as_that)
{
    static const struct {
        const char *address;
        bool is_loopback;
    } some[] = {
        {"127.0.0.1", true},  {"127.9.8.7", true}, {"localhost", true}, {"::1", true},  {"126.255.255.255", false},
        {"128.0.0.1", false}, {"0.0.0.0", false},  {"::", false},       {"::2", false}, {"fe80::1", false},
        {"nonsense", false},  {"", false},         {"127.0.0", false}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        if (listen_is_loopback(some[i].address) != some[i].is_loopback)
            test_fail(__FILE__, __LINE__, "%s", some[i].address);
}

TEST(a_token_is_64_digits_in_a_file_that_only_its_user_can_read)
{
    static const struct {
        const char *text;
        mode_t mode;
        bool is_good;
    } files[] = {{DIGITS_64 "\n", 0600, true},
                 {DIGITS_64, 0600, true},
                 {DIGITS_64 "\n", 0400, true},
                 {DIGITS_64 "\n", 0640, false},
                 {DIGITS_64 "\n", 0604, false},
                 {DIGITS_64 "\n", 0601, false},
                 {DIGITS_64 "0\n", 0600, false},
                 {&DIGITS_64[1], 0600, false},
                 {"A123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 0600, false},
                 {"", 0600, false},
                 {NULL, 0, false}};
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct http_server server = {.ws = ws};
        struct tsk_error err = {0};
        struct stat st;
        unlink(".aiflow/server.token");
        if (files[i].text) {
            scene_write(".aiflow/server.token", files[i].text);
            chmod(".aiflow/server.token", files[i].mode);
        }
        if (listen_has_token(&server) != files[i].is_good ||
            (memcmp(server.token, DIGITS_64, 64) == 0) != files[i].is_good)
            test_fail(__FILE__, __LINE__, "%s with %o", files[i].text ? files[i].text : "no file", files[i].mode);
        ASSERT_OK(listen_token(&server, &err));
        ASSERT_INT(strspn(server.token, "0123456789abcdef"), 64);
        ASSERT_INT(strlen(server.token), 64);
        ASSERT((memcmp(server.token, DIGITS_64, 64) == 0) == files[i].is_good);
        ASSERT_INT(stat(".aiflow/server.token", &st), 0);
        ASSERT_INT(st.st_mode & 0777, files[i].is_good ? files[i].mode : 0600);
        struct http_server again = {.ws = ws};
        ASSERT(listen_has_token(&again) && strcmp(again.token, server.token) == 0);
    }
    struct http_server server = {.ws = ws};
    rename(".aiflow/server.token", ".aiflow/other");
    ASSERT_INT(symlink("other", ".aiflow/server.token"), 0);
    ASSERT(!listen_has_token(&server));
    tsk_workspace_close(ws);
}

/* ---- sockets ---- */

static struct http_server open_one(struct tsk_workspace *ws)
{
    struct http_server server = {.ws = ws, .lock_fd = -1, .dir_fd = -1};
    struct tsk_error err = {0};
    ASSERT_OK(loop_init(&server.loop, &err));
    return server;
}

static void close_one(struct http_server *server)
{
    listen_close(server);
    loop_clear(&server->loop);
    fs_close(&server->lock_fd);
    fs_close(&server->dir_fd);
}

TEST(a_server_listens_on_the_address_and_the_port_that_it_says)
{
    struct tsk_workspace *ws = scene_open();
    struct http_server server = open_one(ws);
    struct tsk_error err = {0};
    ASSERT_CODE(listen_tcp(&server, "nonsense", 0, &err), TSK_INVALID_INPUT);
    ASSERT_OK(listen_tcp(&server, NULL, 0, &err));
    int port = 0;
    ASSERT_INT(sscanf(server.url, "http://127.0.0.1:%d", &port), 1);
    ASSERT(port > 0 && server.listener_count == 1 && !server.listeners[0].is_unix);
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    ASSERT_INT(getsockname(server.listeners[0].source.fd, (struct sockaddr *)&address, &len), 0);
    ASSERT_INT(ntohs(address.sin_port), port);
    struct http_server other = open_one(ws);
    err = (struct tsk_error){0};
    ASSERT_CODE(listen_tcp(&other, "127.0.0.1", port, &err), TSK_ENVIRONMENT);
    ASSERT_INT(other.listener_count, 0);
    listen_close(&server);
    ASSERT_INT(server.listener_count, 0);
    err = (struct tsk_error){0};
    ASSERT_OK(listen_tcp(&other, "localhost", port, &err));
    ASSERT(strstr(other.url, "http://localhost:"));
    close_one(&server);
    close_one(&other);
    tsk_workspace_close(ws);
}

TEST(the_port_of_the_last_time_is_taken_again_where_it_is_one)
{
    struct tsk_workspace *ws = scene_open();
    struct http_server server = open_one(ws);
    struct tsk_error err = {0};
    char record[400], url[sizeof server.url];
    ASSERT_OK(listen_tcp(&server, NULL, 0, &err));
    snprintf(url, sizeof url, "%s", server.url);
    snprintf(record, sizeof record, "{\"url\": \"%s\"}", url);
    close_one(&server);
    scene_write(".aiflow/server.lock", record);
    server = open_one(ws);
    ASSERT_OK(listen_tcp(&server, NULL, -1, &err));
    ASSERT_STR(server.url, url);
    close_one(&server);
    static const char *const odd[] = {"{\"url\": \"http://127.0.0.1:65536\"}", "{\"url\": \"http://127.0.0.1:0\"}",
                                      "{\"url\": \"x\"}", "{", ""};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        scene_write(".aiflow/server.lock", odd[i]);
        server = open_one(ws);
        ASSERT_OK(listen_tcp(&server, NULL, -1, &err));
        int port = 0;
        ASSERT_INT(sscanf(server.url, "http://127.0.0.1:%d", &port), 1);
        ASSERT(port >= SERVE_PORT && port < SERVE_PORT + 100);
        close_one(&server);
    }
    tsk_workspace_close(ws);
}

TEST(the_unix_socket_is_its_user_s_and_goes_with_its_server_unless_another_has_made_his)
{
    struct tsk_workspace *ws = scene_open();
    struct http_server server = open_one(ws);
    struct tsk_error err = {0};
    struct stat st;
    scene_write(".aiflow/server.sock", "of one that was killed");
    mode_t before = umask(022);
    ASSERT_OK(listen_unix(&server, &err));
    ASSERT_INT(umask(before), 022);
    ASSERT_INT(stat(".aiflow/server.sock", &st), 0);
    ASSERT(S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600 && server.listeners[0].is_unix);
    struct http_server other = open_one(ws);
    ASSERT_OK(listen_unix(&other, &err));
    close_one(&server);
    ASSERT(scene_exists(".aiflow/server.sock"));
    close_one(&other);
    ASSERT(!scene_exists(".aiflow/server.sock"));
    tsk_workspace_close(ws);
}

TEST(the_lock_says_where_its_server_is_and_since_when_nobody_was_there)
{
    struct tsk_workspace *ws = scene_open();
    struct http_server server = open_one(ws);
    struct tsk_error err = {0};
    ASSERT_OK(listen_lock(&server, &err));
    ASSERT_INT(server.seen_ms, 0); /* nobody ever */
    snprintf(server.url, sizeof server.url, "http://127.0.0.1:7");
    ASSERT_OK(listen_tell(&server, &err));
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *record CLEANUP_JSON = NULL;
    ASSERT_INT(fs_read_file(ws->state_dir, "server.lock", 4096, &text), 0);
    ASSERT_OK(json_parse(buf_str(&text), text.len, "lock", &record, &err));
    ASSERT_INT(json_object_size(record), 3);
    ASSERT_INT(json_get_int(record, "pid", 0), getpid());
    ASSERT_STR(json_get_string(record, "url", ""), "http://127.0.0.1:7");
    ASSERT(strstr(json_get_string(record, "socket", ""), "/.aiflow/server.sock"));
    struct timespec old[2] = {{.tv_sec = 1000, .tv_nsec = 5000000}, {.tv_sec = 1000, .tv_nsec = 5000000}};
    ASSERT_INT(futimens(server.lock_fd, old), 0);
    close_one(&server);
    server = open_one(ws);
    ASSERT_OK(listen_lock(&server, &err));
    ASSERT_INT(server.seen_ms, 1000005);
    listen_beat(&server);
    struct stat st;
    ASSERT_INT(stat(".aiflow/server.lock", &st), 0);
    ASSERT(st.st_mtim.tv_sec > 1000);
    close_one(&server);
    listen_beat(&server); /* without the lock */
    tsk_workspace_close(ws);
}
