/* output.c - the log files, what is known about their growth, and dropping the oldest of it. Mode direct is here as a whole: the
 * child writes into the files itself, and we only look.
 *
 *  O1  An index record says: at this time the logical end was there. One is written at the first write after a quiet time, then
 *      at most once a second while the file grows.
 *  O2  In mode direct the look after a quiet time is caused by a one-shot F_NOTIFY on log/. It is armed again only when a second
 *      has passed without growth, and the sizes are looked at once more after that: a write is seen or it wakes us.
 *      Our own changes of the files (punching) come before arming, the index is outside of log/: we never wake ourselves.
 *  O3  Logical offsets only grow: a file that got shorter, or was replaced, continues with a base that is greater by what was lost.
 *  O4  Only whole blocks before the newest `log_max` bytes are dropped, so offsets in the file stay valid.
 *  O5  In mode direct it is the child whose writes fail on a full disk. An event reports it when a file has grown up to the
 *      last block; from then on it is checked every second. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define SPACE_LOOK_MS   1000
#define LOG_TIGHT_BYTES (1 << 20)
#define STEP_MIN        (64 << 10)
#define HOLD_INDEX_KEPT (1 << 20)
#define BLOCK_MIN       4096
#define RECORD_SIZE     ((int64_t)sizeof(struct hold_index))

_Static_assert(BLOCK_MIN % sizeof(struct hold_index) == 0, "a punched index begins with a whole record");

/* Drops the front of a file so that `keep` bytes stay, in steps that are worth it. -1: the file system has no holes. */
static int file_bound(int fd, int64_t size, int64_t keep, int64_t step, int64_t block, int64_t *front)
{
    if (size - *front <= keep + step)
        return 0;
    int64_t end = (size - keep) / block * block;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, *front, end - *front) < 0)
        return -1;
    *front = end;
    return 0;
}

static int file_copy(struct holder *h, int from, int64_t at, int64_t end, int to)
{
    while (at < end) {
        size_t want = end - at < (int64_t)sizeof h->data ? (size_t)(end - at) : sizeof h->data;
        ssize_t len = pread(from, h->data, want, at);
        if (len <= 0 || write(to, h->data, (size_t)len) != len)
            return -1;
        at += len;
    }
    return 0;
}

/* The same without holes, where we are the only writer: when there is twice as much as is to be kept, the newest half moves into
 * a new file. Its index record comes before its name (O3). */
static void log_file_shift(struct holder *h, struct log_file *f)
{
    char name[32], new_name[32];
    struct stat st;
    int64_t from = f->size - h->opt.log_max;
    if (h->mode == LOG_DIRECT || h->state == PUMPING || from < h->opt.log_max)
        return;
    snprintf(name, sizeof name, "%s.log", f->name);
    snprintf(new_name, sizeof new_name, "%s.new", f->name);
    int fd = file_make(h->log_dir, new_name, O_RDWR | O_TRUNC);
    if (fd < 0)
        return;
    const struct hold_index record = {clock_wall_ms(), f->base + f->size, f->base + from,
                                      fstat(fd, &st) == 0 ? st.st_ino : 0};
    if (file_copy(h, f->fd, from, f->size, fd) < 0 || write(f->index, &record, sizeof record) != RECORD_SIZE ||
        renameat(h->log_dir, new_name, h->log_dir, name) < 0) {
        unlinkat(h->log_dir, new_name, 0);
        close(fd);
        return;
    }
    close(f->fd);
    f->fd = fd;
    f->inode = record.inode;
    f->base = record.base;
    f->size -= from;
    f->front = 0;
    f->index_size += RECORD_SIZE;
}

void log_file_bound(struct holder *h, struct log_file *f)
{
    int64_t step = h->opt.log_max / 8 > STEP_MIN ? h->opt.log_max / 8 : STEP_MIN;
    if (file_bound(f->fd, f->size, h->opt.log_max, step, f->block, &f->front) < 0)
        log_file_shift(h, f);
}

/* Writes an index record for what is there now. */
static void log_file_note(struct log_file *f)
{
    const struct hold_index record = {clock_wall_ms(), f->base + f->size, f->base, f->inode};
    ssize_t done = write(f->index, &record, sizeof record);
    if (done == RECORD_SIZE) {
        f->noted = record.offset;
        f->index_size += RECORD_SIZE;
        file_bound(f->index, f->index_size, HOLD_INDEX_KEPT, STEP_MIN, BLOCK_MIN, &f->index_front);
    } else if (done > 0) {
        if (ftruncate(f->index, f->index_size) < 0)
            errno = 0; /* the readers skip to whole records */
    }
}

/* O3. Whether it was cut, by how much we now know. */
bool log_file_check_cut(struct holder *h, struct log_file *f, int64_t size)
{
    if (size >= f->size)
        return false;
    if (h->state != PUMPING)
        history_add(h, "truncated", h->run.n, ",\"stream\":\"%s\",\"lost\":%" PRId64, f->name, f->size);
    f->base += f->size;
    f->size = size;
    f->front = 0;
    return true;
}

/* What a file system says to be free may not be had by anybody (ext4 keeps some), so where little is left we ask for a block. */
static bool disk_is_full(const struct holder *h)
{
    struct statfs st;
    if (fstatfs(h->log_dir, &st) < 0 || (int64_t)st.f_bavail * (int64_t)st.f_bsize >= LOG_TIGHT_BYTES)
        return false;
    int fd = openat(h->log_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    bool is_full = (fd < 0 || fallocate(fd, 0, 0, BLOCK_MIN) < 0) && (errno == ENOSPC || errno == EDQUOT);
    if (fd >= 0)
        close(fd);
    return is_full;
}

/* O5 */
static void direct_check_full(struct holder *h, struct log_file *f)
{
    if (h->mode != LOG_DIRECT || disk_is_full(h) == f->is_full)
        return;
    f->is_full = !f->is_full;
    history_add(h, f->is_full ? "log_full" : "log_resumed", h->run.n, ",\"stream\":\"%s\"", f->name);
}

/* Looks at the size; notes growth. Whether there was any, or something else to look for again. */
static bool log_file_look(struct holder *h, struct log_file *f)
{
    struct stat st;
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return false;
    bool is_cut = log_file_check_cut(h, f, st.st_size), has_grown = f->base + st.st_size != f->noted;
    if (is_cut || has_grown) {
        f->size = st.st_size;
        log_file_note(f);
        log_file_bound(h, f);
    }
    if (has_grown || f->is_full)
        direct_check_full(h, f);
    return is_cut || has_grown || (f->is_full && h->mode == LOG_DIRECT);
}

static bool files_look(struct holder *h)
{
    bool has_grown = log_file_look(h, &h->files[0]);
    return log_file_look(h, &h->files[1]) || has_grown;
}

static bool direct_arm(struct holder *h)
{
    return fcntl(h->log_dir, F_SETSIG, SIGRTMIN) == 0 && fcntl(h->log_dir, F_NOTIFY, DN_MODIFY) == 0;
}

void output_look(struct holder *h)
{
    /* A holder that only pumps leaves the index to the holder in charge. */
    bool has_grown = (h->state != PUMPING || !lock_is_held(HOLD_FD_LOCK, 0)) && files_look(h);
    if (!has_grown && h->mode == LOG_DIRECT)
        /* Where there are no notifications, we have to look every second. */
        has_grown = !direct_arm(h) || files_look(h);
    holder_timer(h, TIMER_LOOK, has_grown ? SPACE_LOOK_MS : -1);
}

void output_grew(struct holder *h)
{
    if (h->due[TIMER_LOOK] == 0)
        output_look(h);
}

/* The newest record, and the newest of this file (inode 0: there is none). Torn records are cut off. */
static void index_read(struct holder *h, struct log_file *f, struct hold_index *ret_last, struct hold_index *ret_own)
{
    struct hold_index *const records = (struct hold_index *)(void *)h->text;
    const int64_t some = sizeof h->text / sizeof *records;
    *ret_last = *ret_own = (struct hold_index){0};
    for (int64_t end = f->index_size / RECORD_SIZE; end > 0;) {
        int64_t from = end > some ? end - some : 0;
        ssize_t len = pread(f->index, records, (size_t)((end - from) * RECORD_SIZE), from * RECORD_SIZE);
        for (int64_t i = len / RECORD_SIZE - 1; i >= 0; i--) {
            if (records[i].time_ms == 0)
                return;
            if (ret_last->time_ms == 0)
                *ret_last = records[i];
            if (records[i].inode == f->inode) {
                *ret_own = records[i];
                return;
            }
        }
        end = from;
    }
}

/* O3: the logical offset at which a file that was just opened continues. */
static void log_file_find_base(struct holder *h, struct log_file *f)
{
    struct hold_index last, own;
    index_read(h, f, &last, &own);
    f->noted = own.offset;
    f->base = own.base;
    f->lost = 0;
    if (own.time_ms && own.base + f->size >= own.offset)
        return;
    /* Another file, or a shorter one. The next look writes a record that says so. */
    f->noted = -1;
    f->base = last.offset;
    f->lost = last.offset - last.base;
}

static int index_open(struct holder *h, struct log_file *f)
{
    struct stat st;
    snprintf(h->text, sizeof h->text, "%s.idx", f->name);
    f->index = file_make(HOLD_FD_DIR, h->text, O_RDWR | O_APPEND);
    if (f->index < 0 || fstat(f->index, &st) < 0)
        return -1;
    f->index_size = st.st_size / RECORD_SIZE * RECORD_SIZE;
    f->index_front = 0;
    return st.st_size == f->index_size ? 0 : ftruncate(f->index, f->index_size);
}

static void log_file_close(struct log_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->index >= 0)
        close(f->index);
    f->fd = f->index = -1;
}

static int log_file_open(struct holder *h, struct log_file *f)
{
    struct stat st;
    log_file_close(f);
    if (index_open(h, f) < 0)
        return -1;
    snprintf(h->text, sizeof h->text, "%s.log", f->name);
    f->fd = file_make(h->log_dir, h->text, O_RDWR | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    f->inode = st.st_ino;
    f->size = st.st_size;
    f->block = st.st_blksize > BLOCK_MIN ? st.st_blksize : BLOCK_MIN;
    off_t front = lseek(f->fd, 0, SEEK_DATA);
    f->front = front > 0 ? front : 0;
    log_file_find_base(h, f);
    return 0;
}

/* Opens it the first time, and again when somebody has moved it away meanwhile. */
static int log_file_ready(struct holder *h, struct log_file *f)
{
    struct stat st;
    snprintf(h->text, sizeof h->text, "%s.log", f->name);
    if (f->fd >= 0 && fstatat(h->log_dir, h->text, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == f->inode)
        log_file_look(h, f);
    else if (log_file_open(h, f) < 0)
        return -1;
    return 0;
}

/* The child's descriptor: an open file description of its own, so that what it does to it stays with it. */
static int direct_open_child(struct holder *h, int i)
{
    snprintf(h->text, sizeof h->text, "%s.log", h->files[i].name);
    h->child_fd[i] = openat(h->log_dir, h->text, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    return h->child_fd[i] < 0 ? -1 : 0;
}

static int log_dir_open(struct holder *h)
{
    if (mkdirat(HOLD_FD_DIR, HOLD_LOG_DIR, 0700) < 0 && errno != EEXIST)
        return -1;
    h->log_dir = openat(HOLD_FD_DIR, HOLD_LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return h->log_dir < 0 ? -1 : 0;
}

static int files_open(struct holder *h)
{
    if (h->log_dir < 0 && log_dir_open(h) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        struct log_file *f = &h->files[i];
        if (f->name && log_file_ready(h, f) < 0)
            return -1;
        if (f->name)
            h->run.offset[i] = f->base + f->size;
        else
            h->run.offset[i] = h->run.offset[0];
        if (h->mode == LOG_DIRECT && !h->opt.adopt && direct_open_child(h, i) < 0)
            return -1;
    }
    return 0;
}

int output_open(struct holder *h)
{
    const char *stage = "log";
    int result = files_open(h);
    if (result == 0 && h->mode != LOG_DIRECT) {
        stage = h->mode == LOG_TTY ? "tty" : "pipe";
        result = pump_open(h);
    }
    if (result < 0) {
        h->failed_stage = stage;
        h->failed_errno = errno;
        output_close_child(h);
    }
    return result;
}

void output_close_child(struct holder *h)
{
    for (int i = 0; i < 2; i++) {
        if (h->child_fd[i] >= 0)
            close(h->child_fd[i]);
        h->child_fd[i] = -1;
    }
}

void output_begin(struct holder *h)
{
    for (int i = 0; i < 2; i++) {
        struct log_file *f = &h->files[i];
        if (f->name && f->lost > 0)
            history_add(h, "truncated", h->run.n, ",\"stream\":\"%s\",\"lost\":%" PRId64, f->name, f->lost);
        f->lost = 0;
    }
    /* So that the first byte, not the start, begins the second of O1. */
    files_look(h);
    output_grew(h);
}

void output_settle(struct holder *h)
{
    if (h->mode != LOG_DIRECT)
        pump_drain(h);
    files_look(h);
}
