/* coordinator.c - a group by hand: each task runs in a branch of its own on a thread of our own, and only the branches that
 * succeeded are merged. tsk_graph_group does the same with less (diamond.c); this is for a program that decides itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tasuki.h>

struct branch {
    const char *task;
    struct tsk_context *context;
    pthread_t thread;
    bool has_thread;
    struct tsk_error err;
    int result;
};

static int transform(struct tsk_call *call, void *arg)
{
    return tsk_call_add(call, "count", *(const int *)arg) < 0 ? -1 : tsk_call_set(call, tsk_call_task(call), "true");
}

static int broken(struct tsk_call *call, void *arg)
{
    (void)arg;
    tsk_call_add(call, "count", 1000);
    return tsk_call_fail(call, "it is broken");
}

static void *execute(void *data)
{
    struct branch *branch = data;
    branch->result = tsk_context_run(branch->context, &branch->err);
    return NULL;
}

/* Runs the tasks side by side, each as the beginning of a branch. */
static int execute_group(struct tsk_context *context, struct branch *branches, size_t count, struct tsk_error *err)
{
    char text[256];
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct branch *branch = &branches[i];
        result = tsk_context_branch(context, branch->task, &branch->context, err);
        if (result == 0)
            result = tsk_context_begin_at(branch->context, branch->task, err);
        branch->has_thread = result == 0 && pthread_create(&branch->thread, NULL, execute, branch) == 0;
        if (result == 0 && !branch->has_thread)
            execute(branch);
    }
    for (size_t i = 0; i < count; i++)
        if (branches[i].has_thread)
            pthread_join(branches[i].thread, NULL);
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (branches[i].result == 0)
            result = tsk_context_merge(tsk_context_parent(branches[i].context), branches[i].context, err);
        else
            printf("%s is not merged: %s\n", branches[i].task,
                   tsk_error_message(&branches[i].err, NULL, text, sizeof text));
    }
    for (size_t i = 0; i < count; i++)
        tsk_context_free(branches[i].context);
    return result;
}

static int build(struct tsk_graph *graph, struct tsk_error *err)
{
    static const int one = 1, two = 2;
    uint32_t task;
    if (tsk_graph_task(graph, TSK_ROOT, "left", transform, (void *)&one, &task, err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "right", transform, (void *)&two, &task, err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "wrong", broken, NULL, &task, err) < 0)
        return -1;
    return tsk_graph_merge(graph, "count", TSK_MERGE_SUM, err);
}

static void print_results(struct tsk_context *context)
{
    char *count = tsk_context_get(context, "count"), *keys = tsk_context_keys(context);
    printf("count is %s, keys are %s, %llu steps\n", count, keys, (unsigned long long)tsk_context_steps(context));
    free(count);
    free(keys);
}

int main(void)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    struct tsk_context *context = NULL;
    struct tsk_context_options options = {.size = sizeof options, .session_id = "demo", .workers = 1};
    struct branch branches[] = {{.task = "left"}, {.task = "right"}, {.task = "wrong"}};
    int result = tsk_graph_new(&graph, &err);
    if (result == 0)
        result = build(graph, &err);
    if (result == 0)
        result = tsk_context_create(graph, &options, &context, &err);
    if (result == 0)
        result = tsk_context_set(context, "count", "10", &err);
    if (result == 0)
        result = execute_group(context, branches, sizeof branches / sizeof branches[0], &err);
    if (result < 0)
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    else
        print_results(context);
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0;
}
