#include "lock/record.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/word.h"
#include "base/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const hold_names[] = {
    [HOLD_FOREIGN] = "foreign", [HOLD_LIFE] = "life",   [HOLD_PROCESS] = "process",
    [HOLD_GUESS] = "guess",     [HOLD_LEASE] = "lease",
};

const char *hold_name(enum hold hold)
{
    return hold_names[hold];
}

/* Both formats come down to (key, text) pairs. Numbers arrive as their digits. */
struct field {
    const char *key;
    enum { TEXT, INTEGER, TIME } type;
    size_t offset, size;
};

#define TEXT_FIELD(name, member)                                                                                       \
    {                                                                                                                  \
        name, TEXT, offsetof(struct lock_record, member), sizeof(((struct lock_record *)0)->member)                    \
    }
#define OTHER_FIELD(name, type, member)                                                                                \
    {                                                                                                                  \
        name, type, offsetof(struct lock_record, member), sizeof(((struct lock_record *)0)->member)                    \
    }

static const struct field fields[] = {
    OTHER_FIELD("pid", INTEGER, pid),
    OTHER_FIELD("fence", INTEGER, fence),
    OTHER_FIELD("pid_ns", INTEGER, holder.pid_ns),
    OTHER_FIELD("pid_start", INTEGER, holder.start_ticks),
    OTHER_FIELD("expires_boot_ms", INTEGER, expires_boot_ms),
    OTHER_FIELD("ttl_ms", INTEGER, ttl_ms),
    OTHER_FIELD("created_at", TIME, created_ms),
    OTHER_FIELD("started_at", TIME, created_ms),
    OTHER_FIELD("expires_at", TIME, expires_ms),
    TEXT_FIELD("token", token),
    TEXT_FIELD("name", name),
    TEXT_FIELD("request_id", request_id),
    TEXT_FIELD("run_id", run_id),
    TEXT_FIELD("session_id", session_id),
    TEXT_FIELD("epic_spec", epic_spec),
    TEXT_FIELD("instance", instance),
    TEXT_FIELD("registry", registry),
    TEXT_FIELD("host", host),
    TEXT_FIELD("hostname", hostname),
    TEXT_FIELD("boot_id", holder.boot_id),
    TEXT_FIELD("label", who.label),
    TEXT_FIELD("user", who.user),
    TEXT_FIELD("program", who.program),
    TEXT_FIELD("agent_session", who.session),
    TEXT_FIELD("subagent", who.subagent),
    TEXT_FIELD("note", who.note),
    TEXT_FIELD("agent_instance", who.instance),
};

static void store_integer(void *at, size_t size, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0)
        return;
    if (size == sizeof(int64_t))
        *(int64_t *)at = value;
    else if (value <= INT32_MAX)
        *(int32_t *)at = (int32_t)value;
}

static void record_store(struct lock_record *record, const char *key, const char *text)
{
    if (strcmp(key, "hold") == 0) {
        for (size_t i = HOLD_LIFE; i <= HOLD_LAST; i++)
            if (strcmp(text, hold_names[i]) == 0)
                record->hold = (enum hold)i;
        return;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const struct field *field = &fields[i];
        char *at = (char *)record + field->offset;
        if (key[0] != field->key[0] || strcmp(key, field->key) != 0)
            continue;
        if (field->type == TEXT)
            utf8_copy(at, field->size, text);
        else if (field->type == INTEGER)
            store_integer(at, field->size, text);
        else if (time_parse(text, (int64_t *)at) < 0)
            *(int64_t *)at = -1;
        return;
    }
}

static void record_init(struct lock_record *record)
{
    memset(record, 0, sizeof *record);
    record->created_ms = record->expires_ms = -1;
}

/* A file is ours only with everything that judging it needs; a half copy by another tool is foreign. */
static void record_finish(struct lock_record *record)
{
    record->holder.pid = record->pid;
    bool complete =
        record->fence && record->fence < LOCK_FENCE_MAX / 2 && record->token[0] && record->holder.boot_id[0];
    if (record->hold == HOLD_PROCESS || record->hold == HOLD_GUESS)
        complete = complete && record->pid && record->holder.pid_ns;
    if (record->hold == HOLD_LEASE)
        complete = complete && record->instance[0];
    if (!complete) {
        record->hold = HOLD_FOREIGN;
        record->fence = 0; /* only a guard of ours gives one */
    }
    if (record->ttl_ms > LOCK_TTL_MAX_MS)
        record->ttl_ms = LOCK_TTL_MAX_MS;
}

static void record_take(void *data, const char *key, const char *value)
{
    record_store(data, key, value);
}

/* What tasuki writes is read without a tree; another tool may write anything. */
static int record_parse_any(const char *text, size_t len, struct lock_record *record)
{
    struct tsk_error ignored; /* that it cannot be parsed is all that counts: judge.c decides by the age of the file */
    json_t *root CLEANUP_JSON = NULL;
    if (json_parse(text, len, "lock", &root, &ignored) < 0 || !json_is_object(root))
        return -1;
    record_init(record);
    json_each_pair (root, key, value) {
        if (json_is_integer(value))
            record_store(record, key, DIGITS(json_integer_value(value)));
        else if (json_is_string(value))
            record_store(record, key, json_string_value(value));
    }
    return 0;
}

int record_parse_json(const char *text, size_t len, struct lock_record *ret)
{
    struct lock_record record;
    record_init(&record);
    if (!json_take_plain(text, len, record_take, &record) && record_parse_any(text, len, &record) < 0)
        return -1;
    record_finish(&record);
    *ret = record;
    return 0;
}

int record_parse_yaml(const char *text, size_t len, struct lock_record *ret)
{
    struct tsk_error ignored; /* as above; a sprint that cannot be parsed is a zombie */
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    if (yaml_parse(text, len, "lock", &doc, &ignored) < 0 || yaml_root(doc)->type != YAML_MAP || !yaml_root(doc)->first)
        return -1;
    struct lock_record record;
    record_init(&record);
    for (const struct yaml_node *node = yaml_root(doc)->first; node; node = node->next)
        if (yaml_text(node))
            record_store(&record, node->key, yaml_text(node));
    record_finish(&record);
    *ret = record;
    return 0;
}

static void put_added_keys(const struct lock_record *record, struct buf *b)
{
    buf_json_pair(b, "hold", hold_name(record->hold));
    buf_json_pair_int(b, "fence", (int64_t)record->fence);
    buf_json_pair(b, "token", record->token);
    buf_json_pair(b, "hostname", record->hostname);
    buf_json_pair(b, "boot_id", record->holder.boot_id);
    buf_json_pair_int(b, "pid_ns", (int64_t)record->holder.pid_ns);
    buf_json_pair_int(b, "pid_start", (int64_t)record->holder.start_ticks);
    buf_json_pair_int(b, "expires_boot_ms", record->expires_boot_ms);
}

typedef void put_text(struct buf *b, const char *key, const char *value);

/* The keys of the who that no other key has. */
static void put_who(const struct who *who, put_text *put, struct buf *b)
{
    const char *const pairs[][2] = {{"label", who->label},
                                    {"user", who->user},
                                    {"program", who->program},
                                    {"agent_session", who->session},
                                    {"subagent", who->subagent},
                                    {"note", who->note},
                                    {"agent_instance", who->instance}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i][1][0])
            put(b, pairs[i][0], pairs[i][1]);
}

void record_write_json(const struct lock_record *record, const char *lock_type, struct buf *b)
{
    buf_puts(b, "{");
    buf_json_pair(b, "version", "1.0");
    buf_json_pair(b, "lock_type", lock_type);
    buf_json_pair(b, "request_id", text_or_null(record->request_id));
    buf_json_pair(b, "run_id", text_or_null(record->run_id));
    if (record->hold == HOLD_LEASE)
        buf_json_pair(b, "pid", NULL);
    else
        buf_json_pair_int(b, "pid", record->pid);
    buf_json_pair(b, "host", record->host);
    buf_json_pair(b, "created_at", TIME_LOCAL(record->created_ms));
    buf_json_pair(b, "expires_at", TIME_LOCAL(record->expires_ms));
    if (record->name[0])
        buf_json_pair(b, "name", record->name);
    put_added_keys(record, b);
    buf_json_pair_int(b, "ttl_ms", record->ttl_ms);
    if (record->session_id[0])
        buf_json_pair(b, "session_id", record->session_id);
    if (record->instance[0])
        buf_json_pair(b, "instance", record->instance);
    put_who(&record->who, buf_json_pair, b);
    buf_puts(b, "}\n");
}

/* JSON strings and numbers are valid YAML scalars, so one escaping serves both formats. */
static void yaml_pair(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, "%s: ", key);
    buf_json_string(b, value);
    buf_puts(b, "\n");
}

void record_write_yaml(const struct lock_record *record, struct buf *b)
{
    const char *started = TIME_IN_UTC(record->created_ms);
    buf_printf(b, "pid: %d\n", (int)record->pid);
    yaml_pair(b, "session_id", record->session_id);
    yaml_pair(b, "started_at", started);
    yaml_pair(b, "epic_spec", record->epic_spec);
    buf_puts(b, "lock_version: 1\n");
    buf_printf(b, "hold: %s\nfence: %llu\n", hold_name(record->hold), (unsigned long long)record->fence);
    yaml_pair(b, "token", record->token);
    yaml_pair(b, "hostname", record->hostname);
    yaml_pair(b, "boot_id", record->holder.boot_id);
    buf_printf(b, "pid_ns: %llu\npid_start: %llu\nexpires_boot_ms: %lld\n", (unsigned long long)record->holder.pid_ns,
               (unsigned long long)record->holder.start_ticks, (long long)record->expires_boot_ms);
    if (record->run_id[0])
        yaml_pair(b, "run_id", record->run_id);
    if (record->instance[0])
        yaml_pair(b, "instance", record->instance);
    if (record->registry[0])
        yaml_pair(b, "registry", record->registry);
    put_who(&record->who, yaml_pair, b);
}
