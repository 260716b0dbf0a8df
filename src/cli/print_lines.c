/* print_lines.c - lines of several processes on one screen: `name | text`; stderr has `!`, states are in between. */
#include "base/utf8.h"
#include "cli/cli.h"
#include "proc/log_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const colours[] = {"\033[36m", "\033[33m", "\033[32m", "\033[35m", "\033[34m",
                                      "\033[96m", "\033[93m", "\033[92m", "\033[95m", "\033[94m"};

/* What is known of stdout, asked for once: there may be thousands of lines a second. Lives as long as the program, as stdout does. */
static struct {
    bool is_known, is_terminal, has_colour, can_redraw;
} screen;

/* The line that has no end yet. */
static struct {
    bool is_open;
    size_t which;
    int kind;
} begun;

/* What all of it waits for: on a terminal a line without an end, below all others. */
static struct {
    struct buf text;
    int64_t since_ms;
    bool is_drawn;
} awaited = {.text = BUF_INIT};

static void awaited_hide(void)
{
    if (awaited.is_drawn)
        fputs("\r\033[K", stdout);
    awaited.is_drawn = false;
}

static void awaited_draw(enum lang lang)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    size_t width = (size_t)cli_terminal_width(stdout);
    awaited_hide();
    if (!screen.can_redraw || !awaited.text.len || begun.is_open)
        return;
    const char *span = CLI_WHOLE_SPAN(lang, clock_now().boot_ms - awaited.since_ms);
    size_t tail = utf8_width(span) + 4;
    utf8_put_visible(&b, buf_str(&awaited.text), false);
    char *line = width > tail + 10 ? cli_cut(buf_take(&b), width - tail) : NULL;
    if (line)
        printf("%s (%s)", line, span);
    awaited.is_drawn = line != NULL;
    free(line);
}

static void put_prefix(struct buf *b, const struct op_line *line, bool has_colour)
{
    char mark = line->kind == OP_LINE_STDERR ? '!' : '|';
    if (has_colour)
        buf_puts(b, colours[line->which % (sizeof colours / sizeof colours[0])]);
    buf_puts(b, line->id);
    for (size_t width = utf8_width(line->id); width < line->width; width++)
        buf_puts(b, " ");
    if (has_colour && line->kind == OP_LINE_STDERR)
        buf_puts(b, "\033[0m\033[31m");
    buf_printf(b, " %c%s ", mark, has_colour ? "\033[0m" : "");
}

/* On a terminal what can do no harm; each of the lines that a carriage return makes has the name, too. */
static void put_harmless(struct buf *b, const struct op_line *line, bool has_colour)
{
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    log_text_for_terminal(&shown, line->text, line->len, has_colour);
    const char *at = buf_str(&shown), *newline;
    for (; (newline = strchr(at, '\n')); at = newline + 1) {
        buf_put(b, at, (size_t)(newline + 1 - at));
        put_prefix(b, line, has_colour);
    }
    buf_puts(b, at);
}

static void print_remark(const struct cli_options *options, const struct op_line *line)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    awaited_hide();
    if (begun.is_open)
        fputs("\n", stdout);
    begun.is_open = false;
    fflush(stdout);
    if ((options->quiet && !line->is_bad) || !line->len)
        return;
    cli_put_prose(&b, options, stderr, line->is_bad ? STYLE_PLAIN : STYLE_DIM, line->text, 0, 2);
    fputs(buf_str(&b), stderr);
}

/* Where it cannot be taken back it is said once. */
static void take_awaited(const struct cli_options *options, const struct op_line *line)
{
    bool is_same = awaited.text.len == line->len && memcmp(buf_str(&awaited.text), line->text, line->len) == 0;
    if (options->quiet || is_same)
        return;
    if (!screen.can_redraw)
        print_remark(options, line);
    awaited_hide();
    buf_reset(&awaited.text);
    buf_put(&awaited.text, line->text, line->len);
    awaited.since_ms = clock_now().boot_ms;
}

static void look_at_screen(const struct cli_options *options)
{
    screen.is_known = true;
    screen.is_terminal = isatty(STDOUT_FILENO);
    screen.has_colour = cli_has_colour(options, stdout);
    screen.can_redraw = screen.is_terminal && !cli_is_plain_terminal();
}

bool cli_emit_line(struct op_call *call, const struct op_line *line)
{
    const struct cli_options *options = call->skin;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (!screen.is_known)
        look_at_screen(options);
    if (!line) {
        awaited_draw(options->lang);
        return fflush(stdout) == 0;
    }
    if (line->kind == OP_LINE_REMARK || line->kind == OP_LINE_AWAITED) {
        (line->kind == OP_LINE_REMARK ? print_remark : take_awaited)(options, line);
        return true;
    }
    awaited_hide();
    bool has_colour = screen.has_colour;
    bool goes_on = begun.is_open && begun.which == line->which && begun.kind == (int)line->kind;
    if (begun.is_open && !goes_on)
        buf_puts(&b, "\n");
    if (!goes_on)
        put_prefix(&b, line, has_colour);
    if (line->kind == OP_LINE_STATE)
        cli_put(&b, options, stdout, line->is_bad ? STYLE_BAD : STYLE_DIM, line->text);
    else if (screen.is_terminal)
        put_harmless(&b, line, has_colour);
    else
        buf_put(&b, line->text, line->len);
    if (line->rings && screen.is_terminal)
        buf_puts(&b, "\a");
    if (!line->is_partial)
        buf_puts(&b, "\n");
    begun.is_open = line->is_partial;
    begun.which = line->which;
    begun.kind = (int)line->kind;
    return fwrite(b.data, 1, b.len, stdout) == b.len;
}
