/* print_flow.c - flows and runs for people. */
#include "base/utf8.h"
#include "cli/cli.h"

#include <string.h>

void cli_put_excerpt(struct buf *b, const struct cli_options *options, const json_t *place)
{
    const char *text = json_get_string(place, "excerpt", "");
    int64_t column = json_get_int(place, "excerpt_column", json_get_int(place, "column", 0));
    struct buf before CLEANUP(buf_clear) = BUF_INIT, shown CLEANUP(buf_clear) = BUF_INIT;
    if (!*text)
        return;
    buf_puts(b, "    ");
    cli_put(b, options, stderr, STYLE_PLAIN, text);
    buf_puts(b, "\n");
    if (column < 1)
        return;
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

void cli_put_flow_problems(struct buf *b, const struct cli_options *options, const json_t *context)
{
    const json_t *problems = json_object_get(context, "problems");
    const char *source = json_get_string(context, "source", "");
    size_t i;
    json_t *problem;
    json_array_foreach (problems, i, problem) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        if (i == 0)
            continue;
        buf_printf(&line, "%s:%lld:%lld: %s", source, (long long)json_get_int(problem, "line", 0),
                   (long long)json_get_int(problem, "column", 0), json_get_string(problem, "message", ""));
        cli_put(b, options, stderr, STYLE_BAD, "tasuki: ");
        cli_put(b, options, stderr, STYLE_PLAIN, buf_str(&line));
        buf_puts(b, "\n");
        cli_put_excerpt(b, options, problem);
    }
    int64_t count = json_get_int(context, "count", 0);
    if (count > (int64_t)json_array_size(problems)) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)(count - (int64_t)json_array_size(problems)));
        text_put(b, options->lang, "flow_more_problems", "count", number, NULL);
        buf_puts(b, "\n");
    }
}

void cli_print_validated(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    char tasks[24], groups[24];
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    if (options->quiet)
        return;
    snprintf(tasks, sizeof tasks, "%lld", (long long)json_get_int(result, "tasks", 0));
    snprintf(groups, sizeof groups, "%lld", (long long)json_get_int(result, "groups", 0));
    text_put(&line, options->lang, "flow_valid", "source", json_get_string(result, "source", ""), "tasks", tasks,
             "groups", groups, NULL);
    cli_put(&b, options, stdout, STYLE_GOOD, buf_str(&line));
    printf("%s\n", buf_str(&b));
}

void cli_print_flows(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    size_t i;
    json_t *flow;
    (void)call;
    if (json_array_size(json_object_get(result, "flows")) == 0 && !options->quiet)
        fprintf(stderr, "%s\n", text_get("no_flows", options->lang));
    json_array_foreach (json_object_get(result, "flows"), i, flow)
        printf("%s\n", json_get_string(flow, "name", "")); /* a name each line, for a pipe as well */
}

void cli_print_graph(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    (void)call;
    (void)options;
    fputs(json_get_string(result, "text", ""), stdout);
}
