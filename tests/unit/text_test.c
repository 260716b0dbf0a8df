#include "base/text.h"
#include "harness/test.h"

#include <stdlib.h>

static const char *const seed_queue_actions[] = {"別タブ/別ウィンドウで起動していないか確認",
                                                 "しばらく待つ（TTLで回収されます）",
                                                 "必要なら doctor(full) でロック回収を実施"};

static void clear_languages(void)
{
    unsetenv("TASUKI_LANG");
    unsetenv("LC_ALL");
    unsetenv("LC_MESSAGES");
    unsetenv("LANG");
}

TEST(a_language_is_read_from_locale_names)
{
    enum lang lang;
    ASSERT(lang_parse("ja", &lang) && lang == LANG_JA);
    ASSERT(lang_parse("ja_JP.UTF-8", &lang) && lang == LANG_JA);
    ASSERT(lang_parse("zh-CN", &lang) && lang == LANG_ZH);
    ASSERT(lang_parse("EN_us", &lang) && lang == LANG_EN);
    ASSERT(lang_parse("en.UTF-8", &lang) && lang == LANG_EN);
}

TEST(a_language_that_is_not_ours_is_refused_and_leaves_the_result_alone)
{
    enum lang lang = LANG_ZH;
    ASSERT(!lang_parse("fr_FR.UTF-8", &lang));
    ASSERT(!lang_parse("C", &lang));
    ASSERT(!lang_parse("", &lang));
    ASSERT(!lang_parse(NULL, &lang));
    ASSERT(!lang_parse("jap", &lang));
    ASSERT_INT(lang, LANG_ZH);
}

TEST(tasuki_lang_goes_before_the_locale)
{
    clear_languages();
    setenv("LC_ALL", "zh_CN.UTF-8", 1);
    setenv("TASUKI_LANG", "ja", 1);
    ASSERT_INT(lang_from_environment(), LANG_JA);
    setenv("TASUKI_LANG", "tlh", 1);
    ASSERT_INT(lang_from_environment(), LANG_ZH);
}

TEST(the_first_locale_variable_that_is_set_decides)
{
    clear_languages();
    ASSERT_INT(lang_from_environment(), LANG_EN);
    setenv("LANG", "ja_JP.UTF-8", 1);
    ASSERT_INT(lang_from_environment(), LANG_JA);
    setenv("LC_ALL", "", 1);
    ASSERT_INT(lang_from_environment(), LANG_JA);
    setenv("LC_MESSAGES", "zh_CN", 1);
    ASSERT_INT(lang_from_environment(), LANG_ZH);
    setenv("LC_ALL", "C.UTF-8", 1);
    ASSERT_INT(lang_from_environment(), LANG_EN);
}

TEST(every_code_has_a_title_a_summary_and_an_action_in_every_language)
{
    for (enum lang lang = 0; lang < LANG_COUNT; lang++)
        for (enum tsk_code code = TSK_OK + 1; code < code_count(); code++) {
            const struct code_text *text = text_of_code(code, lang);
            ASSERT(text->title && *text->title);
            ASSERT(text->summary && *text->summary);
            ASSERT(text->actions && text->actions[0]);
        }
}

TEST(the_japanese_texts_of_d39_are_the_seeds)
{
    ASSERT_STR(text_of_code(TSK_RUN_IN_PROGRESS, LANG_JA)->title, "同一RequestのRunが実行中です");
    const struct code_text *queue = text_of_code(TSK_QUEUE_IN_PROGRESS, LANG_JA);
    ASSERT_STR(queue->title, "キュー実行がすでに動作中です");
    ASSERT_STR(queue->summary, "Auto-runは同時に1つのみ実行できます。");
    for (size_t i = 0; i < 3; i++)
        ASSERT_STR(queue->actions[i], seed_queue_actions[i]);
    ASSERT(queue->actions[3] == NULL);
}

TEST(the_english_texts_of_the_process_codes_are_vantages)
{
    ASSERT_STR(text_of_code(TSK_PROCESS_NOT_FOUND, LANG_EN)->title, "Process '{id}' not found");
    ASSERT_STR(text_of_code(TSK_PROCESS_ALREADY_EXISTS, LANG_EN)->title, "Process '{id}' already exists");
    ASSERT_STR(text_of_code(TSK_PROCESS_ALREADY_RUNNING, LANG_EN)->title, "Process '{id}' is already running");
    ASSERT_STR(text_of_code(TSK_PROCESS_NOT_RUNNING, LANG_EN)->title, "Process '{id}' is not running");
    ASSERT_STR(text_of_code(TSK_PROCESS_START_FAILED, LANG_EN)->title, "Failed to start process '{id}': {reason}");
    ASSERT_STR(text_of_code(TSK_PROCESS_STOP_FAILED, LANG_EN)->title, "Failed to stop process '{id}': {reason}");
}

TEST(a_sentence_takes_its_values_from_the_pairs)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put(&b, LANG_EN, "system_call", "reason", "No such file", "what", "open", "path", "/x{what}", NULL);
    ASSERT_STR(buf_str(&b), "Cannot open /x{what}: No such file");
}

TEST(a_word_agrees_with_its_number)
{
    static const char *const expected[] = {"f: valid, 1 task, 0 groups", "f: valid, 2 tasks, 1 group",
                                           "f: valid, 11 tasks, 21 groups"};
    static const char *const numbers[][2] = {{"1", "0"}, {"2", "1"}, {"11", "21"}};
    for (size_t i = 0; i < 3; i++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        text_put(&b, LANG_EN, "flow_valid", "source", "f", "tasks", numbers[i][0], "groups", numbers[i][1], NULL);
        ASSERT_STR(buf_str(&b), expected[i]);
    }
}

TEST(a_placeholder_without_a_value_stays_visible)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put(&b, LANG_EN, "system_call", "what", "open", "reason", NULL, NULL);
    ASSERT_STR(buf_str(&b), "Cannot open {path}: -");
}

static const char *message(const struct tsk_error *err, const char *lang)
{
    static char sentence[512];
    return tsk_error_message(err, lang, sentence, sizeof sentence);
}

TEST(an_error_without_a_text_says_the_title_of_its_code)
{
    struct tsk_error err;
    error_set(&err, TSK_RUN_IN_PROGRESS, NULL, "request_id", "RQ-1", NULL);
    ASSERT_STR(message(&err, "ja"), "同一RequestのRunが実行中です");
    error_set(&err, TSK_PROCESS_NOT_FOUND, NULL, "id", "web", NULL);
    ASSERT_STR(message(&err, "en"), "Process 'web' not found");
}

TEST(an_error_fills_its_text_from_its_context)
{
    struct tsk_error err;
    error_set(&err, TSK_INVALID_INPUT, "yaml_invalid", "source", "a.yaml", "reason", "no", NULL);
    error_add_int(&err, "line", 3);
    error_add_json(&err, "column", "\"seven\"");
    ASSERT_STR(message(&err, "en"), "a.yaml:3:seven: no");
}

TEST(a_dotted_placeholder_looks_into_an_object_of_the_context)
{
    struct tsk_error err;
    error_set(&err, TSK_LOCK_HELD, NULL, "lock", "name deploy", NULL);
    ASSERT_STR(message(&err, "en"), "The lock name deploy is held by another process (pid {holder.pid})");
    error_add_json(&err, "holder", "{\"pid\":4711,\"alive\":true}");
    ASSERT_STR(message(&err, "en"), "The lock name deploy is held by another process (pid 4711)");
}

TEST(an_object_in_the_context_shows_as_json_and_null_as_a_dash)
{
    struct tsk_error err;
    error_set(&err, TSK_INVALID_INPUT, "yaml_invalid", "source", NULL, NULL);
    error_add_json(&err, "line", "{\"pid\":7}");
    ASSERT_STR(message(&err, "en"), "-:{\"pid\":7}:{column}: {reason}");
}

TEST(a_value_that_is_no_json_or_lacks_the_key_leaves_its_placeholder_visible)
{
    struct tsk_error err;
    error_set(&err, TSK_INVALID_INPUT, "yaml_invalid", "source", "a.yaml", "reason", "no", NULL);
    error_add_json(&err, "line", "{\"pid\":");
    error_add_json(&err, "column", "7");
    ASSERT_STR(message(&err, "en"), "a.yaml:{line}:7: no");
    error_set(&err, TSK_LOCK_HELD, NULL, "lock", "name deploy", NULL);
    error_add_json(&err, "holder", "{\"alive\":true}");
    ASSERT_STR(message(&err, "en"), "The lock name deploy is held by another process (pid {holder.pid})");
}

TEST(a_message_that_does_not_fit_is_cut_between_characters)
{
    struct tsk_error err;
    error_set(&err, TSK_RUN_IN_PROGRESS, NULL, NULL);
    char small[8];
    ASSERT_STR(tsk_error_message(&err, "ja", small, sizeof small), "同一R");
    ASSERT_STR(tsk_error_message(&err, "ja", small, 6), "同");
    ASSERT_STR(tsk_error_message(&err, "ja", small, 1), "");
    small[0] = 'x';
    ASSERT(tsk_error_message(&err, "ja", small, 0) == small && small[0] == 'x');
}

TEST(without_a_language_the_message_follows_the_environment)
{
    clear_languages();
    setenv("TASUKI_LANG", "zh", 1);
    struct tsk_error err;
    error_set(&err, TSK_ZOMBIE_DETECTED, NULL, NULL);
    ASSERT_STR(message(&err, NULL), "检测到僵尸锁");
}
