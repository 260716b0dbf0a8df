/* Any bytes as a log and its index: reading ends, in order, without a byte twice, and what comes out is harmless.
 *
 * Input: a byte of options, a byte that says how many index records follow, the records (an odd inode stands for the
 * file's own), then the log. */
#include "base/fs.h"
#include "base/utf8.h"
#include "hold/protocol.h"
#include "proc/log.h"
#include "proc/log_source.h"
#include "proc/log_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
    int64_t next[2]; /* no line may begin before */
    size_t lines, bytes, left;
};

static void check_text(const struct log_line *line)
{
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    json_t *text CLEANUP_JSON = log_text_json(line->text, line->len);
    BUG(!text);
    log_text_for_terminal(&shown, line->text, line->len, false);
    BUG(shown.failed || !utf8_is_valid(buf_str(&shown), shown.len));
    for (size_t i = 0; i < shown.len; i++)
        BUG((unsigned char)shown.data[i] < 0x20 && shown.data[i] != '\n' && shown.data[i] != '\t');
}

static bool take(void *context, const struct log_line *line)
{
    struct reading *reading = context;
    BUG(line->stream > LOG_STDERR || line->len > LOG_PIECE_MAX);
    BUG(line->offset < reading->next[line->stream]);
    reading->next[line->stream] = line->offset + (int64_t)line->len;
    reading->lines++;
    reading->bytes += line->len;
    check_text(line);
    return --reading->left != 0;
}

static struct reading read_log(const struct proc *p, struct log_query *query, size_t left)
{
    struct tsk_error err;
    struct reading reading = {.left = left};
    BUG(log_read(p, query, take, &reading, query->cursor, &err) < 0);
    BUG(query->cursor[0] < 0 || query->cursor[1] < 0);
    return reading;
}

static struct log_query everything(enum log_stream stream)
{
    return (struct log_query){.stream = stream, .lines = -1, .cursor = {-1, -1}, .since_ms = -1, .until_ms = -1};
}

/* Line by line with cursors is the same as at once. */
static void check_cursors(const struct proc *p, enum log_stream stream)
{
    struct log_query at_once = everything(stream), stepwise = everything(stream);
    struct reading whole = read_log(p, &at_once, 0), sum = {0};
    for (size_t i = 0; i <= whole.lines; i++) {
        struct reading step = read_log(p, &stepwise, 1);
        sum.lines += step.lines;
        sum.bytes += step.bytes;
    }
    BUG(sum.lines != whole.lines || sum.bytes != whole.bytes);
    BUG(memcmp(at_once.cursor, stepwise.cursor, sizeof at_once.cursor) != 0);
}

static void check_queries(const struct proc *p, const uint8_t *data, size_t size)
{
    for (enum log_stream stream = LOG_STDOUT; stream <= LOG_BOTH; stream++) {
        struct log_query query = everything(stream);
        query.lines = size ? data[0] % 8 : 1;
        struct reading tail = read_log(p, &query, 0);
        BUG(tail.lines > (size_t)query.lines && tail.bytes < LOG_PIECE_MAX);
        query = everything(stream);
        query.grep = "[a-z]$|^.\xff?";
        query.max_bytes = 100;
        BUG(read_log(p, &query, 0).bytes > 100);
        query = everything(stream);
        query.since_ms = 1000;
        query.until_ms = INT64_C(1770471000000);
        query.whole_lines = query.strip_ansi = true;
        read_log(p, &query, 0);
        check_cursors(p, stream);
    }
}

static void write_file(int dir, const char *name, const void *data, size_t size, struct stat *ret)
{
    int fd CLEANUP_FD = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    BUG(fd < 0 || fs_write_all(fd, data, size) < 0 || fstat(fd, ret) < 0);
}

static void write_index(int dir, const char *name, const uint8_t *data, size_t count, ino_t own)
{
    struct hold_index records[256] = {0};
    struct stat st;
    for (size_t i = 0; i < count; i++) {
        memcpy(&records[i], data + i * sizeof records[i], sizeof records[i]);
        if (records[i].inode & 1)
            records[i].inode = own;
    }
    write_file(dir, name, records, count * sizeof records[0], &st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[] = "/tmp/tasuki-fuzz-XXXXXX";
    static const char *const files[] = {"log/output.log", "log/stdout.log", "log/stderr.log",
                                        "output.idx",     "stdout.idx",     "stderr.idx"};
    struct stat st;
    bool can_punch;
    struct tsk_error err;
    size_t count = size > 1 ? data[1] : 0;
    if (size < 2 || size < 2 + count * sizeof(struct hold_index) || !mkdtemp(name))
        return 0;
    bool is_stamped = data[0] & 1;
    int dir CLEANUP_FD = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct proc p = {.dir = dir, .view = {.phase = "", .log = "direct"}};
    const uint8_t *log = data + 2 + count * sizeof(struct hold_index);
    BUG(mkdirat(dir, "log", 0700) < 0);
    if (is_stamped)
        snprintf(p.view.log, sizeof p.view.log, "stamped");
    for (int i = is_stamped ? 0 : 1; i < (is_stamped ? 1 : 3); i++) {
        write_file(dir, files[i], log, (size_t)(data + size - log), &st);
        write_index(dir, files[i + 3], data + 2, count, st.st_ino);
    }
    check_queries(&p, data, size);
    BUG(log_compact(dir, false, &can_punch, &err) < 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlinkat(dir, files[i], 0);
    unlinkat(dir, "log", AT_REMOVEDIR);
    rmdir(name);
    return 0;
}
