/* registry.h - the table `process`, for the files of this folder. */
#ifndef PROC_REGISTRY_H
#define PROC_REGISTRY_H

#include "proc/process.h"
#include "proc/worktree.h"

/* The row and its directory, not looked at (view is empty). */
int proc_find(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err);
/* Sets ProcessNotFound with the nearest id. */
int proc_not_found(struct proc_registry *reg, const char *id, struct tsk_error *err);

/* Inside a transaction of the caller; each with its event. ProcessAlreadyExists, ProcessNotFound. */
int proc_insert_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);
int proc_update_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);
int proc_event(struct proc_registry *reg, const char *type, const char *id, struct tsk_error *err);
/* Ends the transaction: commit and send the events if result is 0, else roll back. Returns the outcome. */
int proc_commit(struct proc_registry *reg, int result, struct tsk_error *err);

/* The last ends, newest last: [{"run","exit_code","raw_status","stopped_at","by"}]. Owned. */
json_t *proc_last_exits(const struct proc *p);

/* Stamps of status.json and phase. */
void proc_stamps(int dir, struct proc_stamp ret[2]);

/* A directory without a row, left by a removal that was cut short (or a database that was lost): emptied, unless something of
 * it still runs, which then belongs to the new record. With the guard. */
int proc_forget_orphan(struct proc_registry *reg, const char *id, struct tsk_error *err);

/* The worktree that the process's directory is in, if it is not the caller's. */
bool proc_other_worktree(const struct proc_registry *reg, const struct proc *p, char top[PATH_MAX]);

#endif
