#include "run/run_log.h"
#include "base/fs.h"
#include "proc/log_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FAILURE_LINES  20
#define FAILURES_SHOWN 10        /* a group of a thousand that fails does not flood a terminal */
#define FAILURE_BYTES  (8 << 10) /* of the lines of one failure */
#define BRIEF_BYTES    (2 << 10)

/* Where the last `lines` lines of a file begin, at most RUN_LOG_MAX bytes before its end; -1: it cannot be read. It is read backwards, piece by piece: the
 * cost depends on what is shown, not on the size of the log. */
static off_t tail_start(int fd, off_t size, int64_t lines)
{
    char piece[RUN_LOG_PIECE];
    off_t at = size, least = size > RUN_LOG_MAX ? size - RUN_LOG_MAX : 0;
    while (at > least) {
        size_t want = at - least < RUN_LOG_PIECE ? (size_t)(at - least) : RUN_LOG_PIECE;
        ssize_t got = fs->pread(fd, piece, want, at - (off_t)want);
        if (got != (ssize_t)want)
            return got < 0 ? -1 : at; /* it was cut off meanwhile */
        for (size_t i = want; i-- > 0;)
            if (piece[i] == '\n' && at - (off_t)want + (off_t)i + 1 != size && --lines == 0)
                return at - (off_t)want + (off_t)i + 1;
        at -= (off_t)want;
    }
    return least;
}

/* Bytes that JSON cannot have become U+FFFD, also a byte 0, which would end the text. */
json_t *run_log_text(const char *data, size_t len)
{
    struct buf whole CLEANUP(buf_clear) = {.max = RUN_LOG_MAX * 4}, clean CLEANUP(buf_clear) = {.max = RUN_LOG_MAX * 8};
    for (size_t at = 0; at < len;) {
        size_t part = strnlen(data + at, len - at);
        buf_put(&whole, data + at, part);
        at += part;
        if (at < len)
            buf_puts(&whole, "\xef\xbf\xbd");
        at++;
    }
    buf_json_string(&clean, buf_str(&whole));
    json_t *value = json_loads(buf_str(&clean), JSON_DECODE_ANY, NULL);
    return value ? value : json_string("");
}

int run_log_tail(int dir, const char *path, int64_t lines, struct buf *text, off_t *ret_offset, struct tsk_error *err)
{
    struct stat st;
    int fd CLEANUP_FD = fs->openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return fs_error(err, "read", dir, path);
    off_t at = *ret_offset = tail_start(fd, st.st_size, lines);
    if (at < 0)
        return fs_error(err, "read", dir, path);
    while (at < st.st_size) {
        size_t want = st.st_size - at < RUN_LOG_PIECE ? (size_t)(st.st_size - at) : RUN_LOG_PIECE;
        char *room = buf_reserve(text, want);
        ssize_t got = room ? fs->pread(fd, room, want, at) : -1;
        if (got < 0)
            return fs_error(err, "read", dir, path);
        if (got == 0)
            break;
        text->len += (size_t)got;
        at += got;
    }
    return 1;
}

/* The log of a failure, below the workspace's state; the stage is a file that others may have written. */
static const char *run_log_of(const json_t *failure)
{
    const char *log = json_get_string(failure, "log", NULL), *at = log ? strstr(log, "/runs/") : NULL;
    return at && !strstr(at, "/../") ? at + 1 : NULL;
}

/* Makes each line what a terminal shows of it in the end: a progress bar is one line, not hundreds. */
static void settle_lines(struct buf *text)
{
    char *to = text->data;
    for (const char *from = text->data, *end = from + text->len, *next; from < end; from = next) {
        const char *newline = memchr(from, '\n', (size_t)(end - from));
        size_t len = (size_t)((newline ? newline : end) - from);
        next = newline ? newline + 1 : end;
        from = log_text_last_part(from, &len);
        memmove(to, from, len);
        to += len;
        if (newline)
            *to++ = '\n';
    }
    text->len = (size_t)(to - text->data);
}

/* A log continues after a resume: what stands before `log_from` was printed by an earlier attempt. */
static void drop_earlier(struct buf *text, off_t offset, const json_t *failure)
{
    int64_t begins = json_get_int(failure, "log_from", 0) - offset;
    size_t earlier = begins <= 0 ? 0 : begins < (int64_t)text->len ? (size_t)begins : text->len;
    if (!earlier)
        return;
    text->len -= earlier;
    memmove(text->data, text->data + earlier, text->len);
}

static void add_lines(struct tsk_workspace *ws, json_t *failure, size_t most)
{
    off_t offset;
    struct tsk_error ignored; /* the reason is there all the same, and `runs logs` reports the error */
    struct buf text CLEANUP(buf_clear) = {.max = RUN_LOG_MAX + RUN_LOG_PIECE};
    const char *path = run_log_of(failure);
    if (!path || run_log_tail(ws->state_dir, path, FAILURE_LINES, &text, &offset, &ignored) <= 0)
        return;
    drop_earlier(&text, offset, failure);
    if (text.len)
        settle_lines(&text);
    const char *from = text.len > most ? text.data + text.len - most : text.data, *end = text.data + text.len;
    json_t *lines = json_array();
    while (from && from < end) {
        const char *newline = memchr(from, '\n', (size_t)(end - from));
        json_array_append_new(lines, run_log_text(from, (size_t)((newline ? newline : end) - from)));
        from = newline ? newline + 1 : end;
    }
    json_object_set_new(failure, "lines", lines);
}

void run_read_reasons(json_t *stage, enum lang lang)
{
    text_read_reason(stage, lang);
    json_each (json_object_get(stage, "failures"), i, failure)
        text_read_reason(failure, lang);
}

void run_log_add_failures(struct tsk_workspace *ws, json_t *stage, bool is_brief)
{
    json_each (json_object_get(stage, "failures"), i, failure)
        if (i < FAILURES_SHOWN)
            add_lines(ws, failure, is_brief ? BRIEF_BYTES : FAILURE_BYTES);
}
