/* waiting.h - the parties that wait for something: files `.aiflow/waiting/<16 hex>.json`, {"kind","id","since_ms","who":{…}}.
 *
 *  V1  The waiter locks byte 0 of its file before the file gets its name, until the file is removed. A file that is not locked
 *      was left by a waiter that died: it is ignored, and the next waiter removes it.
 *  V2  These files only inform others; no wait depends on them. If a file cannot be made, the wait continues. */
#ifndef OWN_WAITING_H
#define OWN_WAITING_H

#include "own/who.h"

struct waiting {
    int dir, fd; /* -1: none */
    int64_t since_ms;
    char name[32];
};
#define WAITING_NONE                                                                                                   \
    {                                                                                                                  \
        .dir = -1, .fd = -1                                                                                            \
    }

/* The acting party waits for `kind` `id` (may be NULL) from now on, until waiting_end. */
void waiting_begin(struct waiting *waiting, struct tsk_workspace *ws, const char *kind, const char *id);
void waiting_end(struct waiting *waiting); /* for CLEANUP */
/* All that wait: array of {kind id since who}, owned. */
json_t *waiting_list(struct tsk_workspace *ws);

#endif
