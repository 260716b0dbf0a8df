/* graph_scene.h - what the tests of graphs with C functions share: a graph, its context, and what was seen in which order. */
#ifndef UNIT_GRAPH_SCENE_H
#define UNIT_GRAPH_SCENE_H

#include "harness/test.h"
#include "tasuki.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct scene {
    struct tsk_graph *graph;
    struct tsk_context *context;
    struct tsk_context_options options;
    struct tsk_error err;
};

/* The order in which tasks began, and how often. */
static struct {
    pthread_mutex_t mutex;
    char text[4096];
    _Atomic int runs, running, most;
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static inline void note(const char *word)
{
    pthread_mutex_lock(&seen.mutex);
    size_t at = strlen(seen.text);
    snprintf(seen.text + at, sizeof seen.text - at, "%s%s", at ? " " : "", word);
    pthread_mutex_unlock(&seen.mutex);
}

static inline unsigned times_seen(const char *word)
{
    unsigned count = 0;
    char padded[4200], needle[100];
    snprintf(padded, sizeof padded, " %s ", seen.text);
    snprintf(needle, sizeof needle, " %s ", word);
    for (const char *at = padded; (at = strstr(at, needle)); at++)
        count++;
    return count;
}

static inline int run_noting(struct tsk_call *call, void *arg)
{
    (void)arg;
    note(tsk_call_task(call));
    return 0;
}

static inline int run_failing(struct tsk_call *call, void *arg)
{
    note(tsk_call_task(call));
    return tsk_call_fail(call, arg ? arg : "it fails");
}

static inline void begin(struct scene *scene)
{
    *scene = (struct scene){.options = {.size = sizeof scene->options, .session_id = "s", .workers = 3}};
    ASSERT_INT(tsk_graph_new(&scene->graph, &scene->err), 0);
}

static inline uint32_t task(struct scene *scene, uint32_t scope, const char *name, tsk_task_function *function,
                            void *arg)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_task(scene->graph, scope, name, function, arg, &made, &scene->err), 0);
    return made;
}

static inline uint32_t group(struct scene *scene, uint32_t scope, const char *name, enum tsk_policy policy,
                             uint32_t number)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_group(scene->graph, scope, name, policy, number, &made, &scene->err), 0);
    return made;
}

static inline uint32_t branch(struct scene *scene, uint32_t of, bool is_critical)
{
    uint32_t made;
    ASSERT_INT(tsk_graph_branch(scene->graph, of, NULL, is_critical, &made, &scene->err), 0);
    return made;
}

static inline void edge(struct scene *scene, uint32_t before, uint32_t after)
{
    ASSERT_INT(tsk_graph_edge(scene->graph, before, after, &scene->err), 0);
}

static inline int run(struct scene *scene)
{
    ASSERT_INT(tsk_context_create(scene->graph, &scene->options, &scene->context, &scene->err), 0);
    return tsk_context_run(scene->context, &scene->err);
}

static inline void expect_value(struct scene *scene, const char *key, const char *json)
{
    char *value = tsk_context_get(scene->context, key);
    if (json)
        ASSERT_STR(value, json);
    else
        ASSERT(!value);
    free(value);
}

static inline void end(struct scene *scene)
{
    tsk_context_free(scene->context);
    tsk_graph_free(scene->graph);
}

static inline int run_adding(struct tsk_call *call, void *arg)
{
    (void)arg;
    return tsk_call_add(call, "count", 1);
}

#endif
