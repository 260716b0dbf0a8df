/* loop.h - which descriptors are ready: one epoll set, one thread. A source is embedded in its owner:
 *
 *     struct conn { struct loop_source source; ... };
 *     conn->source = (struct loop_source){.fd = fd, .ready = conn_ready};
 *     loop_add(loop, &conn->source, EPOLLIN);
 *
 * A source may be removed at any time, even by the `ready` of another source; then it is not called any more. */
#ifndef HTTP_LOOP_H
#define HTTP_LOOP_H

#include "base/error.h"

#include <sys/epoll.h>

#define LOOP_BATCH 64

struct loop_source {
    int fd;
    uint32_t events; /* what it waits for now */
    void (*ready)(struct loop_source *source, uint32_t events);
};

struct loop {
    int fd;
    struct epoll_event batch[LOOP_BATCH];
    int at, count; /* of the batch that is being gone through */
};

int loop_init(struct loop *loop, struct tsk_error *err);
void loop_clear(struct loop *loop);
int loop_add(struct loop *loop, struct loop_source *source, uint32_t events);
void loop_want(struct loop *loop, struct loop_source *source, uint32_t events); /* changes it, if it is another set */
void loop_remove(struct loop *loop, struct loop_source *source);                /* leaves the descriptor open */
/* Waits at most timeout_ms (-1: for ever), then calls the handlers of all ready descriptors. */
void loop_turn(struct loop *loop, int timeout_ms);

#endif
