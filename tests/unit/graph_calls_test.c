/* The C library's graphs, spec 6 rules 5 to 7: limits, what a task asks for while it runs, retries; and contexts. */
#include "unit/graph_scene.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

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
    ASSERT_INT(tsk_context_cycles(s.context, "loop"), 3);
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
    ASSERT_INT(tsk_context_cycles(s.context, "a"), 1);
    ASSERT_INT(tsk_context_cycles(s.context, "b"), 0);
    end(&s);
}

static int run_finish(struct tsk_call *call, void *arg)
{
    (void)arg;
    tsk_call_finish(call);
    return 0;
}

TEST(what_a_finished_run_did_not_start_was_not_executed_and_a_merged_branch_counts_as_the_greater_one)
{
    struct scene s;
    struct tsk_context *branch;
    begin(&s);
    edge(&s, task(&s, TSK_ROOT, "a", run_finish, NULL), task(&s, TSK_ROOT, "b", run_noting, NULL));
    ASSERT_INT(tsk_context_create(s.graph, &s.options, &s.context, &s.err), 0);
    ASSERT_INT(tsk_context_branch(s.context, "x", &branch, &s.err), 0);
    ASSERT_INT(tsk_context_run(branch, &s.err), 0);
    ASSERT_INT(tsk_context_merge(s.context, branch, &s.err), 0);
    ASSERT_INT(tsk_context_cycles(s.context, "a"), 1);
    ASSERT_INT(tsk_context_cycles(s.context, "b"), 0);
    tsk_context_free(branch);
    end(&s);
}

static int run_next_once(struct tsk_call *call, void *arg)
{
    note(tsk_call_task(call));
    return atomic_fetch_add(&seen.runs, 1) == 0 ? tsk_call_next(call, arg, false) : 0;
}

TEST(a_context_begins_at_a_task_and_runs_what_follows_it_in_its_branch)
{
    struct scene s;
    begin(&s);
    uint32_t a = task(&s, TSK_ROOT, "a", run_noting, NULL), g = group(&s, TSK_ROOT, "g", TSK_POLICY_STRICT, 0);
    uint32_t left = branch(&s, g, false), right = branch(&s, g, false), z = task(&s, TSK_ROOT, "z", run_noting, NULL);
    edge(&s, task(&s, left, "l1", run_noting, NULL), task(&s, left, "l2", run_noting, NULL));
    task(&s, right, "r", run_noting, NULL);
    edge(&s, a, g);
    edge(&s, g, z);
    ASSERT_INT(tsk_context_create(s.graph, &s.options, &s.context, &s.err), 0);
    ASSERT_INT(tsk_context_begin_at(s.context, "nobody", &s.err), -1);
    ASSERT_INT(s.err.code, TSK_INVALID_INPUT);
    struct tsk_context *made[3];
    static const char *const first[] = {"l1", "g", "z"}, *const ran[] = {"l1 l2", NULL, "z"};
    for (int i = 0; i < 3; i++) {
        seen.text[0] = '\0';
        ASSERT_INT(tsk_context_branch(s.context, "b", &made[i], &s.err), 0);
        ASSERT(tsk_context_parent(made[i]) == s.context);
        ASSERT_INT(tsk_context_begin_at(made[i], first[i], &s.err), 0);
        ASSERT_INT(tsk_context_run(made[i], &s.err), 0);
        ASSERT_INT(tsk_context_begin_at(made[i], first[i], &s.err), -1);
        if (ran[i])
            ASSERT_STR(seen.text, ran[i]);
        ASSERT_INT(tsk_context_cycles(made[i], "a"), 0);
        ASSERT_INT(tsk_context_merge(s.context, made[i], &s.err), 0);
    }
    ASSERT_INT(tsk_context_steps(s.context), 2 + 4 + 1);
    ASSERT_INT(tsk_context_cycles(s.context, "r"), 1);
    ASSERT(!tsk_context_parent(s.context));
    for (int i = 0; i < 3; i++)
        tsk_context_free(made[i]);
    end(&s);
}

TEST(a_task_before_the_beginning_runs_when_it_is_named)
{
    struct scene s;
    begin(&s);
    edge(&s, task(&s, TSK_ROOT, "a", run_noting, NULL), task(&s, TSK_ROOT, "b", run_next_once, "a"));
    ASSERT_INT(tsk_context_create(s.graph, &s.options, &s.context, &s.err), 0);
    ASSERT_INT(tsk_context_begin_at(s.context, "b", &s.err), 0);
    ASSERT_INT(tsk_context_run(s.context, &s.err), 0);
    ASSERT_STR(seen.text, "b a b");
    end(&s);
}

TEST(the_keys_of_a_channel_come_in_their_order)
{
    struct scene s;
    begin(&s);
    task(&s, TSK_ROOT, "t", run_noting, NULL);
    ASSERT_INT(tsk_context_create(s.graph, &s.options, &s.context, &s.err), 0);
    static const char *const keys[] = {"b", "a.x", "c"};
    for (int i = 0; i <= 3; i++) {
        char *text = tsk_context_keys(s.context);
        static const char *const expected[] = {"[]", "[\"b\"]", "[\"a.x\",\"b\"]", "[\"a.x\",\"b\",\"c\"]"};
        ASSERT_STR(text, expected[i]);
        free(text);
        if (i < 3)
            ASSERT_INT(tsk_context_set(s.context, keys[i], "1", &s.err), 0);
    }
    end(&s);
}

static int run_third_time(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    return tsk_call_attempt(call) == 3 ? 0 : -1;
}

TEST(the_retries_of_a_context_are_for_tasks_without_their_own)
{
    struct scene s;
    begin(&s);
    s.options.retries = 2;
    s.options.backoff_initial_ms = 1;
    uint32_t own = task(&s, TSK_ROOT, "own", run_failing, NULL);
    task(&s, TSK_ROOT, "t", run_third_time, NULL);
    ASSERT_INT(tsk_graph_retry(s.graph, own, 0, 1, 1, &s.err), 0);
    ASSERT_INT(run(&s), -1);
    ASSERT_INT(times_seen("t"), 3);
    ASSERT_INT(times_seen("own"), 1);
    end(&s);
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

enum { SPAWNED = 100000 };

static int run_counting(struct tsk_call *call, void *arg)
{
    (void)call;
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int run_spawning_many(struct tsk_call *call, void *arg)
{
    char name[24];
    for (int i = 0; i < SPAWNED; i++) {
        snprintf(name, sizeof name, "t%d", i);
        if (tsk_call_spawn(call, name, run_counting, arg) < 0)
            return -1;
    }
    return 0;
}

static int run_asking_for_many(struct tsk_call *call, void *arg)
{
    (void)arg;
    for (int i = 0; i < 10 * SPAWNED; i++)
        if (tsk_call_next(call, "missing", false) == 0)
            return tsk_call_fail(call, "it was found");
    return tsk_call_next(call, "t0", false);
}

TEST(a_name_is_found_among_a_hundred_thousand_spawned_tasks_without_looking_at_each)
{
    struct scene s;
    _Atomic int count = 0;
    begin(&s);
    edge(&s, task(&s, TSK_ROOT, "spawns", run_spawning_many, &count),
         task(&s, TSK_ROOT, "asks", run_asking_for_many, NULL));
    ASSERT_INT(run(&s), 0);
    ASSERT(count == SPAWNED || count == SPAWNED + 1); /* one that has not run yet is not run twice */
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

/* ---- no memory ---- */

static size_t mapped_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ASSERT(file && fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(a_context_for_which_there_is_no_memory_is_refused_and_leaves_the_graph_usable)
{
    struct scene s;
    struct rlimit before, little;
    begin(&s);
    for (unsigned i = 0; i < 500000; i++) /* their states take more than is left below */
        task(&s, TSK_ROOT, NULL, run_adding, NULL);
    ASSERT_INT(tsk_context_create(s.graph, NULL, &s.context, &s.err),
               0); /* sealed: from here on only the context is missing */
    tsk_context_free(s.context);
    s.context = NULL;
    ASSERT_INT(getrlimit(RLIMIT_AS, &before), 0);
    little = (struct rlimit){.rlim_cur = mapped_bytes() + (1u << 20), .rlim_max = before.rlim_max};
    ASSERT_INT(setrlimit(RLIMIT_AS, &little), 0);
    int refused = tsk_context_create(s.graph, NULL, &s.context, &s.err);
    ASSERT_INT(setrlimit(RLIMIT_AS, &before), 0);
    ASSERT_INT(refused, -1);
    ASSERT_INT(s.err.sys_errno, ENOMEM);
    ASSERT_INT(tsk_context_create(s.graph, NULL, &s.context, &s.err), 0);
    end(&s);
}
