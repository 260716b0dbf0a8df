/* flow_pieces.h - typed values out of YAML pieces, for flow_read.c. A value of the wrong kind is a problem of the flow. Reading
 * continues after it with the default, so that one pass finds all problems.
 *
 * The current piece is r->piece. A function that reads a value begins at the value's first piece and stops at its last one. */
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
    uint32_t shell_line, shell_column;
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
/* flow_command.c: `run` and `shell` of a task, `shell` of the flow. */
void flow_read_run(struct reading *r, void *target);
void flow_read_task_shell(struct reading *r, void *target);
void flow_read_shell(struct reading *r, void *target);
/* Refuses the `shell` of a task whose command is not a text for a shell. */
void flow_check_shell(struct reading *r, const struct flow_task *task);
/* Makes words of the texts that need no shell. */
void flow_settle_commands(struct flow *flow);
/* flow_params.c: `params:`. */
void flow_read_params(struct reading *r, void *target);
/* A map with fixed keys; `rules` ends with a NULL key. */
void piece_map(struct reading *r, const struct key_rule *rules, void *target);
/* Tasks as a list. The current piece is its beginning; reports it and reads to its end. */
void piece_refuse_task_list(struct reading *r);

#endif
