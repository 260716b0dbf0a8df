#include "graph/pool.h"
#include "base/clock.h"
#include "base/word.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPINS_BEFORE_SLEEP 64
#define HEAD_SLICE_MAX     1024u

/* ---- waking and sleeping (W3) --------------------------------------------------------------------------- */

void pool_wake_one(struct tsk_context *context)
{
    unsigned idle = atomic_load(&context->idle);
    while (idle && !atomic_compare_exchange_weak(&context->idle, &idle, idle - 1))
        ;
    if (idle)
        sem_post(&context->wake);
}

static void wake_all(struct tsk_context *context)
{
    for (unsigned i = 0; i < context->worker_count; i++)
        sem_post(&context->wake);
}

static bool pool_has_work(struct tsk_context *context)
{
    if (atomic_load(&context->has_ended) ||
        (atomic_load(&context->is_cancelled) && !atomic_load(&context->cancel_is_seen)) ||
        atomic_load(&context->head) < graph_scope(context->graph, GRAPH_ROOT)->node_count)
        return true;
    for (unsigned i = 0; i < context->worker_count; i++)
        if (!deque_is_empty(&context->workers[i].deque))
            return true;
    return false;
}

static void sleep_until_woken(struct tsk_context *context)
{
    atomic_fetch_add(&context->idle, 1);
    int64_t at_ms = atomic_load(&context->next_retry_ms);
    int64_t left_ms = at_ms == INT64_MAX ? INT64_MAX : at_ms - clock_now().boot_ms;
    bool was_woken = false;
    if (!pool_has_work(context) && left_ms > 0) {
        struct timespec until = clock_deadline(CLOCK_MONOTONIC, left_ms > 3600000 ? 3600000 : left_ms);
        was_woken = sem_clockwait(&context->wake, CLOCK_MONOTONIC, &until) == 0;
    }
    if (was_woken)
        return;
    unsigned idle = atomic_load(&context->idle);
    while (idle && !atomic_compare_exchange_weak(&context->idle, &idle, idle - 1))
        ;
}

/* ---- executing ------------------------------------------------------------------------------------------ */

static void pool_stop_run(struct tsk_context *context)
{
    plan_stop(&context->plan, GRAPH_ROOT);
    wake_all(context);
}

/* What the task left behind. */
static RARE void call_clear(struct tsk_call *call)
{
    for (struct request *request = call->requests, *next; request; request = next) {
        next = request->next;
        free(request->text);
        free(request);
    }
    call->requests = NULL;
    effects_clear(&call->effects);
    free(call->message);
    call->message = NULL;
}

static void cancelled_by_task(struct tsk_call *call, const char *message)
{
    struct tsk_context *context = call->worker->context;
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    error_set(&err, TSK_RUN_FAILED, "run_cancelled_by_task", "task", plan_name(&context->plan, call->node, buf),
              "message", message ? message : "", NULL);
    pool_failure_keep(context, &err, true);
    pool_stop_run(context);
}

/* W4. True: its successors are not to be activated. */
static bool requests_apply(struct tsk_call *call, int *ret_result, struct tsk_error *err)
{
    struct tsk_context *context = call->worker->context;
    struct plan_out *out = &call->worker->out;
    bool is_goto = false;
    uint32_t added;
    for (struct request *request = call->requests; request && *ret_result == 0; request = request->next)
        switch (request->kind) {
        case REQUEST_GOTO:
            is_goto = true; /* fall through */
        case REQUEST_NEXT:
            if (context->is_wanted && !(request->target & PLAN_DYNAMIC))
                __atomic_store_n(&context->is_wanted[request->target], 1, __ATOMIC_RELAXED);
            *ret_result = plan_activate(&context->plan, call->node, request->target, out, err);
            break;
        case REQUEST_SPAWN:
            *ret_result =
                plan_spawn(&context->plan, call->node, request->text, request->run, request->arg, &added, out, err);
            break;
        case REQUEST_FINISH:
            atomic_store(&context->has_finished, true);
            pool_stop_run(context);
            break;
        case REQUEST_CANCEL:
            cancelled_by_task(call, request->text);
            break;
        }
    return is_goto;
}

static void task_failed(struct tsk_call *call, const struct tsk_error *cause)
{
    struct tsk_context *context = call->worker->context;
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    const char *name = plan_name(&context->plan, call->node, buf);
    if (cause)
        err = *cause;
    else
        error_set(&err, TSK_TASK_FAILED, call->message ? "task_failed_because" : "task_failed", "task", name,
                  "session_id", call->session->id, "reason", call->message ? call->message : "", NULL);
    pool_failure_keep(context, &err, false);
    if (context->options.on_task)
        context->options.on_task(context->options.data, call->session->id, name, &err);
    plan_end(&context->plan, call->node, OUTCOME_FAILED, &call->worker->out);
}

/* What it wrote and asked for. -1: it failed by that. */
static RARE int task_apply(struct tsk_call *call, bool *ret_is_goto)
{
    struct tsk_error err;
    int result = channel_apply(&call->session->channel, &call->effects, &err);
    if (result == 0)
        *ret_is_goto = requests_apply(call, &result, &err);
    if (result < 0)
        task_failed(call, &err);
    return result;
}

static RARE void task_tell(struct tsk_call *call)
{
    struct tsk_context *context = call->worker->context;
    char buf[GRAPH_NAME_MAX];
    context->options.on_task(context->options.data, call->session->id, plan_name(&context->plan, call->node, buf),
                             NULL);
}

static void task_succeeded(struct tsk_call *call)
{
    struct tsk_context *context = call->worker->context;
    bool is_goto = false;
    if (__builtin_expect(call->effects.list || call->requests, 0) && task_apply(call, &is_goto) < 0)
        return;
    if (__builtin_expect(context->options.on_task != NULL, 0))
        task_tell(call);
    if (is_goto)
        plan_end_goto(&context->plan, call->node, &call->worker->out);
    else
        plan_end_ok(&context->plan, call->node, &call->worker->out);
}

static RARE void steps_are_used_up(struct tsk_context *context)
{
    struct tsk_error err;
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)context->options.max_steps);
    error_set(&err, TSK_MAX_STEPS_EXCEEDED, "max_steps_reached", "max", number, NULL);
    pool_failure_keep(context, &err, true);
    pool_stop_run(context);
}

/* Counts the step; false: it was one too many. */
static bool step_is_allowed(struct worker *worker)
{
    struct tsk_context *context = worker->context;
    worker->steps++;
    if (!context->options.max_steps || atomic_fetch_add(&context->steps, 1) < context->options.max_steps)
        return true;
    worker->steps--;
    steps_are_used_up(context);
    return false;
}

static RARE bool cycle_is_allowed(struct tsk_call *call)
{
    struct tsk_context *context = call->worker->context;
    if (!plan_is_over_cycles(&context->plan, call->node))
        return true;
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    error_set(&err, TSK_CYCLE_LIMIT_EXCEEDED, "max_cycles_reached", "task", plan_name(&context->plan, call->node, buf),
              "max", DIGITS(plan_cycles(&context->plan, call->node) - 1), NULL);
    task_failed(call, &err);
    return false;
}

/* Lies before the beginning of the run. */
static RARE bool is_passed(const struct tsk_context *context, uint32_t node)
{
    return !(node & PLAN_DYNAMIC) && !__atomic_load_n(&context->is_wanted[node], __ATOMIC_RELAXED);
}

static void run_task(struct worker *worker, uint32_t node, unsigned attempt)
{
    struct tsk_context *context = worker->context;
    struct tsk_call *call = &worker->call;
    call->node = node;
    call->attempt = attempt;
    tsk_task_function *run;
    void *arg;
    uint32_t scope;
    if (__builtin_expect(node & PLAN_DYNAMIC, 0)) {
        const struct dynamic_node *task = plan_dynamic(&context->plan, node);
        run = task->run, arg = task->arg, scope = task->scope;
    } else {
        const struct graph_node *task = graph_node(context->graph, node);
        run = task->run, arg = task->arg, scope = task->scope;
    }
    call->session = context->plan.scopes[scope].session;
    if (__builtin_expect(context->is_wanted != NULL, 0) && is_passed(context, node)) {
        plan_end_ok(&context->plan, node, &worker->out);
        return;
    }
    bool may_be_again = atomic_load_explicit(&context->plan.again, memory_order_relaxed) ||
                        (node & PLAN_DYNAMIC); /* else: nothing has run twice */
    if (__builtin_expect(may_be_again && attempt == 1, 0) && !cycle_is_allowed(call))
        return;
    if (!step_is_allowed(worker)) {
        plan_end(&context->plan, node, OUTCOME_STOPPED, &worker->out);
        return;
    }
    if (__builtin_expect(run(call, arg) == 0, 1))
        task_succeeded(call);
    else if (!pool_retry_later(context, node, attempt))
        task_failed(call, NULL);
    if (__builtin_expect(call->requests || call->effects.list || call->message, 0))
        call_clear(call);
}

static RARE void push_others(struct worker *worker)
{
    struct plan_out *out = &worker->out;
    for (size_t i = out->count; i > 1; i--) { /* the last one in is the first one out */
        BUG(!deque_push(&worker->deque, out->ready[i - 1]));
        pool_wake_one(worker->context);
    }
}

/* W1: the node that this worker runs next, or NO_NODE. */
static inline uint32_t hand_out(struct worker *worker)
{
    struct plan_out *out = &worker->out;
    if (!out->count)
        return NO_NODE;
    if (out->count > 1)
        push_others(worker);
    out->count = 0;
    return out->ready[0];
}

static void execute_one(struct worker *worker, uint32_t node)
{
    struct plan *plan = &worker->context->plan;
    enum outcome outcome;
    switch (plan_is_plain_run(plan, node) ? DECIDE_RUN : plan_decide(plan, node, &outcome)) {
    case DECIDE_RUN:
        run_task(worker, node, 1);
        break;
    case DECIDE_FORK:
        plan_fork(plan, node, &worker->out);
        break;
    case DECIDE_END:
        plan_end(plan, node, outcome, &worker->out);
        break;
    }
}

static void look_for_cancel(struct tsk_context *context)
{
    if (__builtin_expect(atomic_load_explicit(&context->is_cancelled, memory_order_relaxed), 0) &&
        !atomic_exchange(&context->cancel_is_seen, true))
        pool_stop_run(context);
}

/* The node, and then what it made ready. */
static void worker_execute(struct worker *worker, uint32_t node)
{
    for (; node != NO_NODE; node = hand_out(worker)) {
        look_for_cancel(worker->context);
        execute_one(worker, node);
    }
}

/* ---- finding work --------------------------------------------------------------------------------------- */

/* The next head of its slice, or of a new slice: smaller and smaller ones, so that all end together. */
static bool head_take(struct worker *worker, uint32_t *ret)
{
    struct tsk_context *context = worker->context;
    uint32_t count = graph_scope(context->graph, GRAPH_ROOT)->node_count;
    for (;;) {
        while (worker->head_at < worker->head_end) {
            uint32_t node = graph_scope_node(context->graph, GRAPH_ROOT, worker->head_at++);
            if (graph_indegree(context->graph, node) == 0) {
                *ret = node;
                return true;
            }
        }
        uint32_t at = atomic_load_explicit(&context->head, memory_order_relaxed);
        if (at >= count)
            return false;
        uint32_t slice = (count - at) / (context->worker_count * 4) + 1;
        slice = slice > HEAD_SLICE_MAX ? HEAD_SLICE_MAX : slice;
        at = atomic_fetch_add(&context->head, slice);
        worker->head_at = at < count ? at : count;
        worker->head_end = at + slice < count ? at + slice : count;
    }
}

static bool worker_steal(struct worker *worker, uint32_t *ret)
{
    struct tsk_context *context = worker->context;
    worker->seed = worker->seed * 6364136223846793005u + 1442695040888963407u;
    unsigned start = (unsigned)(worker->seed >> 33) % context->worker_count;
    for (unsigned i = 0; i < context->worker_count; i++) {
        struct worker *victim = &context->workers[(start + i) % context->worker_count];
        if (victim != worker && deque_steal(&victim->deque, ret))
            return true;
    }
    return false;
}

/* W2. */
static void worker_flush(struct worker *worker)
{
    struct tsk_context *context = worker->context;
    if (worker->out.root_ended && plan_flush(&context->plan, &worker->out)) {
        atomic_store(&context->has_ended, true);
        wake_all(context);
    }
}

static void retry_run(struct worker *worker, const struct retry *retry)
{
    struct plan *plan = &worker->context->plan;
    if (plan_is_stopped(plan, plan_scope_of(plan, retry->node)))
        plan_end(plan, retry->node, OUTCOME_STOPPED, &worker->out);
    else
        run_task(worker, retry->node, retry->attempt);
    worker_execute(worker, hand_out(worker));
}

static bool find_own(struct worker *worker, uint32_t *ret)
{
    return deque_pop(&worker->deque, ret) || head_take(worker, ret);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void worker_run(struct worker *worker)
{
    struct tsk_context *context = worker->context;
    unsigned spins = 0;
    uint32_t node;
    struct retry retry;
    while (!atomic_load_explicit(&context->has_ended, memory_order_relaxed)) {
        look_for_cancel(context);
        if (find_own(worker, &node)) {
            worker_execute(worker, node);
        } else if (pool_retry_take(context, &retry)) {
            retry_run(worker, &retry);
        } else {
            worker_flush(worker);
            if (worker_steal(worker, &node)) {
                worker_execute(worker, node);
            } else if (++spins < SPINS_BEFORE_SLEEP) {
                cpu_relax();
                continue;
            } else {
                sleep_until_woken(context);
            }
        }
        spins = 0;
    }
}

static void *worker_main(void *arg)
{
    worker_run(arg);
    return NULL;
}

/* ---- a run ---------------------------------------------------------------------------------------------- */

static void workers_free(struct tsk_context *context)
{
    for (unsigned i = 0; i < context->worker_count; i++) {
        struct worker *worker = &context->workers[i];
        if (worker->is_started)
            pthread_join(worker->thread, NULL);
        atomic_fetch_add(&context->steps, context->options.max_steps ? 0 : worker->steps);
    }
    for (unsigned i = 0; i < context->worker_count; i++) {
        deque_clear(&context->workers[i].deque);
        plan_out_clear(&context->workers[i].out);
    }
    free(context->workers);
    context->workers = NULL;
}

static int workers_make(struct tsk_context *context, struct tsk_error *err)
{
    context->workers = aligned_alloc(64, context->worker_count * ((sizeof(struct worker) + 63) & ~(size_t)63));
    if (!context->workers)
        return error_errno(err, "start", "threads");
    for (unsigned i = 0; i < context->worker_count; i++) {
        context->workers[i] = (struct worker){.context = context, .seed = i + 1, .call.worker = &context->workers[i]};
        if (!deque_init(&context->workers[i].deque)) {
            context->worker_count = i;
            workers_free(context);
            return error_no_memory(err, "start", "threads");
        }
    }
    return 0;
}

static int result_of(struct tsk_context *context, struct tsk_error *err)
{
    bool has_failed = atomic_load(&context->plan.scopes[GRAPH_ROOT].failures) > 0;
    if (atomic_load(&context->has_finished) && (!context->failure || context->failure->code != TSK_RUN_FAILED))
        return 0;
    /* The task that cancels succeeds itself, and its group may tolerate what was stopped: the run has failed all the same. */
    bool was_cut = context->failure &&
                   (context->failure->code == TSK_RUN_FAILED || context->failure->code == TSK_MAX_STEPS_EXCEEDED);
    if (!has_failed && !was_cut && !atomic_load(&context->is_cancelled))
        return 0;
    if (atomic_load(&context->is_cancelled) && (!context->failure || context->failure->code == TSK_TASK_FAILED))
        return error_set(err, TSK_RUN_FAILED, "run_cancelled", NULL);
    *err = *context->failure;
    return -1;
}

int pool_run(struct tsk_context *context, struct tsk_error *err)
{
    context->plan.hooks = &pool_hooks;
    context->plan.engine = context;
    context->plan.scopes[GRAPH_ROOT].session = &context->session;
    if (context->graph->nodes.count == 0)
        return 0;
    if (workers_make(context, err) < 0)
        return -1;
    /* Fewer threads than wanted are still enough. */
    for (unsigned i = 1; i < context->worker_count; i++)
        context->workers[i].is_started =
            pthread_create(&context->workers[i].thread, NULL, worker_main, &context->workers[i]) == 0;
    worker_run(&context->workers[0]);
    workers_free(context);
    return result_of(context, err);
}
