/* route.c - from a path to a row, and from path, query and body to its arguments. */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- paths ---- */

static const char *segment_end(const char *at)
{
    return at + strcspn(at, "/");
}

/* Whether a row's path fits. A literal segment is worth more than a parameter: *ret_score. */
static bool pattern_fits(const char *pattern, const struct http_text *path, unsigned *ret_score)
{
    const char *at = path->at, *end = path->at + path->len;
    unsigned score = 0;
    while (*pattern == '/' && at < end && *at == '/') {
        at++;
        pattern++;
        const char *stop = memchr(at, '/', (size_t)(end - at)), *pattern_end = segment_end(pattern);
        stop = stop ? stop : end;
        bool is_param = *pattern == ':';
        bool is_same = stop - at == pattern_end - pattern && memcmp(at, pattern, (size_t)(stop - at)) == 0;
        if (is_param ? at == stop : !is_same)
            return false;
        score = score * 2 + !is_param;
        at = stop;
        pattern = pattern_end;
    }
    *ret_score = score;
    return !*pattern && at == end;
}

/* The parameters of the path into `args`. */
static int route_take_path(const char *pattern, const struct http_text *path, json_t *args, struct tsk_error *err)
{
    const char *at = path->at, *end = path->at + path->len;
    while (*pattern) {
        at++;
        pattern++;
        const char *stop = memchr(at, '/', (size_t)(end - at)), *pattern_end = segment_end(pattern);
        struct http_text value = {at, (size_t)((stop ? stop : end) - at)};
        if (*pattern == ':') {
            struct buf text CLEANUP(buf_clear) = BUF_INIT;
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(pattern_end - pattern - 1), pattern + 1);
            if (!http_put_decoded(&text, &value, false))
                return error_set(err, TSK_INVALID_INPUT, "http_bad_target", NULL);
            json_t *other = json_object_get(args, name);
            if (other && (!json_is_string(other) || strcmp(json_string_value(other), buf_str(&text)) != 0))
                return error_set(err, TSK_INVALID_INPUT, "param_twice", "param", name, NULL);
            json_object_set_new(args, name, json_stringn(buf_str(&text), text.len));
        }
        at += value.len;
        pattern = pattern_end;
    }
    return 0;
}

/* ---- which row ---- */

struct candidate {
    const struct op *op;
    const char *method, *path, *when, *preset;
};

/* Calls `see` with every route of the table, in order; stops when it says so. */
static void each_route(bool (*see)(const struct candidate *candidate, void *data), void *data)
{
    op_foreach (op) {
        if (op->http.path && !see(&(struct candidate){op, op->http.method, op->http.path, op->http.when, NULL}, data))
            return;
        for (const struct op_route *also = op->http.also; also && also->path; also++)
            if (!see(&(struct candidate){op, also->method, also->path, NULL, also->preset}, data))
                return;
    }
}

struct search {
    const struct http_head *head;
    const json_t *body;
    struct candidate best;
    unsigned best_score;
    bool has_path;      /* somebody has the path, with whatever method */
    const char *wanted; /* the argument that decides between rows, when none was chosen by it */
    char *allow;
    size_t allow_size;
};

/* "mode=acquire" against the body. */
static bool is_when(const char *when, const json_t *body, const char **ret_key)
{
    size_t len = strcspn(when, "=");
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)len, when);
    *ret_key = when;
    return json_text_is(body, name, when + len + 1);
}

/* POST {"mode": "check"} where GET is the check: the verb of a row with the same path. */
static bool is_verb(const struct candidate *candidate, const struct search *search)
{
    return http_text_is(&search->head->method, "POST") && (candidate->op->flags & OP_READ_ONLY) &&
           candidate->op->noun && json_text_is(search->body, "mode", candidate->op->verb);
}

static bool has_method(const struct candidate *candidate, const struct http_head *head)
{
    bool is_get = strcmp(candidate->method, "GET") == 0;
    return http_text_is(&head->method, candidate->method) || (is_get && http_text_is(&head->method, "HEAD"));
}

static bool consider_route(const struct candidate *candidate, void *data)
{
    struct search *search = data;
    unsigned score;
    if (!pattern_fits(candidate->path, &search->head->path, &score))
        return true;
    search->has_path = true;
    if (!strstr(search->allow, candidate->method))
        snprintf(search->allow + strlen(search->allow), search->allow_size - strlen(search->allow), "%s%s",
                 *search->allow ? ", " : "", candidate->method);
    bool is_chosen = is_verb(candidate, search);
    if (!is_chosen && !has_method(candidate, search->head))
        return true;
    const char *key;
    if (!is_chosen && candidate->when && !is_when(candidate->when, search->body, &key)) {
        search->wanted = key;
        return true;
    }
    if (!search->best.op || score > search->best_score) {
        search->best = *candidate;
        search->best_score = score;
    }
    return true;
}

/* ---- arguments ---- */

/* What a query says is text; booleans must become what they are. */
static json_t *typed_value(const struct op_param *param, const struct buf *text)
{
    if (param && param->type == OP_BOOL) {
        const char *word = buf_str(text);
        if (strcmp(word, "true") == 0 || strcmp(word, "1") == 0 || !*word)
            return json_true();
        if (strcmp(word, "false") == 0 || strcmp(word, "0") == 0)
            return json_false();
    }
    return json_stringn(buf_str(text), text->len);
}

static int take_pair(const struct op *op, const struct http_text *key, const struct http_text *value, json_t *args,
                     struct tsk_error *err)
{
    struct buf name CLEANUP(buf_clear) = BUF_INIT, text CLEANUP(buf_clear) = BUF_INIT;
    if (!http_put_decoded(&name, key, true) || !http_put_decoded(&text, value, true))
        return error_set(err, TSK_INVALID_INPUT, "http_bad_target", NULL);
    const struct op_param *param = op_param_find(op, buf_str(&name));
    bool is_list = param && (param->type == OP_ARGV || (param->flags & OP_MANY));
    json_t *other = json_object_get(args, buf_str(&name));
    if (other && !is_list)
        return error_set(err, TSK_INVALID_INPUT, "param_twice", "param", buf_str(&name), NULL);
    if (other && json_is_array(other))
        return json_array_append_new(other, typed_value(param, &text));
    if (other || (param && param->type == OP_ARGV)) {
        json_t *list = json_array();
        if (other)
            json_array_append(list, other);
        json_array_append_new(list, typed_value(param, &text));
        return json_object_set_new(args, buf_str(&name), list);
    }
    return json_object_set_new(args, buf_str(&name), typed_value(param, &text));
}

static int take_query_args(const struct op *op, const struct http_text *query, json_t *args, struct tsk_error *err)
{
    const char *at = query->at, *end = query->at + query->len;
    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        const char *equals = memchr(at, '=', (size_t)(stop - at));
        struct http_text key = {at, (size_t)((equals ? equals : stop) - at)};
        struct http_text value = {equals ? equals + 1 : stop, equals ? (size_t)(stop - equals - 1) : 0};
        if (stop > at && take_pair(op, &key, &value, args, err) < 0)
            return -1;
        at = stop + 1;
    }
    return 0;
}

/* "force=true": what the path says by itself. */
static void take_preset(const char *preset, json_t *args)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(preset, "="), preset);
    const char *value = preset + strcspn(preset, "=") + 1;
    json_object_set_new(args, name, strcmp(value, "true") == 0 ? json_true() : json_string(value));
}

static int no_such_mode(const struct search *search, struct tsk_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(search->wanted, "="), search->wanted);
    return sprint_invalid_mode(json_get_string(search->body, name, ""), err);
}

enum route_found route_find(const struct http_head *head, const json_t *body, struct http_route *ret, json_t **ret_args,
                            char allow[64], struct tsk_error *err)
{
    struct search search = {.head = head, .body = body, .allow = allow, .allow_size = 64};
    allow[0] = '\0';
    each_route(consider_route, &search);
    if (!search.best.op && search.wanted) {
        no_such_mode(&search, err);
        return ROUTE_FOUND;
    }
    if (!search.best.op)
        return search.has_path ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
    const struct op *op = search.best.op;
    json_t *args = body ? json_deep_copy(body) : json_object();
    if (search.wanted || search.best.when || is_verb(&search.best, &search))
        json_object_del(args, "mode");
    *ret = (struct http_route){op, search.best.preset};
    *ret_args = args;
    if (take_query_args(op, &head->query, args, err) == 0 &&
        route_take_path(search.best.path, &head->path, args, err) == 0 && search.best.preset)
        take_preset(search.best.preset, args);
    return ROUTE_FOUND;
}
