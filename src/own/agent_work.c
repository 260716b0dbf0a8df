/* agent_work.c - work for agents as a flow: JSON, which is YAML when a few characters are written in another way. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/word.h"
#include "own/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE  192                /* two names and what is between them */
#define CHECK_NAME "check"            /* the task that decides whether a loop continues */
#define LOOP_KEY   "tasuki.iteration" /* of the channel: agents use the other names */

void agent_work_init(struct agent_work *work, const json_t *config, const char *run_path)
{
    *work = (struct agent_work){.config = config,
                                .run_path = run_path,
                                .tasks = json_object(),
                                .groups = json_object(),
                                .files = json_object(),
                                .members = json_array(),
                                .expression = BUF_INIT};
}

void agent_work_clear(struct agent_work *work)
{
    json_free(&work->tasks);
    json_free(&work->groups);
    json_free(&work->files);
    json_free(&work->members);
    buf_clear(&work->expression);
}

/* ---- names ---- */

const json_t *agent_find(const json_t *config, const char *name, bool is_team, struct tsk_error *err)
{
    const json_t *map = json_object_get(config, is_team ? "teams" : "agents");
    const json_t *found = json_object_get(map, name);
    const char *names[AGENT_MANY_MAX];
    size_t count = 0;
    if (found)
        return found;
    json_each_key (map, key)
        if (count < AGENT_MANY_MAX)
            names[count++] = key;
    struct buf known CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < count; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", names[i]);
    const char *near = nearest_word(name, names, count);
    error_set(err, TSK_NOT_FOUND,
              is_team ? near ? "team_unknown_near" : "team_unknown"
              : near  ? "agent_unknown_near"
                      : "agent_unknown",
              "name", name, "known", count ? buf_str(&known) : "-", NULL);
    if (near)
        error_add(err, "near", near);
    return NULL;
}

/* A task's name that is not taken yet: NAME, NAME-2, … */
static void free_name(const struct agent_work *work, const char *wanted, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%s", wanted);
    for (unsigned i = 2; json_object_get(work->tasks, name); i++)
        snprintf(name, NAME_SIZE, "%s-%u", wanted, i);
}

/* ---- one task ---- */

/* A word of the template with its places filled; owned. */
static json_t *fill_word(const char *word, const char *text, const char *path, bool *ret_uses_path)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    while (*word) {
        bool is_text = strncmp(word, "{task}", 6) == 0, is_path = strncmp(word, "{task_file}", 11) == 0;
        *ret_uses_path |= is_path;
        if (is_text || is_path) {
            buf_puts(&b, is_text ? text : path);
            word += is_text ? 6 : 11;
        } else {
            buf_put(&b, word++, 1);
        }
    }
    return json_stringn(buf_str(&b), b.len);
}

json_t *agent_command(const json_t *agent, const char *text, const char *path, bool *ret_uses_path)
{
    json_t *words = json_array();
    *ret_uses_path = false;
    json_each (json_object_get(agent, "run"), i, word)
        json_array_append_new(words, fill_word(json_string_value(word), text, path, ret_uses_path));
    return words;
}

static int check_length(const json_t *words, const char *agent, struct tsk_error *err)
{
    json_each (words, i, word)
        if (json_string_length(word) > AGENT_ARG_MAX)
            return error_set(err, TSK_INVALID_INPUT, "agent_task_long", "param", "task", "agent", agent, "max",
                             DIGITS(AGENT_ARG_MAX), NULL);
    return 0;
}

static json_t *copy_keys(const json_t *from, const char *const *keys)
{
    json_t *to = json_object();
    for (; *keys; keys++)
        if (json_object_get(from, *keys))
            json_object_set(to, *keys, json_object_get(from, *keys));
    return to;
}

/* What the agent does is done by the caller's sub-agent of that name (base/who.h). */
static void name_subagent(json_t *task, const char *agent)
{
    json_t *env =
        json_is_object(json_object_get(task, "env")) ? json_copy(json_object_get(task, "env")) : json_object();
    if (!json_object_get(env, "TASUKI_SUBAGENT"))
        json_object_set_new(env, "TASUKI_SUBAGENT", json_string(agent));
    json_object_set_new(task, "env", env);
}

/* Adds the task `name`; borrowed, or NULL. */
static json_t *work_add_task(struct agent_work *work, const char *name, const char *agent, const char *text,
                             struct tsk_error *err)
{
    static const char *const kept[] = {"timeout", "retries", "cwd", "env", NULL};
    const json_t *template = agent_find(work->config, agent, false, err);
    char file[64], path[PATH_MAX + 64];
    bool uses_path;
    if (!template)
        return NULL;
    snprintf(file, sizeof file, "task.%zu.txt", json_object_size(work->tasks) + 1);
    snprintf(path, sizeof path, "%s/%s", work->run_path, file);
    json_t *task = copy_keys(template, kept), *words = agent_command(template, text, path, &uses_path);
    json_object_set_new(task, "run", words);
    name_subagent(task, agent);
    json_object_set_new(work->tasks, name, task);
    json_array_append_new(work->members, json_pack("{s:s, s:s}", "task", name, "subagentId", agent));
    if (uses_path)
        json_object_set_new(work->files, file, json_string(text));
    return check_length(words, agent, err) < 0 ? NULL : task;
}

/* ---- the shapes ---- */

int agent_work_one(struct agent_work *work, const char *agent, const char *text, struct tsk_error *err)
{
    return work_add_task(work, agent, agent, text, err) ? 0 : -1;
}

int agent_work_parallel(struct agent_work *work, const json_t *pairs, struct tsk_error *err)
{
    char name[NAME_SIZE];
    json_each (pairs, i, pair) {
        const char *agent = json_get_string(pair, "subagentId", "");
        free_name(work, agent, name);
        if (!work_add_task(work, name, agent, json_get_string(pair, "task", ""), err))
            return -1;
        buf_printf(&work->expression, "%s%s", i ? " | " : "", name);
    }
    return 0;
}

/* Finds circular needs: repeatedly removes every task whose needs are all removed; the tasks that remain wait for each
 * other. */
static int check_circle(const json_t *tasks, struct tsk_error *err)
{
    json_t *left CLEANUP_JSON = json_object();
    struct buf names CLEANUP(buf_clear) = BUF_INIT;
    size_t before;
    json_each (tasks, i, task)
        json_object_set_new(left, json_get_string(task, "id", ""), json_true());
    do {
        before = json_object_size(left);
        json_each (tasks, i, task) {
            bool waits = false;
            json_each (json_object_get(task, "needs"), j, need)
                waits |= json_object_get(left, json_string_value(need)) != NULL;
            if (!waits)
                json_object_del(left, json_get_string(task, "id", ""));
        }
    } while (json_object_size(left) < before);
    json_each_key (left, id)
        buf_printf(&names, "%s%s", names.len ? ", " : "", id);
    return before ? error_set(err, TSK_INVALID_INPUT, "agent_circle", "tasks", buf_str(&names), NULL) : 0;
}

/* Refused here, in the caller's words. */
static int check_needs(const struct agent_work *work, const json_t *tasks, struct tsk_error *err)
{
    json_each (tasks, i, task)
        json_each (json_object_get(task, "needs"), j, need)
            if (!json_object_get(work->tasks, json_string_value(need)))
                return error_set(err, TSK_INVALID_INPUT, "agent_need_unknown", "task", json_get_string(task, "id", ""),
                                 "need", json_string_value(need), NULL);
    return 0;
}

int agent_work_dag(struct agent_work *work, const json_t *tasks, struct tsk_error *err)
{
    json_each (tasks, i, item) {
        const char *id = json_get_string(item, "id", "");
        json_t *needs = json_object_get(item, "needs");
        if (json_object_get(work->tasks, id))
            return error_set(err, TSK_INVALID_INPUT, "agent_task_twice", "task", id, NULL);
        json_t *task =
            work_add_task(work, id, json_get_string(item, "subagentId", ""), json_get_string(item, "task", ""), err);
        if (!task)
            return -1;
        if (json_array_size(needs))
            json_object_set(task, "needs", needs);
    }
    return check_needs(work, tasks, err) < 0 ? -1 : check_circle(tasks, err);
}

static bool is_in(const json_t *list, const char *text)
{
    json_each (list, i, item)
        if (strcmp(json_string_value(item), text) == 0)
            return true;
    return false;
}

/* `critical` names agents: all tasks that were made of one, which are those from the member `first` on. */
static json_t *policy_of(const struct agent_work *work, const json_t *team, size_t first)
{
    const json_t *policy = json_object_get(team, "policy"), *critical = json_object_get(policy, "critical");
    json_t *names = json_array();
    for (size_t i = first; critical && i < json_array_size(work->members); i++) {
        const json_t *member = json_array_get(work->members, i);
        if (is_in(critical, json_get_string(member, "subagentId", "")))
            json_array_append(names, json_object_get(member, "task"));
    }
    if (critical)
        return json_pack("{s:{s:o}}", "policy", "critical", names);
    json_decref(names);
    return json_pack("{s:O}", "policy", policy);
}

/* TEAM-team, unless an agent of it has that name. */
static void work_group_name(const char *team, const json_t *agents, const char *prefix, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%s-team", team);
    for (unsigned i = 2; !*prefix && is_in(agents, name); i++)
        snprintf(name, NAME_SIZE, "%s-team-%u", team, i);
}

/* team(a | b), its tasks named with a prefix where several teams may have one agent. */
static int add_team(struct agent_work *work, const char *name, bool has_prefix, const char *text, struct tsk_error *err)
{
    const json_t *team = agent_find(work->config, name, true, err);
    char wanted[NAME_SIZE], task[NAME_SIZE], group[NAME_SIZE], prefix[NAME_SIZE] = "";
    size_t first = json_array_size(work->members);
    if (!team)
        return -1;
    if (has_prefix)
        snprintf(prefix, sizeof prefix, "%s.", name);
    work_group_name(name, json_object_get(team, "agents"), prefix, group);
    buf_printf(&work->expression, "%s(", group);
    json_each (json_object_get(team, "agents"), i, agent) {
        snprintf(wanted, sizeof wanted, "%s%s", prefix, json_string_value(agent));
        free_name(work, wanted, task);
        if (!work_add_task(work, task, json_string_value(agent), text, err))
            return -1;
        json_object_set_new(json_array_get(work->members, json_array_size(work->members) - 1), "teamId",
                            json_string(name));
        buf_printf(&work->expression, "%s%s", i ? " | " : "", task);
    }
    buf_puts(&work->expression, ")");
    json_object_set_new(work->groups, group, policy_of(work, team, first));
    return 0;
}

int agent_work_team(struct agent_work *work, const char *team, const char *text, struct tsk_error *err)
{
    return add_team(work, team, false, text, err);
}

int agent_work_teams(struct agent_work *work, const json_t *teams, const char *text, struct tsk_error *err)
{
    json_t *seen CLEANUP_JSON = json_array();
    json_each (teams, i, team) {
        if (is_in(seen, json_string_value(team)))
            return error_set(err, TSK_INVALID_INPUT, "team_twice", "team", json_string_value(team), NULL);
        json_array_append(seen, team);
        buf_puts(&work->expression, i ? " | " : "");
        if (add_team(work, json_string_value(team), true, text, err) < 0)
            return -1;
    }
    return 0;
}

/* $1 this program, $2 how often at most, $3 the agent's task, $4 the condition ("": none). The task's text is not here. */
static const char check_script[] = "if [ -n \"$4\" ]; then\n"
                                   "  if /bin/sh -c \"$4\"; then exit 0; fi\n"
                                   "else\n"
                                   "  done=$(\"$1\" channel get " LOOP_KEY " 2>/dev/null) || done=0\n"
                                   "  if [ \"$((${done:-0} + 1))\" -ge \"$2\" ]; then exit 0; fi\n"
                                   "fi\n"
                                   "\"$1\" channel add " LOOP_KEY " 1 && exec \"$1\" task next \"$3\"\n";

int agent_work_loop(struct agent_work *work, const char *agent, const char *text, int64_t times, const char *until,
                    struct tsk_error *err)
{
    char self[PATH_MAX], name[NAME_SIZE];
    if (self_path(self) < 0)
        return errno == ENOENT ? error_set(err, TSK_ENVIRONMENT, "program_gone", "path", self, NULL)
                               : error_errno(err, "read", "/proc/self/exe");
    const char *count = DIGITS(times);
    snprintf(name, sizeof name, "%s%s", agent, strcmp(agent, CHECK_NAME) == 0 ? "-agent" : "");
    json_t *task = work_add_task(work, name, agent, text, err);
    if (!task)
        return -1;
    json_object_set_new(task, "max_cycles", json_integer(times));
    json_object_set_new(work->tasks, CHECK_NAME,
                        json_pack("{s:[s, s, s, s, s, s, s, s], s:I}", "run", "/bin/sh", "-c", check_script,
                                  "tasuki-loop", self, count, name, until ? until : "", "max_cycles",
                                  (json_int_t)times));
    buf_printf(&work->expression, "%s >> " CHECK_NAME, name);
    return 0;
}

/* ---- the text ---- */

/* Characters that YAML does not take as they are, or takes for the end of a line, as escapes: they are in strings only. */
static void put_yaml(struct buf *b, const char *json)
{
    for (const unsigned char *at = (const unsigned char *)json; *at;) {
        unsigned code = 0, len = 1;
        if (*at == 0x7f)
            code = 0x7f;
        else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f)
            code = at[1], len = 2;
        else if (at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9))
            code = 0x2000u + (at[2] & 0x3f), len = 3;
        else if (at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf)
            code = 0xfeff, len = 3;
        else if (at[0] == 0xef && at[1] == 0xbf && (at[2] == 0xbe || at[2] == 0xbf))
            code = 0xffc0u + (at[2] & 0x3f), len = 3;
        if (code)
            buf_printf(b, "\\u%04x", code);
        else
            buf_put(b, at, 1);
        at += len;
    }
}

void agent_work_put(const struct agent_work *work, const char *name, struct buf *text)
{
    struct buf json CLEANUP(buf_clear) = {.max = 512u << 20};
    json_t *document CLEANUP_JSON =
        json_pack("{s:s, s:{s:I}}", "name", name, "limits", "parallel", (json_int_t)json_object_size(work->tasks));
    if (work->expression.len)
        json_object_set_new(document, "flow", json_string(buf_str(&work->expression)));
    json_object_set(document, "tasks", work->tasks);
    if (json_object_size(work->groups))
        json_object_set(document, "groups", work->groups);
    json_write(&json, document, true);
    put_yaml(text, buf_str(&json));
    text->failed |= json.failed;
}

int agent_work_write(const struct agent_work *work, int run_dir, struct tsk_error *err)
{
    json_each_pair (work->files, name, text)
        if (fs_replace_file(run_dir, name, 0600, json_string_value(text), json_string_length(text)) < 0)
            return fs_error(err, "write", run_dir, name);
    return 0;
}
