/* worktree.h - the git worktree that a directory is in. */
#ifndef PROC_WORKTREE_H
#define PROC_WORKTREE_H

#include <limits.h>
#include <stdbool.h>

/* Its top directory; false: `dir` is in none, or does not exist. */
bool worktree_of(const char *dir, char top[PATH_MAX]);

#endif
