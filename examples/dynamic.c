/* dynamic.c - work that is known only when it runs: a task adds one task per file it found, and another goes round until it
 * is done. */
#include <stdio.h>
#include <stdlib.h>
#include <tasuki.h>

static int handle(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_add(call, "handled", 1);
}

static int list(struct tsk_call *call, void *arg)
{
    static const char *const files[] = {"a.txt", "b.txt", "c.txt"};
    (void)arg;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (tsk_call_spawn(call, files[i], handle, NULL) < 0)
            return -1;
    return 0;
}

/* Runs again until the counter says that it is enough. */
static int wait_for_three(struct tsk_call *call, void *arg)
{
    char *rounds = tsk_call_get(call, "rounds");
    int done = rounds ? (int)strtol(rounds, NULL, 10) : 0;
    (void)arg;
    free(rounds);
    if (tsk_call_add(call, "rounds", 1) < 0)
        return -1;
    return done + 1 < 3 ? tsk_call_again(call) : 0;
}

static int build(struct tsk_graph *graph, struct tsk_error *err)
{
    uint32_t group, branch, first, second;
    if (tsk_graph_group(graph, TSK_ROOT, "work", TSK_POLICY_STRICT, 0, &group, err) < 0 ||
        tsk_graph_branch(graph, group, NULL, false, &branch, err) < 0 ||
        tsk_graph_task(graph, branch, "list", list, NULL, &first, err) < 0 ||
        tsk_graph_task(graph, TSK_ROOT, "rounds", wait_for_three, NULL, &second, err) < 0)
        return -1;
    return tsk_graph_edge(graph, group, second, err);
}

int main(void)
{
    char text[256];
    struct tsk_error err;
    struct tsk_graph *graph = NULL;
    struct tsk_context *context = NULL;
    int result = tsk_graph_new(&graph, &err);
    if (result == 0)
        result = build(graph, &err);
    if (result == 0)
        result = tsk_context_create(graph, NULL, &context, &err);
    if (result == 0)
        result = tsk_context_run(context, &err);
    if (result < 0) {
        fprintf(stderr, "%s\n", tsk_error_message(&err, NULL, text, sizeof text));
    } else {
        char *handled = tsk_context_get(context, "handled");
        printf("handled %s, %u rounds, %llu steps\n", handled, tsk_context_cycles(context, "rounds"),
               (unsigned long long)tsk_context_steps(context));
        free(handled);
    }
    tsk_context_free(context);
    tsk_graph_free(graph);
    return result < 0;
}
