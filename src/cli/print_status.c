/* print_status.c - the whole workspace on one screen: once (`status`), or again and again (`watch`). */
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define RUNS_SHOWN 10

static enum style style_of_request(const char *status)
{
    if (strcmp(status, "running") == 0)
        return STYLE_GOOD;
    if (strcmp(status, "failed") == 0 || strcmp(status, "broken") == 0)
        return STYLE_BAD;
    return strcmp(status, "needs_input") == 0 ? STYLE_WARN : STYLE_PLAIN;
}

static void print_requests(const struct cli_options *options, const json_t *requests)
{
    static const char *const heads[] = {"head_request", "head_priority", "head_status", "head_run", "head_title"};
    struct cli_table table = {.columns = 5};
    size_t i;
    json_t *request;
    for (i = 0; i < 5; i++)
        cli_table_add(&table, STYLE_DIM, text_get(heads[i], options->lang));
    json_array_foreach (requests, i, request) {
        const char *status = json_get_string(request, "status", "");
        cli_table_add(&table, STYLE_BOLD, json_get_string(request, "id", ""));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(request, "priority", ""));
        cli_table_add(&table, style_of_request(status), status);
        cli_table_add(&table, STYLE_PLAIN, json_get_string(request, "run_id", ""));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(request, "title", ""));
    }
    cli_table_print(&table, options, stdout);
}

static bool has_queue(const json_t *locks)
{
    size_t i;
    json_t *lock;
    json_array_foreach (locks, i, lock)
        if (strcmp(json_get_string(lock, "kind", ""), "queue") == 0 &&
            strcmp(json_get_string(lock, "state", ""), "held") == 0)
            return true;
    return false;
}

static void print_heading(const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "root", ""));
    cli_put(&b, options, stdout, STYLE_DIM, "  tasuki ");
    cli_put(&b, options, stdout, STYLE_DIM, json_get_string(result, "version", ""));
    if (options->screen_columns) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_DIM, json_get_string(result, "time", ""));
    }
    if (has_queue(json_object_get(result, "locks"))) {
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_GOOD, text_get("status_queue_running", options->lang));
    }
    printf("%s\n\n", buf_str(&b));
}

static void print_more(const struct cli_options *options, int64_t number)
{
    struct buf more CLEANUP(buf_clear) = BUF_INIT;
    char count[24];
    if (number <= 0)
        return;
    snprintf(count, sizeof count, "%lld", (long long)number);
    text_put(&more, options->lang, "doctor_and_more", "count", count, NULL);
    printf("%s\n", buf_str(&more));
}

static void print_workflows(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    printf("\n");
    cli_print_own_list(call, options, result);
    print_more(options, json_get_int(result, "more_workflows", 0));
}

/* The first of them, which are those that go on or wait (overview.c); `runs list` has them all. */
static void print_runs(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    json_t *runs = json_object_get(result, "runs"), *first = json_array(), *run;
    json_t *shown CLEANUP_JSON = json_pack("{s:o}", "runs", first);
    size_t i;
    json_array_foreach (runs, i, run)
        if (i < RUNS_SHOWN)
            json_array_append(first, run);
    cli_print_runs(call, options, shown);
    print_more(options, (int64_t)json_array_size(runs) - RUNS_SHOWN);
}

/* What watch cannot see at the moment (a config.yaml that somebody is editing). */
static bool print_trouble(const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *message = json_get_string(json_object_get(result, "error"), "message", NULL);
    if (message)
        cli_put(&b, options, stdout, STYLE_BAD, message);
    if (message)
        printf("%s\n", buf_str(&b));
    return message;
}

void cli_print_status(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    print_heading(options, result);
    if (print_trouble(options, result))
        return;
    if (json_array_size(json_object_get(result, "processes"))) {
        cli_print_processes(call, options, result);
        printf("\n");
    }
    if (json_array_size(json_object_get(result, "requests"))) {
        print_requests(options, json_object_get(result, "requests"));
        printf("\n");
    }
    if (json_array_size(json_object_get(result, "runs"))) {
        print_runs(call, options, result);
        printf("\n");
    }
    cli_print_locks(options, json_object_get(result, "locks"));
    if (json_array_size(json_object_get(result, "workflows")))
        print_workflows(call, options, result);
}

/* ---- live ------------------------------------------------------------------------------------------------- */

static const char enter[] = "\033[?1049h\033[?25l\033[?7l"; /* the other screen, no cursor, no wrapping */
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

/* The terminal as it was; lives as long as the program, as the terminal does. */
static struct {
    volatile sig_atomic_t is_taken;
    bool has_settings;
    struct termios settings;
} screen;

/* Only what a signal handler may call. */
static void screen_leave(void)
{
    if (!screen.is_taken)
        return;
    screen.is_taken = 0;
    ssize_t ignored = write(STDOUT_FILENO, leave, sizeof leave - 1);
    (void)ignored;
    if (screen.has_settings)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen.settings);
}

/* Gives the terminal back, then does what the signal does to everybody. After a stop the next drawing takes it again. */
static void on_signal(int number)
{
    sigset_t mask;
    screen_leave();
    signal(number, SIG_DFL);
    sigemptyset(&mask);
    sigaddset(&mask, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
    signal(number, on_signal);
}

static void on_resize(int number)
{
    (void)number; /* ends the wait: the next drawing has the new size */
}

static void screen_enter(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    struct sigaction resize = {.sa_handler = on_resize};
    struct termios quiet;
    if (screen.is_taken)
        return;
    screen.has_settings = tcgetattr(STDIN_FILENO, &screen.settings) == 0;
    screen.is_taken = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], on_signal);
    sigaction(SIGWINCH, &resize, NULL);
    atexit(screen_leave);
    if (screen.has_settings) {
        quiet = screen.settings;
        quiet.c_lflag &= ~(tcflag_t)ECHO; /* what is typed would be drawn over the picture */
        tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    fputs(enter, stdout);
}

/* One character, or a sequence that only changes how the next ones look (*ret_width 0). */
static size_t next_piece(const char *at, size_t *ret_width)
{
    char piece[8];
    *ret_width = 0;
    if (*at == '\033')
        return strcspn(at, "m") + (at[strcspn(at, "m")] == 'm');
    size_t len = utf8_sequence(at, strlen(at));
    len = len ? len : 1;
    snprintf(piece, sizeof piece, "%.*s", (int)len, at);
    *ret_width = utf8_width(piece);
    return len;
}

/* What of the picture fits: with wrapping off, the rest of a line would be written over its last column. */
static void put_fitting(struct buf *b, const char *text, size_t rows, size_t columns)
{
    size_t row = 1, column = 0, width;
    for (size_t len; *text && (*text != '\n' || row < rows); text += len) {
        len = next_piece(text, &width);
        column += width;
        if (*text == '\n') {
            row++;
            column = 0;
        }
        if (column <= columns || !width)
            buf_put(b, text, len);
    }
}

/* The picture is made in memory and shown with one write, so that nothing flickers. */
static void draw(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct cli_options shown = *options;
    char *text = NULL;
    size_t len = 0;
    struct buf fitting CLEANUP(buf_clear) = BUF_INIT;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    shown.screen_columns = size.ws_col ? size.ws_col : 80;
    FILE *terminal = stdout, *memory = open_memstream(&text, &len);
    if (!memory)
        return;
    stdout = memory;
    cli_print_status(call, &shown, document);
    stdout = terminal;
    fclose(memory);
    screen_enter();
    put_fitting(&fitting, text, size.ws_row ? size.ws_row : 24, (size_t)shown.screen_columns);
    printf("\033[H\033[J%s", buf_str(&fitting));
    fflush(stdout);
    free(text);
}

bool cli_print_screen(const struct op_call *call, const struct cli_options *options, const json_t *document)
{
    if (strcmp(call->op->name, "watch") != 0)
        return false;
    if (isatty(STDOUT_FILENO)) {
        draw(call, options, document);
        return true;
    }
    printf("== %s\n", json_get_string(document, "time", ""));
    cli_print_status(call, options, document);
    printf("\n");
    return true;
}
