/* The text of a request's file: what it says, and how it is changed without touching the rest. */
#include "scene.h"

#include "run/edit_text.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* ---- what it says --------------------------------------------------------------------------------------- */

TEST(what_a_request_does_not_say_has_its_usual_value)
{
    static const struct {
        const char *text, *status, *priority;
        unsigned given;
    } rows[] = {
        {"title: a\n", "draft", "P2", 1 << 1},
        {"title: a\nflow: f\n", "ready", "P2", 1 << 1 | 1 << 5},
        {"title: a\nrun: [true]\n", "ready", "P2", 1 << 1 | 1 << 6},
        {"title: a\nrun: make\nstatus: archived\n", "archived", "P2", 1 << 1 | 1 << 2 | 1 << 6},
        {"title: a\nflow: f\nstatus: draft\npriority: P0\n", "draft", "P0", 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5},
        {"id: RQ-a\ntitle: a\npriority: P3\ndepends_on: RQ-b\nbody: x\n", "draft", "P3",
         1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct request request CLEANUP(request_clear);
        request_parse("RQ-a", rows[i].text, strlen(rows[i].text), LANG_EN, &request);
        ASSERT(!request_is_broken(&request));
        ASSERT(request.is_map);
        ASSERT_STR(json_get_string(request.json, "status", ""), rows[i].status);
        ASSERT_STR(json_get_string(request.json, "priority", ""), rows[i].priority);
        ASSERT_STR(request_status_names[request.status], rows[i].status);
        ASSERT_STR(request_priorities[request.priority], rows[i].priority);
        ASSERT(json_is_array(json_object_get(request.json, "depends_on")));
        ASSERT_INT(request.given, rows[i].given);
    }
}

TEST(each_mistake_of_a_request_has_its_place)
{
    static const struct {
        const char *text;
        int count, line, column; /* of the first */
    } rows[] = {
        {"title: a\nstatus: ready\n", 1, 2, 9},
        {"title: a\nflow: f\nrun: [x]\n", 1, 3, 6},
        {"flow: f\n", 1, 1, 1},
        {"title: ''\nflow: f\n", 1, 1, 8},
        {"title: a\nflow: f\nstatus: done\n", 1, 3, 9},
        {"title: a\nflow: f\npriority: P4\n", 1, 3, 11},
        {"title: a\nflow: f\nprioritty: P1\n", 1, 3, 1},
        {"title: a\nflow: f\nid: RQ-b\n", 1, 3, 5},
        {"title: a\nflow: [f]\n", 1, 2, 7},
        {"title: a\nrun: []\n", 1, 2, 6},
        {"title: a\nrun: {a: b}\n", 1, 2, 6},
        {"title: a\nrun: [a, [b]]\n", 1, 2, 10},
        {"title: a\nflow: f\ndepends_on: [RQ-b, 'a b', [c]]\n", 2, 3, 20},
        {"- a\n", 1, 1, 1},
        {"title: [a\n", 1, 2, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct request request CLEANUP(request_clear);
        request_parse("RQ-a", rows[i].text, strlen(rows[i].text), LANG_EN, &request);
        const json_t *first = json_array_get(request.problems, 0);
        int line = (int)json_get_int(first, "line", 0), column = (int)json_get_int(first, "column", 0);
        if ((int)json_array_size(request.problems) != rows[i].count || line != rows[i].line || column != rows[i].column)
            test_fail(__FILE__, __LINE__, "%s: %zu at %d:%d", rows[i].text, json_array_size(request.problems), line,
                      column);
        struct tsk_error err;
        ASSERT_CODE(request_need_whole(&request, &err), TSK_INVALID_INPUT);
    }
}

TEST(the_excerpt_of_a_long_line_ends_between_two_characters)
{
    for (int shift = 0; shift < 3; shift++) {
        char text[1000];
        struct request request CLEANUP(request_clear);
        snprintf(text, sizeof text, "title: a\nflow: f\nk%.*s: ", shift, "xy");
        for (int i = 0; i < 200; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "\xe3\x81\x82");
        request_parse("RQ-a", text, strlen(text), LANG_EN, &request);
        const char *excerpt = json_get_string(json_array_get(request.problems, 0), "excerpt", "");
        size_t len = strlen(excerpt);
        ASSERT(strncmp(excerpt, "k", 1) == 0 && strstr(text, excerpt));
        ASSERT(len > 30 && (len - 3 - (size_t)shift) % 3 == 0);
    }
}

TEST(a_request_must_have_a_name_that_begins_as_requests_do)
{
    static const char *const ids[] = {"a", "rq-a", "RQa", "RQ-a b"};
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct request request CLEANUP(request_clear);
        request_parse(ids[i], "title: a\nflow: f\n", 17, LANG_EN, &request);
        ASSERT_INT(json_array_size(request.problems), 1);
    }
}

/* ---- how it is changed ---------------------------------------------------------------------------------- */

/* The file that comes out; NULL: the change is refused. */
static void changes_to(const char *before, const char *values_text, const char *wanted)
{
    struct tsk_error err;
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    struct request request CLEANUP(request_clear);
    json_t *values CLEANUP_JSON = json_loads(values_text, 0, NULL);
    ASSERT(values);
    request_parse("RQ-a", before, strlen(before), LANG_EN, &request);
    int result = edit_text_change(&request, values, LANG_EN, &text, &err);
    if (!wanted) {
        ASSERT_CODE(result, TSK_INVALID_INPUT);
        return;
    }
    ASSERT_OK(result);
    if (strcmp(buf_str(&text), wanted) != 0)
        test_fail(__FILE__, __LINE__, "%s with %s\nbecomes  %s\nexpected %s", before, values_text, buf_str(&text),
                  wanted);
}

TEST(a_value_on_its_keys_line_is_replaced_where_it_stands)
{
    static const char *const rows[][3] = {
        {"title: a # why\nflow: f\n", "{\"title\":\"b c\"}", "title: b c # why\nflow: f\n"},
        {"title:   'a'   # why\nflow: f\n", "{\"title\":\"b\"}", "title:   b   # why\nflow: f\n"},
        {"title: \xe3\x81\x82 # \xe3\x81\x84\nflow: f\n", "{\"title\":\"b\"}", "title: b # \xe3\x81\x84\nflow: f\n"},
        {"title: a\ndepends_on: [RQ-b] # x\nflow: f\n", "{\"depends_on\":[\"RQ-c\",\"RQ-d\"]}",
         "title: a\ndepends_on: [RQ-c, RQ-d] # x\nflow: f\n"},
        {"title: a\ndepends_on:   [RQ-b, RQ-c]# x\nflow: f\n", "{\"depends_on\":[]}",
         "title: a\ndepends_on:   []# x\nflow: f\n"},
        {"title: a\nrun: make # x\n", "{\"run\":[\"make\",\"all\"]}", "title: a\nrun: [make, all] # x\n"},
        {"\xef\xbb\xbftitle: a\nflow: f\n", "{\"title\":\"b\"}", "\xef\xbb\xbftitle: b\nflow: f\n"},
        {"title: a\r\nflow: f\r\n", "{\"flow\":\"g\"}", "title: a\r\nflow: g\r\n"},
        {"# one\n\ntitle: a\n\n# two\nflow: f # three\n# four\n", "{\"title\":\"b\",\"flow\":\"g\"}",
         "# one\n\ntitle: b\n\n# two\nflow: g # three\n# four\n"},
        {"title: a", "{\"title\":\"b\"}", "title: b"},
        /* each end of a line that libyaml knows */
        {"# a\xc2\x85title: a\nflow: f\n", "{\"flow\":\"g\"}", "# a\xc2\x85title: a\nflow: g\n"},
        {"# a\xe2\x80\xa8title: a\nflow: f\n", "{\"flow\":\"g\"}", "# a\xe2\x80\xa8title: a\nflow: g\n"},
        {"# a\xe2\x80\xa9title: a\nflow: f\n", "{\"flow\":\"g\"}", "# a\xe2\x80\xa9title: a\nflow: g\n"},
        {"title: a\rflow: f\r", "{\"flow\":\"g\"}", "title: a\rflow: g\r"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        changes_to(rows[i][0], rows[i][1], rows[i][2]);
}

TEST(a_value_of_several_lines_is_replaced_with_all_of_them_and_what_stands_around_it_stays)
{
    static const char *const rows[][3] = {
        {"title: a\nbody: |\n  x\n  y\n\n# c\nflow: f\n", "{\"body\":\"n\\nm\\n\"}",
         "title: a\nbody: |\n  n\n  m\n\n# c\nflow: f\n"},
        {"title: a\nbody: |\n  x\n# c\n", "{\"body\":\"m\"}", "title: a\nbody: m\n# c\n"},
        {"title: a\ndepends_on:\n  - RQ-b\n  # in it\n  - RQ-c\nflow: f\n", "{\"depends_on\":[\"RQ-d\"]}",
         "title: a\ndepends_on: [RQ-d]\nflow: f\n"},
        {"title: a\ndepends_on: [RQ-b,\n  RQ-c]\nflow: f\n", "{\"depends_on\":[\"RQ-d\"]}",
         "title: a\ndepends_on: [RQ-d]\nflow: f\n"},
        {"title: a\nbody: b\nflow: f\n", "{\"body\":\"n\\nm\"}", "title: a\nbody: |-\n  n\n  m\nflow: f\n"},
        {"title: a\nbody:\nflow: f\n", "{\"body\":\"x\"}", "title: a\nbody: x\nflow: f\n"},
        {"title: a\r\nbody: b\r\nflow: f\r\n", "{\"body\":\"n\\nm\"}",
         "title: a\r\nbody: |-\r\n  n\r\n  m\r\nflow: f\r\n"},
        {"title: 'a\n  b'\nflow: f\n", "{\"title\":\"c\"}", "title: c\nflow: f\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        changes_to(rows[i][0], rows[i][1], rows[i][2]);
}

TEST(a_new_key_comes_behind_the_one_before_it_in_the_usual_order_and_one_that_goes_takes_its_lines_along)
{
    static const char *const rows[][3] = {
        {"title: a\nflow: f\n", "{\"status\":\"ready\"}", "title: a\nstatus: ready\nflow: f\n"},
        {"title: a # x\n\n# y\nflow: f\n", "{\"status\":\"ready\"}", "title: a # x\nstatus: ready\n\n# y\nflow: f\n"},
        {"flow: f\ntitle: a\n", "{\"priority\":\"P1\"}", "flow: f\ntitle: a\npriority: P1\n"},
        {"# note\nstatus: draft\n", "{\"title\":\"a\"}", "# note\ntitle: a\nstatus: draft\n"},
        {"title: a", "{\"flow\":\"f\"}", "title: a\nflow: f\n"},
        {"title: a\r\nstatus: draft", "{\"flow\":\"f\"}", "title: a\r\nstatus: draft\r\nflow: f\r\n"},
        {"title: a\n...\n", "{\"flow\":\"f\"}", "title: a\nflow: f\n...\n"},
        {"# note\n", "{\"title\":\"a\"}", "# note\ntitle: a\n"},
        {"title: a\nbody: |\n  x\n  y\n# end\n", "{\"body\":null}", "title: a\n# end\n"},
        {"title: a\nflow: f # gone\nbody: x\n", "{\"flow\":null}", "title: a\nbody: x\n"},
        {"title: a\nflow: f\n", "{\"body\":null}", "title: a\nflow: f\n"},
        {"title: a\nflow: f\n", "{\"flow\":null,\"run\":[\"x\"]}", "title: a\nrun: [x]\n"},
        {"title: a\nflow: f\n", "{}", "title: a\nflow: f\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        changes_to(rows[i][0], rows[i][1], rows[i][2]);
}

TEST(a_file_in_another_form_is_written_again_but_not_if_a_comment_would_be_lost)
{
    static const char *const rows[][3] = {
        {"{title: a, flow: f}\n", "{\"title\":\"b\"}", "title: b\nflow: f\n"},
        {"{title: a, flow: f, priority: P1}\n", "{\"priority\":null,\"status\":\"draft\"}",
         "title: a\nstatus: draft\nflow: f\n"},
        {"  title: a\n  flow: f\n", "{\"title\":\"b\"}", "title: b\nflow: f\n"},
        {"{title: a, flow: f} # x\n", "{\"title\":\"b\"}", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        changes_to(rows[i][0], rows[i][1], rows[i][2]);
}

TEST(a_file_whose_keys_cannot_be_found_is_not_changed)
{
    static const char *const texts[] = {
        "- a\n", "@\n", "\xff\n", "title: [a\n", "{title: a, flow: f, status: done}\n", "title: a\n  b: c\n"};
    for (size_t i = 0; i < COUNT(texts); i++)
        changes_to(texts[i], "{\"title\":\"b\"}", NULL);
}

TEST(a_broken_file_may_be_mended_key_by_key)
{
    changes_to("title: a\nstatus: done\nflow: f\n", "{\"status\":\"draft\"}", "title: a\nstatus: draft\nflow: f\n");
    changes_to("title: a\nstatus: done\nflow: f\n", "{\"title\":\"b\"}", "title: b\nstatus: done\nflow: f\n");
    changes_to("title: a\nflow: f\n", "{\"title\":null}", "flow: f\n"); /* broken by what was asked for */
}

TEST(a_text_that_means_itself_stands_without_quotes_one_of_several_lines_as_a_block)
{
    static const struct {
        const char *body; /* as JSON */
        const char *written;
    } rows[] = {
        {"\"a b\"", "a b"},
        {"\"a-b_c.d/e+f=g@(h)\"", "a-b_c.d/e+f=g@(h)"},
        {"\"z9\"", "z9"},
        {"\"\"", "\"\""},
        {"\"a \"", "\"a \""},
        {"\" a\"", "\" a\""},
        {"\"1a\"", "\"1a\""},
        {"\"yes\"", "\"yes\""},
        {"\"null\"", "\"null\""},
        {"\"a: b\"", "\"a: b\""},
        {"\"a#b\"", "\"a#b\""},
        {"\"a,b\"", "\"a,b\""},
        {"\"-\"", "\"-\""},
        {"\"a\xc3\xbc\"", "a\xc3\xbc"},
        {"\"a\\tb\"", "\"a\\tb\""},
        {"\"a\\n\"", "|\n  a"},
        {"\"a\\nb\"", "|-\n  a\n  b"},
        {"\"a\\n\\nb\\n\"", "|\n  a\n\n  b"},
        {"\"a\\tb\\nc\"", "|-\n  a\tb\n  c"},
        {"\" a\\nb\"", "\" a\\nb\""},
        {"\"\\ta\\nb\"", "\"\\ta\\nb\""},
        {"\"\\na\"", "\"\\na\""},
        {"\"\\n\"", "\"\\n\""},
        {"\"a\\n\\n\"", "\"a\\n\\n\""},
        {"\"a\\u0001b\\nc\"", "\"a\\u0001b\\nc\""},
        {"\"a\\n # b\\n\"", "|\n  a\n   # b"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
        struct request request CLEANUP(request_clear);
        char wanted[200];
        json_t *values CLEANUP_JSON = json_pack("{s:s, s:s, s:n, s:[], s:o}", "title", "t", "flow", "f", "status",
                                                "depends_on", "body", json_loads(rows[i].body, JSON_DECODE_ANY, NULL));
        edit_text_new(&text, values);
        snprintf(wanted, sizeof wanted, "title: t\nflow: f\nbody: %s\n", rows[i].written);
        ASSERT_STR(buf_str(&text), wanted);
        request_parse("RQ-a", buf_str(&text), text.len, LANG_EN, &request);
        ASSERT(!request_is_broken(&request));
        ASSERT(edit_text_says(&request, values));
        json_object_set_new(values, "body", json_string("another"));
        ASSERT(!edit_text_says(&request, values));
        json_object_del(values, "body");
        ASSERT(!edit_text_says(&request, values));
    }
}

TEST(a_file_says_what_was_meant_if_each_key_is_as_it_must_be_and_no_other_stands_there)
{
    static const struct {
        const char *values;
        bool is_said;
    } rows[] = {
        {"{\"title\":\"a\",\"run\":[\"x\",\"y\"]}", true},
        {"{\"title\":\"a\",\"run\":[\"x\",\"y\"],\"body\":null}", true},
        {"{\"title\":\"a\",\"run\":[\"x\"]}", false},
        {"{\"title\":\"b\",\"run\":[\"x\",\"y\"]}", false},
        {"{\"title\":\"a\"}", false},
        {"{\"run\":[\"x\",\"y\"]}", false},
        {"{\"title\":\"a\",\"run\":[\"x\",\"y\"],\"body\":\"z\"}", false},
        {"{\"title\":\"a\",\"run\":[\"x\",\"y\"],\"depends_on\":null}", true}, /* an empty list is none */
    };
    const char *text = "title: a\ndepends_on: []\nrun: [x, y]\n";
    struct request request CLEANUP(request_clear);
    request_parse("RQ-a", text, strlen(text), LANG_EN, &request);
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *values CLEANUP_JSON = json_loads(rows[i].values, 0, NULL);
        if (edit_text_says(&request, values) != rows[i].is_said)
            test_fail(__FILE__, __LINE__, "%s", rows[i].values);
    }
}
