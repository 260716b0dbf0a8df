/* log_source.c - see log_source.h; S1, S2 and S3 are kept here. */
#include "proc/log_source.h"
#include "base/fs.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_SIZE = 2 * LOG_PIECE_MAX, /* a whole piece and the byte behind it always fit */
    BACK_SIZE = 16 << 10,
    STAMP_BACK_MAX = 1 << 20, /* how far back to search for the timestamp of the line in which a read continues */
    STAMP_MAX = 40,
};

/* ---- opening ---------------------------------------------------------------------------------------- */

/* The logical offset of the file's first byte (S1). The holder decides in the same way. */
static int64_t find_base(struct log_index *index, uint64_t inode, int64_t size)
{
    struct hold_index newest, own;
    if (!log_index_before(index, index->count, 0, &newest))
        return 0;
    if (log_index_before(index, index->count, inode, &own) && size >= own.offset - own.base)
        return own.base;
    return newest.offset; /* another file, or one that was cut: continues where the last one ended */
}

/* Follows no link, neither of the file nor of its directory. */
static int open_log(int process_dir, const char *file)
{
    int dir CLEANUP_FD = fs->openat(process_dir, HOLD_LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    return dir < 0 ? -1 : fs->openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
}

static int open_file(struct log_source *source, int process_dir, const char *name)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "%s.log", name);
    source->fd = open_log(process_dir, path);
    if (source->fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (fs->fstat(source->fd, &st) < 0)
        return -1;
    source->inode = st.st_ino;
    snprintf(path, sizeof path, "%s.idx", name);
    if (log_index_open(&source->index, process_dir, path) < 0 || fs->fstat(source->fd, &st) < 0)
        return -1;
    source->base = find_base(&source->index, source->inode, st.st_size);
    source->end = source->base + st.st_size;
    source->mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    source->block = calloc(1, BLOCK_SIZE + 1); /* ends with NUL, for those who look for it all the same */
    return source->block ? 0 : -1;
}

int log_source_open(struct log_source *source, int process_dir, const char *name, enum log_stream stream)
{
    *source = (struct log_source){.fd = -1, .stream = stream, .index.fd = -1};
    if (process_dir < 0)
        return 0;
    if (open_file(source, process_dir, name) == 0)
        return log_source_seek(source, source->base, source->end, false);
    int saved = errno;
    log_source_clear(source);
    errno = saved;
    return -1;
}

void log_source_clear(struct log_source *source)
{
    fs_close(&source->fd);
    log_index_clear(&source->index);
    free(source->block);
    source->block = NULL;
}

/* ---- bytes ------------------------------------------------------------------------------------------ */

ssize_t log_source_pread(const struct log_source *source, char *data, size_t len, int64_t offset)
{
    ssize_t n;
    if (source->fd < 0 || offset < source->base || offset >= source->end)
        return 0;
    if ((int64_t)len > source->end - offset)
        len = (size_t)(source->end - offset);
    do
        n = fs->pread(source->fd, data, len, offset - source->base);
    while (n < 0 && errno == EINTR);
    return n;
}

/* The first byte from `offset` on that is there; source->end if there is none. */
static int64_t next_data(const struct log_source *source, int64_t offset)
{
    off_t data = source->fd < 0 ? -1 : lseek(source->fd, offset - source->base, SEEK_DATA);
    if (data >= 0)
        return source->base + data;
    return source->fd < 0 || errno == ENXIO ? source->end : offset; /* EINVAL: a file system without holes */
}

int64_t log_source_oldest(const struct log_source *source)
{
    int64_t data = next_data(source, source->base);
    return data < source->end ? data : source->end;
}

int log_source_line_start(struct log_source *source, int64_t offset, int64_t low, int64_t *ret)
{
    char block[BACK_SIZE];
    int64_t at = offset < source->end ? offset : source->end;
    low = low > source->base ? low : source->base;
    while (at > low) {
        int64_t from = at - low > BACK_SIZE ? at - BACK_SIZE : low;
        ssize_t n = log_source_pread(source, block, (size_t)(at - from), from);
        if (n < 0)
            return -1;
        int64_t data = next_data(source, from); /* S2 */
        if (data >= from + n)
            break;
        const char *newline = memrchr(block + (data - from), '\n', (size_t)(from + n - data));
        at = newline ? from + (newline - block) + 1 : data;
        if (newline || data > from)
            break;
    }
    *ret = at;
    return 0;
}

/* ---- lines ------------------------------------------------------------------------------------------ */

bool log_stamp_parse(const char *text, size_t len, int64_t *ret_ms, enum log_stream *ret_stream, size_t *ret_len)
{
    char time[STAMP_MAX];
    const char *blank = memchr(text, ' ', len < STAMP_MAX ? len : STAMP_MAX - 1);
    size_t time_len = blank ? (size_t)(blank - text) : 0;
    if (!blank || time_len >= sizeof time || len < time_len + 5 || text[time_len + 4] != ' ')
        return false;
    bool is_err = memcmp(blank + 1, "err", 3) == 0;
    if (!is_err && memcmp(blank + 1, "out", 3) != 0)
        return false;
    memcpy(time, text, time_len);
    time[time_len] = '\0';
    if (time_parse(time, ret_ms) < 0)
        return false;
    *ret_stream = is_err ? LOG_STDERR : LOG_STDOUT;
    *ret_len = time_len + 5;
    return true;
}

int64_t log_source_time(struct log_source *source, int64_t end)
{
    struct hold_index record;
    for (; source->record < source->index.count; source->record++)
        if (log_index_get(&source->index, source->record, &record) && record.offset >= end)
            return record.time_ms;
    bool has_record = log_index_before(&source->index, source->index.count, 0, &record);
    return has_record && record.time_ms > source->mtime_ms ? record.time_ms : source->mtime_ms;
}

/* Mode stamped: the stamp of the line that reading continues with says whose it is. A line without one, which a crash may leave,
 * belongs to the line before it. */
static int find_stamp(struct log_source *source)
{
    char text[STAMP_MAX], before = '\n';
    int64_t start = source->at, lowest = source->at - STAMP_BACK_MAX, last;
    size_t len;
    if (source->stream != LOG_BOTH || source->at == source->base)
        return 0;
    if (log_source_pread(source, &before, 1, source->at - 1) < 0)
        return -1;
    source->is_inside = before != '\n';
    if (source->is_inside && log_source_line_start(source, source->at, lowest, &start) < 0)
        return -1;
    do {
        ssize_t n = log_source_pread(source, text, sizeof text, start);
        if (n < 0)
            return -1;
        if (log_stamp_parse(text, (size_t)n, &source->stamp_ms, &source->stamp_stream, &len))
            return 0;
        last = start;
        if (start > source->base && start > lowest && log_source_line_start(source, start - 1, lowest, &start) < 0)
            return -1;
    } while (start < last);
    return 0;
}

int log_source_seek(struct log_source *source, int64_t from, int64_t stop, bool skips_torn)
{
    source->at = from < source->base ? source->base : from > source->end ? source->end : from;
    source->stop = stop < source->at ? source->at : stop > source->end ? source->end : stop;
    source->start = source->filled = 0;
    source->is_cut = skips_torn && source->at > source->base && next_data(source, source->at - 1) >= source->at;
    source->is_inside = false;
    source->record = log_index_by_offset(&source->index, source->at + 1);
    source->stamp_ms = -1;
    source->stamp_stream = LOG_STDOUT;
    return source->fd < 0 || source->is_cut ? 0 : find_stamp(source);
}

/* How many of the `len` bytes from `at` on are there: the child may have made a hole itself. */
static size_t data_length(const struct log_source *source, int64_t at, size_t len)
{
    off_t from = at - source->base, hole = lseek(source->fd, from, SEEK_HOLE);
    return hole > from && hole - from < (off_t)len ? (size_t)(hole - from) : len;
}

enum fill { FILL_FAILED = -1, FILL_END, FILL_MORE, FILL_HOLE };

/* More bytes into the block. FILL_HOLE: what follows those that are there was dropped. */
static enum fill source_fill(struct log_source *source)
{
    memmove(source->block, source->block + source->start, source->filled - source->start);
    source->filled -= source->start;
    source->start = 0;
    for (;;) {
        int64_t at = source->at + (int64_t)source->filled;
        size_t room = BLOCK_SIZE - source->filled;
        if (at >= source->stop)
            return FILL_END;
        if ((int64_t)room > source->stop - at)
            room = (size_t)(source->stop - at);
        ssize_t n = log_source_pread(source, source->block + source->filled, room, at);
        if (n <= 0)
            return n < 0 ? FILL_FAILED : FILL_END;
        int64_t data = next_data(source, at); /* S2 */
        if (data <= at) {
            source->filled += data_length(source, at, (size_t)n);
            return FILL_MORE;
        }
        if (source->filled)
            return FILL_HOLE;
        source->at = data < source->stop ? data : source->stop;
        source->is_cut = true;
        source->is_inside = false;
    }
}

/* LOG_PIECE_MAX, or a little less so that no character is cut in two. */
static size_t piece_length(const char *text)
{
    for (size_t back = 1; back <= 3; back++) {
        unsigned char c = (unsigned char)text[LOG_PIECE_MAX - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (need > back)
            return LOG_PIECE_MAX - back;
        if (need > 1 || c < 0x80)
            break;
    }
    return LOG_PIECE_MAX;
}

static void source_consume(struct log_source *source, size_t len)
{
    source->start += len;
    source->at += (int64_t)len;
}

static void read_stamp(struct log_source *source, struct log_item *item)
{
    size_t len;
    if (item->starts_line &&
        log_stamp_parse(item->line.text, item->line.len, &source->stamp_ms, &source->stamp_stream, &len)) {
        item->line.text += len;
        item->line.len -= len;
    }
    item->line.stream = source->stamp_stream;
    if (source->stamp_ms >= 0)
        item->line.time_ms = source->stamp_ms;
}

static int source_give(struct log_source *source, size_t len, bool has_newline, bool ends_line, struct log_item *ret)
{
    int64_t next = source->at + (int64_t)len + has_newline;
    *ret = (struct log_item){.line = {.stream = source->stream,
                                      .offset = source->at,
                                      .next = next,
                                      .time_ms = log_source_time(source, next),
                                      .text = source->block + source->start,
                                      .len = len,
                                      .is_partial = !has_newline},
                             .next = next,
                             .starts_line = !source->is_inside,
                             .ends_line = ends_line};
    if (source->stream == LOG_BOTH)
        read_stamp(source, ret);
    source->is_inside = !ends_line;
    source_consume(source, len + has_newline);
    return 1;
}

/* A stamped line of which not even the stamp is there yet belongs to nobody. */
static bool is_readable(const struct log_source *source, const char *text, size_t len)
{
    int64_t ms;
    enum log_stream stream;
    size_t stamp;
    return source->stream != LOG_BOTH || source->is_inside || len > STAMP_MAX ||
           log_stamp_parse(text, len, &ms, &stream, &stamp);
}

/* Skips the rest of a line whose beginning was dropped; a line without an end in sight is shown from here on. */
static void skip_torn(struct log_source *source, size_t line_len)
{
    if (line_len <= LOG_PIECE_MAX)
        source_consume(source, line_len + 1);
    source->is_cut = false;
}

int log_source_next(struct log_source *source, bool whole_lines, struct log_item *ret)
{
    while (source->fd >= 0) {
        const char *text = source->block + source->start;
        size_t len = source->filled - source->start;
        const char *newline = len ? memchr(text, '\n', len) : NULL;
        size_t line_len = newline ? (size_t)(newline - text) : len;
        if (source->is_cut && (newline || len > LOG_PIECE_MAX)) {
            skip_torn(source, line_len);
            continue;
        }
        if (!source->is_cut && line_len > LOG_PIECE_MAX)
            return source_give(source, piece_length(text), false, false, ret);
        if (!source->is_cut && newline)
            return source_give(source, line_len, true, true, ret);
        enum fill more = source_fill(source);
        if (more == FILL_FAILED)
            return -1;
        if (more == FILL_MORE)
            continue;
        if (len == 0)
            return 0;
        source->is_cut = false;
        text = source->block + source->start;
        if (more == FILL_END && (whole_lines || !is_readable(source, text, len)))
            return 0;
        return source_give(source, len, false, true, ret);
    }
    return 0;
}
