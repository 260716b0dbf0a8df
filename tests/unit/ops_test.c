/* The table: what every row must say, since the skins, the help and the documentation are made from it. */
#include "base/ident.h"
#include "base/text.h"
#include "harness/test.h"
#include "ops/confirm.h"
#include "ops/ops.h"
#include "unit/scene.h"

#include <ctype.h>

static const struct op *const *rows(size_t *count)
{
    for (*count = 0; op_rows[*count];)
        ++*count;
    ASSERT(*count > 10);
    return op_rows;
}

#define FAIL_ROW(op, what) test_fail(__FILE__, __LINE__, "%s: %s", (op)->name, what)

TEST(every_row_has_its_own_name_and_is_found_by_it)
{
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(op_by_name(table[i]->name) == table[i]);
        ASSERT(op_find(table[i]->noun, table[i]->verb) == table[i]);
        ASSERT(table[i]->run);
        for (size_t j = 0; j < i; j++) {
            bool same_noun = table[i]->noun && table[j]->noun ? strcmp(table[i]->noun, table[j]->noun) == 0
                                                              : !table[i]->noun && !table[j]->noun;
            ASSERT(strcmp(table[i]->name, table[j]->name) != 0);
            ASSERT(!same_noun || strcmp(table[i]->verb, table[j]->verb) != 0);
        }
    }
    ASSERT(!op_by_name("") && !op_find(NULL, "absent") && !op_find("absent", "acquire"));
}

static bool is_sentence(const char *text)
{
    size_t len = text ? strlen(text) : 0;
    return len > 5 && text[len - 1] == '.' && !isspace((unsigned char)text[0]);
}

TEST(every_row_says_in_a_sentence_what_it_does)
{
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++)
        if (!is_sentence(table[i]->summary))
            FAIL_ROW(table[i], "the summary is no sentence");
}

TEST(every_row_has_a_route_and_a_tool_or_the_reason_why_not)
{
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++) {
        const struct op *op = table[i];
        bool has_route = op->http.method && op->http.path, has_tool = op->mcp.tool && op->mcp.group;
        if (has_route == (op->http.absent != NULL))
            FAIL_ROW(op, "needs either a route or a reason");
        if (has_tool == (op->mcp.absent != NULL))
            FAIL_ROW(op, "needs either a tool or a reason");
        for (size_t j = 0; j < i; j++) {
            const struct op *other = table[j];
            if (has_tool && other->mcp.tool && strcmp(other->mcp.tool, op->mcp.tool) == 0)
                FAIL_ROW(op, "the tool's name is taken");
            bool same_route = has_route && other->http.path && strcmp(op->http.path, other->http.path) == 0 &&
                              strcmp(op->http.method, other->http.method) == 0;
            bool told_apart = op->http.when && other->http.when && strcmp(op->http.when, other->http.when) != 0;
            if (same_route && !told_apart)
                FAIL_ROW(op, "the route is taken");
        }
    }
}

TEST(every_parameter_of_a_route_exists)
{
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++)
        for (const char *at = table[i]->http.path; at && (at = strchr(at, ':'));) {
            char name[64];
            size_t len = strcspn(++at, "/:");
            snprintf(name, sizeof name, "%.*s", (int)len, at);
            if (!op_param_find(table[i], name))
                FAIL_ROW(table[i], name);
        }
}

static void check_param(const struct op *op, const struct op_param *param)
{
    if (!is_sentence(param->help))
        FAIL_ROW(op, param->name);
    if (param->type == OP_ENUM && (!param->choices || !param->choices[0]))
        FAIL_ROW(op, "an enum without choices");
    if (param->type == OP_INT && param->min >= param->max)
        FAIL_ROW(op, "an integer without a range");
    if (param->type != OP_BOOL && !(param->value && param->value[0]))
        FAIL_ROW(op, param->name);
    ASSERT_INT(strspn(param->name, "abcdefghijklmnopqrstuvwxyzIT_"), strlen(param->name));
    for (const struct op_param *other = op->params; other < param; other++) {
        ASSERT(strcmp(other->name, param->name) != 0);
        ASSERT(!param->letter || other->letter != param->letter);
    }
}

TEST(every_parameter_is_explained_and_unique)
{
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++) {
        unsigned positions = 0;
        bool had_optional = false;
        for (const struct op_param *param = table[i]->params; param->name; param++) {
            check_param(table[i], param);
            if (!(param->flags & OP_POSITIONAL))
                continue;
            positions++;
            if ((param->flags & OP_REQUIRED) && had_optional && param->type != OP_ARGV)
                FAIL_ROW(table[i], "a required word after an optional one");
            had_optional = had_optional || !(param->flags & OP_REQUIRED);
        }
        ASSERT(positions <= 4);
    }
}

TEST(every_result_and_error_list_ends_and_has_no_double)
{
    static const char *const types[] = {"string", "integer", "number", "boolean", "array", "object", "any"};
    size_t count;
    const struct op *const *table = rows(&count);
    for (size_t i = 0; i < count; i++) {
        size_t fields = 0, errors = 0;
        for (const struct op_field *field = table[i]->result; field && field->name; field++, fields++) {
            char type[32];
            bool known = false;
            ASSERT(fields < 64);
            snprintf(type, sizeof type, "%.*s", (int)strcspn(field->type, "?"), field->type);
            for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
                known = known || strcmp(types[t], type) == 0;
            if (!known)
                FAIL_ROW(table[i], field->type);
        }
        ASSERT(table[i]->errors);
        for (const enum tsk_code *code = table[i]->errors; *code; code++, errors++) {
            ASSERT(errors < (size_t)code_count() && *code < code_count());
            for (const enum tsk_code *other = table[i]->errors; other < code; other++)
                ASSERT(*other != *code);
            for (enum lang lang = 0; lang < LANG_COUNT; lang++)
                ASSERT(text_of_code(*code, lang)->title[0] && text_of_code(*code, lang)->summary[0]);
        }
    }
}

/* ---- arguments ---- */

static const char *const colours[] = {"red", "green", "blue", NULL};
static const struct op_param params[] = {
    {.name = "text", .type = OP_STRING, .max = 8},
    {.name = "long_text", .type = OP_STRING},
    {.name = "id", .type = OP_ID},
    {.name = "count", .type = OP_INT, .min = -2, .max = 10},
    {.name = "flag", .type = OP_BOOL},
    {.name = "ttl", .type = OP_DURATION, .min = 1},
    {.name = "wait", .type = OP_DURATION, .flags = OP_FOREVER},
    {.name = "colour", .type = OP_ENUM, .choices = colours},
    {.name = "path", .type = OP_PATH},
    {.name = "argv", .type = OP_ARGV},
    {0},
};
static const struct op sample = {.name = "test.sample", .noun = "test", .verb = "sample", .params = params};

static int check(const char *text, json_t **ret, struct tsk_error *err)
{
    ASSERT_INT(json_parse(text, strlen(text), "test", ret, err), 0);
    return op_check_args(&sample, *ret, err);
}

static void accept(const char *text, const char *want)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    if (check(text, &args, &err) < 0)
        scene_fail(__FILE__, __LINE__, text, &err);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_write(&b, args, false);
    ASSERT_STR(buf_str(&b), want);
}

/* Refused as bad input, with a sentence in every language. */
static void refuse(const char *text)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    if (check(text, &args, &err) == 0)
        test_fail(__FILE__, __LINE__, "accepted: %s", text);
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
    ASSERT(tsk_error_context(&err, "param"));
    for (enum lang lang = 0; lang < LANG_COUNT; lang++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        text_put_error(&b, lang, &err);
        ASSERT(b.len > 5);
        if (strchr(b.data, '{'))
            test_fail(__FILE__, __LINE__, "a placeholder is left: %s", b.data);
    }
}

TEST(texts_are_taken_up_to_their_maximum_in_bytes)
{
    accept("{\"text\":\"12345678\"}", "{\"text\":\"12345678\"}");
    accept("{\"text\":\"\"}", "{\"text\":\"\"}");
    accept("{\"text\":null}", "{}");
    refuse("{\"text\":\"123456789\"}");
    refuse("{\"text\":\"\xe9\x8e\x96\xe9\x8e\x96\xe9\x8e\x96\"}");
    refuse("{\"text\":5}");
    refuse("{\"text\":true}");
    refuse("{\"text\":[\"a\"]}");
    refuse("{\"path\":{}}");
    char text[4200];
    snprintf(text, sizeof text, "{\"long_text\":\"%04096d\"}", 0);
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    ASSERT_OK(check(text, &args, &err));
    snprintf(text, sizeof text, "{\"long_text\":\"%04097d\"}", 0);
    refuse(text);
}

TEST(a_long_value_is_shown_cut_between_characters)
{
    for (int shift = 0; shift < 3; shift++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        struct tsk_error err;
        json_t *args CLEANUP_JSON = NULL;
        buf_printf(&b, "{\"text\":\"%s", &"aa"[shift]);
        for (int i = 0; i < 100; i++)
            buf_puts(&b, "\xe9\x8e\x96");
        buf_puts(&b, "\"}");
        ASSERT_CODE(check(buf_str(&b), &args, &err), TSK_INVALID_INPUT);
        json_t *shown CLEANUP_JSON = json_string(tsk_error_context(&err, "value"));
        ASSERT(shown);
        ASSERT(json_string_length(shown) > 190 && json_string_length(shown) < 210);
    }
}

TEST(ids_are_checked)
{
    accept("{\"id\":\"RQ-1.a_b\"}", "{\"id\":\"RQ-1.a_b\"}");
    refuse("{\"id\":\"\"}");
    refuse("{\"id\":\"../x\"}");
    refuse("{\"id\":\"a b\"}");
    refuse("{\"id\":7}");
}

TEST(integers_come_as_numbers_or_texts_and_stay_in_their_range)
{
    accept("{\"count\":-2}", "{\"count\":-2}");
    accept("{\"count\":\"10\"}", "{\"count\":10}");
    accept("{\"count\":\"-2\"}", "{\"count\":-2}");
    static const char *const bad[] = {"-3",
                                      "11",
                                      "\"11\"",
                                      "\"\"",
                                      "\"x\"",
                                      "\"1x\"",
                                      "\"1 \"",
                                      "\"0x1\"",
                                      "1.5",
                                      "true",
                                      "[]",
                                      "\"99999999999999999999\"",
                                      "\"-99999999999999999999\"",
                                      "9223372036854775807"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"count\":%s}", bad[i]);
        refuse(text);
    }
}

TEST(flags_are_true_or_false)
{
    accept("{\"flag\":true}", "{\"flag\":true}");
    accept("{\"flag\":false}", "{\"flag\":false}");
    refuse("{\"flag\":\"true\"}");
    refuse("{\"flag\":1}");
}

TEST(durations_become_milliseconds)
{
    accept("{\"ttl\":\"30s\"}", "{\"ttl\":30000}");
    accept("{\"ttl\":\"1ms\"}", "{\"ttl\":1}");
    accept("{\"ttl\":90}", "{\"ttl\":90000}");
    accept("{\"ttl\":90.0}", "{\"ttl\":90000}");
    accept("{\"wait\":\"0\"}", "{\"wait\":0}");
    accept("{\"wait\":\"forever\"}", "{\"wait\":-1}");
    accept("{\"wait\":2147483646}", "{\"wait\":2147483646000}");
    refuse("{\"ttl\":\"forever\"}");
    refuse("{\"ttl\":\"0\"}");
    refuse("{\"ttl\":0}");
    refuse("{\"ttl\":-5}");
    refuse("{\"wait\":-1}");
    refuse("{\"wait\":\"-1\"}");
    refuse("{\"wait\":1.5}");
    refuse("{\"wait\":9223372036854775807}");
    refuse("{\"wait\":\"soon\"}");
    refuse("{\"wait\":true}");
}

TEST(an_enum_takes_its_choices_and_suggests_the_nearest)
{
    struct tsk_error err;
    json_t *args CLEANUP_JSON = NULL;
    accept("{\"colour\":\"green\"}", "{\"colour\":\"green\"}");
    refuse("{\"colour\":\"\"}");
    refuse("{\"colour\":\"Green\"}");
    refuse("{\"colour\":3}");
    ASSERT_CODE(check("{\"colour\":\"gren\"}", &args, &err), TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&err, "near"), "green");
}

TEST(a_command_is_a_list_of_texts)
{
    accept("{\"argv\":[\"a\",\"b\"]}", "{\"argv\":[\"a\",\"b\"]}");
    refuse("{\"argv\":\"a\"}");
    refuse("{\"argv\":[1,null]}");
}

TEST(unknown_names_are_refused_and_required_ones_are_missed)
{
    static const struct op_param needed[] = {{.name = "a", .type = OP_STRING, .flags = OP_REQUIRED}, {0}};
    const struct op op = {.name = "test.needed", .noun = "test", .verb = "needed", .params = needed};
    static const char *const bad[] = {"{}", "{\"a\":null}", "{\"a\":\"\"}", "{\"a\":\"x\",\"b\":1}"};
    struct tsk_error err;
    refuse("{\"unknown\":1}");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *args CLEANUP_JSON = NULL;
        ASSERT_OK(json_parse(bad[i], strlen(bad[i]), "test", &args, &err));
        ASSERT_CODE(op_check_args(&op, args, &err), TSK_INVALID_INPUT);
    }
}

TEST(a_line_is_cut_into_its_first_words)
{
    char line[] = "  lock:\t1: OFDLCK  x\n", blank[] = " \t\n", *word[3] = {NULL};
    ASSERT_INT(words_split(blank, word, 3), 0);
    ASSERT_INT(words_split(line, word, 3), 3);
    ASSERT_STR(word[0], "lock:");
    ASSERT_STR(word[1], "1:");
    ASSERT_STR(word[2], "OFDLCK");
    ASSERT_INT(words_split(word[2], word, 3), 1);
}

TEST(the_nearest_word_is_near_or_nothing)
{
    static const char *const words[] = {"acquire", "release", "renew", "check", "list", "run"};
    static const struct {
        const char *word, *nearest;
    } table[] = {{"acquire", "acquire"},
                 {"aquire", "acquire"},
                 {"acqiure", "acquire"},
                 {"acq", "acquire"},
                 {"relase", "release"},
                 {"chek", "check"},
                 {"lst", "list"},
                 {"rnu", "run"},
                 {"deploy", NULL},
                 {"", NULL},
                 {"x", NULL},
                 {"zzzzzzz", NULL},
                 {"acquireacquire", NULL}};
    char long_word[200];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *nearest = nearest_word(table[i].word, words, 6);
        if (table[i].nearest ? !nearest || strcmp(nearest, table[i].nearest) != 0 : nearest != NULL)
            test_fail(__FILE__, __LINE__, "%s: nearest is %s", table[i].word, nearest ? nearest : "nothing");
    }
    memset(long_word, 'a', sizeof long_word);
    for (size_t len = 60; len < 70; len++) {
        long_word[len] = '\0';
        ASSERT(!nearest_word(long_word, words, 6));
        long_word[len] = 'a';
    }
    ASSERT(!nearest_word("acquire", words, 0));
}

/* ---- questions that a person must answer ---- */

static json_t *question(size_t len)
{
    char *text = calloc(len + 1, 1);
    ASSERT(text);
    memset(text, 'x', len);
    json_t *record = json_pack("{s:s}", "question", text);
    free(text);
    return record;
}

static void assert_gone(struct tsk_workspace *ws, const char *token)
{
    struct tsk_error err;
    json_t *record = NULL;
    ASSERT_CODE(confirm_look(ws, token, &record, &err), TSK_NOT_FOUND);
    ASSERT_CODE(confirm_approve(ws, token, &record, &err), TSK_NOT_FOUND);
    ASSERT_CODE(confirm_take(ws, token, &record, &err), TSK_NOT_FOUND);
    ASSERT(!record);
}

TEST(a_yes_is_kept_until_it_is_used_and_used_once)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    char token[CONFIRM_TOKEN_SIZE];
    json_t *asked = question(10), *record = NULL;
    ASSERT_OK(confirm_ask(ws, asked, token, &err));
    ASSERT_INT(strlen(token), CONFIRM_TOKEN_SIZE - 1);
    ASSERT_OK(confirm_look(ws, token, &record, &err));
    ASSERT(!json_get_bool(record, "approved", true));
    json_decref(record);
    for (int i = 0; i < 2; i++) { /* the second yes changes nothing */
        ASSERT_OK(confirm_approve(ws, token, &record, &err));
        ASSERT_STR(json_get_string(record, "question", ""), "xxxxxxxxxx");
        json_decref(record);
        ASSERT_OK(confirm_look(ws, token, &record, &err));
        ASSERT(json_get_bool(record, "approved", false));
        json_decref(record);
    }
    ASSERT_OK(confirm_take(ws, token, &record, &err));
    ASSERT(json_get_bool(record, "approved", false));
    json_decref(record);
    assert_gone(ws, token);
    assert_gone(ws, "../../config");
    assert_gone(ws, "");
    json_decref(asked);
    tsk_workspace_close(ws);
}

TEST(a_question_that_is_too_long_is_refused_and_leaves_nothing)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    char token[CONFIRM_TOKEN_SIZE];
    json_t *asked = question(70000);
    ASSERT_CODE(confirm_ask(ws, asked, token, &err), TSK_PAYLOAD_TOO_LARGE);
    json_decref(asked);
    asked = question(60000);
    ASSERT_OK(confirm_ask(ws, asked, token, &err));
    json_decref(asked);
    tsk_workspace_close(ws);
}

TEST(the_next_question_removes_those_that_are_over_and_old_ones_that_are_damaged)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    char token[CONFIRM_TOKEN_SIZE], second[CONFIRM_TOKEN_SIZE], path[128], text[256];
    json_t *asked = question(10);
    ASSERT_OK(confirm_ask(ws, asked, token, &err));
    snprintf(text, sizeof text, "{\"question\":\"old\",\"boot_id\":\"%s\",\"expires_boot_ms\":1}", boot_id());
    scene_write(".aiflow/confirm/00000000000000000000000000000001.json", text);
    scene_write(".aiflow/confirm/00000000000000000000000000000002.json",
                "{\"question\":\"of another boot\",\"boot_id\":\"x\",\"expires_boot_ms\":9000000000000000}");
    scene_write(".aiflow/confirm/00000000000000000000000000000003.json", "{");
    scene_write(".aiflow/confirm/00000000000000000000000000000004.json", "{");
    ASSERT_INT(utimensat(AT_FDCWD, ".aiflow/confirm/00000000000000000000000000000003.json",
                         (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}, 0),
               0);
    assert_gone(ws, "00000000000000000000000000000001");
    assert_gone(ws, "00000000000000000000000000000002");
    ASSERT_INT(confirm_look(ws, "00000000000000000000000000000004", &(json_t *){NULL}, &err), -1);
    ASSERT(err.code != TSK_NOT_FOUND);
    ASSERT_OK(confirm_ask(ws, asked, second, &err));
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, ".aiflow/confirm/0000000000000000000000000000000%d.json", i);
        ASSERT(!scene_exists(path));
    }
    snprintf(path, sizeof path, ".aiflow/confirm/%s.json", token);
    ASSERT(scene_exists(path));
    ASSERT(scene_exists(".aiflow/confirm/00000000000000000000000000000004.json"));
    json_decref(asked);
    tsk_workspace_close(ws);
}
