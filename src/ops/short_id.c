#include "ops/short_id.h"
#include "base/ident.h"
#include "graph/run_names.h"
#include "run/request.h"

#include <string.h>

#define SHORT_MIN 4

static size_t texts_with(const void *ids, const char *text, const char **ret_last)
{
    size_t count = 0;
    json_each (ids, i, id)
        if (strstr(json_string_value(id), text)) {
            *ret_last = json_string_value(id);
            count++;
        }
    return count;
}

struct short_ids short_ids_of_texts(const json_t *texts)
{
    return (struct short_ids){texts_with, texts};
}

static size_t runs_with(const void *ids, const char *text, const char **ret_last)
{
    return run_names_with(ids, text, ret_last);
}

struct short_ids short_ids_of_runs(const struct run_names *names)
{
    return (struct short_ids){runs_with, names};
}

/* Whether `id` is there, and no other of the ids has that text in it. */
static bool is_unique(struct short_ids ids, const char *id, const char *text)
{
    const char *only;
    return ids.with(ids.ids, text, &only) == 1 && strcmp(only, id) == 0;
}

const char *short_id_of(struct short_ids ids, const char *id)
{
    const char *dash = strrchr(id, '-');
    if (time_of_id(id) < 0 || !dash || strlen(dash + 1) < SHORT_MIN)
        return id;
    const char *time = dash - strlen("223000");
    return is_unique(ids, id, dash + 1) ? dash + 1 : is_unique(ids, id, time) ? time : id;
}

static void short_form_put(struct op_call *call, const char *id, const char *form)
{
    if (!call->aside)
        call->aside = json_object();
    json_t *all = json_object_get(call->aside, "short");
    if (!all) {
        all = json_object();
        json_object_set_new(call->aside, "short", all);
    }
    json_object_set_new(all, id, json_string(form));
}

void short_id_put(struct op_call *call, struct short_ids ids, const char *id)
{
    if (*id)
        short_form_put(call, id, short_id_of(ids, id));
}

/* Adds to `ids` the ids that begin with `prefix` among all texts below `json`. */
static void ids_collect(json_t *ids, const json_t *json, const char *prefix)
{
    const char *text = json_string_value(json);
    if (text && strncmp(text, prefix, strlen(prefix)) == 0 && id_is_valid(text))
        json_object_set_new(ids, text, json_true());
    json_each (json, i, value)
        ids_collect(ids, value, prefix);
    json_each_pair (json, key, value)
        ids_collect(ids, value, prefix);
}

/* ---- many at once: the cost grows with the ids, not with their square ---- */

#define MANY_IDS 50

/* How often each end stands among the ids, and the ids themselves. `is_usual`: all are PREFIX<time>-<hex> with ends of one length;
 * then an end with a letter is a part of no other id. */
struct id_index {
    json_t *tails, *ids;
    bool is_usual;
    size_t tail_len;
};

static void index_add(struct id_index *index, const char *id)
{
    const char *dash = strrchr(id, '-'), *tail = dash ? dash + 1 : id;
    size_t len = strlen(tail);
    index->tail_len = index->tail_len ? index->tail_len : len;
    json_object_set_new(index->ids, id, json_true());
    json_object_set_new(index->tails, tail, json_integer(json_get_int(index->tails, tail, 0) + 1));
    index->is_usual = index->is_usual && time_of_id(id) >= 0 && len == index->tail_len &&
                      strspn(tail, "0123456789abcdef") == len &&
                      strchr(id, '-') + 1 + strlen("20260207T223000") == dash;
}

static void index_clear(struct id_index *index)
{
    json_decref(index->tails);
    json_decref(index->ids);
}

/* What the index cannot tell is looked for among all. */
static void ids_put(struct op_call *call, struct short_ids all, const struct id_index *index, json_t *ids)
{
    json_each_key (ids, id) {
        const char *tail = strrchr(id, '-') + 1;
        bool is_known = index->is_usual && json_object_get(index->ids, id) && strpbrk(tail, "abcdef");
        if (is_known && json_get_int(index->tails, tail, 0) == 1)
            short_form_put(call, id, tail);
        else
            short_id_put(call, all, id);
    }
}

static void requests_put(struct op_call *call, const json_t *all, json_t *ids)
{
    struct id_index index CLEANUP(index_clear) = {json_object(), json_object(), json_object_size(ids) > MANY_IDS, 0};
    if (index.is_usual)
        json_each (all, i, id)
            index_add(&index, json_string_value(id));
    ids_put(call, short_ids_of_texts(all), &index, ids);
}

static void runs_put(struct op_call *call, const struct run_names *names, json_t *ids)
{
    struct id_index index CLEANUP(index_clear) = {json_object(), json_object(), json_object_size(ids) > MANY_IDS, 0};
    struct run_names own CLEANUP(run_names_clear) = {0};
    struct tsk_error ignored;
    if (json_object_size(ids) == 0 || (!names && run_names_open(call->ws, RUNS_FOLDER, &own, &ignored) < 0))
        return;
    names = names ? names : &own;
    for (size_t i = 0; index.is_usual && i < names->count; i++)
        index_add(&index, names->ids[i]);
    ids_put(call, short_ids_of_runs(names), &index, ids);
}

void short_ids_put_named(struct op_call *call, const json_t *result, const struct run_names *names)
{
    json_t *requests CLEANUP_JSON = json_object(), *runs CLEANUP_JSON = json_object();
    json_t *all CLEANUP_JSON = NULL, *strays CLEANUP_JSON = NULL;
    struct tsk_error ignored;
    if (!call->is_cli)
        return;
    ids_collect(requests, result, REQUEST_PREFIX);
    ids_collect(runs, result, "RUN-");
    if (json_object_size(requests) && request_list(call->ws, &all, &strays, &ignored) == 0)
        requests_put(call, all, requests);
    runs_put(call, names, runs);
}
