#include "mcp/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static int wakes_fd = -1;
static atomic_int seen; /* the kernel gives a signal to any thread */

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    uint64_t one = 1;
    int saved = errno;
    if (info->si_code != SI_TKILL) {
        seen++;
        (void)!write(wakes_fd, &one, sizeof one);
    }
    errno = saved;
}

void signals_take(int wake_fd, bool hangup_ends)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    wakes_fd = wake_fd;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (hangup_ends)
        sigaction(SIGHUP, &action, NULL);
    else
        signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

int signals_seen(void)
{
    return seen;
}
