/* log_text.h - output of other programs, made safe for JSON, a terminal or a regular expression. Bytes in, bytes out; the text
 * may be binary and is not NUL-terminated. */
#ifndef PROC_LOG_TEXT_H
#define PROC_LOG_TEXT_H

#include "base/json.h"

/* What a terminal shows of a line in the end: what follows its last carriage return, those at its end left out. */
const char *log_text_last_part(const char *line, size_t *len);
/* Appends it without escape sequences; all other bytes stay. */
void log_text_strip(struct buf *b, const char *text, size_t len);
/* Appends lines so that they can do no harm in a terminal: colours stay (if has_colour) and end with their line, every other
 * escape sequence is removed, other control characters and invalid bytes are shown as \xNN, a carriage return begins a
 * new line instead of overwriting one. */
void log_text_for_terminal(struct buf *b, const char *text, size_t len, bool has_colour);
/* A JSON string; invalid UTF-8 becomes U+FFFD. Owned; NULL when out of memory. */
json_t *log_text_json(const char *text, size_t len);

#endif
