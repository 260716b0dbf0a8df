/* print_proc.c - processes for people: one sentence that says how things are, then the lines that help to continue. */
#include "base/utf8.h"
#include "base/word.h"
#include "cli/cli.h"
#include "ops/proc_args.h"

#include <stdlib.h>
#include <string.h>

enum style cli_process_style(const json_t *process)
{
    const char *state = json_get_string(process, "state_name", ""), *phase = json_get_string(process, "phase", "");
    if (strcmp(phase, "unhealthy") == 0 || strcmp(phase, "backoff") == 0 || strcmp(phase, "lost") == 0 ||
        strcmp(phase, "unreadable") == 0)
        return STYLE_WARN;
    return strcmp(state, "Running") == 0 ? STYLE_GOOD : strcmp(state, "Failed") == 0 ? STYLE_BAD : STYLE_PLAIN;
}

void cli_bytes(int64_t bytes, char text[32])
{
    if (bytes < 10 << 20)
        snprintf(text, 32, "%lld KiB", (long long)(bytes >> 10));
    else
        snprintf(text, 32, "%lld MiB", (long long)(bytes >> 20));
}

void cli_put_command(struct buf *b, const json_t *process)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(b, shell_word(&word, json_get_string(process, "command", "")));
    json_each (json_object_get(process, "args"), i, arg)
        buf_printf(b, " %s", shell_word(&word, json_string_value(arg)));
}

/* ---- a table of them ---- */

bool cli_process_failed(const json_t *process)
{
    return json_text_is(process, "state_name", "Failed") || json_text_is(process, "phase", "backoff");
}

static void process_add_row(struct cli_table *table, const struct cli_options *options, const json_t *process)
{
    char pid[24] = "-", memory[32] = "-", uptime[TIME_TEXT_MAX] = "-";
    const json_t *usage = json_object_get(process, "usage");
    struct buf command CLEANUP(buf_clear) = BUF_INIT;
    const char *phase = json_get_string(process, "phase", "");
    cli_table_add(table, STYLE_BOLD, json_get_string(process, "id", ""));
    cli_table_add(table, cli_process_style(process), json_get_string(process, "state_name", ""));
    if (cli_process_failed(process)) { /* what it used is of no interest then; the reason has the room */
        struct buf reason CLEANUP(buf_clear) = BUF_INIT;
        proc_reason_put(&reason, options->lang, process);
        cli_table_add_rest(table, STYLE_PLAIN, buf_str(&reason));
        return;
    }
    if (json_is_integer(json_object_get(process, "pid")))
        snprintf(pid, sizeof pid, "%lld", (long long)json_get_int(process, "pid", 0));
    if (usage) {
        cli_bytes(json_get_int(usage, "rss_bytes", 0), memory);
        cli_whole_span(options->lang, json_get_int(usage, "uptime_ms", 0), uptime);
    }
    cli_put_command(&command, process);
    cli_table_add(table, STYLE_PLAIN, *phase ? cli_word(options, "phase_", phase) : "-");
    cli_table_add(table, STYLE_PLAIN, pid);
    cli_table_add(table, STYLE_PLAIN, uptime);
    cli_table_add(table, STYLE_PLAIN, memory);
    cli_table_add(table, STYLE_PLAIN, DIGITS(json_get_int(process, "restarts", 0)));
    cli_table_add_by(table, options, json_object_get(process, "started_by"));
    cli_table_add(table, STYLE_DIM, buf_str(&command));
}

/* Most messages name the process; the others get its name in front. */
static bool says_id(const char *message, const char *id)
{
    size_t len = strlen(id);
    for (const char *at = message; (at = strchr(at, '\'')); at++)
        if (strncmp(at + 1, id, len) == 0 && at[len + 1] == '\'')
            return true;
    return false;
}

/* Adds the first command of the error unless `next` has it. */
static void add_next(json_t *next, const json_t *error)
{
    json_t *command = json_array_get(json_object_get(error, "next"), 0);
    json_each (next, i, other)
        if (json_equal(other, command))
            return;
    if (command)
        json_array_append(next, command);
}

static void print_errors(const struct cli_options *options, const json_t *errors)
{
    struct buf commands CLEANUP(buf_clear) = BUF_INIT;
    json_t *next CLEANUP_JSON = json_array();
    json_each (errors, i, entry) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        const char *id = json_get_string(entry, "id", ""),
                   *message = json_get_string(json_object_get(entry, "error"), "message", "");
        if (!says_id(message, id)) {
            cli_put(&b, options, stderr, STYLE_BAD, id);
            buf_puts(&b, ": ");
        }
        cli_put_prose(&b, options, stderr, STYLE_PLAIN, message, says_id(message, id) ? 0 : utf8_width(id) + 2, 2);
        fputs(buf_str(&b), stderr);
        add_next(next, json_object_get(entry, "error"));
    }
    if (!options->quiet)
        cli_put_next(&commands, options, stderr, next);
    fputs(buf_str(&commands), stderr);
}

void cli_put_warnings(struct buf *b, const struct cli_options *options, const json_t *result)
{
    char *text = strdup(json_get_string(result, "warning", ""));
    for (char *line = text, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        end = *end ? (*end = '\0', end + 1) : NULL;
        cli_put_said(b, options, stdout, "label_warning", line);
    }
    free(text);
}

/* That it is in another worktree than the caller, or that its directory was removed. */
static void put_proc_place(struct buf *b, const struct cli_options *options, const json_t *process)
{
    const char *id = json_get_string(process, "id", ""), *worktree = json_get_string(process, "other_worktree", NULL);
    bool is_gone = json_get_bool(process, "directory_gone", false);
    if (!worktree && !is_gone)
        return;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    text_put(&line, options->lang, is_gone ? "process_directory_gone" : "process_in_worktree", "id", id, "path",
             is_gone ? json_get_string(process, "cwd", "") : worktree, NULL);
    cli_put_prose(b, options, stdout, STYLE_BOLD, buf_str(&line), 0, 2);
}

/* What `up --detach` has done differently from what the file says. */
static void put_names(struct buf *b, const struct cli_options *options, const char *key, const json_t *ids)
{
    struct buf list CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    if (!json_array_size(ids))
        return;
    json_put_texts(&list, ids, ", ");
    text_put(&line, options->lang, key, "names", buf_str(&list), NULL);
    cli_put_prose(b, options, stdout, STYLE_PLAIN, buf_str(&line), 0, 2);
}

PRINTER(processes, "process.list")
{
    static const char *const heads[] = {"head_id",     "head_state",    "head_phase", "head_pid",    "head_uptime",
                                        "head_memory", "head_restarts", "head_by",    "head_command"};
    struct cli_table table = {.columns = sizeof heads / sizeof heads[0], .drops = {6, 2, 5, 3, 7, 4}};
    const json_t *processes = json_object_get(result, "processes");
    if (json_array_size(processes) == 0 && json_array_size(json_object_get(result, "errors")) == 0) {
        bool has_none = strcmp(call->op->name, "process.list") == 0 && !json_object_get(call->args, "state");
        if (!options->quiet)
            cli_say(options, stdout, has_none ? "no_processes" : "nothing_to_do");
        return;
    }
    if (json_array_size(processes))
        cli_table_add_heads(&table, options, heads);
    struct buf places CLEANUP(buf_clear) = BUF_INIT;
    json_each (processes, i, process) {
        process_add_row(&table, options, process);
        put_proc_place(&places, options, process);
    }
    put_names(&places, options, "up_restarting", json_object_get(result, "restarted"));
    cli_put_warnings(&places, options, result);
    put_names(&places, options, "up_done", json_object_get(result, "completed"));
    put_names(&places, options, "up_left_alone", json_object_get(result, "left_alone"));
    put_names(&places, options, "up_ignored", json_object_get(result, "ignored"));
    bool was_asked_for = call->op->flags & OP_READ_ONLY;
    if (!options->quiet || was_asked_for)
        fputs(buf_str(&places), stdout);
    if (!options->quiet || was_asked_for)
        cli_table_print(&table, options, stdout);
    else
        for (size_t i = 0; i < table.count; i++)
            free(table.cells[i].text);
    print_errors(options, json_object_get(result, "errors"));
}

/* ---- one of them ---- */

static void put_heading(struct buf *b, const struct cli_options *options, const json_t *process)
{
    const char *state = json_get_string(process, "state_name", ""), *phase = json_get_string(process, "phase", "");
    cli_put(b, options, stdout, STYLE_BOLD, json_get_string(process, "id", ""));
    buf_puts(b, "  ");
    cli_put(b, options, stdout, cli_process_style(process), state);
    if (*phase && strcmp(phase, "ready") != 0)
        buf_printf(b, " (%s)", cli_word(options, "phase_", phase));
    if (json_is_integer(json_object_get(process, "pid"))) {
        buf_puts(b, "  ");
        text_put(b, options->lang, "who_pid", "pid", DIGITS(json_get_int(process, "pid", 0)), NULL);
    }
    buf_puts(b, "\n");
}

static void process_put_usage(struct buf *b, const struct cli_options *options, const json_t *usage)
{
    char memory[32];
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    if (!usage)
        return;
    cli_bytes(json_get_int(usage, "rss_bytes", 0), memory);
    text_put(&line, options->lang, "process_usage", "memory", memory, "cpu",
             CLI_SPAN(options->lang, json_get_int(usage, "cpu_ms", 0)), "uptime",
             CLI_WHOLE_SPAN(options->lang, json_get_int(usage, "uptime_ms", 0)), NULL);
    cli_put_line(b, options, stdout, "label_uses", buf_str(&line));
}

static void put_error(struct buf *b, const struct cli_options *options, const json_t *process)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    int64_t at;
    const char *error = json_get_string(process, "error", NULL),
               *next = json_get_string(process, "next_start_at", NULL);
    /* The record's own words are English; why an exit is unknown is only in them. */
    if (error && options->lang != LANG_EN && json_is_object(json_object_get(process, "raw_status")))
        proc_end_put(&line, options->lang, process);
    if (error)
        cli_put_said(b, options, stdout, "label_error", line.len ? buf_str(&line) : error);
    buf_reset(&line);
    if (json_get_string(process, "last_stderr", NULL))
        cli_put_line(b, options, stdout, "label_stderr", json_get_string(process, "last_stderr", ""));
    if (next && time_parse(next, &at) == 0) {
        text_put(&line, options->lang, "process_next_start", "span", DURATION_LEFT(at - clock_now().wall_ms), NULL);
        cli_put_line(b, options, stdout, "label_next_start", buf_str(&line));
    }
    if (json_get_string(process, "detail", NULL))
        cli_put_said(b, options, stdout, "label_detail", json_get_string(process, "detail", ""));
}

/* An object of strings as `K=V, K=V`. */
static void put_pairs(struct buf *b, const struct cli_options *options, const char *key, const json_t *object)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    json_each_pair (object, name, value)
        buf_printf(&line, "%s%s=%s", line.len ? ", " : "", name, json_string_value(value));
    if (line.len)
        cli_put_line(b, options, stdout, key, buf_str(&line));
}

/* How it is seen that it is ready: what was given, without the numbers. */
static void put_probe(struct buf *b, const struct cli_options *options, const char *key, const json_t *probe)
{
    static const char *const kinds[] = {"log", "port", "http", "command", "notify"};
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const json_t *value = json_object_get(probe, kinds[i]);
        if (!value)
            continue;
        buf_printf(&line, "%s ", kinds[i]);
        if (json_is_string(value))
            buf_puts(&line, json_string_value(value));
        else if (!json_is_true(value))
            json_write(&line, value, false);
    }
    if (line.len)
        cli_put_line(b, options, stdout, key, buf_str(&line));
}

static void put_exit_cell(struct buf *b, const struct cli_options *options, const json_t *raw)
{
    const char *signal = json_get_string(raw, "signal", NULL);
    if (json_is_object(raw))
        cli_put_line(b, options, stdout, "label_exit", signal ? signal : DIGITS(json_get_int(raw, "code", 0)));
}

static void process_put_end(struct buf *b, const struct cli_options *options, const json_t *process)
{
    const json_t *inner =
        json_object_get(json_object_get(process, "state"), json_get_string(process, "state_name", ""));
    cli_put_time(b, options, "label_started_at", json_get_string(inner, "started_at", NULL));
    cli_put_time(b, options, "label_ended_at", json_get_string(inner, "stopped_at", NULL));
    put_exit_cell(b, options, json_object_get(process, "raw_status"));
}

static void put_leftovers(struct buf *b, const struct cli_options *options, const json_t *leftovers)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    json_each (leftovers, i, one)
        buf_printf(&line, "%s%s (%lld)", i ? ", " : "", json_get_string(one, "name", ""),
                   (long long)json_get_int(one, "pid", 0));
    if (line.len)
        cli_put_line(b, options, stdout, "label_leftovers", buf_str(&line));
}

static void put_details(struct buf *b, const struct cli_options *options, const json_t *process)
{
    struct buf command CLEANUP(buf_clear) = BUF_INIT, policy CLEANUP(buf_clear) = BUF_INIT;
    cli_put_starter(b, options, stdout, process);
    process_put_end(b, options, process);
    cli_put_command(&command, process);
    cli_put_line(b, options, stdout, "label_command", buf_str(&command));
    if (json_get_string(process, "cwd", NULL))
        cli_put_line(b, options, stdout, "label_directory", json_get_string(process, "cwd", ""));
    put_pairs(b, options, "label_env", json_object_get(process, "env"));
    put_pairs(b, options, "label_depends", json_object_get(process, "depends_on"));
    put_probe(b, options, "label_ready", json_object_get(process, "ready"));
    put_probe(b, options, "label_health", json_object_get(process, "health"));
    process_put_usage(b, options, json_object_get(process, "usage"));
    text_put(&policy, options->lang, "process_policy", "policy", json_get_string(process, "restart", ""), "count",
             DIGITS(json_get_int(process, "restarts", 0)), NULL);
    cli_put_line(b, options, stdout, "label_policy", buf_str(&policy));
    cli_put_line(b, options, stdout, "label_output", json_get_string(json_object_get(process, "log"), "stdout", ""));
    put_leftovers(b, options, json_object_get(process, "leftovers"));
}

static bool has_tty(const json_t *process)
{
    return json_text_is(json_object_get(process, "log"), "mode", "tty");
}

/* What to type next, by what has just been done and what came out. */
static void put_hints(struct buf *b, const struct cli_options *options, const char *verb, const json_t *process)
{
    const char *id = json_get_string(process, "id", ""), *state = json_get_string(process, "state_name", "");
    json_t *next CLEANUP_JSON = json_array();
    bool is_running = strcmp(state, "Running") == 0;
    bool is_new_text = strcmp(verb, "create") == 0 || strcmp(verb, "update") == 0;
    if (is_new_text && !is_running && (strcmp(state, "Failed") != 0 || strcmp(verb, "update") == 0))
        json_array_append_new(next, json_sprintf("tasuki proc start %s", id));
    else if (strcmp(verb, "update") == 0 && is_running)
        json_array_append_new(next, json_sprintf("tasuki proc restart %s", id));
    else if (strcmp(state, "Failed") == 0)
        json_array_append_new(next, json_sprintf("tasuki proc logs %s", id));
    else if (is_running && strcmp(verb, "status") != 0)
        json_array_append_new(next, has_tty(process) ? json_sprintf("tasuki proc attach %s", id)
                                                     : json_sprintf("tasuki proc logs %s -f", id));
    if (json_array_size(next))
        cli_put_next(b, options, stdout, next);
}

PRINTER(process, "process.create", "process.start", "process.stop", "process.restart", "process.status",
        "process.update", "process.wait", "template.use", "up", "down")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (json_object_get(result, "processes")) {
        cli_print_processes(call, options, result);
        return;
    }
    if (options->quiet)
        return;
    put_proc_place(&b, options, result);
    put_heading(&b, options, result);
    put_error(&b, options, result);
    if (json_get_bool(result, "needs_restart", false))
        cli_put_said(&b, options, stdout, "label_changed", text_get("process_needs_restart", options->lang));
    cli_put_warnings(&b, options, result);
    if (strcmp(call->op->verb, "stop") == 0)
        put_exit_cell(&b, options, json_object_get(result, "raw_status"));
    if (strcmp(call->op->verb, "status") == 0)
        put_details(&b, options, result);
    put_hints(&b, options, call->op->verb, result);
    fputs(buf_str(&b), stdout);
}

/* ---- what is gone, what came back ---- */

PRINTER(removed, "process.remove")
{
    const json_t *list = json_object_get(result, "removed");
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (!json_is_array(list))
        text_put(&b, options->lang, "process_removed", "id", json_get_string(result, "id", ""), NULL);
    json_each (list, i, id) {
        buf_puts(&b, i ? "\n" : "");
        text_put(&b, options->lang, "process_removed", "id", json_string_value(id), NULL);
    }
    if (b.len)
        buf_puts(&b, "\n");
    cli_put_warnings(&b, options, result);
    if (!options->quiet)
        fputs(buf_str(&b), stdout);
    print_errors(options, json_object_get(result, "errors"));
}

static void print_ids(const struct cli_options *options, const char *key, const json_t *list)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, ids CLEANUP(buf_clear) = BUF_INIT;
    json_each (list, i, id) {
        buf_puts(&ids, i ? ", " : "");
        if (json_is_string(id))
            buf_puts(&ids, json_string_value(id));
        else
            buf_printf(&ids, "%s (%s)", json_get_string(id, "id", ""), text_get("stopped_on_purpose", options->lang));
    }
    if (!ids.len)
        return;
    cli_put_line(&b, options, stdout, key, buf_str(&ids));
    fputs(buf_str(&b), stdout);
}

PRINTER(restored, "process.restore")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (!options->quiet) {
        text_put(&b, options->lang, "processes_restored", "count",
                 DIGITS(json_array_size(json_object_get(result, "started"))), NULL);
        printf("%s\n", buf_str(&b));
        print_ids(options, "label_started", json_object_get(result, "started"));
        print_ids(options, "label_running", json_object_get(result, "running"));
        print_ids(options, "label_skipped", json_object_get(result, "skipped"));
    }
    print_errors(options, json_object_get(result, "errors"));
}
