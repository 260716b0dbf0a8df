#include "cli/cli.h"
#include "base/fs.h"
#include "base/log.h"
#include "proc/log_text.h"
#include "run/detach.h"
#include "store/db.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t cli_nouns(const char **nouns, size_t max)
{
    size_t count, found = 0;
    const struct op *const *rows = op_table(&count);
    for (size_t i = 0; i < count && found < max; i++)
        if (rows[i]->noun && (found == 0 || strcmp(nouns[found - 1], rows[i]->noun) != 0))
            nouns[found++] = rows[i]->noun;
    return found;
}

bool cli_noun_exists(const char *noun)
{
    const char *nouns[64];
    size_t count = cli_nouns(nouns, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(nouns[i], noun) == 0)
            return true;
    return false;
}

/* Whether a verb of two words ("template create") begins with this one. */
static bool is_first_of_two(const char *noun, const char *word)
{
    size_t count, len = strlen(word);
    const struct op *const *rows = op_table(&count);
    for (size_t i = 0; i < count; i++)
        if (rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 && strncmp(rows[i]->verb, word, len) == 0 &&
            rows[i]->verb[len] == ' ')
            return true;
    return false;
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
    size_t count, len = strlen(word);
    struct buf want CLEANUP(buf_clear) = BUF_INIT;
    const struct op *const *rows = op_table(&count);
    error_set(err, TSK_INVALID_INPUT, "verb_incomplete", "value", word, NULL);
    for (size_t i = 0; i < count; i++) {
        bool fits = rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 && strncmp(rows[i]->verb, word, len) == 0 &&
                    rows[i]->verb[len] == ' ';
        if (fits)
            buf_printf(&want, "%s%s", want.len ? ", " : "", rows[i]->verb + len + 1);
    }
    error_add(err, "want", buf_str(&want));
    error_add_next(err, "tasuki %s --help", noun);
    return -1;
}

/* What other tools call it. The nearest word would be a dangerous guess: `show` is near `stop`. */
static const char *known_elsewhere(const char *word)
{
    static const char *const names[][2] = {
        {"show", "status"}, {"info", "status"},   {"describe", "status"}, {"ls", "list"},     {"ps", "list"},
        {"rm", "remove"},   {"delete", "remove"}, {"up", "start"},        {"down", "stop"},   {"kill", "stop"},
        {"log", "logs"},    {"tail", "logs"},     {"add", "create"},      {"edit", "update"}, {"reload", "restart"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (word && strcmp(names[i][0], word) == 0)
            return names[i][1];
    return NULL;
}

static bool is_one_of(const char *word, const char *const *candidates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(candidates[i], word) == 0)
            return true;
    return false;
}

static int unknown_word(const char *noun, const char *word, struct tsk_error *err)
{
    const char *candidates[128];
    size_t count, found = 0;
    const struct op *const *rows = op_table(&count);
    if (!noun)
        found = cli_nouns(candidates, 64);
    for (size_t i = 0; i < count && found < 128; i++) {
        bool fits = noun ? rows[i]->noun && strcmp(rows[i]->noun, noun) == 0 : !rows[i]->noun;
        if (fits)
            candidates[found++] = rows[i]->verb;
    }
    if (noun && is_first_of_two(noun, word))
        return incomplete_verb(noun, word, err);
    const char *elsewhere = known_elsewhere(word);
    const char *near =
        elsewhere && is_one_of(elsewhere, candidates, found) ? elsewhere : nearest_word(word, candidates, found);
    const char *text = near ? "command_unknown_near" : "command_unknown";
    if (noun && strcmp(noun, "sprint") == 0)
        text = "invalid_mode"; /* the fixed words of the sprint interface */
    error_set(err, TSK_INVALID_INPUT, text, "value", word, NULL);
    const char *space = noun ? " " : "";
    if (near) {
        error_add(err, "near", near);
        error_add_next(err, "tasuki %s%s%s", noun ? noun : "", space, near);
    }
    error_add_next(err, "tasuki %s%s--help", noun ? noun : "", space);
    return -1;
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
            unknown_word(words[0], written_verb(words[0], words + 1, count - 1, written, sizeof written), err);
        else if (!op)
            options->wants_help = true;
        return op;
    }
    *ret_used = 1;
    const struct op *op = op_find(NULL, words[0]);
    if (!op && words[0][0] == '-')
        cli_unknown_option(NULL, words[0], err);
    else if (!op)
        unknown_word(NULL, words[0], err);
    return op;
}

static bool emit_document(struct op_call *call, const json_t *document)
{
    const struct cli_options *options = call->skin;
    if (options->json) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        json_write(&b, document, false);
        printf("%s\n", buf_str(&b));
    } else if (!cli_print_screen(call, options, document) && !cli_print_progress(call, options, document)) {
        cli_print_event(options, document);
    }
    return fflush(stdout) == 0;
}

/* A terminal gets what cannot harm it, a pipe the bytes themselves. */
static bool emit_text(struct op_call *call, const char *text, size_t len)
{
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    if (isatty(STDOUT_FILENO)) {
        log_text_for_terminal(&shown, text, len, cli_has_colour(call->skin, stdout));
        text = buf_str(&shown);
        len = shown.len;
    }
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
}

/* `op` may be NULL. What comes behind other documents is on one line as they are. */
static void print_json(const struct op *op, const json_t *document)
{
    struct buf b CLEANUP(buf_clear) = {.max = 1u << 30};
    json_write(&b, document, !op || !(op->flags & OP_STREAMS));
    BUG(b.failed); /* half a document must not look like a whole one */
    printf("%s\n", buf_str(&b));
}

static int fail(const struct op *op, const struct cli_options *options, const struct tsk_error *err)
{
    if (options->json) {
        json_t *document CLEANUP_JSON = json_of_error(err, lang_name(options->lang));
        print_json(op, document);
    } else {
        cli_print_error(options, err);
    }
    return code_info(err->code)->exit_code;
}

static int perform(const struct op *op, json_t *args, struct cli_options *options)
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
                           .emit = emit_document,
                           .emit_text = options->json ? NULL : emit_text,
                           .wants_ticks = !options->json && isatty(STDOUT_FILENO),
                           .skin = options};
    db_use(DB_USE_LOOK);
    if (op_run(&call, &result, &err) < 0) {
        int code = fail(op, options, &err);
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
static int explain(const char *noun, const char *verb, struct cli_options *options, struct tsk_error *err)
{
    if (!options->json)
        return cli_help(noun, verb, options, err);
    json_t *document CLEANUP_JSON = cli_describe(noun ? noun : verb, noun ? verb : NULL);
    if (json_array_size(json_object_get(document, "operations")) == 0)
        return unknown_word(verb && noun && cli_noun_exists(noun) ? noun : NULL, verb ? verb : noun, err);
    print_json(NULL, document);
    return 0;
}

static int print_help(const json_t *args, struct cli_options *options, struct tsk_error *err)
{
    const char *noun = json_get_string(args, "noun", NULL);
    if (strcmp(json_get_string(args, "format", "text"), "man") != 0)
        return explain(noun, json_get_string(args, "verb", NULL), options, err);
    if (noun && !cli_noun_exists(noun) && !op_find(NULL, noun))
        return unknown_word(NULL, noun, err);
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

/* A person who did not finish the sentence wants to know how it goes on, a program that it was wrong. */
static int explain_unasked(const char *noun, struct cli_options *options, struct tsk_error *err)
{
    if (!options->json)
        return explain(noun, NULL, options, err) < 0 ? -1 : code_info(TSK_INVALID_INPUT)->exit_code;
    error_set(err, TSK_INVALID_INPUT, "command_missing", NULL);
    error_add_next(err, "tasuki %s%s--help", noun ? noun : "", noun ? " " : "");
    return -1;
}

static int dispatch(char **words, int count, struct cli_options *options, struct tsk_error *err)
{
    int used;
    if (count == 0)
        return options->wants_help ? explain(NULL, NULL, options, err) : explain_unasked(NULL, options, err);
    bool asked_for_help = options->wants_help;
    const struct op *op = find_op(words, count, options, &used, err);
    if (err->code)
        return -1;
    if (options->wants_help && !asked_for_help)
        return explain_unasked(words[0], options, err);
    if (options->wants_help)
        return explain(op && !op->noun ? NULL : words[0], op ? op->verb : NULL, options, err);
    json_t *args CLEANUP_JSON = NULL;
    if (cli_parse_args(op, words + used, count - used, &args, err) < 0)
        return fail(op, options, err);
    if (strcmp(op->name, "completion") == 0)
        return print_completion(json_get_string(args, "shell", ""), options);
    if (strcmp(op->name, "help") == 0)
        return print_help(args, options, err);
    return perform(op, args, options);
}

/* With --json a lost lock is a document on one line of stderr: stdout is the command's. */
static void print_problem(const struct tsk_error *problem, void *data)
{
    const struct cli_options *options = data;
    if (!options->json || problem->code != TSK_LOCK_LOST) {
        cli_print_error(options, problem);
        return;
    }
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_t *document CLEANUP_JSON = json_of_error(problem, lang_name(options->lang));
    json_write(&b, document, false);
    fprintf(stderr, "%s\n", buf_str(&b));
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

int cli_main(int argc, char **argv)
{
    occupy_standard();
    struct cli_options options = {.lang = lang_from_environment()};
    struct tsk_error err = {0};
    log_to(print_problem, &options);
    signal(SIGXFSZ, SIG_IGN); /* a file over the size limit is a failed write, not a death */
    if (argc >= 2 && strcmp(argv[1], "__complete") == 0)
        return cli_complete(argv + 2, argc - 2);
    if (argc == 4 && strcmp(argv[3], DETACH_WORD) == 0)
        return cli_detached(argv[2], &options);
    char **words = calloc((size_t)argc + 1, sizeof *words);
    BUG(!words);
    int count, code = -1;
    if (cli_take_globals(argc, argv, &options, words, &count, &err) == 0) {
        if (count == 1 && strcmp(words[0], "--version") == 0)
            words[0] = (char *)"version";
        code = dispatch(words, count, &options, &err);
    }
    if (code < 0)
        code = fail(NULL, &options, &err);
    free(words);
    return finish_output(&options, code);
}
