/* wait.h - waiting for a lock without polling.
 *
 * Arrival order without a daemon: a waiter takes the next ticket t under the guard and locks byte T + t. It is at the head when
 * no smaller ticket is locked any more; a waiter that gives up or dies drops its byte. Only the head waits for the holder;
 * every other waiter waits for the one before it. */
#ifndef LOCK_WAIT_H
#define LOCK_WAIT_H

#include "base/error.h"
#include "lock/judge.h"

/* Locks byte 0 of an open file for writing, for commands that change the same thing in turn. CONFLICT if another process keeps it
 * longer: that process is named. `path`: of the file, below `dir`, for messages. */
int wait_for_file(int fd, int dir, const char *path, int64_t timeout_ms, struct tsk_error *err);
/* Waits at most `timeout_ms` (< 0: for ever) until the byte can be locked, and locks it. -1 with ETIMEDOUT; EINTR when a
 * signal handler ran in this thread. */
int wait_for_byte(int fd, short type, off_t start, int64_t timeout_ms);

/* The same. `look` (NULL: none) is called once a second meanwhile; when it is true, the wait ends with EAGAIN. */
typedef bool wait_look(void *data);
int wait_looking_for_byte(int fd, short type, off_t start, int64_t timeout_ms, wait_look *look, void *data);

/* Waits until no ticket before `ticket` is there any more. -1 as above. */
int wait_for_turn(int fd, uint64_t ticket, int64_t timeout_ms, wait_look *look, void *data);

/* Most holders are about to release. Before sleeping, checks a few times whether any life byte of this lock is still locked. */
bool wait_briefly_for_life(const struct guard *guard);

/* An inotify descriptor that is kept over the waits of one acquisition: closing one can take the kernel twenty milliseconds, so
 * that is done when the lock is there. */
struct lock_watch {
    int fd;
};
void lock_watch_close(struct lock_watch *watch);

/* Waits until something has happened to a held lock after which it must be judged again: released, its holder ended, its file
 * removed or replaced, expired. `file_fd` is the lock file as judged (-1: none). Returns 0 then (or earlier), -1 as above. */
int wait_for_change(const struct guard *guard, const struct lock_target *target, const struct judgement *judgement,
                    int file_fd, struct lock_watch *watch, int64_t timeout_ms);

#endif
