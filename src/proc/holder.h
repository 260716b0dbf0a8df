/* holder.h - finding a holder process that no record names: by the directory it works in. */
#ifndef PROC_HOLDER_H
#define PROC_HOLDER_H

#include "base/ident.h"

/* The holder whose process directory is the open `dir`: 1 found, 0 none, -1. Looks at every process of the machine, so it is
 * for the rare case only: a status record that is damaged, or not written yet. */
int holder_find(int dir, struct proc_id *ret);
/* The holder whose process directory was at `path` and has been removed under it (git clean -x, rm -r). */
int holder_find_removed(const char *path, struct proc_id *ret);

#endif
