/* lockers.h - the processes that hold a byte lock of an open file (F_OFD_SETLK), for which the kernel's own answer names no pid.
 * For messages, and for ending a holder by force: no protocol looks at pids. */
#ifndef BASE_LOCKERS_H
#define BASE_LOCKERS_H

#include "base/error.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/types.h>

/* The other processes that hold this byte of the file of `fd`, a writer (F_WRLCK) or anybody (F_RDLCK), found through /proc: at
 * most `max`; returns how many. Processes that may not be looked at are not found. `fd` must be open for reading. */
size_t lockers_find(int fd, off_t byte, short type, pid_t *pids, size_t max);
/* The refusal of a caller that has waited too long for such a byte: `named` has {name} and {pid} of the process that keeps it, and the
 * next command shows it; `unnamed` if pid is 0. Returns -1. */
int lockers_refuse(pid_t pid, enum tsk_code code, const char *named, const char *unnamed, struct tsk_error *err);

#endif
