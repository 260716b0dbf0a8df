/* print_agent.c - what delegated agents did, for people. */
#include "cli/cli.h"

#include <string.h>

static void agent_put_output(struct buf *b, const struct cli_options *options, const char *output)
{
    while (*output) {
        size_t len = strcspn(output, "\n");
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        buf_put(&line, output, len);
        buf_puts(b, "    ");
        cli_put(b, options, stdout, STYLE_PLAIN, buf_str(&line));
        buf_puts(b, "\n");
        output += len + (output[len] == '\n');
    }
}

PRINTER(agents, "agent.run", "agent.parallel", "agent.dag", "agent.team", "agent.teams", "agent.loop")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *status = json_get_string(result, "status", ""), *run = json_get_string(result, "run_id", "");
    bool is_good = call->verdict == TSK_OK, has_reason = false;
    if (options->quiet && is_good)
        return;
    json_each (json_object_get(result, "agents"), i, agent) {
        const char *state = json_get_string(agent, "state", ""), *reason = json_get_string(agent, "reason", NULL);
        has_reason |= reason != NULL;
        cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(agent, "task", ""));
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, strcmp(state, "ok") == 0 ? STYLE_GOOD : STYLE_WARN,
                cli_word(options, "view_", state));
        buf_puts(&b, reason ? "  " : "");
        cli_put(&b, options, stdout, STYLE_PLAIN, reason ? reason : "");
        buf_puts(&b, "\n");
        agent_put_output(&b, options, json_get_string(agent, "output", ""));
    }
    text_put(&line, options->lang, strcmp(status, "RUNNING") == 0 ? "agent_run_goes_on" : "agent_run_over", "run", run,
             "status", status, NULL);
    cli_put(&b, options, stdout, is_good ? STYLE_GOOD : STYLE_BAD, buf_str(&line));
    buf_puts(&b, "\n");
    const char *message = json_get_string(result, "message", NULL);
    if (message && !has_reason)
        cli_put_said(&b, options, stdout, "label_warning", message);
    json_t *next CLEANUP_JSON = json_array();
    if (strcmp(status, "RUNNING") == 0 || strcmp(status, "NEEDS_INPUT") == 0)
        json_array_append_new(next, json_sprintf("tasuki runs show %s", run));
    else if (!is_good)
        json_array_append_new(next, json_sprintf("tasuki runs logs %s", run));
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}
