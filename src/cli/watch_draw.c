/* watch_draw.c - the screen of `watch`, drawn with curses, which sends the terminal only what has changed. */
#include "base/utf8.h"
#include "base/word.h"
#include "cli/watch.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>

enum { NARROW = 50, NAME_SHARE = 4, LIST_TOP = 1, LIST_BOTTOM = 2 /* lines below the list: what is below, the keys */ };

size_t watch_columns(void)
{
    return (size_t)COLS;
}

static attr_t attr_of(const struct watch *watch, enum style style)
{
    static const short pairs[] = {[STYLE_GOOD] = 1, [STYLE_BAD] = 2, [STYLE_WARN] = 3};
    if (style == STYLE_BOLD)
        return A_BOLD;
    if (style == STYLE_DIM)
        return A_DIM;
    if (style == STYLE_PLAIN)
        return A_NORMAL;
    return watch->has_colour ? (attr_t)COLOR_PAIR(pairs[style]) : style == STYLE_GOOD ? A_NORMAL : A_BOLD;
}

/* Writes a text, made harmless and cut to `width` columns (S4). Returns how many it has taken. */
static size_t watch_put(int y, size_t x, size_t width, attr_t attr, const char *text)
{
    struct buf visible = BUF_INIT;
    if (!width || !text || y < 0 || y >= LINES || x >= (size_t)COLS)
        return 0;
    utf8_put_line(&visible, text);
    char *shown = cli_cut(buf_take(&visible), width);
    if (!shown)
        return 0;
    attrset(attr);
    mvaddstr(y, (int)x, shown);
    attrset(A_NORMAL);
    size_t taken = utf8_width(shown);
    free(shown);
    return taken;
}

/* ---- the list --------------------------------------------------------------------------------------------- */

size_t watch_list_height(const struct watch *watch)
{
    size_t used = LIST_TOP + LIST_BOTTOM + watch->message_count;
    return (size_t)LINES > used ? (size_t)LINES - used : 1;
}

const struct watch_row *watch_selected(const struct watch *watch)
{
    const struct watch_row *row = watch->selected < watch->rows.count ? &watch->rows.list[watch->selected] : NULL;
    return row && row->kind != ROW_HEAD ? row : NULL;
}

static size_t place_of_key(const struct watch *watch)
{
    for (size_t i = 0; watch->key && i < watch->rows.count; i++)
        if (strcmp(watch->rows.list[i].key, watch->key) == 0)
            return i;
    return watch->selected < watch->rows.count ? watch->selected : watch->rows.count ? watch->rows.count - 1 : 0;
}

/* The nearest row in that direction that is a thing; else in the other one. */
static size_t nearest_thing(const struct watch_rows *rows, size_t at, bool is_up)
{
    for (int turn = 0; turn < 2; turn++, is_up = !is_up)
        for (size_t i = at; i < rows->count; i += is_up ? -1UL : 1UL)
            if (rows->list[i].kind != ROW_HEAD)
                return i;
    return at;
}

void watch_select(struct watch *watch, long step)
{
    const struct watch_rows *rows = &watch->rows;
    long at = (long)place_of_key(watch) + step, last = (long)rows->count - 1;
    at = at > last ? last : at;
    at = at < 0 ? 0 : at;
    watch->selected = rows->count ? nearest_thing(rows, (size_t)at, step < 0) : 0;
    const struct watch_row *row = watch_selected(watch);
    if (row) { /* what moves in the list stays selected: a key means the thing that its user has seen */
        free(watch->key);
        watch->key = strdup(row->key);
    }
}

/* Scrolls as little as possible; a heading above the first thing stays with it. */
static void list_scroll(struct watch *watch, size_t height)
{
    size_t count = watch->rows.count, first = watch->selected;
    if (first && watch->rows.list[first - 1].kind == ROW_HEAD)
        first--;
    if (first < watch->top)
        watch->top = first;
    if (watch->selected >= watch->top + height)
        watch->top = watch->selected + 1 - height;
    if (watch->top + height > count)
        watch->top = count > height ? count - height : 0;
}

static void draw_row(const struct watch *watch, int y, const struct watch_row *row, bool is_selected)
{
    size_t columns = (size_t)COLS, state = columns < NARROW ? 8 : 11;
    size_t name = columns / NAME_SHARE, text = 1 + name + 1 + state + 1;
    attr_t mark = is_selected ? A_REVERSE : A_NORMAL;
    if (row->kind == ROW_HEAD) {
        watch_put(y, 0, columns, A_BOLD, row->name);
        watch_put(y, 1 + name + 1, columns, attr_of(watch, STYLE_GOOD), row->state);
        return;
    }
    if (is_selected)
        mvhline(y, 0, ' ' | A_REVERSE, COLS);
    watch_put(y, 1, name, mark | attr_of(watch, row->kind == ROW_EVENT ? STYLE_PLAIN : STYLE_BOLD), row->name);
    watch_put(y, 1 + name + 1, state, mark | attr_of(watch, row->style), row->state);
    if (columns > text)
        watch_put(y, text, columns - text, mark, row->text);
}

/* "▲ 3  ▼ Processes 2 · Events 40": what the screen has no room for. */
static void draw_hidden(const struct watch *watch, int y, size_t end)
{
    const struct watch_rows *rows = &watch->rows;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    size_t hidden[SECTION_COUNT] = {0}, above = 0, below = 0;
    for (size_t i = 0; i < rows->count; i++) {
        bool is_thing = rows->list[i].kind != ROW_HEAD;
        above += is_thing && i < watch->top;
        below += is_thing && i >= end;
        hidden[rows->list[i].section] += is_thing && i >= end;
    }
    if (above)
        buf_printf(&b, "▲ %zu  ", above);
    if (below)
        buf_puts(&b, "▼ ");
    for (int i = 0, shown = 0; i < SECTION_COUNT; i++)
        if (hidden[i])
            buf_printf(&b, "%s%s %zu", shown++ ? " · " : "",
                       watch_section_name((enum watch_section)i, watch->options.lang), hidden[i]);
    watch_put(y, 0, (size_t)COLS, A_DIM, buf_str(&b));
}

static void draw_list(struct watch *watch)
{
    size_t height = watch_list_height(watch);
    list_scroll(watch, height);
    for (size_t i = 0; i < height && watch->top + i < watch->rows.count; i++)
        draw_row(watch, (int)(LIST_TOP + i), &watch->rows.list[watch->top + i], watch->top + i == watch->selected);
    if (!watch->rows.count && watch->filter.len) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        text_put(&b, watch->options.lang, "watch_no_match", "filter", buf_str(&watch->filter), NULL);
        watch_put(LIST_TOP, 1, (size_t)COLS, A_NORMAL, buf_str(&b));
    }
    draw_hidden(watch, LINES - LIST_BOTTOM, watch->top + height);
}

/* ---- one thing -------------------------------------------------------------------------------------------- */

static void draw_lines(const struct watch *watch, int y, const struct watch_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        watch_put(y + (int)i, 0, (size_t)COLS, attr_of(watch, lines[i].style), lines[i].text);
}

/* The last lines that fit, `back` before the end. */
static void draw_tail(struct watch *watch, int y, size_t height, const struct watch_line *lines, size_t count)
{
    size_t most = count > height ? count - height : 0;
    watch->back = watch->back < most ? watch->back : most;
    size_t first = most - watch->back;
    draw_lines(watch, y, lines + first, count - first < height ? count - first : height);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (first)
        buf_printf(&b, "▲ %zu  ", first);
    if (watch->back)
        buf_printf(&b, "▼ %zu", watch->back);
    watch_put(LINES - LIST_BOTTOM, 0, (size_t)COLS, A_DIM, buf_str(&b));
}

/* Whose log it is; the details say it themselves. Returns how many lines it has taken. */
static size_t draw_log_title(const struct watch *watch)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put(&b, watch->options.lang, "watch_log_of", "what", watch->view_name ? watch->view_name : "", NULL);
    watch_put(LIST_TOP, 0, (size_t)COLS, A_BOLD, buf_str(&b));
    return 1;
}

static void draw_view(struct watch *watch, bool is_log)
{
    size_t title = is_log ? draw_log_title(watch) : 0, height = watch_list_height(watch);
    int top = LIST_TOP + (int)title;
    height -= height > title ? title : 0;
    size_t most = watch->log_count ? height / 2 : height;
    size_t facts = watch->fact_count < most ? watch->fact_count : most;
    if (!watch->viewed)
        watch_put(top, 1, (size_t)COLS, A_DIM, text_get("watch_loading", watch->options.lang));
    else if (!watch->log_count && watch->fact_count > height)
        draw_tail(watch, top, height, watch->facts, watch->fact_count);
    else if (!watch->log_count && !watch->fact_count)
        watch_put(top, 1, (size_t)COLS, A_DIM, text_get("watch_no_log", watch->options.lang));
    else {
        draw_lines(watch, top, watch->facts, facts);
        size_t gap = facts ? 1 : 0;
        if (gap && watch->log_count)
            mvhline(top + (int)facts, 0, ACS_HLINE | A_DIM, COLS);
        draw_tail(watch, top + (int)(facts + gap), height > facts + gap ? height - facts - gap : 0, watch->log,
                  watch->log_count);
    }
}

/* ---- help, title, bottom ---------------------------------------------------------------------------------- */

static void draw_help(const struct watch *watch)
{
    static const char *const lines[][2] = {{"↑ ↓ PgUp PgDn", "watch_help_move"},
                                           {"Enter", "watch_help_enter"},
                                           {"l", "watch_help_log"},
                                           {"s", "watch_help_start"},
                                           {"x", "watch_help_stop"},
                                           {"r", "watch_help_restart"},
                                           {"a", "watch_help_answer"},
                                           {"/", "watch_help_filter"},
                                           {"?", "watch_help_help"},
                                           {"q", "watch_help_quit"}};
    size_t column = (size_t)COLS < NARROW ? 8 : 16;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        watch_put((int)(LIST_TOP + i), 1, column - 2, A_BOLD, lines[i][0]);
        watch_put((int)(LIST_TOP + i), column, (size_t)COLS - column, A_NORMAL,
                  text_get(lines[i][1], watch->options.lang));
    }
}

static void draw_title(const struct watch *watch)
{
    struct buf right CLEANUP(buf_clear) = BUF_INIT;
    const json_t *status = watch->status;
    text_put(&right, watch->options.lang, "watch_summary", "failed", DIGITS(watch->rows.failed), "asking",
             DIGITS(watch->rows.asking), "running", DIGITS(watch->rows.running), NULL);
    buf_printf(&right, "  %s", CLI_CLOCK_SECONDS(&watch->options, json_get_string(status, "time", "")));
    size_t columns = (size_t)COLS, width = utf8_width(buf_str(&right));
    size_t at = columns > width ? columns - width : 0;
    const char *root = json_get_string(status, "root", ""), *name = strrchr(root, '/');
    attr_t attr = watch->rows.failed ? attr_of(watch, STYLE_BAD) : A_NORMAL;
    watch_put(0, at, columns, attr, buf_str(&right));
    bool fits = utf8_width(root) + 2 <= at;
    if (at > 2)
        watch_put(0, 0, at - 2, A_BOLD, fits || !name ? root : name + 1);
}

/* What is typed, with the cursor behind it. */
static void draw_input(const struct watch *watch, const char *before, const struct buf *typed)
{
    size_t taken = watch_put(LINES - 1, 0, (size_t)COLS / 2, A_BOLD, before);
    size_t room = (size_t)COLS > taken + 2 ? (size_t)COLS - taken - 2 : 1;
    const char *text = buf_str(typed);
    while (utf8_width(text) > room) { /* the end is what matters */
        size_t len = utf8_sequence(text, strlen(text));
        text += len ? len : 1;
    }
    taken += 1 + watch_put(LINES - 1, taken + 1, room, A_NORMAL, text);
    curs_set(1);
    move(LINES - 1, (int)(taken < (size_t)COLS ? taken : (size_t)COLS - 1));
    (void)watch;
}

static void draw_keys(const struct watch *watch)
{
    enum lang lang = watch->options.lang;
    bool is_view = watch->mode == WATCH_DETAIL || watch->mode == WATCH_LOG;
    const char *keys = text_get(is_view ? "watch_keys_view" : "watch_keys", lang);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (watch->filter.len && !is_view)
        buf_printf(&b, "/%s  ", buf_str(&watch->filter));
    if (utf8_width(buf_str(&b)) + utf8_width(keys) > (size_t)COLS)
        keys = text_get(is_view ? "watch_keys_view_short" : "watch_keys_short", lang);
    buf_puts(&b, keys);
    watch_put(LINES - 1, 0, (size_t)COLS, A_REVERSE, buf_str(&b));
}

static void draw_bottom(const struct watch *watch)
{
    int top = LINES - LIST_BOTTOM - (int)watch->message_count;
    draw_lines(watch, top > LIST_TOP ? top : LIST_TOP, watch->message, watch->message_count);
    curs_set(0);
    if (watch->mode == WATCH_FILTER)
        draw_input(watch, "/", &watch->filter);
    else if (watch->mode == WATCH_ANSWER)
        draw_input(watch, text_get(cli_answer_prompt(json_object_get(watch->asked, "question")), watch->options.lang),
                   &watch->input);
    else if (watch->mode == WATCH_ASK)
        draw_input(watch, "[y/N]", &watch->input);
    else
        draw_keys(watch);
}

void watch_draw(struct watch *watch)
{
    bool is_prompt = watch->mode == WATCH_FILTER || watch->mode == WATCH_ANSWER || watch->mode == WATCH_ASK;
    enum watch_mode shown = is_prompt ? watch->below : watch->mode;
    erase();
    draw_title(watch);
    if (shown == WATCH_HELP)
        draw_help(watch);
    else if (shown == WATCH_DETAIL || shown == WATCH_LOG)
        draw_view(watch, shown == WATCH_LOG);
    else
        draw_list(watch);
    draw_bottom(watch);
    refresh();
}
