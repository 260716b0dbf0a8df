#include "proc/template.h"
#include "base/word.h"
#include "proc/registry.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void template_clear(struct proc_template *t)
{
    json_free(&t->spec);
}

/* ---- variables ---------------------------------------------------------------------------------------- */

struct variable {
    const char *name;
    size_t name_len;
    size_t len; /* from {{ to }} */
};

/* Whether a variable begins at `at`, which is at "{{". */
static bool variable_parse(const char *at, struct variable *ret)
{
    const char *name = at + 2 + strspn(at + 2, " "), *end = name;
    if (isdigit((unsigned char)*name))
        return false;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    const char *close = end + strspn(end, " ");
    if (end == name || strncmp(close, "}}", 2) != 0)
        return false;
    *ret = (struct variable){.name = name, .name_len = (size_t)(end - name), .len = (size_t)(close + 2 - at)};
    return true;
}

/* The next variable of a text, or NULL. */
static const char *variable_find(const char *text, struct variable *ret)
{
    for (const char *at = text; (at = strstr(at, "{{")); at++)
        if (variable_parse(at, ret))
            return at;
    return NULL;
}

/* Calls `change` for every text that may have variables; what it returns (owned) takes the text's place, NULL leaves it. */
static void each_text(json_t *spec, json_t *(*change)(void *data, const char *text), void *data)
{
    static const char *const keys[] = {"command", "cwd"};
    const char *name;
    json_t *value, *args = json_object_get(spec, "args"), *env = json_object_get(spec, "env"), *changed;
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *text = json_get_string(spec, keys[i], NULL);
        if (text && (changed = change(data, text)))
            json_object_set_new(spec, keys[i], changed);
    }
    json_array_foreach (args, i, value)
        if ((changed = change(data, json_string_value(value))))
            json_array_set_new(args, i, changed);
    void *next;
    json_object_foreach_safe(env, next, name, value) if ((changed = change(data, json_string_value(value))))
        json_object_set_new(env, name, changed);
}

static json_t *collect_name(void *data, const char *text)
{
    json_t *names = data;
    struct variable v;
    for (const char *at = text; (at = variable_find(at, &v)); at += v.len)
        json_object_setn_new(names, v.name, v.name_len, json_true());
    return NULL;
}

json_t *template_variables(const json_t *spec)
{
    json_t *names CLEANUP_JSON = json_object(), *list = json_array();
    each_text((json_t *)spec, collect_name, names); /* collect changes nothing */
    json_each_key (names, name) {
        size_t at = json_array_size(list);
        while (at > 0 && strcmp(json_string_value(json_array_get(list, at - 1)), name) > 0)
            at--;
        json_array_insert_new(list, at, json_string(name));
    }
    return list;
}

/* ---- specs -------------------------------------------------------------------------------------------- */

bool template_has_variable(const char *text)
{
    struct variable v;
    return variable_find(text, &v) != NULL;
}

int template_spec_make_all(const json_t *input, const json_t *base, const char *cwd_base, json_t **ret,
                           void (*take)(void *data, const struct tsk_error *problem), void *data)
{
    json_t *cwd = json_object_get(input, "cwd");
    if (!json_is_string(cwd) || !template_has_variable(json_string_value(cwd)))
        return proc_spec_make_all(input, base, cwd_base, ret, take, data);
    json_t *rest CLEANUP_JSON = json_copy((json_t *)input);
    json_object_del(rest, "cwd");
    if (proc_spec_make_all(rest, base, cwd_base, ret, take, data) < 0)
        return -1;
    json_object_set(*ret, "cwd", cwd);
    return 0;
}

static json_t *replace_name(void *data, const char *text)
{
    const json_t *values = data;
    struct variable v;
    struct buf result CLEANUP(buf_clear) = BUF_INIT;
    const char *at = text, *found;
    while ((found = variable_find(at, &v))) {
        const json_t *value = json_object_getn(values, v.name, v.name_len);
        buf_put(&result, at, (size_t)(found - at));
        buf_puts(&result, json_is_string(value) ? json_string_value(value) : "");
        at = found + v.len;
    }
    if (at == text)
        return NULL;
    buf_puts(&result, at);
    return json_string(buf_str(&result));
}

static const char **names_of(const json_t *list)
{
    const char **names = memory_zeroed(json_array_size(list) + 1, sizeof *names);
    for (size_t i = 0; i < json_array_size(list); i++)
        names[i] = json_string_value(json_array_get(list, i));
    return names;
}

static int fail_unset(const struct proc_template *t, const json_t *missing, struct tsk_error *err)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT, json CLEANUP(buf_clear) = BUF_INIT;
    json_put_texts(&names, missing, ", ");
    json_write(&json, missing, false);
    error_set(err, TSK_INVALID_INPUT, "template_unset", "template", t->name, "names", buf_str(&names), NULL);
    return error_add_json(err, "variables", buf_str(&json));
}

static int fail_unknown(const struct proc_template *t, const char *name, const json_t *variables, struct tsk_error *err)
{
    const char **names CLEANUP_FREE = names_of(variables);
    const char *near = nearest_word(name, names, json_array_size(variables));
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    json_put_texts(&all, variables, ", ");
    error_set(err, TSK_INVALID_INPUT, near ? "template_no_variable_near" : "template_no_variable", "template", t->name,
              "value", name, "want",
              near      ? near
              : all.len ? buf_str(&all)
                        : "-",
              NULL);
    return -1;
}

/* Every value has a variable, and every variable of `spec` (what is left of the template's) a value. */
static int check_values(const struct proc_template *t, const json_t *spec, const json_t *values, struct tsk_error *err)
{
    json_t *known CLEANUP_JSON = template_variables(t->spec), *needed CLEANUP_JSON = template_variables(spec);
    json_t *missing CLEANUP_JSON = json_array();
    json_each_key (values, name) {
        bool is_known = false;
        json_each (known, i, one)
            is_known |= strcmp(json_string_value(one), name) == 0;
        if (!is_known)
            return fail_unknown(t, name, known, err);
    }
    json_each (needed, i, value)
        if (!json_object_get(values, json_string_value(value)))
            json_array_append(missing, value);
    return json_array_size(missing) ? fail_unset(t, missing, err) : 0;
}

/* Takes out of a copy of the template what will be something else. */
static void drop_overridden(json_t *spec, const json_t *overrides)
{
    if (json_object_get(overrides, "command"))
        json_object_set_new(spec, "command", json_string("-"));
    if (json_object_get(overrides, "command") || json_object_get(overrides, "args"))
        json_object_set_new(spec, "args", json_array());
    if (json_object_get(overrides, "cwd"))
        json_object_set_new(spec, "cwd", json_null());
    json_each_key (json_object_get(overrides, "env"), name)
        json_object_del(json_object_get(spec, "env"), name);
}

static json_t *input_with(const json_t *overrides, const json_t *spec)
{
    json_t *input = overrides ? json_copy((json_t *)overrides) : json_object();
    json_t *env = json_deep_copy(json_object_get(spec, "env"));
    if (json_object_get(overrides, "env"))
        json_object_update(env, json_object_get(overrides, "env"));
    json_object_set_new(input, "env", env);
    return input;
}

int template_expand(const struct proc_template *t, const json_t *values, const json_t *overrides, const char *cwd_base,
                    json_t **ret, struct tsk_error *err)
{
    json_t *spec CLEANUP_JSON = json_deep_copy(t->spec), *base CLEANUP_JSON = NULL;
    drop_overridden(spec, overrides);
    if (check_values(t, spec, values, err) < 0)
        return -1;
    each_text(spec, replace_name, (void *)values);
    if (proc_spec_make(spec, NULL, cwd_base, &base, err) < 0)
        return -1;
    json_t *input CLEANUP_JSON = input_with(overrides, base);
    return proc_spec_make(input, base, cwd_base, ret, err);
}

/* ---- the table ---------------------------------------------------------------------------------------- */

#define TEMPLATE_COLUMNS "name, spec, created_at, updated_at"

static int template_read_row(const struct db_rows *rows, struct proc_template *ret, struct tsk_error *err)
{
    const char *text = db_column_text(rows, 1);
    json_t *spec = NULL;
    if (json_parse(text, strlen(text), "state.db", &spec, err) < 0)
        return -1;
    *ret = (struct proc_template){
        .spec = spec, .created_at_ms = db_column_int(rows, 2), .updated_at_ms = db_column_int(rows, 3)};
    snprintf(ret->name, sizeof ret->name, "%s", db_column_text(rows, 0));
    return 0;
}

static int no_such_template(struct proc_registry *reg, const char *name, struct tsk_error *err)
{
    json_t *specs CLEANUP_JSON = NULL, *list CLEANUP_JSON = json_array();
    struct tsk_error ignored; /* a list that cannot be read only costs the hint */
    error_set(err, TSK_NOT_FOUND, "template_not_found", "template", name, NULL);
    if (template_specs(reg, &specs, &ignored) == 0)
        json_each_key (specs, known)
            json_array_append_new(list, json_string(known));
    const char **names CLEANUP_FREE = names_of(list);
    const char *near = nearest_word(name, names, json_array_size(list));
    if (near)
        error_add_next(err, "tasuki proc template show %s", near);
    return error_add_next(err, "tasuki proc template list");
}

int template_load(struct proc_registry *reg, const char *name, struct proc_template *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(&reg->db, &rows, err, "SELECT " TEMPLATE_COLUMNS " FROM template WHERE name = ?1", DB_TEXT(name)) < 0)
        return -1;
    int found = db_next(&rows, err);
    if (found < 0)
        return -1;
    return found ? template_read_row(&rows, ret, err) : no_such_template(reg, name, err);
}

/* Gives each template, in the order of the names, to `take`. */
static int each_template(struct proc_registry *reg, void (*take)(json_t *to, const struct proc_template *t), json_t *to,
                         struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    if (db_query(&reg->db, &rows, err, "SELECT " TEMPLATE_COLUMNS " FROM template ORDER BY name") < 0)
        return -1;
    for (;;) {
        struct proc_template t CLEANUP(template_clear) = {.spec = NULL};
        int more = db_next(&rows, err);
        if (more <= 0)
            return more;
        if (template_read_row(&rows, &t, err) < 0)
            return -1;
        take(to, &t);
    }
}

static void take_spec(json_t *to, const struct proc_template *t)
{
    json_object_set(to, t->name, t->spec);
}

static void take_record(json_t *to, const struct proc_template *t)
{
    json_array_append_new(to, template_to_json(t));
}

int template_specs(struct proc_registry *reg, json_t **ret, struct tsk_error *err)
{
    json_t *specs CLEANUP_JSON = json_object();
    if (each_template(reg, take_spec, specs, err) < 0)
        return -1;
    *ret = json_incref(specs);
    return 0;
}

int template_list(struct proc_registry *reg, json_t **ret, struct tsk_error *err)
{
    json_t *list CLEANUP_JSON = json_array();
    if (each_template(reg, take_record, list, err) < 0)
        return -1;
    *ret = json_incref(list);
    return 0;
}

json_t *template_to_json(const struct proc_template *t)
{
    json_t *spec = proc_spec_minimal(t->spec), *env = json_object_get(spec, "env");
    if (env)
        json_object_set_new(spec, "env", proc_env_masked(env));
    return json_pack("{s:s, s:o, s:o, s:s, s:s}", "name", t->name, "spec", spec, "variables",
                     template_variables(t->spec), "created_at", TIME_EXACT(t->created_at_ms), "updated_at",
                     TIME_EXACT(t->updated_at_ms));
}

/* ---- changes ------------------------------------------------------------------------------------------ */

static int put_template_event(struct proc_registry *reg, const char *type, const char *name, struct tsk_error *err)
{
    struct now now = clock_now();
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "template", name);
    buf_puts(&data, "}");
    return db_event(&reg->db, &now, &(struct event){.type = type, .data = buf_str(&data)}, err);
}

static int fail_exists(const char *name, struct tsk_error *err)
{
    error_set(err, TSK_CONFLICT, "template_exists", "template", name, NULL);
    error_add_next(err, "tasuki proc template show %s", name);
    return error_add_next(err, "tasuki proc template update %s …", name);
}

int template_put_row(struct proc_registry *reg, const char *name, const json_t *spec, bool is_new,
                     struct tsk_error *err)
{
    static const char insert[] = "INSERT INTO template (name, spec, created_at, updated_at) VALUES (?1, ?2,"
                                 " ?3, ?3) ON CONFLICT (name) DO NOTHING";
    /* updated_at grows even within a millisecond: it is what CONFLICT is judged by. */
    static const char update[] = "UPDATE template SET spec = ?2, updated_at = max(?3, updated_at + 1)"
                                 " WHERE name = ?1";
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, spec, false);
    if (db_exec(&reg->db, err, is_new ? insert : update, DB_TEXT(name), DB_TEXT(buf_str(&text)),
                DB_INT(clock_now().wall_ms)) < 0)
        return -1;
    if (db_changes(&reg->db) == 0)
        return is_new ? fail_exists(name, err) : no_such_template(reg, name, err);
    return put_template_event(reg, is_new ? "template.created" : "template.updated", name, err);
}

int template_create(struct proc_registry *reg, const char *name, const json_t *spec, struct tsk_error *err)
{
    if (db_begin(&reg->db, err) < 0)
        return -1;
    return proc_commit(reg, template_put_row(reg, name, spec, true, err), err);
}

static int template_check_expected(struct proc_registry *reg, const char *name, int64_t expected, struct tsk_error *err)
{
    struct proc_template current CLEANUP(template_clear) = {.spec = NULL};
    if (template_load(reg, name, &current, err) < 0)
        return -1;
    if (expected < 0 || expected == current.updated_at_ms)
        return 0;
    error_set(err, TSK_CONFLICT, "template_changed", "template", name, "updated_at", TIME_EXACT(current.updated_at_ms),
              NULL);
    return error_add_next(err, "tasuki proc template show %s", name);
}

int template_update(struct proc_registry *reg, const char *name, const json_t *spec, int64_t expected_updated_at_ms,
                    struct tsk_error *err)
{
    if (db_begin(&reg->db, err) < 0)
        return -1;
    int result = template_check_expected(reg, name, expected_updated_at_ms, err);
    if (result == 0)
        result = template_put_row(reg, name, spec, false, err);
    return proc_commit(reg, result, err);
}

static int remove_row(struct proc_registry *reg, const char *name, struct tsk_error *err)
{
    if (db_exec(&reg->db, err, "DELETE FROM template WHERE name = ?1", DB_TEXT(name)) < 0)
        return -1;
    if (db_changes(&reg->db) == 0)
        return no_such_template(reg, name, err);
    return put_template_event(reg, "template.removed", name, err);
}

int template_remove(struct proc_registry *reg, const char *name, struct tsk_error *err)
{
    if (db_begin(&reg->db, err) < 0)
        return -1;
    return proc_commit(reg, remove_row(reg, name, err), err);
}
