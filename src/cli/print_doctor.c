/* print_doctor.c - the report of an examination for people: a line per check, then what to do. */
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>

static enum style check_style(const char *status)
{
    if (strcmp(status, "PASS") == 0)
        return STYLE_GOOD;
    return strcmp(status, "WARN") == 0 ? STYLE_WARN : STYLE_BAD;
}

static size_t title_width(const json_t *checks)
{
    size_t width = 0;
    json_each (checks, i, check) {
        size_t wide = utf8_width(json_get_string(check, "title", ""));
        width = wide > width ? wide : width;
    }
    return width;
}

#define MORE_COLUMN 8

static void put_more(struct buf *b, const struct cli_options *options, const json_t *lines, enum style style)
{
    json_each (lines, i, line) {
        buf_printf(b, "%*s", MORE_COLUMN, "");
        cli_put_prose(b, options, stdout, style, json_string_value(line), MORE_COLUMN, MORE_COLUMN + 2);
    }
}

/* Somebody copies them, so they are not broken. */
static void put_commands(struct buf *b, const struct cli_options *options, const json_t *commands)
{
    json_each (commands, i, command) {
        buf_puts(b, "  ");
        cli_put(b, options, stdout, STYLE_BOLD, json_string_value(command));
        buf_puts(b, "\n");
    }
}

/* Evidence that the summary has not said already. */
static bool has_more(const struct cli_options *options, const json_t *check)
{
    const json_t *evidence = json_object_get(check, "evidence");
    bool is_good = json_text_is(check, "status", "PASS");
    return is_good ? options->verbose : json_array_size(evidence) > 1;
}

static void put_check(struct buf *b, const struct cli_options *options, const json_t *check, size_t width)
{
    const char *status = json_get_string(check, "status", ""), *title = json_get_string(check, "title", "");
    buf_puts(b, "  ");
    cli_put(b, options, stdout, check_style(status), status);
    buf_puts(b, "  ");
    cli_put(b, options, stdout, STYLE_BOLD, title);
    buf_printf(b, "%*s", (int)(width - utf8_width(title)) + 2, "");
    bool has_lines = has_more(options, check);
    bool is_good = strcmp(status, "PASS") == 0;
    size_t column = 2 + utf8_width(status) + 2 + width + 2;
    const char *summary = !has_lines || is_good ? json_get_string(check, "summary", "") : "";
    cli_put_prose(b, options, stdout, is_good ? STYLE_DIM : STYLE_PLAIN, summary, column, column);
    if (has_lines)
        put_more(b, options, json_object_get(check, "evidence"), is_good ? STYLE_DIM : STYLE_PLAIN);
    put_more(b, options, json_object_get(check, "fixed"), STYLE_GOOD);
}

/* Each command once, in the order of the checks. */
static json_t *finding_commands(const json_t *checks)
{
    json_t *seen CLEANUP_JSON = json_object();
    json_t *commands = json_array();
    json_each (checks, i, check)
        json_each (json_object_get(check, "fix"), k, command)
            if (!json_object_get(seen, json_string_value(command))) {
                json_object_set_new(seen, json_string_value(command), json_true());
                json_array_append(commands, command);
            }
    return commands;
}

PRINTER(doctor, "doctor")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const json_t *checks = json_object_get(result, "checks");
    const char *status = json_get_string(result, "status", "");
    size_t width = title_width(checks);
    json_t *commands CLEANUP_JSON = finding_commands(checks);
    cli_put(&b, options, stdout, check_style(status), status);
    buf_puts(&b, "\n");
    json_each (checks, i, check)
        if (!options->quiet || json_object_get(check, "fixed") || !json_text_is(check, "status", "PASS"))
            put_check(&b, options, check, width);
    if (json_array_size(commands))
        buf_printf(&b, "\n%s\n", text_get("doctor_to_do", options->lang));
    put_commands(&b, options, commands);
    fputs(buf_str(&b), stdout);
}
