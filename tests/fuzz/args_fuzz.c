/* Any words as a command line (one per line of the input): understood, or refused with a sentence in every language. */
#include "base/text.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int split(char *text, char **argv)
{
    int argc = 0;
    argv[argc++] = "tasuki";
    for (char *at = text; at && argc < WORDS_MAX - 1;) {
        char *end = strchr(at, '\n');
        argv[argc++] = at;
        if (end)
            *end++ = '\0';
        at = end && *end ? end : NULL;
    }
    argv[argc] = NULL;
    return argc;
}

static void check_refusal(const struct tsk_error *err)
{
    BUG(err->code != TSK_INVALID_INPUT);
    for (enum lang lang = 0; lang < LANG_COUNT; lang++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        text_put_error(&b, lang, err);
        BUG(b.failed || !b.len);
        json_t *document CLEANUP_JSON = json_of_error(err, lang_name(lang));
        BUG(!json_at(document, "error.reason_code"));
    }
}

/* What is in files of this machine, or on stdin, is no input of ours. */
static bool reads_file(const struct op *op, char **words, int count)
{
    char name[64];
    for (const struct op_param *param = op->params; param->name; param++) {
        cli_option_name(param, name);
        for (int i = 0; param->fills && i < count; i++)
            if (strncmp(words[i], "--", 2) == 0 && strncmp(words[i] + 2, name, strlen(name)) == 0)
                return true;
    }
    return false;
}

static void parse_for(const struct op *op, char **words, int count)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    if (reads_file(op, words, count))
        return;
    if (cli_parse_args(op, words, count, &args, &err) < 0) {
        BUG(args);
        check_refusal(&err);
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach (args, key, value)
        BUG(!op_param_find(op, key) || json_is_null(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[WORDS_MAX], *words[WORDS_MAX + 1];
    struct cli_options options = {.lang = LANG_EN};
    struct tsk_error err;
    size_t rows = 0;
    int count;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    int argc = split(text, argv);
    if (cli_take_globals(argc, argv, &options, words, &count, &err) < 0) {
        check_refusal(&err);
    } else {
        BUG(count >= argc || words[count]);
        op_foreach (op)
            rows++;
        const struct op *named = count > 1 ? op_find(words[0], words[1]) : NULL;
        if (named) {
            parse_for(named, words + 2, count - 2);
        } else { /* the first byte chooses the row, so that short inputs reach all of them */
            parse_for(op_rows[(size ? data[0] : 0) % rows], words, count);
        }
        if (count)
            check_refusal((cli_unknown_option(named, words[0], &err), &err));
    }
    free(text);
    return 0;
}
