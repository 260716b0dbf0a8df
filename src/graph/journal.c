#include "graph/journal.h"
#include "base/fs.h"

#include <errno.h>
#include <string.h>

#define FILE_NAME    "journal"
#define DAMAGED_NAME "journal.damaged"
#define BEHIND_PIECE (16 << 10)
#define ENOUGH       (1u << 20) /* pending: written without waiting for a flush */

/* N2: what is behind the last newline was never a record. */
static int cut_torn_tail(int fd)
{
    struct stat st;
    char tail[4096];
    if (fs->fstat(fd, &st) < 0)
        return -1;
    off_t end = st.st_size;
    while (end > 0) {
        off_t from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
        ssize_t n = fs->pread(fd, tail, (size_t)(end - from), from);
        if (n < 0)
            return -1;
        char *newline = memrchr(tail, '\n', (size_t)n);
        if (newline) {
            end = from + (newline - tail) + 1;
            break;
        }
        end = from;
    }
    return end == st.st_size ? 0 : fs->ftruncate(fd, end);
}

int journal_open(struct journal *journal, int run_dir, bool is_synced, struct tsk_error *err)
{
    *journal = (struct journal){.fd = -1, .is_synced = is_synced, .pending = {.max = JOURNAL_LINE_MAX * 2}};
    journal->fd = fs->openat(run_dir, FILE_NAME, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (journal->fd < 0 || cut_torn_tail(journal->fd) < 0) {
        fs_error(err, "open", run_dir, FILE_NAME);
        journal_close(journal);
        return -1;
    }
    return 0;
}

void journal_close(struct journal *journal)
{
    fs_close(&journal->fd);
    journal->fd = -1;
    buf_clear(&journal->pending);
}

struct buf *journal_begin(struct journal *journal, const char *event)
{
    struct buf *b = &journal->pending;
    buf_puts(b, "{");
    buf_json_pair_int(b, "t", clock_now().wall_ms);
    buf_json_pair(b, "e", event);
    return b;
}

/* Writes the pending records. The first failure is permanent, because half a line may be in the file. */
static int write_pending(struct journal *journal)
{
    if (journal->failure)
        return -1;
    if (journal->pending.failed)
        journal->failure = EFBIG;
    else if (fs_write_all(journal->fd, journal->pending.data, journal->pending.len) < 0)
        journal->failure = errno;
    if (journal->failure)
        return -1;
    journal->is_dirty = true;
    buf_reset(&journal->pending);
    return 0;
}

/* Many large records that end at the same time must not be too much for the buffer. */
void journal_end(struct journal *journal)
{
    buf_puts(&journal->pending, "}\n");
    if (journal->pending.len > ENOUGH)
        write_pending(journal); /* journal_flush says what went wrong */
}

int journal_flush(struct journal *journal, struct tsk_error *err)
{
    if ((journal->failure || journal->pending.len) && write_pending(journal) < 0) {
        errno = journal->failure;
        return fs_error(err, "write", journal->fd, NULL);
    }
    if (journal->is_synced && journal->is_dirty && fs->fdatasync(journal->fd) < 0)
        return fs_error(err, "write", journal->fd, NULL);
    journal->is_dirty = false;
    return 0;
}

/* Parses records up to the first complete line that is not a record: later records may depend on the damaged one. */
static json_t *journal_parse(const struct buf *text, size_t *ret_end, bool *ret_damaged)
{
    json_t *records = json_array();
    size_t at = 0;
    *ret_damaged = false;
    for (const char *newline; at < text->len && (newline = memchr(text->data + at, '\n', text->len - at));) {
        size_t len = (size_t)(newline - text->data) - at;
        json_t *record = json_loadb(text->data + at, len, 0, NULL);
        if (!json_is_object(record)) {
            json_decref(record);
            *ret_damaged = true;
            break;
        }
        json_array_append_new(records, record);
        at += len + 1;
    }
    *ret_end = at;
    return records;
}

static int journal_read_text(int run_dir, struct buf *text, struct tsk_error *err)
{
    return fs_read_file(run_dir, FILE_NAME, JOURNAL_MAX - 1, text) < 0 ? fs_error(err, "read", run_dir, FILE_NAME) : 0;
}

int journal_read(int run_dir, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_MAX};
    size_t end;
    bool is_damaged;
    if (journal_read_text(run_dir, &text, err) < 0)
        return -1;
    *ret = journal_parse(&text, &end, &is_damaged);
    return 0;
}

int journal_read_behind(int run_dir, int64_t from, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_MAX};
    char before = '\n';
    size_t end;
    bool is_damaged;
    ssize_t got = -1;
    int fd CLEANUP_FD = fs->openat(run_dir, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd >= 0)
        got = from > 0 ? fs->pread(fd, &before, 1, from - 1) : 0;
    for (; got >= 0 && before == '\n'; text.len += (size_t)got) {
        char *room = buf_reserve(&text, BEHIND_PIECE);
        got = room ? fs->pread(fd, room, BEHIND_PIECE, from + (int64_t)text.len) : -1;
        if (got <= 0)
            break;
    }
    if (got < 0)
        return fs_error(err, "read", run_dir, FILE_NAME);
    *ret = journal_parse(&text, &end, &is_damaged);
    return 0;
}

int journal_read_whole(int run_dir, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_MAX};
    size_t end;
    bool is_damaged;
    if (journal_read_text(run_dir, &text, err) < 0)
        return -1;
    json_t *records CLEANUP_JSON = journal_parse(&text, &end, &is_damaged);
    if (is_damaged) {
        int fd CLEANUP_FD = fs->openat(run_dir, FILE_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd < 0 || fs_replace_file(run_dir, DAMAGED_NAME, 0600, text.data, text.len) < 0 ||
            fs->ftruncate(fd, (off_t)end) < 0)
            return fs_error(err, "repair", run_dir, FILE_NAME);
    }
    *ret = json_incref(records);
    return 0;
}
