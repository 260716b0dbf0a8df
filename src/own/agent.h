/* agent.h - the agents and teams of config.yaml, and work for them as a flow.
 *
 * An agent is a command in which `{task}` stands for the text of its task, as one argument or a part of one, and `{task_file}` for
 * the path of a file with the text. Nothing of it ever passes through a shell: the flow that is made here has argument lists.
 *
 *     agents:
 *       implementer: {run: [claude, -p, "{task}"], timeout: 30m}
 *       reviewer:    {run: [codex, exec, "{task}"]}
 *     teams:
 *       pair: {agents: [implementer, reviewer], policy: strict}
 *
 * Work is put together piece by piece, then becomes the text of a flow (which is kept with the run, so that resume finds it):
 *
 *     struct agent_work work;
 *     agent_work_init(&work, config, run_id, run_path);
 *     agent_work_one(&work, "implementer", text, err);
 *     agent_work_put(&work, name, &flow_text);
 *     … the run is begun, and before its first record:
 *     agent_work_write(&work, run_dir, err);   // the files of {task_file}
 *     agent_work_clear(&work); */
#ifndef OWN_AGENT_H
#define OWN_AGENT_H

#include "base/json.h"
#include "store/workspace.h"

#define AGENT_TASK_MAX (1u << 20) /* bytes of a task's text */
#define AGENT_ARG_MAX  131000     /* of one argument: what the kernel takes */
#define AGENT_NAME_MAX 60         /* two of them are a task's name */
#define AGENT_MANY_MAX 256        /* agents in one call */
#define AGENT_LOOP_MAX 1000

/* {"agents": {NAME: {run, timeout?, retries?, cwd?, env?}}, "teams": {NAME: {agents, policy}}}; owned. Both are empty without a
 * file. What is wrong in it is INVALID_INPUT with file:line:column. */
int agents_load(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err);
/* True if an agent is configured. */
bool agents_are_configured(struct tsk_workspace *ws);

/* The agent (or team) `name`, borrowed; NULL with NOT_FOUND, the existing names, and the one that was probably meant. */
const json_t *agent_find(const json_t *config, const char *name, bool is_team, struct tsk_error *err);
/* Its command for a text, which is in the file `path` where that is used; owned array of strings. */
json_t *agent_command(const json_t *agent, const char *text, const char *path, bool *ret_uses_path);

struct agent_work {
    const json_t *config;   /* borrowed */
    const char *run_path;   /* borrowed: the directory of the run to be */
    json_t *tasks, *groups; /* of the flow */
    json_t *files;          /* name -> text */
    json_t *members;        /* [{task, subagentId}] in the order of the call, for the result */
    struct buf expression;  /* "" if the tasks' needs say it all */
};

void agent_work_init(struct agent_work *work, const json_t *config, const char *run_path);
void agent_work_clear(struct agent_work *work);

/* The six shapes. NOT_FOUND for a name that is not configured; INVALID_INPUT for a text that is too long for an argument. */
int agent_work_one(struct agent_work *work, const char *agent, const char *text, struct tsk_error *err);
/* `pairs`: array of {subagentId, task}. */
int agent_work_parallel(struct agent_work *work, const json_t *pairs, struct tsk_error *err);
/* `tasks`: array of {id, subagentId, task, needs[]?}. */
int agent_work_dag(struct agent_work *work, const json_t *tasks, struct tsk_error *err);
int agent_work_team(struct agent_work *work, const char *team, const char *text, struct tsk_error *err);
/* `teams`: array of names. */
int agent_work_teams(struct agent_work *work, const json_t *teams, const char *text, struct tsk_error *err);
/* A loop: repeats the agent until the command `until` succeeds, at most `times`; without a command (NULL), exactly
 * `times`. */
int agent_work_loop(struct agent_work *work, const char *agent, const char *text, int64_t times, const char *until,
                    struct tsk_error *err);

/* The flow's text. */
void agent_work_put(const struct agent_work *work, const char *name, struct buf *text);
/* The files into the directory of the run, before anything is started. */
int agent_work_write(const struct agent_work *work, int run_dir, struct tsk_error *err);

#endif
