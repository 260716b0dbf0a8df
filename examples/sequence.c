/* sequence.c - three tasks, one after the other; each finds in the channel what the one before wrote.
 *
 *     cc sequence.c $(pkg-config --cflags --libs tasuki) && ./a.out */
#include <stdio.h>
#include <stdlib.h>
#include <tasuki.h>

static int fetch(struct tsk_call *call, void *arg)
{
    (void)arg;
    printf("fetch\n");
    return tsk_call_set(call, "rows", "[3, 1, 2]");
}

static int sort(struct tsk_call *call, void *arg)
{
    char *rows = tsk_call_get(call, "rows");
    (void)arg;
    printf("sort %s\n", rows);
    free(rows);
    return tsk_call_set(call, "rows", "[1, 2, 3]");
}

static int store(struct tsk_call *call, void *arg)
{
    char *rows = tsk_call_get(call, "rows");
    (void)arg;
    printf("store %s\n", rows);
    free(rows);
    return 0;
}

/* Adds a task behind `before`. */
static int add(struct tsk_graph *graph, const char *name, tsk_task_function *function, uint32_t *before,
               struct tsk_error *err)
{
    uint32_t task;
    if (tsk_graph_task(graph, TSK_ROOT, name, function, NULL, &task, err) < 0)
        return -1;
    if (*before != UINT32_MAX && tsk_graph_edge(graph, *before, task, err) < 0)
        return -1;
    *before = task;
    return 0;
}

int main(void)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    struct tsk_context *context = NULL;
    uint32_t last = UINT32_MAX;
    int result = tsk_graph_new(&graph, &err);
    if (result == 0)
        result = add(graph, "fetch", fetch, &last, &err);
    if (result == 0)
        result = add(graph, "sort", sort, &last, &err);
    if (result == 0)
        result = add(graph, "store", store, &last, &err);
    if (result == 0)
        result = tsk_context_create(graph, NULL, &context, &err);
    if (result == 0)
        result = tsk_context_run(context, &err);
    if (result < 0)
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0;
}
