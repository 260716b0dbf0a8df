/* Probes: what counts as an answer, and that every attempt ends in time whatever the other side does. */
#include "harness/test.h"
#include "proc/probe_try.h"
#include "unit/scene.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ALL_THE_TIME (clock_now().boot_ms + SCENE_DEADLINE_MS)
#define A_MOMENT     (clock_now().boot_ms + 50)

static struct probe_try try_of(enum proc_probe_kind kind, const char *text, int port)
{
    /* The test is the process that is probed: its listeners are of its own tree. */
    static struct proc p = {.dir = -1};
    proc_id_of(getpid(), &p.view.child);
    return (struct probe_try){.probe = {.kind = kind, .text = text, .port = port}, .p = &p, .child_fd = -1, .cwd = "."};
}

/* ---- URL and answer ---- */

TEST(a_url_gives_host_port_and_path)
{
    struct http_url url;
    ASSERT_INT(http_url_parse("http://127.0.0.1:8080/healthz?a=b#top", &url), 0);
    ASSERT_STR(url.host, "127.0.0.1");
    ASSERT_STR(url.host_header, "127.0.0.1:8080");
    ASSERT_INT(url.port, 8080);
    ASSERT_INT(url.path_len, strlen("/healthz?a=b"));
    ASSERT_INT(http_url_parse("http://[::1]:81", &url), 0);
    ASSERT_STR(url.host, "::1");
    ASSERT_STR(url.host_header, "[::1]:81");
    ASSERT_INT(url.path_len, 0);
    ASSERT_INT(http_url_parse("HTTP://LocalHost?x", &url), 0);
    ASSERT_INT(url.port, 80);
}

TEST(a_url_that_cannot_be_asked_is_refused)
{
    static const char *const bad[] = {
        "https://127.0.0.1/",
        "http://",
        "http:///x",
        "http://user@127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://[::1",
        "http://[127.0.0.1]/",
        "http://::1/",
        "http://127.0.0.1:99999/",
        "http://[localhost]/",
        "http://127.0.0.1:/",
        "http://127.0.0.1:80x/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nX: y",
        "http://127.0.0.1/\xc3\xa9",
        "ftp://127.0.0.1/",
        "http://a,b/",
    };
    struct http_url url;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (http_url_parse(bad[i], &url) == 0)
            test_fail(__FILE__, __LINE__, "%s was accepted", bad[i]);
}

static int status_of(const char *text)
{
    int status = 0, known = http_status(text, strlen(text), &status);
    return known > 0 ? status : known;
}

TEST(the_status_of_an_answer_is_known_as_soon_as_its_first_line_is)
{
    ASSERT_INT(status_of("HTTP/1.1 204"), 204);
    ASSERT_INT(status_of("HTTP/1.0 503 Service Unavailable\r\n"), 503);
    ASSERT_INT(status_of(""), 0);
    ASSERT_INT(status_of("HTTP/1"), 0);
    ASSERT_INT(status_of("HTTP/1.1 20"), 0);
    ASSERT_INT(status_of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 301 Moved\r\n"), 301);
    ASSERT_INT(status_of("HTTP/1.1 103 Early Hints\r\nLink: x\r\n"), 0);
}

TEST(what_is_not_http_is_told_from_an_answer_that_is_not_complete)
{
    ASSERT_INT(status_of("SSH-2.0-OpenSSH_9.2\r\n"), -1);
    ASSERT_INT(status_of("HTTP/2.0 200"), -1);
    ASSERT_INT(status_of("HTTP/1.1 2x0 "), -1);
    ASSERT_INT(status_of("HTTP/1.1-200 "), -1);
    ASSERT_INT(status_of("HTTP/1.1 100 x\r\n\r\nhello"), -1);
}

/* ---- sockets ---- */

static int listen_on(int family, int *ret_port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any.sa_family = (sa_family_t)family};
    if (family == AF_INET)
        address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        address.v6.sin6_addr = in6addr_loopback;
    socklen_t len = family == AF_INET ? sizeof address.v4 : sizeof address.v6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &address.any, len) < 0 || listen(fd, 8) < 0)
        test_skip("this machine has no such address");
    ASSERT_INT(getsockname(fd, &address.any, &len), 0);
    *ret_port = ntohs(family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    return fd;
}

TEST(a_port_counts_when_somebody_listens_on_either_loopback_address)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < 2; i++) {
        int port, fd = listen_on(families[i], &port);
        struct probe_try t = try_of(PROBE_PORT, NULL, port);
        ASSERT_INT(try_port(&t, ALL_THE_TIME), 1);
        ASSERT(strstr(t.detail, "accepts connections"));
        close(fd);
        ASSERT_INT(try_port(&t, ALL_THE_TIME), 0);
        ASSERT(strstr(t.detail, "refused"));
    }
}

TEST(a_port_of_another_program_does_not_count)
{
    int port, fd = listen_on(AF_INET, &port);
    struct probe_try t = try_of(PROBE_PORT, NULL, port);
    struct proc other = *t.p;
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        pause();
        _exit(0);
    }
    ASSERT_INT(proc_id_of(pid, &other.view.child), 0);
    t.p = &other;
    for (int looks = 0; try_port(&t, ALL_THE_TIME) == 1; looks++) /* until it has closed its copy */
        ASSERT(looks < 10000);
    ASSERT_STR(strchr(t.detail, ':'), ": another program listens there, not this process");
    ASSERT_INT(kill(pid, SIGKILL), 0);
    ASSERT_INT(waitpid(pid, NULL, 0), pid);
    close(fd);
}

/* A network of its own in which the kernel has a single port to give. */
static void enter_small_network(int port)
{
    struct ifreq lo = {.ifr_name = "lo"};
    char range[32];
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        test_skip("no network namespace is available");
    int fd CLEANUP_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(ioctl(fd, SIOCGIFFLAGS, &lo), 0);
    lo.ifr_flags |= IFF_UP;
    ASSERT_INT(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
    snprintf(range, sizeof range, "%d %d", port, port);
    scene_write("/proc/sys/net/ipv4/ip_local_port_range", range);
}

TEST(a_connection_that_meets_itself_is_nobodys_answer)
{
    enum { PORT = 40000 };
    enter_small_network(PORT);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int self = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(connect(self, (struct sockaddr *)&address, sizeof address), 0); /* although nobody listens */
    struct linger at_once = {.l_onoff = 1};
    ASSERT_INT(setsockopt(self, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(self);
    struct probe_try t = try_of(PROBE_PORT, NULL, PORT);
    ASSERT_INT(try_port(&t, ALL_THE_TIME), 0);
    ASSERT(strstr(t.detail, "refused"));
}

struct server {
    int fd;
    const char *answer; /* NULL: none, the connection stays open */
    char request[1024];
    pthread_t thread;
};

static void *serve(void *arg)
{
    struct server *server = arg;
    int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
    ssize_t n = read(fd, server->request, sizeof server->request - 1);
    server->request[n > 0 ? n : 0] = '\0';
    if (server->answer)
        ASSERT(send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL) >= 0);
    else
        n = read(fd, server->request, sizeof server->request); /* until the other side gives up */
    close(fd);
    return NULL;
}

/* One attempt against a server that gives this answer. */
static int ask(struct server *server, struct probe_try *t, const char *answer, int64_t deadline_ms)
{
    static char url[64];
    int port;
    *server = (struct server){.fd = listen_on(AF_INET, &port), .answer = answer};
    snprintf(url, sizeof url, "http://127.0.0.1:%d/a?b=c#d", port);
    *t = try_of(PROBE_HTTP, url, 0);
    ASSERT_INT(pthread_create(&server->thread, NULL, serve, server), 0);
    int result = try_http(t, deadline_ms);
    pthread_join(server->thread, NULL);
    close(server->fd);
    return result;
}

TEST(an_http_probe_takes_2xx_and_3xx_and_nothing_else)
{
    struct server server;
    struct probe_try t;
    ASSERT_INT(ask(&server, &t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ALL_THE_TIME), 1);
    ASSERT(strstr(t.detail, "HTTP 200"));
    ASSERT(strncmp(server.request, "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:", 37) == 0);
    ASSERT_INT(ask(&server, &t, "HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\n", ALL_THE_TIME), 1);
    ASSERT_INT(ask(&server, &t, "HTTP/1.1 404 Not Found\r\n\r\n", ALL_THE_TIME), 0);
    ASSERT_INT(ask(&server, &t, "HTTP/1.1 500 Oh\r\n\r\n", ALL_THE_TIME), 0);
    ASSERT(strstr(t.detail, "HTTP 500"));
    ASSERT_INT(ask(&server, &t, "220 smtp.example.org\r\n", ALL_THE_TIME), 0);
    ASSERT(strstr(t.detail, "not HTTP"));
    ASSERT_INT(ask(&server, &t, "", ALL_THE_TIME), 0);
    ASSERT(strstr(t.detail, "without an answer"));
}

TEST(an_http_probe_gives_up_on_a_server_that_does_not_answer)
{
    struct server server;
    struct probe_try t;
    ASSERT_INT(ask(&server, &t, NULL, A_MOMENT), 0);
    ASSERT(strstr(t.detail, "timed out"));
}

TEST(a_host_is_an_address_a_name_of_loopback_or_a_name_of_the_hosts_file)
{
    int port, fd = listen_on(AF_INET, &port);
    char url[64];
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    snprintf(url, sizeof url, "http://app.localhost:%d/", port);
    struct probe_try t = try_of(PROBE_HTTP, url, 0);
    ASSERT_INT(try_http(&t, A_MOMENT), 0); /* nobody answers, */
    ASSERT_INT(poll(&asked, 1, 0), 1);     /* but somebody was asked */
    close(fd);
    t = try_of(PROBE_HTTP, "http://no-such-host-anywhere/", 0);
    ASSERT_INT(try_http(&t, ALL_THE_TIME), 0);
    ASSERT_STR(t.detail, "http://no-such-host-anywhere/: the host is not in /etc/hosts");
}

TEST(a_name_of_the_hosts_file_is_tried_at_each_of_its_addresses)
{
    int port, fd = listen_on(AF_INET, &port);
    char url[64];
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    scene_write("hosts", "# 127.0.0.3 app\n127.0.0.2 other  # app\n::1\tb app.test APP\r\n\nbad app\n127.0.0.1 app");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("hosts", "/etc/hosts", NULL, MS_BIND, NULL) < 0)
        test_skip("no mount namespace is available");
    snprintf(url, sizeof url, "http://app:%d/", port);
    struct probe_try t = try_of(PROBE_HTTP, url, 0);
    ASSERT_INT(try_http(&t, A_MOMENT), 0);
    ASSERT_INT(poll(&asked, 1, 0), 1);
    close(fd);
}

/* ---- commands ---- */

static struct probe_try command(const char *script)
{
    struct probe_try t = try_of(PROBE_COMMAND, NULL, 0);
    t.probe.argv = json_pack("[s, s, s]", "sh", "-c", script);
    return t;
}

static int run_command(const char *script, int64_t deadline_ms, char detail[PROBE_DETAIL_MAX])
{
    struct probe_try t = command(script);
    int result = try_command(&t, deadline_ms);
    memcpy(detail, t.detail, sizeof t.detail);
    json_decref((json_t *)t.probe.argv);
    return result;
}

TEST(a_command_counts_when_it_exits_with_0_and_its_last_words_are_told)
{
    char detail[PROBE_DETAIL_MAX];
    ASSERT_INT(run_command("echo fine", ALL_THE_TIME, detail), 1);
    ASSERT_STR(detail, "exit 0: fine");
    ASSERT_INT(run_command("echo a; echo 'no \033[31mdatabase' >&2; echo; exit 3", ALL_THE_TIME, detail), 0);
    ASSERT_STR(detail, "exit 3: no \\x1b[31mdatabase");
    ASSERT_INT(run_command("kill -SEGV $$", ALL_THE_TIME, detail), 0);
    ASSERT_STR(detail, "killed by SIGSEGV");
}

TEST(a_command_with_much_output_is_not_blocked_by_it)
{
    char detail[PROBE_DETAIL_MAX];
    ASSERT_INT(run_command("head -c 3000000 /dev/zero; echo; echo end", ALL_THE_TIME, detail), 1);
    ASSERT_STR(detail, "exit 0: end");
}

TEST(a_command_that_cannot_be_run_is_a_no_with_the_reason)
{
    struct probe_try t = try_of(PROBE_COMMAND, NULL, 0);
    t.probe.argv = json_pack("[s]", "./there-is-no-such-file");
    ASSERT_INT(try_command(&t, ALL_THE_TIME), 0);
    ASSERT_STR(t.detail, "./there-is-no-such-file: No such file or directory");
    t.cwd = "/there/is/no/such/directory";
    ASSERT_INT(try_command(&t, ALL_THE_TIME), 0);
    ASSERT_STR(t.detail, "/there/is/no/such/directory: No such file or directory");
    json_decref((json_t *)t.probe.argv);
}

/* Orphans come to the test; without an end of theirs, the alarm ends it. */
static void wait_for_all(void)
{
    alarm(SCENE_DEADLINE_MS / 1000);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    alarm(0);
}

TEST(a_command_is_killed_at_its_deadline_together_with_its_group)
{
    char detail[PROBE_DETAIL_MAX];
    ASSERT_INT(run_command("sleep 1000 & sleep 1000", A_MOMENT, detail), 0);
    ASSERT_STR(detail, "sh: did not end in time");
    wait_for_all();
    ASSERT_INT(run_command("sleep 1000 & exit 0", ALL_THE_TIME, detail), 1);
    wait_for_all();
}

/* ---- sd_notify ---- */

TEST(the_words_of_a_notification_are_found_and_garbage_is_not)
{
    struct notify_words words;
    static const char garbage[] = "READY=10\nready=1\n READY=1\nSTATUS\n\n\0\nREADY=1 \n=\nMAINPID=1";
    notify_parse(garbage, sizeof garbage, &words);
    ASSERT(!words.ready && !words.has_status && !words.stopping);
    notify_parse("STATUS=loading 5%\nRELOADING=1", 29, &words);
    ASSERT_STR(words.status, "loading 5%");
    ASSERT(words.reloading && !words.ready);
    notify_parse("READY=1\nSTOPPING=1\n", 19, &words);
    ASSERT(words.ready && words.stopping && !words.reloading);
}

struct mail {
    int in;
    struct sockaddr_un address;
    socklen_t len;
};

static struct mail mail_open(void)
{
    struct mail mail = {.in = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), .address.sun_family = AF_UNIX};
    mail.len = sizeof mail.address;
    ASSERT(mail.in >= 0);
    ASSERT_INT(bind(mail.in, (struct sockaddr *)&mail.address, sizeof(sa_family_t)), 0); /* a name of the kernel's */
    ASSERT_INT(getsockname(mail.in, (struct sockaddr *)&mail.address, &mail.len), 0);
    ASSERT_INT(notify_init(mail.in), 0);
    return mail;
}

/* With a descriptor when `fd` >= 0. */
static void mail_send(const struct mail *mail, const char *text, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec place = {.iov_base = (char *)text, .iov_len = strlen(text)};
    struct msghdr message = {
        .msg_name = (void *)&mail->address, .msg_namelen = mail->len, .msg_iov = &place, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    int out CLEANUP_FD = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT(sendmsg(out, &message, MSG_DONTWAIT) >= 0);
}

TEST(notifications_of_this_user_are_taken_in_their_order)
{
    struct mail mail = mail_open();
    struct notify_words words = {0};
    ASSERT_INT(notify_receive(mail.in, 0, &words), 0);
    mail_send(&mail, "STATUS=a", -1);
    mail_send(&mail, "", -1);
    mail_send(&mail, "STATUS=b\nREADY=1", -1);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 1);
    ASSERT_STR(words.status, "a");
    ASSERT(!words.ready);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 1);
    ASSERT_STR(words.status, "b");
    ASSERT(words.ready);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 0);
    close(mail.in);
}

static void send_as_nobody(const struct child *me, void *arg)
{
    (void)me;
    ASSERT_INT(setresuid(65534, 65534, 65534), 0);
    mail_send(arg, "READY=1", -1);
}

TEST(a_notification_of_another_user_is_ignored)
{
    if (geteuid() != 0)
        test_skip("becoming another user needs root");
    struct mail mail = mail_open();
    struct notify_words words = {0};
    struct child child = child_start(send_as_nobody, &mail);
    ASSERT_INT(child_wait(&child), 0);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 0);
    ASSERT(!words.ready);
    close(mail.in);
}

static void send_and_end(const struct child *me, void *arg)
{
    (void)me;
    mail_send(arg, "READY=1", -1);
}

TEST(a_notification_that_a_dead_process_sent_before_the_start_is_ignored)
{
    struct mail mail = mail_open();
    struct notify_words words = {0};
    int64_t later_ms = clock_now().wall_ms + 3600000;
    struct child child = child_start(send_and_end, &mail);
    ASSERT_INT(child_wait(&child), 0);
    ASSERT_INT(notify_receive(mail.in, later_ms, &words), 0);
    mail_send(&mail, "STATUS=alive", -1);
    ASSERT_INT(notify_receive(mail.in, later_ms, &words), 1);
    ASSERT(!words.ready);
    child = child_start(send_and_end, &mail);
    ASSERT_INT(child_wait(&child), 0);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 1);
    ASSERT(words.ready);
    close(mail.in);
}

TEST(descriptors_that_come_with_a_notification_are_closed_so_that_a_barrier_ends)
{
    struct mail mail = mail_open();
    struct notify_words words = {0};
    int barrier[2];
    ASSERT_INT(pipe2(barrier, O_CLOEXEC), 0);
    mail_send(&mail, "BARRIER=1", barrier[1]);
    close(barrier[1]);
    ASSERT_INT(notify_receive(mail.in, 0, &words), 1);
    struct pollfd ended = {.fd = barrier[0], .events = POLLIN};
    ASSERT_INT(poll(&ended, 1, SCENE_DEADLINE_MS), 1);
    ASSERT(ended.revents & POLLHUP);
    close(barrier[0]);
    close(mail.in);
}

TEST(what_is_no_datagram_socket_is_not_taken_for_one)
{
    int pair[2];
    ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ASSERT_INT(notify_init(pair[0]), -1);
    ASSERT_INT(notify_init(999), -1);
    close(pair[0]);
    close(pair[1]);
}

/* ---- log ---- */

static struct proc log_scene(void)
{
    struct proc p = {.id = "web", .view = {.state = PROC_RUNNING, .n = 2, .log = "direct", .phase = ""}};
    ASSERT_INT(mkdir("web", 0700), 0);
    ASSERT_INT(mkdir("web/log", 0700), 0);
    scene_write("web/log/stdout.log", "");
    scene_write("web/log/stderr.log", "");
    p.dir = open("web", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT(p.dir >= 0);
    return p;
}

static void append(const char *path, const char *text)
{
    int fd CLEANUP_FD = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    ASSERT_INT(fs_write_all(fd, text, strlen(text)), 0);
}

TEST(a_log_probe_sees_lines_of_both_streams_written_since_the_start_and_each_once)
{
    struct tsk_error err;
    struct proc p = log_scene();
    append("web/log/stdout.log", "listening on 1\n");
    const int64_t start[2] = {15, 0};
    struct probe_try t = try_of(PROBE_LOG, "^listening on [0-9]+$", 0);
    t.p = &p;
    ASSERT_OK(try_log_init(&t, start, &err));
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 0);
    append("web/log/stdout.log", "loading\nnot listening on 5\n");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 0);
    append("web/log/stderr.log", "\033[32mlistening on 2\033[0m\r\n");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 1);
    ASSERT(strstr(t.detail, "listening on 2"));
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 0);
    append("web/log/stdout.log", "listening on 3\nmore\n");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 1);
    try_log_clear(&t);
    close(p.dir);
}

TEST(a_log_probe_sees_a_line_that_is_written_in_pieces_and_has_no_end)
{
    struct tsk_error err;
    struct proc p = log_scene();
    const int64_t start[2] = {0, 0};
    struct probe_try t = try_of(PROBE_LOG, "^ready for you", 0);
    t.p = &p;
    ASSERT_OK(try_log_init(&t, start, &err));
    append("web/log/stdout.log", "hello\nready ");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 0);
    append("web/log/stdout.log", "for ");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 0);
    append("web/log/stdout.log", "you");
    ASSERT_INT(try_log(&t, ALL_THE_TIME), 1);
    try_log_clear(&t);
    close(p.dir);
}

TEST(a_log_that_grows_makes_its_watch_readable)
{
    struct proc p = log_scene();
    int watch CLEANUP_FD = try_log_watch(&p);
    if (watch < 0)
        test_skip("no inotify instance is left");
    struct pollfd grown = {.fd = watch, .events = POLLIN};
    ASSERT_INT(poll(&grown, 1, 0), 0);
    append("web/log/stderr.log", "x");
    ASSERT_INT(poll(&grown, 1, SCENE_DEADLINE_MS), 1);
    close(p.dir);
}

/* ---- reports and runs ---- */

TEST(a_report_counts_only_for_its_own_start)
{
    struct tsk_error err;
    struct proc p = log_scene();
    struct probe_report report = {.n = 1, .phase = "ready", .since_ms = 5, .detail = "\"quoted\""}, found;
    ASSERT(!probe_was_ready(&p, &found));
    ASSERT_INT(found.n, 0);
    ASSERT_OK(probe_report_write(p.dir, &report, &err));
    ASSERT(!probe_was_ready(&p, &found)); /* that was start 1; now is 2 */
    ASSERT_INT(found.n, 0);
    report.n = 2;
    ASSERT_OK(probe_report_write(p.dir, &report, &err));
    ASSERT(probe_was_ready(&p, &found));
    ASSERT_STR(found.detail, "\"quoted\"");
    snprintf(report.failed, sizeof report.failed, "late");
    ASSERT_OK(probe_report_write(p.dir, &report, &err));
    ASSERT(!probe_was_ready(&p, &found));
    ASSERT_STR(found.failed, "late");
    scene_write("web/phase", "{\"n\":2,\"phase\":");
    ASSERT(!probe_was_ready(&p, &found));
    close(p.dir);
}

/* A process to be probed, in a group of its own as the holder starts it. */
static void be_probed(const struct child *me, void *arg)
{
    (void)arg;
    setpgid(0, 0);
    child_say(me, 'r');
    child_hear(me);
}

struct subject {
    struct child child;
    struct proc p;
};

static struct subject subject_start(json_t *spec_take)
{
    struct tsk_error err;
    struct subject s = {.child = child_start(be_probed, NULL), .p = log_scene()};
    ASSERT_INT(child_hear(&s.child), 'r');
    ASSERT_INT(proc_id_of(s.child.pid, &s.p.view.child), 0);
    json_object_set_new(spec_take, "command", json_string("x"));
    ASSERT_OK(proc_spec_make(spec_take, NULL, NULL, &s.p.spec, &err));
    json_decref(spec_take);
    return s;
}

static void subject_clear(struct subject *s)
{
    json_decref(s->p.spec);
    close(s->p.dir);
}

static struct probe_report run_probe(const struct subject *s, int notify_fd)
{
    struct tsk_error err;
    struct probe_report report = {0};
    ASSERT_OK(probe_run(NULL, &s->p, ".", notify_fd, &err));
    probe_report_read(s->p.dir, &report);
    return report;
}

TEST(a_probe_without_health_ends_when_the_process_is_ready)
{
    int port, fd = listen_on(AF_INET, &port);
    struct subject s = subject_start(json_pack("{s:{s:i}}", "ready", "port", port));
    struct probe_report report = run_probe(&s, -1);
    ASSERT_STR(report.phase, "ready");
    ASSERT_INT(report.n, 2);
    ASSERT_STR(report.failed, "");
    close(fd);
    child_kill(&s.child);
    subject_clear(&s);
}

TEST(a_probe_whose_time_is_up_says_so_and_why)
{
    struct subject s = subject_start(json_pack("{s:{s:[s], s:i}}", "ready", "command", "false", "timeout_ms", 1));
    struct probe_report report = run_probe(&s, -1);
    ASSERT_STR(report.phase, "starting");
    ASSERT_STR(report.failed, "did not become ready within 1 ms");
    ASSERT_STR(report.detail, "exit 1");
    child_kill(&s.child);
    subject_clear(&s);
}

TEST(a_probe_ends_with_the_process_it_watches)
{
    struct subject s = subject_start(json_pack("{s:{s:s}}", "ready", "log", "never"));
    kill(s.child.pid, SIGKILL);
    struct probe_report report = run_probe(&s, -1);
    ASSERT(strcmp(report.phase, "ready") != 0);
    child_wait(&s.child);
    run_probe(&s, -1); /* and does not begin when it is gone */
    subject_clear(&s);
}

TEST(a_probe_that_is_started_again_for_the_same_start_does_not_ask_again)
{
    struct tsk_error err;
    struct subject s = subject_start(json_pack("{s:{s:s}}", "ready", "log", "never"));
    struct probe_report before = {.n = 2, .phase = "ready", .since_ms = 7};
    ASSERT_OK(probe_report_write(s.p.dir, &before, &err));
    struct probe_report report = run_probe(&s, -1);
    ASSERT_STR(report.phase, "ready");
    ASSERT_INT(report.since_ms, 7);
    child_kill(&s.child);
    subject_clear(&s);
}

TEST(an_unhealthy_process_whose_policy_restarts_it_is_ended)
{
    json_t *spec = json_pack("{s:s, s:{s:[s], s:i, s:i, s:s}}", "restart", "always", "health", "command", "false",
                             "interval_ms", 10, "failures", 2, "action", "restart");
    struct subject s = subject_start(spec);
    struct probe_report report = run_probe(&s, -1);
    ASSERT_STR(report.phase, "unhealthy");
    int status = child_wait(&s.child);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    subject_clear(&s);
}
