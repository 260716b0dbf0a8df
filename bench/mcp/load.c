/* load.c - one client of an MCP server on stdio: how soon it answers, how many calls a second, how much memory it has then.
 *
 *     bench-mcp CALLS IN_FLIGHT CALL-PARAMS SERVER...     prints one JSON document
 *
 * It sends tools/call with CALL-PARAMS (JSON) as `params` and counts lines: every answer is one. Several lines of CALL-PARAMS are
 * sent in turn. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"load\",\"version\":\"1\"}}}\n";
static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

struct server {
    pid_t pid;
    int in, out;
    bool has_error; /* an answer was not what was asked for */
};

static void fail(const char *what)
{
    fprintf(stderr, "bench-mcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void server_start(struct server *server, char **argv)
{
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        fail("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    errno = posix_spawnp(&server->pid, argv[0], &actions, NULL, argv, environ);
    if (errno)
        fail(argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    server->in = to[1];
    server->out = from[0];
}

static void send_all(const struct server *server, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(server->in, data, len);
        if (n < 0)
            fail("write");
        data += n;
        len -= (size_t)n;
    }
}

/* Waits for answers; how many lines came. */
static size_t receive(struct server *server)
{
    static char chunk[1 << 16];
    ssize_t n = read(server->out, chunk, sizeof chunk - 1);
    if (n <= 0)
        fail("the server ended");
    chunk[n] = '\0';
    if (strstr(chunk, "\"isError\":true") || strstr(chunk, "\"error\":"))
        server->has_error = true;
    size_t lines = 0;
    for (char *at = chunk; (at = memchr(at, '\n', (size_t)(chunk + n - at))); at++)
        lines++;
    return lines;
}

/* The next of the lines of `params`, in turn; *at is where the one after it begins. */
static const char *next_line(const char *params, const char **at, int *ret_len)
{
    const char *line = **at ? *at : params;
    size_t len = strcspn(line, "\n");
    *at = line + len + (line[len] == '\n');
    *ret_len = (int)len;
    return line;
}

/* Keeps `in_flight` calls going until `calls` are answered; seconds. */
static double load(struct server *server, const char *params, long calls, long in_flight)
{
    size_t len = strlen(params) + 128, used = 0;
    char *batch = malloc(len * (size_t)in_flight);
    if (!batch)
        fail("malloc");
    long sent = 0, answered = 0, next = in_flight;
    const char *at = params;
    double began = now_s();
    while (answered < calls) {
        for (used = 0; next && sent < calls; next--) {
            int line_len;
            const char *line = next_line(params, &at, &line_len);
            used += (size_t)snprintf(batch + used, len,
                                     "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":%.*s}\n",
                                     ++sent, line_len, line);
        }
        send_all(server, batch, used);
        next = (long)receive(server);
        answered += next;
    }
    free(batch);
    return now_s() - began;
}

static long status_kib(pid_t pid, const char *key)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

int main(int argc, char **argv)
{
    struct server server = {0};
    struct rusage usage;
    if (argc < 5) {
        fprintf(stderr, "usage: bench-mcp CALLS IN_FLIGHT CALL-PARAMS SERVER...\n");
        return 2;
    }
    long calls = strtol(argv[1], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    double began = now_s();
    server_start(&server, argv + 4);
    send_all(&server, hello, sizeof hello - 1);
    while (receive(&server) == 0)
        ;
    double first = now_s() - began;
    send_all(&server, ready, sizeof ready - 1);
    double seconds = calls ? load(&server, argv[3], calls, strtol(argv[2], NULL, 10)) : 0;
    long rss = status_kib(server.pid, "VmRSS:"), peak = status_kib(server.pid, "VmHWM:");
    close(server.in);
    if (wait4(server.pid, NULL, 0, &usage) < 0)
        fail("wait");
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf(
        "{\"first_ms\": %.3f, \"calls\": %ld, \"seconds\": %.6f, \"rss_kib\": %ld, \"peak_kib\": %ld, \"cpu_s\": %.3f, "
        "\"errors\": %s}\n",
        first * 1000, calls, seconds, rss, peak, cpu, server.has_error ? "true" : "false");
    return 0;
}
