/* The C library's graphs, spec 6 rules 1 to 4: joins, sessions and channels, failure. */
#include "unit/graph_scene.h"

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

TEST(the_rules_sum_max_and_min_fail_the_group_of_a_number_and_a_text)
{
    static const enum tsk_merge rules[] = {TSK_MERGE_SUM, TSK_MERGE_MAX, TSK_MERGE_MIN};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct scene s;
        begin(&s);
        ASSERT_INT(tsk_graph_merge(s.graph, "key", rules[i], &s.err), 0);
        uint32_t g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
        task(&s, branch(&s, g, false), "a", run_setting, "\"text\"");
        task(&s, branch(&s, g, false), "b", run_setting, "-1");
        ASSERT_INT(run(&s), -1);
        ASSERT_INT(s.err.code, TSK_GROUP_FAILED);
        ASSERT_STR(tsk_error_context(&s.err, "second"), "b");
        expect_value(&s, "key", NULL);
        end(&s);
    }
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
    ASSERT_INT(s.err.code, TSK_GROUP_FAILED);
    ASSERT(!strstr(tsk_error_context(&s.err, "branches"), "endless")); /* it was stopped, it did not fail */
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
