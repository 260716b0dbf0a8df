#include "redis/resolve.h"
#include "base/clock.h"
#include "base/fs.h"
#include "redis/conn.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESOLVE_MS 10000

/* Small enough for one write to a pipe. */
struct answer {
    int problem; /* of getaddrinfo; 0: none */
    size_t count;
    struct resolved list[RESOLVED_MAX];
};

static void answer_find(struct answer *ret, const char *host, const char *port, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL;
    memset(ret, 0, sizeof *ret);
    ret->problem = getaddrinfo(host, port, &hints, &found);
    if (ret->problem)
        return;
    for (const struct addrinfo *one = found; one && ret->count < RESOLVED_MAX; one = one->ai_next) {
        struct resolved *to = &ret->list[ret->count];
        if (one->ai_addrlen > sizeof to->address)
            continue;
        memcpy(&to->address, one->ai_addr, one->ai_addrlen);
        to->len = one->ai_addrlen;
        ret->count++;
    }
    freeaddrinfo(found);
}

/* Nothing of the caller stays open here: the end of a worker must be seen by its guard at once. */
static _Noreturn void resolve_in_child(int fd, const char *host, const char *port)
{
    struct answer answer;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
    answer_find(&answer, host, port, AI_ADDRCONFIG);
    _exit(fs_write_all(fd, &answer, sizeof answer) == 0 ? 0 : 1);
}

/* false: there is no answer in time; errno. */
static bool answer_fetch(struct answer *ret, const char *host, const char *port)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        resolve_in_child(pair[1], host, port);
    int problem = child < 0 ? errno : ETIMEDOUT;
    fs_close(&pair[1]);
    bool is_there = child > 0 && redis_wait(pair[0], POLLIN, clock_now().boot_ms + RESOLVE_MS) &&
                    read(pair[0], ret, sizeof *ret) == (ssize_t)sizeof *ret;
    fs_close(&pair[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    errno = problem;
    return is_there;
}

size_t resolve_host(const char *host, const char *port, struct resolved list[RESOLVED_MAX], const char **ret_why)
{
    struct answer answer;
    answer_find(&answer, host, port, AI_NUMERICHOST); /* an address needs no child */
    if (answer.problem == EAI_NONAME && !answer_fetch(&answer, host, port)) {
        *ret_why = strerrordesc_np(errno);
        return 0;
    }
    *ret_why = gai_strerror(answer.problem ? answer.problem : EAI_NONAME);
    memcpy(list, answer.list, sizeof answer.list);
    return answer.problem ? 0 : answer.count;
}
