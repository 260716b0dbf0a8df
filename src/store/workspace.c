#include "store/workspace.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "base/yaml.h"
#include "store/db.h"
#include "store/find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int workspace_open_at(const struct workspace_place *place, struct tsk_workspace **ret, struct tsk_error *err)
{
    struct tsk_workspace *ws = calloc(1, sizeof *ws);
    if (!ws)
        return error_no_memory(err, "open", place->root);
    memcpy(ws->root, place->root, sizeof ws->root);
    memcpy(ws->state_path, place->state_path, sizeof ws->state_path);
    ws->locks_dir = ws->guard_dir = -1;
    ws->state_dir = fs->openat(AT_FDCWD, place->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (ws->state_dir < 0) {
        error_errno(err, "open", place->state_path);
        free(ws);
        return -1;
    }
    pthread_mutex_init(&ws->mutex, NULL);
    event_trail_init(&ws->trail, ws->state_dir);
    *ret = ws;
    return 0;
}

int tsk_workspace_open(const char *root, struct tsk_workspace **ret, struct tsk_error *err)
{
    struct workspace_place place;
    if (workspace_find(root, &place, err) < 0)
        return -1;
    return workspace_open_at(&place, ret, err);
}

int tsk_workspace_create(const char *root, struct tsk_workspace **ret, struct tsk_error *err)
{
    struct workspace_place place;
    bool is_new;
    if (workspace_init(root, &place, &is_new, err) < 0)
        return -1;
    return workspace_open_at(&place, ret, err);
}

void tsk_workspace_close(struct tsk_workspace *ws)
{
    if (!ws)
        return;
    if (ws->on_close)
        ws->on_close(ws);
    if (ws->memo)
        ws->memo_free(ws->memo);
    event_trail_clear(&ws->trail);
    fs_close(&ws->guard_dir);
    fs_close(&ws->locks_dir);
    fs_close(&ws->state_dir);
    pthread_mutex_destroy(&ws->mutex);
    free(ws);
}

void workspace_cleanup(struct tsk_workspace **ws)
{
    tsk_workspace_close(*ws);
    *ws = NULL;
}

static int workspace_open_dir(int at, const char *name, struct tsk_error *err)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int fd = fs->openat(at, name, flags, 0);
    if (fd < 0 && errno == ENOENT) {
        if (fs->mkdirat(at, name, 0700) < 0 && errno != EEXIST)
            return fs_error(err, "create", at, name);
        fd = fs->openat(at, name, flags, 0);
    }
    return fd < 0 ? fs_error(err, "open", at, name) : fd;
}

int workspace_lock_dirs(struct tsk_workspace *ws, struct tsk_error *err)
{
    struct stat st;
    pthread_mutex_lock(&ws->mutex);
    if (ws->guard_dir >= 0 && fs->fstat(ws->guard_dir, &st) == 0 && st.st_nlink == 0) {
        fs_close(&ws->guard_dir); /* removed by hand under a process that lives on */
        fs_close(&ws->locks_dir);
    }
    if (ws->locks_dir < 0)
        ws->locks_dir = workspace_open_dir(ws->state_dir, "locks", err);
    if (ws->locks_dir >= 0 && ws->guard_dir < 0)
        ws->guard_dir = workspace_open_dir(ws->locks_dir, ".guard", err);
    int result = ws->guard_dir < 0 ? -1 : 0;
    pthread_mutex_unlock(&ws->mutex);
    return result;
}

int workspace_event(struct tsk_workspace *ws, const struct now *now, const struct event *event, struct tsk_error *err)
{
    pthread_mutex_lock(&ws->mutex);
    int result = event_append(&ws->trail, now, event, NULL, err);
    pthread_mutex_unlock(&ws->mutex);
    return result;
}

static int put_in_outbox(struct tsk_workspace *ws, const struct now *now, const struct event *event)
{
    struct db db;
    struct tsk_error ignored;
    if (db_open(&db, ws->state_dir, &ignored) < 0)
        return -1;
    int result = db_begin(&db, &ignored);
    if (result == 0)
        result = db_event(&db, now, event, &ignored) == 0 ? db_commit(&db, &ignored) : -1;
    db_rollback(&db);
    db_close(&db);
    return result;
}

int workspace_event_later(struct tsk_workspace *ws, const struct now *now, const struct event *event,
                          struct tsk_error *err)
{
    int result = workspace_event(ws, now, event, err);
    return result < 0 && err->sys_errno == 0 && put_in_outbox(ws, now, event) == 0 ? 0 : result;
}

void workspace_report(struct tsk_workspace *ws, struct event event, json_t *data)
{
    struct tsk_error problem;
    struct now now = clock_now();
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, data, false);
    event.data = buf_str(&text);
    if (workspace_event_later(ws, &now, &event, &problem) < 0)
        log_problem(&problem);
    json_decref(data);
}

int workspace_event_lines(struct tsk_workspace *ws, const char *lines, size_t len, struct tsk_error *err)
{
    pthread_mutex_lock(&ws->mutex);
    int result = event_append_line(&ws->trail, lines, len, err);
    pthread_mutex_unlock(&ws->mutex);
    return result;
}

int workspace_flush_outbox(struct tsk_workspace *ws, struct db *db, struct tsk_error *err)
{
    pthread_mutex_lock(&ws->mutex);
    int result = db_flush_outbox(db, &ws->trail, err);
    pthread_mutex_unlock(&ws->mutex);
    return result;
}

int workspace_config(struct tsk_workspace *ws, struct yaml **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(ws->state_dir, "config.yaml", YAML_SIZE_MAX, &text) < 0)
        return errno == ENOENT ? 0 : fs_error(err, "read", ws->state_dir, "config.yaml");
    return yaml_parse(buf_str(&text), text.len, ".aiflow/config.yaml", ret, err) < 0 ? -1 : 1;
}

int workspace_config_bool(struct tsk_workspace *ws, const char *key, bool *ret, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    int found = workspace_config(ws, &doc, err);
    const struct yaml_node *node = found == 1 ? yaml_get(yaml_root(doc), key) : NULL;
    *ret = false;
    if (node && yaml_bool(node, ret) < 0)
        return yaml_error(doc, node, err, "yaml_why_flag", "key", key, NULL);
    return found < 0 ? -1 : 0;
}

int config_need_keys(const struct yaml *doc, const struct yaml_node *section, const char *const *keys,
                     struct tsk_error *err)
{
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    size_t count = 0;
    if (!section || yaml_is_null(section)) /* all of it commented out */
        return 0;
    for (; keys[count]; count++)
        buf_printf(&all, "%s%s", count ? ", " : "", keys[count]);
    if (section->type != YAML_MAP)
        return yaml_error(doc, section, err, "yaml_why_map", "key", section->key, "keys", buf_str(&all), NULL);
    for (const struct yaml_node *node = section->first; node; node = node->next) {
        bool is_known = false;
        for (size_t i = 0; i < count; i++)
            is_known = is_known || strcmp(node->key, keys[i]) == 0;
        const char *near = is_known ? NULL : nearest_word(node->key, keys, count);
        struct yaml_node key = *node; /* the place is the key's: its value may be right */
        key.line = node->key_line;
        key.column = node->key_column;
        if (!is_known)
            return yaml_error(doc, &key, err, near ? "yaml_why_near" : "yaml_why_unknown", "key", section->key, "name",
                              node->key, "near", near, "keys", buf_str(&all), NULL);
    }
    return 0;
}

int workspace_config_word(struct tsk_workspace *ws, const char *section, const char *key, const char *const *choices,
                          unsigned *ret, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (workspace_config(ws, &doc, err) < 0)
        return -1;
    const struct yaml_node *map = doc ? yaml_get(yaml_root(doc), section) : NULL;
    if (config_need_keys(doc, map, (const char *const[]){key, NULL}, err) < 0)
        return -1;
    const struct yaml_node *node = map && map->type == YAML_MAP ? yaml_get(map, key) : NULL;
    const char *word = node ? yaml_text(node) : NULL;
    struct buf want CLEANUP(buf_clear) = BUF_INIT;
    for (unsigned i = 0; node && choices[i]; i++) {
        buf_printf(&want, "%s%s", i ? ", " : "", choices[i]);
        if (word && strcmp(word, choices[i]) == 0) {
            *ret = i;
            return 0;
        }
    }
    struct buf path CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&path, "%s.%s", section, key);
    return node ? yaml_error(doc, node, err, "yaml_why_word", "key", buf_str(&path), "choices", buf_str(&want), NULL)
                : 0;
}

static int refuse_locks_key(struct tsk_workspace *ws, const struct yaml_node *key, struct tsk_error *err)
{
    char place[64], path[PATH_MAX];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    snprintf(place, sizeof place, "config.yaml:%u:%u", key->key_line, key->key_column);
    error_set(err, TSK_INVALID_INPUT, "config_locks", "place", place, NULL);
    if (snprintf(path, sizeof path, "%s/config.yaml", ws->state_path) < (int)sizeof path)
        error_add_next(err, "${EDITOR:-vi} +%u %s", key->key_line, shell_word(&word, path));
    return -1;
}

int workspace_locks_are_local(struct tsk_workspace *ws, struct tsk_error *err)
{
    struct stat st;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (fs->fstatat(ws->state_dir, "config.yaml", &st, 0) < 0)
        return 0;
    pthread_mutex_lock(&ws->mutex);
    bool is_known = ws->config_seen.tv_sec == st.st_ctim.tv_sec && ws->config_seen.tv_nsec == st.st_ctim.tv_nsec &&
                    st.st_ctim.tv_sec;
    pthread_mutex_unlock(&ws->mutex);
    if (is_known)
        return 0;
    int found = workspace_config(ws, &doc, err);
    if (found < 0)
        return -1; /* a file that we cannot read may have the key */
    const struct yaml_node *key = found == 1 ? yaml_get(yaml_root(doc), "locks") : NULL;
    if (key)
        return refuse_locks_key(ws, key, err);
    pthread_mutex_lock(&ws->mutex);
    ws->config_seen = st.st_ctim;
    pthread_mutex_unlock(&ws->mutex);
    return 0;
}

/* Appends to .gitignore each of `lines` that it does not have yet. */
static int ensure_ignored(int dir, const char *const *lines, struct tsk_error *err)
{
    static const char name[] = ".gitignore";
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(dir, name, 4 << 20, &b) < 0 && errno != ENOENT)
        return fs_error(err, "read", dir, name);
    struct buf add CLEANUP(buf_clear) = BUF_INIT;
    if (b.len && b.data[b.len - 1] != '\n')
        buf_puts(&add, "\n");
    size_t before = add.len;
    for (; *lines; lines++) {
        size_t len = strlen(*lines);
        bool has = false;
        for (const char *at = buf_str(&b); !has && at; at = strchr(at, '\n')) {
            at += *at == '\n';
            has = strncmp(at, *lines, len) == 0 && (at[len] == '\n' || at[len] == '\0' || at[len] == '\r');
        }
        if (!has)
            buf_printf(&add, "%s\n", *lines);
    }
    if (add.len == before)
        return 0;
    int fd CLEANUP_FD = fs->openat(dir, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || fs_write_all(fd, add.data, add.len) < 0)
        return fs_error(err, "write", dir, name);
    return 0;
}

static const char *const state_ignore[] = {"*",           "!.gitignore", "!config.yaml", "!requests/",
                                           "!requests/*", "!flows/",     "!flows/*",     NULL};
static const char *const project_ignore[] = {"/.sprint-running", "/.sprint-running.tmp", NULL};

int workspace_make_state(const struct workspace_place *place, struct tsk_error *err)
{
    if (fs->mkdirat(AT_FDCWD, place->state_path, 0700) < 0 && errno != EEXIST)
        return error_errno(err, "create", place->state_path);
    int state CLEANUP_FD = fs->openat(AT_FDCWD, place->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (state < 0)
        return error_errno(err, "open", place->state_path);
    return ensure_ignored(state, state_ignore, err);
}

static int create_state(const struct workspace_place *place, struct tsk_error *err)
{
    static const char *const dirs[] = {"requests", "flows", "locks", "locks/.guard", "runs", "processes"};
    int state CLEANUP_FD = fs->openat(AT_FDCWD, place->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (state < 0)
        return error_errno(err, "open", place->state_path);
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        if (fs_make_dirs(state, dirs[i]) < 0)
            return fs_error(err, "create", state, dirs[i]);
    if (ensure_ignored(state, state_ignore, err) < 0)
        return -1;
    int root CLEANUP_FD = fs->openat(AT_FDCWD, place->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (root < 0)
        return error_errno(err, "open", place->root);
    /* A bare repository has no project files to ignore. */
    if (strncmp(place->state_path + strlen(place->root), "/tasuki", 7) == 0)
        return 0;
    return ensure_ignored(root, project_ignore, err);
}

int workspace_init(const char *root, struct workspace_place *ret, bool *ret_created, struct tsk_error *err)
{
    struct workspace_place place;
    if (workspace_place_new(root, &place, err) < 0)
        return -1;
    bool created = fs->mkdirat(AT_FDCWD, place.state_path, 0700) == 0;
    if (!created && errno != EEXIST)
        return error_errno(err, "create", place.state_path);
    if (create_state(&place, err) < 0)
        return -1;
    *ret = place;
    *ret_created = created;
    return 0;
}
