#include "base/fs.h"
#include "base/word.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUF_ROOM  (128u << 10) /* a buffer grows in steps */
#define VALUE_MIN 3            /* letters of a value that is corrected in the command: P9 is not P3 */

void cli_option_name(const struct op_param *param, char name[64])
{
    size_t i = 0;
    const char *from = param->option ? param->option : param->name;
    for (; from[i] && i < 63; i++)
        name[i] = from[i] == '_' ? '-' : from[i];
    name[i] = '\0';
}

static void set_flag(struct cli_options *options, const char *name)
{
    options->json = options->json || strcmp(name, "--json") == 0;
    options->quiet = options->quiet || strcmp(name, "--quiet") == 0;
    options->verbose = options->verbose || strcmp(name, "--verbose") == 0;
    options->no_color = options->no_color || strcmp(name, "--no-color") == 0;
    options->wants_help = options->wants_help || strcmp(name, "--help") == 0;
}

static int set_value(struct cli_options *options, const char *name, const char *value, struct tsk_error *err)
{
    if (!*value) /* a variable that is not set must not mean another workspace than it should */
        return error_set(err, TSK_INVALID_INPUT, "option_needs_value", "option", name, NULL);
    if (strcmp(name, "--root") == 0) {
        options->root = value;
        return 0;
    }
    if (lang_parse(value, &options->lang))
        return 0;
    error_set(err, TSK_INVALID_INPUT, "param_not_one_of", "param", "--lang", "value", value, "want", "ja, en, zh",
              NULL);
    return error_add_next(err, "tasuki --help");
}

/* The global option that a word is, or NULL. Matches `--root=X` as well; *ret_value is NULL when the value is the next word. */
static const struct cli_global *global_of(const char *word, const char **ret_value)
{
    *ret_value = NULL;
    if (strcmp(word, "-h") == 0)
        word = "--help";
    for (const struct cli_global *global = cli_globals; global->name; global++) {
        size_t len = strlen(global->name);
        if (strncmp(word, global->name, len) != 0)
            continue;
        if (word[len] == '\0')
            return global;
        if (word[len] == '=' && global->value) {
            *ret_value = word + len + 1;
            return global;
        }
    }
    return NULL;
}

int cli_take_globals(int argc, char **argv, struct cli_options *options, char **words, int *ret_count,
                     struct tsk_error *err)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--") == 0) {
            for (; i < argc; i++)
                words[count++] = argv[i];
            break;
        }
        const struct cli_global *global = global_of(argv[i], &value);
        if (!global) {
            words[count++] = argv[i];
        } else if (!global->value) {
            set_flag(options, global->name);
        } else {
            if (!value && i + 1 == argc)
                return error_set(err, TSK_INVALID_INPUT, "option_needs_value", "option", global->name, NULL);
            if (set_value(options, global->name, value ? value : argv[++i], err) < 0)
                return -1;
        }
    }
    words[count] = NULL;
    *ret_count = count;
    return 0;
}

void cli_propose_help(const struct op *op, struct tsk_error *err)
{
    if (!tsk_error_next(err, 0))
        error_add_next(err, "tasuki %s --help", OP_WORDS(op));
}

/* The only option of the command that begins with the letter of `-d`, or NULL if none or several do. */
static const char *option_of_letter(const char *given, const char *const *names, size_t count)
{
    const char *found = NULL;
    for (size_t i = 0; i < count && given[1] && !given[2]; i++) {
        if (names[i][0] == given[1] && found)
            return NULL;
        if (names[i][0] == given[1])
            found = names[i];
    }
    return found;
}

/* Says so, with the nearest one that exists, and nothing of what is next. */
static int name_unknown_option(const struct op *op, const char *word, struct tsk_error *err)
{
    static const struct op_param none = {0};
    const char *names[80] = {"version"};
    char storage[80][64];
    size_t count = 1;
    for (const struct cli_global *global = cli_globals; global->name; global++)
        names[count++] = global->name + 2;
    size_t own = count;
    for (const struct op_param *param = op ? op->params : &none; param->name && count < 80; param++)
        if (!(param->flags & OP_NOT_AN_OPTION)) {
            cli_option_name(param, storage[count]);
            names[count] = storage[count];
            count++;
        }
    char given[64];
    const char *value;
    size_t len = strcspn(word, "=");
    snprintf(given, sizeof given, "%.*s", (int)(len < 63 ? len : 63), word);
    if (global_of(given, &value))
        return error_set(err, TSK_INVALID_INPUT, "option_takes_no_value", "option", given, NULL);
    const char *near = strncmp(given, "--", 2) == 0 ? nearest_word(given + 2, names, count)
                                                    : option_of_letter(given, names + own, count - own);
    error_set(err, TSK_INVALID_INPUT, near ? "option_unknown_near" : "option_unknown", "option", given, NULL);
    if (near) {
        char with_dashes[80];
        snprintf(with_dashes, sizeof with_dashes, "--%s", near);
        error_add(err, "near", with_dashes);
    }
    return -1;
}

int cli_unknown_option(const struct op *op, const char *word, struct tsk_error *err)
{
    name_unknown_option(op, word, err);
    if (op)
        cli_propose_help(op, err);
    else
        error_add_next(err, "tasuki --help");
    return -1;
}

static void key_given_twice(const struct op_param *param, const char *key, struct tsk_error *err)
{
    char option[64];
    struct buf name CLEANUP(buf_clear) = BUF_INIT;
    cli_option_name(param, option);
    buf_printf(&name, "--%s %s", option, key);
    error_set(err, TSK_INVALID_INPUT, "param_twice", "param", buf_str(&name), NULL);
}

/* `--env K=V`, again and again: an object. */
static int set_pair(const struct op_param *param, const char *word, json_t *args, struct tsk_error *err)
{
    const char *equals = strchr(word, '=');
    json_t *map = json_object_get(args, param->name), *value;
    if (!equals || equals == word)
        return error_set(err, TSK_INVALID_INPUT, "param_not_a_pair", "param", param->name, "value", word, "form",
                         strlen(param->value) > strlen("K=V") ? param->value : "KEY=VALUE", NULL);
    if (!map)
        json_object_set_new(args, param->name, map = json_object());
    char *key CLEANUP_FREE = strndup(word, (size_t)(equals - word));
    value = json_string(equals + 1);
    bool is_known = key && json_object_get(map, key);
    int result = key && value && !is_known ? json_object_set_new(map, key, value) : -1;
    if (is_known) {
        json_decref(value);
        key_given_twice(param, key, err);
    }
    return result == 0 || is_known ? result
                                   : error_set(err, TSK_INVALID_INPUT, "param_not_utf8", "param", param->name, NULL);
}

/* One more word for a parameter that takes several: "a", then ["a", "b"]. */
static int set_more(const struct op_param *param, json_t *text, json_t *args)
{
    json_t *first = json_object_get(args, param->name);
    if (json_is_string(first)) {
        json_t *list = json_array();
        json_array_append(list, first);
        json_object_set_new(args, param->name, first = list);
    }
    return first ? json_array_append_new(first, text) : json_object_set_new(args, param->name, text);
}

static int set_arg(const struct op_param *param, const char *value, json_t *args, struct tsk_error *err)
{
    if (param->type == OP_MAP)
        return set_pair(param, value, args, err);
    json_t *text = json_string(value);
    if (!text)
        return error_set(err, TSK_INVALID_INPUT, "param_not_utf8", "param", param->name, NULL);
    if (param->flags & OP_MANY)
        return set_more(param, text, args);
    if (json_object_get(args, param->name)) {
        json_decref(text);
        return error_set(err, TSK_INVALID_INPUT, "param_twice", "param", param->name, NULL);
    }
    json_object_set_new(args, param->name, text);
    return 0;
}

/* Everything after `--`. Where the row has a parameter for the program, the first word is that one. */
static int set_rest(const struct op *op, const struct op_param *param, char **words, int count, json_t *args,
                    struct tsk_error *err)
{
    for (const struct op_param *program = op->params; program->name; program++)
        if ((program->flags & OP_PROGRAM) && count > 0) {
            if (set_arg(program, words[0], args, err) < 0)
                return -1;
            words++;
            count--;
        }
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(words[i])) < 0) {
            json_decref(list);
            return error_set(err, TSK_INVALID_INPUT, "param_not_utf8", "param", param->name, NULL);
        }
    json_object_set_new(args, param->name, list);
    return 0;
}

/* What follows the name in a word that spells it, ulTaskId also as ul-task-id; NULL: it is another word. */
static const char *spelled_option(const char *word, const char *name)
{
    for (; *name; name++) {
        if (*word == (*name == '_' ? '-' : *name))
            word++;
        else if (*word == '-' && *name >= 'A' && *name <= 'Z' && word[1] == *name - 'A' + 'a')
            word += 2;
        else
            return NULL;
    }
    return word;
}

/* By the name in JSON, where the command line has another one. */
static const struct op_param *option_by_name(const struct op *op, const char *word, const char **ret_value)
{
    for (const struct op_param *param = op->params; param->name; param++) {
        const char *rest = strncmp(word, "--", 2) == 0 ? spelled_option(word + 2, param->name) : NULL;
        if ((param->flags & OP_NOT_AN_OPTION) || !rest || (*rest && *rest != '='))
            continue;
        *ret_value = *rest ? rest + 1 : NULL;
        return param;
    }
    return NULL;
}

/* The option a word means: `--lock-file`, `--lock-file=x`, `-n`. */
static const struct op_param *param_of_option(const struct op *op, const char *word, const char **ret_value)
{
    char name[64];
    *ret_value = NULL;
    for (const struct op_param *param = op->params; param->name; param++) {
        if (param->flags & OP_NOT_AN_OPTION)
            continue;
        if (param->letter && word[1] == param->letter && word[0] == '-') {
            *ret_value = word[2] ? word + 2 : NULL;
            if (param->type != OP_BOOL || !word[2])
                return param;
        }
        cli_option_name(param, name);
        size_t len = strlen(name);
        if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, len) != 0)
            continue;
        if (word[2 + len] == '\0' || word[2 + len] == '=') {
            *ret_value = word[2 + len] == '=' ? word + 3 + len : NULL;
            return param;
        }
    }
    return option_by_name(op, word, ret_value);
}

static const struct op_param *next_positional(const struct op *op, const json_t *args)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if ((param->flags & OP_POSITIONAL) && ((param->flags & OP_MANY) || !json_object_get(args, param->name)))
            return param;
    return NULL;
}

/* `--no-NAME`: false, or nothing of what may be repeated. */
static const struct op_param *negated_of(const struct op *op, const char *word)
{
    char positive[80];
    const char *value;
    if (strncmp(word, "--no-", 5) != 0)
        return NULL;
    snprintf(positive, sizeof positive, "--%s", word + 5);
    const struct op_param *param = param_of_option(op, positive, &value);
    return param && !value && (param->type == OP_BOOL || param->type == OP_MAP) ? param : NULL;
}

/* The parameter that takes everything after `--`. */
static const struct op_param *rest_param(const struct op *op)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if (param->type == OP_ARGV)
            return param;
    return NULL;
}

/* The same line with `--` before words[at]. */
static void propose_dashes(const struct op *op, char **words, int at, int count, struct tsk_error *err)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT, quoted CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < count; i++)
        buf_printf(&line, "%s %s", i == at ? " --" : "", shell_word(&quoted, words[i]));
    error_add_next(err, "tasuki %s%s", OP_WORDS(op), buf_str(&line));
}

/* -5 is a number: no option begins with a digit. */
static bool is_option_word(const char *word)
{
    return word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9');
}

static int parse_words(const struct op *op, char **words, int count, json_t *args, struct tsk_error *err)
{
    bool options_ended = false;
    for (int i = 0; i < count; i++) {
        const struct op_param *param, *rest = rest_param(op);
        const char *value;
        if (!options_ended && strcmp(words[i], "--") == 0) {
            if (rest)
                return set_rest(op, rest, words + i + 1, count - i - 1, args, err);
            options_ended = true;
            continue;
        }
        if (!options_ended && is_option_word(words[i])) {
            if (!(param = param_of_option(op, words[i], &value))) {
                if (!(param = negated_of(op, words[i])))
                    return name_unknown_option(op, words[i], err);
                json_object_set_new(args, param->name, param->type == OP_MAP ? json_object() : json_false());
                continue;
            }
            if (param->type == OP_BOOL && value)
                return error_set(err, TSK_INVALID_INPUT, "option_takes_no_value", "option", words[i], NULL);
            if (param->type == OP_BOOL) {
                json_object_set_new(args, param->name, json_true());
                continue;
            }
            if (!value && i + 1 == count)
                return error_set(err, TSK_INVALID_INPUT, "option_needs_value", "option", words[i], NULL);
            if (set_arg(param, value ? value : words[++i], args, err) < 0)
                return -1;
            continue;
        }
        if (!(param = next_positional(op, args)))
            return error_set(err, TSK_INVALID_INPUT, "word_too_many", "value", words[i], NULL);
        if (param->type == OP_ARGV) {
            error_set(err, TSK_INVALID_INPUT, "command_needs_dashes", "value", words[i], NULL);
            propose_dashes(op, words, i, count, err);
            return -1;
        }
        if (set_arg(param, words[i], args, err) < 0)
            return -1;
    }
    return 0;
}

static const struct op_param *param_of(const struct op *op, const char *name)
{
    const struct op_param *param = op->params;
    while (strcmp(param->name, name) != 0)
        param++;
    return param;
}

static int read_text_file(const char *path, size_t max, struct buf *text)
{
    if (strcmp(path, "-") == 0)
        return fs_read_stream(STDIN_FILENO, max, text);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0); /* may be a pipe: <(command) */
    return fd < 0 ? -1 : fs_read_stream(fd, max, text);
}

static int refuse_file(const struct op_param *target, const char *path, struct tsk_error *err)
{
    if (errno == ENOENT)
        return error_set(err, TSK_NOT_FOUND, "agent_file_unknown", "path", path, NULL);
    if (errno == EFBIG)
        return error_set(err, TSK_INVALID_INPUT, "param_too_long", "param", target->name, "want", DIGITS(target->max),
                         NULL);
    return error_errno(err, "read", path);
}

/* The text of a file, as it is, for the parameter that it is to fill. */
static int fill_param(const struct op *op, const struct op_param *param, json_t *args, struct tsk_error *err)
{
    const struct op_param *target = param_of(op, param->fills);
    const char *path = json_get_string(args, param->name, "");
    struct buf text CLEANUP(buf_clear) = {.max = (size_t)target->max + BUF_ROOM};
    char option[64];
    cli_option_name(param, option);
    if (json_object_get(args, target->name))
        return error_set(err, TSK_INVALID_INPUT, "param_and_file", "value", target->value, "option", option, NULL);
    if (read_text_file(path, (size_t)target->max, &text) < 0)
        return refuse_file(target, path, err);
    json_t *value = memchr(buf_str(&text), '\0', text.len) ? NULL : json_stringn(buf_str(&text), text.len);
    if (!value)
        return error_set(err, TSK_INVALID_INPUT, "param_not_utf8", "param", target->name, NULL);
    json_object_set_new(args, target->name, value);
    json_object_del(args, param->name);
    return 0;
}

static int fill_from_files(const struct op *op, json_t *args, struct tsk_error *err)
{
    for (const struct op_param *param = op->params; param->name; param++)
        if (param->fills && json_object_get(args, param->name) && fill_param(op, param, args, err) < 0)
            return -1;
    return 0;
}

/* As op_check_args does, in the words of the usage line. */
static int check_missing(const struct op *op, const json_t *args, struct tsk_error *err)
{
    char name[64], word[80];
    for (const struct op_param *param = op->params; param->name; param++) {
        if (!(param->flags & OP_REQUIRED) || json_object_get(args, param->name))
            continue;
        cli_option_name(param, name);
        if (param->type == OP_ARGV || (param->flags & OP_PROGRAM))
            snprintf(word, sizeof word, "-- %s", param->value);
        else if (param->flags & OP_POSITIONAL)
            snprintf(word, sizeof word, "%s", param->value);
        else
            snprintf(word, sizeof word, "--%s", name);
        return op_param_missing(op, word, err);
    }
    return 0;
}

/* The word with `right` in the place of `wrong`, which is all of it, its option or its value; NULL: it has no `wrong`. */
static const char *correct_word(struct buf *b, const char *word, const char *wrong, const char *right)
{
    size_t len = strlen(wrong), all = strlen(word);
    bool is_option = strncmp(word, wrong, len) == 0 && (word[len] == '\0' || (wrong[0] == '-' && word[len] == '='));
    bool is_value = all > len && word[all - len - 1] == '=' && strcmp(word + all - len, wrong) == 0;
    buf_reset(b);
    if (is_option)
        buf_printf(b, "%s%s", right, word + len);
    else if (is_value)
        buf_printf(b, "%.*s%s", (int)(all - len), word, right);
    return is_option || is_value ? buf_str(b) : NULL;
}

/* What somebody must mean: no proposed command has it unless it was typed. */
static bool gives_consent(const char *option)
{
    return strcmp(option, "--yes") == 0 || strcmp(option, "--force") == 0 || strcmp(option, "--kill") == 0;
}

/* The command as it was typed, with the option or the value that is near what was written. A value of few letters is near too
 * many, and a word that stands there twice may be the right one once. */
static void propose_corrected(const struct op *op, char **words, int count, struct tsk_error *err)
{
    const char *near = tsk_error_context(err, "near"), *option = tsk_error_context(err, "option");
    const char *wrong = option ? option : tsk_error_context(err, "value");
    struct buf line CLEANUP(buf_clear) = BUF_INIT, right CLEANUP(buf_clear) = BUF_INIT;
    int found = 0;
    bool is_over = false;
    if (!near || !wrong || (!option && strlen(wrong) < VALUE_MIN) || (option && gives_consent(near)))
        return;
    for (int i = 0; i < count; i++) {
        struct buf quoted CLEANUP(buf_clear) = BUF_INIT;
        is_over = is_over || strcmp(words[i], "--") == 0;
        const char *corrected = is_over ? NULL : correct_word(&right, words[i], wrong, near);
        found += corrected != NULL;
        buf_printf(&line, " %s", shell_word(&quoted, corrected ? corrected : words[i]));
    }
    if (found != 1)
        return;
    error_clear_next(err);
    error_add_next(err, "tasuki %s%s", OP_WORDS(op), buf_str(&line));
}

int cli_parse_args(const struct op *op, char **words, int count, json_t **ret, struct tsk_error *err)
{
    json_t *args = json_object();
    if (parse_words(op, words, count, args, err) == 0 && fill_from_files(op, args, err) == 0 &&
        check_missing(op, args, err) == 0 && op_check_args(op, args, err) == 0) {
        *ret = args;
        return 0;
    }
    json_decref(args);
    propose_corrected(op, words, count, err);
    cli_propose_help(op, err);
    return -1;
}
