#include "cli/cli.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/who.h"
#include "base/word.h"
#include "cli/watch.h"
#include "hold/protocol.h"
#include "proc/log_text.h"
#include "run/detach.h"
#include "store/db.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOUNS_PROPOSED 3 /* a verb that more nouns have gets no command to try */

static bool word_is_among(const char *word, const char *const *candidates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(candidates[i], word) == 0)
            return true;
    return false;
}

size_t cli_nouns(const char **nouns, size_t max)
{
    size_t found = 0;
    op_foreach (op)
        if (op->noun && found < max && !word_is_among(op->noun, nouns, found))
            nouns[found++] = op->noun;
    return found;
}

bool cli_noun_exists(const char *noun)
{
    const char *nouns[64];
    return word_is_among(noun, nouns, cli_nouns(nouns, 64));
}

/* A command of `noun` whose verb is two words, the first of them `word`. */
static bool is_two_words(const struct op *op, const char *noun, const char *word)
{
    size_t len = strlen(word);
    return op_has_noun(op, noun) && strncmp(op->verb, word, len) == 0 && op->verb[len] == ' ';
}

/* Whether a verb of two words ("template create") begins with this one. */
static bool is_first_of_two(const char *noun, const char *word)
{
    op_foreach (op)
        if (is_two_words(op, noun, word))
            return true;
    return false;
}

const struct cli_alias cli_aliases[] = {
    {"start", "process.start"},
    {"stop", "process.stop"},
    {"restart", "process.restart"},
    {"logs", "process.logs"},
    {"ps", "process.list"},
    {"ls", "status"},
    {NULL, NULL},
};

const struct op *cli_find_command(const char *word)
{
    const struct op *op = op_find(NULL, word);
    for (const struct cli_alias *alias = cli_aliases; !op && alias->word; alias++)
        if (strcmp(alias->word, word) == 0)
            op = op_by_name(alias->op);
    return op;
}

const struct op *cli_find_verb(const char *noun, char **words, int count, int *ret_used)
{
    char verb[128];
    *ret_used = 1;
    if (count > 1 && is_first_of_two(noun, words[0])) {
        *ret_used = 2;
        snprintf(verb, sizeof verb, "%s %s", words[0], words[1]);
        return op_find(noun, verb);
    }
    return count > 0 ? op_find(noun, words[0]) : NULL;
}

/* What the user wrote where a verb belongs. */
static const char *written_verb(const char *noun, char **words, int count, char *text, size_t size)
{
    bool is_pair = count > 1 && is_first_of_two(noun, words[0]);
    snprintf(text, size, "%s%s%s", words[0], is_pair ? " " : "", is_pair ? words[1] : "");
    return text;
}

/* `proc template`: says which words can follow. */
static int incomplete_verb(const char *noun, const char *word, struct tsk_error *err)
{
    size_t len = strlen(word);
    struct buf want CLEANUP(buf_clear) = BUF_INIT;
    error_set(err, TSK_INVALID_INPUT, "verb_incomplete", "value", word, NULL);
    op_foreach (op)
        if (is_two_words(op, noun, word))
            buf_printf(&want, "%s%s", want.len ? ", " : "", op->verb + len + 1);
    error_add(err, "want", buf_str(&want));
    return error_add_next(err, "tasuki %s --help", noun);
}

/* What other tools call it. The nearest word would be a dangerous guess: `show` is near `stop`. With a noun: what is meant is a
 * command of its own, without that noun. */
static const struct {
    const char *noun, *word, *meant;
} known_elsewhere[] = {
    {NULL, "show", "status"},
    {NULL, "info", "status"},
    {NULL, "describe", "status"},
    {NULL, "ls", "list"},
    {NULL, "ps", "list"},
    {NULL, "rm", "remove"},
    {NULL, "delete", "remove"},
    {NULL, "delete", "rm"},
    {NULL, "remove", "rm"},
    {NULL, "stop", "cancel"},
    {NULL, "kill", "stop"},
    {NULL, "kill", "cancel"},
    {NULL, "log", "logs"},
    {NULL, "tail", "logs"},
    {NULL, "add", "create"},
    {NULL, "edit", "update"},
    {NULL, "reload", "restart"},
    {NULL, "top", "watch"},
    {NULL, "process", "proc"}, /* as events and tools call it */
    {NULL, "start", "run"},
    {NULL, "run", "start"},
    {"runs", "start", "run"},
    {"flow", "start", "run"},
    {"runs", "wait", "wait run"},
    {"lock", "wait", "wait lock"},
    {"own", "wait", "wait workflow"},
};

/* The word of this position that is meant; NULL: none. */
static const char *known_here(const char *word, const char *const *candidates, size_t count)
{
    for (size_t i = 0; i < sizeof known_elsewhere / sizeof known_elsewhere[0]; i++)
        if (!known_elsewhere[i].noun && strcmp(known_elsewhere[i].word, word) == 0 &&
            word_is_among(known_elsewhere[i].meant, candidates, count))
            return known_elsewhere[i].meant;
    return NULL;
}

/* The command without a noun that is meant; NULL: none. */
static const char *known_alone(const char *noun, const char *word)
{
    for (size_t i = 0; i < sizeof known_elsewhere / sizeof known_elsewhere[0]; i++)
        if (known_elsewhere[i].noun && strcmp(known_elsewhere[i].noun, noun) == 0 &&
            strcmp(known_elsewhere[i].word, word) == 0)
            return known_elsewhere[i].meant;
    return strcmp(word, "help") != 0 && op_find(NULL, word) ? word : NULL;
}

/* Proposes the command with the right word, followed by the words that the user typed after the wrong one. */
static void propose_command(const char *command, char **rest, struct tsk_error *err)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    for (; rest && *rest; rest++) {
        struct buf word CLEANUP(buf_clear) = BUF_INIT;
        buf_printf(&line, " %s", shell_word(&word, *rest));
    }
    error_add_next(err, "tasuki %s%s", command, buf_str(&line));
}

/* Proposes the nouns that have this verb: `acquire` is `lock acquire` or `sprint acquire`. If there is only one, the words after
 * the verb are kept. Returns false if no noun has it. */
static bool name_nouns_of(const char *word, const char *near, char **rest, struct tsk_error *err)
{
    int found = 0;
    struct buf want CLEANUP(buf_clear) = BUF_INIT;
    op_foreach (op)
        if (op->noun && strcmp(op->verb, near) == 0)
            buf_printf(&want, "%s%s %s", found++ ? ", " : "", op->noun, near);
    if (!found)
        return false;
    error_set(err, TSK_INVALID_INPUT, "command_has_noun", "value", word, "want", buf_str(&want), NULL);
    if (found == 1 && rest && *rest) {
        propose_command(buf_str(&want), rest, err);
        return true;
    }
    op_foreach (op)
        if (found <= NOUNS_PROPOSED && op->noun && strcmp(op->verb, near) == 0)
            error_add_next(err, "tasuki %s %s --help", op->noun, near);
    if (found > NOUNS_PROPOSED) /* `list` and `show` of everything */
        error_add_next(err, "tasuki status");
    return true;
}

/* The verbs of all nouns; `lst` is near `list`. */
static bool suggest_verb(const char *word, char **rest, struct tsk_error *err)
{
    size_t found = 0;
    const char *verbs[256];
    op_foreach (op)
        if (found < 256 && op->noun)
            verbs[found++] = op->verb;
    const char *near = nearest_word(word, verbs, found);
    return near && name_nouns_of(word, near, rest, err);
}

/* The words that are valid in this position: the verbs of `noun`, or else all nouns and one-word commands. */
static size_t fitting_words(const char *noun, const char **words, size_t max)
{
    size_t found = noun ? 0 : cli_nouns(words, max / 2);
    op_foreach (op)
        if (found < max && op_has_noun(op, noun))
            words[found++] = op->verb;
    for (const struct cli_alias *alias = cli_aliases; !noun && alias->word && found < max; alias++)
        words[found++] = alias->word;
    return found;
}

static void propose_near(const char *noun, const char *near, char **rest, struct tsk_error *err)
{
    struct buf command CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&command, "%s%s%s", noun ? noun : "", noun ? " " : "", near);
    error_add(err, "near", near);
    propose_command(buf_str(&command), rest, err);
}

/* Of the nouns with that verb, one that is about the same: what the queue runs are requests, and a request has runs. NULL: none. */
static const char *kin_noun(const char *noun, const char *word)
{
    static const char *const kin[][2] = {
        {"queue", "request"}, {"queue", "runs"}, {"request", "runs"}, {"runs", "request"}, {"flow", "runs"}};
    for (size_t i = 0; i < sizeof kin / sizeof kin[0]; i++)
        if (strcmp(kin[i][0], noun) == 0 && op_find(kin[i][1], word))
            return kin[i][1];
    return NULL;
}

/* `proc prune` is `runs prune`, `runs resume` is `resume`. A run is not named as a request is, so that between these two nothing
 * that was written behind the verb is kept. false: no other noun has it, or too many have. */
static bool suggest_elsewhere(const char *noun, const char *word, char **rest, struct tsk_error *err)
{
    const char *alone = known_alone(noun, word), *kin = alone ? NULL : kin_noun(noun, word);
    struct buf near CLEANUP(buf_clear) = BUF_INIT, value CLEANUP(buf_clear) = BUF_INIT;
    bool wants_help = rest && *rest && strcmp(*rest, "--help") == 0;
    bool is_other_id = kin && strcmp(noun, "queue") != 0 && !wants_help;
    int found = alone ? 1 : 0;
    buf_puts(&near, alone ? alone : "");
    op_foreach (op)
        if (!alone && op->noun && strcmp(op->verb, word) == 0 && (!kin || strcmp(op->noun, kin) == 0))
            buf_printf(&near, "%s%s %s", found++ ? ", " : "", op->noun, word);
    if (!found || found > NOUNS_PROPOSED)
        return false;
    buf_printf(&value, "%s %s", noun, word);
    error_set(err, TSK_INVALID_INPUT, "command_unknown_near", "value", buf_str(&value), "near", buf_str(&near), NULL);
    for (char *save = NULL, *one = strtok_r(near.data, ",", &save); one; one = strtok_r(NULL, ",", &save))
        propose_command(one + strspn(one, " "), is_other_id ? NULL : rest, err);
    error_add_next(err, "tasuki %s --help", noun);
    return true;
}

int cli_unknown_word(const char *noun, const char *word, char **rest, struct tsk_error *err)
{
    const char *candidates[128];
    size_t found = fitting_words(noun, candidates, 128);
    bool is_sprint = noun && strcmp(noun, "sprint") == 0;
    BUG(!word);
    if (noun && is_first_of_two(noun, word))
        return incomplete_verb(noun, word, err);
    const char *known = known_here(word, candidates, found);
    const char *near = known ? known : nearest_word(word, candidates, found);
    if (!noun && (name_nouns_of(word, word, rest, err) || (!near && suggest_verb(word, rest, err))))
        return -1;
    if (noun && !known && !is_sprint && suggest_elsewhere(noun, word, rest, err))
        return -1;
    if (is_sprint)
        sprint_invalid_mode(word, err);
    else
        error_set(err, TSK_INVALID_INPUT, near ? "command_unknown_near" : "command_unknown", "value", word, NULL);
    if (near)
        propose_near(noun, near, rest, err);
    return error_add_next(err, "tasuki %s%s--help", noun ? noun : "", noun ? " " : "");
}

int cli_unknown_topic(const char *noun, const char *verb, struct tsk_error *err)
{
    char option[] = "--help", *rest[] = {option, NULL};
    return cli_unknown_word(verb && noun && cli_noun_exists(noun) ? noun : NULL, verb ? verb : noun, rest, err);
}

/* Which row the words name; *ret_used of them. NULL with wants_help for a noun alone. */
static const struct op *find_op(char **words, int count, struct cli_options *options, int *ret_used,
                                struct tsk_error *err)
{
    char written[128];
    if (cli_noun_exists(words[0])) {
        const struct op *op = cli_find_verb(words[0], words + 1, count - 1, ret_used);
        ++*ret_used;
        if (!op && count > 1 && !options->wants_help)
            cli_unknown_word(words[0], written_verb(words[0], words + 1, count - 1, written, sizeof written),
                             words + *ret_used, err);
        else if (!op)
            options->wants_help = true;
        return op;
    }
    *ret_used = 1;
    const struct op *op = cli_find_command(words[0]);
    if (!op && words[0][0] == '-')
        cli_unknown_option(NULL, words[0], err);
    else if (!op && options->wants_help)
        cli_unknown_topic(words[0], NULL, err);
    else if (!op)
        cli_unknown_word(NULL, words[0], words + 1, err);
    return op;
}

static bool emit_document(struct op_call *call, const json_t *document)
{
    const struct cli_options *options = call->skin;
    if (options->json) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        json_write(&b, document, false);
        printf("%s\n", buf_str(&b));
    } else if (!cli_print_snapshot(call, options, document) && !cli_print_progress(call, options, document)) {
        cli_print_event(options, document);
    }
    return fflush(stdout) == 0;
}

/* A terminal gets what cannot harm it, a pipe the bytes themselves. */
static bool emit_text(struct op_call *call, const char *text, size_t len)
{
    struct buf shown CLEANUP(buf_clear) = {.max = len * 8 + BUF_MAX_DEFAULT};
    bool is_of_tasks = strcmp(call->op->name, "runs.logs") == 0;
    cli_put_fence(&shown, is_of_tasks ? text : NULL, true);
    if (isatty(STDOUT_FILENO))
        log_text_for_terminal(&shown, text, len, cli_has_colour(call->skin, stdout));
    else
        buf_put(&shown, text, len);
    cli_put_fence(&shown, is_of_tasks ? text : NULL, false);
    return fwrite(shown.data, 1, shown.len, stdout) == shown.len && fflush(stdout) == 0;
}

/* `op` may be NULL. What comes behind other documents is on one line as they are. */
static void print_json(const struct op *op, const json_t *document)
{
    struct buf b CLEANUP(buf_clear) = {.max = 1u << 30};
    json_write(&b, document, !op || !(op->flags & OP_STREAMS));
    BUG(b.failed); /* half a document must not look like a whole one */
    printf("%s\n", buf_str(&b));
}

/* A parameter that is wrong is named as it is typed, and the help has the rest. `op` NULL: no command was found. */
static void explain_param(const struct op *op, const struct cli_options *options, struct tsk_error *err)
{
    char typed[68] = "--";
    const char *name = op && err->code == TSK_INVALID_INPUT ? tsk_error_context(err, "param") : NULL;
    const struct op_param *param = name ? op->params : NULL;
    while (param && param->name && strcmp(param->name, name) != 0)
        param++;
    if (!param || !param->name)
        return;
    cli_propose_help(op, err);
    if (options->json)
        return;
    cli_option_name(param, typed + 2);
    error_replace(err, "param", param->flags & OP_NOT_AN_OPTION ? param->value : typed);
}

/* As cli_put_next shows them. */
static void complete_commands(json_t *next, const char *root)
{
    json_each (next, i, command) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        op_put_command(&line, root, json_string_value(command));
        json_array_set_new(next, i, json_string(buf_str(&line)));
    }
}

static int cli_fail(const struct op *op, const struct cli_options *options, struct tsk_error *err)
{
    explain_param(op, options, err);
    if (!op && err->code == TSK_INVALID_INPUT && !tsk_error_next(err, 0))
        error_add_next(err, "tasuki --help");
    if (options->json) {
        json_t *document CLEANUP_JSON = json_of_error(err, lang_name(options->lang));
        complete_commands(json_object_get(json_object_get(document, "error"), "next"), options->root);
        print_json(op, document);
    } else {
        cli_print_error(options, err);
    }
    return code_info(err->code)->exit_code;
}

static int cli_perform(const struct op *op, json_t *args, struct cli_options *options)
{
    struct tsk_error err = {0};
    json_t *result CLEANUP_JSON = NULL;
    struct op_call call = {.op = op,
                           .args = args,
                           .root = options->root,
                           .lang = options->lang,
                           .is_cli = true,
                           .is_quiet = options->quiet,
                           .confirm = cli_can_ask() ? cli_confirm : NULL,
                           .waits = options->quiet || options->json ? NULL : cli_waits,
                           .emit = emit_document,
                           .emit_text = options->json ? NULL : emit_text,
                           .emit_line = options->json ? NULL : cli_emit_line,
                           .take_keys = options->json ? NULL : cli_take_keys,
                           .attach = options->json || !cli_has_terminal() ? NULL : cli_attach,
                           .wants_ticks = strcmp(op->name, "watch") != 0 && cli_wants_ticks(options, args),
                           .skin = options};
    db_use(DB_USE_LOOK);
    if (op_run(&call, &result, &err) < 0) {
        int code = cli_fail(op, options, &err);
        json_decref(call.aside);
        return call.has_exit_code ? call.exit_code : code;
    }
    if (result && options->json)
        print_json(op, result);
    else if (result)
        cli_print_result(&call, options, result);
    json_decref(call.aside);
    if (call.has_exit_code)
        return call.exit_code;
    return code_info(call.verdict)->exit_code;
}

/* Help, in the form that was asked for. */
static int cli_explain(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err)
{
    if (!options->json)
        return cli_help(noun, verb, options, err);
    json_t *document CLEANUP_JSON = cli_describe(noun ? noun : verb, noun ? verb : NULL);
    if (json_array_size(json_object_get(document, "operations")) == 0)
        return cli_unknown_topic(noun, verb, err);
    print_json(NULL, document);
    return 0;
}

static int print_help(const json_t *args, struct cli_options *options, struct tsk_error *err)
{
    const char *noun = json_get_string(args, "noun", NULL);
    options->wants_all = options->wants_all || json_get_bool(args, "all", false);
    if (strcmp(json_get_string(args, "format", "text"), "man") != 0)
        return cli_explain(noun, json_get_string(args, "verb", NULL), options, err);
    if (noun && !cli_noun_exists(noun) && !op_find(NULL, noun))
        return cli_unknown_topic(noun, NULL, err);
    cli_man(noun && cli_noun_exists(noun) ? noun : NULL, stdout);
    return 0;
}

static int print_completion(const char *shell, const struct cli_options *options)
{
    const char *script = cli_completion(shell);
    if (options->json) {
        json_t *document CLEANUP_JSON = json_pack("{s:s, s:s}", "shell", shell, "script", script);
        print_json(NULL, document);
    } else {
        fputs(script, stdout);
    }
    return 0;
}

/* A person who did not finish the sentence wants to know the next word; a program wants to know that it was wrong. */
static int explain_unasked(const char *noun, struct cli_options *options, struct tsk_error *err)
{
    if (!options->json)
        return cli_explain(noun, NULL, options, err) < 0 ? -1 : code_info(TSK_INVALID_INPUT)->exit_code;
    error_set(err, TSK_INVALID_INPUT, "command_missing", NULL);
    return error_add_next(err, "tasuki %s%s--help", noun ? noun : "", noun ? " " : "");
}

static int cli_dispatch(char **words, int count, struct cli_options *options, struct tsk_error *err)
{
    int used;
    if (count == 0)
        return options->wants_help || !options->json ? cli_explain(NULL, NULL, options, err)
                                                     : explain_unasked(NULL, options, err);
    bool asked_for_help = options->wants_help;
    const struct op *op = find_op(words, count, options, &used, err);
    if (err->code)
        return -1;
    if (options->wants_help && !asked_for_help)
        return explain_unasked(words[0], options, err);
    if (options->wants_help)
        return cli_explain(op ? op->noun : words[0], op ? op->verb : NULL, options, err);
    json_t *args CLEANUP_JSON = NULL;
    options->op = op;
    if (cli_parse_args(op, words + used, count - used, &args, err) < 0)
        return cli_fail(op, options, err);
    if (strcmp(op->name, "completion") == 0)
        return print_completion(json_get_string(args, "shell", ""), options);
    if (strcmp(op->name, "help") == 0)
        return print_help(args, options, err);
    if (strcmp(op->name, "answer") == 0 && cli_ask_answer(options, args, err) < 0)
        return cli_fail(op, options, err);
    if (strcmp(op->name, "watch") == 0 && cli_can_watch(options))
        return cli_watch(options, err) < 0 ? cli_fail(op, options, err) : 0;
    return cli_perform(op, args, options);
}

/* What could not be printed must not read as if nothing had happened. */
static int finish_output(const struct cli_options *options, int code)
{
    struct tsk_error err;
    bool had_error = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !had_error)
        return code;
    error_set(&err, TSK_ENVIRONMENT, code ? "output_failed_too" : "output_failed", "reason", strerrordesc_np(errno),
              NULL);
    cli_print_error(options, &err);
    return code ? code : code_info(err.code)->exit_code;
}

/* A descriptor below 3 that the caller has closed would go to the next file that is opened, and our output into that file. What
 * is put there instead cannot be used either: reading and writing fail, as the caller wants it. */
static void occupy_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            fs->openat(AT_FDCWD, "/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC, 0);
}

/* `--help --all`. Without --help, --all belongs to the command. */
static int take_all(char **words, int count, struct cli_options *options)
{
    int kept = 0;
    if (!options->wants_help)
        return count;
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "--all") == 0)
            options->wants_all = true;
        else
            words[kept++] = words[i];
    words[kept] = NULL;
    return kept;
}

int cli_main(int argc, char **argv)
{
    occupy_standard();
    who_is_command();
    struct cli_options options = {.lang = lang_from_environment()};
    struct tsk_error err = {0};
    log_to(cli_print_problem, &options);
    signal(SIGXFSZ, SIG_IGN); /* a file over the size limit is a failed write, not a death */
    if (argc >= 2 && (strcmp(argv[1], "__complete") == 0 || strcmp(argv[1], "__describe") == 0))
        return cli_complete(argv + 2, argc - 2, argv[1][2] == 'd');
    if (argc == 4 && strcmp(argv[3], DETACH_WORD) == 0)
        return cli_detached(argv[2], &options);
    if (argc == 6 && strcmp(argv[3], HOLD_FAILED_WORD) == 0)
        return cli_failed(argv[2], argv[4], argv[5]);
    char **words CLEANUP_FREE = memory_zeroed((size_t)argc + 1, sizeof *words);
    int count, code = -1;
    if (cli_take_globals(argc, argv, &options, words, &count, &err) == 0) {
        if (count == 1 && strcmp(words[0], "--version") == 0)
            words[0] = (char *)"version";
        count = take_all(words, count, &options);
        code = cli_dispatch(words, count, &options, &err);
    }
    if (code < 0)
        code = cli_fail(NULL, &options, &err);
    return finish_output(&options, code);
}
