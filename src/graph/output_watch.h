/* output_watch.h - whether a task has made its output file. Most tasks make none, and to look for a name that was never there
 * costs 7 µs; the kernel tells of those that are made, before their maker goes on, so silence is an answer.
 *
 * Where the kernel cannot tell (no inotify to be had, news were lost), the answer is always "perhaps". */
#ifndef GRAPH_OUTPUT_WATCH_H
#define GRAPH_OUTPUT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_NAME "output" /* `output.<fence>` in the run's directory */

struct output_watch {
    int fd;
    bool is_blind;
    uint64_t *made; /* fences whose file was made and not yet asked for */
    size_t count, room;
};

void output_watch_begin(struct output_watch *watch, const char *run_path);
void output_watch_end(struct output_watch *watch);
/* false: there is no such file. To be asked once, when the task has exited. */
bool output_watch_may_have(struct output_watch *watch, uint64_t fence);

#endif
