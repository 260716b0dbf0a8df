/* flow_pieces.h - typed values out of YAML pieces, for flow_read.c. A value of the wrong kind is a problem of the flow; reading
 * goes on behind it with the fallback, so that one look finds all problems.
 *
 * The current piece is r->piece. A function that reads a value finds its first piece there and leaves its last one. */
#ifndef GRAPH_FLOW_PIECES_H
#define GRAPH_FLOW_PIECES_H

#include "base/yaml_reader.h"
#include "graph/flow.h"

struct reading {
    struct flow *flow;
    struct yaml_reader *reader;
    struct yaml_piece piece;
    bool is_broken; /* the text is no YAML from here on */
    struct flow_place expression;
    const char *text;
    size_t len;
    struct buf run_text; /* of the last `run` that was a scalar, as it stands */
    uint32_t run_line, run_column;
};

/* One key of a map, and what reads its value into `target`. */
struct key_rule {
    const char *key;
    void (*read)(struct reading *r, void *target);
};

bool piece_next(struct reading *r); /* false: the text is no YAML from here on; that was said */
void piece_skip(struct reading *r);
/* Reports that `want` (a key of messages) is expected here. */
void piece_wrong(struct reading *r, const char *want);
/* A scalar that is not empty, or NULL. */
const char *piece_scalar(struct reading *r, const char *want);
int64_t piece_number(struct reading *r, int64_t min, int64_t max, int64_t fallback);
double piece_fraction(struct reading *r, double min, double max, double fallback);
int64_t piece_duration(struct reading *r, int64_t fallback);
/* The index of one of `choices` (ends with NULL). */
size_t piece_choice(struct reading *r, const char *const *choices, size_t fallback);
/* An offset into flow.strings; 0: none. */
uint32_t piece_string(struct reading *r);
/* The strings of a list, one behind the other; *ret_count of them. */
uint32_t piece_strings(struct reading *r, uint32_t *ret_count);
/* A map with fixed keys; `rules` ends with a NULL key. */
void piece_map(struct reading *r, const struct key_rule *rules, void *target);

#endif
