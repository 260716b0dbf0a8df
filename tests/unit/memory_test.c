/* memory.h: the claims, joins and limits of a run. */
#include "base/json.h"
#include "graph/memory.h"
#include "harness/test.h"

#include <stdlib.h>

struct run {
    struct graph graph;
    struct memory *memory;
    struct tsk_error err;
    char events[2048];
};

static void put_event(struct run *run, const char *format, const char *a, const char *b, const char *c)
{
    size_t at = strlen(run->events);
    if (at)
        at += (size_t)snprintf(run->events + at, sizeof run->events - at, "; ");
    snprintf(run->events + at, sizeof run->events - at, "%s %s %s %s", format, a, b, c);
}

static void on_branch(void *data, const char *session, const char *branch, bool has_failed)
{
    put_event(data, "branch", session, branch, has_failed ? "failed" : "ended");
}

static void on_conflict(void *data, const char *session, const char *key, const char *rule, const char *first,
                        const char *second)
{
    char both[100];
    snprintf(both, sizeof both, "%s+%s", first, second);
    (void)session;
    put_event(data, "conflict", key, rule, both);
}

static void begin(struct run *run)
{
    *run = (struct run){0};
    ASSERT_INT(graph_init(&run->graph, &run->err), 0);
}

static uint32_t task(struct run *run, uint32_t scope, const char *name)
{
    uint32_t node;
    ASSERT_INT(graph_add_task(&run->graph, scope, name, NULL, NULL, &node, &run->err), 0);
    return node;
}

static uint32_t group(struct run *run, uint32_t scope, const char *name, enum tsk_policy policy)
{
    uint32_t node;
    ASSERT_INT(graph_add_group(&run->graph, scope, name, policy, &node, &run->err), 0);
    return node;
}

static uint32_t branch(struct run *run, uint32_t of)
{
    uint32_t scope;
    ASSERT_INT(graph_add_branch(&run->graph, of, NULL, &scope, &run->err), 0);
    return scope;
}

static void edge(struct run *run, uint32_t before, uint32_t after)
{
    ASSERT_INT(graph_add_edge(&run->graph, before, after, &run->err), 0);
}

static void open_with(struct run *run, struct memory_limits limits)
{
    struct memory_watcher watcher = {.branch_ended = on_branch, .conflict = on_conflict, .data = run};
    ASSERT_INT(graph_seal(&run->graph, &run->err), 0);
    ASSERT_INT(memory_new(&run->graph, "s", NULL, &limits, &watcher, &run->memory, &run->err), 0);
}

static void open_run(struct run *run)
{
    open_with(run, (struct memory_limits){.max_cycles = 10});
}

/* fetch >> (a | b) >> store */
static void open_diamond(struct run *run)
{
    begin(run);
    uint32_t fetch = task(run, GRAPH_ROOT, "fetch"), g = group(run, GRAPH_ROOT, "g", TSK_POLICY_STRICT);
    task(run, branch(run, g), "a");
    task(run, branch(run, g), "b");
    uint32_t store = task(run, GRAPH_ROOT, "store");
    edge(run, fetch, g);
    edge(run, g, store);
    open_run(run);
}

static void end(struct run *run)
{
    memory_free(run->memory);
    graph_clear(&run->graph);
}

/* Claims, and expects that task. */
static struct claim take(struct run *run, const char *name)
{
    struct claim claim;
    ASSERT(memory_claim(run->memory, 0, &claim));
    ASSERT(memory_execute(run->memory, &claim));
    ASSERT_STR(claim.task, name);
    return claim;
}

static void expect_nothing(struct run *run)
{
    struct claim claim;
    ASSERT(!memory_claim(run->memory, 0, &claim) || !memory_execute(run->memory, &claim));
}

static bool finish(struct run *run, const struct claim *claim, enum outcome outcome)
{
    struct completion completion = {.outcome = outcome};
    return memory_complete(run->memory, claim, &completion);
}

static void finish_writing(struct run *run, const struct claim *claim, enum effect_kind kind, const char *key,
                           json_t *value)
{
    struct completion completion = {.outcome = OUTCOME_OK};
    ASSERT_INT(effects_add_take(&completion.effects, kind, key, value, &run->err), 0);
    ASSERT(memory_complete(run->memory, claim, &completion));
    effects_clear(&completion.effects);
}

static void finish_asking(struct run *run, const struct claim *claim, json_t *request)
{
    json_t *requests CLEANUP_JSON = json_pack("[o]", request);
    struct completion completion = {.outcome = OUTCOME_OK, .requests = requests};
    ASSERT(memory_complete(run->memory, claim, &completion));
}

static void expect_ended(struct run *run, bool has_failed)
{
    struct memory_status status;
    memory_status(run->memory, &status);
    ASSERT_INT(status.state, RUN_ENDED);
    ASSERT_INT(status.has_failed, has_failed);
}

static void expect_value(struct run *run, const char *key, const char *expected)
{
    json_t *values CLEANUP_JSON = memory_result(run->memory);
    char *text = json_dumps(json_object_get(values, key), JSON_ENCODE_ANY | JSON_COMPACT);
    ASSERT_STR(text ? text : "absent", expected);
    free(text);
}

TEST(a_diamond_is_four_claims_and_the_join_comes_last)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    expect_nothing(&run);
    ASSERT(finish(&run, &c, OUTCOME_OK));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    ASSERT_STR(a.session, "s_a");
    ASSERT_STR(b.session, "s_b");
    ASSERT(finish(&run, &b, OUTCOME_OK));
    expect_nothing(&run);
    ASSERT(finish(&run, &a, OUTCOME_OK));
    ASSERT_STR(run.events, "branch s_b b ended; branch s_a a ended");
    c = take(&run, "store");
    ASSERT_STR(c.session, "s");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    expect_ended(&run, false);
    end(&run);
}

TEST(a_task_that_completes_twice_releases_nothing_twice)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    ASSERT(!finish(&run, &c, OUTCOME_OK));
    take(&run, "a");
    take(&run, "b");
    expect_nothing(&run);
    end(&run);
}

TEST(a_branch_sees_the_values_of_the_fork_and_not_its_sibling)
{
    struct run run;
    uint64_t version;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    finish_writing(&run, &c, EFFECT_SET, "k", json_integer(1));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    finish_writing(&run, &a, EFFECT_SET, "k", json_integer(2));
    json_t *values CLEANUP_JSON = memory_values(run.memory, &b, &version);
    ASSERT_INT(json_get_int(values, "k", 0), 1);
    expect_value(&run, "k", "1");
    ASSERT(finish(&run, &b, OUTCOME_OK));
    expect_value(&run, "k", "2");
    end(&run);
}

TEST(the_later_branch_wins_whoever_ended_first_and_both_are_named)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    finish_writing(&run, &b, EFFECT_SET, "k", json_string("b"));
    finish_writing(&run, &a, EFFECT_SET, "k", json_string("a"));
    expect_value(&run, "k", "\"b\"");
    ASSERT(strstr(run.events, "conflict k last a+b"));
    end(&run);
}

TEST(a_failed_branch_is_not_merged_and_successors_are_not_queued)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    finish_writing(&run, &a, EFFECT_SET, "k", json_integer(1));
    ASSERT(finish(&run, &b, OUTCOME_FAILED));
    expect_nothing(&run);
    expect_ended(&run, true);
    expect_value(&run, "k", "absent");
    end(&run);
}

TEST(queues_of_sessions_are_served_in_turn)
{
    struct run run;
    begin(&run);
    uint32_t g = group(&run, GRAPH_ROOT, "g", TSK_POLICY_STRICT), long_branch = branch(&run, g);
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        task(&run, long_branch, name);
    }
    task(&run, branch(&run, g), "y");
    open_run(&run);
    take(&run, "x0");
    take(&run, "y");
    take(&run, "x1");
    take(&run, "x2");
    end(&run);
}

TEST(a_retry_waits_for_its_time_and_counts_its_attempt)
{
    struct run run;
    struct memory_status status;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    struct completion completion = {.outcome = OUTCOME_FAILED, .retry_at_ms = 50};
    ASSERT(memory_complete(run.memory, &c, &completion));
    expect_nothing(&run);
    memory_status(run.memory, &status);
    ASSERT_INT(status.state, RUN_ACTIVE);
    ASSERT_INT(status.next_due_ms, 50);
    ASSERT(memory_claim(run.memory, 50, &c));
    ASSERT_INT(c.attempt, 2);
    ASSERT(finish(&run, &c, OUTCOME_OK));
    memory_status(run.memory, &status);
    ASSERT_INT(status.steps, 1);
    end(&run);
}

TEST(a_task_that_asks_waits_alone_and_goes_on_with_the_same_attempt)
{
    struct run run;
    struct memory_status status;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    ASSERT(memory_park(run.memory, &a));
    memory_status(run.memory, &status);
    ASSERT_INT(status.state, RUN_ACTIVE);
    ASSERT(finish(&run, &b, OUTCOME_OK));
    memory_status(run.memory, &status);
    ASSERT_INT(status.state, RUN_WAITING);
    ASSERT(memory_unpark(run.memory, a.node));
    ASSERT(!memory_unpark(run.memory, a.node));
    a = take(&run, "a");
    ASSERT_INT(a.attempt, 1);
    end(&run);
}

TEST(a_claim_that_is_given_back_can_be_claimed_again)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(memory_give_back(run.memory, &c));
    ASSERT(!finish(&run, &c, OUTCOME_OK));
    take(&run, "fetch");
    end(&run);
}

TEST(a_task_that_is_added_in_a_branch_is_queued_there_and_joined_with_it)
{
    struct run run;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    struct claim a = take(&run, "a"), b = take(&run, "b");
    finish_asking(&run, &a, json_pack("{s:s, s:s, s:{s:i}}", "do", "spawn", "task", "extra", "payload", "n", 7));
    ASSERT(finish(&run, &b, OUTCOME_OK));
    struct claim extra = take(&run, "extra");
    ASSERT_STR(extra.session, "s_a");
    ASSERT_INT(json_get_int(extra.payload, "n", 0), 7);
    expect_nothing(&run);
    ASSERT(finish(&run, &extra, OUTCOME_OK));
    take(&run, "store");
    end(&run);
}

TEST(a_task_without_edges_that_a_branch_asks_for_runs_there_and_is_joined_with_it)
{
    struct run run;
    begin(&run);
    uint32_t g = group(&run, GRAPH_ROOT, "g", TSK_POLICY_STRICT);
    task(&run, branch(&run, g), "a");
    task(&run, branch(&run, g), "b");
    edge(&run, g, task(&run, GRAPH_ROOT, "store"));
    task(&run, GRAPH_ROOT, "fix");
    open_run(&run);
    struct claim alone = take(&run, "fix"), in_a = take(&run, "a"), in_b = take(&run, "b");
    ASSERT_STR(alone.session, "s");
    finish_asking(&run, &in_a, json_pack("{s:s, s:s}", "do", "next", "task", "fix"));
    ASSERT(finish(&run, &in_b, OUTCOME_OK));
    struct claim copy = take(&run, "fix");
    ASSERT_STR(copy.session, "s_a");
    ASSERT_INT(copy.is_asked, true);
    ASSERT(finish(&run, &alone, OUTCOME_OK));
    expect_nothing(&run);
    ASSERT(finish(&run, &copy, OUTCOME_OK));
    take(&run, "store");
    end(&run);
}

TEST(goto_and_again_run_a_task_once_more_and_the_cycle_limit_ends_it)
{
    struct run run;
    begin(&run);
    uint32_t a = task(&run, GRAPH_ROOT, "a"), b = task(&run, GRAPH_ROOT, "b");
    edge(&run, a, b);
    open_with(&run, (struct memory_limits){.max_cycles = 3});
    struct claim c = take(&run, "a");
    finish_asking(&run, &c, json_pack("{s:s}", "do", "again"));
    c = take(&run, "a");
    ASSERT_INT(c.cycle, 2);
    ASSERT(finish(&run, &c, OUTCOME_OK));
    c = take(&run, "b");
    finish_asking(&run, &c, json_pack("{s:s, s:s}", "do", "goto", "task", "a"));
    c = take(&run, "a");
    ASSERT_INT(c.cycle, 3);
    finish_asking(&run, &c, json_pack("{s:s}", "do", "again"));
    expect_nothing(&run);
    struct memory_status status;
    memory_status(run.memory, &status);
    ASSERT_INT(status.failure->code, TSK_CYCLE_LIMIT_EXCEEDED);
    expect_ended(&run, true);
    end(&run);
}

TEST(max_steps_ends_the_run_with_its_own_code)
{
    struct run run;
    struct memory_status status;
    begin(&run);
    uint32_t a = task(&run, GRAPH_ROOT, "a");
    edge(&run, a, task(&run, GRAPH_ROOT, "b"));
    open_with(&run, (struct memory_limits){.max_steps = 1});
    struct claim c = take(&run, "a");
    ASSERT(finish(&run, &c, OUTCOME_OK));
    expect_nothing(&run);
    memory_status(run.memory, &status);
    ASSERT_INT(status.failure->code, TSK_MAX_STEPS_EXCEEDED);
    expect_ended(&run, true);
    end(&run);
}

TEST(a_request_for_an_unknown_task_fails_the_one_who_asked_and_its_writes_are_not_applied)
{
    struct run run;
    begin(&run);
    task(&run, GRAPH_ROOT, "a");
    open_run(&run);
    struct claim c = take(&run, "a");
    json_t *requests CLEANUP_JSON = json_pack("[{s:s, s:s}]", "do", "next", "task", "nobody");
    struct tsk_error reason = {0};
    struct completion completion = {.outcome = OUTCOME_OK, .requests = requests, .reason = &reason};
    ASSERT_INT(effects_add_take(&completion.effects, EFFECT_SET, "k", json_integer(1), &run.err), 0);
    ASSERT(memory_complete(run.memory, &c, &completion));
    ASSERT_INT(completion.outcome, OUTCOME_FAILED);
    ASSERT_INT(reason.code, TSK_INVALID_INPUT);
    expect_ended(&run, true);
    expect_value(&run, "k", "absent");
    effects_clear(&completion.effects);
    end(&run);
}

TEST(a_request_for_a_task_of_another_branch_or_with_a_name_that_cannot_be_is_invalid_input)
{
    static const char *const requests[][3] = {
        {"next", "b", "next_other_branch"}, {"spawn", "../x", "id_pattern"}, {"spawn", "b", "spawn_name_taken"}};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct run run;
        begin(&run);
        uint32_t g = group(&run, GRAPH_ROOT, "g", TSK_POLICY_STRICT);
        task(&run, branch(&run, g), "a");
        task(&run, branch(&run, g), "b");
        open_run(&run);
        struct claim c = take(&run, "a");
        json_t *asked CLEANUP_JSON = json_pack("[{s:s, s:s}]", "do", requests[i][0], "task", requests[i][1]);
        struct tsk_error reason = {0};
        struct completion completion = {.outcome = OUTCOME_OK, .requests = asked, .reason = &reason};
        ASSERT(memory_complete(run.memory, &c, &completion));
        ASSERT_INT(completion.outcome, OUTCOME_FAILED);
        ASSERT_INT(reason.code, TSK_INVALID_INPUT);
        ASSERT_STR(reason.text, requests[i][2]);
        end(&run);
    }
}

TEST(a_stopped_run_gives_no_more_claims_and_ends_when_its_last_task_did)
{
    struct run run;
    struct memory_status status;
    open_diamond(&run);
    struct claim c = take(&run, "fetch");
    memory_stop(run.memory, NULL);
    expect_nothing(&run);
    memory_status(run.memory, &status);
    ASSERT_INT(status.state, RUN_ACTIVE);
    ASSERT(finish(&run, &c, OUTCOME_STOPPED));
    expect_ended(&run, true);
    end(&run);
}

TEST(finish_ends_the_run_early_as_success_and_cancel_as_failure)
{
    for (int i = 0; i < 2; i++) {
        struct run run;
        open_diamond(&run);
        struct claim c = take(&run, "fetch");
        finish_asking(&run, &c, json_pack("{s:s}", "do", i ? "cancel" : "finish"));
        expect_nothing(&run);
        expect_ended(&run, i == 1);
        end(&run);
    }
}
