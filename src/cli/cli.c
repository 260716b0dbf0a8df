#include "cli/cli.h"
#include "base/log.h"

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
    const char *near = nearest_word(word, candidates, found);
    const char *text = near ? "command_unknown_near" : "command_unknown";
    if (noun && strcmp(noun, "sprint") == 0)
        text = "invalid_mode"; /* U2's words */
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
    if (cli_noun_exists(words[0])) {
        const struct op *op = count > 1 ? op_find(words[0], words[1]) : NULL;
        *ret_used = 2;
        if (!op && count > 1 && !options->wants_help)
            unknown_word(words[0], words[1], err);
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
    } else if (!cli_print_progress(call, options, document)) {
        cli_print_event(options, document);
    }
    return fflush(stdout) == 0;
}

static void print_json(const json_t *document)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_write(&b, document, true);
    printf("%s\n", buf_str(&b));
}

static int fail(const struct cli_options *options, const struct tsk_error *err)
{
    if (options->json) {
        json_t *document CLEANUP_JSON = json_of_error(err, lang_name(options->lang));
        print_json(document);
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
                           .skin = options};
    if (op_run(&call, &result, &err) < 0) {
        int code = fail(options, &err);
        return call.has_exit_code ? call.exit_code : code;
    }
    if (result && options->json)
        print_json(result);
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
    print_json(document);
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
        print_json(document);
    } else {
        fputs(script, stdout);
    }
    return 0;
}

static int dispatch(char **words, int count, struct cli_options *options, struct tsk_error *err)
{
    int used;
    if (count == 0) {
        explain(NULL, NULL, options, err);
        return options->wants_help ? 0 : code_info(TSK_INVALID_INPUT)->exit_code;
    }
    bool asked_for_help = options->wants_help;
    const struct op *op = find_op(words, count, options, &used, err);
    if (err->code)
        return -1;
    if (options->wants_help) {
        const char *noun = op && !op->noun ? NULL : words[0];
        int result = explain(noun, op ? op->verb : NULL, options, err);
        return result < 0 || asked_for_help ? result : code_info(TSK_INVALID_INPUT)->exit_code;
    }
    json_t *args CLEANUP_JSON = NULL;
    if (cli_parse_args(op, words + used, count - used, &args, err) < 0)
        return -1;
    if (strcmp(op->name, "completion") == 0)
        return print_completion(json_get_string(args, "shell", ""), options);
    if (strcmp(op->name, "help") == 0)
        return print_help(args, options, err);
    return perform(op, args, options);
}

static void print_problem(const struct tsk_error *problem, void *data)
{
    cli_print_error(data, problem);
}

/* What could not be printed must not read as if nothing had happened. */
static int finish_output(const struct cli_options *options, int code)
{
    struct tsk_error err;
    bool had_error = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !had_error)
        return code;
    error_set(&err, TSK_ENVIRONMENT, "output_failed", "reason", strerrordesc_np(errno), NULL);
    cli_print_error(options, &err);
    return code ? code : code_info(err.code)->exit_code;
}

int cli_main(int argc, char **argv)
{
    struct cli_options options = {.lang = lang_from_environment()};
    struct tsk_error err = {0};
    log_to(print_problem, &options);
    signal(SIGXFSZ, SIG_IGN); /* a file over the size limit is a failed write, not a death */
    if (argc >= 2 && strcmp(argv[1], "__complete") == 0)
        return cli_complete(argv + 2, argc - 2);
    char **words = calloc((size_t)argc + 1, sizeof *words);
    BUG(!words);
    int count, code = -1;
    if (cli_take_globals(argc, argv, &options, words, &count, &err) == 0) {
        if (count == 1 && strcmp(words[0], "--version") == 0)
            words[0] = (char *)"version";
        code = dispatch(words, count, &options, &err);
    }
    if (code < 0)
        code = fail(&options, &err);
    free(words);
    return finish_output(&options, code);
}
