#include "ops/proc_args.h"

#include "base/log.h"
#include "proc/depend.h"
#include "proc/registry.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const proc_action_names[] = {"none", "restart", NULL};

const struct op_field proc_fields[] = {
    {"id", "string", "its name"},
    {"command", "string", "the program"},
    {"args", "array", "its arguments"},
    {"env", "object", "environment; secrets masked"},
    {"cwd", "string?", "working directory"},
    {"state", "any", "NotStarted, or {Running|Stopped|Failed: {…}}"},
    {"state_name", "string", "NotStarted Running Stopped Failed"},
    {"phase", "string", "starting ready unhealthy stopping backoff lost unreadable"},
    {"pid", "integer?", "while it runs"},
    {"restarts", "integer", "by its policy, since it was last started"},
    {"run", "integer", "number of the newest start"},
    {"exit_code", "integer?", "of the last end; -1 unknown"},
    {"raw_status", "object?", "code, or signal and number"},
    {"last_stderr", "string?", "of one that failed: the last line of stderr of its newest start"},
    {"auto_start_on_restore", "boolean", "started by restore"},
    {"log", "object", "mode max stdout stderr"},
    {"started_by", "object?", "the party behind the newest start: label user program pid host instance note"},
    {"created_by", "object?", "status of one that was never started: the party that has registered it"},
    {"warning", "string?", "of a change: whose process it is, if another living agent started it"},
    {0},
};

static void move_key(const json_t *from, const char *key, json_t *to)
{
    json_t *value = json_object_get(from, key);
    if (value)
        json_object_set(to, key, value);
}

/* On the command line `none` means: back to the default. */
static void reset_key(json_t *input, const char *key)
{
    if (json_text_is(input, key, "none"))
        json_object_set_new(input, key, json_null());
}

/* The variables that are not named stay, unless `env_clear` says otherwise. A masked value that is sent back means the value that
 * was not shown. */
static int merge_env(json_t *input, const json_t *base, bool is_cleared, struct tsk_error *err)
{
    const json_t *before = json_object_get(base, "env");
    json_t *env CLEANUP_JSON = json_copy(json_object_get(input, "env")), *value;
    const char *name;
    void *next;
    if (!env && is_cleared)
        json_object_set_new(input, "env", json_object());
    if (!json_is_object(env))
        return 0;
    json_object_foreach_safe(env, next, name, value)
    {
        if (!json_is_string(value) || strcmp(json_string_value(value), "***") != 0)
            continue;
        if (!json_object_get(before, name))
            return error_set(err, TSK_INVALID_INPUT, "env_masked", "name", name, NULL);
        json_object_set(env, name, json_object_get(before, name));
    }
    if (!is_cleared)
        json_object_update_missing(env, (json_t *)before);
    json_object_set(input, "env", env);
    return 0;
}

/* `--ready-timeout` and `--health-interval` are part of the probe. */
static int set_in_probe(json_t *spec, const char *probe, const char *key, const json_t *value, struct tsk_error *err)
{
    json_t *object = json_object_get(spec, probe);
    if (!value)
        return 0;
    if (!json_is_object(object))
        return error_set(err, TSK_INVALID_INPUT, "probe_missing", "param", probe, "key", key, NULL);
    json_object_set(object, key, (json_t *)value);
    return 0;
}

const char *proc_args_directory(const struct op_call *call, char here[PATH_MAX])
{
    const char *root = call->ws->root;
    size_t len = strlen(root);
    if (call->is_remote || !getcwd(here, PATH_MAX))
        return root;
    /* A client starts `tasuki mcp` anywhere if it names the workspace. */
    bool is_below = strncmp(here, root, len) == 0 && (!here[len] || here[len] == '/');
    return call->is_cli || is_below || (!call->root && !getenv("TASUKI_ROOT")) ? here : root;
}

int proc_args_spec(const struct op_call *call, const json_t *base, json_t **ret, struct tsk_error *err)
{
    static const char *const keys[] = {"command",
                                       "args",
                                       "env",
                                       "cwd",
                                       "auto_start_on_restore",
                                       "restart",
                                       "max_retries",
                                       "backoff_ms",
                                       "backoff_max_ms",
                                       "healthy_after_ms",
                                       "log",
                                       "log_max",
                                       "ready",
                                       "health",
                                       "depends_on"};
    char here[PATH_MAX];
    json_t *input CLEANUP_JSON = json_object(), *first CLEANUP_JSON = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        move_key(call->args, keys[i], input);
    const char *log = json_get_string(input, "log", "tty");
    if (json_get_bool(call->args, "tty", false) && strcmp(log, "tty") != 0)
        return error_set(err, TSK_INVALID_INPUT, "param_and_file", "value", "--log", "option", "tty", NULL);
    if (json_get_bool(call->args, "tty", false))
        json_object_set_new(input, "log", json_string("tty"));
    int64_t backoff = json_get_int(input, "backoff_ms", 0);
    if (!json_object_get(input, "backoff_max_ms") &&
        backoff > json_get_int(base, "backoff_max_ms", HOLD_BACKOFF_MAX_MS))
        json_object_set_new(input, "backoff_max_ms", json_integer(backoff)); /* it was not asked to be shorter */
    reset_key(input, "ready");
    reset_key(input, "health");
    if (json_get_int(input, "max_retries", 0) == -1)
        json_object_set_new(input, "max_retries", json_null());
    /* On a command line the arguments follow the command: there are none. Elsewhere what is not named stays. */
    if (call->is_cli && json_object_get(input, "command") && !json_object_get(input, "args"))
        json_object_set_new(input, "args", json_array());
    if (merge_env(input, base, json_get_bool(call->args, "env_clear", false), err) < 0)
        return -1;
    const char *cwd_base = proc_args_directory(call, here);
    /* A new process runs where it was created; the root, unless said otherwise, moves with the workspace. */
    if (!base && !json_object_get(input, "cwd") && strcmp(cwd_base, call->ws->root) != 0)
        json_object_set_new(input, "cwd", json_string(cwd_base));
    if (proc_spec_make(input, base, cwd_base, &first, err) < 0 ||
        set_in_probe(first, "ready", "timeout_ms", json_object_get(call->args, "ready_timeout_ms"), err) < 0 ||
        set_in_probe(first, "health", "interval_ms", json_object_get(call->args, "health_interval_ms"), err) < 0 ||
        set_in_probe(first, "health", "failures", json_object_get(call->args, "health_failures"), err) < 0 ||
        set_in_probe(first, "health", "action", json_object_get(call->args, "health_action"), err) < 0)
        return -1;
    return proc_spec_make(first, NULL, cwd_base, ret, err);
}

/* Tells the caller that a start waits for what it depends on. */
static void say_waits(void *data, const char *ids)
{
    struct op_call *call = data;
    call->waits(call, ids ? "process" : NULL, ids, 0);
}

int proc_args_open(struct op_call *call, struct proc_registry *reg, struct tsk_error *err)
{
    char here[PATH_MAX];
    if (proc_registry_open(reg, call->ws, err) < 0)
        return -1;
    if (!call->is_remote)
        reg->home = strdup(proc_args_directory(call, here));
    reg->waits = call->waits ? say_waits : NULL;
    reg->waits_data = call;
    return 0;
}

int proc_args_ids(const struct op_call *call, struct proc_registry *reg, json_t **ret, struct tsk_error *err)
{
    json_t *given = json_object_get(call->args, "id");
    if (proc_args_is_all(call))
        return proc_ids(reg, ret, err);
    if (!given)
        return op_param_missing(call->op, "id", err);
    *ret = json_is_array(given) ? json_array() : json_pack("[O]", given);
    json_each (given, i, id) { /* each once */
        bool is_new = true;
        json_each (*ret, j, known)
            is_new = is_new && !json_equal(id, known);
        if (is_new)
            json_array_append(*ret, id);
    }
    return 0;
}

const char **proc_args_strings(const json_t *ids)
{
    size_t count = json_array_size(ids);
    const char **strings = memory_zeroed(count + 1, sizeof *strings);
    for (size_t i = 0; i < count; i++)
        strings[i] = json_string_value(json_array_get(ids, i));
    return strings;
}

struct tsk_error *proc_args_results(const json_t *ids)
{
    struct tsk_error *results = memory_zeroed(json_array_size(ids) + 1, sizeof *results);
    return results;
}

int proc_args_record(struct proc_registry *reg, const char *id, bool with_leftovers, json_t **ret,
                     struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    json_t *leftovers = NULL;
    if (proc_load(reg, id, &p, err) < 0)
        return -1;
    if (with_leftovers && proc_leftovers(&p, &leftovers, err) < 0)
        return -1;
    *ret = proc_to_json(reg, &p);
    if (leftovers)
        json_object_set_new(*ret, "leftovers", leftovers);
    json_object_set_new(*ret, "last_exits", proc_last_exits(&p));
    return 0;
}

json_t *proc_args_record_or_say(struct proc_registry *reg, const char *id, bool with_leftovers)
{
    json_t *record;
    struct tsk_error problem = {0};
    if (proc_args_record(reg, id, with_leftovers, &record, &problem) == 0)
        return record;
    if (problem.code != TSK_PROCESS_NOT_FOUND)
        log_problem(&problem);
    return json_pack("{s:s}", "id", id);
}

void proc_args_add_error(struct op_call *call, const char *id, const struct tsk_error *error, json_t *errors)
{
    json_t *document CLEANUP_JSON = json_of_error(error, lang_name(call->lang));
    json_array_append_new(errors, json_pack("{s:s, s:O}", "id", id, "error", json_object_get(document, "error")));
    if (call->verdict == TSK_OK)
        call->verdict = error->code;
}

bool proc_args_is_all(const struct op_call *call)
{
    return json_get_bool(call->args, "all", false);
}

/* A start is also refused where something is in its way that does not run as this process. */
static bool is_running_now(struct proc_registry *reg, const char *id)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct tsk_error ignored; /* the refusal of the start is reported then */
    return proc_load(reg, id, &p, &ignored) == 0 &&
           (p.view.state == PROC_RUNNING || strcmp(p.view.phase, "starting") == 0);
}

void proc_args_forgive(const struct op_call *call, struct proc_registry *reg, const char *const *ids,
                       struct tsk_error *results, size_t count, enum tsk_code reached)
{
    for (size_t i = 0; proc_args_is_all(call) && i < count; i++) {
        bool is_reached =
            results[i].code == reached && (reached != TSK_PROCESS_ALREADY_RUNNING || is_running_now(reg, ids[i]));
        if (is_reached || results[i].code == TSK_PROCESS_NOT_FOUND)
            results[i] = (struct tsk_error){.code = TSK_OK};
    }
}

int proc_args_answer(struct op_call *call, struct proc_registry *reg, const json_t *ids,
                     const struct tsk_error *results, bool with_leftovers, json_t **ret, struct tsk_error *err)
{
    size_t count = json_array_size(ids);
    bool is_one = json_is_string(json_object_get(call->args, "id")) && count == 1;
    if (is_one && results[0].code != TSK_OK) {
        *err = results[0];
        return -1;
    }
    if (is_one) {
        *ret = proc_args_record_or_say(reg, json_string_value(json_array_get(ids, 0)), with_leftovers);
        return 0;
    }
    json_t *records = json_array(), *errors = json_array();
    for (size_t i = 0; i < count; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct tsk_error problem;
        if (results[i].code != TSK_OK)
            proc_args_add_error(call, id, &results[i], errors);
        if (proc_load(reg, id, &p, &problem) == 0)
            json_array_append_new(records, proc_to_json(reg, &p));
        else if (results[i].code == TSK_OK && !(proc_args_is_all(call) && problem.code == TSK_PROCESS_NOT_FOUND))
            proc_args_add_error(call, id, &problem, errors);
    }
    *ret = json_pack("{s:o, s:o}", "processes", records, "errors", errors);
    return 0;
}
