/* find.c - which workspace is meant: walking up, and seeing through linked git worktrees. */
#include "store/find.h"
#include "base/fs.h"
#include "base/word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool join_path(char out[PATH_MAX], const char *dir, const char *name)
{
    const char *slash = dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/";
    return snprintf(out, PATH_MAX, "%s%s%s", dir, slash, name) < PATH_MAX;
}

/* Looking for files that may not be there. What fails for any other reason must not read as "not there": a
 * workspace that was overlooked means two lock domains. The first such errno is kept. */
struct look {
    int failed;
    bool was_denied; /* some directory may not be searched */
};

static void look_note_failure(struct look *look)
{
    if (errno == EACCES)
        look->was_denied = true;
    else if (errno != ENOENT && errno != ENOTDIR && !look->failed)
        look->failed = errno;
}

static mode_t type_of(struct look *look, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    if (!join_path(path, dir, name))
        return 0;
    if (fs->fstatat(AT_FDCWD, path, &st, 0) == 0)
        return st.st_mode & S_IFMT;
    look_note_failure(look);
    return 0;
}

/* Cuts the last component off; false at the root. */
static bool go_up(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');
    if (!slash || path[1] == '\0')
        return false;
    slash[slash == path ? 1 : 0] = '\0';
    return true;
}

/* The first line of a small file, without `prefix`; false if it is not there. */
static bool find_read_line(struct look *look, const char *dir, const char *name, const char *prefix,
                           char line[PATH_MAX])
{
    char path[PATH_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (!join_path(path, dir, name))
        return false;
    if (fs_read_file(AT_FDCWD, path, PATH_MAX, &b) < 0) {
        look_note_failure(look);
        return false;
    }
    b.data[strcspn(b.data, "\r\n")] = '\0';
    if (strncmp(b.data, prefix, strlen(prefix)) != 0)
        return false;
    return snprintf(line, PATH_MAX, "%s", b.data + strlen(prefix)) < PATH_MAX;
}

/* `path` seen from `dir`, made absolute and free of symbolic links. */
static bool resolve_path(const char *dir, const char *path, char out[PATH_MAX])
{
    char joined[PATH_MAX];
    if (path[0] == '/')
        return realpath(path, out) != NULL;
    return join_path(joined, dir, path) && realpath(joined, out) != NULL;
}

/* If `dir` is the top of a linked worktree: the common git directory of its repository. */
static bool linked_common_dir(struct look *look, const char *dir, char common[PATH_MAX])
{
    char line[PATH_MAX], git_dir[PATH_MAX];
    return type_of(look, dir, ".git") == S_IFREG && find_read_line(look, dir, ".git", "gitdir: ", line) &&
           resolve_path(dir, line, git_dir) && find_read_line(look, git_dir, "commondir", "", line) &&
           resolve_path(git_dir, line, common);
}

/* The value of `key` in a git configuration's text, as far as tasuki needs to read one: the last line "key = value". */
static bool config_value(const char *text, const char *key, char value[PATH_MAX])
{
    bool found = false;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += strspn(line, " \t\r\n");
        size_t len = strlen(key);
        if (strncasecmp(line, key, len) != 0)
            continue;
        const char *at = line + len + strspn(line + len, " \t");
        if (*at != '=')
            continue;
        at += 1 + strspn(at + 1, " \t");
        snprintf(value, PATH_MAX, "%.*s", (int)strcspn(at, "\r\n"), at);
        found = true;
    }
    return found;
}

/* The main worktree of the repository with that common directory; false: it is bare. */
static bool main_worktree(struct look *look, const char *common, char tree[PATH_MAX])
{
    char path[PATH_MAX], value[PATH_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (join_path(path, common, "config") && fs_read_file(AT_FDCWD, path, 1 << 20, &b) < 0)
        look_note_failure(look);
    if (config_value(buf_str(&b), "bare", value) && strcasecmp(value, "true") == 0)
        return false;
    if (config_value(buf_str(&b), "worktree", value)) /* submodules */
        return resolve_path(common, value, tree);
    const char *base = strrchr(common, '/');
    if (!base || strcmp(base, "/.git") != 0)
        return false;
    return snprintf(tree, PATH_MAX, "%s", common) < PATH_MAX && go_up(tree);
}

/* Where the state of the repository with that common directory is, whether it exists or not. `below` is the
 * part of the worktree in which a workspace was found ("" or "/sub"). */
static bool place_of_common(struct look *look, const char *common, const char *below, struct workspace_place *ret)
{
    char main_tree[PATH_MAX];
    if (!main_worktree(look, common, main_tree))
        return snprintf(ret->root, PATH_MAX, "%s", common) < PATH_MAX && join_path(ret->state_path, common, "tasuki");
    if (snprintf(ret->root, PATH_MAX, "%s%s", main_tree, below) >= PATH_MAX)
        return false;
    if (below[0] && type_of(look, ret->root, ".aiflow") != S_IFDIR)
        snprintf(ret->root, PATH_MAX, "%s", main_tree);
    return join_path(ret->state_path, ret->root, ".aiflow");
}

/* What `.aiflow/` in `dir` is: 2 a workspace (it has something that `init` or people put there), 1 only the place of a sprint
 * lock's guard, which counts if there is no workspace further up, 0 nothing. */
static int workspace_in(struct look *look, const char *dir)
{
    static const char *const marks[] = {".aiflow/state.db", ".aiflow/config.yaml", ".aiflow/requests", ".aiflow/flows"};
    if (type_of(look, dir, ".aiflow") != S_IFDIR)
        return 0;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (type_of(look, dir, marks[i]))
            return 2;
    return 1;
}

static bool is_bare_repository(struct look *look, const char *dir)
{
    char tree[PATH_MAX];
    return type_of(look, dir, "HEAD") == S_IFREG && type_of(look, dir, "objects") == S_IFDIR &&
           type_of(look, dir, "refs") == S_IFDIR && !main_worktree(look, dir, tree);
}

/* The nearest existing workspace upwards from `start`. */
static bool find_existing(struct look *look, const char *start, struct workspace_place *ret)
{
    char dir[PATH_MAX], found[PATH_MAX] = "", weak[PATH_MAX] = "", common[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", start);
    do {
        int kind = workspace_in(look, dir);
        if (kind == 2 && !found[0])
            snprintf(found, sizeof found, "%s", dir);
        else if (kind == 1 && !weak[0])
            snprintf(weak, sizeof weak, "%s", dir);
        if (linked_common_dir(look, dir, common)) {
            /* Also when a workspace was found further down: git has only checked out a copy of it here. */
            if (!place_of_common(look, common, found[0] ? found + strlen(dir) : "", ret))
                return false;
            return type_of(look, ret->state_path, "") == S_IFDIR;
        }
        if (is_bare_repository(look, dir) && type_of(look, dir, "tasuki") == S_IFDIR)
            return place_of_common(look, dir, "", ret);
        if (found[0] && type_of(look, dir, ".git"))
            break; /* an ordinary repository: what is above it does not concern us */
    } while (go_up(dir));
    if (!found[0])
        snprintf(found, sizeof found, "%s", weak);
    if (!found[0])
        return false;
    snprintf(ret->root, PATH_MAX, "%s", found);
    return join_path(ret->state_path, ret->root, ".aiflow");
}

/* In a directory where anybody may write, anybody may have made one. */
static bool is_trusted(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    return join_path(path, dir, ".aiflow") && fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_uid == geteuid() || st.st_uid == 0 || geteuid() == 0);
}

/* Where `init` creates a workspace: in `start`, unless `start` is in a linked worktree, in a bare repository or below
 * another workspace, where a second one would let the same lock be held twice. A nested repository may have its own
 * workspace. */
static bool find_new(struct look *look, const char *start, struct workspace_place *ret)
{
    char dir[PATH_MAX], common[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", start);
    do {
        if (linked_common_dir(look, dir, common))
            return place_of_common(look, common, "", ret);
        if (is_bare_repository(look, dir))
            return place_of_common(look, dir, "", ret);
        if (workspace_in(look, dir) == 2 && is_trusted(dir)) {
            snprintf(ret->root, PATH_MAX, "%s", dir);
            return join_path(ret->state_path, ret->root, ".aiflow");
        }
    } while (!type_of(look, dir, ".git") && go_up(dir));
    snprintf(ret->root, PATH_MAX, "%s", start);
    return join_path(ret->state_path, ret->root, ".aiflow");
}

static int absolute_path(const char *path, char out[PATH_MAX], struct tsk_error *err)
{
    struct stat st;
    bool exists = realpath(path, out);
    if (exists && (fs->fstatat(AT_FDCWD, out, &st, 0) < 0 || S_ISDIR(st.st_mode)))
        return 0;
    if (exists)
        errno = ENOTDIR;
    if (errno == ENOENT || errno == ENOTDIR)
        return error_set(err, TSK_NOT_FOUND, strcmp(path, ".") == 0 ? "cwd_is_gone" : "no_such_directory", "path", path,
                         NULL);
    return error_errno(err, "open", path);
}

/* A place that was given by name. */
static bool find_given(struct look *look, const char *start, struct workspace_place *ret)
{
    snprintf(ret->root, sizeof ret->root, "%s", start);
    if (is_bare_repository(look, start))
        return join_path(ret->state_path, start, "tasuki") && type_of(look, start, "tasuki") == S_IFDIR;
    return join_path(ret->state_path, start, ".aiflow") && type_of(look, start, ".aiflow") == S_IFDIR;
}

static const char *given_root(const char *root)
{
    const char *given = root ? root : getenv("TASUKI_ROOT");
    return given && given[0] ? given : NULL;
}

/* The caller may not know where the path comes from. */
static int root_of_environment(struct tsk_error *err)
{
    return error_add_next(err, "unset TASUKI_ROOT");
}

static int look_failed(const struct look *look, const char *start, struct tsk_error *err)
{
    errno = look->failed;
    return error_errno(err, "examine", start);
}

int workspace_find(const char *root, struct workspace_place *ret, struct tsk_error *err)
{
    char start[PATH_MAX];
    const char *given = given_root(root);
    struct workspace_place place;
    struct look look = {0};
    if (absolute_path(given ? given : ".", start, err) < 0)
        return given && !root ? root_of_environment(err) : -1;
    bool found = given ? find_given(&look, start, &place) : find_existing(&look, start, &place);
    if (look.failed)
        return look_failed(&look, start, err);
    if (found) {
        *ret = place;
        return 0;
    }
    if (look.was_denied) {
        errno = EACCES; /* there may be one that we cannot see: making a second one would split the locks */
        return error_errno(err, "look for a workspace from", start);
    }
    error_set(err, TSK_NOT_FOUND, given ? "no_workspace_at" : "no_workspace", "path", start, NULL);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (given)
        error_add_next(err, "tasuki --root %s init", shell_word(&word, start));
    else
        error_add_next(err, "tasuki init");
    return given && !root ? root_of_environment(err) : -1;
}

int workspace_place_new(const char *root, struct workspace_place *ret, struct tsk_error *err)
{
    char start[PATH_MAX];
    const char *given = given_root(root);
    struct look look = {0};
    if (absolute_path(given ? given : ".", start, err) < 0)
        return given && !root ? root_of_environment(err) : -1;
    snprintf(ret->root, PATH_MAX, "%s", start);
    bool is_plain = given && !is_bare_repository(&look, start);
    bool fits = is_plain ? join_path(ret->state_path, start, ".aiflow") : find_new(&look, start, ret);
    if (look.failed)
        return look_failed(&look, start, err);
    return fits ? 0 : error_set(err, TSK_INVALID_INPUT, "path_too_long", "path", start, NULL);
}

int workspace_project_root(const char *start, char root[PATH_MAX], struct tsk_error *err)
{
    static const char *const marks[] = {".sprint-running", ".git", ".aiflow"};
    char dir[PATH_MAX], top[PATH_MAX];
    struct look look = {0};
    const char *given = given_root(start);
    if (absolute_path(given ? given : ".", dir, err) < 0)
        return -1;
    snprintf(top, sizeof top, "%s", dir);
    do {
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
            if (type_of(&look, dir, marks[i])) {
                snprintf(root, PATH_MAX, "%s", dir);
                return 0;
            }
            if (look.failed)
                return look_failed(&look, dir, err);
        }
    } while (go_up(dir));
    snprintf(root, PATH_MAX, "%s", top);
    return 0;
}
