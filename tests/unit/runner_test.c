/* The runner as a part of a program that has threads of its own, or none: it must not matter. */
#include "scene.h"

#include "graph/runner.h"

#include <pthread.h>
#include <semaphore.h>

#define FLOW                                                                                                           \
    "flow: a >> (b | c) >> d\n"                                                                                        \
    "tasks: {a: [/bin/true], b: [/bin/true], c: [sh, -c, 'exit 3'], d: [/bin/true]}\n"

/* The callback for a start returns when the task has ended: its signal arrives while the runner does not wait for any. */
static void wait_for_task(void *data, const json_t *document)
{
    siginfo_t info;
    int64_t pid = json_get_int(json_object_get(document, "data"), "pid", 0);
    (void)data;
    if (pid)
        ASSERT_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* Runs it to its end; the status of the run and of its only failure, the signals as they were. */
static void run_flow(const char *text, const char *status, int exit_code)
{
    struct tsk_error err;
    struct flow flow;
    struct runner runner;
    struct runner_options options = {.parallel = 2, .tell = wait_for_task};
    json_t *stage CLEANUP_JSON = NULL;
    struct tsk_workspace *ws = scene_open();
    sigset_t before = {0}, after = {0}; /* compared as a whole, and the kernel fills in only what it has signals for */
    sigprocmask(SIG_SETMASK, NULL, &before);
    ASSERT_OK(flow_load(&flow, "flow.yaml", text, strlen(text), LANG_EN, &err));
    ASSERT_OK(runner_begin(&runner, ws, &flow, text, strlen(text), NULL, &options, &err));
    ASSERT_OK(runner_execute(&runner, &stage, &err));
    runner_close(&runner);
    flow_clear(&flow);
    ASSERT_STR(json_get_string(stage, "status", ""), status);
    ASSERT_INT(json_get_int(json_array_get(json_object_get(stage, "failures"), 0), "exit_code", 0), exit_code);
    sigprocmask(SIG_SETMASK, NULL, &after);
    ASSERT(memcmp(&before, &after, sizeof before) == 0);
    ASSERT_INT(waitpid(-1, NULL, WNOHANG), -1);
    ASSERT_INT(errno, ECHILD);
    tsk_workspace_close(ws);
}

static void ask_at_end(void *data, const json_t *document)
{
    struct proc_id self;
    const bool *is_now = data;
    if (!json_text_is(document, "type", "run.ended"))
        return;
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    ASSERT_INT(runner_ask_cancel(&self, *is_now), 0);
}

/* Returns after the runner has heard the signals that came while it was deaf. */
static void run_and_cancel_late(bool is_now)
{
    struct tsk_error err;
    struct flow flow;
    struct runner runner;
    struct runner_options options = {.tell = ask_at_end, .tell_data = &is_now};
    json_t *stage CLEANUP_JSON = NULL;
    struct tsk_workspace *ws = scene_open();
    ASSERT_OK(flow_load(&flow, "flow.yaml", FLOW, strlen(FLOW), LANG_EN, &err));
    ASSERT_OK(runner_begin(&runner, ws, &flow, FLOW, strlen(FLOW), NULL, &options, &err));
    ASSERT_OK(runner_execute(&runner, &stage, &err));
    runner_close(&runner);
    flow_clear(&flow);
    ASSERT_STR(json_get_string(stage, "status", ""), "FAILED");
    tsk_workspace_close(ws);
}

TEST(a_cancel_that_comes_when_the_run_has_just_ended_does_nothing)
{
    struct proc_id self;
    run_and_cancel_late(false);
    run_and_cancel_late(true);
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    ASSERT_INT(runner_ask_cancel(&self, true), 0); /* nor does one that comes still later */
}

static void die_late(const struct child *me, void *arg)
{
    struct proc_id self;
    (void)me;
    (void)arg;
    run_and_cancel_late(true);
    if (proc_id_of(getpid(), &self) == 0)
        proc_id_signal(&self, SIGTERM);
    _exit(0);
}

TEST(any_other_signal_ends_the_process_after_a_run_as_before)
{
    struct child child = child_start(die_late, NULL);
    ASSERT(WTERMSIG(child_wait(&child)) == SIGTERM);
}

static sem_t is_over;

/* Gets the signals that the runner blocks, and drops them. */
static void *be_there(void *arg)
{
    while (sem_wait(&is_over) < 0)
        ;
    return arg;
}

TEST(a_flow_runs_to_its_end_in_a_process_without_threads)
{
    run_flow(FLOW, "FAILED", 3);
}

TEST(a_flow_runs_to_its_end_beside_a_thread_that_gets_the_signals)
{
    pthread_t thread;
    sem_init(&is_over, 0, 0);
    ASSERT_INT(pthread_create(&thread, NULL, be_there, NULL), 0);
    run_flow(FLOW, "FAILED", 3);
    sem_post(&is_over);
    pthread_join(thread, NULL);
}

TEST(an_exit_status_is_known_though_the_caller_ignores_SIGCHLD)
{
    struct sigaction action;
    signal(SIGCHLD, SIG_IGN);
    run_flow(FLOW, "FAILED", 3);
    sigaction(SIGCHLD, NULL, &action);
    ASSERT(action.sa_handler == SIG_IGN);
}

/* ---- a look at a run that ends this moment ---- */

static struct rundir ending;

/* The check for a runner happens just after the runner has gone, with its last stage written. */
static int end_then_look(int fd, int cmd, struct flock *range)
{
    struct tsk_error err;
    if (cmd == F_OFD_GETLK && ending.runner_fd >= 0) {
        json_t *stage CLEANUP_JSON = json_pack("{s:s, s:s}", "run_id", ending.id, "status", "DONE");
        ASSERT_OK(rundir_write_stage(&ending, stage, &err));
        fs_close(&ending.runner_fd);
        ending.runner_fd = -1;
    }
    return fs_system_calls.ofd_lock(fd, cmd, range);
}

TEST(a_run_that_ends_while_somebody_looks_is_not_interrupted)
{
    struct tsk_error err;
    struct fs_calls calls = fs_system_calls;
    struct rundir other;
    json_t *first CLEANUP_JSON = NULL, *stage CLEANUP_JSON = NULL;
    struct tsk_workspace *ws = scene_open();
    ASSERT_OK(rundir_create(ws, NULL, &ending, &err));
    ASSERT_OK(rundir_publish(ws, &ending, &err));
    first = json_pack("{s:s, s:s, s:{}}", "run_id", ending.id, "status", "RUNNING", "counts");
    ASSERT_OK(rundir_write_stage(&ending, first, &err));
    ASSERT_OK(rundir_open(ws, ending.id, &other, &err));
    calls.ofd_lock = end_then_look;
    fs = &calls;
    ASSERT_OK(rundir_look(&other, &stage, &err));
    fs = &fs_system_calls;
    ASSERT_STR(json_get_string(stage, "status", ""), "DONE");
    rundir_clear(&other);
    rundir_clear(&ending);
    tsk_workspace_close(ws);
}

/* D6: a process that found the run just before its removal. */
TEST(a_run_that_was_removed_is_neither_taken_nor_shown_by_who_had_found_it)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct rundir made, taker, looker;
    json_t *stage = json_pack("{s:s}", "status", "FAILED"), *seen = NULL;
    ASSERT_OK(rundir_create(ws, NULL, &made, &err));
    ASSERT_OK(rundir_publish(ws, &made, &err));
    ASSERT_OK(rundir_write_stage(&made, stage, &err));
    rundir_clear(&made);
    ASSERT_OK(rundir_open(ws, "", &taker, &err));
    ASSERT_OK(rundir_open(ws, "", &looker, &err));
    ASSERT_OK(rundir_open(ws, "", &made, &err));
    ASSERT_OK(rundir_take_for_removal(&made, &err));
    ASSERT_OK(rundir_remove(ws, &made, &err));
    ASSERT(rundir_look(&looker, &seen, &err) < 0);
    ASSERT(err.code == TSK_RUN_NOT_FOUND);
    rundir_clear(&made);
    ASSERT(rundir_look(&looker, &seen, &err) < 0);
    ASSERT(err.code == TSK_RUN_NOT_FOUND);
    ASSERT(rundir_take(&taker, &err) < 0);
    ASSERT(err.code == TSK_RUN_NOT_FOUND);
    json_decref(stage);
    rundir_clear(&taker);
    rundir_clear(&looker);
    tsk_workspace_close(ws);
}

/* ---- a journal that cannot be read ---- */

static int refuse_journal(int dir, const char *name, int flags, mode_t mode)
{
    if (strcmp(name, "journal") == 0) {
        errno = EIO;
        return -1;
    }
    return fs_system_calls.openat(dir, name, flags, mode);
}

TEST(a_run_whose_journal_cannot_be_read_has_begun_and_is_not_removed)
{
    struct tsk_error err;
    struct fs_calls calls = fs_system_calls;
    struct rundir made, run;
    struct journal journal;
    json_t *stage CLEANUP_JSON = NULL;
    struct tsk_workspace *ws = scene_open();
    ASSERT_OK(rundir_create(ws, NULL, &made, &err));
    ASSERT_OK(journal_open(&journal, made.dir, false, &err));
    ASSERT_OK(rundir_publish(ws, &made, &err));
    rundir_clear(&made);
    ASSERT_OK(rundir_open(ws, made.id, &run, &err));
    ASSERT(!rundir_has_begun(&run));
    calls.openat = refuse_journal;
    fs = &calls;
    bool has_begun = rundir_has_begun(&run), is_removed = rundir_remove_unbegun(ws, &run);
    int looked = rundir_look(&run, &stage, &err);
    fs = &fs_system_calls;
    ASSERT(has_begun && !is_removed);
    ASSERT_INT(looked, -1);
    ASSERT(rundir_remove_unbegun(ws, &run));
    journal_close(&journal);
    rundir_clear(&run);
    tsk_workspace_close(ws);
}

/* ---- what decides about a failure ---- */

/* A record per letter: F the failure, G and H a group that passed, X one that failed, R a resume, K one that keeps failures. */
static json_t *records_from(const char *letters)
{
    json_t *records = json_array();
    for (const char *at = letters; *at; at++)
        json_array_append_new(records, *at == 'F'   ? json_pack("{s:s, s:s}", "e", "end", "o", "failed")
                                       : *at == 'G' ? json_pack("{s:s, s:s, s:s}", "e", "group", "k", "g", "o", "ok")
                                       : *at == 'H' ? json_pack("{s:s, s:s, s:s}", "e", "group", "k", "h", "o", "ok")
                                       : *at == 'X'
                                           ? json_pack("{s:s, s:s, s:s}", "e", "group", "k", "g", "o", "failed")
                                       : *at == 'K' ? json_pack("{s:s, s:b}", "e", "resume", "keep", true)
                                                    : json_pack("{s:s}", "e", "resume"));
    return records;
}

TEST(a_failure_stands_when_a_group_around_it_passed_before_the_next_try)
{
    static const char text[] = "flow: g(b | h(c | d)) >> e\ntasks: {b: a, c: a, d: a, e: a}\n";
    static const struct {
        const char *records, *task;
        bool keeps_failures, is_final;
    } cases[] = {
        {"F", "b", false, false},   {"F", "b", true, true},     {"FG", "b", false, true},    {"FR", "b", false, false},
        {"FR", "b", true, false},   {"FRG", "b", false, false}, {"FGR", "b", false, true},   {"FKG", "b", false, true},
        {"FK", "b", false, false},  {"FK", "b", true, true},    {"FX", "b", false, false},   {"FXG", "b", false, true},
        {"FH", "b", false, false},  {"FH", "c", false, true},   {"FG", "c", false, true},    {"FHR", "c", false, true},
        {"FHR", "b", false, false}, {"FG", "e", false, false},  {"GF", "b", false, false},   {"GRF", "b", false, false},
        {"RFG", "b", false, true},  {"KF", "b", true, true},    {"FRFG", "b", false, false},
    };
    struct tsk_error err;
    struct flow flow;
    ASSERT_OK(flow_load(&flow, "flow.yaml", text, strlen(text), LANG_EN, &err));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct deciding d;
        json_t *records CLEANUP_JSON = records_from(cases[i].records);
        uint32_t scope = graph_node(&flow.graph, graph_find(&flow.graph, cases[i].task))->scope;
        size_t index = strcspn(cases[i].records, "F");
        deciding_find(&d, records);
        bool is_final = deciding_is_final(&d, &flow.graph, scope, index, cases[i].keeps_failures);
        free(d.at);
        if (is_final != cases[i].is_final)
            test_fail(__FILE__, __LINE__, "%s of %s (%d): %d", cases[i].records, cases[i].task, cases[i].keeps_failures,
                      is_final);
    }
    flow_clear(&flow);
}

/* ---- the decisions about an attempt ---- */

TEST(the_verdict_of_an_exit_is_one_of_four)
{
    static const struct {
        enum stop stop;
        int exit_code;
        bool is_output_good, has_question;
        enum attempt_end end;
    } cases[] = {
        {STOP_NONE, 0, true, false, ATTEMPT_OK},
        {STOP_NONE, 1, true, false, ATTEMPT_FAILED},
        {STOP_NONE, 128 + 9, true, false, ATTEMPT_FAILED},
        {STOP_NONE, 0, false, false, ATTEMPT_FAILED},
        {STOP_NONE, 0, true, true, ATTEMPT_ASKS},
        {STOP_NONE, 3, true, true, ATTEMPT_ASKS},
        {STOP_NONE, 0, false, true, ATTEMPT_FAILED},
        {STOP_TIMEOUT, 0, true, false, ATTEMPT_FAILED},
        {STOP_TIMEOUT, 128 + 15, true, false, ATTEMPT_FAILED},
        {STOP_TIMEOUT, 0, true, true, ATTEMPT_FAILED},
        {STOP_GROUP, 0, true, false, ATTEMPT_STOPPED},
        {STOP_GROUP, 1, true, true, ATTEMPT_STOPPED},
        {STOP_RUN, 0, true, false, ATTEMPT_STOPPED},
        {STOP_RUN, 0, false, false, ATTEMPT_STOPPED},
        {STOP_RUN, 128 + 9, true, true, ATTEMPT_STOPPED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ASSERT_INT(attempt_verdict(cases[i].stop, cases[i].exit_code, cases[i].is_output_good, cases[i].has_question),
                   cases[i].end);
}

TEST(retries_allow_that_many_attempts_more_and_none_after_a_stop)
{
    static const struct {
        enum stop stop;
        bool is_cancelled;
        unsigned attempt;
        int32_t retries;
        bool is_last;
    } cases[] = {
        {STOP_NONE, false, 1, 0, true},     {STOP_NONE, false, 1, 1, false},         {STOP_NONE, false, 2, 1, true},
        {STOP_NONE, false, 4, 5, false},    {STOP_NONE, false, 5, 5, false},         {STOP_NONE, false, 6, 5, true},
        {STOP_TIMEOUT, false, 1, 1, false}, {STOP_GROUP, false, 1, 9, true},         {STOP_RUN, false, 1, 9, true},
        {STOP_NONE, true, 1, 9, true},      {STOP_NONE, false, 1, INT32_MAX, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ASSERT_INT(attempt_is_last(cases[i].stop, cases[i].is_cancelled, cases[i].attempt, cases[i].retries),
                   cases[i].is_last);
}

TEST(pauses_grow_by_the_factor_up_to_the_most)
{
    static const struct {
        int64_t initial, most;
        double factor;
        unsigned attempt;
        int64_t pause;
    } cases[] = {
        {100, 1000, 2, 1, 100},           {100, 1000, 2, 2, 200},      {100, 1000, 2, 4, 800},
        {100, 1000, 2, 5, 1000},          {100, 1000, 2, 99, 1000},    {100, 1000, 1, 9, 100},
        {1000, 500, 2, 1, 500},           {0, 1000, 1000, 1000, 0},    {100, 0, 2, 1, 0},
        {1, 60000, 1000, 1000000, 60000}, {INT64_MAX, 500, 2, 3, 500}, {100, 1000, 1.5, 2, 150},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct task_detail detail = {
            .backoff_initial_ms = cases[i].initial, .backoff_max_ms = cases[i].most, .backoff_factor = cases[i].factor};
        ASSERT_INT(attempt_pause(&detail, "s", "t", cases[i].attempt), cases[i].pause);
    }
    /* No pause is none, also where the power is infinite; one millisecond is one. */
    struct task_detail none = {.backoff_initial_ms = 0, .backoff_max_ms = 1000, .backoff_factor = 10};
    ASSERT_INT(attempt_pause(&none, "s", "t", 1000), 0);
    struct task_detail least = {.backoff_initial_ms = 1, .backoff_max_ms = 1000, .backoff_factor = 1};
    ASSERT_INT(attempt_pause(&least, "s", "t", 1), 1);
    least = (struct task_detail){.backoff_initial_ms = 5, .backoff_max_ms = 1, .backoff_factor = 1};
    ASSERT_INT(attempt_pause(&least, "s", "t", 1), 1);
    ASSERT_INT(attempt_pause(NULL, "s", "t", 1), 1000);
    ASSERT_INT(attempt_pause(NULL, "s", "t", 3), 4000);
    ASSERT_INT(attempt_pause(NULL, "s", "t", 7), 60000);
}

TEST(a_pause_without_a_limit_is_still_a_time)
{
    struct task_detail detail = {.backoff_initial_ms = INT64_MAX, .backoff_max_ms = INT64_MAX, .backoff_factor = 1000};
    int64_t pause = attempt_pause(&detail, "s", "t", 1000);
    ASSERT(pause > INT64_C(1) << 33 && pause < INT64_MAX / 4);
}

TEST(jitter_spreads_the_pauses_within_its_bounds_and_below_the_most)
{
    struct task_detail detail = {
        .backoff_initial_ms = 1000, .backoff_max_ms = 1000000, .backoff_factor = 1, .backoff_jitter = 0.5};
    unsigned low = 0, high = 0;
    for (unsigned i = 1; i <= 1000; i++) {
        char task[16];
        snprintf(task, sizeof task, "t%u", i);
        int64_t pause = attempt_pause(&detail, "RUN-1", task, 1);
        ASSERT(pause >= 500 && pause <= 1500);
        ASSERT_INT(pause, attempt_pause(&detail, "RUN-1", task, 1));
        low += pause < 750;
        high += pause > 1250;
    }
    ASSERT(low > 150 && low < 350);
    ASSERT(high > 150 && high < 350);
    ASSERT(attempt_pause(&detail, "RUN-1", "a", 1) != attempt_pause(&detail, "RUN-1", "b", 1));
    ASSERT(attempt_pause(&detail, "RUN-1", "a", 1) != attempt_pause(&detail, "RUN-2", "a", 1));
    ASSERT(attempt_pause(&detail, "RUN-1", "a", 1) != attempt_pause(&detail, "RUN-1", "a", 2));
    detail.backoff_max_ms = 1000;
    for (unsigned i = 1; i <= 1000; i++)
        ASSERT(attempt_pause(&detail, "RUN-1", "a", i) <= 1000);
}
