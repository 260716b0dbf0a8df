/* log.c - a query: which part of which files, which lines of it, in which order.
 *
 * The beginning of "the last N lines" is found from the end: a chunk in front of the end is read forwards and its lines are
 * counted, then the chunk in front of that one, until there are enough. So searching and delivering see the same lines, and
 * what is not needed of a long file is not read. */
#include "proc/log.h"
#include "base/fs.h"
#include "base/word.h"
#include "proc/files.h"
#include "proc/log_pattern.h"
#include "proc/log_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_FIRST = 64 << 10,
    CHUNK_MAX = 256 << 10,     /* a chunk of empty lines is remembered line by line */
    LOG_STAMP_SLACK_MS = 1000, /* a stamp may be that much older than its index record */
};

struct log_input {
    struct log_source source;
    int64_t low, high; /* the part that is asked for, logical */
    int64_t from;      /* where the output of the wanted start begins */
    struct log_item item;
    bool has_item;
    bool is_wanted; /* the line that we are in */
    bool is_fresh;  /* nothing was read since the seek */
    int64_t lines;  /* from the beginning on that was found: lines, and bytes of text */
    int64_t bytes;
};

struct log_scan {
    const struct log_query *query;
    struct log_pattern pattern;
    struct log_input input[2];
    size_t count;
    struct buf stripped;
};

static void scan_clear(struct log_scan *scan)
{
    for (size_t i = 0; i < scan->count; i++)
        log_source_clear(&scan->input[i].source);
    log_pattern_clear(&scan->pattern);
    buf_clear(&scan->stripped);
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- which files ------------------------------------------------------------------------------------ */

static const char *const stream_names[] = {[LOG_STDOUT] = "stdout", [LOG_STDERR] = "stderr", [LOG_BOTH] = "output"};

static bool is_stamped(const char *mode)
{
    return strcmp(mode, proc_log_names[PROC_LOG_STAMPED]) == 0;
}

static int scan_add(struct log_scan *scan, int process_dir, enum log_stream stream, struct tsk_error *err)
{
    struct log_input *input = &scan->input[scan->count];
    if (log_source_open(&input->source, process_dir, stream_names[stream], stream) < 0)
        return error_errno(err, "read", stream_names[stream]);
    input->low = log_source_oldest(&input->source);
    input->high = input->source.end;
    scan->count++;
    return 0;
}

static int scan_open(struct log_scan *scan, int process_dir, const char *mode, struct tsk_error *err)
{
    enum log_stream wanted = scan->query->stream;
    if (is_stamped(mode))
        return scan_add(scan, process_dir, LOG_BOTH, err);
    if (wanted != LOG_STDERR && scan_add(scan, process_dir, LOG_STDOUT, err) < 0)
        return -1;
    return wanted != LOG_STDOUT ? scan_add(scan, process_dir, LOG_STDERR, err) : 0;
}

/* ---- which part ------------------------------------------------------------------------------------- */

/* Where the output of a start begins and ends, by stream. */
struct log_run {
    int64_t from[2], to[2];
    char mode[12];
};

static void run_take_fact(struct log_run *run, const json_t *fact, int64_t n, bool *is_found)
{
    int64_t number = json_get_int(fact, "n", 0);
    int64_t at[2] = {json_get_int(fact, "stdout_offset", -1), json_get_int(fact, "stderr_offset", -1)};
    if (!json_text_is(fact, "what", "started") || at[0] < 0 || at[1] < 0)
        return;
    if (number == n) {
        memcpy(run->from, at, sizeof at);
        const char *mode = json_get_string(fact, "log", NULL);
        if (mode)
            snprintf(run->mode, sizeof run->mode, "%s", mode);
        *is_found = true;
    } else if (number == n + 1) {
        memcpy(run->to, at, sizeof at);
    }
}

static int run_unknown(const struct proc *p, int64_t n, struct tsk_error *err)
{
    error_set(err, TSK_INVALID_INPUT, p->view.n ? "log_run_unknown" : "log_run_none", "id", p->id, "value", DIGITS(n),
              "newest", DIGITS(p->view.n), NULL);
    return error_add_next(err, "tasuki proc status %s", p->id);
}

static int run_find(const struct proc *p, int64_t n, struct log_run *run, struct tsk_error *err)
{
    int64_t newest = p->view.n, next = 0, before;
    bool is_found = n == newest && newest > 0;
    *run = (struct log_run){.from = {p->view.stdout_offset, p->view.stderr_offset}, .to = {INT64_MAX, INT64_MAX}};
    snprintf(run->mode, sizeof run->mode, "%s", p->view.log);
    if (n > newest || p->dir < 0)
        return run_unknown(p, n, err);
    do {
        json_t *facts CLEANUP_JSON = NULL;
        before = next;
        if (proc_history_read(p->dir, next, &facts, &next, err) < 0)
            return -1;
        json_each (facts, i, fact)
            run_take_fact(run, fact, n, &is_found);
    } while (next > before);
    return is_found ? 0 : run_unknown(p, n, err);
}

/* Lines get the time of the first record that reaches their end, so a record's offset parts the times. */
static int limit_by_time(struct log_input *input, int64_t since_ms, int64_t until_ms)
{
    struct log_source *source = &input->source;
    struct log_index *index = &source->index;
    struct hold_index record;
    int64_t line;
    int64_t newest_ms = log_source_time(source, INT64_MAX);
    if (since_ms >= 0) {
        int64_t i = log_index_by_time(index, since_ms);
        if (i == index->count && newest_ms < since_ms)
            input->low = source->end;
        else if (log_index_before(index, i, 0, &record)) {
            if (log_source_line_start(source, record.offset, input->low, &line) < 0)
                return -1;
            input->low = max64(input->low, line);
        }
    }
    if (until_ms >= 0 && newest_ms > until_ms) {
        bool has_older = log_index_before(index, log_index_by_time(index, until_ms + 1), 0, &record);
        if (log_source_line_start(source, has_older ? record.offset : input->low, input->low, &line) < 0)
            return -1;
        input->high = min64(input->high, line);
    }
    return 0;
}

/* Which of the two of a pair (offsets of stdout and stderr) holds for an input. */
static size_t pair_index(const struct log_input *input, const struct log_query *query)
{
    return input->source.stream == LOG_STDERR || (input->source.stream == LOG_BOTH && query->stream == LOG_STDERR);
}

/* The cursor of stream k in this file, -1 if it has none. In a file that was cut since, all that is there now is new: it is
 * shorter than the cursor says, or continues from another base. */
static int64_t cursor_at(const struct log_input *input, const struct log_query *query, size_t k)
{
    const struct log_source *source = &input->source;
    const struct log_seen *seen = query->seen ? &query->seen[k] : NULL;
    if (query->cursor[k] < 0)
        return -1;
    bool was_cut = seen && seen->inode && seen->inode == source->inode && seen->base != source->base;
    return was_cut || query->cursor[k] > source->end ? source->base : query->cursor[k];
}

static int64_t cursor_of(const struct log_input *input, const struct log_query *query)
{
    int64_t cursor = cursor_at(input, query, pair_index(input, query));
    if (input->source.stream != LOG_BOTH || query->stream != LOG_BOTH)
        return cursor;
    int64_t other = cursor_at(input, query, LOG_STDERR);
    return cursor < 0 ? other : other < 0 ? cursor : min64(cursor, other);
}

/* The offset at which a backward read ends. */
static int64_t backward_read_end(const struct log_input *input, const struct log_query *query)
{
    const int64_t *before = query->before;
    bool is_shared = input->source.stream == LOG_BOTH && query->stream == LOG_BOTH;
    if (!before)
        return INT64_MAX;
    return is_shared ? min64(before[0], before[1]) : before[pair_index(input, query)];
}

static int scan_limit(struct log_scan *scan, const struct log_run *run, struct tsk_error *err)
{
    const struct log_query *query = scan->query;
    for (size_t i = 0; i < scan->count; i++) {
        struct log_input *input = &scan->input[i];
        int64_t slack = input->source.stream == LOG_BOTH && query->until_ms >= 0 ? LOG_STAMP_SLACK_MS : 0;
        if (run) {
            size_t pair = pair_index(input, query);
            input->from = run->from[pair];
            input->low = max64(input->low, run->from[pair]);
            input->high = min64(input->high, run->to[pair]);
        }
        if (limit_by_time(input, query->since_ms, query->until_ms + slack) < 0)
            return error_errno(err, "read", stream_names[input->source.stream]);
        input->high = min64(input->high, backward_read_end(input, query));
        input->low = min64(input->low, input->high);
    }
    return 0;
}

/* ---- which lines ------------------------------------------------------------------------------------ */

enum { LINE_OTHER, LINE_HIT, LINE_NO_HIT };

/* Or -1 with errno. Only mode stamped has more to decide than the pattern. */
static int line_judge(struct log_scan *scan, const struct log_input *input)
{
    const struct log_query *query = scan->query;
    const struct log_line *line = &input->item.line;
    if (input->source.stream == LOG_BOTH) {
        if (query->stream != LOG_BOTH && line->stream != query->stream)
            return LINE_OTHER;
        if ((query->since_ms >= 0 && line->time_ms < query->since_ms) ||
            (query->until_ms >= 0 && line->time_ms > query->until_ms))
            return LINE_OTHER;
        if (line->offset < cursor_at(input, query, line->stream))
            return LINE_OTHER;
    }
    int is_hit = log_pattern_match(&scan->pattern, &input->source, &input->item);
    return is_hit < 0 ? -1 : is_hit ? LINE_HIT : LINE_NO_HIT;
}

/* The next wanted line, or piece of one, into input->item: 1, 0 at the end, -1 with errno. */
static int input_next(struct log_scan *scan, struct log_input *input)
{
    int rc;
    while ((rc = log_source_next(&input->source, scan->query->whole_lines, &input->item)) > 0) {
        if (input->item.starts_line || input->is_fresh) {
            int wanted = line_judge(scan, input);
            if (wanted < 0)
                return -1;
            input->is_wanted = wanted != LINE_OTHER && (wanted == LINE_HIT || scan->query->marks_hits);
            input->item.line.is_hit = wanted == LINE_HIT && input->item.starts_line;
        }
        input->is_fresh = false;
        if (input->is_wanted)
            break;
    }
    return rc;
}

static int input_seek(struct log_input *input, int64_t from, int64_t stop, bool skips_torn)
{
    input->is_fresh = true;
    input->has_item = false;
    return log_source_seek(&input->source, from, stop, skips_torn);
}

/* ---- the last N lines ------------------------------------------------------------------------------- */

struct tail_entry {
    int64_t offset;
    uint32_t len;
    bool ends_line;
};

struct tail {
    struct tail_entry *entries;
    size_t count, room;
};

static int tail_add(struct tail *tail, const struct log_item *item)
{
    if (tail->count == tail->room) {
        size_t room = tail->room ? tail->room * 2 : 256;
        struct tail_entry *entries = reallocarray(tail->entries, room, sizeof *entries);
        if (!entries)
            return -1;
        tail->entries = entries;
        tail->room = room;
    }
    tail->entries[tail->count++] =
        (struct tail_entry){.offset = item->line.offset, .len = (uint32_t)item->line.len, .ends_line = item->ends_line};
    return 0;
}

static int tail_collect(struct log_scan *scan, struct log_input *input, int64_t from, int64_t stop, struct tail *tail)
{
    int rc;
    tail->count = 0;
    if (input_seek(input, from, stop, true) < 0)
        return -1;
    while ((rc = input_next(scan, input)) > 0)
        if (tail_add(tail, &input->item) < 0)
            return -1;
    return rc;
}

/* Goes back over what was collected; true when there is enough. *start is where the wanted part begins. */
static bool tail_take(struct log_input *input, const struct tail *tail, int64_t lines, int64_t bytes, int64_t *start)
{
    for (size_t i = tail->count; i-- > 0;) {
        const struct tail_entry *entry = &tail->entries[i];
        if ((entry->ends_line && lines >= 0 && input->lines == lines) || input->bytes + entry->len > bytes)
            return true;
        input->lines += entry->ends_line;
        input->bytes += entry->len;
        *start = entry->offset;
    }
    return false;
}

/* Moves input->low to where the last `lines` lines, or `bytes` bytes, begin. */
static int tail_find(struct log_scan *scan, struct log_input *input, int64_t lines, int64_t bytes)
{
    struct tail tail = {0};
    int64_t start = input->high, stop = input->high, chunk = CHUNK_FIRST;
    int rc = 0;
    bool is_enough = false, is_mixed = input->source.stream == LOG_BOTH && scan->query->stream != LOG_BOTH;
    bool takes_all = !scan->pattern.is_given && !is_mixed;
    while (rc == 0 && !is_enough && stop > input->low) {
        int64_t low = input->low, from = max64(low, stop - chunk);
        if (takes_all && bytes - input->bytes < stop - low - LOG_PIECE_MAX)
            low = stop - (bytes - input->bytes) - LOG_PIECE_MAX; /* no need to find where an endless line begins */
        from = max64(from, low);
        rc = log_source_line_start(&input->source, from, low, &from);
        if (rc == 0 && (rc = tail_collect(scan, input, from, stop, &tail)) == 0) {
            if (stop == input->high)
                start = input->source.at; /* a line that is left for the next read is not passed over */
            is_enough = tail_take(input, &tail, lines, bytes, &start);
        }
        is_enough = is_enough || input->lines == lines || from <= low || from >= stop;
        stop = from;
        chunk = min64(chunk * 2, CHUNK_MAX);
    }
    free(tail.entries);
    input->low = start;
    return rc;
}

/* ---- delivering ------------------------------------------------------------------------------------- */

/* What is still to be delivered, when only the newest `lines` and `bytes` of it are wanted. */
struct quota {
    int64_t lines, bytes; /* -1: all */
    int64_t lines_left, bytes_left;
};

static bool quota_skips(struct quota *quota, const struct log_item *item)
{
    bool is_skipped = (quota->lines >= 0 && quota->lines_left > quota->lines) || quota->bytes_left > quota->bytes;
    quota->lines_left -= item->ends_line;
    quota->bytes_left -= (int64_t)item->line.len;
    return is_skipped;
}

/* The input whose line is next: the older one, stdout if they are of one time; the pieces of a line stay together. */
static int scan_pick(struct log_scan *scan, struct log_input *last, struct log_input **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < scan->count; i++) {
        struct log_input *input = &scan->input[i];
        if (!input->has_item) {
            int rc = input_next(scan, input);
            if (rc < 0)
                return -1;
            input->has_item = rc > 0;
        }
        if (input->has_item && input == last && !input->item.starts_line) {
            *ret = input;
            return 0;
        }
        if (input->has_item && (!*ret || input->item.line.time_ms < (*ret)->item.line.time_ms))
            *ret = input;
    }
    return 0;
}

static struct log_line line_given(struct log_scan *scan, const struct log_item *item)
{
    struct log_line line = item->line;
    if (scan->query->strip_ansi && line.len && memchr(line.text, '\033', line.len)) {
        buf_reset(&scan->stripped);
        log_text_strip(&scan->stripped, line.text, line.len);
        line.text = buf_str(&scan->stripped);
        line.len = scan->stripped.len;
    }
    return line;
}

/* A reader that continues from `cursor` may have been overtaken: the holder drops the oldest bytes. */
static void note_missed(const struct log_scan *scan, const struct log_input *input, int64_t cursor)
{
    int64_t missed = log_source_oldest(&input->source) - max64(cursor, input->from);
    if (scan->query->seen && missed > 0)
        scan->query->seen[pair_index(input, scan->query)].missed += missed;
}

static int scan_start(struct log_scan *scan, int64_t lines, int64_t bytes, struct quota *quota)
{
    for (size_t i = 0; i < scan->count; i++) {
        struct log_input *input = &scan->input[i];
        int64_t cursor = cursor_of(input, scan->query);
        bool skips_torn = cursor < input->low; /* a cursor is a place to continue, whatever was dropped before it */
        if (cursor >= 0) {
            note_missed(scan, input, cursor);
            input->low = min64(max64(input->low, cursor), input->high);
        }
        if (cursor < 0 && (lines >= 0 || bytes < INT64_MAX) && tail_find(scan, input, lines, bytes) < 0)
            return -1;
        quota->lines_left += input->lines;
        quota->bytes_left += input->bytes;
        if (input_seek(input, input->low, input->high, skips_torn) < 0)
            return -1;
    }
    return 0;
}

static void note_seen(const struct log_scan *scan)
{
    for (size_t i = 0; i < scan->count && scan->query->seen; i++) {
        const struct log_source *source = &scan->input[i].source;
        for (size_t k = 0; k < 2; k++)
            if (source->stream == LOG_BOTH || (size_t)source->stream == k) {
                scan->query->seen[k].inode = source->inode;
                scan->query->seen[k].base = source->base;
            }
    }
}

/* The cursors to continue with. A stream that was not read keeps its cursor, or gets its end. */
static int next_cursors(const struct log_scan *scan, const struct proc *p, int64_t ret_next[2], struct tsk_error *err)
{
    const struct log_query *query = scan->query;
    int64_t next[2] = {-1, -1}, oldest;
    for (size_t i = 0; i < scan->count; i++) {
        const struct log_input *input = &scan->input[i];
        int64_t at = input->has_item ? input->item.line.offset : input->source.at;
        for (size_t k = 0; k < 2; k++) {
            bool is_read = query->stream == LOG_BOTH || (size_t)query->stream == k;
            if (is_read && (input->source.stream == LOG_BOTH || (size_t)input->source.stream == k))
                next[k] = max64(at, cursor_at(input, query, k));
        }
    }
    for (size_t k = 0; k < 2; k++) {
        if (next[k] < 0 && query->cursor[k] >= 0)
            next[k] = query->cursor[k];
        else if (next[k] < 0 && log_extent(p, (enum log_stream)k, &oldest, &next[k], err) < 0)
            return -1;
    }
    memcpy(ret_next, next, sizeof next);
    note_seen(scan);
    return 0;
}

/* ---- a reader ------------------------------------------------------------------------------------------- */

struct log_reader {
    const struct proc *p;
    struct log_query query;
    struct log_scan scan;
    struct quota quota;
    struct log_input *last; /* whose line is next, or was delivered last */
    bool has_cursor, has_line;
    int64_t bytes, given; /* with a cursor: how many may be delivered, and how many were */
};

static int reader_begin(struct log_reader *reader, struct tsk_error *err)
{
    const struct log_query *query = &reader->query;
    const struct proc *p = reader->p;
    struct log_scan *scan = &reader->scan;
    struct log_run run;
    bool has_run = query->run > 0 || (query->run < 0 && p->view.n > 0);
    if (log_pattern_init(&scan->pattern, query->grep, err) < 0)
        return -1;
    if (has_run && run_find(p, query->run < 0 ? p->view.n : query->run, &run, err) < 0)
        return -1;
    if (scan_open(scan, p->dir, has_run ? run.mode : p->view.log, err) < 0 ||
        scan_limit(scan, has_run ? &run : NULL, err) < 0)
        return -1;
    return scan_start(scan, query->lines, reader->bytes, &reader->quota) < 0 ? error_errno(err, "read", p->id) : 0;
}

int log_reader_open(const struct proc *p, const struct log_query *query, struct log_reader **ret, struct tsk_error *err)
{
    struct log_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_no_memory(err, "read", p->id);
    int64_t bytes = query->max_bytes && query->max_bytes < INT64_MAX ? (int64_t)query->max_bytes : INT64_MAX;
    *reader = (struct log_reader){.p = p,
                                  .query = *query,
                                  .scan.stripped = BUF_INIT,
                                  .quota = {.lines = query->lines, .bytes = bytes},
                                  .has_cursor = query->cursor[0] >= 0 || query->cursor[1] >= 0,
                                  .bytes = bytes};
    reader->scan.query = &reader->query;
    if (reader_begin(reader, err) == 0) {
        *ret = reader;
        return 0;
    }
    log_reader_close(reader);
    return -1;
}

void log_reader_close(struct log_reader *reader)
{
    if (reader)
        scan_clear(&reader->scan);
    free(reader);
}

int64_t log_reader_lines(const struct log_reader *reader)
{
    return min64(reader->quota.lines_left, reader->quota.lines);
}

/* With a cursor the oldest `bytes` are given, otherwise what the quota leaves. */
int log_reader_peek(struct log_reader *reader, struct log_line *ret, struct tsk_error *err)
{
    while (!reader->has_line) {
        if (scan_pick(&reader->scan, reader->last, &reader->last) < 0)
            return error_errno(err, "read", reader->p->id);
        struct log_input *input = reader->last;
        if (!input)
            return 0;
        int64_t len = (int64_t)input->item.line.len;
        if (reader->has_cursor && reader->given && reader->given + len > reader->bytes)
            return 0;
        reader->given += len;
        if (!reader->has_cursor && quota_skips(&reader->quota, &input->item))
            input->has_item = false;
        else
            reader->has_line = true;
    }
    *ret = line_given(&reader->scan, &reader->last->item);
    return 1;
}

void log_reader_skip(struct log_reader *reader)
{
    reader->last->has_item = reader->has_line = false;
}

int log_reader_cursors(const struct log_reader *reader, int64_t ret_next[2], struct tsk_error *err)
{
    return next_cursors(&reader->scan, reader->p, ret_next, err);
}

int log_read(const struct proc *p, const struct log_query *query, bool (*take)(void *data, const struct log_line *line),
             void *data, int64_t ret_next[2], struct tsk_error *err)
{
    struct log_reader *reader;
    struct log_line line;
    int rc;
    if (log_reader_open(p, query, &reader, err) < 0)
        return -1;
    while ((rc = log_reader_peek(reader, &line, err)) > 0) {
        bool goes_on = take(data, &line);
        log_reader_skip(reader);
        if (!goes_on)
            break;
    }
    int result = rc < 0 ? -1 : log_reader_cursors(reader, ret_next, err);
    log_reader_close(reader);
    return result;
}

int log_extent(const struct proc *p, enum log_stream stream, int64_t *ret_oldest, int64_t *ret_end,
               struct tsk_error *err)
{
    struct log_source source CLEANUP(log_source_clear);
    const char *name = stream_names[is_stamped(p->view.log) ? LOG_BOTH : stream];
    if (log_source_open(&source, p->dir, name, stream) < 0)
        return error_errno(err, "read", name);
    *ret_oldest = log_source_oldest(&source);
    *ret_end = source.end;
    return 0;
}
