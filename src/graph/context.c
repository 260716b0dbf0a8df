/* context.c - the public functions of the graph engine: thin, over model, plan, channel and pool. */
#include "base/ident.h"
#include "graph/follow.h"
#include "graph/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CYCLES_DEFAULT 10
#define WORKERS_MAX        1024

struct tsk_graph {
    struct graph graph;
};

int tsk_graph_new(struct tsk_graph **ret, struct tsk_error *err)
{
    struct tsk_graph *graph = malloc(sizeof *graph);
    if (!graph)
        return error_no_memory(err, "build", "graph");
    if (graph_init(&graph->graph, err) < 0) {
        free(graph);
        return -1;
    }
    *ret = graph;
    return 0;
}

void tsk_graph_free(struct tsk_graph *graph)
{
    if (!graph)
        return;
    graph_clear(&graph->graph);
    free(graph);
}

static RARE int is_sealed(struct tsk_error *err)
{
    return error_set(err, TSK_INVALID_INPUT, "graph_is_sealed", NULL);
}

static inline int refuse_sealed(const struct tsk_graph *graph, struct tsk_error *err)
{
    return graph->graph.is_sealed ? is_sealed(err) : 0;
}

static RARE int unknown_number(struct tsk_error *err, const char *what, uint32_t number)
{
    error_set(err, TSK_INVALID_INPUT, "graph_unknown", "what", what, NULL);
    return error_add_int(err, "number", number);
}

static RARE int check_given_name(const char *name, struct tsk_error *err)
{
    return id_is_valid(name) ? 0
                             : error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "name", "value", name, NULL);
}

static inline int check_name(const char *name, struct tsk_error *err)
{
    return name ? check_given_name(name, err) : 0;
}

static RARE int has_no_function(const char *name, struct tsk_error *err)
{
    return error_set(err, TSK_INVALID_INPUT, "graph_no_function", "task", name ? name : "", NULL);
}

int tsk_graph_task(struct tsk_graph *graph, uint32_t scope, const char *name, tsk_task_function *function, void *arg,
                   uint32_t *ret_task, struct tsk_error *err)
{
    if (refuse_sealed(graph, err) < 0 || check_name(name, err) < 0)
        return -1;
    if (scope >= graph->graph.scopes.count)
        return unknown_number(err, "scope", scope);
    if (!function)
        return has_no_function(name, err);
    return graph_add_task(&graph->graph, scope, name, function, arg, ret_task, err);
}

int tsk_graph_edge(struct tsk_graph *graph, uint32_t before, uint32_t after, struct tsk_error *err)
{
    if (refuse_sealed(graph, err) < 0)
        return -1;
    if (before >= graph->graph.nodes.count || after >= graph->graph.nodes.count)
        return unknown_number(err, "task", before >= graph->graph.nodes.count ? before : after);
    return graph_add_edge(&graph->graph, before, after, err);
}

int tsk_graph_group(struct tsk_graph *graph, uint32_t scope, const char *name, enum tsk_policy policy, uint32_t number,
                    uint32_t *ret_group, struct tsk_error *err)
{
    uint32_t node;
    if (refuse_sealed(graph, err) < 0 || check_name(name, err) < 0)
        return -1;
    if (scope >= graph->graph.scopes.count || (unsigned)policy >= POLICY_COUNT)
        return unknown_number(err, "scope", scope);
    if (graph_add_group(&graph->graph, scope, name, policy, &node, err) < 0)
        return -1;
    graph_group(&graph->graph, graph_node(&graph->graph, node)->detail)->at_least = number;
    *ret_group = node;
    return 0;
}

static bool is_group(const struct tsk_graph *graph, uint32_t node)
{
    return node < graph->graph.nodes.count && graph_node(&graph->graph, node)->is_group;
}

int tsk_graph_branch(struct tsk_graph *graph, uint32_t group, const char *name, bool is_critical, uint32_t *ret_scope,
                     struct tsk_error *err)
{
    if (refuse_sealed(graph, err) < 0 || check_name(name, err) < 0)
        return -1;
    if (!is_group(graph, group))
        return unknown_number(err, "group", group);
    if (graph_add_branch(&graph->graph, group, name, ret_scope, err) < 0)
        return -1;
    graph_scope(&graph->graph, *ret_scope)->is_critical = is_critical;
    return 0;
}

/* The detail of a task, or NULL with the error set. */
static struct task_detail *detail_of_task(struct tsk_graph *graph, uint32_t task, struct tsk_error *err)
{
    if (refuse_sealed(graph, err) < 0)
        return NULL;
    if (task >= graph->graph.nodes.count || is_group(graph, task)) {
        unknown_number(err, "task", task);
        return NULL;
    }
    struct task_detail *detail = graph_detail(&graph->graph, task);
    if (!detail)
        error_no_memory(err, "build", "graph");
    return detail;
}

int tsk_graph_retry(struct tsk_graph *graph, uint32_t task, unsigned retries, int64_t initial_ms, int64_t max_ms,
                    struct tsk_error *err)
{
    struct task_detail *detail = detail_of_task(graph, task, err);
    if (!detail)
        return -1;
    detail->retries = retries > INT32_MAX ? INT32_MAX : (int32_t)retries;
    detail->backoff_initial_ms = initial_ms < 0 ? 0 : initial_ms;
    detail->backoff_max_ms = max_ms < 0 ? 0 : max_ms;
    return 0;
}

int tsk_graph_max_cycles(struct tsk_graph *graph, uint32_t task, unsigned max, struct tsk_error *err)
{
    struct task_detail *detail = detail_of_task(graph, task, err);
    if (!detail)
        return -1;
    detail->max_cycles = max;
    return 0;
}

int tsk_graph_merge(struct tsk_graph *graph, const char *key, enum tsk_merge rule, struct tsk_error *err)
{
    if (refuse_sealed(graph, err) < 0)
        return -1;
    if ((unsigned)rule >= MERGE_COUNT || !channel_key_is_valid(key))
        return error_set(err, TSK_INVALID_INPUT, "channel_key", "key", key, NULL);
    return graph_add_rule(&graph->graph, key, rule, err);
}

/* ---- contexts ------------------------------------------------------------------------------------------- */

static unsigned default_workers(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > WORKERS_MAX ? WORKERS_MAX : (unsigned)count;
}

static void options_take(struct tsk_context *context, const struct tsk_context_options *options)
{
    if (options)
        memcpy(&context->options, options, options->size < sizeof *options ? options->size : sizeof *options);
    context->worker_count = context->options.workers ? context->options.workers : default_workers();
    if (context->worker_count > WORKERS_MAX)
        context->worker_count = WORKERS_MAX;
    unsigned retries = context->options.retries;
    int64_t initial_ms = context->options.backoff_initial_ms, max_ms = context->options.backoff_max_ms;
    context->retry_default =
        (struct task_detail){.retries = retries > INT32_MAX ? INT32_MAX : (int32_t)retries,
                             .backoff_initial_ms = initial_ms > 0 ? initial_ms : BACKOFF_INITIAL_MS,
                             .backoff_max_ms = max_ms > 0 ? max_ms : BACKOFF_MAX_MS,
                             .backoff_factor = BACKOFF_FACTOR};
    context->plan.max_cycles = context->options.max_cycles ? context->options.max_cycles : MAX_CYCLES_DEFAULT;
}

static int context_new(const struct graph *graph, const char *session_id, struct channel *parent,
                       struct tsk_context **ret, struct tsk_error *err)
{
    char random[17];
    struct tsk_context *context = calloc(1, sizeof *context);
    if (!context)
        return error_no_memory(err, "build", "graph");
    random_hex(random, 16);
    context->graph = graph;
    context->cycles = json_object();
    atomic_init(&context->next_retry_ms, INT64_MAX);
    pthread_mutex_init(&context->mutex, NULL);
    sem_init(&context->wake, 0, 0);
    if (session_init(&context->session, session_id ? session_id : random, parent, true, err) < 0 ||
        plan_init(&context->plan, graph, NULL, context, err) < 0) {
        tsk_context_free(context);
        return -1;
    }
    *ret = context;
    return 0;
}

int tsk_context_create(struct tsk_graph *graph, const struct tsk_context_options *options, struct tsk_context **ret,
                       struct tsk_error *err)
{
    struct tsk_context *context;
    if (options && options->session_id && !id_is_valid(options->session_id))
        return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "session_id", "value", options->session_id,
                         NULL);
    if (graph_seal(&graph->graph, err) < 0)
        return -1;
    if (context_new(&graph->graph, options ? options->session_id : NULL, NULL, &context, err) < 0)
        return -1;
    options_take(context, options);
    *ret = context;
    return 0;
}

static void cycles_keep(struct tsk_context *context, const char *task, unsigned count)
{
    if ((json_int_t)count > json_integer_value(json_object_get(context->cycles, task)))
        json_object_set_new(context->cycles, task, json_integer(count));
}

int tsk_context_begin_at(struct tsk_context *context, const char *task, struct tsk_error *err)
{
    if (context->has_run)
        return error_set(err, TSK_INVALID_INPUT, "context_has_run", NULL);
    uint32_t node = graph_find(context->graph, task);
    if (node == NO_NODE)
        return error_set(err, TSK_INVALID_INPUT, "start_unknown", "task", task, NULL);
    if (!context->is_wanted)
        context->is_wanted = calloc(context->graph->nodes.count, 1);
    if (!context->is_wanted)
        return error_no_memory(err, "build", "graph");
    graph_follow(context->graph, node, context->is_wanted);
    return 0;
}

int tsk_context_run(struct tsk_context *context, struct tsk_error *err)
{
    if (context->has_run)
        return error_set(err, TSK_INVALID_INPUT, "context_has_run", NULL);
    context->has_run = true;
    return pool_run(context, err);
}

void tsk_context_cancel(struct tsk_context *context)
{
    atomic_store(&context->is_cancelled, true);
    for (unsigned i = 0; i < context->worker_count; i++)
        sem_post(&context->wake);
}

void tsk_context_free(struct tsk_context *context)
{
    if (!context)
        return;
    plan_clear(&context->plan);
    if (context->session.id)
        session_clear(&context->session);
    json_decref(context->cycles);
    free(context->failure);
    free(context->retries);
    free(context->is_wanted);
    pthread_mutex_destroy(&context->mutex);
    sem_destroy(&context->wake);
    free(context);
}

int tsk_context_branch(struct tsk_context *context, const char *branch, struct tsk_context **ret, struct tsk_error *err)
{
    struct buf id CLEANUP(buf_clear) = BUF_INIT;
    if (!id_is_valid(branch))
        return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "branch", "value", branch, NULL);
    buf_printf(&id, "%s_%s", context->session.id, branch);
    if (id.failed)
        return error_no_memory(err, "build", "graph");
    struct tsk_context *made;
    if (context_new(context->graph, buf_str(&id), &context->session.channel, &made, err) < 0)
        return -1;
    options_take(made, &context->options);
    made->parent = context;
    *ret = made;
    return 0;
}

/* How often it was executed in this context; what lies before its beginning was not. */
static unsigned executions_of(const struct tsk_context *context, uint32_t node)
{
    bool is_passed = context->is_wanted && !(node & PLAN_DYNAMIC) && !context->is_wanted[node];
    return is_passed ? 0 : plan_executions(&context->plan, node);
}

/* The greater one counts. */
static void cycles_merge(struct tsk_context *context, const struct tsk_context *branch)
{
    char buf[GRAPH_NAME_MAX];
    json_each_pair (branch->cycles, task, count)
        cycles_keep(context, task, (unsigned)json_integer_value(count));
    for (uint32_t node = 0; branch->has_run && node < branch->graph->nodes.count; node++)
        if (!graph_node(branch->graph, node)->is_group)
            cycles_keep(context, graph_name(branch->graph, node, buf), executions_of(branch, node));
}

int tsk_context_merge(struct tsk_context *context, struct tsk_context *branch, struct tsk_error *err)
{
    struct channel *channels[] = {&branch->session.channel};
    if (branch->parent != context || branch->is_merged)
        return error_set(err, TSK_INVALID_INPUT, "context_not_mergeable", "branch", branch->session.id, "session_id",
                         context->session.id, NULL);
    if (channel_merge(&context->session.channel, channels, 1, context->graph, NULL, NULL, err) < 0)
        return -1;
    atomic_fetch_add(&context->steps, atomic_load(&branch->steps));
    cycles_merge(context, branch);
    branch->is_merged = true;
    return 0;
}

struct tsk_context *tsk_context_parent(const struct tsk_context *context)
{
    return context->parent;
}

const char *tsk_context_session(const struct tsk_context *context)
{
    return context->session.id;
}

uint64_t tsk_context_steps(const struct tsk_context *context)
{
    uint64_t steps = atomic_load(&context->steps);
    return context->options.max_steps && steps > context->options.max_steps ? context->options.max_steps : steps;
}

unsigned tsk_context_cycles(const struct tsk_context *context, const char *task)
{
    unsigned merged = (unsigned)json_integer_value(json_object_get(context->cycles, task));
    uint32_t node = context->has_run ? plan_find((struct plan *)&context->plan, task) : NO_NODE; /* takes its mutex */
    if (node == NO_NODE || (!(node & PLAN_DYNAMIC) && graph_node(context->graph, node)->is_group))
        return merged;
    unsigned own = executions_of(context, node);
    return own > merged ? own : merged;
}

/* ---- the channel ---------------------------------------------------------------------------------------- */

static json_t *value_parse(const char *json)
{
    return json_loads(json, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
}

static char *value_text(json_t *value)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!value)
        return NULL;
    json_write(&text, value, false);
    json_decref(value);
    return buf_take(&text);
}

int tsk_context_set(struct tsk_context *context, const char *key, const char *json, struct tsk_error *err)
{
    struct effects effects CLEANUP(effects_clear) = {0};
    if (effects_add_take(&effects, EFFECT_SET, key, value_parse(json), err) < 0)
        return -1;
    return channel_apply(&context->session.channel, &effects, err);
}

char *tsk_context_get(struct tsk_context *context, const char *key)
{
    return value_text(channel_get(&context->session.channel, NULL, key));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *tsk_context_keys(struct tsk_context *context)
{
    json_t *values CLEANUP_JSON = channel_values(&context->session.channel), *list = json_array();
    const char **keys = calloc(json_object_size(values) + 1, sizeof *keys);
    size_t count = 0;
    json_each_key (values, key)
        if (keys)
            keys[count++] = key;
    if (keys)
        qsort(keys, count, sizeof *keys, compare_texts);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(keys[i]));
    bool is_whole = keys;
    free(keys);
    char *text = value_text(list);
    if (is_whole)
        return text;
    free(text);
    return NULL;
}

/* ---- inside a task -------------------------------------------------------------------------------------- */

const char *tsk_call_session(const struct tsk_call *call)
{
    return call->session->id;
}

const char *tsk_call_task(const struct tsk_call *call)
{
    static _Thread_local char buf[GRAPH_NAME_MAX];
    return plan_name(&call->worker->context->plan, call->node, buf);
}

unsigned tsk_call_attempt(const struct tsk_call *call)
{
    return call->attempt;
}

char *tsk_call_get(struct tsk_call *call, const char *key)
{
    return value_text(channel_get(&call->session->channel, &call->effects, key));
}

static int call_write(struct tsk_call *call, enum effect_kind kind, const char *key, json_t *value)
{
    struct tsk_error err;
    char text[512];
    if (effects_add_take(&call->effects, kind, key, value, &err) == 0)
        return 0;
    return tsk_call_fail(call, tsk_error_message(&err, NULL, text, sizeof text));
}

int tsk_call_set(struct tsk_call *call, const char *key, const char *json)
{
    return call_write(call, EFFECT_SET, key, value_parse(json));
}

int tsk_call_add(struct tsk_call *call, const char *key, int64_t number)
{
    return call_write(call, EFFECT_ADD, key, json_integer(number));
}

int tsk_call_append(struct tsk_call *call, const char *key, const char *json)
{
    return call_write(call, EFFECT_APPEND, key, value_parse(json));
}

static int call_request(struct tsk_call *call, struct request content)
{
    struct request *request = malloc(sizeof *request);
    if (!request) {
        free(content.text);
        return tsk_call_fail(call, "out of memory");
    }
    *request = content;
    request->next = NULL;
    if (!call->requests)
        call->last_request = &call->requests;
    *call->last_request = request;
    call->last_request = &request->next;
    return 0;
}

int tsk_call_next(struct tsk_call *call, const char *task, bool instead)
{
    uint32_t target = plan_find(&call->worker->context->plan, task);
    if (target == NO_NODE)
        return tsk_call_fail(call, "there is no such task");
    return call_request(call, (struct request){.kind = instead ? REQUEST_GOTO : REQUEST_NEXT, .target = target});
}

int tsk_call_again(struct tsk_call *call)
{
    return call_request(call, (struct request){.kind = REQUEST_GOTO, .target = call->node});
}

int tsk_call_spawn(struct tsk_call *call, const char *name, tsk_task_function *function, void *arg)
{
    if (!function)
        return tsk_call_fail(call, "a task needs a function");
    if (name && !id_is_valid(name))
        return tsk_call_fail(call, "the name of a task has letters, digits, dots, dashes and underscores only");
    return call_request(
        call, (struct request){.kind = REQUEST_SPAWN, .run = function, .arg = arg, .text = name ? strdup(name) : NULL});
}

void tsk_call_finish(struct tsk_call *call)
{
    call_request(call, (struct request){.kind = REQUEST_FINISH});
}

void tsk_call_cancel(struct tsk_call *call, const char *message)
{
    call_request(call, (struct request){.kind = REQUEST_CANCEL, .text = message ? strdup(message) : NULL});
}

int tsk_call_fail(struct tsk_call *call, const char *message)
{
    free(call->message);
    call->message = message ? strdup(message) : NULL;
    return -1;
}

bool tsk_call_is_stopped(const struct tsk_call *call)
{
    struct tsk_context *context = call->worker->context;
    return atomic_load_explicit(&context->is_cancelled, memory_order_relaxed) ||
           plan_is_stopped(&context->plan, plan_scope_of(&context->plan, call->node));
}
