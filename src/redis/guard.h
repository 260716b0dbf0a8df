/* guard.h - a process beside a worker that kills attempts before their leases end, if the worker cannot.
 *
 *  G1  The guard knows an attempt before its process exists, and the time by which it must be gone (CLOCK_BOOTTIME). At that
 *      time it kills the whole tree, which it finds as leftover.h describes, even if the worker is stopped, hangs or is dead.
 *  G2  When the worker is dead, the guard kills all its attempts at once and then returns their leases: only a process of this
 *      machine can see that a tree is gone.
 *  G3  The guard has its own session and does not die with the worker. A guard that dies is replaced by the worker, which
 *      checks the same times itself. So if one of the two is stopped, the other still prevents two copies.
 *  G4  The guard kills an attempt again and again until the worker says that the place is free, because a worker that was
 *      stopped just before it starts the process starts it when it continues.
 *      That word may wait for the next one: until then the guard kills what is gone, which changes nothing.
 *  G5  A guard that was stopped reads all messages before it kills anything. A guard that no longer reads (its socket is full)
 *      is replaced: the worker never waits for it. */
#ifndef REDIS_GUARD_H
#define REDIS_GUARD_H

#include "graph/memory.h"
#include "redis/url.h"

#include <sys/types.h>

#define GUARD_ID_MAX 24

/* What a worker says of one of its places; kill_at_ms 0: nothing runs there. */
struct guard_word {
    uint32_t place;
    int64_t kill_at_ms;
    uint64_t fence;
    char root[64], id[GUARD_ID_MAX];
};

/* Starts a guard for that many places; its socket. -1 with errno. `scratch`: the worker's (scratch.h). */
int guard_start(const struct redis_settings *settings, const char *worker, const char *scratch, size_t places,
                pid_t *ret_pid);
/* SIGKILL for all processes of an attempt on this machine. */
void guard_end_tree(const char *root, uint64_t fence);
/* At most GUARD_WORDS_MAX at a time, which the guard hears together. false: the guard is gone. */
#define GUARD_WORDS_MAX 64
bool guard_tell(int fd, const struct guard_word *words, size_t count);

#endif
