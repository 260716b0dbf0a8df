/* find.h - the part of finding a workspace that only store/workspace.c needs. */
#ifndef STORE_FIND_H
#define STORE_FIND_H

#include "store/workspace.h"

/* The place where `init` creates a workspace: `root`, TASUKI_ROOT, or here (in a linked worktree: its main one; in a bare
 * repository: its own `tasuki/`). */
int workspace_place_new(const char *root, struct workspace_place *ret, struct tsk_error *err);

#endif
