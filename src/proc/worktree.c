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

/* The content of a small file, its first line; false: none. */
static bool read_git_line(const char *dir, const char *name, char *line, size_t size)
{
    char path[2 * PATH_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (fs_read_file(AT_FDCWD, path, 8192, &b) < 0)
        return false;
    snprintf(line, size, "%.*s", (int)strcspn(buf_str(&b), "\n"), buf_str(&b));
    return true;
}

/* The git directory of the worktree with this top directory. */
static void worktree_git_dir(const char *top, char *dir, size_t size)
{
    static const char link[] = "gitdir: ";
    char line[PATH_MAX];
    struct stat st;
    snprintf(dir, size, "%s/.git", top);
    if (fs->fstatat(AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return;
    if (!read_git_line(top, ".git", line, sizeof line) || strncmp(line, link, strlen(link)) != 0)
        return;
    const char *path = line + strlen(link); /* of a linked worktree or a submodule */
    snprintf(dir, size, "%s%s%s", *path == '/' ? "" : top, *path == '/' ? "" : "/", path);
}

/* The git directory that all worktrees of the repository share. */
static bool worktree_common_dir(const char *top, char common[PATH_MAX])
{
    char dir[2 * PATH_MAX], line[PATH_MAX], path[3 * PATH_MAX + 2];
    worktree_git_dir(top, dir, sizeof dir);
    if (!read_git_line(dir, "commondir", line, sizeof line))
        return realpath(dir, common) != NULL;
    snprintf(path, sizeof path, "%s%s%s", *line == '/' ? "" : dir, *line == '/' ? "" : "/", line);
    return realpath(path, common) != NULL;
}

bool worktree_is_sibling(const char *a, const char *b)
{
    char first[PATH_MAX], second[PATH_MAX];
    return strcmp(a, b) != 0 && worktree_common_dir(a, first) && worktree_common_dir(b, second) &&
           strcmp(first, second) == 0;
}

bool worktree_branch(const char *top, char *name, size_t size)
{
    static const char branch[] = "ref: refs/heads/";
    char dir[2 * PATH_MAX], line[PATH_MAX];
    worktree_git_dir(top, dir, sizeof dir);
    if (!read_git_line(dir, "HEAD", line, sizeof line))
        return false;
    bool has_branch = strncmp(line, branch, strlen(branch)) == 0;
    snprintf(name, size, "%.*s", has_branch ? (int)size - 1 : 12, has_branch ? line + strlen(branch) : line);
    return true;
}
