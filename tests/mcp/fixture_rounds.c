#include "fixtures.h"
#include "ops/confirm.h"

#include <string.h>

#define ASK(message, properties, required)                                                                             \
    "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"" message                                            \
    "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" properties "},\"required\":[\"" required "\"]}}}"
#define SAMPLE(text)                                                                                                   \
    "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":"       \
    "\"text\",\"text\":\"" text "\"}}],\"maxTokens\":100}}"
#define ROOTS "{\"method\":\"roots/list\",\"params\":{}}"
#define NAME  ASK("What is your name?", "\"name\":{\"type\":\"string\"}", "name")

static const struct mcp_round round_step2 = {
    .questions =
        "{\"step2\":" ASK("Step 2: What is your favorite color?", "\"color\":{\"type\":\"string\"}", "color") "}",
    .has_state = true};
const struct mcp_round round_steps = {
    .questions = "{\"step1\":" ASK("Step 1: What is your name?", "\"name\":{\"type\":\"string\"}", "name") "}",
    .has_state = true,
    .after = &round_step2};
const struct mcp_round round_name = {.questions = "{\"user_name\":" NAME "}"};
const struct mcp_round round_sampling = {.questions =
                                             "{\"capital_question\":" SAMPLE("What is the capital of France?") "}"};
const struct mcp_round round_roots = {.questions = "{\"client_roots\":" ROOTS "}"};
const struct mcp_round round_confirm = {
    .questions = "{\"confirm\":" ASK("Please confirm", "\"ok\":{\"type\":\"boolean\"}", "ok") "}", .has_state = true};
const struct mcp_round round_many = {
    .questions = "{\"user_name\":" NAME ",\"greeting\":" SAMPLE("Generate a greeting") ",\"client_roots\":" ROOTS "}",
    .has_state = true};
const struct mcp_round round_context = {.questions = "{\"user_context\":" ASK("What context should the prompt use?",
                                                                              "\"context\":{\"type\":\"string\"}",
                                                                              "context") "}"};

/* Whether the client said that it can answer it. */
static bool is_askable(const struct mcp_request *request, const json_t *question)
{
    const char *method = json_get_string(question, "method", "");
    char capability[32] = "";
    memcpy(capability, method, strcspn(method, "/") < sizeof capability ? strcspn(method, "/") : 0);
    return mcp_client_has(request, capability);
}

static bool is_answer(const json_t *question, const json_t *answer)
{
    const char *method = json_get_string(question, "method", "");
    if (strcmp(method, "elicitation/create") == 0)
        return json_is_object(answer) && json_is_object(json_object_get(answer, "content"));
    return json_is_object(answer);
}

static json_t *ask(struct mcp_request *request, const struct mcp_round *round, struct mcp_fault *fault)
{
    json_t *questions = json_loads(round->questions, 0, NULL), *question;
    const char *key;
    void *next;
    char token[CONFIRM_TOKEN_SIZE];
    struct tsk_error err;
    BUG(!questions);
    json_object_foreach_safe(questions, next, key, question) if (!is_askable(request, question))
        json_object_del(questions, key);
    json_t *result = json_pack("{s:s, s:o}", "resultType", "input_required", "inputRequests", questions);
    if (!round->has_state)
        return result;
    json_t *record CLEANUP_JSON = json_pack("{s:s}", "question", round->questions);
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    if (ws && confirm_ask(ws, record, token, &err) == 0) {
        json_object_set_new(result, "requestState", json_string(token));
        return result;
    }
    json_decref(result);
    return mcp_fault(fault, MCP_INTERNAL, "The fixture needs a workspace");
}

/* The round that a state belongs to: this one or one after it; NULL when it is no state of ours. */
static const struct mcp_round *round_of_state(struct mcp_request *request, const struct mcp_round *round)
{
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    json_t *record CLEANUP_JSON = NULL;
    struct tsk_error err;
    if (!ws || confirm_take(ws, json_get_string(request->params, "requestState", ""), &record, &err) < 0)
        return NULL;
    while (round && strcmp(json_get_string(record, "question", ""), round->questions) != 0)
        round = round->after;
    return round;
}

json_t *round_answers(struct mcp_request *request, const struct mcp_round *round, json_t **ret_result,
                      struct mcp_fault *fault)
{
    const json_t *answers = json_object_get(request->params, "inputResponses");
    *ret_result = NULL;
    if (answers && !json_is_object(answers))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "inputResponses must be an object");
    if (json_object_get(request->params, "requestState") && !(round = round_of_state(request, round)))
        return mcp_fault(fault, MCP_INVALID_PARAMS, "requestState is not one of this call, or was used, or is over");
    json_t *questions CLEANUP_JSON = json_loads(round->questions, 0, NULL);
    bool has_all = answers != NULL;
    json_each_pair (questions, key, question)
        has_all = has_all && is_answer(question, json_object_get(answers, key));
    if (has_all && !round->after)
        return json_deep_copy(answers);
    *ret_result = ask(request, has_all ? round->after : round, fault);
    return NULL;
}
