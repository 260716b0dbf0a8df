/* listing.h - the names in a directory, without "." and "..".
 *
 *     struct listing flows CLEANUP(listing_close);
 *     if (listing_open(&flows, state_dir, "flows", LISTING_SORTED) < 0) return fs_error(err, "read", state_dir, "flows");
 *     for (const char *name; (name = listing_next(&flows));)
 *         fs->unlinkat(flows.fd, name, 0);
 *
 * A listing that could not be opened has no names, so a caller may ignore the error. */
#ifndef BASE_LISTING_H
#define BASE_LISTING_H

#include "base/fs.h"

#include <dirent.h>

enum {
    LISTING_SORTED = 1,  /* by bytes; else as they come, and a name that appears meanwhile may be among them */
    LISTING_NO_LINK = 2, /* a symbolic link is not a directory */
};

struct listing {
    int fd;             /* of the directory; -1: it was not opened */
    unsigned char type; /* d_type of the last name */
    DIR *stream;
    struct dirent **sorted;
    int count, next;
};

/* -1 with errno. `path` may be ".". */
int listing_open(struct listing *ret, int dir, const char *path, unsigned flags);
/* Borrowed until the next call; NULL: no more. */
const char *listing_next(struct listing *listing);
void listing_close(struct listing *listing); /* for CLEANUP */
/* Removes everything below a directory, then the directory. A name that appears meanwhile makes it fail with ENOTEMPTY. */
int listing_remove_tree(int parent, const char *name);

#endif
