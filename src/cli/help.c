/* help.c - `--help`, made from the operation table. */
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

/* The parameter that can be given instead of another one, as a file with its text. */
static const struct op_param *file_param_of(const struct op *op, const char *name)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if (param->fills && strcmp(param->fills, name) == 0)
            return param;
    return NULL;
}

static void put_either(const struct op_param *param, const struct op_param *file, struct buf *b)
{
    char name[64], option[64];
    bool required = param->flags & OP_REQUIRED;
    cli_option_name(param, name);
    cli_option_name(file, option);
    buf_puts(b, required ? " (" : " [");
    if (!(param->flags & OP_POSITIONAL))
        buf_printf(b, "--%s ", name);
    buf_printf(b, "%s | --%s %s%s", param->value, option, file->value, required ? ")" : "]");
}

void cli_usage_line(const struct op *op, struct buf *b)
{
    char name[64];
    buf_printf(b, "tasuki %s", OP_WORDS(op));
    for (const struct op_param *param = op->params; param->name; param++) {
        bool required = param->flags & (OP_REQUIRED | OP_SHOWN_REQUIRED);
        const struct op_param *file = file_param_of(op, param->name);
        cli_option_name(param, name);
        if (file)
            put_either(param, file, b);
        if (param->type == OP_ARGV || (param->flags & (OP_PROGRAM | OP_REMOTE_ONLY)) || file || param->fills)
            continue;
        if (param->flags & OP_POSITIONAL)
            buf_printf(b, required ? " %s" : " [%s]", param->value);
        else if (param->letter)
            buf_printf(b, param->value ? " [-%c %s]" : " [-%c]", param->letter, param->value);
        else if (required)
            buf_printf(b, " --%s %s", name, param->value);
        else
            buf_printf(b, param->value ? " [--%s %s]" : " [--%s]", name, param->value);
    }
    const char *before = " --", *after = "";
    for (const struct op_param *param = op->params; param->name; param++)
        if (param->type == OP_ARGV || (param->flags & OP_PROGRAM)) {
            bool is_optional = *before && !(param->flags & (OP_REQUIRED | OP_SHOWN_REQUIRED));
            buf_printf(b, "%s %s", is_optional ? " [--" : before, param->value);
            before = "";
            after = is_optional ? "]" : after;
        }
    buf_puts(b, after);
}

static const char *const languages[] = {"ja", "en", "zh", NULL};

const struct cli_global cli_globals[] = {
    {"--root", "DIR", "The workspace (default: TASUKI_ROOT, else upwards from here).", NULL},
    {"--json", NULL, "One JSON document on stdout; messages go to stderr.", NULL},
    {"--lang", "L", "Language: ja, en or zh (default: TASUKI_LANG, LANG).", languages},
    {"--quiet", NULL, "Only errors, and no hints.", NULL},
    {"--verbose", NULL, "Errors with the reason code and its meaning.", NULL},
    {"--no-color", NULL, "No colours (NO_COLOR is honoured, too).", NULL},
    {"--help", NULL, "This text, for any command.", NULL},
    {0},
};

#define HELP_NARROW 60 /* below this many columns, explanations stand under what they explain */

static void put_spaces(struct buf *b, size_t count)
{
    while (count--)
        buf_puts(b, " ");
}

static size_t width_of(const char *text, size_t len)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%.*s", (int)len, text);
    return utf8_width(copy);
}

/* Marks that must not begin a line. */
static size_t closing_mark(const char *text)
{
    static const char *const marks[] = {"。", "、", "，", "；", "：", "？", "！", "）", "」", "』", "”"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (strncmp(text, marks[i], strlen(marks[i])) == 0)
            return strlen(marks[i]);
    return 0;
}

/* The length of the longest prefix that must stay on one line: a word, or in Chinese and Japanese, which have no
 * spaces, one character. */
static size_t unbreakable_len(const char *text)
{
    size_t len = 0, n, mark;
    while (text[len] && text[len] != ' ') {
        n = utf8_sequence(text + len, strnlen(text + len, 4));
        n = n ? n : 1;
        bool is_wide = width_of(text + len, n) > 1;
        if (is_wide && len)
            break;
        len += n;
        if (is_wide)
            break;
    }
    while ((mark = closing_mark(text + len)))
        len += mark;
    return len;
}

/* Begins in column `first`, breaks into lines that begin in column `indent`; `at_break` ends the broken ones. */
static void put_wrapped_from(struct buf *b, const char *text, size_t first, size_t indent, size_t width,
                             const char *at_break)
{
    size_t column = first, gap = 0;
    bool is_first = true;
    while (*text) {
        size_t len = unbreakable_len(text), columns = width_of(text, len);
        if (!is_first && column + (gap ? 1 : 0) + columns + strlen(at_break) > width) {
            buf_printf(b, "%s\n", at_break);
            put_spaces(b, indent);
            column = indent;
        } else if (!is_first && gap) {
            buf_puts(b, " ");
            column++;
        }
        buf_put(b, text, len);
        column += columns;
        text += len;
        gap = strspn(text, " ");
        text += gap;
        is_first = false;
    }
    buf_puts(b, "\n");
}

void cli_put_wrapped(struct buf *b, const char *text, size_t indent, size_t width)
{
    put_wrapped_from(b, text, indent, indent, width, "");
}

void cli_put_prose(struct buf *b, const struct cli_options *options, FILE *out, enum style style, const char *text,
                   size_t first, size_t indent)
{
    struct buf safe CLEANUP(buf_clear) = BUF_INIT, lines CLEANUP(buf_clear) = BUF_INIT;
    size_t width = options->screen_columns || !isatty(fileno(out)) ? 0 : (size_t)cli_terminal_width(out);
    utf8_put_line(&safe, text);
    if (first + utf8_width(buf_str(&safe)) <= width || width <= indent) {
        cli_put(b, options, out, style, text);
        buf_puts(b, "\n");
        return;
    }
    put_wrapped_from(&lines, buf_str(&safe), first, indent, width, "");
    for (char *line = lines.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cli_put(b, options, out, style, line);
        buf_puts(b, "\n");
    }
}

/* A name and its explanation, which begins in `column` if both fit. */
static void put_row(struct buf *b, const char *left, const char *text, size_t column, size_t width)
{
    size_t used = 2 + utf8_width(left);
    buf_printf(b, "  %s", left);
    if (width < HELP_NARROW)
        column = 6;
    if (width < HELP_NARROW || used >= column) {
        buf_puts(b, "\n");
        used = 0;
    }
    put_spaces(b, column - used);
    cli_put_wrapped(b, text, column, width);
}

/* The terminal's width also where the help goes through a pipe: a person reads it behind `| less`. */
static size_t width_for_help(void)
{
    int width = cli_terminal_width(stdout);
    if (width <= 0)
        width = cli_terminal_width(stderr);
    return width <= 0 || width > 100 ? 100 : width < 40 ? 40 : (size_t)width;
}

static void put_param(struct buf *b, const struct op_param *param, bool has_defaults, size_t width)
{
    const char *fallback = has_defaults ? param->fallback : NULL;
    char name[64], left[128], help[512];
    cli_option_name(param, name);
    if (param->flags & OP_NOT_AN_OPTION)
        snprintf(left, sizeof left, "%s", param->value);
    else if (param->letter)
        snprintf(left, sizeof left, "-%c, --%s%s%s", param->letter, name, param->value ? " " : "",
                 param->value ? param->value : "");
    else
        snprintf(left, sizeof left, "--%s%s%s", name, param->value ? " " : "", param->value ? param->value : "");
    snprintf(help, sizeof help, "%s%s%s%s", param->help, fallback ? " [default: " : "", fallback ? fallback : "",
             fallback ? "]" : "");
    put_row(b, left, help, 24, width);
}

/* An example is "command  # what it does". Where that is too long for a line, what it does goes first, and the
 * command is broken so that it can still be copied. */
static void put_example(struct buf *b, const char *line, size_t width)
{
    const char *comment = strstr(line, "  # ");
    if (2 + utf8_width(line) <= width) {
        buf_printf(b, "  %s\n", line);
        return;
    }
    char command[512];
    snprintf(command, sizeof command, "%.*s", comment ? (int)(comment - line) : (int)strlen(line), line);
    if (comment) {
        buf_puts(b, "  ");
        put_wrapped_from(b, comment + 2, 2, 4, width, "");
    }
    buf_puts(b, "  ");
    put_wrapped_from(b, command, 2, 6, width, " \\");
}

static void help_put_examples(struct buf *b, const char *examples, size_t width)
{
    buf_puts(b, "\nExamples\n");
    while (*examples) {
        size_t len = strcspn(examples, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)len, examples);
        put_example(b, line, width);
        examples += len + (examples[len] == '\n');
    }
}

static void put_errors(struct buf *b, const enum tsk_code *codes, enum lang lang, size_t width)
{
    char left[64];
    buf_puts(b, "\nErrors (exit code)\n");
    for (; *codes; codes++) {
        snprintf(left, sizeof left, "%s (%d)", tsk_code_name(*codes), code_info(*codes)->exit_code);
        put_row(b, left, text_of_code(*codes, lang)->summary, 28, width);
    }
}

static void help_put_op(struct buf *b, const struct op *op, const struct cli_options *options, size_t width)
{
    cli_put_wrapped(b, op->summary, 0, width);
    struct buf usage CLEANUP(buf_clear) = BUF_INIT;
    cli_usage_line(op, &usage);
    buf_puts(b, "\nUsage\n  ");
    put_wrapped_from(b, buf_str(&usage), 2, 6, width, "");
    if (op->examples)
        help_put_examples(b, op->examples, width);
    const char *heading = "\nParameters\n";
    for (const struct op_param *param = op->params; param->name; param++) {
        if (param->flags & OP_REMOTE_ONLY)
            continue;
        buf_puts(b, heading);
        heading = "";
        put_param(b, param, !(op->flags & OP_KEEPS_REST), width);
    }
    if (!options->wants_all)
        return;
    if (op->detail) {
        buf_puts(b, "\n");
        cli_put_wrapped(b, op->detail, 0, width);
    }
    if (op->errors[0])
        put_errors(b, op->errors, options->lang, width);
}

static void put_verbs(struct buf *b, const char *noun, size_t width)
{
    op_foreach (op)
        if (op_has_noun(op, noun))
            put_row(b, op->verb, op->summary, 16, width);
}

static void help_put_globals(struct buf *b, const struct op *op, size_t width)
{
    static const char streamed[] = "One JSON document per line on stdout, the result last; messages go to stderr.";
    bool is_streamed = op && (op->flags & OP_STREAMS);
    char left[64];
    buf_puts(b, "\nOptions for every command\n");
    for (const struct cli_global *global = cli_globals; global->name; global++) {
        snprintf(left, sizeof left, "%s%s%s", global->name, global->value ? " " : "",
                 global->value ? global->value : "");
        put_row(b, left, is_streamed && strcmp(global->name, "--json") == 0 ? streamed : global->help, 24, width);
    }
}

static void help_put_exit_codes(struct buf *b, size_t width)
{
    static const char *const meanings[][2] = {
        {"0", "success"},
        {"1", "no access to a server; a warning with doctor --strict"},
        {"2", "bad input"},
        {"3", "environment"},
        {"4", "held or conflict"},
        {"5", "not found"},
        {"6", "needs confirmation, or a dead holder's lock"},
        {"7", "failed"},
        {"8", "needs an answer"},
        {"9", "internal error"},
    };
    buf_puts(b, "\nExit codes\n");
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        buf_printf(b, "  %s  ", meanings[i][0]);
        cli_put_wrapped(b, meanings[i][1], 5, width);
    }
}

static void put_all_commands(struct buf *b, size_t width)
{
    const char *nouns[64];
    char text[128];
    size_t count = cli_nouns(nouns, 64);
    cli_put_wrapped(
        b, "tasuki " TASUKI_VERSION ": nothing runs twice, nothing is lost in a crash, everyone sees who runs what.", 0,
        width);
    buf_puts(b, "\nUsage\n  ");
    put_wrapped_from(b, "tasuki [--root DIR] [--json] [--lang L] COMMAND …", 2, 6, width, "");
    buf_puts(b, "\nCommands\n");
    put_verbs(b, NULL, width);
    for (size_t i = 0; i < count; i++) {
        buf_printf(b, "\n%s (tasuki %s VERB)\n", nouns[i], nouns[i]);
        put_verbs(b, nouns[i], width);
    }
    buf_puts(b, "\nShort forms\n");
    for (const struct cli_alias *alias = cli_aliases; alias->word; alias++) {
        const struct op *op = op_by_name(alias->op);
        snprintf(text, sizeof text, "tasuki %s", OP_WORDS(op));
        put_row(b, alias->word, text, 16, width);
    }
    help_put_globals(b, NULL, width);
    help_put_exit_codes(b, width);
}

/* `tasuki lock acquire --help` has what one needs to type it; `--all` adds the rest. */
static void help_put_command(struct buf *b, const struct op *op, const struct cli_options *options, size_t width)
{
    help_put_op(b, op, options, width);
    if (options->wants_all)
        help_put_globals(b, op, width);
    else
        buf_printf(b, "\nMore: tasuki %s --help --all\n", OP_WORDS(op));
}

int cli_help(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err)
{
    size_t width = width_for_help();
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const struct op *op = verb ? op_find(noun, verb) : noun ? cli_find_command(noun) : NULL;
    if (op) {
        help_put_command(&b, op, options, width);
    } else if (!noun && options->wants_all) {
        put_all_commands(&b, width);
    } else if (!noun) {
        cli_first_screen(&b, options, width);
    } else if (cli_noun_exists(noun) && !verb) {
        buf_printf(&b, "Usage\n  tasuki %s VERB …\n\nVerbs\n", noun);
        put_verbs(&b, noun, width);
        buf_printf(&b, "\nMore: tasuki %s VERB --help\n", noun);
    } else {
        return cli_unknown_topic(noun, verb, err);
    }
    cli_page(buf_str(&b));
    return 0;
}
