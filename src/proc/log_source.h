/* log_source.h - one output file of a process, as lines with logical offsets and times. Internal to log.h's module.
 *
 * Invariants
 *  S1  The file is opened before its index is read, and its size is taken after. A compaction writes the new inode's record
 *      before it renames, so the base of whatever was opened is in the index; a file that is shorter than its newest record
 *      says was cut by the child since, and continues at that record's offset.
 *  S2  Bytes are used only after a check that they were still there: pread first, then SEEK_DATA. Old bytes are dropped from
 *      the front, so a block whose first byte is kept was kept as a whole when it was read.
 *  S3  Nothing beyond the size at the opening is read, so a read ends even if the child continues to write. */
#ifndef PROC_LOG_SOURCE_H
#define PROC_LOG_SOURCE_H

#include "hold/protocol.h"
#include "proc/log.h"

/* ---- log_index.c: the records (time, offset) of a stream ---- */

#define LOG_INDEX_BLOCK 128 /* records that are read at a time */

struct log_index {
    int fd;               /* -1: there is none */
    int64_t first, count; /* the records number first … count - 1 are kept */
    int64_t block_at;     /* the number of block[0] */
    size_t block_count;
    struct hold_index block[LOG_INDEX_BLOCK];
};

/* No file is an empty index. -1 with errno. */
int log_index_open(struct log_index *index, int process_dir, const char *name);
void log_index_clear(struct log_index *index);
/* Record number i; false when it is punched, or nonsense. */
bool log_index_get(struct log_index *index, int64_t i, struct hold_index *ret);
/* The nearest good record before number i (i = count: the newest); with `inode` not 0, of that file. */
bool log_index_before(struct log_index *index, int64_t i, uint64_t inode, struct hold_index *ret);
/* The number of the first record that reaches `offset` / is not older than `time_ms`; `count` if there is none. */
int64_t log_index_by_offset(struct log_index *index, int64_t offset);
int64_t log_index_by_time(struct log_index *index, int64_t time_ms);

/* ---- log_source.c ---- */

struct log_source {
    int fd;                 /* -1: there is no such file; everything is empty */
    enum log_stream stream; /* LOG_BOTH: mode stamped */
    uint64_t inode;
    int64_t base, end; /* logical offsets of the file's first byte and of its end at the opening (S3) */
    int64_t mtime_ms;
    struct log_index index;
    char *block; /* what was read: block[start … filled) is not delivered yet */
    size_t start, filled;
    int64_t at, stop; /* logical offset of block[start]; where reading ends */
    bool is_cut;      /* skip up to the next newline: a line whose beginning was dropped */
    bool is_inside;   /* block[start] continues with the line that was delivered last */
    int64_t record;   /* the index record in whose time we are */
    int64_t stamp_ms; /* stamped: of the line we are in */
    enum log_stream stamp_stream;
};

struct log_item {
    struct log_line line;
    int64_t next;     /* logical offset behind it, its newline included */
    bool starts_line; /* it is no continuation of a piece before it */
    bool ends_line;
};

/* `name` is "stdout", "stderr" or "output". -1 with errno. */
int log_source_open(struct log_source *source, int process_dir, const char *name, enum log_stream stream);
void log_source_clear(struct log_source *source);
/* The next line is the one at `from`. skips_torn: if what is before `from` was dropped, begin after the next newline. Where
 * `from` itself was dropped, reading always continues after the first newline of what is kept. */
int log_source_seek(struct log_source *source, int64_t from, int64_t stop, bool skips_torn);
/* 1, 0 at the end, -1 with errno. The text is valid until the next call. */
int log_source_next(struct log_source *source, bool whole_lines, struct log_item *ret);
/* The greatest beginning of a line that is not behind `offset`, not before `low`, and not before dropped bytes. */
int log_source_line_start(struct log_source *source, int64_t offset, int64_t low, int64_t *ret);
/* When the byte before `end` was there at the latest. */
int64_t log_source_time(struct log_source *source, int64_t end);
/* The oldest byte that is kept. */
int64_t log_source_oldest(const struct log_source *source);
/* Bytes at a logical offset, as pread; never beyond `end`. */
ssize_t log_source_pread(const struct log_source *source, char *data, size_t len, int64_t offset);

/* Whether the line begins with a stamp of mode stamped; its length in *ret_len. */
bool log_stamp_parse(const char *text, size_t len, int64_t *ret_ms, enum log_stream *ret_stream, size_t *ret_len);

#endif
