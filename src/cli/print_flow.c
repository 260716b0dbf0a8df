/* print_flow.c - flows and runs for people. */
#include "base/utf8.h"
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

/* Below the line, where its column is. */
static void put_mark(struct buf *b, const struct cli_options *options, const char *text, int64_t column)
{
    struct buf before CLEANUP(buf_clear) = BUF_INIT, shown CLEANUP(buf_clear) = BUF_INIT;
    /* As it was shown: a tab has become several characters, and some take two columns. */
    for (const char *at = text; *at && column > 1; column--) {
        size_t len = utf8_sequence(at, strlen(at));
        buf_put(&before, at, len ? len : 1);
        at += len ? len : 1;
    }
    utf8_put_visible(&shown, buf_str(&before), false);
    buf_printf(b, "    %*s", (int)utf8_width(buf_str(&shown)), "");
    cli_put(b, options, stderr, STYLE_BAD, "^");
    buf_puts(b, "\n");
}

void cli_put_excerpt(struct buf *b, const struct cli_options *options, const json_t *place)
{
    const char *text = json_get_string(place, "excerpt", "");
    int64_t column = json_get_int(place, "excerpt_column", json_get_int(place, "column", 0));
    const char *corrected = json_get_string(place, "corrected", "");
    if (!*text)
        return;
    buf_puts(b, "    ");
    cli_put(b, options, stderr, STYLE_PLAIN, text);
    buf_puts(b, "\n");
    if (column >= 1)
        put_mark(b, options, text, column);
    if (*corrected) {
        cli_put(b, options, stderr, STYLE_GOOD, "  + ");
        cli_put(b, options, stderr, STYLE_PLAIN, corrected);
        buf_puts(b, "\n");
    }
}

void cli_put_flow_problems(struct buf *b, const struct cli_options *options, const json_t *context)
{
    const json_t *problems = json_object_get(context, "problems");
    const char *source = json_get_string(context, "source", "");
    json_each (problems, i, problem) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        if (i == 0)
            continue;
        buf_printf(&line, "%s:%lld:%lld: %s", source, (long long)json_get_int(problem, "line", 0),
                   (long long)json_get_int(problem, "column", 0), json_get_string(problem, "message", ""));
        cli_put(b, options, stderr, STYLE_BAD, "tasuki: ");
        cli_put_prose(b, options, stderr, STYLE_PLAIN, buf_str(&line), strlen("tasuki: "), strlen("tasuki: "));
        cli_put_excerpt(b, options, problem);
    }
    int64_t count = json_get_int(context, "count", 0);
    if (count > (int64_t)json_array_size(problems)) {
        text_put(b, options->lang, "flow_more_problems", "count", DIGITS(count - (int64_t)json_array_size(problems)),
                 NULL);
        buf_puts(b, "\n");
    }
}

PRINTER(flows, "flow.list")
{
    if (json_array_size(json_object_get(result, "flows")) == 0 && !options->quiet)
        cli_say(options, stderr, "no_flows");
    json_each (json_object_get(result, "flows"), i, flow)
        printf("%s\n", json_get_string(flow, "name", "")); /* a name each line, for a pipe as well */
}

/* PARAM, DEFAULT, CHOICES, HELP. */
static void print_params(const struct cli_options *options, const json_t *params)
{
    static const char *const heads[] = {"head_param", "head_default", "head_choices", "head_help"};
    struct cli_table table = {.columns = 4};
    cli_table_add_heads(&table, options, heads);
    json_each (params, i, param) {
        struct buf choices CLEANUP(buf_clear) = BUF_INIT;
        json_put_texts(&choices, json_object_get(param, "choices"), " ");
        cli_table_add(&table, STYLE_BOLD, json_get_string(param, "name", ""));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(param, "default", "-"));
        cli_table_add(&table, STYLE_PLAIN, buf_str(&choices));
        cli_table_add(&table, STYLE_PLAIN, json_get_string(param, "help", ""));
    }
    cli_table_print(&table, options, stdout);
}

/* The names by which tasks read the parameters. */
static void print_variables(const struct cli_options *options, const json_t *params)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT, b CLEANUP(buf_clear) = BUF_INIT;
    json_each (params, i, param)
        buf_printf(&names, "%s%s", i ? " " : "", json_get_string(param, "variable", ""));
    text_put(&text, options->lang, "flow_variables", "variables", buf_str(&names), NULL);
    int width = cli_terminal_width(stdout);
    cli_put_wrapped(&b, buf_str(&text), 0, width ? (size_t)width : SIZE_MAX);
    fputs(buf_str(&b), stdout);
}

PRINTER(flow, "flow.show")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, tasks CLEANUP(buf_clear) = BUF_INIT;
    const json_t *params = json_object_get(result, "params");
    const char *name = json_get_string(result, "name", NULL);
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "source", ""));
    buf_printf(&b, "%s%s\n", name ? "  " : "", name ? name : "");
    if (json_get_bool(result, "exclusive", false))
        buf_printf(&b, "  %s\n", text_get("flow_is_exclusive", options->lang));
    json_put_texts(&tasks, json_object_get(result, "tasks"), " ");
    buf_puts(&b, "  ");
    cli_put_wrapped(&b, buf_str(&tasks), 2, (size_t)cli_terminal_width(stdout));
    fputs(buf_str(&b), stdout);
    if (json_array_size(params)) {
        printf("\n");
        print_params(options, params);
        print_variables(options, params);
    }
}

PRINTER(graph, "graph", "runs.graph")
{
    json_t *graph = json_object_get(result, "graph");
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (graph) {
        json_write(&text, graph, false);
        buf_puts(&text, "\n");
    }
    fputs(graph ? buf_str(&text) : json_get_string(result, "text", ""), stdout);
}
