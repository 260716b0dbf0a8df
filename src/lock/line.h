/* line.h - the line of waiters for a lock, and places in it that are kept for a caller that comes back.
 *
 * A waiter has a ticket t and locks byte T + t of the guard file (guard.h); the smallest locked ticket is the head. A caller
 * that waits in bounded calls would lose its place with every call, so a call that ends by its own time limit leaves its place
 * in a table in the guard file (from byte 4096 on, changed under byte 1):
 *
 *  P1  A kept place is a ticket whose byte no process has locked. No waiter waits for it.
 *  P2  The next waiting call of the same caller takes the ticket out of the table and locks its byte again, both under byte 1;
 *      so at most one call has a kept place. A call that gets the lock without a place uses up the caller's kept place, too.
 *  P3  A call that comes back may have a place before the head. Therefore the head checks the line again under the guard before
 *      it takes the lock. A call whose time is up leaves a free lock to those before it, unless they do not take it for a
 *      second.
 *  P4  A place is kept for two minutes of the boot clock. Places from before a reboot match no caller. */
#ifndef LOCK_LINE_H
#define LOCK_LINE_H

#include "lock/guard.h"

#define LINE_KEEP_MS  (2 * 60 * 1000)
#define LINE_KEY_SIZE 17 /* 16 characters and a NUL */

/* The caller's key in the table; "" for a caller without a name, whose places are not kept. */
void line_key(const char *caller, char key[LINE_KEY_SIZE]);

/* Takes the caller's kept place, or the next free one, and locks its byte on this descriptor. Needs no guard. */
int line_enter(struct guard *guard, const char *key, uint64_t *ret_ticket, struct tsk_error *err);
/* Keeps the place for the caller's next call and drops its byte. False if it cannot be kept: the table is full, or the disk. */
bool line_keep(struct guard *guard, const char *key, uint64_t ticket);
/* Whether any place is kept: a hint, without byte 1. */
bool line_has_kept(const struct guard *guard);
/* Drops the caller's oldest kept place, if it has one. */
void line_forget(struct guard *guard, const char *key);

#endif
