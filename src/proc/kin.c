#include "proc/kin.h"

#include "base/listing.h"
#include "hold/protocol.h"
#include "proc/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN_MAX   (1u << 20)
#define KIN_EXEC_LOOKS 1000
#define EXEC_PAUSE_NS  100000
#define WORDS_BEGIN    "TASUKI_PROCESS_"

/* ---- keys ------------------------------------------------------------------------------------------------------ */

void kin_keys_clear(struct kin_keys *keys)
{
    free(keys->list);
    *keys = (struct kin_keys){.count = 0};
}

static char *key_new(struct kin_keys *keys, size_t owner)
{
    LIST_GROW(keys->list, keys->count, keys->room, 16);
    struct kin_key *key = &keys->list[keys->count++];
    key->owner = owner;
    return key->text;
}

static void put_lock(char text[KIN_KEY_SIZE], dev_t dev, ino_t ino)
{
    snprintf(text, KIN_KEY_SIZE, "lock %ju:%ju", (uintmax_t)dev, (uintmax_t)ino);
}

/* The leader's ticks: the number alone may be another session's later. */
static void put_session(char text[KIN_KEY_SIZE], pid_t leader, uint64_t ticks)
{
    snprintf(text, KIN_KEY_SIZE, "session %d:%" PRIu64, (int)leader, ticks);
}

void kin_key_word(struct kin_keys *keys, size_t owner, const char *name, const char *value)
{
    snprintf(key_new(keys, owner), KIN_KEY_SIZE, "%s=%s", name, value);
}

void kin_key_lock(struct kin_keys *keys, size_t owner, dev_t dev, ino_t ino)
{
    put_lock(key_new(keys, owner), dev, ino);
    keys->has_locks = true;
}

void kin_key_session(struct kin_keys *keys, size_t owner, const struct proc_id *leader)
{
    put_session(key_new(keys, owner), leader->pid, leader->start_ticks);
    keys->has_sessions = true;
}

void kin_keys_of_start(struct kin_keys *keys, size_t owner, const struct proc *p)
{
    char name[40];
    struct stat st;
    proc_start_name(p->view.n, name);
    if (*p->view.start_id)
        kin_key_word(keys, owner, HOLD_ENV_START, p->view.start_id);
    if (p->dir >= 0 && fs->fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        kin_key_lock(keys, owner, st.st_dev, st.st_ino);
    if (p->view.child.pid)
        kin_key_session(keys, owner, &p->view.child);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct kin_key *)a)->text, ((const struct kin_key *)b)->text);
}

static const struct kin_key *key_find(const struct kin_keys *keys, const char *text)
{
    struct kin_key key;
    if (strlen(text) >= sizeof key.text)
        return NULL;
    memcpy(key.text, text, strlen(text) + 1);
    return bsearch(&key, keys->list, keys->count, sizeof key, compare_keys);
}

/* ---- one process ------------------------------------------------------------------------------------------------ */

/* Fields of /proc/<pid>/stat, as proc(5) counts. */
enum { SESSION = 6, TICKS = 22, MEMORY = 23, CODE_START = 26, ENV_START = 50, ENV_END = 51, FIELDS = 52 };

static int stat_read(int dir, uint64_t fields[FIELDS])
{
    char text[1024];
    int fd CLEANUP_FD = fs->openat(dir, "stat", O_RDONLY | O_CLOEXEC, 0);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[len < 0 ? 0 : len] = '\0';
    const char *at = strrchr(text, ')'); /* the name may contain anything */
    for (int i = 3; i < FIELDS; i++) {
        at = at ? strchr(at + 1, ' ') : NULL;
        fields[i] = at ? strtoull(at, NULL, 10) : 0;
    }
    return len <= 0 ? -1 : 0;
}

/* N1. The kernel sets the place of the code after the bounds of the environment. */
static bool is_whole(const uint64_t fields[FIELDS], size_t len)
{
    return !fields[MEMORY] || (fields[CODE_START] && len == fields[ENV_END] - fields[ENV_START]);
}

static int environ_read(int dir, struct buf *text)
{
    uint64_t fields[FIELDS];
    for (int i = 0; i < KIN_EXEC_LOOKS; i++) {
        buf_reset(text);
        int fd CLEANUP_FD = fs->openat(dir, "environ", O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0 || fs_read_fd(fd, ENVIRON_MAX - 1, text) < 0)
            return -1;
        if (text->len || stat_read(dir, fields) < 0 || is_whole(fields, text->len))
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = EXEC_PAUSE_NS}, NULL);
    }
    return 0;
}

static const struct kin_key *key_of_environ(int dir, const struct kin_keys *keys)
{
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    const struct kin_key *found = NULL;
    if (environ_read(dir, &text) < 0)
        return NULL;
    buf_str(&text);
    for (size_t at = 0; !found && at < text.len; at += strlen(text.data + at) + 1)
        if (strncmp(text.data + at, WORDS_BEGIN, sizeof WORDS_BEGIN - 1) == 0)
            found = key_find(keys, text.data + at);
    return found;
}

/* Inherited, not opened: by its number. */
static const struct kin_key *key_of_lock(int dir, const struct kin_keys *keys)
{
    char name[24], text[KIN_KEY_SIZE];
    struct stat st;
    snprintf(name, sizeof name, "fd/%d", HOLD_FD_LIFE);
    if (fs->fstatat(dir, name, &st, 0) < 0)
        return NULL;
    put_lock(text, st.st_dev, st.st_ino);
    return key_find(keys, text);
}

/* A session keeps its number as long as it has members; while its leader lives, that has the same number and its ticks. */
static const struct kin_key *key_of_session(int proc, int dir, const struct kin_keys *keys)
{
    uint64_t fields[FIELDS], leader[FIELDS];
    char name[24], text[KIN_KEY_SIZE];
    if (stat_read(dir, fields) < 0 || !fields[SESSION])
        return NULL;
    snprintf(name, sizeof name, "%" PRIu64, fields[SESSION]);
    int at CLEANUP_FD = fs->openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (at < 0 || stat_read(at, leader) < 0)
        return NULL;
    put_session(text, (pid_t)fields[SESSION], leader[TICKS]);
    return key_find(keys, text);
}

static bool kin_is_holder(pid_t pid)
{
    char name[32];
    return proc_name(pid, name, sizeof name) == 0 && strcmp(name, "tasuki-hold") == 0;
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

void kin_list_clear(struct kin_list *list)
{
    free(list->list);
    *list = (struct kin_list){.count = 0};
}

static bool list_has(const struct kin_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].id.pid == pid)
            return true;
    return false;
}

static void list_add(struct kin_list *list, size_t owner, pid_t pid)
{
    struct kin one = {.owner = owner};
    if (kin_is_holder(pid) || proc_id_of(pid, &one.id) < 0)
        return;
    LIST_GROW(list->list, list->count, list->room, 64);
    list->list[list->count++] = one;
}

static void kin_consider(int proc, const char *name, const struct kin_keys *keys, struct kin_list *ret)
{
    pid_t pid = (pid_t)strtol(name, NULL, 10);
    if (pid <= 0 || pid == getpid())
        return;
    int dir CLEANUP_FD = fs->openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0)
        return;
    const struct kin_key *key = key_of_environ(dir, keys);
    if (!key && keys->has_locks)
        key = key_of_lock(dir, keys);
    if (!key && keys->has_sessions)
        key = key_of_session(proc, dir, keys);
    if (key)
        list_add(ret, key->owner, pid);
}

int kin_scan(struct kin_keys *keys, struct kin_list *ret, struct tsk_error *err)
{
    *ret = (struct kin_list){.count = 0};
    if (!keys->count)
        return 0;
    qsort(keys->list, keys->count, sizeof *keys->list, compare_keys);
    struct listing processes CLEANUP(listing_close);
    if (listing_open(&processes, AT_FDCWD, "/proc", 0) < 0)
        return error_errno(err, "read", "/proc");
    for (const char *name; (name = listing_next(&processes));)
        kin_consider(processes.fd, name, keys, ret);
    return 0;
}

/* ---- a running start ---------------------------------------------------------------------------------------------- */

/* false: this kernel does not tell who somebody's children are (CONFIG_PROC_CHILDREN). */
static bool add_children_of_thread(struct kin_list *list, pid_t pid, const char *thread)
{
    char path[NAME_MAX + 48], *at, *end;
    struct buf text CLEANUP(buf_clear) = {.max = CHILDREN_MAX};
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, thread);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_stream(fd, CHILDREN_MAX - 1, &text) < 0)
        return fd >= 0 || errno != ENOENT;
    buf_str(&text);
    at = text.data;
    for (pid_t child; at && (child = (pid_t)strtol(at, &end, 10)) > 0; at = end)
        if (!list_has(list, child))
            list_add(list, 0, child);
    return true;
}

static bool add_children(struct kin_list *list, pid_t pid)
{
    char path[40];
    bool is_told = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    struct listing threads CLEANUP(listing_close);
    listing_open(&threads, AT_FDCWD, path, 0);
    for (const char *thread; (thread = listing_next(&threads));)
        is_told = add_children_of_thread(list, pid, thread) && is_told;
    return is_told;
}

int kin_of_start(const struct proc *p, struct kin_list *ret, struct tsk_error *err)
{
    pid_t parent = 0;
    struct kin_keys keys CLEANUP(kin_keys_clear) = {.count = 0};
    bool is_told = true;
    *ret = (struct kin_list){.count = 0};
    if (p->view.child.pid && proc_id_liveness(&p->view.child) != LIVE_DEAD) {
        proc_parent(p->view.child.pid, &parent);
        list_add(ret, 0, p->view.child.pid);
    }
    bool is_adopted = parent && parent != p->view.holder.pid;
    if (p->view.has_holder && p->view.holder.pid)
        is_told = add_children(ret, p->view.holder.pid);
    for (size_t i = 0; is_told && i < ret->count; i++)
        is_told = add_children(ret, ret->list[i].id.pid) || i > 0;
    if (is_told && !is_adopted)
        return 0;
    struct kin_list others CLEANUP(kin_list_clear) = {.count = 0};
    kin_keys_of_start(&keys, 0, p);
    if (kin_scan(&keys, &others, err) < 0)
        return -1;
    for (size_t i = 0; i < others.count; i++)
        if (!list_has(ret, others.list[i].id.pid))
            list_add(ret, 0, others.list[i].id.pid);
    for (size_t i = 0; is_told && i < ret->count; i++)
        add_children(ret, ret->list[i].id.pid);
    return 0;
}
