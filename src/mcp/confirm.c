/* confirm.c - asks a person for a decision, in the way that the client supports:
 *   legacy with elicitation    asked at once, 30 s
 *   modern with elicitation    a round trip: input_required with the question and a token as requestState; in a task, by the task
 *   neither                    NEEDS_CONFIRMATION with the token, for `tasuki confirm`; where `force` does it: without a token
 * Only a person's no is a no. A form that was closed, failed or was never shown (many clients do that by themselves) says nothing
 * about the person: then there is the token, too.
 *
 * `confirm: true` is an agent's own yes: enough for what a dead holder left, never for a living one unless config.yaml has
 * agents_confirm_live: true. */
#include "ops/confirm.h"
#include "mcp/internal.h"
#include "mcp/task.h"

#include <stdlib.h>
#include <string.h>

#define KEY        "confirm" /* of the round trip's one question */
#define FORM       "form"
#define TOKEN      CONFIRM_BY_TOKEN
#define TEXT_NEEDS "mcp_confirm_token"

void mcp_asking_clear(struct mcp_asking *asking)
{
    free(asking->approved);
    free(asking->question);
    *asking = (struct mcp_asking){0};
}

static json_t *confirm_form(const char *question)
{
    return json_pack("{s:s, s:{s:s, s:{s:{s:s, s:s, s:b}}, s:[s]}}", "message", question, "requestedSchema", "type",
                     "object", "properties", KEY, "type", "boolean", "title", "Yes, do it", "default", false,
                     "required", KEY);
}

/* What a form came back with. */
enum reply { REPLY_NONE, REPLY_NO, REPLY_YES };

static enum reply reply_of(const json_t *answer)
{
    const char *action = json_get_string(answer, "action", "");
    const json_t *choice = json_object_get(json_object_get(answer, "content"), KEY);
    if (strcmp(action, "decline") == 0)
        return REPLY_NO;
    if (strcmp(action, "accept") != 0 || !json_is_boolean(choice))
        return REPLY_NONE;
    return json_is_true(choice) ? REPLY_YES : REPLY_NO;
}

/* ---- before the operation ---- */

/* `way`: a form's state must not pass for a token, nor a token for the answer to a form that nobody has seen. */
static json_t *record_of(const struct mcp_request *request, const struct op *op, const json_t *args, const char *way)
{
    return json_pack("{s:s, s:O, s:s, s:s, s:s, s:b}", "operation", op->name, "args", args, "instance",
                     mcp_server_instance(request->link->server), "question",
                     request->asking.question ? request->asking.question : "", "way", way, "is_dead",
                     request->asking.is_dead);
}

/* C4: the yes was for this call of this caller. */
static bool is_for_this(const struct mcp_request *request, const struct op *op, const json_t *args,
                        const json_t *record, const char *way)
{
    return json_text_is(record, "operation", op->name) && json_text_is(record, "way", way) &&
           json_equal(json_object_get(record, "args"), args) &&
           json_text_is(record, "instance", mcp_server_instance(request->link->server));
}

static void asking_approve(struct mcp_asking *asking, const json_t *record)
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
    if (!is_for_this(request, op, args, record, TOKEN))
        return error_set(err, TSK_INVALID_INPUT, "mcp_confirm_other", "token", token, NULL);
    if (!json_get_bool(record, "approved", false)) {
        error_set(err, TSK_NEEDS_CONFIRMATION, TEXT_NEEDS, "question", json_get_string(record, "question", ""),
                  "confirm_token", token, NULL);
        return error_add_next(err, "tasuki confirm %s", token);
    }
    if (confirm_take(ws, token, &taken, err) < 0)
        return -1;
    asking_approve(&request->asking, taken);
    return 0;
}

static int begin_round_trip(struct mcp_request *request, const struct op *op, const json_t *args, const char *state,
                            struct mcp_fault *fault)
{
    struct tsk_workspace *ws = mcp_server_workspace(request->link->server);
    const json_t *answer = json_object_get(json_object_get(request->params, "inputResponses"), KEY);
    json_t *record CLEANUP_JSON = NULL, *taken CLEANUP_JSON = NULL;
    struct tsk_error err;
    /* First a look: a call with other arguments must not use the state up. */
    if (!ws || !mcp_client_has_forms(request) || confirm_look(ws, state, &record, &err) < 0 ||
        !is_for_this(request, op, args, record, FORM) || confirm_take(ws, state, &taken, &err) < 0) {
        mcp_fault(fault, MCP_INVALID_PARAMS, "requestState is not one of this call, or was used, or is over");
        return -1;
    }
    switch (reply_of(answer)) {
    case REPLY_YES:
        asking_approve(&request->asking, taken);
        break;
    case REPLY_NO:
        request->asking.is_refused = true;
        request->asking.question = strdup(json_get_string(taken, "question", ""));
        break;
    case REPLY_NONE: /* without any answer the question is put again */
        request->asking.by_token = json_is_object(answer);
    }
    return 0;
}

/* Takes a parameter of the confirmation out of the arguments; NULL: absent. */
static json_t *take_arg(json_t *args, const char *name)
{
    json_t *value = json_incref(json_object_get(args, name));
    json_object_del(args, name);
    return value;
}

static int wrong_type(const char *name, const char *want, struct tsk_error *err)
{
    return error_set(err, TSK_INVALID_INPUT, "param_type", "param", name, "value", "?", "want", want, NULL);
}

int mcp_asking_begin(struct mcp_request *request, const struct op *op, json_t *args, struct tsk_error *err,
                     struct mcp_fault *fault)
{
    const char *state = request->is_modern ? json_get_string(request->params, "requestState", NULL) : NULL;
    if (!op_asks(op))
        return 0;
    json_t *yes CLEANUP_JSON = take_arg(args, "confirm"), *token CLEANUP_JSON = take_arg(args, "confirm_token");
    if (yes && !json_is_boolean(yes) && !json_is_null(yes))
        return wrong_type("confirm", "boolean", err);
    if (token && !json_is_string(token) && !json_is_null(token))
        return wrong_type("confirm_token", "string", err);
    request->asking.says_yes = json_is_true(yes);
    if (state)
        return begin_round_trip(request, op, args, state, fault);
    return json_is_string(token) ? begin_token(request, op, args, json_string_value(token), err) : 0;
}

/* ---- in the operation ---- */

static bool may_decide_alone(const struct op_call *call)
{
    struct tsk_error ignored;
    bool is_allowed = false;
    if (call->asks_about_dead || call->has_force)
        return true;
    return call->ws && workspace_config_bool(call->ws, "agents_confirm_live", &is_allowed, &ignored) == 0 && is_allowed;
}

/* Sends the form to the party that waits for it: a legacy client, or the client of the task. */
static enum reply put_form(struct mcp_request *request, const char *question)
{
    json_t *answer CLEANUP_JSON = NULL;
    if (request->is_modern) {
        answer = task_ask(request, json_pack("{s:{s:s, s:o}}", KEY, "method", "elicitation/create", "params",
                                             confirm_form(question)));
        return reply_of(json_object_get(answer, KEY));
    }
    answer = mcp_request_ask(request, "elicitation/create", confirm_form(question), CONFIRM_TTL_MS);
    return reply_of(json_object_get(answer, "result"));
}

/* Whether the call is a task. If not, it must not become one any more: its answer is a question. */
static bool is_task(struct mcp_request *request)
{
    pthread_mutex_lock(&request->link->mutex);
    bool has_task = request->task != NULL;
    request->has_no_task = !has_task;
    pthread_mutex_unlock(&request->link->mutex);
    return has_task;
}

/* As a form shows it: the keys to press are a terminal's. */
static char *plain_question(const char *question)
{
    const char *keys = strstr(question, " [y/N]");
    return keys ? strndup(question, (size_t)(keys - question)) : strdup(question);
}

bool mcp_asking_confirm(struct op_call *call, const char *shown)
{
    struct mcp_request *request = call->skin;
    struct mcp_asking *asking = &request->asking;
    char *question CLEANUP_FREE = plain_question(shown);
    if (asking->approved && strcmp(asking->approved, question) == 0)
        return true;
    if (asking->is_refused)
        return false;
    if (asking->says_yes && may_decide_alone(call))
        return true;
    free(asking->question);
    asking->question = strdup(question);
    asking->is_dead = call->asks_about_dead;
    /* With `force` the refusal stands as it is, unless the client can show a form. */
    asking->is_open = !call->has_force || (mcp_client_has_forms(request) && !asking->by_token);
    if (asking->by_token || !mcp_client_has_forms(request) || (request->is_modern && !is_task(request)))
        return false;
    enum reply reply = put_form(request, question);
    asking->by_token = reply == REPLY_NONE;
    asking->is_refused = reply == REPLY_NO;
    asking->is_open = reply == REPLY_NONE && !call->has_force;
    return reply == REPLY_YES;
}

/* ---- after it ---- */

/* Over a refusal that says who holds what, or an answer that says it in other words. */
static void tool_needs_confirmation(struct tsk_error *err, const char *text, const char *question)
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
        tool_needs_confirmation(err, "mcp_declined", asking->question);
        return NULL;
    }
    bool has_form = request->is_modern && mcp_client_has_forms(request) && !asking->by_token;
    json_t *record CLEANUP_JSON = record_of(request, op, args, has_form ? FORM : TOKEN);
    struct tsk_error problem = {0};
    if (!ws || confirm_ask(ws, record, token, &problem) < 0) {
        if (ws)
            *err = problem;
        return NULL;
    }
    if (has_form)
        return json_pack("{s:s, s:{s:{s:s, s:o}}, s:s}", "resultType", "input_required", "inputRequests", KEY, "method",
                         "elicitation/create", "params", confirm_form(asking->question), "requestState", token);
    tool_needs_confirmation(err, asking->is_dead ? "mcp_confirm_dead" : TEXT_NEEDS, asking->question);
    error_add(err, "confirm_token", token);
    error_add_int(err, "confirm_token_expires_in_ms", CONFIRM_TTL_MS);
    error_add_next(err, "tasuki confirm %s", token);
    return NULL;
}
