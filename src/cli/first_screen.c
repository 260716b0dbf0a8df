/* first_screen.c - what a bare `tasuki` shows: the commands of every day by purpose, on one screen of 22 lines, in the user's
 * language. `tasuki help --all` has the others. */
#include "base/text.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>

#define NAME_COLUMNS 33 /* the longest command and a gap: its text has 25 columns on a terminal of 60 */

/* A heading (`text` NULL), or a command and the key of its text. A test runs `--help` of each command. */
static const struct {
    const char *words, *text;
} first_lines[] = {
    {"first_look", NULL},
    {"init", "first_init"},
    {"status", "first_status"},
    {"watch", "first_watch"},
    {"serve --open", "first_serve"},
    {"doctor", "first_doctor"},
    {"first_servers", NULL},
    {"up", "first_up"},
    {"proc create ID --start -- CMD…", "first_create"},
    {"start, stop, restart, logs ID", "first_servers_daily"},
    {"first_jobs", NULL},
    {"run FLOW", "first_run"},
    {"queue add -- CMD…", "first_queue_add"},
    {"queue run", "first_queue"},
    {"lock run NAME -- CMD…", "first_lock"},
    {"first_agents", NULL},
    {"mcp", "first_mcp"},
    {"agents", "first_agents_list"},
};

static void screen_put_padded(struct buf *b, const char *text, size_t columns)
{
    buf_puts(b, text);
    for (size_t used = utf8_width(text); used < columns; used++)
        buf_puts(b, " ");
}

void cli_first_screen(struct buf *b, const struct cli_options *options, size_t width)
{
    cli_put_wrapped(b, text_get("first_title", options->lang), 0, width);
    buf_puts(b, "\n");
    for (size_t i = 0; i < sizeof first_lines / sizeof first_lines[0]; i++) {
        if (!first_lines[i].text) {
            cli_put(b, options, stdout, STYLE_BOLD, text_get(first_lines[i].words, options->lang));
        } else {
            const char *text = text_get(first_lines[i].text, options->lang);
            bool has_room = 2 + NAME_COLUMNS + utf8_width(text) <= width;
            buf_puts(b, "  ");
            screen_put_padded(b, first_lines[i].words, has_room ? NAME_COLUMNS : 0);
            buf_puts(b, has_room ? text : "");
        }
        buf_puts(b, "\n");
    }
    cli_put_wrapped(b, text_get("first_more", options->lang), 0, width);
}
