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
