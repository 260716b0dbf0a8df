/* proc_logs_many.c - the output of several processes: what there is, by time; then what comes, in the order in which it is seen. */
#include "ops/proc_args.h"
#include "ops/proc_lines.h"

#include <stdlib.h>
#include <string.h>

struct many {
    struct proc_lines lines;
    struct proc *processes;
    struct log_reader **readers;
    size_t count;
    bool is_exact;         /* all keep the time of each line */
    int64_t (*cursors)[2]; /* where each continues, or NULL */
};

static void many_clear(struct many *many)
{
    for (size_t i = 0; i < many->count; i++) {
        log_reader_close(many->readers ? many->readers[i] : NULL);
        proc_clear(&many->processes[i]);
    }
    free(many->cursors);
    free(many->readers);
    free(many->processes);
}

static int many_open(struct many *many, struct op_call *call, const char *const *ids, size_t count,
                     const struct log_query *query, struct tsk_error *err)
{
    REGISTRY(reg);
    many->processes = calloc(count + 1, sizeof *many->processes);
    many->readers = calloc(count + 1, sizeof(struct log_reader *));
    many->is_exact = true;
    BUG(!many->processes || !many->readers);
    proc_lines_init(&many->lines, call, ids, count);
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct proc *p = &many->processes[i];
        p->dir = -1;
        if (proc_load(&reg, ids[i], p, err) < 0)
            return -1;
        many->count = i + 1;
        bool has_run = p->view.n > 0 && p->dir >= 0;
        if (has_run && (query->run <= 0 || query->run <= p->view.n) &&
            log_reader_open(p, query, &many->readers[i], err) < 0)
            return -1;
        if (has_run && strcmp(p->view.log, proc_log_names[PROC_LOG_STAMPED]) != 0)
            many->is_exact = false;
    }
    return 0;
}

/* The reader whose line is the oldest; the pieces of a line stay together. `count`: there is none. */
static int many_pick(struct many *many, size_t last, bool is_inside, size_t *ret, struct log_line *ret_line,
                     struct tsk_error *err)
{
    *ret = many->count;
    for (size_t i = 0; i < many->count; i++) {
        struct log_line line;
        int rc = many->readers[i] ? log_reader_peek(many->readers[i], &line, err) : 0;
        if (rc < 0)
            return -1;
        bool goes_on = rc && is_inside && i == last;
        if (rc && (*ret == many->count || line.time_ms < ret_line->time_ms || goes_on)) {
            *ret = i;
            *ret_line = line;
        }
        if (goes_on)
            break;
    }
    return 0;
}

/* All that there is, or the last `query->lines` of all. */
static int many_read(struct many *many, const struct log_query *query, struct tsk_error *err)
{
    int64_t skip = 0;
    size_t which = many->count;
    bool is_inside = false;
    struct log_line line = {.stream = LOG_BOTH};
    for (size_t i = 0; i < many->count && query->lines >= 0; i++)
        skip += many->readers[i] ? log_reader_lines(many->readers[i]) : 0;
    skip -= query->lines >= 0 ? query->lines : 0;
    for (;;) {
        const size_t last = which;
        const enum log_stream stream = line.stream;
        if (many_pick(many, last, is_inside, &which, &line, err) < 0)
            return -1;
        if (which == many->count)
            return 0;
        skip -= !(is_inside && which == last &&
                  line.stream == stream); /* a line counts where it begins: it may have no end */
        is_inside = line.is_partial;
        if (skip < 0 && !proc_lines_put(&many->lines, which, &line))
            return 0;
        log_reader_skip(many->readers[which]);
    }
}

bool proc_logs_has_cursors(const struct op_call *call)
{
    return call->is_remote && !call->is_brief && json_is_array(json_object_get(call->args, "id"));
}

/* "OUT:ERR,OUT:ERR,…", one for each process in their order. What there was before is not read. */
static int many_take_cursors(struct many *many, const char *text, struct tsk_error *err)
{
    const char *at = text;
    many->cursors = memory_zeroed(many->count + 1, sizeof *many->cursors);
    for (size_t i = 0; i < many->count; i++) {
        bool is_last = i + 1 == many->count;
        if (!log_args_take_cursor(&at, many->cursors[i]) || *at != (is_last ? '\0' : ','))
            return error_set(err, TSK_INVALID_INPUT, "log_cursor", "param", "cursor", "value", text, NULL);
        at += !is_last;
    }
    return 0;
}

static int many_follow(struct many *many, const struct log_query *query, struct tsk_error *err)
{
    struct op_call *call = many->lines.call;
    struct tails tails CLEANUP(tails_clear) = {.notes = -1};
    struct log_query rest = *query;
    struct tail_hooks hooks = proc_lines_hooks(&many->lines);
    rest.lines = -1;
    rest.run = 0;
    rest.max_bytes = 0;
    rest.cursor[0] = rest.cursor[1] = 0;
    if (tails_open(&tails, call->ws, many->lines.ids, many->count, &rest, err) < 0)
        return -1;
    for (size_t i = 0; i < many->count; i++) {
        int64_t next[2];
        if (many->cursors)
            tails_set_cursor(&tails, i, many->cursors[i]);
        else if (many->readers[i] && log_reader_cursors(many->readers[i], next, err) < 0)
            return -1;
        else if (many->readers[i])
            tails_set_cursor(&tails, i, next);
        log_reader_close(many->readers[i]);
        many->readers[i] = NULL;
    }
    for (;;) {
        int result = tails_read(&tails, &hooks, err);
        if (!proc_lines_flush(&many->lines) || result < 0)
            return err->code == TSK_OK ? 0 : -1;
        if (tails_have_ended(&tails) || (call->is_cancelled && call->is_cancelled(call)))
            return 0;
        tails_wait(&tails, NULL, 0, call->is_cancelled ? CANCEL_LOOK_MS : -1);
    }
}

static int many_run(struct many *many, const struct log_query *query, bool is_following, json_t **ret,
                    struct tsk_error *err)
{
    struct op_call *call = many->lines.call;
    json_t *list CLEANUP_JSON = json_array();
    if (!call->emit_line && !is_following)
        many->lines.list = list;
    if (!many->cursors && many_read(many, query, err) < 0)
        return -1;
    const char *order = many->is_exact ? "log_order_exact" : "log_order_second";
    if (many->count > 1)
        proc_lines_remark(&many->lines, text_get(is_following ? "log_order_seen" : order, call->lang));
    else if (many->count == 0)
        proc_lines_remark(&many->lines, text_get("no_processes", call->lang));
    proc_lines_flush(&many->lines);
    if (is_following)
        return many_follow(many, query, err);
    if (!call->emit_line)
        *ret = json_pack("{s:O, s:s}", "lines", list, "order", many->is_exact ? "exact" : "second");
    return 0;
}

int proc_logs_many(struct op_call *call, const json_t *ids, const struct log_query *query, json_t **ret,
                   struct tsk_error *err)
{
    struct many many CLEANUP(many_clear) = {0};
    const char **names CLEANUP_FREE = proc_args_strings(ids);
    bool is_following = json_get_bool(call->args, "follow", false) && call->emit;
    int result = -1;
    const char *cursors = json_get_string(call->args, "cursor", NULL);
    if (query->cursor[0] >= 0 || (cursors && !proc_logs_has_cursors(call)))
        error_set(err, TSK_INVALID_INPUT, "log_cursor_many", "param", "cursor", NULL);
    else if (many_open(&many, call, names, json_array_size(ids), query, err) == 0 &&
             (!cursors || many_take_cursors(&many, cursors, err) == 0))
        result = many_run(&many, query, is_following, ret, err);
    if (result == 0)
        proc_lines_end(&many.lines);
    return result;
}
