/* ask.h - one question to Redis, for tasuki itself: the answer is one JSON document on stdout. `server`: what is there. `workers`:
 * who is there. `drain ID` and `end ID`: an order for a worker.
 * `settle RUN EPOCH LEASE`: ends what is out of a run whose runner is dead. Exit code 0, or 1 with `{"error": …}`. */
#ifndef REDIS_ASK_H
#define REDIS_ASK_H

#include "base/json.h"
#include "redis/conn.h"

/* What `doctor` wants to know: {version, role, policy, memory, memory_max, aof, refused, key, others, workers, dead}. */
int ask_doctor(struct redis_conn *conn, const struct redis_settings *settings, json_t **ret, struct tsk_error *err);
int ask_main(int argc, char **argv);

#endif
