#include "graph/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void output_clear(struct output *output)
{
    effects_clear(&output->effects);
    json_decref(output->requests);
    json_decref(output->question);
    output->requests = output->question = NULL;
}

json_t *output_value(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_number(value))
        return value ? value : json_string(text);
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    json_write(&shown, value, false);
    if (strcmp(buf_str(&shown), text) == 0)
        return value;
    json_decref(value);
    return json_string(text);
}

static bool is_known_type(const char *type)
{
    static const char *const types[] = {"approval", "text", "selection", "multi_selection"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

/* How many there are; -1: they are no list of texts. */
static int count_options(const json_t *question)
{
    const json_t *options = json_object_get(question, "options");
    json_each (options, i, option)
        if (!json_is_string(option))
            return -1;
    return !options || json_is_null(options) || json_is_array(options) ? (int)json_array_size(options) : -1;
}

int output_check_question(const json_t *question, struct tsk_error *err)
{
    const json_t *given = json_object_get(question, "type");
    const char *type = given && !json_is_null(given) ? json_get_string(question, "type", "?") : "text";
    bool is_selection = strcmp(type, "selection") == 0 || strcmp(type, "multi_selection") == 0;
    int options = count_options(question);
    if (!*json_get_string(question, "question", ""))
        return error_set(err, TSK_INVALID_INPUT, "request_lacks", "request", "ask", "key", "question", NULL);
    if (!is_known_type(type))
        return error_set(err, TSK_INVALID_INPUT, "param_not_one_of", "param", "type", "value", type, "want",
                         "approval, text, selection, multi_selection", NULL);
    if (options < 0)
        return error_set(err, TSK_INVALID_INPUT, "question_options", NULL);
    if (is_selection && options == 0)
        return error_set(err, TSK_INVALID_INPUT, "request_lacks", "request", "ask", "key", "options", NULL);
    return 0;
}

static int bad_line(struct tsk_error *err, unsigned number, const char *line)
{
    char shown[100];
    snprintf(shown, sizeof shown, "%.80s", line);
    error_set(err, TSK_INVALID_INPUT, "output_line", "line", shown, NULL);
    return error_add_int(err, "number", number);
}

static int take_write(struct output *output, const json_t *object, const char *what, struct tsk_error *err)
{
    enum effect_kind kind = what[0] == 's' ? EFFECT_SET : what[1] == 'd' ? EFFECT_ADD : EFFECT_APPEND;
    return effects_add_take(&output->effects, kind, json_get_string(object, "key", ""),
                            json_incref(json_object_get(object, "value")), err);
}

/* 0: done, 1: not known, -1. */
static int output_take_request(struct output *output, json_t *object, const char *what, struct tsk_error *err)
{
    static const char *const requests[] = {"next", "goto", "again", "spawn", "finish", "cancel"};
    if (strcmp(what, "set") == 0 || strcmp(what, "add") == 0 || strcmp(what, "append") == 0)
        return take_write(output, object, what, err);
    if (strcmp(what, "ask") == 0) {
        json_decref(output->question);
        output->question = json_incref(object);
        return 0;
    }
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (strcmp(what, requests[i]) == 0) {
            if (!output->requests)
                output->requests = json_array();
            return json_array_append(output->requests, object);
        }
    return 1;
}

static int take_object(struct output *output, const char *line, unsigned number, struct tsk_error *err)
{
    json_t *object CLEANUP_JSON = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object))
        return bad_line(err, number, line);
    const char *what = json_get_string(object, "do", NULL);
    if (what) {
        int result = output_take_request(output, object, what, err);
        return result == 1 ? bad_line(err, number, line) : result;
    }
    json_each_pair (object, key, value)
        if (effects_add_take(&output->effects, EFFECT_SET, key, json_incref(value), err) < 0)
            return -1;
    return 0;
}

static int output_take_line(struct output *output, char *line, unsigned number, struct tsk_error *err)
{
    size_t len = strlen(line);
    if (len && line[len - 1] == '\r')
        line[--len] = '\0';
    if (!line[strspn(line, " \t")])
        return 0;
    if (line[0] == '{')
        return take_object(output, line, number, err);
    char *equals = strchr(line, '=');
    if (!equals || equals == line)
        return bad_line(err, number, line);
    *equals = '\0';
    return effects_add_take(&output->effects, EFFECT_SET, line, output_value(equals + 1), err);
}

int output_parse(struct output *output, const char *text, size_t len, struct tsk_error *err)
{
    *output = (struct output){0};
    unsigned number = 0;
    char *copy = malloc(len + 1);
    BUG(!copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    int result = strlen(copy) == len ? 0 : bad_line(err, 0, "NUL");
    for (char *line = copy, *next; result == 0 && line; line = next) {
        char *newline = strchr(line, '\n');
        next = newline ? newline + 1 : NULL;
        if (newline)
            *newline = '\0';
        result = output_take_line(output, line, ++number, err);
    }
    free(copy);
    if (result < 0)
        output_clear(output);
    return result;
}
