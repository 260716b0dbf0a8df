/* registry.h - the table `process`, for the files of this folder. */
#ifndef PROC_REGISTRY_H
#define PROC_REGISTRY_H

#include "proc/process.h"
#include "proc/worktree.h"

/* The row and its directory, without a look at the process (view is empty). */
int proc_find(struct proc_registry *reg, const char *id, struct proc *ret, struct tsk_error *err);
/* Sets ProcessNotFound with the nearest id. */
int proc_not_found(struct proc_registry *reg, const char *id, struct tsk_error *err);

/* Inside a transaction of the caller; each with its event. ProcessAlreadyExists, ProcessNotFound. */
int proc_insert_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);
int proc_update_row(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err);
/* Adds to the context of a refusal the party that has started the process (`started_by`), or, if nobody has, that has registered it
 * (`created_by`). */
void error_add_registrant(struct tsk_error *err, struct proc_registry *reg, const char *id);
int proc_event(struct proc_registry *reg, const char *type, const char *id, struct tsk_error *err);
/* Ends the transaction: commit and send the events if result is 0, else roll back. Returns the outcome. */
int proc_commit(struct proc_registry *reg, int result, struct tsk_error *err);

/* The last ends, newest last: [{"run","exit_code","raw_status","stopped_at","by"}]. Owned. */
json_t *proc_last_exits(const struct proc *p);

/* The starts after number n, as far as the history has them: its facts with "n", "stdout_offset", "stderr_offset". Owned. */
json_t *proc_starts_since(const struct proc *p, int64_t n);

/* The record without what it uses and its place. Owned. */
json_t *record_to_keep(const struct proc_registry *reg, const struct proc *p);

/* Stamps of status.json and phase. */
void proc_stamps(int dir, struct proc_stamp ret[2]);

/* A directory without a row, left by a removal that was cut short (or a database that was lost): emptied, unless something of
 * it still runs, which then belongs to the new record. With the guard. */
int proc_forget_orphan(struct proc_registry *reg, const char *id, struct tsk_error *err);

/* A directory below the root is kept relative to it, so that it moves with the workspace; "." is the root itself. */
const char *cwd_to_keep(const char *root, const char *cwd);

/* The other worktree of the caller's repository that the process's directory is in; else NULL. Good until the next call. */
const char *proc_other_worktree(struct proc_registry *reg, const struct proc *p);

#endif
