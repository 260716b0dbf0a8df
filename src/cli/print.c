/* print.c - results and errors for people. Operations without a printer of their own are shown as key and
 * value. */
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *label(const struct cli_options *options, const char *key)
{
    return text_get(key, options->lang);
}

void cli_put_line(struct buf *b, const struct cli_options *options, FILE *out, const char *key, const char *text)
{
    const char *name = label(options, key);
    buf_puts(b, "  ");
    cli_put(b, options, out, STYLE_DIM, name);
    for (size_t width = utf8_width(name); width < 10; width++)
        buf_puts(b, " ");
    cli_put(b, options, out, STYLE_PLAIN, text);
    buf_puts(b, "\n");
}

/* "life byte is locked" -> the sentence how_life_byte_is_locked. */
static const char *how_text(const struct cli_options *options, const char *how)
{
    char key[128] = "how_";
    size_t len = strlen(key);
    for (; *how && len < sizeof key - 1; how++)
        key[len++] = isalnum((unsigned char)*how) ? *how : '_';
    key[len] = '\0';
    return text_get(key, options->lang);
}

static void put_who(struct buf *b, const struct cli_options *options, const json_t *holder)
{
    char pid[24] = "?";
    const json_t *number = json_object_get(holder, "pid");
    if (json_is_integer(number))
        snprintf(pid, sizeof pid, "%lld", (long long)json_integer_value(number));
    if (strcmp(json_get_string(holder, "hold", ""), "lease") == 0)
        text_put(b, options->lang, "who_client", "instance", json_get_string(holder, "instance", "?"), NULL);
    else
        text_put(b, options->lang, "who_pid", "pid", pid, NULL);
    const char *session = json_get_string(holder, "session_id", NULL), *run = json_get_string(holder, "run_id", NULL);
    if (session) {
        buf_puts(b, ", ");
        text_put(b, options->lang, "who_session", "session", session, NULL);
    }
    if (run) {
        buf_puts(b, ", ");
        text_put(b, options->lang, "who_run", "run", run, NULL);
    }
    const char *host = json_get_string(holder, "hostname", NULL);
    if (host) {
        buf_puts(b, ", ");
        text_put(b, options->lang, "who_host", "host", host, NULL);
    }
}

void cli_format_span(int64_t age_ms, char text[TIME_TEXT_MAX])
{
    if (age_ms < 1000)
        snprintf(text, TIME_TEXT_MAX, "0 s");
    else
        duration_format(age_ms, text);
}

/* What the end of the TTL means for this lock. */
static const char *expiry_text(const json_t *lock, int64_t left)
{
    const char *state = json_get_string(lock, "state", "");
    if (strcmp(state, "zombie") == 0)
        return "zombie_now";
    if (strcmp(json_get_string(lock, "kind", ""), "sprint") == 0)
        return "zombie_in";
    if (strcmp(state, "stale") == 0)
        return "takeable";
    if (left < 0)
        return "expired_since";
    if (json_is_false(json_at(lock, "holder.alive")))
        return "expires_in_dead";
    bool is_foreign = strcmp(json_get_string(json_object_get(lock, "holder"), "hold", ""), "foreign") == 0;
    return is_foreign ? "expires_in_foreign" : "expires_in";
}

static void put_times(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock)
{
    char text[256], span[TIME_TEXT_MAX];
    const char *created = json_get_string(lock, "created_at", NULL);
    int64_t age = json_get_int(lock, "age_ms", -1), left = json_get_int(lock, "expires_in_ms", INT64_MIN);
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    if (created) {
        cli_format_span(age, span);
        text_put(&line, options->lang, "since_ago", "time", created, "span", span, NULL);
        cli_put_line(b, options, out, "label_since", age < 0 ? created : buf_str(&line));
    }
    if (left == INT64_MIN)
        return;
    buf_reset(&line);
    duration_format(left < 0 ? -left : left, span);
    const char *key = expiry_text(lock, left);
    text_put(&line, options->lang, key, "span", span, NULL);
    snprintf(text, sizeof text, "%s", buf_str(&line));
    cli_put_line(b, options, out, "label_expires", text);
}

void cli_put_lock(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock)
{
    const json_t *holder = json_object_get(lock, "holder");
    if (!json_is_object(holder))
        return;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    put_who(&line, options, holder);
    cli_put_line(b, options, out, "label_holder", buf_str(&line));
    const json_t *alive = json_object_get(holder, "alive");
    const char *how = json_get_string(holder, "how", NULL);
    buf_reset(&line);
    /* A zombie is not held, whatever is known of its holder. */
    bool is_zombie = strcmp(json_get_string(lock, "state", ""), "zombie") == 0;
    text_put(&line, options->lang,
             json_is_true(alive)    ? "alive_yes"
             : json_is_false(alive) ? "alive_no"
             : is_zombie            ? "alive_untold"
                                    : "alive_unknown",
             "how", how ? how_text(options, how) : "?", NULL);
    cli_put_line(b, options, out, "label_alive", buf_str(&line));
    put_times(b, options, out, lock);
}

void cli_put_next(struct buf *b, const struct cli_options *options, FILE *out, const json_t *next)
{
    size_t i;
    json_t *command;
    json_array_foreach (next, i, command) {
        const char *name = i ? "" : label(options, "label_next");
        buf_puts(b, "  ");
        cli_put(b, options, out, STYLE_DIM, name);
        for (size_t width = utf8_width(name); width < 10; width++)
            buf_puts(b, " ");
        cli_put(b, options, out, STYLE_BOLD, json_string_value(command));
        buf_puts(b, "\n");
    }
}

/* Where no command can be named: what the catalogue says can be done. */
static void put_actions(struct buf *b, const struct cli_options *options, enum tsk_code code)
{
    for (const char *const *action = text_of_code(code, options->lang)->actions; *action; action++) {
        buf_puts(b, "  - ");
        cli_put(b, options, stderr, STYLE_PLAIN, *action);
        buf_puts(b, "\n");
    }
}

void cli_print_error(const struct cli_options *options, const struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, message CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&message, options->lang, err);
    cli_put(&b, options, stderr, STYLE_BAD, "tasuki: ");
    cli_put(&b, options, stderr, STYLE_PLAIN, buf_str(&message));
    buf_puts(&b, "\n");
    json_t *document CLEANUP_JSON = json_of_error(err, lang_name(options->lang));
    const json_t *context = json_at(document, "error.context");
    cli_put_excerpt(&b, options, context);
    (err->code == TSK_FLOW_INVALID ? cli_put_flow_problems : cli_put_problems)(&b, options, context);
    if (!options->quiet) {
        const char *lock = json_get_string(context, "lock", NULL);
        if (lock && err->code != TSK_LOCK_HELD)
            cli_put_line(&b, options, stderr, "label_lock", lock);
        cli_put_lock(&b, options, stderr, context);
        cli_put_next(&b, options, stderr, json_at(document, "error.next"));
        if (json_array_size(json_at(document, "error.next")) == 0 && err->code != TSK_INVALID_INPUT)
            put_actions(&b, options, err->code);
    }
    if (options->verbose) {
        const struct code_text *text = text_of_code(err->code, options->lang);
        buf_printf(&b, "  %s: %s\n", tsk_code_name(err->code), text->summary);
    }
    fputs(buf_str(&b), stderr);
}

/* ---- results ---- */

static void words_of(const json_t *result, char *words, size_t size)
{
    const char *id = json_get_string(result, "id", NULL);
    snprintf(words, size, "%s%s%s", json_get_string(result, "kind", ""), id ? " " : "", id ? id : "");
}

static enum style style_of_state(const char *state)
{
    if (strcmp(state, "held") == 0)
        return STYLE_GOOD;
    return strcmp(state, "free") == 0 ? STYLE_DIM : STYLE_WARN;
}

static void add_lock_row(struct cli_table *table, const struct cli_options *options, const json_t *lock)
{
    char span[TIME_TEXT_MAX] = "?", words[200], state_key[32];
    const char *state = json_get_string(lock, "state", "?");
    const json_t *holder = json_object_get(lock, "holder");
    struct buf who CLEANUP(buf_clear) = BUF_INIT;
    words_of(lock, words, sizeof words);
    snprintf(state_key, sizeof state_key, "state_%s", state);
    if (json_get_int(lock, "age_ms", -1) >= 0)
        cli_format_span(json_get_int(lock, "age_ms", 0), span);
    cli_table_add(table, STYLE_BOLD, words);
    cli_table_add(table, style_of_state(state), text_get(state_key, options->lang));
    cli_table_add(table, STYLE_PLAIN, span);
    if (holder) {
        const char *how = json_get_string(holder, "how", NULL);
        put_who(&who, options, holder);
        buf_printf(&who, " (%s)", how ? how_text(options, how) : "?");
    }
    cli_table_add(table, STYLE_PLAIN, buf_str(&who));
}

void cli_print_locks(const struct cli_options *options, const json_t *locks)
{
    if (json_array_size(locks) == 0) {
        printf("%s\n", label(options, "no_locks"));
        return;
    }
    struct cli_table table = {.columns = 4};
    static const char *const heads[] = {"head_lock", "head_state", "head_for", "head_holder"};
    for (size_t i = 0; i < 4; i++)
        cli_table_add(&table, STYLE_DIM, label(options, heads[i]));
    size_t i;
    json_t *lock;
    json_array_foreach (locks, i, lock)
        add_lock_row(&table, options, lock);
    cli_table_print(&table, options, stdout);
}

static void print_list(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    (void)call;
    cli_print_locks(options, json_object_get(result, "locks"));
}

static void print_check(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    char key[32];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *id = json_get_string(result, "id", NULL), *state = json_get_string(result, "state", "free");
    (void)call;
    snprintf(key, sizeof key, "state_%s", state);
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "kind", ""));
    if (id) {
        buf_puts(&b, " ");
        cli_put(&b, options, stdout, STYLE_BOLD, id);
    }
    buf_puts(&b, ": ");
    cli_put(&b, options, stdout, style_of_state(state), text_get(key, options->lang));
    buf_puts(&b, "\n");
    cli_put_lock(&b, options, stdout, result);
    fputs(buf_str(&b), stdout);
}

static void print_waited(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    const char *kind = json_get_string(call->args, "kind", "");
    if (strcmp(kind, "run") == 0)
        cli_print_run(call, options, result);
    else if (strcmp(kind, "lock") == 0)
        print_check(call, options, result);
    else
        cli_print_process(call, options, result);
}

static void print_acquired(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    if (options->quiet)
        return;
    char fence[24], words[200];
    const json_t *holder = json_object_get(result, "holder");
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    words_of(result, words, sizeof words);
    snprintf(fence, sizeof fence, "%lld", (long long)json_get_int(result, "fence", 0));
    text_put(&line, options->lang, "acquired", "lock", words, "fence", fence, NULL);
    cli_put(&b, options, stdout, STYLE_GOOD, buf_str(&line));
    buf_puts(&b, "\n");
    buf_reset(&line);
    put_who(&line, options, holder);
    bool is_guess = strcmp(json_get_string(holder, "hold", ""), "guess") == 0;
    buf_printf(&line, " (%s)", text_get(is_guess ? "holder_guessed" : "holder_named", options->lang));
    cli_put_line(&b, options, stdout, "label_holder", buf_str(&line));
    const json_t *old = json_object_get(result, "recovered");
    if (old) {
        buf_reset(&line);
        put_who(&line, options, old);
        buf_printf(&line, " (%s)", how_text(options, json_get_string(old, "how", "process is gone")));
        cli_put_line(&b, options, stdout, "label_recovered", buf_str(&line));
    }
    cli_put_line(&b, options, stdout, "label_token", json_get_string(result, "token", ""));
    json_t *next CLEANUP_JSON = json_array();
    if (is_guess)
        json_array_append_new(next, json_sprintf("tasuki lock release %s", words));
    else
        json_array_append_new(
            next, json_sprintf("tasuki lock release %s --token %s", words, json_get_string(result, "token", "")));
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}

static void print_sentence(const struct cli_options *options, const char *sentence, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (options->quiet)
        return;
    cli_put(&b, options, stdout, STYLE_GOOD, sentence);
    buf_puts(&b, "\n");
    const char *warning = json_get_string(result, "warning", NULL);
    if (warning)
        cli_put_line(&b, options, stdout, "label_warning", warning);
    fputs(buf_str(&b), stdout);
}

static void print_released(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    char words[200];
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    words_of(result, words, sizeof words);
    text_put(&line, options->lang, json_get_bool(result, "existed", false) ? "released" : "released_none", "lock",
             words, NULL);
    print_sentence(options, buf_str(&line), result);
}

static void print_renewed(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    char words[200];
    const char *until = json_get_string(result, "expires_at", NULL);
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    words_of(result, words, sizeof words);
    if (until)
        text_put(&line, options->lang, "renewed", "lock", words, "time", until, NULL);
    else
        text_put(&line, options->lang, "renewed_no_ttl", "lock", words, NULL);
    print_sentence(options, buf_str(&line), result);
}

static void print_sprint(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    bool is_good = call->verdict == TSK_OK;
    FILE *out = is_good ? stdout : stderr;
    if (is_good && options->quiet)
        return;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    cli_put(&b, options, out, is_good ? STYLE_GOOD : STYLE_BAD, json_get_string(result, "status", ""));
    buf_puts(&b, ": ");
    cli_put(&b, options, out, STYLE_PLAIN, json_get_string(result, "message", ""));
    buf_puts(&b, "\n");
    size_t i;
    json_t *text;
    json_array_foreach (json_object_get(result, "errors"), i, text)
        if (strcmp(json_string_value(text), json_get_string(result, "message", "")) != 0)
            cli_put_line(&b, options, out, "label_warning", json_string_value(text));
    if (call->verdict == TSK_SPRINT_BLOCKED || call->verdict == TSK_ZOMBIE_DETECTED ||
        call->verdict == TSK_NEEDS_CONFIRMATION) {
        cli_put_lock(&b, options, out, call->aside);
        cli_put_next(&b, options, out, json_object_get(call->aside, "next"));
    }
    fputs(buf_str(&b), out);
}

/* The workspace is further up. */
static bool is_above_here(const char *root)
{
    char here[PATH_MAX];
    size_t len = strlen(root);
    return getcwd(here, sizeof here) && strncmp(here, root, len) == 0 && here[len] == '/';
}

static void print_init(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    const char *root = json_get_string(result, "root", "");
    if (options->quiet)
        return;
    text_put(&line, options->lang,
             json_get_bool(result, "created", false) ? "init_created"
             : !call->root && is_above_here(root)    ? "init_above"
                                                     : "init_exists",
             "root", root, NULL);
    cli_put(&b, options, stdout, STYLE_GOOD, buf_str(&line));
    buf_puts(&b, "\n");
    json_t *next CLEANUP_JSON = json_pack("[s, s]", "tasuki status", "tasuki lock run NAME -- COMMAND");
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}

static void print_version(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    (void)call;
    (void)options;
    printf("tasuki %s\n", json_get_string(result, "version", ""));
}

void cli_print_event(const struct cli_options *options, const json_t *event)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, data CLEANUP(buf_clear) = BUF_INIT;
    const json_t *body = json_object_get(event, "data");
    cli_put(&b, options, stdout, STYLE_DIM, json_get_string(event, "time", ""));
    buf_puts(&b, "  ");
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(event, "type", ""));
    static const char *const keys[] = {"session_id", "run_id", "task_id"};
    for (size_t i = 0; i < 3; i++)
        if (json_get_string(event, keys[i], NULL)) {
            buf_printf(&b, "  %s=", keys[i]);
            cli_put(&b, options, stdout, STYLE_PLAIN, json_get_string(event, keys[i], ""));
        }
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)body, key, value) {
        buf_reset(&data);
        if (json_is_null(value) || strcmp(key, "outbox_id") == 0 || json_equal(value, json_object_get(event, key)))
            continue;
        if (json_is_string(value))
            buf_puts(&data, json_string_value(value));
        else
            json_write(&data, value, false);
        buf_puts(&b, "  ");
        cli_put(&b, options, stdout, STYLE_DIM, key);
        buf_puts(&b, "=");
        cli_put(&b, options, stdout, STYLE_PLAIN, buf_str(&data));
    }
    printf("%s\n", buf_str(&b));
}

static void print_events(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    size_t i;
    json_t *event;
    (void)call;
    json_array_foreach (json_object_get(result, "events"), i, event)
        cli_print_event(options, event);
}

static void print_generic(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    struct cli_table table = {.columns = 2};
    const char *key;
    json_t *value;
    (void)call;
    if (options->quiet)
        return;
    json_object_foreach ((json_t *)result, key, value) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        if (json_is_null(value))
            continue;
        if (json_is_string(value))
            buf_puts(&text, json_string_value(value));
        else
            json_write(&text, value, false);
        cli_table_add(&table, STYLE_DIM, key);
        cli_table_add(&table, STYLE_PLAIN, buf_str(&text));
    }
    cli_table_print(&table, options, stdout);
}

static const struct {
    const char *op;
    void (*print)(const struct op_call *call, const struct cli_options *options, const json_t *result);
} printers[] = {
    {"init", print_init},
    {"status", cli_print_status},
    {"version", print_version},
    {"events", print_events},
    {"flow.validate", cli_print_validated},
    {"graph", cli_print_graph},
    {"runs.graph", cli_print_graph},
    {"flow.list", cli_print_flows},
    {"run", cli_print_run},
    {"resume", cli_print_run},
    {"answer", cli_print_run},
    {"request.add", cli_print_request},
    {"request.show", cli_print_request},
    {"request.edit", cli_print_request},
    {"request.list", cli_print_requests},
    {"request.rm", cli_print_request_removed},
    {"request.run", cli_print_run},
    {"queue.run", cli_print_queue_run},
    {"queue.run-next", cli_print_queue_run},
    {"queue.next", cli_print_queue_next},
    {"queue.status", cli_print_queue_status},
    {"queue.stop", cli_print_queue_stop},
    {"runs.list", cli_print_runs},
    {"runs.show", cli_print_stage},
    {"runs.logs", cli_print_logs},
    {"runs.tasks", cli_print_tasks},
    {"channel.get", cli_print_value},
    {"task.ask", cli_print_value},
    {"doctor", cli_print_doctor},
    {"lock.acquire", print_acquired},
    {"lock.check", print_check},
    {"lock.release", print_released},
    {"lock.renew", print_renewed},
    {"lock.list", print_list},
    {"agent.run", cli_print_agents},
    {"agent.parallel", cli_print_agents},
    {"agent.dag", cli_print_agents},
    {"agent.team", cli_print_agents},
    {"agent.teams", cli_print_agents},
    {"agent.loop", cli_print_agents},
    {"own.check", cli_print_own_check},
    {"own.claim", cli_print_own_claimed},
    {"own.force-claim", cli_print_own_claimed},
    {"own.release", cli_print_own_released},
    {"own.leave", cli_print_own_left},
    {"own.list", cli_print_own_list},
    {"process.create", cli_print_process},
    {"process.start", cli_print_process},
    {"process.stop", cli_print_process},
    {"process.restart", cli_print_process},
    {"process.status", cli_print_process},
    {"process.update", cli_print_process},
    {"process.wait", cli_print_process},
    {"wait", print_waited},
    {"process.list", cli_print_processes},
    {"process.remove", cli_print_removed},
    {"process.restore", cli_print_restored},
    {"process.export", cli_print_export},
    {"process.import", cli_print_import},
    {"template.create", cli_print_template},
    {"template.list", cli_print_templates},
    {"template.show", cli_print_template},
    {"template.update", cli_print_template},
    {"template.delete", cli_print_template_deleted},
    {"template.use", cli_print_process},
    {"sprint.acquire", print_sprint},
    {"sprint.release", print_sprint},
    {"sprint.check", print_sprint},
};

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

void cli_print_result(const struct op_call *call, const struct cli_options *options, const json_t *result)
{
    for (size_t i = 0; i < sizeof printers / sizeof printers[0]; i++)
        if (strcmp(printers[i].op, call->op->name) == 0) {
            printers[i].print(call, options, result);
            print_more(call, options, result);
            return;
        }
    print_generic(call, options, result);
}
