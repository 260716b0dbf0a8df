/* confirm.c - what a person must decide (spec 3, spec 8), by the way that the client has:
 *   legacy with elicitation    asked at once, 30 s, no answer is a no
 *   modern with elicitation    a round trip: input_required with the question and a token as requestState
 *   neither                    NEEDS_CONFIRMATION with the token, for `tasuki confirm` or the page
 * `confirm: true` is an agent's own yes: enough for what a dead holder left, never for a living one unless config.yaml has
 * agents_confirm_live: true. */
#include "ops/confirm.h"
#include "mcp/internal.h"
#include "mcp/task.h"

#include <stdlib.h>
#include <string.h>

#define KEY        "confirm" /* of the round trip's one question */
#define TEXT_NEEDS "mcp_confirm_token"

void mcp_asking_clear(struct mcp_asking *asking)
{
    free(asking->approved);
    free(asking->question);
    *asking = (struct mcp_asking){0};
}

static json_t *form(const char *question)
{
    return json_pack("{s:s, s:{s:s, s:{s:{s:s, s:s, s:b}}, s:[s]}}", "message", question, "requestedSchema", "type",
                     "object", "properties", KEY, "type", "boolean", "title", "Yes, do it", "default", false,
                     "required", KEY);
}

/* What a form came back with. */
static bool is_yes(const json_t *answer)
{
    return strcmp(json_get_string(answer, "action", ""), "accept") == 0 &&
           json_get_bool(json_object_get(answer, "content"), KEY, false);
}

/* ---- before the operation ---- */

static json_t *record_of(const struct mcp_request *request, const struct op *op, const json_t *args)
{
    return json_pack("{s:s, s:O, s:s, s:s}", "operation", op->name, "args", args, "instance",
                     mcp_server_instance(request->link->server), "question",
                     request->asking.question ? request->asking.question : "");
}

/* C4: the yes was for this call of this caller. */
static bool is_for_this(const struct mcp_request *request, const struct op *op, const json_t *args,
                        const json_t *record)
{
    return strcmp(json_get_string(record, "operation", ""), op->name) == 0 &&
           json_equal(json_object_get(record, "args"), args) &&
           strcmp(json_get_string(record, "instance", ""), mcp_server_instance(request->link->server)) == 0;
}

static void approve(struct mcp_asking *asking, const json_t *record)
{
    asking->approved = strdup(json_get_string(record, "question", ""));
}

static int begin_token(struct mcp_request *request, const struct op *op, const json_t *args, const char *token,
                       struct tsk_error *err)
{
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    json_t *record CLEANUP_JSON = NULL, *taken CLEANUP_JSON = NULL;
    if (!ws)
        return error_set(err, TSK_NOT_FOUND, "confirm_gone", "token", token, NULL);
    if (confirm_look(ws, token, &record, err) < 0)
        return -1;
    if (!is_for_this(request, op, args, record))
        return error_set(err, TSK_INVALID_INPUT, "mcp_confirm_other", "token", token, NULL);
    if (!json_get_bool(record, "approved", false)) {
        error_set(err, TSK_NEEDS_CONFIRMATION, TEXT_NEEDS, "question", json_get_string(record, "question", ""),
                  "confirm_token", token, NULL);
        error_add_next(err, "tasuki confirm %s", token);
        return -1;
    }
    if (confirm_take(ws, token, &taken, err) < 0)
        return -1;
    approve(&request->asking, taken);
    return 0;
}

static int begin_round_trip(struct mcp_request *request, const struct op *op, const json_t *args, const char *state,
                            struct mcp_fault *fault)
{
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    const json_t *answer = json_object_get(json_object_get(request->params, "inputResponses"), KEY);
    json_t *record CLEANUP_JSON = NULL;
    struct tsk_error err;
    if (!ws || confirm_take(ws, state, &record, &err) < 0 || !is_for_this(request, op, args, record)) {
        mcp_fault(fault, MCP_INVALID_PARAMS, "requestState is not one of this call, or was used, or is over");
        return -1;
    }
    if (is_yes(answer)) {
        approve(&request->asking, record);
    } else if (json_is_object(answer)) {
        request->asking.is_refused = true;
        request->asking.question = strdup(json_get_string(record, "question", ""));
    } /* else the answer is missing, and the question will be put again */
    return 0;
}

int mcp_asking_begin(struct mcp_request *request, const struct op *op, json_t *args, struct tsk_error *err,
                     struct mcp_fault *fault)
{
    const char *state = request->is_modern ? json_get_string(request->params, "requestState", NULL) : NULL;
    if (!op_asks(op))
        return 0;
    request->asking.says_yes = json_get_bool(args, "confirm", false);
    json_t *token CLEANUP_JSON = json_incref(json_object_get(args, "confirm_token"));
    json_object_del(args, "confirm");
    json_object_del(args, "confirm_token");
    if (state)
        return begin_round_trip(request, op, args, state, fault);
    return json_is_string(token) ? begin_token(request, op, args, json_string_value(token), err) : 0;
}

/* ---- in the operation ---- */

static bool may_decide_alone(const struct op_call *call)
{
    struct tsk_error ignored;
    bool is_allowed = false;
    if (call->asks_about_dead)
        return true;
    return call->ws && workspace_config_bool(call->ws, "agents_confirm_live", false, &is_allowed, &ignored) == 0 &&
           is_allowed;
}

bool mcp_asking_confirm(struct op_call *call, const char *question)
{
    struct mcp_request *request = call->skin;
    struct mcp_asking *asking = &request->asking;
    if (asking->approved && strcmp(asking->approved, question) == 0)
        return true;
    if (asking->is_refused)
        return false;
    if (asking->says_yes && may_decide_alone(call))
        return true;
    free(asking->question);
    asking->question = strdup(question);
    if (request->is_modern || !mcp_client_has_forms(request)) {
        asking->is_open = true;
        return false;
    }
    json_t *response CLEANUP_JSON = mcp_request_ask(request, "elicitation/create", form(question), CONFIRM_TTL_MS);
    asking->is_refused = !is_yes(json_object_get(response, "result"));
    return !asking->is_refused;
}

/* ---- after it ---- */

/* Over a refusal that says who holds what, or an answer that says it in other words. */
static void needs_confirmation(struct tsk_error *err, const char *text, const char *question)
{
    if (err->code == TSK_OK)
        error_set(err, TSK_NEEDS_CONFIRMATION, text, NULL);
    err->code = TSK_NEEDS_CONFIRMATION;
    err->text = text;
    error_clear_next(err);
    error_add(err, "question", question);
}

json_t *mcp_asking_end(struct mcp_request *request, const struct op *op, const json_t *args, struct tsk_error *err)
{
    struct mcp_asking *asking = &request->asking;
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    char token[CONFIRM_TOKEN_SIZE];
    if (asking->is_refused) {
        needs_confirmation(err, "mcp_declined", asking->question);
        return NULL;
    }
    json_t *record CLEANUP_JSON = record_of(request, op, args);
    struct tsk_error problem = {0};
    if (!ws || confirm_ask(ws, record, token, &problem) < 0) {
        if (ws)
            *err = problem;
        return NULL;
    }
    if (request->is_modern && mcp_client_has_forms(request))
        return json_pack("{s:s, s:{s:{s:s, s:o}}, s:s}", "resultType", "input_required", "inputRequests", KEY, "method",
                         "elicitation/create", "params", form(asking->question), "requestState", token);
    needs_confirmation(err, TEXT_NEEDS, asking->question);
    error_add(err, "confirm_token", token);
    error_add_int(err, "expires_in_ms", CONFIRM_TTL_MS);
    error_add_next(err, "tasuki confirm %s", token);
    return NULL;
}
