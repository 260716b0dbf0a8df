#include "graph/channel.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {[EFFECT_SET] = "set", [EFFECT_ADD] = "add", [EFFECT_APPEND] = "append"};

/* C5. */
static json_t *value_out(const struct channel *channel, const json_t *value)
{
    return channel->is_copying ? json_deep_copy(value) : json_incref((json_t *)value);
}

/* C6. */
static uint64_t version_next(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

int channel_init(struct channel *channel, bool is_copying, struct tsk_error *err)
{
    *channel = (struct channel){.values = json_object(), .written = json_object(), .is_copying = is_copying};
    pthread_mutex_init(&channel->mutex, NULL);
    return channel->values && channel->written ? 0 : error_no_memory(err, "keep", "channel");
}

int channel_fork(struct channel *channel, struct channel *parent, struct tsk_error *err)
{
    *channel = (struct channel){.written = json_object(), .is_copying = parent->is_copying};
    pthread_mutex_init(&channel->mutex, NULL);
    pthread_mutex_lock(&parent->mutex);
    channel->version = parent->version;
    channel->base = parent->is_copying ? json_deep_copy(parent->values) : json_copy(parent->values);
    pthread_mutex_unlock(&parent->mutex);
    channel->values = json_copy(channel->base);
    return channel->values && channel->base && channel->written ? 0 : error_no_memory(err, "keep", "channel");
}

void channel_clear(struct channel *channel)
{
    json_decref(channel->values);
    json_decref(channel->base);
    json_decref(channel->written);
    channel->values = channel->base = channel->written = NULL;
    pthread_mutex_destroy(&channel->mutex);
}

bool channel_key_is_valid(const char *key)
{
    size_t len = strlen(key);
    return len > 0 && len <= CHANNEL_KEY_MAX && utf8_is_valid(key, len) && !strchr(key, '=') && !strchr(key, '\n');
}

/* ---- writes --------------------------------------------------------------------------------------------- */

int effects_add_take(struct effects *effects, enum effect_kind kind, const char *key, json_t *value,
                     struct tsk_error *err)
{
    if (!value || !channel_key_is_valid(key)) {
        json_decref(value);
        return error_set(err, TSK_INVALID_INPUT, value ? "channel_key" : "channel_value", "key", key, NULL);
    }
    if (!effects->list)
        effects->list = json_array();
    json_t *entry = json_pack("[s, s, o]", kind_names[kind], key, value);
    if (!entry || json_array_append_new(effects->list, entry) < 0)
        return error_no_memory(err, "keep", "channel");
    return 0;
}

void effects_clear(struct effects *effects)
{
    json_decref(effects->list);
    effects->list = NULL;
}

/* A number, or a text that is one: 1.10 is kept as it was written, and counts where numbers are asked for. Owned; NULL: neither. */
static json_t *channel_number(const json_t *value)
{
    if (json_is_string(value))
        return json_number_of_text(json_string_value(value));
    return json_is_number(value) ? json_incref((json_t *)value) : NULL;
}

static json_t *plain_sum(const json_t *a, const json_t *b)
{
    json_int_t sum;
    if ((!a || json_is_integer(a)) && json_is_integer(b) &&
        !__builtin_add_overflow(a ? json_integer_value(a) : 0, json_integer_value(b), &sum))
        return json_integer(sum);
    if ((!a || json_is_number(a)) && json_is_number(b))
        return json_real((a ? json_number_value(a) : 0) + json_number_value(b));
    return NULL;
}

/* NULL: one of them is no number. `a` may be NULL. */
static json_t *number_sum(const json_t *a, const json_t *b)
{
    json_t *first CLEANUP_JSON = channel_number(a), *second CLEANUP_JSON = channel_number(b);
    return a && !first ? NULL : plain_sum(first, second);
}

/* A text grows by a text, everything else is a list. */
static json_t *value_append(const json_t *old, json_t *added)
{
    if (json_is_string(old) && json_is_string(added)) {
        size_t a = json_string_length(old), b = json_string_length(added);
        char *text = malloc(a + b + 1);
        if (!text)
            return NULL;
        memcpy(text, json_string_value(old), a);
        memcpy(text + a, json_string_value(added), b);
        json_t *joined = json_stringn(text, a + b);
        free(text);
        return joined;
    }
    json_t *list = json_is_array(old) ? json_copy((json_t *)old) : json_array();
    if (old && !json_is_array(old))
        json_array_append(list, (json_t *)old);
    json_array_append(list, added);
    return list;
}

static json_t *effect_result(const json_t *entry, const json_t *old)
{
    const char *kind = json_string_value(json_array_get(entry, 0));
    json_t *value = json_array_get(entry, 2);
    if (strcmp(kind, kind_names[EFFECT_ADD]) == 0)
        return number_sum(old, value);
    if (strcmp(kind, kind_names[EFFECT_APPEND]) == 0)
        return value_append(old, value);
    return json_incref(value);
}

/* Applies the writes to `values`, a copy; after a refusal it is of no use. */
static int apply_list(json_t *values, const json_t *list, struct tsk_error *err)
{
    json_each (list, i, entry) {
        const char *key = json_string_value(json_array_get(entry, 1));
        json_t *value = effect_result(entry, json_object_get(values, key));
        if (!value)
            return error_set(err, TSK_INVALID_INPUT, "channel_not_a_number", "key", key, NULL);
        json_object_set_new(values, key, value);
    }
    return 0;
}

/* What the written keys are after the writes, owned; NULL: refused. */
static json_t *values_written(const json_t *values, const json_t *list, struct tsk_error *err)
{
    json_t *some = json_object();
    json_each (list, i, entry) {
        const char *key = json_string_value(json_array_get(entry, 1));
        json_t *now = json_object_get(values, key);
        if (now)
            json_object_set(some, key, now);
    }
    if (some && apply_list(some, list, err) == 0)
        return some;
    json_decref(some);
    return NULL;
}

/* With the lock. The values are changed where they are, so that a write costs what it writes, however many values there are; but not
 * those that a reader still has. */
static int values_change(struct channel *channel, const json_t *some, struct tsk_error *err)
{
    if (channel->values->refcount > 1) {
        json_t *copy = json_copy(channel->values);
        if (!copy)
            return error_no_memory(err, "keep", "channel");
        json_decref(channel->values);
        channel->values = copy;
    }
    json_each_pair (some, key, value) {
        json_object_set(channel->values, key, value);
        json_object_set_new(channel->written, key, json_true());
    }
    channel->version = version_next();
    return 0;
}

int channel_apply(struct channel *channel, const struct effects *effects, struct tsk_error *err)
{
    if (!json_array_size(effects->list))
        return 0;
    pthread_mutex_lock(&channel->mutex);
    json_t *list = value_out(channel, effects->list);
    json_t *some = list ? values_written(channel->values, list, err) : NULL;
    int result = some ? values_change(channel, some, err) : -1;
    if (!list)
        error_no_memory(err, "keep", "channel");
    json_decref(some); /* still with the lock: nobody else counts */
    json_decref(list);
    pthread_mutex_unlock(&channel->mutex);
    return result;
}

json_t *channel_get(struct channel *channel, const struct effects *effects, const char *key)
{
    pthread_mutex_lock(&channel->mutex);
    json_t *found = json_object_get(channel->values, key), *value = found ? value_out(channel, found) : NULL;
    pthread_mutex_unlock(&channel->mutex);
    json_each (effects ? effects->list : NULL, i, entry) {
        if (strcmp(json_string_value(json_array_get(entry, 1)), key) != 0)
            continue;
        json_t *after = effect_result(entry, value);
        json_decref(value);
        value = after;
    }
    return value;
}

json_t *channel_values(struct channel *channel)
{
    pthread_mutex_lock(&channel->mutex);
    json_t *values = value_out(channel, channel->values);
    pthread_mutex_unlock(&channel->mutex);
    return values;
}

/* ---- merging -------------------------------------------------------------------------------------------- */

/* What `now` has more than `base`; both are numbers, `base` may be NULL. */
static json_t *number_difference(json_t *now, const json_t *base)
{
    json_int_t more;
    if (!base)
        return json_incref(now);
    if (json_is_integer(now) && json_is_integer(base) &&
        !__builtin_sub_overflow(json_integer_value(now), json_integer_value(base), &more))
        return json_integer(more);
    return json_real(json_number_value(now) - json_number_value(base));
}

static json_t *value_sum(const json_t *into, const json_t *value, const json_t *base)
{
    json_t *now CLEANUP_JSON = channel_number(value), *before CLEANUP_JSON = channel_number(base);
    json_t *so_far CLEANUP_JSON = channel_number(into);
    if (!now)
        return json_incref((json_t *)value);
    json_t *added CLEANUP_JSON = number_difference(now, before);
    return plain_sum(so_far, added);
}

/* The elements behind those of the base; all of them when the branch has begun again. */
static json_t *appended_value(const json_t *value, const json_t *base)
{
    if (json_is_string(value)) {
        size_t len = json_is_string(base) ? json_string_length(base) : 0;
        bool goes_on = len <= json_string_length(value) &&
                       (len == 0 || memcmp(json_string_value(value), json_string_value(base), len) == 0);
        return json_string(json_string_value(value) + (goes_on ? len : 0));
    }
    if (!json_is_array(value))
        return json_pack("[O]", value);
    size_t count = json_is_array(base) ? json_array_size(base) : base ? 1 : 0;
    bool goes_on = count <= json_array_size(value);
    for (size_t i = 0; goes_on && i < count; i++)
        goes_on = json_equal(json_array_get(value, i), json_is_array(base) ? json_array_get(base, i) : base);
    json_t *list = json_array();
    for (size_t i = goes_on ? count : 0; i < json_array_size(value); i++)
        json_array_append(list, json_array_get(value, i));
    return list;
}

static json_t *values_join(const json_t *into, const json_t *value, const json_t *base)
{
    json_t *added CLEANUP_JSON = appended_value(value, base);
    if (json_is_string(added))
        return into ? value_append(into, added) : json_incref(added);
    json_t *list = json_is_array(into) ? json_copy((json_t *)into) : json_array();
    if (into && !json_is_array(into))
        json_array_append(list, (json_t *)into);
    json_each (added, i, element)
        json_array_append(list, element);
    return list;
}

/* Of two numbers or two texts. */
static bool is_greater(const json_t *a, const json_t *b)
{
    json_t *first CLEANUP_JSON = channel_number(a), *second CLEANUP_JSON = channel_number(b);
    if (!first || !second)
        return strcmp(json_string_value(a), json_string_value(b)) > 0;
    if (json_is_integer(first) && json_is_integer(second)) /* above 2^53 two of them are the same double */
        return json_integer_value(first) > json_integer_value(second);
    return json_number_value(first) > json_number_value(second);
}

/* Two values of a key. A rule returns the merged value (owned), or NULL: *ret_why_not is the key of the text that says why, or
 * there is no memory. */
struct two {
    const json_t *into; /* so far: of the parent, or of the branches before */
    json_t *value;      /* of this branch */
    const json_t *base; /* what this branch began with */
    bool is_later;      /* a branch before has written the key, too */
};

static json_t *merge_last(const struct two *two, const char **ret_why_not)
{
    (void)ret_why_not;
    return json_incref(two->value);
}

static json_t *merge_first(const struct two *two, const char **ret_why_not)
{
    (void)ret_why_not;
    return json_incref(two->is_later ? (json_t *)two->into : two->value);
}

/* Texts that are numbers count as such. */
static bool are_numbers(const struct two *two)
{
    json_t *first CLEANUP_JSON = channel_number(two->into), *second CLEANUP_JSON = channel_number(two->value);
    return first && second;
}

static json_t *merge_sum(const struct two *two, const char **ret_why_not)
{
    if (two->is_later && !are_numbers(two))
        *ret_why_not = "channel_no_sum";
    return *ret_why_not ? NULL : value_sum(two->into, two->value, two->base);
}

static json_t *merge_append(const struct two *two, const char **ret_why_not)
{
    (void)ret_why_not;
    return values_join(two->into, two->value, two->base);
}

static bool are_ordered(const struct two *two)
{
    return are_numbers(two) || (json_is_string(two->into) && json_is_string(two->value));
}

static json_t *merge_max(const struct two *two, const char **ret_why_not)
{
    if (two->is_later && !are_ordered(two)) {
        *ret_why_not = "channel_no_order";
        return NULL;
    }
    bool keeps = two->is_later && !is_greater(two->value, two->into);
    return json_incref(keeps ? (json_t *)two->into : two->value);
}

static json_t *merge_min(const struct two *two, const char **ret_why_not)
{
    if (two->is_later && !are_ordered(two)) {
        *ret_why_not = "channel_no_order";
        return NULL;
    }
    bool keeps = two->is_later && !is_greater(two->into, two->value);
    return json_incref(keeps ? (json_t *)two->into : two->value);
}

static json_t *merge_error(const struct two *two, const char **ret_why_not)
{
    if (two->is_later)
        *ret_why_not = "channel_conflict";
    return *ret_why_not ? NULL : json_incref(two->value);
}

static json_t *(*const merge_rules[])(const struct two *two, const char **ret_why_not) = {
#define X(symbol, name, function) [TSK_MERGE_##symbol] = function,
#include "graph/merge.def"
#undef X
};

struct merging {
    const struct graph *rules;
    conflict_report *report;
    void *data;
    json_t *values, *written;
    json_t *writers; /* key -> number of the branch that wrote it last, + 1 */
};

/* Branches are numbered from 1, in the order of the file. */
static int channel_clash(struct tsk_error *err, const char *text, const char *key, json_int_t first, uint32_t second)
{
    error_set(err, TSK_GROUP_FAILED, text, "key", key, NULL);
    error_add_int(err, "first", first);
    return error_add_int(err, "second", second + 1);
}

static int merge_key(struct merging *m, const struct channel *branch, uint32_t number, const char *key,
                     struct tsk_error *err)
{
    bool is_explicit;
    enum tsk_merge rule = graph_rule(m->rules, key, &is_explicit);
    json_int_t before = json_integer_value(json_object_get(m->writers, key));
    const char *why_not = NULL;
    struct two two = {.into = json_object_get(m->values, key),
                      .value = json_object_get(branch->values, key),
                      .base = json_object_get(branch->base, key),
                      .is_later = before != 0};
    json_t *merged CLEANUP_JSON = merge_rules[rule](&two, &why_not);
    if (why_not)
        return channel_clash(err, why_not, key, before, number);
    if (before && !is_explicit && m->report)
        m->report(m->data, key, rule, (uint32_t)before - 1, number);
    json_t *value = merged ? value_out(branch, merged) : NULL;
    if (!value || json_object_set_new(m->values, key, value) < 0)
        return error_no_memory(err, "keep", "channel");
    json_object_set_new(m->writers, key, json_integer(number + 1));
    json_object_set_new(m->written, key, json_true());
    return 0;
}

int channel_merge(struct channel *into, struct channel *const *branches, uint32_t count, const struct graph *rules,
                  conflict_report *report, void *data, struct tsk_error *err)
{
    int result = 0;
    bool has_writes = false;
    for (uint32_t i = 0; i < count; i++)
        has_writes = has_writes || (branches[i] && json_object_size(branches[i]->written));
    if (!has_writes)
        return 0;
    pthread_mutex_lock(&into->mutex);
    json_t *values = json_copy(into->values), *written = json_copy(into->written), *writers = json_object();
    struct merging m = {rules, report, data, values, written, writers};
    for (uint32_t i = 0; i < count && result == 0; i++) {
        if (!branches[i])
            continue;
        json_each_key (branches[i]->written, key)
            if ((result = merge_key(&m, branches[i], i, key, err)) < 0)
                break;
    }
    if (result == 0) {
        json_decref(into->values);
        json_decref(into->written);
        into->values = json_incref(values);
        into->written = json_incref(written);
        into->version = version_next();
    }
    json_decref(values); /* still with the lock, see channel_apply */
    json_decref(written);
    json_decref(writers);
    pthread_mutex_unlock(&into->mutex);
    return result;
}
