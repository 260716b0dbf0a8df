/* watch.c - `tasuki watch` on a terminal: the loop that draws and reads keys. */
#include "cli/watch.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/utf8.h"
#include "store/db.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <term.h>
#include <unistd.h>
#include <wchar.h>

enum { WATCH_ESC = 27, WATCH_ESC_MS = 25, WATCH_INPUT_MAX = 4000 };

/* ---- the terminal ----------------------------------------------------------------------------------------- */

/* Curses writes what the locale's character set has: it must be UTF-8, as all that tasuki prints. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"", "C.UTF-8", "en_US.UTF-8", NULL};
    for (size_t i = 0; names[i]; i++)
        if (setlocale(LC_CTYPE, names[i]) && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
            return true;
    return false;
}

bool cli_can_watch(const struct cli_options *options)
{
    int result;
    if (options->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !locale_is_utf8())
        return false;
    if (setupterm(NULL, STDOUT_FILENO, &result) != OK)
        return false;
    bool can_move = cursor_address && *cursor_address; /* TERM=dumb cannot */
    del_curterm(cur_term);
    return can_move;
}

static atomic_int ended_by;

static void note_end(int number)
{
    ended_by = number;
}

/* Before curses looks: it leaves signals alone that somebody handles. What interrupts us ends the loop, and then us. */
static void signals_note(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = note_end};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

static bool screen_begin(struct watch *watch)
{
    if (!newterm(NULL, stdout, stdin))
        return false;
    watch->has_colour = watch->has_colour && has_colors() && start_color() == OK;
    if (watch->has_colour) {
        use_default_colors();
        init_pair(1, COLOR_GREEN, -1);
        init_pair(2, COLOR_RED, -1);
        init_pair(3, COLOR_YELLOW, -1);
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, true);
    nodelay(stdscr, true);
    set_escdelay(WATCH_ESC_MS);
    curs_set(0);
    return true;
}

/* ---- what the threads bring ------------------------------------------------------------------------------- */

static void take_documents(struct watch *watch, json_t *status, json_t *events)
{
    const char *trouble = json_get_string(json_object_get(status, "error"), "message", NULL);
    if (trouble || watch->has_trouble)
        watch_say(watch, STYLE_BAD, trouble);
    watch->has_trouble = trouble;
    if (trouble) { /* it may pass: the last picture stays */
        json_decref(status);
        json_decref(events);
        return;
    }
    watch_rows_clear(&watch->rows);
    json_decref(watch->status);
    json_decref(watch->events);
    watch->status = status;
    watch->events = events;
}

static void rows_rebuild(struct watch *watch)
{
    watch_rows_make(&watch->rows, &watch->options, watch->status, watch->events, buf_str(&watch->filter));
    watch_select(watch, 0);
    watch->is_dirty = true;
}

/* Takes what the threads have handed over; the work is done without the mutex. */
static void watch_take(struct watch *watch)
{
    struct watch_shared *shared = &watch->shared;
    uint64_t count;
    (void)!read(shared->wake_fd, &count, sizeof count);
    pthread_mutex_lock(&shared->mutex);
    json_t *status = shared->status, *events = shared->events, *view = shared->view, *done = shared->done;
    char *problem = shared->problem, *question = shared->question ? strdup(shared->question) : NULL;
    bool rings = shared->rings, asks = shared->question && shared->answer < 0;
    shared->status = shared->events = shared->view = shared->done = NULL;
    shared->problem = NULL;
    shared->rings = false;
    watch->is_over |= shared->has_failed;
    pthread_mutex_unlock(&shared->mutex);
    if (status) {
        take_documents(watch, status, events);
        rows_rebuild(watch);
    }
    if (view && json_get_int(view, "number", 0) == watch->wish_number)
        watch_view_take(watch, view);
    else
        json_decref(view);
    if (problem)
        watch_say(watch, STYLE_BAD, problem);
    if (done)
        watch_take_done(watch, done);
    if (asks && !(watch->mode == WATCH_ASK && !watch->asked))
        watch_take_question(watch, question);
    else if (!question && watch->mode == WATCH_ASK && !watch->asked)
        watch->mode = watch->below; /* nobody answered in time */
    if (rings)
        beep();
    free(problem);
    free(question);
    watch->is_dirty = true;
}

/* ---- keys ------------------------------------------------------------------------------------------------- */

static void view_open(struct watch *watch, enum watch_mode mode)
{
    const struct watch_row *row = watch_selected(watch);
    json_t *wish = row ? watch_wish_of(row, mode == WATCH_LOG) : NULL;
    if (!wish) {
        watch_say(watch, STYLE_DIM, row ? text_get("watch_no_log", watch->options.lang) : NULL);
        return;
    }
    free(watch->view_key);
    free(watch->view_name);
    watch->view_key = strdup(row->key);
    watch->view_name = strdup(row->name);
    watch_view_clear(watch);
    watch->back = 0;
    watch->mode = watch->below = mode;
    watch_wish(watch, wish);
}

static void view_close(struct watch *watch)
{
    watch_wish(watch, NULL);
    watch_view_clear(watch);
    watch->mode = watch->below = WATCH_LIST;
}

static void view_scroll(struct watch *watch, long step)
{
    long back = (long)watch->back - step;
    watch->back = back > 0 ? (size_t)back : 0; /* drawing knows the most */
}

/* Keys that move; false: it is none. */
static bool key_moves(struct watch *watch, int key)
{
    long page = (long)watch_list_height(watch) - 1, far = 1000000;
    long step = key == KEY_UP      ? -1
                : key == KEY_DOWN  ? 1
                : key == KEY_PPAGE ? -page
                : key == KEY_NPAGE ? page
                : key == KEY_HOME  ? -far
                : key == KEY_END   ? far
                                   : 0;
    if (step && watch->mode == WATCH_LIST)
        watch_select(watch, step);
    else if (step)
        view_scroll(watch, step);
    return step;
}

static void filter_begin(struct watch *watch)
{
    watch->mode = WATCH_FILTER;
    watch->below = WATCH_LIST;
}

static void filter_end(struct watch *watch)
{
    buf_reset(&watch->filter);
    rows_rebuild(watch);
}

/* In the list, the detail, the log and the help. */
static void command_of_key(struct watch *watch, int key)
{
    bool is_list = watch->mode == WATCH_LIST;
    if (watch->mode == WATCH_HELP)
        watch->mode = watch->below;
    else if (key_moves(watch, key))
        return;
    else if (key == 'q' && is_list)
        watch->is_over = true;
    else if (!is_list && (key == 'q' || key == WATCH_ESC || key == KEY_LEFT || key == '\r'))
        view_close(watch);
    else if (key == WATCH_ESC)
        filter_end(watch);
    else if (key == '\r' || key == KEY_ENTER)
        view_open(watch, WATCH_DETAIL);
    else if (key == 'l')
        view_open(watch, WATCH_LOG);
    else if (key == '/' && is_list)
        filter_begin(watch);
    else if (key == '?') {
        watch->below = watch->mode;
        watch->mode = WATCH_HELP;
    } else if (key > 0 && key < 128 && strchr("sxra", key))
        watch_act(watch, key);
}

static void watch_input_drop(struct buf *input)
{
    while (input->len && utf8_is_inside(input->data[input->len - 1]))
        input->len--;
    input->len -= input->len > 0;
    if (input->data)
        input->data[input->len] = '\0';
}

/* A character of what is typed; false: it is none. */
static bool input_key(struct buf *input, wint_t key, bool is_code)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    if ((is_code && key == KEY_BACKSPACE) || (!is_code && (key == 127 || key == '\b'))) {
        watch_input_drop(input);
        return true;
    }
    size_t len = is_code || key < ' ' ? (size_t)-1 : wcrtomb(bytes, (wchar_t)key, &state);
    if (len == (size_t)-1)
        return false;
    if (input->len + len < WATCH_INPUT_MAX)
        buf_put(input, bytes, len);
    return true;
}

static void key_in_prompt(struct watch *watch, wint_t key, bool is_code)
{
    bool is_end = (!is_code && key == '\r') || (is_code && key == KEY_ENTER), is_filter = watch->mode == WATCH_FILTER;
    if (!is_filter && watch_wants_one_key(watch) && !is_code && key != WATCH_ESC) {
        buf_reset(&watch->input);
        input_key(&watch->input, key, is_code);
        watch_prompt_end(watch);
        buf_reset(&watch->input);
    } else if (input_key(is_filter ? &watch->filter : &watch->input, key, is_code)) {
        if (is_filter)
            rows_rebuild(watch);
    } else if (!is_code && key == WATCH_ESC) {
        watch->mode = watch->below;
        watch_say(watch, STYLE_PLAIN, NULL);
        if (is_filter)
            filter_end(watch);
    } else if (is_end && is_filter) {
        watch->mode = watch->below;
    } else if (is_end) {
        watch_prompt_end(watch);
    } else if (is_filter && is_code && (key == KEY_UP || key == KEY_DOWN)) {
        watch->mode = WATCH_LIST;
        key_moves(watch, (int)key);
    }
}

static void key_in_question(struct watch *watch, wint_t key, bool is_code)
{
    if (!is_code && key == WATCH_ESC && watch->asked) { /* neither yes nor no */
        json_decref(watch->asked);
        watch->asked = json_object();
    }
    watch_asked(watch, !is_code && (key == 'y' || key == 'Y'));
}

static void watch_key(struct watch *watch, wint_t key, bool is_code)
{
    watch->is_dirty = true;
    if (is_code && key == KEY_RESIZE)
        return;
    if (watch->mode == WATCH_ASK) {
        key_in_question(watch, key, is_code);
    } else if (watch->mode == WATCH_FILTER || watch->mode == WATCH_ANSWER) {
        key_in_prompt(watch, key, is_code);
    } else {
        watch_say(watch, STYLE_PLAIN, NULL);
        command_of_key(watch, (int)key);
    }
}

/* ---- the loop --------------------------------------------------------------------------------------------- */

/* Waits for a key or a thread. Signals arrive here only: none is lost between looking and waiting. */
static void watch_wait_for(struct watch *watch, const sigset_t *mask)
{
    struct pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = watch->shared.wake_fd, .events = POLLIN}};
    if (ppoll(ready, 2, NULL, mask) > 0 && (ready[0].revents & (POLLHUP | POLLERR)))
        ended_by = SIGHUP; /* the terminal is gone; the signal may come a little later */
}

static void watch_loop(struct watch *watch, const sigset_t *mask)
{
    wint_t key;
    while (!watch->is_over && !ended_by) {
        if (watch->is_dirty)
            watch_draw(watch);
        watch->is_dirty = false;
        watch_wait_for(watch, mask);
        for (int kind; !watch->is_over && (kind = get_wch(&key)) != ERR;)
            watch_key(watch, key, kind == KEY_CODE_YES);
        watch_take(watch);
    }
}

/* Until the feed has brought the first picture, or its error. */
static void watch_first(struct watch *watch, const sigset_t *mask)
{
    while (!watch->status && !watch->is_over && !ended_by) {
        struct pollfd ready = {.fd = watch->shared.wake_fd, .events = POLLIN};
        ppoll(&ready, 1, NULL, mask);
        watch_take(watch);
    }
}

/* What a thread would print to stderr is shown. */
static void watch_take_problem(const struct tsk_error *problem, void *data)
{
    struct watch *watch = data;
    struct buf b = BUF_INIT;
    uint64_t one = 1;
    text_put_error(&b, watch->options.lang, problem);
    pthread_mutex_lock(&watch->shared.mutex);
    free(watch->shared.problem);
    watch->shared.problem = buf_take(&b);
    (void)!write(watch->shared.wake_fd, &one, sizeof one);
    pthread_mutex_unlock(&watch->shared.mutex);
}

static int watch_run(struct watch *watch, struct tsk_error *err)
{
    sigset_t blocked, before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGTSTP); /* curses gives the terminal back */
    signals_note();
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if (watch_threads_start(watch, err) < 0)
        return -1;
    watch_first(watch, &before);
    if (watch->status && screen_begin(watch)) {
        watch_loop(watch, &before);
        endwin();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ended_by) { /* as it ends every other program */
        signal(ended_by, SIG_DFL);
        raise(ended_by);
    }
    *err = watch->shared.err;
    return watch->shared.has_failed ? -1 : 0;
}

int cli_watch(const struct cli_options *options, struct tsk_error *err)
{
    struct watch *watch = calloc(1, sizeof *watch); /* as long as the program: the threads use it */
    BUG(!watch);
    watch->root = options->root;
    watch->filter = watch->input = (struct buf)BUF_INIT;
    watch->options = *options;
    watch->has_colour = cli_has_colour(options, stdout);
    watch->options.no_color = true; /* curses colours, not the printers */
    watch->options.quiet = false;
    pthread_mutex_init(&watch->shared.mutex, NULL);
    pthread_cond_init(&watch->shared.changed, NULL);
    watch->shared.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (watch->shared.wake_fd < 0)
        return error_errno(err, "make", "an eventfd");
    unsetenv("LINES"); /* curses would believe them rather than the terminal */
    unsetenv("COLUMNS");
    db_use(DB_USE_KEEP); /* several threads */
    log_to(watch_take_problem, watch);
    return watch_run(watch, err);
}
