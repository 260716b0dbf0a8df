/* cache.h - answers that are used more than once: a page and its friends ask the same questions many times a second.
 *
 *  K1  Only reads that do not wait, and only what succeeded.
 *  K2  An answer is used as long as no file directly in `.aiflow/` has changed since before it was begun. Everything tasuki changes
 *      is an event or a row, so a client that knows of a change finds it in the next answer, also if another program made
 *      the change: the kernel has queued the notice before that program's write returned.
 *  K3  And for CACHE_MS at most, for what nobody writes down: the end of a process, a file of another tool. */
#ifndef HTTP_CACHE_H
#define HTTP_CACHE_H

#include "http/internal.h"

#define CACHE_MS    100
#define CACHE_COUNT 16

struct http_cache {
    struct {
        const struct op *op;
        enum lang lang;
        char *target; /* owned: path and query */
        struct buf body;
        uint64_t changes; /* of the feed, before it was begun */
        int64_t made_ms;
    } entries[CACHE_COUNT];
    unsigned next;
};

/* Answers the request if it can. */
bool cache_answer(struct http_cache *cache, struct http_conn *conn, enum lang lang);
/* Before the job is begun: whether its answer may be kept. */
void cache_mark(struct http_job *job, const struct http_conn *conn);
/* When it is done. */
void cache_keep(struct http_cache *cache, struct http_job *job);
void cache_clear(struct http_cache *cache);

#endif
