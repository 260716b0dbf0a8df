#include "base/buf.h"
#include "base/yaml.h"
#include "harness/test.h"

static struct tsk_error err;

static struct yaml *parse(const char *text)
{
    struct yaml *doc;
    if (yaml_parse(text, strlen(text), "f.yaml", &doc, &err) < 0)
        test_fail(__FILE__, __LINE__, "refused: %s", tsk_error_context(&err, "reason"));
    return doc;
}

static void assert_refused_bytes(const char *text, size_t len, const char *line, const char *column, const char *reason)
{
    struct yaml *doc = NULL;
    ASSERT_INT(yaml_parse(text, len, "f.yaml", &doc, &err), -1);
    ASSERT(!doc);
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
    ASSERT_STR(err.text, "yaml_invalid");
    ASSERT_STR(tsk_error_context(&err, "source"), "f.yaml");
    ASSERT_STR(tsk_error_context(&err, "line"), line);
    ASSERT_STR(tsk_error_context(&err, "column"), column);
    if (!strstr(tsk_error_context(&err, "reason"), reason))
        test_fail(__FILE__, __LINE__, "reason is: %s", tsk_error_context(&err, "reason"));
}

static void assert_refused(const char *text, const char *line, const char *column, const char *reason)
{
    assert_refused_bytes(text, strlen(text), line, column, reason);
}

TEST(a_tree_has_values_and_places)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = parse("ttl: 30\nnames:\n  - a\n  - \"b\"\nempty:\n");
    const struct yaml_node *root = yaml_root(doc);
    const struct yaml_node *names = yaml_get(root, "names");
    ASSERT_INT(root->type, YAML_MAP);
    ASSERT_INT(names->type, YAML_LIST);
    ASSERT_INT(names->key_line, 2);
    ASSERT_INT(names->key_column, 1);
    ASSERT_STR(names->first->next->text, "b");
    ASSERT_INT(names->first->next->line, 4);
    ASSERT_INT(names->first->next->column, 5);
    ASSERT(!names->first->next->is_plain);
    ASSERT(!names->first->next->next);
    ASSERT(yaml_is_null(yaml_get(root, "empty")));
    ASSERT(!yaml_get(root, "missing"));
    ASSERT(!yaml_get(names, "a"));
    ASSERT(!yaml_get(NULL, "a"));
}

TEST(only_plain_scalars_are_numbers_and_booleans)
{
    struct yaml *doc CLEANUP(yaml_cleanup) =
        parse("i: -42\nq: '42'\nx: 42x\nbig: 9223372036854775808\nb: Yes\nqb: 'yes'\nn: ~\ns: word\n");
    const struct yaml_node *root = yaml_root(doc);
    int64_t i = 0;
    bool b = false;
    ASSERT_INT(yaml_int(yaml_get(root, "i"), &i), 0);
    ASSERT_INT(i, -42);
    ASSERT_INT(yaml_int(yaml_get(root, "q"), &i), -1);
    ASSERT_INT(yaml_int(yaml_get(root, "x"), &i), -1);
    ASSERT_INT(yaml_int(yaml_get(root, "big"), &i), -1);
    ASSERT_INT(i, -42);
    ASSERT_INT(yaml_bool(yaml_get(root, "b"), &b), 0);
    ASSERT(b);
    ASSERT_INT(yaml_bool(yaml_get(root, "qb"), &b), -1);
    ASSERT(!yaml_text(yaml_get(root, "n")));
    ASSERT_STR(yaml_text(yaml_get(root, "s")), "word");
}

TEST(an_empty_document_is_an_empty_map)
{
    static const char *const texts[] = {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct yaml *doc CLEANUP(yaml_cleanup) = parse(texts[i]);
        ASSERT_INT(yaml_root(doc)->type, YAML_MAP);
        ASSERT(!yaml_root(doc)->first);
    }
}

TEST(an_error_about_a_node_names_its_place_and_shows_its_line)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = parse("a: 1\n  \nttl:   soon\n");
    ASSERT_INT(yaml_error(doc, yaml_get(yaml_root(doc), "ttl"), &err, "yaml_why_flag", "key", "ttl", NULL), -1);
    ASSERT_STR(tsk_error_context(&err, "line"), "3");
    ASSERT_STR(tsk_error_context(&err, "column"), "8");
    ASSERT_STR(tsk_error_context(&err, "reason"), "ttl must be true or false");
    ASSERT_STR(tsk_error_context(&err, "excerpt"), "ttl:   soon");
}

TEST(a_duplicate_key_is_refused_at_its_second_place)
{
    assert_refused("a: 1\nb: 2\na: 3\n", "3", "1", "duplicate key `a`; it was first defined on line 1");
    ASSERT_STR(tsk_error_context(&err, "excerpt"), "a: 3");
    assert_refused("m: {a: 1, 'a': 2}\n", "1", "11", "duplicate key `a`");
}

TEST(a_duplicate_among_very_many_keys_is_found_quickly)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct yaml *doc = NULL;
    for (int i = 0; i < 200000; i++)
        buf_printf(&text, "k%d: %d\n", i, i);
    ASSERT_INT(yaml_parse(buf_str(&text), text.len, "f", &doc, &err), 0);
    int64_t value;
    ASSERT_INT(yaml_int(yaml_get(yaml_root(doc), "k199999"), &value), 0);
    ASSERT_INT(value, 199999);
    yaml_doc_free(doc);
    buf_puts(&text, "k777: 1\n");
    assert_refused_bytes(buf_str(&text), text.len, "200001", "1", "it was first defined on line 778");
}

TEST(every_size_of_map_keeps_and_checks_all_its_keys)
{
    for (int size = 1; size < 300; size++) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        for (int i = 0; i < size; i++)
            buf_printf(&text, "k%d: v\n", i);
        struct yaml *doc CLEANUP(yaml_cleanup) = parse(buf_str(&text));
        int count = 0;
        for (const struct yaml_node *child = yaml_root(doc)->first; child; child = child->next)
            count++;
        ASSERT_INT(count, size);
        for (int i = 0; i < size; i += 7) {
            struct buf twice CLEANUP(buf_clear) = BUF_INIT;
            struct yaml *none = NULL;
            buf_printf(&twice, "%sk%d: w\n", buf_str(&text), i);
            ASSERT_INT(yaml_parse(buf_str(&twice), twice.len, "f", &none, &err), -1);
        }
    }
}

TEST(anchors_aliases_tags_and_second_documents_are_refused)
{
    assert_refused("a: &x 1\nb: 2\n", "1", "4", "anchors");
    assert_refused("a: 1\nb: *x\n", "2", "4", "aliases");
    assert_refused("a: !!str 1\n", "1", "4", "tags");
    assert_refused("a: !thing {b: 1}\n", "1", "4", "tags");
    assert_refused("a: 1\n---\nb: 2\n", "2", "1", "second document");
    assert_refused("- &a [1]\n- &b [*a, *a]\n", "1", "3", "anchors");
}

TEST(keys_must_be_texts)
{
    assert_refused("? [a, b]\n: 1\n", "1", "3", "a key must be a text");
    assert_refused("?\n: 1\n", "1", "2", "key before the `:` is missing");
}

TEST(nesting_is_limited)
{
    char text[300];
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    ASSERT_INT(yaml_parse(text, 128, "f.yaml", &doc, &err), 0);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_refused_bytes(text, 130, "1", "65", "64 levels");
    memset(text, '[', sizeof text);
    assert_refused_bytes(text, sizeof text, "1", "65", "64 levels");
}

TEST(size_and_number_of_values_are_limited)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    while (text.len <= YAML_SIZE_MAX)
        buf_puts(&text, "# 0123456789012345678901234567890123456789012345678901234567890\n");
    assert_refused_bytes(buf_str(&text), text.len, "1", "1", "16 MiB");
    buf_reset(&text);
    buf_puts(&text, "[");
    for (unsigned i = 0; i < YAML_NODES_MAX; i++)
        buf_puts(&text, "1,\n");
    buf_puts(&text, "]");
    assert_refused_bytes(buf_str(&text), text.len, "1000000", "1", "1,000,000");
}

TEST(text_that_is_not_utf_8_is_refused_at_its_place)
{
    assert_refused("a: 1\nb: \xc3\xa9\xff\n", "2", "5", "not valid UTF-8");
    assert_refused("a: \xed\xa0\x80\n", "1", "4", "not valid UTF-8");
    assert_refused_bytes("a: x\0y\n", 7, "1", "5", "control character");
    assert_refused("a: \"x\\0y\"\n", "1", "4", "NUL");
    assert_refused_bytes("\xff\xfe\x61\x00\x3a\x00", 6, "1", "1", "not valid UTF-8");
}

TEST(mistakes_are_explained_in_words)
{
    assert_refused("a: b: c\n", "1", "5", "a `:` is not allowed here");
    assert_refused("a: [1, 2\n", "2", "1", "needs a `,` or `]`");
    assert_refused("a:\n\tb: 1\n", "2", "1", "indent with spaces");
    assert_refused("a: \"open\n", "1", "4", "quoted text that begins here has no end");
    assert_refused("a:\n  b: 'open\n  c: d\n", "2", "6", "quoted text that begins here has no end");
}
