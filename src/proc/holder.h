/* holder.h - finding a holder process that no record names: by the directory it works in. */
#ifndef PROC_HOLDER_H
#define PROC_HOLDER_H

#include "base/ident.h"
#include "base/json.h"

/* The holder whose process directory is the open `dir`: 1 found, 0 none, -1. Looks at every process of the machine, so it is
 * for the rare case only: a status record that is damaged, or not written yet. */
int holder_find(int dir, struct proc_id *ret);
/* The holders whose process directory has been removed under them (git clean -x, rm -r): {"path": pid}, owned. */
json_t *holder_list_removed(void);

#endif
