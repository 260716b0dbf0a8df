/* A request's bytes, its path and its headers: what is taken, what is refused and by which status (parse.h, P1-P5). */
#include "base/word.h"
#include "harness/test.h"
#include "http/agents.h"

#include <stdlib.h>

#define END "Host: localhost\r\n\r\n"

/* ---- heads ---- */

/* The status of the refusal, 0: none. */
static int parse(const char *text, size_t len, struct http_head *head)
{
    struct http_refusal refusal = {0};
    int result = http_parse_head(text, len, head, &refusal);
    ASSERT_INT(result, refusal.status ? -1 : 0);
    ASSERT(!refusal.status == !refusal.text);
    return refusal.status;
}

TEST(a_head_is_refused_by_the_status_of_its_fault)
{
    static const struct {
        const char *text;
        int status;
    } heads[] = {
        {"GET / HTTP/1.1\r\n" END, 0},
        {"GET / HTTP/1.0\r\n" END, 0},
        {"GET / HTTP/1.2\r\n" END, 505},
        {"GET / HTTP/11\r\n" END, 400},
        {"GET / HTTP/1.10\r\n" END, 400},
        {"GET / HTTQ/1.1\r\n" END, 400},
        {"GET /\r\n" END, 400},
        {"GET\r\n" END, 400},
        {" / HTTP/1.1\r\n" END, 400},
        {"G@T / HTTP/1.1\r\n" END, 400},
        {"M-SEARCH! / HTTP/1.1\r\n" END, 0},
        {"GET * HTTP/1.1\r\n" END, 400},
        {"GET /a#b HTTP/1.1\r\n" END, 400},
        {"GET /a\x7f HTTP/1.1\r\n" END, 400},
        {"GET /a\xc3\xa4 HTTP/1.1\r\n" END, 400},
        {"GET /~!$&'()*+,;=:@ HTTP/1.1\r\n" END, 0},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nX: \ta\tb\r\n" END, 0},
        {"GET / HTTP/1.1\r\nX: a\x7f\r\n" END, 400},
        {"GET / HTTP/1.1\r\nX: a\x1f\r\n" END, 400},
        {"GET / HTTP/1.1\r\nX: \xff\r\n" END, 0},
        {"GET / HTTP/1.1\r\n: a\r\n" END, 400},
        {"GET / HTTP/1.1\r\nOrigin: a\r\norigin: a\r\n" END, 400},
        {"GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n" END, 400},
        {"GET / HTTP/1.1\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Encoding: identity\r\nContent-Encoding: identity\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Encoding: Identity\r\n" END, 0},
        {"GET / HTTP/1.1\r\nContent-Encoding: br\r\n" END, 415},
        {"GET / HTTP/1.1\r\nExpect: 100-Continue\r\n" END, 0},
        {"GET / HTTP/1.1\r\nExpect: 200-ok\r\n" END, 417},
        {"GET / HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n" END, 0},
        {"GET / HTTP/1.1\r\nTransfer-Encoding: identity\r\n" END, 501},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: identity\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Length:\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1 2\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1a\r\n" END, 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1048576\r\n" END, 0},
        {"GET / HTTP/1.1\r\nContent-Length: 1048577\r\n" END, 413},
        {"GET / HTTP/1.1\r\nContent-Length: 000000000000000002\r\n" END, 0},
        {"GET / HTTP/1.1\r\nContent-Length: 0000000000000000002\r\n" END, 400},
        {"GET / HTTP/1.1\rX: a\r\n" END, 400},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
        {"\r\n\r\n", 400},
        {"\r\n", 400},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct http_head head;
        int status = parse(heads[i].text, strlen(heads[i].text), &head);
        if (status != heads[i].status)
            test_fail(__FILE__, __LINE__, "%s is %d, expected %d", heads[i].text, status, heads[i].status);
    }
}

TEST(what_a_head_says_about_its_body_and_its_connection)
{
    static const struct {
        const char *text;
        int64_t length;
        bool is_chunked, keeps_alive, expects;
    } heads[] = {
        {"GET / HTTP/1.1\r\n" END, -1, false, true, false},
        {"GET / HTTP/1.0\r\n" END, -1, false, false, false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n" END, -1, false, false, false},
        {"GET / HTTP/1.1\r\nConnection: Close\r\n" END, -1, false, false, false},
        {"GET / HTTP/1.1\r\nConnection: te , close;x\r\n" END, -1, false, false, false},
        {"GET / HTTP/1.1\r\nConnection: closed\r\n" END, -1, false, true, false},
        {"POST / HTTP/1.1\r\nContent-Length: 0\r\n" END, 0, false, true, false},
        {"POST / HTTP/1.1\r\nContent-Length: 120\r\n" END, 120, false, true, false},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END, -1, true, true, false},
        {"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" END, 9, false, true, true},
        {"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" END, 9, false, false, false},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct http_head head;
        memset(&head, 0xff, sizeof head);
        ASSERT_INT(parse(heads[i].text, strlen(heads[i].text), &head), 0);
        if (head.content_length != heads[i].length || head.is_chunked != heads[i].is_chunked ||
            head.keeps_alive != heads[i].keeps_alive || head.expects_continue != heads[i].expects)
            test_fail(__FILE__, __LINE__, "%s: length %lld, chunked %d, keeps alive %d, expects %d", heads[i].text,
                      (long long)head.content_length, head.is_chunked, head.keeps_alive, head.expects_continue);
    }
}

TEST(a_target_is_its_path_and_its_query_without_the_question_mark)
{
    static const char *const targets[][3] = {
        {"/", "/", ""}, {"/a?", "/a", ""}, {"/a?b=c", "/a", "b=c"}, {"/?a?b", "/", "a?b"}, {"/a%3Fb", "/a%3Fb", ""}};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct http_head head;
        char text[128];
        snprintf(text, sizeof text, "PUT %s HTTP/1.1\r\nhOST:\t localhost:1 \t\r\n\r\n", targets[i][0]);
        ASSERT_INT(parse(text, strlen(text), &head), 0);
        ASSERT(http_text_is(&head.path, targets[i][1]) && http_text_is(&head.query, targets[i][2]));
        ASSERT(http_text_is(&head.method, "PUT") && http_text_is(&head.host, "localhost:1"));
        ASSERT(http_text_is(http_header(&head, "Host"), "localhost:1") && !http_header(&head, "Hos"));
    }
}

TEST(a_hundred_headers_are_taken_and_one_more_is_not)
{
    for (int count = 99; count <= 100; count++) { /* and Host */
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        struct http_head head;
        buf_puts(&b, "GET / HTTP/1.1\r\n");
        for (int i = 0; i < count; i++)
            buf_printf(&b, "X%d: 1\r\n", i);
        buf_puts(&b, END);
        ASSERT_INT(parse(b.data, b.len, &head), count == 99 ? 0 : 431);
    }
}

TEST(a_head_of_sixteen_kibibytes_is_taken_and_one_byte_more_is_not)
{
    for (size_t len = HTTP_HEAD_MAX; len <= HTTP_HEAD_MAX + 1; len++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        struct http_head head;
        buf_puts(&b, "GET / HTTP/1.1\r\nX: ");
        while (b.len < len - 2 - strlen(END))
            buf_puts(&b, "a");
        buf_puts(&b, "\r\n" END);
        ASSERT_INT(b.len, len);
        ASSERT_INT(parse(b.data, b.len, &head), len == HTTP_HEAD_MAX ? 0 : 431);
    }
}

TEST(the_end_of_a_head_is_found_once_however_it_comes)
{
    static const struct {
        const char *text;
        size_t end;
    } heads[] = {{"a\r\n\r\nb", 5}, {"a\n\nb", 3},   {"a\r\n\nb", 4}, {"a\n\r\nb", 4},
                 {"a\r\nb\r\n", 0}, {"\r\n\r\n", 4}, {"\n", 0},       {"a\r\r\n", 0}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const char *text = heads[i].text;
        size_t scanned = 0, found = 0, len = 0;
        ASSERT_INT(http_head_end(text, strlen(text), &scanned), heads[i].end);
        ASSERT_INT(scanned, strlen(text));
        for (scanned = 0; !found && len < strlen(text);)
            found = http_head_end(text, ++len, &scanned);
        ASSERT_INT(found, heads[i].end);
        ASSERT(!found || len == found);
    }
}

/* ---- words ---- */

TEST(a_list_has_a_word_whatever_its_case_its_spaces_and_its_parameters)
{
    static const struct {
        const char *list;
        bool has;
    } lists[] = {{"text/event-stream", true},
                 {"a, Text/Event-Stream;q=0.5 , b", true},
                 {"\ttext/event-stream\t", true},
                 {"a,,text/event-stream", true},
                 {"text/event-streams", false},
                 {"text/event-strea", false},
                 {"a;x=text/event-stream", false},
                 {"", false},
                 {"a,", false},
                 {"text/event-stream ;q=1", true}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (http_text_has(&(struct http_text){lists[i].list, strlen(lists[i].list)}, "text/event-stream") !=
            lists[i].has)
            test_fail(__FILE__, __LINE__, "the list '%s'", lists[i].list);
    ASSERT(!http_text_has(NULL, "a") && !http_text_is(NULL, "a") && !http_text_is_caseless(NULL, "a"));
    struct http_text word = {"Abc", 3};
    ASSERT(http_text_is_caseless(&word, "aBC") && !http_text_is(&word, "abc") && !http_text_is_caseless(&word, "ab"));
    ASSERT(!http_text_is_caseless(&word, "abd") && !http_text_is(&word, "Abcd"));
}

TEST(escapes_are_two_hexadecimal_digits_that_make_text)
{
    static const char *const texts[][3] = {/* NULL: refused */
                                           {"a%41%6a%4A", "aAjJ", "aAjJ"},
                                           {"a+b", "a+b", "a b"},
                                           {"%2B", "+", "+"},
                                           {"%c3%A4", "\xc3\xa4", "\xc3\xa4"},
                                           {"", "", ""},
                                           {"%7E~", "~~", "~~"},
                                           {"%fF", NULL, NULL},
                                           {"%", NULL, NULL},
                                           {"%4", NULL, NULL},
                                           {"a%4g", NULL, NULL},
                                           {"%g4", NULL, NULL},
                                           {"%00", NULL, NULL},
                                           {"%10", "\x10", "\x10"},
                                           {"%01", "\x01", "\x01"},
                                           {"%c3", NULL, NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int is_form = 0; is_form < 2; is_form++) {
            struct buf b CLEANUP(buf_clear) = BUF_INIT;
            const char *wanted = texts[i][1 + is_form];
            buf_puts(&b, "-");
            bool is_text = http_put_decoded(&b, &(struct http_text){texts[i][0], strlen(texts[i][0])}, is_form);
            if (is_text != (wanted != NULL) || (wanted && strcmp(buf_str(&b) + 1, wanted) != 0))
                test_fail(__FILE__, __LINE__, "%s (%d) is '%s'", texts[i][0], is_form, buf_str(&b));
        }
}

/* ---- chunks ---- */

/* The body, or the status of the refusal as a text; "..." when more is needed. In pieces of `size`. */
static void unchunk(const char *text, size_t size, struct buf *ret)
{
    struct http_chunks chunks = {0};
    struct http_refusal refusal = {0};
    size_t at = 0, len = strlen(text);
    while (at < len && !chunks.is_done) {
        size_t some = len - at < size ? len - at : size;
        ssize_t taken = http_chunks_take(&chunks, text + at, some, ret, &refusal);
        if (taken < 0) {
            buf_reset(ret);
            buf_printf(ret, "%d", refusal.status);
            return;
        }
        ASSERT((size_t)taken == some || chunks.is_done);
        at += (size_t)taken;
    }
    if (!chunks.is_done)
        buf_puts(ret, "...");
    else
        buf_printf(ret, "|%s", text + at);
}

TEST(chunks_are_taken_in_pieces_of_any_size_and_what_follows_them_is_left)
{
    char longest[300], longer[300];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "1;", 2);
    memcpy(longer, longest, sizeof longer);
    snprintf(longest + 255, sizeof longest - 255, "\r\na\r\n0\r\n\r\n"); /* the line with its CR has 256 characters */
    snprintf(longer + 256, sizeof longer - 256, "\r\na\r\n0\r\n\r\n");
    const char *const bodies[][2] = {{"0\r\n\r\n", "|"},
                                     {"0\r\n\r\nGET", "|GET"},
                                     {"3\r\nabc\r\n0\r\n\r\n", "abc|"},
                                     {"a\r\n0123456789\r\n00\r\n\r\nx", "0123456789|x"},
                                     {"A\r\n0123456789\r\n1\r\na\r\n0\r\n\r\n", "0123456789a|"},
                                     {"1;n=\tv\r\na\r\n0;x\r\n\r\n", "a|"},
                                     {"1", "..."},
                                     {"1\r\na\r\n0\r\n\r", "a..."},
                                     {"1\r\na\r\n", "a..."},
                                     {";x\r\n", "400"},
                                     {"\r\n", "400"},
                                     {"g\r\n", "400"},
                                     {"1 \r\na", "400"},
                                     {"1\ra", "400"},
                                     {"1\r\nab\r\n", "400"},
                                     {"1\r\na\rb", "400"},
                                     {"1;\x01\r\n", "400"},
                                     {"1;\x7f\r\n", "400"},
                                     {"0\r\nX: 1\r\n\r\n", "400"},
                                     {"0\r\n\rx", "400"},
                                     {"100001\r\n", "413"},
                                     {"fffffffff\r\n", "413"},
                                     {longest, "a|"},
                                     {longer, "400"}};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        for (size_t size = 1; size <= 400; size = size == 1 ? 2 : size == 2 ? 400 : 401) {
            struct buf got CLEANUP(buf_clear) = BUF_INIT;
            unchunk(bodies[i][0], size, &got);
            if (strcmp(buf_str(&got), bodies[i][1]) != 0)
                test_fail(__FILE__, __LINE__, "%s in pieces of %zu is %s, expected %s", bodies[i][0], size,
                          buf_str(&got), bodies[i][1]);
        }
}

TEST(chunks_of_a_mebibyte_are_taken_and_one_byte_more_is_not)
{
    for (int more = 0; more < 2; more++) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT, body CLEANUP(buf_clear) = BUF_INIT;
        struct http_chunks chunks = {0};
        struct http_refusal refusal = {0};
        char *half = malloc(HTTP_BODY_MAX / 2);
        memset(half, 'x', HTTP_BODY_MAX / 2);
        for (int i = 0; i < 2; i++) {
            buf_puts(&text, "80000\r\n");
            buf_put(&text, half, HTTP_BODY_MAX / 2);
            buf_puts(&text, "\r\n");
        }
        free(half);
        buf_puts(&text, more ? "1\r\nx\r\n0\r\n\r\n" : "0\r\n\r\n");
        ssize_t taken = http_chunks_take(&chunks, text.data, text.len, &body, &refusal);
        ASSERT_INT(taken, more ? -1 : (ssize_t)text.len);
        ASSERT_INT(refusal.status, more ? 413 : 0);
        ASSERT_INT(body.len, HTTP_BODY_MAX);
        ASSERT(more || chunks.is_done);
    }
}

/* ---- headers that repeat the body of an MCP message ---- */

static const char *mismatch(const char *headers, const char *message)
{
    static const char tools[] =
        "[{\"name\": \"t\", \"inputSchema\": {\"properties\": {\"a\": {\"x-mcp-header\": \"A\"}, \"b\": {}}}}]";
    struct http_head head;
    char text[2000];
    struct tsk_error err = {0};
    json_t *document = NULL, *list = NULL;
    snprintf(text, sizeof text, "POST /mcp HTTP/1.1\r\n%s" END, headers);
    ASSERT_INT(parse(text, strlen(text), &head), 0);
    ASSERT(json_parse(message, strlen(message), "message", &document, &err) == 0);
    ASSERT(json_parse(tools, strlen(tools), "tools", &list, &err) == 0);
    const char *wrong = agents_mismatch(&head, document, list);
    json_decref(document);
    json_decref(list);
    return wrong ? wrong : "";
}

#define META_OF      "\"_meta\": {\"" AGENTS_META "protocolVersion\": \"2026-07-28\"}"
#define SAYS(method) "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " method "\r\n"

TEST(each_method_that_names_something_repeats_its_name_in_a_header)
{
    static const char *const named[][2] = {{"tools/call", "name"},     {"prompts/get", "name"},
                                           {"resources/read", "uri"},  {"tasks/get", "taskId"},
                                           {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        char message[300], headers[300];
        snprintf(message, sizeof message, "{\"method\": \"%s\", \"params\": {\"%s\": \"x\", " META_OF "}}", named[i][0],
                 named[i][1]);
        snprintf(headers, sizeof headers, SAYS("%s"), named[i][0]);
        ASSERT_STR(mismatch(headers, message), "Mcp-Name");
        snprintf(headers + strlen(headers), sizeof headers - strlen(headers), "Mcp-Name: x\r\n");
        ASSERT_STR(mismatch(headers, message), "");
        headers[strlen(headers) - 3] = 'y';
        ASSERT_STR(mismatch(headers, message), "Mcp-Name");
    }
    static const char list[] = "{\"method\": \"tools/list\", \"params\": {\"name\": \"x\", " META_OF "}}";
    ASSERT_STR(mismatch(SAYS("tools/list"), list), "");
    ASSERT_STR(mismatch(SAYS("tools/call"), list), "Mcp-Method");
    ASSERT_STR(mismatch("Mcp-Method: tools/list\r\n", list), "MCP-Protocol-Version");
    ASSERT_STR(mismatch("MCP-Protocol-Version: 2026-07-28\r\n", list), "Mcp-Method");
    ASSERT_STR(mismatch("", "{\"method\": \"tools/call\", \"params\": {\"name\": \"x\"}}"), "");
}

TEST(a_header_may_be_base64_where_its_value_cannot_be_written)
{
    static const char *const values[][2] = {{"=?base64?YQ==?=", "a"},
                                            {"=?base64?YWI=?=", "ab"},
                                            {"=?base64?YWJj?=", "abc"},
                                            {"=?base64?\?=", ""},
                                            {"=?base64?w6Q+/w==?=", NULL},
                                            {"=?base64?YQ=?=", NULL},
                                            {"=?base64?Y===?=", NULL},
                                            {"=?base64?=Q==?=", NULL},
                                            {"=?base64?YQ==YQ==?=", NULL},
                                            {"=?base64?w6Q=?=", "\xc3\xa4"},
                                            {"=?base64?Pz8/?=", "???"},
                                            {"=?base64?Pj4+?=", ">>>"},
                                            {"=?base64?=", "=?base64?="},
                                            {"=?base64?YQ==", "=?base64?YQ=="},
                                            {"?base64?YQ==?=", "?base64?YQ==?="}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char message[300], headers[300];
        snprintf(headers, sizeof headers, SAYS("prompts/get") "Mcp-Name: %s\r\n", values[i][0]);
        snprintf(message, sizeof message, "{\"method\": \"prompts/get\", \"params\": {\"name\": \"%s\", " META_OF "}}",
                 values[i][1] ? values[i][1] : "a");
        if (strcmp(mismatch(headers, message), values[i][1] ? "" : "Mcp-Name") != 0)
            test_fail(__FILE__, __LINE__, "%s", values[i][0]);
    }
}

TEST(an_argument_whose_schema_names_a_header_is_repeated_there_as_its_json)
{
    static const struct {
        const char *value, *header;
        bool fits;
    } some[] = {{"\"x\"", "x", true}, {"\"x\"", "y", false},  {"7", "7", true},
                {"7", "8", false},    {"true", "true", true}, {"\"7\"", "7", true}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char message[300], headers[300];
        snprintf(
            message, sizeof message,
            "{\"method\": \"tools/call\", \"params\": {\"name\": \"t\", \"arguments\": {\"a\": %s, \"b\": 1}, " META_OF
            "}}",
            some[i].value);
        snprintf(headers, sizeof headers, SAYS("tools/call") "Mcp-Name: t\r\nMcp-Param-A: %s\r\n", some[i].header);
        ASSERT_STR(mismatch(headers, message), some[i].fits ? "" : "Mcp-Param");
        ASSERT_STR(mismatch(SAYS("tools/call") "Mcp-Name: t\r\n", message), "Mcp-Param");
    }
    for (size_t i = 0; i < 2; i++) { /* what is not said needs no header */
        char message[300];
        snprintf(message, sizeof message,
                 "{\"method\": \"tools/call\", \"params\": {\"name\": \"t\", \"arguments\": {%s}, " META_OF "}}",
                 i ? "\"a\": null" : "\"b\": 1");
        ASSERT_STR(mismatch(SAYS("tools/call") "Mcp-Name: t\r\n", message), "");
    }
}

/* ---- languages ---- */

TEST(the_language_of_an_answer_is_the_one_that_is_asked_for_first_if_tasuki_has_it)
{
    static const struct {
        const char *header;
        enum lang lang;
    } some[] = {{"", LANG_ZH},
                {"Accept-Language: ja\r\n", LANG_JA},
                {"Accept-Language: en-US,ja\r\n", LANG_EN},
                {"Accept-Language: fr\r\n", LANG_ZH},
                {"Accept-Language: j\r\n", LANG_ZH},
                {"Accept-Language:\r\n", LANG_ZH}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct http_head head;
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s" END, some[i].header);
        ASSERT_INT(parse(text, strlen(text), &head), 0);
        ASSERT_INT(http_lang(&head, LANG_ZH), some[i].lang);
    }
}
