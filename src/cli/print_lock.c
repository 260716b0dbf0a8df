/* print_lock.c - locks and their holders for people. */
#include "base/clock.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/cli.h"

#include <string.h>

void cli_put_holder(struct buf *b, const struct cli_options *options, const json_t *holder)
{
    char pid[24] = "?";
    const json_t *number = json_object_get(holder, "pid");
    size_t before = b->len;
    who_put_label(b, json_object_get(holder, "who"));
    bool has_label = b->len > before;
    if (has_label)
        buf_puts(b, " (");
    if (json_is_integer(number))
        snprintf(pid, sizeof pid, "%lld", (long long)json_integer_value(number));
    if (json_text_is(holder, "hold", "lease"))
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
    if (has_label)
        buf_puts(b, ")");
}

/* What the end of the TTL means for this lock. */
static const char *expiry_text(const json_t *lock, int64_t left)
{
    const char *state = json_get_string(lock, "state", "");
    if (strcmp(state, "zombie") == 0)
        return "zombie_now";
    if (json_text_is(lock, "kind", "sprint"))
        return "zombie_in";
    if (strcmp(state, "stale") == 0)
        return "takeable";
    if (left < 0)
        return "expired_since";
    if (json_is_false(json_at(lock, "holder.alive")))
        return "expires_in_dead";
    bool is_foreign = json_text_is(json_object_get(lock, "holder"), "hold", "foreign");
    return is_foreign ? "expires_in_foreign" : "expires_in";
}

static void put_times(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock)
{
    char text[256];
    const char *created = json_get_string(lock, "created_at", NULL);
    int64_t age = json_get_int(lock, "age_ms", -1), left = json_get_int(lock, "expires_in_ms", INT64_MIN);
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    if (created) {
        cli_since(options, created, age, &line);
        cli_put_said(b, options, out, "label_since", buf_str(&line));
    }
    if (left == INT64_MIN)
        return;
    buf_reset(&line);
    const char *key = expiry_text(lock, left);
    text_put(&line, options->lang, key, "span", DURATION(left < 0 ? -left : left), NULL);
    snprintf(text, sizeof text, "%s", buf_str(&line));
    cli_put_said(b, options, out, "label_expires", text);
}

void cli_put_lock(struct buf *b, const struct cli_options *options, FILE *out, const json_t *lock)
{
    const json_t *holder = json_object_get(lock, "holder");
    if (!json_is_object(holder))
        return;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    cli_put_holder(&line, options, holder);
    cli_put_said(b, options, out, "label_holder", buf_str(&line));
    const json_t *alive = json_object_get(holder, "alive");
    const char *how = json_get_string(holder, "how", NULL);
    buf_reset(&line);
    /* What may be taken is not held, whatever is known of its holder. */
    bool is_left = json_text_is(lock, "state", "zombie") || json_text_is(lock, "state", "stale");
    text_put(&line, options->lang,
             json_is_true(alive)    ? "alive_yes"
             : json_is_false(alive) ? "alive_no"
             : is_left              ? "alive_untold"
                                    : "alive_unknown",
             "how", how ? cli_word(options, "how_", how) : "?", NULL);
    cli_put_said(b, options, out, "label_alive", buf_str(&line));
    put_times(b, options, out, lock);
}

/* ---- results ---- */

static void lock_words_of(const json_t *result, char *words, size_t size)
{
    const char *id = json_get_string(result, "id", NULL);
    snprintf(words, size, "%s%s%s", json_get_string(result, "kind", ""), id ? " " : "", id ? id : "");
}

const char *cli_lock_state(const json_t *lock, const json_t *alive)
{
    const char *state = json_get_string(lock, "state", "?");
    return strcmp(state, "held") == 0 && json_is_false(alive) ? "dead" : state;
}

enum style cli_lock_style(const char *state)
{
    if (strcmp(state, "held") == 0)
        return STYLE_GOOD;
    return strcmp(state, "free") == 0 ? STYLE_DIM : STYLE_WARN;
}

static void add_lock_row(struct cli_table *table, const struct cli_options *options, const json_t *lock)
{
    char span[TIME_TEXT_MAX] = "?", words[512];
    const json_t *holder = json_object_get(lock, "holder");
    const char *state = cli_lock_state(lock, json_object_get(holder, "alive"));
    struct buf who CLEANUP(buf_clear) = BUF_INIT;
    lock_words_of(lock, words, sizeof words);
    if (json_get_int(lock, "age_ms", -1) >= 0)
        cli_whole_span(options->lang, json_get_int(lock, "age_ms", 0), span);
    cli_table_add(table, STYLE_BOLD, words);
    cli_table_add(table, cli_lock_style(state), cli_word(options, "state_", state));
    cli_table_add(table, STYLE_PLAIN, span);
    if (holder) {
        const char *how = json_get_string(holder, "how", NULL);
        cli_put_holder(&who, options, holder);
        buf_printf(&who, " (%s)", how ? cli_word(options, "how_", how) : "?");
    }
    cli_table_add(table, STYLE_PLAIN, buf_str(&who));
}

void cli_print_locks(const struct cli_options *options, const json_t *locks)
{
    if (json_array_size(locks) == 0) {
        printf("%s\n", text_get("no_locks", options->lang));
        return;
    }
    struct cli_table table = {.columns = 4, .drops = {2}};
    static const char *const heads[] = {"head_lock", "head_state", "head_for", "head_holder"};
    cli_table_add_heads(&table, options, heads);
    json_each (locks, i, lock)
        add_lock_row(&table, options, lock);
    cli_table_print(&table, options, stdout);
}

PRINTER(lock_list, "lock.list")
{
    cli_print_locks(options, json_object_get(result, "locks"));
}

PRINTER(lock_check, "lock.check")
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const char *id = json_get_string(result, "id", NULL),
               *state = cli_lock_state(result, json_at(result, "holder.alive"));
    cli_put(&b, options, stdout, STYLE_BOLD, json_get_string(result, "kind", ""));
    if (id) {
        buf_puts(&b, " ");
        cli_put(&b, options, stdout, STYLE_BOLD, id);
    }
    buf_puts(&b, ": ");
    cli_put(&b, options, stdout, cli_lock_style(state), cli_word(options, "state_", state));
    buf_puts(&b, "\n");
    cli_put_lock(&b, options, stdout, result);
    fputs(buf_str(&b), stdout);
}

PRINTER(lock_acquired, "lock.acquire")
{
    if (options->quiet)
        return;
    char words[512];
    const json_t *holder = json_object_get(result, "holder");
    struct buf b CLEANUP(buf_clear) = BUF_INIT, line CLEANUP(buf_clear) = BUF_INIT;
    lock_words_of(result, words, sizeof words);
    text_put(&line, options->lang, "acquired", "lock", words, "fence", DIGITS(json_get_int(result, "fence", 0)), NULL);
    cli_put(&b, options, stdout, STYLE_GOOD, buf_str(&line));
    buf_puts(&b, "\n");
    buf_reset(&line);
    cli_put_holder(&line, options, holder);
    bool is_guess = json_text_is(holder, "hold", "guess");
    buf_printf(&line, " (%s)", text_get(is_guess ? "holder_guessed" : "holder_named", options->lang));
    cli_put_said(&b, options, stdout, "label_holder", buf_str(&line));
    const json_t *old = json_object_get(result, "recovered");
    if (old) {
        buf_reset(&line);
        cli_put_holder(&line, options, old);
        buf_printf(&line, " (%s)", cli_word(options, "how_", json_get_string(old, "how", "process is gone")));
        cli_put_line(&b, options, stdout, "label_recovered", buf_str(&line));
    }
    cli_put_line(&b, options, stdout, "label_token", json_get_string(result, "token", ""));
    json_t *next CLEANUP_JSON = json_array();
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *id = json_get_string(result, "id", NULL);
    snprintf(words, sizeof words, "%s%s%s", json_get_string(result, "kind", ""), id ? " " : "",
             id ? shell_word(&word, id) : "");
    if (is_guess)
        json_array_append_new(next, json_sprintf("tasuki lock release %s", words));
    else
        json_array_append_new(
            next, json_sprintf("tasuki lock release %s --token %s", words, json_get_string(result, "token", "")));
    cli_put_next(&b, options, stdout, next);
    fputs(buf_str(&b), stdout);
}

PRINTER(sprint, "sprint.acquire", "sprint.release", "sprint.check")
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
    json_each (json_object_get(result, "errors"), i, text)
        if (strcmp(json_string_value(text), json_get_string(result, "message", "")) != 0)
            cli_put_said(&b, options, out, "label_warning", json_string_value(text));
    if (call->verdict == TSK_SPRINT_BLOCKED || call->verdict == TSK_ZOMBIE_DETECTED ||
        call->verdict == TSK_NEEDS_CONFIRMATION) {
        const char *said = json_get_string(call->aside, "said", NULL);
        if (said)
            cli_put_said(&b, options, out, "label_warning", said);
        cli_put_lock(&b, options, out, call->aside);
        cli_put_next(&b, options, out, json_object_get(call->aside, "next"));
    }
    fputs(buf_str(&b), out);
}
