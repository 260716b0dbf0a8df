/* Which workspace is meant. Two answers for one project would be two lock domains. */
#include "harness/test.h"
#include "store/find.h"
#include "unit/scene.h"

/* Runs a command; the test fails if it does. */
static void run(const char *command)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
        setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1);
        execl("/bin/sh", "sh", "-ec", command, NULL);
        _exit(127);
    }
    int status;
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "failed: %s", command);
}

/* The real path of the test's directory plus `below`. */
static const char *here(const char *below)
{
    static char path[PATH_MAX + 64];
    static char top[PATH_MAX];
    if (!top[0]) {
        ASSERT(realpath(".", top));
        unsetenv("TASUKI_ROOT");
    }
    snprintf(path, sizeof path, "%s%s", top, below);
    return path;
}

static void need_git(void)
{
    if (access("/usr/bin/git", X_OK) != 0)
        test_skip("git is not installed");
    here("");
}

#define GIT    "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main -c protocol.file.allow=always "
#define COMMIT GIT "commit -q --allow-empty -m x"

static void go(const char *dir)
{
    ASSERT_INT(chdir(here(dir)), 0);
}

static void assert_found(const char *from, const char *root, const char *state)
{
    struct workspace_place place;
    struct tsk_error err;
    go(from);
    ASSERT_OK(workspace_find(NULL, &place, &err));
    ASSERT_STR(place.root, here(root));
    ASSERT_STR(place.state_path, here(state));
}

static void assert_none(const char *from)
{
    struct workspace_place place;
    struct tsk_error err;
    go(from);
    ASSERT_CODE(workspace_find(NULL, &place, &err), TSK_NOT_FOUND);
    ASSERT(tsk_error_next(&err, 0));
}

TEST(the_nearest_workspace_upwards_is_the_one)
{
    here("");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/b/c/d"), 0);
    assert_none("/a/b");
    ASSERT_INT(mkdir(here("/a/.aiflow"), 0700), 0);
    assert_found("/a/b/c/d", "/a", "/a/.aiflow");
    assert_found("/a", "/a", "/a/.aiflow");
    ASSERT_INT(mkdir(here("/a/b/c/.aiflow"), 0700), 0);
    assert_found("/a/b/c/d", "/a/b/c", "/a/b/c/.aiflow");
    assert_found("/a/b", "/a", "/a/.aiflow");
    assert_none("");
}

TEST(a_file_named_aiflow_is_no_workspace)
{
    here("");
    scene_write(".aiflow", "");
    assert_none("");
}

TEST(the_environment_names_a_workspace_and_the_argument_goes_before_it)
{
    struct workspace_place place;
    struct tsk_error err;
    here("");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/.aiflow"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "b/.aiflow"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "empty"), 0);
    setenv("TASUKI_ROOT", "b", 1);
    ASSERT_OK(workspace_find(NULL, &place, &err));
    ASSERT_STR(place.root, here("/b"));
    ASSERT_OK(workspace_find("a/../a", &place, &err));
    ASSERT_STR(place.root, here("/a"));
    setenv("TASUKI_ROOT", "empty", 1); /* given by name: nothing above it counts */
    ASSERT_CODE(workspace_find(NULL, &place, &err), TSK_NOT_FOUND);
    setenv("TASUKI_ROOT", "absent", 1);
    ASSERT_CODE(workspace_find(NULL, &place, &err), TSK_NOT_FOUND);
    setenv("TASUKI_ROOT", "", 1);
    ASSERT_INT(chdir("a"), 0);
    ASSERT_OK(workspace_find(NULL, &place, &err));
    ASSERT_STR(place.root, here("/a"));
}

TEST(a_linked_worktree_shares_the_main_ones_workspace)
{
    need_git();
    run(GIT "init -q main && cd main && mkdir -p .aiflow/flows sub/deep && touch .aiflow/config.yaml sub/deep/f && git "
            "add -f . && " COMMIT " && git worktree add -q ../linked -b l");
    ASSERT(scene_exists("linked/.aiflow/config.yaml")); /* git has checked out a copy */
    assert_found("/linked", "/main", "/main/.aiflow");
    assert_found("/linked/sub/deep", "/main", "/main/.aiflow");
    assert_found("/main/sub", "/main", "/main/.aiflow");
}

TEST(a_linked_worktree_inside_the_main_one_shares_it_too)
{
    need_git();
    run(GIT "init -q main && cd main && mkdir .aiflow && touch f && git add f && " COMMIT
            " && git worktree add -q trees/one -b l");
    assert_found("/main/trees/one", "/main", "/main/.aiflow");
}

TEST(a_workspace_in_a_subdirectory_is_found_in_the_main_worktrees_subdirectory)
{
    need_git();
    run(GIT
        "init -q main && cd main && mkdir -p sub/.aiflow && touch sub/.aiflow/config.yaml && git add -f . && " COMMIT
        " && git worktree add -q ../linked -b l");
    assert_found("/linked/sub", "/main/sub", "/main/sub/.aiflow");
}

TEST(only_a_name_overrides_the_main_worktree)
{
    struct workspace_place place;
    struct tsk_error err;
    need_git();
    run(GIT "init -q main && cd main && mkdir .aiflow && touch .aiflow/config.yaml && git add -f . && " COMMIT
            " && git worktree add -q ../linked -b l");
    go("/linked");
    ASSERT_OK(workspace_find(".", &place, &err));
    ASSERT_STR(place.root, here("/linked"));
    ASSERT_OK(workspace_place_new(NULL, &place, &err));
    ASSERT_STR(place.root, here("/main"));
}

TEST(a_linked_worktree_whose_main_one_has_no_workspace_has_none)
{
    need_git();
    run(GIT "init -q main && cd main && " COMMIT " && git worktree add -q ../linked -b l && mkdir ../linked/.aiflow");
    assert_none("/linked");
}

TEST(a_submodule_belongs_to_the_project_around_it)
{
    need_git();
    run(GIT "init -q lib && (cd lib && " COMMIT ") && " GIT "init -q super && cd super && mkdir .aiflow && " GIT
            "submodule --quiet add ../lib lib 2>/dev/null && " COMMIT);
    ASSERT(scene_exists("super/lib/.git") && !scene_exists("super/.git/modules/lib/commondir"));
    assert_found("/super/lib", "/super", "/super/.aiflow");
    ASSERT_INT(mkdir(here("/super/lib/.aiflow"), 0700), 0);
    assert_found("/super/lib", "/super/lib", "/super/lib/.aiflow");
}

TEST(a_linked_worktree_of_a_submodule_shares_the_submodules_workspace)
{
    need_git();
    run(GIT "init -q lib && (cd lib && " COMMIT ") && " GIT "init -q super && cd super && " GIT
            "submodule --quiet add ../lib lib 2>/dev/null && mkdir lib/.aiflow && cd lib && git worktree add -q "
            "../../linked -b l");
    assert_found("/linked", "/super/lib", "/super/lib/.aiflow");
}

TEST(a_bare_repository_keeps_its_state_in_itself_for_all_worktrees)
{
    struct workspace_place place;
    struct tsk_error err;
    need_git();
    run(GIT "init -q src && (cd src && " COMMIT ") && git clone -q --bare src bare.git 2>/dev/null && "
            "git -C bare.git worktree add -q ../one && git -C bare.git worktree add -q ../two -b two");
    assert_none("/one");
    go("/one");
    ASSERT_OK(workspace_place_new(NULL, &place, &err));
    ASSERT_STR(place.state_path, here("/bare.git/tasuki"));
    ASSERT_INT(mkdir(here("/bare.git/tasuki"), 0700), 0);
    assert_found("/one", "/bare.git", "/bare.git/tasuki");
    assert_found("/two", "/bare.git", "/bare.git/tasuki");
    assert_found("/bare.git", "/bare.git", "/bare.git/tasuki");
    assert_found("/bare.git/refs/heads", "/bare.git", "/bare.git/tasuki");
}

TEST(a_bare_repository_named_dot_git_is_bare_as_well)
{
    need_git();
    run(GIT "init -q src && (cd src && " COMMIT ") && git clone -q --bare src hub/.git 2>/dev/null && "
            "git -C hub/.git worktree add -q ../one && mkdir hub/.git/tasuki");
    assert_found("/hub/one", "/hub/.git", "/hub/.git/tasuki");
}

TEST(a_broken_git_file_is_no_worktree_and_no_crash)
{
    static const char *const texts[] = {"",         "gitdir: ",   "gitdir: /nowhere\n", "gitdir: ../x",
                                        "nonsense", "gitdir: .\n"};
    here("");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "a/.aiflow"), 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        go("");
        scene_write("a/.git", texts[i]);
        assert_found("/a", "/a", "/a/.aiflow");
    }
}

TEST(symbolic_links_do_not_give_a_project_a_second_name)
{
    here("");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "real/.aiflow"), 0);
    ASSERT_INT(symlink("real", "alias"), 0);
    assert_found("/alias", "/real", "/real/.aiflow");
}

static void become_nobody(void)
{
    if (geteuid() == 0 && (chown(here(""), 65534, 65534) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
        test_skip("cannot become another user");
}

TEST(parents_that_cannot_be_read_hide_nothing_that_is_nearer)
{
    here("");
    become_nobody();
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "shut/in/.aiflow"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "shut/in/deep"), 0);
    go("/shut/in/deep");
    ASSERT_INT(chmod(here("/shut"), 0300), 0); /* may be entered, not listed */
    struct workspace_place place;
    struct tsk_error err;
    ASSERT_OK(workspace_find(NULL, &place, &err));
    ASSERT_STR(place.root, here("/shut/in"));
    ASSERT_INT(chmod(here("/shut"), 0), 0); /* not even entered: what cannot be reached cannot be used */
    ASSERT_CODE(workspace_find(NULL, &place, &err), TSK_ENVIRONMENT);
    ASSERT_INT(chmod(here("/shut"), 0700), 0);
}

TEST(the_project_root_of_a_sprint_is_the_nearest_marked_directory)
{
    char root[PATH_MAX];
    struct tsk_error err;
    here("");
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "p/q/r"), 0);
    ASSERT_INT(fs_make_dirs(AT_FDCWD, "p/.git"), 0);
    ASSERT_OK(workspace_project_root("p/q/r", root, &err));
    ASSERT_STR(root, here("/p"));
    scene_write("p/q/.sprint-running", "");
    ASSERT_OK(workspace_project_root("p/q/r", root, &err));
    ASSERT_STR(root, here("/p/q"));
    ASSERT_CODE(workspace_project_root("absent", root, &err), TSK_NOT_FOUND);
}

TEST(init_is_idempotent_and_says_whether_there_was_none)
{
    struct workspace_place place;
    struct tsk_error err;
    bool created = false;
    here("");
    ASSERT_OK(workspace_init(".", &place, &created, &err));
    ASSERT(created);
    ASSERT_OK(workspace_init(".", &place, &created, &err));
    ASSERT(!created);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, ".gitignore", 1000, &b), 0);
    ASSERT_STR(buf_str(&b), "/.sprint-running\n/.sprint-running.tmp\n");
}

TEST(a_program_makes_its_workspace_and_opens_one_that_is_there)
{
    struct tsk_error err;
    struct tsk_workspace *ws;
    run("mkdir made");
    ASSERT_CODE(tsk_workspace_open(here("/made"), &ws, &err), TSK_NOT_FOUND);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(tsk_workspace_create(here("/made"), &ws, &err));
        ASSERT_STR(ws->root, here("/made"));
        tsk_workspace_close(ws);
    }
    ASSERT_OK(tsk_workspace_open(here("/made"), &ws, &err));
    tsk_workspace_close(ws);
    ASSERT_INT(tsk_workspace_create(here("/absent/deep"), &ws, &err), -1);
}
