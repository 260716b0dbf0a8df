#include "ops/event_filter.h"
#include "base/clock.h"
#include "ops/proc_args.h"

#include <string.h>

/* What a thing is called in the events about it: the key of `data`, or of the event itself. */
static const struct thing_kind {
    const char *name, *key;
    bool is_beside; /* the key is beside `data` */
} thing_kinds[] = {
    {"process", "process_id", false}, {"run", "run_id", true},         {"request", "request_id", false},
    {"workflow", "workflow", false},  {"template", "template", false}, {"agent", "instance", false},
    {"session", "session_id", true},  {"task", "task_id", true},
};

static bool is_kind(const char *thing, const char *kind)
{
    size_t len = strlen(kind);
    return strncmp(thing, kind, len) == 0 && thing[len] == ':';
}

static bool has_kind(const char *thing)
{
    for (size_t i = 0; i < sizeof thing_kinds / sizeof thing_kinds[0]; i++)
        if (is_kind(thing, thing_kinds[i].name))
            return true;
    return is_kind(thing, "lock");
}

int event_filter_take(const json_t *args, struct event_filter *ret, struct tsk_error *err)
{
    *ret = (struct event_filter){.type = json_get_string(args, "type", NULL),
                                 .thing = json_get_string(args, "thing", NULL),
                                 .actor = json_get_string(args, "actor", NULL)};
    if (ret->thing && !has_kind(ret->thing))
        return error_set(err, TSK_INVALID_INPUT, "event_thing", "value", ret->thing, NULL);
    int64_t now_ms = clock_now().wall_ms;
    ret->since_ms = ret->until_ms = -1;
    return log_args_time(args, "since", now_ms, &ret->since_ms, err) < 0
               ? -1
               : log_args_time(args, "until", now_ms, &ret->until_ms, err);
}

static bool fits_type(const char *type, const char *wanted)
{
    size_t len = strlen(wanted);
    return len && wanted[len - 1] == '*' ? strncmp(type, wanted, len - 1) == 0 : strcmp(type, wanted) == 0;
}

/* lock:KIND:ID, lock:KIND (queue, sprint), or lock:NAME. */
static bool event_is_of_lock(const char *lock, const json_t *data)
{
    const char *kind = json_get_string(data, "kind", NULL), *id = json_get_string(data, "id", "");
    if (!kind || !json_object_get(data, "fence"))
        return false;
    if (is_kind(lock, kind))
        return strcmp(lock + strlen(kind) + 1, id) == 0;
    bool is_only_one = !*id || strcmp(kind, "sprint") == 0;
    return strcmp(lock, id) == 0 || (is_only_one && strcmp(lock, kind) == 0);
}

/* Its lock, and the run that waits for it, name a request like any other lock. */
static bool is_lock_of_request(const char *id, const json_t *data)
{
    return json_text_is(data, "kind", "request") && (json_text_is(data, "id", id) || json_text_is(data, "lock", id));
}

static bool is_of_thing(const char *thing, const json_t *event)
{
    const json_t *data = json_object_get(event, "data");
    if (is_kind(thing, "lock"))
        return event_is_of_lock(thing + 5, data);
    if (is_kind(thing, "request") && is_lock_of_request(strchr(thing, ':') + 1, data))
        return true;
    for (size_t i = 0; i < sizeof thing_kinds / sizeof thing_kinds[0]; i++) {
        const struct thing_kind *kind = &thing_kinds[i];
        if (is_kind(thing, kind->name))
            return json_text_is(kind->is_beside ? event : data, kind->key, strchr(thing, ':') + 1);
    }
    return false;
}

static bool is_in_time(const struct event_filter *filter, const json_t *event)
{
    int64_t time_ms;
    if (filter->since_ms < 0 && filter->until_ms < 0)
        return true;
    return time_parse(json_get_string(event, "time", ""), &time_ms) == 0 && time_ms >= filter->since_ms &&
           (filter->until_ms < 0 || time_ms <= filter->until_ms);
}

bool event_filter_wants(const struct event_filter *filter, const json_t *event)
{
    const char *label = json_get_string(json_object_get(event, "actor"), "label", "");
    return (!filter->type || fits_type(json_get_string(event, "type", ""), filter->type)) &&
           (!filter->thing || is_of_thing(filter->thing, event)) &&
           (!filter->actor || strcmp(label, filter->actor) == 0) && is_in_time(filter, event);
}

bool event_is_bad(const json_t *event)
{
    static const char *const bad[] = {
        "lock.holder_died",  "lock.lost",    "run.interrupted", "queue.interrupted", "workflow.owner_died",
        "process.unhealthy", "process.lost", "process.gave_up", "process.not_ready", "process.start_failed",
        "task.failed",       "LOG_GAP",      "LOG_DISK_FULL",
    };
    const json_t *data = json_object_get(event, "data");
    const char *type = json_get_string(event, "type", "");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (strcmp(type, bad[i]) == 0)
            return true;
    if (strcmp(type, "process.exited") == 0)
        return json_get_int(data, "status", 0) != 0 && json_text_is(data, "by", "itself");
    return strcmp(type, "run.ended") == 0 && json_text_is(data, "status", "FAILED");
}
