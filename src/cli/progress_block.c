#include "base/utf8.h"
#include "base/word.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    BAR_WIDTH = 24,
    BAR_WIDTH_NARROW = 8,
    BAR_NARROW = 60,
    BLOCK_LINES_MAX = 64,
    ROWS_KEPT = 2,
    TASK_NAME_SHARE = 3
};

/* The columns of each line that is on the screen. */
static struct {
    size_t count, widths[BLOCK_LINES_MAX];
} block;

/* The lines of a terminal that has become narrower are broken: they have more rows than were drawn. */
static void put_erased(struct buf *b, size_t columns)
{
    size_t rows = 0;
    for (size_t i = 0; i < block.count; i++)
        rows += block.widths[i] > columns ? (block.widths[i] + columns - 1) / columns : 1;
    if (rows)
        buf_printf(b, "\033[%zuA\r\033[K\033[1B\033[J\033[1A", rows); /* not from the top: tmux would keep that */
    block.count = 0;
}

/* Not a job in the background: the cursor is the shell's, and what we have drawn is not where it was. */
static bool is_in_front(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);
    if (group >= 0 && group != getpgrp())
        block.count = 0;
    return group < 0 || group == getpgrp();
}

void block_clear(void)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (!block.count || !is_in_front())
        return;
    put_erased(&b, (size_t)cli_terminal_width(stderr));
    fputs(buf_str(&b), stderr);
}

/* One line, cut so that the cursor stays in it. Takes the text. */
static void put_block_line(struct buf *b, char *text, size_t columns)
{
    char *shown = cli_cut(text, columns - 1);
    block.widths[block.count++] = utf8_width(shown);
    buf_printf(b, "%s\n", shown);
    free(shown);
}

static char *block_head(const struct cli_options *options, const struct shown_run *run, size_t columns, int64_t now)
{
    struct buf b = BUF_INIT;
    int64_t width = columns < BAR_NARROW ? BAR_WIDTH_NARROW : BAR_WIDTH;
    int64_t total = run->total < run->done ? run->done : run->total, filled = total ? run->done * width / total : 0;
    buf_puts(&b, "[");
    for (int64_t i = 0; i < width; i++)
        buf_puts(&b, i < filled ? "#" : ".");
    buf_printf(&b, "] %lld/%lld  %s", (long long)run->done, (long long)total,
               CLI_WHOLE_SPAN(options->lang, now - run->began_ms));
    return buf_take(&b);
}

static void put_padded(struct buf *b, char *text, size_t width)
{
    char *shown = cli_cut(text, width);
    buf_puts(b, shown);
    for (size_t used = utf8_width(shown); used < width + 2; used++)
        buf_puts(b, " ");
    free(shown);
}

/* "  build   12 s  compiling main.c" */
static char *block_task(const struct op_call *call, const struct cli_options *options, const struct shown_run *run,
                        const struct shown_task *task, size_t name_width, int64_t now)
{
    struct buf b = BUF_INIT, name = BUF_INIT;
    const char *span = CLI_WHOLE_SPAN(options->lang, now - task->since_ms);
    utf8_put_visible(&name, task->task, false);
    buf_puts(&b, "  ");
    put_padded(&b, buf_take(&name), name_width);
    buf_puts(&b, span);
    for (size_t used = utf8_width(span); used < 6; used++)
        buf_puts(&b, " ");
    if (!run->has_lines_above) {
        buf_puts(&b, "  ");
        shown_last_line(call, run, task, &b);
    }
    return buf_take(&b);
}

static size_t block_names(const struct shown_run *run, size_t count, size_t columns)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        width = utf8_width(run->tasks[i].task) > width ? utf8_width(run->tasks[i].task) : width;
    return width > columns / TASK_NAME_SHARE ? columns / TASK_NAME_SHARE : width;
}

static size_t terminal_rows(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > ROWS_KEPT ? size.ws_row : 24;
}

void block_draw(const struct op_call *call, const struct cli_options *options, const struct shown_run *run)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    int64_t now = clock_now().boot_ms;
    size_t columns = (size_t)cli_terminal_width(stderr), room = terminal_rows() - ROWS_KEPT;
    room = (room < BLOCK_LINES_MAX ? room : BLOCK_LINES_MAX) - 1; /* below the head */
    size_t wanted = run->is_of_one && run->has_lines_above ? 0 : run->count;
    size_t shown = wanted <= room ? wanted : room ? room - 1 : 0;
    columns = columns > 2 ? columns : 2;
    if (!is_in_front())
        return;
    put_erased(&b, columns);
    put_block_line(&b, block_head(options, run, columns, now), columns);
    size_t name_width = block_names(run, shown, columns);
    for (size_t i = 0; i < shown; i++)
        put_block_line(&b, block_task(call, options, run, &run->tasks[i], name_width, now), columns);
    if (shown < wanted && room) {
        struct buf more = BUF_INIT;
        buf_puts(&more, "  ");
        text_put(&more, options->lang, "flow_more_problems", "count", DIGITS(wanted - shown), NULL);
        put_block_line(&b, buf_take(&more), columns);
    }
    fwrite(b.data, 1, b.len, stderr); /* with one write, so that nothing flickers */
}
