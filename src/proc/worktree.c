#include "proc/worktree.h"

#include "base/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool worktree_of(const char *dir, char top[PATH_MAX])
{
    char path[PATH_MAX + 8];
    struct stat st;
    if (!realpath(dir, top))
        return false;
    for (char *slash; (slash = strrchr(top, '/')) != NULL && slash != top; *slash = '\0') {
        snprintf(path, sizeof path, "%s/.git", top);
        if (fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}
