/* cancel.c - a run that is cancelled: the running task sees it and returns, what comes after it does not start. Ctrl-C does
 * it by hand; with the argument `now` the task itself plays the user. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tasuki.h>
#include <time.h>

static struct tsk_context *context;

static void interrupted(int number)
{
    (void)number;
    tsk_context_cancel(context); /* safe in a signal handler */
}

static int endless(struct tsk_call *call, void *arg)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    printf("working until Ctrl-C\n");
    fflush(stdout);
    if (arg)
        raise(SIGINT);
    while (!tsk_call_is_stopped(call))
        nanosleep(&pause, NULL);
    return tsk_call_fail(call, "stopped");
}

static int after(struct tsk_call *call, void *arg)
{
    (void)call;
    (void)arg;
    printf("this is never printed\n");
    return 0;
}

int main(int argc, char **argv)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    uint32_t first, second;
    void *now = argc > 1 && strcmp(argv[1], "now") == 0 ? argv[1] : NULL;
    if (tsk_graph_new(&graph, &err) < 0 || tsk_graph_task(graph, TSK_ROOT, "endless", endless, now, &first, &err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "after", after, NULL, &second, &err) < 0 ||
        tsk_graph_edge(graph, first, second, &err) < 0 || tsk_context_create(graph, NULL, &context, &err) < 0) {
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
        return 1;
    }
    signal(SIGINT, interrupted);
    int result = tsk_context_run(context, &err);
    if (result < 0)
        printf("%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0 && err.code == TSK_RUN_FAILED ? 0 : 1;
}
