/* pack.h - the files that travel with a run to workers: packed on the runner's machine, unpacked into a directory of the task's own.
 *
 *  F1  No entry leaves its directory. A path has no empty part, no `.` and no `..`. A symbolic link has `..` only at its beginning, at
 *      most once per directory above it.
 *  F2  Nothing is read or written through a symbolic link: directories on the way are opened without following links, and links
 *      are made last.
 *  F3  The same files give the same bytes: names are sorted, and the executable bit is the only attribute that is kept.
 *
 * `.git` and `.aiflow` are left out wherever they are. */
#ifndef GRAPH_PACK_H
#define GRAPH_PACK_H

#include "base/buf.h"
#include "base/error.h"

#define PACK_MAX   (32u << 20)
#define PACK_SPARE 16384 /* what a buffer has beside a whole pack */

/* F1, of a path in the flow file; "." is all that is there. */
bool pack_path_is_inside(const char *path);
/* `count` paths below `dir`, one behind the other. INVALID_INPUT: too large (names the size and the largest file), a link that leaves,
 * neither file nor directory. ENVIRONMENT: it cannot be read. */
int pack_make(int dir, const char *paths, uint32_t count, struct buf *ret, struct tsk_error *err);
/* -1 with errno; EBADMSG: it is no pack, or one that breaks F1. */
int pack_unpack(const char *data, size_t len, int dir);

#endif
