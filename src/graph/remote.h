/* remote.h - attempts that other machines execute. The runner passes them over a socket to a child process, the link, which
 * carries them further. Nothing here knows a server, a key or a URL: the link finds those in its environment.
 *
 *  R1  An attempt is sent after its start is in the journal, and its result is acknowledged after its end is in the journal
 *      (X1).
 *  R2  An attempt that is lost with its worker is interrupted: on_interrupt decides. After TAKEOVERS_MAX times it has failed. One
 *      that a worker of another version returns has not begun: it is sent again, and not counted.
 *  R3  Each push has its own id, `<fence>.<place>.<times>`, so that a late message about an earlier push is not taken for this
 *      one.
 *  R4  A link that dies is started again, at the end of a run twice at most. The attempts that it had sent out count as lost.
 *  R5  With --local a worker of this run only is a child, too. It ends with the runner: its descriptor 3 is closed then.
 *  R6  A runner that is cancelled twice does not wait for a server that cannot be reached: it leaves the run as if it had died.
 *      The mark stays (remote_mark.h), so that nothing begins before the attempts that are out have ended.
 *
 * To the link: `open ROOT EPOCH LEASE INTERRUPTED LOCAL`, `files HASH PATH`, `channel SESSION VERSION OLD TEXT`, `forget SESSION OLD`, `push ID SESSION TAGS SPEC VALUES`, `stop ID`, `ack ID`,
 * `end`. From it: `claimed ID FENCE NAME COMMIT WORKER`, `log ID FENCE OFFSET BYTES`, `end ID FENCE WORKER RESULT`, `lost ID WHY WORKER`, `gone ID`
 * (stopped before it began), `places N`, `nobody OTHERS`, `version WORKER`, `away WHY`, `here`, `stale`, `open`. */
#ifndef GRAPH_REMOTE_H
#define GRAPH_REMOTE_H

#include "graph/runner.h"

#define TAKEOVERS_MAX   3
#define REMOTE_PARALLEL 256 /* attempts that are out at a time, where neither the flow nor the caller says so */

/* Starts the link, if attempts of this run go elsewhere. */
int remote_begin(struct runner *runner, struct tsk_error *err);
/* The run is over: nothing of it stays behind. */
void remote_end(struct runner *runner);
/* The runner ends: the link goes with it, and attempts that are out stay out. */
void remote_close(struct runner *runner);
/* Says a word to the link, with a text if it is not NULL. */
void remote_say(struct runner *runner, const char *word, const char *text);
/* remote_push.c */
void remote_push(struct runner *runner, struct running *slot);
void remote_stop(struct runner *runner, struct running *slot, enum stop why);
/* The values of a branch that has ended need not be kept. */
void remote_values_end(struct runner *runner, uint32_t scope, const char *session);
/* Sends what waits, also the acknowledgements of what the journal now has. */
void remote_flush(struct runner *runner);
/* Something can be read. */
void remote_read(struct runner *runner);
/* R6: whether it leaves; then *err says so. */
bool remote_leaves(const struct runner *runner, struct tsk_error *err);
int64_t remote_lease_ms(const struct runner *runner);
/* How many attempts may be out now. */
size_t remote_window(const struct runner *runner);
/* remote_files.c: what travels with a run (pack.h) is kept with it, so that a resume has the same. */
int remote_files_keep(struct runner *runner, struct tsk_error *err);
int remote_files_begin(struct runner *runner, struct tsk_error *err);
void remote_files_say(struct runner *runner);
/* remote_child.c: starts the program with `fd` as its descriptor 3. Its pid, or -1. */
pid_t remote_child(struct runner *runner, char **argv, int fd, int error_fd, struct tsk_error *err);
int local_start(struct runner *runner, struct tsk_error *err);
void local_end(struct runner *runner);

#endif
