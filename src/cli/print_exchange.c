/* print_exchange.c - exports, imports and templates for people. */
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

void cli_put_problems(struct buf *b, const struct cli_options *options, const json_t *context)
{
    const json_t *problems = json_object_get(context, "problems");
    const char *source = json_get_string(context, "source", "");
    size_t count = (size_t)json_get_int(context, "count", 0);
    if (count < 2)
        return;
    json_each (problems, i, problem) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, "%s:", source);
        if (json_get_int(problem, "line", 0))
            buf_printf(&line, "%lld:%lld:", (long long)json_get_int(problem, "line", 0),
                       (long long)json_get_int(problem, "column", 0));
        buf_printf(&line, " %s", json_get_string(problem, "reason", ""));
        buf_puts(b, "  ");
        cli_put_prose(b, options, stderr, STYLE_PLAIN, buf_str(&line), 2, 4);
    }
    if (json_array_size(problems) < count)
        buf_puts(b, "  …\n");
}

/* The file itself, as it is: it may be redirected. What a person must know goes to stderr. */
PRINTER(export, "process.export")
{
    size_t masked = json_array_size(json_object_get(result, "masked"));
    fputs(json_get_string(result, "content", ""), stdout);
    if (!masked || options->quiet)
        return;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    text_put(&line, options->lang, "export_masked", "count", DIGITS(masked), NULL);
    fprintf(stderr, "%s\n", buf_str(&line));
}

static void put_labelled_names(struct buf *b, const struct cli_options *options, const char *label, const json_t *names)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    json_put_texts(&line, names, ", ");
    if (line.len)
        cli_put_line(b, options, stdout, label, buf_str(&line));
}

PRINTER(import, "process.import")
{
    static const char *const lists[][2] = {
        {"label_created", "created"},     {"label_updated", "updated"}, {"label_unchanged", "unchanged"},
        {"label_templates", "templates"}, {"label_ignored", "ignored"},
    };
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const json_t *running = json_object_get(result, "running");
    if (options->quiet)
        return;
    text_put(&line, options->lang, "imported", "format", json_get_string(result, "format", ""), NULL);
    cli_put(&b, options, stdout, STYLE_GOOD, buf_str(&line));
    buf_puts(&b, "\n");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        put_labelled_names(&b, options, lists[i][0], json_object_get(result, lists[i][1]));
    json_each (json_object_get(result, "warnings"), i, warning)
        cli_put_said(&b, options, stdout, "label_warning", json_string_value(warning));
    cli_put_warnings(&b, options, result);
    json_t *next CLEANUP_JSON = json_array();
    json_each (running, i, warning)
        json_array_append_new(next, json_sprintf("tasuki proc restart %s", json_string_value(warning)));
    put_labelled_names(&b, options, "label_running", running);
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}

/* ---- templates ---- */

static void put_spec_command(struct buf *b, const json_t *spec)
{
    const json_t *args = json_object_get(spec, "args");
    buf_printf(b, "%s%s", json_get_string(spec, "command", ""), json_array_size(args) ? " " : "");
    json_put_texts(b, args, " ");
}

PRINTER(templates, "template.list")
{
    static const char *const heads[] = {"head_template", "head_variables", "head_command"};
    struct cli_table table = {.columns = 3};
    const json_t *templates = json_object_get(result, "templates");
    if (json_array_size(templates) == 0) {
        if (!options->quiet)
            cli_say(options, stdout, "no_templates");
        return;
    }
    cli_table_add_heads(&table, options, heads);
    json_each (templates, i, template) {
        struct buf variables CLEANUP(buf_clear) = BUF_INIT, command CLEANUP(buf_clear) = BUF_INIT;
        json_put_texts(&variables, json_object_get(template, "variables"), " ");
        put_spec_command(&command, json_object_get(template, "spec"));
        cli_table_add(&table, STYLE_BOLD, json_get_string(template, "name", ""));
        cli_table_add(&table, STYLE_PLAIN, variables.len ? buf_str(&variables) : "-");
        cli_table_add(&table, STYLE_DIM, buf_str(&command));
    }
    cli_table_print(&table, options, stdout);
}

PRINTER(template, "template.create", "template.show", "template.update")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *name = json_get_string(result, "name", "");
    if (options->quiet && strcmp(call->op->name, "template.show") != 0)
        return;
    cli_put(&b, options, stdout, STYLE_BOLD, name);
    buf_puts(&b, "\n");
    json_each_pair (json_object_get(result, "spec"), key, value) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        text_put_value(&text, value);
        buf_printf(&b, "  %-22s", key);
        cli_put(&b, options, stdout, STYLE_PLAIN, buf_str(&text));
        buf_puts(&b, "\n");
    }
    struct buf use CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&use, "tasuki proc template use %s ID", name);
    json_each (json_object_get(result, "variables"), i, value)
        buf_printf(&use, " --set %s=…", json_string_value(value));
    json_t *next CLEANUP_JSON = json_pack("[s]", buf_str(&use));
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}
