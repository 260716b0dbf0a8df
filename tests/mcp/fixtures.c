#include "fixtures.h"
#include "mcp/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(words) "{\"content\":[{\"type\":\"text\",\"text\":\"" words "\"}]}"
#define STEP_MS     50 /* between two messages about one call, as the suite describes its tools */

static const struct mcp_fixture *fixture_of(const struct mcp_request *request)
{
    return request->tool->extra_data;
}

static const json_t *argument(const struct mcp_request *request, const char *name)
{
    return json_object_get(json_object_get(request->params, "arguments"), name);
}

/* ---- progress and log ---- */

static json_t *run_progress(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)fault;
    for (int percent = 0; percent <= 100; percent += 50) {
        mcp_request_progress(request, percent, 100);
        mcp_request_sleep(request, STEP_MS);
    }
    return mcp_text_result("Progress was reported.", false);
}

static json_t *run_logging(struct mcp_request *request, struct mcp_fault *fault)
{
    static const char *const lines[] = {"Tool execution started", "Tool processing data", "Tool execution completed"};
    (void)fault;
    bool wants = !request->is_modern || json_object_get(json_object_get(request->params, "_meta"), MCP_META "logLevel");
    for (size_t i = 0; i < 3; i++) {
        if (wants)
            mcp_link_notify(request->link, request->about, "notifications/message",
                            json_pack("{s:s, s:s}", "level", "info", "data", lines[i]));
        mcp_request_sleep(request, STEP_MS);
    }
    return mcp_text_result("Three lines were logged.", false);
}

/* ---- asking the client, legacy ---- */

static json_t *ask_client(struct mcp_request *request, const char *capability, const char *method, json_t *params,
                          const char *prefix, struct mcp_fault *fault)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (request->is_modern || !mcp_client_has(request, capability)) {
        json_decref(params);
        return mcp_missing_capability(fault, capability);
    }
    json_t *response CLEANUP_JSON = mcp_request_ask(request, method, params, 30000);
    const json_t *result = json_object_get(response, "result");
    buf_puts(&text, prefix);
    if (result)
        json_write(&text, result, false);
    return mcp_text_result(buf_str(&text), !result);
}

static json_t *run_sampling(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *prompt = json_string_value(argument(request, "prompt"));
    return ask_client(request, "sampling", "sampling/createMessage",
                      json_pack("{s:[{s:s, s:{s:s, s:s}}], s:i}", "messages", "role", "user", "content", "type", "text",
                                "text", prompt ? prompt : "", "maxTokens", 100),
                      "LLM response: ", fault);
}

static json_t *elicit(struct mcp_request *request, const char *message, const char *properties, const char *required,
                      struct mcp_fault *fault)
{
    json_t *params = json_pack("{s:s, s:{s:s, s:o}}", "message", message, "requestedSchema", "type", "object",
                               "properties", json_loads(properties, 0, NULL));
    if (required)
        json_object_set_new(json_object_get(params, "requestedSchema"), "required", json_loads(required, 0, NULL));
    return ask_client(request, "elicitation", "elicitation/create", params, "Elicitation completed: ", fault);
}

static json_t *run_elicitation(struct mcp_request *request, struct mcp_fault *fault)
{
    const char *message = json_string_value(argument(request, "message"));
    return elicit(request, message ? message : "Please answer",
                  "{\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
                  "\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}}",
                  "[\"username\",\"email\"]", fault);
}

static json_t *run_defaults(struct mcp_request *request, struct mcp_fault *fault)
{
    return elicit(
        request, "Please check the defaults",
        "{\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
        "\"age\":{\"type\":\"integer\",\"default\":30},\"score\":{\"type\":\"number\",\"default\":95.5},"
        "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
        "\"verified\":{\"type\":\"boolean\",\"default\":true}}",
        NULL, fault);
}

static json_t *run_enums(struct mcp_request *request, struct mcp_fault *fault)
{
    return elicit(
        request, "Please choose",
        "{\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},"
        "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},"
        "{\"const\":\"value2\",\"title\":\"Second Option\"}]},"
        "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
        "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
        "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
        "\"option3\"]}},"
        "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First Choice\"},"
        "{\"const\":\"value2\",\"title\":\"Second Choice\"}]}}}",
        NULL, fault);
}

/* ---- the modern era's own ---- */

static json_t *run_missing(struct mcp_request *request, struct mcp_fault *fault)
{
    if (!mcp_client_has(request, "sampling"))
        return mcp_missing_capability(fault, "sampling");
    return mcp_text_result("The client has sampling.", false);
}

static json_t *run_tool_change(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)fault;
    mcp_listen_list_changed(request->link->server, true);
    return mcp_text_result("The tools have changed.", false);
}

static json_t *run_prompt_change(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)fault;
    mcp_listen_list_changed(request->link->server, false);
    return mcp_text_result("The prompts have changed.", false);
}

static json_t *run_greet(struct mcp_request *request, struct mcp_fault *fault)
{
    char text[256];
    const char *name = json_string_value(argument(request, "name"));
    (void)fault;
    snprintf(text, sizeof text, "Hello, %.200s!", name ? name : "World");
    return mcp_text_result(text, false);
}

/* Any round trip: what came back, as text. */
static json_t *run_round(struct mcp_request *request, struct mcp_fault *fault)
{
    json_t *unfinished;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *answers CLEANUP_JSON = round_answers(request, fixture_of(request)->round, &unfinished, fault);
    if (!answers)
        return unfinished;
    const char *name = json_get_string(json_at(answers, "user_name.content"), "name", NULL);
    if (name)
        buf_printf(&text, "Hello, %s! ", name);
    buf_puts(&text, "state-ok ");
    json_write(&text, answers, false);
    if ((fixture_of(request)->flags & FIXTURE_MUST_TASK) && !task_begin(request))
        return mcp_fault(fault, MCP_INTERNAL, "The task could not be kept");
    return mcp_text_result(buf_str(&text), false);
}

/* ---- tasks ---- */

static json_t *run_slow(struct mcp_request *request, struct mcp_fault *fault)
{
    int64_t seconds = json_integer_value(argument(request, "seconds"));
    (void)fault;
    if (!mcp_request_sleep(request, seconds * 1000))
        return mcp_text_result("It was cancelled.", true);
    return mcp_text_result("It is computed.", false);
}

static json_t *run_failing(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)fault;
    mcp_request_sleep(request, 2 * STEP_MS);
    return mcp_text_result("This job fails.", true);
}

static json_t *run_broken(struct mcp_request *request, struct mcp_fault *fault)
{
    (void)request;
    return mcp_fault(fault, MCP_INTERNAL, "This job breaks");
}

static json_t *question(const char *message)
{
    return json_pack("{s:s, s:{s:s, s:{s:s, s:{s:{s:s}}, s:[s]}}}", "method", "elicitation/create", "params", "message",
                     message, "requestedSchema", "type", "object", "properties", "confirm", "type", "boolean",
                     "required", "confirm");
}

static json_t *ask_in_task(struct mcp_request *request, json_t *questions, struct mcp_fault *fault)
{
    if (!request->task) {
        json_decref(questions);
        return mcp_missing_capability(fault, MCP_TASKS);
    }
    json_t *answers CLEANUP_JSON = task_ask(request, questions);
    return mcp_text_result(answers ? "It was answered." : "It was cancelled.", !answers);
}

static json_t *run_delete(struct mcp_request *request, struct mcp_fault *fault)
{
    return ask_in_task(request, json_pack("{s:o}", "confirm", question("Delete it?")), fault);
}

static json_t *run_multi(struct mcp_request *request, struct mcp_fault *fault)
{
    return ask_in_task(
        request, json_pack("{s:o, s:o}", "first", question("The first?"), "second", question("The second?")), fault);
}

/* ---- the table ---- */

#define IMAGE "{\"type\":\"image\",\"data\":\"" PIXEL_PNG "\",\"mimeType\":\"image/png\"}"
#define AUDIO "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
#define ONE_STRING(name)                                                                                               \
    "{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},\"required\":[\"" name "\"]}"
#define SCHEMA_2020                                                                                                    \
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{\"address\":{"       \
    "\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{"       \
    "\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/"          \
    "address\"},"                                                                                                      \
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},"          \
    "\"email\":{"                                                                                                      \
    "\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{"   \
    "\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{"            \
    "\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}"
#define HEADERS                                                                                                        \
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}},"              \
    "\"required\":[\"region\"]}"
#define RESOURCE(uri, type, text)                                                                                      \
    "{\"type\":\"resource\",\"resource\":{\"uri\":\"" uri "\",\"mimeType\":\"" type "\",\"text\":\"" text "\"}}"

static const struct mcp_fixture tools[] = {
    {.name = "test_simple_text", .result = TEXT("This is a simple text response for testing.")},
    {.name = "test_image_content", .result = "{\"content\":[" IMAGE "]}"},
    {.name = "test_audio_content",
     .result = "{\"content\":[{\"type\":\"audio\",\"data\":\"" AUDIO "\",\"mimeType\":\"audio/wav\"}]}"},
    {.name = "test_embedded_resource",
     .result = "{\"content\":[" RESOURCE("test://embedded-resource", "text/plain",
                                         "This is an embedded resource content.") "]}"},
    {.name = "test_multiple_content_types",
     .result = "{\"content\":[{\"type\":\"text\",\"text\":\"Multiple content types test:\"}," IMAGE "," RESOURCE(
         "test://mixed-content-resource", "application/json", "{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}") "]}"},
    {.name = "test_error_handling",
     .result = "{\"content\":[{\"type\":\"text\",\"text\":\"This tool intentionally returns an error for testing\"}],"
               "\"isError\":true}"},
    {.name = "test_tool_with_logging", .run = run_logging},
    {.name = "test_logging_tool", .run = run_logging},
    {.name = "test_tool_with_progress", .run = run_progress},
    {.name = "test_sampling", .schema = ONE_STRING("prompt"), .run = run_sampling},
    {.name = "test_elicitation", .schema = ONE_STRING("message"), .run = run_elicitation},
    {.name = "test_elicitation_sep1034_defaults", .run = run_defaults},
    {.name = "test_elicitation_sep1330_enums", .run = run_enums},
    {.name = "test_reconnection", .result = TEXT("Reconnection test completed successfully.")},
    {.name = "json_schema_2020_12_tool", .schema = SCHEMA_2020, .result = TEXT("JSON Schema 2020-12")},
    {.name = "test_custom_headers", .schema = HEADERS, .result = TEXT("The headers agree.")},
    {.name = "test_missing_capability", .run = run_missing},
    {.name = "test_streaming_elicitation", .run = run_round, .round = &round_name},
    {.name = "test_trigger_tool_change", .run = run_tool_change},
    {.name = "test_trigger_prompt_change", .run = run_prompt_change},
    {.name = "test_input_required_result_elicitation", .run = run_round, .round = &round_name},
    {.name = "test_input_required_result_sampling", .run = run_round, .round = &round_sampling},
    {.name = "test_input_required_result_list_roots", .run = run_round, .round = &round_roots},
    {.name = "test_input_required_result_request_state", .run = run_round, .round = &round_confirm},
    {.name = "test_input_required_result_tampered_state", .run = run_round, .round = &round_confirm},
    {.name = "test_input_required_result_multiple_inputs", .run = run_round, .round = &round_many},
    {.name = "test_input_required_result_multi_round", .run = run_round, .round = &round_steps},
    {.name = "test_input_required_result_capabilities", .run = run_round, .round = &round_many},
    {.name = "greet", .schema = ONE_STRING("name"), .run = run_greet},
    {.name = "slow_compute",
     .schema =
         "{\"type\":\"object\",\"properties\":{\"seconds\":{\"type\":\"integer\"},\"label\":{\"type\":\"string\"}}}",
     .run = run_slow,
     .flags = FIXTURE_MAY_TASK},
    {.name = "failing_job", .run = run_failing, .flags = FIXTURE_MUST_TASK},
    {.name = "protocol_error_job", .run = run_broken, .flags = FIXTURE_MAY_TASK},
    {.name = "confirm_delete", .schema = ONE_STRING("filename"), .run = run_delete, .flags = FIXTURE_MAY_TASK},
    {.name = "multi_input", .run = run_multi, .flags = FIXTURE_MAY_TASK},
    {.name = "test_tool_with_task", .run = run_round, .round = &round_name, .flags = FIXTURE_MUST_TASK},
};

static json_t *definition(const struct mcp_fixture *fixture)
{
    json_t *schema = fixture->schema ? json_loads(fixture->schema, 0, NULL)
                                     : json_pack("{s:s, s:b}", "type", "object", "additionalProperties", false);
    return json_pack("{s:s, s:s, s:o}", "name", fixture->name, "description", "A fixture of the conformance suite.",
                     "inputSchema", schema);
}

static void add_tools(struct mcp_server *server)
{
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
        mcp_add_tool(server, (struct mcp_tool){.name = tools[i].name, .extra_data = &tools[i]}, definition(&tools[i]));
}

static json_t *call(struct mcp_request *request, struct mcp_fault *fault)
{
    const struct mcp_fixture *fixture = fixture_of(request);
    if ((fixture->flags & FIXTURE_MUST_TASK) && request->is_modern && !mcp_client_has_tasks(request))
        return mcp_missing_capability(fault, MCP_TASKS);
    if (fixture->result)
        return json_loads(fixture->result, 0, NULL);
    /* A tool that asks first becomes a task when it has its answers. */
    if (fixture->flags && !fixture->round && mcp_client_has_tasks(request))
        task_begin(request);
    return fixture->run(request, fault);
}

const struct mcp_extra fixtures = {.add_tools = add_tools,
                                   .call = call,
                                   .add_resources = fixture_add_resources,
                                   .read = fixture_read,
                                   .add_prompts = fixture_add_prompts,
                                   .has_prompt = fixture_has_prompt,
                                   .get_prompt = fixture_prompt};
