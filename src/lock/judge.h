/* judge.h - what a lock file means right now: free, held, or left behind; and how we know.
 *
 * The rules, in the order of the code:
 *  J1  Ours, hold life: alive iff the life byte of its fence is locked. Nothing else counts.
 *  J2  Ours, hold process or guess: alive iff exactly that process (boot id, pid, start ticks) exists; in another pid
 *      namespace that is unknown.
 *  J2b Ours, hold lease: alive iff the lease of its instance runs (own/instance.h). If the lease is over, the instance is
 *      gone, or the machine was rebooted, it is dead, and J5 lets it be taken at once. Its TTL is only for other tools. If the
 *      table cannot be read, it is unknown, and J4 holds even after the TTL, because a busy database must not let two in.
 *  J3  Another tool's: dead only if kill(pid, 0) says ESRCH, or the pid's process started more than 2 s after the recorded
 *      time, or the recorded time is more than 60 s before this boot. The last two are not used when the wall clock was
 *      stepped since boot. EPERM is alive, any other doubt is unknown.
 *  J4  Unknown counts as alive. Expiry alone never ends a live holder.
 *  J5  A dead holder's lock may be taken at once if it was ours with life, process or lease; if it was guessed, or another
 *      tool's, only when it has expired as well.
 *  J6  No usable pid, and no lease: stale once expired (JSON kinds), a zombie (sprint).
 *  J7  Unparsable: a tool may be writing it, so held until 10 s old, then stale (JSON kinds); a zombie at once (sprint).
 *  J8  Sprint: a zombie when dead or older than 24 h. A zombie is never taken without a confirmation or force.
 *  J9  Our own TTLs and ages are compared on CLOCK_BOOTTIME: a step of the wall clock expires nothing. */
#ifndef LOCK_JUDGE_H
#define LOCK_JUDGE_H

#include "lock/guard.h"
#include "lock/kind.h"

#include <sys/stat.h>

#define BEING_WRITTEN_MS 10000 /* the time that another tool has to complete a lock file */

enum verdict {
    VERDICT_FREE,   /* there is no lock file */
    VERDICT_HELD,   /* alive, or in doubt */
    VERDICT_STALE,  /* left behind: may be taken over at once */
    VERDICT_ZOMBIE, /* left behind, but this kind needs a yes before it is replaced */
};

struct judgement {
    enum verdict verdict;
    bool is_parsed;
    bool is_expired;
    enum liveness alive;
    const char *how;       /* a short stable English phrase; the text key is "how." + phrase with _ for blanks */
    int64_t age_ms;        /* since it was taken; -1 unknown */
    int64_t expires_in_ms; /* until its TTL ends; negative when past; INT64_MAX: has none */
    int64_t recheck_ms;    /* when time alone may change the verdict; -1: never */
    struct lock_record record;
    struct stat st; /* of the file that was judged */
};

/* Reads and judges the lock file; changes nothing. With `ret_fd`, the open file (-1 if there is none) goes there, to be closed by the
 * caller. Fails when the path is no regular file or cannot be read: then nothing may be taken. The result is exact while
 * byte 0 of the guard is held, and a good guess otherwise. */
int lock_judge(const struct lock_target *target, const struct guard *guard, const struct now *now,
               struct judgement *ret, int *ret_fd, struct tsk_error *err);

/* Whether nobody alive can lose a zombie: its holder is dead, or the file does not say who it is. One that is only old is not. */
bool judgement_is_left_behind(const struct judgement *found);

#endif
