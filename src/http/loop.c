#include "http/loop.h"
#include "base/fs.h"

int loop_init(struct loop *loop, struct tsk_error *err)
{
    loop->at = loop->count = 0;
    loop->fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->fd < 0 ? error_errno(err, "create", "epoll") : 0;
}

void loop_clear(struct loop *loop)
{
    fs_close(&loop->fd);
}

int loop_add(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    source->events = events;
    return epoll_ctl(loop->fd, EPOLL_CTL_ADD, source->fd, &event);
}

void loop_want(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (source->events == events)
        return;
    source->events = events;
    epoll_ctl(loop->fd, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
    epoll_ctl(loop->fd, EPOLL_CTL_DEL, source->fd, NULL);
    for (int i = loop->at; i < loop->count; i++)
        if (loop->batch[i].data.ptr == source)
            loop->batch[i].data.ptr = NULL;
}

void loop_turn(struct loop *loop, int timeout_ms)
{
    int count = epoll_wait(loop->fd, loop->batch, LOOP_BATCH, timeout_ms);
    loop->count = count > 0 ? count : 0;
    for (loop->at = 0; loop->at < loop->count;) {
        const struct epoll_event *event = &loop->batch[loop->at++];
        struct loop_source *source = event->data.ptr;
        if (source)
            source->ready(source, event->events);
    }
    loop->count = 0;
}
