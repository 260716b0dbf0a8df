#include "base/utf8.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const codes[] = {[STYLE_PLAIN] = "",        [STYLE_BOLD] = "\033[1m", [STYLE_DIM] = "\033[2m",
                                    [STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[31m", [STYLE_WARN] = "\033[33m"};

bool cli_has_colour(const struct cli_options *options, FILE *out)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !options->no_color && !(no && no[0]) && (options->screen_columns || isatty(fileno(out))) &&
           !(term && strcmp(term, "dumb") == 0);
}

void cli_put(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text)
{
    bool coloured = style != STYLE_PLAIN && cli_has_colour(options, out);
    if (coloured)
        buf_puts(b, codes[style]);
    utf8_put_visible(b, text, false);
    if (coloured)
        buf_puts(b, "\033[0m");
}

int cli_terminal_width(FILE *out)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    if (columns && strtol(columns, NULL, 10) > 0)
        return (int)strtol(columns, NULL, 10);
    return isatty(fileno(out)) ? 80 : 0;
}

void cli_table_add(struct cli_table *table, enum style style, const char *text)
{
    if (table->count == table->max) {
        size_t max = table->max ? table->max * 2 : 64;
        struct cli_cell *cells = realloc(table->cells, max * sizeof *cells);
        if (!cells)
            return;
        table->cells = cells;
        table->max = max;
    }
    struct buf b = BUF_INIT;
    utf8_put_visible(&b, text, false);
    table->cells[table->count++] = (struct cli_cell){.text = buf_take(&b), .style = style};
}

/* Cuts to `width` columns with an ellipsis. Takes the text, returns what replaces it. */
static char *cut_take(char *text, size_t width)
{
    if (utf8_width(text) <= width || width < 2)
        return text;
    size_t len = strlen(text);
    while (len && utf8_width(text) > width - 1) {
        do
            len--;
        while (len && ((unsigned char)text[len] & 0xc0) == 0x80);
        text[len] = '\0';
    }
    struct buf b = BUF_INIT;
    buf_puts(&b, text);
    buf_puts(&b, "…");
    free(text);
    return buf_take(&b);
}

#define LAST_MIN 8 /* columns of the last one, however narrow the terminal is */

/* Takes from the column that gives way what the line is too long by. */
static void narrow(const struct cli_table *table, size_t columns, size_t terminal, size_t *widths)
{
    size_t total = 2 * (columns - 1), *width = &widths[table->gives_way];
    for (size_t c = 0; c < columns; c++)
        total += widths[c];
    if (!table->gives_way || total <= terminal || *width <= LAST_MIN)
        return;
    *width = *width > total - terminal + LAST_MIN ? *width - (total - terminal) : LAST_MIN;
}

void cli_table_print(struct cli_table *table, const struct cli_options *options, FILE *out)
{
    size_t widths[16] = {0};
    size_t columns = table->columns < 16 ? table->columns : 16;
    for (size_t i = 0; i < table->count; i++) {
        size_t width = table->cells[i].text ? utf8_width(table->cells[i].text) : 0;
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    int terminal = options->screen_columns ? options->screen_columns : cli_terminal_width(out);
    if (terminal)
        narrow(table, columns, (size_t)terminal, widths);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % columns, before = 0;
        char *text = table->cells[i].text;
        for (size_t c = 0; c < column; c++)
            before += widths[c] + 2;
        if (text && column == columns - 1 && terminal)
            text = cut_take(text, (size_t)terminal > before + LAST_MIN ? (size_t)terminal - before : LAST_MIN);
        else if (text && terminal && column && column == table->gives_way)
            text = cut_take(text, widths[column]);
        cli_put(&b, options, out, table->cells[i].style, text ? text : "");
        if (column == columns - 1)
            buf_puts(&b, "\n");
        else
            for (size_t pad = text ? utf8_width(text) : 0; pad < widths[column] + 2; pad++)
                buf_puts(&b, " ");
        free(text);
    }
    fputs(buf_str(&b), out);
    free(table->cells);
    *table = (struct cli_table){.columns = table->columns, .gives_way = table->gives_way};
}
