/* print_agents.c - the parties that are here, for people. */
#include "base/clock.h"
#include "base/utf8.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

/* "name src/api (refactoring auth), process web, name docs (stale), run deploy 5e6f70" */
static void put_things(struct buf *b, const struct op_call *call, const struct cli_options *options, const json_t *list)
{
    json_each (list, i, one) {
        const char *id = json_get_string(one, "id", ""), *note = json_get_string(one, "note", NULL);
        const char *flow = json_get_string(one, "flow", NULL), *source = json_get_string(one, "source", NULL);
        const char *state = cli_lock_state(one, json_object_get(one, "alive"));
        struct buf name CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(b, "%s%s", i ? ", " : "", json_get_string(one, "kind", ""));
        if (flow || source)
            buf_printf(b, " %s", flow ? cli_short_id(call, options, flow) : cli_flow(options, source, &name));
        buf_printf(b, "%s%s", *id ? " " : "", cli_short_id(call, options, id));
        if (strcmp(state, "?") != 0 && strcmp(state, "held") != 0)
            buf_printf(b, " (%s)", cli_word(options, "state_", state));
        if (note)
            buf_printf(b, " (%s)", note);
    }
}

void cli_put_awaited(struct buf *b, const struct cli_options *options, const json_t *shorts, const json_t *waiter)
{
    struct buf whom CLEANUP(buf_clear) = BUF_INIT, what CLEANUP(buf_clear) = BUF_INIT;
    const char *id = json_get_string(waiter, "id", "");
    buf_printf(&what, "%s%s%s", json_get_string(waiter, "kind", ""), *id ? " " : "",
               options->verbose ? id : json_get_string(shorts, id, id));
    who_put_label(&whom, json_object_get(waiter, "for"));
    text_put(b, options->lang, whom.len ? "agents_waits_for" : "agents_waits", "what", buf_str(&what), "by",
             buf_str(&whom), "time", CLI_CLOCK(options, json_get_string(waiter, "since", "?")), NULL);
}

static void agent_put_waits(struct buf *b, const struct op_call *call, const struct cli_options *options,
                            const json_t *list)
{
    json_each (list, i, one) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        cli_put_awaited(&line, options, json_object_get(call->aside, "short"), one);
        cli_put_said(b, options, stdout, "label_waits", buf_str(&line));
    }
}

static void agent_put_state(struct buf *b, const struct cli_options *options, const json_t *agent)
{
    const json_t *alive = json_object_get(agent, "alive"), *who = json_object_get(agent, "who");
    if (json_get_int(who, "pid", 0)) {
        text_put(b, options->lang, "who_pid", "pid", DIGITS(json_get_int(who, "pid", 0)), NULL);
        buf_puts(b, ", ");
    }
    text_put(b, options->lang,
             json_is_true(alive)    ? "agents_alive"
             : json_is_false(alive) ? "agents_dead"
                                    : "agents_unknown",
             "how", cli_word(options, "how_", json_get_string(agent, "how", "?")), NULL);
}

static void put_agent(struct buf *b, const struct op_call *call, const struct cli_options *options, const json_t *agent)
{
    FILE *out = stdout;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    const char *directory = json_get_string(agent, "directory", NULL), *branch = json_get_string(agent, "branch", NULL);
    const json_t *last = json_object_get(agent, "last_call");
    who_put_label(&line, json_object_get(agent, "who"));
    cli_put(b, options, out, STYLE_BOLD, buf_str(&line));
    size_t column = utf8_width(buf_str(&line)) + 2;
    buf_reset(&line);
    agent_put_state(&line, options, agent);
    buf_puts(b, "  ");
    cli_put_prose(b, options, out, json_is_false(json_object_get(agent, "alive")) ? STYLE_WARN : STYLE_DIM,
                  buf_str(&line), column, 2);
    cli_put_time(b, options, "label_since", json_get_string(agent, "since", NULL));
    buf_reset(&line);
    buf_printf(&line, branch ? "%s (%s)" : "%s", directory, branch);
    if (directory)
        cli_put_line(b, options, out, "label_directory", buf_str(&line));
    buf_reset(&line);
    put_things(&line, call, options, json_object_get(agent, "holding"));
    if (line.len)
        cli_put_said(b, options, out, "label_holds", buf_str(&line));
    agent_put_waits(b, call, options, json_object_get(agent, "waiting"));
    buf_reset(&line);
    buf_printf(&line, "%s  %s", json_get_string(last, "operation", ""),
               CLI_WHEN(options, json_get_string(last, "at", "")));
    if (json_is_object(last))
        cli_put_line(b, options, out, "label_last_call", buf_str(&line));
}

PRINTER(agents_list, "agents.list")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const json_t *list = json_object_get(result, "agents");
    if (json_array_size(list) == 0)
        buf_printf(&b, "%s\n", text_get("no_agents", options->lang));
    json_each (list, i, agent)
        put_agent(&b, call, options, agent);
    fputs(buf_str(&b), stdout);
}
