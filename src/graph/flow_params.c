/* flow_params.c - the parameters of a flow: what `params:` declares, and the values that a run gets.
 *
 *     params:
 *       env:   {default: staging, choices: [staging, production], help: where to deploy}
 *       count: 3          # short for {default: 3}
 *       tag:   {}         # without a default a run must be given one
 *
 * A flow that declares parameters takes values for these names only; one that declares none takes any. */
#include "base/word.h"
#include "graph/flow_pieces.h"
#include "graph/output.h"

#include <ctype.h>
#include <string.h>

#define PARAM_NAME_MAX 64

/* Letters, digits, _ and -: as a variable and behind `--set`. */
static bool is_param_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > PARAM_NAME_MAX || isdigit((unsigned char)name[0]) || name[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-')
            return false;
    return true;
}

void flow_param_variable(const char *name, struct buf *b)
{
    buf_puts(b, FLOW_PARAM_PREFIX);
    for (; *name; name++) {
        char c = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
        buf_put(b, &c, 1);
    }
}

/* ---- reading -------------------------------------------------------------------------------------------- */

static void param_default(struct reading *r, void *target)
{
    if (r->piece.type != YAML_PIECE_SCALAR)
        piece_wrong(r, "flow_want_text");
    else
        json_object_set_new(target, "default", json_stringn(r->piece.text, r->piece.len));
}

static void param_help(struct reading *r, void *target)
{
    const char *text = piece_scalar(r, "flow_want_text");
    if (text)
        json_object_set_new(target, "help", json_string(text));
}

static void param_choices(struct reading *r, void *target)
{
    uint32_t count = 0, line = r->piece.line, column = r->piece.column;
    const char *text = flow_string(r->flow, piece_strings(r, &count));
    json_t *choices = json_array();
    for (uint32_t i = 0; text && i < count; i++, text += strlen(text) + 1)
        json_array_append_new(choices, json_string(text));
    if (!count && !r->is_broken)
        flow_problem(r->flow, line, column, "flow_param_choices", NULL);
    json_object_set_new(target, "choices", choices);
}

static const struct key_rule param_keys[] = {
    {"default", param_default}, {"choices", param_choices}, {"help", param_help}, {0}};

/* The texts of a list with a comma between them. */
static void put_list(struct buf *b, const json_t *list, const char *key)
{
    json_each (list, i, item)
        buf_printf(b, "%s%s", i ? ", " : "", key ? json_get_string(item, key, "") : json_string_value(item));
}

static bool is_choice(const json_t *param, const char *text)
{
    const json_t *choices = json_object_get(param, "choices");
    json_each (choices, i, choice)
        if (strcmp(json_string_value(choice), text) == 0)
            return true;
    return !choices;
}

static const json_t *param_find(const struct flow *flow, const char *key, const char *value)
{
    json_each (flow->params, i, param)
        if (json_text_is(param, key, value))
            return param;
    return NULL;
}

/* A name that can be given, and a variable that no other has. */
static void param_check_name(struct reading *r, const char *name, const char *variable)
{
    if (!is_param_name(name))
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_param_name", "value", name, NULL);
    else if (param_find(r->flow, "name", name))
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_key_twice", "key", name, NULL);
    else if (param_find(r->flow, "variable", variable))
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_param_variable", "value", name, "variable",
                     variable, NULL);
}

void flow_read_params(struct reading *r, void *target)
{
    (void)target;
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    json_decref(r->flow->params);
    r->flow->params = json_array();
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        struct buf variable CLEANUP(buf_clear) = BUF_INIT, choices CLEANUP(buf_clear) = BUF_INIT;
        uint32_t line = r->piece.line, column = r->piece.column;
        const char *name = piece_scalar(r, "flow_want_text");
        json_t *param CLEANUP_JSON = json_object();
        flow_param_variable(name ? name : "", &variable);
        json_object_set_new(param, "name", json_string(name ? name : ""));
        json_object_set_new(param, "variable", json_string(buf_str(&variable)));
        if (name)
            param_check_name(r, name, buf_str(&variable));
        if (!piece_next(r))
            return;
        if (r->piece.type == YAML_PIECE_SCALAR)
            param_default(r, param);
        else
            piece_map(r, param_keys, param);
        const char *value = json_get_string(param, "default", NULL);
        put_list(&choices, json_object_get(param, "choices"), NULL);
        if (value && !is_choice(param, value))
            flow_problem(r->flow, line, column, "flow_param_default", "value", value, "choices", buf_str(&choices),
                         NULL);
        json_array_append(r->flow->params, param);
    }
}

/* ---- the values of a run -------------------------------------------------------------------------------- */

#define PARAMS_COMPARED 64

static int refuse_unknown(const struct flow *flow, const char *name, struct tsk_error *err)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT;
    const char *words[PARAMS_COMPARED];
    size_t count = 0;
    put_list(&names, flow->params, "name");
    json_each (flow->params, i, param)
        if (count < PARAMS_COMPARED)
            words[count++] = json_get_string(param, "name", "");
    const char *near = nearest_word(name, words, count);
    return error_set(err, TSK_INVALID_INPUT, near ? "flow_set_unknown_near" : "flow_set_unknown", "param", name,
                     "params", buf_str(&names), near ? "near" : NULL, near, NULL);
}

/* The value of a parameter as a text; NULL: it has none, or a wrong one (*err is set). */
static const char *param_text(const json_t *param, const json_t *set, struct tsk_error *err)
{
    const char *name = json_get_string(param, "name", "");
    const char *text = json_get_string(set, name, json_get_string(param, "default", NULL));
    struct buf choices CLEANUP(buf_clear) = BUF_INIT;
    put_list(&choices, json_object_get(param, "choices"), NULL);
    if (!text) {
        error_set(err, TSK_INVALID_INPUT, "flow_set_needed", "param", name, NULL);
    } else if (!is_choice(param, text)) {
        error_set(err, TSK_INVALID_INPUT, "flow_set_choice", "param", name, "value", text, "choices", buf_str(&choices),
                  NULL);
        text = NULL;
    }
    return text;
}

int flow_params_settle(const struct flow *flow, const json_t *set, json_t *values, json_t **ret_env,
                       struct tsk_error *err)
{
    json_t *env CLEANUP_JSON = json_array();
    json_each_pair (set, name, value) {
        if (flow->params && !param_find(flow, "name", name))
            return refuse_unknown(flow, name, err);
        json_object_set_new(values, name, output_value(json_string_value(value)));
    }
    json_each (flow->params, i, param) {
        const char *text = param_text(param, set, err);
        if (!text)
            return -1;
        json_object_set_new(values, json_get_string(param, "name", ""), output_value(text));
        json_array_append_new(env, json_sprintf("%s=%s", json_get_string(param, "variable", ""), text));
    }
    *ret_env = json_incref(env);
    return 0;
}
