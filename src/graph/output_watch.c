#include "graph/output_watch.h"
#include "base/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

void output_watch_begin(struct output_watch *watch, const char *run_path)
{
    *watch = (struct output_watch){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (watch->fd >= 0 && inotify_add_watch(watch->fd, run_path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0)
        fs_close(&watch->fd);
    watch->is_blind = watch->fd < 0;
}

void output_watch_end(struct output_watch *watch)
{
    fs_close(&watch->fd);
    free(watch->made);
    *watch = (struct output_watch){.fd = -1, .is_blind = true};
}

static void note(struct output_watch *watch, const struct inotify_event *event)
{
    char *end;
    if (event->mask & (IN_Q_OVERFLOW | IN_IGNORED))
        watch->is_blind = true;
    if (!event->len || strncmp(event->name, OUTPUT_NAME ".", sizeof OUTPUT_NAME) != 0)
        return;
    uint64_t fence = strtoull(event->name + sizeof OUTPUT_NAME, &end, 10);
    if (*end)
        return;
    if (watch->count == watch->room) {
        watch->room = watch->room ? watch->room * 2 : 16;
        watch->made = realloc(watch->made, watch->room * sizeof *watch->made);
        BUG(!watch->made);
    }
    watch->made[watch->count++] = fence;
}

static void take_news(struct output_watch *watch)
{
    char news[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t len;
    while (!watch->is_blind && (len = read(watch->fd, news, sizeof news)) > 0)
        for (char *at = news; at < news + len; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len)
            note(watch, (const struct inotify_event *)at);
    if (!watch->is_blind && errno != EAGAIN && errno != EINTR)
        watch->is_blind = true;
}

bool output_watch_may_have(struct output_watch *watch, uint64_t fence)
{
    take_news(watch);
    for (size_t i = 0; i < watch->count; i++)
        if (watch->made[i] == fence) {
            watch->made[i] = watch->made[--watch->count];
            return true;
        }
    return watch->is_blind;
}
