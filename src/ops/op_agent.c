/* op_agent.c - agent run, parallel, dag, team, teams, loop: work for the agents of config.yaml. */
#include "base/ident.h"
#include "base/word.h"
#include "ops/agent_args.h"
#include "ops/detached.h"
#include "ops/ops.h"
#include "ops/own_args.h"

#include <stdio.h>
#include <string.h>

#define AGENT_PARAM                                                                                                    \
    PARAM("subagentId", OP_ID, OP_REQUIRED | OP_POSITIONAL, "AGENT", "An agent of config.yaml.",                       \
          .completes = "agent-id")
#define TASK_PARAM(more) PARAM("task", OP_STRING, OP_REQUIRED | (more), "TASK", "What to do.", .max = AGENT_TASK_MAX)
/* An argument of a command has 128 KiB at most; the text of a file needs no quotes. */
#define TASK_FILE_PARAM                                                                                                \
    PARAM("task_file", OP_PATH, OP_CLI_ONLY, "FILE", "The task as the text of a file; - is stdin.", .fills = "task")
#define UL_TASK_PARAM                                                                                                  \
    PARAM("ulTaskId", OP_ID, OP_OPTIONAL, "W", "Workflow that must be yours, or nobody's.", .option = "workflow",      \
          .completes = "workflow-id")
#define AGENT_ERRORS                                                                                                   \
    ERRORS(TSK_UL_WORKFLOW_NOT_OWNED, TSK_NOT_FOUND, TSK_INVALID_INPUT, TSK_FLOW_INVALID, TSK_TASK_FAILED,             \
           TSK_GROUP_FAILED, TSK_TASK_TIMEOUT, TSK_CYCLE_LIMIT_EXCEEDED, TSK_MAX_STEPS_EXCEEDED, TSK_RUN_FAILED,       \
           TSK_NEEDS_INPUT, TSK_PAYLOAD_TOO_LARGE, TSK_STORAGE_FULL, TSK_ENVIRONMENT, TSK_REDIS_UNAVAILABLE)

static const struct op_field result_fields[] = {
    {"run_id", "string", "for wait_for, run_show, run_logs"},
    {"status", "string", "RUNNING DONE NEEDS_INPUT FAILED CANCELLED"},
    {"reason_code", "string?", "why it is not DONE"},
    {"message", "string?", "the same in words"},
    {"agents", "array?", "task subagentId teamId state exit_code executions reason output log"},
    {"agents_problem", "string?", "why agents is not complete"},
    {"questions", "array?", "open ones"},
    {"ulTaskId", "string?", ""},
    {"fence", "integer?", "of the workflow"},
    {0},
};

static const char *task_text(const struct op_call *call)
{
    return json_get_string(call->args, "task", "");
}

/* The strings of a parameter that takes one or many; owned array. */
static json_t *many_agents(const struct op_call *call, const char *name)
{
    json_t *value = json_object_get(call->args, name);
    return json_is_string(value) ? json_pack("[O]", value) : json_incref(value);
}

static int check_count(const json_t *list, const char *name, struct tsk_error *err)
{
    if (json_array_size(list) >= 1 && json_array_size(list) <= AGENT_MANY_MAX)
        return 0;
    return error_set(err, TSK_INVALID_INPUT, "agent_count", "param", name, NULL);
}

/* ---- run ---- */

static int shape_run(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    return agent_work_one(work, json_get_string(call->args, "subagentId", ""), task_text(call), err);
}

static int run_run(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_run, ret, err);
}

const struct op op_agent_run = {
    NAMES("agent.run", "agent", "run"),
    .summary = "Give a task to an agent of config.yaml and wait for its end.",
    .detail = "The agent is a program with its own process group, log and time limit; it runs as a task of a flow, so "
              "runs show, logs, cancel and resume work on it. The text reaches it as one argument ({task}) or as a "
              "file ({task_file}), never through a shell.",
    .examples = "tasuki agent run implementer 'Add a --dry-run option'\n"
                "tasuki agent run implementer --task-file task.md --workflow nightly  # only if the workflow is yours\n"
                "git diff | tasuki agent run reviewer --task-file -",
    .flags = OP_WAITS | OP_VERDICTS,
    .params =
        PARAMS(AGENT_PARAM, TASK_PARAM(OP_POSITIONAL), TASK_FILE_PARAM, UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run"),
    .mcp = TOOL(
        "subagent_run", "delegation", .is_core = true, .when = agents_are_configured, .refusal = "NOT DONE",
        .text = "Give a task to another agent (get_status names them); returns its outcome and the end of its output. "
                "With ulTaskId you must own that workflow. After 45 s the answer is RUNNING: wait_for the run_id."),
    .run = run_run,
};

/* ---- parallel ---- */

static int check_text(const json_t *item, size_t index, const char *key, struct tsk_error *err)
{
    char place[32];
    const json_t *value = json_object_get(item, key);
    bool is_task = strcmp(key, "task") == 0, is_id = strcmp(key, "id") == 0;
    size_t most = is_task ? AGENT_TASK_MAX : 128;
    snprintf(place, sizeof place, "tasks[%zu]", index);
    if (!json_is_string(value) || json_string_length(value) == 0)
        return error_set(err, TSK_INVALID_INPUT, "agent_task_text", "param", place, "key", key, NULL);
    if (json_string_length(value) > most)
        return error_set(err, TSK_INVALID_INPUT, "agent_task_too_long", "param", place, "key", key, "max", DIGITS(most),
                         NULL);
    if (is_id && !id_is_valid(json_string_value(value)))
        return error_set(err, TSK_INVALID_INPUT, "agent_task_id", "param", place, "value", json_string_value(value),
                         NULL);
    return 0;
}

static int check_names(const json_t *item, const char *key, struct tsk_error *err)
{
    const json_t *list = json_object_get(item, key);
    bool is_good = !list || json_is_array(list);
    json_each (list, i, name)
        is_good = is_good && json_is_string(name) && id_is_valid(json_string_value(name));
    return is_good ? 0 : error_set(err, TSK_INVALID_INPUT, "agent_task_key", "param", "tasks", "key", key, NULL);
}

/* Objects with these keys, which are texts; `list` (may be NULL) is a list of names. */
static int check_tasks(const json_t *tasks, const char *const *keys, const char *list, struct tsk_error *err)
{
    if (check_count(tasks, "tasks", err) < 0)
        return -1;
    json_each (tasks, i, item) {
        for (const char *const *want = keys; *want; want++)
            if (check_text(item, i, *want, err) < 0)
                return -1;
        json_each_key (item, key) {
            bool is_known = list && strcmp(key, list) == 0;
            for (const char *const *want = keys; *want; want++)
                is_known |= strcmp(key, *want) == 0;
            if (!is_known)
                return error_set(err, TSK_INVALID_INPUT, "agent_task_key_unknown", "param", "tasks", "key", key, NULL);
        }
        if (list && check_names(item, list, err) < 0)
            return -1;
    }
    return 0;
}

/* {subagentIds, task} as pairs; owned. */
static json_t *pairs_of(const struct op_call *call)
{
    json_t *ids CLEANUP_JSON = many_agents(call, "subagentIds"), *pairs = json_array();
    json_each (ids, i, id)
        json_array_append_new(pairs, json_pack("{s:O, s:s}", "subagentId", id, "task", task_text(call)));
    return pairs;
}

static int shape_parallel(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    static const char *const keys[] = {"subagentId", "task", NULL};
    json_t *given = json_object_get(call->args, "tasks");
    bool has_ids = json_object_get(call->args, "subagentIds"), has_text = *task_text(call);
    if (given ? has_ids || has_text : !has_ids || !has_text)
        return error_set(err, TSK_INVALID_INPUT, call->is_cli ? "agent_parallel_cli" : "agent_parallel_either", NULL);
    json_t *pairs CLEANUP_JSON = given ? json_incref(given) : pairs_of(call);
    return check_tasks(pairs, keys, NULL, err) < 0 ? -1 : agent_work_parallel(work, pairs, err);
}

static int run_parallel(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_parallel, ret, err);
}

const struct op op_agent_parallel = {
    NAMES("agent.parallel", "agent", "parallel"),
    .summary = "Give one task to several agents at once and wait for all of them.",
    .detail = "They run as a parallel group: all must succeed, and each runs to its end. An agent that is named twice "
              "runs twice.",
    .examples = "tasuki agent parallel implementer reviewer --task 'Find the cause of issue 12'",
    .flags = OP_WAITS | OP_VERDICTS,
    .params = PARAMS(PARAM("subagentIds", OP_ID, OP_POSITIONAL | OP_MANY | OP_LIST, "AGENT…", "Agents of config.yaml.",
                           .completes = "agent-id"),
                     PARAM("task", OP_STRING, OP_OPTIONAL, "TASK", "What to do.", .max = AGENT_TASK_MAX),
                     TASK_FILE_PARAM, PARAM("tasks", OP_OBJECTS, OP_REMOTE_ONLY, "TASKS", "Or [{subagentId, task}]."),
                     UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run-parallel"),
    .mcp = TOOL("subagent_run_parallel", "delegation", .is_core = true, .when = agents_are_configured,
                .refusal = "NOT DONE",
                .text = "As subagent_run, to several agents at once: one task for all, or tasks. All must succeed."),
    .run = run_parallel,
};

/* ---- dag ---- */

static int shape_dag(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    static const char *const keys[] = {"id", "subagentId", "task", NULL};
    json_t *tasks CLEANUP_JSON = NULL;
    if (agent_args_objects(call, "tasks", &tasks, err) < 0 || check_tasks(tasks, keys, "needs", err) < 0)
        return -1;
    return agent_work_dag(work, tasks, err);
}

static int run_dag(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_dag, ret, err);
}

const struct op op_agent_dag = {
    NAMES("agent.dag", "agent", "dag"),
    .summary = "Give several tasks to agents, each after those it needs, and wait for all of them.",
    .detail = "Tasks that do not depend on each other run at the same time. A task that depends on a failed one is not "
              "started.",
    .examples = "tasuki agent dag plan.yaml  # - {id: api, subagentId: implementer, task: …}\n"
                "tasuki agent dag plan.json --workflow nightly",
    .flags = OP_WAITS | OP_VERDICTS,
    .params = PARAMS(PARAM("tasks", OP_OBJECTS, OP_REQUIRED | OP_POSITIONAL, "FILE",
                           "[{id, subagentId, task, needs: [ids]}]; as a command: a YAML or JSON file.",
                           .agent_help = "[{id, subagentId, task, needs: [ids]}]"),
                     UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run-dag"),
    .mcp = TOOL(
        "subagent_run_dag", "delegation", .is_core = true, .when = agents_are_configured, .refusal = "NOT DONE",
        .text =
            "As subagent_run, several tasks, each after those it needs; one that needs a failed one is not started."),
    .run = run_dag,
};

/* ---- team ---- */

static int shape_team(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    return agent_work_team(work, json_get_string(call->args, "teamId", ""), task_text(call), err);
}

static int run_team(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_team, ret, err);
}

const struct op op_agent_team = {
    NAMES("agent.team", "agent", "team"),
    .summary = "Give a task to all agents of a team and wait; the team's policy says what counts as success.",
    .examples = "tasuki agent team pair 'Review the change on this branch'",
    .flags = OP_WAITS | OP_VERDICTS,
    .params = PARAMS(
        PARAM("teamId", OP_ID, OP_REQUIRED | OP_POSITIONAL, "TEAM", "A team of config.yaml.", .completes = "team-id"),
        TASK_PARAM(OP_POSITIONAL), TASK_FILE_PARAM, UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run-team"),
    .mcp = TOOL(
        "agent_team_run", "delegation", .is_core = true, .when = agents_are_configured, .refusal = "NOT DONE",
        .text = "As subagent_run, to all agents of a team (get_status names them); its policy says what is success."),
    .run = run_team,
};

/* ---- teams ---- */

static int shape_teams(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    json_t *teams CLEANUP_JSON = many_agents(call, "teamIds");
    return check_count(teams, "teamIds", err) < 0 ? -1 : agent_work_teams(work, teams, task_text(call), err);
}

static int run_teams(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_teams, ret, err);
}

const struct op op_agent_teams = {
    NAMES("agent.teams", "agent", "teams"),
    .summary = "Give a task to several teams at once and wait for all of them.",
    .detail = "A group of groups: each team succeeds by its own policy, and all teams must succeed.",
    .examples = "tasuki agent teams pair auditors --task 'Is this release ready?'",
    .flags = OP_WAITS | OP_VERDICTS,
    .params = PARAMS(PARAM("teamIds", OP_ID, OP_REQUIRED | OP_POSITIONAL | OP_MANY | OP_LIST, "TEAM…",
                           "Teams of config.yaml.", .completes = "team-id"),
                     TASK_PARAM(0), TASK_FILE_PARAM, UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run-teams"),
    .mcp = TOOL("agent_team_run_parallel", "delegation", .is_core = true, .when = agents_are_configured,
                .refusal = "NOT DONE", .text = "As agent_team_run, to several teams at once; all must succeed."),
    .run = run_teams,
};

/* ---- loop ---- */

static int shape_loop(struct op_call *call, struct agent_work *work, struct tsk_error *err)
{
    return agent_work_loop(work, json_get_string(call->args, "subagentId", ""), task_text(call),
                           json_get_int(call->args, "maxIterations", 1), json_get_string(call->args, "until", NULL),
                           err);
}

static int run_loop(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    return agent_delegate(call, shape_loop, ret, err);
}

const struct op op_agent_loop = {
    NAMES("agent.loop", "agent", "loop"),
    .summary = "Give the same task to an agent again and again, until a command says that it is done.",
    .detail = "If the command has not succeeded after the last time, the run fails (CYCLE_LIMIT_EXCEEDED). The "
              "agent itself can end the loop with tasuki task finish. A failing agent ends it as a failure.",
    .examples = "tasuki agent loop implementer 'Make the tests pass' --max-iterations 5 --until 'make test'",
    .flags = OP_WAITS | OP_VERDICTS,
    .params = PARAMS(AGENT_PARAM, TASK_PARAM(OP_POSITIONAL), TASK_FILE_PARAM,
                     PARAM("maxIterations", OP_INT, OP_REQUIRED, "N", "At most.", .min = 1, .max = AGENT_LOOP_MAX,
                           .option = "max-iterations"),
                     PARAM("until", OP_STRING, OP_OPTIONAL, "CMD", "A command that ends the loop when it succeeds."),
                     UL_TASK_PARAM, OP_DETACH_PARAM, INSTANCE_PARAM),
    .result = result_fields,
    .errors = AGENT_ERRORS,
    .http = ROUTE("POST", "/api/agents/run-loop"),
    .mcp = TOOL(
        "loop_run", "delegation", .is_core = true, .when = agents_are_configured, .refusal = "NOT DONE",
        .text =
            "As subagent_run, the same task again until a command succeeds; CYCLE_LIMIT_EXCEEDED when it never does."),
    .run = run_loop,
};
