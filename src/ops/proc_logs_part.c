/* proc_logs_part.c - a part of the output of one process by its offsets, forwards or backwards, and a search in it. */
#include "ops/proc_lines.h"
#include "proc/log_text.h"

#include <string.h>

#define PART_LEAST LOG_PIECE_MAX /* the longest piece of a line goes into every part */

bool proc_logs_is_part(const struct op_call *call)
{
    return !call->is_cli && (json_object_get(call->args, "before") || json_object_get(call->args, "bytes") ||
                             json_object_get(call->args, "offset") || json_get_bool(call->args, "hits", false));
}

static json_t *place_json(const struct log_reader *reader, struct tsk_error *err)
{
    int64_t at[2];
    if (log_reader_cursors(reader, at, err) < 0)
        return NULL;
    return json_sprintf("%lld:%lld", (long long)at[0], (long long)at[1]);
}

/* Every line goes into one part only: a part begins and ends where the merged order of both outputs is known. */
static int read_lines(struct op_call *call, struct log_reader *reader, int64_t most, json_t *answer,
                      struct tsk_error *err)
{
    struct log_line line;
    json_t *lines = json_array();
    int rc = log_reader_peek(reader, &line, err);
    json_object_set_new(answer, "lines", lines);
    json_object_set_new(answer, "from", rc < 0 ? NULL : place_json(reader, err));
    while (rc > 0 && most != 0) {
        json_array_append_new(lines, proc_line_json(call, NULL, &line));
        log_reader_skip(reader);
        most -= most > 0 && !line.is_partial;
        rc = log_reader_peek(reader, &line, err);
    }
    json_object_set_new(answer, "cursor", rc < 0 ? NULL : place_json(reader, err));
    return rc < 0 || !json_object_get(answer, "from") || !json_object_get(answer, "cursor") ? -1 : 0;
}

static json_t *hit_json(struct op_call *call, const struct log_reader *reader, const struct log_line *line,
                        struct tsk_error *err)
{
    struct log_line cut = *line;
    cut.len = cut.len < LOG_HIT_LINE_MAX ? cut.len : LOG_HIT_LINE_MAX;
    json_t *hit = proc_line_json(call, NULL, &cut), *place = place_json(reader, err);
    json_object_set_new(hit, "cursor", place);
    if (place)
        return hit;
    json_decref(hit);
    return NULL;
}

static int search_lines(struct op_call *call, struct log_reader *reader, json_t *answer, struct tsk_error *err)
{
    struct log_line line;
    json_t *hits = json_array();
    int64_t looked_at = 0;
    int rc;
    json_object_set_new(answer, "hits", hits);
    while ((rc = log_reader_peek(reader, &line, err)) > 0) {
        if (looked_at >= LOG_SEARCH_MAX || json_array_size(hits) == LOG_HITS_MAX)
            break;
        json_t *hit = line.is_hit ? hit_json(call, reader, &line, err) : NULL;
        if (line.is_hit && !hit)
            return -1;
        if (hit)
            json_array_append_new(hits, hit);
        looked_at += (int64_t)line.len + 1;
        log_reader_skip(reader);
    }
    json_object_set_new(answer, "next", rc > 0 ? place_json(reader, err) : json_null());
    return rc < 0 || !json_object_get(answer, "next") ? -1 : 0;
}

int proc_logs_part(struct op_call *call, const struct proc *p, struct log_query *query, json_t **ret,
                   struct tsk_error *err)
{
    int64_t before[2] = {-1, -1}, bytes = json_get_int(call->args, "bytes", PART_LEAST);
    struct log_reader *reader = NULL;
    bool is_search = json_get_bool(call->args, "hits", false);
    if (log_args_cursor(call->args, "before", before, err) < 0)
        return -1;
    query->before = before[0] < 0 ? NULL : before;
    query->marks_hits = is_search;
    query->max_bytes = is_search ? 0 : (size_t)(bytes > PART_LEAST ? bytes : PART_LEAST);
    if (is_search && query->cursor[0] < 0)
        query->cursor[0] = query->cursor[1] = 0;
    if (is_search || !json_object_get(call->args, "lines"))
        query->lines = -1;
    if (log_reader_open(p, query, &reader, err) < 0)
        return -1;
    json_t *answer CLEANUP_JSON = json_pack("{s:s}", "id", p->id);
    int64_t most = query->cursor[0] >= 0 ? query->lines : -1;
    int result = is_search ? search_lines(call, reader, answer, err) : read_lines(call, reader, most, answer, err);
    log_reader_close(reader);
    *ret = result == 0 ? json_incref(answer) : NULL;
    return result;
}
