/* request.c - one request: its worker, its one answer (mcp.h, M4), and what is said and asked meanwhile. */
#include "base/clock.h"
#include "base/word.h"
#include "mcp/internal.h"
#include "mcp/pool.h"
#include "mcp/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PROGRESS_FIRST_MS = 1000,
    PROGRESS_EVERY_MS = 5000,
    TASK_AFTER_MS = 1000, /* a client that knows tasks gets one for what takes longer */
    ANSWER_LIMIT_MS =
        REMOTE_WAIT_MAX_MS + 1000, /* a wait answers by itself; what takes longer continues without its call */
};

/* What every result of the modern era carries. */
static void stamp_result(const struct mcp_request *request, json_t *result)
{
    if (!request->is_modern)
        return;
    if (!json_object_get(result, "resultType"))
        json_object_set_new(result, "resultType", json_string("complete"));
    if (request->method->flags & MCP_CACHEABLE) {
        json_object_set_new(result, "ttlMs", json_integer(0));
        json_object_set_new(result, "cacheScope", json_string("private"));
    }
    json_t *meta = json_object_get(result, "_meta");
    if (!meta) {
        meta = json_object();
        json_object_set_new(result, "_meta", meta);
    }
    json_object_set_new(meta, MCP_META "serverInfo",
                        json_pack("{s:s, s:s}", "name", "tasuki", "version", TASUKI_VERSION));
}

void mcp_request_answer(struct mcp_request *request, json_t *result_take, struct mcp_fault *fault)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (result_take) {
        stamp_result(request, result_take);
        mcp_put_frame(&b, request->id, "result", result_take);
        mcp_link_answer(request->link, request->about, &b, 0);
        json_decref(result_take);
    } else {
        mcp_link_fault(request->link, request->about, request->id, fault);
    }
}

/* ---- the client ---- */

bool mcp_client_has(const struct mcp_request *request, const char *capability)
{
    return json_is_object(json_object_get(request->capabilities, capability));
}

bool mcp_client_has_forms(const struct mcp_request *request)
{
    const json_t *elicitation = json_object_get(request->capabilities, "elicitation");
    return json_is_object(elicitation) && (json_object_size(elicitation) == 0 || json_object_get(elicitation, "form"));
}

bool mcp_client_has_tasks(const struct mcp_request *request)
{
    const json_t *extensions = json_object_get(request->capabilities, "extensions");
    return request->is_modern && json_is_object(json_object_get(extensions, MCP_TASKS));
}

bool mcp_request_is_over(struct mcp_request *request)
{
    pthread_mutex_lock(&request->link->mutex);
    bool is_over = request->is_cancelled || request->link->is_ended;
    pthread_mutex_unlock(&request->link->mutex);
    return is_over;
}

void mcp_request_may_signal(struct mcp_request *request, bool may)
{
    pthread_mutex_lock(&request->link->mutex);
    request->may_signal = may;
    pthread_mutex_unlock(&request->link->mutex);
}

void mcp_request_progress(struct mcp_request *request, int64_t progress, int64_t total)
{
    const json_t *token = json_object_get(json_object_get(request->params, "_meta"), "progressToken");
    pthread_mutex_lock(&request->link->mutex);
    bool is_due = (json_is_string(token) || json_is_integer(token)) && !request->is_answered &&
                  !request->is_cancelled && progress > request->progress;
    if (is_due)
        request->progress = progress;
    pthread_mutex_unlock(&request->link->mutex);
    if (!is_due)
        return;
    json_t *params = json_pack("{s:o, s:I}", "progressToken", json_deep_copy(token), "progress", (json_int_t)progress);
    if (total)
        json_object_set_new(params, "total", json_integer(total));
    mcp_link_notify(request->link, request->about, "notifications/progress", params);
}

json_t *mcp_request_ask(struct mcp_request *request, const char *method, json_t *params_take, int64_t timeout_ms)
{
    struct mcp_link *link = request->link;
    struct mcp_question question = {0}, **at;
    struct timespec end = clock_deadline(CLOCK_MONOTONIC, timeout_ms);
    pthread_mutex_lock(&link->mutex);
    question.id = ++link->last_question;
    question.next = link->questions;
    link->questions = &question;
    pthread_mutex_unlock(&link->mutex);
    json_t *id CLEANUP_JSON = json_integer(question.id);
    mcp_link_message(link, request->about, id, method, params_take);
    json_decref(params_take);
    pthread_mutex_lock(&link->mutex);
    for (int result = 0; !question.answer && !request->is_cancelled && !link->is_ended && result == 0;)
        result = pthread_cond_timedwait(&link->changed, &link->mutex, &end);
    for (at = &link->questions; *at != &question; at = &(*at)->next)
        ;
    *at = question.next;
    bool is_open = !question.answer && !link->is_ended;
    pthread_mutex_unlock(&link->mutex);
    if (is_open) /* so that nobody answers what nobody will hear */
        mcp_link_notify(link, request->about, "notifications/cancelled",
                        json_pack("{s:O, s:s}", "requestId", id, "reason", "nobody waits for the answer any more"));
    return question.answer;
}

bool mcp_request_sleep(struct mcp_request *request, int64_t ms)
{
    struct mcp_link *link = request->link;
    int result = 0;
    struct timespec end = clock_deadline(CLOCK_MONOTONIC, ms);
    pthread_mutex_lock(&link->mutex);
    while (!request->is_cancelled && !link->is_ended && result == 0)
        result = pthread_cond_timedwait(&link->changed, &link->mutex, &end);
    pthread_mutex_unlock(&link->mutex);
    return result != 0;
}

/* ---- its life ---- */

/* With the mutex held. */
void mcp_request_signal(struct mcp_request *request)
{
    if (request->has_worker && request->may_signal)
        pthread_kill(request->worker, SIGINT);
}

void mcp_request_free(struct mcp_request *request)
{
    if (request->is_wait)
        atomic_fetch_sub(&request->link->server->waits, 1);
    mcp_asking_clear(&request->asking);
    task_drop(request->task);
    json_decref(request->message);
    free(request);
}

static void request_unlist(struct mcp_request *request)
{
    struct mcp_link *link = request->link;
    struct mcp_request **at;
    pthread_mutex_lock(&link->mutex);
    for (at = &link->running; *at && *at != request; at = &(*at)->next)
        ;
    if (*at)
        *at = request->next;
    request->has_worker = false;
    while (request->is_held)
        pthread_cond_wait(&link->changed, &link->mutex);
    if (request->is_wait) /* here, because a thread that finds no request left may free the link */
        atomic_fetch_sub(&link->server->waits, 1);
    request->is_wait = false;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
}

static void request_finish(struct mcp_request *request, json_t *result, struct mcp_fault *fault)
{
    /* What was interrupted because nobody waits any more has no answer; what was done all the same has. */
    bool is_error = !result || json_is_true(json_object_get(result, "isError"));
    pthread_mutex_lock(&request->link->mutex);
    struct mcp_task *task = request->task;
    bool is_due = (result || fault->code) && !request->is_answered && !(request->is_cancelled && is_error); /* M4 */
    request->is_answered = true;
    pthread_mutex_unlock(&request->link->mutex);
    if (task)
        task_end(task, result, fault);
    else if (is_due)
        mcp_request_answer(request, json_incref(result), fault);
    json_decref(result);
    json_decref(fault->data);
}

static void request_work(void *arg)
{
    struct mcp_request *request = arg;
    struct mcp_fault fault = {0};
    pthread_mutex_lock(&request->link->mutex);
    request->worker = pthread_self();
    request->has_worker = true;
    bool is_cancelled = request->is_cancelled;
    pthread_mutex_unlock(&request->link->mutex);
    json_t *result =
        is_cancelled ? mcp_fault(&fault, MCP_INTERNAL, "cancelled") : request->method->run(request, &fault);
    request_finish(request, result, &fault);
    request_unlist(request);
    mcp_request_free(request);
}

/* Which tool is called is known before the call is in line: the clock and the limits are for it, too. */
static void find_tool(struct mcp_request *request)
{
    const char *name = json_get_string(request->params, "name", NULL);
    const json_t *args = json_object_get(request->params, "arguments");
    if (request->method->run != mcp_tools_call || !name)
        return;
    request->tool = mcp_tool_find(request->link->server, name);
    const struct op *op = request->tool ? request->tool->op : NULL;
    request->is_wait = op && (op->flags & OP_WAITS) && (!op_param_find(op, "wait") || json_object_get(args, "wait"));
}

/* Those who wait must leave threads to those who do not. */
static json_t *too_many(const struct mcp_request *request)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&b, "NOT YET: ");
    text_put(&b, request->link->server->options.lang, "mcp_too_many_waits", "count", DIGITS(MCP_WAITS_MAX), NULL);
    return mcp_text_result(buf_str(&b), true);
}

void mcp_request_start(struct mcp_request *request)
{
    struct mcp_link *link = request->link;
    struct mcp_fault fault = {0};
    find_tool(request);
    if (request->is_wait && atomic_fetch_add(&link->server->waits, 1) >= MCP_WAITS_MAX) {
        mcp_request_answer(request, too_many(request), &fault);
        mcp_request_free(request);
        return;
    }
    if (!(request->method->flags & MCP_WORKER)) {
        json_t *result = request->method->run(request, &fault);
        request_finish(request, result, &fault);
        mcp_request_free(request);
        return;
    }
    request->began_ms = clock_now().boot_ms;
    pthread_mutex_lock(&link->mutex);
    request->next = link->running;
    link->running = request;
    pthread_mutex_unlock(&link->mutex);
    pool_submit(link->server->pool, request_work, request);
}

/* ---- the clock ---- */

static json_t *goes_on(const struct mcp_request *request)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&b, "NOT YET: ");
    text_put(&b, request->link->server->options.lang, "mcp_goes_on", "tool", request->tool ? request->tool->name : "?",
             "span", DURATION(ANSWER_LIMIT_MS), NULL);
    return mcp_text_result(buf_str(&b), true);
}

/* With the mutex held. */
enum mcp_due mcp_request_due(struct mcp_request *request, int64_t now_ms)
{
    int64_t age = now_ms - request->began_ms;
    if (request->task && !request->is_cancelled)
        task_look(request);
    if (request->is_cancelled)
        mcp_request_signal(request);
    if (request->is_answered || request->task || request->is_cancelled)
        return DUE_NOTHING;
    if (age >= TASK_AFTER_MS && request->tool && request->tool->op && !request->has_no_task &&
        mcp_client_has_tasks(request))
        return DUE_TASK;
    if (age >= ANSWER_LIMIT_MS && request->tool) {
        request->is_answered = true;
        return DUE_GO_ON;
    }
    if (age >= PROGRESS_FIRST_MS && now_ms - request->progress_ms >= PROGRESS_EVERY_MS) {
        request->progress_ms = now_ms;
        return DUE_PROGRESS;
    }
    return DUE_NOTHING;
}

void mcp_request_tick(struct mcp_request *request, enum mcp_due due, int64_t now_ms)
{
    struct mcp_fault fault = {0};
    if (due == DUE_PROGRESS)
        mcp_request_progress(request, (now_ms - request->began_ms) / 1000, 0);
    else if (due == DUE_GO_ON)
        mcp_request_answer(request, goes_on(request), &fault); /* request_due has claimed it */
    else if (due == DUE_TASK)
        task_begin(request);
}
