/* lock.h - the lock protocol: exclusive under crashes at any instruction, readable and creatable by other tools.
 *
 * The lock file has another tool's format and path. The original ways of taking it (check then rename, delete then create)
 * let two in (docs/origins.md). The protocol, model-checked in docs/models/lock.pml:
 *
 *  L1  Every change of the lock file by tasuki happens with byte 0 of its guard file held, so changes have one order.
 *  L2  A life byte is locked before the file that names its fence is published, and dropped only after the file no longer
 *      names it, or by death. So "life byte free", seen under the guard, means: dead, or released.
 *  L3  A fence is never used twice, so the file that is replaced is the one that was judged.
 *  L4  Publishing on an absent file is linkat (fails if another tool was faster); on a stale one it is an exchange, after which
 *      the file that came out must be the inode that was judged; otherwise the two are swapped back. The path is never empty
 *      while a holder lives.
 *  L5  A file is published complete. A holder recognises its lock by (inode, bytes): the inode at the path is the one that it
 *      has open, and the bytes are those that it wrote; after a renewal by another process, by fence and token.
 *  L6  A process that finds another holder's lock touches nothing and reports LOCK_LOST.
 *  L7  A crash after any step leaves the path absent, or naming a free life byte (or a dead process): both are taken by the
 *      next process. Other remains (a private name, the sprint's directory) are removed by the next process, too.
 *
 * The protocol cannot keep a person from removing the file or the guard, nor another tool from judging a stale file and
 * unlinking it after our takeover. By L5 the holder notices at its next renew, verify or release. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include "lock/judge.h"

/* What is asked for. Strings are borrowed. */
struct lock_request {
    enum hold hold;          /* HOLD_LIFE: held by the returned object; else by `holder` */
    struct proc_id holder;   /* for HOLD_PROCESS and HOLD_GUESS */
    const char *registry;    /* HOLD_LEASE: the state directory whose table knows `instance` */
    int64_t ttl_ms, wait_ms; /* wait: 0 no, < 0 for ever */
    const char *session_id, *run_id, *request_id, *epic_spec, *instance;
    bool force;                        /* a living holder may be replaced */
    bool take_zombie;                  /* a dead holder's sprint lock may be replaced */
    bool kill;                         /* with force: end the holder first */
    bool take_dead;                    /* a sprint that a dead holder left may be replaced, however many of them come */
    const char *caller;                /* in whose name the place in line is kept; NULL: `instance`, else `holder` */
    const struct judgement *confirmed; /* not NULL: force and take_zombie apply to this holder only (who was shown) */
};

struct lock_outcome {
    struct lock_record record; /* as written, or as it was (release) */
    bool recovered;            /* a dead holder's lock was taken over */
    bool forced;
    bool existed;            /* release: there was a lock file */
    bool is_place_kept;      /* acquire: the time was up, and the caller's next call has its place in line (line.h) */
    bool session_mismatch;   /* release of a sprint with another session id */
    struct judgement before; /* what was found */
};

/* Whether two looks at a lock have seen the same holder: a yes to the one is a yes to the other. */
bool judgement_is_same(const struct judgement *a, const struct judgement *b);

/* Takes the lock. With HOLD_LIFE the lock is in *ret_lock; otherwise ret_lock may be NULL and the lock stays when this
 * process ends. A refusal is described by *outcome->before and by the error (report.h). */
int lock_acquire(struct lock_target *target, const struct lock_request *request, struct tsk_lock **ret_lock,
                 struct lock_outcome *outcome, struct tsk_error *err);

/* How a command that does not hold the object proves that the lock is its own. */
struct lock_proof {
    const char *token;
    const char *instance;
    const char *session_id;            /* sprint: compared, a difference is only a warning ... */
    bool strict;                       /* ... unless strict */
    const struct judgement *confirmed; /* not NULL: a person said yes to releasing this holder's sprint */
    bool is_remote; /* the caller is not a process above this one: only a token or an instance proves its identity */
};
/* Releases a lock. Succeeds if the lock is not held (outcome->existed is false). Without a proof the result is LOCK_LOST, except
 * for the lock of a dead holder and for a sprint without a usable pid. A living sprint that is not the caller's needs a yes: the
 * result is NEEDS_CONFIRMATION, and outcome->before is the holder to ask about. */
int lock_release_by(struct lock_target *target, const struct lock_proof *proof, struct lock_outcome *outcome,
                    struct tsk_error *err);
/* LOCK_NOT_FOUND if there is none. */
int lock_renew_by(struct lock_target *target, const struct lock_proof *proof, int64_t ttl_ms,
                  struct lock_outcome *outcome, struct tsk_error *err);

/* Removes the lock file of a dead holder (VERDICT_STALE) and records LOCK_STALE_RECOVERED; outcome->recovered says
 * whether it did. Any other lock stays, also a zombie, which needs a yes. */
int lock_recover(struct lock_target *target, struct lock_outcome *outcome, struct tsk_error *err);

/* Judges under the guard, renews a living lock of tasuki past half of its TTL, and cleans up after a crash. */
int lock_inspect(struct lock_target *target, struct judgement *ret, struct tsk_error *err);

/* Waits until the lock could be taken (nobody alive holds it), and leaves it there. 0: so it is; 1: it is held after `timeout_ms`
 * (< 0: for ever), or is_cancelled said so. *ret is what was seen last. */
int lock_await(struct lock_target *target, int64_t timeout_ms, bool (*is_cancelled)(void *data), void *data,
               struct judgement *ret, struct tsk_error *err);

#endif
