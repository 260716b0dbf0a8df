/* held.h - a lock that this process holds (struct tsk_lock), and what happens to it at a fork. */
#ifndef LOCK_HELD_H
#define LOCK_HELD_H

#include "lock/file.h"

struct tsk_lock {
    struct lock_target target;
    struct guard guard; /* holds the life byte */
    struct guard
        work; /* of a shared lock: what is done under the guard is done with a descriptor that nobody else has */
    struct lock_file file;
    struct lock_record record;
    bool is_shared;                   /* its descriptor was handed out: children may have it */
    struct tsk_lock *previous, *next; /* all held locks, for the fork handler */
};

/* Takes guard and file over (they are empty afterwards); the target's directories too if it owns them. NULL: no memory, and
 * nothing was taken. */
struct tsk_lock *held_new(struct lock_target *target, struct guard *guard, struct lock_file *file,
                          const struct lock_record *record);
/* The descriptors of the lock that this process released last, if they are those of `target`: opening and closing them again
 * would cost a tenth of a lock cycle. Both are -1 if there are none. */
void held_take_warm(const struct lock_target *target, struct guard *guard, struct lock_file *file);
/* This process, for the record. Read once per process. */
int held_self(struct proc_id *ret, struct tsk_error *err);

#endif
