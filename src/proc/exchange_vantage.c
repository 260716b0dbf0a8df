/* exchange_vantage.c - what Vantage has written: records with Vantage's names, in one of four wrappings.
 *
 *   - {id: …, command: …}                          YAML, JSON: a list of records
 *   {version: '1.0', processes: [{…}]}             YAML: a snapshot
 *   {"web": {"process_id": "web", …}}              JSON: records by id
 *   CREATE process CONTENT {…};                    SurrealQL: one record per line
 *
 * A record's id is `process_id`, else `id`, which SurrealDB writes as `process:web`. What a process was doing (state, status,
 * times) is not part of what it should be; what tasuki has nothing for (tags, a name of its own) is listed as ignored. */
#include "base/word.h"
#include "proc/exchange_reader.h"

#include <stdio.h>
#include <string.h>

#define SURQL_MARK "CREATE process CONTENT "

static const char *const taken_keys[] = {"command", "args", "env", "cwd", "auto_start_on_restore", NULL};
static const char *const state_keys[] = {"id", "process_id", "state", "status", "created_at", "updated_at", NULL};

/* process:web, process:⟨web-1⟩ and process:`web-1` are web and web-1. */
static void plain_id(const char *id, char *ret, size_t size)
{
    static const char table[] = "process:", open[] = "\xe2\x9f\xa8", close[] = "\xe2\x9f\xa9";
    if (strncmp(id, table, strlen(table)) == 0)
        id += strlen(table);
    size_t len = strlen(id);
    if (strncmp(id, open, 3) == 0 && len >= 6 && strcmp(id + len - 3, close) == 0) {
        id += 3;
        len -= 6;
    } else if (*id == '`' && len >= 2 && id[len - 1] == '`') {
        id += 1;
        len -= 2;
    }
    snprintf(ret, size, "%.*s", (int)len, id);
}

static bool says_nothing(const char *key, const json_t *value, const char *id)
{
    if (json_is_null(value) || json_is_false(value))
        return true;
    if (json_is_array(value) && json_array_size(value) == 0)
        return true;
    return strcmp(key, "name") == 0 && json_is_string(value) && strcmp(json_string_value(value), id) == 0;
}

static struct exchange_place vantage_place(const struct exchange_entry *entry, const char *path, bool is_key)
{
    const struct yaml_node *node = entry->node ? exchange_node_at(entry->node, path) : NULL;
    if (!node)
        return entry->where;
    return is_key ? exchange_place_of_key(node) : exchange_place_of(node);
}

/* `name` is the key that the record had, or NULL. */
static void vantage_read_record(struct exchange_reader *r, const char *name, const json_t *record,
                                const struct yaml_node *node, struct exchange_place where)
{
    char id[512];
    const char *given = json_get_string(record, "process_id", json_get_string(record, "id", name));
    if (!json_is_object(record)) {
        EXCHANGE_PROBLEM(r, where, NULL, "param_type", "param", name ? name : "processes", "want", "object");
        return;
    }
    if (!given) {
        EXCHANGE_PROBLEM(r, where, NULL, "param_missing", "param", "id");
        return;
    }
    plain_id(given, id, sizeof id);
    json_t *input CLEANUP_JSON = json_object();
    json_each_pair (record, key, value) {
        if (word_is_in(key, taken_keys))
            json_object_set(input, key, value);
        else if (!word_is_in(key, state_keys) && !says_nothing(key, value, id))
            exchange_ignore(r, id, "%s", key);
    }
    struct exchange_entry entry = {.name = id, .where = where, .place = vantage_place, .node = node};
    exchange_take(r, &entry, input);
}

static void read_list(struct exchange_reader *r, const json_t *list, const struct yaml_node *node)
{
    const struct yaml_node *at = node ? node->first : NULL;
    json_each (list, i, record) {
        vantage_read_record(r, NULL, record, at, exchange_place_of(at));
        at = at ? at->next : NULL;
    }
}

void exchange_read_vantage(struct exchange_reader *r, const json_t *root, const struct yaml_node *node)
{
    r->has_secrets = true; /* Vantage masks nothing */
    if (json_is_array(root)) {
        read_list(r, root, node);
    } else if (json_object_get(root, "processes")) {
        read_list(r, json_object_get(root, "processes"), yaml_get(node, "processes"));
    } else {
        json_each_pair (root, name, record)
            vantage_read_record(r, name, record, yaml_get(node, name), exchange_place_of_key(yaml_get(node, name)));
    }
}

/* ---- SurrealQL ---------------------------------------------------------------------------------------- */

bool exchange_is_surql(const char *text)
{
    const char *found = strstr(text, SURQL_MARK);
    return found && (found == text || found[-1] == '\n');
}

static void read_statement(struct exchange_reader *r, const char *line, size_t len, unsigned number)
{
    size_t skip = strlen(SURQL_MARK);
    struct exchange_place where = {number, (unsigned)skip + 1};
    json_t *record CLEANUP_JSON = NULL;
    struct tsk_error err;
    while (len > skip && strchr("; \t\r", line[len - 1]))
        len--;
    if (json_parse(line + skip, len - skip, r->from->name, &record, &err) < 0) {
        EXCHANGE_PROBLEM(r, where, NULL, "import_statement", "reason", tsk_error_context(&err, "reason"));
        return;
    }
    vantage_read_record(r, NULL, record, NULL, where);
}

void exchange_read_surql(struct exchange_reader *r, const char *text)
{
    r->has_secrets = true;
    for (unsigned number = 1; *text; number++) {
        size_t len = strcspn(text, "\n");
        if (strncmp(text, SURQL_MARK, strlen(SURQL_MARK)) == 0)
            read_statement(r, text, len, number);
        text += len + (text[len] == '\n');
    }
}
