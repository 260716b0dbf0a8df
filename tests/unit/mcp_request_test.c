/* A request of MCP and the clock: when it says that it goes on, becomes a task, or has no answer in time; and what it may say. */
#include "base/json.h"
#include "harness/test.h"
#include "mcp/internal.h"
#include "unit/scene.h"

#include <stdlib.h>

enum { LIMIT_MS = REMOTE_WAIT_MAX_MS + 1000, BEGAN_MS = 100000 };

static struct buf sent = BUF_INIT;
static int answers, last_error;

static void take(void *data, const struct mcp_frame *frame)
{
    (void)data;
    buf_put(&sent, frame->text, frame->len);
    buf_puts(&sent, "\n");
    answers += frame->is_answer;
    last_error = frame->error;
}

struct scene_of_link {
    struct mcp_server *server;
    struct mcp_link *link;
    json_t *id, *params, *capabilities;
    struct mcp_request request;
};

/* A running tool, of a client that knows tasks if `has_tasks`. */
static void open_request(struct scene_of_link *scene, const char *params, const char *capabilities, bool is_modern)
{
    struct mcp_options options = {.root = "/nonexistent", .lang = LANG_EN, .tools = "all", .is_told = true};
    struct tsk_error err = {0};
    ASSERT_OK(mcp_server_new(&options, &scene->server, &err));
    scene->link = mcp_link_new(scene->server, take, NULL);
    scene->id = json_integer(7);
    ASSERT_OK(json_parse(params, strlen(params), "params", &scene->params, &err));
    ASSERT_OK(json_parse(capabilities, strlen(capabilities), "capabilities", &scene->capabilities, &err));
    scene->request = (struct mcp_request){.link = scene->link,
                                          .about = 3,
                                          .id = scene->id,
                                          .params = scene->params,
                                          .capabilities = scene->capabilities,
                                          .method = mcp_method_find("tools/call", is_modern),
                                          .tool = mcp_tool_find(scene->server, "wait_for"),
                                          .is_modern = is_modern,
                                          .began_ms = BEGAN_MS,
                                          .progress = -1};
    ASSERT(scene->request.tool);
    buf_reset(&sent);
    answers = last_error = 0;
}

static void close_request(struct scene_of_link *scene)
{
    mcp_link_end(scene->link, 0);
    mcp_link_free(scene->link);
    mcp_server_free(scene->server);
    json_decref(scene->id);
    json_decref(scene->params);
    json_decref(scene->capabilities);
    buf_clear(&sent);
}

#define WITH_TASKS "{\"extensions\":{\"" MCP_TASKS "\":{}}}"

TEST(a_call_says_after_a_second_that_it_goes_on_and_then_every_five)
{
    struct scene_of_link scene;
    open_request(&scene, "{\"_meta\":{\"progressToken\":\"t\"}}", "{}", false);
    struct mcp_request *request = &scene.request;
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 999), DUE_NOTHING);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 1000), DUE_PROGRESS);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 1000), DUE_NOTHING);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 5999), DUE_NOTHING);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 6000), DUE_PROGRESS);
    mcp_request_tick(request, DUE_PROGRESS, BEGAN_MS + 6999);
    mcp_request_tick(request, DUE_PROGRESS, BEGAN_MS + 6999); /* grows, or is not said */
    mcp_request_tick(request, DUE_NOTHING, BEGAN_MS + 9000);
    mcp_request_tick(request, DUE_PROGRESS, BEGAN_MS + 8000);
    ASSERT_STR(buf_str(&sent), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                               "progress\",\"params\":{\"progressToken\":\"t\",\"progress\":6}}\n"
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                               "progress\",\"params\":{\"progressToken\":\"t\",\"progress\":8}}\n");
    close_request(&scene);
}

TEST(a_call_that_takes_longer_than_a_wait_may_is_answered_once_with_how_it_goes_on)
{
    struct scene_of_link scene;
    open_request(&scene, "{}", "{}", false);
    struct mcp_request *request = &scene.request;
    request->progress_ms = BEGAN_MS + LIMIT_MS;
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + LIMIT_MS - 1), DUE_NOTHING);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + LIMIT_MS), DUE_GO_ON);
    ASSERT(request->is_answered);
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + 2 * LIMIT_MS), DUE_NOTHING);
    mcp_request_tick(request, DUE_GO_ON, BEGAN_MS + LIMIT_MS);
    ASSERT(strstr(buf_str(&sent),
                  "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"NOT YET: "));
    ASSERT(strstr(buf_str(&sent), "\"isError\":true}}\n") && strstr(buf_str(&sent), "wait_for"));
    ASSERT(answers == 1 && last_error == 0);
    request->is_answered = false;
    request->tool = NULL; /* only a tool has that */
    ASSERT_INT(mcp_request_due(request, BEGAN_MS + LIMIT_MS), DUE_NOTHING);
    close_request(&scene);
}

TEST(a_call_becomes_a_task_after_a_second_where_the_client_knows_tasks_and_one_can_be_made)
{
    static const struct {
        const char *capabilities;
        bool is_modern, has_tool, has_no_task, is_task;
    } calls[] = {{WITH_TASKS, true, true, false, true},
                 {WITH_TASKS, true, true, true, false},
                 {WITH_TASKS, true, false, false, false},
                 {WITH_TASKS, false, true, false, false},
                 {"{}", true, true, false, false},
                 {"{\"extensions\":{}}", true, true, false, false},
                 {"{\"extensions\":{\"" MCP_TASKS "\":true}}", true, true, false, false}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct scene_of_link scene;
        open_request(&scene, "{}", calls[i].capabilities, calls[i].is_modern);
        if (!calls[i].has_tool)
            scene.request.tool = NULL;
        scene.request.has_no_task = calls[i].has_no_task;
        ASSERT(mcp_request_due(&scene.request, BEGAN_MS + 999) == DUE_NOTHING);
        if ((mcp_request_due(&scene.request, BEGAN_MS + 1000) == DUE_TASK) != calls[i].is_task)
            test_fail(__FILE__, __LINE__, "call %zu", i);
        close_request(&scene);
    }
}

TEST(nothing_is_due_for_what_is_answered_or_cancelled)
{
    struct scene_of_link scene;
    open_request(&scene, "{}", WITH_TASKS, true);
    scene.request.is_answered = true;
    ASSERT_INT(mcp_request_due(&scene.request, BEGAN_MS + 2 * LIMIT_MS), DUE_NOTHING);
    scene.request.is_answered = false;
    scene.request.is_cancelled = true;
    ASSERT_INT(mcp_request_due(&scene.request, BEGAN_MS + 2 * LIMIT_MS), DUE_NOTHING);
    close_request(&scene);
}

TEST(progress_is_said_to_who_gave_a_token_while_the_request_is_open_and_only_if_it_grows)
{
    static const struct {
        const char *params;
        bool is_said;
    } tokens[] = {{"{\"_meta\":{\"progressToken\":0}}", true},
                  {"{\"_meta\":{\"progressToken\":\"\"}}", true},
                  {"{\"_meta\":{\"progressToken\":1.5}}", false},
                  {"{\"_meta\":{}}", false},
                  {"{\"progressToken\":1}", false},
                  {"{}", false}};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        struct scene_of_link scene;
        open_request(&scene, tokens[i].params, "{}", false);
        mcp_request_progress(&scene.request, 0, 0);
        ASSERT(!sent.len == !tokens[i].is_said);
        ASSERT(!strstr(buf_str(&sent), "total"));
        buf_reset(&sent);
        mcp_request_progress(&scene.request, 0, 0);
        scene.request.is_answered = true;
        mcp_request_progress(&scene.request, 1, 0);
        scene.request.is_answered = false;
        scene.request.is_cancelled = true;
        mcp_request_progress(&scene.request, 1, 0);
        ASSERT_INT(sent.len, 0);
        scene.request.is_cancelled = false;
        mcp_request_progress(&scene.request, 1, 2);
        ASSERT(!strstr(buf_str(&sent), "\"progress\":1,\"total\":2}}\n") == !tokens[i].is_said);
        close_request(&scene);
    }
}

/* ---- what the client can do ---- */

TEST(a_client_shows_forms_if_it_says_so_or_names_no_other_way)
{
    static const struct {
        const char *capabilities;
        bool has_forms;
    } some[] = {{"{\"elicitation\":{}}", true},
                {"{\"elicitation\":{\"form\":{}}}", true},
                {"{\"elicitation\":{\"form\":{},\"url\":{}}}", true},
                {"{\"elicitation\":{\"url\":{}}}", false},
                {"{\"elicitation\":true}", false},
                {"{}", false}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct scene_of_link scene;
        open_request(&scene, "{}", some[i].capabilities, false);
        ASSERT(mcp_client_has_forms(&scene.request) == some[i].has_forms);
        ASSERT(mcp_client_has(&scene.request, "elicitation") == (i < 4));
        ASSERT(!mcp_client_has(&scene.request, "sampling"));
        close_request(&scene);
    }
}

/* ---- answers ---- */

TEST(a_modern_result_has_its_type_its_server_and_its_hints_beside_what_it_has_itself)
{
    static const struct {
        const char *method, *result, *answer;
        bool is_modern;
    } results[] = {
        {"tools/call", "{\"a\":1}", "{\"a\":1}", false},
        {"tools/list", "{}", "{}", false},
        {"tools/call", "{\"a\":1}", "{\"a\":1,\"resultType\":\"complete\",\"_meta\":{SERVER}}", true},
        {"tools/call", "{\"resultType\":\"task\"}", "{\"resultType\":\"task\",\"_meta\":{SERVER}}", true},
        {"tools/call", "{\"_meta\":{\"x\":1}}", "{\"_meta\":{\"x\":1,SERVER},\"resultType\":\"complete\"}", true},
        {"tools/list", "{}", "{\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\",\"_meta\":{SERVER}}",
         true},
    };
    static const char server[] =
        "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"tasuki\",\"version\":\"" TASUKI_VERSION "\"}";
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        struct scene_of_link scene;
        struct mcp_fault none = {0};
        struct tsk_error err = {0};
        json_t *result = NULL;
        char want[1000];
        const char *gap = strstr(results[i].answer, "SERVER");
        snprintf(want, sizeof want, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":%.*s%s%s}\n",
                 gap ? (int)(gap - results[i].answer) : 1000, results[i].answer, gap ? server : "", gap ? gap + 6 : "");
        open_request(&scene, "{}", "{}", results[i].is_modern);
        scene.request.method = mcp_method_find(results[i].method, results[i].is_modern);
        ASSERT_OK(json_parse(results[i].result, strlen(results[i].result), "result", &result, &err));
        mcp_request_answer(&scene.request, result, &none);
        ASSERT_STR(buf_str(&sent), want);
        ASSERT_INT(answers, 1);
        close_request(&scene);
    }
}

TEST(a_fault_is_an_answer_with_its_code_and_its_data)
{
    struct scene_of_link scene;
    struct mcp_fault fault = {0};
    open_request(&scene, "{}", "{}", true);
    fault.data = json_pack("{s:s}", "uri", "x");
    ASSERT(!mcp_fault(&fault, MCP_INVALID_PARAMS, "no %s", "good"));
    mcp_request_answer(&scene.request, NULL, &fault);
    ASSERT_STR(buf_str(&sent), "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32602,\"message\":\"no "
                               "good\",\"data\":{\"uri\":\"x\"}}}\n");
    ASSERT(answers == 1 && last_error == -32602 && !fault.data);
    buf_reset(&sent);
    snprintf(fault.message, sizeof fault.message, "\xff");
    mcp_request_answer(&scene.request, NULL, &fault);
    ASSERT_STR(buf_str(&sent), "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32602,\"message\":\"Invalid\"}}\n");
    close_request(&scene);
}

/* ---- waiting ---- */

TEST(who_sleeps_is_woken_by_the_end_and_a_question_that_nobody_answers_is_taken_back)
{
    struct scene_of_link scene;
    open_request(&scene, "{}", "{}", false);
    struct mcp_request *request = &scene.request;
    ASSERT(mcp_request_sleep(request, 0) && mcp_request_sleep(request, 1));
    ASSERT(!mcp_request_is_over(request));
    ASSERT(!mcp_request_ask(request, "elicitation/create", json_object(), 0));
    ASSERT(!mcp_request_ask(request, "elicitation/create", json_object(), 0));
    static const char *const lines[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"elicitation/create\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2,"};
    const char *at = buf_str(&sent);
    for (size_t i = 0; i < 4; i++)
        ASSERT((at = strstr(at, lines[i])));
    ASSERT(!scene.link->questions);
    request->is_cancelled = true;
    ASSERT(mcp_request_is_over(request) && !mcp_request_sleep(request, 60000));
    ASSERT(!mcp_request_ask(request, "elicitation/create", json_object(), 60000));
    request->is_cancelled = false;
    mcp_link_end(scene.link, 0);
    ASSERT(mcp_request_is_over(request) && !mcp_request_sleep(request, 60000));
    buf_reset(&sent);
    ASSERT(!mcp_request_ask(request, "elicitation/create", json_object(), 60000));
    ASSERT(!strstr(buf_str(&sent), "notifications/cancelled")); /* nobody is there to hear it */
    close_request(&scene);
}
