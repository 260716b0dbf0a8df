/* The graph engine through its public functions: the rules of flows, with C functions as tasks. */
#include "harness/test.h"
#include "tasuki.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct scene {
    struct tsk_graph *graph;
    struct tsk_context *context;
    struct tsk_context_options options;
    struct tsk_error err;
};

/* The order in which tasks began, and how often. */
static struct {
    pthread_mutex_t mutex;
    char text[4096];
    _Atomic int runs, running, most;
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note(const char *word)
{
    pthread_mutex_lock(&seen.mutex);
    size_t at = strlen(seen.text);
    snprintf(seen.text + at, sizeof seen.text - at, "%s%s", at ? " " : "", word);
    pthread_mutex_unlock(&seen.mutex);
}

static unsigned times_seen(const char *word)
{
    unsigned count = 0;
    char padded[4200], needle[100];
    snprintf(padded, sizeof padded, " %s ", seen.text);
    snprintf(needle, sizeof needle, " %s ", word);
    for (const char *at = padded; (at = strstr(at, needle)); at++)
        count++;
    return count;
}

static int run_noting(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    return 0;
}

static int run_failing(struct tsk_call *call, void *arg)
{
    note(tsk_call_task(call));
    return tsk_call_fail(call, arg ? arg : "it fails");
}

static void begin(struct scene *scene)
{
    *scene = (struct scene){.options = {.size = sizeof scene->options, .session_id = "s", .workers = 3}};
    ASSERT_INT(tsk_graph_new(&scene->graph, &scene->err), 0);
}

static uint32_t task(struct scene *scene, uint32_t scope, const char *name, tsk_task_function *function, void *arg)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_task(scene->graph, scope, name, function, arg, &made, &scene->err), 0);
    return made;
}

static uint32_t group(struct scene *scene, uint32_t scope, const char *name, enum tsk_policy policy, uint32_t number)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_group(scene->graph, scope, name, policy, number, &made, &scene->err), 0);
    return made;
}

static uint32_t branch(struct scene *scene, uint32_t of, bool is_critical)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_branch(scene->graph, of, NULL, is_critical, &made, &scene->err), 0);
    return made;
}

static void edge(struct scene *scene, uint32_t before, uint32_t after)
{
    ASSERT_INT(tsk_graph_edge(scene->graph, before, after, &scene->err), 0);
}

static int run(struct scene *scene)
{
    ASSERT_INT(tsk_context_create(scene->graph, &scene->options, &scene->context, &scene->err), 0);
    return tsk_context_run(scene->context, &scene->err);
}

static void expect_value(struct scene *scene, const char *key, const char *json)
{
    char *value = tsk_context_get(scene->context, key);
    if (json)
        ASSERT_STR(value, json);
    else
        ASSERT(!value);
    free(value);
}

static void end(struct scene *scene)
{
    tsk_context_free(scene->context);
    tsk_graph_free(scene->graph);
}

/* ---- rule 1: joins ---- */

TEST(a_diamond_of_plain_edges_joins_once)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), b = task(&s, TSK_ROOT, "b", run_noting, NULL);
    uint32_t c = task(&s, TSK_ROOT, "c", run_noting, NULL), d = task(&s, TSK_ROOT, "d", run_noting, NULL);
    edge(&s, a, b);
    edge(&s, a, c);
    edge(&s, b, d);
    edge(&s, c, d);
    ASSERT_INT(run(&s), 0);
    ASSERT(strcmp(seen.text, "a b c d") == 0 || strcmp(seen.text, "a c b d") == 0);
    ASSERT_INT(tsk_context_steps(s.context), 4);
    end(&s);
}

TEST(successors_begin_in_the_order_in_which_their_edges_were_added)
{
    struct scene s;
    begin(&s);
    s.options.workers = 1;
    /* They are older than what they wait for: edges may lead back. */
    uint32_t e = task(&s, TSK_ROOT, "e", run_noting, NULL), d = task(&s, TSK_ROOT, "d", run_noting, NULL);
    uint32_t c = task(&s, TSK_ROOT, "c", run_noting, NULL), b = task(&s, TSK_ROOT, "b", run_noting, NULL);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), z = task(&s, TSK_ROOT, "z", run_noting, NULL);
    edge(&s, a, b);
    edge(&s, a, c);
    edge(&s, z, e);
    edge(&s, a, d);
    edge(&s, a, e);
    edge(&s, a, z);
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "a b c d z e");
    end(&s);
}

TEST(groups_in_groups_join_each_once)
{
    struct scene s;
    begin(&s);
    uint32_t outer = group(&s, TSK_ROOT, "outer", TSK_POLICY_STRICT, 0);
    uint32_t left = branch(&s, outer, false), right = branch(&s, outer, false);
    uint32_t inner = group(&s, left, "inner", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, inner, false), "x", run_noting, NULL);
    task(&s, branch(&s, inner, false), "y", run_noting, NULL);
    uint32_t after_inner = task(&s, left, "after_inner", run_noting, NULL);
    edge(&s, inner, after_inner);
    task(&s, right, "z", run_noting, NULL);
    uint32_t last = task(&s, TSK_ROOT, "last", run_noting, NULL);
    edge(&s, outer, last);
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(tsk_context_steps(s.context), 5);
    ASSERT_INT(times_seen("after_inner"), 1);
    ASSERT_STR(seen.text + strlen(seen.text) - 4, "last");
    end(&s);
}

TEST(an_edge_out_of_a_group_waits_for_the_whole_group)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    uint32_t x = task(&s, branch(&s, g, false), "x", run_noting, NULL);
    task(&s, branch(&s, g, false), "y", run_noting, NULL);
    edge(&s, x, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text + strlen(seen.text) - 4, "last");
    ASSERT_INT(tsk_context_steps(s.context), 3);
    end(&s);
}

TEST(an_edge_between_two_branches_of_a_group_is_refused)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    uint32_t x = task(&s, branch(&s, g, false), "x", run_noting, NULL);
    uint32_t y = task(&s, branch(&s, g, false), "y", run_noting, NULL);
    ASSERT_INT(tsk_graph_edge(s.graph, x, y, &s.err), -1);
    ASSERT_INT(s.err.code, TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&s.err, "after"), "y");
    end(&s);
}

TEST(a_cycle_of_edges_is_refused_with_its_path)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), b = task(&s, TSK_ROOT, "b", run_noting, NULL);
    uint32_t c = task(&s, TSK_ROOT, "c", run_noting, NULL), d = task(&s, TSK_ROOT, "d", run_noting, NULL);
    edge(&s, a, b);
    edge(&s, b, c);
    edge(&s, c, b);
    edge(&s, c, d);
    ASSERT_INT(tsk_context_create(s.graph, NULL, &s.context, &s.err), -1);
    ASSERT_INT(s.err.code, TSK_FLOW_INVALID);
    const char *path = tsk_error_context(&s.err, "path");
    ASSERT(strcmp(path, "b >> c >> b") == 0 || strcmp(path, "c >> b >> c") == 0);
    s.context = NULL;
    end(&s);
}

/* ---- rules 2 and 3: sessions and channels ---- */

static int run_checking_session(struct tsk_call *call, void *arg)
{
    note(tsk_call_session(call));
    (void)arg;
    return 0;
}

TEST(a_branch_has_the_session_id_of_its_parent_and_its_own)
{
    struct scene s;
    begin(&s);
    uint32_t outer = group(&s, TSK_ROOT, "outer", TSK_POLICY_STRICT, 0), b = branch(&s, outer, false);
    uint32_t inner = group(&s, b, "inner", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, inner, false), "x", run_checking_session, NULL);
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "s_inner_x");
    end(&s);
}

static int run_setting(struct tsk_call *call, void *arg)
{
    return tsk_call_set(call, "key", arg);
}

static int run_adding(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_add(call, "count", 1);
}

static int run_reading(struct tsk_call *call, void *arg)
{
    char *value = tsk_call_get(call, "key");
    (void)arg;
    note(value ? value : "none");
    free(value);
    return 0;
}

static int run_setting_slowly(struct tsk_call *call, void *arg)
{
    while (atomic_load(&seen.runs) == 0)
        ;
    return tsk_call_set(call, "key", arg);
}

static int run_setting_first(struct tsk_call *call, void *arg)
{
    int result = tsk_call_set(call, "key", arg);
    atomic_store(&seen.runs, 1);
    return result;
}

TEST(a_key_that_a_sibling_only_read_keeps_what_the_other_wrote)
{
    struct scene s;
    begin(&s);
    uint32_t first = task(&s, TSK_ROOT, "first", run_setting, "1");
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "writer", run_setting, "2");
    task(&s, branch(&s, g, false), "reader", run_reading, NULL);
    edge(&s, first, g);
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "1");
    expect_value(&s, "key", "2");
    end(&s);
}

static struct {
    char key[32], first[32], second[32];
} conflict;

static void on_conflict(void *data, const char *key, const char *first, const char *second)
{
    (void)data;
    snprintf(conflict.key, sizeof conflict.key, "%s", key);
    snprintf(conflict.first, sizeof conflict.first, "%s", first);
    snprintf(conflict.second, sizeof conflict.second, "%s", second);
}

TEST(the_last_branch_of_the_graph_wins_though_it_ended_first_and_the_conflict_is_told)
{
    struct scene s;
    begin(&s);
    s.options.on_conflict = on_conflict;
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "slow", run_setting_slowly, "\"slow\"");
    task(&s, branch(&s, g, false), "fast", run_setting_first, "\"fast\"");
    ASSERT_INT(run(&s), 0);
    expect_value(&s, "key", "\"fast\"");
    ASSERT_STR(conflict.key, "key");
    ASSERT_STR(conflict.first, "slow");
    ASSERT_STR(conflict.second, "fast");
    end(&s);
}

static void counters(struct scene *s, enum tsk_merge rule, const char *expected)
{
    begin(s);
    s->options.on_conflict = on_conflict;
    if (rule != TSK_MERGE_LAST)
        ASSERT_INT(tsk_graph_merge(s->graph, "count", rule, &s->err), 0);
    uint32_t first = task(s, TSK_ROOT, "first", run_adding, NULL);
    uint32_t g = group(s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    for (int i = 0; i < 4; i++)
        task(s, branch(s, g, false), NULL, run_adding, NULL);
    edge(s, first, g);
    ASSERT_INT(run(s), 0);
    expect_value(s, "count", expected);
    end(s);
}

TEST(branches_that_count_in_one_key_add_up_with_the_rule_sum)
{
    struct scene s;
    counters(&s, TSK_MERGE_SUM, "5");
    ASSERT_STR(conflict.key, "");
}

TEST(branches_that_count_in_one_key_without_a_rule_are_reported)
{
    struct scene s;
    counters(&s, TSK_MERGE_LAST, "2");
    ASSERT_STR(conflict.key, "count");
}

TEST(the_rule_error_fails_the_group_of_two_writers)
{
    struct scene s;
    begin(&s);
    ASSERT_INT(tsk_graph_merge(s.graph, "*", TSK_MERGE_ERROR, &s.err), 0);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "a", run_setting, "1");
    task(&s, branch(&s, g, false), "b", run_setting, "2");
    edge(&s, g, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_GROUP_FAILED);
    ASSERT_STR(tsk_error_context(&s.err, "key"), "key");
    ASSERT_INT(times_seen("last"), 0);
    expect_value(&s, "key", NULL);
    end(&s);
}

TEST(a_merge_that_fails_in_a_nested_group_fails_the_groups_around_it_and_is_the_reason)
{
    struct scene s;
    begin(&s);
    ASSERT_INT(tsk_graph_merge(s.graph, "key", TSK_MERGE_ERROR, &s.err), 0);
    uint32_t outer = group(&s, TSK_ROOT, "outer", TSK_POLICY_STRICT, 0), inner_branch = branch(&s, outer, false);
    uint32_t inner = group(&s, inner_branch, "inner", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, inner, false), "a", run_setting, "1");
    task(&s, branch(&s, inner, false), "b", run_setting, "2");
    edge(&s, inner, task(&s, inner_branch, "behind", run_noting, NULL));
    task(&s, branch(&s, outer, false), "beside", run_noting, NULL);
    edge(&s, outer, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_GROUP_FAILED);
    ASSERT_STR(tsk_error_context(&s.err, "key"), "key");
    ASSERT_STR(tsk_error_context(&s.err, "first"), "a");
    ASSERT_STR(tsk_error_context(&s.err, "second"), "b");
    ASSERT_STR(seen.text, "beside");
    expect_value(&s, "key", NULL);
    end(&s);
}

/* ---- rule 4: failure ---- */

TEST(a_failed_branch_fails_the_group_names_itself_and_its_successors_do_not_run)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "bad", run_failing, NULL);
    task(&s, branch(&s, g, false), "good", run_noting, NULL);
    edge(&s, g, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_GROUP_FAILED);
    ASSERT_STR(tsk_error_context(&s.err, "branches"), "bad");
    ASSERT_INT(times_seen("last"), 0);
    ASSERT_INT(times_seen("good"), 1);
    end(&s);
}

static int run_setting_and_failing(struct tsk_call *call, void *arg)
{
    return tsk_call_set(call, "key", arg) < 0 ? 0 : tsk_call_fail(call, "after all");
}

TEST(with_best_effort_successors_run_and_what_the_failed_branch_wrote_is_not_merged)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_BEST_EFFORT, 0);
    uint32_t b = branch(&s, g, false);
    uint32_t writer = task(&s, b, "writer", run_setting, "1");
    edge(&s, writer, task(&s, b, "bad", run_setting_and_failing, "2"));
    edge(&s, g, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(times_seen("last"), 1);
    expect_value(&s, "key", NULL);
    end(&s);
}

static int policy_result(enum tsk_policy policy, uint32_t number, bool first_is_critical)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", policy, number);
    task(&s, branch(&s, g, first_is_critical), "bad", run_failing, NULL);
    task(&s, branch(&s, g, !first_is_critical), "good1", run_noting, NULL);
    task(&s, branch(&s, g, false), "good2", run_noting, NULL);
    int result = run(&s);
    end(&s);
    return result;
}

TEST(at_least_and_critical_decide_by_number_and_by_branch)
{
    ASSERT_INT(policy_result(TSK_POLICY_AT_LEAST, 2, false), 0);
    ASSERT_INT(policy_result(TSK_POLICY_AT_LEAST, 3, false), -1);
    ASSERT_INT(policy_result(TSK_POLICY_CRITICAL, 0, false), 0);
    ASSERT_INT(policy_result(TSK_POLICY_CRITICAL, 0, true), -1);
}

static int run_until_stopped(struct tsk_call *call, void *arg)
{
    (void)arg;
    while (!tsk_call_is_stopped(call))
        ;
    return tsk_call_fail(call, "stopped");
}

TEST(fail_fast_stops_the_other_branches)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_FAIL_FAST, 0), b = branch(&s, g, false);
    uint32_t endless = task(&s, b, "endless", run_until_stopped, NULL);
    edge(&s, endless, task(&s, b, "never", run_noting, NULL));
    task(&s, branch(&s, g, false), "bad", run_failing, NULL);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(times_seen("never"), 0);
    end(&s);
}

TEST(what_does_not_depend_on_a_failure_runs_to_its_end)
{
    struct scene s;
    begin(&s);
    uint32_t bad = task(&s, TSK_ROOT, "bad", run_failing, NULL), good = task(&s, TSK_ROOT, "good", run_noting, NULL);
    edge(&s, bad, task(&s, TSK_ROOT, "blocked", run_noting, NULL));
    edge(&s, good, task(&s, TSK_ROOT, "reached", run_noting, NULL));
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_TASK_FAILED);
    ASSERT_INT(times_seen("blocked"), 0);
    ASSERT_INT(times_seen("reached"), 1);
    end(&s);
}

/* ---- rules 5 to 7 ---- */

static int run_again(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    return tsk_call_again(call);
}

TEST(max_steps_is_a_failure_of_its_own)
{
    struct scene s;
    begin(&s);
    s.options.max_steps = 5;
    s.options.max_cycles = 1000;
    task(&s, TSK_ROOT, "loop", run_again, NULL);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_MAX_STEPS_EXCEEDED);
    ASSERT_INT(times_seen("loop"), 5);
    ASSERT_INT(tsk_context_steps(s.context), 5);
    end(&s);
}

TEST(max_cycles_allows_so_many_executions_and_no_more)
{
    struct scene s;
    begin(&s);
    uint32_t loop = task(&s, TSK_ROOT, "loop", run_again, NULL);
    ASSERT_INT(tsk_graph_max_cycles(s.graph, loop, 3, &s.err), 0);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_CYCLE_LIMIT_EXCEEDED);
    ASSERT_INT(times_seen("loop"), 3);
    end(&s);
}

static int run_back_once(struct tsk_call *call, void *arg)
{
    note(tsk_call_task(call));
    return atomic_fetch_add(&seen.runs, 1) == 0 ? tsk_call_next(call, arg, true) : 0;
}

TEST(goto_goes_back_and_everything_behind_runs_again_before_the_successors)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), b = task(&s, TSK_ROOT, "b", run_noting, NULL);
    uint32_t c = task(&s, TSK_ROOT, "c", run_back_once, "a");
    edge(&s, a, b);
    edge(&s, b, c);
    edge(&s, c, task(&s, TSK_ROOT, "d", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "a b c a b c d");
    ASSERT_INT(tsk_context_cycles(s.context, "b"), 2);
    end(&s);
}

TEST(goto_forward_skips_what_lies_between)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_back_once, "c"), b = task(&s, TSK_ROOT, "b", run_noting, NULL);
    edge(&s, a, b);
    edge(&s, b, task(&s, TSK_ROOT, "c", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "a c");
    end(&s);
}

static int run_next_once(struct tsk_call *call, void *arg)
{
    note(tsk_call_task(call));
    return atomic_fetch_add(&seen.runs, 1) == 0 ? tsk_call_next(call, arg, false) : 0;
}

TEST(a_join_waits_for_a_predecessor_that_was_activated_again)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), b = task(&s, TSK_ROOT, "b", run_next_once, "a");
    edge(&s, a, b);
    edge(&s, b, task(&s, TSK_ROOT, "c", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "a b a b c");
    end(&s);
}

TEST(a_branch_cannot_ask_for_a_task_outside_itself)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "inside", run_next_once, "outside");
    task(&s, TSK_ROOT, "outside", run_noting, NULL);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(times_seen("outside"), 1);
    end(&s);
}

static int run_spawning(struct tsk_call *call, void *arg)
{
    int left = (int)(intptr_t)arg;
    note(tsk_call_session(call));
    return left ? tsk_call_spawn(call, NULL, run_spawning, (void *)(intptr_t)(left - 1))
                : tsk_call_add(call, "count", 1);
}

TEST(tasks_that_a_branch_adds_run_in_that_branch_before_its_join)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    task(&s, branch(&s, g, false), "x", run_spawning, (void *)(intptr_t)3);
    edge(&s, g, task(&s, TSK_ROOT, "last", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_STR(seen.text, "s_x s_x s_x s_x last");
    expect_value(&s, "count", "1");
    end(&s);
}

static int run_flaky(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    if (tsk_call_add(call, "count", 1) < 0)
        return -1;
    return tsk_call_attempt(call) < 3 ? tsk_call_fail(call, "not yet") : 0;
}

TEST(a_failed_task_is_tried_again_and_writes_once)
{
    struct scene s;
    begin(&s);
    uint32_t flaky = task(&s, TSK_ROOT, "flaky", run_flaky, NULL);
    ASSERT_INT(tsk_graph_retry(s.graph, flaky, 2, 1, 10, &s.err), 0);
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(times_seen("flaky"), 3);
    expect_value(&s, "count", "1");
    end(&s);
}

static int run_releasing(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    atomic_store(&seen.runs, 1);
    return 0;
}

static int run_failing_until_released(struct tsk_call *call, void *arg)
{
    (void)arg;
    return atomic_load(&seen.runs) ? 0 : tsk_call_fail(call, "not yet");
}

TEST(a_task_that_waits_for_its_retry_does_not_hold_the_only_worker)
{
    struct scene s;
    begin(&s);
    s.options.workers = 1;
    uint32_t flaky = task(&s, TSK_ROOT, "flaky", run_failing_until_released, NULL);
    ASSERT_INT(tsk_graph_retry(s.graph, flaky, 3, 1, 10, &s.err), 0);
    task(&s, TSK_ROOT, "other", run_releasing, NULL);
    ASSERT_INT(run(&s), 0);
    end(&s);
}

static int run_finishing(struct tsk_call *call, void *arg)
{
    (void)arg;
    tsk_call_finish(call);
    return 0;
}

TEST(a_task_can_end_the_run_early_as_success)
{
    struct scene s;
    begin(&s);
    uint32_t first = task(&s, TSK_ROOT, "first", run_finishing, NULL);
    edge(&s, first, task(&s, TSK_ROOT, "never", run_noting, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(times_seen("never"), 0);
    end(&s);
}

static int run_cancelling(struct tsk_call *call, void *arg)
{
    (void)arg;
    tsk_call_cancel(call, "enough");
    return 0;
}

TEST(a_task_can_cancel_the_run)
{
    struct scene s;
    begin(&s);
    uint32_t first = task(&s, TSK_ROOT, "first", run_cancelling, NULL);
    edge(&s, first, task(&s, TSK_ROOT, "never", run_noting, NULL));
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_RUN_FAILED);
    ASSERT_STR(tsk_error_context(&s.err, "message"), "enough");
    ASSERT_INT(times_seen("never"), 0);
    end(&s);
}

/* ---- contexts ---- */

TEST(a_context_branched_by_hand_merges_what_it_wrote_and_adds_its_steps)
{
    struct scene s;
    struct tsk_context *child;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_adding, NULL);
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(tsk_context_set(s.context, "other", "1", &s.err), 0);
    ASSERT_INT(tsk_context_branch(s.context, "b", &child, &s.err), 0);
    ASSERT_STR(tsk_context_session(child), "s_b");
    ASSERT_INT(tsk_context_run(child, &s.err), 0);
    ASSERT_INT(tsk_context_set(s.context, "other", "2", &s.err), 0);
    ASSERT_INT(tsk_context_merge(s.context, child, &s.err), 0);
    expect_value(&s, "count", "2");
    expect_value(&s, "other", "2");
    ASSERT_INT(tsk_context_steps(s.context), 2);
    tsk_context_free(child);
    end(&s);
}

static void *run_context(void *arg)
{
    struct tsk_error err;
    return (void *)(intptr_t)tsk_context_run(arg, &err);
}

TEST(eight_contexts_run_one_graph_at_once_without_seeing_each_other)
{
    struct scene s;
    pthread_t threads[8];
    struct tsk_context *contexts[8];
    begin(&s);
    ASSERT_INT(tsk_graph_merge(s.graph, "count", TSK_MERGE_SUM, &s.err), 0);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    for (int i = 0; i < 16; i++)
        task(&s, branch(&s, g, false), NULL, run_adding, NULL);
    s.options.session_id = NULL;
    for (int i = 0; i < 8; i++) {
        ASSERT_INT(tsk_context_create(s.graph, &s.options, &contexts[i], &s.err), 0);
        ASSERT_INT(pthread_create(&threads[i], NULL, run_context, contexts[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *result;
        ASSERT_INT(pthread_join(threads[i], &result), 0);
        ASSERT_INT((intptr_t)result, 0);
        s.context = contexts[i];
        expect_value(&s, "count", "16");
        tsk_context_free(contexts[i]);
    }
    tsk_graph_free(s.graph);
}

static int run_counting(struct tsk_call *call, void *arg)
{
    (void)call;
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

TEST(a_hundred_thousand_tasks_run_once_each)
{
    struct scene s;
    _Atomic int count = 0;
    uint32_t before = 0;
    begin(&s);
    for (int i = 0; i < 100000; i++) {
        uint32_t t = task(&s, TSK_ROOT, NULL, run_counting, &count);
        if (i % 7)
            edge(&s, before, t);
        before = t;
    }
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(count, 100000);
    ASSERT_INT(tsk_context_steps(s.context), 100000);
    end(&s);
}

TEST(a_graph_that_a_context_uses_cannot_be_changed)
{
    struct scene s;
    uint32_t made;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_noting, NULL);
    ASSERT_INT(run(&s), 0);
    ASSERT_INT(tsk_graph_task(s.graph, TSK_ROOT, "u", run_noting, NULL, &made, &s.err), -1);
    ASSERT_INT(tsk_context_run(s.context, &s.err), -1);
    end(&s);
}

TEST(an_empty_group_and_a_second_name_are_refused)
{
    struct scene s;
    uint32_t made;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_noting, NULL);
    ASSERT_INT(tsk_graph_task(s.graph, TSK_ROOT, "t", run_noting, NULL, &made, &s.err), -1);
    ASSERT_STR(tsk_error_context(&s.err, "name"), "t");
    group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    ASSERT_INT(tsk_context_create(s.graph, NULL, &s.context, &s.err), -1);
    ASSERT_STR(tsk_error_context(&s.err, "name"), "g");
    s.context = NULL;
    end(&s);
}

TEST(a_run_that_its_last_task_cancels_has_failed)
{
    struct scene s;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_cancelling, NULL);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_RUN_FAILED);
    ASSERT_STR(tsk_error_context(&s.err, "message"), "enough");
    end(&s);
}

TEST(a_run_that_a_branch_of_a_tolerant_group_cancels_has_failed)
{
    struct scene s;
    begin(&s);
    uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_BEST_EFFORT, 0);
    task(&s, branch(&s, g, false), "a", run_cancelling, NULL);
    task(&s, branch(&s, g, false), "b", run_failing, NULL);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(s.err.code, TSK_RUN_FAILED);
    end(&s);
}

TEST(a_task_without_a_function_is_refused)
{
    struct scene s;
    uint32_t made;
    begin(&s);
    ASSERT_INT(tsk_graph_task(s.graph, TSK_ROOT, "t", NULL, NULL, &made, &s.err), -1);
    ASSERT_INT(s.err.code, TSK_INVALID_INPUT);
    end(&s);
}

TEST(a_branch_is_merged_once_and_into_its_own_context_only)
{
    struct scene s;
    struct tsk_context *other, *made;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_noting, NULL);
    ASSERT_INT(tsk_context_create(s.graph, &s.options, &s.context, &s.err), 0);
    ASSERT_INT(tsk_context_create(s.graph, NULL, &other, &s.err), 0);
    ASSERT_INT(tsk_context_branch(s.context, "b", &made, &s.err), 0);
    ASSERT_INT(tsk_context_merge(s.context, s.context, &s.err), -1);
    ASSERT_INT(tsk_context_merge(other, made, &s.err), -1);
    ASSERT_INT(tsk_context_merge(s.context, made, &s.err), 0);
    ASSERT_INT(tsk_context_merge(s.context, made, &s.err), -1);
    ASSERT_INT(s.err.code, TSK_INVALID_INPUT);
    tsk_context_free(made);
    tsk_context_free(other);
    end(&s);
}
