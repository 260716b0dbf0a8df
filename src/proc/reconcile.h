/* reconcile.h - makes the record of a process agree with its files: adopts, declares lost, restarts, writes events. */
#ifndef PROC_RECONCILE_H
#define PROC_RECONCILE_H

#include "proc/look.h"

/* Looks at p->dir, does what the look asks for (adopt, declare lost, revive), and fills p->view. Takes the guard if
 * something is to be done, unless `is_guarded`. Nothing is written to the database. */
int proc_reconcile(struct proc_registry *reg, struct proc *p, bool is_guarded, struct tsk_error *err);

/* A holder for a running process that has none and that proc_reconcile left alone (is_stuck), so that a stop can be tried again.
 * With the guard. */
int proc_take_up(struct proc_registry *reg, struct proc *p, struct tsk_error *err);

/* An end that its holder recorded but could no longer add to the history (it was killed in between): adds it, if need be. With
 * holder.lock, and before anything newer is added. */
int proc_tell_exit(struct proc *p, const struct proc_status *status, struct tsk_error *err);

/* Facts of the histories become events, changed states go into the rows: one transaction for all of `list`, none if
 * nothing is new. Then the events go to the trail. */
int proc_sync(struct proc_registry *reg, struct proc *list, size_t count, struct tsk_error *err);

/* The row's `state` column, as on the wire. Owned. */
json_t *proc_state_json(const struct proc_view *view);

#endif
