/* log_pattern.h - the regular expression of `logs --grep`, applied to lines that may be binary and of any length.
 *
 * It sees what a person sees: without escape sequences and without the carriage return of a CRLF. */
#ifndef PROC_LOG_PATTERN_H
#define PROC_LOG_PATTERN_H

#include "proc/log_source.h"

#include <regex.h>

struct log_pattern {
    bool is_given;
    regex_t regex;
    struct buf plain; /* the line without its escape sequences */
};

/* `text` NULL matches everything. INVALID_INPUT names what is wrong with it. */
int log_pattern_init(struct log_pattern *pattern, const char *text, struct tsk_error *err);
void log_pattern_clear(struct log_pattern *pattern);

/* Whether the line that begins with `item` matches; if it is a piece, the rest of its line is read. 1, 0, -1 with errno. */
int log_pattern_match(struct log_pattern *pattern, const struct log_source *source, const struct log_item *item);
/* The same for a line that is there as a whole. */
int log_pattern_match_text(struct log_pattern *pattern, const char *text, size_t len);

#endif
