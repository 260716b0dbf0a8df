/* commit.h - the git commit that a directory has checked out, read without git. */
#ifndef STORE_COMMIT_H
#define STORE_COMMIT_H

#define COMMIT_MAX 65

/* "" if it is in no repository, or has no commit. */
void commit_of(const char *dir, char ret[COMMIT_MAX]);

#endif
