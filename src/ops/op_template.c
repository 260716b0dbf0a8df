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
#define NAME_PARAM     PARAM("name", OP_ID, OP_REQUIRED | OP_POSITIONAL, "NAME", "The template.", .completes = "template")
#define TEMPLATE_ERRORS                                                                                                \
    ERRORS(TSK_NOT_FOUND, TSK_CONFLICT, TSK_INVALID_INPUT, TSK_PROCESS_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL)

static const struct op_field template_fields[] = {
    {"name", "string", "its name"},
    {"spec", "object", "the settings; secrets masked"},
    {"variables", "array", "the variables that --set must give"},
    {"created_at", "string", "ISO 8601"},
    {"updated_at", "string", "ISO 8601"},
    {0},
};

static const char *template_name_of(const struct op_call *call)
{
    return json_get_string(call->args, "name", "");
}

static int template_answer(struct proc_registry *reg, const char *name, json_t **ret, struct tsk_error *err)
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
    if (args_spec(call, from.spec, &spec, err) < 0 || template_create(&reg, template_name_of(call), spec, err) < 0)
        return -1;
    return template_answer(&reg, template_name_of(call), ret, err);
}

const struct op op_template_create = {
    NAMES("template.create", "proc", "template create"),
    .summary = "Store settings under a name, for processes that are created later.",
    .detail = "{{NAME}} in the command, its arguments, the values of its environment or its directory is a variable: "
              "`template use` puts the value of --set NAME=VALUE in its place.",
    .examples = "tasuki proc template create node --env PORT={{PORT}} -- npm run {{SCRIPT}}  # two variables\n"
                "tasuki proc template create like-web --from-process web  # the present settings of web",
    .params = PARAMS(
        PARAM("name", OP_ID, OP_REQUIRED | OP_POSITIONAL, "NAME", "Its name: letters, digits, and . _ - between them."),
        PARAM("from_process", OP_ID, OP_OPTIONAL, "ID", "Take the settings of this process, secrets included.",
              .completes = "process-id"),
        PARAM("command", OP_STRING, OP_PROGRAM, "CMD", "The program, found by PATH."), PROC_SPEC_PARAMS,
        PARAM("args", OP_ARGV, OP_POSITIONAL, "ARGS…", "Its arguments.")),
    .result = template_fields,
    .errors = TEMPLATE_ERRORS,
    .http = ROUTE("POST", "/api/templates"),
    .mcp =
        TOOL("create_template", "templates", .refusal = "NOT CREATED",
             .text = "Store settings under a name, for processes that are created later. {{NAME}} in the command, its "
                     "arguments, the values of its environment or its directory is a variable, whose value "
                     "create_process_from_template is given. Nothing is started."),
    .run = run_create,
};

/* ---- list and show ---- */

static void template_page_key(const json_t *record, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_get_string(record, "name", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *list CLEANUP_JSON = NULL;
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_list(&reg, &list, err) < 0)
        return -1;
    *ret = page_sorted(call, "templates", list, template_page_key);
    return 0;
}

const struct op op_template_list = {
    NAMES("template.list", "proc", "template list"),
    .summary = "List the templates with their variables.",
    .examples = "tasuki proc template list  # all",
    .flags = OP_READ_ONLY,
    .params = PARAMS(PAGE_PARAMS),
    .result = FIELDS({"templates", "array", "records, by name"}, PAGE_FIELDS),
    .errors = TEMPLATE_ERRORS,
    .http = ROUTE("GET", "/api/templates"),
    .mcp = TOOL("list_templates", "templates"),
    .run = run_list,
};

static int run_show(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    return template_answer(&reg, template_name_of(call), ret, err);
}

static const struct op_param show_params[] = {NAME_PARAM, {0}};

const struct op op_template_show = {
    NAMES("template.show", "proc", "template show"),
    .summary = "Show one template: its settings and its variables.",
    .examples = "tasuki proc template show node  # its settings and variables",
    .flags = OP_READ_ONLY,
    .params = show_params,
    .result = template_fields,
    .errors = TEMPLATE_ERRORS,
    .http = ROUTE("GET", "/api/templates/:name"),
    .mcp = TOOL("get_template", "templates"),
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
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_load(&reg, template_name_of(call), &t, err) < 0 ||
        args_spec(call, t.spec, &spec, err) < 0)
        return -1;
    /* What was read must not have changed meanwhile, whether or not the caller asks. */
    if (template_update(&reg, t.name, spec, expected ? expected_ms : t.updated_at_ms, err) < 0)
        return -1;
    return template_answer(&reg, t.name, ret, err);
}

const struct op op_template_update = {
    NAMES("template.update", "proc", "template update"),
    .summary = "Change a template. Settings that are not named stay, and existing processes do not change.",
    .examples = "tasuki proc template update node --restart on-failure  # the rest stays",
    .flags = OP_KEEPS_REST,
    .params = PARAMS(NAME_PARAM, PARAM("command", OP_STRING, OP_PROGRAM, "CMD", "Another program."), PROC_SPEC_PARAMS,
                     PARAM("expected_updated_at", OP_STRING, OP_OPTIONAL, "T",
                           "Only if it has not changed since (updated_at of its record).", .max = 64),
                     PARAM("args", OP_ARGV, OP_POSITIONAL, "ARGS…", "Its arguments.")),
    .result = template_fields,
    .errors = TEMPLATE_ERRORS,
    .http = ROUTE("PUT", "/api/templates/:name"),
    .mcp = TOOL("update_template", "templates", .refusal = "NOT UPDATED"),
    .run = run_update,
};

static int run_delete(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_remove(&reg, template_name_of(call), err) < 0)
        return -1;
    call->says = "template_deleted";
    *ret = json_pack("{s:s, s:b}", "name", template_name_of(call), "removed", true);
    return 0;
}

const struct op op_template_delete = {
    NAMES("template.delete", "proc", "template delete"),
    .summary = "Delete a template; processes made from it stay.",
    .examples = "tasuki proc template delete node  # its processes stay",
    .flags = OP_DESTRUCTIVE,
    .params = show_params,
    .result = FIELDS({"name", "string", "the template"}, {"removed", "boolean", "always true"}),
    .errors = TEMPLATE_ERRORS,
    .http = ROUTE("DELETE", "/api/templates/:name"),
    .mcp = TOOL("delete_template", "templates", .refusal = "NOT DELETED"),
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
    /* A new process runs where it was created, unless the template has a directory. */
    if (!json_is_string(json_object_get(base, "cwd")) && strcmp(cwd_base, call->ws->root) != 0)
        json_object_set_new(base, "cwd", json_string(cwd_base));
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
    if (proc_registry_open(&reg, call->ws, err) < 0 || template_load(&reg, template_name_of(call), &t, err) < 0 ||
        use_spec(call, &t, &spec, err) < 0)
        return -1;
    if (proc_depend_check(&reg, id, spec, err) < 0 || proc_create(&reg, id, spec, err) < 0)
        return -1;
    return proc_args_created(call, &reg, id, ret, err);
}

const struct op op_template_use = {
    NAMES("template.use", "proc", "template use"),
    .summary = "Make a process from a template, with a value for each of its variables.",
    .detail = "Other options override the template; --env adds variables. A variable without "
              "a value is an error that names it.",
    .examples = "tasuki proc template use node web --set PORT=3000 --set SCRIPT=dev  # registers web\n"
                "tasuki proc template use node api --set PORT=4000 --set SCRIPT=api --start  # and starts it",
    .flags = OP_KEEPS_REST | OP_VERDICTS,
    .params = PARAMS(NAME_PARAM, PARAM("id", OP_ID, OP_REQUIRED | OP_POSITIONAL, "ID", "The name of the new process."),
                     PARAM("set", OP_MAP, OP_OPTIONAL, "VAR=VALUE", "The value of a variable; may be repeated.",
                           .agent_help = "The values of its variables."),
                     PARAM("command", OP_STRING, OP_PROGRAM, "CMD", "Instead of the template's."), PROC_SPEC_PARAMS,
                     FLAG("start", OP_OPTIONAL, "Start it at once."),
                     FLAG("no_wait", OP_CLI_ONLY, "With --start: return as soon as it is executed."), NOTE_PARAM,
                     PARAM("args", OP_ARGV, OP_POSITIONAL, "ARGS…", "Instead of the template's.")),
    .result = proc_fields,
    .errors = ERRORS(TSK_NOT_FOUND, TSK_PROCESS_ALREADY_EXISTS, TSK_PROCESS_START_FAILED, TSK_CONFLICT,
                     TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/templates/:name/use"),
    .mcp = TOOL("create_process_from_template", "templates", .refusal = "NOT CREATED",
                .text = "Make a process from a template, with a value for each of its variables. Other arguments "
                        "override the template; env adds variables. A variable without a "
                        "value is an error that names it."),
    .run = run_use,
};
