#include "base/utf8.h"
#include "base/who.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const codes[] = {[STYLE_PLAIN] = "",        [STYLE_BOLD] = "\033[1m", [STYLE_DIM] = "\033[2m",
                                    [STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[31m", [STYLE_WARN] = "\033[33m"};

bool cli_is_plain_terminal(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

bool cli_has_colour(const struct cli_options *options, FILE *out)
{
    const char *no = getenv("NO_COLOR");
    return !options->no_color && !(no && no[0]) && (options->screen_columns || isatty(fileno(out))) &&
           !cli_is_plain_terminal();
}

void cli_put(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text)
{
    bool coloured = style != STYLE_PLAIN && cli_has_colour(options, out);
    if (coloured)
        buf_puts(b, codes[style]);
    utf8_put_line(b, text);
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
    utf8_put_line(&b, text);
    table->cells[table->count++] = (struct cli_cell){.text = buf_take(&b), .style = style};
}

/* Of the terminal; 0: there is none. */
static size_t columns_of(const struct cli_options *options, FILE *out)
{
    return (size_t)(options->screen_columns ? options->screen_columns : cli_terminal_width(out));
}

void cli_table_add_heads(struct cli_table *table, const struct cli_options *options, const char *const *keys)
{
    for (size_t i = 0; i < table->columns; i++)
        cli_table_add(table, STYLE_DIM, text_get(keys[i], options->lang));
}

void cli_table_add_by(struct cli_table *table, const struct cli_options *options, const json_t *who)
{
    enum { NOTE_FROM = 100, BY_MAX = 32 };
    size_t width = columns_of(options, stdout);
    struct buf b = BUF_INIT;
    if (width && width < NOTE_FROM)
        buf_puts(&b, json_get_string(who, "label", ""));
    else
        who_put_label(&b, who);
    if (!b.len)
        buf_puts(&b, "-");
    char *text = buf_take(&b);
    text = width && text ? cli_cut(text, BY_MAX) : text;
    cli_table_add(table, STYLE_PLAIN, text ? text : "-");
    free(text);
}

void cli_table_add_commit(struct cli_table *table, const json_t *json)
{
    char text[16];
    const char *commit = json_get_string(json, "commit", "");
    snprintf(text, sizeof text, "%.10s", *commit ? commit : "-");
    cli_table_add(table, STYLE_DIM, text);
}

void cli_table_add_rest(struct cli_table *table, enum style style, const char *text)
{
    size_t column = table->count % table->columns;
    cli_table_add(table, style, text);
    table->cells[table->count - 1].spans = true;
    while (++column < table->columns)
        cli_table_add(table, STYLE_PLAIN, "");
}

char *cli_cut(char *text, size_t width)
{
    if (width < 2 || !text[utf8_fit(text, width)])
        return text;
    text[utf8_fit(text, width - 1)] = '\0';
    struct buf b = BUF_INIT;
    buf_puts(&b, text);
    buf_puts(&b, "…");
    free(text);
    return buf_take(&b);
}

#define LAST_MIN  8        /* columns of the last one, however narrow the terminal is */
#define NO_COLUMN SIZE_MAX /* the width of one that is left out */

/* The columns that a line needs at least: the last one and the one that gives way can be cut. */
static size_t table_least(const struct cli_table *table, size_t columns, const size_t *widths)
{
    size_t least = 0;
    for (size_t c = 0; c < columns; c++) {
        bool can_be_cut = (c == columns - 1 && !table->keeps_last) || (c && c == table->gives_way);
        if (widths[c] != NO_COLUMN)
            least += (can_be_cut && widths[c] > LAST_MIN ? LAST_MIN : widths[c]) + 2;
    }
    return least - 2;
}

/* Leaves out columns until the line fits; a name in the first one is cut if that is not enough. Then takes from the column that
 * gives way what the line is too long by. */
static void table_narrow(const struct cli_table *table, size_t columns, size_t terminal, size_t *widths)
{
    for (size_t i = 0; i < TABLE_DROPS_MAX && table->drops[i] && table_least(table, columns, widths) > terminal; i++)
        widths[table->drops[i]] = NO_COLUMN;
    size_t least = table_least(table, columns, widths), over = least > terminal ? least - terminal : 0;
    if (widths[0] > LAST_MIN)
        widths[0] = widths[0] > over + LAST_MIN ? widths[0] - over : LAST_MIN;
    size_t total = 0, *width = &widths[table->gives_way];
    for (size_t c = 0; c < columns; c++)
        total += widths[c] == NO_COLUMN ? 0 : widths[c] + 2;
    total -= 2;
    if (!table->gives_way || *width == NO_COLUMN || total <= terminal || *width <= LAST_MIN)
        return;
    *width = *width > total - terminal + LAST_MIN ? *width - (total - terminal) : LAST_MIN;
}

static void table_widths(const struct cli_table *table, size_t columns, size_t *widths)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t width = table->cells[i].text ? utf8_width(table->cells[i].text) : 0;
        if (width > widths[i % columns] && !table->cells[i].spans)
            widths[i % columns] = width;
    }
}

/* A cell in `width` columns; takes its text. */
static void put_cell(struct buf *b, const struct cli_options *options, FILE *out, const struct cli_cell *cell,
                     size_t width, bool is_last)
{
    char *text = cell->text && width ? cli_cut(cell->text, width) : cell->text;
    cli_put(b, options, out, cell->style, text ? text : "");
    for (size_t pad = text ? utf8_width(text) : 0; !is_last && pad < width + 2; pad++)
        buf_puts(b, " ");
    free(text);
}

void cli_table_print(struct cli_table *table, const struct cli_options *options, FILE *out)
{
    size_t widths[16] = {0}, before = 0;
    size_t columns = table->columns < 16 ? table->columns : 16;
    size_t terminal = columns_of(options, out);
    table_widths(table, columns, widths);
    if (terminal)
        table_narrow(table, columns, terminal, widths);
    for (size_t c = 0; c + 1 < columns; c++)
        before += widths[c] == NO_COLUMN ? 0 : widths[c] + 2;
    if (terminal && widths[columns - 1] + before > terminal)
        widths[columns - 1] = terminal > before + LAST_MIN ? terminal - before : LAST_MIN;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % columns, used = 0;
        struct cli_cell *cell = &table->cells[i];
        for (size_t c = 0; c < column; c++)
            used += widths[c] == NO_COLUMN ? 0 : widths[c] + 2;
        if (cell->spans)
            put_cell(&b, options, out, cell,
                     terminal > used + LAST_MIN ? terminal - used
                     : terminal                 ? LAST_MIN
                                                : 0,
                     true);
        else if (widths[column] == NO_COLUMN)
            free(cell->text);
        else
            put_cell(&b, options, out, cell, widths[column], column == columns - 1);
        for (; cell->spans && column < columns - 1; column++)
            free(table->cells[++i].text);
        if (column == columns - 1)
            buf_puts(&b, "\n");
    }
    fputs(buf_str(&b), out);
    free(table->cells);
    *table = (struct cli_table){.columns = table->columns, .gives_way = table->gives_way};
}
