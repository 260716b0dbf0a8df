/* exchange.c - reading a file of processes: which format it is, and what is wrong with it. */
#include "proc/exchange.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "base/word.h"
#include "proc/exchange_reader.h"
#include "proc/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PROBLEMS_TEXT_MAX 4000 /* what an error can carry */
#define REASON_MAX        1024
#define PROBLEMS_MAX      1000 /* nobody reads more */

const char *const exchange_format_names[] = {
    [EXCHANGE_AUTO] = "auto",
    [EXCHANGE_YAML] = "yaml",
    [EXCHANGE_JSON] = "json",
    [EXCHANGE_PROCFILE] = "procfile",
    [EXCHANGE_COMPOSE] = "compose",
    [EXCHANGE_VANTAGE] = "vantage",
    NULL,
};

void exchange_clear(struct exchange *ex)
{
    json_free(&ex->processes);
    json_free(&ex->templates);
    json_free(&ex->ignored);
    json_free(&ex->warnings);
    json_free(&ex->problems);
    json_free(&ex->masked);
    json_free(&ex->env_files);
}

static void exchange_init(struct exchange *ex)
{
    *ex = (struct exchange){.processes = json_object(),
                            .templates = json_object(),
                            .ignored = json_array(),
                            .warnings = json_array(),
                            .env_files = json_object(),
                            .problems = json_array(),
                            .masked = json_array()};
}

/* ---- what is found ------------------------------------------------------------------------------------ */

struct exchange_place exchange_place_of(const struct yaml_node *node)
{
    return node ? (struct exchange_place){node->line, node->column} : (struct exchange_place){0, 0};
}

struct exchange_place exchange_place_of_key(const struct yaml_node *node)
{
    return node && node->key ? (struct exchange_place){node->key_line, node->key_column} : exchange_place_of(node);
}

/* A string of at most REASON_MAX bytes. It may have been cut inside a character, and jansson refuses what is not UTF-8; but nothing that is said here may get lost. */
static json_t *string_of(const char *text)
{
    char whole[REASON_MAX];
    utf8_copy(whole, sizeof whole, text);
    for (size_t at = 0, len = strlen(whole), n; at < len; at += n ? n : 1) {
        n = utf8_sequence(whole + at, len - at);
        if (!n)
            whole[at] = '?';
    }
    return json_string(whole);
}

static json_t *problem_new(struct exchange_place where, const char *owner, const char *sentence)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&reason, "%.128s%s%s", owner ? owner : "", owner ? ": " : "", sentence);
    return json_pack("{s:i, s:i, s:o}", "line", (int)where.line, "column", (int)where.column, "reason",
                     string_of(buf_str(&reason)));
}

/* Kept in the order of the file: spec.c finds them in the order of its table. */
void exchange_problem(struct exchange_reader *r, struct exchange_place where, const char *owner,
                      const struct tsk_error *problem)
{
    struct buf sentence CLEANUP(buf_clear) = BUF_INIT;
    size_t at = json_array_size(r->to->problems);
    if (at >= PROBLEMS_MAX)
        return;
    text_put_error(&sentence, r->from->lang, problem);
    for (; at > 0; at--) {
        const json_t *before = json_array_get(r->to->problems, at - 1);
        int64_t line = json_get_int(before, "line", 0);
        if (line < where.line || (line == where.line && json_get_int(before, "column", 0) <= where.column))
            break;
    }
    json_array_insert_new(r->to->problems, at, problem_new(where, owner, buf_str(&sentence)));
}

void exchange_ignore(struct exchange_reader *r, const char *owner, const char *format, ...)
{
    char path[512], whole[REASON_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%.128s%s%s", owner ? owner : "", owner ? "." : "", path);
    json_array_append_new(r->to->ignored, string_of(whole));
}

void exchange_warn(struct exchange_reader *r, const char *text, const char *param)
{
    struct buf sentence CLEANUP(buf_clear) = BUF_INIT;
    text_put(&sentence, r->from->lang, text, "param", param, NULL);
    json_array_append_new(r->to->warnings, string_of(buf_str(&sentence)));
}

struct taking {
    struct exchange_reader *reader;
    const struct exchange_entry *entry;
};

static struct exchange_place place_in(const struct exchange_entry *entry, const char *path, bool is_key)
{
    return entry->place ? entry->place(entry, path, is_key) : entry->where;
}

/* Whether it is the key at the path that is wrong, and not its value. */
static bool is_about_key(const struct tsk_error *problem)
{
    static const char *const texts[] = {"spec_key_unknown", "spec_key_unknown_near", "spec_key_called", "spec_env_name",
                                        "id_pattern"};
    for (size_t i = 0; problem->text && i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(problem->text, texts[i]) == 0)
            return true;
    return false;
}

static void take_problem(void *data, const struct tsk_error *problem)
{
    const struct taking *taking = data;
    const char *path = tsk_error_context(problem, "param");
    struct exchange_place where = place_in(taking->entry, path ? path : "", is_about_key(problem));
    exchange_problem(taking->reader, where, taking->entry->name, problem);
}

static void find_masked(struct exchange_reader *r, const struct exchange_entry *entry, const json_t *spec)
{
    if (r->has_secrets)
        return;
    json_each_pair (json_object_get(spec, "env"), name, value) {
        if (strcmp(json_string_value(value), EXCHANGE_MASK) != 0)
            continue;
        char path[512];
        snprintf(path, sizeof path, "env.%s", name);
        struct exchange_place where = place_in(entry, path, false);
        json_array_append_new(r->to->masked, json_pack("{s:s, s:s, s:b, s:i, s:i}", "name", entry->name, "variable",
                                                       name, "is_template", entry->is_template, "line", (int)where.line,
                                                       "column", (int)where.column));
    }
}

void exchange_take(struct exchange_reader *r, const struct exchange_entry *entry, const json_t *input)
{
    json_t *list = entry->is_template ? r->to->templates : r->to->processes, *spec = NULL;
    struct taking taking = {.reader = r, .entry = entry};
    if (!id_is_valid(entry->name))
        EXCHANGE_PROBLEM(r, entry->where, NULL, "id_pattern", "param", "id", "value", entry->name);
    else if (json_object_get(list, entry->name))
        EXCHANGE_PROBLEM(r, entry->where, NULL, "param_twice", "param", entry->name);
    int made = entry->is_template ? template_spec_make_all(input, NULL, r->from->cwd_base, &spec, take_problem, &taking)
                                  : proc_spec_make_all(input, NULL, r->from->cwd_base, &spec, take_problem, &taking);
    if (made < 0)
        return;
    find_masked(r, entry, spec);
    json_object_set_new(list, entry->name, spec);
}

/* ---- which format ------------------------------------------------------------------------------------- */

static bool name_ends(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcasecmp(name + len - end_len, end) == 0;
}

/* Vantage's older files: `process "web" { … }`. */
static bool is_kdl(const char *name, const char *text)
{
    static const char mark[] = "process \"";
    if (name_ends(name, ".kdl"))
        return true;
    if (name_ends(name, ".yaml") || name_ends(name, ".yml") || name_ends(name, ".json"))
        return false;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *word = line + strspn(line, " \t");
        if (strncmp(word, mark, strlen(mark)) == 0 && strchr(word, '{'))
            return true;
    }
    return false;
}

static enum exchange_format guess_text(const char *name, const char *text)
{
    const char *base = path_name(name), *first = text + strspn(text, " \t\r\n");
    if (name_ends(name, ".surql") || exchange_is_surql(text))
        return EXCHANGE_VANTAGE;
    if (strncasecmp(base, "Procfile", 8) == 0 || name_ends(name, ".procfile"))
        return EXCHANGE_PROCFILE;
    if (name_ends(name, ".json"))
        return EXCHANGE_JSON;
    if (name_ends(name, ".yaml") || name_ends(name, ".yml"))
        return EXCHANGE_YAML;
    if (*first == '{' || *first == '[')
        return EXCHANGE_JSON;
    return exchange_is_procfile(text) ? EXCHANGE_PROCFILE : EXCHANGE_YAML;
}

static bool has_any_key(const json_t *map, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(map, *keys))
            return true;
    return false;
}

static bool any_entry_has(const json_t *entries, const char *const *keys)
{
    json_each_pair (entries, name, entry)
        if (has_any_key(entry, keys))
            return true;
    return false;
}

static bool is_own_version(const json_t *version)
{
    const char *text = json_string_value(version);
    return json_is_integer(version) || (text && strcmp(text, "1") == 0);
}

static bool is_compose(const char *name, const json_t *root)
{
    static const char *const keys[] = {"working_dir",    "environment",    "availability", "readiness_probe",
                                       "liveness_probe", "ready_log_line", "shutdown",     "namespace",
                                       "is_daemon",      "log_location",   "entrypoint",   NULL};
    const json_t *version = json_object_get(root, "version"), *processes = json_object_get(root, "processes");
    if (!json_is_object(processes) || is_own_version(version))
        return false;
    return version || strcasestr(path_name(name), "process-compose") || any_entry_has(processes, keys);
}

static bool is_vantage(const json_t *root)
{
    static const char *const keys[] = {"process_id", "auto_start_on_restore", "status", NULL};
    const json_t *version = json_object_get(root, "version");
    if (json_is_array(root) || json_is_array(json_object_get(root, "processes")))
        return !is_own_version(version);
    return !version && !json_object_get(root, "processes") && any_entry_has(root, keys);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* The places of a JSON text's values. The YAML parser can read all of JSON but surrogate pairs, so a copy without them is
 * read; only where things stand is of interest. NULL if it cannot be read. */
static struct yaml *places_of_json(const char *text, size_t len, const char *source)
{
    struct buf copy CLEANUP(buf_clear) = BUF_INIT;
    struct yaml *doc = NULL;
    struct tsk_error ignored; /* messages then name no line */
    buf_put(&copy, text, len);
    for (char *at = copy.data; !copy.failed && (at = strchr(at, '\\')); at += at[1] ? 2 : 1)
        if (at[1] == 'u' && (at[2] == 'd' || at[2] == 'D') && strnlen(at, 6) == 6)
            memset(at, '-', 6);
    if (copy.failed || yaml_parse(copy.data, copy.len, source, &doc, &ignored) < 0)
        return NULL;
    return doc;
}

/* A document, read as asked. */
static int read_document(struct exchange_reader *r, const char *text, size_t len, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    json_t *root CLEANUP_JSON = NULL;
    if (r->to->format == EXCHANGE_JSON) {
        if (json_parse(text, len, r->from->name, &root, err) < 0)
            return -1;
        doc = places_of_json(text, len, r->from->name);
    } else {
        if (yaml_parse(text, len, r->from->name, &doc, err) < 0)
            return -1;
        root = exchange_json_of(yaml_root(doc));
    }
    const struct yaml_node *node = doc ? yaml_root(doc) : NULL;
    if (json_object_get(root, "services"))
        return error_set(err, TSK_INVALID_INPUT, "import_docker", "source", r->from->name, NULL);
    bool wants_compose = r->from->format == EXCHANGE_COMPOSE;
    if (node && (wants_compose || (r->from->format == EXCHANGE_AUTO && is_compose(r->from->name, root)))) {
        r->to->format = EXCHANGE_COMPOSE;
        exchange_read_compose(r, node);
    } else if (is_vantage(root)) {
        r->to->format = EXCHANGE_VANTAGE;
        exchange_read_vantage(r, root, node);
    } else {
        exchange_read_own(r, root, node);
    }
    return 0;
}

static int exchange_read_text(struct exchange_reader *r, const char *text, size_t len, struct tsk_error *err)
{
    if (is_kdl(r->from->name, text))
        return error_set(err, TSK_INVALID_INPUT, "import_kdl", "source", r->from->name, NULL);
    enum exchange_format asked = r->from->format, guess = guess_text(r->from->name, text);
    r->to->format = asked == EXCHANGE_AUTO ? guess : asked == EXCHANGE_COMPOSE ? EXCHANGE_YAML : asked;
    if (r->to->format == EXCHANGE_PROCFILE)
        exchange_read_procfile(r, text);
    else if (r->to->format == EXCHANGE_VANTAGE)
        exchange_read_surql(r, text);
    else
        return read_document(r, text, len, err);
    return 0;
}

/* One problem is the error itself; of several, as many as an error can carry, and `count` says how many there are. */
int exchange_fail(const struct exchange_source *from, const json_t *problems, struct tsk_error *err)
{
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    json_t *some CLEANUP_JSON = json_array();
    const json_t *first = json_array_get(problems, 0);
    json_each (problems, i, problem) {
        struct buf more CLEANUP(buf_clear) = BUF_INIT;
        json_array_append(some, problem);
        json_write(&more, some, false);
        if (more.len > PROBLEMS_TEXT_MAX)
            break;
        buf_reset(&shown);
        buf_puts(&shown, buf_str(&more));
    }
    bool is_one = json_array_size(problems) == 1, has_place = json_get_int(first, "line", 0) > 0;
    error_set(err, TSK_INVALID_INPUT,
              !is_one     ? "import_invalid"
              : has_place ? "yaml_invalid"
                          : "import_problem",
              "source", from->name, NULL);
    error_add_int(err, "line", json_get_int(first, "line", 0));
    error_add_int(err, "column", json_get_int(first, "column", 0));
    error_add(err, "reason", json_get_string(first, "reason", ""));
    error_add_int(err, "count", (int64_t)json_array_size(problems));
    return error_add_json(err, "problems", shown.len ? buf_str(&shown) : "[]");
}

int exchange_read(const struct exchange_source *from, const char *text, size_t len, struct exchange *ret,
                  struct tsk_error *err)
{
    struct exchange found CLEANUP(exchange_clear);
    exchange_init(&found);
    struct exchange_reader r = {.from = from, .to = &found};
    if (len > EXCHANGE_SIZE_MAX)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, "import_too_large", "source", from->name, NULL);
    if (strlen(text) != len)
        return error_set(err, TSK_INVALID_INPUT, "import_not_text", "source", from->name, NULL);
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, as some editors write it */
        text += 3;
        len -= 3;
    }
    if (exchange_read_text(&r, text, len, err) < 0)
        return -1;
    if (json_array_size(found.problems))
        return exchange_fail(from, found.problems, err);
    *ret = found;
    found = (struct exchange){0};
    return 0;
}
