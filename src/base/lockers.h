/* lockers.h - the processes that hold a byte lock of an open file (F_OFD_SETLK). The kernel's own answer (F_OFD_GETLK) has no pid
 * for such a lock. The pids serve messages and the forced end of a holder; no protocol depends on them. */
#ifndef BASE_LOCKERS_H
#define BASE_LOCKERS_H

#include "base/error.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/types.h>

/* Finds, through /proc, at most `max` other processes that hold a lock on this byte of the file of `fd`: only writers (F_WRLCK), or
 * all (F_RDLCK). Returns their number. A process that we may not look at is not found. `fd` must be open for reading. */
size_t lockers_find(int fd, off_t byte, short type, pid_t *pids, size_t max);
/* The other process that has a POSIX lock (F_SETLK) for writing on this byte; 0: none that can be seen from here. The file is not
 * opened, because closing it would drop the POSIX locks that this process has on it itself. */
pid_t lockers_find_posix(int dir, const char *name, off_t byte);
/* Sets the error of a caller that has waited too long for such a byte. The text `named` has {name} and {pid} of the process that
 * holds it, and the next command shows that process. If pid is 0, the text is `unnamed`. Returns -1. */
int lockers_refuse(pid_t pid, enum tsk_code code, const char *named, const char *unnamed, struct tsk_error *err);

#endif
