/* A connection of the Model Context Protocol without a transport: what its frames are, and what a link remembers. */
#include "base/utf8.h"
#include "harness/test.h"
#include "mcp/internal.h"
#include "unit/scene.h"

#include <stdlib.h>

static struct buf sent = BUF_INIT; /* the frames, a line each */
static struct mcp_frame last;

static void take(void *data, const struct mcp_frame *frame)
{
    (void)data;
    last = *frame;
    buf_put(&sent, frame->text, frame->len);
    buf_puts(&sent, "\n");
}

static struct mcp_link *open_link(struct mcp_server **ret)
{
    struct mcp_options options = {
        .root = "/nonexistent", .lang = LANG_EN, .tools = "all", .is_shared = true, .is_told = true};
    struct tsk_error err = {0};
    ASSERT(mcp_server_new(&options, ret, &err) == 0);
    return mcp_link_new(*ret, take, NULL);
}

static void close_link(struct mcp_link *link, struct mcp_server *server)
{
    mcp_link_end(link, 0);
    ASSERT(mcp_link_is_idle(link));
    mcp_link_free(link);
    mcp_server_free(server);
    buf_clear(&sent);
}

static json_t *json_of(const char *text)
{
    struct tsk_error err = {0};
    json_t *json = NULL;
    if (json_parse(text, strlen(text), "text", &json, &err) < 0)
        test_fail(__FILE__, __LINE__, "no JSON: %s", text);
    return json;
}

static const char *text_of(const json_t *json)
{
    static char text[4000];
    char *dump = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(text, sizeof text, "%s", dump);
    free(dump);
    return text;
}

/* ---- frames ---- */

TEST(what_asks_for_an_answer_is_a_request_or_no_message_at_all)
{
    static const struct {
        const char *message;
        bool wants;
    } messages[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", true},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", false},
        {"{\"jsonrpc\":\"1.0\",\"method\":\"m\"}", true},
        {"{\"method\":\"m\"}", true},
        {"{\"jsonrpc\":\"2.0\",\"method\":1}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{}}", false},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", true},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}", true},
        {"{\"jsonrpc\":\"2.0\",\"error\":{}}", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", false},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"error\":{}}", true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5,\"result\":{}}", true},
        {"[]", true},
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        json_t *message CLEANUP_JSON = json_of(messages[i].message);
        if (mcp_wants_answer(message) != messages[i].wants)
            test_fail(__FILE__, __LINE__, "%s", messages[i].message);
    }
}

TEST(each_frame_has_its_answer_its_number_and_its_code)
{
    static const struct {
        const char *frame, *answer;
        int error;
    } frames[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}", "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n",
         0},
        {"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}",
         "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":[]}",
         "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32602,\"message\":\"params must be an object\"}}\n",
         -32602},
        {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"nonsense\"}",
         "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601,\"message\":\"Method not found: nonsense\"}}\n",
         -32601},
        {"[{}]",
         "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Batches are not taken: one message per "
         "frame\"}}\n",
         -32600},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
         "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Not a JSON-RPC 2.0 message with a string or "
         "integer id\"}}\n",
         -32600},
        {"{\"jsonrpc\":\"1.0\",\"id\":9,\"method\":\"ping\"}",
         "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32600,\"message\":\"Not a JSON-RPC 2.0 message with a "
         "string or integer id\"}}\n",
         -32600},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}", "", 0},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}", "", 0},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", "", 0},
    };
    struct mcp_server *server;
    struct mcp_link *link = open_link(&server);
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        buf_reset(&sent);
        last = (struct mcp_frame){0};
        mcp_link_take(link, 40 + i, frames[i].frame, strlen(frames[i].frame));
        ASSERT_STR(buf_str(&sent), frames[i].answer);
        ASSERT_INT(last.error, frames[i].error);
        ASSERT_INT(last.about, *frames[i].answer ? 40 + i : 0);
        ASSERT(last.is_answer == (*frames[i].answer != '\0'));
    }
    close_link(link, server);
}

TEST(a_message_about_no_request_has_the_number_of_its_link_and_is_no_answer)
{
    struct mcp_server *server;
    struct mcp_link *link = open_link(&server);
    mcp_link_number(link, 99);
    mcp_link_notify(link, 0, "notifications/x", NULL);
    ASSERT_STR(buf_str(&sent), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
    ASSERT(last.about == 99 && !last.is_answer);
    mcp_link_notify(link, 5, "notifications/x", json_pack("{s:i}", "a", 1));
    ASSERT_STR(strchr(buf_str(&sent), '\n') + 1,
               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":1}}\n");
    ASSERT(last.about == 5 && !last.is_answer);
    close_link(link, server);
}

TEST(a_fault_of_any_length_is_text)
{
    for (size_t before = 1015; before <= 1024; before++) {
        char text[1200];
        struct mcp_fault fault = {0};
        memset(text, 'a', before);
        snprintf(text + before, sizeof text - before, "\xf0\x9f\x98\x80");
        ASSERT(!mcp_fault(&fault, -32603, "%s", text));
        ASSERT_INT(fault.code, -32603);
        ASSERT(utf8_is_valid(fault.message, strlen(fault.message)));
        ASSERT_INT(strlen(fault.message), before + 4 <= 1023 ? before + 4 : before <= 1023 ? before : 1023);
    }
}

TEST(a_capability_that_is_missing_is_named_where_the_client_declares_it)
{
    static const char *const capabilities[][2] = {
        {"elicitation", "{\"requiredCapabilities\":{\"elicitation\":{}}}"},
        {MCP_TASKS, "{\"requiredCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"}};
    for (size_t i = 0; i < 2; i++) {
        struct mcp_fault fault = {0};
        mcp_missing_capability(&fault, capabilities[i][0]);
        ASSERT_INT(fault.code, -32021);
        ASSERT(strstr(fault.message, capabilities[i][0]));
        ASSERT_STR(text_of(fault.data), capabilities[i][1]);
        json_decref(fault.data);
    }
}

/* ---- methods ---- */

TEST(each_method_is_of_its_era_and_each_legacy_version_is_known)
{
    static const char *const both[] = {"tools/list",     "tools/call",   "resources/list", "resources/templates/list",
                                       "resources/read", "prompts/list", "prompts/get",    "completion/complete"};
    static const char *const legacy[] = {"initialize", "ping", "logging/setLevel", "resources/subscribe",
                                         "resources/unsubscribe"};
    static const char *const modern[] = {"server/discover", "subscriptions/listen", "tasks/get", "tasks/update",
                                         "tasks/cancel"};
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++)
        ASSERT(mcp_method_find(both[i], false) && mcp_method_find(both[i], true));
    for (size_t i = 0; i < sizeof legacy / sizeof legacy[0]; i++)
        ASSERT(mcp_method_find(legacy[i], false) && !mcp_method_find(legacy[i], true));
    for (size_t i = 0; i < sizeof modern / sizeof modern[0]; i++)
        ASSERT(!mcp_method_find(modern[i], false) && mcp_method_find(modern[i], true));
    ASSERT_STR(mcp_legacy_version("2025-03-26"), "2025-03-26");
    ASSERT_STR(mcp_legacy_version("2025-06-18"), "2025-06-18");
    ASSERT_STR(mcp_legacy_version("2025-11-25"), "2025-11-25");
    ASSERT(!mcp_legacy_version("2024-11-05") && !mcp_legacy_version(MCP_MODERN) && !mcp_legacy_version(""));
}

TEST(each_log_level_of_the_protocol_is_taken_and_no_other)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    struct mcp_server *server;
    struct mcp_link *link = open_link(&server);
    json_t *state CLEANUP_JSON = json_of("{\"version\":\"2025-11-25\"}");
    mcp_link_restore(link, state);
    for (int i = 0; i <= 8; i++) {
        char frame[200];
        snprintf(frame, sizeof frame,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"%s\"}}",
                 i < 8 ? levels[i] : "loud");
        mcp_link_take(link, 1, frame, strlen(frame));
        json_t *now CLEANUP_JSON = mcp_link_state(link);
        ASSERT_INT(json_get_int(now, "log_level", -1), i < 8 ? i : 7);
        ASSERT_INT(last.error, i < 8 ? 0 : -32602);
    }
    close_link(link, server);
}

/* ---- what a link remembers ---- */

TEST(the_state_of_a_link_is_what_another_link_continues_with)
{
    struct mcp_server *server;
    struct mcp_link *link = open_link(&server), *other = mcp_link_new(server, take, NULL);
    ASSERT(!mcp_link_state(link));
    json_t *state CLEANUP_JSON =
        json_of("{\"version\":\"2025-06-18\",\"capabilities\":{\"elicitation\":{}},\"log_level\":3,"
                "\"subscriptions\":[\"tasuki://locks\"],\"client\":\"c\",\"instances\":[\"i\"]}");
    mcp_link_restore(link, state);
    json_t *kept CLEANUP_JSON = mcp_link_state(link);
    ASSERT(json_equal(kept, state));
    ASSERT(!mcp_link_is_idle(link)); /* somebody listens */
    json_t *nothing CLEANUP_JSON = json_of("{\"version\":\"1999-01-01\"}");
    mcp_link_restore(other, nothing);
    ASSERT(!mcp_link_state(other) && mcp_link_is_idle(other));
    mcp_link_leave(link);
    ASSERT(mcp_link_is_idle(link));
    mcp_link_free(other);
    close_link(link, server);
}

static size_t count_of(json_t *list_take)
{
    size_t count = json_array_size(list_take);
    json_decref(list_take);
    return count;
}

TEST(a_link_remembers_the_last_64_who_registered_and_each_other_caller_once)
{
    struct mcp_server *server;
    struct mcp_link *link = open_link(&server);
    const struct op *status = op_by_name("status"), *leave = op_by_name("own.leave"), *list = op_by_name("lock.list");
    mcp_link_hear(link, "x"); /* without a handshake nothing stays */
    ASSERT_INT(count_of(mcp_link_callers(link)), 0);
    json_t *state CLEANUP_JSON = json_of("{\"version\":\"2025-11-25\"}");
    mcp_link_restore(link, state);
    for (int i = 0; i < 65; i++) {
        json_t *answer CLEANUP_JSON = json_pack("{s:o, s:s}", "instance", json_sprintf("i%d", i), "secret", "s");
        mcp_link_remember(link, status, answer);
        ASSERT_INT(count_of(mcp_link_instances(link)), i < 64 ? i + 1 : 64);
    }
    json_t *instances CLEANUP_JSON = mcp_link_instances(link);
    ASSERT_STR(json_string_value(json_array_get(instances, 0)), "i1");
    ASSERT_STR(json_string_value(json_array_get(instances, 63)), "i64");
    json_t *open CLEANUP_JSON = json_of("{\"instance\":\"new\"}"),
                 *registered CLEANUP_JSON = json_of("{\"instance\":\"new\",\"secret\":\"s\"}"),
                 *none CLEANUP_JSON = json_of("{\"secret\":\"s\"}");
    mcp_link_remember(link, status, open);
    mcp_link_remember(link, status, none);
    mcp_link_remember(link, list, registered);
    ASSERT_INT(count_of(mcp_link_callers(link)), 64);
    mcp_link_hear(link, "i64");
    mcp_link_hear(link, "y");
    mcp_link_hear(link, "y");
    ASSERT_INT(count_of(mcp_link_callers(link)), 65);
    ASSERT_INT(count_of(mcp_link_instances(link)), 64);
    json_t *gone CLEANUP_JSON = json_of("{\"instance\":\"y\"}"), *other CLEANUP_JSON = json_of("{\"instance\":\"i3\"}");
    mcp_link_remember(link, leave, gone);
    ASSERT_INT(count_of(mcp_link_callers(link)), 64);
    mcp_link_remember(link, leave, other);
    mcp_link_remember(link, leave, gone);
    ASSERT_INT(count_of(mcp_link_instances(link)), 63);
    ASSERT_INT(count_of(mcp_link_callers(link)), 63);
    close_link(link, server);
}

/* ---- resources ---- */

TEST(an_event_changes_the_resources_of_what_it_is_about)
{
#define ALWAYS "\"tasuki://events\",\"tasuki://status\""
    static const char *const events[][2] = {
        {"{\"type\":\"x\"}", "[" ALWAYS "]"},
        {"{\"type\":\"x\",\"data\":{\"process_id\":\"p\"}}",
         "[" ALWAYS ",\"tasuki://processes\",\"tasuki://process/p\"]"},
        {"{\"type\":\"lock.acquired\",\"data\":{\"kind\":\"name\",\"id\":\"a b/c\"}}",
         "[" ALWAYS ",\"tasuki://locks\",\"tasuki://lock/name/a%20b%2Fc\"]"},
        {"{\"type\":\"LOCK_ACQUIRED\",\"data\":{\"kind\":\"queue\"}}",
         "[" ALWAYS ",\"tasuki://locks\",\"tasuki://lock/queue/queue\"]"},
        {"{\"type\":\"lock.released\",\"data\":{\"kind\":\"sprint\",\"id\":\"x\"}}",
         "[" ALWAYS ",\"tasuki://locks\",\"tasuki://lock/sprint/.sprint-running\"]"},
        {"{\"type\":\"lock.released\"}", "[" ALWAYS ",\"tasuki://locks\",\"tasuki://lock/?/\"]"},
        {"{\"type\":\"locked\",\"data\":{\"kind\":\"name\",\"id\":\"a\"}}", "[" ALWAYS "]"},
        {"{\"type\":\"x\",\"run_id\":\"RUN-1\"}", "[" ALWAYS ",\"tasuki://runs\",\"tasuki://run/RUN-1\"]"},
        {"{\"type\":\"lock.x\",\"run_id\":\"R\",\"data\":{\"process_id\":\"p\",\"kind\":\"request\",\"id\":\"q\"}}",
         "[" ALWAYS ",\"tasuki://processes\",\"tasuki://process/p\",\"tasuki://locks\",\"tasuki://lock/request/"
         "q\",\"tasuki://runs\",\"tasuki://run/R\"]"},
    };
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        json_t *event CLEANUP_JSON = json_of(events[i][0]), *uris CLEANUP_JSON = mcp_resources_of_event(event);
        ASSERT_STR(text_of(uris), events[i][1]);
    }
}

TEST(a_template_is_named_as_it_is_listed)
{
    ASSERT(mcp_resource_is_template("tasuki://process/{id}") && mcp_resource_is_template("tasuki://lock/{kind}/{id}"));
    ASSERT(mcp_resource_is_template("tasuki://process/{id}/log{?stream,tail}") &&
           mcp_resource_is_template("tasuki://run/{id}"));
    ASSERT(!mcp_resource_is_template("tasuki://status") && !mcp_resource_is_template("tasuki://process/a"));
}
