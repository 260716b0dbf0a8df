/* worktree.h - the git worktree that a directory is in. */
#ifndef PROC_WORKTREE_H
#define PROC_WORKTREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Its top directory; false: `dir` is in none, or does not exist. */
bool worktree_of(const char *dir, char top[PATH_MAX]);

/* Whether two top directories are different worktrees of one repository. */
bool worktree_is_sibling(const char *a, const char *b);

/* The branch that is checked out in the worktree with this top directory, or the first digits of its commit; false: unknown. */
bool worktree_branch(const char *top, char *name, size_t size);

#endif
