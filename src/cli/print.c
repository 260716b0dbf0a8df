/* print.c - results and errors for people. A result is shown by the printer of its operation, else as the sentence that the
 * operation says, else as keys and values. */
#include "base/utf8.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/cli.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

static const char *label_of(const struct cli_options *options, const char *key)
{
    return text_get(key, options->lang);
}

const char *cli_key(const char *prefix, const char *word)
{
    char key[128];
    size_t len = (size_t)snprintf(key, sizeof key, "%s%s", prefix, word);
    for (char *at = key + strlen(prefix); len < sizeof key && *at; at++)
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
    return text_key(key);
}

const char *cli_word(const struct cli_options *options, const char *prefix, const char *word)
{
    const char *key = cli_key(prefix, word);
    return key ? text_get(key, options->lang) : word;
}

enum { LABEL_WIDTH = 10, TEXT_COLUMN = 2 + LABEL_WIDTH, REPEAT_MS = 10000 };

/* Where the text begins. */
static size_t put_label(struct buf *b, const struct cli_options *options, FILE *out, const char *name)
{
    size_t width = utf8_width(name);
    buf_puts(b, "  ");
    cli_put(b, options, out, STYLE_DIM, name);
    for (; width < LABEL_WIDTH; width++)
        buf_puts(b, " ");
    return 2 + width;
}

void cli_put_line(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text)
{
    put_label(b, options, out, label_of(options, key));
    cli_put(b, options, out, STYLE_PLAIN, text);
    buf_puts(b, "\n");
}

void cli_put_said(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text)
{
    size_t column = put_label(b, options, out, label_of(options, key));
    cli_put_prose(b, options, out, STYLE_PLAIN, text, column, TEXT_COLUMN);
}

void cli_put_next(struct buf *b, const struct cli_options *options, FILE *out, const json_t *next)
{
    if (options->screen_columns) /* the screen has keys for that */
        return;
    json_each (next, i, command) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        op_put_command(&line, options->root, json_string_value(command));
        put_label(b, options, out, i ? "" : label_of(options, "label_next"));
        cli_put(b, options, out, STYLE_BOLD, buf_str(&line));
        buf_puts(b, "\n");
    }
}

static void put_who_line(struct buf *b, const struct cli_options *options, FILE *out, const char *key,
                         const json_t *who)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    who_put_label(&line, who);
    if (!line.len)
        return;
    if (json_get_int(who, "pid", 0)) {
        buf_puts(&line, " (");
        text_put(&line, options->lang, "who_pid", "pid", DIGITS(json_get_int(who, "pid", 0)), NULL);
        buf_puts(&line, ")");
    }
    cli_put_said(b, options, out, key, buf_str(&line));
}

void cli_put_starter(struct buf *b, const struct cli_options *options, FILE *out, const json_t *thing)
{
    put_who_line(b, options, out, "label_started_by", json_object_get(thing, "started_by"));
    put_who_line(b, options, out, "label_created_by", json_object_get(thing, "created_by"));
}

/* Where no command can be named: what the catalogue says can be done. `flow validate` has just been done. */
static void put_actions(struct buf *b, const struct cli_options *options, enum tsk_code code)
{
    if (code == TSK_INVALID_INPUT || (options->op && strcmp(options->op->name, "flow.validate") == 0))
        return;
    for (const char *const *action = text_of_code(code, options->lang)->actions; *action; action++) {
        buf_puts(b, "  - ");
        cli_put_prose(b, options, stderr, STYLE_PLAIN, *action, 4, 4);
    }
}

void cli_print_error(const struct cli_options *options, const struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, message CLEANUP(buf_clear) = BUF_INIT;
    cli_end_progress();
    text_put_error(&message, options->lang, err);
    cli_put(&b, options, stderr, STYLE_BAD, "tasuki: ");
    cli_put_prose(&b, options, stderr, STYLE_PLAIN, buf_str(&message), strlen("tasuki: "), strlen("tasuki: "));
    json_t *document CLEANUP_JSON = json_of_error(err, lang_name(options->lang));
    const json_t *context = json_at(document, "error.context");
    cli_put_excerpt(&b, options, context);
    (err->code == TSK_FLOW_INVALID ? cli_put_flow_problems : cli_put_problems)(&b, options, context);
    if (!options->quiet) {
        const char *lock = json_get_string(context, "lock", NULL);
        if (lock && err->code != TSK_LOCK_HELD)
            cli_put_line(&b, options, stderr, "label_lock", lock);
        cli_put_lock(&b, options, stderr, context);
        cli_put_starter(&b, options, stderr, context);
        cli_put_next(&b, options, stderr, json_at(document, "error.next"));
        if (json_array_size(json_at(document, "error.next")) == 0)
            put_actions(&b, options, err->code);
    }
    if (options->verbose) {
        const struct code_text *text = text_of_code(err->code, options->lang);
        buf_printf(&b, "  %s: %s\n", tsk_code_name(err->code), text->summary);
    }
    fputs(buf_str(&b), stderr);
}

/* Whether this problem was printed a moment ago. A command that cannot record its events reports one problem for each event. */
static bool problem_is_repeated(const struct cli_options *options, const struct tsk_error *problem)
{
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* the server's threads report, too */
    static struct buf last = BUF_INIT;
    static int64_t last_ms;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    int64_t now_ms = clock_now().boot_ms;
    text_put_error(&text, options->lang, problem);
    pthread_mutex_lock(&guard);
    bool is_same = last.len && strcmp(buf_str(&last), buf_str(&text)) == 0 && now_ms - last_ms < REPEAT_MS;
    if (!is_same) {
        buf_reset(&last);
        buf_puts(&last, buf_str(&text));
        last_ms = now_ms;
    }
    pthread_mutex_unlock(&guard);
    return is_same;
}

/* With --json a lost lock is reported as one line of JSON on stderr, because stdout belongs to the command. It is reported when it is
 * found and again at the end. */
void cli_print_problem(const struct tsk_error *problem, void *data)
{
    const struct cli_options *options = data;
    if (problem->code != TSK_LOCK_LOST && problem_is_repeated(options, problem))
        return;
    if (!options->json || problem->code != TSK_LOCK_LOST) {
        cli_print_error(options, problem);
        return;
    }
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_t *document CLEANUP_JSON = json_of_error(problem, lang_name(options->lang));
    json_write(&b, document, false);
    fprintf(stderr, "%s\n", buf_str(&b));
}

/* ---- results ---- */

static void print_fields(const struct cli_options *options, const json_t *result)
{
    struct cli_table table = {.columns = 2};
    json_each_pair (result, key, value) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        if (json_is_null(value))
            continue;
        text_put_value(&text, value);
        cli_table_add(&table, STYLE_DIM, key);
        cli_table_add(&table, STYLE_PLAIN, buf_str(&text));
    }
    cli_table_print(&table, options, stdout);
}

static void print_sentence(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *warning = json_get_string(result, "warning", NULL);
    text_put_json(&line, options->lang, call->says, result, call->aside);
    cli_put_prose(&b, options, stdout, call->verdict == TSK_OK ? STYLE_GOOD : STYLE_WARN, buf_str(&line), 0, 2);
    if (warning)
        cli_put_said(&b, options, stdout, "label_warning", warning);
    cli_put_next(&b, options, stdout, json_object_get(call->aside, "next"));
    fputs(buf_str(&b), stdout);
}

/* On stderr: what is on stdout may go into a pipe. */
static void print_more(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const char *cursor = json_get_string(result, "cursor", NULL);
    struct buf b CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    if (!cursor || options->quiet || !op_param_find(call->op, "cursor"))
        return;
    text_put(&text, options->lang, "list_more", "cursor", shell_word(&word, cursor), NULL);
    cli_put(&b, options, stderr, STYLE_DIM, buf_str(&text));
    fflush(stdout);
    fprintf(stderr, "%s\n", buf_str(&b));
}

static const struct cli_printer *find_printer(const char *op)
{
    for (const struct cli_printer *const *printer = cli_printers; *printer; printer++)
        for (const char *const *name = (*printer)->ops; *name; name++)
            if (strcmp(*name, op) == 0)
                return *printer;
    return NULL;
}

void cli_print_result(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const struct cli_printer *printer = find_printer(call->op->name);
    if (printer)
        printer->print(call, options, result);
    else if (!options->quiet && call->says)
        print_sentence(call, options, result);
    else if (!options->quiet)
        print_fields(options, result);
    print_more(call, options, result);
}

/* Whether the caller asked for some of them only. How many, and with the ended ones, is no such question. */
static bool is_filtered(const struct op_call *call)
{
    static const char *const others[] = {"limit", "all"};
    size_t count = json_object_size(call->args);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        count -= json_object_get(call->args, others[i]) != NULL;
    return count > 0;
}

void cli_say(const struct cli_options *options, FILE *out, const char *key)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put_prose(&b, options, out, STYLE_PLAIN, text_get(key, options->lang), 0, 2);
    fputs(buf_str(&b), out);
}

void cli_print_none(const struct op_call *call, const struct cli_options *options, const char *key)
{
    cli_say(options, stdout, is_filtered(call) ? "none_matches" : key);
}

const char *cli_short_id(const struct op_call *call, const struct cli_options *options, const char *id)
{
    return options->verbose ? id : json_get_string(json_object_get(call->aside, "short"), id, id);
}

const char *cli_flow(const struct cli_options *options, const char *source, struct buf *b)
{
    static const char folder[] = ".aiflow/flows/", end[] = ".yaml";
    size_t begin = strlen(folder), len = strlen(source);
    if (options->verbose || strncmp(source, folder, begin) != 0 || len <= begin + strlen(end) ||
        strcmp(source + len - strlen(end), end) != 0)
        return source;
    buf_reset(b);
    buf_put(b, source + begin, len - begin - strlen(end));
    return buf_str(b);
}

const char *cli_place(const struct op_call *call, const char *path, struct buf *b)
{
    const char *state = json_get_string(call->aside, "state_place", NULL);
    if (!state || strncmp(path, ".aiflow/", 8) != 0)
        return path;
    buf_reset(b);
    buf_printf(b, "%s%s", state, path + 8);
    return buf_str(b);
}
