#include "cli/cli.h"
#include "harness/test.h"
#include "unit/scene.h"

#define WORDS_MAX 32

struct parsed {
    struct cli_options options;
    char *words[WORDS_MAX];
    int count;
};

/* Splits at blanks; '' is an empty word. */
static int split(const char *line, char *storage, size_t size, char **argv)
{
    int argc = 0;
    snprintf(storage, size, "%s", line);
    for (char *at = storage; *at;) {
        size_t len = strcspn(at, " ");
        bool is_last = at[len] == '\0';
        at[len] = '\0';
        argv[argc++] = strcmp(at, "''") == 0 ? at + 2 : at;
        at += len + !is_last;
    }
    argv[argc] = NULL;
    return argc;
}

static int take(const char *line, struct parsed *ret, struct tsk_error *err)
{
    static char storage[1024];
    static char *argv[WORDS_MAX];
    *ret = (struct parsed){.options = {.lang = LANG_EN}};
    return cli_take_globals(split(line, storage, sizeof storage, argv), argv, &ret->options, ret->words, &ret->count,
                            err);
}

static void assert_words(const struct parsed *parsed, const char *want)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < parsed->count; i++)
        buf_printf(&b, "%s%s", i ? " " : "", parsed->words[i]);
    ASSERT_STR(buf_str(&b), want);
    ASSERT(!parsed->words[parsed->count]);
}

TEST(global_options_are_taken_wherever_they_stand)
{
    static const char *const lines[] = {
        "tasuki --json --root /r --lang ja lock list",
        "tasuki lock --json list --root=/r --lang=ja",
        "tasuki lock list --lang ja --json --root /r",
        "tasuki --root /r lock --lang ja list --json",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct parsed parsed;
        struct tsk_error err;
        ASSERT_OK(take(lines[i], &parsed, &err));
        assert_words(&parsed, "lock list");
        ASSERT(parsed.options.json && !parsed.options.quiet && !parsed.options.verbose && !parsed.options.wants_help);
        ASSERT_STR(parsed.options.root, "/r");
        ASSERT_INT(parsed.options.lang, LANG_JA);
    }
}

TEST(nothing_after_two_dashes_is_a_global_option)
{
    struct parsed parsed;
    struct tsk_error err;
    ASSERT_OK(take("tasuki lock run x -- cmd --json --root /r -h", &parsed, &err));
    assert_words(&parsed, "lock run x -- cmd --json --root /r -h");
    ASSERT(!parsed.options.json && !parsed.options.root && !parsed.options.wants_help);
}

TEST(every_global_flag_sets_its_own_option)
{
    struct parsed parsed;
    struct tsk_error err;
    ASSERT_OK(take("tasuki --quiet", &parsed, &err));
    ASSERT(parsed.options.quiet && !parsed.options.json);
    ASSERT_OK(take("tasuki --verbose --no-color --no-color", &parsed, &err));
    ASSERT(parsed.options.verbose && parsed.options.no_color);
    ASSERT_OK(take("tasuki -h", &parsed, &err));
    ASSERT(parsed.options.wants_help);
    ASSERT_OK(take("tasuki", &parsed, &err));
    ASSERT_INT(parsed.count, 0);
}

TEST(a_global_option_without_its_value_or_with_a_wrong_one_is_refused)
{
    static const char *const lines[] = {"tasuki --root", "tasuki lock list --lang", "tasuki --lang xx",
                                        "tasuki --lang=", "tasuki --lang ''"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct parsed parsed;
        struct tsk_error err;
        ASSERT_CODE(take(lines[i], &parsed, &err), TSK_INVALID_INPUT);
    }
}

TEST(what_only_resembles_a_global_option_is_left_alone)
{
    struct parsed parsed;
    struct tsk_error err;
    ASSERT_OK(take("tasuki --rooted --json=1 --jso - -j --langs=ja", &parsed, &err));
    assert_words(&parsed, "--rooted --json=1 --jso - -j --langs=ja");
}

/* ---- the words of a row ---- */

static const char *const sizes[] = {"small", "large", NULL};
static const struct op_param params[] = {
    {.name = "first", .type = OP_STRING, .flags = OP_POSITIONAL | OP_REQUIRED},
    {.name = "second", .type = OP_STRING, .flags = OP_POSITIONAL},
    {.name = "lock_file", .type = OP_STRING},
    {.name = "lock", .type = OP_STRING},
    {.name = "count", .type = OP_INT, .min = 0, .max = 100, .letter = 'n'},
    {.name = "force", .type = OP_BOOL, .letter = 'f'},
    {.name = "size", .type = OP_ENUM, .choices = sizes},
    {.name = "wait", .type = OP_DURATION, .flags = OP_FOREVER},
    {0},
};
static const struct op plain = {.name = "test.plain", .noun = "test", .verb = "plain", .params = params};

static const struct op_param run_params[] = {
    {.name = "name", .type = OP_ID, .flags = OP_POSITIONAL | OP_REQUIRED},
    {.name = "wait", .type = OP_DURATION, .flags = OP_FOREVER},
    {.name = "argv", .type = OP_ARGV, .flags = OP_POSITIONAL | OP_REQUIRED},
    {0},
};
static const struct op runs = {.name = "test.run", .noun = "test", .verb = "run", .params = run_params};

static int parse(const struct op *op, const char *line, json_t **ret, struct tsk_error *err)
{
    char storage[1024], *words[WORDS_MAX];
    return cli_parse_args(op, words, split(line, storage, sizeof storage, words), ret, err);
}

static void accept(const struct op *op, const char *line, const char *want)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    if (parse(op, line, &args, &err) < 0)
        scene_fail(__FILE__, __LINE__, line, &err);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_write(&b, args, false);
    ASSERT_STR(buf_str(&b), want);
}

static void refuse(const struct op *op, const char *line, const char *text)
{
    struct tsk_error err;
    json_t *args = NULL;
    if (parse(op, line, &args, &err) == 0)
        test_fail(__FILE__, __LINE__, "accepted: %s", line);
    ASSERT(!args);
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
    ASSERT_STR(err.text, text);
}

TEST(options_take_their_value_as_a_word_or_after_an_equals_sign)
{
    accept(&plain, "a --count 5", "{\"first\":\"a\",\"count\":5}");
    accept(&plain, "a --count=5", "{\"first\":\"a\",\"count\":5}");
    accept(&plain, "--count=5 a", "{\"count\":5,\"first\":\"a\"}");
    accept(&plain, "a --lock-file=x=y", "{\"first\":\"a\",\"lock_file\":\"x=y\"}");
    accept(&plain, "a --lock-file=", "{\"first\":\"a\",\"lock_file\":\"\"}");
    accept(&plain, "a --lock-file --force", "{\"first\":\"a\",\"lock_file\":\"--force\"}");
    accept(&plain, "a --wait forever", "{\"first\":\"a\",\"wait\":-1}");
}

TEST(an_option_whose_name_begins_like_another_is_told_apart)
{
    accept(&plain, "a --lock x --lock-file y", "{\"first\":\"a\",\"lock\":\"x\",\"lock_file\":\"y\"}");
    refuse(&plain, "a --lock-fil y", "option_unknown_near");
    refuse(&plain, "a --lock_file y", "option_unknown_near");
}

TEST(short_options_take_their_value_beside_or_after_them)
{
    accept(&plain, "a -n 5", "{\"first\":\"a\",\"count\":5}");
    accept(&plain, "a -n5", "{\"first\":\"a\",\"count\":5}");
    accept(&plain, "-f a", "{\"force\":true,\"first\":\"a\"}");
    refuse(&plain, "a -fx", "option_unknown");
    refuse(&plain, "a -x", "option_unknown");
    refuse(&plain, "a -w 5", "option_unknown_near"); /* --wait */
    refuse(&plain, "a -ww 5", "option_unknown");
    refuse(&plain, "a -l x", "option_unknown"); /* --lock or --lock-file */
    refuse(&plain, "a -q", "option_unknown");
}

TEST(a_value_that_was_given_twice_is_refused_and_a_flag_is_not)
{
    refuse(&plain, "a --count 1 --count 2", "param_twice");
    refuse(&plain, "a -n 1 --count=1", "param_twice");
    accept(&plain, "a --force -f --force", "{\"first\":\"a\",\"force\":true}");
}

TEST(a_missing_value_or_word_is_said)
{
    refuse(&plain, "a --count", "option_needs_value");
    refuse(&plain, "a -n", "option_needs_value");
    refuse(&plain, "", "param_missing");
    refuse(&plain, "''", "param_empty");
    refuse(&plain, "a b c", "word_too_many");
    refuse(&plain, "a --count=", "param_not_a_number");
}

TEST(a_flag_takes_no_value)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    /* --force=false must never mean --force */
    if (parse(&plain, "a --force=false", &args, &err) == 0 && json_is_true(json_object_get(args, "force")))
        test_fail(__FILE__, __LINE__, "--force=false has set force");
}

TEST(after_two_dashes_words_that_look_like_options_are_words)
{
    accept(&plain, "-- --force -n", "{\"first\":\"--force\",\"second\":\"-n\"}");
    accept(&plain, "a --", "{\"first\":\"a\"}");
    accept(&plain, "a -- --", "{\"first\":\"a\",\"second\":\"--\"}");
    accept(&plain, "-", "{\"first\":\"-\"}");
}

TEST(a_command_is_everything_after_two_dashes)
{
    accept(&runs, "x --wait 5 -- cmd --wait 6 -- -x ''",
           "{\"name\":\"x\",\"wait\":5000,\"argv\":[\"cmd\",\"--wait\",\"6\",\"--\",\"-x\",\"\"]}");
    refuse(&runs, "x cmd", "command_needs_dashes");
    refuse(&runs, "x --wait 5", "param_missing");
    refuse(&runs, "-- cmd", "param_missing");
}

TEST(words_that_are_not_utf8_are_refused)
{
    refuse(&plain, "\xff", "param_not_utf8");
    refuse(&plain, "a --lock \xc3(", "param_not_utf8");
    refuse(&runs, "x -- cmd \xff", "param_not_utf8");
}

TEST(an_unknown_option_is_answered_with_the_nearest_and_a_way_to_help)
{
    struct tsk_error err;
    ASSERT_INT(cli_unknown_option(&plain, "--focre", &err), -1);
    ASSERT_STR(tsk_error_context(&err, "near"), "--force");
    ASSERT_STR(tsk_error_next(&err, 0), "tasuki test plain --help");
    ASSERT_INT(cli_unknown_option(NULL, "--jsn=1", &err), -1);
    ASSERT_STR(tsk_error_context(&err, "near"), "--json");
    ASSERT_INT(
        cli_unknown_option(NULL, "--nothing-like-it-at-all-and-very-long-indeed-longer-than-any-option-name", &err),
        -1);
    ASSERT(!tsk_error_context(&err, "near"));
}

TEST(option_names_have_dashes_for_underscores)
{
    char name[64];
    cli_option_name(&(struct op_param){.name = "lock_file_name"}, name);
    ASSERT_STR(name, "lock-file-name");
    cli_option_name(&(struct op_param){.name = ""}, name);
    ASSERT_STR(name, "");
}

TEST(every_printer_is_for_operations_that_exist_and_have_no_other)
{
    const char *seen[128];
    size_t count = 0;
    for (const struct cli_printer *const *printer = cli_printers; *printer; printer++)
        for (const char *const *op = (*printer)->ops; *op; op++) {
            if (!op_by_name(*op))
                test_fail(__FILE__, __LINE__, "there is no operation %s", *op);
            for (size_t i = 0; i < count; i++)
                if (strcmp(seen[i], *op) == 0)
                    test_fail(__FILE__, __LINE__, "%s has two printers", *op);
            seen[count++] = *op;
        }
    ASSERT(count > 10);
}

TEST(every_option_of_every_row_is_understood_in_both_forms)
{
    op_foreach (op)
        for (const struct op_param *param = op->params; param->name; param++) {
            char name[64], line[128];
            struct tsk_error err;
            json_t *args = NULL;
            if (param->flags & OP_NOT_AN_OPTION || param->type == OP_ARGV)
                continue;
            cli_option_name(param, name);
            snprintf(line, sizeof line, param->type == OP_BOOL ? "--%s" : "--%s=1", name);
            int result = parse(op, line, &args, &err);
            if (result < 0 && err.text && strncmp(err.text, "option_", 7) == 0)
                scene_fail(__FILE__, __LINE__, line, &err);
            json_decref(args);
        }
}
