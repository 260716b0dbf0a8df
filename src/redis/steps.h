/* steps.h - the steps of an attempt on the server (steps.lua): how they are loaded and called, and the names of the keys.
 *
 * The library's name has the version of the stored data, and a hash of the text, so that programs of several versions each find
 * their own. If the server has no functions, the same text is used as a script. */
#ifndef REDIS_STEPS_H
#define REDIS_STEPS_H

#include "redis/conn.h"

#define STEPS_LAYOUT "3" /* of the stored data, as in steps.lua */
#define STEPS_NAME   "tasuki_v" STEPS_LAYOUT "_"
#define KEY_MAX      512

enum steps_answer {
    STEPS_OK,
    STEPS_AWAY, /* there is no connection, or the server refuses for now (*err) */
    STEPS_STALE, /* the server is another one, was emptied, or has gone back: nobody claims or renews. Or the run is of a program with
                     another layout of the data: the reason of *err is LAYOUT */
    STEPS_ENDED,  /* the run is over */
    STEPS_FOREIGN /* another runner has the run */
};

/* PREFIX:{root}:NAME; and of a pool, hints only: PREFIX:{pool NAME}:NAME. */
void key_of_run(const struct redis_settings *settings, const char *root, const char *name, char key[KEY_MAX]);
void key_of_pool(const struct redis_settings *settings, const char *name, char key[KEY_MAX]);
void key_of_files(const struct redis_settings *settings, const char *hash, const char *name, char key[KEY_MAX]);

/* A run on the server, as somebody sees it. */
struct steps {
    char meta[KEY_MAX];
    char server[48]; /* the server for which the last step was begun */
    int64_t seen;    /* the highest step number; a server that is behind it has forgotten something */
};

/* Begins a step; the caller puts its own arguments. */
void steps_begin(struct redis_command *command, struct redis_conn *conn, struct steps *steps, const char *name);
/* The answer is an array in *ret (owned) for STEPS_OK. */
enum steps_answer steps_ask(struct redis_conn *conn, struct steps *steps, const struct redis_command *command,
                            redisReply **ret, struct tsk_error *err);

#endif
