/* policy.c - three mirrors, of which one fails for good and one recovers at its second attempt. Two successes are enough: the
 * group passes, and the failure stays visible. */
#include <stdio.h>
#include <tasuki.h>

static int good(struct tsk_call *call, void *arg)
{
    (void)call;
    (void)arg;
    return 0;
}

static int flaky(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_attempt(call) < 2 ? tsk_call_fail(call, "connection reset") : 0;
}

static int bad(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_fail(call, "no such host");
}

static int publish(struct tsk_call *call, void *arg)
{
    (void)call;
    (void)arg;
    printf("published\n");
    return 0;
}

static void task_ended(void *data, const char *session_id, const char *task, const struct tsk_error *err)
{
    char text[256];
    (void)data;
    (void)task;
    (void)session_id;
    if (err)
        printf("%s\n", tsk_error_message(err, "en", text, sizeof text));
}

static int add_mirror(struct tsk_graph *graph, uint32_t group, const char *name, tsk_task_function *function,
                      struct tsk_error *err)
{
    uint32_t branch, task;
    if (tsk_graph_branch(graph, group, NULL, false, &branch, err) < 0 ||
        tsk_graph_task(graph, branch, name, function, NULL, &task, err) < 0)
        return -1;
    return tsk_graph_retry(graph, task, function == flaky ? 1 : 0, 10, 1000, err);
}

static int build(struct tsk_graph *graph, struct tsk_error *err)
{
    uint32_t group, last;
    if (tsk_graph_group(graph, TSK_ROOT, "mirrors", TSK_POLICY_AT_LEAST, 2, &group, err) < 0 ||
        add_mirror(graph, group, "good", good, err) < 0 || add_mirror(graph, group, "flaky", flaky, err) < 0 ||
        add_mirror(graph, group, "bad", bad, err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "publish", publish, NULL, &last, err) < 0)
        return -1;
    return tsk_graph_edge(graph, group, last, err);
}

int main(void)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    struct tsk_context *context = NULL;
    struct tsk_context_options options = {.size = sizeof options, .session_id = "demo", .on_task = task_ended};
    int result = tsk_graph_new(&graph, &err);
    if (result == 0)
        result = build(graph, &err);
    if (result == 0)
        result = tsk_context_create(graph, &options, &context, &err);
    if (result == 0)
        result = tsk_context_run(context, &err);
    if (result < 0)
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0;
}
