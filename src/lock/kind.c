#include "lock/kind.h"
#include "base/fs.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "base/word.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct lock_kind kinds[] = {
#define X(symbol, name, prefix, suffix, has_id, is_sprint, held_code, parse)                                           \
    [TSK_LOCK_##symbol] = {TSK_LOCK_##symbol, name, prefix, suffix, has_id, is_sprint, held_code, parse},
#include "lock/kinds.def"
#undef X
};

const char *const lock_kind_names[] = {
#define X(symbol, name, ...) name,
#include "lock/kinds.def"
#undef X
    NULL};

const char lock_kind_list_text[] =
#define X(symbol, name, ...) ", " name
#include "lock/kinds.def"
#undef X
    ;

const struct lock_kind *lock_kind_get(enum tsk_lock_kind kind)
{
    return (unsigned)kind < LOCK_KIND_COUNT ? &kinds[kind] : NULL;
}

const struct lock_kind *lock_kind_by_name(const char *name)
{
    for (size_t i = 0; i < LOCK_KIND_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* The lock protocol needs one kernel that sees all byte locks of a file. */
static int check_fs(struct lock_target *target, struct tsk_error *err)
{
    enum fs_class class;
    const char *name;
    char path[PATH_MAX];
    if (!target->owns_dirs && __atomic_load_n(&target->ws->fs_is_checked, __ATOMIC_RELAXED))
        return 0;
    if (fs_classify(target->dir, &class, &name) < 0)
        return error_errno(err, "examine", target->file);
    bool trusted = class == FS_LOCAL;
    if (class == FS_SINGLE_KERNEL && workspace_config_bool(target->ws, "trust_fs", &trusted, err) < 0)
        return -1;
    if (trusted) {
        if (!target->owns_dirs)
            __atomic_store_n(&target->ws->fs_is_checked, true, __ATOMIC_RELAXED);
        return 0;
    }
    lock_target_path(target, path);
    error_set(err, TSK_UNSUPPORTED_FS, class == FS_NETWORK ? "fs_network" : "fs_single_kernel", "path", path, "fs_type",
              name, NULL);
    return -1;
}

/* ---- names ---- */

enum { ENCODED_MAX = 180, CUT_AT = 120, HASH_DIGITS = 16 }; /* a longer name is cut there, and a hash added */

/* What people can read and type: any text without control characters and the like. */
static bool is_printable(const char *name)
{
    struct buf visible CLEANUP(buf_clear) = BUF_INIT;
    size_t len = strlen(name);
    if (len == 0 || len >= LOCK_NAME_SIZE || !utf8_is_valid(name, len))
        return false;
    utf8_put_visible(&visible, name, false);
    return strcmp(buf_str(&visible), name) == 0;
}

/* src/api -> src%2Fapi. A long one is cut, and its hash tells it from others that begin alike. */
static void encode_name(const char *name, char ret[ENCODED_MAX + 1])
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char hash[SHA256_HEX_SIZE];
    word_put_encoded(&b, name);
    if (b.len <= ENCODED_MAX) {
        snprintf(ret, ENCODED_MAX + 1, "%s", buf_str(&b));
        return;
    }
    sha256_hex(name, strlen(name), hash);
    snprintf(ret, ENCODED_MAX + 1, "%.*s~%.*s", CUT_AT, buf_str(&b), HASH_DIGITS, hash);
}

/* The name in the file, if it is the one that the file is called after. */
static bool name_in_file(int dir, const char *file, const char *encoded, char id[LOCK_NAME_SIZE])
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct lock_record record;
    char again[ENCODED_MAX + 1];
    if (fs_read_file(dir, file, LOCK_FILE_MAX, &text) < 0 || record_parse_json(buf_str(&text), text.len, &record) < 0)
        return false;
    encode_name(record.name, again);
    snprintf(id, LOCK_NAME_SIZE, "%s", record.name);
    return strcmp(again, encoded) == 0;
}

static bool decode_name(int dir, const char *file, const char *encoded, char id[LOCK_NAME_SIZE])
{
    char text[ENCODED_MAX + 1], again[ENCODED_MAX + 1];
    if (strchr(encoded, '~'))
        return name_in_file(dir, file, encoded, id);
    snprintf(text, sizeof text, "%s", encoded);
    if (!word_decode(text) || !is_printable(text))
        return false;
    encode_name(text, again);
    snprintf(id, LOCK_NAME_SIZE, "%s", text);
    return strcmp(again, encoded) == 0; /* a name has one file */
}

bool lock_kind_file_id(const struct lock_kind *kind, int dir, const char *file, char id[LOCK_NAME_SIZE])
{
    size_t prefix = strlen(kind->file_prefix), suffix = strlen(kind->file_suffix), len = strlen(file);
    char part[ENCODED_MAX + 1];
    if (kind->is_sprint || len < prefix + suffix || len - prefix - suffix > ENCODED_MAX)
        return false;
    if (strncmp(file, kind->file_prefix, prefix) != 0 || strcmp(file + len - suffix, kind->file_suffix) != 0)
        return false;
    snprintf(part, sizeof part, "%.*s", (int)(len - prefix - suffix), file + prefix);
    if (kind->kind == TSK_LOCK_NAME)
        return decode_name(dir, file, part, id);
    snprintf(id, LOCK_NAME_SIZE, "%s", part);
    return kind->has_id ? id_is_valid(id) : id[0] == '\0';
}

/* A plain name: visible characters, no slash, neither "." nor "..", and not one of our own private names. */
static bool is_plain_file_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > ID_LENGTH_MAX || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fs_is_private_name(name))
        return false;
    if (len >= 4 && strcmp(name + len - 4, ".tmp") == 0) /* another lock's temporary name */
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return true;
}

static int set_names(struct lock_target *target, const char *id, struct tsk_error *err)
{
    const struct lock_kind *kind = target->kind;
    char part[ENCODED_MAX + 1];
    if (kind->is_sprint) {
        id = id ? id : SPRINT_FILE_DEFAULT;
        if (!is_plain_file_name(id))
            return error_set(err, TSK_INVALID_INPUT, "file_name_pattern", "param", "lock_file", "value", id, NULL);
        snprintf(target->id, sizeof target->id, "%s", id);
        snprintf(target->file, sizeof target->file, "%s", id);
        snprintf(part, sizeof part, "%s", id);
    } else {
        if (!kind->has_id && id && id[0])
            return error_set(err, TSK_INVALID_INPUT, "queue_has_no_id", "param", "id", "value", id, NULL);
        if (kind->has_id && (!id || !id[0]))
            return error_set(err, TSK_INVALID_INPUT, "param_missing", "param", "id", NULL);
        if (id && kind->kind == TSK_LOCK_NAME && !is_printable(id))
            return error_set(err, TSK_INVALID_INPUT, "lock_name_pattern", "param", "id", "value", id, NULL);
        if (kind->kind != TSK_LOCK_NAME && kind->has_id && !id_is_valid(id))
            return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "id", "value", id ? id : "", NULL);
        snprintf(target->id, sizeof target->id, "%s", kind->has_id ? id : "");
        if (kind->kind == TSK_LOCK_NAME)
            encode_name(target->id, part);
        else
            snprintf(part, sizeof part, "%.*s", ENCODED_MAX, target->id);
        snprintf(target->file, sizeof target->file, "%s%s%s", kind->file_prefix, part, kind->file_suffix);
    }
    snprintf(target->guard_name, sizeof target->guard_name, "%s%s", kind->file_prefix, part);
    return 0;
}

static int ignore_all(int dir)
{
    int fd CLEANUP_FD =
        fs->openat(dir, ".aiflow/.gitignore", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == EEXIST ? 0 : -1;
    return fs_write_all(fd, "*\n", 2);
}

/* The guard of a sprint lock is below its project root, whatever the workspace. */
static int open_sprint_dirs(struct lock_target *target, const char *root, struct tsk_error *err)
{
    target->owns_dirs = true;
    target->dir = fs->openat(AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (target->dir < 0)
        return error_errno(err, "open", root);
    /* In a project that is no workspace of its own, git need not see what is only the place of a guard. */
    bool is_new = fs->mkdirat(target->dir, ".aiflow", 0700) == 0;
    if (fs_make_dirs(target->dir, ".aiflow/locks/.guard") < 0)
        return error_errno(err, "create", ".aiflow/locks/.guard");
    if (is_new && ignore_all(target->dir) < 0)
        return error_errno(err, "write", ".aiflow/.gitignore");
    target->guard_dir =
        fs->openat(target->dir, ".aiflow/locks/.guard", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    return target->guard_dir < 0 ? error_errno(err, "open", ".aiflow/locks/.guard") : 0;
}

int lock_target_init(struct lock_target *target, struct tsk_workspace *ws, const struct lock_kind *kind, const char *id,
                     const char *project_root, struct tsk_error *err)
{
    *target = (struct lock_target){.kind = kind, .ws = ws, .dir = -1, .guard_dir = -1};
    if (set_names(target, id, err) < 0)
        return -1;
    if (kind->is_sprint) {
        const char *root = project_root ? project_root : ws->root;
        snprintf(target->dir_path, sizeof target->dir_path, "%s", root);
        if (open_sprint_dirs(target, root, err) < 0)
            goto fail;
    } else {
        if (workspace_lock_dirs(ws, err) < 0)
            return -1;
        target->dir = ws->locks_dir;
        target->guard_dir = ws->guard_dir;
    }
    if (check_fs(target, err) < 0)
        goto fail;
    return 0;
fail:
    lock_target_clear(target);
    return -1;
}

void lock_target_clear(struct lock_target *target)
{
    if (target->owns_dirs) {
        fs_close(&target->guard_dir);
        fs_close(&target->dir);
    }
    target->dir = target->guard_dir = -1;
}

void lock_target_path(const struct lock_target *target, char path[PATH_MAX])
{
    int len = target->kind->is_sprint ? snprintf(path, PATH_MAX, "%s/%s", target->dir_path, target->file)
                                      : snprintf(path, PATH_MAX, "%s/locks/%s", target->ws->state_path, target->file);
    if (len >= PATH_MAX)
        snprintf(path, PATH_MAX, "%s", target->file);
}

void lock_target_words(const struct lock_target *target, char *words, size_t size)
{
    if (target->kind->is_sprint || !target->kind->has_id)
        snprintf(words, size, "%s", target->kind->name);
    else
        snprintf(words, size, "%s %s", target->kind->name, target->id);
}

static void kind_put_option(struct buf *b, const char *option, const char *value)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (value)
        buf_printf(b, " %s %s", option, shell_word(&word, value));
}

void lock_target_command(const struct lock_target *target, const char *verb, struct buf *b)
{
    struct buf id CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(b, "tasuki");
    kind_put_option(b, "--root", target->given_root);
    if (target->kind->is_sprint) {
        buf_printf(b, " sprint %s", verb);
        kind_put_option(b, "--project-root", target->given_project_root);
        kind_put_option(b, "--lock-file", target->given_lock_file);
        if (strcmp(verb, "acquire") == 0) {
            kind_put_option(b, "--session", target->given_session ? target->given_session : "S");
            kind_put_option(b, "--epic", target->given_epic ? target->given_epic : "E");
        }
        return;
    }
    buf_printf(b, " lock %s %s", verb, target->kind->name);
    if (target->kind->has_id)
        buf_printf(b, " %s", shell_word(&id, target->id));
}
