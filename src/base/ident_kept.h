/* ident_kept.h - the descriptors of processes that a server keeps (proc_keep_looks), for ident.c.
 *
 *  K1  A descriptor of /proc/PID/stat means the process that had the pid when it was opened. While it can be read, that process has the
 *      pid; afterwards it cannot be read, even if another process has the pid then.
 *  K2  A pidfd is kept only beside such a descriptor that could be read after the pidfd was opened: both are of one process. Its
 *      start is kept with it. It is readable as soon as the process has ended, as a zombie, too.
 *  K3  A thread that finds the descriptors in use by another one does without. */
#ifndef BASE_IDENT_KEPT_H
#define BASE_IDENT_KEPT_H

#include "base/ident.h"

#include <sys/types.h>

/* The fields of /proc/<pid>/stat that matter here. */
struct proc_stat {
    char state;
    pid_t parent;
    long threads;
    uint64_t start_ticks;
    struct proc_usage usage;
};
int proc_stat_parse(const char *text, struct proc_stat *ret);

enum { KEPT_NOT = -2 }; /* nothing is kept, or K3 */
/* The length of the text of /proc/<pid>/stat; -1, KEPT_NOT. */
ssize_t kept_stat_read(pid_t pid, char *text, size_t size);
/* When a process started that lives, by its pidfd, in 1/15 of the time; false: it is not known here. */
bool kept_start(pid_t pid, uint64_t *ret_ticks);
/* From now on kept_start knows it, if there is room. */
void kept_pidfd_open(pid_t pid);

#endif
