/* report.h - reports about a lock: events for the trail, its JSON, and refusals with the next commands. */
#ifndef LOCK_REPORT_H
#define LOCK_REPORT_H

#include "base/json.h"
#include "lock/lock.h"

/* Events. If the event of a taken lock cannot be written, the lock is not taken. The other changes have happened in any case. */
int report_taken(const struct lock_target *target, const struct now *now, const struct lock_record *record,
                 const struct judgement *before, bool recovered, bool forced, struct tsk_error *err);
void report_released(const struct lock_target *target, const struct now *now, const struct lock_record *record);
/* The same by a caller that is not the holder: the event also says who did it, and which session that one named. */
void report_released_by(const struct lock_target *target, const struct now *now, const struct lock_record *record,
                        const struct lock_proof *proof);
/* Its time was extended. The lease of a client is renewed all the time: that is no event. */
void report_renewed(const struct lock_target *target, const struct now *now, const struct lock_record *record);
/* What a dead holder left was removed, and nobody has taken the lock. */
void report_recovered(const struct lock_target *target, const struct now *now, const struct judgement *before);
/* The event `lock.lost`, and the error LOCK_LOST, which names the present holder. Returns -1. */
int report_lost(const struct lock_target *target, const struct now *now, const struct lock_record *mine,
                const struct judgement *found, struct tsk_error *err);

/* The refusal of an acquisition, by kind: LOCK_HELD, RUN_IN_PROGRESS, QUEUE_IN_PROGRESS, SPRINT_BLOCKED, ZOMBIE_DETECTED.
 * `is_place_kept`: the caller has waited, and its next call continues waiting at the same place. Returns -1. */
int report_refusal(const struct lock_target *target, const struct now *now, const struct judgement *found,
                   bool is_place_kept, struct tsk_error *err);
/* Adds what is known of the holder to any error about this lock. */
void report_add_facts(const struct lock_target *target, const struct now *now, const struct judgement *found,
                      struct tsk_error *err);
/* Adds `tasuki lock VERB …OPTIONS` as a next command. */
void report_add_command(const struct lock_target *target, const char *verb, const char *options, struct tsk_error *err);
/* Both, with the commands for a caller that wants the lock: wait, look, and force last. No command leads past a living holder
 * without a question. */
void report_add_holder(const struct lock_target *target, const struct now *now, const struct judgement *found,
                       struct tsk_error *err);

/* holder{pid hostname session_id run_id instance alive how hold who}. `ws`: for the present note of its instance; NULL: as recorded. */
json_t *report_holder(struct tsk_workspace *ws, const struct lock_record *record, enum liveness alive, const char *how);
/* The lock as in `lock check` and `lock list`: kind id path state holder fence created_at expires_at … */
json_t *report_lock(const struct lock_target *target, const struct now *now, const struct judgement *found);
/* "free", "held", "stale" or "zombie". */
const char *verdict_name(enum verdict verdict);

#endif
