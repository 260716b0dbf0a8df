/* log_index.c - searching the index of a stream. It holds up to a megabyte of records; a search reads a few blocks of them. */
#include "base/fs.h"
#include "proc/log_source.h"

#include <errno.h>
#include <unistd.h>

#define OFFSET_MAX (INT64_MAX / 4) /* sums of two offsets never overflow, whatever is in the file */

int log_index_open(struct log_index *index, int process_dir, const char *name)
{
    struct stat st;
    *index = (struct log_index){.fd = -1};
    index->fd = fs->openat(process_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (index->fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (fs->fstat(index->fd, &st) < 0)
        return -1;
    index->count = st.st_size / (off_t)sizeof(struct hold_index);
    off_t data = lseek(index->fd, 0, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        data = st.st_size; /* all of it is punched */
    index->first = data > 0 ? data / (off_t)sizeof(struct hold_index) : 0;
    if (index->first > index->count)
        index->first = index->count;
    return 0;
}

void log_index_clear(struct log_index *index)
{
    fs_close(&index->fd);
}

static bool is_good(const struct hold_index *record)
{
    return record->inode && record->time_ms > 0 && record->time_ms < OFFSET_MAX && record->base >= 0 &&
           record->offset >= record->base && record->offset < OFFSET_MAX;
}

bool log_index_get(struct log_index *index, int64_t i, struct hold_index *ret)
{
    if (i < index->first || i >= index->count)
        return false;
    if (i < index->block_at || i >= index->block_at + (int64_t)index->block_count) {
        index->block_at = i - i % LOG_INDEX_BLOCK;
        ssize_t n = fs->pread(index->fd, index->block, sizeof index->block, index->block_at * (off_t)sizeof *ret);
        index->block_count = n > 0 ? (size_t)n / sizeof *ret : 0;
        if (i >= index->block_at + (int64_t)index->block_count)
            return false;
    }
    *ret = index->block[i - index->block_at];
    return is_good(ret);
}

bool log_index_before(struct log_index *index, int64_t i, uint64_t inode, struct hold_index *ret)
{
    while (--i >= index->first)
        if (log_index_get(index, i, ret) && (!inode || ret->inode == inode))
            return true;
    return false;
}

/* Bisection for the first record that is at least `wanted`. A record that is nonsense counts with the next good one. */
static int64_t index_find(struct log_index *index, int64_t wanted, bool by_time)
{
    int64_t low = index->first, high = index->count;
    while (low < high) {
        struct hold_index record = {0};
        int64_t middle = low + (high - low) / 2, i = middle;
        while (i < high && !log_index_get(index, i, &record))
            i++;
        if (i < high && (by_time ? record.time_ms : record.offset) < wanted)
            low = i + 1;
        else
            high = middle;
    }
    return low;
}

int64_t log_index_by_offset(struct log_index *index, int64_t offset)
{
    return index_find(index, offset, false);
}

int64_t log_index_by_time(struct log_index *index, int64_t time_ms)
{
    return index_find(index, time_ms, true);
}
