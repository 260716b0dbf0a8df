/* storm-hold DIR LOCK ROLE MILLISECONDS - the work that somebody does under a lock: it is witnessed, takes
 * that long, and ends. For contenders that run a command while they hold: `tasuki lock run` and the U2
 * client. */
#include "witness.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: storm-hold DIR LOCK ROLE MILLISECONDS\n");
        return 2;
    }
    struct witness w;
    witness_open(&w, argv[1], argv[2], argv[3]);
    long ms = strtol(argv[4], NULL, 10);
    const char *fence = getenv("TASUKI_LOCK_FENCE");
    witness_log(&w, "hold", "fence=%s", fence ? fence : "-");
    pid_t other = witness_enter(&w);
    struct timespec work = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&work, NULL);
    if (!other)
        witness_leave(&w);
    witness_log(&w, "end", "status=ok");
    return 0;
}
