/* op_agents.c - the parties that are here: registered instances, and those that hold or wait for something. */
#include "ops/lock_args.h"
#include "ops/overview.h"
#include "ops/own_args.h"
#include "ops/page.h"
#include "ops/short_id.h"
#include "ops/waits.h"
#include "proc/process.h"
#include "proc/worktree.h"
#include "run/book.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- collecting ---- */

/* The agents by instance: an object, in the order of their coming. */
struct scene {
    struct op_call *call;
    json_t *agents;              /* instance -> agent; a second party of an instance: instance and label -> agent */
    json_t *whole;               /* the instances whose row is for every label (own/who.h B4) */
    json_t *locks, *processes;   /* as their lists have them */
    json_t *workflows, *waiting; /* the same */
};

static void scene_clear(struct scene *scene)
{
    json_decref(scene->agents);
    json_decref(scene->whole);
    json_decref(scene->locks);
    json_decref(scene->processes);
    json_decref(scene->workflows);
    json_decref(scene->waiting);
}

static void set_place(json_t *agent, const char *directory)
{
    char top[PATH_MAX], branch[256];
    bool is_git = directory && worktree_of(directory, top) && worktree_branch(top, branch, sizeof branch);
    json_object_set_new(agent, "directory", directory ? json_string(directory) : json_null());
    json_object_set_new(agent, "branch", is_git ? json_string(branch) : json_null());
}

static json_t *agent_new(const json_t *who, bool is_agent, const char *since, enum liveness alive, const char *how)
{
    json_t *agent = json_pack("{s:s?, s:O, s:b, s:s?}", "instance", json_get_string(who, "instance", NULL), "who", who,
                              "agent", is_agent, "since", since);
    json_object_set_new(agent, "alive", alive == LIVE_UNKNOWN ? json_null() : json_boolean(alive == LIVE_ALIVE));
    json_object_set_new(agent, "how", json_string(how));
    json_object_set_new(agent, "directory", json_null());
    json_object_set_new(agent, "branch", json_null());
    json_object_set_new(agent, "holding", json_array());
    json_object_set_new(agent, "waiting", json_array());
    json_object_set_new(agent, "last_call", json_null());
    return agent;
}

static void set_last_call(json_t *agent, struct tsk_workspace *ws, const char *id, const struct proc_id *process)
{
    char operation[64];
    int64_t ms;
    who_last_call(ws, id, process, operation, &ms);
    if (!operation[0])
        return;
    json_object_set_new(agent, "last_call", json_pack("{s:s, s:s}", "operation", operation, "at", TIME_EXACT(ms)));
}

/* A row of the table `instance`: id, created_at, directory. */
static int add_agent_row(struct scene *scene, struct db *db, const char *id, const char *since, const char *directory,
                         struct tsk_error *err)
{
    struct now now = clock_now();
    struct instance_state state;
    struct who who;
    if (instance_judge(db, id, &now, &state, err) < 0 || who_load(db, id, &who, err) < 0)
        return -1;
    if (!who.label[0]) { /* a row from before it had a who */
        who_copy(who.label, sizeof who.label, id);
        who_copy(who.instance, sizeof who.instance, id);
        who.pid = state.pid;
    }
    json_t *json CLEANUP_JSON = who_json(&who);
    json_t *agent = agent_new(json, who.is_agent, since, state.alive, state.how);
    set_place(agent, directory);
    set_last_call(agent, scene->call->ws, id, &state.process);
    json_object_set_new(scene->agents, id, agent);
    if (!who.is_agent || who.is_client)
        json_object_set_new(scene->whole, id, json_true());
    return 0;
}

static int add_rows(struct scene *scene, struct tsk_error *err)
{
    struct db db CLEANUP(db_close) = {0};
    struct db_rows rows CLEANUP(db_rows_free) = {0};
    int more;
    if (!db_exists(scene->call->ws->state_dir))
        return 0;
    if (db_open(&db, scene->call->ws->state_dir, err) < 0 ||
        db_query(&db, &rows, err, "SELECT id, created_at, directory FROM instance ORDER BY created_at, id") < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1)
        if (add_agent_row(scene, &db, db_column_text(&rows, 0), db_column_text(&rows, 1), db_column_text(&rows, 2),
                          err) < 0)
            return -1;
    return more;
}

/* The agent that a who names; NULL: it is not there yet. */
static json_t *agent_find(struct scene *scene, const json_t *who, const char *instance)
{
    const char *its = json_get_string(who, "label", "");
    json_each_pair (scene->agents, id, agent) {
        const char *label = json_get_string(json_object_get(agent, "who"), "label", "");
        if (!instance_is_same_id(json_get_string(agent, "instance", ""), instance) ||
            (!json_object_get(scene->whole, id) && strcmp(label, its) != 0))
            continue;
        /* A row that was made for a claim has no label; what it holds has one. */
        if (strcmp(label, id) == 0)
            json_object_set(agent, "who", (json_t *)who);
        return agent;
    }
    return NULL;
}

/* The same, made if it is not registered. A command with no program above it (of cron, or the first of a container) has a label and
 * no instance. NULL: the who names none. */
static json_t *agent_of(struct scene *scene, const json_t *who, const char *since, const json_t *alive, const char *how)
{
    const char *instance = json_get_string(who, "instance", NULL), *label = json_get_string(who, "label", "");
    struct buf key CLEANUP(buf_clear) = BUF_INIT;
    if (!instance)
        buf_printf(&key, " %s %s", label, how); /* no id begins with a blank */
    json_t *agent = instance ? agent_find(scene, who, instance) : json_object_get(scene->agents, buf_str(&key));
    if (agent || (!instance && !*label))
        return agent;
    char path[64], directory[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%lld/cwd", (long long)json_get_int(who, "pid", 0));
    ssize_t len = json_is_true(alive) ? readlink(path, directory, sizeof directory - 1) : -1;
    directory[len > 0 ? len : 0] = '\0';
    agent = agent_new(who, false, since,
                      json_is_true(alive)    ? LIVE_ALIVE
                      : json_is_false(alive) ? LIVE_DEAD
                                             : LIVE_UNKNOWN,
                      how);
    set_place(agent, len > 0 ? directory : NULL);
    if (instance)
        buf_puts(&key, instance);
    if (instance && json_object_get(scene->agents, instance))
        buf_printf(&key, " %s", label);
    json_object_set_new(scene->agents, buf_str(&key), agent);
    return agent;
}

/* Borrowed; NULL without an agent. */
static json_t *add_holding(json_t *agent, const char *kind, const json_t *id, const json_t *note)
{
    if (!agent)
        return NULL;
    json_t *one = json_pack("{s:s, s:O}", "kind", kind, "id", id ? id : json_null());
    if (note)
        json_object_set(one, "note", (json_t *)note);
    json_array_append_new(json_object_get(agent, "holding"), one);
    return one;
}

/* The newest thing that is recorded of an agent, as `deed`: its last call if it has no card (own/who.h, B2). `at` may be NULL. */
static void note_deed(json_t *agent, const char *operation, const char *at)
{
    int64_t ms, before;
    if (!agent || !at || time_parse(at, &ms) < 0)
        return;
    const char *known = json_get_string(json_object_get(agent, "deed"), "at", NULL);
    if (known && time_parse(known, &before) == 0 && before >= ms)
        return;
    json_object_set_new(agent, "deed", json_pack("{s:s, s:s}", "operation", operation, "at", TIME_EXACT(ms)));
}

static void settle_last_call(json_t *agent)
{
    if (json_object_get(agent, "deed") && !json_is_object(json_object_get(agent, "last_call")))
        json_object_set(agent, "last_call", json_object_get(agent, "deed"));
    json_object_del(agent, "deed");
}

/* The operation that takes a lock of that kind. */
static const char *taking_of(const char *kind)
{
    return strcmp(kind, "queue") == 0 ? "queue.run" : strcmp(kind, "request") == 0 ? "request.run" : "lock.acquire";
}

/* The party that started, at that time, what runs; it may have gone since. */
static json_t *agent_of_starter(struct scene *scene, const json_t *who, const char *at)
{
    const char *instance = json_get_string(who, "instance", NULL);
    json_t *agent = instance ? agent_find(scene, who, instance) : NULL;
    struct instance_state state;
    struct tsk_error ignored;
    struct now now = clock_now();
    if (agent)
        return agent;
    if (!instance)
        instance_judge_form("", &now, &state);
    else if (instance_judge_at(scene->call->ws->state_dir, instance, &now, &state, &ignored) < 0)
        instance_judge_form(instance, &now, &state);
    json_t *alive CLEANUP_JSON = state.alive == LIVE_UNKNOWN ? json_null() : json_boolean(state.alive == LIVE_ALIVE);
    return agent_of(scene, who, at, alive, state.how);
}

static void add_held(struct scene *scene)
{
    json_each (scene->locks, i, one) {
        const json_t *holder = json_object_get(one, "holder"), *who = json_object_get(holder, "who");
        const char *kind = json_get_string(one, "kind", ""), *at = json_get_string(one, "created_at", NULL);
        json_t *agent = agent_of(scene, who, at, json_object_get(holder, "alive"), json_get_string(holder, "how", "?"));
        json_t *held = add_holding(agent, kind, json_object_get(one, "id"), json_object_get(who, "note"));
        note_deed(agent, taking_of(kind), at);
        json_object_set(held, "state", json_object_get(one, "state"));
        json_object_set(held, "alive", json_object_get(holder, "alive"));
    }
    json_each (scene->workflows, i, one) {
        const json_t *who = json_object_get(one, "who");
        const char *at = json_get_string(one, "claimed_at", NULL);
        json_t *agent = agent_of(scene, who, at, json_object_get(one, "ownerAlive"), json_get_string(one, "how", "?"));
        add_holding(agent, "workflow", json_object_get(one, "ulTaskId"), json_object_get(who, "note"));
        note_deed(agent, "own.claim", at);
    }
    json_each (scene->processes, i, one) {
        if (!json_text_is(one, "state_name", "Running"))
            continue;
        const char *at = json_string_value(json_at(one, "state.Running.started_at"));
        json_t *agent = agent_of_starter(scene, json_object_get(one, "started_by"), at);
        add_holding(agent, "process", json_object_get(one, "id"), json_at(one, "started_by.note"));
        if (json_get_int(one, "restarts", 0) == 0) /* later starts are its policy's */
            note_deed(agent, "process.start", at);
    }
}

/* The runs whose tasks run at this moment. */
static int add_runs_held(struct scene *scene, struct tsk_error *err)
{
    json_t *open CLEANUP_JSON = NULL;
    if (rundir_list_open(scene->call->ws, &open, err) < 0)
        return -1;
    json_each (open, i, id) {
        if (i == OVERVIEW_RUNS)
            break;
        json_t *stage CLEANUP_JSON = overview_stage(scene->call->ws, json_string_value(id));
        const char *at = json_get_string(stage, "started_at", NULL);
        if (!stage || !json_text_is(stage, "status", "RUNNING"))
            continue;
        json_t *agent = agent_of_starter(scene, json_object_get(stage, "started_by"), at);
        json_t *held = add_holding(agent, "run", id, json_at(stage, "started_by.note"));
        json_copy_keys(held, stage, (const char *const[]){"flow", "source", NULL});
        note_deed(agent, json_get_string(stage, "request_id", NULL) ? "request.run" : "run", at);
    }
    return 0;
}

static void add_waiting(struct scene *scene)
{
    json_each (scene->waiting, i, one) {
        json_t *agent =
            agent_of(scene, json_object_get(one, "who"), json_get_string(one, "since", NULL), json_true(), "it waits");
        json_object_del(one, "who");
        if (agent)
            json_array_append(json_object_get(agent, "waiting"), one);
    }
}

static int look(struct op_call *call, struct scene *scene, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    size_t total;
    *scene = (struct scene){.call = call, .agents = json_object(), .whole = json_object()};
    if (locks_list(call->ws, NULL, call->root, &scene->locks, err) < 0 ||
        proc_overview(call->ws, NULL, SIZE_MAX, &scene->processes, &total, err) < 0)
        return -1;
    if (db_exists(call->ws->state_dir) &&
        (owners_open(&owners, call->ws, err) < 0 || workflow_list(&owners, NULL, true, &scene->workflows, err) < 0))
        return -1;
    if (add_rows(scene, err) < 0)
        return -1;
    scene->waiting = waits_list(call->ws, scene->locks, scene->workflows, scene->processes);
    add_held(scene);
    if (add_runs_held(scene, err) < 0)
        return -1;
    add_waiting(scene);
    return 0;
}

/* ---- agents ---- */

static void list_key(const json_t *agent, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s %s", json_get_string(json_object_get(agent, "who"), "label", ""),
             json_get_string(agent, "instance", ""));
}

/* Somebody who has gone and left nothing is not here. */
static bool is_here(const json_t *agent, bool all)
{
    return all || !json_is_false(json_object_get(agent, "alive")) || json_array_size(json_object_get(agent, "holding"));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct scene scene CLEANUP(scene_clear) = {.call = NULL};
    json_t *list CLEANUP_JSON = json_array();
    if (look(call, &scene, err) < 0)
        return -1;
    json_each_pair (scene.agents, id, agent) {
        settle_last_call(agent);
        if (is_here(agent, json_get_bool(call->args, "all", false)))
            json_array_append(list, agent);
    }
    *ret = page_sorted(call, "agents", list, list_key);
    short_ids_put_named(call, *ret, NULL);
    return 0;
}

const struct op op_agents_list = {
    NAMES("agents.list", NULL, "agents"),
    .summary = "Show who is here: agents, programs and people, what they hold and wait for, and for whom.",
    .detail = "The list has the instances that are registered and alive (agents, clients of the server, owners of "
              "workflows), everybody who holds a lock, waits, or has started a process or a run that runs, and "
              "dead ones that left something behind.",
    .examples = "tasuki agents  # names, notes, what they hold\n"
                "tasuki agents --json",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params = PARAMS(FLAG("all", OP_OPTIONAL, "Also those that have ended and left nothing."), PAGE_PARAMS),
    .result = FIELDS(
        {"agents", "array", "by label: instance who agent since alive how directory branch holding waiting last_call"},
        PAGE_FIELDS),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/agents"),
    .mcp = TOOL("agents_list", "workspace",
                .text = "Show who is here: other agents and people, their notes, what they hold and wait for, and for "
                        "whom. It changes nothing."),
    .run = run_list,
};
