/* memo.h - what a server remembers of the processes that run, so that a look reads again only what may have changed.
 *
 * An entry is what one whole look found: the row, the view without what the process uses, and the record as text. It is used again
 * only if all of this is so at the moment of the new look; otherwise it is dropped, and everything is read.
 *  M1  The row has the same values: the query runs each time, and its columns are compared.
 *  M2  The directory and each file that the look has read have the same inode, size, mode and times as before that look read them, or
 *      are still absent. A file that is replaced has another inode; one that is written to has another time of change, unless through
 *      a shared mapping (mmap) that could already write to the page. No program of tasuki writes these files like that.
 *  M3  M2 proves something only if the time of change had passed when it was read: the kernel's clock for files stands still for some
 *      milliseconds (whole seconds on some file systems), and a second change would leave the same time. So an entry is made only
 *      when all times were older than that, and not used after the clock was set back further than that.
 *  M4  holder.lock is locked. The descriptor is that of the same file, because the directory has not changed (M2).
 *  M5  The child lives: it is looked at each time (base/ident.h), and so is what it uses.
 *  M6  Nothing was to be done about the process, and its history was in the row: an adoption, a restart or an event is never put off.
 *  M7  Only a process that runs is remembered, and one that was never started (for which M4 and M5 do not apply: its directory is
 *      still absent), below a file system of this kernel. Whatever its record shows is in M1-M5, but for its
 *      directory, which is looked at each time. Nothing in an entry depends on the time.
 *
 * Threads may share a memo. No JSON tree is kept in it. */
#ifndef PROC_MEMO_H
#define PROC_MEMO_H

#include "proc/process.h"

#include <stdatomic.h>

/* What is shown of a process beside its view. It never changes, so entries and answers share it. */
struct proc_known {
    atomic_uint users;
    char *record; /* as text, without what it uses and its place */
    size_t len;
    char *cwd; /* NULL: the root */
    int port;
    bool has_probe;
};
void proc_known_drop(struct proc_known *known); /* NULL is none */

/* From now on looks through this workspace remember at most this many processes, with a descriptor each. For a server; a command
 * looks once. False: the files may change without our kernel. */
bool memo_begin(struct tsk_workspace *ws, size_t most);

/* How the files are before a look reads them. */
struct memo_stamps {
    struct memo_stamp {
        int64_t device, inode, mode, size, changed_ns, written_ns;
    } files[5];
    int64_t clock_ns; /* the wall clock's distance from the boot clock */
    bool is_usable;
};
void memo_stamp(const struct memo *memo, int processes, const char *id, struct memo_stamps *ret);

/* Fills p->view and p->known for p->id if p->row and everything else is as it was. */
bool memo_recall(struct memo *memo, int processes, struct proc *p);
/* Remembers what a look has found, if it may (M6, M7). `record`: of the process, without what it uses and its place. */
void memo_keep(struct memo *memo, const struct memo_stamps *stamps, const struct proc *p, const json_t *record);

/* There is no row of this process any more. */
void memo_forget(struct memo *memo, const char *id);
/* Nothing is remembered from now on: another workspace has taken the place of this one. */
void memo_end(struct memo *memo);

/* Before a look reads rows. A full memo drops what no look has seen for the longest time. */
uint64_t memo_begin_look(struct memo *memo);
/* A list sees all that there are: the entries that it has not seen are dropped. */
void memo_end_list(struct memo *memo, uint64_t look);

#endif
