/* help.c - `--help`, made from the operation table. */
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>

void cli_usage_line(const struct op *op, struct buf *b)
{
    char name[64];
    buf_printf(b, "tasuki %s%s%s", op->noun ? op->noun : "", op->noun ? " " : "", op->verb);
    for (const struct op_param *param = op->params; param->name; param++) {
        bool required = param->flags & OP_REQUIRED;
        cli_option_name(param->name, name);
        if (param->type == OP_ARGV)
            continue;
        if (param->flags & OP_POSITIONAL)
            buf_printf(b, required ? " %s" : " [%s]", param->value);
        else if (param->letter)
            buf_printf(b, param->value ? " [-%c %s]" : " [-%c]", param->letter, param->value);
        else
            buf_printf(b, param->value ? " [--%s %s]" : " [--%s]", name, param->value);
    }
    for (const struct op_param *param = op->params; param->name; param++)
        if (param->type == OP_ARGV)
            buf_printf(b, " -- %s", param->value);
}

static void put_wrapped(struct buf *b, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > width) {
            buf_puts(b, "\n");
            for (size_t i = 0; i < indent; i++)
                buf_puts(b, " ");
            column = indent;
        } else if (column > indent) {
            buf_puts(b, " ");
            column++;
        }
        buf_put(b, text, word);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    buf_puts(b, "\n");
}

static size_t width_for_help(void)
{
    int width = cli_terminal_width(stdout);
    return width <= 0 || width > 100 ? 100 : width < 40 ? 40 : (size_t)width;
}

static void put_param(struct buf *b, const struct op_param *param, size_t width)
{
    char name[64], left[128], help[512];
    cli_option_name(param->name, name);
    if (param->flags & OP_POSITIONAL)
        snprintf(left, sizeof left, "%s", param->value);
    else if (param->letter)
        snprintf(left, sizeof left, "-%c, --%s%s%s", param->letter, name, param->value ? " " : "",
                 param->value ? param->value : "");
    else
        snprintf(left, sizeof left, "--%s%s%s", name, param->value ? " " : "", param->value ? param->value : "");
    snprintf(help, sizeof help, "%s%s%s%s", param->help, param->fallback ? " [default: " : "",
             param->fallback ? param->fallback : "", param->fallback ? "]" : "");
    buf_printf(b, "  %-22s", left);
    if (utf8_width(left) > 21)
        buf_puts(b, "\n                        ");
    put_wrapped(b, help, 24, width);
}

static void put_examples(struct buf *b, const char *examples)
{
    buf_puts(b, "\nExamples\n");
    while (*examples) {
        size_t len = strcspn(examples, "\n");
        buf_puts(b, "  ");
        buf_put(b, examples, len);
        buf_puts(b, "\n");
        examples += len + (examples[len] == '\n');
    }
}

static void put_op(struct buf *b, const struct op *op)
{
    size_t width = width_for_help();
    put_wrapped(b, op->summary, 0, width);
    struct buf usage CLEANUP(buf_clear) = BUF_INIT;
    cli_usage_line(op, &usage);
    buf_puts(b, "\nUsage\n  ");
    put_wrapped(b, buf_str(&usage), 2, width);
    if (op->params->name) {
        buf_puts(b, "\nParameters\n");
        for (const struct op_param *param = op->params; param->name; param++)
            put_param(b, param, width);
    }
    if (op->detail) {
        buf_puts(b, "\n");
        put_wrapped(b, op->detail, 0, width);
    }
    if (op->errors[0]) {
        buf_puts(b, "\nErrors (exit code)\n");
        for (const enum tsk_code *code = op->errors; *code; code++) {
            buf_printf(b, "  %-22s%d  ", tsk_code_name(*code), code_info(*code)->exit_code);
            put_wrapped(b, text_of_code(*code, LANG_EN)->summary, 27, width);
        }
    }
    if (op->examples)
        put_examples(b, op->examples);
}

static void put_verbs(struct buf *b, const char *noun)
{
    size_t count, width = width_for_help();
    const struct op *const *rows = op_table(&count);
    for (size_t i = 0; i < count; i++) {
        bool fits = noun ? rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 : !rows[i]->noun;
        if (!fits)
            continue;
        buf_printf(b, "  %-14s", rows[i]->verb);
        put_wrapped(b, rows[i]->summary, 16, width);
    }
}

static void put_globals(struct buf *b)
{
    buf_puts(b, "\nOptions for every command\n"
                "  --root DIR            The workspace (default: TASUKI_ROOT, else upwards from here).\n"
                "  --json                One JSON document on stdout; messages go to stderr.\n"
                "  --lang ja|en|zh       Language (default: TASUKI_LANG, LANG).\n"
                "  --quiet, --verbose    Less, more.\n"
                "  --no-color            No colours (NO_COLOR is honoured, too).\n"
                "  --help                This text, for any command.\n");
}

static void put_top(struct buf *b)
{
    const char *nouns[64];
    size_t count = cli_nouns(nouns, 64);
    buf_puts(b,
             "tasuki " TASUKI_VERSION ": nothing runs twice, nothing is lost in a crash, everyone sees who runs what.\n"
             "\nUsage\n  tasuki [--root DIR] [--json] [--lang L] COMMAND …\n\nCommands\n");
    put_verbs(b, NULL);
    for (size_t i = 0; i < count; i++) {
        buf_printf(b, "\n%s (tasuki %s VERB)\n", nouns[i], nouns[i]);
        put_verbs(b, nouns[i]);
    }
    put_globals(b);
    buf_puts(b, "\nExit codes\n"
                "  0 success   2 bad input   3 environment   4 held or conflict   5 not found\n"
                "  6 needs confirmation, dead holder   7 failed   8 needs an answer   9 internal error\n"
                "\nStart with: tasuki init, then tasuki lock run NAME -- COMMAND\n");
}

int cli_help(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err)
{
    (void)options;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const struct op *op = verb ? op_find(noun, verb) : noun ? op_find(NULL, noun) : NULL;
    if (op) {
        put_op(&b, op);
        put_globals(&b);
    } else if (!noun) {
        put_top(&b);
    } else if (cli_noun_exists(noun) && !verb) {
        buf_printf(&b, "Usage\n  tasuki %s VERB …\n\nVerbs\n", noun);
        put_verbs(&b, noun);
        buf_printf(&b, "\nMore: tasuki %s VERB --help\n", noun);
    } else {
        error_set(err, TSK_INVALID_INPUT, "command_unknown", "value", verb ? verb : noun, NULL);
        error_add_next(err, "tasuki --help");
        return -1;
    }
    fputs(buf_str(&b), stdout);
    return 0;
}
