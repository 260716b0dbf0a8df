/* place.h - names of the workspace's files relative to the caller's working directory, so that an editor finds them there. */
#ifndef OPS_PLACE_H
#define OPS_PLACE_H

#include "ops/ops.h"

#include <limits.h>

/* `path`: `.aiflow/…`, which is meant from the workspace's root, or an absolute path below the root. false: it is right as it is. */
bool place_from_here(const struct tsk_workspace *ws, const char *path, struct buf *place);
/* The same for the file that an error is in (`source`), and for the flow that is being run (`flow`); one that the caller has given stays as it was given. A file that cannot be
 * opened keeps its whole path. Only for a command, in whose directory the caller stands. */
void place_errors_from_here(const struct op_call *call, struct tsk_error *err);
/* A refusal without a command gets one: the editor at the place in the file, or who may open the file. */
void place_propose(struct tsk_error *err);
/* For printers: where `.aiflow` is from here, into call->aside: `state_place`. */
void place_put_aside(struct op_call *call);
/* Of the names in a directory the one nearest to `name`; false: none. */
bool place_nearest_name(int parent, const char *folder, const char *name, char near[256]);
/* The file nearest to the path that was given, in the same directory; false: none. */
bool place_nearest(const char *given, char near[PATH_MAX]);

#endif
