/* kin.h - which processes belong to a start. One look at all processes answers for any number of starts.
 *
 * The processes of a start are descendants of its child or its holder. After a holder's death they can be anywhere, and are
 * recognised by one of these keys:
 *   - a word of its environment (hold/protocol.h: TASUKI_PROCESS_START, TASUKI_PROCESS_MARK),
 *   - the life lock, inherited as descriptor HOLD_FD_LIFE,
 *   - the session that the child began.
 *
 *  N1  In the middle of an exec a process shows no environment, or a part of one. It is read again until it is whole. */
#ifndef PROC_KIN_H
#define PROC_KIN_H

#include "base/ident.h"
#include "proc/process.h"

#define KIN_KEY_SIZE 96

struct kin_key {
    char text[KIN_KEY_SIZE];
    size_t owner; /* the caller's number of the process that it stands for */
};
struct kin_keys {
    struct kin_key *list;
    size_t count, room;
    bool has_locks, has_sessions; /* among the keys: only what a key asks for is read */
};
void kin_keys_clear(struct kin_keys *keys); /* for CLEANUP */
void kin_key_word(struct kin_keys *keys, size_t owner, const char *name, const char *value);
void kin_key_lock(struct kin_keys *keys, size_t owner, dev_t dev, ino_t ino);
void kin_key_session(struct kin_keys *keys, size_t owner, const struct proc_id *leader);
/* All keys by which processes of the newest start are known. */
void kin_keys_of_start(struct kin_keys *keys, size_t owner, const struct proc *p);

struct kin {
    size_t owner;
    struct proc_id id;
};
struct kin_list {
    struct kin *list;
    size_t count, room;
};
void kin_list_clear(struct kin_list *list); /* for CLEANUP */

/* Every living process that has one of the keys; this process and holders are left out. Sorts the keys. */
int kin_scan(struct kin_keys *keys, struct kin_list *ret, struct tsk_error *err);
/* The processes of a running start: below its child and its holder; after an adoption also what is elsewhere. */
int kin_of_start(const struct proc *p, struct kin_list *ret, struct tsk_error *err);

#endif
