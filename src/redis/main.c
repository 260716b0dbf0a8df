/* main.c - tasuki-worker: what speaks to Redis, in three roles. `worker` executes attempts, `link` is a child of a runner and
 * carries its attempts (descriptor 3), `ask` answers one question and ends. The server is named by TASUKI_REDIS. */
#include "base/log.h"
#include "base/text.h"
#include "redis/ask.h"
#include "redis/link.h"
#include "redis/worker.h"

#include <stdio.h>
#include <string.h>

static void put_problem(const struct tsk_error *problem, void *data)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    (void)data;
    text_put_error(&text, lang_from_environment(), problem);
    fprintf(stderr, "tasuki-worker: %s\n", buf_str(&text));
}

int main(int argc, char **argv)
{
    log_to(put_problem, NULL);
    const char *role = argc > 1 ? argv[1] : "";
    if (strcmp(role, "worker") == 0)
        return worker_main(argc - 1, argv + 1);
    if (strcmp(role, "link") == 0)
        return link_main(LINK_FD);
    if (strcmp(role, "ask") == 0 && argc > 2)
        return ask_main(argc - 2, argv + 2);
    fputs("tasuki-worker is started by tasuki: tasuki worker, tasuki run --redis URL\n", stderr);
    return 2;
}
