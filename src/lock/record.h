/* record.h - the content of a lock file, from tasuki or from another tool, in its two formats.
 *
 * JSON (request, queue, name): version lock_type request_id run_id pid host created_at expires_at
 * YAML (sprint):               pid session_id started_at epic_spec lock_version
 * Our additions: hold fence token hostname boot_id pid_ns pid_start expires_boot_ms, `name` for the kind name, and
 * session_id, instance, ttl_ms where they are known; and of the holder's who (base/who.h) label user program agent_session
 * subagent note, and agent_instance where the holder itself is another process (`lock run`). Files without them (other tools') and unknown keys are accepted.
 *
 * A lease has no pid, and other tools must be able to read that. The JSON format has a rule for an unknown pid (the TTL alone
 * counts), so `pid` is null there. The YAML format has none: a pid that is not a number makes a zombie, but `kill -0 0` succeeds,
 * so `pid` is 0 there. */
#ifndef LOCK_RECORD_H
#define LOCK_RECORD_H

#include "base/buf.h"
#include "base/who.h"

#define LOCK_TEXT_MAX     257 /* session ids, epics: 256 bytes */
#define LOCK_ID_MAX       (ID_LENGTH_MAX + 1)
#define LOCK_NAME_SIZE    201 /* of kind name: 200 bytes */
#define LOCK_WORDS_MAX    (LOCK_NAME_SIZE + 16)
#define TOKEN_SIZE        33
#define LOCK_REGISTRY_MAX 512                 /* a longer path is not recorded */
#define LOCK_FENCE_MAX    ((uint64_t)1 << 61) /* no guard gives one beyond: its life byte would be among the tickets */
#define LOCK_TTL_MAX_MS   ((int64_t)10 * 366 * 24 * 3600 * 1000) /* ten years */
#define LOCK_FILE_MAX     (64u << 10)                            /* a lock file longer than this is not one */

/* What keeps the lock alive. */
enum hold {
    HOLD_FOREIGN, /* written by another tool: nothing but a pid and times */
    HOLD_LIFE,    /* the life byte of its fence is locked while it is held */
    HOLD_PROCESS, /* a named process (--pid, or a registered instance) */
    HOLD_GUESS,   /* the ancestor that we took for the holder */
    HOLD_LEASE,   /* a client of the server, which has no process here: the lease of its instance */
};
#define HOLD_LAST HOLD_LEASE

struct lock_record {
    enum hold hold;
    pid_t pid; /* 0: none, or unusable; a lease has none */
    uint64_t fence;
    struct proc_id holder; /* complete for HOLD_PROCESS and HOLD_GUESS; pid, boot_id, pid_ns for HOLD_LIFE; boot_id for
                                HOLD_LEASE */
    int64_t created_ms;    /* wall clock; -1 unknown. Sprint: started_at */
    int64_t expires_ms;    /* wall clock; -1 unknown */
    int64_t expires_boot_ms; /* our own locks, on CLOCK_BOOTTIME of holder.boot_id */
    int64_t ttl_ms;
    char token[TOKEN_SIZE];
    char name[LOCK_NAME_SIZE];
    char request_id[LOCK_ID_MAX];
    char run_id[LOCK_ID_MAX];
    char session_id[LOCK_TEXT_MAX];
    char epic_spec[LOCK_TEXT_MAX];
    char instance[LOCK_TEXT_MAX];
    char
        registry[LOCK_REGISTRY_MAX]; /* sprint, HOLD_LEASE: the state directory that knows the instance; "" elsewhere */
    char host[64];                   /* an address, as in the seed */
    char hostname[HOSTNAME_SIZE];
    struct who who; /* label, user, program, session, subagent and note; the others are above */
};

const char *hold_name(enum hold hold);

/* Reads a file's content. 0, or -1 when it is no lock file at all (torn, empty, another format). Missing keys are not a
 * failure: what is unknown stays 0, -1 or "". */
int record_parse_json(const char *text, size_t len, struct lock_record *ret);
int record_parse_yaml(const char *text, size_t len, struct lock_record *ret);

void record_write_json(const struct lock_record *record, const char *lock_type, struct buf *b);
void record_write_yaml(const struct lock_record *record, struct buf *b);

#endif
