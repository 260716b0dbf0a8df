/* segment.h - the files of the event trail, for its writing and its reading end. Internal to the module of events.h. */
#ifndef STORE_SEGMENT_H
#define STORE_SEGMENT_H

#include "base/fs.h"
#include "store/events.h"

#define TRAIL_NAME           "events.ndjson"
#define SEGMENT_HEADER_START "{\"segment\":{\"base\":"
#define SEGMENT_HEADER_MAX   256
#define SEGMENT_NAME_MAX     48

/* The file name of the closed segment with that base. */
void segment_name(uint64_t base, char name[SEGMENT_NAME_MAX]);
/* Calls `visit` with the base of every closed segment, in no order. */
int segment_each_closed(int state_dir, void (*visit)(void *context, uint64_t base), void *context);
/* Opens a regular file and fills *st. Returns the descriptor, or -1. */
int segment_open(int state_dir, const char *name, int flags, struct stat *ret_st);
/* Returns 1 with the base, 0 if the file does not begin with a segment's first line, -1 on error. */
int segment_base(int fd, uint64_t *ret_base);
/* The base of the following segment. It is always greater, even if the file was emptied by hand. */
uint64_t segment_end(uint64_t base, const struct stat *st);

#endif
