/* elsewhere.h - whether the attempts of a run go to workers on other machines, and over which server: `--redis URL`,
 * TASUKI_REDIS, or `redis:` in config.yaml, in this order. A resumed run keeps its choice: with workers, or on this machine. */
#ifndef RUN_ELSEWHERE_H
#define RUN_ELSEWHERE_H

#include "graph/runner.h"

struct elsewhere {
    char program[PATH_MAX]; /* tasuki-worker; "": attempts are executed here */
    char shown[512];        /* the URL without user and password */
    json_t *env;            /* [KEY=value]: what the program finds its server by; has secrets */
};

/* `ws` and `url` may be NULL. The settings are those of a new run, or with `remembered` of one that continues there. INVALID_INPUT and
 * ENVIRONMENT: no such server, or it cannot be reached. */
int elsewhere_find(struct tsk_workspace *ws, const char *url, const char *remembered, struct elsewhere *ret,
                   struct tsk_error *err);
void elsewhere_clear(struct elsewhere *elsewhere);
void elsewhere_use(const struct elsewhere *elsewhere, struct runner_options *options);
/* One question to the server (redis/ask.h); the answer is owned. */
int elsewhere_ask(const struct elsewhere *elsewhere, const char *const *words, json_t **ret, struct tsk_error *err);

#endif
