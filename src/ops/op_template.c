/* op_template.c - templates: keeping them, and making processes of them. */
#include "ops/ops.h"
#include "ops/page.h"
#include "ops/proc_args.h"
#include "proc/depend.h"
#include "proc/registry.h"
#include "proc/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPLATE(name) struct proc_template name CLEANUP(template_clear) = {.spec = NULL}
#define NAME_PARAM                                                                                                     \
    {                                                                                                                  \
        .name = "name", .type = OP_ID, .flags = OP_REQUIRED | OP_POSITIONAL, .value = "NAME", .help = "The template.", \
        .completes = "template"                                                                                        \
    }

static const enum tsk_code template_errors[] = {
    TSK_NOT_FOUND, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_PROCESS_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_OK};
static const struct op_field template_fields[] = {{"name", "string", "its name"},
                                                  {"spec", "object", "what a process of it is; secrets masked"},
                                                  {"variables", "array", "what --set must give"},
                                                  {"created_at", "string", "ISO 8601"},
                                                  {"updated_at", "string", "ISO 8601"},
                                                  {0}};

static const char *name_of(const struct op_call *call)
{
    return json_get_string(call->args, "name", "");
}

static int answer(struct proc_registry *reg, const char *name, json_t **ret, struct tsk_error *err)
{
    TEMPLATE(t);
    if (template_load(reg, name, &t, err) < 0)
        return -1;
    *ret = template_to_json(&t);
    return 0;
}

static json_t *variable_cwd(const json_t *spec)
{
    json_t *cwd = json_object_get(spec, "cwd");
    return json_is_string(cwd) && template_has_variable(json_string_value(cwd)) ? cwd : NULL;
}

/* The spec that the arguments ask for on top of `base`. A directory with a variable in it is nothing that a process could have:
 * it is kept out of proc_args_spec and set afterwards. */
static int args_spec(const struct op_call *call, const json_t *base, json_t **ret, struct tsk_error *err)
{
    json_t *args CLEANUP_JSON = json_copy(call->args), *kept CLEANUP_JSON = base ? json_copy((json_t *)base) : NULL;
    json_t *spec CLEANUP_JSON = NULL;
    struct op_call plain = *call;
    plain.args = args;
    const json_t *cwd = json_object_get(args, "cwd") ? variable_cwd(args) : variable_cwd(base);
    if (variable_cwd(args))
        json_object_del(args, "cwd");
    if (variable_cwd(kept))
        json_object_set_new(kept, "cwd", json_null());
    if (proc_args_spec(&plain, kept, &spec, err) < 0)
        return -1;
    if (cwd)
        json_object_set(spec, "cwd", (json_t *)cwd);
    *ret = json_incref(spec);
    return 0;
}

/* ---- create ---- */

static int run_create(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    struct proc from CLEANUP(proc_clear) = {.dir = -1};
    json_t *spec CLEANUP_JSON = NULL;
    const char *id = json_get_string(call->args, "from_process", NULL);
    if (proc_registry_open(&reg, call->ws, err) < 0 || (id && proc_find(&reg, id, &from, err) < 0))
        return -1;
    if (args_spec(call, from.spec, &spec, err) < 0 || template_create(&reg, name_of(call), spec, err) < 0)
        return -1;
    return answer(&reg, name_of(call), ret, err);
}

static const struct op_param create_params[] = {
    {.name = "name",
     .type = OP_ID,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "NAME",
     .help = "Its name: letters, digits, and . _ - between them."},
    {.name = "from_process",
     .type = OP_ID,
     .value = "ID",
     .help = "Begin with what this process is, secrets included.",
     .completes = "process-id"},
    {.name = "command", .type = OP_STRING, .flags = OP_PROGRAM, .value = "CMD", .help = "The program, found by PATH."},
    PROC_SPEC_PARAMS,
    {.name = "args", .type = OP_ARGV, .flags = OP_POSITIONAL, .value = "ARGS…", .help = "Its arguments."},
    {0},
};

const struct op op_template_create = {
    .name = "template.create",
    .noun = "proc",
    .verb = "template create",
    .summary = "Keep settings under a name, to make processes of them later.",
    .detail = "{{NAME}} in the command, its arguments, the values of its environment or its directory is a variable: "
              "`template use` puts the value of --set NAME=VALUE in its place.",
    .examples = "tasuki proc template create node --env PORT={{PORT}} -- npm run {{SCRIPT}}  # two variables\n"
                "tasuki proc template create like-web --from-process web  # what web is now",
    .params = create_params,
    .result = template_fields,
    .errors = template_errors,
    .http = {.method = "POST", .path = "/api/templates"},
    .mcp =
        {.tool = "create_template",
         .group = "templates",
         .refusal = "NOT CREATED",
         .text =
             "Keep settings under a name, to make processes of them later. {{NAME}} in the command, its arguments, "
             "the values of its environment or its directory is a variable, whose value create_process_from_template "
             "is given. Nothing is started."},
    .run = run_create,
};

/* ---- list and show ---- */

static void list_key(const json_t *record, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_get_string(record, "name", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *list CLEANUP_JSON = NULL;
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_list(&reg, &list, err) < 0)
        return -1;
    *ret = page_sorted(call, "templates", list, list_key);
    return 0;
}

static const struct op_param list_params[] = {PAGE_PARAMS, {0}};
static const struct op_field list_fields[] = {{"templates", "array", "records, by name"}, PAGE_FIELDS, {0}};

const struct op op_template_list = {
    .name = "template.list",
    .noun = "proc",
    .verb = "template list",
    .summary = "List the templates with their variables.",
    .examples = "tasuki proc template list  # all",
    .flags = OP_READ_ONLY,
    .params = list_params,
    .result = list_fields,
    .errors = template_errors,
    .http = {.method = "GET", .path = "/api/templates"},
    .mcp = {.tool = "list_templates", .group = "templates"},
    .run = run_list,
};

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    return answer(&reg, name_of(call), ret, err);
}

static const struct op_param show_params[] = {NAME_PARAM, {0}};

const struct op op_template_show = {
    .name = "template.show",
    .noun = "proc",
    .verb = "template show",
    .summary = "Show one template: what its processes are, and which variables it has.",
    .examples = "tasuki proc template show node  # its settings and variables",
    .flags = OP_READ_ONLY,
    .params = show_params,
    .result = template_fields,
    .errors = template_errors,
    .http = {.method = "GET", .path = "/api/templates/:name"},
    .mcp = {.tool = "get_template", .group = "templates"},
    .run = run_show,
};

/* ---- update and delete ---- */

static int run_update(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    TEMPLATE(t);
    json_t *spec CLEANUP_JSON = NULL;
    const char *expected = json_get_string(call->args, "expected_updated_at", NULL);
    int64_t expected_ms = -1;
    if (expected && time_parse(expected, &expected_ms) < 0)
        return error_set(err, TSK_INVALID_INPUT, "param_not_a_time", "param", "expected_updated_at", "value", expected,
                         NULL);
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_load(&reg, name_of(call), &t, err) < 0 ||
        args_spec(call, t.spec, &spec, err) < 0)
        return -1;
    /* What was read must not have changed meanwhile, whether or not the caller asks. */
    if (template_update(&reg, t.name, spec, expected ? expected_ms : t.updated_at_ms, err) < 0)
        return -1;
    return answer(&reg, t.name, ret, err);
}

static const struct op_param update_params[] = {
    NAME_PARAM,
    {.name = "command", .type = OP_STRING, .flags = OP_PROGRAM, .value = "CMD", .help = "Another program."},
    PROC_SPEC_PARAMS,
    {.name = "expected_updated_at",
     .type = OP_STRING,
     .value = "T",
     .max = 64,
     .help = "Only if it has not changed since (updated_at of its record)."},
    {.name = "args", .type = OP_ARGV, .flags = OP_POSITIONAL, .value = "ARGS…", .help = "Its arguments."},
    {0},
};

const struct op op_template_update = {
    .name = "template.update",
    .noun = "proc",
    .verb = "template update",
    .summary = "Change a template; what is not named stays. Processes made of it before are not changed.",
    .examples = "tasuki proc template update node --restart on-failure  # the rest stays",
    .flags = OP_KEEPS_REST,
    .params = update_params,
    .result = template_fields,
    .errors = template_errors,
    .http = {.method = "PUT", .path = "/api/templates/:name"},
    .mcp = {.tool = "update_template", .group = "templates", .refusal = "NOT UPDATED"},
    .run = run_update,
};

static int run_delete(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_remove(&reg, name_of(call), err) < 0)
        return -1;
    *ret = json_pack("{s:s, s:b}", "name", name_of(call), "removed", true);
    return 0;
}

static const struct op_field delete_fields[] = {
    {"name", "string", "the template"}, {"removed", "boolean", "always true"}, {0}};

const struct op op_template_delete = {
    .name = "template.delete",
    .noun = "proc",
    .verb = "template delete",
    .summary = "Delete a template; processes made of it stay.",
    .examples = "tasuki proc template delete node  # its processes stay",
    .flags = OP_DESTRUCTIVE,
    .params = show_params,
    .result = delete_fields,
    .errors = template_errors,
    .http = {.method = "DELETE", .path = "/api/templates/:name"},
    .mcp = {.tool = "delete_template", .group = "templates", .refusal = "NOT DELETED"},
    .run = run_delete,
};

/* ---- use ---- */

/* The template's text with values, and what the other arguments say instead. */
static int use_spec(const struct op_call *call, const struct proc_template *t, json_t **ret, struct tsk_error *err)
{
    static const char *const keys[] = {"command", "args", "env", "cwd"};
    json_t *overrides CLEANUP_JSON = json_object(), *base CLEANUP_JSON = NULL;
    json_t *args CLEANUP_JSON = json_copy(call->args);
    char here[PATH_MAX];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(call->args, keys[i]))
            json_object_set(overrides, keys[i], json_object_get(call->args, keys[i]));
    const char *cwd_base = proc_args_directory(call, here);
    if (template_expand(t, json_object_get(call->args, "set"), overrides, cwd_base, &base, err) < 0)
        return -1;
    json_object_del(args, "env"); /* is in the base, beside the template's */
    struct op_call rest = *call;
    rest.args = args;
    return proc_args_spec(&rest, base, ret, err);
}

static int run_use(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    TEMPLATE(t);
    json_t *spec CLEANUP_JSON = NULL;
    const char *id = json_get_string(call->args, "id", "");
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_load(&reg, name_of(call), &t, err) < 0 ||
        use_spec(call, &t, &spec, err) < 0)
        return -1;
    if (proc_depend_check(&reg, id, spec, err) < 0 || proc_create(&reg, id, spec, err) < 0)
        return -1;
    if (json_get_bool(call->args, "start", false) && proc_args_start_created(&reg, id, err) < 0)
        return -1;
    return proc_args_record(&reg, id, false, ret, err);
}

static const struct op_param use_params[] = {
    NAME_PARAM,
    {.name = "id",
     .type = OP_ID,
     .flags = OP_REQUIRED | OP_POSITIONAL,
     .value = "ID",
     .help = "The name of the new process."},
    {.name = "set",
     .type = OP_MAP,
     .value = "VAR=VALUE",
     .help = "The value of a variable; may be repeated.",
     .agent_help = "The values of its variables."},
    {.name = "command", .type = OP_STRING, .flags = OP_PROGRAM, .value = "CMD", .help = "Instead of the template's."},
    PROC_SPEC_PARAMS,
    {.name = "start", .type = OP_BOOL, .help = "Start it at once."},
    {.name = "args", .type = OP_ARGV, .flags = OP_POSITIONAL, .value = "ARGS…", .help = "Instead of the template's."},
    {0},
};
static const enum tsk_code use_errors[] = {TSK_NOT_FOUND,
                                           TSK_PROCESS_ALREADY_EXISTS,
                                           TSK_PROCESS_START_FAILED,
                                           TSK_CONFLICT,
                                           TSK_INVALID_INPUT,
                                           TSK_ENVIRONMENT,
                                           TSK_STORAGE_FULL,
                                           TSK_OK};

const struct op op_template_use = {
    .name = "template.use",
    .noun = "proc",
    .verb = "template use",
    .summary = "Make a process of a template, with a value for each of its variables.",
    .detail = "Other options take the place of what the template says; --env adds to its variables. A variable without "
              "a value is an error that names it.",
    .examples = "tasuki proc template use node web --set PORT=3000 --set SCRIPT=dev  # registers web\n"
                "tasuki proc template use node api --set PORT=4000 --set SCRIPT=api --start  # and starts it",
    .flags = OP_KEEPS_REST,
    .params = use_params,
    .result = proc_fields,
    .errors = use_errors,
    .http = {.method = "POST", .path = "/api/templates/:name/use"},
    .mcp = {.tool = "create_process_from_template",
            .group = "templates",
            .refusal = "NOT CREATED",
            .text = "Make a process of a template, with a value for each of its variables. What else is given takes "
                    "the place of "
                    "what the template says; env adds to its variables. A variable without a value is an error that "
                    "names it."},
    .run = run_use,
};
