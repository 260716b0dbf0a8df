/* flow_agent.c - tasks of agents: `agent` names one of config.yaml, `run` is the text that it gets (own/agent.h).
 *
 * A run keeps a copy of its agents (agents.json), so that a resume uses the same ones even if config.yaml has
 * changed. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/word.h"
#include "graph/flow.h"
#include "graph/rundir.h"
#include "own/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEPT_NAME      "agents.json"
#define AGENT_KEPT_MAX (64u << 20)

/* 1: the run has kept them; 0: they are those of config.yaml. */
static int load_agents(struct tsk_workspace *ws, const struct rundir *run, json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = AGENT_KEPT_MAX};
    if (!run || fs_read_file(run->dir, KEPT_NAME, AGENT_KEPT_MAX - 1, &text) < 0)
        return agents_load(ws, ret, err);
    *ret = json_loadb(buf_str(&text), text.len, 0, NULL);
    return *ret ? 1 : rundir_damaged(run, KEPT_NAME, err);
}

static bool has_variable(const struct flow *flow, const struct flow_task *task, const char *name)
{
    const char *pair = flow_string(flow, task->env);
    size_t len = strlen(name);
    for (uint32_t i = 0; i < task->env_count; i++, pair += strlen(pair) + 1)
        if (strncmp(pair, name, len) == 0 && pair[len] == '=')
            return true;
    return false;
}

/* The agent's variables, then the task's own, which win. */
static void add_env(struct flow *flow, struct flow_task *task, const json_t *agent)
{
    struct buf pairs CLEANUP(buf_clear) = {.max = FLOW_SIZE_MAX};
    uint32_t count = 0;
    json_each_pair (json_object_get(agent, "env"), name, value)
        if (!has_variable(flow, task, name)) {
            buf_printf(&pairs, "%s=%s", name, json_string_value(value));
            buf_put(&pairs, "", 1);
            count++;
        }
    if (!count)
        return;
    const char *own = flow_string(flow, task->env);
    for (uint32_t i = 0; i < task->env_count; i++, own += strlen(own) + 1)
        buf_put(&pairs, own, strlen(own) + 1);
    task->env = flow_string_add(flow, pairs.data, pairs.len);
    task->env_count += count;
}

static void take_limits(struct flow *flow, struct flow_task *task, const json_t *agent)
{
    const char *timeout = json_get_string(agent, "timeout", NULL), *cwd = json_get_string(agent, "cwd", NULL);
    if (timeout && !task->timeout_ms)
        duration_parse(timeout, &task->timeout_ms);
    if (cwd && !task->cwd)
        task->cwd = flow_string_add(flow, cwd, strlen(cwd));
    if (!json_object_get(agent, "retries") || (task->detail && flow_detail(flow, task)->retries >= 0))
        return;
    flow_detail(flow, task)->retries = (int32_t)json_get_int(agent, "retries", 0);
    struct task_detail *in_graph = graph_detail(&flow->graph, task->node);
    BUG(!in_graph);
    *in_graph = *flow_detail(flow, task);
}

/* One word behind the other, each with its end. */
static bool agent_take_command(struct flow *flow, struct flow_task *task, const json_t *words)
{
    task->is_shell = false;
    task->run_count = 0;
    json_each (words, i, word) {
        uint32_t offset = flow_string_add(flow, json_string_value(word), json_string_length(word));
        task->run = task->run_count++ ? task->run : offset;
        if (json_string_length(word) > AGENT_ARG_MAX)
            return false;
    }
    return true;
}

static int agent_settle(struct flow *flow, const struct flow_agent *one, const json_t *config, const struct rundir *run,
                        struct tsk_error *err)
{
    char file[64], path[PATH_MAX + 64];
    struct tsk_error unknown;
    bool uses_path;
    const char *name = flow_string(flow, one->name), *text = flow_string(flow, one->text);
    struct flow_task *task = flow_task(flow, one->task);
    const json_t *agent = agent_find(config, name, false, &unknown);
    if (!agent) {
        struct buf message CLEANUP(buf_clear) = BUF_INIT;
        text_put_error(&message, flow->lang, &unknown);
        flow_problem(flow, one->line, one->column, "flow_agent_unknown", "reason", buf_str(&message), NULL);
        return 0;
    }
    snprintf(file, sizeof file, "task.%u.txt", one->task + 1);
    snprintf(path, sizeof path, "%s/%s", run ? run->path : "", file);
    json_t *words CLEANUP_JSON = agent_command(agent, text, path, &uses_path);
    if (uses_path && run && fs_replace_file(run->dir, file, 0600, text, strlen(text)) < 0)
        return fs_error(err, "write", run->dir, file);
    if (!agent_take_command(flow, task, words)) /* from here on `name` and `text` may have moved */
        flow_problem(flow, one->line, one->column, "agent_task_long", "param", "run", "agent",
                     flow_string(flow, one->name), "max", DIGITS(AGENT_ARG_MAX), NULL);
    take_limits(flow, task, agent);
    add_env(flow, task, agent);
    return 0;
}

static int keep_agents(const struct rundir *run, const json_t *config, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = AGENT_KEPT_MAX};
    json_write(&text, config, true);
    if (text.failed || fs_replace_file(run->dir, KEPT_NAME, 0600, text.data, text.len) < 0)
        return fs_error(err, "write", run->dir, KEPT_NAME);
    return 0;
}

int flow_settle_agents(struct flow *flow, struct tsk_workspace *ws, const struct rundir *run, const char *text,
                       size_t len, struct tsk_error *err)
{
    json_t *config CLEANUP_JSON = NULL;
    if (!flow->agents.count)
        return 0;
    int loaded = load_agents(ws, run, &config, err);
    if (loaded < 0)
        return -1;
    bool is_new = run && loaded == 0;
    for (uint32_t i = 0; i < flow->agents.count; i++)
        if (agent_settle(flow, REGION_AT(&flow->agents, struct flow_agent, i), config, run, err) < 0)
            return -1;
    if (flow->problem_count)
        return flow_refuse(flow, text, len, err);
    return is_new ? keep_agents(run, config, err) : 0;
}
