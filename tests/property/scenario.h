/* scenario.h - a random graph with tasks that fail, retry, add tasks and repeat themselves; and what must come of it,
 * computed the simple way: one node after the other, no counters, no threads. */
#ifndef PROPERTY_SCENARIO_H
#define PROPERTY_SCENARIO_H

#include "graph/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum { NODES_MAX = 72, SCOPES_MAX = 48, CHILDREN_MAX = 4 };

struct behaviour {
    unsigned fails; /* so many attempts of the first execution fail */
    unsigned retries;
    unsigned again;    /* further executions */
    unsigned children; /* tasks it adds in its first execution */
    unsigned bad_children;
    bool writes_group_keys; /* the first task of a branch */
};

struct scenario_node {
    bool is_group;
    uint32_t scope;
    uint32_t preds[NODES_MAX], pred_count;
    struct behaviour task;
    enum tsk_policy policy;
    uint32_t at_least;
    uint32_t branches[8], branch_count; /* scopes */
    /* expected */
    enum outcome outcome;
    bool is_maybe;     /* inside a fail_fast group that failed: it may have run or not */
    unsigned attempts; /* calls of the task, all executions together */
    unsigned good_children, failed_children;
};

struct scenario_scope {
    uint32_t group; /* node; NO_NODE: the root */
    bool is_critical;
    bool has_failed;
    long sum; /* of the key `sum` that the scope adds */
};

struct scenario {
    uint64_t seed;
    uint32_t node_count, scope_count;
    struct scenario_node nodes[NODES_MAX];
    struct scenario_scope scopes[SCOPES_MAX];
    bool is_failed;
};

uint64_t scenario_random(uint64_t *state);
void scenario_make(struct scenario *s, uint64_t seed);
/* Fills what is expected. */
void scenario_expect(struct scenario *s);
/* The keys a group's branches write, as the root must have them at the end: JSON text or NULL. `key`: last first max app. */
bool scenario_group_value(const struct scenario *s, uint32_t group, const char *key, char *text, size_t size);
void scenario_build(const struct scenario *s, struct graph *graph, tsk_task_function *run, void *const *args);

#endif
