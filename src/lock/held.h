/* held.h - a lock that this process holds (struct tsk_lock), and what happens to it at a fork. */
#ifndef LOCK_HELD_H
#define LOCK_HELD_H

#include "lock/file.h"

struct tsk_lock {
    struct lock_target target;
    struct guard guard;
    struct lock_file file;
    struct lock_record record;
    struct tsk_lock *previous, *next; /* all held locks, for the fork handler */
};

/* Takes guard and file over (they are empty afterwards); the target's directories too if it owns them. NULL: no memory, and
 * nothing was taken. */
struct tsk_lock *held_new(struct lock_target *target, struct guard *guard, struct lock_file *file,
                          const struct lock_record *record);
/* This process, for the record. Read once per process. */
int held_self(struct proc_id *ret, struct tsk_error *err);

#endif
