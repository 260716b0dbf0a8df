/* exchange_apply.c - an import's one transaction: what exists is looked at, masked secrets are filled in, the rows are written,
 * cycles are looked for, and all of it stays or none. */
#include "base/log.h"
#include "proc/depend.h"
#include "proc/exchange_reader.h"
#include "proc/files.h"
#include "proc/registry.h"
#include "proc/template.h"

#include <stdio.h>
#include <string.h>

/* What an import is about to do. Lists are arrays of names. */
struct plan {
    struct proc_registry *reg;
    const struct exchange_source *from;
    struct exchange *ex;
    json_t *old_processes, *old_templates; /* name -> spec, of those that the file names and that exist */
    json_t *created, *updated, *unchanged, *templates;
};

static void import_plan_clear(struct plan *plan)
{
    json_free(&plan->old_processes);
    json_free(&plan->old_templates);
    json_free(&plan->created);
    json_free(&plan->updated);
    json_free(&plan->unchanged);
    json_free(&plan->templates);
}

/* ---- what exists -------------------------------------------------------------------------------------- */

static int find_processes(struct plan *plan, struct tsk_error *err)
{
    json_each_key (plan->ex->processes, id) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        if (proc_find(plan->reg, id, &p, err) == 0)
            json_object_set(plan->old_processes, id, p.spec);
        else if (err->code != TSK_PROCESS_NOT_FOUND)
            return -1;
    }
    return 0;
}

static int find_templates(struct plan *plan, struct tsk_error *err)
{
    json_t *all CLEANUP_JSON = NULL;
    if (template_specs(plan->reg, &all, err) < 0)
        return -1;
    json_each_pair (all, name, spec)
        if (json_object_get(plan->ex->templates, name))
            json_object_set(plan->old_templates, name, spec);
    return 0;
}

static void put_old_names(const json_t *old, struct buf *words, struct buf *json)
{
    json_t *list CLEANUP_JSON = json_array();
    json_each_key (old, name) {
        buf_printf(words, "%s%s", words->len ? ", " : "", name);
        json_array_append_new(list, json_string(name));
    }
    json_write(json, list, false);
}

static int refuse_existing(const struct plan *plan, struct tsk_error *err)
{
    bool has_processes = json_object_size(plan->old_processes) > 0;
    const json_t *old = has_processes ? plan->old_processes : plan->old_templates;
    struct buf words CLEANUP(buf_clear) = BUF_INIT, json CLEANUP(buf_clear) = BUF_INIT;
    if (json_object_size(old) == 0)
        return 0;
    put_old_names(old, &words, &json);
    if (has_processes)
        error_set(err, TSK_PROCESS_ALREADY_EXISTS, "import_exists", "names", buf_str(&words), NULL);
    else
        error_set(err, TSK_CONFLICT, "import_templates_exist", "names", buf_str(&words), NULL);
    error_add_json(err, has_processes ? "ids" : "templates", buf_str(&json));
    if (has_processes && json_object_size(old) == 1)
        error_add_registrant(err, plan->reg, buf_str(&words));
    return error_add_next(err, "tasuki proc import %s --replace", plan->from->path ? plan->from->path : "FILE");
}

/* ---- secrets ------------------------------------------------------------------------------------------ */

/* A masked value becomes the one that the replaced process has; without one it is a problem. */
static void fill_masked(struct plan *plan)
{
    struct exchange_reader r = {.from = plan->from, .to = plan->ex};
    json_each (plan->ex->masked, i, masked) {
        const char *name = json_get_string(masked, "name", ""), *variable = json_get_string(masked, "variable", "");
        bool is_template = json_get_bool(masked, "is_template", false);
        const json_t *old = json_object_get(is_template ? plan->old_templates : plan->old_processes, name);
        json_t *spec = json_object_get(is_template ? plan->ex->templates : plan->ex->processes, name);
        json_t *value = json_object_get(json_object_get(old, "env"), variable);
        struct exchange_place where = {(unsigned)json_get_int(masked, "line", 0),
                                       (unsigned)json_get_int(masked, "column", 0)};
        if (value)
            json_object_set(json_object_get(spec, "env"), variable, value);
        else
            EXCHANGE_PROBLEM(&r, where, name, "import_masked", "param", variable);
    }
}

bool exchange_says(const struct exchange *ex, const char *id, const json_t *spec)
{
    json_t *said CLEANUP_JSON = json_deep_copy(json_object_get(ex->processes, id));
    json_each (ex->masked, i, masked) {
        const char *variable = json_get_string(masked, "variable", "");
        json_t *value = json_object_get(json_object_get(spec, "env"), variable);
        if (value && json_text_is(masked, "name", id))
            json_object_set(json_object_get(said, "env"), variable, value);
    }
    return json_equal(said, spec);
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static int write_processes(struct plan *plan, struct tsk_error *err)
{
    json_each_pair (plan->ex->processes, id, spec) {
        const json_t *old = json_object_get(plan->old_processes, id);
        bool is_same = old && json_equal(old, spec);
        json_array_append_new(is_same ? plan->unchanged : old ? plan->updated : plan->created, json_string(id));
        if (is_same)
            continue;
        int written = old ? proc_update_row(plan->reg, id, spec, err) : proc_insert_row(plan->reg, id, spec, err);
        if (written < 0)
            return -1;
    }
    /* Only now, when all of them are there. */
    json_each_pair (plan->ex->processes, id, spec)
        if (proc_depend_check(plan->reg, id, spec, err) < 0) {
            if (err->code == TSK_INVALID_INPUT) /* a cycle, which has no one line */
                error_add(err, "source", plan->from->name);
            return -1;
        }
    return 0;
}

static int write_templates(struct plan *plan, struct tsk_error *err)
{
    json_each_pair (plan->ex->templates, name, spec) {
        const json_t *old = json_object_get(plan->old_templates, name);
        if (!(old && json_equal(old, spec)) && template_put_row(plan->reg, name, spec, !old, err) < 0)
            return -1;
        json_array_append_new(plan->templates, json_string(name));
    }
    return 0;
}

static int apply_in_transaction(struct plan *plan, bool is_replacing, struct tsk_error *err)
{
    if (find_processes(plan, err) < 0 || find_templates(plan, err) < 0)
        return -1;
    if (!is_replacing && refuse_existing(plan, err) < 0)
        return -1;
    fill_masked(plan);
    if (json_array_size(plan->ex->problems))
        return exchange_fail(plan->from, plan->ex->problems, err);
    return write_processes(plan, err) < 0 ? -1 : write_templates(plan, err);
}

/* A directory without a row may be left of a removal that was cut short; a new process does not inherit it. */
static int forget_orphans(struct proc_registry *reg, const json_t *processes, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *known CLEANUP_JSON = json_object();
    if (proc_ids(reg, &ids, err) < 0)
        return -1;
    json_each (ids, i, value)
        json_object_set_new(known, json_string_value(value), json_true());
    json_each_key (processes, id) {
        struct proc_guard guard CLEANUP(proc_guard_drop) = PROC_GUARD_INIT;
        if (json_object_get(known, id))
            continue;
        if (proc_guard_take(reg, id, false, &guard, err) < 0 || proc_forget_orphan(reg, id, err) < 0)
            return -1;
    }
    return 0;
}

/* Which of the updated ones continue with what they were started with. */
static void list_running(struct proc_registry *reg, const json_t *updated, json_t *ret)
{
    json_each (updated, i, id) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct tsk_error problem;
        if (proc_load(reg, json_string_value(id), &p, &problem) < 0)
            log_problem(&problem);
        else if (p.view.state == PROC_RUNNING)
            json_array_append(ret, id);
    }
}

int exchange_apply(struct proc_registry *reg, const struct exchange_source *from, struct exchange *ex,
                   bool is_replacing, json_t **ret, struct tsk_error *err)
{
    struct plan plan CLEANUP(import_plan_clear) = {.reg = reg,
                                                   .from = from,
                                                   .ex = ex,
                                                   .old_processes = json_object(),
                                                   .old_templates = json_object(),
                                                   .created = json_array(),
                                                   .updated = json_array(),
                                                   .unchanged = json_array(),
                                                   .templates = json_array()};
    if (forget_orphans(reg, ex->processes, err) < 0 || db_begin(&reg->db, err) < 0)
        return -1;
    if (proc_commit(reg, apply_in_transaction(&plan, is_replacing, err), err) < 0)
        return -1;
    json_t *running CLEANUP_JSON = json_array();
    list_running(reg, plan.updated, running);
    *ret = json_pack("{s:s, s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "format", exchange_format_names[ex->format], "created",
                     plan.created, "updated", plan.updated, "unchanged", plan.unchanged, "running", running,
                     "templates", plan.templates, "ignored", ex->ignored, "warnings", ex->warnings);
    return 0;
}
