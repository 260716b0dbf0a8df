/* witness.h - an independent witness of double holds.
 *
 * A process that believes it holds lock L takes a POSIX record lock on the witness file of L, without waiting,
 * for as long as it believes so. The kernel gives that to one process at a time and takes it back at the very
 * instant the process dies. So a refusal here is a double hold, whatever the lock protocol thinks; the kernel
 * also says whose. Nothing of tasuki is used for it.
 *
 * The log has one line per fact, `verb lock=… role=… pid=… …`, appended with one write(2) each. */
#ifndef STORM_WITNESS_H
#define STORM_WITNESS_H

#include <sys/types.h>

struct witness {
    const char *lock, *role;
    int fd, log_fd;
};

/* Files in `dir`: <lock>.witness and log. Exits with a message if they cannot be opened. */
void witness_open(struct witness *w, const char *dir, const char *lock, const char *role);
/* One line; `more` is a format for what follows the common part, e.g. "fence=%llu". */
void witness_log(const struct witness *w, const char *verb, const char *more, ...)
    __attribute__((format(printf, 3, 4)));
/* 0, or the pid of the process that also holds it (then the double hold is in the log). */
pid_t witness_enter(const struct witness *w);
void witness_leave(const struct witness *w);

#endif
