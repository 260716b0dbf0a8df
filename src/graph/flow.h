/* flow.h - a flow file: tasks that are commands, and the order in which they run.
 *
 *     struct flow flow;
 *     if (flow_load(&flow, path, text, len, lang, err) < 0) ...   // FLOW_INVALID: all problems of the file at once
 *     ...
 *     flow_clear(&flow);
 *
 * The file is read piece by piece, without a tree, so that a flow of 100,000 tasks loads as fast as YAML can be scanned.
 *
 * Invariants
 *  F1  After flow_load the graph is sealed: every name is known, there is no cycle and no empty group.
 *  F2  A problem has its position, `file:line:column`, with columns counted in characters. Problems are reported in the order
 *      of the file. If the file is not YAML, only those before the first syntax error are found.
 *  F3  A task of the expression is in the scope in which it appears there; all others are in the root.
 */
#ifndef GRAPH_FLOW_H
#define GRAPH_FLOW_H

#include "base/buf.h"
#include "base/text.h"
#include "graph/model.h"
#include "store/workspace.h"

#define FLOW_SIZE_MAX     (256u << 20)
#define FLOW_LEASE_MIN_MS 1000
#define FLOW_LEASE_MAX_MS 3600000
#define FLOW_PROBLEMS_MAX 50 /* kept; the rest is counted */

/* Whether it runs once at a time; by its place: if it is one of .aiflow/flows/. */
enum flow_exclusive { EXCLUSIVE_BY_PLACE, EXCLUSIVE_ALWAYS, EXCLUSIVE_NEVER };
struct json_t;
enum on_interrupt { INTERRUPT_RERUN, INTERRUPT_FAIL, INTERRUPT_ASK, INTERRUPT_COUNT };

/* Strings are offsets into flow.strings; 0: none. */
struct flow_task {
    uint32_t name;
    uint32_t line, column;
    uint32_t run; /* the first of run_count strings, one behind the other */
    uint32_t run_count;
    uint32_t cwd, when;
    uint32_t tags;           /* of the workers that may execute it, with commas between them; 0: any */
    uint32_t env, env_count; /* "KEY=value" */
    uint32_t detail;         /* index + 1 into flow.details */
    uint32_t node;
    uint32_t shell, shell_count; /* strings: the chosen shell and its options; none: /bin/sh */
    bool is_shell;               /* run is one string, for the shell's -c */
    bool is_in_expression, has_run, has_needs, never_starts;
    uint8_t on_interrupt;
    int64_t timeout_ms; /* 0: none */
};

struct flow_need {
    uint32_t task; /* index */
    uint32_t name;
    uint32_t line, column;
};

/* A task that is an agent's. */
struct flow_agent {
    uint32_t task; /* index */
    uint32_t name, text;
    uint32_t line, column; /* of the name */
};

struct flow_group {
    uint32_t name;
    uint32_t line, column;
    enum tsk_policy policy;
    uint32_t at_least;
    uint32_t critical, critical_count; /* strings */
    uint32_t critical_line, critical_column;
    bool is_used;
};

struct flow_problem {
    uint32_t line, column;
    char *message;
    char *wrong;       /* the word at this place, and behind its end … */
    const char *right; /* the one to write instead; NULL: not known */
};

struct flow {
    const char *source; /* borrowed */
    char *name;
    struct graph graph;
    struct region tasks, needs, groups, details, strings, agents;
    struct region slots; /* hash of task names: index + 1 */
    struct region task_of_node;
    struct region problems;
    size_t problem_count;        /* also those that were not kept */
    int64_t lease_ms;            /* how long a worker may be silent; 0: the default */
    uint32_t files, files_count; /* strings: what travels with the run to workers (pack.h) */
    uint32_t shell, shell_count; /* of the tasks that choose none */
    int64_t parallel;            /* 0: as many as there are processors */
    uint64_t max_steps;
    uint32_t max_cycles;
    int32_t retries;
    bool is_journal_synced;
    enum flow_exclusive exclusive;
    struct json_t *params; /* NULL: it declares none; [{name, variable, default?, choices?, help?}] */
    bool has_taken_name;   /* a group was to be called as a task or as another group */
    enum lang lang;
};

int flow_load(struct flow *flow, const char *source, const char *text, size_t len, enum lang lang,
              struct tsk_error *err);
void flow_clear(struct flow *flow);
/* Opens the file that a word means in the state directory, flows/WORD, with .yaml unless it says so itself; its path below the state
 * directory goes to `path`. -1 with ENOENT also for a word that is no id. */
int flow_open_kept(int state_dir, const char *word, char *path, size_t size);
/* flow_params.c: the values that a run is given (`set`: texts by name) and the defaults of what it is not given go into `values`, as
 * output_value reads them; *ret_env gets the variables of the parameters, KEY=text (owned). INVALID_INPUT. */
#define FLOW_PARAM_PREFIX "TASUKI_PARAM_"
int flow_params_settle(const struct flow *flow, const struct json_t *set, struct json_t *values,
                       struct json_t **ret_env, struct tsk_error *err);
void flow_param_variable(const char *name, struct buf *b);
/* flow_agent.c: the commands of tasks with `agent:`. With a run (a new one, or one that is resumed): the agents as the run began
 * with them, and the files that their commands name; NULL: only whether there are such agents. `text` is for the report of what
 * is wrong (FLOW_INVALID). The flow stays loaded in any case. */
struct rundir;
int flow_settle_agents(struct flow *flow, struct tsk_workspace *ws, const struct rundir *run, const char *text,
                       size_t len, struct tsk_error *err);

static inline struct flow_task *flow_task(const struct flow *flow, uint32_t index)
{
    return REGION_AT(&flow->tasks, struct flow_task, index);
}
static inline const char *flow_string(const struct flow *flow, uint32_t offset)
{
    return offset ? (const char *)flow->strings.data + offset : NULL;
}
/* The task of a node that is no group. */
static inline struct flow_task *flow_task_of(const struct flow *flow, uint32_t node)
{
    return flow_task(flow, *REGION_AT(&flow->task_of_node, uint32_t, node));
}
uint32_t flow_find(const struct flow *flow, const char *name); /* index of a task; NO_NODE */

/* flow_when.c: what is wrong with a condition, as a text's key, and at which byte of it; NULL: nothing. */
const char *flow_condition_problem(const char *text, size_t *ret_at);
/* Whether a condition without a problem holds for the values of the channel. `never` does not. */
bool flow_condition_holds(const char *text, const struct json_t *values);
/* False: words and blanks only, and no builtin of the shell in front. */
bool flow_needs_shell(const char *command);

/* ---- between the files of the loader ---- */

/* Adds a problem; the sentence `key` with its pairs, as text_put. */
void flow_problem(struct flow *flow, uint32_t line, uint32_t column, const char *key, ...) __attribute__((sentinel));
/* Says of the problem that was added last which word is there and which one to write. */
void flow_problem_fix(struct flow *flow, const char *wrong, const char *right);
/* All problems so far as FLOW_INVALID. Returns -1. */
int flow_refuse(struct flow *flow, const char *text, size_t len, struct tsk_error *err);
/* What a task rarely has; made if need be. */
struct task_detail *flow_detail(struct flow *flow, struct flow_task *task);
/* Copies a string; 0: out of memory (which is a problem of its own). */
uint32_t flow_string_add(struct flow *flow, const char *text, size_t len);
/* flow_expr.c: reads the expression that is in `text` from `line`:`column` up to the end mark. Returns false if it
 * is not an expression. */
struct flow_place {
    const char *text; /* the whole file */
    size_t len, from, to;
    uint32_t line, column; /* of `from` */
};
bool flow_read_expression(struct flow *flow, const struct flow_place *place);
/* flow_read.c: the pieces of the file. false: it is no YAML to its end, or `err` is set. */
bool flow_read_file(struct flow *flow, const char *text, size_t len, struct flow_place *ret_expression,
                    struct tsk_error *err);
struct flow_task *flow_task_add(struct flow *flow, const char *text, size_t len, uint32_t line, uint32_t column);
/* The node of a task, in a scope. */
int flow_add_node(struct flow *flow, uint32_t scope, uint32_t index, struct tsk_error *err);
/* flow_check.c: names, needs, policies, reachability; then the graph is sealed. */
void flow_check(struct flow *flow, bool has_expression); /* one that was understood */
/* "; did you mean …": the task whose name is nearest, or NULL. */
const char *flow_nearest_task(const struct flow *flow, const char *name);

#endif
