#include "redis/guard.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "graph/leftover.h"
#include "redis/scratch.h"
#include "redis/steps.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define GIVE_BACK_TRIES 20
#define KILL_AGAIN_MS   200

bool guard_tell(int fd, const struct guard_word *words, size_t count)
{
    ssize_t len;
    while ((len = send(fd, words, count * sizeof *words, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    return len == (ssize_t)(count * sizeof *words);
}

void guard_end_tree(const char *root, uint64_t fence)
{
    struct tsk_error err;
    struct rundir run = {.dir = -1, .life_fd = -1, .runner_fd = -1};
    struct claim claim = {.fence = fence};
    snprintf(run.id, sizeof run.id, "%s", root);
    if (leftovers_end_task(&run, &claim, true, &err) < 0)
        log_problem(&err);
}

/* Kills every attempt that is due, repeatedly until the worker reports its place free (G4). Returns the ms until the
 * next is due, -1 if nothing runs. */
static int guard_look(struct guard_word *words, size_t count)
{
    int64_t now = clock_now().boot_ms, next = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (words[i].kill_at_ms && words[i].kill_at_ms <= now) {
            guard_end_tree(words[i].root, words[i].fence);
            words[i].kill_at_ms = clock_now().boot_ms + KILL_AGAIN_MS;
        }
        if (words[i].kill_at_ms && words[i].kill_at_ms < next)
            next = words[i].kill_at_ms;
    }
    return next == INT64_MAX ? -1 : (int)(next - now > 60000 ? 60000 : next - now);
}

static bool give_back_one(struct redis_conn *conn, const struct redis_settings *settings, const char *worker,
                          const struct guard_word *word)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    struct steps steps = {.seen = 0};
    struct tsk_error err;
    key_of_run(settings, word->root, "meta", steps.meta);
    steps_begin(&command, conn, &steps, "give_back");
    command_puts(&command, worker);
    command_puts(&command, "1");
    command_puts(&command, word->id);
    command_put_int(&command, (int64_t)word->fence);
    return steps_ask(conn, &steps, &command, &reply, &err) != STEPS_AWAY;
}

/* G2. An attempt whose lease nobody returns is taken over when the lease is over. */
static void give_back_all(const struct redis_settings *settings, const char *worker, const struct guard_word *words,
                          size_t count)
{
    struct redis_conn conn = {.fd = -1};
    struct tsk_error err;
    size_t at = 0;
    for (int tries = 0; tries < GIVE_BACK_TRIES; tries++) {
        while (at < count && !words[at].id[0])
            at++;
        if (at == count) /* also without a connection: a worker that has ended in good order waits for its guard */
            break;
        if (conn.fd < 0 && redis_connect(&conn, settings, &err) < 0) {
            usleep(100000);
            continue;
        }
        if (give_back_one(&conn, settings, worker, &words[at])) {
            at++;
            tries--;
        }
    }
    redis_close(&conn);
}

/* All that the worker has said by now (G5). false: the worker is dead. */
static bool guard_hear(int fd, struct guard_word *words, size_t places)
{
    struct guard_word heard[GUARD_WORDS_MAX];
    for (;;) {
        ssize_t len = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
        if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (len < 0 && errno == EAGAIN)
            return true;
        for (size_t i = 0; len > 0 && i < (size_t)len / sizeof *heard; i++)
            if (heard[i].place < places)
                words[heard[i].place] = heard[i];
    }
}

static void guard_run(int fd, const struct redis_settings *settings, const char *worker, const char *scratch,
                      size_t places)
{
    struct guard_word *words = memory_zeroed(places, sizeof *words);
    while (guard_hear(fd, words, places)) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        poll(&one, 1, guard_look(words, places));
    }
    for (size_t i = 0; i < places; i++) {
        if (words[i].kill_at_ms)
            guard_end_tree(words[i].root, words[i].fence);
        else
            words[i].id[0] = '\0';
    }
    give_back_all(settings, worker, words, places);
    scratch_end(AT_FDCWD, scratch);
    free(words);
}

static void guard_settle_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t none;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], SIG_IGN); /* they are for the worker, which ends its guard by its own end */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

int guard_start(const struct redis_settings *settings, const char *worker, const char *scratch, size_t places,
                pid_t *ret_pid)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    *ret_pid = fork();
    if (*ret_pid == 0) {
        /* Nothing of the worker stays open here: its connections and its end of this socket end with the worker. */
        close_range(3, (unsigned)pair[1] - 1, 0);
        close_range((unsigned)pair[1] + 1, ~0u, 0);
        setsid();
        prctl(PR_SET_NAME, "tasuki-guard"); /* who kills all that are called as the worker leaves it alone */
        redis_due(INT64_MAX);               /* it was the worker's */
        guard_settle_signals();
        guard_run(pair[1], settings, worker, scratch, places);
        _exit(0);
    }
    close(pair[1]);
    if (*ret_pid < 0)
        fs_close(&pair[0]);
    return *ret_pid < 0 ? -1 : pair[0];
}
