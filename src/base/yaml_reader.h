/* yaml_reader.h - YAML piece by piece, for files too large for a tree. Every piece has its position.
 *
 *     struct yaml_reader *reader;
 *     struct yaml_piece piece;
 *     yaml_reader_open(text, len, &reader, err);
 *     while (yaml_reader_next(reader, &piece) == 0 && piece.type != YAML_PIECE_END_OF_FILE) ...
 *     yaml_reader_close(reader);
 *
 * Refused as in yaml.h: aliases, anchors, tags, several documents, more than YAML_DEPTH_MAX levels. Keys and values
 * alternate. The caller checks for repeated keys. */
#ifndef BASE_YAML_READER_H
#define BASE_YAML_READER_H

#include "base/yaml.h"

enum yaml_piece_type {
    YAML_PIECE_SCALAR,
    YAML_PIECE_LIST, /* begins */
    YAML_PIECE_MAP,  /* begins */
    YAML_PIECE_END,  /* of the list or map that began last */
    YAML_PIECE_END_OF_FILE,
};

struct yaml_piece {
    enum yaml_piece_type type;
    unsigned line, column;         /* where it begins, 1-based; columns count characters */
    unsigned end_line, end_column; /* after its last character */
    bool is_plain, is_quoted, is_block;
    const char *text; /* of a scalar; NUL-terminated, borrowed until the next piece */
    size_t len;
};

struct yaml_reader;

int yaml_reader_open(const char *text, size_t len, struct yaml_reader **ret, struct tsk_error *err);
void yaml_reader_close(struct yaml_reader *reader);
/* Returns 0, or -1 if the text is not YAML, with the reason in *ret_reason and the position in the piece. */
int yaml_reader_next(struct yaml_reader *reader, struct yaml_piece *ret, const char **ret_reason);

/* For both readers, defined in yaml.c: the place of libyaml's problem (for an open quote, the place where it begins), the problem
 * as a text, and the reason for which an event is refused, or NULL. */
struct yaml_parser_s;
struct yaml_event_s;
struct yaml_mark_s yaml_parser_mark(const struct yaml_parser_s *parser);
const char *yaml_parser_reason(const struct yaml_parser_s *parser);
const char *yaml_event_refusal(const struct yaml_event_s *event);

#endif
