/* actor.h - the party that started a process, and the one that stopped it: the files `started_by` and `stopped_by` of its
 * directory, {"n":N,"agent":true,"who":{…}}, replaced under holder.lock or the guard (P1). N is the number of the start. A
 * restart by policy has the starter of the start before it. */
#ifndef PROC_ACTOR_H
#define PROC_ACTOR_H

#include "base/who.h"
#include "store/workspace.h"

#define PROC_STARTED_BY "started_by"
#define PROC_STOPPED_BY "stopped_by"

/* The acting party (who_current) is the one, for start n. */
int proc_actor_write(int dir, const char *name, int64_t n, struct tsk_error *err);
/* False: nobody is known. *ret_n is the start that the file is about. */
bool proc_actor_read(int dir, const char *name, struct who *ret, int64_t *ret_n);
/* The party that is behind the newest start n, also when the policy has restarted it since. */
bool proc_starter(int dir, int64_t n, struct who *ret);
/* Adds it to the context of a refusal, as `started_by`. */
void error_add_starter(struct tsk_error *err, const struct who *starter);

/* `processes: {guard: …}` of config.yaml: what happens when an agent is about to end a process of somebody else. */
enum proc_guarding { GUARD_ASK, GUARD_WARN, GUARD_OFF };
int proc_guarding_read(struct tsk_workspace *ws, enum proc_guarding *ret, struct tsk_error *err);

#endif
