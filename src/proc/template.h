/* template.h - a template for processes: a spec with {{VARIABLES}}, kept under a name (table `template`).
 *
 * {{NAME}} (letters, digits and _; blanks beside it are allowed) may appear in command, args, the values of env, and cwd. Using
 * a template replaces each variable by its value; a variable without a value is an error that names it. Other text between
 * braces is unchanged. */
#ifndef PROC_TEMPLATE_H
#define PROC_TEMPLATE_H

#include "proc/process.h"

struct proc_template {
    char name[129];
    json_t *spec; /* canonical, with variables */
    int64_t created_at_ms, updated_at_ms;
};
void template_clear(struct proc_template *t); /* for CLEANUP */

/* proc_spec_make_all for templates: a cwd that has a variable is kept as it is. */
int template_spec_make_all(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret,
                           void (*take)(void *data, const struct tsk_error *problem), void *data);

/* The names of its variables, sorted: array of strings. Owned. */
json_t *template_variables(const json_t *spec);
/* The spec with `values` (object of strings; NULL: none) in the place of the variables: *ret owned, made canonical again.
 * `overrides` (keys of a spec; NULL: none) takes the place of what the template says, its env name by name; variables that
 * stand only there need no value. INVALID_INPUT names every variable without a value, or the value that no variable takes. */
int template_expand(const struct proc_template *t, const json_t *values, const json_t *overrides, const char *cwd_base,
                    json_t **ret, struct tsk_error *err);
bool template_has_variable(const char *text);

/* NOT_FOUND with the nearest name. */
int template_load(struct proc_registry *reg, const char *name, struct proc_template *ret, struct tsk_error *err);
/* All of them, sorted: name -> spec; and as records for the skins. Owned. */
int template_specs(struct proc_registry *reg, json_t **ret, struct tsk_error *err);
int template_list(struct proc_registry *reg, json_t **ret, struct tsk_error *err);
/* {"name", "spec" (what differs from the defaults, secrets masked), "variables", "created_at", "updated_at"}. Owned. */
json_t *template_to_json(const struct proc_template *t);

/* CONFLICT if there is one of that name. */
int template_create(struct proc_registry *reg, const char *name, const json_t *spec, struct tsk_error *err);
int template_update(struct proc_registry *reg, const char *name, const json_t *spec, int64_t expected_updated_at_ms,
                    struct tsk_error *err);
int template_remove(struct proc_registry *reg, const char *name, struct tsk_error *err);

/* Inside a transaction of the caller, with the event template.created or template.updated. */
int template_put_row(struct proc_registry *reg, const char *name, const json_t *spec, bool is_new,
                     struct tsk_error *err);

#endif
