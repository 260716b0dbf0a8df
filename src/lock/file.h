/* file.h - writing and replacing the lock file. Only with the guard held; used by lock.c and command.c. */
#ifndef LOCK_FILE_H
#define LOCK_FILE_H

#include "lock/lock.h"

#define LOCK_CONTENT_MAX 24576 /* all texts at full length, every byte escaped */

/* The bytes of a lock file, open. */
struct lock_file {
    int fd;
    bool is_private; /* has the private name of its lock (no O_TMPFILE here) */
    dev_t dev;
    ino_t ino;
    size_t len;
    char content[LOCK_CONTENT_MAX];
};

#define LOCK_FILE_INIT                                                                                                 \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

void lock_file_close(struct lock_file *file);

/* Makes a file with the record's content, not yet at the lock's path. A descriptor that `file` already has (a warm one) is used
 * again if it can be. */
int lock_file_create(struct lock_file *file, const struct lock_target *target, struct guard *guard,
                     const struct now *now, const struct lock_record *record, struct tsk_error *err);
/* Publishes at an absent path: 0; 1: somebody else has put a file there; -1. */
int lock_file_publish(struct lock_file *file, const struct lock_target *target, struct tsk_error *err);
/* Replaces the file that is `old_dev`, `old_ino`: 0; 1: another file (or none) was there, nothing has changed; -1. After
 * 0 the old file has the private name, until lock_file_sweep or lock_file_undo_exchange. The guard state must say
 * has_private before. */
int lock_file_exchange(struct lock_file *file, const struct lock_target *target, dev_t old_dev, ino_t old_ino,
                       struct tsk_error *err);
/* Replaces the file that is `old_dev`, `old_ino` by one with the record's (extended) times. LOCK_LOST if it is not there
 * any more. */
int lock_file_renew(struct lock_file *file, const struct lock_target *target, struct guard *guard,
                    const struct now *now, const struct lock_record *record, dev_t old_dev, ino_t old_ino,
                    struct tsk_error *err);
/* Renews a living lock of tasuki that is past half of its TTL, so that another tool's recovery by expiry alone does not delete it.
 * Every command that meets such a lock calls this. Updates the judgement. */
void lock_file_renew_met(const struct lock_target *target, struct guard *guard, const struct now *now,
                         struct judgement *found);
/* 1: the path still is this file with these bytes (L5); 0: not; -1. */
int lock_file_is_published(const struct lock_file *file, const struct lock_target *target, struct tsk_error *err);
void lock_file_undo_exchange(const struct lock_target *target);
/* After a crash between an exchange and its end: another tool's living file that is left under the private name (it came to
 * the path between our look and our exchange) goes back there, if a dead one's of ours is in its place; anything else
 * is removed. */
void lock_file_recover(const struct lock_target *target, const struct guard *guard, const struct now *now);
/* Removes the private name, if there is one. */
void lock_file_sweep(const struct lock_target *target);

/* The temporary name of a sprint lock, as a directory: other tools cannot write it. */
enum sprint_tmp { SPRINT_TMP_READY, SPRINT_TMP_BUSY, SPRINT_TMP_FAILED };
enum sprint_tmp sprint_tmp_take(const struct lock_target *target, const struct now *now, struct judgement *judgement,
                                struct tsk_error *err);
/* For a look: a lock that is free is held when another tool is between its two steps. */
void sprint_tmp_meet(const struct lock_target *target, const struct now *now, struct judgement *judgement);
/* Before a sprint lock is judged with byte 0 of its guard held: removes our directory from the path of the lock. Another tool that
 * renames its temporary file over the lock moves it there. */
void sprint_path_clear(const struct lock_target *target);
void sprint_tmp_drop(const struct lock_target *target);
/* Removes the directory unless a living lock of tasuki needs it; removes another tool's forgotten file. */
void sprint_tmp_sweep(const struct lock_target *target, const struct now *now, const struct judgement *judgement);

#endif
