/* log_compact.c - before a start: what the holder dropped goes out of the files' apparent size, index and history are bounded.
 *
 *  C1  Nothing is lost: a new file is written without a name, reaches the disk, gets the name <name>.new and then takes the
 *      old one's place. A crash leaves at most a <name>.new, which the next compaction removes.
 *  C2  The index has the record of the new inode before the rename (S1): whichever of the two files is found, its base is known.
 *  C3  A log is copied only when at least as many bytes were dropped as are kept, so a written byte is copied less than once.
 *
 * It is housekeeping: a failure is logged (base/log.h) and does not prevent the start. */
#include "base/fs.h"
#include "base/log.h"
#include "proc/files.h"
#include "proc/log_source.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COPY_SIZE = 256 << 10,
    DROPPED_MIN = 1 << 20, /* less is not worth the work */
    INDEX_MAX = 2 << 20,
    INDEX_KEPT = 512 << 10,
    HISTORY_MAX = 256 << 10,
    HISTORY_KEPT = 64 << 10,
    HISTORY_HEAD = 40, /* {"base":B} with blanks, so that its length does not depend on B */
};

/* ---- a log ------------------------------------------------------------------------------------------ */

static int copy_bytes(const struct log_source *source, int64_t from, int to)
{
    char *block CLEANUP_FREE = malloc(COPY_SIZE);
    int result = block ? 0 : -1;
    ssize_t n;
    for (int64_t at = from; result == 0 && at < source->end; at += n) {
        n = log_source_pread(source, block, COPY_SIZE, at);
        if (n == 0)
            errno = EIO; /* it was cut meanwhile: leave it alone */
        result = n <= 0 ? -1 : fs_write_all(to, block, (size_t)n);
    }
    return result < 0 || fs->fdatasync(to) < 0 ? -1 : 0;
}

/* C2. The times of what was written after the newest record are not made younger by it. */
static int index_add_record(int process_dir, const char *path, struct log_source *source, int64_t base, uint64_t inode)
{
    struct hold_index record = {
        .time_ms = log_source_time(source, source->end), .offset = source->end, .base = base, .inode = inode};
    struct stat st;
    int fd CLEANUP_FD = fs->openat(process_dir, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return -1;
    off_t end = st.st_size - st.st_size % (off_t)sizeof record; /* over a torn one */
    ssize_t n = fs->pwrite(fd, &record, sizeof record, end);
    if (n >= 0 && n < (ssize_t)sizeof record) {
        errno = ENOSPC;
        return -1;
    }
    return n < 0 ? -1 : fs->fdatasync(fd);
}

/* The kept bytes from `from` on as the new file. */
static int replace_log(int process_dir, int log_dir, const char *name, struct log_source *source, int64_t from)
{
    char private[FS_PRIVATE_NAME_MAX], path[64], new[64];
    struct stat st;
    snprintf(new, sizeof new, "%s.new", name);
    int fd CLEANUP_FD = fs_temp_open(log_dir, 0600, private);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "%s.idx", name);
    int result = copy_bytes(source, from, fd) < 0 || fs->fstat(fd, &st) < 0 ||
                         index_add_record(process_dir, path, source, from, st.st_ino) < 0 ||
                         fs_publish(fd, private, log_dir, new) < 0
                     ? -1
                     : 0;
    if (private[0])
        fs->unlinkat(log_dir, private, 0);
    snprintf(path, sizeof path, "%s.log", name);
    return result < 0 ? -1 : fs->renameat2(log_dir, new, log_dir, path, 0);
}

/* Behind the line whose beginning was dropped: the new file begins with a line. */
static int find_first_line(struct log_source *source, int64_t *ret)
{
    struct log_item item;
    if (log_source_seek(source, log_source_oldest(source), source->end, true) < 0)
        return -1;
    int rc = log_source_next(source, false, &item);
    *ret = rc > 0 ? item.line.offset : source->end;
    return rc < 0 ? -1 : 0;
}

static int compact_log(int process_dir, const char *name)
{
    char path[64];
    struct stat st;
    int64_t from;
    snprintf(path, sizeof path, HOLD_LOG_DIR "/%s.log", name);
    if (fs->fstatat(process_dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -1;
    if (st.st_size - (off_t)st.st_blocks * 512 < DROPPED_MIN) /* no hole that is worth it */
        return 0;
    struct log_source source CLEANUP(log_source_clear);
    if (log_source_open(&source, process_dir, name, LOG_STDOUT) < 0 || find_first_line(&source, &from) < 0)
        return -1;
    if (from - source.base < source.end - from) /* C3 */
        return 0;
    int log_dir CLEANUP_FD = fs->openat(process_dir, HOLD_LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    snprintf(path, sizeof path, "%s.new", name);
    if (log_dir < 0 || (fs->unlinkat(log_dir, path, 0) < 0 && errno != ENOENT))
        return -1;
    return replace_log(process_dir, log_dir, name, &source, from);
}

/* ---- index and history ------------------------------------------------------------------------------ */

/* 1 when the file is longer than max. */
static int is_longer(int process_dir, const char *path, off_t max)
{
    struct stat st;
    if (fs->fstatat(process_dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -1;
    return st.st_size > max;
}

/* The newest records, and behind them where the present file begins: that must not be forgotten. */
static size_t collect_records(struct log_source *source, struct hold_index *records, int64_t max)
{
    struct log_index *index = &source->index;
    size_t count = 0;
    for (int64_t i = index->count > max ? index->count - max : 0; i < index->count; i++)
        count += log_index_get(index, i, &records[count]);
    if (source->fd >= 0)
        records[count++] = (struct hold_index){.time_ms = log_source_time(source, source->end),
                                               .offset = source->end,
                                               .base = source->base,
                                               .inode = source->inode};
    return count;
}

static int shorten_index(int process_dir, const char *name)
{
    enum { COUNT = INDEX_KEPT / sizeof(struct hold_index) };
    char path[64];
    snprintf(path, sizeof path, "%s.idx", name);
    int is_long = is_longer(process_dir, path, INDEX_MAX);
    if (is_long <= 0)
        return is_long;
    struct log_source source CLEANUP(log_source_clear);
    if (log_source_open(&source, process_dir, name, LOG_STDOUT) < 0)
        return -1;
    struct hold_index *records CLEANUP_FREE = malloc((COUNT + 1) * sizeof *records);
    size_t count = records ? collect_records(&source, records, COUNT) : 0;
    return count ? fs_replace_file(process_dir, path, 0600, records, count * sizeof *records) : 0;
}

/* The last bytes of the history, from `text` on. */
static int read_history(int process_dir, char *text, size_t len)
{
    struct stat st;
    int fd CLEANUP_FD = fs->openat(process_dir, HOLD_HISTORY_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return -1;
    ssize_t n = fs->pread(fd, text, len, st.st_size - (off_t)len);
    if (n >= 0 && n < (ssize_t)len)
        errno = EIO;
    return n == (ssize_t)len ? 0 : -1;
}

/* Whole lines of the end, behind a first line that says where they were. */
static int shorten_history(int process_dir)
{
    char text[HISTORY_HEAD + HISTORY_KEPT], head[HISTORY_HEAD + 1];
    int is_long = is_longer(process_dir, HOLD_HISTORY_NAME, HISTORY_MAX);
    if (is_long <= 0)
        return is_long;
    if (read_history(process_dir, text + HISTORY_HEAD, HISTORY_KEPT) < 0)
        return -1;
    const char *newline = memchr(text + HISTORY_HEAD, '\n', HISTORY_KEPT);
    if (!newline)
        return 0; /* not written by us; better long than wrong */
    char *start = text + (newline + 1 - text) - HISTORY_HEAD;
    size_t len = (size_t)(text + sizeof text - start);
    long long base = (long long)proc_history_end(process_dir) - (long long)len;
    snprintf(head, sizeof head, "{\"base\":%-*lld}\n", HISTORY_HEAD - 10, base);
    memcpy(start, head, HISTORY_HEAD);
    return fs_replace_file(process_dir, HOLD_HISTORY_NAME, 0600, start, len);
}

/* ---- all of it -------------------------------------------------------------------------------------- */

static bool can_punch(int process_dir)
{
    char private[FS_PRIVATE_NAME_MAX];
    int fd CLEANUP_FD = fs_temp_open(process_dir, 0600, private);
    if (fd < 0)
        return false;
    bool result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
    if (private[0])
        fs->unlinkat(process_dir, private, 0);
    return result;
}

static void note_result(int result, const char *what, const char *name)
{
    struct tsk_error problem;
    if (result == 0)
        return;
    error_errno(&problem, what, name);
    log_problem(&problem);
}

int log_compact(int process_dir, bool has_writers, bool *ret_can_punch, struct tsk_error *err)
{
    static const char *const names[] = {"stdout", "stderr", "output"};
    (void)err; /* see above */
    *ret_can_punch = can_punch(process_dir);
    if (has_writers)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        note_result(compact_log(process_dir, names[i]), "compact", names[i]);
        note_result(shorten_index(process_dir, names[i]), "shorten", names[i]);
    }
    note_result(shorten_history(process_dir), "shorten", HOLD_HISTORY_NAME);
    return 0;
}
