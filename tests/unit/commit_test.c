/* The commit of a directory, read as git has written it. */
#include "base/fs.h"
#include "harness/test.h"
#include "store/commit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define ONE  "1111111111111111111111111111111111111111"
#define TWO  "2222222222222222222222222222222222222222"
#define LONG "3333333333333333333333333333333333333333333333333333333333333333" /* of a repository with SHA-256 */

static void put(const char *path, const char *text)
{
    char dir[256];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) {
        *slash = '\0';
        ASSERT_INT(fs_make_dirs(AT_FDCWD, dir), 0);
    }
    ASSERT_INT(fs_replace_file(AT_FDCWD, path, 0600, text, strlen(text)), 0);
}

static void assert_commit(const char *below, const char *expected)
{
    char dir[PATH_MAX + 64], top[PATH_MAX], found[COMMIT_MAX] = "?";
    ASSERT(realpath(".", top));
    snprintf(dir, sizeof dir, "%s%s", top, below);
    commit_of(dir, found);
    ASSERT_STR(found, expected);
}

TEST(without_a_repository_or_a_first_commit_there_is_none)
{
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "w/sub"), 0);
    assert_commit("/w/sub", "");
    put("w/.git/config", "");
    assert_commit("/w", ""); /* no HEAD */
    put("w/.git/HEAD", "ref: refs/heads/main\n");
    assert_commit("/w", "");
    assert_commit("/w/sub", "");
    put("w/.git/packed-refs", "# pack-refs with: peeled\n" ONE " refs/heads/other\n");
    assert_commit("/w", "");
}

TEST(a_branch_is_looked_up_as_a_file_and_then_among_the_packed_ones)
{
    put("w/.git/HEAD", "ref: refs/heads/main\n");
    put("w/.git/packed-refs", "# pack-refs with: peeled\n" TWO " refs/heads/main2\n" ONE " refs/heads/main\n^" TWO
                              "\n" TWO " refs/tags/main\n");
    assert_commit("/w", ONE);
    assert_commit("/w/below/it", ONE);
    put("w/.git/refs/heads/main", TWO "\n");
    assert_commit("/w", TWO);
    put("w/.git/refs/heads/main", LONG "\r\n");
    assert_commit("/w", LONG);
    put("w/.git/HEAD", ONE "\n"); /* detached */
    assert_commit("/w", ONE);
}

TEST(a_packed_branch_in_the_first_line_and_one_whose_commit_is_too_long)
{
    put("w/.git/HEAD", "ref: refs/heads/main\n");
    put("w/.git/packed-refs", LONG " refs/heads/main\n");
    assert_commit("/w", LONG);
    put("w/.git/packed-refs", LONG "4 refs/heads/main\n");
    assert_commit("/w", "");
}

TEST(a_linked_worktree_has_its_own_head_and_the_branches_of_the_repository)
{
    char top[PATH_MAX], text[PATH_MAX + 64];
    ASSERT(realpath(".", top));
    put("w/.git/HEAD", "ref: refs/heads/main\n");
    put("w/.git/refs/heads/main", ONE "\n");
    put("w/.git/refs/heads/side", TWO "\n");
    put("w/.git/worktrees/v/HEAD", "ref: refs/heads/side\n");
    put("w/.git/worktrees/v/commondir", "../..\n");
    snprintf(text, sizeof text, "gitdir: %s/w/.git/worktrees/v\n", top);
    put("v/.git", text);
    assert_commit("/v", TWO);
    put("v/.git", "gitdir: ../w/.git/worktrees/v\n"); /* as worktree.useRelativePaths writes it */
    assert_commit("/v/sub", TWO);
    snprintf(text, sizeof text, "%s/w/.git\n", top);
    put("w/.git/worktrees/v/commondir", text);
    assert_commit("/v", TWO);
    put("w/.git/worktrees/v/HEAD", "ref: refs/bisect/bad\n");
    put("w/.git/worktrees/v/refs/bisect/bad", LONG "\n"); /* a worktree's own */
    assert_commit("/v", LONG);
    put("w/.git/worktrees/v/HEAD", "ref: refs/heads/packed\n");
    put("w/.git/packed-refs", ONE " refs/heads/packed\n");
    assert_commit("/v", ONE);
    assert_commit("/w", ONE);
}

TEST(a_git_file_that_names_no_directory_gives_no_commit_and_hides_the_repository_above)
{
    put(".git/HEAD", ONE "\n");
    put("w/.git", "nonsense\n");
    assert_commit("/w", "");
    put("w/.git", "gitdir: ../nowhere\n");
    assert_commit("/w", "");
    assert_commit("", ONE);
}
