/* proc_lines.h - lines of several processes for a skin: text with names for people, documents for programs. */
#ifndef OPS_PROC_LINES_H
#define OPS_PROC_LINES_H

#include "ops/ops.h"
#include "proc/tails.h"

struct proc_lines {
    struct op_call *call;
    const char *const *ids;
    size_t count, width; /* columns of the longest id */
    json_t *list;        /* documents are collected here; NULL: each is emitted */
    bool has_states;     /* changes of states are shown, too */
    bool rings;          /* a failure rings the bell */
};

void proc_lines_init(struct proc_lines *lines, struct op_call *call, const char *const *ids, size_t count);
/* false: stop. */
bool proc_lines_put(struct proc_lines *lines, size_t which, const struct log_line *line);
/* A remark of tasuki about all of them; documents have no place for it. */
bool proc_lines_remark(struct proc_lines *lines, const char *text);
/* The same, of an error: it is shown also where only errors are. */
bool proc_lines_complain(struct proc_lines *lines, const char *text);
/* What all of it waits for, until the next call; "": nothing. On a terminal it is the last line,
 * with the span, which proc_lines_flush renews; elsewhere a sentence. */
bool proc_lines_await(struct proc_lines *lines, const char *text);
/* There is no more for the moment; there is no more at all. */
bool proc_lines_flush(struct proc_lines *lines);
void proc_lines_end(struct proc_lines *lines);
/* Hooks of tails_read for these lines. */
struct tail_hooks proc_lines_hooks(struct proc_lines *lines);

/* A line as a document, with `id` unless that is NULL. Over HTTP it has its offsets, too: `from` and `to`. Owned. */
json_t *proc_line_json(const struct op_call *call, const char *id, const struct log_line *line);

/* ---- op_proc_logs.c ---- */

/* "OUT:ERR", as an earlier answer had it; ret stays where the argument is absent. */
int log_args_cursor(const json_t *args, const char *param, int64_t ret[2], struct tsk_error *err);
/* One of a list of cursors: reads it and goes behind it. false: it is none. */
bool log_args_take_cursor(const char **text, int64_t ret[2]);

/* ---- proc_logs_part.c ---- */

/* Whether a page asks for a part by its offsets, or for hits; that part, those hits. */
bool proc_logs_is_part(const struct op_call *call);
int proc_logs_part(struct op_call *call, const struct proc *p, struct log_query *query, json_t **ret,
                   struct tsk_error *err);

/* ---- proc_logs_many.c ---- */

/* Whether the cursor is one for each of several processes: a page's stream. */
bool proc_logs_has_cursors(const struct op_call *call);
/* `proc logs` of several processes: by time, then as they come. */
int proc_logs_many(struct op_call *call, const json_t *ids, const struct log_query *query, json_t **ret,
                   struct tsk_error *err);

#endif
