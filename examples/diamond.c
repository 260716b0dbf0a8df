/* diamond.c - fetch >> (left | right) >> store: two branches side by side, joined once. Both count in the same key; the rule
 * `sum` adds what each of them added. */
#include <stdio.h>
#include <stdlib.h>
#include <tasuki.h>

static int fetch(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_set(call, "count", "10");
}

static int transform(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_add(call, "count", 1);
}

static int store(struct tsk_call *call, void *arg)
{
    char *count = tsk_call_get(call, "count");
    (void)arg;
    printf("store: count is %s\n", count);
    free(count);
    return 0;
}

static void branch_ended(void *data, const char *session_id, const char *branch, bool has_failed)
{
    (void)data;
    (void)session_id;
    fprintf(stderr, "branch %s %s\n", branch, has_failed ? "failed" : "ended");
}

static int build(struct tsk_graph *graph, struct tsk_error *err)
{
    uint32_t first, group, last, left, right, task;
    if (tsk_graph_task(graph, TSK_ROOT, "fetch", fetch, NULL, &first, err) < 0 ||
        tsk_graph_group(graph, TSK_ROOT, "transforms", TSK_POLICY_STRICT, 0, &group, err) < 0 ||
        tsk_graph_branch(graph, group, NULL, false, &left, err) < 0 ||
        tsk_graph_task(graph, left, "left", transform, NULL, &task, err) < 0 ||
        tsk_graph_branch(graph, group, NULL, false, &right, err) < 0 ||
        tsk_graph_task(graph, right, "right", transform, NULL, &task, err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "store", store, NULL, &last, err) < 0)
        return -1;
    if (tsk_graph_edge(graph, first, group, err) < 0 || tsk_graph_edge(graph, group, last, err) < 0)
        return -1;
    return tsk_graph_merge(graph, "count", TSK_MERGE_SUM, err);
}

int main(void)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    struct tsk_context *context = NULL;
    struct tsk_context_options options = {.size = sizeof options, .session_id = "demo", .on_branch = branch_ended};
    int result = tsk_graph_new(&graph, &err);
    if (result == 0)
        result = build(graph, &err);
    if (result == 0)
        result = tsk_context_create(graph, &options, &context, &err);
    if (result == 0)
        result = tsk_context_run(context, &err);
    if (result < 0)
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    else
        printf("%llu steps\n", (unsigned long long)tsk_context_steps(context));
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0;
}
