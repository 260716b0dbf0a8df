/* flows.c - the flow files of the workspace, and the programs that they and the agents name. */
#include "base/listing.h"
#include "base/yaml.h"
#include "doctor/check.h"
#include "graph/flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLOWS_MAX 10000

static bool is_flow_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return name[0] != '.' && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Calls `take` with each readable file of flows/; the others are reported if `f` is not NULL. */
static size_t each_flow(struct doctor *d, struct finding *f,
                        void (*take)(void *data, const char *name, const struct buf *text), void *data)
{
    struct listing names CLEANUP(listing_close);
    size_t taken = 0;
    listing_open(&names, d->ws->state_dir, "flows", LISTING_SORTED);
    for (const char *name; (name = listing_next(&names));) {
        struct buf text CLEANUP(buf_clear) = {.max = FLOW_SIZE_MAX};
        char shown[PATH_MAX];
        snprintf(shown, sizeof shown, "flows/%s", name);
        bool is_flow = is_flow_name(name) && taken < FLOWS_MAX;
        if (is_flow && fs_read_file(names.fd, name, FLOW_SIZE_MAX - 1, &text) == 0) {
            take(data, shown, &text);
            taken++;
        } else if (is_flow && f) {
            finding_add(f, DOCTOR_WARN, "doctor_access", "path", shown, "reason", strerrordesc_np(errno), NULL);
        }
    }
    return taken;
}

static void look_at_flow(void *data, const char *name, const struct buf *text)
{
    struct finding *f = data;
    struct tsk_error err;
    struct flow flow;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    bool is_read = flow_load(&flow, name, buf_str(text), text->len, f->doctor->options.lang, &err) == 0;
    if (!is_read || flow_settle_agents(&flow, f->doctor->ws, NULL, buf_str(text), text->len, &err) < 0) {
        finding_error(f, DOCTOR_WARN, &err);
        finding_fix_ours(f, "flow validate %s", state_word(f->doctor, name, &word));
    }
    if (is_read)
        flow_clear(&flow);
}

void check_flows(struct finding *f)
{
    size_t flows = each_flow(f->doctor, f, look_at_flow, f);
    finding_summary(f, "doctor_flows_good", "count", DIGITS(flows), NULL);
    f->is_absent = !flows && f->status == DOCTOR_PASS;
}

/* ---- programs ---------------------------------------------------------------------------------------------- */

static bool is_executable(const char *path)
{
    struct stat st;
    return fs->fstatat(AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode) &&
           faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* Where the program is; false: nowhere. */
static bool find_program(const struct doctor *d, const char *name, char path[PATH_MAX])
{
    if (strchr(name, '/')) {
        snprintf(path, PATH_MAX, name[0] == '/' ? "%s%s" : "%s/%s", name[0] == '/' ? "" : d->ws->root, name);
        return is_executable(path);
    }
    const char *places = getenv("PATH");
    for (places = places ? places : "/usr/local/bin:/usr/bin:/bin"; *places;) {
        size_t len = strcspn(places, ":");
        if (len && snprintf(path, PATH_MAX, "%.*s/%s", (int)len, places, name) < PATH_MAX && is_executable(path))
            return true;
        places += len + (places[len] == ':');
    }
    return false;
}

/* program -> who needs it first. */
static void need_program(json_t *needs, const char *program, const char *by)
{
    if (program && program[0] && !strchr(program, '{') && !json_object_get(needs, program))
        json_object_set_new(needs, program, json_string(by));
}

static bool sets_path(const struct flow *flow, const struct flow_task *task)
{
    const char *pair = flow_string(flow, task->env);
    for (uint32_t i = 0; pair && i < task->env_count; i++, pair += strlen(pair) + 1)
        if (strncmp(pair, "PATH=", 5) == 0)
            return true;
    return false;
}

/* A command that needs no shell names its program. A text for a shell names nothing but the shell, if one was chosen. */
static void need_of_task(json_t *needs, const struct flow *flow, const struct flow_task *task, const char *source)
{
    char program[256], by[400];
    const char *run = flow_string(flow, task->is_shell ? task->shell : task->run);
    for (uint32_t i = 0; i < flow->agents.count; i++)
        if (flow_task(flow, REGION_AT(&flow->agents, struct flow_agent, i)->task) == task)
            return; /* its program is the agent's */
    if (!run || sets_path(flow, task) || strlen(run) >= sizeof program ||
        (task->cwd && strchr(run, '/') && run[0] != '/'))
        return;
    snprintf(program, sizeof program, "%s", run);
    snprintf(by, sizeof by, "%.200s:%u", source, task->line);
    need_program(needs, program, by);
}

static void needs_of_flow(void *data, const char *name, const struct buf *text)
{
    struct tsk_error err;
    struct flow flow;
    if (flow_load(&flow, name, buf_str(text), text->len, LANG_EN, &err) < 0)
        return; /* reported by the check of the flows */
    for (uint32_t i = 0; i < flow.tasks.count; i++)
        need_of_task(data, &flow, flow_task(&flow, i), name);
    flow_clear(&flow);
}

static void needs_of_agents(const struct doctor *d, json_t *needs)
{
    struct tsk_error err;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (workspace_config(d->ws, &doc, &err) <= 0)
        return;
    const struct yaml_node *agents = yaml_get(yaml_root(doc), "agents");
    for (const struct yaml_node *agent = agents && agents->type == YAML_MAP ? agents->first : NULL; agent;
         agent = agent->next) {
        char by[64];
        const struct yaml_node *run = yaml_get(agent, "run");
        snprintf(by, sizeof by, "config.yaml:%u", agent->key_line);
        const char *program = run && run->type == YAML_LIST && run->first ? yaml_text(run->first) : NULL;
        /* A path in a place of its own is looked for there, and that place depends on the call. */
        if (program && !(yaml_get(agent, "cwd") && strchr(program, '/') && program[0] != '/'))
            need_program(needs, program, by);
    }
}

/* The commands of `notify:` run in the root. */
static void needs_of_notify(const struct doctor *d, json_t *needs)
{
    struct tsk_error err;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (workspace_config(d->ws, &doc, &err) <= 0)
        return;
    const struct yaml_node *notify = yaml_get(yaml_root(doc), "notify");
    for (const struct yaml_node *node = notify && notify->type == YAML_MAP ? notify->first : NULL; node;
         node = node->next) {
        char program[256], by[64];
        bool is_list = node->type == YAML_LIST;
        const char *text = yaml_text(is_list ? node->first : node);
        bool is_word = text && (strcmp(text, "desktop") == 0 || strcmp(text, "bell") == 0);
        if (!text || (!is_list && (is_word || flow_needs_shell(text))))
            continue;
        text += is_list ? 0 : strspn(text, " \t");
        size_t len = is_list ? strlen(text) : strcspn(text, " \t\n");
        snprintf(program, sizeof program, "%.*s", (int)(len < sizeof program ? len : 0), text);
        snprintf(by, sizeof by, "config.yaml:%u", node->key_line);
        need_program(needs, program, by);
    }
}

/* `by`: the file:line that names the program. We do not know which package installs it. */
static void tell_missing(struct finding *f, const char *program, const char *by)
{
    char file[256];
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *line = strrchr(by, ':') + 1;
    snprintf(file, sizeof file, "%.*s", (int)(line - 1 - by), by);
    finding_add(f, DOCTOR_WARN, "doctor_tool_missing", "program", program, "place", by, NULL);
    finding_fix(f, "${EDITOR:-vi} +%s %s", line, state_word(f->doctor, file, &word));
}

void check_tools(struct finding *f)
{
    json_t *needs CLEANUP_JSON = json_object();
    char path[PATH_MAX];
    each_flow(f->doctor, NULL, needs_of_flow, needs);
    needs_of_agents(f->doctor, needs);
    needs_of_notify(f->doctor, needs);
    f->is_absent = json_object_size(needs) == 0;
    json_each_pair (needs, program, by) {
        if (find_program(f->doctor, program, path))
            finding_add(f, DOCTOR_PASS, "doctor_tool", "program", program, "path", path, NULL);
        else
            tell_missing(f, program, json_string_value(by));
    }
    finding_summary(f, "doctor_tools_good", "count", DIGITS(json_object_size(needs)), NULL);
}
