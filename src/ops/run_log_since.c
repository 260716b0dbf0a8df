/* run_log_since.c - which lines of a task's log were printed since a time. tasuki does not stamp them: a line that begins with a
 * time is judged by it, and the lines behind it belong to it. */
#include "base/clock.h"
#include "ops/run_args.h"

#include <string.h>
#include <time.h>

#define STAMP_MIN strlen("2026-02-07T22:30:00")

/* A time without an offset is local. */
static bool parse_stamp(char *text, size_t len, int64_t *ret_ms)
{
    struct tm tm;
    if (time_parse(text, ret_ms) == 0)
        return true;
    memcpy(text + len, "Z", 2);
    if (time_parse(text, ret_ms) < 0)
        return false;
    time_t seconds = (time_t)(*ret_ms / 1000);
    gmtime_r(&seconds, &tm);
    tm.tm_isdst = -1;
    *ret_ms = (int64_t)mktime(&tm) * 1000 + *ret_ms % 1000;
    return true;
}

/* The time at the beginning of a line: 2026-02-07T22:30:00Z, [2026-02-07 22:30:00,123], with an offset or without. */
static bool stamp_of_line(const char *line, size_t len, int64_t *ret_ms)
{
    char text[64];
    size_t from = len && (line[0] == '[' || line[0] == '('), n = STAMP_MIN;
    if (len < from + STAMP_MIN || line[from] < '0' || line[from] > '9')
        return false;
    while (from + n < len && n < sizeof text - 2 && line[from + n] && strchr("0123456789.,:+-Z", line[from + n]))
        n++;
    while (n > STAMP_MIN && strchr(".,:+-", line[from + n - 1])) /* of the sentence, not of the time */
        n--;
    memcpy(text, line + from, n);
    text[n] = '\0';
    return parse_stamp(text, n, ret_ms);
}

bool run_log_keep_since(int64_t since_ms, bool *is_since, struct buf *text)
{
    bool has_times = false;
    size_t kept = 0;
    for (size_t at = 0; at < text->len;) {
        const char *newline = memchr(text->data + at, '\n', text->len - at);
        size_t len = newline ? (size_t)(newline + 1 - text->data) - at : text->len - at;
        int64_t time_ms;
        if (stamp_of_line(text->data + at, len, &time_ms)) {
            *is_since = time_ms >= since_ms;
            has_times = true;
        }
        if (*is_since) {
            memmove(text->data + kept, text->data + at, len);
            kept += len;
        }
        at += len;
    }
    text->len = kept;
    return has_times;
}
