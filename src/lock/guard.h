/* guard.h - the guard file of a lock: its byte locks put all changes in one order, and show whether the holder lives.
 *
 * One per lock in `.aiflow/locks/.guard/`, never unlinked. Its content is 64 bytes (struct guard_state); its byte locks
 * (open-file-description locks, dropped by the kernel when the last descriptor of the holder closes, however it dies) are
 *
 *   byte 0         the guard: held by the process that changes the lock file
 *   byte 1         held by the process that takes the next ticket
 *   byte 2         shared, for a moment, by a process that finds out how /proc names this file
 *   byte 64 + f    the life byte of fence f: held by the holder as long as it lives
 *   byte T + t     the place of ticket t in the queue of waiters, T = 2^62
 *
 * From byte 4096 on the file has the places in line that are kept for callers who come back (line.h).
 *
 * A fence is boot number * 2^40 + counter. The first use after a reboot raises the boot number and syncs it, so that a fence is
 * never used twice, although the counter itself is never synced. */
#ifndef LOCK_GUARD_H
#define LOCK_GUARD_H

#include "base/clock.h"
#include "base/error.h"

#include <signal.h>

#define GUARD_WAIT_MS     10000
#define GUARD_LIFE_BASE   64
#define GUARD_TICKET_BASE ((off_t)1 << 62)

struct guard_state {
    char magic[8];
    unsigned char boot_id[16];
    uint64_t boot_number;
    uint64_t counter;
    int64_t wall_offset_ms; /* wall clock minus boot clock, when this boot was first seen: tells a clock step */
    uint64_t has_private;   /* a private name of this lock may exist beside the lock file */
    uint64_t tickets;       /* the last ticket given; written under byte 1, everything before it under byte 0 */
};

struct guard {
    int fd;
    bool is_locked;
    bool is_new_boot; /* the stored state is of another boot, or there is none */
    struct guard_state state;
    sigset_t saved_signals;
};

#define GUARD_INIT                                                                                                     \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

int guard_open(struct guard *guard, int guard_dir, const char *name, struct tsk_error *err);
/* Closes a guard's descriptor that holds nothing any more. */
void guard_close_fd(int *fd);
/* Drops what it holds, keeps the descriptor. */
void guard_drop_all(struct guard *guard);
/* Drops everything this descriptor holds (guard, life byte, ticket), even if a child has inherited it. */
void guard_close(struct guard *guard);

/* Takes byte 0 and reads the state. Until guard_unlock, SIGINT, SIGTERM and SIGTSTP are blocked in this thread. Waits at
 * most 10 s: then ENVIRONMENT, text "guard_busy", with the pid of the process that holds it. */
int guard_lock(struct guard *guard, struct tsk_error *err);
/* The same without reading the state: for callers that only compare and unlink. */
int guard_lock_only(struct guard *guard, struct tsk_error *err);
void guard_unlock(struct guard *guard);

/* Reads the state through a descriptor that may be read-only, without byte 0: good enough to be shown. */
int guard_peek(struct guard *guard, struct tsk_error *err);

/* All of these only while byte 0 is held. */
/* Notes this boot and its clocks in the guard, if it was not yet seen here: later visitors can then tell a step of the wall clock.
 * `at_least` is the fence that the lock file names. */
int guard_meet_boot(struct guard *guard, const struct now *now, uint64_t at_least, struct tsk_error *err);
/* The next fence, never one up to `at_least`. `has_private` is stored with it. */
int guard_next_fence(struct guard *guard, const struct now *now, uint64_t at_least, bool has_private, uint64_t *ret,
                     struct tsk_error *err);
int guard_note_private(struct guard *guard, const struct now *now, uint64_t at_least, struct tsk_error *err);
/* Whether the wall clock was stepped by more than 2 s since this boot was first seen here. */
bool guard_clock_was_stepped(const struct guard *guard, const struct now *now);

/* Byte 1, under which the line of waiters changes (line.h). As with guard_lock, signals wait until it is unlocked. */
int guard_tickets_lock(struct guard *guard, sigset_t *saved, struct tsk_error *err);
void guard_tickets_unlock(struct guard *guard, const sigset_t *saved);
/* With byte 1: takes the next place in the line and locks its byte on this descriptor. */
int guard_next_ticket(struct guard *guard, uint64_t *ret, struct tsk_error *err);

/* Life bytes, on this descriptor. */
int guard_life_take(struct guard *guard, uint64_t fence, struct tsk_error *err);
void guard_life_drop(struct guard *guard, uint64_t fence);
/* Whether somebody else holds it: 1, 0 or -1 (errno). */
int guard_life_probe(const struct guard *guard, uint64_t fence);

/* The processes that hold a byte of this guard file, found through /proc; at most `max`, returns how many. For messages
 * and for ending a holder by force: the protocol itself never looks at pids. */
size_t guard_byte_holders(const struct guard *guard, off_t byte, pid_t *pids, size_t max);

#endif
