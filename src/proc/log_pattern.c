#include "proc/log_pattern.h"
#include "proc/log_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = LOG_PIECE_MAX,
    OVERLAP = 4 << 10, /* a match of up to this length is found wherever a long line is cut */
    PATTERN_REPEAT_MAX = 10000,
};

/* regcomp writes repetitions out: `(((x{999}){999}){999})` would take all memory there is. Returns the product of the
 * greatest counts, or more than PATTERN_REPEAT_MAX. */
static unsigned long count_repetitions(const char *text)
{
    unsigned long product = 1;
    for (; *text; text++) {
        if (*text == '\\' && text[1]) {
            text++;
        } else if (*text == '{') {
            unsigned long low = strtoul(text + 1, NULL, 10), high = 0;
            const char *comma = strpbrk(text, ",}");
            if (comma && *comma == ',')
                high = strtoul(comma + 1, NULL, 10);
            unsigned long most = high > low ? high : low;
            if (most > PATTERN_REPEAT_MAX || (most > 1 && (product *= most) > PATTERN_REPEAT_MAX))
                return PATTERN_REPEAT_MAX + 1;
        }
    }
    return product;
}

int log_pattern_init(struct log_pattern *pattern, const char *text, struct tsk_error *err)
{
    char reason[128] = "too many repetitions";
    *pattern = (struct log_pattern){.plain = BUF_INIT};
    if (!text)
        return 0;
    int rc =
        count_repetitions(text) > PATTERN_REPEAT_MAX ? -1 : regcomp(&pattern->regex, text, REG_EXTENDED | REG_NOSUB);
    if (rc > 0)
        regerror(rc, NULL, reason, sizeof reason);
    if (rc != 0)
        return error_set(err, TSK_INVALID_INPUT, "spec_regex", "param", "grep", "value", text, "want", reason, NULL);
    pattern->is_given = true;
    return 0;
}

void log_pattern_clear(struct log_pattern *pattern)
{
    if (pattern->is_given)
        regfree(&pattern->regex);
    pattern->is_given = false;
    buf_clear(&pattern->plain);
}

/* 1, 0, or -1 out of memory. */
static int match_text(struct log_pattern *pattern, const char *text, size_t len, int flags)
{
    if (len && memchr(text, '\033', len)) {
        buf_reset(&pattern->plain);
        log_text_strip(&pattern->plain, text, len);
        if (pattern->plain.failed) {
            errno = ENOMEM;
            return -1;
        }
        text = buf_str(&pattern->plain);
        len = pattern->plain.len;
    }
    if (len && text[len - 1] == '\r')
        len--;
    regmatch_t whole = {.rm_so = 0, .rm_eo = (regoff_t)len};
    return regexec(&pattern->regex, text, 1, &whole, REG_STARTEND | flags) ==
           0; /* by length: NUL is a byte like others */
}

/* A line in pieces, in windows that overlap. */
static int match_long_line(struct log_pattern *pattern, const struct log_source *source, int64_t at)
{
    int flags = 0, result = 0;
    char *window = calloc(1, WINDOW + 1);
    if (!window)
        return -1;
    for (;;) {
        ssize_t n = log_source_pread(source, window, WINDOW, at);
        if (n <= 0) {
            result = (int)n;
            break;
        }
        const char *newline = memchr(window, '\n', (size_t)n);
        bool is_last = newline || n < WINDOW || at + n >= source->stop;
        size_t len = newline ? (size_t)(newline - window) : (size_t)n;
        result = match_text(pattern, window, len, flags | (is_last ? 0 : REG_NOTEOL));
        if (result != 0 || is_last)
            break;
        flags = REG_NOTBOL;
        at += WINDOW - OVERLAP;
    }
    free(window);
    return result;
}

int log_pattern_match_text(struct log_pattern *pattern, const char *text, size_t len)
{
    return pattern->is_given ? match_text(pattern, text, len, 0) : 1;
}

int log_pattern_match(struct log_pattern *pattern, const struct log_source *source, const struct log_item *item)
{
    if (!pattern->is_given)
        return 1;
    if (item->ends_line)
        return match_text(pattern, item->line.text, item->line.len, 0);
    return match_long_line(pattern, source, item->next - (int64_t)item->line.len);
}
