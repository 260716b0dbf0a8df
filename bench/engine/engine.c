/* engine.c - the library's function tasks: KIND (independent, chain, diamonds, loop) COUNT [WORKERS]. One JSON line: ns per task
 * for building, running and both, and bytes of memory per task. `loop` is a plain loop over function pointers: the limit. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tasuki.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* VmHWM: unlike getrusage's figure it begins again with the program. */
static long peak_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

static int nothing(struct tsk_call *call, void *arg)
{
    (void)call;
    (void)arg;
    return 0;
}

static void check(int result, const struct tsk_error *err)
{
    char text[256];
    if (result == 0)
        return;
    fprintf(stderr, "%s\n", tsk_error_message(err, "en", text, sizeof text));
    exit(1);
}

static uint32_t task(struct tsk_graph *graph, struct tsk_error *err)
{
    uint32_t made;
    check(tsk_graph_task(graph, TSK_ROOT, NULL, nothing, NULL, &made, err), err);
    return made;
}

static void build(struct tsk_graph *graph, const char *kind, long count, struct tsk_error *err)
{
    uint32_t before = 0;
    bool is_chain = strcmp(kind, "chain") == 0;
    if (strcmp(kind, "diamonds") == 0) {
        for (long i = 0; i + 3 < count; i += 4) {
            uint32_t a = task(graph, err), b = task(graph, err), c = task(graph, err), d = task(graph, err);
            check(tsk_graph_edge(graph, a, b, err), err);
            check(tsk_graph_edge(graph, a, c, err), err);
            check(tsk_graph_edge(graph, b, d, err), err);
            check(tsk_graph_edge(graph, c, d, err), err);
        }
        return;
    }
    for (long i = 0; i < count; i++) {
        uint32_t made = task(graph, err);
        if (i && is_chain)
            check(tsk_graph_edge(graph, before, made, err), err);
        before = made;
    }
}

static int run_loop(long count)
{
    tsk_task_function **functions = malloc((size_t)count * sizeof *functions);
    double began = now_ns();
    for (long i = 0; i < count; i++)
        functions[i] = nothing;
    double built = now_ns();
    int sum = 0;
    for (long i = 0; i < count; i++)
        sum += functions[i](NULL, NULL);
    double ended = now_ns();
    printf("{\"build_ns\": %.2f, \"run_ns\": %.2f, \"total_ns\": %.2f, \"bytes\": 8}\n",
           (built - began) / (double)count, (ended - built) / (double)count, (ended - began) / (double)count);
    free(functions);
    return sum;
}

int main(int argc, char **argv)
{
    struct tsk_error err;
    struct tsk_graph *graph;
    struct tsk_context *context;
    struct tsk_context_options options = {.size = sizeof options,
                                          .workers = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0};
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (count <= 0)
        return 2;
    if (strcmp(argv[1], "loop") == 0)
        return run_loop(count);
    long before_kib = peak_kib();
    double began = now_ns();
    check(tsk_graph_new(&graph, &err), &err);
    build(graph, argv[1], count, &err);
    double built = now_ns();
    check(tsk_context_create(graph, &options, &context, &err), &err);
    check(tsk_context_run(context, &err), &err);
    double ran = now_ns();
    uint64_t steps = tsk_context_steps(context);
    tsk_context_free(context);
    tsk_graph_free(graph);
    double ended = now_ns();
    if (steps != (uint64_t)(strcmp(argv[1], "diamonds") == 0 ? count / 4 * 4 : count))
        return 1;
    printf("{\"build_ns\": %.2f, \"run_ns\": %.2f, \"total_ns\": %.2f, \"bytes\": %.1f}\n",
           (built - began) / (double)count, (ran - built) / (double)count, (ended - began) / (double)count,
           (double)(peak_kib() - before_kib) * 1024 / (double)count);
    return 0;
}
