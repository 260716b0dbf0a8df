/* main.c - random graphs on the engines of this process, compared with the reference (scenario.h).
 *
 *     graph-property [--seed N] [--count N] [--on memory|pool]
 *
 * Graph i has the seed N + i. A failure says which, and how to repeat it; exit 1.
 *
 * memory: memory.h, driven with a random schedule: tasks in flight end in any order or are returned, late and repeated
 * completions come. pool: the thread pool, whose schedule is the machine's. */
#include "graph/memory.h"
#include "graph/pool.h"
#include "scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What happened to a node. */
struct record {
    _Atomic unsigned attempts, good_children, failed_children;
    _Atomic int64_t first_start, last_end; /* moments; 0: never */
    _Atomic int64_t child_end;             /* of the last task it added: the join waits for it, successors do not */
};

struct trial {
    const struct scenario *scenario;
    const char *engine;
    struct record records[NODES_MAX];
    _Atomic int64_t moment;
};

static void fail(const struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void fail(const struct trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu on %s: ", (unsigned long long)trial->scenario->seed, trial->engine);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nrepeat it: graph-property --seed %llu --count 1 --on %s\n",
            (unsigned long long)trial->scenario->seed, trial->engine);
    va_end(args);
    exit(1);
}

static int64_t moment_next(struct trial *trial)
{
    return atomic_fetch_add(&trial->moment, 1) + 1;
}

static void note_start(struct trial *trial, uint32_t node, int64_t moment)
{
    int64_t never = 0;
    atomic_compare_exchange_strong(&trial->records[node].first_start, &never, moment);
    atomic_fetch_add(&trial->records[node].attempts, 1);
}

static void note_end(struct trial *trial, uint32_t node, bool is_child)
{
    struct record *record = &trial->records[node];
    atomic_store(is_child ? &record->child_end : &record->last_end, moment_next(trial));
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

/* When a node began and ended; a group: the first and last of what is in it. */
static void span(const struct trial *trial, uint32_t node, bool is_inside, int64_t *first, int64_t *last)
{
    const struct scenario_node *n = &trial->scenario->nodes[node];
    if (!n->is_group) {
        int64_t start = trial->records[node].first_start, end = trial->records[node].last_end;
        if (is_inside && trial->records[node].child_end > end)
            end = trial->records[node].child_end;
        *first = start && (!*first || start < *first) ? start : *first;
        *last = end > *last ? end : *last;
        return;
    }
    for (uint32_t i = 0; i < n->branch_count; i++)
        for (uint32_t k = 0; k < trial->scenario->node_count; k++)
            if (trial->scenario->nodes[k].scope == n->branches[i])
                span(trial, k, true, first, last);
}

static void check_order(const struct trial *trial, uint32_t node)
{
    const struct scenario_node *n = &trial->scenario->nodes[node];
    int64_t first = 0, last = 0;
    span(trial, node, false, &first, &last);
    for (uint32_t i = 0; first && i < n->pred_count; i++) {
        int64_t before_first = 0, before_last = 0;
        span(trial, n->preds[i], false, &before_first, &before_last);
        if (before_last > first)
            fail(trial, "n%u began before n%u had ended", node, n->preds[i]);
    }
}

static void check_node(const struct trial *trial, uint32_t node)
{
    const struct scenario_node *n = &trial->scenario->nodes[node];
    const struct record *r = &trial->records[node];
    check_order(trial, node);
    if (n->is_group)
        return;
    if (n->is_maybe ? r->attempts > n->attempts : r->attempts != n->attempts)
        fail(trial, "n%u was called %u times, expected %u", node, r->attempts, n->attempts);
    if (n->is_maybe ? r->good_children > n->good_children : r->good_children != n->good_children)
        fail(trial, "%u tasks added by n%u ran, expected %u", r->good_children, node, n->good_children);
    if (!n->is_maybe && r->failed_children != n->failed_children)
        fail(trial, "%u tasks added by n%u failed, expected %u", r->failed_children, node, n->failed_children);
}

static void check_value(const struct trial *trial, const json_t *values, const char *key, const char *expected)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    const json_t *value = json_object_get(values, key);
    if (value)
        json_write(&text, value, false);
    if (!expected != !value || (expected && strcmp(buf_str(&text), expected) != 0))
        fail(trial, "%s is %s, expected %s", key, value ? buf_str(&text) : "absent", expected ? expected : "absent");
}

static void check(const struct trial *trial, const json_t *values, bool has_failed)
{
    static const char *const keys[] = {"last", "first", "max", "app"};
    const struct scenario *s = trial->scenario;
    char key[32], text[600];
    if (has_failed != s->is_failed)
        fail(trial, "the run %s, expected the contrary", has_failed ? "failed" : "succeeded");
    for (uint32_t n = 0; n < s->node_count; n++) {
        check_node(trial, n);
        for (size_t k = 0; s->nodes[n].is_group && k < 4; k++) {
            snprintf(key, sizeof key, "%s%u", keys[k], n);
            bool is_there = scenario_group_value(s, n, keys[k], text, sizeof text);
            check_value(trial, values, key, is_there ? text : NULL);
        }
    }
    snprintf(text, sizeof text, "%ld", s->scopes[0].sum);
    check_value(trial, values, "sum", s->scopes[0].sum ? text : NULL);
}

/* ---- on memory.h ----------------------------------------------------------------------------------- */

struct flight {
    struct claim claim;
    uint32_t owner; /* the node, or the one that added it */
    bool is_child, is_bad;
    int64_t moment; /* of the claim */
};

struct driver {
    struct trial *trial;
    struct memory *memory;
    uint64_t random;
    int64_t now_ms;
    struct flight flights[64], stale[8];
    unsigned flight_count, stale_count;
};

static void add_effects(struct driver *d, const struct flight *f, struct effects *effects)
{
    static const char *const keys[] = {"last", "first", "max"};
    const struct scenario_node *n = &d->trial->scenario->nodes[f->owner];
    struct tsk_error err;
    char key[32];
    BUG(effects_add_take(effects, EFFECT_ADD, "sum", json_integer(1), &err) < 0);
    if (f->is_child || !n->task.writes_group_keys)
        return;
    uint32_t group = d->trial->scenario->scopes[n->scope].group;
    for (size_t k = 0; k < 3; k++) {
        snprintf(key, sizeof key, "%s%u", keys[k], group);
        BUG(effects_add_take(effects, EFFECT_SET, key, json_integer(f->owner), &err) < 0);
    }
    snprintf(key, sizeof key, "app%u", group);
    BUG(effects_add_take(effects, EFFECT_APPEND, key, json_integer(f->owner), &err) < 0);
}

static json_t *requests_of(const struct driver *d, const struct flight *f)
{
    const struct behaviour *task = &d->trial->scenario->nodes[f->owner].task;
    json_t *requests = json_array();
    for (unsigned i = 0; f->claim.cycle == 1 && i < task->children; i++)
        json_array_append_new(requests, json_pack("{s:s, s:{s:i, s:b}}", "do", "spawn", "payload", "owner",
                                                  (int)f->owner, "bad", i < task->bad_children));
    if (f->claim.cycle <= task->again)
        json_array_append_new(requests, json_pack("{s:s}", "do", "again"));
    return requests;
}

static void complete(struct driver *d, struct flight *f)
{
    struct completion completion = {.outcome = OUTCOME_OK};
    json_t *requests CLEANUP_JSON = NULL;
    const struct behaviour *task = &d->trial->scenario->nodes[f->owner].task;
    if (f->is_child) {
        completion.outcome = f->is_bad ? OUTCOME_FAILED : OUTCOME_OK;
    } else if (f->claim.cycle == 1 && f->claim.attempt <= task->fails) {
        completion.outcome = OUTCOME_FAILED;
        completion.retry_at_ms =
            f->claim.attempt <= task->retries ? d->now_ms + 1 + (int64_t)(scenario_random(&d->random) % 50) : 0;
    } else {
        completion.requests = requests = requests_of(d, f);
    }
    if (completion.outcome == OUTCOME_OK)
        add_effects(d, f, &completion.effects);
    if (!f->is_child) /* noted here: a returned claim is no call */
        note_start(d->trial, f->owner, f->moment);
    struct record *record = &d->trial->records[f->owner];
    if (f->is_child)
        atomic_fetch_add(completion.outcome == OUTCOME_OK ? &record->good_children : &record->failed_children, 1);
    note_end(d->trial, f->owner, f->is_child);
    if (!memory_complete(d->memory, &f->claim, &completion))
        fail(d->trial, "a completion was refused");
    if (scenario_random(&d->random) % 4 == 0 && memory_complete(d->memory, &f->claim, &completion))
        fail(d->trial, "a completion was accepted twice");
    effects_clear(&completion.effects);
}

static bool claim(struct driver *d)
{
    struct flight f = {0};
    if (d->flight_count == 64 || !memory_claim(d->memory, d->now_ms, &f.claim))
        return false;
    f.is_child = f.claim.payload != NULL;
    f.owner = f.is_child ? (uint32_t)json_get_int(f.claim.payload, "owner", 0) : f.claim.node;
    f.is_bad = f.is_child && json_get_bool(f.claim.payload, "bad", false);
    f.moment = moment_next(d->trial);
    d->flights[d->flight_count++] = f;
    return true;
}

/* Everything in flight is returned; a completion with an old claim must be refused then. */
static void give_back(struct driver *d)
{
    for (unsigned i = 0; i < d->flight_count; i++) {
        if (!memory_give_back(d->memory, &d->flights[i].claim))
            fail(d->trial, "a claim could not be returned");
        if (d->stale_count < 8)
            d->stale[d->stale_count++] = d->flights[i];
    }
    d->flight_count = 0;
}

static void send_late(struct driver *d)
{
    struct completion late = {.outcome = OUTCOME_OK};
    for (unsigned i = 0; i < d->stale_count; i++)
        if (memory_complete(d->memory, &d->stale[i].claim, &late))
            fail(d->trial, "a completion with an old fence was accepted");
}

static void step(struct driver *d)
{
    unsigned choice = (unsigned)(scenario_random(&d->random) % 16);
    struct memory_status status;
    if (choice < 8 && claim(d))
        return;
    if (choice == 15 && d->flight_count) {
        give_back(d);
        return;
    }
    if (choice == 14)
        send_late(d);
    if (d->flight_count) {
        unsigned i = (unsigned)(scenario_random(&d->random) % d->flight_count);
        struct flight f = d->flights[i];
        d->flights[i] = d->flights[--d->flight_count];
        complete(d, &f);
        return;
    }
    if (claim(d))
        return;
    memory_status(d->memory, &status);
    if (status.state == RUN_ACTIVE && status.later == 0 && status.ready == 0)
        fail(d->trial, "the run is stuck");
    d->now_ms = status.next_due_ms != INT64_MAX ? status.next_due_ms : d->now_ms + 1;
}

static void run_memory(const struct scenario *s)
{
    struct trial trial = {.scenario = s, .engine = "memory"};
    struct driver d = {.trial = &trial, .random = s->seed ^ 0x5bd1e995, .now_ms = 1};
    struct memory_limits limits = {.max_cycles = 100};
    struct memory_status status;
    struct tsk_error err;
    struct graph graph;
    scenario_build(s, &graph, NULL, NULL);
    BUG(memory_new(&graph, "s", NULL, &limits, NULL, &d.memory, &err) < 0);
    for (unsigned steps = 0;; steps++) {
        memory_status(d.memory, &status);
        if (status.state != RUN_ACTIVE)
            break;
        if (steps > 100000)
            fail(&trial, "the run does not end");
        step(&d);
    }
    json_t *values CLEANUP_JSON = memory_result(d.memory);
    check(&trial, values, status.has_failed);
    memory_free(d.memory);
    graph_clear(&graph);
}

/* ---- on the pool ---------------------------------------------------------------------------------------- */

struct task_arg {
    struct trial *trial;
    uint32_t node;
    _Atomic unsigned executions; /* that succeeded */
};

static int run_good_child(struct tsk_call *call, void *arg)
{
    struct task_arg *task = arg;
    atomic_fetch_add(&task->trial->records[task->node].good_children, 1);
    note_end(task->trial, task->node, true);
    return tsk_call_add(call, "sum", 1);
}

static int run_bad_child(struct tsk_call *call, void *arg)
{
    struct task_arg *task = arg;
    (void)call;
    atomic_fetch_add(&task->trial->records[task->node].failed_children, 1);
    note_end(task->trial, task->node, true);
    return -1;
}

static int write_group_keys(struct tsk_call *call, const struct task_arg *task)
{
    static const char *const keys[] = {"last", "first", "max"};
    const struct scenario *s = task->trial->scenario;
    uint32_t group = s->scopes[s->nodes[task->node].scope].group;
    char key[32], text[16];
    snprintf(text, sizeof text, "%u", task->node);
    for (size_t k = 0; k < 3; k++) {
        snprintf(key, sizeof key, "%s%u", keys[k], group);
        if (tsk_call_set(call, key, text) < 0)
            return -1;
    }
    snprintf(key, sizeof key, "app%u", group);
    return tsk_call_append(call, key, text);
}

static int run_task(struct tsk_call *call, void *arg)
{
    struct task_arg *task = arg;
    const struct behaviour *behaviour = &task->trial->scenario->nodes[task->node].task;
    note_start(task->trial, task->node, moment_next(task->trial));
    unsigned cycle = task->executions + 1;
    int result = 0;
    if (cycle == 1 && tsk_call_attempt(call) <= behaviour->fails)
        result = -1;
    if (result == 0) {
        atomic_fetch_add(&task->executions, 1);
        result = tsk_call_add(call, "sum", 1);
        if (behaviour->writes_group_keys && result == 0)
            result = write_group_keys(call, task);
        for (unsigned i = 0; cycle == 1 && result == 0 && i < behaviour->children; i++)
            result = tsk_call_spawn(call, NULL, i < behaviour->bad_children ? run_bad_child : run_good_child, task);
        if (result == 0 && cycle <= behaviour->again)
            result = tsk_call_again(call);
    }
    note_end(task->trial, task->node, false);
    return result;
}

static void run_pool(const struct scenario *s)
{
    struct trial trial = {.scenario = s, .engine = "pool"};
    struct task_arg tasks[NODES_MAX];
    void *args[NODES_MAX];
    struct tsk_context_options options = {.size = sizeof options, .session_id = "s", .workers = 2, .max_cycles = 100};
    struct tsk_context *context;
    struct tsk_error err;
    struct graph graph;
    for (uint32_t n = 0; n < s->node_count; n++) {
        tasks[n] = (struct task_arg){.trial = &trial, .node = n};
        args[n] = &tasks[n];
    }
    scenario_build(s, &graph, run_task, args);
    BUG(tsk_context_create((struct tsk_graph *)&graph, &options, &context, &err) < 0);
    int result = tsk_context_run(context, &err);
    json_t *values CLEANUP_JSON = channel_values(&context->session.channel);
    check(&trial, values, result < 0);
    tsk_context_free(context);
    graph_clear(&graph);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 1000;
    const char *on = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
        else
            on = argv[i + 1];
    }
    struct scenario *s = malloc(sizeof *s);
    BUG(!s);
    uint64_t nodes = 0, failed = 0;
    for (uint64_t i = 0; i < count; i++) {
        scenario_make(s, seed + i);
        scenario_expect(s);
        nodes += s->node_count;
        failed += s->is_failed;
        if (strcmp(on, "pool") != 0)
            run_memory(s);
        if (strcmp(on, "memory") != 0)
            run_pool(s);
    }
    free(s);
    printf("%llu graphs from seed %llu agree with the reference: %llu nodes, %llu runs that fail\n",
           (unsigned long long)count, (unsigned long long)seed, (unsigned long long)nodes, (unsigned long long)failed);
    return 0;
}
