/* redis_scene.h - a server that has a script: which words it hears on which port, and what it answers. */
#ifndef REDIS_SCENE_H
#define REDIS_SCENE_H
#include "base/fs.h"
#include "harness/test.h"
#include "redis/cluster.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASSERT_OK(call) ASSERT_INT(call, 0)
#define PORTS           3

struct line {
    int at;            /* the number of its port */
    const char *heard; /* the words of a command; with * at the end, how they begin; "": until the end */
    const char *said;  /* NULL: the connection ends */
};

struct server {
    int listeners[PORTS];
    char ports[PORTS][8];
    pid_t pid;
};

static inline void server_open(struct server *s)
{
    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        s->listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_OK(bind(s->listeners[i], (struct sockaddr *)&address, sizeof address));
        ASSERT_OK(listen(s->listeners[i], 4));
        ASSERT_OK(getsockname(s->listeners[i], (struct sockaddr *)&address, &size));
        snprintf(s->ports[i], sizeof s->ports[i], "%u", ntohs(address.sin_port));
    }
}

/* The words of the next command with spaces between them. false: the connection has ended. */
static inline bool hear(FILE *in, char *words, size_t size)
{
    char head[64], data[8192];
    if (!fgets(head, sizeof head, in))
        return false;
    words[0] = '\0';
    for (long left = strtol(head + 1, NULL, 10); left > 0; left--) {
        if (!fgets(head, sizeof head, in))
            return false;
        size_t len = strtoul(head + 1, NULL, 10), kept = len < sizeof data ? len : sizeof data - 1;
        for (size_t i = 0; i < len + 2; i++) {
            int c = fgetc(in);
            if (i < kept)
                data[i] = (char)c;
        }
        data[kept] = '\0';
        snprintf(words + strlen(words), size - strlen(words), "%s%s", words[0] ? " " : "", data);
    }
    return true;
}

static inline bool is_as_written(const char *heard, const char *wanted)
{
    size_t len = strlen(wanted);
    bool is_begin = len && wanted[len - 1] == '*';
    return is_begin ? strncmp(heard, wanted, len - 1) == 0 : strcmp(heard, wanted) == 0;
}

static inline _Noreturn void server_run(const struct server *s, const struct line *lines, size_t count)
{
    static char heard[65536];
    FILE *conns[PORTS] = {NULL};
    alarm(20);
    for (size_t i = 0; i < count; i++) {
        int at = lines[i].at;
        if (!lines[i].heard[0]) { /* it says nothing any more, until the other side ends */
            while (fgetc(conns[at]) != EOF)
                ;
            _exit(0);
        }
        while (!conns[at] || !hear(conns[at], heard, sizeof heard)) {
            if (conns[at])
                fclose(conns[at]);
            conns[at] = fdopen(accept(s->listeners[at], NULL, NULL), "r");
        }
        if (!is_as_written(heard, lines[i].heard)) {
            fprintf(stderr, "# line %zu: heard %.200s, expected %s\n", i, heard, lines[i].heard);
            _exit(1);
        }
        if (lines[i].said && write(fileno(conns[at]), lines[i].said, strlen(lines[i].said)) < 0)
            _exit(2);
        if (!lines[i].said) {
            fclose(conns[at]);
            conns[at] = NULL;
        }
    }
    _exit(0);
}

static inline void server_start(struct server *s, const struct line *lines, size_t count)
{
    s->pid = fork();
    if (s->pid == 0)
        server_run(s, lines, count);
}

#define START(server, lines) server_start(server, lines, sizeof(lines) / sizeof *(lines))

/* It has heard all that it was to hear, and nothing else. */
static inline void server_close(struct server *s)
{
    int status;
    for (int i = 0; i < PORTS; i++)
        close(s->listeners[i]);
    ASSERT_INT(waitpid(s->pid, &status, 0), s->pid);
    ASSERT_INT(status, 0);
}

#define ID "run_id:0123456789abcdef0123456789abcdef01234567\r\n"

static inline const char *hello(const char *version, const char *mode)
{
    static char texts[32][256];
    static unsigned next;
    char info[200], *text = texts[next++ % 32];
    snprintf(info, sizeof info, "# Server\r\nredis_version:%s\r\nredis_mode:%s\r\n" ID, version, mode);
    snprintf(text, sizeof texts[0], "$%zu\r\n%s\r\n", strlen(info), info);
    return text;
}

#define HELLO(at)                                                                                                      \
    {                                                                                                                  \
        at, "INFO server", hello("7.2.4", "standalone")                                                                \
    }
#define HELLO_CLUSTER(at)                                                                                              \
    {                                                                                                                  \
        at, "INFO server", hello("7.2.4", "cluster")                                                                   \
    }

static inline void settings_for(struct redis_settings *settings, const struct server *s, int at)
{
    *settings = (struct redis_settings){.host = "127.0.0.1", .db = "0", .prefix = "p", .pool = "q"};
    memcpy(settings->port, s->ports[at], sizeof settings->port);
}

static inline const char *reason(const struct tsk_error *err)
{
    const char *text = tsk_error_context(err, "reason");
    return text ? text : "";
}

static inline const char *elsewhere(const char *word, int slot, const char *host, const char *port)
{
    static char texts[16][96];
    static unsigned next;
    char *text = texts[next++ % 16];
    snprintf(text, sizeof texts[0], "-%s %d %s:%s\r\n", word, slot, host, port);
    return text;
}

static inline void put_words(struct redis_command *command, const char *name, const char *key)
{
    command_begin(command, name);
    command_puts(command, key);
}

#endif
