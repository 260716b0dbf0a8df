#include "store/commit.h"
#include "base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_SIZE_MAX 4096
#define REFS_SIZE_MAX (16u << 20)

/* The first line of a file; false: it is not there. */
static bool first_line(const char *dir, const char *name, char line[HEAD_SIZE_MAX])
{
    char path[PATH_MAX * 2];
    struct buf text CLEANUP(buf_clear) = {.max = HEAD_SIZE_MAX * 3};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (fs_read_file(AT_FDCWD, path, HEAD_SIZE_MAX - 1, &text) < 0)
        return false;
    snprintf(line, HEAD_SIZE_MAX, "%.*s", (int)strcspn(buf_str(&text), "\r\n"), buf_str(&text));
    return true;
}

/* The directory that `.git` is, or that it names: a worktree, a submodule. */
static bool find_git(const char *dir, char ret[PATH_MAX])
{
    char at[PATH_MAX], line[HEAD_SIZE_MAX];
    struct stat st;
    snprintf(at, sizeof at, "%s", dir);
    for (;;) {
        snprintf(ret, PATH_MAX, "%.4000s/.git", at);
        if (fs->fstatat(AT_FDCWD, ret, &st, 0) == 0)
            break;
        char *slash = strrchr(at, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    if (S_ISDIR(st.st_mode))
        return true;
    if (!first_line(at, ".git", line) || strncmp(line, "gitdir: ", 8) != 0)
        return false;
    snprintf(ret, PATH_MAX, "%.2000s%s%.2000s", line[8] == '/' ? "" : at, line[8] == '/' ? "" : "/", line + 8);
    return true;
}

/* A line of packed-refs is `HASH NAME`. */
static void find_packed(const char *common, const char *ref, char ret[COMMIT_MAX])
{
    char path[PATH_MAX + 16], end[HEAD_SIZE_MAX + 2];
    struct buf text CLEANUP(buf_clear) = {.max = REFS_SIZE_MAX + HEAD_SIZE_MAX * 3};
    snprintf(path, sizeof path, "%s/packed-refs", common);
    if (fs_read_file(AT_FDCWD, path, REFS_SIZE_MAX - 1, &text) < 0)
        return;
    snprintf(end, sizeof end, " %s\n", ref);
    const char *found = strstr(buf_str(&text), end), *line = found;
    while (line && line > buf_str(&text) && line[-1] != '\n')
        line--;
    if (found && found - line < COMMIT_MAX)
        snprintf(ret, COMMIT_MAX, "%.*s", (int)(found - line), line);
}

void commit_of(const char *dir, char ret[COMMIT_MAX])
{
    char git[PATH_MAX], common[PATH_MAX], line[HEAD_SIZE_MAX], hash[HEAD_SIZE_MAX];
    ret[0] = '\0';
    if (!find_git(dir, git) || !first_line(git, "HEAD", line))
        return;
    if (strncmp(line, "ref: ", 5) != 0) {
        snprintf(ret, COMMIT_MAX, "%.64s", line);
        return;
    }
    snprintf(common, sizeof common, "%s", git);
    if (first_line(git, "commondir", hash))
        snprintf(common, sizeof common, "%.2000s%s%.2000s", hash[0] == '/' ? "" : git, hash[0] == '/' ? "" : "/", hash);
    if (first_line(git, line + 5, hash) || first_line(common, line + 5, hash))
        snprintf(ret, COMMIT_MAX, "%.64s", hash);
    else
        find_packed(common, line + 5, ret);
}
