/* print_workspace.c - the workspace and its trail for people. */
#include "base/utf8.h"
#include "base/who.h"
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

#define EVENT_INDENT 10 /* of a line that continues an event, below its type */

PRINTER(version, "version")
{
    printf("tasuki %s\n", json_get_string(result, "version", ""));
}

const json_t *cli_event_who(const json_t *event, const char **ret_key)
{
    const json_t *actor = json_object_get(event, "actor"), *data = json_object_get(event, "data");
    const json_t *who = json_object_get(data, "who");
    *ret_key = NULL;
    if (json_is_object(actor))
        return actor;
    if (json_is_object(who)) {
        *ret_key = "who";
        return who;
    }
    *ret_key = json_text_is(event, "type", "instance.ended") ? "label" : NULL;
    return *ret_key ? data : NULL;
}

bool cli_event_shows(const json_t *data, const char *key)
{
    bool is_raw = strcmp(key, "status") == 0 && json_object_get(data, "exit_code");
    return !is_raw && strcmp(key, "outbox_id") != 0;
}

void cli_put_event_value(struct buf *b, const json_t *value)
{
    if (json_get_string(value, "label", NULL))
        who_put_label(b, value);
    else
        text_put_value(b, value);
}

/* One part of an event's line, `key`=`text` if it has a key. What does not fit on the terminal's line begins the next one. */
static void put_event_part(struct buf *b, const struct cli_options *options, size_t *column, enum style style,
                           const char *key, const char *text)
{
    size_t width = utf8_width(text) + (key ? strlen(key) + 1 : 0), columns = (size_t)cli_terminal_width(stdout);
    bool breaks = isatty(STDOUT_FILENO) && *column + 2 + width > columns && *column > EVENT_INDENT;
    buf_printf(b, breaks ? "\n%*s" : "%*s", *column == 0 ? 0 : breaks ? EVENT_INDENT : 2, "");
    *column = (*column == 0 ? 0 : breaks ? EVENT_INDENT : *column + 2) + width;
    if (key) {
        cli_put(b, options, stdout, STYLE_DIM, key);
        buf_puts(b, "=");
    }
    cli_put(b, options, stdout, style, text);
}

void cli_print_event(const struct cli_options *options, const json_t *event)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, data CLEANUP(buf_clear) = BUF_INIT;
    const json_t *body = json_object_get(event, "data");
    char time[TIME_TEXT_MAX];
    size_t column = 0;
    cli_clock_seconds(options, json_get_string(event, "time", ""), time);
    put_event_part(&b, options, &column, STYLE_DIM, NULL, time);
    put_event_part(&b, options, &column, STYLE_BOLD, NULL, json_get_string(event, "type", ""));
    const char *said;
    who_put_label(&data, cli_event_who(event, &said));
    if (data.len)
        put_event_part(&b, options, &column, STYLE_PLAIN, NULL, buf_str(&data));
    static const char *const keys[] = {"session_id", "run_id", "task_id"};
    for (size_t i = 0; i < 3; i++)
        if (json_get_string(event, keys[i], NULL))
            put_event_part(&b, options, &column, STYLE_PLAIN, keys[i], json_get_string(event, keys[i], ""));
    json_each_pair (body, key, value) {
        buf_reset(&data);
        if (json_is_null(value) || !cli_event_shows(body, key) || (said && strcmp(key, said) == 0) ||
            json_equal(value, json_object_get(event, key)))
            continue;
        cli_put_event_value(&data, value);
        put_event_part(&b, options, &column, STYLE_PLAIN, key, buf_str(&data));
    }
    printf("%s\n", buf_str(&b));
}

PRINTER(events, "events")
{
    json_each (json_object_get(result, "events"), i, event)
        cli_print_event(options, event);
}
