/* log.h - reading what a process wrote. The files and the index are described in hold/protocol.h.
 *
 * A cursor is a logical offset of one stream. It stays valid when old bytes are dropped (reading continues at the oldest
 * byte that is kept), when the child cut its file, and when the file was compacted. */
#ifndef PROC_LOG_H
#define PROC_LOG_H

#include "base/buf.h"
#include "proc/process.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_BOTH };

/* For a reader that continues, by stream: zeroed before the first read, then left alone. A process may cut its log after we
 * read more of it than its holder has seen; then the cursor alone would be misunderstood. */
struct log_seen {
    uint64_t inode;
    int64_t base;
    int64_t
        missed; /* bytes behind the cursor that were dropped before they were read; the code that reports them sets it to 0 */
};

struct log_query {
    enum log_stream stream;
    int64_t lines;         /* the last N lines; -1: all (within max_bytes) */
    int64_t cursor[2];     /* from this logical offset of stdout, stderr; -1: not given. Overrides lines */
    int64_t since_ms;      /* wall; -1: no */
    int64_t until_ms;      /* wall; -1: no */
    int64_t run;           /* only start n; 0: all; -1: the newest */
    const char *grep;      /* POSIX extended regular expression, or NULL. Checked: INVALID_INPUT */
    bool marks_hits;       /* all lines are given; is_hit says which of them match */
    const int64_t *before; /* only what is before these logical offsets of stdout, stderr; NULL: all */
    size_t max_bytes;      /* of text returned; the newest (tail) or the oldest (cursor) are kept. 0: no limit */
    bool strip_ansi;
    bool whole_lines;      /* a line that has no newline yet is left for the next read */
    struct log_seen *seen; /* of stdout and stderr, or NULL */
};

/* One line (or a piece of a line longer than LOG_PIECE_MAX). text is not NUL-terminated and may be binary. */
struct log_line {
    enum log_stream stream;
    int64_t offset;  /* logical, of its first byte */
    int64_t next;    /* … behind its last byte, the newline included */
    int64_t time_ms; /* when it was there at the latest; -1 unknown */
    const char *text;
    size_t len;
    bool is_partial; /* no newline yet, or a piece */
    bool is_hit;     /* marks_hits: a line that matches begins here */
};
#define LOG_PIECE_MAX (64u << 10)

/* Of a part of a log, and of a search in it, for a page. */
#define LOG_PART_MAX     (1 << 20)
#define LOG_HITS_MAX     1000
#define LOG_SEARCH_MAX   (64 << 20) /* bytes that one call looks at; it says where to continue */
#define LOG_HIT_LINE_MAX 500

/* Calls `take` for each line in order (both: merged by time); false from it stops. ret_next: the cursors to continue with. */
int log_read(const struct proc *p, const struct log_query *query, bool (*take)(void *data, const struct log_line *line),
             void *data, int64_t ret_next[2], struct tsk_error *err);

/* The same, line by line, for a reader of several processes. `p` lives as long as the reader. */
struct log_reader;
int log_reader_open(const struct proc *p, const struct log_query *query, struct log_reader **ret,
                    struct tsk_error *err);
void log_reader_close(struct log_reader *reader); /* NULL: nothing to do */
/* With query.lines: how many lines are to come. */
int64_t log_reader_lines(const struct log_reader *reader);
/* The next line: 1, 0 at the end, -1. Its text is good until the next call. log_reader_skip continues after it. */
int log_reader_peek(struct log_reader *reader, struct log_line *ret, struct tsk_error *err);
void log_reader_skip(struct log_reader *reader);
/* The cursors to continue with, after the skipped part. */
int log_reader_cursors(const struct log_reader *reader, int64_t ret_next[2], struct tsk_error *err);

/* Current logical end and oldest kept offset of a stream. */
int log_extent(const struct proc *p, enum log_stream stream, int64_t *ret_oldest, int64_t *ret_end,
               struct tsk_error *err);

/* The newest line of stderr of the newest start that has text, without escapes, at most 500 bytes: a JSON string, owned. NULL: there
 * is none, or it cannot be read. */
json_t *log_last_stderr(const struct proc *p);

/* Before a start, with holder.lock held: gives the space of dropped bytes back to the apparent size, bounds the index and
 * shortens `history`'s like. Also says whether holes can be punched here (if not, mode direct is not offered).
 * Does nothing when somebody still writes (a leftover of an earlier start). */
int log_compact(int process_dir, bool has_writers, bool *ret_can_punch, struct tsk_error *err);

#endif
