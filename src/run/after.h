/* after.h - the pending run: one run that follows the active run. It is recorded, and started when the lock is free.
 *
 * `.aiflow/after/<lock>.json` is the pending run of a lock (run_lock.h); <lock> is the name of the lock's guard file. There is at most
 * one for each lock.
 *
 *  A1  The file is on the disk before the caller has its answer. It replaces an older one: the newest wins.
 *  A2  The recorder writes the file, then checks the lock. A runner releases the lock, then checks for the file. So at least
 *      one of them sees what the other did: the runner starts the pending run, or the recorder runs it itself.
 *  A3  A pending run begins under its lock. So no two processes begin it at a time.
 *  A4  Under the lock, the id of the new run is written into the file before that run is made, and the file is removed when the
 *      run exists. So after a kill at any moment: a pending run without an id, or with the id of a run that does not exist, has
 *      not begun; one whose run exists has begun. It is neither lost nor begun twice.
 *  A5  Byte 0 of `after/.guard` is locked while a file is read and changed. A newer one that arrives between the two steps of A4 stays:
 *      the file is removed only if it has the id of the run that has begun. No process waits for this byte with a guard of a lock.
 *  A6  A runner may die between its last step and the start of the pending run. So each process that begins or ends a run, and
 *      each queue, checks all files, and starts those whose lock no living process holds. The runner of a pending run does not
 *      do so before it has begun that run: otherwise two pending runs would start each other forever. If it cannot begin, it
 *      starts only a newer one of the same lock, whose recorder may have seen it as the holder (A2).
 *  A7  A pending run that can never begin (its flow is invalid, its request is gone) is removed, with an event. One that cannot
 *      begin now (its request waits for an answer, the disk is full, max_runs, another runner
 *      has the lock) stays: for the next check, or for that other runner, which may be about to begin it. */
#ifndef RUN_AFTER_H
#define RUN_AFTER_H

#include "base/json.h"
#include "run/run_lock.h"

#define AFTER_ID_SIZE 17
#define AFTER_GONE    "after_gone" /* the text of a CONFLICT */

/* Records the job (as for run_detach, with `cwd`) as the one that follows the run `after`; its id goes to `id` and into the job's
 * arguments, as `after`. *ret_replaced: there was an older one. */
int after_record(struct tsk_workspace *ws, const struct run_lock *lock, json_t *job, const char *after,
                 char id[AFTER_ID_SIZE], bool *ret_replaced, struct tsk_error *err);
/* Under the lock: the pending run becomes this run (A4). CONFLICT: it is not pending any more. */
int after_claim(struct tsk_workspace *ws, const struct run_lock *lock, const char *id, const char *run_id,
                struct tsk_error *err);
/* The run is there. */
void after_begun(struct tsk_workspace *ws, const struct run_lock *lock, const char *run_id);
/* Removes the pending run, because of `why` (a word for the event). `id` NULL: whichever it is. *ret_existed: there was one. */
int after_drop(struct tsk_workspace *ws, const struct run_lock *lock, const char *id, const char *why,
               bool *ret_existed, struct tsk_error *err);
/* What is pending for readers: {id, after, created_at, who}; NULL: nothing is. Owned. */
json_t *after_look(struct tsk_workspace *ws, const struct run_lock *lock);
/* A6. `except`: a lock that we are about to take; may be NULL. */
void after_start(struct tsk_workspace *ws, const struct run_lock *except);
/* A6: the runner of the pending run `id` of that lock has ended without having begun it. */
void after_start_newer(struct tsk_workspace *ws, const struct run_lock *lock, const char *id);

#endif
