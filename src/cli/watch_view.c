/* watch_view.c - one thing and its log, as lines. */
#include "base/utf8.h"
#include "cli/watch.h"
#include "proc/log_text.h"

#include <stdlib.h>
#include <string.h>

enum { VIEW_LOG_LINES = 500, VIEW_TASK_LINES = 40, FACT_COLUMNS = 11 };

/* ---- what to fetch ---------------------------------------------------------------------------------------- */

static json_t *wish_of_run(const char *run, const char *op, json_t *args)
{
    json_t *wish = json_pack("{s:s, s:o}", "op", op, "args", args);
    if (*run)
        json_object_update_new(wish, json_pack("{s:s, s:{s:s, s:i}}", "log", "runs.logs", "log_args", "run", run,
                                               "lines", VIEW_TASK_LINES));
    return wish;
}

static json_t *wish_of_process(const char *id)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:{s:s, s:i}}", "op", "process.status", "args", "id", id, "log",
                     "process.logs", "log_args", "id", id, "lines", VIEW_LOG_LINES);
}

static json_t *wish_of_lock(const json_t *lock)
{
    json_t *args = json_pack("{s:s}", "kind", json_get_string(lock, "kind", ""));
    if (json_get_string(lock, "id", NULL))
        json_object_set(args, "id", json_object_get(lock, "id"));
    return json_pack("{s:s, s:o}", "op", "lock.check", "args", args);
}

json_t *watch_wish_of(const struct watch_row *row, bool only_log)
{
    const char *run = json_get_string(row->item, "run_id", ""), *id = json_get_string(row->item, "id", "");
    json_t *wish = NULL;
    if (row->kind == ROW_PROCESS)
        wish = wish_of_process(id);
    else if (row->kind == ROW_RUN || row->kind == ROW_QUESTION)
        wish = wish_of_run(run, "runs.show", json_pack("{s:s}", "run", run));
    else if (row->kind == ROW_REQUEST)
        wish = wish_of_run(run, "request.show", json_pack("{s:s}", "id", id));
    else if (row->kind == ROW_WORKFLOW)
        wish =
            json_pack("{s:s, s:{s:O}}", "op", "own.show", "args", "ulTaskId", json_object_get(row->item, "ulTaskId"));
    else if (row->kind == ROW_LOCK)
        wish = wish_of_lock(row->item);
    else if (row->kind != ROW_HEAD)
        wish = json_pack("{s:O}", "shown", (json_t *)row->item);
    if (only_log && json_object_get(wish, "log"))
        json_object_del(wish, "op");
    else if (only_log) {
        json_decref(wish);
        wish = NULL;
    }
    return wish;
}

/* ---- lines ------------------------------------------------------------------------------------------------ */

void watch_lines_free(struct watch_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(lines[i].text);
    free(lines);
}

static void lines_add(struct watch_line **lines, size_t *count, enum style style, const char *text, size_t len)
{
    if (*count % 64 == 0) {
        *lines = realloc(*lines, (*count + 64) * sizeof **lines);
        BUG(!*lines);
    }
    (*lines)[(*count)++] = (struct watch_line){.text = strndup(text, len), .style = style};
}

struct watch_line *watch_lines_of(const char *text, size_t width, enum style style, size_t *ret_count)
{
    struct watch_line *lines = NULL;
    size_t count = 0;
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        struct buf wrapped CLEANUP(buf_clear) = BUF_INIT;
        char *line = strndup(text, (size_t)(end - text));
        bool is_long = line && width && utf8_width(line) > width;
        if (is_long)
            cli_put_wrapped(&wrapped, line, 0, width);
        const char *at = is_long ? buf_str(&wrapped) : line;
        for (const char *stop; at && *at; at = *stop ? stop + 1 : stop) {
            stop = at + strcspn(at, "\n");
            lines_add(&lines, &count, style, at, (size_t)(stop - at));
        }
        if (line && !*line)
            lines_add(&lines, &count, style, "", 0);
        free(line);
    }
    *ret_count = count;
    return lines;
}

char *watch_printed(struct watch *watch, const json_t *done, size_t width)
{
    struct op_call call = {.op = op_by_name(json_get_string(done, "op", "")),
                           .args = json_object_get(done, "args"),
                           .aside = json_object_get(done, "aside"),
                           .says = json_get_string(done, "says", NULL),
                           .lang = watch->options.lang,
                           .is_cli = true};
    struct cli_options options = watch->options;
    char *text = NULL;
    size_t len = 0;
    FILE *terminal = stdout, *memory = open_memstream(&text, &len);
    BUG(!memory);
    options.screen_columns = (int)width;
    stdout = memory; /* only this thread prints (watch.h, S1) */
    cli_print_result(&call, &options, json_object_get(done, "result"));
    stdout = terminal;
    fclose(memory);
    return text;
}

/* ---- the view --------------------------------------------------------------------------------------------- */

void watch_view_clear(struct watch *watch)
{
    watch_lines_free(watch->facts, watch->fact_count);
    watch_lines_free(watch->log, watch->log_count);
    json_decref(watch->viewed);
    watch->facts = watch->log = NULL;
    watch->viewed = NULL;
    watch->fact_count = watch->log_count = 0;
}

/* Lines of a program: without its colours, and each carriage return begins a line. */
static void add_output(struct watch *watch, const char *before, const json_t *text, enum style style)
{
    struct buf safe CLEANUP(buf_clear) = BUF_INIT;
    log_text_for_terminal(&safe, json_string_value(text), json_string_length(text), false);
    for (const char *at = buf_str(&safe), *end; *at; at = *end ? end + 1 : end) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        end = at + strcspn(at, "\n");
        buf_printf(&line, "%s%.*s", before, (int)(end - at), at);
        lines_add(&watch->log, &watch->log_count, style, buf_str(&line), line.len);
    }
}

static void add_process_log(struct watch *watch, const json_t *result)
{
    json_each (json_object_get(result, "lines"), i, line) {
        bool is_error = json_text_is(line, "stream", "stderr");
        add_output(watch, is_error ? "! " : "  ", json_object_get(line, "text"), is_error ? STYLE_WARN : STYLE_PLAIN);
    }
}

static void add_run_log(struct watch *watch, const json_t *result)
{
    size_t width = 0;
    json_each (json_object_get(result, "logs"), i, log) {
        size_t name = strlen(json_get_string(log, "task", ""));
        width = name > width ? name : width;
    }
    json_each (json_object_get(result, "logs"), i, log) {
        struct buf before CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&before, "%-*s | ", (int)width, json_get_string(log, "task", ""));
        add_output(watch, buf_str(&before), json_object_get(log, "text"), STYLE_PLAIN);
    }
}

/* The width of the longest key that is shown, at least `width`. */
static size_t keys_width(const json_t *object, size_t width)
{
    json_each_pair (object, key, value)
        if (!json_is_null(value) && cli_event_shows(object, key) && strlen(key) > width)
            width = strlen(key);
    return width;
}

/* A thing that no operation tells more about: an event, a confirmation. */
static void view_put_facts(struct buf *b, const struct cli_options *options, const json_t *object, size_t width)
{
    json_each_pair (object, key, value) {
        char time[TIME_TEXT_MAX];
        bool is_time = json_is_string(value) && (strcmp(key, "time") == 0 || strcmp(key, "created_at") == 0);
        if (json_is_null(value) || !cli_event_shows(object, key))
            continue;
        if (strcmp(key, "data") == 0) { /* an event's own */
            view_put_facts(b, options, value, width);
            continue;
        }
        bool is_number = strcmp(key, "id") == 0 && json_object_get(object, "type"); /* its data may have an id, too */
        buf_printf(b, "%-*s ", (int)width, is_number ? "event" : key);
        if (is_time)
            cli_clock_seconds(options, json_string_value(value), time);
        if (is_time)
            buf_puts(b, time);
        else
            cli_put_event_value(b, value);
        buf_puts(b, "\n");
    }
}

static char *text_of_item(const struct cli_options *options, const json_t *item)
{
    struct buf b = {.max = 1 << 20};
    if (json_get_string(item, "question", NULL))
        buf_puts(&b, json_get_string(item, "question", ""));
    else
        view_put_facts(&b, options, item, keys_width(json_object_get(item, "data"), keys_width(item, FACT_COLUMNS)));
    return buf_take(&b);
}

void watch_view_take(struct watch *watch, json_t *view)
{
    const json_t *facts = json_object_get(view, "facts"), *log = json_object_get(view, "log");
    const json_t *shown = json_object_get(view, "shown"), *result = json_object_get(log, "result");
    watch_view_clear(watch);
    watch->viewed = view;
    const char *error = json_get_string(facts ? facts : log, "error", NULL);
    char *text = shown ? text_of_item(&watch->options, shown) : error ? strdup(error) : NULL;
    if (!text && facts)
        text = watch_printed(watch, facts, watch_columns());
    if (text) /* a table is cut, not wrapped */
        watch->facts = watch_lines_of(text, shown || error ? watch_columns() : 0, error ? STYLE_BAD : STYLE_PLAIN,
                                      &watch->fact_count);
    free(text);
    add_process_log(watch, result);
    add_run_log(watch, result);
}
