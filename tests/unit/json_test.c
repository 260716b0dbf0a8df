#include "base/json.h"
#include "harness/test.h"

static struct tsk_error err;

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    ASSERT_INT(json_parse(text, strlen(text), "f.json", &value, &err), 0);
    return value;
}

static void assert_refused(const char *text, size_t len, const char *reason)
{
    json_t *value = NULL;
    ASSERT_INT(json_parse(text, len, "f.json", &value, &err), -1);
    ASSERT(!value);
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
    ASSERT_STR(err.text, "json_invalid");
    ASSERT_STR(tsk_error_context(&err, "source"), "f.json");
    if (!strstr(tsk_error_context(&err, "reason"), reason))
        test_fail(__FILE__, __LINE__, "reason is: %s", tsk_error_context(&err, "reason"));
}

TEST(members_are_read_by_type_with_a_fallback)
{
    json_t *object CLEANUP_JSON = parse("{\"s\":\"x\",\"i\":7,\"b\":true,\"o\":{\"p\":{\"q\":1}}}");
    ASSERT_STR(json_get_string(object, "s", "-"), "x");
    ASSERT_STR(json_get_string(object, "i", "-"), "-");
    ASSERT_INT(json_get_int(object, "i", -1), 7);
    ASSERT_INT(json_get_int(object, "s", -1), -1);
    ASSERT(json_get_bool(object, "b", false));
    ASSERT(json_get_bool(object, "i", true));
    ASSERT_INT(json_integer_value(json_at(object, "o.p.q")), 1);
    ASSERT(!json_at(object, "o.p.r"));
    ASSERT(!json_at(object, "s.t"));
    ASSERT(!json_at(NULL, "s"));
}

TEST(documents_that_are_not_json_are_refused_with_their_place)
{
    assert_refused("{\"a\": 1,\n \"b\" 2}", 16, "':' expected");
    ASSERT_STR(tsk_error_context(&err, "line"), "2");
    assert_refused("{\"a\":1,\"a\":2}", 13, "duplicate");
    assert_refused("{} {}", 5, "end of file expected");
    assert_refused("", 0, "");
    ASSERT_STR(tsk_error_context(&err, "line"), "1");
    assert_refused("{\"a\":\"x\\u0000y\"}", 16, "\\u0000");
    assert_refused("{\"a\":\"\xff\"}", 9, "");
}

TEST(depth_and_size_are_limited)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < 100000; i++)
        buf_puts(&text, "[");
    assert_refused(buf_str(&text), text.len, "maximum parsing depth");
    buf_reset(&text);
    buf_puts(&text, "[\"");
    while (text.len < JSON_SIZE_MAX)
        buf_puts(&text, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    buf_puts(&text, "\"]");
    assert_refused(buf_str(&text), text.len, "4 MiB");
}

TEST(what_is_written_has_the_order_of_insertion)
{
    json_t *object CLEANUP_JSON = parse("{\"z\":1,\"a\":[true,null],\"m\":\"\xc3\xa9\"}");
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, object, false);
    ASSERT_STR(buf_str(&text), "{\"z\":1,\"a\":[true,null],\"m\":\"\xc3\xa9\"}");
    buf_reset(&text);
    json_write(&text, json_at(object, "a"), true);
    ASSERT_STR(buf_str(&text), "[\n  true,\n  null\n]");
}

TEST(a_real_number_is_written_with_as_few_digits_as_it_needs)
{
    static const char *const same[] = {
        "0.1",  "1.1",  "19.9",    "-2.5",   "1.0",           "0.30000000000000004",    "1e25",
        "1e-7", "-0.0", "1.5e300", "5e-324", "123456789.125", "1.7976931348623157e308", "2.2250738585072014e-308"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        json_t *value CLEANUP_JSON = json_loads(same[i], JSON_DECODE_ANY, NULL);
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        json_write(&text, value, false);
        ASSERT_STR(buf_str(&text), same[i]);
    }
}

TEST(what_is_written_is_read_back_as_the_same_document)
{
    static const char document[] =
        "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x\\\"y\\n\"\n    }\n  ],\n"
        "  \"e\": -1.25,\n  \"f\": false\n}";
    json_t *value CLEANUP_JSON = parse(document);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, value, true);
    ASSERT_STR(buf_str(&text), document);
    buf_reset(&text);
    json_write(&text, value, false);
    json_t *again CLEANUP_JSON = parse(buf_str(&text));
    ASSERT(json_equal(value, again));
}

static json_t *random_value(unsigned *seed, int depth)
{
    static const char *const texts[] = {"",       "plain", "a\"b\\c/d",   "\b\f\n\r\t", "\x01\x1f\x7f",
                                        "é漢字😀", "\n",    "ends with \""};
    switch ((unsigned)rand_r(seed) % (depth ? 8 : 6)) {
    case 0:
        return json_integer((json_int_t)rand_r(seed) * (rand_r(seed) % 2 ? -4000000000 : 1));
    case 1:
        return json_real(rand_r(seed) / 7.0);
    case 2:
        return json_boolean(rand_r(seed) % 2);
    case 3:
        return json_null();
    case 4:
    case 5:
        return json_string(texts[(unsigned)rand_r(seed) % 8]);
    default:
        break;
    }
    bool is_object = rand_r(seed) % 2;
    json_t *value = is_object ? json_object() : json_array();
    for (int i = rand_r(seed) % 4; i > 0; i--)
        if (is_object)
            json_object_set_new(value, texts[(unsigned)rand_r(seed) % 8], random_value(seed, depth - 1));
        else
            json_array_append_new(value, random_value(seed, depth - 1));
    return value;
}

TEST(compact_text_is_read_back_as_the_same_value)
{
    for (unsigned round = 0; round < 2000; round++) {
        unsigned seed = round;
        json_t *value CLEANUP_JSON = random_value(&seed, 4);
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        json_write(&b, value, false);
        json_t *again CLEANUP_JSON = json_loads(buf_str(&b), JSON_DECODE_ANY, NULL);
        ASSERT(again && json_equal(value, again));
    }
}

/* As its own text: json_equal does not see the order. */
static void assert_as_jansson_reads_it(const char *text, size_t len)
{
    json_t *quick CLEANUP_JSON = json_read_plain(text, len);
    json_t *value CLEANUP_JSON = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    struct buf ours CLEANUP(buf_clear) = BUF_INIT, theirs CLEANUP(buf_clear) = BUF_INIT;
    if (!quick)
        return;
    if (!value)
        test_fail(__FILE__, __LINE__, "accepted: %.*s", (int)len, text);
    json_write(&ours, quick, false);
    json_write(&theirs, value, false);
    ASSERT_STR(buf_str(&ours), buf_str(&theirs));
}

TEST(the_quick_reader_accepts_what_programs_write)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " { \"a\" : [ 1 , -2 , true , false , null , \"x y\" , { } , [ ] ] }\r\n\t",
        "{\"\":0,\"n\":999999999999999999,\"m\":-999999999999999999}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *value CLEANUP_JSON = json_read_plain(texts[i], strlen(texts[i]));
        ASSERT(value);
        assert_as_jansson_reads_it(texts[i], strlen(texts[i]));
    }
}

TEST(the_quick_reader_leaves_to_jansson_what_needs_care)
{
    static const char *const texts[] = {
        "",
        " ",
        "1",
        "null",
        "\"a\"",
        "{",
        "[",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\":1,\"a\":1}",
        "{a:1}",
        "[1] x",
        "[01]",
        "[-]",
        "[-0]",
        "[1.5]",
        "[1e3]",
        "[+1]",
        "[tru]",
        "[nulll]",
        "[\"a]",
        "[\"\\n\"]",
        "[\"\xc3\xa4\"]",
        "[\"\x01\"]",
        "[\"\x7f\"]",
        "[9999999999999999999]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (json_read_plain(texts[i], strlen(texts[i])))
            test_fail(__FILE__, __LINE__, "accepted: %s", texts[i]);
    ASSERT(!json_read_plain("[1]\0", 4)); /* a NUL is no blank */
    char deep[80];
    memset(deep, '[', 40);
    memset(deep + 40, ']', 40);
    ASSERT(!json_read_plain(deep, sizeof deep));
}

TEST(the_quick_reader_gives_the_values_of_jansson)
{
    static const char seed[] =
        "{\"a\":[1,-20,true,null,\"x y\",{\"b\":\"\",\"c\":0}],\"d\":{\"e\":[[]],\"f\":false}, \"g\":7}";
    static const char signs[] = "{}[],:\"\\0123456789-+.eEtrufalsn x\n\x7f\xc3";
    uint64_t random = 42;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof seed];
        memcpy(text, seed, sizeof seed);
        for (int change = i % 4; change >= 0; change--) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % (sizeof seed - 1)] = signs[(random >> 17) % sizeof signs];
        }
        assert_as_jansson_reads_it(text, sizeof seed - 1);
    }
}

static void put_member(void *data, const char *key, const char *value)
{
    buf_printf(data, "%s=%s;", key, value);
}

/* The members as put_member writes them, or NULL. */
static const char *taken(struct buf *b, const char *text)
{
    buf_reset(b);
    return json_take_plain(text, strlen(text), put_member, b) ? buf_str(b) : NULL;
}

TEST(members_are_taken_without_a_tree_only_from_what_jansson_would_read_alike)
{
    static const char *const others[] = {
        "",
        "{}",
        "[1]",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1} x",
        "{\"a\":1",
        "{\"a\":\"\\n\"}",
        "{\"a\":1.5}",
        "{\"a\":01}",
        "{\"a\":-0}",
        "{\"a\":true}",
        "{\"a\":{}}",
        "{\"a\":[]}",
        "{\"a\":\"\xc3\xa9\"}",
        "{\"a\" 1}",
        "{a:1}",
    };
    char many[4096] = "{\"k\":1", long_value[2048];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_STR(taken(&b, "{\"a\":\"x\",\"b\":-12,\"c\":null, \"d\" : \"\" }  \n"), "a=x;b=-12;d=;");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (taken(&b, others[i]))
            test_fail(__FILE__, __LINE__, "%s was taken", others[i]);
    for (int i = 0; i < 60; i++)
        snprintf(many + strlen(many), 16, ",\"k%d\":1", i);
    snprintf(many + strlen(many), 2, "}");
    ASSERT(!taken(&b, many));
    snprintf(long_value, sizeof long_value, "{\"a\":\"%01500d\"}", 1);
    ASSERT(!taken(&b, long_value));
}

TEST(an_error_becomes_the_document_of_the_interfaces)
{
    error_set(&err, TSK_LOCK_HELD, NULL, "kind", "name", NULL);
    error_add_int(&err, "pid", 42);
    error_add_json(&err, "holder", "{\"alive\":true}");
    error_add_next(&err, "tasuki lock show %s", "x");
    json_t *document CLEANUP_JSON = json_of_error(&err, "en");
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_STR(json_string_value(json_at(document, "error.category")), "LOCK");
    ASSERT_STR(json_string_value(json_at(document, "error.reason_code")), "LOCK_HELD");
    ASSERT(strlen(json_string_value(json_at(document, "error.message"))) > 0);
    json_write(&text, json_at(document, "error.context"), false);
    ASSERT_STR(buf_str(&text), "{\"kind\":\"name\",\"pid\":42,\"holder\":{\"alive\":true}}");
    buf_reset(&text);
    json_write(&text, json_at(document, "error.next"), false);
    ASSERT_STR(buf_str(&text), "[\"tasuki lock show x\"]");
    ASSERT_INT(json_object_size(document), 1);
}

TEST(the_run_in_the_way_stands_beside_the_error)
{
    error_set(&err, TSK_RUN_IN_PROGRESS, NULL, "run_id", "RUN-1", "latest_run", "/api/runs/RUN-1", NULL);
    json_t *document CLEANUP_JSON = json_of_error(&err, "ja");
    ASSERT_STR(json_get_string(document, "latest_run", NULL), "/api/runs/RUN-1");
    ASSERT(!json_at(document, "error.context.latest_run"));
    ASSERT_STR(json_string_value(json_at(document, "error.context.run_id")), "RUN-1");
}

TEST(context_that_is_not_utf_8_is_made_readable)
{
    error_set(&err, TSK_ENVIRONMENT, NULL, "path",
              "a\xff"
              "b",
              NULL);
    json_t *context CLEANUP_JSON = json_of_error_context(&err);
    ASSERT_STR(json_get_string(context, "path", NULL), "a\xef\xbf\xbd"
                                                       "b");
}
