/* log_last.c - the last words of a process that failed. Only the tail of the log is read, so that a list stays cheap. */
#include "base/utf8.h"
#include "proc/log_source.h"
#include "proc/log_text.h"

#include <string.h>

enum {
    LAST_TAIL_MAX = 16 << 10,
    LAST_WORDS_MAX = 500, /* bytes */
};

static const char *trim(const char *text, size_t *len)
{
    while (*len && strchr(" \t\r", text[*len - 1])) /* NUL too: dropped bytes read as such */
        --*len;
    while (*len && strchr(" \t", *text)) {
        text++;
        --*len;
    }
    return text;
}

/* What a terminal would show of the line in the end: no escapes, and nothing that a carriage return overwrites. NULL: nothing. */
static json_t *last_words(const char *line, size_t len)
{
    struct buf plain CLEANUP(buf_clear) = BUF_INIT;
    log_text_strip(&plain, line, len);
    size_t left = plain.len;
    const char *text = trim(buf_str(&plain), &left);
    text = log_text_last_part(text, &left);
    text = trim(text, &left);
    json_t *words = left ? log_text_json(text, left) : NULL;
    if (words && json_string_length(words) > LAST_WORDS_MAX) {
        char cut[LAST_WORDS_MAX + 1];
        utf8_copy(cut, sizeof cut, json_string_value(words));
        json_decref(words);
        words = json_string(cut);
    }
    return words;
}

/* Mode stamped has both outputs in one file. false: the line is no line of stderr. */
static bool take_stamp(const struct log_source *source, const char **line, size_t *len)
{
    int64_t ms;
    enum log_stream stream;
    size_t stamp;
    if (source->stream != LOG_BOTH)
        return true;
    if (!log_stamp_parse(*line, *len, &ms, &stream, &stamp) || stream != LOG_STDERR)
        return false;
    *line += stamp;
    *len -= stamp;
    return true;
}

json_t *log_last_stderr(const struct proc *p)
{
    char tail[LAST_TAIL_MAX];
    struct log_source source CLEANUP(log_source_clear);
    bool is_stamped = strcmp(p->view.log, proc_log_names[PROC_LOG_STAMPED]) == 0;
    bool is_tty = strcmp(p->view.log, proc_log_names[PROC_LOG_TTY]) == 0; /* a terminal has one output */
    if (log_source_open(&source, p->dir,
                        is_stamped ? "output"
                        : is_tty   ? "stdout"
                                   : "stderr",
                        is_stamped ? LOG_BOTH : LOG_STDERR) < 0)
        return NULL;
    int64_t from = source.end - LAST_TAIL_MAX, begin = is_tty ? p->view.stdout_offset : p->view.stderr_offset;
    from = from > begin ? from : begin;
    from = from > source.base ? from : source.base;
    ssize_t got = source.fd < 0 || from >= source.end ? 0 : log_source_pread(&source, tail, LAST_TAIL_MAX, from);
    for (size_t end = got > 0 ? (size_t)got : 0; end > 0;) {
        const char *newline = memrchr(tail, '\n', end), *line = newline ? newline + 1 : tail;
        size_t len = (size_t)(tail + end - line);
        json_t *words = take_stamp(&source, &line, &len) ? last_words(line, len) : NULL;
        if (words)
            return words;
        end = newline ? (size_t)(newline - tail) : 0;
    }
    return NULL;
}
