/* end.h - ending a holder by force, through pidfds, so that a reused pid is never hit. */
#ifndef LOCK_END_H
#define LOCK_END_H

#include "lock/judge.h"

/* SIGKILLs the processes that keep the judged lock alive (with `lock run` that is tasuki and the command's tree as far as
 * it inherited the life byte) and waits until they are gone. ENVIRONMENT, text "kill_failed", if they cannot be ended. */
int end_holder(const struct guard *guard, const struct judgement *found, struct tsk_error *err);

#endif
