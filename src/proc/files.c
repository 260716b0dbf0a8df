#include "proc/files.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/listing.h"
#include "base/lockers.h"
#include "base/word.h"
#include "hold/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROC_GUARD_NAME    ".guard"
#define PROC_GUARD_WAIT_MS 10000
#define PROC_RECORD_MAX    8192
#define HISTORY_READ_MAX   (4u << 20)
#define HISTORY_HEADER     "{\"base\":"

int proc_dir_open(int processes, const char *id, bool is_new)
{
    if (is_new && fs->mkdirat(processes, id, 0700 | FS_KEEP) < 0 && errno != EEXIST)
        return -1;
    return fs->openat(processes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

void proc_mark(int dir, char mark[PROC_MARK_SIZE])
{
    struct stat st = {0};
    fs->fstat(dir, &st);
    snprintf(mark, PROC_MARK_SIZE, "%llx:%llx", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
}

/* ---- locks -------------------------------------------------------------------------------------------------- */

/* Retries, first at once and then every few milliseconds: these locks are held only for a moment. */
static int lock_within(int fd, off_t start, int64_t wait_ms)
{
    int64_t deadline = clock_now().boot_ms + wait_ms;
    for (int64_t pause = 0;; pause = pause < 8 ? pause + 1 : 8) {
        if (fs_lock_try(fd, F_WRLCK, start, 1) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -1;
        if (clock_now().boot_ms >= deadline)
            return errno = EAGAIN, -1;
        clock_nap(pause ? pause : 1);
    }
}

/* One byte per id; two ids that share one only wait for each other. */
static off_t guard_byte(const char *id)
{
    return (off_t)(text_hash(HASH_BEGIN, id) >> 2);
}

int proc_guard_take(struct proc_registry *reg, const char *id, bool is_trying, struct proc_guard *guard,
                    struct tsk_error *err)
{
    *guard = (struct proc_guard){.fd = -1};
    int fd CLEANUP_FD = fs->openat(reg->dir, PROC_GUARD_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fs_error(err, "open", reg->dir, PROC_GUARD_NAME);
    signals_hold(&guard->saved);
    if (lock_within(fd, guard_byte(id), is_trying ? 0 : PROC_GUARD_WAIT_MS) == 0) {
        guard->fd = fd;
        fd = -1;
        return 0;
    }
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &guard->saved, NULL);
    errno = number;
    if (number == EAGAIN && is_trying)
        return 1;
    if (number != EAGAIN)
        return fs_error(err, "lock", reg->dir, PROC_GUARD_NAME);
    pid_t pid = 0;
    lockers_find(fd, guard_byte(id), F_WRLCK, &pid, 1);
    lockers_refuse(pid, TSK_CONFLICT, "process_busy_by", "process_busy", err);
    error_add(err, "id", id);
    return -1;
}

void proc_guard_drop(struct proc_guard *guard)
{
    if (guard->fd < 0)
        return;
    fs_close(&guard->fd);
    guard->fd = -1;
    pthread_sigmask(SIG_SETMASK, &guard->saved, NULL);
}

int proc_holder_lock(int dir, int64_t wait_ms)
{
    int fd CLEANUP_FD = fs->openat(dir, HOLD_LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || lock_within(fd, 0, wait_ms) < 0)
        return -1;
    int locked = fd;
    fd = -1;
    return locked;
}

bool proc_holder_is_there(int dir)
{
    int fd CLEANUP_FD = fs->openat(dir, HOLD_LOCK_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    return fd >= 0 && fs_lock_probe(fd, F_WRLCK, 0, 1, NULL) == 1;
}

/* ---- want --------------------------------------------------------------------------------------------------- */

int proc_want_read(int dir, struct proc_want *ret)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    *ret = (struct proc_want){.is_down = false};
    if (fs->fstatat(dir, HOLD_WANT_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (S_ISREG(st.st_mode) && st.st_size == (off_t)strlen(HOLD_WANT_UP)) /* the only word that short */
        return 0;
    if (fs_read_file(dir, HOLD_WANT_NAME, 64, &text) < 0)
        return -1;
    *ret = (struct proc_want){.is_down = strncmp(buf_str(&text), "down", 4) == 0};
    if (!ret->is_down)
        return 0;
    char *end;
    ret->grace_ms = strtoll(buf_str(&text) + 4, &end, 10);
    ret->is_shutdown = strncmp(end, " shutdown", 9) == 0;
    return 0;
}

/* A full disk has no room for a new file, but the old one can be overwritten: a stop must be possible. */
static int overwrite_file(int dir, const char *name, const char *text, size_t len)
{
    int fd CLEANUP_FD = fs->openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 || fs->pwrite(fd, text, len, 0) != (ssize_t)len)
        return -1;
    return fs->ftruncate(fd, (off_t)len);
}

/* What root says must be readable for the holder of somebody else's process. The directory keeps everybody else out. */
static mode_t mode_of_word(int dir)
{
    struct stat st;
    return geteuid() == 0 && fs->fstat(dir, &st) == 0 && st.st_uid != 0 ? 0644 : 0600;
}

int proc_want_write(int dir, const struct proc_want *want, struct tsk_error *err)
{
    char text[64];
    if (want->is_down)
        snprintf(text, sizeof text, "down %" PRId64 "%s\n", want->grace_ms, want->is_shutdown ? " shutdown" : "");
    else
        snprintf(text, sizeof text, HOLD_WANT_UP);
    if (fs_replace_file(dir, HOLD_WANT_NAME, mode_of_word(dir), text, strlen(text)) == 0)
        return 0;
    int number = errno;
    if ((number == ENOSPC || number == EDQUOT) && overwrite_file(dir, HOLD_WANT_NAME, text, strlen(text)) == 0)
        return 0;
    errno = number; /* that there is nothing to overwrite is not the reason */
    return fs_error(err, "write", dir, HOLD_WANT_NAME);
}

/* ---- starts and their end ------------------------------------------------------------------------------------ */

static void record_copy_text(const json_t *object, const char *key, char *text, size_t size)
{
    snprintf(text, size, "%s", json_get_string(object, key, ""));
}

static void read_identity(const json_t *record, const json_t *process, struct proc_id *ret)
{
    *ret = (struct proc_id){.pid = (pid_t)json_get_int(process, "pid", 0),
                            .start_ticks = (uint64_t)json_get_int(process, "start_ticks", 0),
                            .pid_ns = (uint64_t)json_get_int(record, "pid_ns", 0)};
    record_copy_text(record, "boot_id", ret->boot_id, sizeof ret->boot_id);
}

static void read_start(const json_t *record, struct proc_status *ret)
{
    ret->n = json_get_int(record, "n", 0);
    ret->started_at_ms = json_get_int(record, "started_at_ms", 0);
    ret->stdout_offset = json_get_int(record, "stdout_offset", 0);
    ret->stderr_offset = json_get_int(record, "stderr_offset", 0);
    record_copy_text(record, "start_id", ret->start_id, sizeof ret->start_id);
    record_copy_text(record, "log", ret->log, sizeof ret->log);
}

static void read_end(const json_t *record, struct proc_status *ret)
{
    const json_t *end = json_object_get(record, "exit");
    ret->restarts = json_get_int(record, "restarts", 0);
    ret->retries = json_get_int(record, "retries", 0);
    ret->next_start_ms = json_get_int(record, "next_start_ms", 0);
    ret->is_adopted = json_get_bool(record, "adopted", false);
    record_copy_text(record, "phase", ret->phase, sizeof ret->phase);
    ret->has_ended = json_is_object(end);
    ret->raw_status = (int)json_get_int(end, "status", -1);
    ret->stopped_at_ms = json_get_int(end, "stopped_at_ms", 0);
    record_copy_text(end, "by", ret->by, sizeof ret->by);
    record_copy_text(end, "reason", ret->reason, sizeof ret->reason);
}

/* 1 and the object; 0 if there is no such file, or nothing in it that can be read. */
static int read_record_file(int dir, const char *name, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored; /* it may be half overwritten: the caller reads it again */
    if (fs_read_file(dir, name, PROC_RECORD_MAX, &text) < 0)
        return errno == EACCES || errno == EIO || errno == ENOMEM || errno == EMFILE || errno == ENFILE
                   ? fs_error(err, "read", dir, name)
                   : 0; /* none, or something that is no record: a directory, a link, far too long */
    if (text.len == 0 || json_parse(buf_str(&text), text.len, name, ret, &ignored) < 0)
        return 0;
    if (json_is_object(*ret))
        return 1;
    json_decref(*ret);
    *ret = NULL;
    return 0;
}

int proc_status_read(int dir, struct proc_status *ret, struct tsk_error *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct stat st;
    int found = read_record_file(dir, HOLD_STATUS_NAME, &record, err);
    if (found == 0 && fs->fstatat(dir, HOLD_STATUS_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        clock_nap(
            1); /* on a full disk the record is overwritten in place (R1 of hold/record.c), so a read may find half of it */
        found = read_record_file(dir, HOLD_STATUS_NAME, &record, err);
    }
    if (found != 1)
        return found;
    *ret = (struct proc_status){.n = 0};
    read_start(record, ret);
    read_end(record, ret);
    read_identity(record, json_object_get(record, "child"), &ret->child);
    read_identity(record, json_object_get(record, "holder"), &ret->holder);
    return ret->n > 0;
}

static void put_end(struct buf *b, const struct proc_status *status)
{
    buf_json_key(b, "exit");
    if (!status->has_ended) {
        buf_puts(b, "null");
        return;
    }
    buf_puts(b, "{");
    buf_json_pair_int(b, "status", status->raw_status);
    buf_json_pair_int(b, "stopped_at_ms", status->stopped_at_ms);
    buf_json_pair(b, "by", status->by);
    buf_json_pair(b, "reason", status->reason);
    buf_puts(b, "}");
}

static void put_process(struct buf *b, const char *key, const struct proc_id *id)
{
    buf_json_key(b, key);
    buf_printf(b, "{\"pid\":%d,\"start_ticks\":%" PRIu64 "}", (int)id->pid, id->start_ticks);
}

int proc_status_write(int dir, const struct proc_status *status, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&b, "{");
    buf_json_pair_int(&b, "version", 1);
    buf_json_pair_int(&b, "n", status->n);
    buf_json_pair(&b, "start_id", status->start_id);
    buf_json_pair(&b, "boot_id", status->child.boot_id);
    buf_json_pair_int(&b, "pid_ns", (int64_t)status->child.pid_ns);
    put_process(&b, "holder", &status->holder);
    put_process(&b, "child", &status->child);
    buf_json_pair_int(&b, "started_at_ms", status->started_at_ms);
    buf_json_pair(&b, "phase", status->phase);
    buf_json_pair_int(&b, "restarts", status->restarts);
    buf_json_pair_int(&b, "retries", status->retries);
    buf_json_pair_int(&b, "next_start_ms", status->next_start_ms);
    buf_json_pair(&b, "log", status->log);
    buf_json_pair_int(&b, "stdout_offset", status->stdout_offset);
    buf_json_pair_int(&b, "stderr_offset", status->stderr_offset);
    put_end(&b, status);
    buf_puts(&b, "}\n");
    if (b.failed)
        return error_set(err, TSK_INTERNAL, NULL, NULL);
    return fs_replace_file(dir, HOLD_STATUS_NAME, 0600, b.data, b.len) < 0
               ? fs_error(err, "write", dir, HOLD_STATUS_NAME)
               : 0;
}

void proc_start_name(int64_t n, char name[40])
{
    snprintf(name, 40, HOLD_RUN_LOCK, (long long)n);
}

int proc_start_read(int dir, int64_t n, struct proc_status *ret, bool *ret_has_identity, bool *ret_is_held,
                    struct tsk_error *err)
{
    char name[40];
    json_t *record CLEANUP_JSON = NULL;
    proc_start_name(n, name);
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : fs_error(err, "open", dir, name);
    int held = fs_lock_probe(fd, F_WRLCK, 0, 1, NULL);
    if (held < 0)
        return fs_error(err, "look at", dir, name);
    int found = read_record_file(dir, name, &record, err);
    if (found < 0)
        return -1;
    *ret = (struct proc_status){.n = n};
    *ret_is_held = held == 1;
    *ret_has_identity = found == 1 && json_get_int(record, "n", 0) == n;
    if (*ret_has_identity) {
        read_start(record, ret);
        read_identity(record, record, &ret->child);
    }
    return 1;
}

int proc_start_lock(int dir, int64_t n, struct tsk_error *err)
{
    char name[40];
    proc_start_name(n, name);
    if (fs->unlinkat(dir, name, 0) < 0 && errno != ENOENT) /* of a start that came to nothing */
        return fs_error(err, "remove", dir, name);
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fs_lock_try(fd, F_WRLCK, 0, 1) < 0)
        return fs_error(err, "lock", dir, name);
    int locked = fd;
    fd = -1;
    return locked;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

size_t proc_starts_list(int dir, int64_t *ret, size_t max)
{
    size_t count = 0;
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, ".", 0);
    for (const char *name; count < max && (name = listing_next(&names));) {
        char *end;
        if (strncmp(name, "run.", 4) != 0)
            continue;
        int64_t n = strtoll(name + 4, &end, 10);
        if (n > 0 && strcmp(end, ".lock") == 0)
            ret[count++] = n;
    }
    qsort(ret, count, sizeof *ret, compare_numbers);
    return count;
}

/* ---- history ------------------------------------------------------------------------------------------------- */

int proc_history_put(int dir, const struct now *now, const char *what, int64_t n, const char *rest,
                     struct tsk_error *err)
{
    char line[512];
    struct stat st;
    int fd CLEANUP_FD =
        fs->openat(dir, HOLD_HISTORY_NAME, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return fs_error(err, "open", dir, HOLD_HISTORY_NAME);
    int len = snprintf(line, sizeof line, "%s{\"time\":%" PRId64 ",\"what\":\"%s\",\"n\":%" PRId64 "%s}\n",
                       st.st_size ? "" : HISTORY_HEADER "0}\n", now->wall_ms, what, n, rest);
    BUG(len >= (int)sizeof line);
    return fs_write_all(fd, line, (size_t)len) < 0 ? fs_error(err, "write", dir, HOLD_HISTORY_NAME) : 0;
}

static int64_t history_base(int fd)
{
    char head[64] = "";
    ssize_t len = fs->pread(fd, head, sizeof head - 1, 0);
    if (len <= 0 || strncmp(head, HISTORY_HEADER, strlen(HISTORY_HEADER)) != 0)
        return 0;
    return strtoll(head + strlen(HISTORY_HEADER), NULL, 10);
}

int64_t proc_history_end(int dir)
{
    struct stat st;
    int fd CLEANUP_FD = fs->openat(dir, HOLD_HISTORY_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return 0;
    return history_base(fd) + st.st_size;
}

bool proc_history_ends_at(int dir, int64_t offset)
{
    struct stat st;
    bool is_whole = fs->fstatat(dir, HOLD_HISTORY_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                    st.st_size < HOLD_HISTORY_WHOLE;
    return (is_whole && st.st_size == offset) || proc_history_end(dir) == offset;
}

/* Each finished line of `text`; returns how many bytes they are. */
static size_t parse_lines(const char *text, size_t len, json_t *list)
{
    size_t at = 0;
    const char *newline;
    while ((newline = memchr(text + at, '\n', len - at))) {
        struct tsk_error ignored; /* a line that a crash has torn tells nothing */
        json_t *fact = NULL;
        size_t end = (size_t)(newline - text);
        if (end > at && json_parse(text + at, end - at, HOLD_HISTORY_NAME, &fact, &ignored) == 0 &&
            json_get_string(fact, "what", NULL))
            json_array_append(list, fact);
        json_decref(fact);
        at = end + 1;
    }
    return at;
}

int proc_history_read(int dir, int64_t from, json_t **ret, int64_t *ret_next, struct tsk_error *err)
{
    struct stat st = {0};
    json_t *list CLEANUP_JSON = json_array();
    int fd CLEANUP_FD = fs->openat(dir, HOLD_HISTORY_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 ? errno != ENOENT : fs->fstat(fd, &st) < 0)
        return fs_error(err, "read", dir, HOLD_HISTORY_NAME);
    int64_t base = fd < 0 ? 0 : history_base(fd), at = from > base ? from - base : 0;
    if (at > st.st_size)
        at = st.st_size; /* a power failure took what we had read already; what comes now is new */
    size_t len = (size_t)(st.st_size - at) < HISTORY_READ_MAX ? (size_t)(st.st_size - at) : HISTORY_READ_MAX;
    char *text = malloc(len + 1);
    ssize_t got = !text ? -1 : fd < 0 ? 0 : fs->pread(fd, text, len, at);
    size_t used = got > 0 ? parse_lines(text, (size_t)got, list) : 0;
    free(text);
    if (got < 0)
        return fs_error(err, "read", dir, HOLD_HISTORY_NAME);
    *ret_next = base + at + (int64_t)used;
    *ret = list;
    list = NULL;
    return 0;
}
