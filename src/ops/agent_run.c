/* agent_run.c - what the delegation operations do with their work. */
#include "base/fs.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "graph/journal.h"
#include "graph/runner.h"
#include "ops/agent_args.h"
#include "ops/detached.h"
#include "ops/run_args.h"
#include "ops/run_owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL_MAX  4096 /* bytes of an agent's output in the result */
#define TAILS_MAX 32768

struct delegation {
    struct op_call *call;
    const char *workflow; /* ulTaskId, or NULL */
    struct agent_work work;
    struct run_owner owner;
    struct buf text; /* the flow's */
    struct flow flow;
    bool has_flow;
    char run_id[RUN_ID_MAX];
    char run_path[PATH_MAX + RUN_ID_MAX + 8];
};

static void delegation_clear(struct delegation *d)
{
    agent_work_clear(&d->work);
    if (d->has_flow)
        flow_clear(&d->flow);
    buf_clear(&d->text);
}

/* ---- who, and whether they may ---- */

/* A call from inside a workflow must name it. A client of the server is not inside the workflow that the server was started in. */
static int check_inside(struct delegation *d, struct owners *owners, struct tsk_error *err)
{
    const char *inside = getenv("TASUKI_UL_TASK_ID");
    const struct run_owner *owner = &d->owner;
    struct workflow wf;
    if (!inside || d->call->is_remote || (d->workflow && strcmp(d->workflow, inside) == 0))
        return 0;
    if (!id_is_valid(inside))
        return error_set(err, TSK_INVALID_INPUT, "ul_task_id_invalid", "value", inside, NULL);
    if (workflow_look(owners, inside, owner->has_caller ? &owner->caller : NULL, &wf, err) < 0)
        return -1;
    workflow_refuse_as(&wf, TSK_UL_WORKFLOW_NOT_OWNED, "ul_workflow_name_it", err);
    error_clear_next(err);
    return error_add_next(err, "tasuki agent %s … --workflow %s", d->call->op->verb, inside);
}

static int check_owner(struct delegation *d, struct owners *owners, struct tsk_error *err)
{
    return check_inside(d, owners, err) < 0 ? -1 : run_owner_claim(&d->owner, owners, err);
}

/* ---- running ---- */

static int delegation_load_flow(struct delegation *d, struct tsk_error *err)
{
    const char *name = d->call->op->name;
    char flow_name[64];
    snprintf(flow_name, sizeof flow_name, "agent-%s", d->call->op->verb);
    d->text.max = FLOW_SIZE_MAX;
    agent_work_put(&d->work, flow_name, &d->text);
    if (d->text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    if (flow_load(&d->flow, name, buf_str(&d->text), d->text.len, d->call->lang, err) < 0)
        return -1;
    d->has_flow = true;
    return 0;
}

static int delegation_execute(struct delegation *d, struct runner *runner, json_t **ret_stage, struct tsk_error *err)
{
    if (d->call->decided) { /* somebody waits to hear that it has begun: readers shall find it, too */
        json_t *stage CLEANUP_JSON = runner_stage(runner);
        runner_save_stage(runner);
        op_decided(d->call, stage);
    }
    return runner_execute(runner, ret_stage, err);
}

static int write_files(void *data, int run_dir, struct tsk_error *err)
{
    const struct delegation *d = data;
    return agent_work_write(&d->work, run_dir, err);
}

static int run_here(struct delegation *d, json_t **ret_stage, struct tsk_error *err)
{
    struct runner runner;
    struct runner_options options = {
        .id = d->run_id, .workflow = d->workflow, .prepare = write_files, .prepare_data = d};
    if (d->call->emit_text && !d->call->is_quiet) { /* for a person; --json is one document */
        options.tell = run_tell;
        options.tell_data = d->call;
        options.wants_ticks = d->call->wants_ticks;
    }
    if (d->workflow) {
        options.beat = run_owner_beat;
        options.beat_data = &d->owner;
        options.beat_ms = RUN_OWNER_BEAT_MS;
    }
    run_owner_tell(&d->owner);
    int result = runner_begin(&runner, d->call->ws, &d->flow, buf_str(&d->text), d->text.len, NULL, &options, err);
    if (result == 0)
        result = delegation_execute(d, &runner, ret_stage, err);
    runner_close(&runner);
    return result;
}

/* ---- what the caller reads ---- */

/* The end of a task's log, harmless, from the beginning of a line if there is one. */
static json_t *tail_of(int run_dir, const char *path, size_t most)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, clean CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    int fd CLEANUP_FD = fs->openat(run_dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return json_string("");
    off_t from = st.st_size > (off_t)most ? st.st_size - (off_t)most : 0;
    char *room = buf_reserve(&text, most + 1);
    ssize_t got = room ? fs->pread(fd, room, most, from) : -1;
    if (got <= 0)
        return json_string("");
    room[got] = '\0';
    char *newline = from ? memchr(room, '\n', (size_t)got) : NULL;
    const char *begin = newline && newline[1] ? newline + 1 : room, *end = room + got;
    struct buf whole CLEANUP(buf_clear) = BUF_INIT;
    for (const char *at = begin; at < end;) { /* a byte 0 would end the text */
        size_t len = strnlen(at, (size_t)(end - at));
        buf_put(&whole, at, len);
        at += len;
        if (at < end)
            buf_puts(&whole, "\xef\xbf\xbd");
        at++;
    }
    buf_json_string(&clean, buf_str(&whole));
    json_t *value = json_loads(buf_str(&clean), JSON_DECODE_ANY, NULL);
    return value ? value : json_string("");
}

static const json_t *of_task(const json_t *list, const char *task)
{
    json_each (list, i, item)
        if (json_text_is(item, "task", task))
            return item;
    return NULL;
}

/* How often it was started, and the session and attempt of the last time, out of the journal. */
static int64_t count_starts(const json_t *records, const char *task, char path[RUN_LOG_NAME])
{
    int64_t count = 0;
    path[0] = '\0';
    json_each (records, i, record)
        if (json_text_is(record, "e", "start") && json_text_is(record, "k", task)) {
            count++;
            rundir_log_name(json_get_string(record, "s", ""), task, json_get_int(record, "a", 1), path);
        }
    return count;
}

static json_t *member_json(const struct rundir *run, const json_t *stage, const json_t *records, const json_t *member,
                           size_t most)
{
    const char *task = json_get_string(member, "task", "");
    const json_t *view = of_task(json_object_get(stage, "tasks"), task);
    const json_t *failure = of_task(json_object_get(stage, "failures"), task);
    char path[RUN_LOG_NAME], log[PATH_MAX + 600];
    json_t *json = json_deep_copy(member);
    int64_t starts = count_starts(records, task, path);
    snprintf(log, sizeof log, "%s/%s", run->path, path);
    json_object_set_new(json, "state", json_string(json_get_string(view, "state", view_state_names[VIEW_WAITING])));
    json_object_set_new(json, "exit_code",
                        json_object_get(view, "exit_code") ? json_incref(json_object_get(view, "exit_code"))
                                                           : json_null());
    json_object_set_new(json, "executions", json_integer(starts));
    if (failure)
        json_object_set_new(json, "reason", json_string(json_get_string(failure, "reason", "")));
    json_object_set_new(json, "output", path[0] ? tail_of(run->dir, path, most) : json_string(""));
    json_object_set_new(json, "log", path[0] ? json_string(log) : json_null());
    return json;
}

/* Without the journal the executions and outputs of the agents are not known: the answer says so. */
static void add_problem(const struct delegation *d, const struct tsk_error *problem, json_t *result)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&text, d->call->lang, problem);
    json_t *words = json_string(buf_str(&text));
    json_object_set_new(result, "agents_problem", words ? words : json_string("?"));
}

static void add_members(struct delegation *d, const json_t *stage, json_t *result)
{
    struct rundir run;
    struct tsk_error problem;
    json_t *records CLEANUP_JSON = NULL, *list = json_array();
    size_t count = json_array_size(d->work.members), most = TAILS_MAX / (count ? count : 1);
    json_object_set_new(result, "agents", list);
    if (rundir_open(d->call->ws, json_get_string(stage, "run_id", ""), &run, &problem) < 0) {
        add_problem(d, &problem, result);
        return;
    }
    if (journal_read(run.dir, &records, &problem) < 0) {
        add_problem(d, &problem, result);
        records = json_array();
    }
    json_each (d->work.members, i, member)
        json_array_append_new(list, member_json(&run, stage, records, member, most < TAIL_MAX ? most : TAIL_MAX));
    rundir_clear(&run);
}

static json_t *result_json(struct delegation *d, const json_t *stage)
{
    const char *status = json_get_string(stage, "status", ""), *reason = json_get_string(stage, "reason", NULL);
    json_t *result = json_pack("{s:s, s:s}", "run_id", json_get_string(stage, "run_id", ""), "status", status);
    if (strcmp(status, "RUNNING") == 0)
        return result;
    if (json_get_string(stage, "reason_code", NULL))
        json_object_set(result, "reason_code", json_object_get(stage, "reason_code"));
    if (reason)
        json_object_set_new(result, "message", json_string(reason));
    if (d->workflow) {
        json_object_set_new(result, "ulTaskId", json_string(d->workflow));
        json_object_set_new(result, "fence", json_integer(d->owner.owned.fence));
    }
    if (json_array_size(json_object_get(stage, "questions")))
        json_object_set(result, "questions", json_object_get(stage, "questions"));
    add_members(d, stage, result);
    return result;
}

/* ---- all of it ---- */

static int delegation_prepare(struct delegation *d, const json_t *config, agent_shape *shape, struct tsk_error *err)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    rundir_new_id(d->run_id);
    snprintf(d->run_path, sizeof d->run_path, "%s/runs/%s", d->call->ws->state_path, d->run_id);
    agent_work_init(&d->work, config, d->run_path);
    if (shape(d->call, &d->work, err) < 0 || owners_open(&owners, d->call->ws, err) < 0 ||
        run_owner_find(d->call, d->workflow, &owners, &d->owner, err) < 0 || delegation_load_flow(d, err) < 0)
        return -1;
    return check_owner(d, &owners, err);
}

int agent_delegate(struct op_call *call, agent_shape *shape, json_t **ret, struct tsk_error *err)
{
    struct delegation d CLEANUP(delegation_clear) = {
        .call = call, .workflow = json_get_string(call->args, "ulTaskId", NULL), .text = BUF_INIT};
    json_t *config CLEANUP_JSON = NULL, *stage CLEANUP_JSON = NULL;
    if (agents_load(call->ws, &config, err) < 0 || delegation_prepare(&d, config, shape, err) < 0)
        return -1;
    if (op_is_apart(call))
        run_owner_pass(&d.owner, call->args);
    int result = op_is_apart(call) ? op_run_apart(call, &stage, err) : run_here(&d, &stage, err);
    if (result < 0)
        return -1;
    run_judge(call, stage);
    *ret = result_json(&d, stage);
    return 0;
}

/* ---- objects on the command line ---- */

static json_t *json_of_yaml(const struct yaml_node *node)
{
    int64_t number;
    bool flag;
    if (node->type == YAML_SCALAR && yaml_is_null(node))
        return json_null();
    if (node->type == YAML_SCALAR && node->is_plain && yaml_int(node, &number) == 0)
        return json_integer(number);
    if (node->type == YAML_SCALAR && node->is_plain && yaml_bool(node, &flag) == 0)
        return json_boolean(flag);
    if (node->type == YAML_SCALAR)
        return json_string(node->text);
    json_t *json = node->type == YAML_MAP ? json_object() : json_array();
    for (const struct yaml_node *item = node->first; item; item = item->next)
        if (node->type == YAML_MAP)
            json_object_set_new(json, item->key, json_of_yaml(item));
        else
            json_array_append_new(json, json_of_yaml(item));
    return json;
}

int agent_args_objects(struct op_call *call, const char *name, json_t **ret, struct tsk_error *err)
{
    json_t *value = json_object_get(call->args, name);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (!json_is_string(value)) {
        *ret = json_incref(value);
        return 0;
    }
    const char *path = json_string_value(value);
    if (!call->is_cli)
        return error_set(err, TSK_INVALID_INPUT, "param_type", "param", name, "value", "?", "want", "array of objects",
                         NULL);
    if (fs_read_file(AT_FDCWD, path, YAML_SIZE_MAX, &text) < 0)
        return errno == ENOENT ? error_set(err, TSK_NOT_FOUND, "agent_file_unknown", "path", path, NULL)
               : errno == EFBIG || errno == EISDIR ? error_set(err, TSK_INVALID_INPUT, "agent_file_no_list", "path",
                                                               path, "reason", strerrordesc_np(errno), NULL)
                                                   : error_errno(err, "read", path);
    if (yaml_parse(buf_str(&text), text.len, path, &doc, err) < 0)
        return -1;
    const struct yaml_node *root = yaml_root(doc), *list = root->type == YAML_MAP ? yaml_get(root, name) : root;
    if (!list || list->type != YAML_LIST)
        return yaml_error(doc, root, err, "yaml_why_tasks", NULL);
    *ret = json_of_yaml(list);
    json_object_set(call->args, name, *ret); /* a runner that is started apart does not read the file again */
    return 0;
}
